//! An import with checkpoints adds what an import that reads everything adds.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::sample;
use crate::import::{Expired, Importer, Report};
use crate::record::{ConversationTurn, TurnKind, Validity};
use crate::storage::{Memory, Storage};
use crate::store::Store;

pub(super) const CHECKPOINTS: &str = "cache/imports";

pub(super) fn open(memory: &Memory) -> Store {
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let options = Store::options().storage(storage).upkeep(false);
    options.sidecar_bytes_min(0).open("memory").unwrap()
}

/// How to import.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    rereads: bool,
    /// Whether times count as soon as they are known.
    trusts_times: bool,
}

const CAREFUL: How = How {
    rereads: false,
    trusts_times: false,
};
pub(super) const QUICK: How = How {
    rereads: false,
    trusts_times: true,
};
pub(super) const WHOLE: How = How {
    rereads: true,
    trusts_times: false,
};

pub(super) fn importer(store: &Store, how: How) -> Importer<'_> {
    let mut importer = Importer::new(store).expired(Expired::Expire);
    if how.trusts_times {
        importer.checkpoints.trust_times_at_once();
    }
    importer.reread(how.rereads)
}

pub(super) fn import(memory: &Memory, path: &Path, how: How) -> Report {
    let store = open(memory);
    let mut importer = importer(&store, how);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

/// The records of a log, without what depends on the order of files.
pub(super) fn records(memory: &Memory) -> Vec<String> {
    let store = open(memory);
    let lines = store.last_lines(usize::MAX).unwrap();
    let mut records: Vec<String> = lines.iter().map(|line| record(&line.text)).collect();
    records.sort();
    records
}

fn record(line: &str) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let fields = line.as_object_mut().unwrap();
    fields.remove("seq");
    fields.remove("crc");
    line.to_string()
}

fn segments(memory: &Memory) -> Vec<String> {
    let mut segments = Vec::new();
    for day in memory.read_dir("").unwrap() {
        if day.is_dir && day.name.starts_with("20") {
            let names = memory.read_dir(&day.name).unwrap();
            let paths = names
                .iter()
                .map(|file| format!("{}/{}", day.name, file.name));
            segments.extend(paths.filter(|path| path.ends_with(".0001.jsonl")));
        }
    }
    segments.sort();
    segments
}

/// Source files that change.
struct Sources {
    dir: TempDir,
    /// The content of each file, and the number of its session.
    files: BTreeMap<PathBuf, (u64, Vec<String>)>,
    next: u64,
}

impl Sources {
    fn new() -> Sources {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        Sources {
            dir,
            files: BTreeMap::new(),
            next: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn nth(&self, n: u64) -> Option<PathBuf> {
        let count = self.files.len() as u64;
        let n = n.checked_rem(count)?;
        self.files.keys().nth(n as usize).cloned()
    }

    fn write(&self, path: &Path) {
        fs::write(path, self.files[path].1.concat()).unwrap();
    }

    /// A new file: a session of its own, one that goes on with another one's lines, or a sub-agent.
    fn add(&mut self, a: u64, b: u64) {
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

    fn append(&mut self, path: &Path, count: u64, seed: u64) {
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
                let name = if seed % 2 == 0 { "Task" } else { "Bash" };
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

fn time(number: u64) -> String {
    format!(
        "2025-12-09T{:02}:{:02}:{:02}.000Z",
        number / 3600 % 24,
        number / 60 % 60,
        number % 60
    )
}

/// A change of the sources or of both logs, or an import into both.
#[derive(Debug, Clone)]
struct Step {
    what: u8,
    a: u64,
    b: u64,
}

fn step() -> impl Strategy<Value = Step> {
    let step = (0..40u8, any::<u32>(), any::<u32>());
    step.prop_map(|(what, a, b)| Step {
        what,
        a: a.into(),
        b: b.into(),
    })
}

/// Two logs of the same sources: the imports into one read everything.
struct World {
    sources: Sources,
    log: Memory,
    whole: Memory,
}

impl World {
    fn new() -> World {
        let (log, whole) = (Memory::new(), Memory::new());
        drop([open(&log), open(&whole)]);
        World {
            sources: Sources::new(),
            log,
            whole,
        }
    }

    fn import(&self, how: How) -> Report {
        let path = self.sources.dir.path();
        let report = import(&self.log, path, how);
        let whole = import(&self.whole, path, WHOLE);
        assert_eq!(report.files + report.unchanged, whole.files);
        let (found, expected) = (records(&self.log), records(&self.whole));
        let not_in = |one: &[String], other: &[String]| -> Vec<String> {
            let one = one.iter().filter(|record| !other.contains(record));
            one.cloned().collect()
        };
        let more = not_in(&found, &expected);
        let missing = not_in(&expected, &found);
        assert!(found == expected, "more: {more:#?}\nmissing: {missing:#?}");
        report
    }

    fn take(&mut self, step: &Step) {
        let (a, b) = (step.a, step.b);
        let path = self.sources.nth(a);
        match (step.what, path) {
            (0..=7, _) | (_, None) => self.sources.add(a, b),
            (8..=17, Some(path)) => {
                self.sources.append(&path, 1 + b % 4, b);
                self.sources.write(&path);
            }
            // Rewritten from some line on, in place or not.
            (18 | 19, Some(path)) => {
                let lines = &mut self.sources.files.get_mut(&path).unwrap().1;
                lines.truncate(1.max(b as usize % lines.len()));
                self.sources.append(&path, 1 + b % 5, b);
                if a % 2 == 0 {
                    fs::remove_file(&path).unwrap();
                }
                self.sources.write(&path);
            }
            (20, Some(path)) => {
                let lines = &mut self.sources.files.get_mut(&path).unwrap().1;
                lines.truncate(1.max(b as usize % lines.len()));
                self.sources.write(&path);
            }
            // The last line is incomplete for now.
            (21, Some(path)) => {
                self.sources.append(&path, 1, b);
                let text = self.sources.files[&path].1.concat();
                fs::write(&path, &text[..text.len() - 1 - b as usize % 20]).unwrap();
            }
            (22, Some(path)) => {
                let number = self.sources.number();
                let to = path.with_file_name(format!("agent-{number}.jsonl"));
                fs::rename(&path, &to).unwrap();
                let file = self.sources.files.remove(&path).unwrap();
                self.sources.files.insert(to, file);
            }
            (23, Some(path)) => {
                fs::remove_file(&path).unwrap();
                self.sources.files.remove(&path);
            }
            (24, Some(path)) => {
                let meta =
                    json!({"toolUseId": format!("call-{b}"), "description": format!("d{b}")});
                fs::write(path.with_extension("meta.json"), meta.to_string()).unwrap();
            }
            (25, Some(_)) => {
                let _ = self.log.remove_file(CHECKPOINTS);
            }
            (26, Some(_)) => {
                if let Some(mut bytes) = self.log.bytes(CHECKPOINTS) {
                    let at = b as usize % bytes.len();
                    bytes[at] ^= 1 << (a % 8);
                    self.log.put_bytes(CHECKPOINTS, bytes);
                }
            }
            (27..=29, Some(_)) => self.lose(a, b),
            (_, Some(_)) => {
                self.import(if step.what % 2 == 0 { CAREFUL } else { QUICK });
            }
        }
    }

    /// Removes a segment of both logs, or some of its lines.
    fn lose(&self, a: u64, b: u64) {
        let names = segments(&self.whole);
        let Some(n) = a.checked_rem(names.len() as u64) else {
            return;
        };
        let path = &names[n as usize];
        for memory in [&self.log, &self.whole] {
            let text = String::from_utf8(memory.bytes(path).unwrap()).unwrap();
            if b % 2 == 0 {
                memory.remove_file(path).unwrap();
                continue;
            }
            let is_kept = |line: &&str| {
                let mut hasher = DefaultHasher::new();
                (record(line), b).hash(&mut hasher);
                !hasher.finish().is_multiple_of(3)
            };
            let kept = text.lines().filter(is_kept).map(|line| format!("{line}\n"));
            memory.put_bytes(path, kept.collect::<String>().into_bytes());
            if a % 2 == 0 {
                // The segments are longer than before.
                open(memory).record(other_turn(b)).unwrap();
            }
        }
    }
}

/// A turn that is in no source.
fn other_turn(number: u64) -> ConversationTurn {
    ConversationTurn {
        id: Uuid::from_u128(number.into()),
        parent_id: None,
        message_id: Uuid::nil(),
        kind: TurnKind::User,
        content: "other ".repeat(1000),
        created_at: Validity::at(1_765_238_400_000),
        thread_id: None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 2,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_changes_give_the_same_records_as_reading_everything(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.import(CAREFUL);
        world.import(QUICK);
    }
}

#[test]
fn a_file_is_read_again_only_if_it_changed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["claude-code-session.jsonl", "codex-rollout.jsonl"] {
        fs::copy(sample(name), dir.path().join(name)).unwrap();
    }
    let memory = Memory::new();
    let counts = |how| {
        let report = import(&memory, dir.path(), how);
        (report.files, report.unchanged)
    };
    assert_eq!(counts(QUICK), (2, 0));
    assert_eq!(counts(QUICK), (0, 2));
    // The hash is the same.
    assert_eq!(counts(CAREFUL), (0, 2));
    assert_eq!(counts(WHOLE), (2, 0));
}
