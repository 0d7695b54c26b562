//! Whatever happens to checkpoints or to the log, an import loses and repeats nothing.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::checkpoints::{CHECKPOINTS, QUICK, import, importer, open, records};
use super::sample;
use crate::retention::{EraseOptions, Erasure};
use crate::storage::{Fault, Memory, Storage};

/// A folder with a session of each tool.
fn sessions() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["claude-code-session.jsonl", "codex-rollout.jsonl"] {
        fs::copy(sample(name), dir.path().join(name)).unwrap();
    }
    dir
}

/// A log of these sessions, and its records.
fn imported(dir: &Path) -> (Memory, Vec<String>) {
    let memory = Memory::new();
    import(&memory, dir, QUICK);
    let records = records(&memory);
    (memory, records)
}

/// The numbers of files read and unchanged, and of records added.
fn counts(memory: &Memory, dir: &Path) -> (u64, u64, u64) {
    let report = import(memory, dir, QUICK);
    (report.files, report.unchanged, report.added)
}

#[test]
fn damaged_checkpoints_cost_time_alone() {
    let dir = sessions();
    let (memory, known) = imported(dir.path());
    let whole = memory.bytes(CHECKPOINTS).unwrap();
    let flips = (0..whole.len()).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        bytes
    });
    let cuts = (0..whole.len()).map(|len| whole[..len].to_vec());
    for (n, bytes) in flips.chain(cuts).enumerate() {
        memory.put_bytes(CHECKPOINTS, bytes);
        let store = open(&memory);
        let mut importer = importer(&store, QUICK);
        importer.checkpoints.recall(&store);
        assert!(!importer.checkpoints.has_known(), "{n}");
    }
    assert_eq!(counts(&memory, dir.path()), (2, 0, 0));
    assert_eq!(records(&memory), known);
    assert_eq!(counts(&memory, dir.path()), (0, 2, 0));
}

#[test]
fn an_import_that_ends_before_its_checkpoints_is_repeated() {
    let dir = sessions();
    let (_, known) = imported(dir.path());
    let memory = Memory::new();
    let store = open(&memory);
    importer(&store, QUICK).path(dir.path()).unwrap();
    drop(store);
    assert_eq!(counts(&memory, dir.path()), (2, 0, 0));
    assert_eq!(counts(&memory, dir.path()), (0, 2, 0));
    assert_eq!(records(&memory), known);
}

#[test]
fn a_fault_at_any_step_of_the_end_loses_nothing() {
    let dir = sessions();
    let (_, known) = imported(dir.path());
    let end = |fault: Option<(u64, Fault)>| {
        let memory = Memory::new();
        let store = open(&memory);
        let mut importer = importer(&store, QUICK);
        importer.path(dir.path()).unwrap();
        let begun = memory.operations();
        if let Some((step, fault)) = fault {
            memory.fail_at(begun + step, fault);
        }
        let added = importer.finish().unwrap().added;
        assert_eq!(added as usize, known.len());
        let steps = memory.operations() - begun;
        memory.heal();
        drop(store);
        (memory, steps)
    };
    let (_, steps) = end(None);
    assert!(steps > 10, "{steps}");
    for step in 0..steps {
        for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::Gone] {
            let (memory, _) = end(Some((step, fault)));
            for memory in [memory.after_power_cut(|_| 0), memory] {
                import(&memory, dir.path(), QUICK);
                assert_eq!(records(&memory), known, "{step}");
                assert_eq!(counts(&memory, dir.path()), (0, 2, 0), "{step}");
            }
        }
    }
}

#[test]
fn checkpoints_of_another_store_or_an_earlier_state_are_not_used() {
    let dir = sessions();
    let (memory, known) = imported(dir.path());
    let checkpoints = memory.bytes(CHECKPOINTS).unwrap();

    let other = Memory::new();
    drop(open(&other));
    other.create_dir("cache").unwrap();
    other.put_bytes(CHECKPOINTS, checkpoints.clone());
    assert_eq!(counts(&other, dir.path()), (2, 0, known.len() as u64));

    // A store without its last lines, as after a power cut or from a backup.
    let path = "2025-12-09/messages.0001.jsonl";
    let bytes = memory.bytes(path).unwrap();
    let until = bytes
        .trim_ascii_end()
        .iter()
        .rposition(|byte| *byte == b'\n');
    memory.put_bytes(path, bytes[..=until.unwrap()].to_vec());
    assert_eq!(counts(&memory, dir.path()), (2, 0, 1));
    assert_eq!(records(&memory), known);

    // Older checkpoints and a newer log.
    memory.put_bytes(CHECKPOINTS, checkpoints);
    let (files, unchanged, added) = counts(&memory, dir.path());
    assert_eq!((files + unchanged, added), (2, 0));
    assert_eq!(records(&memory), known);
}

#[test]
fn other_privacy_settings_and_other_formats_are_other_imports() {
    let dir = sessions();
    let (memory, _) = imported(dir.path());
    let store = open(&memory);
    let change = |settings: &mut crate::Settings| settings.privacy.redact_pii = true;
    store.change_settings(change).unwrap();
    drop(store);
    assert_eq!(counts(&memory, dir.path()), (2, 0, 0));
    assert_eq!(counts(&memory, dir.path()), (0, 2, 0));

    let store = open(&memory);
    let format = Some(crate::import::Format::Codex);
    let mut importer = importer(&store, QUICK).format(format);
    importer.path(dir.path()).unwrap();
    let report = importer.finish().unwrap();
    assert_eq!((report.files, report.unchanged), (2, 0));
}

#[test]
fn a_log_that_loses_records_during_an_import_gets_no_checkpoints() {
    let dir = sessions();
    let (_, known) = imported(dir.path());
    let memory = Memory::new();
    let store = open(&memory);
    let mut importer = importer(&store, QUICK);
    importer.path(dir.path()).unwrap();
    memory
        .remove_file("2025-12-09/messages.0001.jsonl")
        .unwrap();
    importer.finish().unwrap();
    drop(store);
    assert_eq!(memory.bytes(CHECKPOINTS), None);
    assert_eq!(counts(&memory, dir.path()).0, 2);
    assert_eq!(records(&memory), known);
}

#[test]
fn imports_at_once_add_each_record_once() {
    let dir = sessions();
    let (_, known) = imported(dir.path());
    for _ in 0..10 {
        let memory = Memory::new();
        drop(open(&memory));
        let added = std::thread::scope(|scope| {
            let import = || import(&memory, dir.path(), QUICK).added;
            let threads = [scope.spawn(import), scope.spawn(import)];
            threads.map(|thread| thread.join().unwrap())
        });
        assert_eq!(added.iter().sum::<u64>() as usize, known.len());
        import(&memory, dir.path(), QUICK);
        assert_eq!(records(&memory), known);
        assert_eq!(counts(&memory, dir.path()), (0, 2, 0));
    }
}

#[test]
fn titles_of_erased_conversations_are_in_no_checkpoint() {
    let dir = sessions();
    let session = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
    let title = json!({"type": "custom-title", "customTitle": "plum", "sessionId": session});
    fs::write(dir.path().join("titles.jsonl"), format!("{title}\n")).unwrap();
    let (memory, _) = imported(dir.path());
    let kept = |memory: &Memory| {
        let files = memory.read_dir("cache").unwrap().into_iter();
        let files = files.filter_map(|file| memory.bytes(&format!("cache/{}", file.name)));
        let texts = files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        texts.collect::<String>()
    };
    assert!(kept(&memory).contains("plum"));
    let store = open(&memory);
    let erasure = Erasure::Conversation(session.parse().unwrap());
    store.erase(&erasure, EraseOptions::default()).unwrap();
    drop(store);
    for _ in 0..2 {
        assert!(!kept(&memory).contains("plum") && !kept(&memory).contains(session));
        assert_eq!(import(&memory, dir.path(), QUICK).added, 0);
    }
}
