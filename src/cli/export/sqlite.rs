//! `decklog export sqlite`

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use decklog::Kind;
use decklog::human::{bytes, count, counted};
use decklog::sql::{self, ExportOptions};
use indicatif::ProgressBar;
use serde_json::{Map, json};

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::new_file;
use crate::cli::time::Times;

/// A shorter export shows no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// All records, or those of some kinds and times, as a database of SQLite
///
/// Each kind is a table with the columns that 'decklog sql --tables' lists, and with indexes. A row
/// is the current state of a record. The table decklog says what was exported, and when. The
/// conversations of the exported messages are in it, whatever their time.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog export sqlite log.sqlite\n  decklog export sqlite week.sqlite conversations messages --since 7d\n  sqlite3 log.sqlite 'SELECT role, count(*) FROM messages GROUP BY role'"
)]
pub struct Args {
    /// The new database, which appears when it is complete
    file: PathBuf,
    /// Only these kinds, as in file names. Default: all
    #[arg(value_name = "KIND", value_parser = crate::cli::schema::kind)]
    kinds: Vec<Kind>,
    #[command(flatten)]
    times: Times,
}

pub fn run(args: &Args, is_forced: bool, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let options = ExportOptions {
        kinds: args.kinds.clone(),
        since: args.times.since,
        until: args.times.until,
    };
    let began = Instant::now();
    let is_shown = !context.json && std::io::stderr().is_terminal();
    let mut bar = None;
    let (len, rows) = new_file::fill(&args.file, is_forced, context, |path| {
        let rows = sql::export(&store, path, &options, |kind, rows| {
            if is_shown && began.elapsed() >= SHOWN_AFTER {
                let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
                bar.set_message(format!("{}: {}", kind.stem(), counted(rows, "row")));
                bar.tick();
            }
        });
        Ok(rows?)
    })?;
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let total: u64 = rows.iter().map(|(_, rows)| rows).sum();
    let tables: Map<_, _> = rows
        .iter()
        .map(|(kind, rows)| (kind.stem().to_owned(), json!(rows)))
        .collect();
    let text = format!(
        "wrote {} ({} in {}, {})",
        args.file.display(),
        counted(total, "row"),
        counted(rows.len() as u64, "table"),
        if len < 1_000 {
            format!("{} bytes", count(len))
        } else {
            bytes(len)
        },
    );
    context.print(
        &json!({ "file": args.file, "bytes": len, "rows": tables }),
        &text,
    )?;
    Ok(Exit::Ok)
}
