//! Records given to `decklog record` are printed by the commands with `--json`, field by field,
//! whatever the fields contain.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, json};

use super::given::*;
use super::*;

/// Records lines of a kind, all of which must be accepted.
fn record(log: &Log, kind: &str, lines: &[Map<String, Value>]) {
    let input: String = lines
        .iter()
        .map(|line| {
            let mut line = line.clone();
            line.insert("kind".to_owned(), kind.into());
            Value::from(line).to_string() + "\n"
        })
        .collect();
    let output = log.run_with(&["record"], input.as_bytes());
    let expected = format!(
        "{} record{} added, 0 unchanged, 0 rejected\n",
        lines.len(),
        if lines.len() == 1 { "" } else { "s" }
    );
    assert_eq!((err(&output), out(&output)), (String::new(), expected));
}

fn with_ids(records: &mut [Map<String, Value>], field: &str) {
    for (n, record) in records.iter_mut().enumerate() {
        record.insert(field.to_owned(), id(n as u32 + 1).into());
    }
}

fn by(field: &str, records: impl IntoIterator<Item = Value>) -> BTreeMap<String, Value> {
    let records = records.into_iter();
    let records = records.map(|record| (record[field].to_string(), record));
    records.collect()
}

#[test]
fn proposals() {
    let fields = vec![
        always("created_at", millis()),
        maybe("confidence", fraction()),
        always("diffs_json", payload()),
    ];
    each_case(records(fields), |log, mut given| {
        with_ids(&mut given, "request_id");
        record(&log, "code_edit_proposals", &given);
        let mut expected: Vec<Value> = given.iter().cloned().map(Value::from).collect();
        for (n, proposal) in expected.iter_mut().enumerate() {
            // Each goes one step further than the one before it.
            let (id, at) = (&given[n]["request_id"], json!(n));
            let mut steps = vec![
                json!({"request_id": id, "op": "approved", "decided_at": at}),
                json!({"request_id": id, "op": "applied", "applied_at": 1000, "commit_hash": "abc\u{1b}"}),
                json!({"request_id": id, "op": "reverted", "at": 2000}),
            ];
            steps.truncate(n % 4);
            if n % 5 == 4 {
                steps = vec![json!({"request_id": id, "op": "denied", "decided_at": at})];
            }
            let steps: Vec<_> = steps
                .into_iter()
                .map(|step| step.as_object().unwrap().clone())
                .collect();
            if !steps.is_empty() {
                record(&log, "code_edit_proposals", &steps);
            }
            let status = steps
                .last()
                .map_or(json!("pending"), |step| step["op"].clone());
            proposal["status"] = status;
            for step in steps {
                for name in ["decided_at", "applied_at", "commit_hash"] {
                    if let Some(value) = step.get(name) {
                        proposal[name] = value.clone();
                    }
                }
            }
        }
        let expected = by("request_id", expected);
        assert_eq!(by("request_id", log.json(&["proposals"])), expected);
        for (id, proposal) in expected {
            assert_eq!(
                log.json(&["get", "proposals", id.trim_matches('"')]),
                [proposal]
            );
        }
    });
}

#[test]
fn conversations() {
    let fields = vec![
        maybe("workspace", name()),
        maybe("project", name()),
        always("client", word(&["vscode", "web", "api", "cli"])),
        maybe("user_id", name()),
        maybe("session_id", name()),
        maybe("parent_id", Just(json!(uuid::Uuid::from_u128(0x7A2F)))),
        maybe("agent", name()),
        maybe("parent_call_id", name()),
        maybe("title", name()),
        always("status", word(&["active", "completed", "error"])),
        always("created_at", timestamp(2025)),
        always("updated_at", timestamp(2027)),
        maybe("last_error", text()),
    ];
    each_case(records(fields), |log, mut given| {
        with_ids(&mut given, "id");
        log.ok(&["config", "set", "privacy.hash_user_id", "false"]);
        record(&log, "conversations", &given);
        let stats = json!({"message_count": 0, "total_tokens_in": 0, "total_tokens_out": 0,
            "total_latency_ms": 0, "error_count": 0, "failure_count": 0, "models_used": [], "configs_used": []});
        let expected = given.into_iter().map(|mut conversation| {
            conversation.extend(stats.as_object().unwrap().clone());
            // The document's model always has these, with a value or null.
            for name in ["workspace", "project", "user_id", "session_id"] {
                conversation.entry(name).or_insert(Value::Null);
            }
            Value::from(conversation)
        });
        assert_eq!(by("id", log.json(&["conversations"])), by("id", expected));
    });
}

#[test]
fn messages() {
    let fields = vec![
        always("timestamp", timestamp(2026)),
        always("role", word(&["system", "user", "assistant", "tool"])),
        always("source", word(&["system", "user", "model", "tool"])),
        always("content_type", word(&["text", "code", "markdown", "json"])),
        always("content", text()),
        maybe("model_used", name()),
        maybe("config_used", name()),
        maybe("orchestration_mode", name()),
        maybe("task_type", name()),
        maybe("git_branch", name()),
        maybe("tokens_in", number()),
        maybe("tokens_out", number()),
        maybe("latency_ms", number()),
        maybe("context_utilization", fraction()),
        maybe("cost_usd", fraction()),
        maybe("handoff_steps", number()),
        maybe("compression_applied", any::<bool>().prop_map(Value::from)),
        maybe("error_type", name()),
        maybe("error", text()),
        maybe("tool_name", name()),
        maybe("tool_call_id", name()),
        maybe("reasoning", text()),
        maybe("models_in_chain", vec(name(), 0..3).prop_map(Value::from)),
        maybe("part_of", Just(json!(uuid::Uuid::from_u128(0x7A1F)))),
        maybe("tool_args", payload()),
        maybe("tool_result", text()),
        maybe("inference_metadata", payload()),
    ];
    each_case(records(fields), |log, mut given| {
        let conversation = conversation(900);
        log.run_with(&["record"], conversation.as_bytes());
        with_ids(&mut given, "id");
        for (n, message) in given.iter_mut().enumerate() {
            message.insert("conversation_id".to_owned(), id(900).into());
            for (sum, part) in [
                ("tokens_in", "tokens_cache_write"),
                ("tokens_cache_write", "tokens_cache_write_1h"),
                ("tokens_in", "tokens_cache_read"),
                ("tokens_out", "tokens_reasoning"),
            ] {
                if let Some(tokens) = message.get(sum).and_then(Value::as_u64) {
                    message.insert(part.to_owned(), (tokens / 2).into());
                }
            }
            // Some use the next sequence, and some set their own.
            if n % 3 == 2 {
                message.insert("sequence".to_owned(), json!(n + 1));
            }
        }
        record(&log, "messages", &given);
        let mut asked = None;
        let expected: Vec<Value> = (1..)
            .zip(given)
            .map(|(place, mut message)| {
                message.insert("sequence".to_owned(), json!(place));
                let task_type = message.get("task_type").cloned();
                let is_error = message.contains_key("error");
                if message["role"] == "user" {
                    asked = task_type;
                } else if (message["role"] == "assistant" || is_error) && task_type.is_none() {
                    // It has the task type of its request.
                    message.extend(asked.clone().map(|asked| ("task_type".to_owned(), asked)));
                }
                message.into()
            })
            .collect();
        assert_eq!(log.json(&["messages", &id(900)]), expected);
        let shown = log.json(&["show", &id(900)]);
        assert_eq!(shown[0]["message_count"], expected.len());
        assert_eq!(shown[1..], expected);
        let backwards = log.json(&["messages", &id(900), "--order", "desc"]);
        assert!(backwards.iter().eq(expected.iter().rev()));
        assert_eq!(log.json(&["get", "messages", &id(1)]), expected[..1]);
    });
}

#[test]
fn events() {
    let event_type = select(vec![
        "agent.started",
        "worker.spawned",
        "my-own.Thing_2.done",
    ]);
    let fields = vec![
        always("event_type", event_type.prop_map(Value::from)),
        always("created_at", millis()),
        maybe("payload", payload()),
    ];
    each_case(records(fields), |log, mut given| {
        let mut expected = Vec::new();
        for (n, event) in given.iter_mut().enumerate() {
            // Under an earlier one, or under none.
            if n % 4 != 0 {
                event.insert("parent_id".to_owned(), json!(n / 2 + 1));
            }
            let mut event = event.clone();
            event.insert("id".to_owned(), json!(n + 1));
            expected.push(Value::from(event));
        }
        record(&log, "events", &given);
        assert_eq!(log.json(&["events"]), expected);
        assert_eq!(log.json(&["get", "events", "1"]), expected[..1]);
        let tree = log.json(&["tree", "1"]);
        assert_eq!(tree[0]["payload"], expected[0]["payload"]);
    });
}

#[test]
fn tasks() {
    let fields = vec![
        always("created_at", millis()),
        maybe("chat_id", (-9_i64..9).prop_map(Value::from)),
        maybe("text", text()),
        maybe("message_date", (0_i64..9).prop_map(Value::from)),
        maybe("payload", payload()),
        maybe("error", text()),
    ];
    each_case(records(fields), |log, mut given| {
        let mut steps = Vec::new();
        let mut expected = Vec::new();
        for (n, task) in given.iter_mut().enumerate() {
            let error = task.remove("error");
            // A chat message has both.
            if task.contains_key("chat_id") {
                task.entry("text").or_insert("hi".into());
                task.entry("message_date").or_insert(5.into());
            }
            task.insert(
                "update_id".to_owned(),
                json!(-7 * i64::try_from(n).unwrap()),
            );
            let mut task = task.clone();
            let id = json!(n + 1);
            task.insert("id".to_owned(), id.clone());
            let words = ["queued", "in_progress", "done", "failed"];
            let status = words[n % 4];
            task.insert("status".to_owned(), status.into());
            task.insert("attempts".to_owned(), json!(i32::from(n % 4 > 0)));
            let updated_at = match n % 4 {
                0 => task["created_at"].clone(),
                1 => json!(5000 + n),
                _ => json!(6000 + n),
            };
            task.insert("updated_at".to_owned(), updated_at);
            let mut step = |step: Value| steps.push(step.as_object().unwrap().clone());
            if n % 4 > 0 {
                step(json!({"id": id, "op": "in_progress", "locked_at": 5000 + n}));
            }
            match status {
                "in_progress" => {
                    task.insert("locked_at".to_owned(), json!(5000 + n));
                }
                "done" => step(json!({"id": id, "op": "done", "at": 6000 + n})),
                "failed" => {
                    let error = error.unwrap_or("no words".into());
                    step(json!({"id": id, "op": "failed", "at": 6000 + n, "error": error}));
                    task.insert("error".to_owned(), error);
                }
                _ => {}
            }
            expected.push(Value::from(task));
        }
        record(&log, "inbox", &given);
        if !steps.is_empty() {
            record(&log, "inbox", &steps);
        }
        assert_eq!(log.json(&["inbox"]), expected);
        assert_eq!(log.json(&["get", "inbox", "1"]), expected[..1]);
        let counts = &log.json(&["inbox", "--counts"])[0];
        for (status, count) in counts.as_object().unwrap() {
            let standing = log.json(&["inbox", "--status", status]);
            assert!(standing.iter().all(|task| task["status"] == **status));
            assert_eq!(*count, standing.len());
        }
    });
}

#[test]
fn history() {
    let chat = select(vec![0, 42, -1_001_234, i64::MIN, i64::MAX]);
    let fields = vec![
        always("chat_id", chat.prop_map(Value::from)),
        always("role", word(&["system", "user", "assistant", "tool"])),
        always("created_at", millis()),
        always("text", text()),
    ];
    each_case(records(fields), |log, given| {
        record(&log, "history", &given);
        for chat in [0, 42, -1_001_234, i64::MIN, i64::MAX] {
            let expected: Vec<Value> = (1..)
                .zip(&given)
                .filter(|(_, entry)| entry["chat_id"] == chat)
                .map(|(place, entry)| {
                    let mut entry = entry.clone();
                    entry.insert("id".to_owned(), json!(place));
                    entry.into()
                })
                .collect();
            assert_eq!(log.json(&["history", &chat.to_string()]), expected);
            let last = expected.iter().rev().take(1);
            let found = log.json(&["history", &chat.to_string(), "--limit", "1"]);
            assert!(found.iter().eq(last));
        }
    });
}

#[test]
fn thoughts() {
    let task = select(vec!["t1", "another task", "\u{1b}[31m"]);
    let fields = vec![
        always("task_id", task.prop_map(Value::from)),
        always("agent_id", name()),
        always(
            "type",
            word(&["plan", "analysis", "decision", "reflection"]),
        ),
        always("timestamp", timestamp(2026)),
        always("content", text()),
    ];
    each_case(records(fields), |log, mut given| {
        with_ids(&mut given, "id");
        record(&log, "thought_records", &given);
        let mut found = log.json(&["thoughts"]);
        let mut heads = BTreeMap::new();
        for (thought, given) in found.iter_mut().zip(&given) {
            let task = given["task_id"].to_string();
            let object = thought.as_object_mut().unwrap();
            let (prev, hash) = (object.remove("prev_hash"), object.remove("hash").unwrap());
            let before = heads.insert(task, hash);
            assert_eq!(prev.unwrap(), before.unwrap_or("0".repeat(64).into()));
        }
        let expected: Vec<Value> = given.into_iter().map(Value::from).collect();
        assert_eq!(found, expected);
        let checks = log.json(&["thoughts", "verify"]);
        assert_eq!(checks.len(), heads.len());
        for check in checks {
            assert_eq!(check["head"], heads[&check["task_id"].to_string()]);
        }
    });
}

#[test]
fn rollups() {
    let counts = vec((name(), number()), 0..3).prop_map(|counts| {
        let counts = counts.into_iter();
        let counts = counts.map(|(name, count)| (name.as_str().unwrap().into(), count));
        Value::Object(counts.collect())
    });
    let mut fields = vec![
        maybe("model_used", name()),
        maybe("config_used", name()),
        maybe("orchestration_mode", name()),
        maybe("task_type", name()),
        always("context_utilization_sum", fraction()),
        always("errors_by_type", counts),
    ];
    for count in [
        "messages",
        "requests",
        "tokens_in",
        "tokens_out",
        "latency_ms_sum",
        "latency_count",
        "context_utilization_count",
        "compressed",
        "errors",
        "conversations",
        "active_conversations",
    ] {
        fields.push(always(count, any::<u64>().prop_map(Value::from)));
    }
    for count in [
        "tokens_cache_write",
        "tokens_cache_write_1h",
        "tokens_cache_read",
        "tokens_reasoning",
        "cost_nano_usd",
        "cost_count",
    ] {
        fields.push(maybe(count, (1..=u64::MAX).prop_map(Value::from)));
    }
    each_case(records(fields), |log, mut given| {
        for (n, rollup) in given.iter_mut().enumerate() {
            rollup.insert("day".to_owned(), format!("2025-12-{:02}", n + 1).into());
            rollup.insert("through_seq".to_owned(), json!(1_000_000 + n));
            let count = rollup["latency_count"].as_u64().unwrap();
            let sketch = if count == 0 {
                json!([])
            } else {
                json!([[n, count]])
            };
            rollup.insert("latency_sketch".to_owned(), sketch);
            if n % 2 == 1 {
                let others = others(n, rollup);
                rollup.insert("others".to_owned(), others);
            }
        }
        record(&log, "rollups", &given);
        let expected: Vec<Value> = given.into_iter().map(Value::from).collect();
        assert_eq!(log.json(&["rollups"]), expected);
    });
}

/// Some of the totals in a rollup.
fn others(n: usize, rollup: &Map<String, Value>) -> Value {
    let half = |field: &str| rollup[field].as_u64().unwrap() / 2;
    let latencies = half("latency_count");
    let sketch = if latencies == 0 {
        json!([])
    } else {
        json!([[n, latencies]])
    };
    json!({
        "tokens_in": half("tokens_in"),
        "tokens_out": half("tokens_out"),
        "latency_ms_sum": half("latency_ms_sum"),
        "latency_count": latencies,
        "latency_sketch": sketch,
        "context_utilization_sum": 0.5,
        "context_utilization_count": half("context_utilization_count"),
        "compressed": half("compressed"),
        "errors": half("errors"),
        "errors_by_type": rollup["errors_by_type"],
    })
}
