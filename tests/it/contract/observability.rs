//! Requirement 000, the `ObservabilityStore` contract.

use std::sync::Arc;

use decklog::{
    AckStatus, CallQuery, ConversationTurn, ErrorKind, ObservabilityStore, Record, Store,
    ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::faces::Faces;
use crate::support::{DAY_1, request, still};

const REQUEST: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const PARENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c9";

/// A request as HTTP and `decklog record` take it.
fn given(call_id: &str) -> Value {
    json!({
        "request_id": REQUEST, "call_id": call_id, "parent_id": PARENT, "vendor": "openai",
        "tool_name": "apply_code_edit", "started_at": DAY_1,
    })
}

fn with(call_id: &str, members: Value) -> Value {
    let mut given = given(call_id);
    let members = members.as_object().unwrap().clone();
    given.as_object_mut().unwrap().extend(members);
    given
}

fn as_line(mut given: Value) -> String {
    given["kind"] = "tool_calls".into();
    given["op"] = "requested".into();
    given.to_string()
}

fn hash_in_log(store: &Store, call_id: &str) -> String {
    let call = store.get_tool_call(REQUEST.parse().unwrap(), call_id);
    call.unwrap().unwrap().0.args_sha256
}

#[test]
fn the_hash_is_computed_from_the_arguments_on_every_face() {
    let mut faces = Faces::new();
    let arguments = json!({ "arguments_json": { "b": 1, "a": [2] } });
    let hash = args_sha256(r#"{"a":[2],"b":1}"#);
    let req = ToolCallReq {
        request_id: REQUEST.parse().unwrap(),
        args_sha256: String::new(),
        arguments_json: Some(r#"{"b":1,"a":[2]}"#.into()),
        ..request(1, "lib", DAY_1)
    };
    faces.store().record_tool_call_requested(req).unwrap();
    let over_http = with("http", arguments.clone());
    faces.http.post("/tool-calls", &over_http).expect(201);
    faces.tool("tool_call_requested", with("mcp", arguments.clone()));
    let line = as_line(with("line", arguments));
    faces
        .store()
        .record(Record::from_json(&line).unwrap())
        .unwrap();
    for call_id in ["lib", "http", "mcp", "line"] {
        assert_eq!(hash_in_log(faces.store(), call_id), hash, "{call_id}");
    }
}

#[test]
fn the_hash_alone_is_taken_on_every_face() {
    let mut faces = Faces::new();
    let hash = args_sha256("secret");
    let alone = json!({ "args_sha256": hash });
    let over_http = with("http", alone.clone());
    faces.http.post("/tool-calls", &over_http).expect(201);
    faces.tool("tool_call_requested", with("mcp", alone.clone()));
    let line = as_line(with("line", alone));
    faces
        .store()
        .record(Record::from_json(&line).unwrap())
        .unwrap();
    for call_id in ["http", "mcp", "line"] {
        assert_eq!(hash_in_log(faces.store(), call_id), hash, "{call_id}");
    }
}

#[test]
fn one_of_hash_and_arguments_is_required_and_both_must_agree() {
    let mut faces = Faces::new();
    let wrong = json!({ "args_sha256": "0".repeat(64), "arguments_json": { "a": 1 } });
    for members in [json!({}), wrong] {
        let names_both = |text: &str| {
            assert!(text.contains("args_sha256"), "{text}");
            assert!(text.contains("arguments_json"), "{text}");
        };
        let given = with("c", members.clone());
        let req = ToolCallReq {
            args_sha256: members["args_sha256"].as_str().unwrap_or_default().into(),
            arguments_json: members.get("arguments_json").map(Value::to_string),
            ..request(1, "c", DAY_1)
        };
        let error = faces.store().record_tool_call_requested(req.clone());
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.field(), Some("args_sha256"));
        names_both(&error.to_string());
        let capture = faces.store().capture().unwrap();
        names_both(&capture.record(req).unwrap_err().to_string());
        let answer = faces.http.post("/tool-calls", &given);
        answer.expect_problem(422, "invalid_input", Some("/args_sha256"));
        names_both(answer.text());
        let answer = faces.http.post("/tool-calls?wait=none", &given);
        answer.expect_problem(422, "invalid_input", Some("/args_sha256"));
        let error = faces.tool_fails("tool_call_requested", given.clone());
        assert_eq!(error["code"], "INVALID_PARAMS");
        assert_eq!(error["details"]["field"], "args_sha256");
        names_both(error["message"].as_str().unwrap());
        let said = faces.cli_takes(&["record"], &as_line(given));
        assert!(!said.0);
        names_both(&said.1);
    }
    assert!(faces.store().last_lines(1).unwrap().is_empty());
}

/// The hash is of the arguments as they were given. What the log kept of them, read back and
/// recorded again, here or in another log, is taken.
#[test]
fn redacted_arguments_keep_the_hash_of_what_was_given() {
    let faces = Faces::new();
    let token = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let arguments = json!({ "token": token, "path": "a.rs" });
    let hash = args_sha256(&arguments.to_string());
    let both = with(
        "c",
        json!({ "arguments_json": arguments, "args_sha256": hash }),
    );
    faces.http.post("/tool-calls", &both).expect(201);
    let kept = faces.store().get_tool_call(REQUEST.parse().unwrap(), "c");
    let (kept, _) = kept.unwrap().unwrap();
    assert_eq!(kept.args_sha256, hash);
    let text = kept.arguments_json.clone().unwrap();
    assert!(
        text.contains("[REDACTED:") && !text.contains(&token),
        "{text}"
    );
    let again = faces.store().record(kept.clone()).unwrap();
    assert_eq!(again.status, AckStatus::Unchanged);
    let dir = tempfile::tempdir().unwrap();
    let other = still().open(dir.path().join("log")).unwrap();
    assert_eq!(other.record(kept).unwrap().status, AckStatus::Added);
    // Also as lines of a file.
    let lines = faces.store().last_lines(10).unwrap();
    for line in lines {
        let record = Record::from_json(&line.text).unwrap();
        other.record(record).unwrap();
    }
    assert_eq!(hash_in_log(&other, "c"), hash);
}

#[test]
fn calls_are_found_by_request_and_by_call_id_on_every_face() {
    let mut faces = Faces::new();
    for (id, call_id) in [(1, "a"), (1, "b"), (2, "a"), (3, "c")] {
        let req = request(id, call_id, DAY_1);
        faces.store().record(req).unwrap();
    }
    let id = |n: u128| Uuid::from_u128(n).to_string();
    let keys = |calls: &Value| -> Vec<(String, String)> {
        let key = |call: &Value, name: &str| call[name].as_str().unwrap().to_owned();
        let calls = calls.as_array().unwrap().iter();
        let mut keys: Vec<_> = calls
            .map(|call| (key(call, "request_id"), key(call, "call_id")))
            .collect();
        keys.sort();
        keys
    };
    for (request_id, call_id, expected) in [
        (Some(1), None, vec![(1, "a"), (1, "b")]),
        (None, Some("a"), vec![(1, "a"), (2, "a")]),
        (Some(2), Some("a"), vec![(2, "a")]),
        (Some(3), Some("a"), vec![]),
        (None, Some("A"), vec![]),
        (Some(9), None, vec![]),
    ] {
        let expected: Vec<(String, String)> = expected
            .into_iter()
            .map(|(request, call)| (id(request), call.to_owned()))
            .collect();
        let query = CallQuery {
            request_id: request_id.map(Uuid::from_u128),
            call_id: call_id.map(str::to_owned),
            ..CallQuery::default()
        };
        let page = faces.store().tool_calls(&query).unwrap();
        let mut found: Vec<_> = page
            .items
            .into_iter()
            .map(|(req, _)| (req.request_id.to_string(), req.call_id))
            .collect();
        found.sort();
        assert_eq!(found, expected);
        let request = request_id.map(id);
        let (mut args, mut path) = (vec!["calls"], "/tool-calls?limit=9".to_owned());
        let mut asked = json!({});
        if let Some(request) = &request {
            args.extend(["--request", request]);
            path = format!("{path}&request_id={request}");
            asked["request_id"] = request.as_str().into();
        }
        if let Some(call_id) = call_id {
            args.extend(["--call", call_id]);
            path = format!("{path}&call_id={call_id}");
            asked["call_id"] = call_id.into();
        }
        assert_eq!(keys(&faces.cli(&args).into()), expected);
        assert_eq!(keys(&faces.http.get(&path).expect(200)["items"]), expected);
        assert_eq!(
            keys(&faces.tool("tool_calls_list", asked)["calls"]),
            expected
        );
    }
}

/// The trait by any pointer, and its types as JSON, as texts and as pairs.
#[test]
fn the_trait_is_used_through_pointers_and_its_types_convert() {
    fn calls(store: impl ObservabilityStore, request: &ToolCallReq) -> usize {
        store.record_tool_call_requested(request.clone()).unwrap();
        store
            .list_tool_calls_by_parent(request.parent_id, 10)
            .unwrap()
            .len()
    }
    let faces = Faces::new();
    let request: ToolCallReq = serde_json::from_value(json!({
        "request_id": Uuid::from_u128(1), "call_id": "c", "parent_id": Uuid::from_u128(2),
        "vendor": "openai", "tool_name": "t", "arguments_json": {"a": 1}, "started_at": 5,
    }))
    .unwrap();
    let store = faces.store();
    let shared: Arc<dyn ObservabilityStore + Send + Sync> = Arc::new(store.clone());
    assert_eq!(calls(store, &request), 1);
    assert_eq!(calls(Arc::new(store.clone()), &request), 1);
    assert_eq!(calls(shared, &request), 1);
    assert_eq!(calls(Box::new(store.clone()), &request), 1);

    let (stored, _) = store
        .get_tool_call(request.request_id, "c")
        .unwrap()
        .unwrap();
    let as_json = serde_json::to_value(&stored).unwrap();
    assert_eq!(as_json["arguments_json"], json!({"a": 1}));
    assert_eq!(
        serde_json::from_value::<ToolCallReq>(as_json).unwrap(),
        stored
    );
    let done: ToolCallDone = serde_json::from_value(json!({
        "request_id": request.request_id, "call_id": "c", "ended_at": 9, "latency_ms": 4,
        "status": "failed", "error_kind": "timeout",
    }))
    .unwrap();
    let again = serde_json::to_value(&done).unwrap();
    assert_eq!(serde_json::from_value::<ToolCallDone>(again).unwrap(), done);
    let turn: ConversationTurn = serde_json::from_value(json!({
        "id": Uuid::from_u128(3), "message_id": Uuid::from_u128(4), "kind": "sysinfo",
        "created_at": {"at": 7, "is_valid": false}, "content": "x",
    }))
    .unwrap();
    assert_eq!(turn.created_at, Validity::from((7, false)));
    assert_eq!(<(i64, bool)>::from(Validity::from(7)), (7, true));
    assert_eq!(i64::from(turn.created_at), 7);
    assert_eq!(TurnKind::try_from("sysinfo").unwrap(), turn.kind);
    assert_eq!(String::from(turn.kind), "sysinfo");
    assert_eq!(<&str>::from(ToolStatus::Failed), "failed");
    assert!(ToolStatus::try_from("requested").is_err());
}

#[test]
fn a_completed_call_has_no_error_on_any_face() {
    let mut faces = Faces::new();
    let request = Uuid::from_u128(1);
    let req = json!({
        "request_id": request, "call_id": "c", "parent_id": request, "vendor": "v",
        "tool_name": "t", "arguments_json": {}, "started_at": 5,
    });
    faces.http.post("/tool-calls", &req).expect(201);
    for name in ["error_kind", "error_msg"] {
        let mut done = json!({"status": "completed", "ended_at": 9, "latency_ms": 4});
        done[name] = json!("timeout");
        let path = format!("/tool-calls/{request}/c/done");
        let at = format!("/{name}");
        faces
            .http
            .post(&path, &done)
            .expect_problem(422, "invalid_input", Some(&at));
        (done["request_id"], done["call_id"]) = (json!(request), json!("c"));
        let typed: ToolCallDone = serde_json::from_value(done.clone()).unwrap();
        let refused = faces.store().record_tool_call_done(typed).unwrap_err();
        assert_eq!(refused.field(), Some(name));
        let refused = faces.tool_fails("tool_call_done", done.clone());
        assert_eq!(refused["code"], "INVALID_PARAMS", "{refused}");
        done["op"] = done.as_object_mut().unwrap().remove("status").unwrap();
        let (is_taken, said) = faces.cli_takes(&["record"], &done.to_string());
        assert!(!is_taken && said.contains(name), "{said}");
    }
    let (_, outcome) = faces.store().get_tool_call(request, "c").unwrap().unwrap();
    assert_eq!(outcome, None);
}
