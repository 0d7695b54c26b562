//! The dashboard as text.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use decklog::analytics::{DashboardMetrics, Scope};
use decklog::human::{average, count, percent};

use crate::cli::context::Context;
use crate::cli::exit::Failure;
use crate::cli::show;

/// Columns of a name.
const NAME_COLUMNS: usize = 20;

pub fn print(context: &mut Context, metrics: &DashboardMetrics) -> Result<(), Failure> {
    const LABEL_COLUMNS: usize = 15;
    let Scope { since, until, .. } = &metrics.scope;
    let days = [("since", since), ("until", until)];
    let days = days.map(|(word, day)| day.map(|day| format!("{word} {day}")));
    let days: Vec<String> = days.into_iter().flatten().collect();
    let requests = |these: &BTreeMap<String, u64>| {
        let mut these: Vec<(&String, &u64)> = these.iter().collect();
        these.sort_by_key(|(_, requests)| Reverse(**requests));
        let these = these.into_iter().map(|(name, requests)| {
            let name = show::name(Some(name.as_str()), NAME_COLUMNS);
            format!("{name} {}", count(*requests))
        });
        these.collect::<Vec<String>>().join(", ")
    };
    let conversations = metrics.conversations_today.map_or("-".to_owned(), count);
    let tokens = [metrics.tokens_in_today, metrics.tokens_out_today];
    let [tokens_in, tokens_out] = tokens.map(count);
    let ms = |ms: Option<f64>| ms.map_or("-".to_owned(), average);
    let rate = |part: Option<f64>| part.map_or("-".to_owned(), percent);
    let [avg, p95] = [metrics.avg_latency_ms, metrics.p95_latency_ms].map(ms);
    for (label, value) in [
        ("days", days.join(", ")),
        ("conversations", conversations),
        ("messages", count(metrics.messages_today)),
        ("tokens", format!("{tokens_in} in, {tokens_out} out")),
        ("latency", format!("avg {avg}, p95 {p95}")),
        ("errors", rate(metrics.error_rate)),
        ("context", rate(metrics.avg_context_utilization)),
        ("compressed", rate(metrics.compression_rate)),
        ("models", requests(&metrics.by_model)),
        ("configs", requests(&metrics.by_config)),
        ("tasks", requests(&metrics.by_task_type)),
    ] {
        show::row(&mut context.out, &format!("{label:<LABEL_COLUMNS$}{value}"))?;
    }
    Ok(())
}
