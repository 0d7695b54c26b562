//! `decklog du`

use std::collections::BTreeMap;
use std::io;

use clap::ValueEnum;
use decklog::Kind;
use decklog::health::{Health, Usage};
use decklog::human::count;
use decklog::record::Day;
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Show the size of the log, by kind and day
///
/// The oldest day comes first. The sizes of other files follow the total.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog du --by day\n  decklog du --json | jq '.usage | max_by(.bytes)'"
)]
pub struct Args {
    /// Group by day or by kind. Default: by both
    #[arg(long, value_name = "WHAT")]
    by: Option<By>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum By {
    Day,
    Kind,
}

#[derive(Serialize)]
struct Report<'a> {
    usage: &'a [Sum],
    bytes: u64,
    #[serde(flatten)]
    beside: BTreeMap<&'static str, u64>,
}

/// The size of a group of segments.
#[derive(Serialize)]
struct Sum {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<Day>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<Kind>,
    segments: u64,
    bytes: u64,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let health = context.open_to_read()?.health()?;
    let usage = sums(&health.usage, args.by);
    let beside = beside(&health);
    if context.json {
        context.out.json(&Report {
            usage: &usage,
            bytes: health.bytes(),
            beside: beside.into_iter().collect(),
        })?;
    } else {
        text(&mut context.out, &usage, health.bytes(), &beside)?;
    }
    Ok(Exit::Ok)
}

fn sums(usage: &[Usage], by: Option<By>) -> Vec<Sum> {
    let mut sums = BTreeMap::new();
    for one in usage {
        let day = (!matches!(by, Some(By::Kind))).then_some(one.day);
        let kind = (!matches!(by, Some(By::Day))).then_some(one.kind);
        let (segments, bytes) = sums.entry((day, kind)).or_insert((0, 0));
        *segments += one.segments;
        *bytes += one.bytes;
    }
    let sums = sums.into_iter();
    let sums = sums.map(|((day, kind), (segments, bytes))| Sum {
        day,
        kind,
        segments,
        bytes,
    });
    sums.collect()
}

/// The sizes of other files than segments.
fn beside(health: &Health) -> [(&'static str, u64); 4] {
    [
        ("cache_bytes", health.cache_bytes),
        ("quarantine_bytes", health.quarantine_bytes),
        ("seals_bytes", health.seals_bytes),
        ("removals_bytes", health.removals_bytes),
    ]
}

fn text(
    out: &mut Output,
    usage: &[Sum],
    bytes: u64,
    beside: &[(&'static str, u64)],
) -> io::Result<()> {
    let mut row = |what: &str, segments: &str, bytes: u64| {
        let bytes = count(bytes);
        out.line(&format!("{what:<32} {segments:>9} {bytes:>17}"))
    };
    for sum in usage {
        let (day, kind) = (sum.day.map(|day| day.to_string()), sum.kind.map(Kind::stem));
        let what: Vec<&str> = day.as_deref().into_iter().chain(kind).collect();
        row(&what.join(" "), &count(sum.segments), sum.bytes)?;
    }
    let segments = usage.iter().map(|sum| sum.segments).sum();
    row("total", &count(segments), bytes)?;
    for (name, bytes) in beside.iter().filter(|(_, bytes)| *bytes > 0) {
        row(name.trim_end_matches("_bytes"), "", *bytes)?;
    }
    Ok(())
}
