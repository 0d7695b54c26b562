//! Sixteen threads, each of which waits until the disk has its record.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use decklog::{Durability, Store};

use super::append::lines;
use super::{Group, directory};
use crate::peers::files::write_synced;
use crate::peers::sqlite;
use crate::settings::Settings;
use crate::table::{Row, Table, medians};
use crate::work::{call, records};

const NAME: &str = "append to disk, 16 threads";
const THREADS: usize = 16;
/// What a sync takes changes from one moment to the next: rounds are short, and there are so many
/// times more of them.
const ROUNDS: usize = 2;

pub const GROUP: Group = (&[NAME], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let path = |name: &str, round: usize| dir.path().join(format!("{name}-{round}"));
    let a_thread = settings.synced.div_ceil(2);
    let part = |thread: usize| thread * a_thread..(thread + 1) * a_thread;
    let lines = lines(THREADS * a_thread, table);
    let count = lines.count() as f64;

    let mut ours = |round| {
        let options = Store::options().durability(Durability::Disk);
        let store = options.open(path("store", round)).expect("a store");
        let parts = (0..THREADS).map(|thread| records(part(thread)));
        let taken = together(parts.collect(), |records| {
            for record in records {
                store.record(record).expect("taken");
            }
        });
        count / taken
    };
    let mut bare = |round| count / write_synced(&lines, THREADS, &path("file", round));
    let mut sqlite = |round| {
        let path = path("db", round);
        let _db = sqlite::calls(&path, sqlite::Synchronous::Full);
        let parts = (0..THREADS).map(|thread| {
            let calls: Vec<_> = part(thread).map(call).collect();
            (sqlite::connect(&path, sqlite::Synchronous::Full), calls)
        });
        let taken = together(parts.collect(), |(db, calls)| {
            for (request, outcome) in &calls {
                sqlite::insert(&db, request);
                sqlite::update(&db, outcome);
            }
        });
        count / taken
    };
    let [ours, bare, sqlite] = medians(
        ROUNDS * settings.rounds,
        &mut [&mut ours, &mut bare, &mut sqlite],
    );
    let mut row = |peer_name, peer, target| {
        table.row(&Row {
            name: NAME,
            ours,
            peer_name,
            peer,
            target: Some(target),
            unit: "records/s",
        });
    };
    row("16 and fdatasync", bare, 0.5);
    row("sqlite FULL", sqlite, 5.0);
}

/// How many seconds it takes until every part is worked off, each by a thread of its own.
fn together<T: Send>(parts: Vec<T>, work: impl Fn(T) + Sync) -> f64 {
    let (begin, work) = (Barrier::new(parts.len() + 1), &work);
    thread::scope(|scope| {
        let start = |part| {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                work(part);
            })
        };
        let threads: Vec<_> = parts.into_iter().map(start).collect();
        begin.wait();
        let started = Instant::now();
        for thread in threads {
            thread.join().expect("worked off");
        }
        started.elapsed().as_secs_f64()
    })
}
