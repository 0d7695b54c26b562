//! A client of `decklog mcp` that implements only JSON-RPC, so that tests see the raw messages.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Kid;

/// Timeout for an answer, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The last protocol that starts with `initialize`.
pub const LEGACY: &str = "2025-11-25";
/// The first one that does not.
pub const MODERN: &str = "2026-07-28";

pub struct Client {
    pub kid: Kid,
    input: Option<ChildStdin>,
    /// Every line from the server. Each must be JSON.
    output: Receiver<Value>,
    next_id: u64,
    /// Metadata for every request.
    meta: Option<Value>,
    /// Messages read while waiting for another one.
    unread: VecDeque<Value>,
}

impl Client {
    /// A server of this store, before any message. By default it offers all tools.
    pub fn start(store: &Path, args: &[&str]) -> Client {
        let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
        command.arg("mcp").arg("--store").arg(store).args(args);
        if !args.contains(&"--tools") {
            command.args(["--tools", "all"]);
        }
        Client::of(command)
    }

    /// A server started by this command.
    pub fn of(mut command: Command) -> Client {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut kid = Kid(command.spawn().unwrap());
        let input = kid.0.stdin.take();
        let lines = BufReader::new(kid.0.stdout.take().unwrap()).lines();
        let (out, output) = channel();
        std::thread::spawn(move || {
            for line in lines {
                let line = line.unwrap();
                let message = serde_json::from_str(&line);
                let message = message.unwrap_or_else(|e| panic!("{e}: {line}"));
                if out.send(message).is_err() {
                    return;
                }
            }
        });
        Client {
            kid,
            input,
            output,
            next_id: 0,
            meta: None,
            unread: VecDeque::new(),
        }
    }

    /// An initialized client, for protocols up to 2025-11-25.
    pub fn legacy(store: &Path) -> Client {
        let mut client = Client::start(store, &[]);
        client.greet();
        client
    }

    /// A client of protocol 2026-07-28, whose requests identify the client.
    pub fn modern(store: &Path) -> Client {
        let mut client = Client::start(store, &[]);
        client.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
        client
    }

    /// Initializes the session; returns the server's description.
    pub fn greet(&mut self) -> Value {
        let who = json!({
            "protocolVersion": LEGACY,
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let server = self.ask("initialize", who);
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    pub fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Sends a request without waiting for the answer; returns its id.
    pub fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        self.next_id += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        let id = self.next_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// The whole answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        self.wait(PATIENCE, |message| {
            message["id"] == id && message.get("method").is_none()
        })
        .unwrap_or_else(|| panic!("no answer to request {id}"))
    }

    /// The result of a request, which must succeed.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The error of a request, which must fail.
    pub fn refused(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let mut answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].take()
    }

    /// The structured answer of a tool.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let given = json!({ "name": tool, "arguments": arguments });
        self.ask("tools/call", given)["structuredContent"].take()
    }

    /// The next notification of a method within this time.
    pub fn notified(&mut self, method: &str, within: Duration) -> Option<Value> {
        self.wait(within, |message| {
            message["method"] == method && message.get("id").is_none()
        })
    }

    /// The first matching message, read already or not.
    pub fn wait(&mut self, within: Duration, is_it: impl Fn(&Value) -> bool) -> Option<Value> {
        if let Some(place) = self.unread.iter().position(&is_it) {
            return self.unread.remove(place);
        }
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(message) if is_it(&message) => return Some(message),
                Ok(message) => self.unread.push_back(message),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => panic!("the server is gone"),
            }
        }
    }

    /// Closes its input. The server must end successfully, and its output must have been messages
    /// only.
    pub fn end(mut self) {
        self.input = None;
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.kid.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the server does not end");
    }
}
