//! `decklog replay`

use std::path::{Path, PathBuf};
use std::time::Duration;

use decklog::Durability;
use decklog::human::counted;
use decklog::record::Day;
use decklog::replay::{self, Replay, Replayed};
use serde::Serialize;

use super::context::{Context, KEEPS_ALL};
use super::exit::{Exit, Failure};
use super::record::Tally;
use super::{line, output, show};

const BATCH_RECORDS: usize = 1000;

/// Read the records of a day or a store back, in the order in which they were written
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog replay 2025-12-27 --speed 10\n  decklog replay ./copy-of-2025-12-27 --into other-log"
)]
pub struct Args {
    /// A day of the store as YYYY-MM-DD, or the path of a store or of a day's directory
    #[arg(value_name = "DAY|DIR")]
    source: PathBuf,
    /// Record everything into this store instead of printing it
    #[arg(long, value_name = "STORE", conflicts_with_all = ["speed", "limit"])]
    into: Option<PathBuf>,
    /// Print at the pace of the records' times, N times faster. Default: at once
    #[arg(long, value_name = "N", value_parser = speed)]
    speed: Option<f64>,
    /// Maximum number of records. Default: 100 on a terminal without --speed, else all
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// With --into: when a record is acknowledged
    #[arg(long, value_enum, default_value_t)]
    durability: Durability,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok();
    speed
        .filter(|speed: &f64| *speed > 0.0 && speed.is_finite())
        .ok_or_else(|| "must be greater than 0".to_owned())
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let day = args.source.to_str().map(str::parse::<Day>);
    let replay = match day {
        Some(Ok(day)) => {
            // A missing store is reported as such, not as a missing day.
            let path = context.open_to_read()?.path().to_path_buf();
            replay::day(&path, day)?
        }
        _ => replay::dir(&args.source)?,
    };
    let unreadable = replay.unreadable;
    let mut rejected = 0;
    if let Some(into) = &args.into {
        rejected = record(args, context, into, replay)?;
    } else {
        print(args, context, &replay.lines)?;
    }
    if unreadable > 0 {
        let lines = counted(unreadable, "line");
        context.say_below(&format!("{lines} could not be read: see `decklog verify`"))?;
    }
    Ok(Exit::with_findings(unreadable > 0 || rejected > 0))
}

fn print(args: &Args, context: &mut Context, lines: &[Replayed]) -> Result<(), Failure> {
    let limit = match args.speed {
        Some(_) => args.limit,
        None => context.limit(args.limit),
    };
    let shown = &lines[..limit.unwrap_or(lines.len()).min(lines.len())];
    let mut latest = None;
    for replayed in shown {
        let at = replayed.record.at();
        // Clocks may jump back and records may be late: never wait twice for a time.
        if let (Some(speed), Some(latest)) = (args.speed, latest) {
            pause(context, at.saturating_sub(latest), speed)?;
        }
        latest = latest.max(Some(at));
        if context.json {
            context.out.json_text(&replayed.text)?;
        } else {
            let row = line::row(replayed.record.kind(), replayed.seq, &replayed.text);
            show::row(&mut context.out, &row)?;
        }
    }
    if shown.len() < lines.len() {
        let (shown, all) = (shown.len(), lines.len());
        context.say_below(&format!("{shown} of {all} records shown: set --limit"))?;
    }
    Ok(())
}

/// Waits for the difference of two times.
fn pause(context: &mut Context, ms: i64, speed: f64) -> Result<(), Failure> {
    let seconds = Duration::from_millis(ms.max(0).unsigned_abs()).as_secs_f64() / speed;
    if let Ok(pause) = Duration::try_from_secs_f64(seconds)
        && !pause.is_zero()
    {
        context.out.flush()?;
        std::thread::sleep(pause);
    }
    Ok(())
}

/// Records all lines into a store and prints the results; returns the number of rejected lines.
fn record(
    args: &Args,
    context: &mut Context,
    into: &Path,
    mut replay: Replay,
) -> Result<u64, Failure> {
    #[derive(Serialize)]
    struct Summary {
        #[serde(flatten)]
        tally: Tally,
        unreadable: u64,
        left_out: u64,
    }
    let (store, is_new) = context.open_to_import(into, args.durability)?;
    let left_out = replay.prepare_for(&store)?;
    let Replay {
        lines, unreadable, ..
    } = replay;
    let mut tally = Tally::default();
    let mut lines = lines.into_iter().peekable();
    while lines.peek().is_some() {
        let batch: Vec<Replayed> = lines.by_ref().take(BATCH_RECORDS).collect();
        let places = batch.iter().map(|line| (line.file.clone(), line.seq));
        let places: Vec<(String, u64)> = places.collect();
        for ((file, seq), answer) in places.iter().zip(store.record_replayed(batch)?) {
            let status = answer.map(|ack| ack.status);
            tally.count(status.map_err(|e| output::say(&format!("{file}, seq {seq}: {e}"))));
        }
    }
    store.sync()?;
    let rejected = tally.rejected;
    if context.json {
        context.out.json(&Summary {
            tally,
            unreadable,
            left_out,
        })?;
    } else {
        context.out.line(&tally.in_words())?;
        if left_out > 0 {
            let records = counted(left_out, "record");
            let text = format!("{records} skipped, as they were erased");
            context.out.line(&text)?;
        }
        if is_new {
            context.out.line(KEEPS_ALL)?;
        }
    }
    Ok(rejected)
}
