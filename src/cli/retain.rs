//! `decklog retain`

use std::io;
use std::ops::ControlFlow;

use decklog::retention::{RetainOptions, RetainedPart};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::show::{count, grouped, row};

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
    let (mut lines, mut bytes) = (0, 0);
    let mut shown = Ok(());
    let mut show = |part: &RetainedPart| {
        lines += part.lines;
        bytes += part.bytes;
        shown = show(context, part);
        until_broken(&shown)
    };
    let retained = store.retain(RetainOptions {
        dry_run: args.dry_run,
        ..RetainOptions::now(&mut show)
    })?;
    shown?;
    if !context.json {
        let verb = if args.dry_run { "would go" } else { "removed" };
        context.out.line(&removed_line(lines, bytes, verb))?;
    }
    if retained.bytes_over > 0 {
        output::say(&format!(
            "{} bytes exceed retention.max_bytes: they are of today, are kept forever, or belong to records that stay",
            grouped(retained.bytes_over)
        ));
        return Ok(Exit::Findings);
    }
    Ok(Exit::Ok)
}

fn show(context: &mut Context, part: &RetainedPart) -> io::Result<()> {
    if context.json {
        context.out.json(part)?;
    } else {
        let RetainedPart { day, kind, .. } = part;
        let text = format!(
            "{day}  {:<20}  {:>10} lines  {:>14} bytes  {}",
            kind.stem(),
            grouped(part.lines),
            grouped(part.bytes),
            part.reason.as_str()
        );
        row(&mut context.out, &text)?;
    }
    context.out.flush()
}

/// Continues while output can be written.
pub fn until_broken(shown: &io::Result<()>) -> ControlFlow<()> {
    match shown {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// The last line of a report.
pub fn removed_line(lines: u64, bytes: u64, verb: &str) -> String {
    if lines == 0 {
        return format!("nothing {verb}");
    }
    format!("{} {verb}, {} bytes", count(lines, "line"), grouped(bytes))
}
