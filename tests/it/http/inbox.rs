//! The inbox over HTTP: workers in any language.

use decklog::record::TaskStatus;
use serde_json::json;

use super::Service;

#[test]
fn a_task_is_queued_once_claimed_by_one_and_done() {
    let service = Service::start();
    let client = service.client();
    let nothing = client.post("/inbox/claim", &json!({}));
    assert_eq!((nothing.status, nothing.body.len()), (204, 0));
    let new = json!({"update_id": 7_001, "payload": {"text": "deploy"}});
    let queued = client.post("/inbox?wait=disk", &new).expect(201);
    assert_eq!(
        (&queued["status"], &queued["attempts"]),
        (&json!("queued"), &json!(0))
    );
    let id = queued["id"].as_i64().unwrap();
    let known = client
        .post("/inbox", &json!({"update_id": 7_001, "payload": "other"}))
        .expect(200);
    assert_eq!(known, queued);
    let claimed = client.post("/inbox/claim", &json!({})).expect(200);
    assert_eq!(
        (&claimed["id"], &claimed["status"], &claimed["attempts"]),
        (&json!(id), &json!("in_progress"), &json!(1))
    );
    let again = client.post("/inbox/claim", &json!({"attempts_max": 3}));
    assert_eq!(again.status, 204);
    let done = format!("/inbox/{id}/done");
    client
        .post(&done, &json!({"attempt": 2}))
        .expect_problem(409, "conflict", None);
    let ended = client.post(&done, &json!({"attempt": 1})).expect(200);
    assert_eq!(ended["status"], "done");
    assert_eq!(
        client.post(&done, &json!({"attempt": 1})).expect(200),
        ended
    );
    let read = service.store.inbox().get(id).unwrap().unwrap();
    assert_eq!(read.status, TaskStatus::Done);
    assert_eq!(
        client.get(&format!("/inbox/{id}")).expect(200),
        serde_json::to_value(read).unwrap()
    );
    let counts = client.get("/inbox/counts").expect(200);
    assert_eq!(
        counts,
        json!({"queued": 0, "in_progress": 0, "done": 1, "failed": 0})
    );
}

#[test]
fn a_task_is_given_back_and_given_up_and_a_late_worker_holds_it_no_more() {
    let service = Service::start();
    let client = service.client();
    let task = client.post("/inbox", &json!({"update_id": -1})).expect(201);
    let path = format!("/inbox/{}", task["id"]);
    let unclaimed = client.post(&format!("{path}/done"), &json!({"attempt": 1}));
    unclaimed.expect_problem(409, "lifecycle", None);
    client.post("/inbox/claim", &json!({})).expect(200);
    let back = json!({"attempt": 1, "error": "no network"});
    let queued = client.post(&format!("{path}/retry"), &back).expect(200);
    assert_eq!(
        (&queued["status"], &queued["error"]),
        (&json!("queued"), &json!("no network"))
    );
    client.post("/inbox/claim", &json!({})).expect(200);
    let released = client
        .post("/inbox/release", &json!({"older_than_ms": 0}))
        .expect(200);
    assert_eq!(released["items"][0]["status"], "queued");
    let late = client.post(
        &format!("{path}/fail"),
        &json!({"attempt": 2, "error": "late"}),
    );
    late.expect_problem(409, "lifecycle", None);
    client.post("/inbox/claim", &json!({})).expect(200);
    let last = json!({"attempt": 3, "error": "still none", "attempts_max": 3});
    let failed = client.post(&format!("{path}/retry"), &last).expect(200);
    assert_eq!(
        (&failed["status"], &failed["attempts"]),
        (&json!("failed"), &json!(3))
    );
    let listed = client.get("/inbox?status=failed").expect(200);
    assert_eq!(listed["items"], json!([failed]));
    let unknown = client.post("/inbox/999/done", &json!({"attempt": 1}));
    unknown.expect_problem(404, "not_found", Some("id"));
}
