//! What hooks and a watcher cost on a large log: the time of `decklog hook` as a process, the lag
//! of `decklog watch` from the append of a line to its record, and what it takes while idle.
//!
//! `DECKLOG_BENCH_LINES` sets the size of the log (default: 2,000,000 lines), which stays under
//! `target/`; `DECKLOG_BENCH_ROUNDS` the number of hooks and of appended lines (default: 500).

// Counts become figures, and a bench that cannot run should stop.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::expect_used
)]

mod tiny;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use decklog::{ConversationTurn, Record, Store, TurnKind, Validity};
use uuid::Uuid;

/// How long the idle watcher is observed.
const IDLE: Duration = Duration::from_secs(30);
/// After this time without changes, a watcher closes its store.
const SETTLE: Duration = Duration::from_secs(27);
const TICKS_A_SECOND: f64 = 100.0;

fn main() {
    let lines = setting("LINES", tiny::size(2_000_000, 2_000));
    let rounds = setting("ROUNDS", tiny::size(500, 3));
    let log = large_log(lines);
    let hooks = (0..rounds).map(|_| hook(&log));
    show(&format!("hook on {lines} lines"), hooks.collect());
    watch(&log, rounds);
}

fn setting(name: &str, default: usize) -> usize {
    let value = std::env::var(format!("DECKLOG_BENCH_{name}"));
    let given = value
        .ok()
        .and_then(|value| value.replace('_', "").parse().ok());
    given.unwrap_or(default).max(1)
}

/// Quantiles, in milliseconds.
fn show(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: f64| {
        let last = times.len().saturating_sub(1);
        let nth = ((last as f64) * share).ceil() as usize;
        times[nth.min(last)].as_secs_f64() * 1e3
    };
    println!(
        "{what}: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms ({} runs)",
        at(0.5),
        at(0.99),
        at(1.0),
        times.len()
    );
}

fn large_log(lines: usize) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("watch-{lines}"));
    if path.join("complete").exists() {
        return path;
    }
    let _ = fs::remove_dir_all(&path);
    let store = Store::open(&path).expect("a store");
    let turn = |n: usize| {
        Record::from(ConversationTurn {
            id: Uuid::from_u128(n as u128 + 1),
            parent_id: None,
            message_id: Uuid::from_u128(n as u128 + 1),
            kind: TurnKind::User,
            content: format!("turn {n} of a long log, with a few words in it"),
            created_at: Validity::now(),
            thread_id: None,
        })
    };
    for from in (0..lines).step_by(1_000) {
        let records = (from..lines.min(from + 1_000)).map(turn);
        store.record_batch(records).expect("records");
    }
    store.close().expect("a closed store");
    fs::write(path.join("complete"), "").expect("a file");
    path
}

fn decklog(log: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.arg("--store").arg(log).stdout(Stdio::null());
    command
}

fn hook(log: &Path) -> Duration {
    let output = "line of output\\n".repeat(150);
    let object = format!(
        "{{\"session_id\":\"s1\",\"hook_event_name\":\"PostToolUse\",\"tool_name\":\"Bash\",\
         \"tool_input\":{{\"command\":\"ls\"}},\"tool_response\":{{\"stdout\":\"{output}\"}}}}"
    );
    let began = Instant::now();
    let mut child = decklog(log)
        .arg("hook")
        .stdin(Stdio::piped())
        .spawn()
        .expect("a process");
    let stdin = child.stdin.take();
    stdin
        .expect("a pipe")
        .write_all(object.as_bytes())
        .expect("an input");
    assert!(child.wait().expect("an end").success());
    began.elapsed()
}

fn watch(log: &Path, rounds: usize) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("s.jsonl");
    let child = decklog(log)
        .args(["watch", "--quiet", "--expire"])
        .arg(dir.path())
        .spawn();
    let mut child = child.expect("a process");
    let store = Store::options().read_only(true).open(log).expect("a store");
    let last = store.last_lines(1).expect("lines");
    let mut follow = store
        .follow(last.last().map_or(0, |line| line.seq))
        .expect("a follower");
    sleep(Duration::from_secs(2));
    let run = Uuid::new_v4();
    let mut lags = Vec::new();
    for n in 0..rounds {
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"{run}-{n}\",\"sessionId\":\"{run}\",\"timestamp\":\
             \"2025-12-09T19:47:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"text {n}\"}}}}\n"
        );
        let file = fs::File::options().append(true).create(true).open(&path);
        file.expect("a file")
            .write_all(line.as_bytes())
            .expect("a line");
        let began = Instant::now();
        let text = format!("text {n}\"");
        while !follow
            .next_lines(Duration::from_secs(10))
            .expect("lines")
            .iter()
            .any(|line| line.text.contains(&text))
        {}
        lags.push(began.elapsed());
        sleep(Duration::from_millis((n as u64 * 37) % 150));
    }
    show("lag of watch", lags);
    if cfg!(target_os = "linux") && tiny::size(1, 0) == 1 {
        idle(&child);
    }
    child.kill().expect("an end");
    child.wait().expect("an end");
}

/// Processor time and memory of a process that has nothing to do.
fn idle(child: &Child) {
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let ticks = || -> f64 {
        let stat = fs::read_to_string(proc.join("stat")).expect("its state");
        let fields = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace();
        let times = fields
            .skip(11)
            .take(2)
            .map(|ticks| ticks.parse::<f64>().unwrap_or(0.0));
        times.sum()
    };
    let memory = || {
        let status = fs::read_to_string(proc.join("status")).expect("its state");
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap_or_default();
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    println!("memory of watch after changes: {:.1} MB", memory() / 1024.0);
    sleep(SETTLE);
    let before = ticks();
    sleep(IDLE);
    let share = (ticks() - before) / TICKS_A_SECOND / IDLE.as_secs_f64();
    println!(
        "idle watch: {:.2} % of a core, {:.1} MB",
        share * 100.0,
        memory() / 1024.0
    );
}
