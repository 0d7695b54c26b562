//! A server whose log became unwritable, for instance on a full disk, continues once it can write
//! again.

use std::fs::File;
use std::process::{Command, Stdio};

use decklog::Store;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::client::Client;

#[test]
fn a_log_that_failed_is_opened_anew() {
    log_that_fails(Stdio::inherit());
}

#[test]
fn a_log_that_failed_is_opened_anew_where_its_messages_cannot_be_written() {
    log_that_fails(File::create("/dev/full").unwrap().into());
}

fn log_that_fails(messages: Stdio) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut command = Command::new("sh");
    // Files may have at most 100 KiB. Longer writes are an error, and do not kill the process.
    command
        .args(["-c", "trap '' XFSZ; ulimit -S -f 200; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_decklog"))
        .args(["mcp", "--store"])
        .arg(&path)
        .stderr(messages);
    let mut client = Client::of(command);
    client.greet();
    let text = "long ".repeat(2_000);
    let mut record = || {
        let thought = json!({ "type": "plan", "task_id": "t", "agent_id": "a", "content": text });
        client.call("thought_record", thought)
    };
    let mut acknowledged = 0;
    let failed = loop {
        let answer = record();
        if answer["ok"] == false {
            break answer;
        }
        acknowledged += 1;
    };
    assert_eq!(failed["error"]["code"], "IO", "{failed}");
    assert!(acknowledged > 3, "{acknowledged}");
    // Still full: every call reports it, and reads work.
    assert_eq!(record()["ok"], false);
    let limits = Rlimit {
        current: None,
        maximum: None,
    };
    let pid = i32::try_from(client.kid.0.id()).unwrap();
    prlimit(Pid::from_raw(pid), Resource::Fsize, limits).unwrap();
    // The first call may be the one that finds the log failed.
    let again = (0..3).find(|_| {
        let thought =
            json!({ "type": "plan", "task_id": "t", "agent_id": "a", "content": "again" });
        client.call("thought_record", thought)["ok"] == true
    });
    assert!(again.is_some());
    let check = client.call("audit_verify_chain", json!({ "task_id": "t" }));
    // The written part of the failed record stays in the file, and is reported.
    assert!(check["data"].get("broken").is_none(), "{check}");
    assert_eq!(check["data"]["records"], acknowledged + 1);
    client.end();
    let store = Store::open(&path).unwrap();
    let records = store.thoughts().list(Some("t"), None).unwrap();
    assert_eq!(records.len(), acknowledged + 1);
    assert!(store.damage().unwrap().len() <= 1);
}
