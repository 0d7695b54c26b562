//! Requirement 003, thought records: the thirty behaviours of its §10 by number, and further lines.

use decklog::mcp::Tools;
use decklog::query::{Order, ThoughtQuery};
use decklog::record::{GENESIS_HASH, ThoughtType};
use decklog::thoughts::NewThought;
use decklog::{ErrorKind, Record, Store, ThoughtRecord, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use super::faces::Faces;
use crate::support::still;

const PINNED: &str = "6a2f9597f563d5515cfa69891a51806d0f93bfbe222997d3ba37c365ceee3f1a";
const FIELDS: [&str; 8] = [
    "agent_id",
    "content",
    "hash",
    "id",
    "prev_hash",
    "task_id",
    "timestamp",
    "type",
];

fn open() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = still().open(dir.path().join("log")).unwrap();
    (dir, store)
}

fn plan(task_id: &str, content: &str) -> NewThought {
    NewThought {
        thought_type: ThoughtType::Plan,
        task_id: task_id.into(),
        agent_id: "a1".into(),
        content: content.into(),
    }
}

fn create(store: &Store, task_id: &str, content: &str) -> ThoughtRecord {
    store.thoughts().create(plan(task_id, content)).unwrap()
}

fn list(store: &Store, task_id: Option<&str>, limit: Option<usize>) -> Vec<ThoughtRecord> {
    store.thoughts().list(task_id, limit).unwrap()
}

fn given(task_id: &str, content: &str) -> Value {
    json!({ "type": "plan", "task_id": task_id, "agent_id": "a1", "content": content })
}

fn with(name: &str, value: Value) -> Value {
    let mut given = given("t", "c");
    given[name] = value;
    given
}

/// The field of each issue in an error.
fn issue_fields(error: &Value) -> Vec<String> {
    assert_eq!(error["code"], "INVALID_PARAMS", "{error}");
    let issues = error["details"]["issues"].as_array().unwrap();
    let field = |issue: &Value| {
        assert!(!issue["message"].as_str().unwrap().is_empty(), "{issue}");
        let [field] = &issue["path"].as_array().unwrap()[..] else {
            panic!("{issue}");
        };
        field.as_str().unwrap().to_owned()
    };
    issues.iter().map(field).collect()
}

#[test]
fn behaviour_01_genesis() {
    let mut faces = Faces::new();
    assert_eq!(GENESIS_HASH, "0".repeat(64));
    assert_eq!(create(faces.store(), "lib", "c").prev_hash, GENESIS_HASH);
    let over_http = faces.http.post("/thoughts", &given("http", "c"));
    assert_eq!(over_http.expect(201)["prev_hash"], GENESIS_HASH);
    let over_mcp = faces.tool("thought_record", given("mcp", "c"));
    assert_eq!(over_mcp["prev_hash"], GENESIS_HASH);
}

#[test]
fn behaviour_02_second_is_linked() {
    let mut faces = Faces::new();
    let first = create(faces.store(), "t", "1");
    let second = faces.http.post("/thoughts", &given("t", "2")).expect(201);
    assert_eq!(second["prev_hash"], first.hash);
    let third = faces.tool("thought_record", given("t", "3"));
    assert_eq!(third["prev_hash"], second["hash"]);
}

#[test]
fn behaviour_03_tasks_are_independent() {
    let (_dir, store) = open();
    for task in ["task1", "task2"] {
        assert_eq!(create(&store, task, "c").prev_hash, GENESIS_HASH);
    }
}

#[test]
fn behaviour_04_id_is_a_uuid_v4() {
    let (_dir, store) = open();
    let id = create(&store, "t", "c").id;
    let uuid: Uuid = id.parse().unwrap();
    assert_eq!((uuid.get_version_num(), uuid.to_string()), (4, id));
    let injected = store.thoughts().with_ids(|| "mine".into());
    assert_eq!(injected.create(plan("t", "c")).unwrap().id, "mine");
}

#[test]
fn behaviour_05_timestamp_is_iso_8601() {
    let (_dir, store) = open();
    let text = create(&store, "t", "c").timestamp.to_string();
    let form: String = text
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert!(form.starts_with("0000-00-00T00:00:00"), "{text}");
    assert!(form.ends_with('Z'), "{text}");
    let at: Timestamp = "2026-04-17T00:00:00Z".parse().unwrap();
    let injected = store.thoughts().with_clock(|| at.clone());
    assert_eq!(injected.create(plan("t", "c")).unwrap().timestamp, at);
}

#[test]
fn behaviour_06_all_four_types() {
    let mut faces = Faces::new();
    let words = ["plan", "analysis", "decision", "reflection"];
    assert!(ThoughtType::ALL.iter().map(|it| it.as_str()).eq(words));
    for word in words {
        let made = faces.tool("thought_record", with("type", word.into()));
        assert_eq!(made["type"], word);
        let id = made["id"].as_str().unwrap();
        let read = faces.store().thoughts().get(id).unwrap().unwrap();
        assert_eq!(read.thought_type.as_str(), word);
    }
}

#[test]
fn behaviour_07_agent_id_is_kept_and_not_hashed() {
    let (_dir, store) = open();
    let made = create(&store, "t", "c");
    assert_eq!(made.agent_id, "a1");
    let of_another = ThoughtRecord {
        agent_id: "a2".into(),
        ..made.clone()
    };
    assert_eq!(of_another.computed_hash(), made.hash);
    let read = store.thoughts().get(&made.id).unwrap().unwrap();
    assert_eq!(read.agent_id, "a1");
}

#[test]
fn behaviour_08_empty_content() {
    let mut faces = Faces::new();
    assert_eq!(create(faces.store(), "t", "").content, "");
    let over_http = faces.http.post("/thoughts", &given("t", "")).expect(201);
    assert_eq!(over_http["content"], "");
    assert_eq!(faces.tool("thought_record", given("t", ""))["content"], "");
}

#[test]
fn behaviour_09_pinned_hash() {
    let (_dir, store) = open();
    let thoughts = store
        .thoughts()
        .with_ids(|| "r1".into())
        .with_clock(|| "2026-04-17T00:00:00Z".parse().unwrap());
    assert_eq!(thoughts.create(plan("t1", "hello")).unwrap().hash, PINNED);
    // Over HTTP, a client sets both.
    let faces = Faces::new();
    let mut given = given("t1", "hello");
    given["id"] = "r1".into();
    given["timestamp"] = "2026-04-17T00:00:00Z".into();
    assert_eq!(
        faces.http.post("/thoughts", &given).expect(201)["hash"],
        PINNED
    );
}

#[test]
fn behaviour_10_hash_is_recomputed() {
    let (_dir, store) = open();
    for n in 0..5 {
        let made = create(&store, "t", &n.to_string());
        assert_eq!(made.hash, made.computed_hash());
    }
}

#[test]
fn behaviour_11_missing_type() {
    let mut faces = Faces::new();
    let mut without = given("t", "c");
    without.as_object_mut().unwrap().remove("type");
    let error = faces.tool_fails("thought_record", without.clone());
    assert_eq!(issue_fields(&error), ["type"]);
    faces.http.post("/thoughts", &without).expect(422);
    assert!(list(faces.store(), None, None).is_empty());
}

#[test]
fn behaviour_12_empty_task_id() {
    let mut faces = Faces::new();
    let error = faces.store().thoughts().create(plan("", "c")).unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidInput, Some("task_id"))
    );
    let answer = faces.http.post("/thoughts", &given("", "c"));
    answer.expect_problem(422, "invalid_input", Some("/task_id"));
    let error = faces.tool_fails("thought_record", given("", "c"));
    assert_eq!(issue_fields(&error), ["task_id"]);
}

#[test]
fn behaviour_13_empty_agent_id() {
    let mut faces = Faces::new();
    let nobody = NewThought {
        agent_id: String::new(),
        ..plan("t", "c")
    };
    let error = faces.store().thoughts().create(nobody).unwrap_err();
    assert_eq!(
        (error.kind(), error.field()),
        (ErrorKind::InvalidInput, Some("agent_id"))
    );
    let nobody = with("agent_id", "".into());
    let answer = faces.http.post("/thoughts", &nobody);
    answer.expect_problem(422, "invalid_input", Some("/agent_id"));
    let error = faces.tool_fails("thought_record", nobody);
    assert_eq!(issue_fields(&error), ["agent_id"]);
}

#[test]
fn behaviour_14_bad_type() {
    let mut faces = Faces::new();
    assert!("observation".parse::<ThoughtType>().is_err());
    let odd = with("type", "observation".into());
    let answer = faces.http.post("/thoughts", &odd);
    answer.expect_problem(422, "invalid_input", Some("/type"));
    let error = faces.tool_fails("thought_record", odd);
    assert_eq!(issue_fields(&error), ["type"]);
}

#[test]
fn behaviour_15_get_missing() {
    let mut faces = Faces::new();
    assert_eq!(faces.store().thoughts().get("no-such-id").unwrap(), None);
    faces.http.get("/thoughts/no-such-id").expect(404);
    let error = faces.tool_fails("thought_record_get", json!({ "id": "no-such-id" }));
    assert_eq!(error["code"], "NOT_FOUND");
}

#[test]
fn behaviour_16_get_full_record() {
    let mut faces = Faces::new();
    let made = create(faces.store(), "t", "c");
    let told = serde_json::to_value(&made).unwrap();
    let members: Vec<&String> = told.as_object().unwrap().keys().collect();
    assert_eq!(members, FIELDS);
    assert_eq!(
        faces.store().thoughts().get(&made.id).unwrap(),
        Some(made.clone())
    );
    let path = format!("/thoughts/{}", made.id);
    assert_eq!(faces.http.get(&path).expect(200), told);
    let read = faces.tool("thought_record_get", json!({ "id": made.id }));
    assert_eq!(read, told);
}

#[test]
fn behaviour_17_get_across_tasks() {
    let (_dir, store) = open();
    let (a, b) = (create(&store, "task1", "a"), create(&store, "task2", "b"));
    assert_eq!(store.thoughts().get(&a.id).unwrap(), Some(a));
    assert_eq!(store.thoughts().get(&b.id).unwrap(), Some(b));
}

#[test]
fn behaviour_18_list_empty() {
    let mut faces = Faces::new();
    assert_eq!(list(faces.store(), None, None), []);
    assert_eq!(faces.http.get("/thoughts").expect(200)["items"], json!([]));
    let data = faces.tool("thought_record_list", json!({}));
    assert_eq!(data, json!({ "records": [] }));
    assert!(faces.cli(&["thoughts"]).is_empty());
}

#[test]
fn behaviour_19_list_all() {
    let mut faces = Faces::new();
    let made: Vec<_> = (0..3)
        .map(|n| create(faces.store(), &format!("t{n}"), "c"))
        .collect();
    let told = serde_json::to_value(&made).unwrap();
    assert_eq!(list(faces.store(), None, None), made);
    assert_eq!(faces.http.get("/thoughts").expect(200)["items"], told);
    assert_eq!(
        faces.tool("thought_record_list", json!({}))["records"],
        told
    );
    let ids: Vec<Value> = made.iter().map(|it| it.id.clone().into()).collect();
    let shown = faces.cli(&["thoughts"]);
    assert_eq!(
        shown.iter().map(|it| it["id"].clone()).collect::<Vec<_>>(),
        ids
    );
}

#[test]
fn behaviour_20_list_by_task() {
    let (_dir, store) = open();
    let first = create(&store, "task1", "1");
    create(&store, "task2", "x");
    let second = create(&store, "task1", "2");
    assert_eq!(list(&store, Some("task1"), None), [first, second]);
}

#[test]
fn behaviour_21_list_in_order() {
    let (_dir, store) = open();
    // The clock runs backwards: the order is insertion order.
    let made: Vec<_> = (0..3)
        .map(|n| {
            let at: Timestamp = format!("2026-04-1{}T00:00:00Z", 7 - n).parse().unwrap();
            let thoughts = store.thoughts().with_clock(move || at.clone());
            thoughts.create(plan("t", "c")).unwrap()
        })
        .collect();
    assert_eq!(list(&store, None, None), made);
    assert_eq!(list(&store, Some("t"), None), made);
}

#[test]
fn behaviour_22_list_limit() {
    let mut faces = Faces::new();
    let made: Vec<_> = (0..5).map(|_| create(faces.store(), "t", "c")).collect();
    let told = serde_json::to_value(&made[..2]).unwrap();
    assert_eq!(list(faces.store(), None, Some(2)), made[..2]);
    assert_eq!(
        faces.http.get("/thoughts?limit=2").expect(200)["items"],
        told
    );
    let data = faces.tool("thought_record_list", json!({ "limit": 2 }));
    assert_eq!(data["records"], told);
    let shown = faces.run(&["thoughts", "--limit", "2", "--json"]);
    assert_eq!(String::from_utf8(shown.stdout).unwrap().lines().count(), 2);
}

#[test]
fn behaviour_23_list_limit_of_a_task() {
    let mut faces = Faces::new();
    let mut made = Vec::new();
    for n in 0..3 {
        made.push(create(faces.store(), "task1", &n.to_string()));
        create(faces.store(), "task2", "x");
    }
    let told = serde_json::to_value(&made[..2]).unwrap();
    assert_eq!(list(faces.store(), Some("task1"), Some(2)), made[..2]);
    let page = faces.http.get("/thoughts?task_id=task1&limit=2");
    assert_eq!(page.expect(200)["items"], told);
    let asked = json!({ "task_id": "task1", "limit": 2 });
    assert_eq!(faces.tool("thought_record_list", asked)["records"], told);
}

#[test]
fn behaviour_24_list_keeps_chain() {
    let (_dir, store) = open();
    for n in 0..20 {
        create(&store, ["a", "b"][n % 2], &n.to_string());
    }
    for task in ["a", "b"] {
        let chain = list(&store, Some(task), None);
        assert_eq!(chain.len(), 10);
        assert_eq!(chain[0].prev_hash, GENESIS_HASH);
        for pair in chain.windows(2) {
            assert_eq!(pair[1].prev_hash, pair[0].hash);
        }
        assert!(store.thoughts().verify_chain(task).unwrap().is_intact());
    }
}

#[test]
fn behaviour_25_tool_envelope() {
    let mut faces = Faces::new();
    let answer = faces.mcp.call("thought_record", given("t", "c"));
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(members, ["data", "ok"]);
    assert_eq!(answer["ok"], true);
    let members: Vec<&String> = answer["data"].as_object().unwrap().keys().collect();
    assert_eq!(members, FIELDS);
    let record: ThoughtRecord = serde_json::from_value(answer["data"].clone()).unwrap();
    assert_eq!(record.hash, record.computed_hash());
}

#[test]
fn behaviour_26_tool_invalid_params() {
    let mut faces = Faces::new();
    let asked = json!({ "name": "thought_record", "arguments": with("type", "bad".into()) });
    let result = faces.mcp.ask("tools/call", asked);
    assert_eq!(result["isError"], true);
    let error = &result["structuredContent"]["error"];
    assert_eq!(error["code"], "INVALID_PARAMS");
    assert!(!error["message"].as_str().unwrap().is_empty());
    assert_eq!(issue_fields(error), ["type"]);
}

#[test]
fn behaviour_27_list_tool_envelope() {
    let mut faces = Faces::new();
    create(faces.store(), "t", "c");
    let answer = faces.mcp.call("thought_record_list", json!({}));
    assert_eq!(answer["ok"], true);
    assert_eq!(answer["data"]["records"].as_array().unwrap().len(), 1);
}

#[test]
fn behaviour_28_list_tool_by_task() {
    let mut faces = Faces::new();
    faces.tool("thought_record", given("task1", "1"));
    faces.tool("thought_record", given("task2", "x"));
    faces.tool("thought_record", given("task1", "2"));
    let data = faces.tool("thought_record_list", json!({ "task_id": "task1" }));
    let records = data["records"].as_array().unwrap();
    let contents: Vec<&Value> = records.iter().map(|it| &it["content"]).collect();
    assert_eq!(contents, ["1", "2"]);
}

#[test]
fn behaviour_29_both_names_are_registered() {
    let mut tools = Tools::new();
    tools.register_thoughts().unwrap();
    for name in ["thought_record", "thought_record_list"] {
        assert!(tools.names().any(|known| known == name), "{name}");
    }
    let mut faces = Faces::new();
    let listed = faces.mcp.ask("tools/list", json!({}));
    let listed = listed["tools"].as_array().unwrap();
    for name in ["thought_record", "thought_record_list"] {
        let tool = listed.iter().find(|tool| tool["name"] == name).unwrap();
        assert_eq!(tool["title"], name);
    }
}

#[test]
fn behaviour_30_double_registration() {
    let mut tools = Tools::new();
    tools.register_thoughts().unwrap();
    let count = tools.names().count();
    let again = tools.register_thoughts().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    assert!(again.to_string().contains("thought_record"), "{again}");
    assert_eq!(tools.names().count(), count);
}

#[test]
fn issues_name_each_argument_at_fault() {
    let mut faces = Faces::new();
    let error = faces.tool_fails("thought_record", json!({}));
    let all = ["type", "task_id", "agent_id", "content"];
    let mut found = issue_fields(&error);
    found.sort_unstable();
    let mut sorted = all;
    sorted.sort_unstable();
    assert_eq!(found, sorted);
    for field in all {
        assert!(
            error["message"].as_str().unwrap().contains(field),
            "{error}"
        );
    }
    let odd = json!({ "type": "bad", "task_id": "", "agent_id": 7, "other": 1 });
    let error = faces.tool_fails("thought_record", odd);
    let mut found = issue_fields(&error);
    found.sort_unstable();
    assert_eq!(found, ["agent_id", "content", "other", "task_id", "type"]);
    // With Zod's codes.
    let issues = error["details"]["issues"].as_array().unwrap();
    let code_of = |field: &str| {
        let mut found = issues.iter().filter(|issue| issue["path"][0] == field);
        found.next().unwrap()["code"].as_str().unwrap()
    };
    let codes = ["type", "agent_id", "content", "other"].map(code_of);
    assert_eq!(
        codes,
        [
            "invalid_value",
            "invalid_type",
            "invalid_type",
            "unrecognized_keys"
        ]
    );
    let error = faces.tool_fails("thought_record_list", json!({ "task_id": "", "limit": 0 }));
    assert_eq!(issue_fields(&error), ["limit", "task_id"]);
    // Every tool does so, also for errors found by the log itself.
    let error = faces.tool_fails("thought_record_list", json!({ "prev_hash": "x" }));
    assert_eq!(issue_fields(&error), ["prev_hash"]);
    let error = faces.tool_fails("turn_record", json!({ "id": "x" }));
    let mut found = issue_fields(&error);
    found.sort_unstable();
    assert_eq!(found, ["content", "id", "kind"]);
    assert!(faces.store().last_lines(1).unwrap().is_empty());
}

#[test]
fn each_field_at_fault_is_named_over_http() {
    let faces = Faces::new();
    let fault = |path: &str, body: &str, fields: &[&str], first: &str| {
        let refused = faces.http.json("POST", path, body.as_bytes());
        refused.expect_problem(422, "invalid_input", Some(first));
        for field in fields {
            assert!(refused.text().contains(field), "{}", refused.text());
        }
    };
    let odd = r#"{"type":"bad","agent_id":7,"other":1,"content":""}"#;
    let all = ["type: ", "task_id: ", "agent_id: ", "other: "];
    fault("/thoughts", odd, &all, "/task_id");
    let twice = r#"{"type":"plan","task_id":"t","task_id":"t","agent_id":"a","content":""}"#;
    fault("/thoughts", twice, &["duplicate field"], "/task_id");
    // For an array, the first invalid element, with all of its errors.
    let events = r#"[{"event_type":"a.b"},{"id":"x","other":1},{}]"#;
    let all = ["[1].event_type: ", "[1].id: ", "[1].other: "];
    fault("/events", events, &all, "/1/event_type");
    let twice = r#"[{"event_type":"a.b","id":1,"id":1}]"#;
    fault("/events", twice, &["duplicate field"], "/0/id");
    // And for a nested object.
    let nested = r#"{"client":"api","messages":[{"content":""}]}"#;
    let all = ["messages[0].role"];
    fault("/conversations", nested, &all, "/messages/0/role");
    assert!(faces.store().last_lines(1).unwrap().is_empty());
}

#[test]
fn filters_that_cannot_be_are_rejected_on_every_face() {
    let mut faces = Faces::new();
    create(faces.store(), "t", "c");
    let rejected = |error: decklog::Error, field: &str| {
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert_eq!(error.field(), Some(field), "{error}");
    };
    let thoughts = faces.store().thoughts();
    rejected(thoughts.list(Some(""), None).unwrap_err(), "task_id");
    rejected(thoughts.verify_chain("").unwrap_err(), "task_id");
    rejected(thoughts.list(None, Some(0)).unwrap_err(), "limit");
    drop(thoughts);
    let answer = faces.http.get("/thoughts?task_id=");
    answer.expect_problem(400, "bad_request", Some("task_id"));
    // Over HTTP a list is paged, with or without a limit. The error messages say so.
    for limit in ["0", "-1", "1001", "1.5", "x"] {
        let answer = faces.http.get(&format!("/thoughts?limit={limit}"));
        answer.expect_problem(400, "bad_request", Some("limit"));
        let said = answer.text();
        assert!(said.contains("from 1 to 1000"), "{limit}: {said}");
    }
    let answer = faces.http.get("/thoughts/verify?task_id=");
    answer.expect_problem(400, "bad_request", Some("task_id"));
    for (args, word) in [
        (&["thoughts", "--task", ""][..], "task_id"),
        (&["thoughts", "verify", "--task", ""], "task_id"),
        (&["thoughts", "--limit", "0"], "limit"),
    ] {
        let said = faces.cli_fails(args);
        assert!(said.contains(word), "{said}");
    }
    for tool in ["thought_record_list", "audit_verify_chain"] {
        let error = faces.tool_fails(tool, json!({ "task_id": "" }));
        assert_eq!(issue_fields(&error), ["task_id"], "{tool}");
    }
    for limit in [json!(0), json!(-1), json!(1.5), json!("5")] {
        let error = faces.tool_fails("thought_record_list", json!({ "limit": limit }));
        assert_eq!(issue_fields(&error), ["limit"]);
    }
}

#[test]
fn a_list_without_limit_is_all_in_pages() {
    let mut faces = Faces::new();
    let made: Vec<ThoughtRecord> = (0..300)
        .map(|n| create(faces.store(), "t", &format!("thought {n}")))
        .collect();
    assert_eq!(list(faces.store(), Some("t"), None), made);
    assert_eq!(faces.cli(&["thoughts"]).len(), 300);
    let mut pages = vec![faces.http.get("/thoughts?task_id=t").expect(200)];
    while let Some(next) = pages.last().unwrap()["next"].as_str() {
        let next = format!("/thoughts?task_id=t&after={next}");
        pages.push(faces.http.get(&next).expect(200));
    }
    let of_page = |page: &Value| page["items"].as_array().unwrap().clone();
    assert_eq!(of_page(&pages[0]).len(), 100);
    let over_http: Vec<Value> = pages.iter().flat_map(of_page).collect();
    assert_eq!(json!(over_http), serde_json::to_value(&made).unwrap());
    for asked in [
        json!({}),
        json!({ "task_id": "t" }),
        // A limit above the page maximum is accepted too.
        json!({ "limit": 5_000 }),
        json!({ "limit": 9_007_199_254_740_991_i64 }),
    ] {
        let (mut found, mut asked) = (Vec::new(), asked);
        loop {
            let mut data = faces.tool("thought_record_list", asked.clone());
            let page = data["records"].as_array().unwrap();
            // A page is limited by its bytes, not by a default limit.
            assert!(!page.is_empty() && data.to_string().len() < 48 << 10);
            found.extend(page.clone());
            let next = data["next_cursor"].take();
            if next.is_null() {
                break;
            }
            assert!(page_is_full(&data), "{}", data.to_string().len());
            asked["cursor"] = next;
        }
        assert_eq!(json!(found), serde_json::to_value(&made).unwrap());
    }
}

fn page_is_full(data: &Value) -> bool {
    data.to_string().len() > 20 << 10
}

#[test]
fn thoughts_are_found_by_the_hash_before_them() {
    let mut faces = Faces::new();
    let first = create(faces.store(), "t", "1");
    let second = create(faces.store(), "t", "2");
    let other = create(faces.store(), "u", "1");
    create(faces.store(), "t", "3");
    for (task_id, hash, found) in [
        (None, first.hash.as_str(), vec![&second]),
        (None, GENESIS_HASH, vec![&first, &other]),
        (Some("u"), GENESIS_HASH, vec![&other]),
        (Some("u"), &first.hash, vec![]),
        (None, &"f".repeat(64), vec![]),
    ] {
        let told = serde_json::to_value(&found).unwrap();
        let query = ThoughtQuery {
            task_id: task_id.map(str::to_owned),
            prev_hash: Some(hash.into()),
            ..ThoughtQuery::default()
        };
        let page = faces.store().thoughts().page(&query).unwrap();
        assert_eq!(page.items.iter().collect::<Vec<_>>(), found);
        let of_task = task_id.map_or(String::new(), |task| format!("&task_id={task}"));
        let page = faces
            .http
            .get(&format!("/thoughts?prev_hash={hash}{of_task}"));
        assert_eq!(page.expect(200)["items"], told);
        let mut args = vec!["thoughts", "--prev-hash", hash];
        args.extend(task_id.into_iter().flat_map(|task| ["--task", task]));
        assert_eq!(faces.cli(&args).len(), found.len());
        let mut asked = json!({ "prev_hash": hash });
        if let Some(task) = task_id {
            asked["task_id"] = task.into();
        }
        assert_eq!(faces.tool("thought_record_list", asked)["records"], told);
    }
    let odd = ThoughtQuery {
        prev_hash: Some("x".into()),
        ..ThoughtQuery::default()
    };
    let error = faces.store().thoughts().page(&odd).unwrap_err();
    assert_eq!(error.field(), Some("prev_hash"));
    let answer = faces.http.get("/thoughts?prev_hash=x");
    answer.expect_problem(400, "bad_request", Some("prev_hash"));
    assert!(
        faces
            .cli_fails(&["thoughts", "--prev-hash", "x"])
            .contains("prev_hash")
    );
}

/// The clock runs backwards, and lists keep the order in which the thoughts were recorded.
#[test]
fn a_list_is_narrowed_by_time_on_every_face() {
    let mut faces = Faces::new();
    let times = [
        "2026-04-17T00:00:02Z",
        "2026-04-17T00:00:00Z",
        "2026-04-17T00:00:01Z",
        "2026-04-17T00:00:01.500Z",
    ];
    let made: Vec<_> = times
        .iter()
        .map(|at| {
            let thoughts = faces.store().thoughts();
            let thoughts = thoughts.with_clock(|| at.parse().unwrap());
            thoughts.create(plan("t", at)).unwrap()
        })
        .collect();
    for (since, until, found) in [
        (Some("2026-04-17T00:00:01Z"), None, vec![0, 2, 3]),
        (None, Some("2026-04-17T00:00:01.500Z"), vec![1, 2]),
        (
            Some("2026-04-17T00:00:01Z"),
            Some("2026-04-17T00:00:02Z"),
            vec![2, 3],
        ),
        (Some("2026-04-18"), None, vec![]),
        (None, Some("2026-04-18"), vec![0, 1, 2, 3]),
    ] {
        for order in [Order::OldestFirst, Order::NewestFirst] {
            let mut found: Vec<_> = found.iter().map(|n| &made[*n]).collect();
            if order == Order::NewestFirst {
                found.reverse();
            }
            let told = serde_json::to_value(&found).unwrap();
            let ms = |time: &str| decklog::record::epoch_ms(time).unwrap();
            let query = ThoughtQuery {
                task_id: Some("t".into()),
                since: since.map(ms),
                until: until.map(ms),
                order,
                ..ThoughtQuery::default()
            };
            let page = faces.store().thoughts().page(&query).unwrap();
            assert_eq!(page.items.iter().collect::<Vec<_>>(), found);
            let mut route = format!("/thoughts?task_id=t&order={order}");
            let mut args = vec!["thoughts".to_owned(), format!("--order={order}")];
            let mut asked = json!({});
            for (name, time) in [("since", since), ("until", until)] {
                let Some(time) = time else { continue };
                route = format!("{route}&{name}={time}");
                args.push(format!("--{name}={time}"));
                asked[name] = time.into();
            }
            assert_eq!(faces.http.get(&route).expect(200)["items"], told);
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            assert_eq!(json!(faces.cli(&args)), told);
            if order == Order::OldestFirst {
                assert_eq!(faces.tool("thought_record_list", asked)["records"], told);
            }
        }
    }
    let answer = faces.http.get("/thoughts?since=soon");
    answer.expect_problem(400, "bad_request", Some("since"));
    let error = faces.tool_fails("thought_record_list", json!({ "until": "soon" }));
    assert_eq!(issue_fields(&error), ["until"]);
    for option in [
        "--since=1",
        "--until=1",
        "--order=asc",
        "--limit=1",
        "--long",
        "--after=1-1",
    ] {
        let said = faces.cli_fails(&["thoughts", option, "verify"]);
        assert!(said.contains("only takes --task"), "{said}");
    }
}

#[test]
fn the_same_again_is_unchanged_and_another_a_conflict() {
    let (_dir, store) = open();
    let made = create(&store, "t", "c");
    let again = store.record(Record::Thought(made.clone())).unwrap();
    assert_eq!(again.status, decklog::AckStatus::Unchanged);
    let another = ThoughtRecord {
        content: "d".into(),
        ..made.clone()
    };
    let error = store.record(Record::Thought(another)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert_eq!(list(&store, None, None), [made]);
}

#[test]
fn no_face_changes_or_deletes_a_thought() {
    let faces = Faces::new();
    let made = create(faces.store(), "t", "c");
    let path = format!("/thoughts/{}", made.id);
    for method in ["PUT", "PATCH", "DELETE"] {
        let answer = faces.http.json(method, &path, b"{}");
        assert_eq!(answer.status, 405, "{method}");
    }
    let tools = Tools::all();
    let mut names = tools.names();
    assert!(!names.any(|name| name.contains("delete") || name.contains("update")));
    assert_eq!(list(faces.store(), None, None), [made]);
}

/// A client that queued a thought finds it by its id, to see whether the log rejected it.
#[test]
fn a_thought_that_is_queued_has_its_id_in_the_answer() {
    let faces = Faces::new();
    let queued = faces.http.post("/thoughts?wait=none", &given("t", "c"));
    let queued = queued.expect(202);
    assert_eq!(queued["status"], "queued");
    let id = queued["id"].as_str().unwrap();
    // The next answer comes after earlier queued records.
    faces.http.post("/thoughts", &given("t", "d")).expect(201);
    assert_eq!(list(faces.store(), None, None)[0].id, id);
}
