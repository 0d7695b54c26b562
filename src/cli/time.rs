//! Times as people read and give them: in the local time of this machine, or in UTC with `--utc`.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Local};
use clap::{Arg, Command};
use decklog::human::duration;
use decklog::record::{Day, epoch_ms, local_epoch_ms};

// The range of the records' own times.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Times {
    /// Only records of this time or later
    #[arg(long, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    pub since: Option<i64>,
    /// Only records before this time
    #[arg(long, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    pub until: Option<i64>,
}

static IS_UTC: AtomicBool = AtomicBool::new(false);

/// Whether times are shown and given in UTC. It is set once, before the arguments are parsed.
pub fn set_utc(is_utc: bool) {
    IS_UTC.store(is_utc, Ordering::Relaxed);
}

fn is_utc() -> bool {
    IS_UTC.load(Ordering::Relaxed)
}

/// The time as a table shows it.
pub fn shown(at: i64) -> String {
    formatted(at, "%Y-%m-%d %H:%M:%S%.3f")
}

/// The time with its zone.
pub fn moment(at: i64) -> String {
    if is_utc() {
        format!("{} UTC", shown(at))
    } else {
        formatted(at, "%Y-%m-%d %H:%M:%S%.3f%:z")
    }
}

/// The time of `at` in a format of chrono's.
pub fn formatted(at: i64, format: &str) -> String {
    let time = DateTime::from_timestamp_millis(at);
    time.map_or_else(
        || at.to_string(),
        |time| {
            if is_utc() {
                time.format(format).to_string()
            } else {
                time.with_timezone(&Local).format(format).to_string()
            }
        },
    )
}

/// How long before `now` a time was, in its largest unit: `5 m ago`.
pub fn ago(at: i64, now: i64) -> String {
    let ms = now.saturating_sub(at);
    if ms < 1_000 {
        return "now".to_owned();
    }
    let age = duration(ms);
    let end = age
        .match_indices(' ')
        .nth(1)
        .map_or(age.len(), |(end, _)| end);
    format!("{} ago", &age[..end])
}

/// A UTC day: the day itself, or the one of a time such as `7d`.
pub fn day(text: &str) -> decklog::Result<Day> {
    text.parse().or_else(|_| Day::of(epoch_ms(text)?))
}

/// A day of the zone in which times are shown, in epoch milliseconds.
#[derive(Debug, Clone, Copy)]
pub struct DayBounds {
    pub start: i64,
    /// The start of the next day.
    pub end: i64,
}

impl DayBounds {
    /// The date, and whether it is one of UTC.
    pub fn name(self) -> String {
        let zone = if is_utc() { " (UTC)" } else { "" };
        format!("{}{zone}", formatted(self.start, "%A, %Y-%m-%d"))
    }
}

/// The day of a time such as `yesterday`, `2025-12-09` or `7d`.
pub fn day_bounds(text: &str) -> decklog::Result<DayBounds> {
    // Days have 23 to 25 hours.
    const NOON_OF_THE_NEXT_MS: i64 = 36 * 60 * 60 * 1000;
    let parse = if is_utc() { epoch_ms } else { local_epoch_ms };
    let start_of = |at: i64| parse(&formatted(at, "%Y-%m-%d"));
    let start = start_of(parse(text)?)?;
    let end = start_of(start.saturating_add(NOON_OF_THE_NEXT_MS))?;
    Ok(DayBounds { start, end })
}

/// How times may be given, for the help.
const FORMS: &str = "TIME is a day (2025-12-09), a day and a time ('2025-12-09 14:30'), today, \
    yesterday, a time before now (30m, 12h, 7d, 2w), RFC 3339 or epoch milliseconds. Without a \
    zone it is local time, or UTC with --utc";

fn is_time(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    names.iter().any(|name| name == "TIME")
}

/// The command, with all its subcommands, whose times without a zone are in the zone in which
/// times are shown. Its help says how the first of them, and so each, may be given.
pub fn accepts(command: Command) -> Command {
    let mut is_told = false;
    let command = command.mut_args(|argument| {
        if !is_time(&argument) {
            return argument;
        }
        let help = argument.get_help().map(ToString::to_string);
        let argument = argument.value_parser(if is_utc() { epoch_ms } else { local_epoch_ms });
        match help {
            Some(help) if !std::mem::replace(&mut is_told, true) => {
                argument.help(format!("{help}. {FORMS}"))
            }
            _ => argument,
        }
    });
    command.mut_subcommands(accepts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_one_unit() {
        let before = |ms: i64| ago(0, ms);
        assert_eq!(before(-5_000), "now");
        assert_eq!(before(59_000), "59.0 s ago");
        assert_eq!(before(271_000), "4 m ago");
        assert_eq!(before(7_500_000), "2 h ago");
        assert_eq!(before(273_600_000), "3 d ago");
    }

    #[test]
    fn days_are_given_as_such_or_relative_to_now() {
        let today = Day::of(decklog::Timestamp::now().at()).unwrap();
        assert!(
            [today.to_string().as_str(), "today", "0d"]
                .iter()
                .all(|text| day(text).unwrap() >= today)
        );
        assert!(day("7d").unwrap() < day("yesterday").unwrap());
        assert_eq!(day("2025-12-27").unwrap().to_string(), "2025-12-27");
        assert!(day("someday").is_err());
    }

    #[test]
    fn what_is_shown_can_be_given() {
        let at = 1_766_793_600_007;
        assert_eq!(local_epoch_ms(&shown(at)).unwrap(), at);
        assert_eq!(epoch_ms(&moment(at)).unwrap(), at);
        set_utc(true);
        assert_eq!(shown(at), "2025-12-27 00:00:00.007");
        assert_eq!(epoch_ms(&shown(at)).unwrap(), at);
        set_utc(false);
    }
}
