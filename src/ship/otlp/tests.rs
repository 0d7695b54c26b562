//! Each span is acknowledged once, whatever the receiver answers and wherever a run ends.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use flate2::read::GzDecoder;
use prost::Message as _;

use crate::error::ErrorKind;
use crate::otlp::send::ExportResponse;
use crate::otlp::send::PartialSuccess;
use crate::otlp::send::request::{Logs, Traces};
use crate::otlp::send::tests::{fill, open};
use crate::ship::{Destination, ShipOptions, Shipped, Shipper};
use crate::store::Store;

/// What the receiver does with a request.
#[derive(Debug, Clone)]
enum Answer {
    Take,
    /// A status with a header.
    Status(u16, &'static str),
    Partial(i64, &'static str),
}

#[derive(Debug, Default)]
struct Received {
    /// How often each span was acknowledged.
    spans: BTreeMap<Vec<u8>, usize>,
    logs: usize,
    requests: usize,
    paths: BTreeSet<String>,
}

/// A receiver of OTLP in a thread. It answers as the list says, and then takes everything.
struct Receiver {
    url: String,
    received: Arc<Mutex<Received>>,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Receiver {
    fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let receiver = Receiver {
            url: format!("otlp://{}/api", listener.local_addr().unwrap()),
            received: Arc::default(),
            answers: Arc::default(),
        };
        let (to, answers) = (
            Arc::clone(&receiver.received),
            Arc::clone(&receiver.answers),
        );
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (to, answers) = (Arc::clone(&to), Arc::clone(&answers));
                thread::spawn(move || while serve(stream.as_ref().unwrap(), &to, &answers) {});
            }
        });
        receiver
    }

    fn will(&self, answers: &[Answer]) {
        *self.answers.lock().unwrap() = answers.iter().rev().cloned().collect();
    }

    fn ship(&self, store: &Store) -> crate::Result<Shipped> {
        let destination = Destination::create(&self.url)?;
        Shipper::new(store, &destination, ShipOptions::default())?.ship()
    }

    /// The number of spans, each of which was acknowledged once.
    fn spans(&self) -> usize {
        let received = self.received.lock().unwrap();
        assert!(received.spans.values().all(|times| *times == 1));
        received.spans.len()
    }
}

/// Answers one request. Returns whether there may be another.
fn serve(mut stream: &TcpStream, received: &Mutex<Received>, answers: &Mutex<Vec<Answer>>) -> bool {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length, mut head) = (String::new(), 0, String::new());
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if path.is_empty() {
            path = line.split(' ').nth(1).unwrap().to_owned();
        }
        let lower = line.to_ascii_lowercase();
        if let Some(given) = lower.strip_prefix("content-length:") {
            length = given.trim().parse().unwrap();
        }
        head.push_str(&lower);
        if line == "\r\n" {
            break;
        }
    }
    assert!(head.contains("content-encoding: gzip"));
    assert!(head.contains("content-type: application/x-protobuf"));
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&*body).read_to_end(&mut bytes).unwrap();
    let answer = answers.lock().unwrap().pop().unwrap_or(Answer::Take);
    let (status, header, response) = match answer {
        Answer::Take => (200, String::new(), ExportResponse::default()),
        Answer::Status(status, header) => (status, header.to_owned(), ExportResponse::default()),
        Answer::Partial(rejected, message) => {
            let partial_success = Some(PartialSuccess {
                rejected,
                error_message: message.to_owned(),
            });
            (200, String::new(), ExportResponse { partial_success })
        }
    };
    let mut received = received.lock().unwrap();
    received.requests += 1;
    received.paths.insert(path.clone());
    if status == 200 && path.ends_with("/traces") {
        for spans in Traces::decode(&*bytes).unwrap().resource_spans {
            for span in spans.scope_spans.into_iter().flat_map(|it| it.spans) {
                *received.spans.entry(span.span_id).or_default() += 1;
            }
        }
    } else if status == 200 {
        for logs in Logs::decode(&*bytes).unwrap().resource_logs {
            received.logs += logs
                .scope_logs
                .iter()
                .map(|it| it.log_records.len())
                .sum::<usize>();
        }
    }
    drop(received);
    let body = response.encode_to_vec();
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{header}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&body).is_ok()
}

#[test]
fn a_log_is_sent_once_and_then_what_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let receiver = Receiver::start();
    let first = receiver.ship(&store).unwrap();
    assert_eq!(first.spans_sent, receiver.spans() as u64);
    assert_eq!(
        first.logs_sent,
        receiver.received.lock().unwrap().logs as u64
    );
    let paths = receiver.received.lock().unwrap().paths.clone();
    assert_eq!(
        paths,
        BTreeSet::from(["/api/v1/logs".into(), "/api/v1/traces".into()])
    );
    assert!(!receiver.ship(&store).unwrap().has_changes());
    // A conversation that grows gets its new spans only.
    let id = uuid::Uuid::from_u128(1);
    store
        .record(crate::ConversationMessage::new(
            id,
            crate::Role::Assistant,
            "3",
        ))
        .unwrap();
    let more = receiver.ship(&store).unwrap();
    assert_eq!((more.spans_sent, more.logs_sent), (1, 0));
    assert_eq!(receiver.spans() as u64, first.spans_sent + 1);
    // Another receiver gets everything.
    let other = Receiver::start();
    assert_eq!(other.ship(&store).unwrap().spans_sent, first.spans_sent + 1);
    let ships = store.ships();
    assert_eq!(ships.len(), 2);
    assert_eq!(ships[0].last_seq, more.last_seq);
}

/// The runs end after any number of requests.
#[test]
fn a_run_that_ends_midway_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    // Enough for several chunks and requests.
    for _ in 0..12 {
        let run = store.run("openai");
        for nth in 0..60 {
            run.user(format!("{nth} {}", "prompt ".repeat(300)))
                .unwrap();
            let turn = run.assistant("answer ".repeat(300)).unwrap();
            let call = turn.call(format!("call_{nth}"), "look", &nth).unwrap();
            call.run(|| Ok::<_, std::io::Error>("seen ".repeat(100)))
                .unwrap()
                .unwrap();
        }
    }
    let whole = Receiver::start();
    let shipped = whole.ship(&store).unwrap();
    let requests = whole.received.lock().unwrap().requests;
    assert!(requests > 5, "{requests}");
    let receiver = Receiver::start();
    let mut runs = 0;
    loop {
        // Two requests are taken, and the run ends with the third.
        receiver.will(&[Answer::Take, Answer::Take, Answer::Status(400, "")]);
        runs += 1;
        match receiver.ship(&store) {
            Ok(_) => break,
            Err(e) => assert_eq!(e.kind(), ErrorKind::InvalidInput, "{e}"),
        }
    }
    assert!(runs > 2, "{runs}");
    assert_eq!(receiver.spans(), whole.spans());
    assert_eq!(receiver.spans() as u64, shipped.spans_sent);
    let logs = receiver.received.lock().unwrap().logs;
    assert_eq!(logs, whole.received.lock().unwrap().logs);
    println!(
        "{requests} requests, {runs} runs, {} spans, {logs} logs",
        receiver.spans()
    );
}

#[test]
fn a_busy_receiver_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let receiver = Receiver::start();
    receiver.will(&[
        Answer::Status(503, "retry-after: 1\r\n"),
        Answer::Status(429, "retry-after: 0\r\n"),
        Answer::Take,
    ]);
    let began = std::time::Instant::now();
    let shipped = receiver.ship(&store).unwrap();
    assert!(began.elapsed().as_millis() >= 1_000);
    assert_eq!(receiver.spans() as u64, shipped.spans_sent);
    // It asks to wait for longer than a run waits.
    store.log_event(None, "agent.started", None).unwrap();
    receiver.will(&[Answer::Status(503, "retry-after: 100000\r\n")]);
    let error = receiver.ship(&store).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Remote);
    assert!(store.ships()[0].error.is_some());
    assert_eq!(receiver.ship(&store).unwrap().logs_sent, 1);
}

#[test]
fn what_a_receiver_rejects_is_counted_and_not_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let receiver = Receiver::start();
    receiver.will(&[Answer::Partial(3, "too old")]);
    let shipped = receiver.ship(&store).unwrap();
    assert_eq!(
        (shipped.items_rejected, &*shipped.rejections),
        (3, &["too old".to_owned()][..])
    );
    assert!(!receiver.ship(&store).unwrap().has_changes());
    // A request that is too large is sent in halves.
    let other = Receiver::start();
    other.will(&[Answer::Status(413, "")]);
    let shipped = other.ship(&store).unwrap();
    assert_eq!(
        (shipped.items_rejected, shipped.spans_sent),
        (0, other.spans() as u64)
    );
}

#[test]
fn a_dry_run_sends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let receiver = Receiver::start();
    let destination = Destination::create(&receiver.url).unwrap();
    let options = ShipOptions {
        dry_run: true,
        ..ShipOptions::default()
    };
    let counted = Shipper::new(&store, &destination, options)
        .unwrap()
        .ship()
        .unwrap();
    assert_eq!(receiver.received.lock().unwrap().requests, 0);
    let sent = receiver.ship(&store).unwrap();
    assert_eq!(
        (counted.spans_sent, counted.logs_sent),
        (sent.spans_sent, sent.logs_sent)
    );
    let options = ShipOptions {
        is_backup: true,
        ..ShipOptions::default()
    };
    let error = Shipper::new(&store, &destination, options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(destination.stores().is_err());
}

#[test]
fn a_receiver_of_spans_only_gets_all_spans() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let receiver = Receiver::start();
    receiver.will(&[Answer::Take, Answer::Status(404, "")]);
    let shipped = receiver.ship(&store).unwrap();
    assert!(shipped.logs_refused > 0);
    assert_eq!((shipped.logs_sent, shipped.items_rejected), (0, 0));
    assert_eq!(shipped.spans_sent, receiver.spans() as u64);
    // A wrong path is an error.
    let other = Receiver::start();
    other.will(&[Answer::Status(404, "")]);
    assert_eq!(
        other.ship(&store).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}
