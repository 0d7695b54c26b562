//! A large store, and what is asked of it: how fast it opens, what its index and its files take,
//! and how fast it answers.

use std::path::{Path, PathBuf};

use decklog::Store;

use super::{FILL, Group, directory, memory, open, reads, record_all};
use crate::peers::files::{bytes_under, segments};
use crate::peers::sqlite;
use crate::settings::Settings;
use crate::table::{Row, Table};
use crate::work::{call, records};

const DISK: &str = "disk, a record";

pub const GROUP: Group = (
    &[
        open::WITHOUT,
        open::WITH,
        memory::NAME,
        DISK,
        reads::GET,
        reads::LIST,
        reads::LIST_20,
    ],
    measure,
);

/// The same calls in a store and in a database.
pub struct Large {
    dir: tempfile::TempDir,
    /// Tool calls, each of two lines.
    pub calls: usize,
    /// Of the store's segments.
    pub bytes: u64,
}

impl Large {
    pub fn store(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    pub fn database(&self) -> PathBuf {
        self.dir.path().join("database")
    }

    fn new(calls: usize) -> Large {
        let dir = directory();
        let mut large = Large {
            dir,
            calls,
            bytes: 0,
        };
        let store = Store::open(large.store()).expect("a store");
        let db = sqlite::calls(&large.database(), sqlite::Synchronous::Normal);
        for first in (0..calls).step_by(FILL) {
            let some = first..(first + FILL).min(calls);
            record_all(&store, records(some.clone()));
            sqlite::transaction(&db, || {
                for (request, outcome) in some.map(call) {
                    sqlite::insert(&db, &request);
                    sqlite::update(&db, &outcome);
                }
            });
        }
        sqlite::checkpoint(&db);
        let size = |path: PathBuf| std::fs::metadata(path).expect("metadata").len();
        large.bytes = segments(&large.store()).into_iter().map(size).sum();
        large
    }

    /// Removes what was made to open the store faster.
    pub fn forget_sidecars(&self) {
        let cache = self.store().join("cache");
        if cache.exists() {
            std::fs::remove_dir_all(cache).expect("removed");
        }
    }
}

fn measure(settings: &Settings, table: &mut Table) {
    let large = Large::new(settings.open_lines.div_ceil(2));
    table.note(&format!(
        "a store of {} lines, {} MB",
        2 * large.calls,
        large.bytes / 1_000_000
    ));
    if table.wants(&[open::WITHOUT, open::WITH]) {
        open::measure(&large, settings, table);
    }
    if table.wants(&[memory::NAME]) {
        memory::measure(&large, table);
    }
    if table.wants(&[DISK]) {
        disk(&large, table);
    }
    if table.wants(&[reads::GET, reads::LIST]) {
        reads::measure(&large, settings, table);
    }
    if table.wants(&[reads::LIST_20]) {
        reads::measure_20(settings, table);
    }
}

fn disk(large: &Large, table: &mut Table) {
    let records = 2.0 * large.calls as f64;
    let ours = bytes_under(&large.store()) as f64 / records;
    let json: usize = segments(&large.store())
        .iter()
        .map(|path| own_json(path))
        .sum();
    let database = std::fs::metadata(large.database()).expect("metadata").len();
    let mut row = |peer_name, bytes, target| {
        table.row(&Row {
            name: DISK,
            ours,
            peer_name,
            peer: bytes / records,
            target: Some(target),
            unit: "B",
        });
    };
    row("its own JSON", json as f64, 1.15);
    row("sqlite", database as f64, 0.5);
}

/// The bytes of a segment's lines without what the log adds: `seq`, `at`, `op` and `crc`.
fn own_json(segment: &Path) -> usize {
    let bytes = std::fs::read(segment).expect("a segment");
    let lines = bytes.split_inclusive(|b| *b == b'\n');
    let own = lines.map(|line| {
        let op = br#","op":""#;
        let starts = line.windows(op.len()).position(|bytes| bytes == op);
        let value = starts.expect("an envelope") + op.len();
        let ends = line[value..].iter().position(|b| *b == b'"');
        let fields = value + ends.expect("an end") + 2;
        let crc = br#","crc":"00000000"}"#.len() + 1;
        line.len() - fields - crc + "{}\n".len()
    });
    own.sum()
}
