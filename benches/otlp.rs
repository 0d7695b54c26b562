//! Spans a second that `decklog serve` receives over OTLP, as a process of its own, beside bare
//! writes of the same bytes to a file, one per request; medians of interleaved rounds. A span has
//! 2 KB on average: runs of an agent with two requests to a model, a tool call and a span of
//! another library. All connections send protobuf in requests of 500 spans.
//!
//! `cargo bench --bench otlp`, with `DECKLOG_BENCH_ROUNDS` and `DECKLOG_BENCH_SPANS` for longer runs.

// A bench says what went wrong by stopping there.
#![allow(clippy::expect_used, clippy::cast_precision_loss)]

mod scratch;
mod tiny;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use scratch::{count, in_scratch_dir};

/// Traces of a request. Each has five spans.
const TRACES: usize = 100;
const SPANS: usize = 5 * TRACES;
const CONNECTIONS: usize = 4;
/// When the first span begins, in nanoseconds since 1970.
const START_NS: u64 = 1_790_000_000_000_000_000;
/// An odd number. Its multiples are distinct ids that differ in all bytes.
const ID_STEP: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
/// The time of the spans of a request.
const REQUEST_NS: u64 = 1_100_000_000;

fn main() {
    in_scratch_dir("otlp", measure);
}

fn measure(dir: &Path) {
    let rounds = count("DECKLOG_BENCH_ROUNDS", tiny::size(3, 1));
    let spans = count("DECKLOG_BENCH_SPANS", tiny::size(200_000, 2 * SPANS));
    let requests = spans.div_ceil(SPANS);
    let template = Template::new();
    println!(
        "{} bytes a span, {SPANS} spans a request, {requests} requests a round",
        template.body.len() / SPANS
    );
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        ours.push(serve(dir, round, requests, &template));
        bare.push(write(&dir.join("bare"), round, requests, &template));
    }
    let (a, b) = (median(ours), median(bare));
    println!("{:<28} {a:>12.0} spans/s", "decklog serve");
    println!("{:<28} {b:>12.0} spans/s, ratio {:.3}", "bare write", a / b);
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Spans a second through a server of its own.
fn serve(dir: &Path, round: usize, requests: usize, template: &Template) -> f64 {
    let store = dir.join(format!("log-{round}"));
    let mut server = Server::start(&store);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for connection in 0..CONNECTIONS {
            let addr = server.addr.clone();
            scope.spawn(move || {
                let stream = TcpStream::connect(&addr).expect("a connection");
                let mut to = &stream;
                let mut from = BufReader::new(&stream);
                for request in (connection..requests).step_by(CONNECTIONS) {
                    let body = template.body_of(round, request);
                    let head = format!(
                        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n\
                         Content-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
                        body.len()
                    );
                    to.write_all(head.as_bytes()).expect("sent");
                    to.write_all(&body).expect("sent");
                    accepted(&mut from);
                }
            });
        }
    });
    let rate = (requests * SPANS) as f64 / began.elapsed().as_secs_f64();
    let peak = server.memory_mb("VmHWM:");
    server.stop();
    let mut again = Server::start(&store);
    println!(
        "round {round}: {rate:.0} spans/s, {peak} MB resident at most, {} MB after a new start",
        again.memory_mb("VmRSS:")
    );
    again.stop();
    fs::remove_dir_all(store).expect("removed");
    rate
}

/// Reads an answer. Nothing may be rejected, so that its body is empty.
fn accepted(from: &mut impl BufRead) {
    let mut line = String::new();
    from.read_line(&mut line).expect("an answer");
    assert!(line.starts_with("HTTP/1.1 200"), "{line}");
    let mut length = 0;
    loop {
        line.clear();
        from.read_line(&mut line).expect("a header");
        if line.trim().is_empty() {
            break;
        }
        if let Some(text) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().expect("a length");
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).expect("a body");
    assert!(body.is_empty(), "{}", String::from_utf8_lossy(&body));
}

/// Spans a second of bare writes.
fn write(path: &Path, round: usize, requests: usize, template: &Template) -> f64 {
    let mut file = File::create(path).expect("a file");
    let began = Instant::now();
    for request in 0..requests {
        file.write_all(&template.body_of(round, request))
            .expect("written");
    }
    (requests * SPANS) as f64 / began.elapsed().as_secs_f64()
}

struct Server {
    child: Child,
    addr: String,
}

impl Server {
    fn start(store: &Path) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_decklog"))
            .args(["serve", "--port", "0", "--otlp-port", "off", "--store"])
            .arg(store)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut said = BufReader::new(child.stderr.take().expect("standard error"));
        let mut line = String::new();
        while !line.contains("serving at http://") {
            line.clear();
            assert!(said.read_line(&mut line).expect("a line") > 0, "it ended");
        }
        let addr = line.rsplit("http://").next().expect("an address");
        let addr = addr.trim().to_owned();
        // What it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Server { child, addr }
    }

    fn memory_mb(&self, what: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(what));
        let kb = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kb.unwrap_or(0) / 1_024
    }

    fn stop(&mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

/// A request whose ids are replaced before each use.
struct Template {
    body: Vec<u8>,
    /// Where the ids of traces are, with the numbers of the traces.
    traces: Vec<(usize, usize)>,
    /// Where the texts of traces are that differ.
    texts: Vec<(usize, usize)>,
    /// Where the times are, in nanoseconds, with the times in the first request.
    times: Vec<(usize, u64)>,
}

/// Filler for a number with 24 digits.
const NUMBER: &str = "@@@@@@@@@@@@@@@@@@@@@@@@";
/// Filler for the number of a trace.
const TRACE: &[u8; 16] = b"################";

impl Template {
    fn new() -> Template {
        let mut spans = Vec::new();
        for trace in 0..TRACES {
            field(
                &mut spans,
                2,
                &span(trace, 1, 0, "invoke_agent weather", &agent()),
            );
            field(&mut spans, 2, &span(trace, 2, 1, "chat gpt-4o", &chat(1)));
            field(
                &mut spans,
                2,
                &span(trace, 3, 1, "execute_tool search", &tool()),
            );
            field(&mut spans, 2, &span(trace, 4, 1, "chat gpt-4o", &chat(2)));
            field(&mut spans, 2, &span(trace, 5, 4, "POST", &other()));
        }
        let mut of_resource = Vec::new();
        let mut resource = Vec::new();
        field(&mut resource, 1, &attribute("service.name", "bench"));
        field(&mut of_resource, 1, &resource);
        field(&mut of_resource, 2, &spans);
        let mut body = Vec::new();
        field(&mut body, 1, &of_resource);
        let at = |wanted: &[u8]| -> Vec<usize> {
            let places = 0..body.len() - wanted.len();
            places
                .filter(|at| body[*at..].starts_with(wanted))
                .collect()
        };
        let traces = at(TRACE).into_iter().enumerate();
        let texts = at(NUMBER.as_bytes());
        let per_trace = texts.len() / TRACES;
        let texts = texts.into_iter().enumerate();
        Template {
            traces: traces.map(|(nth, at)| (at, nth / 5)).collect(),
            texts: texts.map(|(nth, at)| (at, nth / per_trace)).collect(),
            times: times(&body),
            body,
        }
    }

    fn body_of(&self, round: usize, request: usize) -> Vec<u8> {
        let mut body = self.body.clone();
        let number = |trace: usize| (round * 1_000_000 + request) * TRACES + trace + 1;
        for (at, trace) in &self.traces {
            let id = (number(*trace) as u128).wrapping_mul(ID_STEP);
            body[*at..at + 16].copy_from_slice(&id.to_be_bytes());
        }
        for (at, trace) in &self.texts {
            let text = format!("{:024}", number(*trace));
            body[*at..at + 24].copy_from_slice(text.as_bytes());
        }
        for (at, time) in &self.times {
            let time = time + request as u64 * REQUEST_NS;
            body[*at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        body
    }
}

/// Where the times of spans are. No other bytes look like them.
fn times(body: &[u8]) -> Vec<(usize, u64)> {
    let window = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
    let times = (0..body.len() - 8).map(|at| (at, window(at)));
    let first = START_NS..START_NS + REQUEST_NS;
    let times: Vec<_> = times.filter(|(_, time)| first.contains(time)).collect();
    assert_eq!(times.len(), 2 * SPANS);
    times
}

fn agent() -> Vec<(&'static str, String)> {
    vec![
        ("gen_ai.operation.name", "invoke_agent".to_owned()),
        ("gen_ai.agent.name", "weather".to_owned()),
        ("gen_ai.conversation.id", format!("conversation-{NUMBER}")),
        ("gen_ai.agent.description", prose(700)),
    ]
}

fn chat(nth: usize) -> Vec<(&'static str, String)> {
    let mut input = format!(
        r#"[{{"role":"user","parts":[{{"type":"text","content":"Question {NUMBER}: {}"}}]}}"#,
        prose(900)
    );
    let call = format!(
        r#"{{"role":"assistant","parts":[{{"type":"tool_call","id":"call_{NUMBER}","name":"search","arguments":{{"query":"{}"}}}}]}}"#,
        prose(300)
    );
    let output = if nth == 1 {
        format!("[{call}]")
    } else {
        input.push(',');
        input.push_str(&call);
        let result = format!(
            r#",{{"role":"tool","parts":[{{"type":"tool_call_response","id":"call_{NUMBER}","response":"{}"}}]}}"#,
            prose(600)
        );
        input.push_str(&result);
        format!(
            r#"[{{"role":"assistant","parts":[{{"type":"text","content":"Answer {NUMBER}: {}"}}]}}]"#,
            prose(900)
        )
    };
    input.push(']');
    vec![
        ("gen_ai.operation.name", "chat".to_owned()),
        ("gen_ai.provider.name", "openai".to_owned()),
        ("gen_ai.request.model", "gpt-4o".to_owned()),
        ("gen_ai.response.model", "gpt-4o-2024-08-06".to_owned()),
        ("gen_ai.response.id", format!("chatcmpl-{nth}-{NUMBER}")),
        ("gen_ai.conversation.id", format!("conversation-{NUMBER}")),
        ("gen_ai.input.messages", input),
        ("gen_ai.output.messages", output),
        ("gen_ai.usage.input_tokens", "1200".to_owned()),
        ("gen_ai.usage.output_tokens", "150".to_owned()),
        ("server.address", "api.openai.com".to_owned()),
    ]
}

fn tool() -> Vec<(&'static str, String)> {
    vec![
        ("gen_ai.operation.name", "execute_tool".to_owned()),
        ("gen_ai.tool.name", "search".to_owned()),
        ("gen_ai.tool.call.id", format!("call_{NUMBER}")),
        ("gen_ai.conversation.id", format!("conversation-{NUMBER}")),
        (
            "gen_ai.tool.call.arguments",
            format!(r#"{{"query":"{}"}}"#, prose(300)),
        ),
        ("gen_ai.tool.call.result", prose(600)),
    ]
}

fn other() -> Vec<(&'static str, String)> {
    vec![
        ("http.request.method", "POST".to_owned()),
        (
            "url.full",
            "https://api.openai.com/v1/chat/completions".to_owned(),
        ),
        ("http.response.status_code", "200".to_owned()),
        ("user_agent.original", prose(1_000)),
    ]
}

fn prose(bytes: usize) -> String {
    "The quick brown fox jumps over the lazy dog, again and again. ".repeat(17)[..bytes].to_owned()
}

/// A span in protobuf.
fn span(
    trace: usize,
    id: u8,
    parent: u8,
    name: &str,
    attributes: &[(&'static str, String)],
) -> Vec<u8> {
    let mut to = Vec::new();
    field(&mut to, 1, TRACE);
    field(&mut to, 2, &[0, 0, 0, 0, 0, 0, 1, id]);
    if parent > 0 {
        field(&mut to, 4, &[0, 0, 0, 0, 0, 0, 1, parent]);
    }
    field(&mut to, 5, name.as_bytes());
    to.extend([6 << 3, if name.starts_with("chat") { 3 } else { 1 }]);
    let start = START_NS + (trace as u64 * 10 + u64::from(id)) * 1_000_000;
    for (tag, time) in [(7_u8, start), (8, start + 900_000)] {
        to.push(tag << 3 | 1);
        to.extend(time.to_le_bytes());
    }
    for (key, value) in attributes {
        field(&mut to, 9, &attribute(key, value));
    }
    to
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    let mut any = Vec::new();
    match value.parse::<u64>() {
        Ok(number) => {
            any.push(3 << 3);
            varint(&mut any, number);
        }
        Err(_) => field(&mut any, 1, value.as_bytes()),
    }
    let mut to = Vec::new();
    field(&mut to, 1, key.as_bytes());
    field(&mut to, 2, &any);
    to
}

/// A field with a length.
fn field(to: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    to.push(tag << 3 | 2);
    varint(to, bytes.len() as u64);
    to.extend(bytes);
}

fn varint(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}
