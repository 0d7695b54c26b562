//! The chain of a store's seals: every day's `seals.jsonl`, and what `removals.jsonl` keeps of those
//! whose segments are gone. Only ever appended to.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result, is_of_what_is_read};
use crate::record::Day;
use crate::segment::seal::{Contents, Digest, Link, Seal, SealReason};
use crate::segment::{Damage, DamageClass, SegmentName};
use crate::storage::{Access, FileStat, Storage, append_all, full_path, is_gone, read_full};
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
    /// The seals of segments that are gone.
    seals: BTreeSet<u64>,
}

/// A file that has seals.
#[derive(Debug, Default)]
struct Source {
    identity: u64,
    /// After the last LF that was read.
    end: u64,
    /// Bytes follow there that have no LF.
    has_tail: bool,
    /// The number of its last seal.
    last: u64,
    found: Vec<Damage>,
    /// Lines that hold nothing, by offset and length.
    broken: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Placed {
    seal: Seal,
    path: Arc<str>,
    offset: u64,
}

/// What this room needs to know of a line of `removals.jsonl`.
#[derive(Deserialize)]
struct Removal<'a> {
    reason: RemovalReason,
    #[serde(default)]
    lines: u64,
    #[serde(default)]
    first_seq: u64,
    #[serde(default)]
    last_seq: u64,
    #[serde(default, borrow)]
    seals: Vec<&'a RawValue>,
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

    /// Reads what was added since.
    pub(crate) fn refresh(&mut self, storage: &dyn Storage) -> Result<()> {
        let root = storage.read_dir("");
        let root = root.map_err(|e| Error::io("list the directory", storage.root(), e))?;
        let days = root
            .iter()
            .filter(|entry| entry.is_dir && entry.name.parse::<Day>().is_ok());
        let paths = days.map(|day| format!("{}/{SEALS}", day.name));
        let mut found = BTreeMap::new();
        self.unreadable.clear();
        for path in paths.chain([REMOVALS.to_owned()]) {
            match storage.stat(&path) {
                Ok(stat) => _ = found.insert(path, stat),
                Err(e) if is_gone(&e) => {}
                Err(e) => self.leave_out(storage, path, e)?,
            }
        }
        let is_as_known = |(path, known): (&Arc<str>, &Source)| {
            let found = found.get(&**path);
            found.is_none_or(|found| found.identity == known.identity && found.len >= known.end)
        };
        if !self.sources.iter().all(is_as_known) {
            self.forget();
        }
        self.read_all(storage, &found)?;
        let gone = self
            .sources
            .keys()
            .filter(|path| !found.contains_key(&***path));
        let gone: Vec<Arc<str>> = gone.cloned().collect();
        if !gone.iter().all(|path| self.is_moved(path)) {
            self.forget();
            self.read_all(storage, &found)?;
        }
        Ok(())
    }

    /// Reads what was added since, while others may add more: of two seals in different files the
    /// later one may be seen first.
    pub(crate) fn refresh_whole(&mut self, storage: &dyn Storage) -> Result<()> {
        const TRIES_MAX: u32 = 20;
        for _ in 0..TRIES_MAX {
            self.refresh(storage)?;
            if self.last().is_none_or(|last| last.seal == self.len()) {
                break;
            }
        }
        Ok(())
    }

    fn forget(&mut self) {
        *self = SealLog {
            unreadable: std::mem::take(&mut self.unreadable),
            durable: self.durable,
            ..SealLog::default()
        };
    }

    /// Reads what was added to these files.
    fn read_all(
        &mut self,
        storage: &dyn Storage,
        found: &BTreeMap<String, FileStat>,
    ) -> Result<()> {
        for (path, stat) in found {
            let known = self.sources.get(&**path);
            if known.is_some_and(|known| known.end == stat.len) {
                continue;
            }
            if let Err(e) = self.read_source(storage, path, stat.identity)
                && !is_gone(&e)
            {
                self.leave_out(storage, path.clone(), e)?;
            }
        }
        Ok(())
    }

    /// Whether all seals of a file that is gone are kept with what was removed. They stand there
    /// from then on.
    fn is_moved(&mut self, path: &str) -> bool {
        let removals: Arc<str> = REMOVALS.into();
        for (number, placed) in &mut self.seals {
            if *placed.path != *path {
                continue;
            }
            if !self.removals.seals.contains(number) {
                return false;
            }
            placed.path = Arc::clone(&removals);
        }
        self.sources.remove(path);
        true
    }

    fn leave_out(&mut self, storage: &dyn Storage, path: String, e: io::Error) -> Result<()> {
        // Also what is no file.
        if is_of_what_is_read(&e) || e.kind() == io::ErrorKind::InvalidInput {
            self.unreadable.push(Damage::unreadable(path, &e));
            return Ok(());
        }
        Err(Error::io(
            "read the seals in",
            &full_path(storage, &path),
            e,
        ))
    }

    /// Reads a file on from where it was read to.
    fn read_source(&mut self, storage: &dyn Storage, path: &str, identity: u64) -> io::Result<()> {
        let path: Arc<str> = path.into();
        let mut source = self.sources.remove(&path).unwrap_or_default();
        source.identity = identity;
        let read = self.read_lines(storage, &path, &mut source);
        self.sources.insert(path, source);
        read
    }

    fn read_lines(
        &mut self,
        storage: &dyn Storage,
        path: &Arc<str>,
        source: &mut Source,
    ) -> io::Result<()> {
        const CHUNK_BYTES: usize = 256 << 10;
        let file = storage.open(path, Access::Read)?;
        let mut bytes = Vec::new();
        // What no LF followed at the last look is looked at once more.
        source
            .found
            .retain(|found| found.class != DamageClass::Torn);
        source.broken.retain(|(offset, _)| *offset < source.end);
        loop {
            let filled = bytes.len();
            bytes.resize(filled + CHUNK_BYTES, 0);
            let read = read_full(&*file, &mut bytes[filled..], source.end + filled as u64)?;
            bytes.truncate(filled + read);
            let mut start = 0;
            while let Some(len) = memchr::memchr(b'\n', &bytes[start..]) {
                self.take(path, source, &bytes[start..start + len]);
                source.end += len as u64 + 1;
                start += len + 1;
            }
            bytes.drain(..start);
            if read < CHUNK_BYTES {
                break;
            }
        }
        source.has_tail = !bytes.is_empty();
        if source.has_tail {
            let (offset, known) = (source.end, source.found.len());
            // A seal counts if it is whole, so that its number is not given again.
            let is_seal = **path != *REMOVALS;
            if is_seal {
                self.take(path, source, &bytes);
            }
            let is_whole = is_seal && source.found.len() == known;
            let reason = if is_whole {
                "the last line has no LF; it counts, and gets one before the next"
            } else {
                "the last line is cut short"
            };
            source.found.truncate(known);
            source.found.push(Damage {
                file: path.to_string(),
                offset,
                length: bytes.len() as u64,
                class: DamageClass::Torn,
                reason: reason.to_owned(),
            });
        }
        Ok(())
    }

    /// Takes a line in that stands where the source was read to.
    fn take(&mut self, path: &Arc<str>, source: &mut Source, line: &[u8]) {
        // What a torn line became once it was ended.
        if line.is_empty() {
            return;
        }
        let place = (source.end, line.len() as u64);
        let read = if **path == *REMOVALS {
            removal(line).map(|(removal, seals)| self.take_removal(path, source, &removal, seals))
        } else {
            seal(line).map(|(name, seal)| self.take_seal(path, source, name, seal))
        };
        let taken = read.unwrap_or_else(|reason| {
            source.broken.push(place);
            Err(reason)
        });
        if let Err(reason) = taken {
            let (offset, length) = place;
            source.found.push(Damage {
                file: path.to_string(),
                offset,
                length,
                class: DamageClass::Chain,
                reason,
            });
        }
    }

    fn take_removal(
        &mut self,
        path: &Arc<str>,
        source: &Source,
        removal: &Removal<'_>,
        seals: Vec<(SegmentName, Seal)>,
    ) -> Result<(), String> {
        if removal.lines > 0 {
            let lines = self.removals.lines.entry(removal.reason).or_default();
            *lines = lines.saturating_add(removal.lines);
        }
        if removal.last_seq > 0 {
            self.removals.seqs.push(SeqRange {
                first: removal.first_seq,
                last: removal.last_seq,
            });
        }
        for (name, seal) in seals {
            self.removals.seals.insert(seal.seal);
            self.add(path, source.end, name, seal)?;
        }
        Ok(())
    }

    fn take_seal(
        &mut self,
        path: &Arc<str>,
        source: &mut Source,
        name: SegmentName,
        seal: Seal,
    ) -> Result<(), String> {
        let number = seal.seal;
        let last = std::mem::replace(&mut source.last, number);
        self.add(path, source.end, name, seal)?;
        if !path.starts_with(&name.day.to_string()) {
            return Err(format!(
                "seal {number} is of {name}, of another day than this file"
            ));
        }
        if number < last {
            return Err(format!(
                "seal {number} stands after seal {last}: lines changed places"
            ));
        }
        Ok(())
    }

    fn add(
        &mut self,
        path: &Arc<str>,
        offset: u64,
        name: SegmentName,
        seal: Seal,
    ) -> Result<(), String> {
        let number = seal.seal;
        if let Some(known) = self.seals.get(&number) {
            if known.seal != seal {
                return Err(format!(
                    "another seal in {} has number {number}, too",
                    known.path
                ));
            }
            // It is there twice while it is moved to the log of removals, which is read last.
            let is_same = (&known.path, known.offset) == (path, offset) || **path == *REMOVALS;
            return is_same
                .then_some(())
                .ok_or_else(|| format!("seal {number} is in {}, too", known.path));
        }
        let numbers = self.by_segment.entry(name).or_default();
        let place = numbers.partition_point(|known| *known < number);
        numbers.insert(place, number);
        self.replaced.extend(&seal.replaces);
        let path = Arc::clone(path);
        self.seals.insert(number, Placed { seal, path, offset });
        Ok(())
    }

    /// The last seal of the chain.
    pub(crate) fn last(&self) -> Option<&Seal> {
        self.seals.last_key_value().map(|(_, placed)| &placed.seal)
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

    /// The seals that stand in one file and are not kept with what was removed.
    pub(crate) fn only_in(&self, path: &str) -> impl Iterator<Item = &Seal> {
        let placed = self
            .seals
            .iter()
            .filter(move |(_, placed)| *placed.path == *path);
        let left = placed.filter(|(number, _)| !self.removals.seals.contains(number));
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

    /// Whether a seal's segment was taken away by someone who noted it, or joined to another.
    fn is_gone(&self, seal: &Seal) -> bool {
        self.removals.seals.contains(&seal.seal) || self.replaced.contains(&seal.seal)
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
                let missing = if number == expected + 1 {
                    format!("seal {expected} is")
                } else {
                    format!("seals {expected} to {} are", number - 1)
                };
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
            damage.extend(reason.map(|reason| Damage {
                file: path.to_string(),
                offset: *offset,
                length: seal.to_line().len() as u64,
                class: DamageClass::Chain,
                reason,
            }));
            before = Some(seal);
        }
        damage
    }

    /// Lines that hold nothing, by offset and length, in their files.
    pub(crate) fn broken_lines(&self) -> Vec<(String, Vec<(u64, u64)>)> {
        let broken = self
            .sources
            .iter()
            .filter(|(_, source)| !source.broken.is_empty());
        broken
            .map(|(path, source)| (path.to_string(), source.broken.clone()))
            .collect()
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
        let link = self.last().map_or(
            Link {
                seal: 1,
                prev: Digest::ZERO,
            },
            |last| Link {
                seal: last.seal.saturating_add(1),
                prev: last.hash,
            },
        );
        let seal = Seal::new(link, now_ms, name.path(), contents, reason, replaces);
        let path = format!("{}/{SEALS}", name.day);
        let has_tail = self
            .sources
            .get(&*path)
            .is_some_and(|source| source.has_tail);
        let end_of_tail = if has_tail { "\n" } else { "" };
        let bytes = format!("{end_of_tail}{}\n", seal.to_line());
        let appended = storage
            .open(&path, Access::Append)
            .and_then(|file| append_all(&*file, bytes.as_bytes()));
        appended.map_err(|e| Error::io("append the seal to", &full_path(storage, &path), e))?;
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
            synced.map_err(|e| Error::io("sync", &full_path(storage, &path), e))?;
        }
        self.durable = number;
        Ok(())
    }
}

/// Reads a line of `seals.jsonl`.
fn seal(line: &[u8]) -> Result<(SegmentName, Seal), String> {
    let line = std::str::from_utf8(line).map_err(|e| format!("the line is no text: {e}"))?;
    let seal = Seal::parse(line).map_err(|e| e.reason())?;
    Ok((segment_of(&seal)?, seal))
}

/// Reads a line of `removals.jsonl`, and the seals in it.
fn removal(line: &[u8]) -> Result<(Removal<'_>, Vec<(SegmentName, Seal)>), String> {
    let removal: Removal<'_> = serde_json::from_slice(line)
        .map_err(|e| format!("the line does not tell of a removal: {e}"))?;
    let seals = removal.seals.iter();
    let seals = seals.map(|text| seal(text.get().as_bytes()));
    let seals = seals.collect::<Result<_, _>>()?;
    Ok((removal, seals))
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
