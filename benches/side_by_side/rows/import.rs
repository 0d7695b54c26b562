//! Import of the session files of Claude Code, in a process of its own, so that nothing but the
//! import is counted.

use std::path::Path;

use decklog::Store;
use decklog::import::Importer;

use super::{Group, directory};
use crate::child::{Child, Work};
use crate::sessions::write_sessions;
use crate::settings::Settings;
use crate::table::{Row, Table, median};

const NAME: &str = "import of Claude Code files";
/// The role of the child.
pub const ROLE: &str = "import";

pub const GROUP: Group = (&[NAME], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let sessions = dir.path().join("sessions");
    std::fs::create_dir(&sessions).expect("a directory");
    let bytes = write_sessions(&sessions, settings.import_mb);
    let rate = |round: usize| {
        let store = dir.path().join(format!("store-{round}"));
        let paths = [&store, &sessions].map(|path| path.to_str().expect("a path in UTF-8"));
        let mut child = Child::start(ROLE, &paths);
        child.go();
        let seconds = child.figure();
        child.end();
        std::fs::remove_dir_all(store).expect("removed");
        bytes as f64 / 1e6 / seconds
    };
    table.row(&Row {
        name: NAME,
        ours: median((0..settings.rounds).map(rate).collect()),
        peer_name: "limit, a core",
        peer: 150.0,
        target: Some(1.0),
        unit: "MB/s",
    });
}

/// In the child: imports a folder into a store and tells how many seconds of a core it took.
pub fn import(args: &[&str]) -> Work {
    let store = Store::open(args[0]).expect("a store");
    let sessions = args[1].to_owned();
    Box::new(move || {
        let before = cpu_seconds();
        let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
        importer.path(Path::new(&sessions)).expect("imported");
        let report = importer.finish().expect("a report");
        let taken = cpu_seconds() - before;
        assert!(report.broken.is_empty(), "{:?}", report.broken.first());
        assert!(report.tool_calls > 0 && report.tool_calls == report.tool_results);
        taken
    })
}

/// What this process took of all cores, in the system and outside; not a number where the system
/// does not tell. Linux counts in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name stands in parentheses and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    match (ticks.next(), ticks.next()) {
        (Some(Ok(user)), Some(Ok(system))) => (user + system) / 100.0,
        _ => f64::NAN,
    }
}
