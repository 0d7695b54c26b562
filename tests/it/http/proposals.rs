//! Edit proposals over HTTP.

use decklog::ProposalStatus;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;

const ID: Uuid = Uuid::from_u128(0x51);

fn proposal() -> Value {
    json!({
        "request_id": ID, "created_at": 1_766_832_000_000_i64, "confidence": 0.5,
        "diffs_json": [{"file": "a.rs", "+": "x"}],
    })
}

#[test]
fn an_edit_is_proposed_approved_applied_and_reverted() {
    let service = Service::start();
    let client = service.client();
    let (path, steps) = (format!("/proposals/{ID}"), format!("/proposals/{ID}/steps"));
    client.post("/proposals", &proposal()).expect(201);
    client.post("/proposals", &proposal()).expect(200);
    assert_eq!(client.get(&path).expect(200)["status"], "pending");
    let approved = json!({"status": "approved", "at": 1_766_832_060_000_i64});
    client.post(&steps, &approved).expect(201);
    // A client without an answer sends it again, with another time.
    client
        .post(&steps, &json!({"status": "approved"}))
        .expect(200);
    let applied = json!({"status": "applied", "at": 1_766_832_070_000_i64, "commit_hash": "abc"});
    client.post(&steps, &applied).expect(201);
    let stands = client.get(&path).expect(200);
    let read = service.store.get_proposal(ID).unwrap().unwrap();
    assert_eq!(stands, serde_json::to_value(&read).unwrap());
    assert_eq!(read.status, ProposalStatus::Applied);
    assert_eq!(read.commit_hash.as_deref(), Some("abc"));
    assert_eq!(read.decided_at, Some(1_766_832_060_000));
    let other = json!({"status": "applied", "commit_hash": "def"});
    client
        .post(&steps, &other)
        .expect_problem(409, "conflict", None);
    client
        .post(&steps, &json!({"status": "reverted"}))
        .expect(201);
    let listed = client.get("/proposals?status=reverted").expect(200);
    assert_eq!(listed["items"][0]["request_id"], json!(ID));
    assert_eq!(
        client.get("/proposals?status=applied").expect(200)["items"],
        json!([])
    );
}

#[test]
fn steps_that_cannot_be_say_why() {
    let service = Service::start();
    let client = service.client();
    let steps = format!("/proposals/{ID}/steps");
    let applied = json!({"status": "applied"});
    let unknown = client.post(&steps, &applied);
    unknown.expect_problem(404, "not_found", Some("request_id"));
    assert!(unknown.text().contains("record it first"));
    client.post("/proposals", &proposal()).expect(201);
    let early = client.post(&steps, &applied);
    early.expect_problem(409, "lifecycle", None);
    assert!(early.text().contains("pending and cannot become applied"));
    client
        .post(&steps, &json!({"status": "pending"}))
        .expect_problem(422, "invalid_input", Some("/status"));
    let with_commit = json!({"status": "denied", "commit_hash": "abc"});
    assert_eq!(client.post(&steps, &with_commit).status, 422);
    client
        .post(&steps, &json!({"status": "denied"}))
        .expect(201);
    let mut others = proposal();
    others["diffs_json"] = json!("another edit");
    client
        .post("/proposals", &others)
        .expect_problem(409, "lifecycle", None);
}
