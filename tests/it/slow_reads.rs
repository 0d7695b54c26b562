//! A read that blocks in the middle of a file does not block appends.

#![allow(clippy::case_sensitive_file_extension_comparisons)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use decklog::query::{
    CallQuery, ConversationQuery, EventQuery, MessageQuery, RollupQuery, SearchQuery, TaskQuery,
    TurnQuery,
};
use decklog::record::ThoughtType;
use decklog::storage::Memory;
use decklog::thoughts::NewThought;
use decklog::{
    Client, Conversation, ConversationMessage, Event, InboxTask, Role, Store, event_type,
};
use uuid::Uuid;

use super::support::{DAY_1, Spy, done, request, still, turn};

/// The name of the blocked thread.
const READER: &str = "slow reader";
/// A longer wait means that the append was blocked.
const PATIENCE: Duration = Duration::from_secs(20);

/// Returns the number of records read.
type Read<'a> = &'a (dyn Fn(&Store) -> usize + Sync);

/// Blocks the reader at its first read of a segment, until told to continue.
fn stop_reader(spy: &Spy) -> (Receiver<()>, Sender<()>) {
    let ((stopped, is_stopped), (go_on, goes_on)) = (channel(), channel());
    let (goes_on, was_stopped) = (Mutex::new(goes_on), AtomicBool::new(false));
    spy.hook(move |operation, path| {
        let is_it = thread::current().name() == Some(READER)
            && operation == "read_at"
            && path.ends_with(".jsonl");
        if is_it && !was_stopped.swap(true, Ordering::Relaxed) {
            stopped.send(()).unwrap();
            let _ = goes_on.lock().unwrap().recv_timeout(2 * PATIENCE);
        }
        Ok(())
    });
    (is_stopped, go_on)
}

#[test]
fn no_append_waits_for_a_read_of_a_file() {
    let spy = Spy::new(Memory::new());
    let store = still().storage(Arc::new(spy.clone())).open("").unwrap();
    let id = Uuid::from_u128(7);
    let conversation =
        with!(Conversation::new(id, Client::Cli), workspace: Some("/home/me/app".to_owned()));
    store.record(conversation).unwrap();
    let message = with!(ConversationMessage::new(id, Role::Assistant, "2"),
        model_used: Some("small-1".to_owned()),
    );
    let message_id = message.id;
    store.record(message).unwrap();
    store.record(turn(1, "What is 1 + 1?", DAY_1)).unwrap();
    let call = request(1, "call", DAY_1);
    store.record(call.clone()).unwrap();
    store.record(done(&call)).unwrap();
    store.record(InboxTask::new(1, None)).unwrap();
    let root = store.log_event(None, event_type::AGENT_STARTED, None);
    let root = root.unwrap();
    store
        .log_event(Some(root), event_type::TURN_COMPLETED, Some("{}"))
        .unwrap();
    let thought = NewThought {
        thought_type: ThoughtType::Decision,
        task_id: "task".to_owned(),
        agent_id: "agent".to_owned(),
        content: "so".to_owned(),
    };
    store.thoughts().create(thought).unwrap();

    let all = ConversationQuery::default();
    let of_directory = ConversationQuery {
        workspace: Some("/home".to_owned()),
        ..all.clone()
    };
    let search = SearchQuery {
        text: "1 + 1".to_owned(),
        ..SearchQuery::default()
    };
    let reads: &[(&str, Read<'_>)] = &[
        ("a message", &|store| {
            usize::from(store.get_message(message_id).unwrap().is_some())
        }),
        ("a conversation", &|store| {
            usize::from(store.get_conversation(id).unwrap().is_some())
        }),
        ("conversations", &|store| {
            store.conversations(&all).unwrap().items.len()
        }),
        ("conversations of a directory", &|store| {
            store.conversations(&of_directory).unwrap().items.len()
        }),
        ("messages", &|store| {
            let messages = store.messages(id, &MessageQuery::default());
            messages.unwrap().items.len()
        }),
        ("turns", &|store| {
            let turns = store.turns(&TurnQuery::default());
            turns.unwrap().items.len()
        }),
        ("turns of a time", &|store| {
            let turns = store.as_of(DAY_1 + 1).turns(&TurnQuery::default());
            turns.unwrap().items.len()
        }),
        ("calls", &|store| {
            let calls = store.tool_calls(&CallQuery::default());
            calls.unwrap().items.len()
        }),
        ("tasks", &|store| {
            let tasks = store.inbox().list(&TaskQuery::default());
            tasks.unwrap().items.len()
        }),
        ("events", &|store| {
            let events = store.events(&EventQuery::default());
            events.unwrap().items.len()
        }),
        ("an event tree", &|store| {
            let tree = store.event_tree(root).unwrap();
            tree.unwrap().nodes.len()
        }),
        ("a session tree", &|store| {
            let tree = store.session_tree(id).unwrap();
            tree.unwrap().nodes.len()
        }),
        ("a chain", &|store| {
            let chain = store.thoughts().verify_chain("task").unwrap();
            chain.records as usize
        }),
        ("a search", &|store| {
            store.search(&search).unwrap().matches.len()
        }),
        ("a report", &|store| {
            let usage = store
                .analytics()
                .usage(&decklog::analytics::AnalyticsQuery::default());
            usage.unwrap().rows.len()
        }),
        ("rollups", &|store| {
            store.rollups(&RollupQuery::default()).unwrap().len()
        }),
        ("the last lines", &|store| {
            store.last_lines(3).unwrap().len()
        }),
        ("a follower", &|store| {
            let mut follow = store.follow(0).unwrap();
            follow.next_lines(Duration::ZERO).unwrap().len()
        }),
    ];
    for (name, read) in reads {
        let (is_stopped, go_on) = stop_reader(&spy);
        let append = || {
            store.record(Event::new(None, "test.said")).unwrap();
            store.last_lines(1).unwrap().len()
        };
        thread::scope(|scope| {
            let reader = thread::Builder::new().name(READER.to_owned());
            let reader = reader.spawn_scoped(scope, || read(&store)).unwrap();
            let stopped = is_stopped.recv_timeout(PATIENCE);
            let (appended, is_appended) = channel();
            scope.spawn(move || appended.send(append()));
            let is_appended = is_appended.recv_timeout(PATIENCE);
            let _ = go_on.send(());
            assert!(stopped.is_ok(), "{name} reads no file");
            assert_eq!(is_appended, Ok(1), "an append waited for {name}");
            assert!(reader.join().unwrap() > 0, "{name}");
        });
    }
}
