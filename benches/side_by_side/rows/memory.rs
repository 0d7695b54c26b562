//! What the index of an open store takes in memory.

use decklog::Store;

use super::large::Large;
use crate::child::{Child, Work};
use crate::table::{Row, Table, median};

pub const NAME: &str = "index memory, a tool call";
/// The role of the child.
pub const ROLE: &str = "memory";
const PROCESSES: usize = 3;

pub fn measure(large: &Large, table: &mut Table) {
    let path = large.store();
    let grown = |_| {
        large.forget_sidecars();
        let mut child = Child::start(ROLE, &[path.to_str().expect("a path in UTF-8")]);
        child.go();
        let bytes = child.figure();
        child.end();
        bytes
    };
    let bytes = median((0..PROCESSES).map(grown).collect());
    table.row(&Row {
        name: NAME,
        ours: bytes / large.calls as f64,
        peer_name: "limit",
        peer: 128.0,
        target: Some(1.0),
        unit: "B",
    });
}

/// In the child: opens a store and tells how many bytes of memory came on top.
pub fn open(args: &[&str]) -> Work {
    let path = args[0].to_owned();
    Box::new(move || {
        let before = anonymous_bytes();
        let store = Store::open(&path).expect("a store");
        let after = anonymous_bytes();
        drop(store);
        after - before
    })
}

/// `RssAnon` of this process, in bytes; not a number where the system does not tell.
fn anonymous_bytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kibibytes
        .and_then(|number| number.parse::<f64>().ok())
        .map_or(f64::NAN, |kibibytes| kibibytes * 1024.0)
}
