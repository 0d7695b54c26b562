//! Opening a store whose files are in the page cache.

use std::time::Duration;

use decklog::Store;

use super::large::Large;
use crate::peers::files::scan;
use crate::settings::Settings;
use crate::table::{Row, Table, medians, seconds};

pub const WITHOUT: &str = "open, no sidecar";
pub const WITH: &str = "open, sidecars";

pub fn measure(large: &Large, settings: &Settings, table: &mut Table) {
    // What was written a moment ago has no proof in its times yet, and would be hashed.
    std::thread::sleep(Duration::from_millis(2_100));
    let gigabytes = large.bytes as f64 / 1e9;
    let open = || Store::open(large.store()).expect("a store");
    let mut without = |_| {
        large.forget_sidecars();
        gigabytes / seconds(open)
    };
    let mut with = |_| {
        // A handle leaves them behind when it is dropped.
        drop(open());
        gigabytes / seconds(open)
    };
    let mut scanned = |_| gigabytes / scan(&large.store());
    let [without, with, scanned] = medians(
        settings.rounds,
        &mut [&mut without, &mut with, &mut scanned],
    );
    let mut row = |name, ours, peer_name, peer, target| {
        table.row(&Row {
            name,
            ours,
            peer_name,
            peer,
            target: Some(target),
            unit: "GB/s",
        });
    };
    row(WITHOUT, without, "limit", 2.0, 1.0);
    row(WITHOUT, without, "serde_json scan", scanned, 4.0);
    row(WITH, with, "no sidecar", without, 10.0);
}
