//! Resources: listed, read part by part, and not found if they do not exist.

use std::collections::BTreeSet;

use decklog::record::ThoughtType;
use decklog::retention::{EraseOptions, Erasure};
use decklog::thoughts::NewThought;
use decklog::{Client as Where, Conversation, ConversationMessage, Event, Kind, Role, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Client;
use crate::support::{DAY_1, DAY_1_NAME, DAY_MS, still, turn};

const PART_BYTES_MAX: usize = 256 << 10;

struct Beside {
    store: Store,
    client: Client,
    _dir: tempfile::TempDir,
}

/// A server, and another handle on its log.
fn beside() -> Beside {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let client = Client::legacy(&path);
    Beside {
        store,
        client,
        _dir: dir,
    }
}

fn think(store: &Store, task_id: &str, content: &str) {
    let thought = NewThought {
        thought_type: ThoughtType::Plan,
        task_id: task_id.into(),
        agent_id: "a".into(),
        content: content.into(),
    };
    store.thoughts().create(thought).unwrap();
}

fn talk(store: &Store) -> Uuid {
    let id = Uuid::new_v4();
    store.record(Conversation::new(id, Where::Api)).unwrap();
    id
}

/// All parts of a resource, each with its uri.
fn parts(client: &mut Client, uri: &str) -> Vec<String> {
    let (mut uri, mut parts) = (uri.to_owned(), Vec::new());
    loop {
        let read = client.ask("resources/read", json!({ "uri": uri }));
        let contents = &read["contents"][0];
        assert_eq!(contents["uri"], *uri);
        parts.push(contents["text"].as_str().unwrap().to_owned());
        match contents["_meta"]["decklog/next"].as_str() {
            Some(next) => next.clone_into(&mut uri),
            None => return parts,
        }
    }
}

/// The combined items of all parts of a JSON resource, under a name.
fn together(client: &mut Client, uri: &str, name: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let parts = parts(client, uri);
    for (place, part) in parts.iter().enumerate() {
        assert!(part.len() < PART_BYTES_MAX + 4_096, "{}", part.len());
        let part: Value = serde_json::from_str(part).unwrap();
        assert_eq!(part["next"].is_string(), place + 1 < parts.len());
        all.extend(part[name].as_array().unwrap().iter().cloned());
    }
    all
}

#[test]
fn an_empty_log_has_templates_and_no_resources() {
    let mut it = beside();
    let templates = it.client.ask("resources/templates/list", json!({}));
    let templates = templates["resourceTemplates"].as_array().unwrap();
    assert_eq!(templates.len(), 4);
    for template in templates {
        for member in ["uriTemplate", "name", "title", "description", "mimeType"] {
            assert!(template[member].is_string(), "{template}");
        }
    }
    let list = it.client.ask("resources/list", json!({}));
    assert_eq!(list, json!({ "resources": [] }));
    for uri in [
        "decklog://conversations/6e0f4a1c-5d2b-4c3e-9f10-2b7a8c9d0e1f",
        "decklog://days/2025-12-27/messages",
        "decklog://days/2025-12-27/messages?after=7-7",
        "decklog://events/1/tree",
        "decklog://thoughts/t",
        "decklog://thoughts/%00",
        "decklog://thoughts/..",
        "decklog://thoughts/t?after=7-7",
        "file:///etc/passwd",
    ] {
        let error = it.client.refused("resources/read", json!({ "uri": uri }));
        assert_eq!(error["code"], -32002, "{uri}: {error}");
        assert_eq!(error["data"]["uri"], uri);
    }
    it.client.end();
}

#[test]
fn a_uri_that_is_none_is_told_what_there_is() {
    let mut it = beside();
    think(&it.store, "t", "x");
    let long = format!("decklog://thoughts/{}", "%41".repeat(100_000));
    for uri in [
        "decklog://secrets/1",
        "decklog://thoughts/é",
        "decklog://thoughts/%zz",
        "decklog://thoughts/t/..",
        "decklog://thoughts/t?after=x",
        "decklog://days/2025-13-01/messages",
        "decklog://days/2025-12-27/../../decklog.json",
        "decklog://events/one/tree",
        &long,
    ] {
        let error = it.client.refused("resources/read", json!({ "uri": uri }));
        assert_eq!(error["code"], -32602, "{uri}: {error}");
        assert!(error.to_string().len() < 6_000);
    }
    let error = it
        .client
        .refused("resources/read", json!({ "uri": "decklog://x" }));
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("decklog://days/{day}/{kind}"), "{message}");
    let error = it
        .client
        .refused("resources/list", json!({ "cursor": "x" }));
    assert_eq!(error["code"], -32602);
    it.client.end();
}

/// A client of protocol 2026-07-28 gets that protocol's error for a missing resource.
#[test]
fn a_modern_peer_is_told_as_its_protocol_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut client = Client::modern(&dir.path().join("log"));
    let error = client.refused("resources/read", json!({ "uri": "decklog://thoughts/t" }));
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"]["uri"], "decklog://thoughts/t");
    client.end();
}

#[test]
fn what_is_read_is_what_the_log_says() {
    let mut it = beside();
    let id = talk(&it.store);
    let mut message = ConversationMessage::new(id, Role::Assistant, "\"hi\"\n€");
    message.tokens_out = Some(7);
    it.store.record(message).unwrap();
    let read = parts(&mut it.client, &format!("decklog://conversations/{id}"));
    let read: Value = serde_json::from_str(&read[0]).unwrap();
    assert_eq!(read["conversation"]["id"], id.to_string());
    assert_eq!(read["conversation"]["total_tokens_out"], 7);
    assert_eq!(read["messages"][0]["content"], "\"hi\"\n€");

    let root = it.store.log_event(None, "agent.started", None).unwrap();
    let under = it.store.log_event(Some(root), "agent.failed", None);
    let under = under.unwrap();
    let nodes = together(
        &mut it.client,
        &format!("decklog://events/{root}/tree"),
        "nodes",
    );
    assert_eq!(
        (&nodes[0]["status"], &nodes[1]["id"]),
        (&json!("failed"), &json!(under))
    );

    think(&it.store, "Fix: a/b? 100 %é", "first");
    think(&it.store, "Fix: a/b? 100 %é", "second");
    let uri = "decklog://thoughts/Fix%3A%20a%2Fb%3F%20100%20%25%C3%A9";
    let records = together(&mut it.client, uri, "records");
    assert_eq!(records[1]["content"], "second");
    assert_eq!(records[1]["prev_hash"], records[0]["hash"]);
    let list = it.client.ask("resources/list", json!({}));
    let listed = list["resources"].as_array().unwrap().iter();
    assert!(
        listed.clone().any(|resource| resource["uri"] == uri),
        "{list}"
    );
    for resource in listed {
        parts(&mut it.client, resource["uri"].as_str().unwrap());
    }

    let options = EraseOptions::default();
    it.store.erase(&Erasure::Conversation(id), options).unwrap();
    let uri = format!("decklog://conversations/{id}");
    let error = it.client.refused("resources/read", json!({ "uri": uri }));
    assert_eq!(error["code"], -32002, "{error}");
    it.client.end();
}

#[test]
fn what_is_long_comes_in_parts_and_nothing_twice() {
    let mut it = beside();
    let id = talk(&it.store);
    let root = it.store.log_event(None, "agent.started", None).unwrap();
    let lengths = [
        10, 200_000, 5, 700_000, 300_000, 2_000_000, 1, 900_000, 150_000,
    ];
    for (n, length) in lengths.into_iter().cycle().take(20).enumerate() {
        let text = format!("{n} {}", "x".repeat(length));
        let message = ConversationMessage::new(id, Role::User, text.clone());
        it.store.record(message).unwrap();
        think(&it.store, "t", &text);
        let mut event = Event::new(Some(root), "x.said");
        event.payload = Some(text.clone());
        it.store.record(event).unwrap();
        let mut said = turn(n as u128, &text, DAY_1);
        said.thread_id = None;
        it.store.record(said).unwrap();
    }
    let number = |text: &Value| {
        let text = text.as_str().unwrap();
        text.split(' ').next().unwrap().parse::<usize>().unwrap()
    };
    let all: Vec<usize> = (0..20).collect();
    let read = |client: &mut Client, uri: &str, list: &str, member: &str| -> Vec<usize> {
        let mut numbers = Vec::new();
        let parts = parts(client, uri);
        assert!(parts.len() > 5);
        for part in parts {
            let part: Value = serde_json::from_str(&part).unwrap();
            let records = part[list].as_array().unwrap();
            assert!(part.to_string().len() < PART_BYTES_MAX + 4_096 || records.len() == 1);
            let records = records
                .iter()
                .filter(|record| record["parent_id"] != Value::Null || list != "nodes");
            numbers.extend(records.map(|record| number(&record[member])));
        }
        numbers
    };
    let client = &mut it.client;
    let uri = format!("decklog://conversations/{id}");
    assert_eq!(read(client, &uri, "messages", "content"), all);
    assert_eq!(
        read(client, "decklog://thoughts/t", "records", "content"),
        all
    );
    let uri = format!("decklog://events/{root}/tree");
    assert_eq!(read(client, &uri, "nodes", "payload"), all);
    let uri = format!("decklog://days/{DAY_1_NAME}/conversation_turns");
    let lines: String = parts(client, &uri).concat();
    let path = it.store.path().join(DAY_1_NAME);
    let file = std::fs::read_to_string(path.join("conversation_turns.0001.jsonl")).unwrap();
    assert!(lines == file);
    let read = client.ask("resources/read", json!({ "uri": uri }));
    assert_eq!(read["contents"].as_array().unwrap().len(), 2);
    let next = &read["contents"][1]["uri"];
    assert_eq!(*next, read["contents"][0]["_meta"]["decklog/next"]);
    it.client.end();
}

/// Every resource that existed when the list started is on one of its pages, once, while others
/// write.
#[test]
fn a_list_has_everything_once_while_records_arrive() {
    let mut it = beside();
    let mut expected = BTreeSet::new();
    let write = |n: i64, store: &Store| {
        let mut uris = Vec::new();
        uris.push(format!("decklog://conversations/{}", talk(store)));
        let mut event = Event::new(None, "agent.started");
        event.created_at = DAY_1 + n % 90 * DAY_MS;
        let root = store.record(event).unwrap().assigned.unwrap();
        store.log_event(Some(root), "turn.started", None).unwrap();
        uris.push(format!("decklog://events/{root}/tree"));
        think(store, &format!("task-{}", n % 70), "x");
        uris.push(format!("decklog://thoughts/task-{}", n % 70));
        uris
    };
    for n in 0..120 {
        expected.extend(write(n, &it.store));
    }
    let kinds = [Kind::Conversations, Kind::Events, Kind::ThoughtRecords];
    let mut listed = Vec::new();
    let (mut cursor, mut pages) = (json!({}), 0);
    loop {
        let page = it.client.ask("resources/list", cursor);
        let resources = page["resources"].as_array().unwrap();
        assert!(resources.len() <= 50);
        listed.extend(
            resources
                .iter()
                .map(|it| it["uri"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        match page.get("nextCursor") {
            Some(next) => cursor = json!({ "cursor": next }),
            None => break,
        }
        for n in 0..7 {
            write(1_000 + pages * 7 + n, &it.store);
        }
    }
    assert!(pages > 7);
    let once: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(once.len(), listed.len());
    let missing: Vec<&String> = expected.difference(&once).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let days = listed
        .iter()
        .filter(|uri| uri.starts_with("decklog://days/"));
    let days: Vec<&String> = days.collect();
    assert!(days.len() > 90, "{}", days.len());
    for uri in days {
        let kind = uri.rsplit('/').next().unwrap();
        assert!(kinds.iter().any(|it| it.stem() == kind), "{uri}");
    }
    it.client.end();
}

#[test]
fn what_one_begins_to_write_is_completed() {
    let mut it = beside();
    let id = talk(&it.store).to_string();
    let root = it.store.log_event(None, "agent.started", None).unwrap();
    think(&it.store, "fix-1", "x");
    let uri = "decklog://conversations/{id}{?after}";
    let today = decklog::record::Day::of(DAY_1).unwrap().to_string();
    it.store.record(turn(1, "x", DAY_1)).unwrap();
    let run = root.to_string();
    for (reference, name, begun, value) in [
        (
            json!({ "type": "ref/resource", "uri": uri }),
            "id",
            &id[..4],
            &*id,
        ),
        (
            json!({ "type": "ref/resource", "uri": "decklog://days/{day}/{kind}{?after}" }),
            "kind",
            "tool",
            "tool_calls",
        ),
        (
            json!({ "type": "ref/resource", "uri": "decklog://days/{day}/{kind}{?after}" }),
            "day",
            "2025-1",
            &*today,
        ),
        (
            json!({ "type": "ref/resource", "uri": "decklog://thoughts/{task_id}{?after}" }),
            "task_id",
            "fi",
            "fix-1",
        ),
        (
            json!({ "type": "ref/prompt", "name": "what_happened" }),
            "run",
            "",
            &*run,
        ),
        (
            json!({ "type": "ref/prompt", "name": "daily_review" }),
            "day",
            "2025",
            &*today,
        ),
    ] {
        let argument = json!({ "name": name, "value": begun });
        let asked = json!({ "ref": reference, "argument": argument });
        let found = it.client.ask("completion/complete", asked);
        assert_eq!(found["completion"]["values"], json!([value]), "{name}");
    }
    it.client.end();
}
