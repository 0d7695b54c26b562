//! Looks for the text in the bytes that a reverse scan comes to next, on all cores.
//!
//! It only finds ranges of whole lines that cannot match. The scan skips them, and reads all other
//! lines in order, as if nobody had looked ahead. So what a scan returns does not depend on it.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, available_parallelism};

use memchr::memchr;

use super::ReverseScan;
use super::part::Part;
use crate::error::Result;
use crate::record::Kind;
use crate::segment::SegmentName;
use crate::storage::read_full;

/// Number of bytes that a thread looks at before it takes the next ones. They fit the cache of a
/// core.
const UNIT_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    300
} else {
    256 << 10
};
/// With fewer bytes than this, other threads do not pay off.
const AHEAD_BYTES_MIN: u64 = if cfg!(any(test, fuzzing)) {
    1 << 10
} else {
    1 << 20
};
/// Maximum number of bytes to look at before the scan continues.
const AHEAD_BYTES_MAX: u64 = if cfg!(any(test, fuzzing)) {
    16 << 10
} else {
    128 << 20
};
/// After lines that mostly match, looking ahead pauses. The pause is their length in bytes times
/// this number.
const PAUSE_FACTOR: u64 = 4;

/// A segment's index and identity.
type FileId = (u32, u64);

/// What is known of bytes that the scan has not reached.
pub(super) struct LookAhead {
    threads: usize,
    /// Number of bytes that the scan has passed.
    passed: u64,
    /// Looking ahead pauses until this number of bytes was passed.
    resume_at: u64,
    files: HashMap<FileId, Looked>,
}

/// What is known of one segment.
#[derive(Debug)]
struct Looked {
    /// Bytes from here on were looked at.
    low: u64,
    /// The parts without a match, from the last to the first.
    clean: Vec<Clean>,
}

/// A range without a match.
#[derive(Debug)]
struct Clean {
    /// The first line that begins in the range.
    first_line: u64,
    from: u64,
    until: u64,
}

/// Bytes to look at.
#[derive(Debug, Clone, Copy)]
struct Unit {
    name: SegmentName,
    file: FileId,
    from: u64,
    until: u64,
    /// The end of the segment. A match that begins before `until` may end after it.
    end: u64,
}

impl LookAhead {
    pub(super) fn new() -> LookAhead {
        LookAhead {
            threads: available_parallelism().map_or(1, usize::from),
            passed: 0,
            resume_at: 0,
            files: HashMap::new(),
        }
    }

    /// Counts bytes that the scan has read or skipped.
    pub(super) fn pass(&mut self, bytes: u64) {
        self.passed += bytes;
    }

    /// Forgets a segment that was read.
    pub(super) fn forget(&mut self, part: &Part) {
        self.files.remove(&part.file());
    }

    /// Forgets all segments, since some were replaced.
    pub(super) fn forget_all(&mut self) {
        self.files.clear();
    }

    /// The start of the line from which on no unread line of the part matches. `None` if the last
    /// unread one may match.
    pub(super) fn start_of_clean(&self, part: &Part) -> Option<u64> {
        let looked = self.files.get(&part.file())?;
        let ends = |clean: &&Clean| clean.first_line < part.left && part.left <= clean.until;
        looked.clean.iter().find(ends).map(|clean| clean.first_line)
    }

    /// How far to look ahead of this part. Not at all if the next bytes were looked at. At most as
    /// far as the scan has come, so that a scan that ends soon did little for nothing.
    fn bytes_ahead(&self, part: &Part) -> Option<u64> {
        let looked = self.files.get(&part.file());
        let is_known = looked.is_some_and(|looked| looked.low < part.left);
        let bytes = self.passed.min(AHEAD_BYTES_MAX);
        let is_long = bytes >= AHEAD_BYTES_MIN && self.passed >= self.resume_at;
        (self.threads > 1 && is_long && !is_known).then_some(bytes)
    }

    /// Adds the next bytes before `left` of a segment to `units`, at most `bytes`. Returns their
    /// number.
    fn add(&self, unit: Unit, bytes: u64, units: &mut Vec<Unit>) -> u64 {
        let looked = self.files.get(&unit.file);
        let mut until = looked.map_or(unit.until, |looked| looked.low.min(unit.until));
        let stop = until.saturating_sub(bytes);
        let added = until - stop;
        while until > stop {
            let from = until.saturating_sub(UNIT_BYTES).max(stop);
            units.push(Unit {
                from,
                until,
                ..unit
            });
            until = from;
        }
        added
    }

    /// Notes what was found in a unit: the first line that begins in it, if nothing matches.
    fn note(&mut self, unit: &Unit, first_line: Option<u64>) {
        let Unit { from, until, .. } = *unit;
        let looked = self.files.entry(unit.file).or_insert(Looked {
            low: until,
            clean: Vec::new(),
        });
        looked.low = from;
        let Some(first_line) = first_line else {
            return;
        };
        match looked.clean.last_mut() {
            Some(last) if last.from == until => {
                (last.first_line, last.from) = (first_line, from);
            }
            _ => looked.clean.push(Clean {
                first_line,
                from,
                until,
            }),
        }
    }
}

impl ReverseScan<'_> {
    /// Looks at the next bytes, which end with this part, if that pays off.
    pub(super) fn look_ahead(&mut self, nth: usize) -> Result<()> {
        let Some(bytes) = self.ahead.bytes_ahead(&self.parts[nth]) else {
            return Ok(());
        };
        let units = self.units(nth, bytes)?;
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut buffer, mut looked) = (Vec::new(), Vec::new());
            while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
                looked.push((*unit, self.first_line_of_clean(unit, &mut buffer)));
            }
            looked
        };
        let mut looked = std::thread::scope(|scope| {
            // This thread works too, and alone if the system has no other.
            let spawn = |_| Builder::new().spawn_scoped(scope, work).ok();
            let others: Vec<_> = (1..self.ahead.threads).filter_map(spawn).collect();
            let mut looked = work();
            for other in others {
                let joined = other.join();
                looked.extend(joined.unwrap_or_else(|panic| resume_unwind(panic)));
            }
            looked
        });
        // From the last bytes of each segment to its first.
        looked.sort_unstable_by_key(|(unit, _)| (unit.file, Reverse(unit.until)));
        let clean = looked.iter().filter(|(_, clean)| clean.is_some()).count();
        if clean * 2 < looked.len() {
            self.ahead.resume_at = self.ahead.passed + bytes * PAUSE_FACTOR;
        }
        for (unit, clean) in &looked {
            self.ahead.note(unit, *clean);
        }
        Ok(())
    }

    /// The bytes to look at: of this part, of the other parts of its day, and of the days before.
    fn units(&self, nth: usize, bytes: u64) -> Result<Vec<Unit>> {
        let mut units = Vec::new();
        let mut left = bytes;
        let mut add = |name, file, until, end| {
            let unit = Unit {
                name,
                file,
                from: 0,
                until,
                end,
            };
            left -= self.ahead.add(unit, left, &mut units);
            left > 0
        };
        let others = self.parts[..nth].iter().chain(&self.parts[nth + 1..]);
        let mut parts = [&self.parts[nth]].into_iter().chain(others);
        let is_all = parts.all(|part| add(part.name, part.file(), part.left, part.end));
        let Some(day) = self.day.filter(|_| is_all) else {
            return Ok(units);
        };
        let first = SegmentName {
            day,
            kind: Kind::ALL[0],
            number: 0,
        };
        let view = self.inner.snapshot()?;
        for (name, place) in view.state.by_name.range(..first).rev() {
            let segment = &view.state.segments[*place as usize];
            let (file, end) = ((*place, segment.identity), segment.end);
            if self.scope.has(*name) && !add(*name, file, end, end) {
                break;
            }
        }
        Ok(units)
    }

    /// The first line that begins in a unit in which nothing matches. `None` if something may
    /// match, no line begins there, or the bytes cannot be read: then the scan reads them itself.
    fn first_line_of_clean(&self, unit: &Unit, buffer: &mut Vec<u8>) -> Option<u64> {
        let Unit { from, until, .. } = *unit;
        let (place, identity) = unit.file;
        let storage = &*self.inner.storage;
        let file = self.inner.files.get(storage, place, unit.name, identity);
        let file = file.ok()?;
        let stop = until.saturating_add(self.sought.bytes_max() as u64);
        let wanted = (stop.min(unit.end) - from) as usize;
        if buffer.len() < wanted {
            buffer.resize(wanted, 0);
        }
        let bytes = &mut buffer[..wanted];
        let read = read_full(&*file, bytes, from).ok()?;
        if read < wanted || self.sought.find(bytes).is_some() {
            return None;
        }
        if from == 0 {
            return Some(0);
        }
        let lf = memchr(b'\n', &bytes[..(until - from) as usize])?;
        Some(from + lf as u64 + 1).filter(|start| *start < until)
    }
}
