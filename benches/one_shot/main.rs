//! Whole processes beside `sqlite3`, `tail`, `jq`, `rg` and ccusage: what one command costs on a
//! large log. Each run is a new process with a warm page cache. The sides take turns; figures are
//! medians over rounds, after one that warms up. A peer that is not installed is left out, and a
//! note says so.
//!
//! `cargo bench --bench one_shot` prints a table, with `-- --json` one JSON object a line, with
//! `-- --markdown` a table for a document; `-- get search` runs the rows with these words in their
//! names. `DECKLOG_BENCH_LINES` sets the size of the log (default: 2,000,000 lines),
//! `DECKLOG_BENCH_ROUNDS` the rounds (default: 11), `DECKLOG_BENCH_SESSIONS_MB` the session files
//! to import (default: 48).
//!
//! The log, the database with the same records and the sessions stay under `target/`, since it
//! takes a minute to make them. They are made again for another size, or after [`corpus::VERSION`]
//! was changed. Recording adds a few lines to the log in each run.

// Counts become figures, and a bench that cannot run should stop.
#![allow(clippy::cast_precision_loss, clippy::expect_used)]

mod corpus;
mod process;
mod rows;
#[path = "../side_by_side/sessions.rs"]
mod sessions;
#[allow(dead_code)] // Of `side_by_side`, which uses all of it.
#[path = "../side_by_side/peers/sqlite.rs"]
mod sqlite;
#[allow(dead_code)] // Of `side_by_side`, which uses all of it.
#[path = "../side_by_side/table.rs"]
mod table;
#[path = "../tiny/mod.rs"]
mod tiny;
#[allow(dead_code)] // Of `side_by_side`, which uses all of it.
#[path = "../side_by_side/work.rs"]
mod work;

use corpus::Corpus;
use table::{Form, Table};

fn main() {
    let mut args = std::env::args().skip(1).peekable();
    if args.next_if(|arg| arg == process::FLAG).is_some() {
        let args: Vec<String> = args.collect();
        process::run_child(&args);
        return;
    }
    // cargo itself hands over `--bench`.
    let (flags, words): (Vec<_>, Vec<_>) = args.partition(|arg| arg.starts_with("--"));
    let mut table = Table::new(Form::of(&flags), words);
    let corpus = Corpus::make(
        setting("LINES", tiny::size(2_000_000, 2_000)),
        setting("SESSIONS_MB", tiny::size(48, 1)),
    );
    table.note(&corpus.described());
    rows::run(&corpus, setting("ROUNDS", tiny::size(11, 1)), &mut table);
}

/// A number from an environment variable, or the default.
fn setting(name: &str, default: usize) -> usize {
    let value = std::env::var(format!("DECKLOG_BENCH_{name}"));
    let given = value
        .ok()
        .and_then(|value| value.replace('_', "").parse().ok());
    given.unwrap_or(default).max(1)
}
