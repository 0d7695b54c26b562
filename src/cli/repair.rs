//! `decklog repair`

use decklog::health::Repaired;
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::show::count;

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
    if context.json {
        context.out.json_lines(&repaired)?;
        context.out.json(&Summary {
            segments: repaired.len() as u64,
            quarantined_lines: sum(|one| one.quarantined_lines),
            quarantined_bytes: sum(|one| one.quarantined_bytes),
            restamped_lines: sum(|one| one.restamped_lines),
            altered_lines_left: left,
            resealed: sum(|one| u64::from(one.resealed)),
        })?;
        return Ok(Exit::with_findings(left > 0));
    }
    for one in &repaired {
        context.out.line(&in_words(one))?;
    }
    let last = match (repaired.is_empty(), left) {
        (true, _) => "nothing to repair".to_owned(),
        (false, 0) => "repaired".to_owned(),
        (false, _) => {
            let lines = count(left, "rewritten line");
            let why = if args.accept_edits {
                "they hold no readable record to accept"
            } else {
                "inspect each, then repair with --accept-edits"
            };
            format!("{lines} not changed: {why}")
        }
    };
    context.out.line(&last)?;
    Ok(Exit::with_findings(left > 0))
}

/// The repairs of a segment.
fn in_words(one: &Repaired) -> String {
    let mut done = Vec::new();
    if let Some(quarantine) = &one.quarantine {
        done.push(format!(
            "{} ({}) moved to {}",
            count(one.quarantined_lines, "damaged line"),
            count(one.quarantined_bytes, "byte"),
            one_line(quarantine)
        ));
    }
    if one.restamped_lines > 0 {
        let lines = count(one.restamped_lines, "rewritten line");
        done.push(format!("{lines} accepted"));
    }
    if one.altered_lines_left > 0 {
        let lines = count(one.altered_lines_left, "rewritten line");
        done.push(format!("{lines} left"));
    }
    if done.is_empty() && !one.resealed {
        done.push("the last line was terminated".to_owned());
    }
    if one.resealed {
        done.push("sealed anew".to_owned());
    }
    format!("{}: {}", one_line(&one.file), done.join(", "))
}
