//! Requirement 000, the `ObservabilityStore` contract.

use std::sync::Arc;

use decklog::query::{CallQuery, TurnQuery};
use decklog::{
    AckStatus, ConversationTurn, ErrorKind, ObservabilityStore, Record, Store, Timestamp,
    ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::faces::Faces;
use crate::support::{DAY_1, request, still};

const REQUEST: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";
const PARENT: &str = "67e55044-10b1-426f-9247-bb680e5fe0c9";

/// A request as accepted by HTTP and `decklog record`.
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

/// Omitted fields get the same defaults everywhere, and sending the record again is the same
/// record.
#[test]
fn what_is_left_out_has_the_same_default_on_every_face() {
    let mut faces = Faces::new();
    let before = Timestamp::now().at();
    // Turns: an id, a message id, a time.
    let turn = json!({ "kind": "user", "content": "over http" });
    let added = faces.http.post("/turns", &turn).expect(201);
    let ids = [
        added["id"].as_str().unwrap().to_owned(),
        faces.tool(
            "turn_record",
            json!({ "kind": "user", "content": "over mcp" }),
        )["id"]
            .as_str()
            .unwrap()
            .to_owned(),
    ];
    let line = r#"{"turn_kind":"user","content":"as a line"}"#;
    assert!(faces.cli_takes(&["record"], line).0);
    let turns = faces.store().turns(&TurnQuery::default()).unwrap().items;
    assert_eq!(turns.len(), 3);
    for turn in &turns {
        assert_eq!(turn.message_id, turn.id);
        assert!(turn.created_at.is_valid && turn.created_at.at >= before);
    }
    assert!(
        ids.iter()
            .all(|id| turns.iter().any(|turn| turn.id.to_string() == *id))
    );
    // Calls: a time and a hash. Outcomes: a time and a latency.
    let timeless = |call_id: &str| {
        let mut call = with(call_id, json!({ "arguments_json": { "a": 1 } }));
        call.as_object_mut().unwrap().remove("started_at");
        call
    };
    let outcome =
        |call_id: &str| json!({ "request_id": REQUEST, "call_id": call_id, "status": "completed" });
    let mut done = outcome("line");
    done["kind"] = "tool_calls".into();
    done["op"] = done.as_object_mut().unwrap().remove("status").unwrap();
    let lines = format!("{}\n{done}", as_line(timeless("line")));
    for expected in ["added", "unchanged"] {
        let answer = faces.http.post("/tool-calls", &timeless("http"));
        let path = format!("/tool-calls/{REQUEST}/http/done");
        let ended = faces.http.post(&path, &json!({ "status": "completed" }));
        for answer in [answer, ended] {
            let status = if expected == "added" { 201 } else { 200 };
            assert_eq!(answer.expect(status)["status"], expected);
        }
        for (tool, given) in [
            ("tool_call_requested", timeless("mcp")),
            ("tool_call_done", outcome("mcp")),
        ] {
            assert_eq!(faces.tool(tool, given)["status"], expected);
        }
        assert!(faces.cli_takes(&["record"], &lines).0);
    }
    let calls = faces
        .store()
        .tool_calls(&CallQuery::default())
        .unwrap()
        .items;
    assert_eq!(calls.len(), 3);
    for (req, done) in calls {
        let done = done.unwrap();
        assert!(req.started_at.at >= before);
        assert_eq!(req.args_sha256, args_sha256(r#"{"a":1}"#));
        assert_eq!(done.latency_ms, done.ended_at.at - req.started_at.at);
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

/// The hash is that of the original arguments. The stored form, read back and recorded again here
/// or in another log, is accepted.
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

/// The trait works through any pointer type, and its types convert to JSON, texts and pairs.
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

#[test]
fn a_turn_is_upserted_by_its_id_on_every_face() {
    let mut faces = Faces::new();
    let turn = |id: u128, content: &str| {
        json!({
            "id": Uuid::from_u128(id), "message_id": Uuid::from_u128(id), "kind": "user",
            "created_at": DAY_1, "content": content,
        })
    };
    let as_line = |id, content: &str| {
        let mut line = turn(id, content);
        line["turn_kind"] = line["kind"].take();
        line["kind"] = json!("conversation_turns");
        line.to_string()
    };
    let typed = |id, content: &str| -> ConversationTurn {
        serde_json::from_value(turn(id, content)).unwrap()
    };
    for content in ["first", "first", "second"] {
        let store = faces.store();
        store.upsert_conversation_turn(typed(1, content)).unwrap();
        let answer = faces.http.post("/turns", &turn(2, content));
        assert!([200, 201].contains(&answer.status), "{}", answer.text());
        let mut over_mcp = turn(3, content);
        over_mcp["thread_id"] = json!(PARENT);
        faces.tool("turn_record", over_mcp);
        let (is_taken, said) = faces.cli_takes(&["record"], &as_line(4, content));
        assert!(is_taken, "{said}");
    }
    // One row for each, as last recorded. Repeated records are in the files once.
    let since = faces.store().list_conversation_since(DAY_1, 10).unwrap();
    let mut found: Vec<(u128, &str)> = since
        .iter()
        .map(|it| (it.id.as_u128(), &*it.content))
        .collect();
    found.sort_unstable();
    let all = [1, 2, 3, 4].map(|id| (id, "second"));
    assert_eq!(found, all);
    assert_eq!(faces.store().last_lines(100).unwrap().len(), 8);
    for (since, limit, count) in [(DAY_1 + 1, 10, 0), (DAY_1, 3, 3), (DAY_1, 0, 0)] {
        let listed = faces.store().list_conversation_since(since, limit).unwrap();
        assert_eq!(listed.len(), count);
    }
    let path = format!("/turns?since={DAY_1}&limit=3");
    let listed = faces.http.get(&path).expect(200);
    assert_eq!(listed["items"].as_array().unwrap().len(), 3);
    let since = DAY_1.to_string();
    assert_eq!(faces.cli(&["turns", "--since", &since]).len(), 4);
    let listed = faces.tool(
        "turns_since",
        json!({ "since": DAY_1, "thread_id": PARENT }),
    );
    assert_eq!(listed["turns"].as_array().unwrap().len(), 1);
}

#[test]
fn a_turn_has_one_of_five_kinds_on_every_face() {
    let mut faces = Faces::new();
    for (n, kind) in (1..).zip(["user", "assistant", "system", "sysinfo", "tool", "model"]) {
        let is_known = kind != "model";
        let turn = json!({
            "id": Uuid::from_u128(n), "message_id": Uuid::from_u128(n), "kind": kind,
            "created_at": DAY_1, "content": "x",
        });
        let status = faces.http.post("/turns", &turn).status;
        assert_eq!(status, if is_known { 201 } else { 422 }, "{kind}");
        let given = json!({ "kind": kind, "content": "x" });
        assert_eq!(
            faces.mcp.call("turn_record", given)["ok"],
            is_known,
            "{kind}"
        );
        let mut line = turn.clone();
        (line["kind"], line["turn_kind"]) = (json!("conversation_turns"), json!(kind));
        line["id"] = json!(Uuid::from_u128(n + 10));
        let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
        assert_eq!(is_taken, is_known, "{kind}: {said}");
        assert_eq!(TurnKind::try_from(kind).is_ok(), is_known);
    }
}

#[test]
fn a_call_is_requested_and_done_once_on_every_face() {
    let mut faces = Faces::new();
    let key = |call_id: &str| json!({ "request_id": REQUEST, "call_id": call_id });
    let done = |status: &str| json!({ "status": status, "ended_at": DAY_1 + 9, "latency_ms": 9 });
    let merged = |mut one: Value, other: Value| {
        let members = other.as_object().unwrap().clone();
        one.as_object_mut().unwrap().extend(members);
        one
    };
    let arguments = json!({ "arguments_json": { "a": 1 } });

    // Over HTTP: requested again, completed, completed again; after that, neither another outcome
    // nor another request is accepted.
    let path = format!("/tool-calls/{REQUEST}/http/done");
    let unknown = faces.http.post(&path, &done("completed"));
    unknown.expect_problem(404, "not_found", None);
    let asked = with("http", arguments.clone());
    faces.http.post("/tool-calls", &asked).expect(201);
    faces.http.post("/tool-calls", &asked).expect(200);
    faces.http.post(&path, &done("completed")).expect(201);
    faces.http.post(&path, &done("completed")).expect(200);
    assert_eq!(faces.http.post(&path, &done("failed")).status, 409);
    faces.http.post("/tool-calls", &asked).expect(200);

    // Over MCP.
    let outcome = |status| merged(key("mcp"), done(status));
    let early = faces.tool_fails("tool_call_done", outcome("completed"));
    assert_eq!(early["code"], "NOT_FOUND");
    let asked = with("mcp", arguments.clone());
    for status in ["added", "unchanged"] {
        let put = faces.tool("tool_call_requested", asked.clone());
        assert_eq!(put["status"], status);
    }
    for status in ["added", "unchanged"] {
        assert_eq!(
            faces.tool("tool_call_done", outcome("failed"))["status"],
            status
        );
    }
    let other = faces.tool_fails("tool_call_done", outcome("completed"));
    assert_eq!(other["code"], "CONFLICT");

    // As lines, and through the trait.
    let store = faces.store();
    let line = |op: &str, members: Value| {
        let line = merged(key("line"), json!({ "kind": "tool_calls", "op": op }));
        merged(line, members).to_string()
    };
    let asked = as_line(with("line", arguments));
    let ended = json!({ "ended_at": DAY_1 + 9, "latency_ms": 9 });
    for (line, is_taken) in [
        (line("completed", ended.clone()), false),
        (asked.clone(), true),
        (asked.clone(), true),
        (line("completed", ended.clone()), true),
        (line("completed", ended.clone()), true),
        (line("failed", ended), false),
        (asked, true),
    ] {
        let (taken, said) = faces.cli_takes(&["record"], &line);
        assert_eq!(taken, is_taken, "{line}: {said}");
    }
    let req = request(1, "trait", DAY_1);
    let outcome = |status| ToolCallDone {
        request_id: req.request_id,
        call_id: req.call_id.clone(),
        ended_at: Validity::at(DAY_1 + 9),
        latency_ms: 9,
        outcome_json: None,
        error_kind: None,
        error_msg: None,
        status,
    };
    let early = store.record_tool_call_done(outcome(ToolStatus::Completed));
    assert_eq!(early.unwrap_err().kind(), ErrorKind::NotFound);
    for _ in 0..2 {
        store.record_tool_call_requested(req.clone()).unwrap();
        store
            .record_tool_call_done(outcome(ToolStatus::Completed))
            .unwrap();
    }
    let other = store.record_tool_call_done(outcome(ToolStatus::Failed));
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);
    // A request with more data for a completed call updates the call, and keeps its outcome.
    let renamed = ToolCallReq {
        tool_name: "another_tool".into(),
        ..req.clone()
    };
    store.record_tool_call_requested(renamed).unwrap();
    let (now, done) = store
        .get_tool_call(req.request_id, "trait")
        .unwrap()
        .unwrap();
    assert_eq!(now.tool_name, "another_tool");
    assert_eq!(done, Some(outcome(ToolStatus::Completed)));

    // Each call is there once in every list.
    let listed = faces.http.get(&format!("/tool-calls?request_id={REQUEST}"));
    let listed = listed.expect(200)["items"].as_array().unwrap().len();
    assert_eq!(listed, 3);
    assert_eq!(faces.cli(&["calls", "--request", REQUEST]).len(), 3);
    let listed = faces.tool("tool_calls_list", json!({ "request_id": REQUEST }));
    assert_eq!(listed["calls"].as_array().unwrap().len(), 3);
    let parent = PARENT.parse().unwrap();
    assert_eq!(
        faces
            .store()
            .list_tool_calls_by_parent(parent, 10)
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        faces
            .store()
            .list_tool_calls_by_parent(parent, 2)
            .unwrap()
            .len(),
        2
    );
}

#[test]
fn the_outcome_of_a_call_is_posted_as_the_document_has_it() {
    let faces = Faces::new();
    let asked = with("c 1", json!({ "arguments_json": { "a": 1 } }));
    faces.http.post("/tool-calls", &asked).expect(201);
    let path = format!("/tool-calls/{REQUEST}/c%201/done");
    // All fields of ToolCallDone.
    let done = json!({
        "request_id": REQUEST, "call_id": "c 1", "status": "completed", "latency_ms": 9,
        "ended_at": { "at": DAY_1 + 9, "is_valid": true }, "outcome_json": "{}",
        "error_kind": null, "error_msg": null,
    });
    let changed = |name: &str, value: Value| {
        let mut done = done.clone();
        done[name] = value;
        done
    };
    for (name, value) in [
        ("request_id", json!(Uuid::from_u128(9))),
        ("call_id", json!("c")),
        ("ended_at", json!({ "at": DAY_1, "is_valid": false })),
        ("latency_ms", json!(-1)),
    ] {
        let refused = faces.http.post(&path, &changed(name, value));
        refused.expect_problem(422, "invalid_input", Some(&format!("/{name}")));
    }
    faces.http.post(&path, &done).expect(201);
    faces.http.post(&path, &done).expect(200);
    // The time as a number means the same.
    let by_number = changed("ended_at", json!(DAY_1 + 9));
    faces.http.post(&path, &by_number).expect(200);
    let read = faces.http.get(path.strip_suffix("/done").unwrap());
    assert_eq!(read.expect(200)["ended_at"], DAY_1 + 9);
}

/// All interfaces use the field names of the files.
#[test]
fn a_proposal_and_its_steps_have_the_names_of_the_files() {
    let mut faces = Faces::new();
    let steps = [
        json!({ "op": "approved", "decided_at": DAY_1 + 1 }),
        json!({ "op": "applied", "applied_at": DAY_1 + 2, "commit_hash": "abc" }),
        json!({ "op": "reverted", "at": DAY_1 + 3, "commit_hash": "abc" }),
    ];
    let proposal = |id: u128| {
        json!({
            "op": "pending", "request_id": Uuid::from_u128(id), "created_at": DAY_1,
            "confidence": 0.5, "diffs_json": [{ "file": "a.rs" }],
        })
    };
    faces.http.post("/proposals", &proposal(1)).expect(201);
    let path = format!("/proposals/{}", Uuid::from_u128(1));
    for step in &steps {
        faces.http.post(&format!("{path}/steps"), step).expect(201);
        faces.http.post(&format!("{path}/steps"), step).expect(200);
    }
    let mut lines = vec![proposal(2)];
    lines.extend(steps.iter().cloned());
    for mut line in lines {
        line["kind"] = json!("code_edit_proposals");
        line["request_id"] = json!(Uuid::from_u128(2));
        let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
        assert!(is_taken, "{line}: {said}");
    }
    let mut over_mcp = proposal(3);
    over_mcp.as_object_mut().unwrap().remove("op");
    faces.tool("proposal_record", over_mcp);
    for step in [
        json!({ "status": "approved", "at": DAY_1 + 1 }),
        json!({ "status": "applied", "at": DAY_1 + 2, "commit_hash": "abc" }),
        json!({ "status": "reverted", "at": DAY_1 + 3 }),
    ] {
        let mut step = step;
        step["request_id"] = json!(Uuid::from_u128(3));
        faces.tool("proposal_decide", step);
    }
    for id in [1, 2, 3] {
        let path = format!("/proposals/{}", Uuid::from_u128(id));
        let stands = faces.http.get(&path).expect(200);
        assert_eq!(
            stands,
            json!({
                "request_id": Uuid::from_u128(id), "created_at": DAY_1,
                "confidence": 0.5, "status": "reverted", "decided_at": DAY_1 + 1,
                "applied_at": DAY_1 + 2, "commit_hash": "abc", "diffs_json": [{ "file": "a.rs" }],
            })
        );
    }
    // Invalid steps of a proposal are refused by the same names.
    faces.http.post("/proposals", &proposal(4)).expect(201);
    let path = format!("/proposals/{}/steps", Uuid::from_u128(4));
    for step in [
        json!({ "op": "approved", "decided_at": DAY_1, "at": DAY_1 + 5 }),
        json!({ "op": "denied", "applied_at": DAY_1 }),
        json!({ "op": "pending" }),
        json!({ "decided_at": DAY_1 }),
    ] {
        assert_eq!(faces.http.post(&path, &step).status, 422, "{step}");
    }
    let mut retracted = proposal(4);
    retracted["op"] = json!("retracted");
    faces.http.post("/proposals", &retracted).expect(201);
    let gone = faces
        .http
        .get(&format!("/proposals/{}", Uuid::from_u128(4)));
    assert_eq!(gone.status, 404);
}

#[test]
fn a_proposal_is_posted_as_a_row_of_the_document() {
    let faces = Faces::new();
    let row = json!({
        "request_id": Uuid::from_u128(5), "diffs_json": [{ "file": "a.rs" }], "confidence": null,
        "status": "pending", "created_at": { "at": DAY_1, "is_valid": true },
        "decided_at": null, "applied_at": null, "commit_hash": null,
    });
    faces.http.post("/proposals", &row).expect(201);
    faces.http.post("/proposals", &row).expect(200);
    // Data of later steps is recorded in those steps.
    for (name, value) in [
        ("decided_at", json!(DAY_1 + 1)),
        ("applied_at", json!(DAY_1 + 2)),
        ("commit_hash", json!("abc")),
        ("status", json!("approved")),
    ] {
        let mut row = row.clone();
        row["request_id"] = json!(Uuid::from_u128(6));
        row[name] = value;
        let refused = faces.http.post("/proposals", &row);
        refused.expect_problem(422, "invalid_input", Some(&format!("/{name}")));
    }
}

#[test]
fn diffs_that_are_null_are_missing() {
    let mut faces = Faces::new();
    let proposal = json!({ "request_id": REQUEST, "created_at": DAY_1, "diffs_json": null });
    let refused = faces.http.post("/proposals", &proposal);
    refused.expect_problem(422, "invalid_input", Some("/diffs_json"));
    let error = faces.tool_fails("proposal_record", proposal.clone());
    assert_eq!(error["details"]["field"], "diffs_json", "{error}");
    let mut line = proposal;
    line["kind"] = json!("code_edit_proposals");
    let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
    assert!(!is_taken && said.contains("diffs_json"), "{said}");
    assert!(faces.store().last_lines(1).unwrap().is_empty());
}

#[test]
fn what_stood_at_a_time_is_read_on_every_face() {
    let mut faces = Faces::new();
    let id = Uuid::from_u128(1);
    let turn = |at: i64, content: &str| {
        json!({
            "id": id, "message_id": id, "thread_id": PARENT, "kind": "user",
            "created_at": DAY_1 + at, "content": content,
        })
    };
    for (at, content) in [(10, "first"), (20, "second")] {
        faces.http.post("/turns", &turn(at, content)).expect(201);
    }
    let call = with(
        "c",
        json!({ "arguments_json": {}, "started_at": DAY_1 + 10 }),
    );
    faces.http.post("/tool-calls", &call).expect(201);
    let done = json!({ "status": "completed", "ended_at": DAY_1 + 20, "latency_ms": 10 });
    let path = format!("/tool-calls/{REQUEST}/c/done");
    faces.http.post(&path, &done).expect(201);
    let proposal = json!({ "request_id": REQUEST, "created_at": DAY_1 + 10, "diffs_json": ["a"] });
    faces.http.post("/proposals", &proposal).expect(201);
    let step = json!({ "op": "approved", "decided_at": DAY_1 + 20 });
    let path = format!("/proposals/{REQUEST}/steps");
    faces.http.post(&path, &step).expect(201);

    // At each time: the turn's text, the status of the call, and the status of the proposal.
    let cases = [
        (5, None),
        (15, Some(["first", "requested", "pending"])),
        (25, Some(["second", "completed", "approved"])),
    ];
    for (at, expected) in cases {
        let at = DAY_1 + at;
        let fields = ["content", "status", "status"];
        // Read by key.
        let paths = [
            format!("/turns/{id}?as_of={at}"),
            format!("/tool-calls/{REQUEST}/c?as_of={at}"),
            format!("/proposals/{REQUEST}?as_of={at}"),
        ];
        let given = json!({ "request_id": REQUEST, "call_id": "c", "as_of": at });
        for (nth, path) in paths.iter().enumerate() {
            let found = faces.http.get(path);
            match expected {
                Some(expected) => assert_eq!(found.expect(200)[fields[nth]], expected[nth]),
                None => assert_eq!(found.status, 404, "{path}"),
            }
        }
        match expected {
            Some([_, status, _]) => {
                assert_eq!(faces.tool("tool_call_get", given)["status"], status);
            }
            None => assert_eq!(
                faces.tool_fails("tool_call_get", given)["code"],
                "NOT_FOUND"
            ),
        }
        // And from lists.
        let text = at.to_string();
        let items = |mut listed: Value, name: &str| listed[name].take();
        let get = |path: &str| {
            let path = format!("{path}?as_of={at}");
            items(faces.http.get(&path).expect(200), "items")
        };
        let over_http = ["/turns", "/tool-calls", "/proposals"].map(get);
        let cli = |command: &str| json!(faces.cli(&[command, "--as-of", &text]));
        let by_command = ["turns", "calls", "proposals"].map(cli);
        let as_of = json!({ "as_of": at });
        let of_all = json!({ "as_of": at, "since": 0 });
        let over_mcp = [
            items(faces.tool("turns_since", of_all), "turns"),
            items(faces.tool("tool_calls_list", as_of.clone()), "calls"),
            items(faces.tool("proposals_list", as_of), "proposals"),
        ];
        for lists in [over_http, by_command, over_mcp] {
            for (nth, list) in lists.iter().enumerate() {
                let list = list.as_array().unwrap();
                let found: Vec<&Value> = list.iter().map(|it| &it[fields[nth]]).collect();
                let expected: Vec<&str> = expected.iter().map(|it| it[nth]).collect();
                assert_eq!(found, expected, "{at}: {list:?}");
            }
        }
    }
    faces
        .http
        .get("/turns?as_of=soon")
        .expect_problem(400, "bad_request", Some("as_of"));
}

#[test]
fn what_was_recorded_by_mistake_is_retracted_on_every_face() {
    let mut faces = Faces::new();
    let id = Uuid::from_u128(1);
    let turn =
        json!({ "id": id, "message_id": id, "kind": "user", "created_at": DAY_1, "content": "a" });
    let call = |call_id: &str| with(call_id, json!({ "arguments_json": {} }));
    let proposal = json!({ "request_id": REQUEST, "created_at": DAY_1, "diffs_json": ["a"] });
    let record_all = |faces: &Faces| {
        faces.http.post("/turns", &turn).expect(201);
        faces.http.post("/tool-calls", &call("c")).expect(201);
        faces.http.post("/proposals", &proposal).expect(201);
    };
    let request: Uuid = REQUEST.parse().unwrap();
    let standing = |faces: &Faces| {
        let store = faces.store();
        [
            store.get_turn(id).unwrap().is_some(),
            store.get_tool_call(request, "c").unwrap().is_some(),
            store.get_proposal(request).unwrap().is_some(),
        ]
    };
    record_all(&faces);
    assert_eq!(standing(&faces), [true; 3]);

    // Over MCP.
    let at = DAY_1 + 10;
    let no_call = json!({ "kind": "tool_call", "id": REQUEST });
    let error = faces.tool_fails("retract", no_call);
    assert_eq!(error["details"]["field"], "call_id", "{error}");
    let other = json!({ "kind": "tool_call", "id": REQUEST, "call_id": "other" });
    assert_eq!(faces.tool_fails("retract", other)["code"], "NOT_FOUND");
    for given in [
        json!({ "kind": "turn", "id": id, "at": at }),
        json!({ "kind": "tool_call", "id": REQUEST, "call_id": "c", "at": at }),
        json!({ "kind": "proposal", "id": REQUEST, "at": at }),
    ] {
        assert_eq!(faces.tool("retract", given.clone())["status"], "added");
        assert_eq!(faces.tool_fails("retract", given)["code"], "NOT_FOUND");
    }
    assert_eq!(standing(&faces), [false; 3]);
    let before = faces.store().as_of(at - 1);
    assert!(before.get_turn(id).unwrap().is_some());
    assert!(before.get_tool_call(request, "c").unwrap().is_some());
    assert!(before.get_proposal(request).unwrap().is_some());

    // Over HTTP, with a Validity.
    record_all(&faces);
    assert_eq!(standing(&faces), [true; 3]);
    let retracted = |mut body: Value, time: &str| {
        body[time] = json!({ "at": DAY_1 + 20, "is_valid": false });
        body
    };
    let bodies = [
        ("/turns", retracted(turn.clone(), "created_at")),
        ("/tool-calls", retracted(call("c"), "started_at")),
        ("/proposals", retracted(proposal.clone(), "created_at")),
    ];
    for (path, body) in &bodies {
        faces.http.post(path, body).expect(201);
    }
    assert_eq!(standing(&faces), [false; 3]);

    // On the command line, by the op of the lines.
    record_all(&faces);
    let mut line = turn.clone();
    line["turn_kind"] = line["kind"].take();
    let kinds = ["conversation_turns", "tool_calls", "code_edit_proposals"];
    for (kind, mut line) in kinds.into_iter().zip([line, call("c"), proposal.clone()]) {
        line["kind"] = json!(kind);
        line["op"] = json!("retracted");
        let (is_taken, said) = faces.cli_takes(&["record"], &line.to_string());
        assert!(is_taken, "{said}");
    }
    assert_eq!(standing(&faces), [false; 3]);
}

#[test]
fn what_was_decided_or_done_is_retracted_too() {
    let mut faces = Faces::new();
    let proposal = json!({ "request_id": REQUEST, "diffs_json": ["a"], "confidence": 0.5 });
    faces.tool("proposal_record", proposal);
    for status in ["approved", "applied"] {
        let step = json!({ "request_id": REQUEST, "status": status });
        faces.tool("proposal_decide", step);
    }
    let call = with("c", json!({ "arguments_json": {} }));
    faces.http.post("/tool-calls", &call).expect(201);
    let done = json!({ "request_id": REQUEST, "call_id": "c", "status": "completed" });
    faces.tool("tool_call_done", done);
    for given in [
        json!({ "kind": "tool_call", "id": REQUEST, "call_id": "c" }),
        json!({ "kind": "proposal", "id": REQUEST }),
    ] {
        assert_eq!(faces.tool("retract", given)["status"], "added");
    }
    let request: Uuid = REQUEST.parse().unwrap();
    let store = faces.store();
    assert!(store.get_tool_call(request, "c").unwrap().is_none());
    assert!(store.get_proposal(request).unwrap().is_none());
}
