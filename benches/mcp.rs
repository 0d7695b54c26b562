//! What it costs to record a thought over MCP: beside a tool that does nothing, of the same server,
//! over the same pipes.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod tiny;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use decklog::Store;
use decklog::mcp::rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, ServerConfig,
};
use decklog::mcp::rmcp::service::RequestContext;
use decklog::mcp::rmcp::{RoleServer, ServerHandler};
use decklog::mcp::{Server, Tools, serve_stdio};
use serde_json::json;

const SERVE: &str = "--serve";

/// The server, with a tool more.
struct WithEmpty(Server);

impl ServerHandler for WithEmpty {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "empty" {
            return Ok(CallToolResult::structured(json!({ "ok": true, "data": {} })).into());
        }
        self.0.call_tool(request, context).await
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some(SERVE) {
        let path = args.next().expect("where the store is");
        let tools = Tools::all();
        let server = Server::new(Store::open(path).unwrap(), tools);
        serve_stdio(WithEmpty(server)).unwrap();
        return;
    }
    let calls = std::env::var("DECKLOG_BENCH_CALLS");
    let calls: usize = calls.map_or(tiny::size(5_000, 50), |calls| {
        calls.parse().expect("a number of calls")
    });
    let dir = tempfile::tempdir().unwrap();
    let mut server = Command::new(std::env::current_exe().unwrap())
        .arg(SERVE)
        .arg(dir.path().join("log"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = server.stdin.take().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    let mut ask = |message: serde_json::Value| -> Duration {
        let text = format!("{message}\n");
        line.clear();
        let started = Instant::now();
        input.write_all(text.as_bytes()).unwrap();
        output.read_line(&mut line).unwrap();
        let took = started.elapsed();
        assert!(!line.contains("\"error\""), "{line}");
        took
    };
    ask(
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": { "name": "bench", "version": "1" },
        }}),
    );
    let call = |id: usize, name: &str, content: &str| {
        let arguments =
            json!({ "type": "plan", "task_id": "t", "agent_id": "a", "content": content });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": name,
            "arguments": arguments,
        }})
    };
    let content = "Read the error first, then the code that it names. ".repeat(4);
    let (mut empty, mut thought) = (Vec::new(), Vec::new());
    for id in 1..=calls {
        empty.push(ask(call(2 * id, "empty", &content)));
        thought.push(ask(call(2 * id + 1, "thought_record", &content)));
    }
    let median = |took: &mut Vec<Duration>| {
        took.sort_unstable();
        took[took.len() / 2]
    };
    let (empty, thought) = (median(&mut empty), median(&mut thought));
    println!("{calls} calls each, one after the other, over stdio; medians");
    println!("empty tool      {empty:>10.1?}");
    println!(
        "thought_record  {thought:>10.1?}  {:.2} x",
        thought.as_secs_f64() / empty.as_secs_f64()
    );
    drop(input);
    server.wait().unwrap();
}
