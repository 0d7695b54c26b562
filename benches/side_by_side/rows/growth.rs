//! Whether a store stays as fast as it grows.

use std::hint::black_box;

use decklog::{ObservabilityStore, Store};

use super::{FILL, Group, directory, record_all};
use crate::settings::Settings;
use crate::table::{Row, Table, median, seconds};
use crate::work::{A_PARENT, key, parent, picks, records};

const APPEND: &str = "growth: append";
const GET: &str = "growth: get";
const LIST: &str = "growth: list";
/// Calls appended in a round, at most.
const APPENDED: usize = 5_000;

pub const GROUP: Group = (&[APPEND, GET, LIST], measure);

/// A store of a size, and the rates of each round.
struct Grown {
    store: Store,
    lines: usize,
    calls: usize,
    keys: Vec<usize>,
    rates: [Vec<f64>; 3],
    /// Removed when all is measured.
    _dir: tempfile::TempDir,
}

fn measure(settings: &Settings, table: &mut Table) {
    let new = |lines: &usize| Grown::new(*lines, settings.reads);
    let mut stores: Vec<Grown> = settings.growth.iter().map(new).collect();
    for round in 0..=settings.rounds {
        for grown in &mut stores {
            let rates = [grown.append(), grown.get(), grown.list()];
            if round > 0 {
                let all = grown.rates.iter_mut();
                all.zip(rates).for_each(|(all, rate)| all.push(rate));
            }
        }
    }
    let rates = stores.iter().map(|grown| grown.rates.clone().map(median));
    let rates: Vec<[f64; 3]> = rates.collect();
    let Some((smallest, larger)) = stores.split_first() else {
        return;
    };
    for (i, grown) in larger.iter().enumerate() {
        let peer_name = format!("{} lines", smallest.lines);
        for (what, (name, unit)) in [(APPEND, "records/s"), (GET, "calls/s"), (LIST, "lists/s")]
            .into_iter()
            .enumerate()
        {
            table.row(&Row {
                name: &format!("{name} at {} lines", grown.lines),
                ours: rates[i + 1][what],
                peer_name: &peer_name,
                peer: rates[0][what],
                target: Some(0.75),
                unit,
            });
        }
    }
}

impl Grown {
    fn new(lines: usize, reads: usize) -> Grown {
        let dir = directory();
        let store = Store::open(dir.path()).expect("a store");
        let calls = lines.div_ceil(2).max(A_PARENT);
        for first in (0..calls).step_by(FILL) {
            record_all(&store, records(first..(first + FILL).min(calls)));
        }
        Grown {
            store,
            lines,
            calls,
            keys: picks(reads, calls),
            rates: Default::default(),
            _dir: dir,
        }
    }

    fn append(&mut self) -> f64 {
        let appended = self.lines.min(APPENDED);
        let records = records(self.calls..self.calls + appended);
        self.calls += appended;
        let count = records.len() as f64;
        let taken = seconds(|| {
            for record in records {
                self.store.record(record).expect("taken");
            }
        });
        self.store.sync().expect("synced");
        count / taken
    }

    fn get(&self) -> f64 {
        let keys: Vec<_> = self.keys.iter().map(|i| key(*i)).collect();
        let taken = seconds(|| {
            for (request_id, call_id) in &keys {
                let call = self.store.get_tool_call(*request_id, call_id);
                assert!(black_box(call).expect("read").is_some());
            }
        });
        keys.len() as f64 / taken
    }

    fn list(&self) -> f64 {
        let some = self.keys.iter().step_by(A_PARENT);
        let parents: Vec<_> = some.map(|i| parent(*i, A_PARENT)).collect();
        let taken = seconds(|| {
            for parent in &parents {
                let calls = self.store.list_tool_calls_by_parent(*parent, 20);
                assert!(!black_box(calls).expect("read").is_empty());
            }
        });
        parents.len() as f64 / taken
    }
}
