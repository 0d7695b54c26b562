//! The lines of `decklog top`. The terminal and `--once` show the same ones.

use decklog::human::{count, counted, dollars, duration, float, percent, short};

use decklog::Timestamp;

use super::watch::{BUSY_MINUTES, View};
use crate::cli::escape::{clipped, one_line, padded, width};
use crate::cli::output::{Colour, Span};
use crate::cli::time;

type Line = Vec<Span<'static>>;

/// The time of a drawing.
#[derive(Debug)]
pub struct Now {
    /// In epoch milliseconds.
    pub at: i64,
    /// As it is shown.
    pub clock: String,
}

impl Now {
    pub fn new() -> Now {
        let at = Timestamp::now().at();
        Now {
            at,
            clock: time::formatted(at, "%H:%M:%S"),
        }
    }
}

/// Lines of a list that has more than fit, at least.
const LIST_MIN: usize = 3;
/// Columns of the name of a tool or model.
const NAME_COLUMNS: usize = 16;

fn plain(text: impl Into<String>) -> Span<'static> {
    Span::new(text.into(), None)
}

fn coloured(text: impl Into<String>, colour: Colour) -> Span<'static> {
    Span::new(text.into(), Some(colour))
}

/// The lines for a screen of this size; without `rows`, all of them. No `view`: nothing was read yet.
pub fn lines(view: Option<&View>, now: &Now, columns: usize, rows: Option<usize>) -> Vec<Line> {
    let Some(view) = view else {
        return vec![vec![plain("Reading the log …")]];
    };
    let mut lines = head(view, &now.clock, columns);
    let lists = [
        list("Running calls", view.running.len(), running(view, now.at)),
        list(
            "Errors, last 24 hours",
            view.errors.len(),
            errors(view, now.at),
        ),
        list(
            &format!("Busiest, last {BUSY_MINUTES} minutes"),
            view.busiest.len(),
            busiest(view),
        ),
    ];
    let Some(rows) = rows else {
        for list in lists {
            lines.push(Vec::new());
            lines.extend(list);
        }
        return lines;
    };
    // A row for the keys, and an empty one before each list.
    let mut left = rows.saturating_sub(lines.len() + 1 + lists.len());
    let needs = lists.each_ref().map(Vec::len);
    for (nth, list) in lists.into_iter().enumerate() {
        // The lists after this one also need some.
        let later = needs.iter().skip(nth + 1).map(|need| (*need).min(LIST_MIN));
        let mine = left.saturating_sub(later.sum()).min(list.len());
        left -= mine;
        lines.push(Vec::new());
        lines.extend(list.into_iter().take(mine));
    }
    lines.truncate(rows.saturating_sub(1));
    lines.resize_with(rows.saturating_sub(1), Vec::new);
    lines.push(vec![coloured("q quit", Colour::Dim)]);
    lines
}

/// The figures above the lists.
fn head(view: &View, clock: &str, columns: usize) -> Vec<Line> {
    let name = one_line(&format!("decklog top  {}", view.store)).into_owned();
    let space = if columns == usize::MAX {
        width(&name)
    } else {
        columns.saturating_sub(clock.len() + 2)
    };
    let rates = format!(
        "{} records/s  {} tokens/min",
        short((view.records_per_second * 10.0).round() / 10.0),
        short(float(view.tokens_per_minute))
    );
    let mut lines = vec![
        vec![
            coloured(padded(&clipped(&name, space), space), Colour::Green),
            coloured(format!("  {clock}"), Colour::Dim),
        ],
        vec![plain(rates)],
        vec![coloured(sparkline(&view.records, columns), Colour::Cyan)],
    ];
    let day = &view.report.today;
    let usage = &day.usage;
    let number = |number: u64| short(float(number));
    let cost = usage.cost_usd.map(dollars);
    let cost = cost.map_or_else(Span::default, |cost| coloured(cost, Colour::Yellow));
    let errors = match day.error_rate {
        Some(rate) if day.errors > 0 => {
            let text = format!("{} ({})", counted(day.errors, "error"), percent(rate));
            coloured(text, Colour::Red)
        }
        _ => plain("no errors"),
    };
    let parts = [
        coloured("today", Colour::Dim),
        plain(counted(day.conversations, "conversation")),
        plain(counted(usage.messages, "message")),
        cost,
        errors,
    ];
    lines.extend(wrapped(parts, columns));
    let parts = [
        coloured("tokens", Colour::Dim),
        plain(format!("{} in", number(usage.tokens_input))),
        plain(format!("{} cache read", number(usage.tokens_cache_read))),
        plain(format!("{} cache write", number(usage.tokens_cache_write))),
        plain(format!("{} out", number(usage.tokens_out))),
    ];
    lines.extend(wrapped(parts, columns));
    lines
}

/// The parts that are not empty, with two spaces between them, on as many lines as they need. The
/// lines after the first are indented.
fn wrapped<const N: usize>(parts: [Span<'static>; N], columns: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let mut used: usize = 0;
    for part in parts {
        let needed = width(part.text());
        if needed == 0 {
            continue;
        }
        if lines.is_empty() || used.saturating_add(2 + needed) > columns {
            let indent = if lines.is_empty() { "" } else { "  " };
            lines.push(vec![plain(indent)]);
            used = indent.len();
        } else if let Some(line) = lines.last_mut() {
            line.push(plain("  "));
            used += 2;
        }
        used += needed;
        if let Some(line) = lines.last_mut() {
            line.push(part);
        }
    }
    lines
}

/// The heading of a list, and its rows.
fn list(heading: &str, rows: usize, lines: Vec<Line>) -> Vec<Line> {
    let heading = format!("{heading} ({})", count(rows as u64));
    let mut all = vec![vec![coloured(heading, Colour::Dim)]];
    all.extend(lines);
    all
}

/// A name in a column of its own.
fn name(text: &str) -> String {
    padded(&clipped(&one_line(text), NAME_COLUMNS), NAME_COLUMNS)
}

fn running(view: &View, now: i64) -> Vec<Line> {
    let row = |call: &super::watch::Running| {
        let elapsed = duration(now.saturating_sub(call.started_at).max(0));
        vec![
            coloured(format!("{elapsed:>9}"), Colour::Yellow),
            plain(format!("  {}", name(&call.tool_name))),
            coloured(format!("  {}", one_line(&call.arguments)), Colour::Dim),
        ]
    };
    view.running.iter().map(row).collect()
}

fn errors(view: &View, now: i64) -> Vec<Line> {
    let row = |failed: &super::watch::Failed| {
        vec![
            plain(format!("{:>9}", time::ago(failed.at, now))),
            plain(format!("  {}", name(&failed.what))),
            coloured(format!("  {}", one_line(&failed.error)), Colour::Red),
        ]
    };
    view.errors.iter().map(row).collect()
}

fn busiest(view: &View) -> Vec<Line> {
    let row = |busy: &super::watch::Busy| {
        let messages = counted(busy.messages, "message");
        let tokens = format!("{} tokens", short(float(busy.tokens)));
        vec![plain(format!(
            "{messages:>14}  {tokens:>14}  {}",
            one_line(&busy.title)
        ))]
    };
    view.busiest.iter().map(row).collect()
}

/// Columns of eight heights for the latest numbers.
fn sparkline(numbers: &[u64], columns: usize) -> String {
    const HEIGHTS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = float(numbers.iter().max().copied().unwrap_or(0).max(1));
    let latest = numbers.iter().skip(numbers.len().saturating_sub(columns));
    let height = |number: &u64| {
        #[allow(clippy::cast_sign_loss)] // It is between 0 and 8.
        let height = (float(*number) / most * 8.0).ceil() as usize;
        HEIGHTS.get(height).copied().unwrap_or(' ')
    };
    latest.map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_scaled_to_its_maximum() {
        assert_eq!(sparkline(&[0, 1, 4, 8], 80), " ▁▄█");
        assert_eq!(sparkline(&[9, 0, 1, 1000], 3), " ▁█");
        assert_eq!(sparkline(&[u64::MAX, 1], 2), "█▁");
        assert_eq!(sparkline(&[], 2), "");
    }
}
