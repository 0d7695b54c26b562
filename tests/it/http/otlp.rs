//! `/v1/traces`, `/v1/logs` and `/v1/metrics`, as exporters call them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use decklog::privacy::AccessRole;
use decklog::{Record, Store, verify};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};

use super::Service;
use super::client::{Answer, Client};
use super::process::Process;
use crate::support::{Rng, all_lines, count};

const PROTOBUF: &str = "application/x-protobuf";
const WRONG_IDS: &str = "its trace id must be 16 bytes and its span id 8 bytes, not all zero";

/// A field of a message in protobuf.
fn field(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![tag << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend(bytes);
    out
}

fn attribute(key: &str, value: &str) -> Vec<u8> {
    let value = field(2, &field(1, value.as_bytes()));
    field(9, &[field(1, key.as_bytes()), value].concat())
}

/// A span of a request to a model that says `text`.
fn span(nth: u64, text: &str) -> Vec<u8> {
    let trace = [&[7; 8][..], &nth.to_be_bytes()].concat();
    let input = json!([{ "role": "user", "content": text }]).to_string();
    let output = json!([{ "role": "assistant", "content": "yes" }]).to_string();
    [
        field(1, &trace),
        field(2, &(nth + 1).to_be_bytes()),
        field(5, b"chat"),
        attribute("gen_ai.operation.name", "chat"),
        attribute("gen_ai.response.model", "gpt-5"),
        attribute("gen_ai.input.messages", &input),
        attribute("gen_ai.output.messages", &output),
    ]
    .concat()
}

fn request(spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<u8> = spans.iter().flat_map(|span| field(2, span)).collect();
    field(1, &field(2, &spans))
}

fn in_json(ids: &[(&str, &str)]) -> Vec<u8> {
    let spans: Vec<Value> = ids
        .iter()
        .map(|(trace, span)| json!({ "traceId": trace, "spanId": span, "name": "work" }))
        .collect();
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": spans }] }] });
    request.to_string().into_bytes()
}

const IDS: (&str, &str) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");

fn protobuf(client: &Client, path: &str, body: &[u8]) -> Answer {
    client
        .with("Content-Type", PROTOBUF)
        .send("POST", path, body)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// The user's messages, by their text.
fn said(store: &Store) -> BTreeMap<String, u64> {
    let mut said = BTreeMap::new();
    for (_, record) in all_lines(store) {
        if let Record::Message(message) = record
            && message.role == decklog::Role::User
        {
            *said.entry(message.content.clone()).or_default() += 1;
        }
    }
    said
}

#[test]
fn spans_are_received_in_each_encoding() {
    let service = Service::start();
    let client = service.client();
    let answer = protobuf(&client, "/v1/traces", &request(&[span(1, "plain")]));
    assert_eq!((answer.status, &*answer.body), (200, &b""[..]));
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    let as_gzip = client.with("Content-Encoding", "gzip");
    let body = gzip(&request(&[span(2, "in gzip")]));
    let answer = protobuf(&as_gzip, "/v1/traces", &body);
    assert_eq!((answer.status, &*answer.body), (200, &b""[..]));
    let as_zstd = client.with("Content-Encoding", "zstd");
    let body = request(&[span(3, "in zstd")]);
    let body = compress_to_vec(&*body, CompressionLevel::Fastest);
    let answer = protobuf(&as_zstd, "/v1/traces", &body);
    assert_eq!((answer.status, &*answer.body), (200, &b""[..]));
    let wanted = ["plain", "in gzip", "in zstd"];
    let wanted: BTreeMap<String, u64> = wanted.into_iter().map(|it| (it.into(), 1)).collect();
    assert_eq!(said(&service.store), wanted);
    let answer = client.json("POST", "/v1/traces", &in_json(&[IDS]));
    assert_eq!((answer.status, answer.text()), (200, "{}"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    // With a parameter, in other letters.
    let client = client.with("Content-Type", "Application/JSON; charset=utf-8");
    for (path, body) in [
        ("/v1/traces", r#"{"resourceSpans":[]}"#),
        (
            "/v1/logs",
            r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hi"}}]}]}]}"#,
        ),
        (
            "/v1/metrics",
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m"}]}]}]}"#,
        ),
    ] {
        let answer = client.send("POST", path, body.as_bytes());
        assert_eq!((answer.status, answer.text()), (200, "{}"), "{path}");
    }
    // A request that was sent again adds nothing.
    let lines = all_lines(&service.store).len();
    protobuf(
        &service.client(),
        "/v1/traces",
        &request(&[span(1, "plain")]),
    );
    assert_eq!(all_lines(&service.store).len(), lines);
}

#[test]
fn what_is_rejected_is_said_in_the_encoding_of_the_request() {
    let service = Service::start();
    let client = service.client();
    let body = request(&[vec![], span(1, "good"), vec![]]);
    let answer = protobuf(&client, "/v1/traces", &body);
    let partial = [&[1 << 3, 2][..], &field(2, WRONG_IDS.as_bytes())].concat();
    assert_eq!((answer.status, answer.body), (200, field(1, &partial)));
    let body = in_json(&[IDS, ("", "")]);
    let answer = client.json("POST", "/v1/traces", &body);
    let wanted = json!({ "partialSuccess": { "rejectedSpans": "1", "errorMessage": WRONG_IDS } });
    assert_eq!(answer.expect(200), wanted);
    let logs = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [
        { "traceId": "no id" }, { "body": { "stringValue": "good" } },
    ] }] }] });
    let answer = client.post("/v1/logs", &logs).expect(200);
    assert_eq!(answer["partialSuccess"]["rejectedLogRecords"], "1");
    let metrics = client.get("/metrics");
    for (signal, outcome, number) in [
        ("traces", "accepted", 2),
        ("traces", "rejected", 3),
        ("logs", "accepted", 1),
        ("logs", "rejected", 1),
    ] {
        let labels = [
            format!(
                r#"decklog_otlp_items_total{{signal="{signal}",outcome="{outcome}"}} {number}"#
            ),
            format!(
                r#"decklog_otlp_items_total{{outcome="{outcome}",signal="{signal}"}} {number}"#
            ),
        ];
        let is_there = metrics
            .text()
            .lines()
            .any(|line| labels.iter().any(|it| it == line));
        assert!(is_there, "{labels:?} {}", metrics.text());
    }
}

#[test]
fn malformed_requests_are_refused_with_a_status() {
    let service = Service::start();
    let client = service.client();
    let answer = protobuf(&client, "/v1/traces", b"\x0a\x7f");
    assert_eq!(answer.status, 400);
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    // `message` of google.rpc.Status.
    assert_eq!(answer.body[0], 2 << 3 | 2);
    assert!(String::from_utf8_lossy(&answer.body).contains("not protobuf"));
    for body in ["", "{", "[]", r#"{"resourceSpans":1}"#] {
        let answer = client.json("POST", "/v1/traces", body.as_bytes());
        assert_eq!(answer.header("content-type"), Some("application/json"));
        let status = answer.expect(400);
        assert!(
            status["message"]
                .as_str()
                .is_some_and(|it| it.contains("not OTLP as JSON")),
            "{status}"
        );
    }
    let as_gzip = client.with("Content-Encoding", "gzip");
    assert_eq!(protobuf(&as_gzip, "/v1/traces", b"no gzip").status, 400);
    for media_type in ["text/plain", "application/grpc", ""] {
        let client = client.with("Content-Type", media_type);
        let answer = client.send("POST", "/v1/traces", b"{}");
        assert_eq!(answer.status, 415, "{media_type}");
    }
    assert_eq!(client.send("POST", "/v1/traces", b"{}").status, 415);
    let as_br = client.with("Content-Encoding", "br");
    assert_eq!(protobuf(&as_br, "/v1/traces", b"").status, 415);
    let large = vec![0; (16 << 20) + 1];
    let answer = protobuf(&client, "/v1/traces", &large);
    assert_eq!(answer.status, 413);
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    let answer = protobuf(&as_gzip, "/v1/traces", &gzip(&large));
    assert_eq!(answer.status, 413);
    assert_eq!(client.get("/v1/traces").status, 405);
    assert!(all_lines(&service.store).is_empty());
}

#[test]
fn a_developer_may_send() {
    let service = Service::asking();
    let body = request(&[span(1, "hi")]);
    assert_eq!(protobuf(&service.client(), "/v1/traces", &body).status, 401);
    for (role, status) in [
        (AccessRole::ReadOnly, 403),
        (AccessRole::Developer, 200),
        (AccessRole::Admin, 200),
    ] {
        let client = service.with_token(&service.token(role));
        for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
            let body = if path == "/v1/traces" { &*body } else { b"" };
            assert_eq!(protobuf(&client, path, body).status, status, "{path}");
        }
    }
    assert_eq!(said(&service.store).len(), 1);
}

fn serve(dir: &tempfile::TempDir, otlp_port: &str) -> Process {
    let program = Command::new(env!("CARGO_BIN_EXE_decklog"));
    Process::start_with(program, &dir.path().join("log"), 0, |command| {
        command.args(["--otlp-port", otlp_port]);
    })
}

#[test]
fn a_port_of_its_own_receives_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let process = serve(&dir, "0");
    let begun = Instant::now();
    let addr: SocketAddr = loop {
        let said = process.said();
        let found = said.lines().find_map(|line| {
            let (_, rest) = line.split_once("receiving OTLP at ")?;
            rest.strip_suffix(", too")
        });
        if let Some(addr) = found {
            break addr.parse().unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{said}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_ne!(addr, process.addr);
    let (own, main) = (Client::new(addr), process.client());
    for (nth, client) in [&own, &main].into_iter().enumerate() {
        let body = request(&[span(nth as u64, &format!("to {nth}"))]);
        assert_eq!(protobuf(client, "/v1/traces", &body).status, 200);
        assert_eq!(protobuf(client, "/v1/logs", b"").status, 200);
        assert_eq!(protobuf(client, "/v1/metrics", b"").status, 200);
    }
    for path in ["/conversations", "/", "/openapi.json", "/v1", "/metrics"] {
        own.get(path).expect_problem(404, "not_found", None);
    }
    main.get("/conversations").expect(200);
    process.end();
    let store = Store::options()
        .read_only(true)
        .open(dir.path().join("log"))
        .unwrap();
    assert_eq!(said(&store).len(), 2);
}

#[test]
fn the_other_port_can_be_off() {
    let dir = tempfile::tempdir().unwrap();
    let process = serve(&dir, "off");
    let body = request(&[span(1, "hi")]);
    assert_eq!(protobuf(&process.client(), "/v1/traces", &body).status, 200);
    let said = process.end();
    assert!(!said.contains("OTLP"), "{said}");
}

#[test]
fn what_was_acknowledged_outlives_a_killed_server() {
    const CLIENTS: u64 = 3;
    let kills = count("DECKLOG_HTTP_KILLS", 3);
    let mut rng = Rng::seeded("what_was_acknowledged_outlives_a_killed_server");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let start = |port: u16| {
        let program = Command::new(env!("CARGO_BIN_EXE_decklog"));
        Process::start_with(program, &path, port, |command| {
            command.args(["--otlp-port", "off"]);
        })
    };
    let mut process = start(0);
    let port = process.addr.port();
    let client = process.client().with("Content-Type", PROTOBUF);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let sent: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let (client, is_over) = (&client, &is_over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|nth| scope.spawn(move || send_until(client, nth, is_over)))
            .collect();
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(20 + rng.below(300) as u64));
            process.kill();
            process = start(port);
        }
        std::thread::sleep(Duration::from_millis(100));
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        clients.into_iter().map(|it| it.join().unwrap()).collect()
    });
    process.end();
    let store = Store::options().read_only(true).open(&path).unwrap();
    let said = said(&store);
    let mut all = 0;
    for (nth, (sent, _)) in sent.iter().enumerate() {
        for n in 0..*sent {
            let text = format!("{nth} says {n}");
            assert_eq!(said.get(&text), Some(&1), "{text}");
        }
        all += sent;
    }
    assert_eq!(said.len() as u64, all);
    let again: u64 = sent.iter().map(|(_, again)| again).sum();
    println!(
        "{kills} kills: {all} spans acknowledged, each there once; {again} requests sent again"
    );
    let found = verify(&decklog::storage::Disk::new(&path)).unwrap();
    assert!(
        found.gaps.is_empty() && found.repeats.is_empty(),
        "{found:?}"
    );
}

/// Sends numbered spans, each until it is acknowledged. Returns their number, and how many requests
/// were sent again.
fn send_until(client: &Client, nth: u64, is_over: &std::sync::atomic::AtomicBool) -> (u64, u64) {
    let (mut sent, mut again) = (0, 0);
    while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
        let body = request(&[span(nth << 32 | sent, &format!("{nth} says {sent}"))]);
        let head = client.head("POST", "/v1/traces", &body);
        let whole = [head.as_bytes(), &*body].concat();
        loop {
            match client.try_send(&whole).map(|answer| answer.status) {
                Ok(200) => break,
                // Not running, or starting.
                Err(_) | Ok(503) => again += 1,
                Ok(status) => panic!("{status}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        sent += 1;
    }
    (sent, again)
}
