//! Reads each day's `seals.jsonl` and `removals.jsonl`, from where the last read ended.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Placed, REMOVALS, SEALS, SealLog, missing, segment_of};
use crate::error::{Result, is_of_what_is_read};
use crate::line::{is_intact, is_object};
use crate::record::Day;
use crate::segment::seal::{Digest, Seal};
use crate::segment::{Damage, DamageClass, Report, SegmentName};
use crate::storage::{Access, FileStat, Storage, io_error, is_gone, read_full};
use crate::store::{RemovalReason, SeqRange};

/// A file with seals.
#[derive(Debug, Default)]
pub(super) struct Source {
    identity: u64,
    /// The offset after the last LF that was read.
    end: u64,
    /// Whether bytes without an LF follow `end`.
    pub has_tail: bool,
    /// The number of its last seal.
    last: u64,
    pub found: Vec<Damage>,
    /// Invalid lines, by offset and length.
    pub broken: Vec<(u64, u64)>,
}

/// The fields of a line of `removals.jsonl` that are used here.
#[derive(Deserialize)]
struct Removal<'a> {
    seq: u64,
    reason: RemovalReason,
    #[serde(default)]
    lines: u64,
    #[serde(default)]
    first_seq: u64,
    #[serde(default)]
    last_seq: u64,
    #[serde(default, borrow)]
    seals: Vec<&'a RawValue>,
    prev: Digest,
}

impl SealLog {
    /// Reads what was added since the last call.
    pub(crate) fn refresh(&mut self, storage: &dyn Storage) -> Result<()> {
        let root = storage.read_dir("");
        let root = root.map_err(|e| io_error(storage, "list the directory", "", e))?;
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

    /// Reads what was added, even while other processes add more. With seals in different files, a
    /// later seal can be seen before an earlier one; if so, it reads again.
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

    /// Whether all seals of a removed file are in `removals.jsonl`. If so, they are taken to be
    /// there from now on.
    fn is_moved(&mut self, path: &str) -> bool {
        let removals: Arc<str> = REMOVALS.into();
        for (number, placed) in &mut self.seals {
            if *placed.path != *path {
                continue;
            }
            if !self.removals.seals.contains_key(number) {
                return false;
            }
            placed.path = Arc::clone(&removals);
        }
        self.sources.remove(path);
        true
    }

    fn leave_out(&mut self, storage: &dyn Storage, path: String, e: io::Error) -> Result<()> {
        // Also if the path is not a file.
        if is_of_what_is_read(&e) || e.kind() == io::ErrorKind::InvalidInput {
            self.unreadable.push(Damage::unreadable(path, &e));
            return Ok(());
        }
        Err(io_error(storage, "read the seals in", &path, e))
    }

    /// Continues to read a file from where the last read ended.
    pub(super) fn read_source(
        &mut self,
        storage: &dyn Storage,
        path: &str,
        identity: u64,
    ) -> io::Result<()> {
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
        // A last line without LF is read again each time.
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
            // An intact seal without LF counts, so that its number is not assigned again.
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
            let torn = Report::new(DamageClass::Torn, (offset, bytes.len() as u64), reason);
            source.found.push(torn.in_file(&**path));
        }
        Ok(())
    }

    /// Processes a line that begins at `source.end`.
    fn take(&mut self, path: &Arc<str>, source: &mut Source, line: &[u8]) {
        // Terminating a torn line can leave an empty line.
        if line.is_empty() {
            return;
        }
        let place = (source.end, line.len() as u64);
        let read = if **path == *REMOVALS {
            removal(line).map(|(removal, seals)| {
                let follows = self.follow(&removal, Digest::of(line));
                self.take_removal(path, source, &removal, seals)
                    .and(follows)
            })
        } else {
            seal(line).map(|(name, seal)| self.take_seal(path, source, name, seal))
        };
        let (class, reason) = match read {
            Ok(Ok(())) => return,
            Ok(Err(reason)) => (DamageClass::Chain, reason),
            Err(reason) => {
                source.broken.push(place);
                if is_object(line) {
                    (DamageClass::Chain, reason)
                } else {
                    // What a crash left of a line that another process ended with an LF.
                    let reason = "the line is no JSON object".to_owned();
                    (DamageClass::Damaged, reason)
                }
            }
        };
        let report = Report::new(class, place, reason);
        source.found.push(report.in_file(&**path));
    }

    /// Records a removal as the last one of the chain. Returns an error if it does not follow the
    /// previous one.
    fn follow(&mut self, removal: &Removal<'_>, hash: Digest) -> Result<(), String> {
        let hashes = &mut self.removals.hashes;
        let seq = removal.seq;
        let last = hashes.last_key_value();
        let (before, prev) = last.map_or((0, Digest::ZERO), |(seq, hash)| (*seq, *hash));
        hashes.insert(seq, hash);
        if seq <= before {
            return Err(format!(
                "removal {seq} stands after removal {before}: lines changed places, or one was added"
            ));
        }
        let expected = before.saturating_add(1);
        if seq > expected {
            let missing = missing("removal", expected, seq);
            return Err(format!(
                "{missing} missing before this one: lines were taken out of {REMOVALS}"
            ));
        }
        if removal.prev == prev {
            return Ok(());
        }
        Err(format!(
            "removal {seq} does not follow the one before it: one of them was made anew"
        ))
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
            self.removals.seals.insert(seal.seal, removal.reason);
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
            // While a seal is moved to `removals.jsonl`, it is in both files. That file is read
            // last.
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
}

/// Parses a line of `seals.jsonl`.
fn seal(line: &[u8]) -> Result<(SegmentName, Seal), String> {
    let line = std::str::from_utf8(line).map_err(|e| format!("the line is no text: {e}"))?;
    let seal = Seal::parse(line).map_err(|e| e.reason())?;
    Ok((segment_of(&seal)?, seal))
}

/// Parses a line of `removals.jsonl`, and the seals in it.
fn removal(line: &[u8]) -> Result<(Removal<'_>, Vec<(SegmentName, Seal)>), String> {
    if !is_intact(line) {
        return Err("the line was changed: its checksum is wrong or missing".to_owned());
    }
    let removal: Removal<'_> = serde_json::from_slice(line)
        .map_err(|e| format!("the line does not tell of a removal: {e}"))?;
    let seals = removal.seals.iter();
    let seals = seals.map(|text| seal(text.get().as_bytes()));
    let seals = seals.collect::<Result<_, _>>()?;
    Ok((removal, seals))
}
