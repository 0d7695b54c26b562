//! Requests that no library would send: the server survives, and nothing is recorded in part.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use serde_json::{Value, json};

use super::Service;
use super::client::Client;
use crate::support::all_lines;

const MESSAGE: &str = r#"{"role":"user","content":"hi"}"#;

fn begin(client: &Client) -> String {
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    format!("/conversations/{}/messages", begun["id"].as_str().unwrap())
}

fn head(path: &str, more: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n{more}\r\n"
    )
}

#[test]
fn a_client_that_goes_in_the_middle_leaves_nothing() {
    let service = Service::start();
    let client = service.client();
    let path = begin(&client);
    let records = "{\"kind\":\"events\",\"event_type\":\"test.said\"}\n".repeat(1_000);
    let lines = format!(
        "POST /records HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: {}\r\n\r\n{records}",
        records.len() + 1
    );
    let long = format!("Content-Length: {}\r\n", MESSAGE.len() + 1);
    let half = head(&path, &long) + MESSAGE;
    let chunks = head(&path, "Transfer-Encoding: chunked\r\n");
    let chunks = format!("{chunks}{:x}\r\n{MESSAGE}\r\n", MESSAGE.len());
    for said in [lines, half, chunks] {
        let mut stream = client.connect();
        stream.write_all(said.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).starts_with("HTTP/1.1 2"));
        // Also without sending anything.
        let mut stream = client.connect();
        stream.write_all(said.as_bytes()).unwrap();
        drop(stream);
    }
    client.get("/healthz").expect(200);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(all_lines(&service.store).len(), 1);
}

#[test]
fn a_body_may_come_in_chunks() {
    let service = Service::start();
    let client = service.client();
    let path = begin(&client);
    let mut said = head(&path, "Transfer-Encoding: chunked\r\n");
    let chunk = |byte: char| format!("1;x=y\r\n{byte}\r\n");
    said.extend(MESSAGE.chars().map(chunk));
    said += "0\r\nX-Trailer: z\r\n\r\n";
    client.raw(said.as_bytes()).expect(201);
    // More than the limit, without announcing it.
    let mut stream = client.connect();
    stream
        .write_all(head(&path, "Transfer-Encoding: chunked\r\n").as_bytes())
        .unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, "x".repeat(1 << 20));
    for _ in 0..18 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    // The answer may be lost with the connection, but no other answer is sent.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 413 "),
        "{answer}"
    );
    assert_eq!(all_lines(&service.store).len(), 2);
}

#[test]
fn requests_may_follow_one_another_without_waiting() {
    let service = Service::start();
    let client = service.client();
    let path = begin(&client);
    let length = format!("Content-Length: {}\r\n", MESSAGE.len());
    let one = head(&path, &length).replace("Connection: close\r\n", "") + MESSAGE;
    let last = head(&path, &length) + MESSAGE;
    let mut stream = client.connect();
    stream
        .write_all((one.repeat(49) + &last).as_bytes())
        .unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 201 ").count(), 50);
    // In request order.
    let sequences: Vec<i64> = answers
        .split("\r\n\r\n")
        .skip(1)
        .map(|body| {
            let body = body.split("HTTP/1.1").next().unwrap();
            let body: Value = serde_json::from_str(body).unwrap();
            body["sequence"].as_i64().unwrap()
        })
        .collect();
    assert_eq!(sequences, (1..=50).collect::<Vec<i64>>());
}

#[test]
fn who_asks_first_is_told_to_go_on() {
    let service = Service::start();
    let client = service.client();
    let path = begin(&client);
    let length = format!(
        "Content-Length: {}\r\nExpect: 100-continue\r\n",
        MESSAGE.len()
    );
    let mut stream = client.connect();
    stream.write_all(head(&path, &length).as_bytes()).unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(MESSAGE.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 "), "{answer}");
    // A body that would not be read is refused before it is sent.
    let other = head(&path, &length).replace("application/json", "text/plain");
    let mut stream = client.connect();
    stream.write_all(other.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 415 "), "{answer}");
}

#[test]
fn older_clients_are_served() {
    let service = Service::start();
    let client = service.client();
    client
        .raw(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
        .expect(200);
    let path = begin(&client);
    let said = format!(
        "POST {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{MESSAGE}",
        MESSAGE.len()
    );
    client.raw(said.as_bytes()).expect(201);
}

#[test]
fn absurd_requests_are_refused_and_do_no_harm() {
    let service = Service::start();
    let client = service.client();
    let path = begin(&client);
    let long = "x".repeat(1 << 20);
    let absurd = [
        format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {long}\r\n\r\n"),
        format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        format!("GET /healthz HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(5_000)),
        "GET /healthz HTTP/9.9\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        "\u{0}\u{1}\u{2}\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n".to_owned(),
        "GET /healthz HTTP/1.1\r\nHo\u{0}st: localhost\r\n\r\n".to_owned(),
        // One of the two lengths is where the next request starts.
        head(&path, "Content-Length: 5\r\nContent-Length: 30\r\n") + MESSAGE,
        head(&path, "Content-Length: 18446744073709551616\r\n") + MESSAGE,
        head(&path, "Content-Length: -1\r\n") + MESSAGE,
        head(&path, "Transfer-Encoding: chunked\r\n") + "ffffffffffffffffff\r\n" + MESSAGE,
        head(&path, "Transfer-Encoding: chunked\r\n") + "zz\r\n" + MESSAGE,
        head(&path, "Transfer-Encoding: gzip\r\n") + MESSAGE,
    ];
    for said in absurd {
        let mut stream = client.connect();
        let _ = stream.write_all(said.as_bytes());
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(
            answer.is_empty()
                || answer.starts_with("HTTP/1.1 4")
                || answer.starts_with("HTTP/1.0 4"),
            "{:.80}: {answer}",
            said.escape_debug().to_string()
        );
    }
    client.get("/healthz").expect(200);
    assert_eq!(all_lines(&service.store).len(), 1);
}
