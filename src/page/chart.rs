//! Small charts as SVG. Sizes and colours are in attributes and classes, since the page allows no
//! styles in its elements.

use maud::{Markup, html};

use crate::human::{float, short};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 150.0;
/// Height of the names below the columns, and of the maximum above them.
const AXIS: f64 = 18.0;
const TOP: f64 = 15.0;
/// Number of colours of the style sheet for series.
const COLOURS: usize = 8;

/// A column of a chart: its name, and a value for each series.
pub(super) struct Column {
    pub name: String,
    pub values: Vec<f64>,
}

/// How the numbers of a chart are written.
pub(super) type Written = fn(f64) -> String;

/// Stacked columns.
pub(super) fn columns(
    title: &str,
    written: Written,
    series: &[&str],
    columns: &[Column],
) -> Markup {
    let height = |column: &Column| column.values.iter().sum::<f64>();
    let max = columns.iter().map(height).fold(0.0, f64::max);
    if max <= 0.0 {
        return html! { p.empty { "No data in this period." } };
    }
    #[allow(clippy::cast_precision_loss)] // A few columns.
    let step = WIDTH / columns.len() as f64;
    let inner = HEIGHT - AXIS - TOP;
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (title) ", at most " (written(max)) } {
                @for line in [0.0, 0.5, 1.0] {
                    line.grid x1="0" x2=(WIDTH) y1=(fine(TOP + inner * line)) y2=(fine(TOP + inner * line)) {}
                }
                text.axis x="2" y="11" { (written(max)) }
                @for (nth, column) in columns.iter().enumerate() {
                    (stack(column, place(nth, step), step, inner / max, written, series))
                }
                @if let (Some(first), Some(last)) = (columns.first(), columns.last()) {
                    text.axis x="2" y=(HEIGHT - 4.0) { (first.name) }
                    @if columns.len() > 1 {
                        text.axis.end x=(WIDTH - 2.0) y=(HEIGHT - 4.0) { (last.name) }
                    }
                }
            }
            (legend(series))
        }
    }
}

fn stack(
    column: &Column,
    x: f64,
    step: f64,
    scale: f64,
    written: Written,
    series: &[&str],
) -> Markup {
    let mut y = HEIGHT - AXIS;
    let named = column.values.iter().enumerate();
    let parts: Vec<_> = named
        .filter(|(_, value)| **value > 0.0)
        .map(|(nth, value)| {
            let height = value * scale;
            y -= height;
            (nth, *value, y, height)
        })
        .collect();
    html! {
        g {
            title {
                (column.name)
                @for (nth, value, ..) in parts.iter().rev() {
                    "\n" (series.get(*nth).unwrap_or(&"")) " " (written(*value))
                }
            }
            // The whole column shows the title.
            rect.hover x=(fine(x)) y="0" width=(fine(step)) height=(HEIGHT - AXIS) {}
            @for (nth, _, y, height) in &parts {
                rect class=(colour(*nth)) x=(fine(x + step * 0.1)) y=(fine(*y)) width=(fine(step * 0.8)) height=(fine(height.max(0.5))) {}
            }
        }
    }
}

fn legend(series: &[&str]) -> Markup {
    html! {
        @if series.len() > 1 {
            figcaption.legend {
                @for (nth, name) in series.iter().enumerate() {
                    span {
                        svg.key viewBox="0 0 10 10" aria-hidden="true" { rect class=(colour(nth)) width="10" height="10" rx="2" {} }
                        (name)
                    }
                }
            }
        }
    }
}

pub(super) fn colour(nth: usize) -> String {
    format!("c{}", nth % COLOURS)
}

/// A bar for a value in a row of a table.
pub(super) fn bar(value: f64, max: f64) -> Markup {
    let share = if max > 0.0 {
        (value / max).clamp(0.0, 1.0)
    } else {
        0.0
    };
    html! {
        svg.bar viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
            rect.track width="100" height="8" rx="2" {}
            rect.c0 width=(fine(share * 100.0)) height="8" rx="2" {}
        }
    }
}

/// A number of tokens.
pub(super) fn tokens(number: f64) -> String {
    format!("{} tokens", short(number))
}

/// A small histogram for a row of a table: a column for each bucket, with its name and count.
pub(super) fn histogram(title: &str, unit: &str, buckets: &[(String, u64)]) -> Markup {
    const COLUMN: f64 = 6.0;
    const COLUMN_HEIGHT: f64 = 24.0;
    let max = buckets.iter().map(|(_, count)| *count).max().unwrap_or(0);
    let width = place(buckets.len(), COLUMN);
    let height = |count: u64| float(count) / float(max) * COLUMN_HEIGHT;
    html! {
        @if max > 0 {
            svg.histogram viewBox={ "0 0 " (width) " " (COLUMN_HEIGHT) } role="img" aria-label={ (title) ", at most " (max) " " (unit) " in a bucket" } {
                @for (nth, (name, count)) in buckets.iter().enumerate() {
                    g {
                        title { (name) ": " (count) " " (unit) }
                        rect.hover x=(place(nth, COLUMN)) y="0" width=(COLUMN) height=(COLUMN_HEIGHT) {}
                        @if *count > 0 {
                            rect.c0 x=(place(nth, COLUMN) + 0.5) y=(fine(COLUMN_HEIGHT - height(*count).max(1.0))) width=(COLUMN - 1.0) height=(fine(height(*count).max(1.0))) {}
                        }
                    }
                }
            }
        }
    }
}

/// A row of a heatmap: its name, and the number of each of 24 hours.
pub(super) struct Hours {
    pub name: String,
    pub counts: [u64; 24],
}

/// Numbers by hour and day, as shades.
pub(super) fn heatmap(title: &str, unit: &str, rows: &[Hours]) -> Markup {
    const CELL: f64 = 22.0;
    const NAMES: f64 = 84.0;
    let max = rows.iter().flat_map(|row| row.counts).max().unwrap_or(0);
    if max == 0 {
        return html! { p.empty { "No data in this period." } };
    }
    let (width, height) = (NAMES + 24.0 * CELL, place(rows.len(), 16.0) + 16.0);
    html! {
        figure.chart {
            svg viewBox={ "0 0 " (width) " " (height) } role="img" aria-label={ (title) ", at most " (max) " " (unit) " in an hour" } {
                @for (nth, row) in rows.iter().enumerate() {
                    @let y = place(nth, 16.0);
                    text.axis x="2" y=(y + 12.0) { (row.name) }
                    @for (hour, count) in row.counts.iter().enumerate() {
                        rect class={ "h" (shade(*count, max)) } x=(NAMES + place(hour, CELL)) y=(y + 1.0) width=(CELL - 2.0) height="14" rx="2" {
                            title { (row.name) " " (hour) ":00, " (count) " " (unit) }
                        }
                    }
                }
                @for hour in [0, 6, 12, 18] {
                    text.axis x=(NAMES + place(hour, CELL)) y=(height - 4.0) { (hour) ":00" }
                }
            }
        }
    }
}

/// The shade of a number, from 0 to 5.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]
pub(super) fn shade(count: u64, max: u64) -> u8 {
    if count == 0 || max == 0 {
        return 0;
    }
    // Small numbers are told apart, too.
    let share = (count as f64).ln_1p() / (max as f64).ln_1p();
    (share * 5.0).ceil().clamp(1.0, 5.0) as u8
}

#[allow(clippy::cast_precision_loss)] // Positions in a chart.
fn place(nth: usize, step: f64) -> f64 {
    nth as f64 * step
}

/// A coordinate with two digits, which is finer than any screen.
pub(super) fn fine(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_its_values_and_escapes_names() {
        let column = |name: &str, values: [f64; 2]| Column {
            name: name.into(),
            values: values.into(),
        };
        let columns_ = [column("<a>", [1.0, 2.0]), column("b", [0.0, 6.0])];
        let html = columns("Tokens", tokens, &["in", "o<ut"], &columns_).into_string();
        assert!(
            html.contains("&lt;a&gt;\no&lt;ut 2 tokens\nin 1 tokens"),
            "{html}"
        );
        assert_eq!(html.matches("<rect").count(), 2 + 3 + 2, "{html}");
        let empty = columns("Tokens", tokens, &["in"], &[]).into_string();
        assert!(empty.contains("No data"));
    }

    #[test]
    fn shades_tell_none_few_and_many_apart() {
        let shades = [0, 1, 10, 100, 1_000].map(|count| shade(count, 1_000));
        assert_eq!(shades, [0, 1, 2, 4, 5]);
        assert_eq!(shade(5, 0), 0);
    }
}
