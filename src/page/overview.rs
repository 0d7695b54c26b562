//! The overview: today, charts of a period, and the latest conversations.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::chart::{self, Column, Hours, Written, columns, heatmap};
use super::conversations::table;
use super::layout::{Page, card, choice, figure, filters};
use super::params::{self, Invalid, Params};
use super::text::time;
use super::tools::rankings;
use super::{Answer, Reported, Site};
use crate::analytics::{
    AnalyticsQuery, Bucket, DayFigures, Dimension, LatencyRow, UsageReport, UsageRow,
};
use crate::collections::{ConversationQuery, MessageQuery, Order};
use crate::error::Result;
use crate::human::{average, bytes, count, dollars, float, percent, short};
use crate::record::{Day, Kind, now};

const CONVERSATIONS: usize = 10;
/// Number of conversations of a report.
const REPORTED_CONVERSATIONS: usize = 1_000;
/// The name for messages without a model.
const NO_MODEL: &str = "no model";
/// Number of models with a colour of their own.
const MODELS: usize = 6;
/// Number of days of the heatmap.
const HEAT_DAYS: u32 = 14;
/// Number of days of the default period.
const DAYS: u32 = 30;
/// Longer periods are shown by week.
const DAILY_MAX: usize = 92;

/// The days that the charts show.
struct Period {
    since: Option<Day>,
    /// The day after the last one.
    until: Option<Day>,
    bucket: Bucket,
}

impl Period {
    fn of(params: &Params) -> Result<Period, super::Refusal> {
        let today = Day::of(now())?;
        let back = |days: u32| Some(today.minus(days.saturating_sub(1)));
        let (since, until) = match (params.day("since")?, params.day("until")?) {
            (None, None) => match params.get("range") {
                None => (back(DAYS), None),
                Some("all") => (None, None),
                Some(range) => {
                    let days = range.strip_suffix('d').and_then(|days| days.parse().ok());
                    let invalid = Invalid {
                        name: "range",
                        reason: format!("{range:?} is not a period, such as 7d or all"),
                    };
                    (back(days.ok_or(invalid)?), None)
                }
            },
            (since, until) => (since, until.and_then(Day::next)),
        };
        let length = since.map(|since| days_between(since, until.unwrap_or(today)));
        let is_short = length.is_some_and(|length| length <= DAILY_MAX);
        let bucket = if is_short { Bucket::Day } else { Bucket::Week };
        Ok(Period {
            since,
            until,
            bucket,
        })
    }

    fn query(&self, group: Vec<Dimension>) -> AnalyticsQuery {
        AnalyticsQuery {
            since: self.since,
            until: self.until,
            group: Some(group),
            bucket: Some(self.bucket),
            ..AnalyticsQuery::default()
        }
    }
}

fn days_between(since: Day, until: Day) -> usize {
    let ms = until.bounds_ms().0.saturating_sub(since.bounds_ms().0);
    usize::try_from(ms / 86_400_000).unwrap_or(0)
}

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let period = Period::of(params)?;
    let conversations = ConversationQuery {
        limit: CONVERSATIONS,
        ..ConversationQuery::default()
    };
    let conversations = site.store.conversations(&conversations)?.items;
    let usage = usage(site, &period)?;
    let latest = latest_day(site)?;
    let main = html! {
        h1 { "Overview" }
        (today(site)?)
        h2 { "Over time" }
        (choice("Period", params, "/", "range", &[
            (Some("1d"), "today"), (Some("7d"), "7 days"), (None, "30 days"), (Some("90d"), "90 days"), (Some("365d"), "1 year"), (Some("all"), "all"),
        ]))
        (filters(params, "/", &[("since", "date", "From day (UTC)"), ("until", "date", "To day (UTC)")]))
        // Also without content: a page that is open takes over each part by its name.
        div data-part="elsewhere" {
            @if let Some(latest) = latest.filter(|_| usage.rows.is_empty()) { (elsewhere(latest)) }
        }
        (charts(site, &period, &usage, latest)?)
        (rankings(site, period.since, period.until)?)
        h2 { "Latest conversations" }
        div data-part="latest" { (table(site, &conversations)?) }
        (health(site)?)
    };
    Ok(Page::new("Overview", "/", main).live(&[Kind::Messages, Kind::Conversations]))
}

/// The state and the size of the store.
fn health(site: &Site<'_>) -> Result<Markup> {
    let health = site.store.health()?;
    let seals = site.store.seal_head()?;
    let free = health.volume.as_ref().map(|it| it.free_bytes);
    Ok(html! {
        h2 { "Store" }
        dl.figures data-part="store" {
            (figure("State", if health.is_good() { "good" } else { "needs attention" }, None))
            (figure("Damaged places", count(health.damage.total()), None))
            (figure("Size", bytes(health.bytes()), free.map(|free| format!("{} free", bytes(free)))))
            div.figure {
                dt { "Seals" }
                dd {
                    (count(seals.as_ref().map_or(0, |head| head.seal)))
                    @if let Some(head) = &seals { small { "last " (time(head.at)) } }
                }
            }
        }
        p { a href="/ui/integrity" { "Integrity" } }
    })
}

/// The messages, tokens and cost of a period by model.
fn usage(site: &Site<'_>, period: &Period) -> Result<UsageReport> {
    site.analytics.usage(&period.query(vec![Dimension::Model]))
}

/// The day of the latest message.
fn latest_day(site: &Site<'_>) -> Result<Option<Day>> {
    let query = MessageQuery {
        order: Order::NewestFirst,
        limit: 1,
        ..MessageQuery::default()
    };
    let found = site.store.messages(None, &query)?.items;
    let latest = found.first().map(|message| Day::of(message.timestamp.at()));
    latest.transpose()
}

/// Where the messages are, if a period has none.
fn elsewhere(latest: Day) -> Markup {
    let days = [latest.minus(DAYS - 1), latest].map(|day| day.to_string());
    let pairs = [("since", days[0].as_str()), ("until", days[1].as_str())];
    html! {
        p.banner {
            "No messages in this period. The latest are of " (days[1]) ": "
            a href=(params::href("/", &pairs)) { "show the " (DAYS) " days up to then" } "."
        }
    }
}

fn charts(
    site: &Site<'_>,
    period: &Period,
    usage: &UsageReport,
    latest: Option<Day>,
) -> Result<Markup> {
    let latency = site.analytics.latency(&period.query(Vec::new()))?;
    let tokens = |row: &UsageRow| row.sums.tokens_in.saturating_add(row.sums.tokens_out);
    let bucket = period.bucket;
    Ok(html! {
        div.cards data-part="charts" {
            (chart("Messages by model", short, bucket, &usage.rows, |row| float(row.sums.messages)))
            (chart("Tokens by model", chart::tokens, bucket, &usage.rows, |row| float(tokens(row))))
            @if usage.total.cost_usd.is_some_and(|cost| cost > 0.0) {
                (chart("Cost by model", dollars, bucket, &usage.rows, |row| row.sums.cost_usd.unwrap_or(0.0)))
            }
            (kinds_of_tokens(bucket, &usage.rows))
            (latencies(bucket, &latency.rows))
            (activity(site, period, latest)?)
        }
    })
}

/// The messages of each hour of the last days of a period, up to the day of the latest message.
fn activity(site: &Site<'_>, period: &Period, latest: Option<Day>) -> Result<Markup> {
    let end = match period.until {
        Some(until) => until.minus(1),
        None => Day::of(now())?,
    };
    let end = latest.map_or(end, |latest| end.min(latest));
    let begin = end.minus(HEAT_DAYS - 1);
    let begin = period.since.map_or(begin, |since| since.max(begin));
    let (since, until) = (begin.bounds_ms().0, end.bounds_ms().1);
    let mut rows: BTreeMap<Day, [u64; 24]> = BTreeMap::new();
    let mut day = begin;
    while day <= end {
        rows.insert(day, [0; 24]);
        let Some(next) = day.next() else { break };
        day = next;
    }
    for hour in site.analytics.activity(since, until.max(since))? {
        let day = Day::of(hour.at)?;
        let of_day = usize::try_from((hour.at - day.bounds_ms().0) / 3_600_000);
        let counts = rows.entry(day).or_default();
        if let Some(count) = of_day.ok().and_then(|nth| counts.get_mut(nth)) {
            *count = hour.messages;
        }
    }
    let row = |(day, counts): (Day, [u64; 24])| Hours {
        name: day.to_string(),
        counts,
    };
    let rows: Vec<Hours> = rows.into_iter().rev().map(row).collect();
    let title = match rows.as_slice() {
        [] => "Messages by hour (UTC)".to_owned(),
        _ => format!("Messages by hour (UTC), {begin} to {end}"),
    };
    Ok(card(
        &title,
        &heatmap("Messages by hour", "messages", &rows),
    ))
}

/// Today, each number beside that of the usual day.
fn today(site: &Site<'_>) -> Result<Markup> {
    let report = site.analytics.today()?;
    let ms = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), average);
    let rate = |rate: Option<f64>| rate.map_or_else(|| "–".to_owned(), percent);
    let one = |name, shown: &dyn Fn(&DayFigures) -> String| {
        let usual = report.usual.as_ref().map(shown).filter(|text| text != "–");
        figure(
            name,
            shown(&report.today),
            usual.map(|text| format!("usually {text}")),
        )
    };
    let number = |name, of: fn(&DayFigures) -> u64| one(name, &|day| short(float(of(day))));
    Ok(html! {
        h2 { "Today (UTC)" }
        dl.figures data-part="today" {
            (number("Conversations", |day| day.conversations))
            (number("Messages", |day| day.usage.messages))
            (one("Cost", &|day| day.usage.cost_usd.map_or_else(|| "–".to_owned(), dollars)))
            (number("Input tokens", |day| day.usage.tokens_input))
            (number("Cache read", |day| day.usage.tokens_cache_read))
            (number("Cache write, 5 minutes", |day| day.usage.tokens_cache_write.saturating_sub(day.usage.tokens_cache_write_1h)))
            (number("Cache write, 1 hour", |day| day.usage.tokens_cache_write_1h))
            (number("Output tokens", |day| day.usage.tokens_out))
            (one("Latency, average", &|day| ms(day.latency_ms.avg)))
            (one("Latency, p95", &|day| ms(day.latency_ms.p95)))
            (one("Error rate", &|day| rate(day.error_rate)))
        }
    })
}

/// The charts and the conversations of a period, for a report.
pub(super) fn report(site: &Site<'_>, since: Option<Day>, until: Option<Day>) -> Reported {
    let today = Day::of(now())?;
    let since = since.unwrap_or_else(|| today.minus(DAYS - 1));
    let last = until.map_or(today, |until| until.minus(1));
    let days = [since, last].map(|day| day.to_string());
    let period = Period::of(&Params::of(&[("since", &days[0]), ("until", &days[1])]))?;
    let query = ConversationQuery {
        since: Some(since.bounds_ms().0),
        until: Some(last.bounds_ms().1),
        limit: REPORTED_CONVERSATIONS,
        ..ConversationQuery::default()
    };
    let found = site.store.conversations(&query)?;
    let usage = usage(site, &period)?;
    let title = format!("{since} to {last}");
    let main = html! {
        h1 { (title) }
        (charts(site, &period, &usage, latest_day(site)?)?)
        h2 { "Conversations" }
        (table(site, &found.items)?)
        @if found.items.len() < found.total {
            p.note { "The latest " (found.items.len()) " of " (found.total) "." }
        }
    };
    Ok((title, main))
}

fn name_of(bucket: Bucket, begin: Option<Day>) -> String {
    match begin {
        Some(begin) if bucket == Bucket::Week => format!("week of {begin}"),
        Some(day) => day.to_string(),
        None => "all".to_owned(),
    }
}

/// A column for each bucket, from rows in their order.
fn by_bucket<R>(
    bucket: Bucket,
    rows: &[R],
    begin: impl Fn(&R) -> Option<Day>,
    add: impl Fn(&R, &mut [f64]),
    series: usize,
) -> Vec<Column> {
    let mut columns: BTreeMap<Option<Day>, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let values = columns
            .entry(begin(row))
            .or_insert_with(|| vec![0.0; series]);
        add(row, values);
    }
    let column = |(begin, values)| Column {
        name: name_of(bucket, begin),
        values,
    };
    columns.into_iter().map(column).collect()
}

/// A chart of a number by model. Models beyond the first few are shown together.
fn chart(
    title: &str,
    written: Written,
    bucket: Bucket,
    rows: &[UsageRow],
    of: impl Fn(&UsageRow) -> f64,
) -> Markup {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    let model = |row: &UsageRow| row.of.model_used.clone();
    for row in rows {
        let name = row.of.model_used.as_deref().unwrap_or(NO_MODEL);
        *sums.entry(name).or_default() += of(row);
    }
    let mut names: Vec<(&str, f64)> = sums.into_iter().filter(|(_, sum)| *sum > 0.0).collect();
    // In every chart, a model has the colour of its rank.
    names.sort_by(|(a, more), (b, less)| {
        let is_last = |name: &str| name == NO_MODEL;
        is_last(a).cmp(&is_last(b)).then(less.total_cmp(more))
    });
    let mut names: Vec<&str> = names.into_iter().map(|(name, _)| name).collect();
    let has_others = names.len() > MODELS;
    names.truncate(MODELS);
    let place = |row: &UsageRow| {
        let model = model(row);
        let name = model.as_deref().unwrap_or(NO_MODEL);
        names
            .iter()
            .position(|known| *known == name)
            .unwrap_or(names.len())
    };
    let series = names.len() + usize::from(has_others);
    let add = |row: &UsageRow, values: &mut [f64]| {
        if let Some(value) = values.get_mut(place(row)) {
            *value += of(row);
        }
    };
    let data = by_bucket(bucket, rows, |row| row.of.bucket, add, series);
    let others = has_others.then_some("other models");
    let names: Vec<&str> = names.iter().copied().chain(others).collect();
    card(title, &columns(title, written, &names, &data))
}

fn kinds_of_tokens(bucket: Bucket, rows: &[UsageRow]) -> Markup {
    const NAMES: [&str; 4] = ["input", "cache read", "cache write", "output"];
    let add = |row: &UsageRow, values: &mut [f64]| {
        let sums = &row.sums;
        let parts = [
            sums.tokens_input,
            sums.tokens_cache_read,
            sums.tokens_cache_write,
            sums.tokens_out,
        ];
        for (value, part) in values.iter_mut().zip(parts) {
            *value += float(part);
        }
    };
    let data = by_bucket(bucket, rows, |row| row.of.bucket, add, NAMES.len());
    card(
        "Tokens by kind",
        &columns("Tokens by kind", chart::tokens, &NAMES, &data),
    )
}

/// The average latency, and above it what the 95th percentile adds.
fn latencies(bucket: Bucket, rows: &[LatencyRow]) -> Markup {
    let add = |row: &LatencyRow, values: &mut [f64]| {
        let latency = &row.sums.latency_ms;
        let (avg, p95) = (latency.avg.unwrap_or(0.0), latency.p95.unwrap_or(0.0));
        for (value, part) in values.iter_mut().zip([avg, (p95 - avg).max(0.0)]) {
            *value += part;
        }
    };
    let data = by_bucket(bucket, rows, |row| row.of.bucket, add, 2);
    card(
        "Latency",
        &columns(
            "Latency",
            average,
            &["average", "up to the 95th percentile"],
            &data,
        ),
    )
}
