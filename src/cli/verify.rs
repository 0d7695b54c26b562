//! `decklog verify`

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use decklog::health::{Damage, Verification, VerifyOptions};
use decklog::human::{count, counted};
use decklog::lines::SeqRange;
use decklog::retention::RemovalReason;
use decklog::seal::SealHead;
use decklog::storage::Disk;
use serde::Serialize;

use super::check_proof;
use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output::Output;

/// Check every byte of the log
///
/// Sealed segments are checked by their hash, the others line by line. Needs no lock and no write
/// permission. Exits with 0 only if nothing is damaged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  decklog verify --json | jq 'select(.finding==\"damage\")'")]
pub struct Args {
    /// Also check every line of sealed segments, and recompute every hash
    #[arg(long)]
    deep: bool,
    /// A file with the output of 'decklog seal --head': detects a log that was rewritten or
    /// truncated since then
    #[arg(long, value_name = "FILE")]
    head: Option<PathBuf>,
    /// Check a copy that 'decklog ship' or 'decklog backup' made, in place of the log: a directory
    /// or a URL
    #[cfg(feature = "ship")]
    #[arg(value_name = "DEST", conflicts_with_all = ["deep", "head"])]
    destination: Option<String>,
}

/// A line of `--json`.
#[derive(Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
enum Finding<'a> {
    Damage(&'a Damage),
    Violation(&'a Damage),
    Gap(&'a SeqRange),
    Repeat(&'a SeqRange),
    Interrupted { reason: &'a str },
    Foreign { file: &'a str },
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Summary<'a> {
    clean: bool,
    deep: bool,
    segments: u64,
    sealed: u64,
    bytes: u64,
    good_lines: u64,
    seals: u64,
    head: Option<SealHead>,
    damage: usize,
    violations: usize,
    gaps: usize,
    repeats: usize,
    interrupted: usize,
    foreign: usize,
    removed: &'a BTreeMap<RemovalReason, u64>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    #[cfg(feature = "ship")]
    if let Some(destination) = &args.destination {
        return copy(destination, context);
    }
    let path = context.store_path()?;
    let head = args.head.as_deref();
    let head = head.map(|path| check_proof::read(path, check_proof::SEAL_BYTES_MAX));
    let options = VerifyOptions {
        deep: args.deep,
        head: head.transpose()?,
    };
    let disk = Disk::new(&path);
    let found = decklog::health::verify_with(&disk, &options)?;
    // For the page. A store that may not be written can still be verified.
    let _ = found.save(&disk, args.deep);
    if context.json {
        json(&mut context.out, &found, args.deep)?;
    } else {
        text(&mut context.out, &found, &path)?;
    }
    Ok(Exit::with_findings(!found.is_clean()))
}

/// Checks what is in a destination.
#[cfg(feature = "ship")]
fn copy(destination: &str, context: &mut Context) -> Result<Exit, Failure> {
    let found = decklog::ship::Destination::parse(destination)?.verify(None)?;
    let is_clean = found
        .iter()
        .all(decklog::ship::RemoteVerification::is_clean);
    for found in &found {
        if context.json {
            context.out.json(found)?;
            continue;
        }
        for damage in &found.damage {
            let (object, reason) = (one_line(&damage.object), one_line(&damage.reason));
            context.out.line(&format!("damaged   {object}: {reason}"))?;
        }
        let verdict = match found.damage.len() {
            0 => "clean".to_owned(),
            some => counted(some as u64, "finding"),
        };
        context.out.line(&format!(
            "{verdict}: store {}, up to seq {}: {} in {} ({} sealed), {} bytes in {}",
            found.store_id,
            count(found.last_seq),
            counted(found.lines, "line"),
            counted(found.segments, "segment"),
            count(found.sealed),
            count(found.bytes),
            counted(found.objects, "object"),
        ))?;
    }
    Ok(Exit::with_findings(!is_clean))
}

fn json(out: &mut Output, found: &Verification, deep: bool) -> io::Result<()> {
    out.json_lines(found.damage.iter().map(Finding::Damage))?;
    out.json_lines(found.violations.iter().map(Finding::Violation))?;
    out.json_lines(found.gaps.iter().map(Finding::Gap))?;
    out.json_lines(found.repeats.iter().map(Finding::Repeat))?;
    let interrupted = found.interrupted.iter();
    out.json_lines(interrupted.map(|reason| Finding::Interrupted { reason }))?;
    out.json_lines(found.foreign.iter().map(|file| Finding::Foreign { file }))?;
    out.json(&Summary {
        clean: found.is_clean(),
        deep,
        segments: found.segments,
        sealed: found.sealed,
        bytes: found.bytes,
        good_lines: found.good_lines,
        seals: found.seals,
        head: found.head,
        damage: found.damage.len(),
        violations: found.violations.len(),
        gaps: found.gaps.len(),
        repeats: found.repeats.len(),
        interrupted: found.interrupted.len(),
        foreign: found.foreign.len(),
        removed: &found.removed,
    })
}

/// Prints the findings.
pub fn text(out: &mut Output, found: &Verification, path: &Path) -> io::Result<()> {
    let mut say = |about: &str, text: &str| out.line(&format!("{about:<9} {text}"));
    for damage in &found.damage {
        say(damage.class.as_str(), &place(damage))?;
    }
    for violation in &found.violations {
        let (file, offset) = (one_line(&violation.file), violation.offset);
        let reason = one_line(&violation.reason);
        say("violation", &format!("{file} at byte {offset}: {reason}"))?;
    }
    for gap in &found.gaps {
        say("gap", &format!("no line has seq {}", range(*gap)))?;
    }
    for repeat in &found.repeats {
        let seq = range(*repeat);
        say("repeat", &format!("several lines have seq {seq}"))?;
    }
    for reason in &found.interrupted {
        say("note", &format!("{}: no damage", one_line(reason)))?;
    }
    for file in &found.foreign {
        let file = one_line(file);
        say(
            "note",
            &format!("{file} does not belong to the store: no damage"),
        )?;
    }
    if !found.removed.is_empty() {
        let by = |(reason, lines): (&RemovalReason, &u64)| {
            format!("{} by {}", counted(*lines, "line"), reason.as_str())
        };
        let removed: Vec<String> = found.removed.iter().map(by).collect();
        let removed = removed.join(", ");
        say(
            "note",
            &format!("removed, as removals.jsonl says: {removed}: no damage"),
        )?;
    }
    let verdict = findings(found).unwrap_or_else(|| "clean".to_owned());
    let sealed = match found.sealed {
        0 => String::new(),
        sealed => format!(" ({} sealed)", count(sealed)),
    };
    out.line(&format!(
        "{verdict}: {}{sealed}, {} bytes, {} in {}",
        counted(found.segments, "segment"),
        count(found.bytes),
        counted(found.good_lines, "good line"),
        one_line(&path.display().to_string())
    ))
}

/// A damaged place, in words.
pub fn place(damage: &Damage) -> String {
    format!(
        "{} at byte {}, {}: {}",
        one_line(&damage.file),
        damage.offset,
        counted(damage.length, "byte"),
        one_line(&damage.reason)
    )
}

/// The number of findings, unless all is clean.
pub fn findings(found: &Verification) -> Option<String> {
    let findings =
        found.damage.len() + found.violations.len() + found.gaps.len() + found.repeats.len();
    (!found.is_clean()).then(|| counted(findings as u64, "finding"))
}

fn range(seqs: SeqRange) -> String {
    if seqs.first == seqs.last {
        seqs.first.to_string()
    } else {
        format!("{} to {}", seqs.first, seqs.last)
    }
}
