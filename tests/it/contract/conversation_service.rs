//! Requirement 001: the conversation service.

use std::time::{Duration, Instant};

use decklog::query::{ConversationQuery, MessageQuery};
use decklog::record::{ConversationStatus, Source};
use decklog::retention::{Keep, RetainOptions};
use decklog::{
    Client, Conversation, ConversationMessage, InferenceMetadata, Record, Role, Settings,
    Timestamp, Warning,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::faces::Faces;
use crate::http::Service;

const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// Waits for an asynchronous effect.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Creates a conversation with this id in a workspace.
fn begin(faces: &Faces, id: &str, workspace: &str) {
    let body = json!({"id": id, "client": "vscode", "workspace": workspace});
    faces.http.post("/conversations", &body).expect(201);
}

fn texts(messages: &Value) -> Vec<&str> {
    let messages = messages.as_array().unwrap().iter();
    messages.map(|it| it["content"].as_str().unwrap()).collect()
}

#[test]
fn create_conversation_as_it_is_written() {
    let faces = Faces::new();
    let answer = faces.http.post(
        "/conversations",
        &json!({"client": "vscode", "workspace": "/Users/kevintoles/POC/ai-platform-data", "session_id": "sess_abc123"}),
    );
    let answer = answer.expect(201);
    assert!(answer["id"].as_str().unwrap().parse::<Uuid>().is_ok());
    assert_eq!(answer["status"], "active");
    assert!(answer["created_at"].is_string());
}

/// The cost of an answer is recorded, shown and described wherever its tokens are.
#[test]
fn what_an_answer_cost_is_known_on_every_face() {
    let mut faces = Faces::new();
    let made = faces
        .http
        .post("/conversations", &json!({ "client": "api" }));
    let id = made.expect(201)["id"].as_str().unwrap().to_owned();
    let path = format!("/conversations/{id}/messages");
    let over_http = json!({ "role": "assistant", "content": "for a price", "cost_usd": 0.0125 });
    let message = faces.http.post(&path, &over_http).expect(201)["id"].clone();
    let line = json!({ "kind": "messages", "conversation_id": id, "role": "assistant", "content": "b", "cost_usd": 2 });
    assert!(faces.cli_takes(&["record"], &line.to_string()).0);
    let listed = faces.http.get(&path).expect(200);
    let costs = [0, 1].map(|nth| listed["items"][nth]["cost_usd"].as_f64().unwrap());
    assert!(
        costs
            .iter()
            .zip([0.0125, 2.0])
            .all(|(cost, given)| (cost - given).abs() < 1e-12)
    );
    let read = faces.tool("conversation_get", json!({ "id": id }));
    assert_eq!(
        read["messages"][0]["cost_usd"],
        listed["items"][0]["cost_usd"]
    );
    let text = |args: &[&str]| String::from_utf8(faces.run(args).stdout).unwrap();
    let shown = text(&["get", "messages", message.as_str().unwrap()]);
    assert!(shown.contains("cost_usd  0.0125"), "{shown}");
    let shown = text(&["show", &id]);
    assert!(
        shown.contains("$0.0125") && shown.contains("$2.00"),
        "{shown}"
    );
    // Invalid costs are refused, and the valid range is described.
    let refused = json!({ "role": "assistant", "content": "c", "cost_usd": -0.01 });
    let refused = faces.http.post(&path, &refused);
    refused.expect_problem(422, "invalid_input", Some("/cost_usd"));
    let described = faces.http.get("/openapi.json").expect(200);
    let of_message = &described["components"]["schemas"]["NewMessage"]["properties"]["cost_usd"];
    assert_eq!(of_message["minimum"], 0);
    let schema = faces.run(&["schema", "messages", "--json"]).stdout;
    let schema = String::from_utf8(schema).unwrap();
    assert!(
        schema.contains("\"cost_usd\"") && schema.contains("\"usd\""),
        "{schema}"
    );
}

#[test]
fn add_message_as_it_is_written() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let message = json!({
        "role": "assistant", "source": "model", "content": "Here's how to implement...",
        "model_used": "phi-4", "config_used": "D3", "orchestration_mode": "debate",
        "models_in_chain": ["phi-4", "deepseek-r1-7b"], "tokens_in": 150, "tokens_out": 500,
        "latency_ms": 2340, "context_utilization": 0.72
    });
    let path = format!("/conversations/{ID}/messages");
    faces.http.post(&path, &message).expect(201);
    let stored = &faces.http.get(&path).expect(200)["items"][0];
    for (name, value) in message.as_object().unwrap() {
        assert_eq!(&stored[name], value, "{name}");
    }
}

#[test]
fn query_conversations_by_a_workspace_and_what_is_below_it() {
    let faces = Faces::new();
    for (id, workspace) in [
        (1, "/Users/kevintoles/POC/ai-platform-data"),
        (2, "/Users/kevintoles/POC"),
        (3, "/Users/kevintoles/POC-2"),
        (4, "/Users/kevintoles"),
    ] {
        let conversation =
            Conversation::new(Uuid::from_u128(id), Client::Vscode).workspace(workspace);
        faces.store().record(conversation).unwrap();
    }
    let query = "/conversations?workspace=/Users/kevintoles/POC&limit=20&offset=0";
    let answer = faces.http.get(query).expect(200);
    let found = answer["conversations"].as_array().unwrap();
    let mut workspaces: Vec<&str> = found
        .iter()
        .map(|it| it["workspace"].as_str().unwrap())
        .collect();
    workspaces.sort_unstable();
    let expected = [
        "/Users/kevintoles/POC",
        "/Users/kevintoles/POC/ai-platform-data",
    ];
    assert_eq!(workspaces, expected);
    assert_eq!(
        (&answer["total"], &answer["limit"], &answer["offset"]),
        (&json!(2), &json!(20), &json!(0))
    );
    assert_eq!(answer.as_object().unwrap().len(), 4, "{answer}");

    let listed = faces.cli(&["conversations", "--workspace", "/Users/kevintoles/POC/"]);
    assert_eq!(listed.len(), 2);
    let query = ConversationQuery {
        workspace: Some("/Users/kevintoles".to_owned()),
        limit: 3,
        ..ConversationQuery::default()
    };
    let list = faces.store().conversations(&query).unwrap();
    assert_eq!((list.items.len(), list.total), (3, 4));
    let root = ConversationQuery {
        workspace: Some("/".to_owned()),
        ..query.clone()
    };
    assert_eq!(faces.store().conversations(&root).unwrap().total, 4);
    let none = ConversationQuery {
        workspace: Some("/Users/kev".to_owned()),
        ..query
    };
    assert_eq!(faces.store().conversations(&none).unwrap().total, 0);
}

#[test]
fn dashboard_metrics_have_the_fields_and_types_of_the_document() {
    let faces = Faces::new();
    let numbers = [
        "avg_latency_ms",
        "p95_latency_ms",
        "error_rate",
        "avg_context_utilization",
        "compression_rate",
    ];
    let counts = [
        "conversations_today",
        "messages_today",
        "tokens_today",
        "tokens_in_today",
        "tokens_out_today",
    ];
    let maps = ["by_model", "by_config", "by_task_type"];
    let empty = faces.http.get("/analytics/dashboard").expect(200);
    for name in numbers {
        assert_eq!(empty.get(name), Some(&Value::Null), "{name}");
    }
    begin(&faces, ID, "w");
    let answer = json!({
        "role": "assistant", "content": "2", "model_used": "phi-4", "config_used": "D3",
        "task_type": "code", "tokens_in": 10, "tokens_out": 5, "latency_ms": 100,
        "context_utilization": 0.5, "compression_applied": true
    });
    let path = format!("/conversations/{ID}/messages");
    faces.http.post(&path, &answer).expect(201);
    let http = faces.http.get("/analytics/dashboard").expect(200);
    let cli = faces.cli(&["stats", "dashboard"]).remove(0);
    for metrics in [&empty, &http, &cli] {
        let mut names: Vec<&str> = metrics
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let mut expected = [&numbers[..], &counts[..], &maps[..]].concat();
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
        assert!(
            counts.iter().all(|name| metrics[name].is_u64()),
            "{metrics}"
        );
        assert!(
            maps.iter().all(|name| metrics[name].is_object()),
            "{metrics}"
        );
    }
    assert_eq!(http, cli);
    assert_eq!(
        (&http["tokens_today"], &http["by_model"]),
        (&json!(15), &json!({"phi-4": 1}))
    );
    assert!(numbers.iter().all(|name| http[name].is_number()), "{http}");
}

#[test]
fn what_the_models_of_the_document_say_can_be_posted() {
    let faces = Faces::new();
    // As pydantic serializes it: no offset, nulls, and derived fields.
    let conversation = json!({
        "id": ID, "created_at": "2026-11-20T10:30:00.123456", "updated_at": "2026-11-20T10:31:00",
        "client": "vscode", "workspace": "/w", "project": null, "user_id": null,
        "session_id": "sess_abc123", "message_count": 2, "total_tokens_in": 7,
        "total_tokens_out": 8, "total_latency_ms": 9, "total_cost_usd": 0.5, "error_count": 1, "failure_count": 1, "models_used": ["x"], "configs_used": [],
        "status": "active", "last_error": null
    });
    let made = faces.http.post("/conversations", &conversation).expect(201);
    assert_eq!(made["created_at"], "2026-11-20T10:30:00.123456Z");
    assert_eq!(made["message_count"], 0);
    let message = json!({
        "id": Uuid::from_u128(1), "conversation_id": ID, "sequence": 1,
        "timestamp": "2026-11-20T10:30:01", "role": "assistant", "source": "model",
        "content": "2", "content_type": "text", "tool_name": null, "tool_args": null,
        "tool_result": null, "model_used": "phi-4", "config_used": null,
        "orchestration_mode": null, "models_in_chain": null, "tokens_in": 1, "tokens_out": 2,
        "latency_ms": 3, "context_utilization": 0.5, "task_type": null, "handoff_steps": null,
        "compression_applied": null, "error": null, "error_type": null
    });
    let path = format!("/conversations/{ID}/messages");
    faces.http.post(&path, &message).expect(201);
    let mut other = message.clone();
    other["conversation_id"] = json!(Uuid::from_u128(9));
    let field = Some("/conversation_id");
    faces
        .http
        .post(&path, &other)
        .expect_problem(422, "invalid_input", field);
    let field = Some("/1/conversation_id");
    faces
        .http
        .post(&path, &json!([message, other]))
        .expect_problem(422, "invalid_input", field);
    let stored = faces.http.get(&path).expect(200);
    assert_eq!(stored["items"][0]["timestamp"], "2026-11-20T10:30:01Z");
}

#[test]
fn what_was_read_can_be_posted_back() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    for role in ["user", "assistant", "tool"] {
        let message =
            json!({"role": role, "content": role, "tokens_in": 1, "tool_args": {"a": 1.50}});
        faces.http.post(&path, &message).expect(201);
    }
    faces
        .http
        .patch(
            &format!("/conversations/{ID}"),
            &json!({"status": "completed"}),
        )
        .expect(200);
    let whole = faces.http.get(&format!("/conversations/{ID}")).expect(200);
    let listed = faces.http.get("/conversations").expect(200)["conversations"][0].take();
    let messages = faces.http.get(&path).expect(200)["items"].take();
    // In the same log, nothing is added.
    for body in [&whole, &listed] {
        faces.http.post("/conversations", body).expect(200);
    }
    faces.http.post(&path, &messages).expect(200);
    faces.http.post(&path, &messages[1]).expect(200);
    assert_eq!(
        faces.http.get(&format!("/conversations/{ID}")).expect(200),
        whole
    );
    // In another log, everything is added.
    let other = Service::start();
    other.client().post("/conversations", &whole).expect(201);
    let copied = other
        .client()
        .get(&format!("/conversations/{ID}"))
        .expect(200);
    assert_eq!(copied["messages"], whole["messages"]);
    assert_eq!(copied["status"], "completed");
    let mut wrong = whole.clone();
    wrong["messages"][1]["conversation_id"] = json!(Uuid::from_u128(9));
    let field = Some("/messages/1/conversation_id");
    let client = other.client();
    client
        .post("/conversations", &wrong)
        .expect_problem(422, "invalid_input", field);
    let mut wrong = whole.clone();
    wrong["messages"][1]["content"] = json!("something else");
    client
        .post("/conversations", &wrong)
        .expect_problem(409, "conflict", Some("/messages/1"));
}

#[test]
fn a_body_without_a_type_is_read_as_json() {
    let faces = Faces::new();
    let answer = faces
        .http
        .send("POST", "/conversations", br#"{"client": "cli"}"#);
    assert_eq!(answer.expect(201)["client"], "cli");
    let none = faces.http.send("POST", "/conversations", b"client=cli");
    none.expect_problem(400, "bad_request", None);
    let page = faces.http.with("Origin", "https://elsewhere.example");
    let refused = page.send("POST", "/conversations", br#"{"client": "cli"}"#);
    assert_eq!(refused.status, 403);
}

#[test]
fn inference_metadata_alone_fills_a_message() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let metadata = json!({
        "config": "D3", "orchestration_mode": "debate", "models_used": ["phi-4", "deepseek-r1-7b"],
        "handoff_steps": 1, "compression_applied": true, "context_utilization": 0.72,
        "total_latency_ms": 2340, "model_latencies": {"phi-4": 340, "deepseek-r1-7b": 2000},
        "tokens_by_model": {"phi-4": {"in": 100, "out": 20}, "deepseek-r1-7b": {"in": 50, "out": 480}}
    });
    let message = json!({"role": "assistant", "content": "2", "inference_metadata": metadata});
    let path = format!("/conversations/{ID}/messages");
    faces.http.post(&path, &message).expect(201);
    let mut line = message.clone();
    (line["kind"], line["conversation_id"]) = (json!("messages"), json!(ID));
    let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
    assert!(is_taken, "{said}");
    let typed: InferenceMetadata = serde_json::from_value(metadata).unwrap();
    let id = Uuid::parse_str(ID).unwrap();
    let typed = ConversationMessage::new(id, Role::Assistant, "2").with_metadata(&typed);
    faces.store().record(typed).unwrap();
    let stored = faces.http.get(&path).expect(200);
    let stored = stored["items"].as_array().unwrap();
    assert_eq!(stored.len(), 3);
    for stored in stored {
        for (name, value) in [
            ("model_used", json!("deepseek-r1-7b")),
            ("config_used", json!("D3")),
            ("orchestration_mode", json!("debate")),
            ("models_in_chain", json!(["phi-4", "deepseek-r1-7b"])),
            ("handoff_steps", json!(1)),
            ("compression_applied", json!(true)),
            ("context_utilization", json!(0.72)),
            ("latency_ms", json!(2340)),
            ("tokens_in", json!(150)),
            ("tokens_out", json!(500)),
        ] {
            assert_eq!(stored[name], value, "{name}");
        }
    }
    // Values in the message itself take precedence.
    let mut own = message;
    own["model_used"] = json!("phi-4");
    let added = faces.http.post(&path, &own).expect(201);
    let id = added["id"].as_str().unwrap().parse().unwrap();
    let stored = faces.store().get_message(id).unwrap().unwrap();
    assert_eq!(stored.model_used.as_deref(), Some("phi-4"));
    assert_eq!(stored.tokens_out, Some(500));
}

#[test]
fn a_first_message_of_an_unknown_conversation() {
    let faces = Faces::new();
    let message = json!({"role": "user", "content": "hi"});
    for query in ["", "?wait=disk", "?wait=none"] {
        let path = format!("/conversations/{ID}/messages{query}");
        faces
            .http
            .post(&path, &message)
            .expect_problem(404, "not_found", Some("id"));
    }
    for (nth, query) in ["?create=true", "?create=true&client=vscode&wait=none"]
        .iter()
        .enumerate()
    {
        let id = Uuid::from_u128(nth as u128);
        let path = format!("/conversations/{id}/messages{query}");
        let status = if query.contains("none") { 202 } else { 201 };
        faces.http.post(&path, &message).expect(status);
        // An existing conversation is not changed.
        let again = path.replace("vscode", "web");
        faces.http.post(&again, &message).expect(status);
        let count = || {
            let found = faces.store().get_conversation(id).unwrap();
            found.map(|(conversation, stats)| (conversation.client, stats.message_count))
        };
        let client = if query.contains("vscode") {
            Client::Vscode
        } else {
            Client::Api
        };
        until(|| count() == Some((client, 2)));
    }
}

#[test]
fn what_a_202_promised_and_the_log_rejected_is_reported() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let id = Uuid::from_u128(7);
    let path = format!("/conversations/{ID}/messages");
    faces
        .http
        .post(&path, &json!({"id": id, "role": "user", "content": "one"}))
        .expect(201);
    let none = faces.http.get("/capture/rejected").expect(200);
    assert_eq!(none, json!({"rejected": [], "total": 0}));
    let other = json!({"id": id, "role": "user", "content": "another"});
    faces
        .http
        .post(&format!("{path}?wait=none"), &other)
        .expect(202);
    until(|| faces.http.get("/capture/rejected").expect(200)["total"] == 1);
    let listed = faces.http.get("/capture/rejected").expect(200);
    let rejected = &listed["rejected"][0];
    assert_eq!(
        (
            &rejected["kind"],
            &rejected["key"],
            &rejected["conversation_id"],
            &rejected["code"]
        ),
        (
            &json!("messages"),
            &json!(id),
            &json!(ID),
            &json!("conflict")
        )
    );
    assert!(
        rejected["detail"]
            .as_str()
            .unwrap()
            .contains("the first stands"),
        "{listed}"
    );
    let metrics = faces.http.get("/metrics");
    let metrics = String::from_utf8(metrics.body).unwrap();
    let line = "decklog_capture_rejected_total{code=\"conflict\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn rejections_are_bounded() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    let one = |content: &str| json!({"id": Uuid::from_u128(7), "role": "user", "content": content});
    faces.http.post(&path, &one("x")).expect(201);
    for _ in 0..3 {
        let more: Vec<Value> = (0..500).map(|n| one(&n.to_string())).collect();
        faces
            .http
            .post(&format!("{path}?wait=none"), &json!(more))
            .expect(202);
    }
    until(|| faces.http.get("/capture/rejected").expect(200)["total"] == 1_500);
    let listed = faces.http.get("/capture/rejected").expect(200);
    assert_eq!(listed["rejected"].as_array().unwrap().len(), 1_000);
}

#[test]
fn messages_of_all_conversations_are_found_by_what_they_say() {
    let faces = Faces::new();
    for n in 1..=3_u128 {
        let id = Uuid::from_u128(n);
        begin(&faces, &id.to_string(), "w");
        let time = |m: u32| format!("2026-11-20T10:0{n}:0{m}Z");
        let messages = json!([
            {"role": "user", "content": format!("ask {n}"), "timestamp": time(0)},
            {"role": "assistant", "content": format!("say {n}"), "timestamp": time(1),
             "model_used": if n == 2 { "phi-4" } else { "small-1" }, "config_used": "D3"},
            {"role": "system", "content": format!("fail {n}"), "timestamp": time(2), "error": "timeout"},
        ]);
        faces
            .http
            .post(&format!("/conversations/{id}/messages"), &messages)
            .expect(201);
    }
    let http = |query: &str| {
        let page = faces
            .http
            .get(&format!("/messages?order=asc{query}"))
            .expect(200);
        texts(&page["items"]).join(" ")
    };
    let cli = |args: &[&str]| {
        let listed = faces.cli(&[&["messages"], args].concat());
        texts(&Value::from(listed)).join(" ")
    };
    let library = |query: &MessageQuery| {
        let items = faces.store().messages(None, query).unwrap().items;
        let texts: Vec<String> = items.into_iter().map(|it| it.content).collect();
        texts.join(" ")
    };
    let all = MessageQuery::default();
    let in_time = "ask 1 say 1 fail 1 ask 2 say 2 fail 2 ask 3 say 3 fail 3";
    assert_eq!(
        (http(""), cli(&[]), library(&all)),
        (in_time.into(), in_time.into(), in_time.into())
    );
    let at = |text: &str| decklog::record::epoch_ms(text).unwrap();
    let (since, until) = ("2026-11-20T10:01:02Z", "2026-11-20T10:02:01Z");
    for (query, args, typed, expected) in [
        (
            "&role=assistant",
            vec!["--role", "assistant"],
            MessageQuery {
                role: Some(Role::Assistant),
                ..all.clone()
            },
            "say 1 say 2 say 3",
        ),
        (
            "&model=phi-4",
            vec!["--model", "phi-4"],
            MessageQuery {
                model_used: Some("phi-4".into()),
                ..all.clone()
            },
            "say 2",
        ),
        (
            "&config=D3",
            vec!["--config", "D3"],
            MessageQuery {
                config_used: Some("D3".into()),
                ..all.clone()
            },
            "say 1 say 2 say 3",
        ),
        (
            "&error=true",
            vec!["--error"],
            MessageQuery {
                error: Some(true),
                ..all.clone()
            },
            "fail 1 fail 2 fail 3",
        ),
        (
            "&since=2026-11-20T10:01:02Z&until=2026-11-20T10:02:01Z",
            vec!["--since", since, "--until", until],
            MessageQuery {
                since: Some(at(since)),
                until: Some(at(until)),
                ..all.clone()
            },
            "fail 1 ask 2",
        ),
        (
            "&from_sequence=2&until_sequence=3",
            vec!["--from-sequence", "2", "--until-sequence", "3"],
            MessageQuery {
                from_sequence: Some(2),
                until_sequence: Some(3),
                ..all.clone()
            },
            "say 1 say 2 say 3",
        ),
    ] {
        let found = (http(query), cli(&args), library(&typed));
        assert_eq!(
            found,
            (expected.into(), expected.into(), expected.into()),
            "{query}"
        );
    }
    assert_eq!(http("&error=false&role=system"), "");
    // Page by page, also if most messages are filtered out.
    let first = faces.http.get("/messages?error=true&limit=2").expect(200);
    assert_eq!(texts(&first["items"]), ["fail 1", "fail 2"], "by default");
    let first = faces
        .http
        .get("/messages?error=true&order=desc&limit=2")
        .expect(200);
    assert_eq!(texts(&first["items"]), ["fail 3", "fail 2"]);
    let next = first["next"].as_str().unwrap();
    let rest = faces
        .http
        .get(&format!(
            "/messages?error=true&order=desc&limit=2&after={next}"
        ))
        .expect(200);
    assert_eq!(
        (texts(&rest["items"]), rest.get("next")),
        (vec!["fail 1"], None)
    );
    // The same within one conversation.
    let two = Uuid::from_u128(2);
    let of = faces
        .http
        .get(&format!(
            "/conversations/{two}/messages?role=assistant&since={since}"
        ))
        .expect(200);
    assert_eq!(texts(&of["items"]), ["say 2"]);
    assert_eq!(cli(&[&two.to_string(), "--error"]), "fail 2");
}

#[test]
fn search_finds_over_http_what_the_command_finds() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    for n in 0..5 {
        faces
            .http
            .post(
                &path,
                &json!({"role": "user", "content": format!("Needle {n}")}),
            )
            .expect(201);
    }
    let http = faces
        .http
        .get("/search?text=needle&kind=messages&limit=3")
        .expect(200);
    let cli = faces.cli(&["search", "needle", "--kind", "messages", "--limit", "3"]);
    assert_eq!(http["matches"], Value::from(cli));
    assert_eq!(http["matches"][0]["snippet"], "Needle 4");
    assert_eq!(http["is_whole"], true);
    let after = http["next"].as_str().unwrap();
    let rest = faces
        .http
        .get(&format!("/search?text=needle&after={after}"))
        .expect(200);
    assert_eq!(rest["matches"].as_array().unwrap().len(), 2);
    faces
        .http
        .get("/search?text=")
        .expect_problem(400, "bad_request", Some("text"));
    faces
        .http
        .get("/search?text=x&kind=nonsense")
        .expect_problem(400, "bad_request", Some("kind"));
    let since = faces
        .http
        .get("/search?text=needle&since=2999-01-01")
        .expect(200);
    assert_eq!(since["matches"], json!([]));
}

#[test]
fn an_error_is_a_failed_request_whatever_its_role() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    // As written by the document's capture_request, capture_response and capture_error.
    let messages = json!([
        {"role": "user", "source": "user", "content": "one", "task_type": "code"},
        {"role": "assistant", "source": "model", "content": "1", "model_used": "phi-4"},
        {"role": "user", "source": "user", "content": "two"},
        {"role": "system", "source": "system", "content": "Error: timeout", "error": "timeout", "error_type": "TimeoutError"},
    ]);
    faces
        .http
        .post(&format!("/conversations/{ID}/messages"), &messages)
        .expect(201);
    let dashboard = faces.http.get("/analytics/dashboard").expect(200);
    assert_eq!(dashboard["error_rate"], 0.5);
    let errors = faces.http.get("/analytics/errors").expect(200);
    assert_eq!(
        (
            &errors["total"]["errors"],
            &errors["total"]["failed_requests"],
            &errors["total"]["requests"]
        ),
        (&json!(1), &json!(1), &json!(2))
    );
    assert_eq!(
        faces.http.get("/analytics/models").expect(200)["total"]["error_rate"],
        0.5
    );
}

/// Secrets in the document's `content=f"Error: {str(error)}"` are redacted as in `error`.
#[test]
fn a_secret_at_the_beginning_of_an_error_is_redacted() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let secret = "hunter2-Xk29qLmZ";
    let error = format!("PASSWORD={secret}\nno such host");
    let id = Uuid::from_u128(1);
    let message = json!({
        "id": id, "role": "system", "content": format!("Error: {error}"), "error": error,
    });
    let path = format!("/conversations/{ID}/messages");
    faces.http.post(&path, &message).expect(201);
    let talk = ID.parse().unwrap();
    let captured = faces.store().capture_error(talk, "OSError", error, None);
    for id in [id, captured.unwrap()] {
        let kept = faces.store().get_message(id).unwrap().unwrap();
        let error = kept.error.unwrap();
        assert!(
            error.contains("no such host") && !error.contains(secret),
            "{error}"
        );
        assert_eq!(kept.content, format!("Error: {error}"));
    }
}

#[test]
fn an_answer_has_the_task_type_of_the_request_before_it() {
    let faces = Faces::new();
    let store = faces.store();
    let types = |id: Uuid| -> Vec<Option<String>> {
        let items = store.messages(id, &MessageQuery::default()).unwrap().items;
        items.into_iter().map(|it| it.task_type).collect()
    };
    let some = |name: &str| Some(name.to_owned());
    // Over HTTP.
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    let answer = json!({"id": Uuid::from_u128(1), "role": "assistant", "content": "1"});
    for message in [
        json!({"role": "user", "content": "one", "task_type": "code"}),
        answer.clone(),
        json!({"role": "tool", "content": "result"}),
        json!({"role": "assistant", "content": "2"}),
        json!({"role": "assistant", "content": "3", "task_type": "explain"}),
        json!({"role": "system", "content": "4", "error": "timeout"}),
        json!({"role": "user", "content": "two"}),
        json!({"role": "assistant", "content": "5"}),
    ] {
        faces.http.post(&path, &message).expect(201);
    }
    let code = some("code");
    let expected = [
        &code,
        &code,
        &None,
        &code,
        &some("explain"),
        &code,
        &None,
        &None,
    ];
    assert_eq!(
        types(Uuid::parse_str(ID).unwrap()),
        expected.map(Clone::clone)
    );
    // Sent again, it is the same message.
    faces.http.post(&path, &answer).expect(200);
    let tasks = faces
        .http
        .get("/analytics/tasks?group=task_type")
        .expect(200);
    let requests = |name: &str| {
        let rows = tasks["rows"].as_array().unwrap();
        rows.iter().find(|row| row["task_type"] == name).unwrap()["requests"].clone()
    };
    assert_eq!(
        (requests("code"), requests("explain")),
        (json!(3), json!(1))
    );
    // In one batch, and after reopening the log.
    let id = Uuid::from_u128(2);
    let conversation = Conversation::new(id, Client::Api);
    let request = ConversationMessage::new(id, Role::User, "why?").task_type("debug");
    store.capture_request(conversation, [request]).unwrap();
    store
        .capture_response(id, "because", &InferenceMetadata::default())
        .unwrap();
    let again = decklog::Store::open(store.path()).unwrap();
    let error = again.capture_error(id, "timeout", "late", None).unwrap();
    let error = again.get_message(error).unwrap().unwrap();
    assert_eq!((error.role, error.source), (Role::System, Source::System));
    assert_eq!(
        (&*error.content, error.error.as_deref()),
        ("Error: late", Some("late"))
    );
    assert_eq!(types(id), [some("debug"), some("debug"), some("debug")]);
}

#[test]
fn errors_are_kept_shorter_until_a_success_follows() {
    let faces = Faces::new();
    let store = faces.store();
    let days_ago = |days: i64| {
        let now = Timestamp::now().at();
        Timestamp::from_ms(now - days * 86_400_000).unwrap()
    };
    let conversation = |id: u128, errors: &[bool]| {
        let id = Uuid::from_u128(id);
        let began = days_ago(45);
        let conversation = with!(Conversation::new(id, Client::Api),
            created_at: began.clone(),
            updated_at: began.clone(),
        );
        store.record(conversation).unwrap();
        for is_error in errors {
            let role = if *is_error {
                Role::System
            } else {
                Role::Assistant
            };
            let message = with!(ConversationMessage::new(id, role, "x"),
                timestamp: began.clone(),
                error: is_error.then(|| "timeout".to_owned()),
            );
            store.record(message).unwrap();
        }
        id
    };
    let failed = conversation(1, &[false, true]);
    let recovered = conversation(2, &[true, false]);
    let status = |id| {
        let (found, _) = store.get_conversation(id).unwrap().unwrap();
        (found.status, found.last_error)
    };
    assert_eq!(
        status(failed),
        (ConversationStatus::Error, Some("timeout".to_owned()))
    );
    assert_eq!(status(recovered), (ConversationStatus::Active, None));
    store.retain(RetainOptions::default()).unwrap();
    assert_eq!(store.get_conversation(failed).unwrap(), None);
    assert!(store.get_conversation(recovered).unwrap().is_some());
}

#[test]
fn config_shows_the_settings_in_force_and_knows_every_name_that_help_mentions() {
    let faces = Faces::new();
    let get = |name: &str| {
        let output = faces.run(&["config", "get", name]);
        assert!(output.status.success(), "{name}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    for (name, value) in [
        ("privacy.retention_days", "90"),
        ("retention.messages", "90"),
        ("retention.errors", "30"),
        ("retention.rollups", "365"),
        ("retention.max_bytes", "no limit"),
        ("privacy.allowed_roles", "[\"admin\",\"developer\"]"),
    ] {
        assert_eq!(get(name), value, "{name}");
    }
    faces.cli(&["config", "set", "privacy.retention_days", "20"]);
    assert_eq!(
        (get("retention.messages"), get("retention.errors")),
        ("20".into(), "20".into())
    );
    let in_force = Settings::read(faces.store().path()).unwrap().in_force();
    assert_eq!(in_force.retention.tool_calls, Some(Keep::Days(20)));

    let help = |args: &[&str]| String::from_utf8(faces.run(args).stdout).unwrap();
    let all = help(&["--help"]);
    let commands = all
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut texts: Vec<String> = commands
        .filter(|it| !it.is_empty() && !it.starts_with('-'))
        .map(|it| help(&[it, "--help"]))
        .collect();
    for command in ["get", "set", "unset"] {
        texts.push(help(&["config", command, "--help"]));
    }
    let is_of_name = |c: char| c.is_ascii_lowercase() || c == '_' || c == '.';
    let text = texts.concat();
    let words = text
        .split(|c| !is_of_name(c))
        .map(|word| word.trim_matches('.'));
    let names: Vec<&str> = words
        .filter(|word| word.starts_with("privacy.") || word.starts_with("retention."))
        .collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names {
        get(name);
    }
}

#[test]
fn json_scalars_come_back_as_they_were_given() {
    let faces = Faces::new();
    let request = Uuid::from_u128(1);
    for (n, value) in [
        "4.5",
        "true",
        "-0.10e3",
        "\"4.5\"",
        "\"true\"",
        "\"text\"",
        "\"\\\"4.5\\\"\"",
        "[1.50]",
        "\"null\"",
    ]
    .into_iter()
    .enumerate()
    {
        let call = format!("c{n}");
        let body = format!(
            r#"{{"request_id":"{request}","call_id":"{call}","parent_id":"{request}","vendor":"v","tool_name":"t","started_at":1766832000000,"arguments_json":{value}}}"#
        );
        faces
            .http
            .json("POST", "/tool-calls", body.as_bytes())
            .expect(201);
        let done = format!(
            r#"{{"status":"completed","ended_at":1766832000001,"latency_ms":1,"outcome_json":{value}}}"#
        );
        let path = format!("/tool-calls/{request}/{call}");
        faces
            .http
            .json("POST", &format!("{path}/done"), done.as_bytes())
            .expect(201);
        let found = String::from_utf8(faces.http.get(&path).body).unwrap();
        assert!(
            found.contains(&format!(r#""outcome_json":{value}"#)),
            "{value}: {found}"
        );
        assert!(
            found.contains(&format!(r#""arguments_json":{value}"#)),
            "{value}: {found}"
        );
        // Another handle reads back the file's contents.
        let again = decklog::Store::open(faces.store().path()).unwrap();
        let (_, outcome) = again.get_tool_call(request, &call).unwrap().unwrap();
        let text = outcome.unwrap().outcome_json.unwrap();
        assert_eq!(decklog::record::payload_json(&text), value);
        let line = format!(r#"{{"kind":"events","event_type":"a.b","payload":{value}}}"#);
        let (is_taken, said) = faces.cli_takes(&["record"], &line);
        assert!(is_taken, "{said}");
        let shown = faces.cli(&["events"]).pop().unwrap()["payload"].to_string();
        let wanted: Value = serde_json::from_str(value).unwrap();
        assert_eq!(shown, wanted.to_string());
    }
}

#[test]
fn a_client_has_any_short_name() {
    let faces = Faces::new();
    for name in ["zed", "JetBrains-2025.3", "x"] {
        let made = faces
            .http
            .post("/conversations", &json!({"client": name}))
            .expect(201);
        assert_eq!(made["client"], name);
        let found = faces.cli(&["conversations", "--client", name]);
        assert_eq!(found.len(), 1);
        let listed = faces
            .http
            .get(&format!("/conversations?client={name}"))
            .expect(200);
        assert_eq!(listed["total"], 1);
    }
    for name in ["", "two words", &"x".repeat(33), "é"] {
        let body = json!({"client": name});
        faces.http.post("/conversations", &body).expect_problem(
            422,
            "invalid_input",
            Some("/client"),
        );
    }
    let secret = json!({"client": (["AKIA", "Z7QXW3RN5TYB2KLM"].concat())});
    let refused = faces.http.post("/conversations", &secret);
    refused.expect_problem(422, "invalid_input", Some("/client"));
}

#[test]
fn the_role_developer_is_system_and_content_may_be_blocks() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    let blocks = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let image =
        json!([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]);
    for (role, content) in [("developer", &blocks), ("user", &image)] {
        faces
            .http
            .post(&path, &json!({"role": role, "content": content}))
            .expect(201);
        let line =
            json!({"kind": "messages", "conversation_id": ID, "role": role, "content": content});
        let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
        assert!(is_taken, "{said}");
    }
    let stored = faces.http.get(&path).expect(200)["items"].take();
    let stored: Vec<(&str, &str, &str)> = stored
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap();
            (text("role"), text("content_type"), text("content"))
        })
        .collect();
    let image = image.to_string();
    assert_eq!(
        stored,
        [
            ("system", "text", "one\n\ntwo"),
            ("system", "text", "one\n\ntwo"),
            ("user", "json", &*image),
            ("user", "json", &*image),
        ]
    );
    let thinking = json!([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]);
    let answer = json!({"role": "assistant", "content": thinking});
    let added = faces.http.post(&path, &answer).expect(201);
    let mut line = answer.clone();
    (line["kind"], line["conversation_id"]) = (json!("messages"), json!(ID));
    assert!(faces.cli_takes(&["record"], &line.to_string()).0);
    let id = added["id"].as_str().unwrap().parse().unwrap();
    let stored = faces.store().get_message(id).unwrap().unwrap();
    assert_eq!(
        (&*stored.content, stored.reasoning.as_deref()),
        ("yes", Some("hm"))
    );
    let listed = faces
        .http
        .get(&format!("{path}?order=desc&limit=1"))
        .expect(200);
    assert_eq!(listed["items"][0]["reasoning"], "hm");
    let bad = json!({"role": "user", "content": [{"text": "no type"}]});
    faces
        .http
        .post(&path, &bad)
        .expect_problem(422, "invalid_input", Some("/content"));
}

/// The document's eight reports, all computed from the same five messages.
#[test]
fn each_report_says_what_the_query_of_the_document_would() {
    let mut faces = Faces::new();
    begin(&faces, ID, "w");
    let other = "67e55044-10b1-426f-9247-bb680e5fe0aa";
    begin(&faces, other, "w");
    let answer = |day: &str, model: &str, mode: &str, latency: i64, context: f64| {
        json!({
            "role": "assistant", "content": "x", "timestamp": format!("{day}T10:00:00Z"),
            "model_used": model, "config_used": "D3", "orchestration_mode": mode,
            "task_type": "code", "tokens_in": 100, "tokens_out": 10, "latency_ms": latency,
            "context_utilization": context, "compression_applied": latency > 200,
        })
    };
    let failed = json!({
        "role": "assistant", "content": "x", "timestamp": "2025-12-28T11:00:00Z",
        "model_used": "b", "config_used": "T1", "task_type": "debug",
        "error": "late", "error_type": "timeout",
    });
    for (id, message) in [
        (ID, answer("2025-12-27", "a", "single", 100, 0.25)),
        (ID, answer("2025-12-27", "a", "debate", 300, 0.75)),
        (other, answer("2025-12-27", "b", "debate", 500, 0.5)),
        (other, answer("2025-12-28", "b", "debate", 700, 0.5)),
        (other, failed),
    ] {
        let path = format!("/conversations/{id}/messages");
        faces.http.post(&path, &message).expect(201);
    }
    let mut report = |name: &str, group: &str| -> Vec<Value> {
        let mut path = format!("/analytics/{name}?since=2025-12-27");
        let mut args = vec!["stats", name, "--since", "2025-12-27"];
        if !group.is_empty() {
            path = format!("{path}&bucket=all&group={group}");
            args.extend(["--bucket", "all", "--group", group]);
        }
        let over_http = faces.http.get(&path).expect(200);
        assert_eq!(faces.cli(&args)[0], over_http, "{name}");
        if name == "usage" {
            let asked = json!({ "since": "2025-12-27", "group": [group] });
            assert_eq!(faces.tool("usage_report", asked), over_http);
        }
        over_http["rows"].as_array().unwrap().clone()
    };
    // The values of the given members, by name.
    let told = |rows: &[Value], name: &str, members: &[&str]| -> Vec<(String, Vec<f64>)> {
        let number = |row: &Value, at: &str| row.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
        let mut told: Vec<(String, Vec<f64>)> = rows
            .iter()
            .map(|row| {
                let numbers = members.iter().map(|at| number(row, at)).collect();
                (row[name].as_str().unwrap_or("-").to_owned(), numbers)
            })
            .collect();
        told.sort_by(|one, next| one.0.cmp(&next.0));
        told
    };
    let row = |name: &str, numbers: &[f64]| (name.to_owned(), numbers.to_vec());

    // Token usage by model, and by config.
    let tokens = ["/tokens_in", "/tokens_out"];
    assert_eq!(
        told(&report("usage", "model"), "model_used", &tokens),
        [row("a", &[200.0, 20.0]), row("b", &[200.0, 20.0])]
    );
    assert_eq!(
        told(&report("usage", "config"), "config_used", &tokens),
        [row("D3", &[400.0, 40.0]), row("T1", &[0.0, 0.0])]
    );
    // Latency by orchestration mode.
    let latency = ["/latency_ms/avg", "/latency_ms/count"];
    assert_eq!(
        told(&report("latency", "mode"), "orchestration_mode", &latency),
        [
            row("-", &[0.0, 0.0]),
            row("debate", &[500.0, 3.0]),
            row("single", &[100.0, 1.0])
        ]
    );
    // Error rate by model, and the example query.
    let model = [
        "/requests",
        "/latency_ms/avg",
        "/tokens_in",
        "/tokens_out",
        "/context_utilization_avg",
        "/errors",
        "/error_rate",
    ];
    assert_eq!(
        told(&report("models", "model"), "model_used", &model),
        [
            row("a", &[2.0, 200.0, 200.0, 20.0, 0.5, 0.0, 0.0]),
            row("b", &[3.0, 600.0, 200.0, 20.0, 0.5, 1.0, 1.0 / 3.0]),
        ]
    );
    assert_eq!(
        told(&report("errors", "model"), "error_type", &["/errors"]),
        [row("timeout", &[1.0])]
    );
    // Task type distribution.
    assert_eq!(
        told(
            &report("tasks", "task_type"),
            "task_type",
            &["/requests", "/share"]
        ),
        [row("code", &[4.0, 0.8]), row("debug", &[1.0, 0.2])]
    );
    // Context utilization by model.
    assert_eq!(
        told(&report("context", "model"), "model_used", &["/avg"]),
        [row("a", &[0.5]), row("b", &[0.5])]
    );
    // Compression frequency.
    assert_eq!(
        told(
            &report("compression", "model"),
            "model_used",
            &["/compressed", "/rate"]
        ),
        [row("a", &[1.0, 0.5]), row("b", &[2.0, 2.0 / 3.0])]
    );
    // Daily active conversations.
    assert_eq!(
        told(&report("active", ""), "bucket", &["/conversations"]),
        [row("2025-12-27", &[2.0]), row("2025-12-28", &[1.0])]
    );
}

/// Asynchronously captured messages may arrive in another order than they occurred.
#[test]
fn messages_that_come_late_stand_where_their_sequence_says() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    let add = |message: Value| faces.http.post(&path, &message).expect(201);
    let user = |sequence: i64, task: &str| json!({ "sequence": sequence, "role": "user", "content": "q", "task_type": task });
    let answer =
        |sequence: i64| json!({ "sequence": sequence, "role": "assistant", "content": "a" });
    let error = |sequence: i64| json!({ "sequence": sequence, "role": "system", "content": "e", "error": "late" });
    let stands = || {
        let stands = faces.http.get(&format!("/conversations/{ID}")).expect(200);
        let listed = faces.http.get("/conversations?status=error").expect(200);
        assert_eq!(listed["total"] == 1, stands["status"] == "error");
        (stands["status"].clone(), stands["last_error"].clone())
    };
    for message in [user(1, "code"), user(7, "explain"), answer(2), answer(8)] {
        add(message);
    }
    assert_eq!(stands(), (json!("active"), Value::Null));
    // An error before the last answer has no effect; one after it sets the status, which the next
    // answer clears.
    add(error(4));
    assert_eq!(stands(), (json!("active"), Value::Null));
    add(error(9));
    assert_eq!(stands(), (json!("error"), json!("late")));
    add(answer(6));
    assert_eq!(stands(), (json!("error"), json!("late")));
    let done = json!({ "status": "completed" });
    faces.http.json(
        "PATCH",
        &format!("/conversations/{ID}"),
        done.to_string().as_bytes(),
    );
    add(answer(10));
    assert_eq!(stands(), (json!("completed"), Value::Null));
    let read = faces.http.get(&format!("{path}?limit=100")).expect(200);
    let of = |sequence: i64| {
        let items = read["items"].as_array().unwrap();
        let one = items.iter().find(|it| it["sequence"] == sequence).unwrap();
        one["task_type"].clone()
    };
    assert_eq!(
        [2, 4, 6, 8, 9, 10].map(of),
        ["code", "code", "code", "explain", "explain", "explain"]
    );
    // A reopened store reads the same.
    let again = decklog::Store::open(faces.store().path()).unwrap();
    let (conversation, _) = again
        .get_conversation(ID.parse().unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(conversation.status, ConversationStatus::Completed);
    assert_eq!(conversation.last_error, None);
}

/// The document's model has nullable fields, but no optional ones.
#[test]
fn a_conversation_has_every_field_of_the_model_on_every_face() {
    let mut faces = Faces::new();
    let begun = faces
        .http
        .post("/conversations", &json!({ "id": ID, "client": "cli" }));
    let begun = begun.expect(201);
    let answer = json!({ "role": "assistant", "content": "a", "tokens_in": 3 });
    let path = format!("/conversations/{ID}");
    faces
        .http
        .post(&format!("{path}/messages"), &answer)
        .expect(201);
    let listed = faces.http.get("/conversations").expect(200)["conversations"][0].take();
    let over_mcp = faces.tool("conversation_get", json!({ "id": ID }))["conversation"].take();
    let got = faces.cli(&["get", "conversations", ID]).remove(0);
    let shown = faces.cli(&["conversations"]).remove(0);
    for one in [
        &begun,
        &faces.http.get(&path).expect(200),
        &listed,
        &over_mcp,
        &got,
        &shown,
    ] {
        for name in ["workspace", "project", "user_id", "session_id"] {
            assert_eq!(one.get(name), Some(&Value::Null), "{name} of {one}");
        }
        for name in ["id", "created_at", "updated_at", "client", "status"] {
            assert!(one[name].is_string(), "{name} of {one}");
        }
    }
    // The response is recorded in another log, without the totals of messages.
    let other = Faces::new();
    let mut line = shown;
    line["kind"] = json!("conversations");
    let (is_taken, said) = other.cli_takes(&["record"], &line.to_string());
    assert!(is_taken, "{said}");
    let there = other.http.get(&path).expect(200);
    assert_eq!(
        (&there["message_count"], &there["id"]),
        (&json!(0), &json!(ID))
    );
    assert_eq!(there["created_at"], begun["created_at"]);
}

#[test]
fn metadata_that_fills_nothing_is_kept_and_warned_about() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}/messages");
    let odd = json!({ "config": "D3", "handoff_steps": "two" });
    let message = json!({ "role": "assistant", "content": "x", "inference_metadata": odd });
    let added = faces.http.post(&path, &message).expect(201);
    let warning = added["warning"].as_str().unwrap();
    assert!(warning.contains("inference_metadata"), "{warning}");
    let kept = faces.http.get(&path).expect(200)["items"][0].take();
    assert_eq!(kept["inference_metadata"], odd);
    assert_eq!(kept["config_used"], Value::Null);
    let mut line = message.clone();
    line["conversation_id"] = json!(ID);
    let record = Record::from_json(&line.to_string()).unwrap();
    let ack = faces.store().record(record).unwrap();
    assert_eq!(ack.warning, Some(Warning::UnreadMetadata));
    // Additional fields from a provider cause no warning.
    for metadata in [
        json!({ "config": "D3", "handoff_steps": 2, "seed": 7 }),
        json!({ "usage": { "prompt_tokens": "12" } }),
        json!("none"),
    ] {
        let message =
            json!({ "role": "assistant", "content": "x", "inference_metadata": metadata });
        let added = faces.http.post(&path, &message).expect(201);
        assert_eq!(added["warning"], Value::Null, "{metadata}");
    }
}

#[test]
fn a_failure_without_a_message_is_told_by_a_change() {
    let faces = Faces::new();
    begin(&faces, ID, "w");
    let path = format!("/conversations/{ID}");
    let change = json!({ "status": "error", "last_error": "the worker died" });
    let changed = faces.http.patch(&path, &change).expect(200);
    assert_eq!(
        (&changed["status"], &changed["last_error"]),
        (&change["status"], &change["last_error"])
    );
    let talk = faces.cli(&["conversations"])[0].take();
    assert_eq!(talk["last_error"], "the worker died");
}
