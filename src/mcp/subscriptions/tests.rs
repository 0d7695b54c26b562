use std::time::Instant;

use rmcp::service::serve_server;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::io::{Lines, ReadHalf, WriteHalf};

use super::super::uri::Subject;
use super::changes::URIS_MAX;
use super::*;
use crate::mcp::Tools;
use crate::wire::feed::Feed;

/// A connection to a server in this process.
struct Wire {
    out: WriteHalf<DuplexStream>,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
}

impl Wire {
    async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        self.out.write_all(line.as_bytes()).await.unwrap();
    }

    /// The next message that has a member with this value.
    async fn next(&mut self, member: &str, value: Value) -> Value {
        loop {
            let line = self.lines.next_line().await.unwrap().expect("a message");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message[member] == value {
                return message;
            }
        }
    }
}

fn connect(feed: &Arc<Feed>, store: &Store, tools: Tools) -> (Wire, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let server =
        crate::mcp::Server::sharing(store.clone(), store.analytics(), Arc::clone(feed), tools);
    let serving = tokio::spawn(async move {
        let serving = serve_server(server, tokio::io::split(far)).await;
        let _ = serving.unwrap().waiting().await;
    });
    let (read, out) = tokio::io::split(near);
    let lines = BufReader::new(read).lines();
    (Wire { out, lines }, serving)
}

async fn until(feed: &Feed, streams: usize) {
    let begun = Instant::now();
    while feed.streams() != streams {
        let is_long = begun.elapsed() > Duration::from_secs(20);
        assert!(!is_long, "{} streams are left", feed.streams());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn legacy(feed: &Arc<Feed>, store: &Store) {
    let (mut wire, serving) = connect(feed, store, Tools::all());
    wire.send(
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "t", "version": "1" } } }),
    )
    .await;
    wire.next("id", json!(0)).await;
    let ask = |id: u64, verb: &str, uri: &str| json!({ "jsonrpc": "2.0", "id": id, "method": format!("resources/{verb}"), "params": { "uri": uri } });
    let uris = ["decklog://thoughts/a", "decklog://events/1/tree"];
    for (id, uri) in (1..).zip(uris) {
        wire.send(ask(id, "subscribe", uri)).await;
        wire.next("id", json!(id)).await;
    }
    until(feed, 1).await;
    for (id, uri) in (3..).zip(uris) {
        wire.send(ask(id, "unsubscribe", uri)).await;
        wire.next("id", json!(id)).await;
    }
    until(feed, 0).await;
    wire.send(ask(5, "subscribe", uris[0])).await;
    wire.next("id", json!(5)).await;
    until(feed, 1).await;
    // The client disconnects without unsubscribing.
    drop(wire);
    serving.await.unwrap();
    until(feed, 0).await;
}

async fn modern(feed: &Arc<Feed>, store: &Store) {
    // No notifications are sent for records that no offered tool reads.
    let tools = Tools::all().only(["thought_record_get"]).unwrap();
    let (mut wire, serving) = connect(feed, store, tools);
    let uris = ["decklog://thoughts/a", "decklog://events/1/tree", "no uri"];
    wire.send(
        json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
        "notifications": { "resourceSubscriptions": uris },
        "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {} } } }),
    )
    .await;
    let method = "notifications/subscriptions/acknowledged";
    let told = wire.next("method", json!(method)).await;
    let accepted = &told["params"]["notifications"]["resourceSubscriptions"];
    assert_eq!(*accepted, json!(["decklog://thoughts/a"]));
    until(feed, 1).await;
    wire.send(
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": { "requestId": 1 } }),
    )
    .await;
    until(feed, 0).await;
    drop(wire);
    serving.await.unwrap();
}

#[test]
fn nothing_is_left_of_a_connection_that_ended() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let feed = Arc::new(Feed::new(store.clone(), 2));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        legacy(&feed, &store).await;
        modern(&feed, &store).await;
    });
    // The watching thread has ended too. It would have kept the runtime alive.
    assert_eq!(Arc::strong_count(&feed), 1);
}

#[test]
fn what_is_wanted_is_bounded() {
    let mut wanted = Wanted::default();
    let uri = |n: usize| format!("decklog://events/{n}/tree");
    for n in 0..URIS_MAX {
        wanted.add(&uri(n)).unwrap();
    }
    wanted.add(&uri(7)).unwrap();
    assert!(wanted.add(&uri(URIS_MAX)).is_err());
    // Another spelling of the same resource counts towards the limit.
    assert!(wanted.add("decklog://events/%37/tree").is_err());
    wanted.remove(&uri(7)).unwrap();
    wanted.remove(&uri(7)).unwrap();
    wanted.add("decklog://events/%37/tree").unwrap();
    assert!(
        wanted
            .0
            .contains(&(Subject::Tree(7), "decklog://events/%37/tree".to_owned()))
    );
    assert!(wanted.add("decklog://events/x/tree").is_err());
}
