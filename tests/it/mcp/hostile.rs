//! Clients that send invalid or too many messages, or disconnect in the middle.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use decklog::storage::Disk;
use decklog::{Store, verify};
use serde_json::{Value, json};

use super::client::{Client, LEGACY};
use crate::support::{Kid, Rng, count, still};

fn call(n: u64) -> Value {
    let arguments = json!({
        "type": "plan",
        "task_id": "t",
        "agent_id": "a",
        "content": format!("thought {n}"),
    });
    json!({ "name": "thought_record", "arguments": arguments })
}

fn assert_whole(path: &std::path::Path) {
    let store = still().open(path).unwrap();
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{found:?}");
    assert!(store.thoughts().verify_chain("t").unwrap().is_intact());
}

#[test]
fn garbage_is_passed_over_or_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::start(&path, &[]);
    let mut rng = Rng::seeded("garbage_is_passed_over_or_told");
    let noise: Vec<u8> = (0..5000)
        .map(|_| rng.next() as u8)
        .filter(|b| *b != b'\n')
        .collect();
    let garbage: [&[u8]; 12] = [
        b"hello\n",
        b"\n\n\r\n \n",
        b"{\n",
        b"}\n",
        b"\xff\xfe\x00\n",
        b"\x00\x00\x00\n",
        &noise,
        b"\n",
        b"[[[[[[[[[[[[[[[[[[[[\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":99,\"method\":\n",
        b"Content-Length: 5\r\n\r\nhello\n",
        b"\"text\"\n",
    ];
    for bytes in garbage {
        client.send_raw(bytes);
    }
    client.send_raw(&b"[".repeat(200_000));
    client.send_raw(b"\n");
    // It can be initialized as if nothing had happened.
    assert_eq!(client.greet()["serverInfo"]["name"], "decklog");
    for bytes in garbage {
        client.send_raw(bytes);
    }
    for (message, is_told) in [
        (
            json!({ "jsonrpc": "2.0", "id": 900, "method": "no/such" }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": 901, "method": "tools/call" }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": 902, "method": "tools/call", "params": { "name": 7 } }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": 903, "method": "tools/call", "params": { "name": "no_such_tool" } }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": 904, "method": "tools/call", "params": { "name": "thought_record", "arguments": [] } }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "method": "notifications/no_such" }),
            false,
        ),
        (json!({ "jsonrpc": "2.0", "id": 905, "result": {} }), false),
        (
            json!({ "jsonrpc": "1.0", "id": 906, "method": "ping" }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": null, "method": "ping" }),
            true,
        ),
        (
            json!({ "jsonrpc": "2.0", "id": {}, "method": "tools/list" }),
            true,
        ),
    ] {
        client.send(&message);
        if is_told {
            let id = &message["id"];
            let told = client.wait(Duration::from_secs(20), |it| {
                it.get("error").is_some() && (it["id"] == *id || it["id"].is_null())
            });
            assert!(told.is_some(), "{message}");
        }
    }
    let id = client.begin("tools/call", call(1));
    assert_eq!(client.answer(id)["result"]["structuredContent"]["ok"], true);
    client.end();
    assert_whole(&path);
}

/// A text cut in the middle of a character, as careless programs send it: the client gets an error
/// instead of waiting forever.
#[test]
fn a_request_that_does_not_read_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    for (id, params, code) in [
        (
            700,
            r#"{"name":"turn_record","arguments":{"kind":"user","content":"\ud83c x"}}"#,
            -32700,
        ),
        (
            701,
            r#"{"name":"event_log","arguments":{"event_type":"a.b","payload":1e400}}"#,
            -32700,
        ),
        (702, "{}", -32602),
        (703, r#"{"name":"event_log","arguments":[1]}"#, -32602),
        (704, r#""x""#, -32600),
    ] {
        let line = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{params}}}\n"
        );
        client.send_raw(line.as_bytes());
        let answer = client.answer(id);
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    client.end();
    assert_whole(&path);
}

/// Bug: such lines were ignored silently.
#[test]
fn what_has_no_id_that_can_be_is_answered_with_null() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let deep = "[".repeat(1_000_000);
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tools/list"}"#, -32600),
        (&deep, -32700),
        ("hello", -32700),
    ] {
        // A valid message without an id is a notification, and is not answered.
        client.send(&json!({ "jsonrpc": "2.0", "method": "ping" }));
        client.send_raw(format!("{line}\n").as_bytes());
        let answer = client.wait(Duration::from_secs(20), |it| it["id"].is_null());
        let answer = answer.unwrap_or_else(|| panic!("no answer to {line:.80}"));
        assert_eq!(answer["error"]["code"], code, "{answer}");
        let id = client.begin("ping", json!({}));
        assert!(client.answer(id).get("result").is_some());
        let more = client.wait(Duration::ZERO, |it| it["id"].is_null());
        assert!(more.is_none(), "{more:?}");
    }
    client.end();
}

#[test]
fn who_says_nothing_or_something_else_first_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Client::start(&path, &[]).end();
    let mut client = Client::start(&path, &[]);
    client.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,");
    client.end();
    assert_whole(&path);
}

#[test]
fn a_huge_message_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    // As long as a log line may be, plus the message around it.
    let mut long = call(1);
    long["arguments"]["content"] = "x".repeat(15 << 20).into();
    let id = client.begin("tools/call", long.clone());
    let answer = client.answer(id);
    let answer = &answer["result"]["structuredContent"];
    assert_eq!(answer["ok"], true);
    assert!(answer.to_string().len() < 64 << 10);
    assert_eq!(answer["truncated"][0]["length"], 15 << 20);
    // Longer than that.
    long["arguments"]["content"] = "x".repeat(20 << 20).into();
    let id = client.begin("tools/call", long);
    let answer = client.answer(id);
    let error = &answer["result"]["structuredContent"]["error"];
    assert_eq!(error["code"], "INVALID_PARAMS", "{error}");
    // Above the limit of a message: it is skipped.
    for _ in 0..40 {
        client.send_raw(&vec![b'x'; 1 << 20]);
    }
    client.send_raw(b"\n");
    let id = client.begin("tools/call", call(2));
    assert_eq!(client.answer(id)["result"]["structuredContent"]["ok"], true);
    client.end();
    assert_whole(&path);
}

#[test]
fn a_thousand_calls_in_flight_are_all_answered() {
    let calls = count("DECKLOG_MCP_CALLS", 1000);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    let ids: Vec<u64> = (0..calls)
        .map(|n| client.begin("tools/call", call(n)))
        .collect();
    for id in ids {
        let answer = client.answer(id);
        assert_eq!(
            answer["result"]["structuredContent"]["ok"], true,
            "{answer}"
        );
    }
    client.end();
    assert_whole(&path);
    let store = Store::open(&path).unwrap();
    assert_eq!(
        store.thoughts().list(Some("t"), None).unwrap().len() as u64,
        calls
    );
}

/// Bug: the server kept reading while no one read its answers, and held them all in memory.
#[test]
fn who_reads_no_answers_is_not_read() {
    const REQUESTS: usize = 1_500;
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    command
        .arg("mcp")
        .arg("--store")
        .arg(dir.path().join("log"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut kid = Kid(command.spawn().unwrap());
    let (mut input, output) = (kid.0.stdin.take().unwrap(), kid.0.stdout.take().unwrap());
    let line = |method: &str, id: &str, params: Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        format!("{request}\n")
    };
    let who = json!({
        "protocolVersion": LEGACY,
        "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    input
        .write_all(line("initialize", "greeting", who).as_bytes())
        .unwrap();
    // More than a pipe holds, so that the number of read requests can be measured.
    let id = |n: usize| format!("{n}-{}", "z".repeat(10_000));
    let sent = Arc::new(AtomicUsize::new(0));
    let sending = std::thread::spawn({
        let sent = Arc::clone(&sent);
        move || {
            for n in 0..REQUESTS {
                let method = if n % 2 == 0 { "tools/list" } else { "ping" };
                input
                    .write_all(line(method, &id(n), json!({})).as_bytes())
                    .unwrap();
                sent.store(n + 1, Ordering::Relaxed);
            }
        }
    });
    // Until it reads no more.
    let mut taken = 0;
    loop {
        std::thread::sleep(Duration::from_secs(2));
        let now = sent.load(Ordering::Relaxed);
        if now > 0 && now == taken {
            break;
        }
        taken = now;
    }
    assert!(taken < REQUESTS / 2, "{taken} requests were read");
    let mut answered: HashSet<String> = BufReader::new(output)
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(&line.unwrap()).unwrap();
            assert!(answer.get("result").is_some(), "{answer:.200}");
            answer["id"].as_str().unwrap().to_owned()
        })
        .collect();
    sending.join().unwrap();
    assert!(answered.remove("greeting"));
    assert_eq!(answered, (0..REQUESTS).map(id).collect());
    assert!(kid.0.wait().unwrap().success());
}

/// The number of streams is limited, and a cancelled stream makes room for another one.
#[test]
fn streams_are_bounded_and_keep_nothing_out() {
    const STREAMS: usize = 1_024;
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::modern(&dir.path().join("log"));
    let listen = json!({ "notifications": {} });
    let ids: Vec<u64> = (0..STREAMS)
        .map(|_| client.begin("subscriptions/listen", listen.clone()))
        .collect();
    let id = client.begin("subscriptions/listen", listen.clone());
    assert_eq!(client.answer(id)["error"]["code"], -32603);
    client.ask("tools/list", json!({}));
    let cancelled = json!({ "requestId": ids[7] });
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
    );
    client.ask("tools/list", json!({}));
    let id = client.begin("subscriptions/listen", listen);
    let refused = client.wait(Duration::from_millis(500), |it| it["id"] == id);
    assert!(refused.is_none(), "{refused:?}");
    client.end();
}

/// The client disappears during calls: it closes both ends, or is killed with the server.
#[test]
fn a_client_that_vanishes_leaves_a_whole_log() {
    let mut rng = Rng::seeded("a_client_that_vanishes_leaves_a_whole_log");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for round in 0..count("DECKLOG_MCP_VANISHES", 12) {
        let mut client = Client::legacy(&path);
        let ids: Vec<u64> = (0..200)
            .map(|n| client.begin("tools/call", call(n)))
            .collect();
        let answered = rng.below(ids.len());
        for id in &ids[..answered] {
            client.answer(*id);
        }
        if round % 2 == 0 {
            client.kid.0.kill().unwrap();
            client.kid.0.wait().unwrap();
        } else {
            // Closes its input; running calls are completed.
            client.end();
        }
        assert_whole(&path);
    }
}

#[test]
fn what_is_cancelled_is_not_answered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let text = "x".repeat(1 << 20);
    for _ in 0..60 {
        store
            .log_event(None, "test.said", Some(&format!("\"{text}\"")))
            .unwrap();
    }
    let mut client = Client::legacy(&path);
    let search = json!({ "name": "log_search", "arguments": { "text": "not there" } });
    let id = client.begin("tools/call", search);
    client.send(&json!({
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": { "requestId": id, "reason": "no more need" },
    }));
    let is_answered = client
        .wait(Duration::from_millis(1500), |it| it["id"] == id)
        .is_some();
    assert!(!is_answered);
    let id = client.begin("tools/call", call(1));
    assert_eq!(client.answer(id)["result"]["structuredContent"]["ok"], true);
    client.end();
}
