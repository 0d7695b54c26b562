//! `docs/objects.md` is exact: its program makes a store of the objects of a directory, as
//! `decklog pull` does, and the tables that it shows are created.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Output};

use decklog::{Event, event_type};

use super::{Log, files, run};
use crate::support::Rng;

const PAGE: &str = include_str!("../../../docs/objects.md");

/// A block of the page.
fn block(start: &str) -> &'static str {
    let (_, rest) = PAGE.split_once(start).unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs the page's program; `None` if Python or zstd is not installed.
fn read(bucket: &Path, store_id: &str, new: &Path) -> Option<Output> {
    let found = Command::new("zstd").arg("--version").output();
    let ran = found.and_then(|_| {
        let mut command = Command::new("python3");
        command.args(["-c", block("```python\n")]);
        command.arg(bucket).arg(store_id).arg(new).output()
    });
    match ran {
        Ok(output) => Some(output),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{e}");
            println!("not run: there is no python3 or zstd here");
            None
        }
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn the_program_of_the_page_makes_the_store_that_pull_makes() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (store, bucket, pulled) = (path("log"), path("bucket"), path("pulled"));
    let mut log = Log::new(store.as_ref(), Rng::seeded("document"));
    // Segments of the first day that are sealed and joined, then a log that changes between runs.
    for _ in 0..60 {
        log.converse();
    }
    // Its only event: a segment that is sealed and is joined with no other.
    let mut event = Event::new(None, event_type::AGENT_STARTED);
    event.created_at = log.now;
    log.record(vec![event.into()]);
    log.store.seal_at(log.now + 2 * super::DAY_MS).unwrap();
    for _ in 0..6 {
        for _ in 0..8 {
            log.change();
        }
        run(&["--store", &store, "ship", &bucket]);
    }
    log.converse();
    fs::create_dir(Path::new(&store).join("quarantine")).unwrap();
    fs::write(Path::new(&store).join("quarantine/bytes"), b"moved away").unwrap();
    run(&["--store", &store, "backup", &bucket]);
    run(&["restore", &bucket, &pulled]);

    let store_id = log.store.health().unwrap().store_id.to_string();
    let new = path("new");
    let Some(output) = read(bucket.as_ref(), &store_id, new.as_ref()) else {
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    assert_eq!(files(pulled.as_ref()), files(new.as_ref()));
    let quarantined = fs::read(Path::new(&new).join("quarantine/bytes")).unwrap();
    assert_eq!(quarantined, b"moved away");
    run(&["--store", &new, "verify", "--deep"]);

    // All forms of names were there.
    let mut names = Vec::new();
    crate::erase::each_file(bucket.as_ref(), &mut |path, _| {
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    });
    let has = |len: usize, mark: &str| {
        let is_it = |name: &&String| name.len() == len && name.contains(mark);
        assert!(names.iter().any(|name| is_it(&name)), "{len}: {names:?}");
    };
    has("0001.5b1e07aa.jsonl.zst".len(), ".jsonl");
    has("0001-0002.5b1e07aa.jsonl.zst".len(), "-");
    has(
        "0001.000000000000-000000000001.5b1e07aa.jsonl.zst".len(),
        "-",
    );

    // A changed byte is noticed.
    let mut damaged = None;
    crate::erase::each_file(bucket.as_ref(), &mut |path, bytes| {
        if path.extension().is_some_and(|it| it == "zst") {
            damaged = Some((path.to_owned(), bytes.to_vec()));
        }
    });
    let (object, mut bytes) = damaged.unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(object, bytes).unwrap();
    let output = read(bucket.as_ref(), &store_id, path("other").as_ref()).unwrap();
    assert!(!output.status.success());
}

#[test]
fn the_page_shows_the_tables_that_are_created() {
    let source = include_str!("../../../src/ship/postgres/schema.rs");
    assert!(source.contains(block("```sql\n")));
}
