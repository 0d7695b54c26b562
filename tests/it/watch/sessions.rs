//! Sessions of agents, for tests that write them bit by bit.

use serde_json::{Value, json};

use crate::support::Rng;

/// A file under the watched folder: its name, and its bytes in the end.
pub type Session = (String, Vec<u8>);

/// The ids of the rollouts.
const A: &str = "019b04ae-b1c6-7c72-a134-a4c2de66058c";
const B: &str = "019b04ae-b1c6-7c72-a134-a4c2de66058d";

fn bytes(lines: &[Value]) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect::<String>().into_bytes()
}

/// A session of Claude Code, a sub-agent of it, a fork of it, a rollout of Codex and a fork of it.
pub fn sessions(rng: &mut Rng) -> Vec<Session> {
    let own = claude(rng, "s1", "a");
    let forked_at = rng.below(own.len() + 1);
    let mut fork: Vec<Value> = own[..forked_at].to_vec();
    for line in &mut fork {
        line["forkedFrom"] = json!({"sessionId": "s1", "messageUuid": line["uuid"]});
        line["sessionId"] = json!("s2");
    }
    fork.extend(claude(rng, "s2", "b"));
    let mut agent = claude(rng, "s1", "c");
    for line in &mut agent {
        line["isSidechain"] = json!(true);
        line["agentId"] = json!("x7");
    }
    let items = rollout(rng);
    let copied = rng.below(items.len() + 1);
    let meta = |id: &str, more: Value| {
        let mut payload = json!({"id": id, "model_provider": "azure", "cwd": "/w/p"});
        let more = more.as_object().cloned().unwrap_or_default();
        payload.as_object_mut().unwrap().extend(more);
        at("2025-12-09T19:55:16.336Z", "session_meta", payload)
    };
    let whole = [vec![meta(A, json!({}))], items.clone()].concat();
    let forked = json!({"forked_from_id": A, "timestamp": "2025-12-09T20:00:00.000Z"});
    let mut copies = items[..copied].to_vec();
    let mut later = rollout(rng);
    let times = [
        (&mut copies, "2025-12-09T20:00:00.010Z"),
        (&mut later, "2025-12-09T20:00:30.000Z"),
    ];
    for (lines, time) in times {
        for line in lines {
            line["timestamp"] = json!(time);
        }
    }
    let fork_of_rollout = [vec![meta(B, forked), meta(A, json!({}))], copies, later].concat();
    vec![
        ("p/s1.jsonl".to_owned(), bytes(&own)),
        ("p/s1/agent-x7.jsonl".to_owned(), bytes(&agent)),
        ("p/s2.jsonl".to_owned(), bytes(&fork)),
        ("codex/rollout-a.jsonl".to_owned(), bytes(&whole)),
        ("codex/rollout-b.jsonl".to_owned(), bytes(&fork_of_rollout)),
    ]
}

/// Lines of a session: answers in several lines, calls, results, prompts, titles.
fn claude(rng: &mut Rng, session: &str, prefix: &str) -> Vec<Value> {
    let mut lines = Vec::new();
    let (mut open, mut outputs) = (Vec::new(), [0; 3]);
    for n in 0..=rng.below(9) {
        let id = format!("{prefix}{n}");
        let mut line = match rng.below(5) {
            0 | 1 => {
                let response = rng.below(3);
                outputs[response] += rng.below(20);
                let block = if rng.one_in(2) {
                    open.push(id.clone());
                    json!({"type": "tool_use", "id": id, "name": "Read", "input": {"a": 1}})
                } else {
                    json!({"type": "text", "text": format!("says {id}")})
                };
                let usage = json!({"input_tokens": 100, "output_tokens": outputs[response]});
                let response = format!("{prefix}r{response}");
                let message = json!({"id": response, "model": "m1", "role": "assistant",
                    "content": [block], "usage": usage});
                json!({"type": "assistant", "message": message})
            }
            2 if !open.is_empty() => {
                let block =
                    json!({"type": "tool_result", "tool_use_id": open.pop(), "content": "out"});
                json!({"type": "user", "message": {"role": "user", "content": [block]}})
            }
            3 => json!({"type": "attachment", "message": {"role": "user", "content": "a file"}}),
            _ => {
                json!({"type": "user", "message": {"role": "user", "content": format!("do {id}")}})
            }
        };
        line["uuid"] = json!(id);
        line["parentUuid"] = json!(n.checked_sub(1).map(|n| format!("{prefix}{n}")));
        line["sessionId"] = json!(session);
        line["timestamp"] = json!("2025-12-09T19:47:01.000Z");
        line["cwd"] = json!("/w/p");
        lines.push(line);
    }
    lines
}

fn at(time: &str, kind: &str, payload: Value) -> Value {
    json!({"timestamp": time, "type": kind, "payload": payload})
}

/// Lines of a rollout after its first.
fn rollout(rng: &mut Rng) -> Vec<Value> {
    let time = "2025-12-09T19:55:16.336Z";
    let (mut input, mut output, mut open) = (0, 0, None);
    let prefix = rng.next();
    let line = |n: usize| {
        let payload = match rng.below(5) {
            0 => {
                let id = format!("c{prefix}-{n}");
                open = Some(id.clone());
                json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"})
            }
            1 if open.is_some() => {
                json!({"type": "function_call_output", "call_id": open.take(), "output": "out"})
            }
            2 => {
                input += rng.below(50);
                output += rng.below(20);
                let total = json!({"input_tokens": input, "cached_input_tokens": 5,
                    "output_tokens": output});
                let info = json!({"total_token_usage": total, "last_token_usage": total});
                return at(
                    time,
                    "event_msg",
                    json!({"type": "token_count", "info": info}),
                );
            }
            kind => {
                let role = if kind == 3 { "user" } else { "assistant" };
                let content = json!([{"type": "input_text", "text": format!("says {prefix}-{n}")}]);
                json!({"type": "message", "role": role, "content": content})
            }
        };
        at(time, "response_item", payload)
    };
    (0..8).map(line).collect()
}
