//! The chain of a store's seals: each day's `seals.jsonl`, and the seals of removed segments in
//! `removals.jsonl`. Both files are append-only.

mod read;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use self::read::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, Kind};
use crate::segment::seal::{Contents, Digest, Seal, SealHead, SealReason};
use crate::segment::{Damage, DamageClass, Report, SegmentName};
use crate::storage::{Access, Storage, append_all, full_path, io_error};
use crate::store::{RemovalReason, SeqRange};

const SEALS: &str = "seals.jsonl";
const REMOVALS: &str = "removals.jsonl";

/// All seals of a store, as far as they were read.
///
/// To append, take the lock of this log first, then the store's write lock.
#[derive(Debug, Default)]
pub(crate) struct SealLog {
    /// Files with seals, by path.
    sources: BTreeMap<Arc<str>, Source>,
    seals: BTreeMap<u64, Placed>,
    /// The numbers of each segment's seals, in order.
    by_segment: BTreeMap<SegmentName, Vec<u64>>,
    /// The seals that were replaced by later ones.
    replaced: BTreeSet<u64>,
    removals: Removals,
    /// Files that cannot be read. If there are any, the last seal is not known.
    unreadable: Vec<Damage>,
    /// The last seal known to be synced.
    durable: u64,
}

/// The removals recorded in `removals.jsonl`.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    /// Number of lines by reason.
    pub lines: BTreeMap<RemovalReason, u64>,
    /// The ranges of their sequence numbers.
    pub seqs: Vec<SeqRange>,
    /// The seals of removed segments, with the reason of the removal.
    seals: BTreeMap<u64, RemovalReason>,
    /// The SHA-256 of each line, by its number.
    pub hashes: BTreeMap<u64, Digest>,
}

#[derive(Debug)]
struct Placed {
    seal: Seal,
    path: Arc<str>,
    offset: u64,
}

impl Removals {
    /// Number of lines removed. An upper bound, since an interrupted removal is recorded twice.
    pub(crate) fn all_lines(&self) -> u64 {
        let lines = self.lines.values();
        lines.fold(0, |sum, lines| sum.saturating_add(*lines))
    }
}

impl SealLog {
    /// The name of the file with a day's seals.
    pub(crate) const FILE: &str = SEALS;

    /// Reads all seals of a store.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if the store cannot be read. A single unreadable file is no error; it
    /// is reported by [`damage`](SealLog::damage).
    pub(crate) fn read(storage: &dyn Storage) -> Result<SealLog> {
        let mut log = SealLog::default();
        log.refresh(storage)?;
        Ok(log)
    }

    /// The greatest segment number of this day and kind that was ever sealed, as far as the day's
    /// seals can be read.
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

    /// The last seal and the last removal; `None` if nothing was ever sealed.
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

    /// Number of seals.
    pub(crate) fn len(&self) -> u64 {
        self.seals.len() as u64
    }

    /// The seals of all segments that ever had this name, the last one first.
    pub(crate) fn seals_of(&self, name: SegmentName) -> impl Iterator<Item = &Seal> {
        let numbers = self.by_segment.get(&name).into_iter().flatten().rev();
        numbers.filter_map(|number| self.get(*number))
    }

    /// The current seal of a segment.
    pub(crate) fn last_of(&self, name: SegmentName) -> Option<&Seal> {
        self.seals_of(name)
            .next()
            .filter(|seal| !self.is_gone(seal))
    }

    /// The current seal of a segment, and those that it replaced. If the replacement was
    /// interrupted, the segment matches one of these.
    pub(crate) fn last_and_earlier(&self, name: SegmentName) -> impl Iterator<Item = &Seal> {
        let last = self.last_of(name);
        let mut replaced: BTreeSet<u64> = last.iter().map(|last| last.seal).collect();
        self.seals_of(name).filter(move |seal| {
            // The replaced seal may itself come from an interrupted rewrite and have replaced
            // another.
            let is_one = replaced.contains(&seal.seal);
            if is_one {
                replaced.extend(&seal.replaces);
            }
            is_one
        })
    }

    /// Whether a segment is sealed and its length matches no seal of
    /// [`last_and_earlier`](SealLog::last_and_earlier).
    pub(crate) fn is_of_other_length(&self, name: SegmentName, len: u64) -> bool {
        self.last_of(name).is_some() && self.last_and_earlier(name).all(|seal| seal.bytes != len)
    }

    /// The last seal of a segment that was removed. A later segment may have its name.
    pub(crate) fn gone(&self, name: SegmentName) -> Option<&Seal> {
        self.seals_of(name).next().filter(|seal| self.is_gone(seal))
    }

    /// The seal of the segment that this segment's lines were joined to.
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

    /// The segment of a seal.
    pub(crate) fn segment_of(seal: &Seal) -> Option<SegmentName> {
        segment_of(seal).ok()
    }

    /// Whether the last seal of a segment is for an erasure, completed or not.
    pub(crate) fn is_erased(&self, name: SegmentName) -> bool {
        let last = self.seals_of(name).next();
        last.is_some_and(|last| {
            let removed = self.removals.seals.get(&last.seal);
            last.reason == SealReason::Erasure || removed == Some(&RemovalReason::Erasure)
        })
    }

    /// The seals in one file that are not also in `removals.jsonl`.
    pub(crate) fn only_in(&self, path: &str) -> impl Iterator<Item = &Seal> {
        let placed = self
            .seals
            .iter()
            .filter(move |(_, placed)| *placed.path == *path);
        let left = placed.filter(|(number, _)| !self.removals.seals.contains_key(number));
        left.map(|(_, placed)| &placed.seal)
    }

    /// The greatest sequence number of a sealed line.
    pub(crate) fn last_seq(&self) -> u64 {
        let seals = self.seals.values();
        seals.map(|placed| placed.seal.last_seq).max().unwrap_or(0)
    }

    /// All segments that were ever sealed.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentName> {
        self.by_segment.keys().copied()
    }

    /// The last seals of segments that are missing without a recorded removal. Skips those for
    /// which `is_known` is true.
    pub(crate) fn missing(
        &self,
        storage: &dyn Storage,
        is_known: impl Fn(SegmentName) -> bool,
    ) -> Vec<&Seal> {
        let unknown = self.segments().filter(|name| !is_known(*name));
        let left = unknown.filter_map(|name| Some((name, self.last_of(name)?)));
        // A segment may have been created and sealed after the others were listed.
        let missing = left.filter(|(name, _)| storage.stat(&name.path()).is_err());
        missing.map(|(_, seal)| seal).collect()
    }

    /// Whether a seal's segment was removed, as recorded, or joined to another one.
    fn is_gone(&self, seal: &Seal) -> bool {
        self.removals.seals.contains_key(&seal.seal) || self.replaced.contains(&seal.seal)
    }

    /// The removals recorded in `removals.jsonl`.
    pub(crate) fn removals(&self) -> &Removals {
        &self.removals
    }

    /// Damage of the seals themselves and of their chain.
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

    /// Invalid lines by file, with offset and length.
    pub(crate) fn broken_lines(&self) -> Vec<(String, Vec<(u64, u64)>)> {
        let sources = self.sources.iter();
        let broken = sources.filter(|(_, source)| !source.broken.is_empty());
        let lines = broken.map(|(path, source)| (path.to_string(), source.broken.clone()));
        lines.collect()
    }

    /// Appends a seal to the chain. The caller holds the store's write lock. The segment counts as
    /// sealed once [`settle`](SealLog::settle) returned, which needs no lock. `replaces` are the
    /// seals that were current until now: those of the segment before its rewrite, and of the
    /// segments joined to it.
    ///
    /// A segment that is rewritten gets its new seal first: append, settle, then rename.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io). Then the file may have the seal or a part of it; the next append
    /// terminates that line.
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
        // A synced seal must not survive a crash that loses its predecessor. The predecessor is
        // synced already, unless another process has just appended it.
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
        let seal = Seal::new(last, now_ms, name.path(), contents, reason, replaces);
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

    /// Syncs the chain to disk.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub(crate) fn settle(&mut self, storage: &dyn Storage) -> Result<()> {
        let Some((number, last)) = self.seals.last_key_value() else {
            return Ok(());
        };
        let (number, path) = (*number, Arc::clone(&last.path));
        // Seals in `removals.jsonl` are synced by the process that moves them there.
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

/// The missing numbers before `next`, as the subject of a sentence.
fn missing(what: &str, first: u64, next: u64) -> String {
    if next == first + 1 {
        format!("{what} {first} is")
    } else {
        format!("{what}s {first} to {} are", next - 1)
    }
}

/// The segment of a seal.
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
