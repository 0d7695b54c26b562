//! The chain of a store's seals: each day's `seals.jsonl`, and the seals of removed segments in
//! `removals.jsonl`. Both files are append-only.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::read::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, Kind};
use crate::segment::seal::{Contents, Digest, Link, Seal, SealHead, SealReason};
use crate::segment::{Damage, DamageClass, Report, SegmentName};
use crate::storage::{Access, Storage, append_all, full_path, io_error};
use crate::store::{RemovalReason, SeqRange};

const SEALS: &str = "seals.jsonl";
const REMOVALS: &str = "removals.jsonl";

/// All seals of a store, as far as they were read.
///
/// Who appends holds the store's write lock, and takes this one first.
#[derive(Debug, Default)]
pub(crate) struct SealLog {
    /// By path.
    sources: BTreeMap<Arc<str>, Source>,
    seals: BTreeMap<u64, Placed>,
    /// By the segment, the numbers of its seals, in order.
    by_segment: BTreeMap<SegmentName, Vec<u64>>,
    /// Seals that come in the place of others name them.
    replaced: BTreeSet<u64>,
    removals: Removals,
    /// What cannot be read: then it is not known which seal is the last.
    unreadable: Vec<Damage>,
    /// The last seal that is known to survive the machine.
    durable: u64,
}

/// What the log of removals says was taken away.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// How many lines, by why.
    pub lines: BTreeMap<RemovalReason, u64>,
    /// Where their sequence numbers lie.
    pub seqs: Vec<SeqRange>,
    /// The seals of segments that are gone, and why they are.
    seals: BTreeMap<u64, RemovalReason>,
    /// By the number of each line, its SHA-256.
    pub hashes: BTreeMap<u64, Digest>,
}

#[derive(Debug)]
struct Placed {
    seal: Seal,
    path: Arc<str>,
    offset: u64,
}

impl Removals {
    /// How many lines were taken away, at most: what was interrupted is noted twice.
    pub(crate) fn all_lines(&self) -> u64 {
        let lines = self.lines.values();
        lines.fold(0, |sum, lines| sum.saturating_add(*lines))
    }
}

impl SealLog {
    /// The name of the file that a day's seals stand in.
    pub(crate) const FILE: &str = SEALS;

    /// Reads all seals of a store.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io); not for a single file that cannot be read, which is told by
    /// [`damage`](SealLog::damage).
    pub(crate) fn read(storage: &dyn Storage) -> Result<SealLog> {
        let mut log = SealLog::default();
        log.refresh(storage)?;
        Ok(log)
    }

    /// The greatest number of a segment of this day and kind that was ever sealed, as far as the
    /// day's seals can be read.
    pub(crate) fn last_number(storage: &dyn Storage, day: Day, kind: Kind) -> Option<u32> {
        let mut log = SealLog::default();
        log.read_source(storage, &format!("{day}/{SEALS}"), 0)
            .ok()?;
        let sealed = log.segments().filter(|name| name.kind == kind);
        sealed.map(|name| name.number).max()
    }

    /// The last seal of the chain.
    pub(crate) fn last(&self) -> Option<&Seal> {
        self.seals.last_key_value().map(|(_, placed)| &placed.seal)
    }

    /// The ends of the chains of seals and removals; `None` if nothing was ever sealed.
    pub(crate) fn head(&self) -> Option<SealHead> {
        let Seal { seal, hash, at, .. } = self.last()?;
        let removals = self.removals.hashes.last_key_value();
        let (removal, removal_hash) = removals
            .map(|(seq, hash)| (*seq, *hash))
            .unwrap_or_default();
        Some(SealHead {
            seal: *seal,
            hash: *hash,
            at: *at,
            removal,
            removal_hash,
        })
    }

    /// The seal with this number.
    pub(crate) fn get(&self, number: u64) -> Option<&Seal> {
        self.seals.get(&number).map(|placed| &placed.seal)
    }

    /// How many seals there are.
    pub(crate) fn len(&self) -> u64 {
        self.seals.len() as u64
    }

    /// The seals of all segments that ever had this name, the last one first.
    pub(crate) fn seals_of(&self, name: SegmentName) -> impl Iterator<Item = &Seal> {
        let numbers = self.by_segment.get(&name).into_iter().flatten().rev();
        numbers.filter_map(|number| self.get(*number))
    }

    /// The seal of a segment that counts.
    pub(crate) fn last_of(&self, name: SegmentName) -> Option<&Seal> {
        self.seals_of(name)
            .next()
            .filter(|seal| !self.is_gone(seal))
    }

    /// The seal of a segment that counts, and those in whose place it came: where that was
    /// interrupted, the segment is as one of these says.
    pub(crate) fn last_and_earlier(&self, name: SegmentName) -> impl Iterator<Item = &Seal> {
        let last = self.last_of(name);
        let mut replaced: BTreeSet<u64> = last.iter().map(|last| last.seal).collect();
        self.seals_of(name).filter(move |seal| {
            // That one may never have come to take the place of the one before it.
            let is_one = replaced.contains(&seal.seal);
            if is_one {
                replaced.extend(&seal.replaces);
            }
            is_one
        })
    }

    /// Whether a segment is sealed, and so long as none of its seals that may hold says.
    pub(crate) fn is_of_other_length(&self, name: SegmentName, len: u64) -> bool {
        self.last_of(name).is_some() && self.last_and_earlier(name).all(|seal| seal.bytes != len)
    }

    /// The last seal of a segment that is gone; a later one may have its name.
    pub(crate) fn gone(&self, name: SegmentName) -> Option<&Seal> {
        self.seals_of(name).next().filter(|seal| self.is_gone(seal))
    }

    /// The seal of another segment that a segment's lines were joined to.
    pub(crate) fn joined_to(&self, name: SegmentName) -> Option<&Seal> {
        let own = self.seals_of(name).next()?;
        if !self.replaced.contains(&own.seal) {
            return None;
        }
        let mut later = self
            .seals
            .range(own.seal + 1..)
            .map(|(_, placed)| &placed.seal);
        later.find(|seal| seal.replaces.contains(&own.seal) && seal.file != own.file)
    }

    /// The segment that a seal of the chain is of.
    pub(crate) fn segment_of(seal: &Seal) -> Option<SegmentName> {
        segment_of(seal).ok()
    }

    /// Whether lines of a segment were, or were to be, erased with the last of its seals.
    pub(crate) fn is_erased(&self, name: SegmentName) -> bool {
        let last = self.seals_of(name).next();
        last.is_some_and(|last| {
            let removed = self.removals.seals.get(&last.seal);
            last.reason == SealReason::Erasure || removed == Some(&RemovalReason::Erasure)
        })
    }

    /// The seals that stand in one file and are not kept with what was removed.
    pub(crate) fn only_in(&self, path: &str) -> impl Iterator<Item = &Seal> {
        let placed = self
            .seals
            .iter()
            .filter(move |(_, placed)| *placed.path == *path);
        let left = placed.filter(|(number, _)| !self.removals.seals.contains_key(number));
        left.map(|(_, placed)| &placed.seal)
    }

    /// The greatest sequence number of a line that was sealed.
    pub(crate) fn last_seq(&self) -> u64 {
        let seals = self.seals.values();
        seals.map(|placed| placed.seal.last_seq).max().unwrap_or(0)
    }

    /// Every segment that ever was sealed.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentName> {
        self.by_segment.keys().copied()
    }

    /// The last seals of segments that are not there, and were not taken away by someone who noted
    /// it; but for those of which `is_known` says that they are.
    pub(crate) fn missing(
        &self,
        storage: &dyn Storage,
        is_known: impl Fn(SegmentName) -> bool,
    ) -> Vec<&Seal> {
        let unknown = self.segments().filter(|name| !is_known(*name));
        let left = unknown.filter_map(|name| Some((name, self.last_of(name)?)));
        // Some may have been made and sealed since the others were listed.
        let missing = left.filter(|(name, _)| storage.stat(&name.path()).is_err());
        missing.map(|(_, seal)| seal).collect()
    }

    /// Whether a seal's segment was taken away by someone who noted it, or joined to another.
    fn is_gone(&self, seal: &Seal) -> bool {
        self.removals.seals.contains_key(&seal.seal) || self.replaced.contains(&seal.seal)
    }

    /// What the log of removals says was taken away.
    pub(crate) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// What is wrong with the seals themselves and with their chain.
    pub(crate) fn damage(&self) -> Vec<Damage> {
        let found = self.sources.values().flat_map(|source| &source.found);
        let mut damage: Vec<Damage> = self.unreadable.iter().chain(found).cloned().collect();
        let mut before: Option<&Seal> = None;
        for Placed { seal, path, offset } in self.seals.values() {
            let expected = before.map_or(1, |before| before.seal.saturating_add(1));
            let prev = before.map_or(Digest::ZERO, |before| before.hash);
            let number = seal.seal;
            let reason = if number > expected {
                let missing = missing("seal", expected, number);
                Some(format!(
                    "{missing} missing before this one: lines were taken out of a {SEALS}, or the file"
                ))
            } else if seal.prev != prev {
                Some(format!(
                    "seal {number} does not follow the seal before it: one of them was made anew"
                ))
            } else {
                None
            };
            damage.extend(reason.map(|reason| {
                let place = (*offset, seal.to_line().len() as u64);
                Report::new(DamageClass::Chain, place, reason).in_file(&**path)
            }));
            before = Some(seal);
        }
        damage
    }

    /// Lines that hold nothing, by offset and length, in their files.
    pub(crate) fn broken_lines(&self) -> Vec<(String, Vec<(u64, u64)>)> {
        let sources = self.sources.iter();
        let broken = sources.filter(|(_, source)| !source.broken.is_empty());
        let lines = broken.map(|(path, source)| (path.to_string(), source.broken.clone()));
        lines.collect()
    }

    /// Appends a seal to the chain. The caller holds the store's write lock, and has it sealed once
    /// [`settle`](SealLog::settle) returned, which needs no lock. `replaces` are the seals that
    /// counted until now: of the segment before it was rewritten, and of those that are joined to it.
    ///
    /// A segment that is rewritten gets its new seal first: append, settle, then rename.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io); then the seal may be there, or a part of it, which the next one ends.
    pub(crate) fn append(
        &mut self,
        storage: &dyn Storage,
        now_ms: i64,
        name: SegmentName,
        contents: &Contents,
        reason: SealReason,
        replaces: Vec<u64>,
    ) -> Result<Seal> {
        self.refresh(storage)?;
        // One that survives the machine must not outlive the one that it follows. It was synced
        // before, unless another process added it just now.
        self.settle(storage)?;
        if let Some(damage) = self.unreadable.first() {
            let message = format!(
                "cannot seal while a part of the seals is not known: {}",
                damage.reason
            );
            let path = full_path(storage, &damage.file);
            return Err(Error::new(ErrorKind::Damaged, message).with_path(&path));
        }
        let last = self.last();
        let link = Link {
            seal: last.map_or(1, |last| last.seal.saturating_add(1)),
            prev: last.map_or(Digest::ZERO, |last| last.hash),
        };
        let seal = Seal::new(link, now_ms, name.path(), contents, reason, replaces);
        let path = format!("{}/{SEALS}", name.day);
        let source = self.sources.get(&*path);
        let has_tail = source.is_some_and(|source| source.has_tail);
        let end_of_tail = if has_tail { "\n" } else { "" };
        let bytes = format!("{end_of_tail}{}\n", seal.to_line());
        let appended = storage
            .open(&path, Access::Append)
            .and_then(|file| append_all(&*file, bytes.as_bytes()));
        appended.map_err(|e| io_error(storage, "append the seal to", &path, e))?;
        self.refresh(storage)?;
        Ok(seal)
    }

    /// Makes the chain survive the machine.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub(crate) fn settle(&mut self, storage: &dyn Storage) -> Result<()> {
        let Some((number, last)) = self.seals.last_key_value() else {
            return Ok(());
        };
        let (number, path) = (*number, Arc::clone(&last.path));
        // Who moves seals to the log of removals syncs that.
        if number > self.durable
            && let Some((day, _)) = path.split_once('/')
        {
            let synced = storage
                .open(&path, Access::Append)
                .and_then(|file| file.sync());
            let synced = synced.and_then(|()| storage.sync_dir(day));
            synced.map_err(|e| io_error(storage, "sync", &path, e))?;
        }
        self.durable = number;
        Ok(())
    }
}

/// The numbers that are missing before one, as the subject of a sentence.
fn missing(what: &str, first: u64, next: u64) -> String {
    if next == first + 1 {
        format!("{what} {first} is")
    } else {
        format!("{what}s {first} to {} are", next - 1)
    }
}

/// The segment that a seal is of.
fn segment_of(seal: &Seal) -> Result<SegmentName, String> {
    let name = seal.file.split_once('/').and_then(|(day, file)| {
        let day: Day = day.parse().ok()?;
        SegmentName::parse(day, file)
    });
    name.ok_or_else(|| {
        format!(
            "seal {} is of {:?}, which is no segment's name",
            seal.seal, seal.file
        )
    })
}
