//! The contract of thought records, as seen by a client of the tools.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use decklog::mcp::Tools;
use decklog::record::{GENESIS_HASH, ThoughtType};
use decklog::{ErrorKind, Store, ThoughtRecord};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::Client;
use crate::support::still;

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

fn thought(task_id: &str, content: &str) -> Value {
    json!({ "type": "plan", "task_id": task_id, "agent_id": "a1", "content": content })
}

/// The data of a successful call.
fn data(mut answer: Value) -> Value {
    assert_eq!(answer["ok"], true, "{answer}");
    assert!(answer.get("error").is_none(), "{answer}");
    answer["data"].take()
}

/// The error code of a failed call, which must have a message and details.
fn code(answer: &Value) -> &str {
    assert_eq!(answer["ok"], false, "{answer}");
    assert!(answer.get("data").is_none(), "{answer}");
    let error = &answer["error"];
    assert!(!error["message"].as_str().unwrap().is_empty());
    assert!(error["details"].is_object());
    error["code"].as_str().unwrap()
}

fn hash_of(record: &Value) -> String {
    let mut hashed = record.clone();
    let members = hashed.as_object_mut().unwrap();
    members.remove("hash");
    members.remove("agent_id");
    let canonical = serde_json_canonicalizer::to_vec(&hashed).unwrap();
    let digest = Sha256::digest(canonical);
    digest.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

#[test]
fn each_name_is_registered_once() {
    let mut tools = Tools::new();
    assert_eq!(tools.names().count(), 0);
    tools.register_thoughts().unwrap();
    let names: BTreeSet<String> = tools.names().map(str::to_owned).collect();
    for name in [
        "thought_record",
        "thought_record_list",
        "thought_record_get",
        "audit_verify_chain",
    ] {
        assert!(names.contains(name), "{name}");
    }
    let again = tools.register_thoughts().unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    assert!(again.to_string().contains("already"), "{again}");
    // Nothing was added.
    assert_eq!(tools.names().count(), names.len());
    let mut all = Tools::all();
    assert_eq!(
        all.register_thoughts().unwrap_err().kind(),
        ErrorKind::Conflict
    );
}

#[test]
fn a_record_has_its_eight_fields() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let answer = client.call("thought_record", thought("t1", "hello"));
    let members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    assert_eq!(members, ["data", "ok"]);
    let record = data(answer);
    let members: Vec<&String> = record.as_object().unwrap().keys().collect();
    assert_eq!(members, FIELDS);
    assert_eq!(record["type"], "plan");
    assert_eq!(record["task_id"], "t1");
    assert_eq!(record["agent_id"], "a1");
    assert_eq!(record["content"], "hello");
    assert_eq!(record["prev_hash"], GENESIS_HASH);
    assert_eq!(record["hash"], hash_of(&record));
    let at: decklog::Timestamp = record["timestamp"].as_str().unwrap().parse().unwrap();
    assert!((decklog::Timestamp::now().at() - at.at()).abs() < 3_600_000);
    client.end();
}

#[test]
fn chains_link_and_do_not_mix() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    let mut heads = [GENESIS_HASH.to_owned(), GENESIS_HASH.to_owned()];
    let mut ids = BTreeSet::new();
    for n in 0..10 {
        let of = n % 2;
        let given = thought(["odd", "even"][of], &format!("thought {n}"));
        let record = data(client.call("thought_record", given));
        assert_eq!(record["prev_hash"], heads[of]);
        assert_eq!(record["hash"], hash_of(&record));
        heads[of] = record["hash"].as_str().unwrap().to_owned();
        assert!(ids.insert(record["id"].as_str().unwrap().to_owned()));
    }
    for (task, head) in ["odd", "even"].into_iter().zip(&heads) {
        let found = data(client.call("audit_verify_chain", json!({ "task_id": task })));
        assert_eq!(found["is_intact"], true);
        assert_eq!(
            (&found["records"], &found["head"]),
            (&json!(5), &json!(head))
        );
    }
    let none = data(client.call("audit_verify_chain", json!({ "task_id": "no such task" })));
    assert_eq!((&none["records"], &none["head"]), (&json!(0), &Value::Null));
    client.end();
    let store = still().open(path).unwrap();
    assert!(store.thoughts().verify_chain("odd").unwrap().is_intact());
}

#[test]
fn every_type_is_taken_and_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    for known in ThoughtType::ALL {
        let mut given = thought("t", "c");
        given["type"] = json!(known.as_str());
        let record = data(client.call("thought_record", given));
        assert_eq!(record["type"], known.as_str());
    }
    for other in [
        json!("PLAN"),
        json!(""),
        json!("thought"),
        json!(null),
        json!(1),
        json!(["plan"]),
    ] {
        let mut given = thought("t", "c");
        given["type"] = other;
        let answer = client.call("thought_record", given);
        assert_eq!(code(&answer), "INVALID_PARAMS");
        assert_eq!(answer["error"]["details"]["field"], "type");
    }
    client.end();
    let store = still().open(path).unwrap();
    assert_eq!(store.thoughts().list(None, None).unwrap().len(), 4);
}

#[test]
fn what_may_not_be_is_rejected_and_nothing_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    let with = |name: &str, value: Value| {
        let mut given = thought("t", "c");
        given[name] = value;
        given
    };
    let without = |name: &str| {
        let mut given = thought("t", "c");
        given.as_object_mut().unwrap().remove(name);
        given
    };
    for (given, field) in [
        (with("task_id", json!("")), Some("task_id")),
        (with("agent_id", json!("")), Some("agent_id")),
        (with("task_id", json!("x".repeat(1025))), Some("task_id")),
        (with("task_id", json!(7)), Some("task_id")),
        (with("agent_id", json!(null)), Some("agent_id")),
        (with("content", json!({"a": 1})), Some("content")),
        (with("content", json!(null)), Some("content")),
        (with("id", json!("r1")), Some("id")),
        (
            with("timestamp", json!("2026-04-17T00:00:00Z")),
            Some("timestamp"),
        ),
        (without("type"), None),
        (without("task_id"), None),
        (without("agent_id"), None),
        (without("content"), None),
        (json!({}), None),
    ] {
        let answer = client.call("thought_record", given.clone());
        assert_eq!(code(&answer), "INVALID_PARAMS", "{given}");
        if let Some(field) = field {
            assert_eq!(answer["error"]["details"]["field"], field, "{answer}");
        }
    }
    // For clients that do not know the envelope, a failed call is marked as failed.
    let given = json!({ "name": "thought_record", "arguments": {} });
    let result = client.ask("tools/call", given);
    assert_eq!(result["isError"], true);
    let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, result["structuredContent"]);
    client.end();
    let store = still().open(path).unwrap();
    assert_eq!(store.last_lines(10).unwrap().len(), 0);
}

#[test]
fn whatever_the_content_it_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    for content in [
        "",
        " ",
        "\u{0}\u{1}\u{7f}",
        "\"quoted\" \\ / \n\r\t",
        "naïve 😀 漢字 \u{202e}",
        "{\"ok\":false}",
        &"long ".repeat(2000),
    ] {
        let record = data(client.call("thought_record", thought("t", content)));
        assert_eq!(record["content"], content);
        assert_eq!(record["hash"], hash_of(&record));
        let read = data(client.call("thought_record_get", json!({ "id": record["id"] })));
        assert_eq!(read, record);
    }
    client.end();
}

#[test]
fn lists_are_in_order_filtered_and_in_pages() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::legacy(&dir.path().join("log"));
    let empty = data(client.call("thought_record_list", json!({})));
    assert_eq!(empty, json!({ "records": [] }));
    let mut all = Vec::new();
    for n in 0..25 {
        let task = ["a", "b", "c"][n % 3];
        all.push(data(
            client.call("thought_record", thought(task, &n.to_string())),
        ));
    }
    let listed = data(client.call("thought_record_list", json!({})));
    assert_eq!(listed, json!({ "records": all }));
    let of_b: Vec<&Value> = all.iter().filter(|it| it["task_id"] == "b").collect();
    let listed = data(client.call("thought_record_list", json!({ "task_id": "b" })));
    assert_eq!(listed, json!({ "records": of_b }));
    let none = data(client.call("thought_record_list", json!({ "task_id": "d" })));
    assert_eq!(none, json!({ "records": [] }));
    let (mut cursor, mut paged) = (Value::Null, Vec::new());
    loop {
        let mut given = json!({ "limit": 4 });
        if !cursor.is_null() {
            given["cursor"] = cursor;
        }
        let mut page = data(client.call("thought_record_list", given));
        let records = page["records"].as_array().unwrap();
        assert!(records.len() <= 4);
        paged.extend(records.clone());
        cursor = page["next_cursor"].take();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(paged, all);
    for given in [
        json!({ "limit": 0 }),
        json!({ "limit": -1 }),
        json!({ "limit": "5" }),
        json!({ "limit": 1.5 }),
        json!({ "cursor": "x" }),
        json!({ "task": "b" }),
    ] {
        let answer = client.call("thought_record_list", given);
        assert_eq!(code(&answer), "INVALID_PARAMS");
    }
    let answer = client.call("thought_record_get", json!({ "id": "none" }));
    assert_eq!(code(&answer), "NOT_FOUND");
    client.end();
}

#[test]
fn nothing_is_changed_or_removed() {
    let tools = Tools::all();
    for name in tools.names() {
        let does = ["update", "delete", "remove", "edit", "erase"];
        assert!(!does.iter().any(|word| name.contains(word)), "{name}");
    }
}

#[test]
fn a_change_in_the_file_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut client = Client::legacy(&path);
    let mut second = Value::Null;
    for n in 0..3 {
        let record = data(client.call("thought_record", thought("t", &format!("thought {n}"))));
        if n == 1 {
            second = record;
        }
    }
    let store = Store::options().read_only(true).open(&path).unwrap();
    let line = &store.last_lines(2).unwrap()[0];
    let file = path.join(&line.file);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("thought 1", "thought 9")).unwrap();
    let found = data(client.call("audit_verify_chain", json!({ "task_id": "t" })));
    assert_eq!(found["is_intact"], false, "{found}");
    assert_eq!(found["broken"]["position"], 2);
    assert_eq!(found["broken"]["id"], second["id"]);
    // Paths of files are only for the server's operator.
    assert!(!found.to_string().contains(path.to_str().unwrap()));
    client.end();
}

#[test]
fn the_library_and_the_tools_see_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    let mut client = Client::legacy(&path);
    let ours = store.thoughts().create(decklog::thoughts::NewThought {
        thought_type: ThoughtType::Decision,
        task_id: "t".into(),
        agent_id: "embedding".into(),
        content: "first".into(),
    });
    let ours = ours.unwrap();
    let theirs = data(client.call("thought_record", thought("t", "second")));
    assert_eq!(theirs["prev_hash"], ours.hash);
    let theirs: ThoughtRecord = serde_json::from_value(theirs).unwrap();
    assert_eq!(
        store.thoughts().list(Some("t"), None).unwrap(),
        [ours, theirs]
    );
    client.end();
}
