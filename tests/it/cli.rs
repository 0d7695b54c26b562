//! The binary, as used by people and scripts.

mod chains;
mod config;
mod conversations;
#[cfg(feature = "prices")]
mod cost;
mod damage;
mod demo;
mod doctor;
mod du;
mod events;
mod export;
mod given;
mod hostile;
mod import;
mod kinds;
mod lines;
mod lists;
mod open;
mod output;
#[cfg(all(target_os = "linux", feature = "top"))]
mod pager;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(all(target_os = "linux", feature = "top"))]
mod pty;
mod record;
mod rollups;
mod round_trip;
mod schema;
mod search;
mod shells;
mod snapshots;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sql")]
mod sql_views;
#[cfg(feature = "sql")]
mod sqlite;
mod stats;
mod today;
#[cfg(feature = "http")]
mod token;
#[cfg(all(target_os = "linux", feature = "top"))]
mod top;
mod upkeep;
mod work;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const OK: i32 = 0;
const FINDINGS: i32 = 1;
const USAGE: i32 = 2;
const STORE: i32 = 3;
const LOCKED: i32 = 4;

/// Enough for the slowest machine. It only elapses if a test fails.
const PATIENCE: Duration = Duration::from_secs(30);

struct Log {
    dir: TempDir,
    /// The key of user ids is in this log's own home directory, even if cargo's environment names
    /// another one.
    has_own_key: bool,
}

impl Log {
    fn new() -> Log {
        Log {
            dir: tempfile::tempdir().unwrap(),
            has_own_key: false,
        }
    }

    /// A log that stores user ids unhashed.
    fn with_plain_users() -> Log {
        let log = Log::new();
        log.ok(&["config", "set", "privacy.hash_user_id", "false"]);
        log
    }

    /// A log without retention.
    fn keeping_all() -> Log {
        let log = Log::new();
        log.ok(&["config", "set", "privacy.auto_delete", "false"]);
        log
    }

    fn imported() -> Log {
        let log = Log::keeping_all();
        log.ok(&["import", samples().to_str().unwrap()]);
        log
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = decklog(args);
        // Files outside the store go there too.
        for home in ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(home, self.dir.path().join("home"));
        }
        command.env("DECKLOG_STORE", self.path());
        if self.has_own_key {
            command.env_remove("DECKLOG_USER_ID_KEY");
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    fn run_with(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = spawn(&mut self.command(args));
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap()
    }

    /// Runs a command that must succeed and print nothing on standard error.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(
            (code(&output), err(&output)),
            (OK, String::new()),
            "{args:?}"
        );
        out(&output)
    }

    /// Records lines, all of which must be accepted.
    fn record(&self, lines: &[String]) {
        let output = self.run_with(&["record"], lines.join("\n").as_bytes());
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
    }

    fn column(&self, args: &[&str], name: &str) -> Vec<Value> {
        let records = self.json(args).into_iter();
        records.map(|record| record[name].clone()).collect()
    }

    /// Reads a list in parts, each continued as the one before it says.
    fn in_parts(&self, args: &[&str], limit: &str) -> Vec<Value> {
        let (mut found, mut options) = (Vec::new(), Vec::new());
        loop {
            let args = args.iter().copied().chain(["--json", "--limit", limit]);
            let args: Vec<&str> = args.chain(options.iter().map(String::as_str)).collect();
            let output = self.run(&args);
            let part = objects(&out(&output));
            assert!(part.len() <= limit.parse().unwrap());
            found.extend(part);
            let told = err(&output);
            let Some((_, rest)) = told.split_once("continue with ") else {
                assert_eq!(told, "");
                return found;
            };
            let (given, _) = rest.split_once(',').unwrap();
            options = given.split(' ').map(str::to_owned).collect();
        }
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        objects(&self.ok(&args))
    }
}

fn decklog(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command.args(args).env_remove("DECKLOG_STORE");
    command
}

fn spawn(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn objects(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn id(n: u32) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

fn turn(n: u32, at: i64, content: &str) -> String {
    let (id, content) = (id(n), Value::from(content));
    format!(
        r#"{{"kind":"conversation_turns","turn_kind":"user","id":"{id}","message_id":"{id}","created_at":{at},"content":{content}}}"#
    )
}

fn request(n: u32, at: i64, tool: &str, arguments: &str) -> String {
    let (id, tool) = (id(n), Value::from(tool));
    format!(
        r#"{{"kind":"tool_calls","op":"requested","request_id":"{id}","call_id":"call_{n}","parent_id":"{id}","vendor":"test","tool_name":{tool},"started_at":{at},"arguments_json":{arguments}}}"#
    )
}

fn failed(n: u32, at: i64, msg: &str) -> String {
    let (id, msg) = (id(n), Value::from(msg));
    format!(
        r#"{{"kind":"tool_calls","op":"failed","request_id":"{id}","call_id":"call_{n}","ended_at":{at},"latency_ms":5,"error_kind":"timeout","error_msg":{msg}}}"#
    )
}

fn conversation(n: u32) -> String {
    let id = id(n);
    format!(
        r#"{{"kind":"conversations","id":"{id}","client":"cli","created_at":"2025-12-27T08:00:00Z"}}"#
    )
}

fn message(n: u32, conversation: u32, content: &str) -> String {
    let (id, conversation, content) = (id(n), id(conversation), Value::from(content));
    format!(
        r#"{{"kind":"messages","id":"{id}","conversation_id":"{conversation}","role":"user","timestamp":"2025-12-27T08:00:01Z","content":{content}}}"#
    )
}

fn event(parent: Option<i64>, event_type: &str, at: i64) -> String {
    let parent = parent.map_or(String::new(), |id| format!(r#","parent_id":{id}"#));
    format!(r#"{{"kind":"events","event_type":"{event_type}","created_at":{at}{parent}}}"#)
}

fn thought(task: &str, content: &str) -> String {
    let (task, content) = (Value::from(task), Value::from(content));
    format!(
        r#"{{"kind":"thought_records","task_id":{task},"agent_id":"a","type":"plan","timestamp":"2025-12-27T08:00:00Z","content":{content}}}"#
    )
}

/// Reads lines in a thread, so that a missing line fails the test instead of hanging it.
fn lines_of(from: impl Read + Send + 'static) -> impl Fn() -> String {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            if line.is_err() || sender.send(line.unwrap()).is_err() {
                return;
            }
        }
    });
    move || lines.recv_timeout(PATIENCE).unwrap()
}
