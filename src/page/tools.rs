//! Tools: how often they are called, how often they fail, and how long they take.

use maud::{Markup, html};

use super::Site;
use super::chart::{bar, histogram};
use super::layout::card;
use super::params::{Params, href};
use crate::analytics::{AnalyticsQuery, ROWS_MAX, ToolRow};
use crate::error::Result;
use crate::human::{average, count, counted, duration, one_line, percent};
use crate::record::Day;

const CALLS: &str = "/ui/calls";
/// Number of tools in a ranking.
const RANKS: usize = 5;
/// Number of tools in the table.
const ROWS: usize = 30;
const NAME_CHARS: usize = 60;

fn report(site: &Site<'_>, since: Option<Day>, until: Option<Day>) -> Result<Vec<ToolRow>> {
    let query = AnalyticsQuery {
        since,
        until,
        limit: Some(ROWS_MAX),
        ..AnalyticsQuery::default()
    };
    Ok(site.analytics.tools(&query)?.rows)
}

/// The slowest tools of a period, and those that fail most often.
pub(super) fn rankings(site: &Site<'_>, since: Option<Day>, until: Option<Day>) -> Result<Markup> {
    let tools = report(site, since, until)?;
    let p95 = |it: &ToolRow| it.sums.latency_ms.p95.unwrap_or(0.0);
    let failures = |it: &ToolRow| it.sums.failure_rate.unwrap_or(0.0);
    let slowest = first_by(&tools, p95);
    let failing = first_by(&tools, failures);
    let most = slowest.first().map_or(0.0, |it| p95(it));
    let slow = ranking(
        &slowest,
        "p95",
        |it| average(p95(it)),
        |it| bar(p95(it), most),
    );
    let failed = ranking(
        &failing,
        "Failed",
        |it| percent(failures(it)),
        |it| bar(failures(it), 1.0),
    );
    Ok(html! {
        @if !slowest.is_empty() {
            div.cards data-part="tools" {
                (card("Slowest tools", &slow))
                @if !failing.is_empty() { (card("Tools that fail most often", &failed)) }
            }
        }
    })
}

/// The first few tools by a number, the greatest first, without those for which it is 0.
fn first_by(tools: &[ToolRow], of: impl Fn(&ToolRow) -> f64) -> Vec<&ToolRow> {
    let mut tools: Vec<&ToolRow> = tools.iter().filter(|it| of(it) > 0.0).collect();
    tools.sort_by(|a, b| of(b).total_cmp(&of(a)));
    tools.truncate(RANKS);
    tools
}

fn ranking(
    tools: &[&ToolRow],
    heading: &str,
    value: impl Fn(&ToolRow) -> String,
    shown: impl Fn(&ToolRow) -> Markup,
) -> Markup {
    html! {
        div.scroll {
            table {
                thead { tr { th scope="col" { "Tool" } th.num scope="col" { "Calls" } th.num scope="col" { (heading) } td.wide {} } }
                tbody {
                    @for it in tools {
                        tr {
                            th scope="row" { (name(it)) }
                            td.num { (count(it.sums.calls)) }
                            td.num { (value(it)) }
                            td.wide { (shown(it)) }
                        }
                    }
                }
            }
        }
    }
}

fn name(tool: &ToolRow) -> Markup {
    let name = &tool.tool_name;
    html! { a href=(href(CALLS, &[("tool", name)])) { (one_line(name, NAME_CHARS)) } }
}

/// The tools of a page of calls, with these filters.
pub(super) fn table(site: &Site<'_>, params: &Params) -> super::Part {
    let until = params.day("until")?.and_then(Day::next);
    let mut tools = report(site, params.day("since")?, until)?;
    if let Some(wanted) = params.get("tool") {
        tools.retain(|it| it.tool_name == wanted);
    }
    let others = tools.len().saturating_sub(ROWS);
    tools.truncate(ROWS);
    // All histograms have the same range.
    let has_calls = |nth: &usize| {
        let mut buckets = tools
            .iter()
            .map(|it| it.sums.latency_ms.histogram.get(*nth));
        buckets.any(|bucket| bucket.is_some_and(|bucket| bucket.calls > 0))
    };
    let buckets = tools
        .first()
        .map_or(0, |it| it.sums.latency_ms.histogram.len());
    let first = (0..buckets).find(has_calls).unwrap_or(0);
    let last = (0..buckets).rfind(has_calls).unwrap_or(0);
    Ok(html! {
        @if !tools.is_empty() {
            div.scroll data-part="tools" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Tool" }
                            th.num scope="col" { "Calls" }
                            th.num scope="col" { "Failed" }
                            th.num.wide scope="col" { "Running" }
                            th.num scope="col" { "Average" }
                            th.num scope="col" { "p95" }
                            th.num.wide scope="col" { "Maximum" }
                            th.wide scope="col" { "Latency" }
                        }
                    }
                    tbody {
                        @for it in &tools { (row(it, first, last)) }
                    }
                }
            }
            @if others > 0 { p.note { "And " (counted(others as u64, "more tool")) ", with fewer calls." } }
        }
    })
}

fn row(tool: &ToolRow, first: usize, last: usize) -> Markup {
    let (sums, latency) = (&tool.sums, &tool.sums.latency_ms);
    let ms = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), average);
    let failed = sums.failure_rate.filter(|_| sums.failed > 0);
    let buckets = latency.histogram.get(first..=last).unwrap_or_default();
    let shown = |ms: u64| duration(i64::try_from(ms).unwrap_or(i64::MAX));
    let buckets: Vec<(String, u64)> = buckets
        .iter()
        .map(|bucket| {
            let bound = bucket.up_to_ms.map(|ms| format!("up to {}", shown(ms)));
            (bound.unwrap_or_else(|| "more".to_owned()), bucket.calls)
        })
        .collect();
    html! {
        tr {
            th scope="row" { (name(tool)) }
            td.num { (count(sums.calls)) }
            td.num { (count(sums.failed)) @if let Some(rate) = failed { " (" (percent(rate)) ")" } }
            td.num.wide { (count(sums.running)) }
            td.num { (ms(latency.avg)) }
            td.num { (ms(latency.p95)) }
            td.num.wide { (latency.max.map_or_else(|| "–".to_owned(), shown)) }
            td.wide { (histogram("Latency", "calls", &buckets)) }
        }
    }
}
