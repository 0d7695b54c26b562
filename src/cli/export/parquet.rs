//! `decklog export parquet`

use std::fs::File;
use std::path::PathBuf;

use decklog::Kind;
use decklog::human::{bytes, counted};
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::{Exit, Failure};
use crate::cli::new_file;
use crate::cli::time::Times;

/// The records of one kind, or those of some time, as a Parquet file
///
/// A row is the current state of a record. Columns are typed; JSON is text. Rows are sorted by time
/// within each row group, which has statistics and page indexes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog export parquet week.parquet messages --since 7d\n  duckdb -c \"SELECT role, count(*) FROM 'week.parquet' GROUP BY role\""
)]
pub struct Args {
    /// The new file, which appears when it is complete
    file: PathBuf,
    /// The kind, as in file names
    #[arg(value_name = "KIND", value_parser = crate::cli::schema::kind)]
    kind: Kind,
    #[command(flatten)]
    times: Times,
}

pub fn run(args: &Args, is_forced: bool, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let times = (
        args.times.since.unwrap_or(i64::MIN),
        args.times.until.unwrap_or(i64::MAX),
    );
    let (len, rows) = new_file::fill(&args.file, is_forced, context, |path| {
        let file = File::options().write(true).truncate(true).open(path);
        let file =
            file.map_err(|e| Failure::store(format!("cannot open {}: {e}", path.display())))?;
        Ok(store.export_parquet(args.kind, times, file)?)
    })?;
    let text = format!(
        "wrote {} ({}, {})",
        args.file.display(),
        counted(rows, "row"),
        bytes(len)
    );
    context.print(
        &json!({ "file": args.file, "bytes": len, "rows": rows }),
        &text,
    )?;
    Ok(Exit::Ok)
}
