//! decklog beside its peers, on the same records in the same run: SQLite as a careful user has it,
//! redb, and what the system itself gives: bare `write(2)`, `BufWriter`, a scan with `serde_json`.
//! Sides take turns in each round; figures are medians over rounds, after one that warms up.
//!
//! `cargo bench --bench side_by_side` prints a table, with `-- --json` one JSON object a line;
//! `-- append get` runs the rows with these words in their names. Environment variables set the
//! sizes, see [`settings`]. Files go to the temporary directory (`TMPDIR`), which should be on a
//! disk, and go away at the end.

// Counts become figures, and a bench that cannot run should stop.
#![allow(clippy::cast_precision_loss, clippy::expect_used)]

mod child;
mod peers;
mod rows;
mod sessions;
mod settings;
mod table;
#[path = "../tiny/mod.rs"]
mod tiny;
mod work;

use settings::Settings;
use table::{Form, Table};

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == child::FLAG).is_some() {
        let args: Vec<String> = args.collect();
        child::run(&args, begin);
        return;
    }
    // cargo itself hands over `--bench`.
    let (flags, words): (Vec<_>, Vec<_>) = args.partition(|arg| arg.starts_with("--"));
    let mut table = Table::new(Form::of(&flags), words);
    rows::run(&Settings::from_env(), &mut table);
}

/// The work of a child in this role.
fn begin(role: &str, args: &[&str]) -> child::Work {
    match role {
        rows::processes::OURS => rows::processes::ours(args),
        rows::processes::SQLITE => rows::processes::sqlite(args),
        rows::memory::ROLE => rows::memory::open(args),
        rows::import::ROLE => rows::import::import(args),
        role => panic!("no role {role}"),
    }
}
