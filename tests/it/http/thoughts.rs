//! Thoughts over HTTP, and their chains.

use serde_json::{Value, json};

use super::Service;

fn thought(content: &str) -> Value {
    json!({"type": "plan", "task_id": "fix the build", "agent_id": "coder", "content": content})
}

#[test]
fn thoughts_are_chained_listed_and_verified() {
    let service = Service::start();
    let client = service.client();
    let first = client.post("/thoughts", &thought("read")).expect(201);
    let second = client
        .post("/thoughts?wait=disk", &thought("mend"))
        .expect(201);
    assert_eq!(first["prev_hash"], decklog::record::GENESIS_HASH);
    assert_eq!(second["prev_hash"], first["hash"]);
    let mut elsewhere = thought("x");
    elsewhere["task_id"] = json!("another");
    client.post("/thoughts", &elsewhere).expect(201);
    let of_task = "task_id=fix%20the%20build";
    let page = client
        .get(&format!("/thoughts?{of_task}&limit=1"))
        .expect(200);
    assert_eq!(page["items"], json!([first]));
    let next = page["next"].as_str().unwrap();
    let page = client
        .get(&format!("/thoughts?{of_task}&limit=1&after={next}"))
        .expect(200);
    assert_eq!(page, json!({"items": [second]}));
    let beside = service.store.thoughts();
    let all = beside.list(None, None).unwrap();
    assert_eq!(
        client.get("/thoughts").expect(200)["items"],
        serde_json::to_value(&all).unwrap()
    );
    let id = second["id"].as_str().unwrap();
    assert_eq!(client.get(&format!("/thoughts/{id}")).expect(200), second);
    let check = client
        .get(&format!("/thoughts/verify?{of_task}"))
        .expect(200);
    assert_eq!(
        check,
        json!({"task_id": "fix the build", "is_intact": true, "records": 2, "head": second["hash"], "damage": 0})
    );
    let unknown = client.get("/thoughts/verify?task_id=none").expect(200);
    assert_eq!(
        (&unknown["records"], &unknown["head"]),
        (&json!(0), &Value::Null)
    );
}

#[test]
fn a_thought_with_an_id_or_a_key_is_recorded_once() {
    let service = Service::start();
    let client = service.client();
    let mut with_id = thought("once");
    with_id["id"] = json!("r/1");
    let first = client.post("/thoughts", &with_id).expect(201);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(client.post("/thoughts", &with_id).expect(200), first);
    assert_eq!(client.get("/thoughts/r%2F1").expect(200), first);
    with_id["content"] = json!("twice");
    client
        .post("/thoughts", &with_id)
        .expect_problem(409, "conflict", None);
    let keyed = client.with("Idempotency-Key", "k-1");
    let first = keyed.post("/thoughts", &thought("by key")).expect(201);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(
        keyed.post("/thoughts", &thought("by key")).expect(200),
        first
    );
    let other = client.with("Idempotency-Key", "k-2");
    other.post("/thoughts", &thought("by key")).expect(201);
    assert_eq!(service.store.thoughts().list(None, None).unwrap().len(), 3);
}

/// A rewritten line is reported, without any path of the server.
#[test]
fn a_chain_that_was_changed_is_told() {
    let service = Service::start();
    let client = service.client();
    for text in ["one", "two", "three"] {
        client.post("/thoughts", &thought(text)).expect(201);
    }
    let dir = service.store.path().to_owned();
    let mut days = std::fs::read_dir(&dir).unwrap().flatten();
    let file = days
        .find_map(|day| {
            let files = std::fs::read_dir(day.path()).ok()?.flatten();
            let mut files = files.map(|file| file.path());
            files.find(|path| path.to_string_lossy().contains("thought_records"))
        })
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"two\"", "\"TWO\"")).unwrap();
    let check = client.get("/thoughts/verify?task_id=fix%20the%20build");
    let found = check.expect(200);
    assert_eq!(
        (&found["is_intact"], &found["records"]),
        (&json!(false), &json!(3))
    );
    assert_eq!(found["broken"]["position"], 2);
    assert!(!check.text().contains(&*dir.to_string_lossy()), "{found}");
}
