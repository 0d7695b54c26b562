//! Long operations: streams, and calls whose clients disconnect or whose server stops.

use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use decklog::http::Options;
use serde_json::{Value, json};

use super::slow::{Slow, slow_call};
use super::{Client, Open, STATELESS, call, dechunked, meta, session, speaking, stateless};

/// A call whose answer is read as it arrives.
pub(super) fn open_call(client: &Client, call: &Value) -> Open {
    let client = client
        .with("Connection", "keep-alive")
        .with("Content-Type", "application/json");
    let body = call.to_string();
    let head = client.head("POST", "/mcp", body.as_bytes());
    Open::ask(&client, &(head + &body))
}

/// A request for change notifications by a client without a session.
fn open_listen(client: &Client) -> Open {
    let params = json!({"_meta": meta(), "notifications": {"toolsListChanged": true}});
    let listen = json!({
        "jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params,
    });
    let client = speaking(client)
        .with("MCP-Protocol-Version", STATELESS)
        .with("Mcp-Method", "subscriptions/listen");
    open_call(&client, &listen)
}

#[test]
fn open_streams_do_not_keep_the_server_from_ending() {
    let slow = Slow::default();
    let mut options = Options::default();
    options.shutdown_timeout = Duration::from_secs(20);
    let mut service = slow.service(&options);
    let client = session(&service.client());
    let quiet = Open::get(&client);
    let busy = open_call(&client, &slow_call(1_000));
    let mut listens = open_listen(&service.client());
    listens.until("subscriptions/acknowledged");
    slow.wait();
    let started = Instant::now();
    service.end();
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    // Running calls were answered.
    assert!(busy.rest().contains("waited"));
    quiet.rest();
    listens.rest();

    let slow = Slow::default();
    options.shutdown_timeout = Duration::from_secs(1);
    let mut service = slow.service(&options);
    let client = session(&service.client());
    let busy = open_call(&client, &slow_call(60_000));
    slow.wait();
    let started = Instant::now();
    service.end();
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    assert!(!busy.rest().contains("waited"));
}

#[test]
fn another_handler_is_cancelled_when_its_client_goes() {
    let slow = Slow::default();
    let service = slow.service(&Options::default());
    let offer = json!({"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {}});
    let offer = stateless(&service.client(), &offer).expect(200);
    let tools = &offer["result"]["capabilities"]["tools"];
    assert_eq!(tools["listChanged"], true, "{offer}");
    let mut request = call(9, "wait", json!({"ms": 60_000}));
    request["params"]["_meta"] = meta();
    let client = speaking(&service.client())
        .with("MCP-Protocol-Version", STATELESS)
        .with("Mcp-Method", "tools/call")
        .with("Mcp-Name", "wait")
        .with("Content-Type", "application/json");
    let body = request.to_string();
    let mut stream = client.connect();
    let head = client.head("POST", "/mcp", body.as_bytes());
    stream.write_all((head + &body).as_bytes()).unwrap();
    slow.wait();
    drop(stream);
    while slow.cancelled.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn two_requests_of_a_session_with_one_id_are_told_apart() {
    let slow = Slow::default();
    let service = slow.service(&Options::default());
    let client = session(&service.client());
    let first = open_call(&client, &slow_call(1_500));
    slow.wait();
    let answer = client.post("/mcp", &slow_call(0)).expect(400);
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(first.rest().contains("waited"));
    let again = client.post("/mcp", &slow_call(0));
    assert!(dechunked(&again.body).contains("waited"));
    // Also if the first client does not wait for the answer.
    drop(open_call(&client, &slow_call(1_500)));
    client.post("/mcp", &slow_call(0)).expect(400);
    while client.post("/mcp", &slow_call(0)).status != 200 {
        std::thread::sleep(Duration::from_millis(50));
    }
}
