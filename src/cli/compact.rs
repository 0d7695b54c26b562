//! `decklog compact`

use std::io;

use decklog::retention::{CompactOptions, CompactedPart};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::retain::{removed_line, until_broken};
use super::show::{count, grouped, row};

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
    let (mut lines, mut bytes) = (0, 0);
    let mut shown = Ok(());
    let mut show = |part: &CompactedPart| {
        lines += part.lines;
        bytes += part.bytes;
        shown = show(context, part);
        until_broken(&shown)
    };
    store.compact(CompactOptions {
        dry_run: args.dry_run,
        keep_days: args.keep_days,
        ..CompactOptions::now(&mut show)
    })?;
    shown?;
    if !context.json {
        let verb = if args.dry_run { "would go" } else { "dropped" };
        context.out.line(&removed_line(lines, bytes, verb))?;
    }
    Ok(Exit::Ok)
}

fn show(context: &mut Context, part: &CompactedPart) -> io::Result<()> {
    if context.json {
        context.out.json(part)?;
    } else {
        let joined = if part.joined > 0 {
            format!("{} joined", count(part.joined as u64, "segment"))
        } else {
            String::new()
        };
        let text = format!(
            "{}  {:<20}  {:>10} lines  {:>14} bytes  {joined}",
            part.day,
            part.kind.stem(),
            grouped(part.lines),
            grouped(part.bytes),
        );
        row(&mut context.out, &text)?;
    }
    context.out.flush()
}
