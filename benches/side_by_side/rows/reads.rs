//! Calls by key and by parent, at random, everything in memory.

use std::hint::black_box;

use decklog::{ObservabilityStore, Record, Store};
use rusqlite::Connection;

use super::large::Large;
use super::{FILL, directory, record_all};
use crate::peers::sqlite;
use crate::settings::Settings;
use crate::table::{Row, Table, medians, seconds};
use crate::work::{A_PARENT, call_under, key, parent, picks};

pub const GET: &str = "get by key";
pub const LIST: &str = "list a parent's 5 calls";
pub const LIST_20: &str = "list 20 calls of a parent";
const LIMIT: usize = 20;
/// Calls of a parent that has more than are listed.
const MANY: usize = 25;

pub fn measure(large: &Large, settings: &Settings, table: &mut Table) {
    let store = Store::open(large.store()).expect("a store");
    let db = sqlite::connect(&large.database(), sqlite::Synchronous::Normal);
    if table.wants(&[GET]) {
        get(&store, &db, large, settings, table);
    }
    if table.wants(&[LIST]) {
        let (calls, parents) = (large.calls, large.calls.div_ceil(A_PARENT));
        let count = settings.reads / A_PARENT;
        let places = picks(count, parents).into_iter().map(|i| i * A_PARENT);
        let parents = places.map(|i| (i, parent(i, A_PARENT)));
        let parents: Vec<_> = parents
            .map(|(i, parent)| (parent, A_PARENT.min(calls - i)))
            .collect();
        list(LIST, &store, &db, &parents, settings, table);
    }
}

/// As many calls as are asked for: parents with more of them, in a store of their own.
pub fn measure_20(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let store = Store::open(dir.path().join("store")).expect("a store");
    let db = sqlite::calls(&dir.path().join("db"), sqlite::Synchronous::Normal);
    let parents = settings.calls.div_ceil(MANY);
    for first in (0..parents * MANY).step_by(FILL) {
        let some = first..(first + FILL).min(parents * MANY);
        let calls: Vec<_> = some.map(|i| call_under(i, parent(i, MANY))).collect();
        sqlite::transaction(&db, || {
            for (request, outcome) in &calls {
                sqlite::insert(&db, request);
                sqlite::update(&db, outcome);
            }
        });
        let pair = |(request, outcome)| [Record::CallRequested(request), Record::CallDone(outcome)];
        record_all(&store, calls.into_iter().flat_map(pair).collect());
    }
    sqlite::checkpoint(&db);
    let parents: Vec<_> = picks(settings.reads.div_ceil(LIMIT), parents)
        .into_iter()
        .map(|i| (parent(i * MANY, MANY), LIMIT))
        .collect();
    list(LIST_20, &store, &db, &parents, settings, table);
}

fn get(store: &Store, db: &Connection, large: &Large, settings: &Settings, table: &mut Table) {
    let keys: Vec<_> = picks(settings.reads, large.calls)
        .into_iter()
        .map(key)
        .collect();
    let count = keys.len() as f64;
    let mut ours = |_| {
        let taken = seconds(|| {
            for (request_id, call_id) in &keys {
                let call = store.get_tool_call(*request_id, call_id).expect("read");
                assert!(black_box(call).is_some());
            }
        });
        count / taken
    };
    let mut theirs = |_| {
        let taken = seconds(|| {
            for (request_id, call_id) in &keys {
                black_box(sqlite::get(db, *request_id, call_id));
            }
        });
        count / taken
    };
    let [ours, sqlite] = medians(settings.rounds, &mut [&mut ours, &mut theirs]);
    table.row(&Row {
        name: GET,
        ours,
        peer_name: "sqlite",
        peer: sqlite,
        target: Some(5.0),
        unit: "calls/s",
    });
}

/// Lists the calls of parents, each with how many it has to find.
fn list(
    name: &str,
    store: &Store,
    db: &Connection,
    parents: &[(uuid::Uuid, usize)],
    settings: &Settings,
    table: &mut Table,
) {
    let count = parents.len() as f64;
    let mut ours = |_| {
        let taken = seconds(|| {
            for (parent, wanted) in parents {
                let calls = store.list_tool_calls_by_parent(*parent, LIMIT);
                assert_eq!(black_box(calls).expect("read").len(), *wanted);
            }
        });
        count / taken
    };
    let mut theirs = |_| {
        let taken = seconds(|| {
            for (parent, wanted) in parents {
                let calls = sqlite::list(db, *parent, LIMIT);
                assert_eq!(black_box(calls).len(), *wanted);
            }
        });
        count / taken
    };
    let [ours, sqlite] = medians(settings.rounds, &mut [&mut ours, &mut theirs]);
    table.row(&Row {
        name,
        ours,
        peer_name: "sqlite",
        peer: sqlite,
        target: Some(3.0),
        unit: "lists/s",
    });
}
