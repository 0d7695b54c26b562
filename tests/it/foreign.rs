//! Another program reads and writes stores: a Python program made from data-layout.md alone, which
//! shares no bugs with this crate. It finds what decklog finds, and its writes are read like
//! decklog's own.
//!
//! `DECKLOG_FOREIGN` sets the number of rounds, `DECKLOG_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::support::{Kid, Rng, count};

const DECKLOG: &str = env!("CARGO_BIN_EXE_decklog");

fn said(output: &Output) -> String {
    let streams = [&output.stdout, &output.stderr];
    streams.map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

/// Runs one of the two scripts; `false` if Python is not installed, which is allowed on a
/// developer's machine.
fn python(script: &str, args: &[&str]) -> bool {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign");
    let mut command = Command::new("python3");
    command.arg("-B").arg(scripts.join(script)).args(args);
    let output = match command.output() {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "no python3");
            println!("not run: there is no python3 here");
            return false;
        }
        output => output.unwrap(),
    };
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    true
}

fn agrees(store: &str) -> bool {
    python("reader.py", &[DECKLOG, store])
}

fn writes(what: &str, store: &str, rng: &mut Rng, rest: &[&str]) -> bool {
    let seed = (rng.next() >> 1).to_string();
    println!("{what} {seed}");
    python("writer.py", &[&[what, store, &seed], rest].concat())
}

fn decklog(store: &str, args: &[&str]) -> Output {
    let mut command = Command::new(DECKLOG);
    command
        .args(["--store", store])
        .args(args)
        .output()
        .unwrap()
}

fn does(store: &str, args: &[&str]) {
    let output = decklog(store, args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
}

/// A store with imported sessions, without retention.
fn store_in(dir: &Path, name: &str) -> String {
    let store = dir.join(name).to_str().unwrap().to_owned();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    does(&store, &["import", samples.to_str().unwrap(), "--keep"]);
    store
}

#[test]
fn a_reader_made_from_the_document_alone_reads_the_same() {
    let mut rng = Rng::seeded("reader");
    let dir = tempfile::tempdir().unwrap();
    let store = store_in(dir.path(), "store");
    if !agrees(&store) {
        return;
    }
    writes("write", &store, &mut rng, &["20", "keep"]);
    let erased = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
    let steps: [&[&str]; 6] = [
        &["seal"],
        &["erase", "--conversation", erased],
        &["compact", "--keep-days", "0"],
        &["config", "set", "retention.history", "1"],
        &["retain"],
        &["seal"],
    ];
    for step in steps {
        does(&store, step);
        assert!(agrees(&store));
    }
    does(&store, &["verify", "--deep"]);
}

#[test]
fn what_a_writer_made_from_the_document_alone_writes_is_read() {
    let mut rng = Rng::seeded("writer");
    let dir = tempfile::tempdir().unwrap();
    for how in ["keep", "remove"] {
        let store = store_in(dir.path(), how);
        // No process has it open.
        if !writes("write", &store, &mut rng, &["5", how]) {
            return;
        }
        does(&store, &["verify", "--deep"]);
        // A writing process has it open, and gets each acknowledgement before the next line is
        // written.
        let mut command = Command::new(DECKLOG);
        command.args(["--store", &store, "record", "--ack"]);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut kid = Kid(piped.unwrap());
        let mut input = kid.0.stdin.take().unwrap();
        let mut answers = BufReader::new(kid.0.stdout.take().unwrap()).lines();
        for _ in 0..count("DECKLOG_FOREIGN", 2) {
            for _ in 0..=rng.below(3) {
                writeln!(input, r#"{{"kind":"events","event_type":"a.b"}}"#).unwrap();
                let answer = answers.next().unwrap().unwrap();
                assert!(answer.contains(r#""status":"added""#), "{answer}");
            }
            writes("write", &store, &mut rng, &["2", how]);
        }
        drop(input);
        assert!(kid.0.wait().unwrap().success());
        does(&store, &["verify", "--deep"]);
        assert!(agrees(&store));
    }
}

#[test]
fn both_find_the_same_damage() {
    let mut rng = Rng::seeded("damage");
    let dir = tempfile::tempdir().unwrap();
    for round in 0..count("DECKLOG_FOREIGN", 2) {
        let store = store_in(dir.path(), &round.to_string());
        if !writes("write", &store, &mut rng, &["20", "keep"]) {
            return;
        }
        writes("spoil", &store, &mut rng, &[]);
        assert!(agrees(&store));
        // Damage is sealed as it is, and still reported.
        does(&store, &["seal"]);
        assert!(agrees(&store));
        writes("tamper", &store, &mut rng, &[]);
        assert!(agrees(&store));
    }
}
