//! Shared by the commands that remove lines: they print each part, and the totals.

use std::io;
use std::ops::ControlFlow;

use serde::Serialize;

use super::context::Context;
use super::exit::Failure;
use super::show::row;
use decklog::human::{count, counted};

/// A part that was removed, or would be.
pub trait Part: Serialize {
    /// The part, its lines and bytes, and a remark.
    fn columns(&self) -> (String, u64, u64, String);
}

/// Prints the parts that `remove` reports, and the totals. `verb` is for lines that are gone.
pub fn print<P: Part, T>(
    context: &mut Context,
    dry_run: bool,
    verb: &str,
    remove: impl FnOnce(&mut dyn FnMut(&P) -> ControlFlow<()>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (mut lines, mut bytes) = (0, 0);
    let mut shown = Ok(());
    let removed = remove(&mut |part| {
        let (_, part_lines, part_bytes, _) = part.columns();
        lines += part_lines;
        bytes += part_bytes;
        shown = show(context, part);
        // Continues while output can be written.
        match shown {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    shown?;
    let removed = removed?;
    if !context.json {
        let verb = if dry_run { "would go" } else { verb };
        context.out.line(&match lines {
            0 => format!("nothing {verb}"),
            _ => format!("{} {verb}, {} bytes", counted(lines, "line"), count(bytes)),
        })?;
    }
    Ok(removed)
}

fn show(context: &mut Context, part: &impl Part) -> io::Result<()> {
    if context.json {
        context.out.json(part)?;
    } else {
        let (what, lines, bytes, remark) = part.columns();
        let (lines, bytes) = (count(lines), count(bytes));
        let text = format!("{what}  {lines:>10} lines  {bytes:>14} bytes  {remark}");
        row(&mut context.out, &text)?;
    }
    context.out.flush()
}
