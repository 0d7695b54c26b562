//! The server is killed with SIGKILL repeatedly while clients post and listen. Acknowledged records
//! are there once, repeated requests create no duplicates, and listeners get each record once, in
//! order.
//!
//! `DECKLOG_HTTP_KILLS` sets the number of kills.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use decklog::{Record, Store, verify};
use serde_json::json;
use uuid::Uuid;

use super::client::Client;
use super::process::Process;
use super::sse::{Events, Said};
use crate::support::{Rng, all_lines, count};

const CLIENTS: usize = 4;
const LISTENERS: usize = 3;
const PAUSE: Duration = Duration::from_millis(5);

fn post(client: &Client, path: &str, header: &str, body: &str) -> Option<u16> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{header}\r\n",
        body.len()
    );
    let answer = client.try_send((head + body).as_bytes());
    answer.ok().map(|answer| answer.status)
}

/// Sends a request until it is acknowledged; returns the status, and how often it was sent.
fn insist(client: &Client, path: &str, header: &str, body: &str) -> (u16, u64) {
    let mut tries = 1;
    loop {
        match post(client, path, header, body) {
            Some(status @ (200 | 201)) => return (status, tries),
            // Not running, or reopening.
            None | Some(503) => {}
            Some(status) => panic!("{status}: {body}"),
        }
        tries += 1;
        std::thread::sleep(PAUSE);
    }
}

/// Posts messages until `is_over` is set. Returns the number of messages, and how many of them existed
/// already when they were sent again.
fn talk(client: &Client, nth: usize, is_over: &AtomicBool) -> (u64, u64) {
    let id = Uuid::new_v4();
    let begin = json!({"id": id, "client": "api", "created_at": "2025-12-27T08:00:00Z"});
    insist(client, "/conversations", "", &begin.to_string());
    let path = format!("/conversations/{id}/messages");
    let (mut sent, mut known) = (0, 0);
    while !is_over.load(Ordering::Relaxed) {
        let content = format!("{nth} says {sent}");
        let mut message = json!({"role": "user", "content": content});
        let mut header = String::new();
        if sent % 2 == 0 {
            message["id"] = json!(Uuid::new_v4());
        } else {
            header = format!("Idempotency-Key: {nth}-{sent}\r\n");
        }
        let wait = if sent % 5 == 0 { "?wait=disk" } else { "" };
        let (status, tries) = insist(
            client,
            &format!("{path}{wait}"),
            &header,
            &message.to_string(),
        );
        assert!(status == 201 || tries > 1, "{status} at the first try");
        known += u64::from(status == 200);
        sent += 1;
    }
    (sent, known)
}

/// Listens from the start, reconnecting as needed, until the last record. Returns the received
/// numbers, and the number of connections.
fn listen(client: &Client, last: &std::sync::OnceLock<u64>) -> (Vec<u64>, u64) {
    let (mut heard, mut last_id, mut breaks) = (Vec::new(), 0, 0);
    loop {
        if let Ok(mut events) = Events::try_open(client, "", Some(last_id)) {
            events.timeout(Duration::from_millis(500));
            while let Ok(said) = events.next() {
                if let Said::Event { id, .. } = said {
                    heard.push(id);
                }
                if last.get().is_some() && heard.last() >= last.get() {
                    return (heard, breaks);
                }
            }
            last_id = events.last_id.unwrap_or(last_id);
            breaks += 1;
        }
        std::thread::sleep(PAUSE);
    }
}

#[test]
fn what_was_acknowledged_outlives_the_server() {
    let kills = count("DECKLOG_HTTP_KILLS", 4);
    let mut rng = Rng::seeded("what_was_acknowledged_outlives_the_server");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut process = Process::start(&path, 0);
    let port = process.addr.port();
    let client = process.client();
    let (is_over, last) = (AtomicBool::new(false), std::sync::OnceLock::new());
    let (sent, heard) = std::thread::scope(|scope| {
        let (client, is_over, last) = (&client, &is_over, &last);
        let process = &mut process;
        let talkers: Vec<_> = (0..CLIENTS)
            .map(|nth| scope.spawn(move || talk(client, nth, is_over)))
            .collect();
        let listeners: Vec<_> = (0..LISTENERS)
            .map(|_| scope.spawn(move || listen(client, last)))
            .collect();
        for _ in 0..kills {
            std::thread::sleep(Duration::from_millis(20 + rng.below(400) as u64));
            process.kill();
            *process = Process::start(&path, port);
        }
        std::thread::sleep(Duration::from_millis(100));
        is_over.store(true, Ordering::Relaxed);
        let sent: Vec<(u64, u64)> = talkers.into_iter().map(|it| it.join().unwrap()).collect();
        let store = Store::options().read_only(true).open(&path).unwrap();
        last.set(store.last_lines(1).unwrap()[0].seq).unwrap();
        let heard: Vec<(Vec<u64>, u64)> =
            listeners.into_iter().map(|it| it.join().unwrap()).collect();
        (sent, heard)
    });
    process.end();
    let store = Store::options().read_only(true).open(&path).unwrap();
    let lines = all_lines(&store);
    let mut there: BTreeMap<String, u64> = BTreeMap::new();
    for (_, record) in &lines {
        if let Record::Message(message) = record {
            *there.entry(message.content.clone()).or_default() += 1;
        }
    }
    let all: u64 = sent.iter().map(|(sent, _)| sent).sum();
    for (nth, (sent, _)) in sent.iter().enumerate() {
        for n in 0..*sent {
            let content = format!("{nth} says {n}");
            assert_eq!(there.get(&content), Some(&1), "{content}");
        }
    }
    assert_eq!(there.len() as u64, all);
    let wanted: Vec<u64> = lines.iter().map(|(seq, _)| *seq).collect();
    let mut breaks = 0;
    for (heard, of_it) in heard {
        assert_eq!(heard, wanted);
        breaks += of_it;
    }
    let known: u64 = sent.iter().map(|(_, known)| known).sum();
    println!(
        "{kills} kills: {all} messages acknowledged, each there once, of which {known} were there when sent again; {LISTENERS} streams heard {} records each, begun anew {breaks} times",
        wanted.len()
    );
    let found = verify(&decklog::storage::Disk::new(&path)).unwrap();
    assert!(
        found.gaps.is_empty() && found.repeats.is_empty(),
        "{found:?}"
    );
}
