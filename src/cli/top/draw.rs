//! The lines of `decklog top`. The terminal and `--once` show the same ones.

use decklog::human::{count, counted, dollars, duration, float, percent, short};

use super::watch::{BUSY_MINUTES, View};
use crate::cli::escape::{clipped, one_line, padded, width};
use crate::cli::output::{Colour, Span};
use crate::cli::time;

type Line = Vec<Span<'static>>;

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
pub fn lines(view: Option<&View>, now: i64, columns: usize, rows: Option<usize>) -> Vec<Line> {
    let Some(view) = view else {
        return vec![vec![plain("Reading the log …")]];
    };
    let mut lines = head(view, now, columns);
    let lists = [
        list("Running calls", view.running.len(), running(view, now)),
        list("Errors, last 24 hours", view.errors.len(), errors(view)),
        list(
            &format!("Busiest conversations, last {BUSY_MINUTES} minutes"),
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
    for (nth, list) in lists.iter().enumerate() {
        // The lists after this one also need some.
        let later = lists
            .iter()
            .skip(nth + 1)
            .map(|list| list.len().min(LIST_MIN));
        let mine = left.saturating_sub(later.sum()).min(list.len());
        left -= mine;
        lines.push(Vec::new());
        lines.extend(
            list.iter()
                .take(mine)
                .map(|line| line.iter().map(Span::again).collect()),
        );
    }
    lines.truncate(rows.saturating_sub(1));
    lines.resize_with(rows.saturating_sub(1), Vec::new);
    lines.push(vec![coloured("q quit", Colour::Dim)]);
    lines
}

/// The figures above the lists.
fn head(view: &View, now: i64, columns: usize) -> Vec<Line> {
    let clock = time::formatted(now, "%H:%M:%S");
    let name = one_line(&format!("decklog top  {}", view.store)).into_owned();
    let space = columns
        .min(width(&name) + 12)
        .saturating_sub(clock.len() + 2);
    let name = clipped(&name, space);
    let title = vec![
        coloured(padded(&name, space), Colour::Green),
        coloured(format!("  {clock}"), Colour::Dim),
    ];
    let day = &view.report.today;
    let usage = &day.usage;
    let rates = format!(
        "{} records/s  {} tokens/min",
        short((view.records_per_second * 10.0).round() / 10.0),
        short(float(view.tokens_per_minute))
    );
    let errors = match day.error_rate {
        Some(rate) if day.errors > 0 => {
            let text = format!("  {} ({})", counted(day.errors, "error"), percent(rate));
            coloured(text, Colour::Red)
        }
        _ => plain("  no errors"),
    };
    let cost = usage
        .cost_usd
        .map_or(String::new(), |cost| format!("  {}", dollars(cost)));
    let cost = coloured(cost, Colour::Yellow);
    let number = |number: u64| short(float(number));
    vec![
        title,
        vec![plain(rates)],
        vec![coloured(
            sparkline(&view.records, columns.min(view.records.len())),
            Colour::Green,
        )],
        vec![
            coloured("today ", Colour::Dim),
            plain(format!(
                "{}  {}",
                counted(day.conversations, "conversation"),
                counted(usage.messages, "message")
            )),
            cost,
            errors,
        ],
        vec![
            coloured("tokens ", Colour::Dim),
            plain(format!(
                "{} in, {} cache read, {} cache write, {} out",
                number(usage.tokens_input),
                number(usage.tokens_cache_read),
                number(usage.tokens_cache_write),
                number(usage.tokens_out)
            )),
        ],
    ]
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

fn errors(view: &View) -> Vec<Line> {
    let row = |failed: &super::watch::Failed| {
        vec![
            plain(format!("{:>9}", time::ago(failed.at))),
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
    let most = numbers.iter().max().copied().unwrap_or(0).max(1);
    let latest = numbers.iter().skip(numbers.len().saturating_sub(columns));
    let height = |number: &u64| {
        let height = number.saturating_mul(8).div_ceil(most).min(8) as usize;
        HEIGHTS.get(height).copied().unwrap_or(' ')
    };
    latest.map(height).collect()
}
