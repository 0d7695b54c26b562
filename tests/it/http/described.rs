//! `/openapi.json` is accurate: regressions for problems that schemathesis found.

use serde_json::{Value, json};
use uuid::Uuid;

use super::Service;

fn described(service: &Service) -> Value {
    service.client().get("/openapi.json").expect(200)
}

/// Collects every `$ref` and every description.
fn walk<'a>(value: &'a Value, refs: &mut Vec<&'a str>, texts: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            refs.extend(members.get("$ref").and_then(Value::as_str));
            texts.extend(members.get("description").and_then(Value::as_str));
            members.values().for_each(|it| walk(it, refs, texts));
        }
        Value::Array(items) => items.iter().for_each(|it| walk(it, refs, texts)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_no_text_is_for_readers_of_rust() {
    let service = Service::start();
    let api = described(&service);
    let (mut refs, mut texts) = (Vec::new(), Vec::new());
    walk(&api, &mut refs, &mut texts);
    for name in refs {
        assert!(api.pointer(&name[1..]).is_some(), "there is no {name}");
    }
    for text in texts {
        assert!(!text.contains("[`") && !text.contains("```"), "{text}");
    }
}

/// Bug: the schema of `/stream` described an event as a string, and that of `/records` a body as
/// lines.
#[test]
fn streams_and_lines_are_described_by_what_they_hold() {
    let service = Service::start();
    let api = described(&service);
    let event = "#/components/schemas/StreamEvent";
    let stream = &api["paths"]["/stream"]["get"]["responses"]["200"]["content"];
    assert_eq!(stream["text/event-stream"]["schema"]["$ref"], event);
    let data = &api["components"]["schemas"]["StreamEvent"]["properties"]["data"];
    assert_eq!(data["contentMediaType"], "application/json");
    assert_eq!(data["contentSchema"]["type"], "object");
    let records = &api["paths"]["/records"]["post"];
    let body = &records["requestBody"]["content"]["application/x-ndjson"]["schema"];
    assert_eq!(body["items"]["$ref"], "#/components/schemas/RecordLine");
    let forms = &api["components"]["schemas"]["RecordLine"]["anyOf"];
    assert_eq!(forms.as_array().map(Vec::len), Some(17), "{forms}");
}

#[test]
fn a_parameter_is_never_null_and_a_body_that_may_be_left_out_is_not() {
    let service = Service::start();
    let api = described(&service);
    let items = api["paths"].as_object().unwrap().values();
    for operation in items.flat_map(|item| item.as_object().unwrap().values()) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            let schema = &parameter["schema"];
            assert!(!schema.to_string().contains("\"null\""), "{parameter}");
        }
    }
    let claim = &api["paths"]["/inbox/claim"]["post"]["requestBody"];
    assert_eq!(claim["required"], false);
    let client = service.client();
    let answer = client.json("POST", "/inbox/claim", b"null");
    answer.expect_problem(422, "invalid_input", Some(""));
}

/// Bug: a number above the schema's maximum was accepted.
#[test]
fn an_event_id_past_its_bound_is_refused() {
    let service = Service::start();
    let client = service.client();
    let number = "9223372036854775808";
    let answer = client.get(&format!("/stream?last_event_id={number}"));
    answer.expect_problem(400, "bad_request", Some("last_event_id"));
    let answer = client.with("Last-Event-ID", number).get("/stream");
    answer.expect_problem(400, "bad_request", Some("Last-Event-ID"));
}

/// Bug: ignored fields were accepted with any type.
#[test]
fn what_is_ignored_of_a_conversation_has_its_type_all_the_same() {
    let service = Service::start();
    let client = service.client();
    for (name, wrong) in [
        ("updated_at", json!("soon")),
        ("message_count", json!("1")),
        ("total_tokens_in", json!(-1)),
        ("models_used", json!("m")),
        ("next", json!(1)),
    ] {
        let body = json!({"client": "api", name: wrong});
        let answer = client.post("/conversations", &body);
        answer.expect_problem(422, "invalid_input", Some(&format!("/{name}")));
    }
    let read = client.post("/conversations", &json!({"client": "api"}));
    let read = read.expect(201);
    client.post("/conversations", &read).expect(200);
}

/// Bug: fields that the log would not store were accepted: a call's request with an outcome, a
/// task's step with a text.
#[test]
fn a_line_with_a_field_of_another_op_is_rejected() {
    let service = Service::start();
    let client = service
        .client()
        .with("Content-Type", "application/x-ndjson");
    let id = Uuid::from_u128(1);
    for (line, field) in [
        (
            json!({"kind": "tool_calls", "op": "requested", "request_id": id, "call_id": "c", "parent_id": id,
                "vendor": "v", "tool_name": "t", "started_at": 1, "arguments_json": {}, "outcome_json": {}}),
            "/outcome_json",
        ),
        (
            json!({"kind": "tool_calls", "op": "completed", "request_id": id, "call_id": "c", "ended_at": 1,
                "latency_ms": 1, "arguments_json": {}}),
            "/arguments_json",
        ),
        (
            json!({"kind": "code_edit_proposals", "op": "approved", "request_id": id, "decided_at": 1,
                "diffs_json": []}),
            "/diffs_json",
        ),
        (
            json!({"kind": "inbox", "op": "done", "id": 1, "attempts": 1, "text": "a"}),
            "/text",
        ),
        (
            json!({"kind": "inbox", "op": "failed", "id": 1, "attempts": 1, "locked_at": 1}),
            "/locked_at",
        ),
    ] {
        let answer = client.send("POST", "/records", line.to_string().as_bytes());
        let result = answer.expect(200);
        assert_eq!(result["problem"]["field"], field, "{result}");
    }
}

/// An ignored parameter would be a filter that does not filter.
#[test]
fn a_query_parameter_that_there_is_not_is_refused_by_every_operation() {
    let service = Service::start();
    let api = described(&service);
    let mut refused = 0;
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if operation["tags"][0] == "server" {
                continue;
            }
            let mut at = path.clone();
            let params = operation["parameters"].as_array();
            for param in params.into_iter().flatten() {
                let value = match param["schema"]["format"].as_str() {
                    Some("uuid") => Uuid::nil().to_string(),
                    _ => "1".to_owned(),
                };
                at = at.replace(&format!("{{{}}}", param["name"].as_str().unwrap()), &value);
            }
            let method = method.to_uppercase();
            let url = format!("{at}?no_such_parameter=1");
            let answer = service.client().json(&method, &url, b"{}");
            assert_eq!(answer.status, 400, "{method} {url}: {}", answer.text());
            assert!(
                answer.text().contains("no_such_parameter"),
                "{method} {url}: {}",
                answer.text()
            );
            refused += 1;
        }
    }
    assert!(refused > 40, "{refused}");
}
