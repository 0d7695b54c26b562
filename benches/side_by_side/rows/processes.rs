//! Four processes that append to one store, one record a call.

use std::path::Path;
use std::time::Instant;

use decklog::Store;

use super::{Group, directory};
use crate::child::{Child, Work};
use crate::peers::sqlite as peer;
use crate::settings::Settings;
use crate::table::{Row, Table, medians, seconds};
use crate::work::{call, records};

const NAME: &str = "append, 4 processes";
const PROCESSES: usize = 4;
/// Roles of children.
pub const OURS: &str = "append";
pub const SQLITE: &str = "append-sqlite";

pub const GROUP: Group = (&[NAME], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let path = |name: &str, round: usize| dir.path().join(format!("{name}-{round}"));
    let calls = settings.calls.div_ceil(2 * PROCESSES);

    let open = |path: &Path| drop(Store::open(path).expect("a store"));
    let create = |path: &Path| drop(peer::calls(path, peer::Synchronous::Normal));
    let mut four = |round| {
        let path = path("store", round);
        open(&path);
        rate(OURS, &path, PROCESSES, calls)
    };
    let mut alone = |round| {
        let path = path("alone", round);
        open(&path);
        rate(OURS, &path, 1, calls)
    };
    let mut sqlite = |round| {
        let path = path("db", round);
        create(&path);
        rate(SQLITE, &path, PROCESSES, calls)
    };
    let [four, alone, sqlite] = medians(settings.rounds, &mut [&mut four, &mut alone, &mut sqlite]);
    let mut row = |peer_name, peer, target| {
        table.row(&Row {
            name: NAME,
            ours: four,
            peer_name,
            peer,
            target: Some(target),
            unit: "records/s",
        });
    };
    row("one alone", alone, 0.6);
    row("sqlite", sqlite, 5.0);
}

/// Records a second, of all processes in sum.
fn rate(role: &str, path: &Path, processes: usize, calls: usize) -> f64 {
    let path = path.to_str().expect("a path in UTF-8");
    let start = |i: usize| {
        let (first, count) = ((i * calls).to_string(), calls.to_string());
        Child::start(role, &[path, &first, &count])
    };
    let mut children: Vec<Child> = (0..processes).map(start).collect();
    let started = Instant::now();
    children.iter_mut().for_each(Child::go);
    for child in &mut children {
        child.figure();
    }
    let taken = started.elapsed().as_secs_f64();
    children.into_iter().for_each(Child::end);
    (2 * processes * calls) as f64 / taken
}

/// In the child: appends calls to a store.
pub fn ours(args: &[&str]) -> Work {
    let (path, calls) = assignment(args);
    let store = Store::open(path).expect("a store");
    let mut records = records(calls);
    Box::new(move || {
        seconds(|| {
            for record in std::mem::take(&mut records) {
                store.record(record).expect("taken");
            }
        })
    })
}

/// In the child: appends calls to a table.
pub fn sqlite(args: &[&str]) -> Work {
    let (path, calls) = assignment(args);
    let db = peer::connect(path, peer::Synchronous::Normal);
    let calls: Vec<_> = calls.map(call).collect();
    Box::new(move || {
        seconds(|| {
            for (request, outcome) in &calls {
                peer::insert(&db, request);
                peer::update(&db, outcome);
            }
        })
    })
}

/// A path, and the calls from a first one on.
fn assignment<'a>(args: &[&'a str]) -> (&'a Path, std::ops::Range<usize>) {
    let number = |i: usize| args[i].parse::<usize>().expect("a number");
    (Path::new(args[0]), number(1)..number(1) + number(2))
}
