//! Events and their trees over HTTP.

use decklog::query::EventQuery;
use serde_json::{Value, json};

use super::Service;

fn log(service: &Service, event: &Value) -> i64 {
    let logged = service.client().post("/events", event).expect(201);
    logged["id"].as_i64().unwrap()
}

#[test]
fn a_supervisor_logs_a_run_and_reads_its_tree() {
    let service = Service::start();
    let client = service.client();
    let run = log(
        &service,
        &json!({"event_type": "agent.started", "created_at": 1_000}),
    );
    let both = json!([
        {"event_type": "tool_call.started", "parent_id": run, "created_at": 1_010, "payload": {"call_id": "c1"}},
        {"event_type": "tool_call.failed", "parent_id": run, "created_at": 1_025, "payload": {"call_id": "c1"}},
    ]);
    let results = client.post("/events", &both).expect(201)["results"].clone();
    assert_eq!(results[1]["id"], run + 2);
    let tree = client.get(&format!("/events/{run}/tree")).expect(200);
    let nodes = service.store.event_tree(run).unwrap().unwrap().nodes;
    assert_eq!(tree["nodes"], serde_json::to_value(nodes).unwrap());
    assert_eq!(
        (
            &tree["nodes"][1]["status"],
            &tree["nodes"][1]["duration_ms"]
        ),
        (&json!("failed"), &json!(15))
    );
    let event = client.get(&format!("/events/{}", run + 1)).expect(200);
    let read = service.store.get_event(run + 1).unwrap().unwrap();
    assert_eq!(event, serde_json::to_value(read).unwrap());
    let ids = |query: &str| -> Vec<i64> {
        let page = client.get(&format!("/events?{query}")).expect(200);
        let items = page["items"].as_array().unwrap().iter();
        items.map(|it| it["id"].as_i64().unwrap()).collect()
    };
    assert_eq!(ids("roots=true"), [run]);
    assert_eq!(
        ids(&format!("parent_id={run}&order=desc")),
        [run + 2, run + 1]
    );
    assert_eq!(ids("event_type=tool_call.failed"), [run + 2]);
    assert_eq!(ids("since=1010&until=1025"), [run + 1]);
}

#[test]
fn an_event_with_an_id_is_logged_once_also_where_its_time_is_left_to_the_server() {
    let service = Service::start();
    let client = service.client();
    let event = json!({"id": 41, "event_type": "worker.spawned", "payload": "w1"});
    let first = client.post("/events", &event).expect(201);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let again = client.post("/events", &event).expect(200);
    assert_eq!((&again["id"], &again["seq"]), (&json!(41), &first["seq"]));
    let mut other = event.clone();
    other["payload"] = json!("w2");
    client
        .post("/events", &other)
        .expect_problem(409, "conflict", None);
    // A time given by the client is used.
    let mut at = event;
    at["created_at"] = json!(5);
    client
        .post("/events", &at)
        .expect_problem(409, "conflict", None);
    let all = service.store.events(&EventQuery::default()).unwrap();
    assert_eq!(all.items.len(), 1);
}

#[test]
fn an_event_under_none_is_rejected() {
    let service = Service::start();
    let client = service.client();
    let orphan = json!({"event_type": "worker.exited", "parent_id": 999});
    let answer = client.post("/events", &orphan);
    answer.expect_problem(409, "lifecycle", None);
    assert!(answer.text().contains("log the parent first"));
    client
        .get("/events/999/tree")
        .expect_problem(404, "not_found", Some("id"));
    let undotted = json!({"event_type": "spawned"});
    client
        .post("/events", &undotted)
        .expect_problem(422, "invalid_input", Some("/event_type"));
}
