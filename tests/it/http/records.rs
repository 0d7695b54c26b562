//! `POST /records`: lines of any kind, each accepted or rejected separately.

use std::io::Write as _;

use decklog::http::Options;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;
use super::client::{Answer, Client};
use crate::support::all_lines;

fn post(client: &Client, path: &str, body: &[u8]) -> Answer {
    let client = client.with("Content-Type", "application/x-ndjson");
    client.send("POST", path, body)
}

/// The results of the lines.
fn results(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let lines = answer.text().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn statuses(answer: &Answer) -> Vec<(u64, String)> {
    let results = results(answer).into_iter();
    results
        .map(|result| {
            let status = result["status"].as_str().unwrap().to_owned();
            (result["line"].as_u64().unwrap(), status)
        })
        .collect()
}

fn event(n: usize) -> String {
    json!({"kind": "events", "event_type": "test.said", "payload": {"n": n}}).to_string()
}

#[test]
fn lines_of_all_kinds_are_taken_one_by_one() {
    let service = Service::start();
    let conversation = Uuid::new_v4();
    let message = json!({"kind": "messages", "id": Uuid::new_v4(), "role": "user",
        "conversation_id": conversation, "content": "hi", "timestamp": "2025-12-27T08:00:00Z"});
    let body = [
        json!({"kind": "conversations", "id": conversation, "client": "cli"}).to_string(),
        message.to_string(),
        message.to_string(),
        event(1),
        json!({"kind": "inbox", "update_id": 7, "payload": {"text": "deploy"}}).to_string(),
        json!({"kind": "messages", "conversation_id": Uuid::new_v4(), "role": "user", "content": "no"}).to_string(),
        json!({"kind": "messages", "conversation_id": conversation, "role": "king", "content": "no"}).to_string(),
        json!({"kind": "thought_records", "task_id": "t", "agent_id": "a", "type": "plan", "content": "x"}).to_string(),
    ];
    let answer = post(&service.client(), "/records", body.join("\n").as_bytes());
    let results = results(&answer);
    let said: Vec<_> = results.iter().map(|it| it["status"].clone()).collect();
    let wanted = [
        "added",
        "added",
        "unchanged",
        "added",
        "added",
        "rejected",
        "rejected",
        "added",
    ];
    assert_eq!(said, wanted, "{results:?}");
    assert_eq!(results[1]["assigned"], 1);
    assert_eq!(
        (&results[3]["assigned"], &results[4]["assigned"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(results[1]["seq"], results[2]["seq"]);
    assert_eq!(results[5]["problem"]["code"], "not_found");
    assert_eq!(results[6]["problem"]["code"], "invalid_input");
    assert_eq!(results[6]["problem"]["status"], 422);
    assert!(
        results[6]["problem"]["detail"]
            .as_str()
            .unwrap()
            .contains("king")
    );
    assert!(results[5].get("seq").is_none());
    let seqs: Vec<u64> = results.iter().filter_map(|it| it["seq"].as_u64()).collect();
    let mut lines: Vec<u64> = all_lines(&service.store)
        .into_iter()
        .map(|it| it.0)
        .collect();
    lines.insert(1, seqs[1]);
    assert_eq!(seqs, lines);
    // Sent again by a client that got no answer.
    let again = post(
        &service.client(),
        "/records?wait=disk",
        body[..3].join("\n").as_bytes(),
    );
    let unchanged = |line: u64| (line, "unchanged".to_owned());
    assert_eq!(statuses(&again)[1..], [unchanged(2), unchanged(3)]);
}

#[test]
fn lines_are_told_apart_however_they_end() {
    let service = Service::start();
    let mut body = Vec::new();
    body.extend("\u{feff}".as_bytes());
    body.extend(event(1).as_bytes());
    body.extend(b"\r\n\r\n  \t\n");
    body.extend(event(4).as_bytes());
    body.extend(b"\n{\"kind\":\"events\",\"event_type\":\"test.\xff\"}\n");
    body.extend("\u{feff}".as_bytes());
    body.extend(event(6).as_bytes());
    body.extend(b"\n[1]\nnull\n");
    body.extend(event(9).as_bytes());
    // Torn.
    body.extend(b"\n{\"kind\":\"events\",\"event_ty");
    let answer = post(&service.client(), "/records", &body);
    let wanted = [
        (1, "added"),
        (4, "added"),
        (5, "rejected"),
        (6, "rejected"),
        (7, "rejected"),
        (8, "rejected"),
        (9, "added"),
        (10, "rejected"),
    ];
    let wanted = wanted.map(|(line, status)| (line, status.to_owned()));
    assert_eq!(statuses(&answer), wanted, "{}", answer.text());
    assert!(
        results(&answer)[2]["problem"]["detail"]
            .as_str()
            .unwrap()
            .contains("UTF-8")
    );
    assert_eq!(all_lines(&service.store).len(), 3);
    // An empty body is not an error.
    for nothing in ["", "\n", "\r\n\r\n"] {
        let answer = post(&service.client(), "/records", nothing.as_bytes());
        assert_eq!((answer.status, answer.body.len()), (200, 0));
    }
}

#[test]
fn bodies_may_be_compressed() {
    let service = Service::start();
    let text: String = (0..5_000).map(|n| event(n) + "\n").collect();
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    let zstd = compress_to_vec(text.as_bytes(), CompressionLevel::Fastest);
    let as_gzip = service.client().with("Content-Encoding", "gzip");
    let as_zstd = service.client().with("Content-Encoding", "zstd");
    // Bug: of several parts, each compressed separately, only the first was read and the others
    // were lost.
    let (one, other) = text.as_bytes().split_at(text.len() / 2);
    let parts = [gzip(one), gzip(other)].concat();
    let cases = [
        (&as_gzip, &gzip(text.as_bytes())),
        (&as_gzip, &parts),
        (&as_zstd, &zstd),
    ];
    for (client, body) in cases {
        let answer = post(client, "/records", body);
        let statuses = statuses(&answer);
        assert_eq!(statuses.len(), 5_000);
        assert!(statuses.iter().all(|(_, status)| status == "added"));
        let before = all_lines(&service.store).len();
        // Truncated: nothing of it is recorded.
        post(client, "/records", &body[..body.len() / 2]).expect_problem(400, "bad_request", None);
        post(client, "/records", b"not compressed").expect_problem(400, "bad_request", None);
        assert_eq!(all_lines(&service.store).len(), before);
    }
    assert_eq!(all_lines(&service.store).len(), 15_000);
    // It expands more than a thousandfold.
    let bomb = vec![b' '; 64 << 20];
    let small = gzip(&bomb);
    assert!(small.len() < 1 << 20);
    post(&as_gzip, "/records", &small).expect_problem(413, "too_large", None);
    let small = compress_to_vec(&bomb[..], CompressionLevel::Fastest);
    assert!(small.len() < 1 << 20);
    post(&as_zstd, "/records", &small).expect_problem(413, "too_large", None);
    for other in ["br", "deflate", "gzip, zstd", ""] {
        let client = service.client().with("Content-Encoding", other);
        let answer = post(&client, "/records", text.as_bytes());
        answer.expect_problem(415, "unsupported_media_type", Some("Content-Encoding"));
    }
    let plain = service.client().with("Content-Encoding", "identity");
    assert_eq!(
        statuses(&post(&plain, "/records", event(1).as_bytes())).len(),
        1
    );
}

#[test]
fn limits_are_kept() {
    let mut options = Options::default();
    options.body_bytes_max = 40 << 20;
    let service = Service::with(&options);
    let client = service.client();
    // Longer than a log line may be, between others.
    let long = json!({"kind": "events", "event_type": "test.said", "payload": {"x": "y".repeat(17 << 20)}});
    let body = [event(1), long.to_string(), event(3)].join("\n");
    let answer = post(&client, "/records", body.as_bytes());
    let said: Vec<String> = statuses(&answer)
        .into_iter()
        .map(|(_, status)| status)
        .collect();
    assert_eq!(said, ["added", "rejected", "added"]);
    assert_eq!(results(&answer)[1]["problem"]["code"], "invalid_input");
    // The maximum number of lines, whether or not the last one has an LF.
    let many = "\n".repeat(99_999) + &event(4);
    for (body, said) in [(many.clone(), "added"), (many.clone() + "\n", "added")] {
        let answer = post(&client, "/records", body.as_bytes());
        assert_eq!(statuses(&answer), [(100_000, said.to_owned())]);
    }
    for more in ["\n\n", "\nx", "\n "] {
        let answer = post(&client, "/records", (many.clone() + more).as_bytes());
        answer.expect_problem(413, "too_large", None);
    }
    let huge = vec![b'\n'; (40 << 20) + 1];
    post(&client, "/records", &huge).expect_problem(413, "too_large", None);
}

#[test]
fn what_is_no_lines_is_refused() {
    let service = Service::start();
    let client = service.client();
    for other in [
        "application/json",
        "text/plain",
        "application/x-www-form-urlencoded",
        "",
    ] {
        let answer =
            client
                .with("Content-Type", other)
                .send("POST", "/records", event(1).as_bytes());
        answer.expect_problem(415, "unsupported_media_type", Some("Content-Type"));
    }
    client
        .send("POST", "/records", event(1).as_bytes())
        .expect_problem(415, "unsupported_media_type", Some("Content-Type"));
    let jsonl = client.with("Content-Type", "application/jsonl; charset=utf-8");
    assert_eq!(
        jsonl.send("POST", "/records", event(1).as_bytes()).status,
        200
    );
    let none = post(&client, "/records?wait=none", event(1).as_bytes());
    none.expect_problem(400, "bad_request", Some("wait"));
    for answer in [
        client.get("/records"),
        client.delete("/records"),
        client.patch("/records", &json!({})),
    ] {
        answer.expect_problem(405, "method_not_allowed", None);
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    assert_eq!(all_lines(&service.store).len(), 1);
}

/// A time in seconds reads as a time before 1980 in milliseconds. It is accepted with a warning.
#[test]
fn a_time_in_seconds_is_told_of() {
    let service = Service::start();
    let client = service.client();
    let is_told = |answer: &serde_json::Value| {
        answer["warning"]
            .as_str()
            .is_some_and(|it| it.contains("in seconds"))
    };
    for (at, is_early) in [(1_766_832_000_i64, true), (1_766_832_000_000, false)] {
        let event = serde_json::json!({ "event_type": "a.b", "created_at": at });
        let answer = client.post("/events", &event).expect(201);
        assert_eq!(is_told(&answer), is_early, "{answer}");
        let line = serde_json::json!({ "kind": "events", "event_type": "a.b", "created_at": at });
        let line = format!("{line}\n");
        let answer = client.with("Content-Type", "application/x-ndjson").send(
            "POST",
            "/records",
            line.as_bytes(),
        );
        let answer: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(
            (&answer["status"], is_told(&answer)),
            (&"added".into(), is_early),
            "{answer}"
        );
    }
    let talk = uuid::Uuid::from_u128(7);
    service
        .store
        .record(decklog::Conversation::new(talk, decklog::Client::Api))
        .unwrap();
    let message = serde_json::json!({
        "role": "user", "content": "x", "timestamp": "1970-01-21T10:47:12Z",
    });
    let path = format!("/conversations/{talk}/messages");
    let answer = client.post(&path, &message).expect(201);
    assert!(is_told(&answer), "{answer}");
}

/// An id set by a client must leave room for the ids that the log assigns, and be exact in
/// JavaScript.
#[test]
fn an_id_past_the_bound_is_refused() {
    let service = Service::start();
    let client = service.client();
    let bound = decklog::record::GIVEN_NUMBER_MAX;
    for id in [bound + 1, (1 << 53) - 1, i64::MAX - 1] {
        let event = serde_json::json!({ "event_type": "a.b", "id": id });
        let refused = client.post("/events", &event);
        assert_eq!(refused.status, 422, "{}", refused.text());
    }
    let event = serde_json::json!({ "event_type": "a.b", "id": bound });
    assert_eq!(client.post("/events", &event).expect(201)["id"], bound);
    let event = serde_json::json!({ "event_type": "a.b" });
    assert_eq!(client.post("/events", &event).expect(201)["id"], bound + 1);
}
