//! Checks every line of a store, trusting nothing but the bytes.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use super::head::{Head, Header};
use super::manifest;
use crate::error::{Error, Result, is_of_what_is_read};
use crate::line::{LINE_BYTES_MAX, decode};
use crate::segment::{
    Damage, DamageClass, Fact, Found, Misplaced, Report, SegmentName, list, scan,
};
use crate::storage::{Access, Storage, full_path};

/// Sequence numbers from the first to the last, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeqRange {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// What [`verify()`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verification {
    /// How many segments were read.
    pub segments: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// How many lines are good.
    pub good_lines: u64,
    /// Everything that is not as decklog wrote it.
    pub damage: Vec<Damage>,
    /// Sequence numbers that no line has, up to the greatest.
    pub gaps: Vec<SeqRange>,
    /// Sequence numbers that several lines have.
    pub repeats: Vec<SeqRange>,
    /// Files in day directories that are none of the store's, and what is no directory under the
    /// name of a day. They are no damage.
    pub foreign: Vec<String>,
}

impl Verification {
    /// Whether every byte is as it was written and no line is missing.
    pub fn is_clean(&self) -> bool {
        self.damage.is_empty() && self.gaps.is_empty() && self.repeats.is_empty()
    }
}

/// Reads every line of a store and checks it; needs no lock and no write permission. While others
/// write, what they add meanwhile is checked line by line, but neither for gaps nor for torn tails.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = decklog::Store::open(dir.path().join("log"))?;
/// let disk = decklog::storage::Disk::new(store.path());
/// assert!(decklog::verify(&disk)?.is_clean());
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io) if the system gives no files to read; that a segment cannot be
/// read is a finding. [`NotAStore`](crate::ErrorKind::NotAStore);
/// [`NewerFormat`](crate::ErrorKind::NewerFormat), since what cannot be known cannot be checked.
pub fn verify(storage: &dyn Storage) -> Result<Verification> {
    let (_, manifest_damage) = manifest::read_leniently(storage)?;
    // Others may write while this reads: of what they add, some is seen and some is not.
    let before = header(storage);
    let listing = list(storage)?;
    let unreadable = listing.unreadable.into_iter();
    let unreadable = unreadable.map(|(dir, e)| Damage::unreadable(dir, &e));
    let taken = listing.taken.into_iter();
    let mut found = Verification {
        foreign: listing.foreign,
        damage: manifest_damage
            .into_iter()
            .chain(unreadable)
            .chain(taken.map(|name| Report::no_file().in_file(name)))
            .collect(),
        ..Verification::default()
    };
    let mut seqs = Vec::new();
    for name in listing.segments.iter().copied() {
        let path = name.path();
        let file = match storage.open(&path, Access::Read) {
            Ok(file) => file,
            Err(e) => {
                found.damage.push(cannot_read(storage, path, e)?);
                continue;
            }
        };
        let kind = name.kind;
        let mut last_seq = 0;
        let mut misplaced = Misplaced::in_day_of(name);
        let mut check = |line: Found<'_>| {
            let mut report = line.report();
            line.facts(kind, &mut |fact: Fact<'_>| {
                // The checksum says that these are the bytes that were written; whether they
                // were worth writing is a question of its own.
                match decode(kind, fact.bytes) {
                    Ok(_) if fact.is_altered => seqs.push(fact.envelope.seq),
                    Ok(_) => {
                        let seq = fact.envelope.seq;
                        seqs.push(seq);
                        let end = fact.offset + fact.bytes.len() as u64;
                        misplaced.look(fact.envelope.at, fact.offset, end);
                        // One that is there twice is told as such.
                        if seq < last_seq {
                            report = Some(Report {
                                offset: fact.offset,
                                length: fact.bytes.len() as u64,
                                class: DamageClass::Altered,
                                reason: format!(
                                    "the line has sequence number {seq}, but stands after {last_seq}: lines changed places"
                                ),
                            });
                        }
                        last_seq = last_seq.max(seq);
                    }
                    Err(reason) => {
                        report = Some(Report {
                            offset: fact.offset,
                            length: fact.bytes.len() as u64,
                            class: DamageClass::Damaged,
                            reason: format!("the line holds no record: {}", reason.text),
                        });
                    }
                }
            });
            found.good_lines += u64::from(report.is_none());
            found
                .damage
                .extend(report.map(|report| report.in_file(name)));
        };
        found.segments += 1;
        let scanned = match scan(&*file, kind, 0, u64::MAX, LINE_BYTES_MAX, &mut check) {
            Ok(scanned) => scanned,
            Err(e) => {
                found.damage.push(cannot_read(storage, path, e)?);
                continue;
            }
        };
        found.bytes += scanned.end + scanned.tail.map_or(0, |tail| tail.len);
        let tail = scanned
            .tail
            .map(|tail| tail.report(scanned.end).in_file(name));
        found.damage.extend(tail);
        let misplaced = misplaced.report().map(|report| report.in_file(name));
        found.damage.extend(misplaced);
    }
    let is_live = header(storage) != before;
    if is_live {
        let last = before.map_or(0, |header| header.last_seq);
        seqs.retain(|seq| *seq <= last);
        found
            .damage
            .retain(|damage| damage.class != DamageClass::Torn);
    }
    found.count_off(seqs);
    if !found.repeats.is_empty() {
        let repeated = copies(storage, &listing.segments, &found.repeats);
        found.damage.extend(repeated);
    }
    Ok(found)
}

impl Verification {
    /// Notes which sequence numbers are missing, or there several times.
    fn count_off(&mut self, mut seqs: Vec<u64>) {
        seqs.sort_unstable();
        let mut expected = 1;
        for seq in seqs {
            if seq > expected {
                self.gaps.push(SeqRange {
                    first: expected,
                    last: seq - 1,
                });
            } else if seq < expected {
                let repeated = SeqRange {
                    first: seq,
                    last: seq,
                };
                if self.repeats.last() != Some(&repeated) {
                    self.repeats.push(repeated);
                }
            }
            expected = expected.max(seq.saturating_add(1));
        }
    }
}

/// The segments with lines that have the numbers of lines before them, which is where a copy is.
fn copies(storage: &dyn Storage, names: &[SegmentName], repeats: &[SeqRange]) -> Vec<Damage> {
    // Each is of one number.
    let mut seen: BTreeMap<u64, bool> = repeats.iter().map(|one| (one.first, false)).collect();
    let mut found = Vec::new();
    for name in names.iter().copied() {
        // What cannot be read was told before.
        let Ok(file) = storage.open(&name.path(), Access::Read) else {
            continue;
        };
        let (mut count, mut first) = (0, 0);
        let mut look = |line: Found<'_>| {
            line.facts(name.kind, &mut |fact: Fact<'_>| {
                let Some(is_seen) = seen.get_mut(&fact.envelope.seq) else {
                    return;
                };
                if std::mem::replace(is_seen, true) {
                    if count == 0 {
                        first = fact.offset;
                    }
                    count += 1;
                }
            });
        };
        let limit = LINE_BYTES_MAX;
        let scanned = scan(&*file, name.kind, 0, u64::MAX, limit, &mut look);
        if let Ok(scanned) = scanned
            && count > 0
        {
            found.push(Report::repeated(count, first, scanned.end).in_file(name));
        }
    }
    found
}

/// What cannot be read is a finding; only what is wrong with the machine ends the work.
fn cannot_read(storage: &dyn Storage, path: String, e: io::Error) -> Result<Damage> {
    if is_of_what_is_read(&e) {
        return Ok(Damage::unreadable(path, &e));
    }
    Err(Error::io("read the segment", &full_path(storage, &path), e))
}

fn header(storage: &dyn Storage) -> Option<Header> {
    Head::open_for_reading(storage).ok()??.header().ok()?
}
