//! Appending at level `Process`, by one thread.

use decklog::{Record, Store};

use super::{Group, directory};
use crate::peers::files::{Lines, write_buffered, write_each};
use crate::peers::{redb, sqlite};
use crate::settings::Settings;
use crate::table::{Row, Table, medians, seconds};
use crate::work::{call, records};

const ONE: &str = "append, one a call";
const BATCH: &str = "append, 1000 a batch";
const A_BATCH: usize = 1_000;

pub const SINGLE: Group = (&[ONE], single);
pub const BATCHES: Group = (&[BATCH], batches);

fn single(settings: &Settings, table: &mut Table) {
    let lines = lines(settings.calls, table);
    let calls: Vec<_> = (0..settings.calls).map(call).collect();
    let count = lines.count() as f64;

    let mut ours = |_| {
        let dir = directory();
        let store = Store::open(dir.path()).expect("a store");
        let records = records(0..settings.calls);
        let taken = seconds(|| {
            for record in records {
                store.record(record).expect("taken");
            }
        });
        count / taken
    };
    let mut bare = |_| count / write_each(&lines, &directory().path().join("file"));
    let mut sqlite = |_| {
        let dir = directory();
        let db = sqlite::calls(&dir.path().join("db"), sqlite::Synchronous::Normal);
        let taken = seconds(|| {
            for (request, outcome) in &calls {
                sqlite::insert(&db, request);
                sqlite::update(&db, outcome);
            }
        });
        count / taken
    };
    let [ours, bare, sqlite] = medians(settings.rounds, &mut [&mut ours, &mut bare, &mut sqlite]);
    let mut row = |peer_name, peer, target| {
        table.row(&Row {
            name: ONE,
            ours,
            peer_name,
            peer,
            target: Some(target),
            unit: "records/s",
        });
    };
    row("write(2)", bare, 0.4);
    row("sqlite", sqlite, 12.0);
}

fn batches(settings: &Settings, table: &mut Table) {
    let lines = lines(settings.calls, table);
    let calls: Vec<_> = (0..settings.calls).map(call).collect();
    let kept = records(0..settings.calls);
    let count = lines.count() as f64;

    let mut ours = |_| {
        let dir = directory();
        let store = Store::open(dir.path()).expect("a store");
        let mut all = records(0..settings.calls).into_iter();
        let batches: Vec<Vec<Record>> = (0..all.len().div_ceil(A_BATCH))
            .map(|_| all.by_ref().take(A_BATCH).collect())
            .collect();
        let taken = seconds(|| {
            for batch in batches {
                let acks = store.record_batch(batch).expect("a batch");
                assert!(acks.iter().all(Result::is_ok));
            }
        });
        count / taken
    };
    let mut buffered = |_| count / write_buffered(&lines, &directory().path().join("file"));
    let mut sqlite = |_| {
        let dir = directory();
        let db = sqlite::calls(&dir.path().join("db"), sqlite::Synchronous::Normal);
        let taken = seconds(|| {
            for batch in calls.chunks(A_BATCH / 2) {
                sqlite::transaction(&db, || {
                    for (request, outcome) in batch {
                        sqlite::insert(&db, request);
                        sqlite::update(&db, outcome);
                    }
                });
            }
        });
        count / taken
    };
    let mut redb =
        |_| count / redb::batches(&kept, &lines, A_BATCH, &directory().path().join("db"));
    let [ours, buffered, sqlite, redb] = medians(
        settings.rounds,
        &mut [&mut ours, &mut buffered, &mut sqlite, &mut redb],
    );
    let mut row = |peer_name, peer, target| {
        table.row(&Row {
            name: BATCH,
            ours,
            peer_name,
            peer,
            target,
            unit: "records/s",
        });
    };
    row("BufWriter", buffered, Some(0.4));
    row("sqlite", sqlite, Some(5.0));
    row("redb", redb, None);
}

/// The lines that decklog makes of so many calls.
pub fn lines(calls: usize, table: &Table) -> Lines {
    let dir = directory();
    let store = Store::open(dir.path()).expect("a store");
    super::record_all(&store, records(0..calls));
    let lines = Lines::of(dir.path());
    let average = lines.bytes() / lines.count();
    table.note(&format!(
        "{} lines of {average} bytes on average",
        lines.count()
    ));
    lines
}
