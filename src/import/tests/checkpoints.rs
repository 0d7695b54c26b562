//! An import with checkpoints adds what an import that reads everything adds.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::sample;
use super::sources::{Sources, time};
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
    /// Whether the state of every file is kept.
    keeps_states: bool,
}

const CAREFUL: How = How {
    rereads: false,
    trusts_times: false,
    keeps_states: true,
};
pub(super) const QUICK: How = How {
    rereads: false,
    trusts_times: true,
    keeps_states: true,
};
pub(super) const WHOLE: How = How {
    rereads: true,
    trusts_times: false,
    keeps_states: false,
};

pub(super) fn importer(store: &Store, how: How) -> Importer<'_> {
    let mut importer = Importer::new(store).expired(Expired::Expire);
    if how.keeps_states {
        importer.checkpoints.keep_all_states();
    }
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
                if a.is_multiple_of(2) {
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
                self.import(How {
                    rereads: false,
                    trusts_times: a.is_multiple_of(2),
                    keeps_states: !b.is_multiple_of(3),
                });
            }
        }
    }

    /// Removes some lines of both logs, or a segment, or some of its lines.
    fn lose(&self, a: u64, b: u64) {
        let names = segments(&self.whole);
        let Some(n) = a.checked_rem(names.len() as u64) else {
            return;
        };
        let path = &names[n as usize];
        for memory in [&self.log, &self.whole] {
            let text = String::from_utf8(memory.bytes(path).unwrap()).unwrap();
            if b.is_multiple_of(2) {
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
            if a.is_multiple_of(2) {
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

/// Imports a file up to each of its lines, and then the whole file.
fn cut_at_any_line(name: &str, lines: &[String]) {
    let mut continued = 0;
    for until in 1..lines.len() {
        let world = World::new();
        let path = world.sources.dir.path().join("session.jsonl");
        fs::write(&path, lines[..until].concat()).unwrap();
        let start = world.import(QUICK);
        fs::write(&path, lines.concat()).unwrap();
        let rest = world.import(QUICK);
        let is_continued = rest.lines == (lines.len() - until) as u64;
        continued += usize::from(is_continued);
        // If not, a result of the first part has no call.
        assert!(is_continued || !start.broken.is_empty(), "{name}, {until}");
    }
    assert!(continued > 0, "{name}");
}

#[test]
fn a_file_that_grows_is_continued_at_any_line() {
    for name in [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ] {
        let text = fs::read_to_string(sample(name)).unwrap();
        let lines = text.split_inclusive('\n').map(str::to_owned);
        cut_at_any_line(name, &lines.collect::<Vec<_>>());
    }
    for (name, lines) in super::forks::forks() {
        let lines = lines.into_iter().map(|line| format!("{line}\n"));
        cut_at_any_line(name, &lines.collect::<Vec<_>>());
    }
}

#[test]
fn a_state_with_a_secret_is_not_kept() {
    let memory = Memory::new();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("session.jsonl");
    let token = "ghp_Qx7Lm2Rt9Vb4Kz8Wn3Yc6Hd1Jf5Ps0Ga7Te2"[..40].to_owned();
    let input = json!({"prompt": "go", "description": format!("use {token}")});
    let block = json!({"type": "tool_use", "id": "c1", "name": "Task", "input": input});
    let line = json!({
        "type": "assistant", "uuid": "u1", "sessionId": "s", "timestamp": time(1),
        "message": {"role": "assistant", "id": "m1", "content": [block]},
    });
    fs::write(&path, format!("{line}\n")).unwrap();
    import(&memory, &path, QUICK);
    for file in memory.read_dir("cache").unwrap() {
        let bytes = memory
            .bytes(&format!("cache/{}", file.name))
            .unwrap_or_default();
        assert!(
            !String::from_utf8_lossy(&bytes).contains(&token),
            "{}",
            file.name
        );
    }
    assert_eq!(import(&memory, &path, QUICK).unchanged, 1);
}
