//! `decklog retain`

use decklog::human::count;
use decklog::retention::{RetainOptions, RetainedPart};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::removal::Part;
use super::{output, removal};

/// Remove expired records, by the settings under 'decklog config get retention'
///
/// Related records are removed together, when the last of them has expired. It can be interrupted at
/// any moment: the next run removes the rest.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog retain --dry-run")]
pub struct Args {
    /// Only report what would be removed
    #[arg(long)]
    dry_run: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_change()?;
    let retained = removal::print(context, args.dry_run, "removed", |progress| {
        Ok(store.retain(RetainOptions {
            dry_run: args.dry_run,
            progress: Some(progress),
            ..RetainOptions::default()
        })?)
    })?;
    if retained.bytes_over > 0 {
        output::say(&format!(
            "{} bytes exceed retention.max_bytes: they are of today, are kept forever, or belong to records that stay",
            count(retained.bytes_over)
        ));
        return Ok(Exit::Findings);
    }
    Ok(Exit::Ok)
}

impl Part for RetainedPart {
    fn columns(&self) -> (String, u64, u64, String) {
        let what = format!("{}  {:<20}", self.day, self.kind.stem());
        (
            what,
            self.lines,
            self.bytes,
            self.reason.as_str().to_owned(),
        )
    }
}
