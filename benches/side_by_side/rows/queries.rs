//! Turns since a time, the tree under an event, the end of a chat.

use std::hint::black_box;
use std::path::Path;

use decklog::{
    ConversationTurn, Event, HistoryEntry, ObservabilityStore, Record, Role, Store, TurnKind,
    Validity, event_type,
};
use rusqlite::Connection;

use super::{FILL, Group, directory, record_all};
use crate::peers::sqlite::{Synchronous, checkpoint, connect, transaction};
use crate::peers::sqlite_talk as peer;
use crate::settings::Settings;
use crate::table::{Row, Table, medians, seconds};
use crate::work::{START_MS, key, picks, text};

const TURNS: &str = "turns since a time, 100";
const TREE: &str = "event tree of 1000 nodes";
const CHAT: &str = "last 20 of a chat";
const NODES: usize = 1_000;
const UNDER_ONE: usize = 4;
const IN_A_CHAT: usize = 200;

pub const GROUP: Group = (&[TURNS, TREE, CHAT], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let store = Store::open(dir.path().join("store")).expect("a store");
    let db = database(&dir.path().join("db"));
    let count = settings.calls.next_multiple_of(NODES);
    fill(&store, &db, count);
    let trees = picks(10, count / NODES).into_iter().map(id_of_root);
    let trees: Vec<i64> = trees.collect();
    let chats = picks(settings.reads / 20, count / IN_A_CHAT);
    // So that there are 100 turns from each time on.
    let times = picks(settings.reads / 100, count - 100);
    let (limit, last) = (100, 20);

    let turns = |since: usize| {
        let turns = store.list_conversation_since(time(since), limit);
        turns.expect("read").len()
    };
    let sqlite = |since: usize| peer::turns_since(&db, time(since), limit).len();
    compare(TURNS, (&times, limit), &turns, &sqlite, settings, table);

    let tree = |root: i64| {
        let tree = store.event_tree(root).expect("read");
        tree.expect("there").nodes.len()
    };
    let sqlite = |root: i64| peer::tree(&db, root).len();
    compare(TREE, (&trees, NODES), &tree, &sqlite, settings, table);

    let chat = |chat: usize| {
        let entries = store.history(number(chat), last);
        entries.expect("read").len()
    };
    let sqlite = |chat: usize| peer::last_of_chat(&db, number(chat), last).len();
    compare(CHAT, (&chats, last), &chat, &sqlite, settings, table);
}

/// Asks both sides the same, each time for so many things.
fn compare<T: Copy>(
    name: &str,
    (asked, wanted): (&[T], usize),
    ours: &dyn Fn(T) -> usize,
    sqlite: &dyn Fn(T) -> usize,
    settings: &Settings,
    table: &mut Table,
) {
    if !table.wants(&[name]) {
        return;
    }
    let rate = |ask: &dyn Fn(T) -> usize| {
        let taken = seconds(|| {
            for what in asked {
                assert_eq!(black_box(ask(*what)), wanted);
            }
        });
        asked.len() as f64 / taken
    };
    let [ours, sqlite] = medians(
        settings.rounds,
        &mut [&mut |_| rate(ours), &mut |_| rate(sqlite)],
    );
    table.row(&Row {
        name,
        ours,
        peer_name: "sqlite",
        peer: sqlite,
        target: Some(3.0),
        unit: "queries/s",
    });
}

fn database(path: &Path) -> Connection {
    let db = connect(path, Synchronous::Normal);
    db.execute_batch(peer::SCHEMA).expect("a schema");
    db
}

fn fill(store: &Store, db: &Connection, count: usize) {
    for first in (0..count).step_by(FILL) {
        let some = first..first + FILL;
        let turns: Vec<_> = some.clone().map(turn).collect();
        let events: Vec<_> = some.clone().map(event).collect();
        let entries: Vec<_> = some.map(|i| entry(i, count / IN_A_CHAT)).collect();
        transaction(db, || {
            for turn in &turns {
                peer::insert_turn(db, turn);
            }
            for event in &events {
                peer::insert_event(db, event);
            }
            for entry in &entries {
                peer::insert_entry(db, entry);
            }
        });
        record_all(store, turns.into_iter().map(Record::from).collect());
        record_all(store, events.into_iter().map(Record::from).collect());
        record_all(store, entries.into_iter().map(Record::from).collect());
    }
    checkpoint(db);
}

fn time(i: usize) -> i64 {
    START_MS + number(i) * 7
}

fn number(i: usize) -> i64 {
    i64::try_from(i).expect("few")
}

fn turn(i: usize) -> ConversationTurn {
    ConversationTurn {
        id: key(i).0,
        parent_id: i.checked_sub(1).map(|i| key(i).0),
        message_id: key(i / 2).0,
        kind: [TurnKind::User, TurnKind::Assistant][i % 2],
        content: text(i, 600),
        created_at: Validity::at(time(i)),
        thread_id: Some(key(i / 100).0),
    }
}

/// The first event of a tree.
fn id_of_root(tree: usize) -> i64 {
    number(tree * NODES) + 1
}

/// Four spans under each, for as many as make a tree.
fn event(i: usize) -> Event {
    let (root, place) = (id_of_root(i / NODES), i % NODES);
    let parent = place.checked_sub(1).map(|before| before / UNDER_ONE);
    let call_id = i / 2;
    let event_type = match (place, i % 2) {
        (0, _) => event_type::AGENT_STARTED,
        (_, 1) => event_type::TOOL_CALL_STARTED,
        _ => event_type::TOOL_CALL_COMPLETED,
    };
    Event::new(parent.map(|place| root + number(place)), event_type)
        .id(number(i) + 1)
        .created_at(time(i))
        .payload(format!(
            r#"{{"call_id":"call_{call_id}","tool":"bash","note":"{}"}}"#,
            text(i, 150)
        ))
}

fn entry(i: usize, chats: usize) -> HistoryEntry {
    HistoryEntry::new(number(i % chats), Role::User, text(i, 300)).created_at(time(i))
}
