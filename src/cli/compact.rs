//! `decklog compact`

use decklog::human::counted;
use decklog::retention::{CompactOptions, CompactedPart};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::removal::{self, Part};

/// Drop old superseded and retracted versions, and join small segments
///
/// Current records are not touched. It can be interrupted at any moment.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog compact --dry-run")]
pub struct Args {
    /// Only report what would be removed
    #[arg(long)]
    dry_run: bool,
    /// Number of days of history to keep for --as-of queries
    #[arg(long, value_name = "N", default_value_t = 7)]
    keep_days: u32,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_change()?;
    removal::print(context, args.dry_run, "dropped", |progress| {
        Ok(store.compact(CompactOptions {
            dry_run: args.dry_run,
            keep_days: args.keep_days,
            progress: Some(progress),
            ..CompactOptions::default()
        })?)
    })?;
    Ok(Exit::Ok)
}

impl Part for CompactedPart {
    fn columns(&self) -> (String, u64, u64, String) {
        let what = format!("{}  {:<20}", self.day, self.kind.stem());
        let joined = match self.joined as u64 {
            0 => String::new(),
            joined => format!("{} joined", counted(joined, "segment")),
        };
        (what, self.lines, self.bytes, joined)
    }
}
