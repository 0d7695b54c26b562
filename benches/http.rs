//! Requests a second of the service, beside an axum handler that does nothing with what it parses,
//! and one that answers a constant of the same size. `wrk` drives each in turn, over loopback, with
//! 64 connections; medians of the rounds.
//!
//! `cargo bench --bench http` (Debian: `apt-get install wrk`), with `DECKLOG_BENCH_ROUNDS` and
//! `DECKLOG_BENCH_SECONDS` for longer runs.

// A bench says what went wrong by stopping there.
#![allow(clippy::expect_used)]

mod scratch;
mod tiny;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;

use axum::Router;
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::routing::{get, post};
use decklog::http::{Options, Server, Stop};
use decklog::{Client, Conversation, ConversationMessage, Role, Store};
use serde::Deserialize;
use uuid::Uuid;

use scratch::{count, in_scratch_dir};

const CONVERSATIONS: usize = 64;

/// Requests a second of one side.
type Measure<'a> = Box<dyn Fn() -> f64 + 'a>;

fn main() {
    if Command::new("wrk").arg("--version").output().is_err() {
        println!("wrk is not installed: nothing is measured");
        return;
    }
    in_scratch_dir("http", measure);
}

fn measure(dir: &Path) {
    let store = Store::open(dir.join("log")).expect("a store");
    let ids: Vec<Uuid> = (0..CONVERSATIONS).map(|_| Uuid::new_v4()).collect();
    for id in &ids {
        let conversation = Conversation::new(*id, Client::Api);
        store.record(conversation).expect("recorded");
    }
    let read = read_conversation(&store);
    let (served, stop, thread) = serve(store);
    let whole = answer_of(served, &format!("/conversations/{read}"));
    println!("a conversation of 20 messages: {} bytes", whole.len());
    let bare = bare(whole);

    let script = dir.join("post.lua");
    std::fs::write(&script, post_script(&ids)).expect("a script");
    let post = |addr: SocketAddr, wait: &str| {
        wrk(
            &["-s", &script.to_string_lossy()],
            &format!("http://{addr}/?{wait}"),
        )
    };
    let rounds = count("DECKLOG_BENCH_ROUNDS", tiny::size(3, 1));
    let rows: [(&str, Measure<'_>, Measure<'_>); 3] = [
        (
            "POST a message of 1 KB",
            Box::new(|| post(served, "")),
            Box::new(|| post(bare, "")),
        ),
        (
            "POST, ?wait=disk",
            Box::new(|| post(served, "wait=disk")),
            Box::new(|| post(bare, "wait=disk")),
        ),
        (
            "GET 20 messages of 1 KB",
            Box::new(|| wrk(&[], &format!("http://{served}/conversations/{read}"))),
            Box::new(|| wrk(&[], &format!("http://{bare}/constant"))),
        ),
    ];
    println!(
        "{:<28} {:>12} {:>12} {:>8}",
        "requests a second", "decklog", "bare axum", "ratio"
    );
    for (name, ours, theirs) in rows {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            a.push(ours());
            b.push(theirs());
        }
        let (a, b) = (median(a), median(b));
        println!("{name:<28} {a:>12.0} {b:>12.0} {:>8.2}", a / b);
    }
    stop.stop();
    thread.join().expect("the server ends");
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn read_conversation(store: &Store) -> Uuid {
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    store.record(conversation).expect("recorded");
    for n in 0..20 {
        let role = if n % 2 == 0 {
            Role::User
        } else {
            Role::Assistant
        };
        let message = ConversationMessage::new(id, role, text());
        store.record(message).expect("recorded");
    }
    id
}

/// A thousand bytes of prose.
fn text() -> String {
    "The quick brown fox jumps over the lazy dog, again and again. ".repeat(17)[..1_000].to_owned()
}

fn serve(store: Store) -> (SocketAddr, Stop, JoinHandle<()>) {
    let any = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(store, any, &Options::default()).expect("a port");
    let (addr, stop) = (server.local_addr(), server.stop_handle());
    (
        addr,
        stop,
        std::thread::spawn(move || server.run().expect("served")),
    )
}

/// What the service reads of a message, and nothing is done with.
#[derive(Deserialize)]
#[allow(dead_code)]
struct Message {
    role: String,
    content: String,
    model_used: Option<String>,
    tokens_in: Option<i64>,
    tokens_out: Option<i64>,
    latency_ms: Option<i64>,
}

/// The handlers to compare with.
fn bare(constant: Bytes) -> SocketAddr {
    let parse = |axum::Json(message): axum::Json<Message>| async move {
        drop(message);
        (
            [(CONTENT_TYPE, "application/json")],
            r#"{"status":"dropped"}"#,
        )
    };
    let answer = || async move { ([(CONTENT_TYPE, "application/json")], constant) };
    let router = Router::new()
        .route("/conversations/{id}/messages", post(parse))
        .route("/constant", get(answer));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
                .await
                .expect("a port");
            tell.send(listener.local_addr().expect("an address"))
                .expect("told");
            axum::serve(listener, router).await.expect("served");
        });
    });
    told.recv().expect("it listens")
}

fn answer_of(addr: SocketAddr, path: &str) -> Bytes {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(addr).expect("connected");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let head = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a head");
    Bytes::from(answer).slice(head + 4..)
}

/// Posts to each of the conversations in turn.
fn post_script(ids: &[Uuid]) -> String {
    let body = serde_json::json!({
        "role": "assistant", "content": text(), "model_used": "small-1",
        "tokens_in": 1200, "tokens_out": 256, "latency_ms": 850,
    });
    let paths: Vec<String> = ids
        .iter()
        .map(|id| format!("\"/conversations/{id}/messages\""))
        .collect();
    format!(
        r#"
local paths = {{ {} }}
local body = [==[{body}]==]
local headers = {{ ["Content-Type"] = "application/json" }}
local requests = {{}}
local at = 0
init = function(args)
    local query = wrk.path:match("%?(.+)$")
    for i, path in ipairs(paths) do
        requests[i] = wrk.format("POST", query and path .. "?" .. query or path, headers, body)
    end
end
request = function()
    at = at % #requests + 1
    return requests[at]
end
"#,
        paths.join(", ")
    )
}

/// Requests a second, of which none may fail.
fn wrk(more: &[&str], url: &str) -> f64 {
    let seconds = count("DECKLOG_BENCH_SECONDS", tiny::size(3, 1)).to_string();
    let run = Command::new("wrk")
        .args(["-t", "1", "-c", "64", "-d", &seconds])
        .args(more)
        .arg(url)
        .output()
        .expect("wrk runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(!said.contains("Non-2xx"), "{said}");
    let line = said
        .lines()
        .find_map(|line| line.trim().strip_prefix("Requests/sec:"));
    line.and_then(|number| number.trim().parse().ok())
        .unwrap_or_else(|| panic!("{said}"))
}
