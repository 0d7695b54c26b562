//! Turns posted by an agent in another language.

use decklog::query::TurnQuery;
use decklog::{ConversationTurn, TurnKind, Validity};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;

fn turn(id: Uuid, content: &str) -> Value {
    json!({
        "id": id, "message_id": Uuid::from_u128(7), "thread_id": Uuid::from_u128(8),
        "kind": "assistant", "created_at": 1_766_832_000_123_i64, "content": content,
    })
}

#[test]
fn what_is_posted_is_what_an_agent_beside_the_server_reads() {
    let service = Service::start();
    let client = service.client();
    let id = Uuid::from_u128(1);
    let posted = turn(id, "line\nof text \u{0}\u{1f600}");
    let added = client.post("/turns?wait=disk", &posted).expect(201);
    assert_eq!(added["status"], "added");
    assert!(added["seq"].as_u64().is_some_and(|seq| seq > 0));
    let read = service.store.get_turn(id).unwrap();
    let expected = ConversationTurn {
        id,
        parent_id: None,
        message_id: Uuid::from_u128(7),
        thread_id: Some(Uuid::from_u128(8)),
        kind: TurnKind::Assistant,
        created_at: Validity::at(1_766_832_000_123),
        content: "line\nof text \u{0}\u{1f600}".into(),
    };
    assert_eq!(read.as_ref(), Some(&expected));
    assert_eq!(client.get(&format!("/turns/{id}")).expect(200), posted);
    // And the other way round.
    let other = ConversationTurn {
        id: Uuid::from_u128(2),
        parent_id: Some(id),
        ..expected
    };
    service.store.record(other.clone()).unwrap();
    let page = client.get(&format!("/turns?parent_id={id}")).expect(200);
    assert_eq!(page["items"], json!([other]));
}

#[test]
fn a_retry_changes_nothing_and_a_correction_does() {
    let service = Service::start();
    let client = service.client();
    let id = Uuid::from_u128(1);
    let first = client.post("/turns", &turn(id, "one")).expect(201);
    let again = client.post("/turns", &turn(id, "one")).expect(200);
    assert_eq!(
        (&again["status"], &again["seq"]),
        (&json!("unchanged"), &first["seq"])
    );
    client.post("/turns", &turn(id, "two")).expect(201);
    let stands = client.get(&format!("/turns/{id}")).expect(200);
    assert_eq!(stands["content"], "two");
    let mut taken_back = turn(id, "two");
    taken_back["created_at"] = json!({"at": 1_766_832_000_200_i64, "is_valid": false});
    client.post("/turns", &taken_back).expect(201);
    client
        .get(&format!("/turns/{id}"))
        .expect_problem(404, "not_found", Some("id"));
}

#[test]
fn of_an_array_each_is_taken_by_itself() {
    let service = Service::start();
    let client = service.client();
    let mut nothing_to_take_back = turn(Uuid::from_u128(2), "x");
    nothing_to_take_back["created_at"] = json!({"at": 5, "is_valid": false});
    let both = json!([turn(Uuid::from_u128(1), "a"), nothing_to_take_back]);
    let results = client.post("/turns", &both).expect(207)["results"].clone();
    assert_eq!(results[0]["status"], "added");
    assert_eq!(results[1]["status"], "rejected");
    assert_eq!(results[1]["problem"]["code"], "lifecycle");
    // One invalid turn rejects them all.
    let mut not_a_turn = turn(Uuid::from_u128(4), "a");
    not_a_turn["id"] = json!("x");
    let bad = json!([turn(Uuid::from_u128(3), "a"), not_a_turn]);
    client
        .post("/turns", &bad)
        .expect_problem(422, "invalid_input", Some("/1/id"));
    let all = service.store.turns(&TurnQuery::default()).unwrap();
    assert_eq!(all.items.len(), 1);
}

/// Bug: the time of a line was accepted in any record, and lost where the record does not have it.
#[test]
fn a_time_that_only_lines_have_is_refused() {
    let service = Service::start();
    let client = service.client();
    let timed = json!({"kind": "user", "content": "hi", "at": 1_766_832_000_000_i64});
    client
        .post("/turns", &timed)
        .expect_problem(422, "invalid_input", Some("/at"));
    let timed = json!({"update_id": 1, "at": 1_766_832_000_000_i64});
    client
        .post("/inbox", &timed)
        .expect_problem(422, "invalid_input", Some("/at"));
    assert_eq!(service.store.last_lines(1).unwrap().len(), 0);
}

#[test]
fn who_does_not_wait_is_told_so_and_the_turn_comes_to_be() {
    let service = Service::start();
    let id = Uuid::from_u128(1);
    let answer = service
        .client()
        .post("/turns?wait=none", &turn(id, "queued"));
    assert_eq!(answer.expect(202), json!({"id": id, "status": "queued"}));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while service.store.get_turn(id).unwrap().is_none() {
        assert!(std::time::Instant::now() < deadline, "it was never written");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
