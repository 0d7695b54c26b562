//! The rows, in groups that share what they set up.

mod append;
mod capture;
mod disk_level;
mod growth;
pub mod import;
mod large;
pub mod memory;
mod open;
pub mod processes;
mod queries;
mod reads;

use decklog::{Record, Store};

use crate::settings::Settings;
use crate::table::Table;

/// Rows that are measured together: their names, and how.
type Group = (&'static [&'static str], fn(&Settings, &mut Table));

const GROUPS: [Group; 9] = [
    append::SINGLE,
    append::BATCHES,
    disk_level::GROUP,
    capture::GROUP,
    processes::GROUP,
    large::GROUP,
    queries::GROUP,
    growth::GROUP,
    import::GROUP,
];

/// Runs the groups that have a row that is wanted.
pub fn run(settings: &Settings, table: &mut Table) {
    for (names, measure) in GROUPS {
        if table.wants(names) {
            measure(settings, table);
        }
    }
}

/// How many records go into one call where that does not matter.
const FILL: usize = 1_000;

/// A temporary directory on the disk.
fn directory() -> tempfile::TempDir {
    let mut name = tempfile::Builder::new();
    name.prefix("decklog-bench-");
    name.tempdir().expect("a temporary directory")
}

/// Records all of them, and sees that all are taken.
fn record_all(store: &Store, records: Vec<Record>) {
    for ack in store.record_batch(records).expect("a batch") {
        ack.expect("taken");
    }
}
