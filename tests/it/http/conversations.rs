//! Conversations and their messages, as a gateway posts them and a team reads them.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;

fn begin(service: &Service) -> String {
    let answer = service
        .client()
        .post("/conversations", &json!({"client": "api"}));
    answer.expect(201)["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_gateway_posts_what_it_sees_and_reads_it_back() {
    let service = Service::start();
    let client = service.client();
    let id = Uuid::new_v4();
    let begun = client.post(
        "/conversations",
        &json!({"id": id, "client": "vscode", "workspace": "w", "created_at": "2025-12-27T08:00:00Z"}),
    );
    assert_eq!(
        begun.header("location"),
        Some(&*format!("/conversations/{id}"))
    );
    let begun = begun.expect(201);
    assert_eq!(
        (&begun["status"], &begun["created_at"]),
        (&json!("active"), &json!("2025-12-27T08:00:00Z"))
    );
    let path = format!("/conversations/{id}/messages");
    let question = client.post(&path, &json!({"role": "user", "content": "What is 1 + 1?"}));
    assert_eq!(question.expect(201)["sequence"], 1);
    let answers = client.json(
        "POST",
        &path,
        br#"[{"role": "assistant", "content": "2", "model_used": "small-1", "tokens_in": 12,
            "tokens_out": 1, "tool_args": {"a": [1, 2.50]}}]"#,
    );
    assert_eq!(answers.expect(201)["results"][0]["sequence"], 2);
    let whole = client.get(&format!("/conversations/{id}")).expect(200);
    assert_eq!(
        (&whole["message_count"], &whole["total_tokens_in"]),
        (&json!(2), &json!(12))
    );
    assert_eq!(whole["messages"][1]["content"], "2");
    // An agent that embeds the log reads exactly what was posted.
    let (_, stats) = service.store.get_conversation(id).unwrap().unwrap();
    assert_eq!(stats.models_used, ["small-1"]);
    let page = client
        .get(&format!("{path}?limit=1&order=desc"))
        .expect(200);
    let seen = service
        .store
        .get_message(page["items"][0]["id"].as_str().unwrap().parse().unwrap());
    assert_eq!(
        seen.unwrap().unwrap().tool_args.as_deref(),
        Some(r#"{"a": [1, 2.50]}"#)
    );
    let split = json!({"role": "assistant", "content": "3", "tokens_in": 100, "tokens_out": 9,
        "tokens_cache_write": 20, "tokens_cache_write_1h": 5, "tokens_cache_read": 70, "tokens_reasoning": 4});
    client.post(&path, &split).expect(201);
    let usage = client.get("/analytics/usage?bucket=all").expect(200);
    let total = json!({"messages": 3, "requests": 2, "tokens_in": 112, "tokens_input": 22,
        "tokens_cache_write": 20, "tokens_cache_write_1h": 5, "tokens_cache_read": 70, "tokens_out": 10, "tokens_reasoning": 4,
        "unpriced": 2});
    assert_eq!(usage["total"], total);
    let thought =
        json!({"role": "assistant", "content": "4", "reasoning": "hm", "tool_call_id": "c1"});
    client.post(&path, &thought).expect(201);
    let last = client
        .get(&format!("{path}?limit=1&order=desc"))
        .expect(200);
    let last = &last["items"][0];
    assert_eq!(
        (&last["reasoning"], &last["tool_call_id"]),
        (&json!("hm"), &json!("c1"))
    );
    let too_many =
        json!({"role": "assistant", "content": "4", "tokens_in": 5, "tokens_cache_read": 6});
    let refused = client.post(&path, &too_many).expect(422);
    assert_eq!(refused["field"], "/tokens_in");
}

#[test]
fn sub_agents_are_conversations_of_their_own_and_all_may_have_a_title() {
    let service = Service::start();
    let client = service.client();
    let id = begin(&service);
    let agent = json!({"client": "api", "parent_id": id, "parent_call_id": "c1", "title": "look"});
    let agent = client.post("/conversations", &agent).expect(201);
    assert_eq!(
        (&agent["parent_id"], &agent["parent_call_id"]),
        (&json!(id), &json!("c1"))
    );
    let list = client
        .get(&format!("/conversations?parent_id={id}"))
        .expect(200);
    assert_eq!(list["total"], 1);
    let change = json!({"title": "Look around"});
    let path = format!("/conversations/{}", agent["id"].as_str().unwrap());
    let changed = client.patch(&path, &change).expect(200);
    assert_eq!(changed["title"], "Look around");
    let long = json!({"title": "x".repeat(1025)});
    assert_eq!(client.patch(&path, &long).expect(422)["field"], "/title");
}

#[test]
fn pages_follow_one_another() {
    let service = Service::start();
    let client = service.client();
    let id = begin(&service);
    let path = format!("/conversations/{id}/messages");
    let messages: Vec<Value> = (0..100)
        .map(|n| json!({"role": "user", "content": n.to_string()}))
        .collect();
    client.post(&path, &json!(messages)).expect(201);
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("{path}?limit=7{after}")).expect(200);
        seen.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["content"].as_str().unwrap().to_owned()),
        );
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let wanted: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    assert_eq!(seen, wanted);
}
