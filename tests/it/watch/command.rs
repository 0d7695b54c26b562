//! `decklog watch` and `decklog import --follow` as a person runs them.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use decklog::Store;
use serde_json::Value;

use super::{imported, records, session};

const PATIENCE: Duration = Duration::from_secs(20);

/// A process whose lines are read as they come.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, lines) = channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let _ = to.send(line.unwrap());
            }
        });
        Running { child, lines }
    }

    /// The next line with these words; those before it are passed over.
    fn await_line(&self, words: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => seen.push(line),
                Err(e) => panic!("no line with {words:?}: {e}, {seen:#?}"),
            }
        }
    }

    /// Ends it as Ctrl-C does. Returns what it wrote to standard error.
    fn interrupt(mut self) -> String {
        let id = i32::try_from(self.child.id()).unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{status:?}");
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        said
    }
}

fn decklog(log: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.arg("--store").arg(log).env("NO_COLOR", "1");
    command
}

fn await_log(log: &Path, sessions: &Path) {
    let expected = imported(sessions);
    let until = Instant::now() + PATIENCE;
    loop {
        let store = Store::options().read_only(true).open(log).unwrap();
        if records(&store) == expected {
            return;
        }
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn each_addition_is_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path, later) = (
        dir.path().join("log"),
        dir.path().join("p"),
        dir.path().join("later"),
    );
    fs::create_dir(&path).unwrap();
    let lines = session();
    fs::write(path.join("s.jsonl"), lines[..6].concat()).unwrap();
    let running = Running::start(decklog(&log).arg("watch").arg(&path).arg(&later));
    let shown = running.await_line("watching");
    assert_eq!(shown, format!("watching {}", path.display()));
    let shown = running.await_line("watching");
    assert_eq!(
        shown,
        format!("watching {} (does not exist yet)", later.display())
    );
    assert!(running.await_line("1 file").contains("6 lines read"));
    running.await_line("keeps everything");
    fs::write(path.join("s.jsonl"), lines.concat()).unwrap();
    let added = running.await_line("claude-code");
    assert!(added.contains(" records"), "{added}");
    // What agents write is not obeyed by the terminal.
    fs::create_dir(&later).unwrap();
    let hostile = lines
        .concat()
        .replace("\"cwd\":\"", "\"cwd\":\"/\\u001b]0;title\\u0007\\u001b[2J");
    assert_ne!(hostile, lines.concat());
    let hostile = hostile.replace("\"sessionId\":\"", "\"sessionId\":\"another-");
    fs::write(later.join("t.jsonl"), hostile).unwrap();
    let added = running.await_line("claude-code");
    assert!(!added.contains(['\u{1b}', '\u{7}']), "{added:?}");
    assert_eq!(running.interrupt(), "");
}

#[test]
fn json_has_a_report_and_an_object_for_each_addition() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = (dir.path().join("log"), dir.path().join("p"));
    fs::create_dir(&path).unwrap();
    let lines = session();
    fs::write(path.join("s.jsonl"), lines[..6].concat()).unwrap();
    let running = Running::start(decklog(&log).args(["--json", "watch"]).arg(&path));
    let report: Value = serde_json::from_str(&running.await_line("{")).unwrap();
    assert_eq!((&report["files"], &report["lines"]), (&1.into(), &6.into()));
    let before = decklog::Validity::now().at;
    fs::write(path.join("s.jsonl"), lines.concat()).unwrap();
    let addition: Value = serde_json::from_str(&running.await_line("{")).unwrap();
    assert!(addition["at"].as_i64().unwrap() >= before, "{addition}");
    assert_eq!(addition["format"], "claude-code");
    assert!(addition["file"].as_str().unwrap().ends_with("/s.jsonl"));
    assert!(addition["added"].as_u64().unwrap() > 0);
    await_log(&log, &path);
    assert_eq!(running.interrupt(), "");
}

#[test]
fn an_import_can_follow_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = (dir.path().join("log"), dir.path().join("s.jsonl"));
    let lines = session();
    fs::write(&path, lines[..5].concat()).unwrap();
    let running = Running::start(decklog(&log).args(["import", "--follow"]).arg(&path));
    running.await_line("keeps everything");
    // A line that is cut at any byte.
    let text = lines.concat();
    let first = lines[..5].concat().len();
    for end in [first + 7, first + lines[5].len() + 1, text.len() - 9] {
        fs::write(&path, &text[..end]).unwrap();
        std::thread::sleep(Duration::from_millis(50));
    }
    fs::write(&path, &text).unwrap();
    await_log(&log, &path);
    assert_eq!(running.interrupt(), "");
    // Nothing is new for an import of the same file.
    let again = decklog(&log).args(["--json", "import"]).arg(&path).output();
    let again = String::from_utf8(again.unwrap().stdout).unwrap();
    let report: Value = serde_json::from_str(again.lines().last().unwrap()).unwrap();
    assert_eq!(report["added"], 0);
}

/// A system without watches: the files are looked at every few seconds instead.
#[test]
#[cfg(target_os = "linux")]
fn without_notices_of_the_system_files_are_polled() {
    for limit in ["max_inotify_instances", "max_inotify_watches"] {
        let dir = tempfile::tempdir().unwrap();
        let (log, path) = (dir.path().join("log"), dir.path().join("p"));
        fs::create_dir(&path).unwrap();
        let lines = session();
        fs::write(path.join("s.jsonl"), lines[..6].concat()).unwrap();
        // The limits are those of a user namespace.
        let mut command = Command::new("unshare");
        let shell = format!("echo 0 > /proc/sys/user/{limit} && echo namespace && exec \"$@\"");
        command
            .args(["--user", "--map-root-user", "sh", "-c", &shell, "sh"])
            .arg(env!("CARGO_BIN_EXE_decklog"))
            .arg("--store")
            .arg(&log)
            .arg("watch")
            .arg(&path);
        let running = Running::start(&mut command);
        if running.lines.recv_timeout(PATIENCE).ok().as_deref() != Some("namespace") {
            println!("did not run: a user namespace cannot be had here");
            return;
        }
        running.await_line("keeps everything");
        fs::write(path.join("s.jsonl"), lines.concat()).unwrap();
        running.await_line("claude-code");
        await_log(&log, &path);
        let said = running.interrupt();
        assert!(said.contains("every few seconds"), "{limit}: {said}");
    }
}

/// Runs `decklog watch` with a home and a `systemctl` of its own, which writes down its calls.
fn with_systemd(home: &Path, arguments: &[&str]) -> Output {
    let log = home.join("my log");
    decklog(&log)
        .arg("watch")
        .args(arguments)
        .env("HOME", home)
        .env("PATH", home.join("bin"))
        .env("CODEX_HOME", "/opt/codex \"home\"")
        .env_remove("CLAUDE_CONFIG_DIR")
        .env_remove("XDG_CONFIG_HOME")
        .env_remove("DECKLOG_USER_ID_KEY")
        .output()
        .unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn the_service_is_installed_started_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path();
    let unit = home.join(".config/systemd/user/decklog-watch.service");
    // Without systemd, the unit is written, and the commands are shown.
    let output = with_systemd(home, &["--install", "/srv/agents"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("Run these commands:"), "{text}");
    assert!(text.contains("systemctl --user enable --now decklog-watch.service"));
    let written = fs::read_to_string(&unit).unwrap();
    let command = format!(
        "ExecStart=\"{}\" \"watch\" \"--quiet\" \"--store\" \"{}\" \"--\" \"/srv/agents\"\n",
        env!("CARGO_BIN_EXE_decklog"),
        home.join("my log").display()
    );
    assert!(written.contains(&command), "{written}");
    assert!(written.contains("Environment=\"CODEX_HOME=/opt/codex \\\"home\\\"\"\n"));

    let calls = home.join("calls");
    fs::create_dir(home.join("bin")).unwrap();
    let systemctl = home.join("bin/systemctl");
    let script = format!("#!/bin/sh\necho \"$*\" >> '{}'\n", calls.display());
    fs::write(&systemctl, script).unwrap();
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
    // The same unit again: a service that runs is left alone.
    let output = with_systemd(home, &["--install", "/srv/agents"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("starts at every login"), "{text}");
    let called = fs::read_to_string(&calls).unwrap();
    let started = "--user daemon-reload\n--user enable --now decklog-watch.service\n";
    assert_eq!(called, started);
    // Another one: it is started anew.
    let output = with_systemd(home, &["--install", "--expire"]);
    assert!(output.status.success());
    let called = fs::read_to_string(&calls).unwrap();
    let restarted = format!("{started}{started}--user restart decklog-watch.service\n");
    assert_eq!(called, restarted);
    assert!(
        fs::read_to_string(&unit)
            .unwrap()
            .contains("\"--expire\"\n")
    );

    let output = with_systemd(home, &["--uninstall"]);
    assert!(output.status.success() && !unit.exists());
    let called = fs::read_to_string(&calls).unwrap();
    let stopped = "--user disable --now decklog-watch.service\n--user daemon-reload\n";
    assert_eq!(called, format!("{restarted}{stopped}"));
    let output = with_systemd(home, &["--uninstall"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "the watcher is not installed\n");
    // Nothing was imported, and no log was made.
    assert!(!home.join("my log").exists());
}
