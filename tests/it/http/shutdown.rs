//! Graceful shutdown: accepted records are in the log, running requests are answered, and no client
//! can block the shutdown.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use decklog::Store;
use decklog::http::Options;
use serde_json::json;

use super::Service;
use super::client::Client;
use super::process::Process;

fn begin(client: &Client) -> String {
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    format!("/conversations/{}/messages", begun["id"].as_str().unwrap())
}

/// A request whose last `rest` bytes of the body are not sent yet.
fn unfinished(path: &str, body: &str, rest: usize) -> (String, String) {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let (first, rest) = body.split_at(body.len() - rest);
    (head + first, rest.to_owned())
}

#[test]
fn what_was_accepted_is_in_the_log_when_the_server_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let process = Process::start(&path, 0);
    let client = process.client();
    let messages = begin(&client);
    let mut accepted = Vec::new();
    for n in 0..200 {
        let message = json!({"role": "user", "content": n.to_string()});
        let answer = client.post(&format!("{messages}?wait=none"), &message);
        accepted.push(answer.expect(202)["id"].as_str().unwrap().to_owned());
    }
    // In the middle of its body when the signal arrives.
    let (first, rest) = unfinished(&messages, r#"{"role": "user", "content": "late"}"#, 9);
    let mut late = client.connect();
    late.write_all(first.as_bytes()).unwrap();
    // It is being served once a later request has been answered.
    client.get("/healthz").expect(200);
    process.kid.signal("TERM");
    while client.try_connect().is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    late.write_all(rest.as_bytes()).unwrap();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    let mut process = process;
    assert!(process.kid.0.wait().unwrap().success());
    let store = Store::options().read_only(true).open(&path).unwrap();
    for (n, id) in accepted.iter().enumerate() {
        let message = store.get_message(id.parse().unwrap()).unwrap().unwrap();
        assert_eq!(message.content, n.to_string());
    }
    assert_eq!(store.last_lines(usize::MAX).unwrap().len(), 202);
}

#[test]
fn no_client_keeps_the_server_from_ending() {
    let mut options = Options::default();
    options.shutdown_timeout = Duration::from_secs(1);
    let mut service = Service::with(&options);
    let client = service.client();
    let messages = begin(&client);
    let mut stalled = Vec::new();
    // In the middle of a head, or of a body; idle; and after a request, before the next one.
    let (first, _) = unfinished(&messages, r#"{"role": "user", "content": "never"}"#, 9);
    let idle = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for said in ["GET /healthz HT", &first, "", idle] {
        let mut stream = client.connect();
        stream.write_all(said.as_bytes()).unwrap();
        stalled.push(stream);
    }
    client.get("/healthz").expect(200);
    let started = Instant::now();
    service.end();
    assert!(
        started.elapsed() < Duration::from_secs(8),
        "{:?}",
        started.elapsed()
    );
    let lines = service.store.last_lines(usize::MAX).unwrap();
    assert_eq!(lines.len(), 1);
}
