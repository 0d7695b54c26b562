//! `decklog repair`

use decklog::health::Repaired;
use decklog::human::counted;
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};

/// Move damaged bytes from the segments to files under quarantine/
///
/// Nothing is deleted. Lines that were edited by hand do not change, unless --accept-edits is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog verify || decklog repair")]
pub struct Args {
    /// Accept edited lines: write a new checksum for them
    #[arg(long)]
    accept_edits: bool,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Summary {
    segments: u64,
    quarantined_lines: u64,
    quarantined_bytes: u64,
    restamped_lines: u64,
    altered_lines_left: u64,
    resealed: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_change()?;
    let repaired = if args.accept_edits {
        store.repair_and_accept_edits()?
    } else {
        store.repair()?
    };
    let sum = |of: fn(&Repaired) -> u64| repaired.iter().map(of).sum();
    let left = sum(|one| one.altered_lines_left);
    for one in &repaired {
        context.print(one, &in_words(one))?;
    }
    let summary = Summary {
        segments: repaired.len() as u64,
        quarantined_lines: sum(|one| one.quarantined_lines),
        quarantined_bytes: sum(|one| one.quarantined_bytes),
        restamped_lines: sum(|one| one.restamped_lines),
        altered_lines_left: left,
        resealed: sum(|one| u64::from(one.resealed)),
    };
    let last = match (repaired.is_empty(), left) {
        (true, _) => "nothing to repair".to_owned(),
        (false, 0) => "repaired".to_owned(),
        (false, _) => {
            let lines = counted(left, "rewritten line");
            let why = if args.accept_edits {
                "they hold no readable record to accept"
            } else {
                "inspect each, then repair with --accept-edits"
            };
            format!("{lines} not changed: {why}")
        }
    };
    context.print(&summary, &last)?;
    Ok(Exit::with_findings(left > 0))
}

/// The repairs of a segment.
fn in_words(one: &Repaired) -> String {
    let mut done = Vec::new();
    if let Some(quarantine) = &one.quarantine {
        let lines = counted(one.quarantined_lines, "damaged line");
        let bytes = counted(one.quarantined_bytes, "byte");
        done.push(format!(
            "{lines} ({bytes}) moved to {}",
            one_line(quarantine)
        ));
    }
    for (lines, verb) in [
        (one.restamped_lines, "accepted"),
        (one.altered_lines_left, "left"),
    ] {
        if lines > 0 {
            done.push(format!("{} {verb}", counted(lines, "rewritten line")));
        }
    }
    if done.is_empty() && !one.resealed {
        done.push("the last line was terminated".to_owned());
    }
    if one.resealed {
        done.push("sealed anew".to_owned());
    }
    format!("{}: {}", one_line(&one.file), done.join(", "))
}
