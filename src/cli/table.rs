//! Tables: aligned columns that fit the terminal, with a bar for one figure and a row of totals; or
//! the same as CSV.

use std::borrow::Cow;
use std::io;

use decklog::human::{average, count, dollars, float, percent, short};
use decklog::uuid::Uuid;

use super::escape::{clipped, one_line, padded, width};
use super::export::csv;
use super::output::{Colour, Output, Span};
use super::show::short_id;

/// Maximum columns of a text.
const TEXT_MAX: usize = 40;
/// Columns to which a text is cut before numbers are left out.
const TEXT_FAIR: usize = 20;
/// Minimum columns of a text that has to be cut.
const TEXT_MIN: usize = 12;
/// The same without a bar.
const TEXT_LEAST: usize = 5;
/// Columns of a bar, at least and at most.
const BAR: (usize, usize) = (6, 20);
/// Columns between two cells.
const GAP: usize = 2;

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// It is not escaped yet.
    pub heading: Cow<'static, str>,
    /// Its name in CSV.
    pub key: &'static str,
    /// Texts are to the left, numbers to the right.
    pub is_text: bool,
    /// On a narrow terminal, the columns with the greatest rank are left out first. Those with rank
    /// 0 always stay.
    pub rank: u8,
}

impl Column {
    pub const fn text(heading: &'static str, key: &'static str) -> Column {
        Column {
            heading: Cow::Borrowed(heading),
            key,
            is_text: true,
            rank: 0,
        }
    }

    pub const fn number(heading: &'static str, key: &'static str, rank: u8) -> Column {
        Column {
            heading: Cow::Borrowed(heading),
            key,
            is_text: false,
            rank,
        }
    }
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A text that is not escaped yet.
    Text(Option<String>),
    /// The id of a conversation; people see its start.
    Id(Uuid),
    Count(u64),
    /// Milliseconds.
    Duration(Option<f64>),
    /// A fraction.
    Share(Option<f64>),
    /// US dollars.
    Cost(Option<f64>),
}

impl Cell {
    /// The cell as people read it. `is_short`: large numbers are abbreviated.
    fn shown(&self, is_short: bool) -> Cow<'_, str> {
        const SHORT_FROM: u64 = 10_000;
        let none = || "-".to_owned();
        Cow::Owned(match self {
            Cell::Text(text) => return one_line(text.as_deref().unwrap_or("-")),
            Cell::Id(id) => short_id(*id),
            Cell::Count(number) if is_short && *number >= SHORT_FROM => short(float(*number)),
            Cell::Count(number) => count(*number),
            Cell::Duration(ms) => ms.map_or_else(none, average),
            Cell::Share(part) => part.map_or_else(none, percent),
            Cell::Cost(cost) => cost.map_or_else(none, dollars),
        })
    }

    /// The cell in CSV: a plain number, or a text.
    fn plain(&self, style: csv::Style) -> Cow<'_, str> {
        Cow::Owned(match self {
            Cell::Text(text) => return style.text(text.as_deref().unwrap_or_default().into()),
            Cell::Id(id) => id.to_string(),
            Cell::Count(number) => number.to_string(),
            Cell::Duration(number) | Cell::Share(number) | Cell::Cost(number) => {
                number.map_or(String::new(), |number| number.to_string())
            }
        })
    }

    /// The length of its bar.
    fn size(&self) -> f64 {
        match self {
            Cell::Text(_) | Cell::Id(_) => 0.0,
            Cell::Count(number) => float(*number),
            Cell::Duration(number) | Cell::Share(number) | Cell::Cost(number) => {
                number.unwrap_or(0.0)
            }
        }
    }
}

/// A table. Every row has a cell for each column.
#[derive(Debug, Default)]
pub struct Table {
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// The totals of the columns that are not texts.
    pub total: Option<Vec<Cell>>,
    /// The index of the column that has a bar beside it.
    pub bar: Option<usize>,
}

/// How a table is laid out.
struct Layout {
    /// The width of each column that is shown, and its index.
    shown: Vec<(usize, usize)>,
    is_short: bool,
    /// The width of the bar; 0 for none.
    bar: usize,
}

impl Table {
    /// Prints the table, not wider than the terminal.
    pub fn print(&self, out: &mut Output) -> io::Result<()> {
        let layout = self.layout(out.columns());
        let heading = self.columns.iter().map(|column| one_line(&column.heading));
        let heading: Vec<Cow<'_, str>> = heading.collect();
        // The bar is named, unless it stands beside its number.
        let last = layout.shown.last().map(|(_, place)| *place);
        let bar_of = self.bar.filter(|place| Some(*place) != last);
        let bar_of = bar_of.map_or("", |place| &self.columns[place].heading);
        self.line(out, &layout, &heading, Some(Colour::Dim), bar_of)?;
        let most = self.rows.iter().map(|row| self.size(row));
        let most = most.fold(0.0, f64::max);
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(|it| it.shown(layout.is_short)).collect();
            let bar = bar(self.size(row), most, layout.bar);
            self.line(out, &layout, &cells, None, &bar)?;
        }
        if let Some(total) = &self.total {
            let cells = self.with_total(total, layout.is_short);
            self.line(out, &layout, &cells, None, "")?;
        }
        Ok(())
    }

    /// Prints the rows as CSV (RFC 4180, but lines end with LF), after a line with the names of the
    /// columns. The total is left out: a program can compute it, and must not count it.
    pub fn csv(&self, out: &mut Output, style: csv::Style) -> io::Result<()> {
        csv_line(out, &style.heading(self.columns.iter().map(|it| it.key))?)?;
        let mut rows = self.rows.iter();
        rows.try_for_each(|row| {
            let cells = row.iter().map(|cell| cell.plain(style));
            csv_line(out, &csv::line(cells)?)
        })
    }

    fn size(&self, row: &[Cell]) -> f64 {
        let cell = self.bar.and_then(|place| row.get(place));
        cell.map_or(0.0, Cell::size)
    }

    /// The cells of the row of totals: a word, and the numbers.
    fn with_total<'t>(&self, total: &'t [Cell], is_short: bool) -> Vec<Cow<'t, str>> {
        let texts = self.columns.iter().take_while(|column| column.is_text);
        let texts = texts.enumerate();
        let texts = texts.map(|(nth, _)| Cow::Borrowed(if nth == 0 { "total" } else { "" }));
        texts
            .chain(total.iter().map(|cell| cell.shown(is_short)))
            .collect()
    }

    /// The width of each column, as wide as its widest cell.
    fn widths(&self, is_short: bool) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|it| width(&one_line(&it.heading)))
            .collect();
        let rows = self.rows.iter();
        let rows = rows.map(|row| row.iter().map(|it| it.shown(is_short)).collect());
        let total = self.total.iter();
        let total = total.map(|total| self.with_total(total, is_short));
        for row in rows.chain(total) {
            let row: Vec<Cow<'_, str>> = row;
            for (nth, (widest, cell)) in widths.iter_mut().zip(row).enumerate() {
                // A text at the end of the line may be longer.
                let is_inside = nth + 1 < self.columns.len() && self.columns[nth].is_text;
                let columns_max = if is_inside { TEXT_MAX } else { usize::MAX };
                *widest = width(&cell).min(columns_max).max(*widest);
            }
        }
        widths
    }

    /// A layout within `columns`: first large numbers are abbreviated, then texts are cut, but not
    /// below `TEXT_FAIR`; then columns are left out, then texts are cut further, and at last the bar
    /// is left out.
    fn layout(&self, columns: usize) -> Layout {
        let mut least = if self.bar.is_some() { BAR.0 + GAP } else { 0 };
        let needed = |shown: &[(usize, usize)], least: usize| {
            let widths: usize = shown.iter().map(|(width, _)| width).sum();
            widths + GAP * shown.len().saturating_sub(1) + least
        };
        let all = |is_short| -> Vec<(usize, usize)> {
            let widths = self.widths(is_short).into_iter().enumerate();
            widths.map(|(place, width)| (width, place)).collect()
        };
        let mut shown = all(false);
        let is_short = needed(&shown, least) > columns;
        if is_short {
            shown = all(true);
        }
        let rank = |(_, place): &(usize, usize)| match self.bar {
            Some(bar) if bar == *place => 0,
            _ => self.columns[*place].rank,
        };
        for text_min in [TEXT_FAIR, TEXT_MIN, TEXT_LEAST] {
            if text_min == TEXT_LEAST && needed(&shown, least) > columns {
                least = 0;
                let places: Vec<usize> = shown.iter().map(|(_, place)| *place).collect();
                shown = all(true);
                shown.retain(|(_, place)| places.contains(place));
            }
            while needed(&shown, least) > columns {
                let texts = shown.iter_mut();
                let texts = texts.filter(|(_, place)| self.columns[*place].is_text);
                let widest = texts.max_by_key(|(width, _)| *width);
                if let Some((width, _)) = widest.filter(|(width, _)| *width > text_min) {
                    *width -= 1;
                    continue;
                }
                let greatest = shown.iter().map(rank).max().unwrap_or(0);
                let place = shown.iter().rposition(|column| rank(column) == greatest);
                let Some(place) = place.filter(|_| greatest > 0) else {
                    break;
                };
                shown.remove(place);
            }
        }
        let left = columns
            .saturating_add(least)
            .saturating_sub(needed(&shown, least) + GAP);
        Layout {
            // What does not fit even now is cut at the terminal's width.
            bar: if left < BAR.0 || least == 0 {
                0
            } else {
                left.min(BAR.1)
            },
            shown,
            is_short,
        }
    }

    fn line(
        &self,
        out: &mut Output,
        layout: &Layout,
        cells: &[Cow<'_, str>],
        colour: Option<Colour>,
        bar: &str,
    ) -> io::Result<()> {
        let mut spans = Vec::new();
        for (nth, (columns, place)) in layout.shown.iter().enumerate() {
            let gap = if nth == 0 { "" } else { "  " };
            let cell = clipped(cells.get(*place).map_or("", |cell| cell), *columns);
            // No spaces at the end of a line.
            let is_last = bar.is_empty() && nth + 1 == layout.shown.len();
            let text = if !self.columns[*place].is_text {
                let before = columns.saturating_sub(width(&cell));
                format!("{}{cell}", " ".repeat(before))
            } else if is_last {
                cell.into_owned()
            } else {
                padded(&cell, *columns)
            };
            spans.push(Span::new(format!("{gap}{text}"), colour));
        }
        if layout.bar > 0 && !bar.is_empty() {
            let colour = colour.or(Some(Colour::Green));
            spans.push(Span::new(format!("  {bar}"), colour));
        }
        out.spans(&spans)
    }
}

/// A line of CSV: byte for byte, unless a terminal shows it.
fn csv_line(out: &mut Output, text: &str) -> io::Result<()> {
    if out.is_terminal() {
        return out.line(&one_line(text));
    }
    out.line(text)
}

/// A bar for a part of the greatest value, in eighths of a column. Anything above 0 is seen.
fn bar(value: f64, most: f64, columns: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if value.is_nan() || value <= 0.0 || most <= 0.0 || columns == 0 {
        return String::new();
    }
    #[allow(clippy::cast_sign_loss)] // Neither is negative.
    let eighths = (value / most * float(columns as u64) * 8.0).round() as usize;
    let eighths = eighths.clamp(1, columns * 8);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |name: &str, calls, ms| {
            vec![
                Cell::Text(Some(name.to_owned())),
                Cell::Count(calls),
                Cell::Duration(ms),
            ]
        };
        Table {
            columns: vec![
                Column::text("NAME", "name"),
                Column::number("CALLS", "calls", 1),
                Column::number("AVG", "avg_ms", 2),
            ],
            rows: vec![
                row("日本語の名前", 1_234_567, Some(271_000.0)),
                row(
                    "a \u{1b}[31m, \"quoted\" and much longer than the column",
                    7,
                    None,
                ),
            ],
            total: Some(vec![
                Cell::Count(1_234_574),
                Cell::Duration(Some(271_000.0)),
            ]),
            bar: Some(1),
        }
    }

    /// The widths of the columns and of the bar.
    fn widths(columns: usize) -> Vec<usize> {
        let layout = table().layout(columns);
        let widths = layout.shown.iter().map(|(width, _)| *width);
        widths.chain([layout.bar]).collect()
    }

    #[test]
    fn a_table_gives_up_what_matters_least() {
        // All of it; the longest name is cut.
        assert_eq!(widths(usize::MAX), [40, 9, 8, 20]);
        assert_eq!(widths(83), [40, 9, 8, 20]);
        assert_eq!(widths(75), [40, 9, 8, 12]);
        // Abbreviated numbers, then a shorter name, no average, and an even shorter name.
        assert_eq!(widths(68), [40, 5, 8, 9]);
        assert_eq!(widths(60), [35, 5, 8, 6]);
        assert_eq!(widths(45), [20, 5, 8, 6]);
        assert_eq!(widths(40), [20, 5, 11]);
        assert_eq!(widths(30), [15, 5, 6]);
        assert_eq!(widths(26), [19, 5, 0]);
        assert_eq!(widths(24), [17, 5, 0]);
        assert_eq!(widths(16), [9, 5, 0]);
        assert_eq!(widths(10), [5, 5, 0]);
    }

    #[test]
    fn cells_of_csv_are_plain() {
        let plain = |cell: Cell| cell.plain(csv::Style::default()).into_owned();
        assert_eq!(plain(Cell::Count(1_234_567)), "1234567");
        assert_eq!(plain(Cell::Cost(Some(0.5))), "0.5");
        assert_eq!(plain(Cell::Duration(None)), "");
        for text in ["a,b", "=1+1"] {
            assert_eq!(plain(Cell::Text(Some(text.to_owned()))), text);
        }
    }

    #[test]
    fn bars_are_in_eighths() {
        assert_eq!(bar(0.0, 8.0, 4), "");
        assert_eq!(bar(0.001, 8.0, 4), "▏");
        assert_eq!(bar(3.0, 8.0, 4), "█▌");
        assert_eq!(bar(8.0, 8.0, 4), "████");
        assert_eq!(bar(f64::NAN, 8.0, 4), "");
        assert_eq!(bar(1.0, 0.0, 4), "");
        assert_eq!(bar(1.0, 1.0, 0), "");
    }
}
