//! Tool calls over HTTP.

use decklog::{CallStatus, ToolStatus, args_sha256};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;

const REQUEST: Uuid = Uuid::from_u128(0xabc);

fn call(call_id: &str) -> Value {
    json!({
        "request_id": REQUEST, "call_id": call_id, "parent_id": Uuid::from_u128(1),
        "vendor": "anthropic", "tool_name": "read_file", "started_at": 1_766_832_000_123_i64,
        "arguments_json": {"path": "a.rs", "n": 1},
    })
}

fn outcome() -> Value {
    json!({
        "status": "completed", "ended_at": 1_766_832_000_160_i64, "latency_ms": 37,
        "outcome_json": "12 lines",
    })
}

#[test]
fn a_call_is_requested_ends_and_is_read() {
    let service = Service::start();
    let client = service.client();
    // Some vendors' ids must be percent-encoded in a path.
    let (call_id, path) = (
        "call/1 é",
        format!("/tool-calls/{REQUEST}/call%2F1%20%C3%A9"),
    );
    client.post("/tool-calls", &call(call_id)).expect(201);
    let requested = client.get(&path).expect(200);
    assert_eq!(requested["status"], "requested");
    assert_eq!(requested["ended_at"], Value::Null);
    client
        .post(&format!("{path}/done?wait=disk"), &outcome())
        .expect(201);
    let ended = client.get(&path).expect(200);
    assert_eq!(
        (
            &ended["status"],
            &ended["latency_ms"],
            &ended["outcome_json"]
        ),
        (&json!("completed"), &json!(37), &json!("12 lines"))
    );
    let (req, done) = service
        .store
        .get_tool_call(REQUEST, call_id)
        .unwrap()
        .unwrap();
    // Stored byte for byte as sent, and hashed in canonical form.
    let arguments = req.arguments_json.unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&arguments).unwrap(),
        json!({"path": "a.rs", "n": 1})
    );
    assert_eq!(req.args_sha256, args_sha256(r#"{"n":1,"path":"a.rs"}"#));
    let done = done.unwrap();
    assert_eq!(CallStatus::of(Some(&done)), CallStatus::Completed);
    assert_eq!((done.status, done.latency_ms), (ToolStatus::Completed, 37));
}

#[test]
fn retries_are_safe_and_a_second_outcome_is_a_conflict() {
    let service = Service::start();
    let client = service.client();
    client.post("/tool-calls", &call("c")).expect(201);
    client.post("/tool-calls", &call("c")).expect(200);
    let path = format!("/tool-calls/{REQUEST}/c/done");
    client.post(&path, &outcome()).expect(201);
    client.post(&path, &outcome()).expect(200);
    let mut other = outcome();
    other["status"] = json!("failed");
    client
        .post(&path, &other)
        .expect_problem(409, "conflict", None);
    let never = client.post(&format!("/tool-calls/{REQUEST}/never/done"), &outcome());
    never.expect_problem(404, "not_found", None);
    assert!(never.text().contains("record its request first"));
}

#[test]
fn a_call_without_arguments_has_their_hash() {
    let service = Service::start();
    let client = service.client();
    let mut bare = call("c");
    bare.as_object_mut().unwrap().remove("arguments_json");
    let answer = client.post("/tool-calls", &bare);
    answer.expect_problem(422, "invalid_input", Some("/args_sha256"));
    bare["args_sha256"] = args_sha256("{}").into();
    client.post("/tool-calls", &bare).expect(201);
    let read = client.get(&format!("/tool-calls/{REQUEST}/c")).expect(200);
    assert_eq!(read["args_sha256"], args_sha256("{}"));
    assert_eq!(read.get("arguments_json"), None);
}

#[test]
fn lists_take_what_the_library_takes() {
    let service = Service::start();
    let client = service.client();
    for n in 0..6 {
        let mut new = call(&format!("c{n}"));
        new["tool_name"] = json!(if n % 2 == 0 { "even" } else { "odd" });
        new["started_at"] = json!(1_766_832_000_000_i64 + n);
        client.post("/tool-calls", &new).expect(201);
    }
    client
        .post(&format!("/tool-calls/{REQUEST}/c2/done"), &outcome())
        .expect(201);
    let ids = |query: &str| -> Vec<String> {
        let page = client.get(&format!("/tool-calls?{query}")).expect(200);
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|it| it["call_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids("tool_name=even"), ["c4", "c2", "c0"]);
    assert_eq!(
        ids("tool_name=even&status=requested&order=asc"),
        ["c0", "c4"]
    );
    assert_eq!(ids("status=completed"), ["c2"]);
    assert_eq!(ids("since=1766832000004"), ["c5", "c4"]);
    assert_eq!(ids("until=2025-12-27T10:40:00.002Z"), ["c1", "c0"]);
    assert_eq!(ids("vendor=other"), [""; 0]);
    let first = client.get("/tool-calls?limit=4").expect(200);
    let next = first["next"].as_str().unwrap();
    assert_eq!(ids(&format!("limit=4&after={next}")), ["c1", "c0"]);
}
