//! Failing system calls: any call on the store's files fails with any error, or the process is
//! killed at it. `strace` injects the faults into a process that runs this test binary. The process
//! notes what was acknowledged, and the store is checked against that afterwards.
//!
//! `DECKLOG_SYSCALL_STEP` sets which calls fail; 1 is every one. If it is set, `strace` is
//! required. `DECKLOG_SYSCALL_FAULT` selects one fault: `EIO`, `ENOSPC`, `EINTR` or `SIGKILL`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use decklog::storage::{Disk, Storage};
use decklog::{Durability, Record, Store, verify};

use super::phases::{self, Heard, Phase};
use super::support::{DAY_1, DAY_1_NAME, all_lines, count, turn};

const ENV_DIR: &str = "DECKLOG_SYSCALL_DIR";
const ENV_LEVEL: &str = "DECKLOG_SYSCALL_LEVEL";
const SIGKILL: i32 = 9;
/// The process that most tests run.
const NORMAL: &str = "process_whose_calls_fail";

/// Calls that change something, before or after which a kill may come.
const CHANGING: [&str; 16] = [
    "openat",
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "ftruncate",
    "fallocate",
    "mmap",
    "flock",
    "mkdir",
    "mkdirat",
    "renameat",
    "unlinkat",
    "chmod",
    "fchmodat",
    "fchmod",
];
/// The other calls on the store's files.
const READING: [&str; 8] = [
    "read",
    "pread64",
    "lseek",
    "statx",
    "fstat",
    "newfstatat",
    "getdents64",
    "faccessat2",
];

/// Calls that a signal may interrupt, and that are then repeated.
const RESTARTED: [&str; 12] = [
    "openat",
    "statx",
    "getdents64",
    "mmap",
    "pread64",
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "flock",
    "fchmod",
    "fchmodat",
];

fn level() -> Durability {
    match std::env::var(ENV_LEVEL).as_deref() {
        Ok("process") => Durability::Process,
        _ => Durability::Disk,
    }
}

/// Writes to standard output directly, since the test harness captures prints.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn told(heard: &Heard) -> String {
    match heard {
        Heard::Acked(seq, record) => {
            let seq = seq.map_or_else(|| "-".to_owned(), |seq| seq.to_string());
            format!("acked\t{seq}\t{record}")
        }
        Heard::Failed(kind, message) => format!("failed\t{}\t{message}", kind.as_str()),
    }
}

/// Does nothing unless one of the tests below started it as a process.
#[test]
fn process_whose_calls_fail() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(dir));
    for phase in Phase::ALL {
        phases::run(phase, &storage, level(), &mut |heard| tell(&told(&heard)));
    }
    tell("ended");
}

/// Kills the process when the test ends, however it ends.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether `strace` is installed; otherwise prints that the test did not run.
pub fn has_strace(test: &str) -> bool {
    let found = Command::new("strace")
        .args(["-qq", "-e", "trace=none", "true"])
        .stderr(Stdio::null())
        .status();
    let is_there = found.is_ok_and(|status| status.success());
    if !is_there {
        assert!(
            std::env::var_os("DECKLOG_SYSCALL_STEP").is_none(),
            "strace is asked for, and cannot be run"
        );
        println!("{test} did not run: there is no strace, or it may not trace");
    }
    is_there
}

/// A fault to inject.
#[derive(Debug, Clone, Copy)]
struct Fault<'a> {
    call: &'a str,
    /// In the syntax of `strace`.
    what: &'a str,
    /// The number of the failing call, per thread.
    at: u64,
}

/// The result of a process.
struct Run {
    heard: Vec<Heard>,
    has_ended: bool,
    output: Output,
    /// The log of `strace`.
    log: String,
}

impl Run {
    /// The error that the process got instead of an acknowledgement.
    fn failure(&self) -> Option<&Heard> {
        let is_failure = |heard: &&Heard| matches!(heard, Heard::Failed(..));
        self.heard.iter().find(is_failure)
    }

    /// Whether any call failed.
    fn is_met(&self) -> bool {
        self.log.contains("(INJECTED)") || self.output.status.signal() == Some(SIGKILL)
    }
}

/// The paths of a store that went through all phases, without the quarantine, whose file names
/// contain the time.
fn paths() -> Vec<PathBuf> {
    fn walk(dir: &Path, below: &Path, found: &mut Vec<PathBuf>) {
        found.push(below.to_owned());
        for entry in fs::read_dir(dir).unwrap() {
            let entry = entry.unwrap();
            let name = below.join(entry.file_name());
            if entry.path().is_dir() {
                walk(&entry.path(), &name, found);
            } else {
                found.push(name.clone());
                found.push({
                    let mut name = OsString::from(name);
                    name.push(".tmp");
                    name.into()
                });
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(&path));
    for phase in Phase::ALL {
        phases::run(phase, &storage, Durability::Process, &mut |_| ());
    }
    let mut found = Vec::new();
    walk(&path, Path::new(""), &mut found);
    found
}

/// Runs a test of this binary on a store under `strace`, and waits for its end.
fn run(
    test: &str,
    dir: &Path,
    paths: &[PathBuf],
    calls: &[&str],
    fault: Option<Fault<'_>>,
    level: &str,
) -> Run {
    let (log, trace) = (dir.join("log"), dir.join("trace"));
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-e", "signal=none", "-o"])
        .arg(&trace);
    // Much faster, but it cannot inject signals.
    if fault.is_none_or(|fault| !fault.what.starts_with("signal")) {
        command.arg("--seccomp-bpf");
    }
    // Only calls on the store's files fail; those of the process itself must not.
    for path in paths {
        command.arg("-P").arg(if path == Path::new("") {
            log.clone()
        } else {
            log.join(path)
        });
    }
    command.arg("-e").arg(format!("trace={}", calls.join(",")));
    if let Some(Fault { call, what, at }) = fault {
        command
            .arg("-e")
            .arg(format!("inject={call}:{what}:when={at}"));
    }
    command
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("syscalls::{test}"), "--test-threads=1"])
        .env(ENV_DIR, &log)
        .env(ENV_LEVEL, level)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = Guard(command.spawn().unwrap());
    // The output fits into the pipes, or is read by then.
    let mut stderr = child.0.stderr.take().unwrap();
    let errors = std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stderr, &mut said);
        said
    });
    let mut stdout = Vec::new();
    std::io::Read::read_to_end(&mut child.0.stdout.take().unwrap(), &mut stdout).unwrap();
    let output = Output {
        status: child.0.wait().unwrap(),
        stderr: errors.join().unwrap(),
        stdout,
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let heard = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, '\t');
        match (fields.next()?, fields.next()?, fields.next()?) {
            ("acked", seq, record) => Some(Heard::Acked(seq.parse().ok(), record.to_owned())),
            ("failed", _, message) => {
                Some(Heard::Failed(decklog::ErrorKind::Io, message.to_owned()))
            }
            _ => None,
        }
    });
    Run {
        heard: heard.collect(),
        has_ended: text.lines().any(|line| line == "ended"),
        log: fs::read_to_string(&trace).unwrap_or_default(),
        output,
    }
}

/// A run in which anything may happen except a panic. Afterwards the store is checked against the
/// acknowledgements. `None` if nothing failed.
fn run_and_check(paths: &[PathBuf], calls: &[&str], fault: Fault<'_>, level: &str) -> Option<Run> {
    let case = format!("{level} {fault:?}");
    let dir = tempfile::tempdir().unwrap();
    let ran = run(
        "process_whose_calls_fail",
        dir.path(),
        paths,
        calls,
        Some(fault),
        level,
    );
    if !ran.is_met() {
        return None;
    }
    let is_killed = ran.output.status.signal() == Some(SIGKILL);
    assert!(
        is_killed || ran.output.status.success() && ran.has_ended,
        "{case}: {:?}\n{}\n{}",
        ran.output.status,
        String::from_utf8_lossy(&ran.output.stdout),
        String::from_utf8_lossy(&ran.output.stderr)
    );
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(dir.path().join("log")));
    phases::check(&storage, &ran.heard, &case);
    Some(ran)
}

/// For each system call, the maximum number of calls of one thread.
fn most_of(trace: &str) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for line in trace.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        let Some((call, _)) = rest.trim_start().split_once('(') else {
            continue;
        };
        *counts
            .entry((call.to_owned(), thread.to_owned()))
            .or_default() += 1;
    }
    let mut most = BTreeMap::new();
    for ((call, _), count) in counts {
        let known = most.entry(call).or_default();
        *known = count.max(*known);
    }
    most
}

#[test]
fn whatever_call_fails_nothing_acknowledged_is_lost() {
    if !has_strace("whatever_call_fails_nothing_acknowledged_is_lost") {
        return;
    }
    let step = count("DECKLOG_SYSCALL_STEP", 397);
    let paths = paths();
    let all = [&CHANGING[..], &READING[..]].concat();
    let dir = tempfile::tempdir().unwrap();
    let whole = run(NORMAL, dir.path(), &paths, &all, None, "disk");
    assert!(whole.has_ended && whole.output.status.success());
    assert_eq!(whole.failure(), None);
    let most = most_of(&whole.log);
    let (mut nth, mut met) = (0, BTreeMap::new());
    for (what, calls, level) in [
        ("error=EIO", &all[..], "disk"),
        ("error=ENOSPC", &CHANGING[..], "process"),
        ("error=EINTR", &all[..], "process"),
        ("signal=SIGKILL", &CHANGING[..], "disk"),
    ] {
        if std::env::var("DECKLOG_SYSCALL_FAULT").is_ok_and(|only| !what.ends_with(&only)) {
            continue;
        }
        for call in calls {
            let most = most.get(*call).copied().unwrap_or(0);
            for at in 1.. {
                nth += 1;
                if nth % step != 0 {
                    if at > most {
                        break;
                    }
                    continue;
                }
                let fault = Fault { call, what, at };
                let Some(ran) = run_and_check(&paths, &[call], fault, level) else {
                    break;
                };
                *met.entry((what, *call)).or_insert(0) += 1;
                if what == "error=EINTR" && RESTARTED.contains(call) {
                    assert_eq!(ran.failure(), None, "{fault:?}");
                }
            }
        }
    }
    println!("{most:?}");
    println!("{} faults: {met:?}", met.values().sum::<u64>());
}

/// Does nothing unless the test below started it as a process: threads that write at level `Disk`,
/// and so share fsyncs.
#[test]
fn process_whose_threads_wait() {
    let Ok(dir) = std::env::var(ENV_DIR) else {
        return;
    };
    let storage: Arc<dyn Storage> = Arc::new(Disk::new(dir));
    let open = || phases::options(&storage, Durability::Disk).open("");
    let store = open().or_else(|e| {
        tell(&told(&Heard::Failed(e.kind(), e.to_string())));
        open()
    });
    let store = store.unwrap();
    let has_failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, has_failed) = (&store, &has_failed);
            scope.spawn(move || {
                for number in 0..6 {
                    let is_late = has_failed.load(Ordering::SeqCst);
                    let record: Record = turn(thread * 100 + number, "", DAY_1).into();
                    match store.record(record.clone()) {
                        Ok(ack) => {
                            assert!(!is_late, "acknowledged after a failed fsync");
                            tell(&told(&Heard::Acked(Some(ack.seq), phases::said(&record))));
                        }
                        Err(e) => {
                            has_failed.store(true, Ordering::SeqCst);
                            tell(&told(&Heard::Failed(e.kind(), e.to_string())));
                            assert!(store.sync().is_err());
                        }
                    }
                }
            });
        }
    });
    drop(store);
    tell("ended");
}

/// The syncs of the descriptor whose sync failed first, after the failure and before its close.
/// Another thread may be in the middle of a write, which is not acknowledged either.
fn again(log: &str) -> Vec<&str> {
    let lines: Vec<&str> = log.lines().collect();
    let thread = |line: &str| line.split(' ').next().map(str::to_owned);
    let Some(failed) = lines.iter().position(|line| line.contains("(INJECTED)")) else {
        return Vec::new();
    };
    // If another thread interrupts a call, `strace` prints it on two lines.
    let begun = lines[..=failed]
        .iter()
        .rev()
        .find(|line| line.contains("sync(") && thread(line) == thread(lines[failed]));
    let (_, rest) = begun.unwrap().split_once("sync(").unwrap();
    let file = rest.split([')', ' ']).next().unwrap();
    let is = |line: &str, call: &str| {
        [")", " "]
            .iter()
            .any(|end| line.contains(&format!("{call}({file}{end}")))
    };
    lines[failed + 1..]
        .iter()
        .copied()
        .take_while(|line| !is(line, "close"))
        .filter(|line| is(line, "fdatasync") || is(line, "fsync"))
        .collect()
}

#[test]
fn an_fsync_that_failed_is_not_asked_for_again() {
    if !has_strace("an_fsync_that_failed_is_not_asked_for_again") {
        return;
    }
    let step = count("DECKLOG_SYSCALL_STEP", 5);
    let names = [
        "conversation_turns.0001.jsonl",
        "conversation_turns.0002.jsonl",
    ];
    let names = names.map(|name| PathBuf::from(format!("{DAY_1_NAME}/{name}")));
    let dirs = [PathBuf::new(), PathBuf::from(DAY_1_NAME)];
    let calls = ["fdatasync", "fsync", "write", "pwrite64", "close"];
    let mut met = 0;
    for (call, paths) in [("fdatasync", &names[..]), ("fsync", &dirs[..])] {
        for what in ["error=EIO", "error=ENOSPC"] {
            for at in (1..).step_by(step as usize) {
                let case = format!("{call} {what} at {at}");
                let dir = tempfile::tempdir().unwrap();
                let fault = Fault { call, what, at };
                let test = "process_whose_threads_wait";
                let ran = run(test, dir.path(), paths, &calls, Some(fault), "disk");
                let said = String::from_utf8_lossy(&ran.output.stdout);
                if !ran.is_met() {
                    assert!(ran.failure().is_none() && ran.has_ended, "{case}: {said}");
                    break;
                }
                met += 1;
                assert!(
                    ran.output.status.success() && ran.has_ended,
                    "{case}: {said}"
                );
                assert!(ran.failure().is_some(), "{case}: {said}");
                assert_eq!(again(&ran.log), [""; 0], "{case}: {}", ran.log);
                check_turns(&dir.path().join("log"), &ran.heard, &case);
            }
        }
    }
    assert!(met > 0);
    println!("{met} failed fsyncs");
}

/// Acknowledged records are there, once, and the store is clean and accepts new ones.
fn check_turns(path: &Path, heard: &[Heard], case: &str) {
    let store = Store::open(path).unwrap();
    let lines = all_lines(&store);
    let said: Vec<(u64, String)> = lines
        .iter()
        .map(|(seq, line)| (*seq, phases::said(line)))
        .collect();
    for one in heard {
        if let Heard::Acked(seq, record) = one {
            let there: Vec<_> = said.iter().filter(|(_, line)| line == record).collect();
            assert_eq!(there.len(), 1, "{case}: {record}");
            assert_eq!(Some(there[0].0), *seq, "{case}: {record}");
        }
    }
    let ack = store.record(turn(9_999, "", DAY_1)).unwrap();
    assert_eq!(ack.seq, lines.len() as u64 + 1, "{case}");
    assert!(verify(&Disk::new(path)).unwrap().is_clean(), "{case}");
}
