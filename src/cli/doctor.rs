//! `decklog doctor`

use std::collections::BTreeMap;
use std::io;

use decklog::Kind;
use decklog::analytics::{Bucket, Budget};
use decklog::health::{Damage, DamageClass, DamageCounts, Health, LockState, Usage, Verification};
use decklog::human::{count, counted, dollars, percent};
use decklog::retention::NextRemoval;
use decklog::storage::{Disk, Volume};
use serde::Serialize;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output::Output;
use super::time::moment;
use super::verify;

/// Warns if less space is free than a full segment takes.
const FREE_BYTES_MIN: u64 = 64 << 20;

/// Report the health of the log, and remedies for problems
///
/// Looks at every file. It does not check every byte, as verify does. Needs no lock and no write
/// permission. Exits with 0 only if there are no problems.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog doctor --json | jq '.usage[] | [.day, .kind, .bytes]'")]
pub struct Args {
    /// Also check every byte, like 'decklog verify'
    #[arg(long)]
    strict: bool,
}

/// A problem that needs action.
#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    what: String,
    to_do: &'static str,
}

#[derive(Serialize)]
struct Report<'a> {
    store: &'a str,
    good: bool,
    findings: &'a [Finding],
    bytes: u64,
    budgets: &'a [Budget],
    #[cfg(feature = "ship")]
    ships: &'a [decklog::ship::ShipStatus],
    #[serde(flatten)]
    health: &'a Health,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let path = context.store_path()?;
    let store = context.open_in_silence()?;
    let health = store.health()?;
    let damage = store.damage()?;
    let mut counts = health.damage;
    let mut findings = Vec::new();
    if let Some(manifest) = damage.iter().find(|it| it.file == "decklog.json") {
        findings.push(of_manifest(manifest, &mut counts));
    }
    findings.extend(self::findings(&health, counts));
    findings.extend(store.check_prices().err().map(|error| Finding {
        about: "prices",
        what: one_line(&error.to_string()).into_owned(),
        to_do: "correct prices.json, or move it out of the store: until then, reports fail",
    }));
    // A log that cannot be read has other findings.
    let budgets = store.analytics().budgets().unwrap_or_default();
    findings.extend(budgets.iter().filter(|it| it.is_over()).map(of_budget));
    #[cfg(feature = "ship")]
    let ships = store.ships();
    #[cfg(feature = "ship")]
    findings.extend(ships.iter().filter_map(of_ship));
    if args.strict {
        let disk = Disk::new(&path);
        let found = decklog::verify(&disk)?;
        // As `verify` does.
        let _ = found.save(&disk, false);
        findings.extend(verified(&found));
    }
    let store = path.display().to_string();
    if context.json {
        context.out.json(&Report {
            store: &store,
            good: findings.is_empty(),
            findings: &findings,
            bytes: health.bytes(),
            budgets: &budgets,
            #[cfg(feature = "ship")]
            ships: &ships,
            health: &health,
        })?;
    } else {
        #[cfg(feature = "ship")]
        let copies: Vec<String> = ships.iter().map(|it| copy(it, health.last_seq)).collect();
        #[cfg(not(feature = "ship"))]
        let copies = Vec::new();
        let budgets: Vec<String> = budgets.iter().filter_map(note_of_budget).collect();
        let notes = [("copy", copies), ("budget", budgets)];
        text(&mut context.out, &store, &health, &notes, &findings)?;
    }
    Ok(Exit::with_findings(!findings.is_empty()))
}

/// How far a copy of the log is behind it.
#[cfg(feature = "ship")]
fn copy(ship: &decklog::ship::ShipStatus, last_seq: u64) -> String {
    let destination = one_line(&ship.destination);
    let behind = match ship.lines_behind(last_seq) {
        0 => "up to date".to_owned(),
        lines => format!("{} behind", counted(lines, "line")),
    };
    let last = match ship.at {
        0 => "never copied".to_owned(),
        at => format!("last copied {}", moment(at)),
    };
    format!("{destination}: {behind}, {last}")
}

/// A copy whose last run failed.
#[cfg(feature = "ship")]
fn of_ship(ship: &decklog::ship::ShipStatus) -> Option<Finding> {
    let error = ship.error.as_ref()?;
    let (destination, error) = (one_line(&ship.destination), one_line(error));
    Some(Finding {
        about: "copy",
        what: format!("{destination}: the last run failed: {error}"),
        to_do: "run 'decklog ship' again: it continues where it stopped",
    })
}

/// More was spent than a budget.
fn of_budget(budget: &Budget) -> Finding {
    Finding {
        about: "budget",
        what: budget_used(budget),
        to_do: "see 'decklog stats cost'; to change the budget, use 'decklog config set'",
    }
}

/// A budget of which 80 % or more is spent, and which is not a finding.
fn note_of_budget(budget: &Budget) -> Option<String> {
    let is_noted = budget.is_nearly_spent() && !budget.is_over();
    is_noted.then(|| budget_used(budget))
}

/// What was spent of a budget.
pub fn budget_used(budget: &Budget) -> String {
    let period = match budget.period {
        Bucket::Day => "today".to_owned(),
        other => format!("this {}", other.as_str()),
    };
    format!(
        "{} of {} spent {period} ({})",
        dollars(budget.spent_usd),
        dollars(budget.budget_usd),
        percent(budget.used())
    )
}

/// A problem of the manifest, which is not counted with the others.
fn of_manifest(manifest: &Damage, counts: &mut DamageCounts) -> Finding {
    let count = match manifest.class {
        DamageClass::Missing => &mut counts.missing,
        DamageClass::Unreadable => &mut counts.unreadable,
        _ => &mut counts.damaged,
    };
    *count = count.saturating_sub(1);
    Finding {
        about: "manifest",
        what: format!("decklog.json: {}", one_line(&manifest.reason)),
        to_do: "restore a copy of decklog.json: 'decklog repair' cannot repair it",
    }
}

/// The findings of a check of every byte.
fn verified(found: &Verification) -> Option<Finding> {
    verify::findings(found).map(|findings| Finding {
        about: "verify",
        what: format!("{findings} in a check of every byte"),
        to_do: "see 'decklog verify'",
    })
}

/// A possible problem: how often it occurs, and the parts of its [`Finding`].
type Problem = (u64, &'static str, String, &'static str);

fn findings(health: &Health, counts: DamageCounts) -> impl Iterator<Item = Finding> {
    let of_volume = health.volume.iter().flat_map(of_volume);
    let all = of_places(&counts).into_iter().chain(of_files(&counts));
    let any = all.chain(of_volume).filter(|(n, ..)| *n > 0);
    any.map(|(_, about, what, to_do)| Finding { about, what, to_do })
}

/// Problems at positions in files.
fn of_places(counts: &DamageCounts) -> [Problem; 5] {
    let unreadable = counted(counts.unreadable, "file or directory");
    let missing = counted(counts.missing, "file");
    let damaged = counts.damaged + counts.too_long;
    let changed = counts.changed + counts.chain;
    [
        (
            counts.unreadable,
            "unreadable",
            format!("{unreadable} cannot be read, and nothing is written meanwhile"),
            "see 'decklog verify': fix their permissions or the disk, or move them out of the store",
        ),
        (
            damaged,
            "damaged",
            format!("{} not a valid line", places(damaged)),
            "see 'decklog verify'; 'decklog repair' moves the bytes into quarantine/",
        ),
        (
            counts.missing,
            "missing",
            format!("{missing} missing without a recorded removal"),
            "see 'decklog verify': restore a copy",
        ),
        (
            changed,
            "seals",
            format!("{} contrary to the seals", places(changed)),
            "see 'decklog verify'",
        ),
        (
            counts.altered,
            "altered",
            format!("{} changed after it was written", places(counts.altered)),
            "see 'decklog verify'; if the changes are correct, 'decklog repair --accept-edits' accepts them",
        ),
    ]
}

/// Problems of whole files.
fn of_files(counts: &DamageCounts) -> [Problem; 4] {
    let repeated = counted(counts.repeated, "file");
    let misplaced = counted(counts.misplaced, "file");
    let no_file = counted(counts.no_file, "segment's name");
    let torn = counted(counts.torn, "last line");
    [
        (
            counts.repeated,
            "repeated",
            format!("{repeated} with copies of lines of other files"),
            "see 'decklog verify': move the copies out of the store",
        ),
        (
            counts.misplaced,
            "misplaced",
            format!("{misplaced} with lines of another day than their directory"),
            "see 'decklog verify': move them back to their day",
        ),
        (
            counts.no_file,
            "no file",
            format!("{no_file} with an entry that is not a regular file"),
            "see 'decklog verify': move them away",
        ),
        (
            counts.torn,
            "torn",
            format!("{torn} without an LF: a writer died, or is writing"),
            "nothing, if a process is writing now; otherwise 'decklog repair' moves the unacknowledged bytes into quarantine/",
        ),
    ]
}

/// Problems of the disk of the store.
fn of_volume(volume: &Volume) -> [Problem; 2] {
    let file_system = one_line(&volume.file_system);
    let free = count(volume.free_bytes);
    [
        (
            u64::from(volume.is_network),
            "disk",
            format!("it is on a network file system, {file_system}"),
            "keep it on a local disk: locks and shared memory are not reliable across machines",
        ),
        (
            u64::from(volume.free_bytes < FREE_BYTES_MIN),
            "space",
            format!("{free} bytes are free on its disk"),
            "free disk space: when the disk is full, writes fail and the process must open the store again",
        ),
    ]
}

fn places(n: u64) -> String {
    let is = if n == 1 { "is" } else { "are" };
    format!("{} {is}", counted(n, "place"))
}

fn text(
    out: &mut Output,
    store: &str,
    health: &Health,
    notes: &[(&str, Vec<String>)],
    findings: &[Finding],
) -> io::Result<()> {
    let mut say = |what: &str, text: String| out.line(&format!("{what:<11} {text}"));
    say("store", one_line(store).into_owned())?;
    let segments = health.usage.iter().map(|usage| usage.segments).sum();
    let segments = counted(segments, "segment");
    let bytes = count(health.bytes());
    let last = count(health.last_seq);
    say("log", format!("{segments}, {bytes} bytes, last seq {last}"))?;
    say("lock", lock(health.lock))?;
    if let Some(volume) = &health.volume {
        let free = count(volume.free_bytes >> 20);
        let file_system = one_line(&volume.file_system);
        say("disk", format!("{file_system}, {free} MiB free"))?;
    }
    if health.quarantine_files > 0 {
        let files = counted(health.quarantine_files, "file");
        let bytes = count(health.quarantine_bytes);
        let text = format!("{files}, {bytes} bytes: inspect them; they can be deleted");
        say("quarantine", text)?;
    }
    let removed = &health.removed;
    if let (Some(at), Some(reason)) = (removed.last_at, removed.last_reason) {
        let lines = counted(removed.lines, "line");
        let bytes = count(removed.bytes);
        let (last, why) = (moment(at), reason.as_str());
        let text = format!("{lines}, {bytes} bytes; last on {last} ({why})");
        say("removed", text)?;
    }
    for (place, next) in health.next_removals.iter().enumerate() {
        let about = if place == 0 { "goes next" } else { "" };
        say(about, goes_next(next))?;
    }
    if let Some(max_bytes) = health.max_bytes {
        let (bytes, most) = (count(health.capped_bytes()), count(max_bytes));
        let text = format!(
            "{bytes} of {most} bytes; above that, the oldest days are removed (retention.max_bytes)"
        );
        say("size cap", text)?;
    }
    for (about, notes) in notes {
        for note in notes {
            say(about, note.clone())?;
        }
    }
    for file in &health.foreign {
        let file = one_line(file);
        let text = format!("{file} does not belong to the store and is left alone");
        say("foreign", text)?;
    }
    if !health.usage.is_empty() {
        out.line("")?;
        by_kind(out, &health.usage)?;
    }
    out.line("")?;
    for Finding { about, what, to_do } in findings {
        out.line(&format!("{about:<11} {what}"))?;
        out.line(&format!("{:<11} {to_do}", ""))?;
    }
    if findings.is_empty() {
        out.line("all is well")?;
    }
    Ok(())
}

/// The next removal of a kind by retention, and its time.
fn goes_next(next: &NextRemoval) -> String {
    let what = if next.kind == Kind::Conversations {
        let talks = counted(next.conversations, "conversation");
        format!("{talks} that ended on {}", next.day)
    } else {
        let bytes = count(next.bytes);
        format!("{} of {}, {bytes} bytes", next.kind.stem(), next.day)
    };
    let when = match decklog::Timestamp::now().at() {
        now if next.at <= now => "at the next daily upkeep".to_owned(),
        _ => format!("from {} on", moment(next.at)),
    };
    format!("{what}: {when} ({})", next.setting)
}

fn lock(state: LockState) -> String {
    match state {
        LockState::Free => "free".to_owned(),
        LockState::Held {
            process: Some(process),
        } => format!("held by process {process}"),
        LockState::Held { process: None } => "held".to_owned(),
        LockState::Abandoned { process } => format!(
            "free; process {process} died or failed while it held it; the next writer recovers"
        ),
        LockState::Unknown => "unknown without permission".to_owned(),
    }
}

fn by_kind(out: &mut Output, usage: &[Usage]) -> io::Result<()> {
    let mut kinds: BTreeMap<Kind, Vec<&Usage>> = BTreeMap::new();
    for one in usage {
        kinds.entry(one.kind).or_default().push(one);
    }
    let mut row = |kind: &str, segments: &str, bytes: &str, days: &str| {
        out.line(&format!("{kind:<20} {segments:>9} {bytes:>17}  {days}"))
    };
    row("kind", "segments", "bytes", "days")?;
    for (kind, days) in kinds {
        let segments = days.iter().map(|day| day.segments).sum();
        let bytes = days.iter().map(|day| day.bytes).sum();
        let range = match days[..] {
            [one] => one.day.to_string(),
            [first, .., last] => {
                let count = count(days.len() as u64);
                format!("{} to {}, {count}", first.day, last.day)
            }
            [] => String::new(),
        };
        row(kind.stem(), &count(segments), &count(bytes), &range)?;
    }
    Ok(())
}
