//! `/mcp`, tested line by line: sessions as before protocol 2026-07-28, requests without sessions
//! as since then, and authorization.

mod asked;
mod long;
mod reach;
mod sessions;
mod slow;
mod who;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use super::Service;
use super::client::{Answer, Client};

const ACCEPT: &str = "application/json, text/event-stream";
const LEGACY: &str = "2025-11-25";
const STATELESS: &str = "2026-07-28";

/// The messages of a complete answer, JSON or an event stream.
fn messages(answer: &Answer) -> Vec<Value> {
    if answer.header("content-type") == Some("application/json") {
        return vec![answer.value()];
    }
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    let text = dechunked(&answer.body);
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    let data = data.map(str::trim).filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

fn dechunked(mut body: &[u8]) -> String {
    let mut text = Vec::new();
    loop {
        let end = body.windows(2).position(|two| two == b"\r\n").unwrap();
        let size = std::str::from_utf8(&body[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let chunk = &body[end + 2..];
        if size == 0 {
            return String::from_utf8(text).unwrap();
        }
        text.extend_from_slice(&chunk[..size]);
        body = &chunk[size + 2..];
    }
}

fn speaking(client: &Client) -> Client {
    client.with("Accept", ACCEPT)
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": LEGACY, "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn thought(content: &str) -> Value {
    let arguments = json!({
        "type": "plan", "task_id": "t", "agent_id": "a", "content": content,
    });
    call(1, "thought_record", arguments)
}

fn begun(client: &Client) -> Answer {
    speaking(client).post("/mcp", &initialize())
}

/// A client with a session.
fn session(client: &Client) -> Client {
    let answer = begun(client);
    assert_eq!(answer.status, 200, "{}", answer.text());
    let id = answer.header("mcp-session-id").unwrap();
    let client = speaking(client)
        .with("Mcp-Session-Id", id)
        .with("MCP-Protocol-Version", LEGACY);
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(client.post("/mcp", &ready).status, 202);
    client
}

/// The answer of a tool.
fn called(client: &Client, call: &Value) -> Value {
    let answer = client.post("/mcp", call);
    assert_eq!(
        answer.status,
        200,
        "{}",
        String::from_utf8_lossy(&answer.body)
    );
    let last = messages(&answer).pop().unwrap();
    assert_eq!(last["id"], call["id"], "{last}");
    last["result"]["structuredContent"].clone()
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request of a client without a session, as since 2026-07-28.
fn stateless(client: &Client, request: &Value) -> Answer {
    let mut request = request.clone();
    request["params"]["_meta"] = meta();
    let method = request["method"].as_str().unwrap();
    let mut client = speaking(client)
        .with("MCP-Protocol-Version", STATELESS)
        .with("Mcp-Method", method);
    if let Some(name) = request["params"]["name"].as_str() {
        client = client.with("Mcp-Name", name);
    }
    client.post("/mcp", &request)
}

/// An open stream, positioned after its head.
struct Open(BufReader<TcpStream>);

impl Open {
    fn get(client: &Client) -> Open {
        let client = client.with("Connection", "keep-alive");
        Open::ask(&client, &client.head("GET", "/mcp", b""))
    }

    fn ask(client: &Client, request: &str) -> Open {
        let mut stream = client.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        assert!(line.starts_with("HTTP/1.1 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).unwrap();
        }
        Open(stream)
    }

    /// Reads up to a line that contains this text.
    fn until(&mut self, text: &str) {
        let mut line = String::new();
        while !line.contains(text) {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "no {text}");
        }
    }

    /// Reads to the end.
    fn rest(mut self) -> String {
        let mut rest = Vec::new();
        let _ = self.0.read_to_end(&mut rest);
        String::from_utf8(rest).unwrap()
    }
}
