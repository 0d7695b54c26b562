//! A reverse scan for lines that may contain a text: the latest day first, and within a day the last
//! lines first. Other lines are not parsed, and no lock is held while files are read.

mod look_ahead;
mod part;

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memchr::{memchr, memrchr};

use self::look_ahead::LookAhead;
use self::part::{Part, Stopped};
use crate::error::{Error, ErrorKind, Result};
use crate::line::{Envelope, LINE_BYTES_MAX, good};
use crate::record::{Day, Kind};
use crate::segment::{Fact, Found, SegmentName, Span, Window, first_line, scan};
use crate::storage::{StorageFile, full_path, io_error, read_full};
use crate::store::Inner;
use crate::store::view::altered_seqs::clamp_altered_seqs;
use crate::store::view::refresh::Retries;

/// Number of bytes read at once from a segment.
const STRIDE_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    512
} else {
    256 << 10
};

/// Selects the segments to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scope {
    /// Only segments of this kind.
    pub kind: Option<Kind>,
    /// Only days that end after this time, in epoch milliseconds.
    pub since: i64,
    /// Only days that begin before this time, in epoch milliseconds.
    pub until: i64,
}

impl Scope {
    fn has(self, name: SegmentName) -> bool {
        let (start, end) = name.day.bounds_ms();
        let is_of_kind = self.kind.is_none_or(|kind| kind == name.kind);
        is_of_kind && start < self.until && end > self.since
    }
}

/// What a scan looks for in the bytes of lines. It cannot contain LF.
pub(crate) trait Sought: Sync {
    /// A position in the first line that may match; `None` if no line may.
    fn find(&self, lines: &[u8]) -> Option<usize>;

    /// Maximum number of bytes from which it is decided that a line may match.
    fn bytes_max(&self) -> usize;
}

/// A line that may match.
#[derive(Debug)]
pub(crate) struct Hit<'a> {
    pub kind: Kind,
    /// The sequence number; for an altered line, the adjusted one.
    pub seq: u64,
    pub envelope: &'a Envelope<'a>,
    pub bytes: &'a [u8],
}

/// The result of [`ReverseScan::step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The following lines are of this day.
    Day(Day),
    /// Some lines were read.
    Read,
    /// Segments were replaced: lines up to this number are returned again.
    Again(u64),
    /// There are no more lines.
    End,
}

/// A reverse scan, created by [`Inner::reverse_scan`].
pub(crate) struct ReverseScan<'a> {
    inner: &'a Inner,
    scope: Scope,
    sought: &'a dyn Sought,
    ahead: LookAhead,
    day: Option<Day>,
    /// Where to continue: this day, and in it the lines up to this number.
    next: Option<(Day, u64)>,
    /// The greatest sequence number to return for this day.
    upto: u64,
    parts: Vec<Part>,
    /// [`State::moved`](crate::store::view::state::State::moved) when the parts were listed.
    moved: Option<u64>,
    ceiling: u64,
    retries: Retries,
    buffer: Vec<u8>,
    bytes_read: u64,
    bytes_all: u64,
}

impl Inner {
    /// Reads the lines of the segments in scope that may match: from the end of the log, or from
    /// the line with this day and number, backwards.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if the store cannot be read.
    pub(crate) fn reverse_scan<'a>(
        &'a self,
        scope: Scope,
        sought: &'a dyn Sought,
        from: Option<(Day, u64)>,
    ) -> Result<ReverseScan<'a>> {
        let mut lines = ReverseScan {
            inner: self,
            scope,
            sought,
            ahead: LookAhead::new(),
            day: None,
            next: Some(from.unwrap_or((Day::LAST, u64::MAX))),
            upto: 0,
            parts: Vec::new(),
            moved: None,
            ceiling: 0,
            retries: Retries::default(),
            buffer: Vec::new(),
            bytes_read: 0,
            bytes_all: 0,
        };
        let view = self.snapshot()?;
        let latest = lines.next.map(|(day, _)| day);
        let names = view.state.by_name.iter();
        let names = names.filter(|(name, _)| Some(name.day) <= latest && scope.has(**name));
        let ends = names.map(|(_, place)| view.state.segments[*place as usize].end);
        lines.bytes_all = ends.fold(0, u64::saturating_add);
        drop(view);
        Ok(lines)
    }
}

impl ReverseScan<'_> {
    /// The day whose lines are being read.
    pub(crate) fn day(&self) -> Option<Day> {
        self.day
    }

    /// The greatest sequence number that a line of this day which was not returned yet can have.
    /// `None` after all lines of the day were returned.
    pub(crate) fn rest(&self) -> Option<u64> {
        let bounds = self.parts.iter().map(|part| part.bound);
        bounds.max().map(|bound| bound.min(self.upto))
    }

    /// Number of bytes read or skipped, and number of bytes in total.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.bytes_read.min(self.bytes_all), self.bytes_all)
    }

    /// Reads some lines and passes the matching ones to `sink`. A line can be passed twice, and
    /// the lines of one step come in any order.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) if the store cannot be read, [`Damaged`](ErrorKind::Damaged) if its
    /// segments change on each attempt.
    pub(crate) fn step(&mut self, sink: &mut dyn FnMut(Hit<'_>)) -> Result<Step> {
        let next = (0..self.parts.len()).max_by_key(|nth| self.parts[*nth].bound);
        let (Some(nth), Some(day)) = (next, self.day) else {
            return self.turn();
        };
        self.look_ahead(nth)?;
        let mut part = self.parts[nth];
        let before = part.left;
        let read = if part.is_plain {
            self.read_stride(&mut part, sink)
        } else {
            self.read_whole(&mut part, sink)
        };
        match read {
            Ok(()) => {
                self.bytes_read += before - part.left;
                if part.left == 0 {
                    self.ahead.forget(&part);
                    self.parts.swap_remove(nth);
                } else {
                    self.parts[nth] = part;
                }
                Ok(Step::Read)
            }
            Err(Stopped::NotPlain) => {
                self.bytes_read = self.bytes_read.saturating_sub(part.end - before);
                self.parts[nth].distrust();
                Ok(Step::Read)
            }
            Err(Stopped::Failed(e))
                if e.kind() == ErrorKind::Damaged && self.retries.are_left() =>
            {
                let rest = self.rest().unwrap_or(self.upto);
                self.inner
                    .rescan_after_failure(&mut self.retries, self.moved)?;
                self.next = Some((day, rest));
                self.ahead.forget_all();
                self.list()?;
                Ok(Step::Again(rest))
            }
            Err(Stopped::Failed(e)) => Err(e),
        }
    }

    /// Moves to the previous day.
    fn turn(&mut self) -> Result<Step> {
        if let Some(day) = self.day {
            let before = day.minus(1);
            self.next = (before < day).then_some((before, u64::MAX));
        }
        self.retries = Retries::default();
        self.list()?;
        Ok(self.day.map_or(Step::End, Step::Day))
    }

    /// Lists the parts of the next day that has segments in scope.
    fn list(&mut self) -> Result<()> {
        self.parts.clear();
        self.day = None;
        let Some((latest, upto)) = self.next else {
            return Ok(());
        };
        let view = self.inner.snapshot()?;
        let state = &view.state;
        let mut damaged = HashSet::new();
        let last = SegmentName {
            day: latest,
            kind: Kind::ALL[Kind::ALL.len() - 1],
            number: u32::MAX,
        };
        for (name, place) in state.by_name.range(..=last).rev() {
            let segment = &state.segments[*place as usize];
            if !self.scope.has(*name) || segment.end == 0 {
                continue;
            }
            if self.day.is_none() {
                self.day = Some(name.day);
                damaged = state.damaged_in(name.day);
            } else if self.day != Some(name.day) {
                break;
            }
            let mut part = Part {
                place: *place,
                name: *name,
                identity: segment.identity,
                end: segment.end,
                left: segment.end,
                bound: segment.last_seq,
                is_plain: true,
                is_placed: false,
            };
            if damaged.contains(&*name.path()) || !state.lists_all_damage(name.kind) {
                part.distrust();
            }
            self.parts.push(part);
        }
        self.upto = if self.day == Some(latest) {
            upto
        } else {
            u64::MAX
        };
        self.moved = state.moved;
        self.ceiling = state.max_seq;
        Ok(())
    }

    /// Reads the last unread lines of a part, one stride of them.
    fn read_stride(
        &mut self,
        part: &mut Part,
        sink: &mut dyn FnMut(Hit<'_>),
    ) -> Result<(), Stopped> {
        let file = self.open(part)?;
        if !part.is_placed && part.bound > self.upto {
            self.place(part, &file)?;
        }
        part.is_placed = true;
        if part.left == 0 {
            return Ok(());
        }
        if let Some(start) = self.ahead.start_of_clean(part) {
            return self.skip(part, &file, start);
        }
        let lines = self.fill(part, &*file)?;
        let mut rest = &self.buffer[lines];
        let len = rest.len() as u64;
        let kind = part.name.kind;
        let intact = |line| good(kind, line).filter(|envelope| envelope.seq <= part.bound);
        let (line, _) = split_line(rest);
        let first = intact(line).ok_or(Stopped::NotPlain)?.seq;
        while let Some(found) = self.sought.find(rest) {
            let start = memrchr(b'\n', &rest[..found]).map_or(0, |lf| lf + 1);
            let (bytes, after) = split_line(&rest[start..]);
            rest = after;
            let envelope = intact(bytes).filter(|envelope| envelope.seq >= first);
            let envelope = &envelope.ok_or(Stopped::NotPlain)?;
            let seq = envelope.seq;
            if seq <= self.upto {
                sink(Hit {
                    kind,
                    seq,
                    envelope,
                    bytes,
                });
            }
        }
        part.left -= len;
        part.bound = first.saturating_sub(1);
        self.ahead.pass(len);
        Ok(())
    }

    /// Skips the last unread lines of a part, from the one at `start`.
    fn skip(
        &mut self,
        part: &mut Part,
        file: &Arc<dyn StorageFile>,
        start: u64,
    ) -> Result<(), Stopped> {
        if start > 0 {
            let seq = self.seq_at(start, part, &mut part.window(file)?)?;
            if seq > part.bound {
                return Err(Stopped::NotPlain);
            }
            part.bound = seq.saturating_sub(1);
        }
        self.ahead.pass(part.left - start);
        part.left = start;
        Ok(())
    }

    /// The sequence number of the line at an offset.
    fn seq_at(&self, offset: u64, part: &Part, window: &mut Window) -> Result<u64, Stopped> {
        let line = window.line(offset, LINE_BYTES_MAX);
        let line = line.map_err(|e| self.io(part, e))?;
        let envelope = good(part.name.kind, line).ok_or(Stopped::NotPlain)?;
        Ok(envelope.seq)
    }

    /// Reads the bytes before `part.left` into the buffer. Returns the range of the whole lines in
    /// it.
    fn fill(&mut self, part: &Part, file: &dyn StorageFile) -> Result<Range<usize>, Stopped> {
        let mut len = STRIDE_BYTES;
        loop {
            let from = part.left.saturating_sub(len);
            let wanted = (part.left - from) as usize;
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            let bytes = &mut self.buffer[..wanted];
            let read = read_full(file, bytes, from).map_err(|e| self.io(part, e))?;
            let bytes = &self.buffer[..wanted];
            if read < wanted {
                return Err(self.changed(part).into());
            }
            if bytes.last() != Some(&b'\n') {
                return Err(Stopped::NotPlain);
            }
            if from == 0 {
                return Ok(0..wanted);
            }
            // The bytes before the first LF may be the end of a line that starts earlier.
            match memchr(b'\n', bytes) {
                Some(lf) if lf + 1 < wanted => return Ok(lf + 1..wanted),
                _ if len > LINE_BYTES_MAX as u64 => return Err(Stopped::NotPlain),
                _ => len *= 2,
            }
        }
    }

    /// Skips the last lines of a part, whose sequence numbers are too great, by binary search.
    fn place(&self, part: &mut Part, file: &Arc<dyn StorageFile>) -> Result<(), Stopped> {
        let mut window = part.window(file)?;
        let mut low = 0;
        while part.left - low > STRIDE_BYTES {
            let span = Span {
                from: low + (part.left - low) / 2,
                stop: part.left,
                until: part.left,
            };
            let first = first_line(&**file, span);
            let Some(first) = first.map_err(|e| self.io(part, e))? else {
                break;
            };
            let seq = self.seq_at(first, part, &mut window)?;
            if seq > self.upto {
                part.left = first;
                part.bound = seq - 1;
            } else {
                low = first;
            }
        }
        Ok(())
    }

    /// Reads all of a part, line by line.
    fn read_whole(
        &mut self,
        part: &mut Part,
        sink: &mut dyn FnMut(Hit<'_>),
    ) -> Result<(), Stopped> {
        if self.ahead.start_of_clean(part) == Some(0) {
            self.ahead.pass(part.left);
            part.left = 0;
            return Ok(());
        }
        let file = self.open(part)?;
        let kind = part.name.kind;
        let mut seqs = Vec::new();
        self.scan(part, &*file, &mut |fact| {
            seqs.push((fact.envelope.seq, fact.is_altered));
        })?;
        clamp_altered_seqs(&mut seqs, 0, self.ceiling);
        let mut seqs = seqs.into_iter();
        self.scan(part, &*file, &mut |fact| {
            let Some((seq, _)) = seqs.next() else {
                return;
            };
            if seq <= self.upto && self.sought.find(fact.bytes).is_some() {
                let (envelope, bytes) = (fact.envelope, fact.bytes);
                sink(Hit {
                    kind,
                    seq,
                    envelope,
                    bytes,
                });
            }
        })?;
        self.ahead.pass(part.left);
        part.left = 0;
        Ok(())
    }

    fn scan(
        &self,
        part: &Part,
        file: &dyn StorageFile,
        sink: &mut dyn FnMut(Fact<'_>),
    ) -> Result<()> {
        let kind = part.name.kind;
        let mut facts = |found: Found<'_>| found.facts(kind, sink);
        let span = Span {
            until: part.end,
            ..Span::ALL
        };
        let scanned = scan(file, kind, span, &mut facts);
        let scanned = scanned.map_err(|e| self.io(part, e))?;
        if scanned.end == part.end {
            Ok(())
        } else {
            Err(self.changed(part))
        }
    }

    fn open(&self, part: &Part) -> Result<Arc<dyn StorageFile>> {
        let Part {
            place,
            name,
            identity,
            ..
        } = *part;
        let storage = &*self.inner.storage;
        self.inner.files.get(storage, place, name, identity)
    }

    fn io(&self, part: &Part, e: io::Error) -> Error {
        io_error(
            &*self.inner.storage,
            "read the segment",
            &part.name.path(),
            e,
        )
    }

    fn changed(&self, part: &Part) -> Error {
        let message = "the segment was changed while it was read: read again";
        let path = full_path(&*self.inner.storage, &part.name.path());
        Error::new(ErrorKind::Damaged, message).with_path(&path)
    }
}

/// The first line, without its LF, and the bytes after it.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let len = memchr(b'\n', bytes).unwrap_or(bytes.len());
    let (line, rest) = bytes.split_at(len);
    (line, rest.get(1..).unwrap_or_default())
}
