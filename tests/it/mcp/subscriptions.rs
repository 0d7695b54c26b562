//! Subscriptions: a client is notified of changes to its resources, by any writer, and of nothing
//! else.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use decklog::record::{Day, ThoughtType};
use decklog::thoughts::NewThought;
use decklog::{Client as Where, Conversation, ConversationMessage, Event, Role, Store};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Client;
use crate::support::{DAY_1, DAY_1_NAME, still, turn};

const UPDATED: &str = "notifications/resources/updated";
/// Maximum time until an expected notification.
const PATIENCE: Duration = Duration::from_secs(30);
/// If no notification arrives in this time, none is sent.
const QUIET: Duration = Duration::from_millis(700);

fn start(modern: bool) -> (Store, Client, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let client = if modern {
        Client::modern(&path)
    } else {
        Client::legacy(&path)
    };
    (store, client, dir)
}

fn think(store: &Store, task_id: &str) {
    let thought = NewThought {
        thought_type: ThoughtType::Plan,
        task_id: task_id.into(),
        agent_id: "a".into(),
        content: "x".into(),
    };
    store.thoughts().create(thought).unwrap();
}

fn subscribe(client: &mut Client, uri: &str) {
    client.ask("resources/subscribe", json!({ "uri": uri }));
}

/// The resources of the notifications, until there are no more.
fn told(client: &mut Client, first_within: Duration) -> Vec<String> {
    let (mut uris, mut within) = (Vec::new(), first_within);
    while let Some(told) = client.notified(UPDATED, within) {
        uris.push(told["params"]["uri"].as_str().unwrap().to_owned());
        within = QUIET;
    }
    uris
}

/// Each kind of change to a resource, made through another handle than the server's.
#[test]
fn each_change_is_told_under_the_name_it_was_asked_by() {
    let (store, mut client, _dir) = start(false);
    let talk = Uuid::new_v4();
    store.record(Conversation::new(talk, Where::Api)).unwrap();
    let root = store.log_event(None, "agent.started", None).unwrap();
    let other = store.log_event(None, "agent.started", None).unwrap();
    let middle = store.log_event(Some(root), "turn.started", None).unwrap();
    let today = Day::of(Event::new(None, "a.b").created_at).unwrap();

    let of_talk = format!("decklog://conversations/{talk}");
    let of_turns = format!("decklog://days/{DAY_1_NAME}/conversation_turns");
    let of_root = format!("decklog://events/{root}/tree");
    let of_middle = format!("decklog://events/{middle}/tree");
    let of_other = format!("decklog://events/{other}/tree");
    let of_task = "decklog://thoughts/%66ix%20it".to_owned();
    let not_yet = format!("decklog://days/{today}/history");
    for uri in [
        &of_talk, &of_turns, &of_root, &of_middle, &of_other, &of_task, &not_yet,
    ] {
        subscribe(&mut client, uri);
    }
    // Existing records cause no notification.
    assert_eq!(told(&mut client, QUIET), [""; 0]);

    store
        .record(ConversationMessage::new(talk, Role::User, "hi"))
        .unwrap();
    assert_eq!(told(&mut client, PATIENCE), [&*of_talk]);
    store.record(turn(1, "x", DAY_1)).unwrap();
    assert_eq!(told(&mut client, PATIENCE), [&*of_turns]);
    think(&store, "fix it");
    assert_eq!(told(&mut client, PATIENCE), [&*of_task]);
    let leaf = store.log_event(Some(middle), "x.said", None).unwrap();
    let both = BTreeSet::from([of_root.clone(), of_middle.clone()]);
    let found = told(&mut client, PATIENCE);
    assert_eq!((BTreeSet::from_iter(found.clone()), found.len()), (both, 2));
    // Changes to other resources are not reported either.
    think(&store, "another task");
    store
        .record(Conversation::new(Uuid::new_v4(), Where::Api))
        .unwrap();
    store.log_event(None, "agent.started", None).unwrap();
    assert_eq!(told(&mut client, QUIET), [""; 0]);

    for uri in [&of_root, &of_talk] {
        client.ask("resources/unsubscribe", json!({ "uri": uri }));
    }
    store.log_event(Some(leaf), "x.said", None).unwrap();
    store
        .record(ConversationMessage::new(talk, Role::User, "you?"))
        .unwrap();
    assert_eq!(told(&mut client, PATIENCE), [&*of_middle]);
    client.end();
}

/// Changes by the client itself are reported too. Many changes at once cause one or a few
/// notifications.
#[test]
fn many_changes_are_told_few_times() {
    let (store, mut client, _dir) = start(false);
    let run = store.log_event(None, "agent.started", None).unwrap();
    let uri = format!("decklog://events/{run}/tree");
    subscribe(&mut client, &uri);
    let given = json!({ "event_type": "turn.started", "parent_id": run });
    assert_eq!(client.call("event_log", given)["ok"], true);
    assert_eq!(told(&mut client, PATIENCE), [&*uri]);
    // A deep tree: each event is under the one before it.
    let mut parent = run;
    let mut events = Vec::new();
    for n in 0..5_000 {
        let mut event = Event::new(Some(parent), "x.said");
        event.id = 1_000 + n;
        parent = event.id;
        events.push(event.into());
    }
    for answer in store.record_batch(events).unwrap() {
        answer.unwrap();
    }
    let found = told(&mut client, PATIENCE);
    assert!((1..20).contains(&found.len()), "{}", found.len());
    store.log_event(Some(parent), "x.said", None).unwrap();
    assert_eq!(told(&mut client, PATIENCE), [&*uri]);
    client.end();
}

#[test]
fn what_cannot_be_subscribed_to_is_refused() {
    let (_store, mut client, _dir) = start(false);
    let refused = |client: &mut Client, uri: &str, code: i64| {
        let error = client.refused("resources/subscribe", json!({ "uri": uri }));
        assert_eq!(error["code"], code, "{error}");
    };
    refused(&mut client, "file:///etc/passwd", -32002);
    refused(&mut client, "decklog://thoughts/%ff", -32602);
    for n in 0..256 {
        subscribe(&mut client, &format!("decklog://events/{n}/tree"));
    }
    subscribe(&mut client, "decklog://events/7/tree");
    refused(&mut client, "decklog://events/256/tree", -32602);
    let uri = json!({ "uri": "decklog://events/7/tree" });
    client.ask("resources/unsubscribe", uri);
    subscribe(&mut client, "decklog://events/256/tree");
    // The other protocol has a separate request.
    let filter = json!({ "notifications": {} });
    let error = client.refused("subscriptions/listen", filter);
    assert_eq!(error["code"], -32601);
    client.end();
}

fn listen(client: &mut Client, uris: Value) -> (u64, Value) {
    let filter =
        json!({ "notifications": { "resourceSubscriptions": uris, "toolsListChanged": true } });
    let id = client.begin("subscriptions/listen", filter);
    let method = "notifications/subscriptions/acknowledged";
    let mut told = client.notified(method, PATIENCE).unwrap();
    (id, told["params"]["notifications"].take())
}

/// Since protocol 2026-07-28: streams, each with its own subscriptions.
#[test]
fn a_stream_tells_what_it_was_asked_for_until_it_is_cancelled() {
    let (store, mut client, _dir) = start(true);
    let uris = json!([
        "decklog://thoughts/a",
        "decklog://thoughts/%",
        "decklog://thoughts/b"
    ]);
    let (id, accepted) = listen(&mut client, uris);
    let both = ["decklog://thoughts/a", "decklog://thoughts/b"];
    assert_eq!(accepted, json!({ "resourceSubscriptions": both }));
    // From the acknowledgement on.
    think(&store, "a");
    let (second, _) = listen(&mut client, json!(["decklog://thoughts/b"]));
    let first = client.notified(UPDATED, PATIENCE).unwrap();
    assert_eq!(first["params"]["uri"], "decklog://thoughts/a");
    let stream = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(first["params"]["_meta"][stream], id);
    think(&store, "b");
    let ids: BTreeSet<u64> = (0..2)
        .map(|_| {
            let told = client.notified(UPDATED, PATIENCE).unwrap();
            assert_eq!(told["params"]["uri"], "decklog://thoughts/b");
            told["params"]["_meta"][stream].as_u64().unwrap()
        })
        .collect();
    assert_eq!(ids, BTreeSet::from([id, second]));
    let cancelled = json!({ "requestId": id });
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled }),
    );
    client.ask("tools/list", json!({}));
    think(&store, "b");
    let left = client.notified(UPDATED, PATIENCE).unwrap();
    assert_eq!(left["params"]["_meta"][stream], second);
    assert!(client.notified(UPDATED, QUIET).is_none());
    // An open stream does not delay the end of the server.
    let begun = Instant::now();
    client.end();
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

/// Many clients subscribe and are notified while the log grows; then all of them disconnect.
#[test]
fn clients_come_and_go_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    std::thread::scope(|scope| {
        let client = |n: usize| {
            let path = &path;
            move || {
                for round in 0..3 {
                    let mut client = Client::legacy(path);
                    let uri = format!("decklog://thoughts/task-{n}");
                    subscribe(&mut client, &uri);
                    let told = client.notified(UPDATED, PATIENCE);
                    assert_eq!(told.unwrap()["params"]["uri"], uri, "{round}");
                    if round == 1 {
                        client.kid.0.kill().unwrap();
                    } else {
                        client.end();
                    }
                }
            }
        };
        let clients: Vec<_> = (0..4).map(|n| scope.spawn(client(n))).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            for n in 0..4 {
                think(&store, &format!("task-{n}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
}
