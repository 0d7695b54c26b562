//! Thousands of slow clients: they block no one, and are disconnected in the end.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use decklog::http::Options;
use serde_json::json;

use super::Service;
use super::client::Client;

const HEALTHZ_MAX: Duration = Duration::from_millis(100);
const IDLE: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Both ends of each connection are descriptors of this process.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[cfg(not(unix))]
fn allow_many_files() {}

/// Creates a conversation with a long answer; returns its path.
fn long(client: &Client) -> String {
    let begun = client
        .post("/conversations", &json!({"client": "api"}))
        .expect(201);
    let path = format!("/conversations/{}", begun["id"].as_str().unwrap());
    let message = json!({"role": "user", "content": "x".repeat(6 << 20)});
    client
        .post(&format!("{path}/messages"), &message)
        .expect(201);
    path
}

fn open(client: &Client, said: &str) -> TcpStream {
    let mut stream = client.connect();
    stream.write_all(said.as_bytes()).unwrap();
    stream
}

/// The median and maximum duration of some requests.
fn healthz(client: &Client) -> (Duration, Duration) {
    let took = || {
        let started = Instant::now();
        client.get("/healthz").expect(200);
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..40).map(|_| took()).collect();
    times.sort_unstable();
    (times[times.len() / 2], times[times.len() - 1])
}

#[test]
fn a_thousand_slow_clients_hold_up_no_one() {
    allow_many_files();
    let mut options = Options::default();
    // They stay for the whole test.
    options.header_timeout = Duration::from_secs(120);
    options.body_timeout = Duration::from_secs(120);
    options.shutdown_timeout = Duration::from_secs(1);
    let service = Service::with(&options);
    let client = service.client();
    let long = long(&client);
    let asks = format!("GET {long} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let begins = format!(
        "POST {long}/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{\"role\":"
    );
    let is_sending = |nth: usize| (1..=32).contains(&nth);
    let mut slow = Vec::new();
    for nth in 0..1_000 {
        let said = match nth % 50 {
            // Never reads the answer.
            0 => &*asks,
            nth if is_sending(nth) && nth % 2 == 0 => "GET /healthz HTTP/1.1\r\nHost: local",
            nth if is_sending(nth) => &begins,
            _ => IDLE,
        };
        slow.push(open(&client, said));
    }
    let mut is_quick = false;
    for _ in 0..5 {
        // They send one byte after the other.
        for (nth, stream) in slow.iter_mut().enumerate() {
            if is_sending(nth % 50) {
                stream.write_all(b"x").unwrap();
            }
        }
        let (median, max) = healthz(&client);
        println!("1,000 slow clients: healthz median {median:?}, max {max:?}");
        is_quick = max < HEALTHZ_MAX;
        if is_quick {
            break;
        }
    }
    assert!(is_quick);
    let begun = client.post("/conversations", &json!({"client": "api"}));
    begun.expect(201);
}

/// Reads until the server closes the connection; returns the last answer.
fn end_of(stream: &mut TcpStream) -> String {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut said = Vec::new();
    // It may be reset, with unread data.
    match stream.read_to_end(&mut said) {
        Err(e)
            if matches!(
                e.kind(),
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
            ) =>
        {
            panic!("the server does not end it: {e}")
        }
        _ => String::from_utf8_lossy(&said).into_owned(),
    }
}

#[test]
fn who_is_too_slow_is_cut_off() {
    let mut options = Options::default();
    options.header_timeout = Duration::from_secs(1);
    options.body_timeout = Duration::from_secs(1);
    options.take_timeout = Duration::from_secs(1);
    let service = Service::with(&options);
    let client = service.client();
    let long = long(&client);
    let mut silent = open(&client, "");
    let mut loris = open(&client, "GET /healthz HTTP/1.1\r\nX-A: b\r\n");
    let mut idle = open(&client, IDLE);
    let body = format!(
        "POST {long}/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{{"
    );
    let mut half = open(&client, &body);
    // More than the system's buffers hold.
    let asks = format!("GET {long} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut deaf = open(&client, &asks.repeat(4));
    assert_eq!(end_of(&mut silent), "");
    assert!(!end_of(&mut loris).contains(" 200 "));
    let answered = end_of(&mut idle);
    assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
    let told = end_of(&mut half);
    assert!(told.starts_with("HTTP/1.1 408 "), "{told}");
    // All of them are gone except the one that makes this request.
    let started = Instant::now();
    while !client
        .get("/metrics")
        .text()
        .contains("decklog_http_connections 1\n")
    {
        assert!(started.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(50));
    }
    let heard = end_of(&mut deaf);
    assert!(heard.len() < 4 * (6 << 20));
}

#[test]
fn others_wait_where_there_are_as_many_as_may_be() {
    let mut options = Options::default();
    options.header_timeout = Duration::from_secs(1);
    options.connections_max = 4;
    let service = Service::with(&options);
    let client = service.client();
    let slow: Vec<_> = (0..4).map(|_| open(&client, "GET /hea")).collect();
    let started = Instant::now();
    // It is answered once one of them is disconnected.
    client.get("/healthz").expect(200);
    let took = started.elapsed();
    assert!(
        took > Duration::from_millis(500) && took < Duration::from_secs(20),
        "{took:?}"
    );
    drop(slow);
    client.get("/healthz").expect(200);
}
