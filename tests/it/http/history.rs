//! The history of chats over HTTP.

use serde_json::{Value, json};

use super::Service;

fn contents(answer: &Value) -> Vec<String> {
    let items = answer["items"].as_array().unwrap().iter();
    items
        .map(|it| it["text"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_chat_is_appended_to_and_read_from_its_end() {
    let service = Service::start();
    let client = service.client();
    let chat = -1_001_234_i64;
    for n in 0..3 {
        let entry = json!({"chat_id": chat, "role": "user", "text": n.to_string()});
        client.post("/history", &entry).expect(201);
        let other = json!({"chat_id": 5, "role": "assistant", "text": "elsewhere"});
        client.post("/history", &other).expect(201);
    }
    let rest: Vec<Value> = (3..100)
        .map(|n| json!({"chat_id": chat, "role": "user", "text": n.to_string()}))
        .collect();
    client.post("/history", &json!(rest)).expect(201);
    let last = client.get(&format!("/history/{chat}?last=40")).expect(200);
    let read = service.store.history(chat, 40).unwrap();
    assert_eq!(last["items"], serde_json::to_value(read).unwrap());
    // Back to the start, page by page.
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = client
            .get(&format!("/history/{chat}?last=40{before}"))
            .expect(200);
        seen.splice(0..0, contents(&page));
        match page["before"].as_i64() {
            Some(id) => before = format!("&before={id}"),
            None => break,
        }
    }
    let wanted: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(seen, wanted);
    let none = client.get("/history/77").expect(200);
    assert_eq!(none, json!({"items": []}));
    let none = client.get(&format!("/history/{chat}?last=0")).expect(200);
    assert_eq!(none, json!({"items": []}));
}

#[test]
fn an_entry_with_an_id_is_appended_once() {
    let service = Service::start();
    let client = service.client();
    let entry = json!({"id": 9, "chat_id": 1, "role": "user", "text": "once"});
    client.post("/history", &entry).expect(201);
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(client.post("/history", &entry).expect(200)["id"], 9);
    let mut other = entry;
    other["text"] = json!("twice");
    client
        .post("/history", &other)
        .expect_problem(409, "conflict", None);
    assert_eq!(service.store.history(1, 10).unwrap().len(), 1);
}
