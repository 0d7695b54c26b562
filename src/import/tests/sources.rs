//! Session files that change, for the tests of checkpoints.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Source files that change.
pub(super) struct Sources {
    pub(super) dir: TempDir,
    /// The content of each file, and the number of its session.
    pub(super) files: BTreeMap<PathBuf, (u64, Vec<String>)>,
    next: u64,
}

impl Sources {
    pub(super) fn new() -> Sources {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        Sources {
            dir,
            files: BTreeMap::new(),
            next: 0,
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn nth(&self, n: u64) -> Option<PathBuf> {
        let count = self.files.len() as u64;
        let n = n.checked_rem(count)?;
        self.files.keys().nth(n as usize).cloned()
    }

    pub(super) fn write(&self, path: &Path) {
        fs::write(path, self.files[path].1.concat()).unwrap();
    }

    /// A new file: a session of its own, one that goes on with another one's lines, or a sub-agent.
    pub(super) fn add(&mut self, a: u64, b: u64) {
        let number = self.number();
        let of = self.nth(b);
        let (name, session, mut lines) = match (a % 5, of) {
            (0, Some(of)) => {
                let (session, lines) = self.files[&of].clone();
                let until = b as usize % (lines.len() + 1);
                let old = format!("session-{session}\"");
                let new = format!("session-{number}\"");
                let lines = lines[..until].iter().map(|line| line.replace(&old, &new));
                (format!("{number}.jsonl"), number, lines.collect())
            }
            (1, Some(of))
                if self.files[&of]
                    .1
                    .first()
                    .is_some_and(|line| line.contains("uuid")) =>
            {
                let name = format!("sub/agent-{number}.jsonl");
                (name, self.files[&of].0 + 1_000_000, Vec::new())
            }
            (2, _) => {
                let session = format!("session-{number}");
                let meta = json!({"timestamp": time(0), "type": "session_meta", "payload": {"id": session}});
                (
                    format!("rollout-{number}.jsonl"),
                    number,
                    vec![format!("{meta}\n")],
                )
            }
            _ => (format!("{number}.jsonl"), number, Vec::new()),
        };
        if lines.is_empty() {
            lines.push(self.line(session, &[], a));
        }
        let path = self.dir.path().join(name);
        self.files.insert(path.clone(), (session, lines));
        self.write(&path);
    }

    pub(super) fn append(&mut self, path: &Path, count: u64, seed: u64) {
        for n in 0..count {
            let (session, lines) = self.files[path].clone();
            let line = self.line(session, &lines, seed.wrapping_add(n));
            self.files.get_mut(path).unwrap().1.push(line);
        }
    }

    /// The next line of a session.
    fn line(&mut self, session: u64, before: &[String], seed: u64) -> String {
        let number = self.number();
        let is_rollout = before
            .first()
            .is_some_and(|line| line.contains("session_meta"));
        let line = if is_rollout {
            rollout_line(number, seed)
        } else {
            self.session_line(session, number, before, seed)
        };
        format!("{line}\n")
    }

    fn session_line(&self, session: u64, number: u64, before: &[String], seed: u64) -> Value {
        let last = before
            .last()
            .and_then(|line| serde_json::from_str::<Value>(line).ok());
        let last = last.unwrap_or_default();
        let agent = (session > 1_000_000).then(|| format!("agent-{session}"));
        let of = session % 1_000_000;
        let mut line = json!({
            "uuid": format!("line-{number}"), "parentUuid": last["uuid"], "timestamp": time(number),
            "sessionId": format!("session-{of}"), "cwd": format!("/home/{}", seed % 2),
            "isSidechain": agent.is_some(), "agentId": agent,
        });
        let message = last["message"]["id"].as_str().unwrap_or("none").to_owned();
        let response = |id: &str, block: Value| {
            let usage = json!({"input_tokens": 3, "output_tokens": number});
            json!({"id": id, "model": "m", "role": "assistant", "content": [block], "usage": usage})
        };
        let (kind, said) = match seed % 9 {
            0 | 1 => (
                "user",
                json!({"role": "user", "content": format!("please {number}")}),
            ),
            2 | 3 => {
                let block = json!({"type": "text", "text": format!("well {number}")});
                let id = if message == "none" {
                    format!("m{number}")
                } else {
                    message
                };
                ("assistant", response(&id, block))
            }
            4 => {
                let name = if seed.is_multiple_of(2) {
                    "Task"
                } else {
                    "Bash"
                };
                let input = json!({"prompt": "please 7", "description": format!("task {number}")});
                let id = format!("call-{number}");
                let block = json!({"type": "tool_use", "id": id, "name": name, "input": input});
                ("assistant", response(&format!("m{number}"), block))
            }
            5 => {
                let call = last["message"]["content"][0]["id"]
                    .as_str()
                    .unwrap_or("lost");
                let block = json!({"type": "tool_result", "tool_use_id": call, "content": "out"});
                line["toolUseResult"] = json!({"agentId": format!("agent-{}", of + 1_000_000)});
                ("user", json!({"role": "user", "content": [block]}))
            }
            6 => {
                let all: Vec<&String> = self.files.values().flat_map(|(_, lines)| lines).collect();
                let leaf = all.get(seed as usize % (all.len() + 1));
                let leaf = leaf.and_then(|line| serde_json::from_str::<Value>(line).ok());
                let leaf = leaf.map(|leaf| leaf["uuid"].clone());
                return json!({"type": "summary", "summary": format!("sum {number}"), "leafUuid": leaf});
            }
            7 => {
                let of = seed % self.next;
                let title = format!("title {number}");
                return json!({"type": "custom-title", "customTitle": title, "sessionId": format!("session-{of}")});
            }
            _ => return json!({"type": "queue-operation", "n": number, "sessionId": "s"}),
        };
        line["type"] = json!(kind);
        line["message"] = said;
        line
    }
}

fn rollout_line(number: u64, seed: u64) -> Value {
    let (kind, payload) = match seed % 6 {
        0 => {
            let content = json!([{"type": "input_text", "text": format!("please {number}")}]);
            (
                "response_item",
                json!({"type": "message", "role": "user", "content": content}),
            )
        }
        1 => {
            let content = json!([{"type": "output_text", "text": format!("well {number}")}]);
            (
                "response_item",
                json!({"type": "message", "role": "assistant", "content": content}),
            )
        }
        2 => {
            let total = json!({"input_tokens": number * 10, "output_tokens": number});
            let info = json!({"total_token_usage": total, "last_token_usage": total});
            ("event_msg", json!({"type": "token_count", "info": info}))
        }
        3 => {
            let id = format!("call-{number}");
            (
                "response_item",
                json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"}),
            )
        }
        4 => {
            let id = format!("call-{}", number - 1);
            (
                "response_item",
                json!({"type": "function_call_output", "call_id": id, "output": "o"}),
            )
        }
        _ => (
            "turn_context",
            json!({"model": format!("m{number}"), "cwd": "/home/2"}),
        ),
    };
    json!({"timestamp": time(number), "type": kind, "payload": payload})
}

pub(super) fn time(number: u64) -> String {
    format!(
        "2025-12-09T{:02}:{:02}:{:02}.000Z",
        number / 3600 % 24,
        number / 60 % 60,
        number % 60
    )
}
