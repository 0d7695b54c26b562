//! A server whose store cannot be written any more, as on a full disk, goes on once it can.

use std::process::Command;
use std::time::{Duration, Instant};

use decklog::Store;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::process::Process;

#[test]
fn a_store_that_failed_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut command = Command::new("sh");
    // Files of 100 KiB at the most; what is past that is an error, and does not end the process.
    command
        .args(["-c", "trap '' XFSZ; ulimit -S -f 200; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_decklog"));
    let server = Process::start_by(command, &path, 0);
    let client = server.client();
    let begun = client.post("/conversations", &json!({"client": "api"}));
    let id = begun.expect(201)["id"].as_str().unwrap().to_owned();
    let messages = format!("/conversations/{id}/messages");
    let text = "long ".repeat(2_000);
    let post = |key: &str| {
        let body = json!({"role": "user", "content": text}).to_string();
        let client = client.with("Idempotency-Key", key);
        let client = client.with("Content-Type", "application/json");
        let head = client.head("POST", &messages, body.as_bytes());
        client.try_send(&[head.as_bytes(), body.as_bytes()].concat())
    };
    let mut acknowledged = 0;
    let failed = loop {
        let answer = post(&acknowledged.to_string()).unwrap();
        if answer.status != 201 {
            break answer;
        }
        acknowledged += 1;
    };
    failed.expect_problem(500, "io", None);
    assert!(acknowledged > 3, "{acknowledged}");

    let pid = i32::try_from(server.kid.0.id()).unwrap();
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(Pid::from_raw(pid), Resource::Fsize, unlimited).unwrap();
    let started = Instant::now();
    // Also while it is opened, when no one listens.
    while !post("again").is_ok_and(|answer| answer.status == 201 || answer.status == 200) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it stays as it is"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    server.end();
    let store = Store::options().read_only(true).open(&path).unwrap();
    let id = id.parse().unwrap();
    let (_, stats) = store.get_conversation(id).unwrap().unwrap();
    assert_eq!(stats.message_count, acknowledged + 1);
}
