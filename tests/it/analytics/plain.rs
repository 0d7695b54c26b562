//! Totals of messages computed plainly: every row scans all messages.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;

use chrono::{Datelike, TimeDelta, TimeZone, Utc};
use decklog::analytics::{
    Analytics, AnalyticsQuery, Bucket, Dimension, LatencyMs, ModelSums, RowKey, Scope, UsageSums,
};
use decklog::record::Day;
use decklog::{ConversationMessage, Role};
use serde_json::Value;
use uuid::Uuid;

type Messages<'a> = Vec<&'a ConversationMessage>;

fn day_of(message: &ConversationMessage) -> Day {
    Day::of(message.timestamp.at()).unwrap()
}

fn bucket_of(bucket: Bucket, message: &ConversationMessage) -> Option<Day> {
    let date = Utc
        .timestamp_millis_opt(message.timestamp.at())
        .unwrap()
        .date_naive();
    let first = match bucket {
        Bucket::All => return None,
        Bucket::Day => date,
        Bucket::Week => date - TimeDelta::days(date.weekday().num_days_from_monday().into()),
        Bucket::Month => date.with_day(1).unwrap(),
    };
    Some(first.format("%Y-%m-%d").to_string().parse().unwrap())
}

fn is_within(scope: &Scope, message: &ConversationMessage) -> bool {
    let day = day_of(message);
    scope.since.is_none_or(|since| day >= since) && scope.until.is_none_or(|until| day < until)
}

/// All messages, and the rows computed from them so far.
pub struct Plain<'a> {
    all: &'a [ConversationMessage],
    /// Messages removed from the log: they count, but cannot be listed.
    gone: HashSet<Uuid>,
    rows: RefCell<Vec<(Scope, Rows<'a>)>>,
}

type Rows<'a> = Vec<(RowKey, Messages<'a>)>;

impl<'a> Plain<'a> {
    pub fn new(all: &'a [ConversationMessage]) -> Plain<'a> {
        Plain::without(all, HashSet::new())
    }

    pub fn without(all: &'a [ConversationMessage], gone: HashSet<Uuid>) -> Plain<'a> {
        Plain {
            all,
            gone,
            rows: RefCell::default(),
        }
    }

    fn within(&self, scope: &Scope) -> Messages<'a> {
        let within = self.all.iter().filter(|message| is_within(scope, message));
        within.collect()
    }

    /// The rows that pass a filter, in order.
    fn rows(&self, scope: &Scope, passes: impl Fn(&Messages<'_>) -> bool) -> Rows<'a> {
        let mut known = self.rows.borrow_mut();
        let place = known.iter().position(|(of, _)| of == scope);
        let place = place.unwrap_or_else(|| {
            known.push((scope.clone(), self.make_rows(scope)));
            known.len() - 1
        });
        let rows = known[place].1.iter().filter(|(_, row)| passes(row));
        rows.cloned().collect()
    }

    fn make_rows(&self, scope: &Scope) -> Rows<'a> {
        let mut rows: BTreeMap<RowKey, Messages<'a>> = BTreeMap::new();
        for message in self.within(scope) {
            let has = |dimension| scope.group.contains(&dimension);
            let name = |dimension, name: &Option<String>| name.clone().filter(|_| has(dimension));
            let key = RowKey {
                bucket: bucket_of(scope.bucket, message),
                model_used: name(Dimension::Model, &message.model_used),
                config_used: name(Dimension::Config, &message.config_used),
                orchestration_mode: name(Dimension::Mode, &message.orchestration_mode),
                task_type: name(Dimension::TaskType, &message.task_type),
            };
            rows.entry(key).or_default().push(message);
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_cached_key(|(key, row)| {
            let most = Reverse((requests(row).len(), row.len()));
            (key.bucket, most, key.clone())
        });
        rows
    }
}

fn answers<'a>(of: &Messages<'a>) -> Messages<'a> {
    let is_answer = |message: &&&ConversationMessage| message.role == Role::Assistant;
    of.iter().filter(is_answer).copied().collect()
}

/// Answers, without their further parts.
fn answered<'a>(of: &Messages<'a>) -> Messages<'a> {
    let mut of = answers(of);
    of.retain(|message| message.part_of.is_none());
    of
}

/// Errors of messages that are not answers.
fn unanswered<'a>(of: &Messages<'a>) -> Messages<'a> {
    let is = |message: &&&ConversationMessage| {
        message.role != Role::Assistant && message.error.is_some()
    };
    of.iter().filter(is).copied().collect()
}

fn requests<'a>(of: &Messages<'a>) -> Messages<'a> {
    [answered(of), unanswered(of)].concat()
}

/// Failed requests. Several parts of one answer may have an error.
fn failed_requests(of: &Messages<'_>) -> u64 {
    let parts = failed(&answers(of)).min(answered(of).len() as u64);
    parts + unanswered(of).len() as u64
}

fn sum(of: &Messages<'_>, field: fn(&ConversationMessage) -> Option<i64>) -> u64 {
    of.iter().filter_map(|one| field(one)).sum::<i64>() as u64
}

fn count(of: &Messages<'_>, is: fn(&ConversationMessage) -> bool) -> u64 {
    of.iter().filter(|one| is(one)).count() as u64
}

fn part(some: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| some as f64 / all as f64)
}

/// A ratio of at most 1, as further parts of answers may add to the count.
fn rate(answers: u64, requests: u64) -> Option<f64> {
    part(answers.min(requests), requests)
}

/// Within a relative error.
fn near(found: Option<f64>, expected: Option<f64>, within: f64) -> bool {
    match (found, expected) {
        (Some(found), Some(expected)) => (found - expected).abs() <= expected.abs() * within,
        (found, expected) => found == expected,
    }
}

fn same(found: Option<f64>, expected: Option<f64>) {
    assert!(near(found, expected, 1e-9), "{found:?} for {expected:?}");
}

fn usage(of: &Messages<'_>) -> UsageSums {
    UsageSums {
        messages: of.len() as u64,
        requests: requests(of).len() as u64,
        tokens_in: sum(of, |one| one.tokens_in),
        tokens_out: sum(of, |one| one.tokens_out),
        tokens_input: sum(of, |one| {
            let cached = one.tokens_cache_write.unwrap_or(0) + one.tokens_cache_read.unwrap_or(0);
            one.tokens_in.map(|tokens| tokens - cached)
        }),
        tokens_cache_write: sum(of, |one| one.tokens_cache_write),
        tokens_cache_write_1h: sum(of, |one| one.tokens_cache_write_1h),
        tokens_cache_read: sum(of, |one| one.tokens_cache_read),
        tokens_reasoning: sum(of, |one| one.tokens_reasoning),
        cost_usd: cost(of),
        cost_computed_usd: None,
        unpriced: count(of, |one| {
            let has_tokens = [one.tokens_in, one.tokens_out]
                .iter()
                .flatten()
                .any(|n| *n > 0);
            has_tokens && one.cost_usd.is_none()
        }),
    }
}

fn cost(of: &Messages<'_>) -> Option<f64> {
    let nanos = of.iter().filter_map(|one| one.cost_usd);
    let nanos: Vec<u64> = nanos.map(|usd| (usd * 1e9).round() as u64).collect();
    (!nanos.is_empty()).then(|| nanos.iter().sum::<u64>() as f64 / 1e9)
}

fn check_latency(found: &LatencyMs, of: &Messages<'_>) {
    let of = answers(of);
    let mut all: Vec<i64> = of.iter().filter_map(|one| one.latency_ms).collect();
    all.sort_unstable();
    assert_eq!(found.count, all.len() as u64);
    same(found.avg, part(all.iter().sum::<i64>() as u64, found.count));
    for (found, q) in [(found.p50, 0.5), (found.p95, 0.95), (found.p99, 0.99)] {
        let rank = (q * all.len() as f64).ceil() as usize;
        let exact = all.get(rank.max(1) - 1).map(|ms| *ms as f64);
        assert!(near(found, exact, 0.01), "{found:?} for {exact:?}");
    }
}

fn context(of: &Messages<'_>) -> (u64, Option<f64>) {
    let of = answers(of);
    let parts: Vec<f64> = of
        .iter()
        .filter_map(|one| one.context_utilization)
        .collect();
    let avg = (!parts.is_empty()).then(|| parts.iter().sum::<f64>() / parts.len() as f64);
    (parts.len() as u64, avg)
}

fn failed(of: &Messages<'_>) -> u64 {
    count(of, |one| one.error.is_some())
}

fn check_models(found: &ModelSums, of: &Messages<'_>) {
    let answers = answers(of);
    let requests = requests(of).len() as u64;
    assert_eq!(found.requests, requests);
    assert_eq!(found.tokens_in, sum(&answers, |one| one.tokens_in));
    assert_eq!(found.tokens_out, sum(&answers, |one| one.tokens_out));
    // Tests of costs check what is computed.
    let has_price = |one: &&ConversationMessage| {
        let model = one.model_used.as_deref().unwrap_or_default();
        model.starts_with("claude-") || model.starts_with("gpt-")
    };
    if answers.iter().any(has_price) {
        assert!(found.cost_usd >= cost(&answers));
    } else {
        assert_eq!(found.cost_usd, cost(&answers));
    }
    check_latency(&found.latency_ms, of);
    same(found.context_utilization_avg, context(of).1);
    assert_eq!(found.errors, failed(of));
    same(found.error_rate, part(failed_requests(of), requests));
}

/// Checks each row of a report against the expected rows.
fn each<'r, R: 'r, K: Debug + PartialEq>(
    found: &'r [R],
    row_count: usize,
    expected: &[(K, Messages<'_>)],
    limit: Option<usize>,
    mut one: impl FnMut(&'r R, &K, &Messages<'_>),
) {
    assert_eq!(row_count, expected.len());
    assert_eq!(found.len(), row_count.min(limit.unwrap_or(1_000)));
    for (found, (key, messages)) in found.iter().zip(expected) {
        one(found, key, messages);
    }
}

/// Compares sums with those of messages, apart from the prices: tests of costs check these. A day
/// that was rolled up does not say which messages record no cost.
fn check_usage(found: &UsageSums, of: &Messages<'_>) {
    let own = usage(of);
    assert!(found.unpriced <= own.unpriced, "{found:?} for {own:?}");
    let cost_usd = match (own.cost_usd, found.cost_computed_usd) {
        (Some(own), Some(computed)) => Some(((own + computed) * 1e9).round() / 1e9),
        (own, computed) => own.or(computed),
    };
    let expected = UsageSums {
        cost_usd,
        cost_computed_usd: found.cost_computed_usd,
        unpriced: found.unpriced,
        ..own
    };
    assert_eq!(*found, expected);
}

/// Compares all reports of a query with totals computed from all messages.
pub fn check(analytics: &Analytics, all: &Plain<'_>, query: &AnalyticsQuery) {
    let limit = query.limit;
    let any = |_: &Messages<'_>| true;
    let asked = |row: &Messages<'_>| !requests(row).is_empty();
    let everything = |scope: &Scope| all.within(scope);

    let found = analytics.usage(query).unwrap();
    let expected = all.rows(&found.scope, any);
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            assert_eq!(&row.of, key);
            check_usage(&row.sums, of);
        },
    );
    check_usage(&found.total, &everything(&found.scope));

    let found = analytics.models(query).unwrap();
    // Further parts of answers are not requests, but count.
    let adds = |one: &ConversationMessage| {
        let tokens = [one.tokens_in, one.tokens_out].into_iter().flatten();
        let says =
            one.latency_ms.is_some() || one.cost_usd.is_some() || one.context_utilization.is_some();
        says || one.error.is_some() || tokens.sum::<i64>() > 0
    };
    let adds_up = |row: &Messages<'_>| asked(row) || count(&answers(row), adds) > 0;
    let expected = all.rows(&found.scope, adds_up);
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            assert_eq!(row.of, *key);
            check_models(&row.sums, of);
        },
    );
    check_models(&found.total, &everything(&found.scope));

    let found = analytics.latency(query).unwrap();
    let timed = |row: &Messages<'_>| count(&answers(row), |one| one.latency_ms.is_some()) > 0;
    let expected = all.rows(&found.scope, |row| asked(row) || timed(row));
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            let count = requests(of).len() as u64;
            assert_eq!((&row.of, row.sums.requests), (key, count));
            check_latency(&row.sums.latency_ms, of);
        },
    );
    check_latency(&found.total.latency_ms, &everything(&found.scope));

    let found = analytics.tasks(query).unwrap();
    let expected = all.rows(&found.scope, asked);
    let mut of_bucket: BTreeMap<Option<Day>, u64> = BTreeMap::new();
    for (key, row) in &expected {
        *of_bucket.entry(key.bucket).or_default() += requests(row).len() as u64;
    }
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            let count = requests(of).len() as u64;
            assert_eq!((&row.of, row.sums.requests), (key, count));
            same(row.sums.share, part(count, of_bucket[&key.bucket]));
        },
    );
    let count_all = requests(&everything(&found.scope)).len() as u64;
    assert_eq!(found.total.requests, count_all);

    let found = analytics.context(query).unwrap();
    let says = |row: &Messages<'_>| context(row).0 > 0;
    let expected = all.rows(&found.scope, says);
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            let (count, avg) = context(of);
            assert_eq!((&row.of, row.sums.count), (key, count));
            same(row.sums.avg, avg);
        },
    );
    same(found.total.avg, context(&everything(&found.scope)).1);

    let found = analytics.compression(query).unwrap();
    let compressed =
        |of: &Messages<'_>| count(&answers(of), |one| one.compression_applied == Some(true));
    let expected = all.rows(&found.scope, |row| asked(row) || compressed(row) > 0);
    each(
        &found.rows,
        found.row_count,
        &expected,
        limit,
        |row, key, of| {
            let answered = answered(of).len() as u64;
            let sums = (row.sums.requests, row.sums.compressed);
            assert_eq!((&row.of, sums), (key, (answered, compressed(of))));
            same(row.sums.rate, rate(compressed(of), answered));
        },
    );
    let of = everything(&found.scope);
    assert_eq!(found.total.compressed, compressed(&of));

    check_errors(analytics, all, query);
    check_active(analytics, all, query);
    check_dashboard(analytics, all, query);
}

fn check_errors(analytics: &Analytics, all: &Plain<'_>, query: &AnalyticsQuery) {
    let found = analytics.errors(query).unwrap();
    let mut expected: BTreeMap<(RowKey, Option<String>), u64> = BTreeMap::new();
    for (key, row) in all.rows(&found.scope, |_| true) {
        for message in row.into_iter().filter(|one| one.error.is_some()) {
            let of_type = (key.clone(), message.error_type.clone());
            *expected.entry(of_type).or_default() += 1;
        }
    }
    let mut expected: Vec<_> = expected.into_iter().collect();
    expected.sort_by_key(|((key, _), errors)| (key.bucket, Reverse(*errors)));
    assert_eq!(found.row_count, expected.len());
    expected.truncate(query.limit.unwrap_or(1_000));
    let rows = found.rows.into_iter();
    let rows: Vec<_> = rows
        .map(|row| ((row.of, row.sums.error_type), row.sums.errors))
        .collect();
    assert_eq!(rows, expected);

    let mut within = all.within(&found.scope);
    let total = found.total;
    let sums = (total.errors, total.requests, total.failed_requests);
    let requests = requests(&within).len() as u64;
    let failed_requests = failed_requests(&within);
    assert_eq!(sums, (failed(&within), requests, failed_requests));
    same(total.error_rate, part(failed_requests, requests));

    within.retain(|message| message.error.is_some() && !all.gone.contains(&message.id));
    let times = found.samples.iter().map(|sample| sample.timestamp.at());
    let mut latest: Vec<i64> = within.iter().map(|one| one.timestamp.at()).collect();
    latest.sort_unstable_by_key(|at| Reverse(*at));
    latest.truncate(20);
    assert_eq!(times.collect::<Vec<i64>>(), latest);
    for sample in found.samples {
        let message = within.iter().find(|one| one.id == sample.id).unwrap();
        assert_eq!(sample.conversation_id, message.conversation_id);
        assert_eq!(sample.model_used, message.model_used);
        assert_eq!(sample.error_type, message.error_type);
        assert_eq!(Some(sample.error), message.error);
    }
}

fn conversations<'a>(of: impl Iterator<Item = &'a ConversationMessage>) -> u64 {
    let ids: BTreeSet<_> = of.map(|message| message.conversation_id).collect();
    ids.len() as u64
}

fn check_active(analytics: &Analytics, all: &Plain<'_>, query: &AnalyticsQuery) {
    let query = AnalyticsQuery {
        group: None,
        ..query.clone()
    };
    let found = match analytics.active(&query) {
        Ok(found) => found,
        // Days with removed messages are reported per day only.
        Err(e) => {
            assert!(e.to_string().contains("were removed"), "{e}");
            assert_ne!(query.bucket.unwrap_or(Bucket::Day), Bucket::Day);
            return;
        }
    };
    let scope = Scope {
        group: Vec::new(),
        ..found.scope.clone()
    };
    let mut expected = all.rows(&scope, |_| true);
    expected.sort_by_key(|(key, _)| key.bucket);
    each(
        &found.rows,
        found.row_count,
        &expected,
        query.limit,
        |row, key, of| {
            let count = conversations(of.iter().copied());
            assert_eq!((row.bucket, row.conversations), (key.bucket, count));
        },
    );
}

fn check_dashboard(analytics: &Analytics, all: &Plain<'_>, query: &AnalyticsQuery) {
    let query = AnalyticsQuery {
        since: query.since,
        until: query.until,
        ..AnalyticsQuery::default()
    };
    let found = analytics.dashboard(&query).unwrap();
    let within = all.within(&found.scope);
    let answers = answers(&within);
    let asked = requests(&within);
    let requests = asked.len() as u64;
    if let Some(active) = found.conversations_today {
        assert_eq!(active, conversations(within.iter().copied()));
    }
    let usage = usage(&within);
    assert_eq!(found.messages_today, usage.messages);
    let tokens = (found.tokens_in_today, found.tokens_out_today);
    assert_eq!(tokens, (usage.tokens_in, usage.tokens_out));
    assert_eq!(found.tokens_today, tokens.0 + tokens.1);
    let mut latency = analytics.models(&query).unwrap().total.latency_ms;
    if query.since.is_some() || query.until.is_some() {
        assert_eq!(found.avg_latency_ms, latency.avg);
        assert_eq!(found.p95_latency_ms, latency.p95);
        check_latency(&latency, &within);
    } else {
        // That report covers other days.
        (latency.avg, latency.p95) = (found.avg_latency_ms, found.p95_latency_ms);
        let latencies = answers.iter().filter_map(|one| one.latency_ms);
        let sum: i64 = latencies.clone().sum();
        same(latency.avg, part(sum as u64, latencies.count() as u64));
    }
    same(found.error_rate, part(failed_requests(&within), requests));
    same(found.avg_context_utilization, context(&within).1);
    let compressed = count(&answers, |one| one.compression_applied == Some(true));
    let answered = answered(&within).len() as u64;
    same(found.compression_rate, rate(compressed, answered));
    let by = |name: fn(&ConversationMessage) -> &Option<String>| {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for name in asked.iter().filter_map(|message| name(message).clone()) {
            *counts.entry(name).or_default() += 1;
        }
        counts
    };
    assert_eq!(found.by_model, by(|one| &one.model_used));
    assert_eq!(found.by_config, by(|one| &one.config_used));
    assert_eq!(found.by_task_type, by(|one| &one.task_type));
}

/// All answers of a handle, as JSON.
pub fn all_of(analytics: &Analytics, queries: &[AnalyticsQuery]) -> Vec<Value> {
    let mut told = Vec::new();
    for query in queries {
        let days = AnalyticsQuery {
            since: query.since,
            until: query.until,
            ..AnalyticsQuery::default()
        };
        let json = [
            serde_json::to_value(analytics.usage(query).unwrap()),
            serde_json::to_value(analytics.models(query).unwrap()),
            serde_json::to_value(analytics.errors(query).unwrap()),
            serde_json::to_value(analytics.latency(query).unwrap()),
            serde_json::to_value(analytics.tasks(query).unwrap()),
            serde_json::to_value(analytics.context(query).unwrap()),
            serde_json::to_value(analytics.compression(query).unwrap()),
            serde_json::to_value(analytics.active(&days).unwrap()),
            serde_json::to_value(analytics.projects(&days).unwrap()),
            serde_json::to_value(analytics.sessions(&days).unwrap()),
            serde_json::to_value(analytics.dashboard(&days).unwrap()),
        ];
        told.extend(json.into_iter().map(Result::unwrap));
    }
    told
}
