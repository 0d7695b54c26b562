//! Reads lines from files while the state is not locked.
//!
//! A closure reads lines from the state. It finds those that were read ahead. At the first other
//! line it ends with an error: the lock is released, that line is read together with those
//! expected next, and the closure is called again.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use crate::error::Result;
use crate::index::{Extent, Loc};
use crate::line::LINE_BYTES_MAX;
use crate::segment::{SegmentName, Window, next_read};
use crate::storage::{StorageFile, io_error, read_full};
use crate::store::Inner;
use crate::store::view::state::{Segment, State};

/// Maximum number of bytes to read ahead at a time.
const READ_BYTES_MAX: usize = 256 << 10;
/// Maximum number of bytes kept from earlier calls.
const KEPT_BYTES_MAX: usize = 512 << 10;
/// Maximum size of a buffer that a thread keeps for its next read.
const SPARE_BYTES_MAX: usize = READ_BYTES_MAX + Window::READ_BYTES_MAX;

type Buffers = (Vec<u8>, Vec<Chunk>, Vec<Extent>, Vec<Run>);

thread_local! {
    /// The buffers of this thread's last read, reused by the next: a read by key allocates none.
    static SPARE: Cell<Buffers> =
        const { Cell::new((Vec::new(), Vec::new(), Vec::new(), Vec::new())) };
}

/// Lines that were read, and lines to read.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// The bytes of all chunks, and unused space after them.
    bytes: Vec<u8>,
    /// Length of the used part of `bytes`.
    filled: usize,
    chunks: Vec<Chunk>,
    /// Index of the chunk in which the last line was found. The next one mostly follows.
    last_found: Cell<usize>,
    /// The positions of lines expected to be requested next.
    pub(super) expected: Vec<Extent>,
    /// The lines to read: the requested one, then expected ones.
    missing: Vec<Run>,
}

/// Some bytes of a segment.
#[derive(Debug)]
struct Chunk {
    segment: u32,
    identity: u64,
    /// The offset in the segment.
    start: u64,
    /// The position in [`ReadAhead::bytes`].
    range: Range<usize>,
    /// Whether the bytes are one line without LF: the file ends there, or the line is too long.
    is_cut: bool,
}

/// Adjacent lines. The one at `offset` is needed.
#[derive(Debug, Clone, Copy)]
struct Run {
    segment: u32,
    name: SegmentName,
    identity: u64,
    offset: u64,
    extent: Extent,
}

impl Run {
    fn new(state: &State, offset: u32, extent: Extent) -> Run {
        let segment = extent.segment;
        let Segment { name, identity, .. } = *state.segment_of(Loc { segment, offset });
        Run {
            segment: extent.segment,
            name,
            identity,
            offset: offset.into(),
            extent,
        }
    }
}

impl ReadAhead {
    /// An empty `ReadAhead` that reuses the buffers of this thread's last one.
    pub(crate) fn new() -> ReadAhead {
        let spare = SPARE.try_with(Cell::take).unwrap_or_default();
        let mut ahead = ReadAhead::default();
        (ahead.bytes, ahead.chunks, ahead.expected, ahead.missing) = spare;
        ahead
    }

    /// Discards everything that was read.
    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.filled = 0;
    }

    /// Discards what was read for earlier calls, if it exceeds the limit.
    pub(super) fn trim(&mut self) {
        if self.filled > KEPT_BYTES_MAX {
            self.clear();
        }
    }

    /// The position in [`bytes`](Self::line) of the line at a location, if it was read.
    pub(super) fn find(&self, loc: Loc, identity: u64) -> Option<Range<usize>> {
        self.find_at(loc.segment, identity, loc.offset.into())
    }

    fn find_at(&self, segment: u32, identity: u64, offset: u64) -> Option<Range<usize>> {
        let last = self.last_found.get();
        let find_in = |nth| self.find_in(nth, segment, identity, offset);
        let others = || (0..self.chunks.len()).rev().find_map(find_in);
        find_in(last).or_else(|| find_in(last + 1)).or_else(others)
    }

    #[inline]
    fn find_in(
        &self,
        nth: usize,
        segment: u32,
        identity: u64,
        offset: u64,
    ) -> Option<Range<usize>> {
        let chunk = self.chunks.get(nth)?;
        if (chunk.segment, chunk.identity) != (segment, identity) {
            return None;
        }
        let start = usize::try_from(offset.checked_sub(chunk.start)?).ok()?;
        let rest = self.bytes.get(chunk.range.clone())?.get(start..)?;
        let len = match memchr::memchr(b'\n', rest) {
            None if chunk.is_cut && start == 0 => rest.len(),
            lf => lf?,
        };
        self.last_found.set(nth);
        let start = chunk.range.start + start;
        Some(start..start + len)
    }

    pub(super) fn line(&self, place: Range<usize>) -> &[u8] {
        self.bytes.get(place).unwrap_or_default()
    }

    /// The expected bytes that a line is in.
    fn extent_of(&self, loc: Loc) -> Option<usize> {
        let has_it = |extent: &Extent| {
            extent.segment == loc.segment && (extent.start..extent.end).contains(&loc.offset)
        };
        self.expected.iter().position(has_it)
    }

    /// Sets the lines to read: the one at this location, and those expected after it.
    pub(super) fn miss(&mut self, state: &State, loc: Loc) {
        self.missing.clear();
        self.want(state, loc);
        let Some(first) = self.extent_of(loc) else {
            return;
        };
        let mut bytes = 0;
        let rest = self.expected[first + 1..].iter().take_while(|extent| {
            bytes += (extent.end - extent.start) as usize;
            bytes <= READ_BYTES_MAX
        });
        let rest = rest.map(|extent| Run::new(state, extent.start, *extent));
        self.missing.extend(rest);
    }

    /// Adds a line to those to read. Returns the identity of its segment.
    pub(super) fn want(&mut self, state: &State, loc: Loc) -> u64 {
        let Loc { segment, offset } = loc;
        let alone = Extent {
            segment,
            start: offset,
            end: offset,
        };
        let extent = self.extent_of(loc).map_or(alone, |nth| self.expected[nth]);
        let run = Run::new(state, offset, extent);
        match self.missing.last_mut() {
            // One read includes both lines if it includes the later one.
            Some(last) if last.extent == extent => last.offset = last.offset.max(run.offset),
            _ => self.missing.push(run),
        }
        run.identity
    }

    /// Whether there are lines to read.
    pub(super) fn is_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    pub(super) fn forget_missing(&mut self) {
        self.missing.clear();
    }

    /// Reads the lines of a run. Returns how many bytes that took.
    fn read(&mut self, file: &dyn StorageFile, run: &Run) -> io::Result<usize> {
        let (from, mut wanted) = self.span(run);
        let (start, before) = (self.filled, (run.offset - from) as usize);
        loop {
            let end = start + wanted;
            if self.bytes.len() < end {
                self.bytes.resize(end.max(Window::READ_BYTES_MAX), 0);
            }
            let unread = &mut self.bytes[self.filled..end];
            self.filled += read_full(file, unread, from + (self.filled - start) as u64)?;
            let read = self.bytes.get(start + before..self.filled);
            let read = read.unwrap_or_default();
            // What is read usually ends with an LF.
            let is_whole = memchr::memrchr(b'\n', read).is_some();
            if is_whole || self.filled < end || read.len() >= LINE_BYTES_MAX {
                let line_end = self.filled.min(start + before + LINE_BYTES_MAX);
                let line = line_end.min(start + before)..line_end;
                self.push(run, from, start..self.filled, false);
                if !is_whole {
                    self.push(run, run.offset, line, true);
                }
                return Ok(self.filled - start);
            }
            wanted = (wanted * 4).clamp(Window::FIRST_READ_BYTES, before + LINE_BYTES_MAX);
        }
    }

    fn push(&mut self, run: &Run, start: u64, range: Range<usize>, is_cut: bool) {
        self.chunks.push(Chunk {
            segment: run.segment,
            identity: run.identity,
            start,
            range,
            is_cut,
        });
    }

    /// Which bytes of the file to read first for a run: their offset and their number.
    fn span(&self, run: &Run) -> (u64, usize) {
        let Extent { start, end, .. } = run.extent;
        if start < end {
            return (start.into(), (end - start) as usize);
        }
        let place = (run.segment, run.identity);
        let last = self.chunks.last();
        let last = last.filter(|chunk| (chunk.segment, chunk.identity) == place);
        next_read(
            last.map(|chunk| (chunk.start, chunk.range.len())),
            run.offset,
        )
    }
}

/// Keeps the buffers for the next read of this thread.
impl Drop for ReadAhead {
    fn drop(&mut self) {
        if !(1..=SPARE_BYTES_MAX).contains(&self.bytes.len()) {
            return;
        }
        self.clear();
        self.expected.clear();
        self.missing.clear();
        let spare = (
            std::mem::take(&mut self.bytes),
            std::mem::take(&mut self.chunks),
            std::mem::take(&mut self.expected),
            std::mem::take(&mut self.missing),
        );
        // A thread that ends keeps nothing.
        let _ended = SPARE.try_with(|kept| kept.set(spare));
    }
}

impl Inner {
    /// Reads the missing lines.
    pub(super) fn read_missing(&self, ahead: &mut ReadAhead) -> Result<()> {
        let storage = &*self.storage;
        let mut read = 0;
        let mut open: Option<((u32, u64), Arc<dyn StorageFile>)> = None;
        let mut missing = std::mem::take(&mut ahead.missing);
        for run in missing.drain(..) {
            // If lines are longer than expected, leave the others until they are requested.
            if read > READ_BYTES_MAX {
                break;
            }
            let (segment, identity) = (run.segment, run.identity);
            if ahead.find_at(segment, identity, run.offset).is_some() {
                continue;
            }
            let file = match open.take() {
                Some((of, file)) if of == (segment, identity) => file,
                _ => self.files.get(storage, segment, run.name, identity)?,
            };
            let io = |e| io_error(storage, "read the segment", &run.name.path(), e);
            read += ahead.read(&*file, &run).map_err(io)?;
            open = Some(((segment, identity), file));
        }
        ahead.missing = missing;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Day, Kind};
    use crate::storage::{Access, Memory, Storage};

    /// Lines of various lengths, read alone or as expected, forwards and backwards, match the file.
    #[test]
    fn any_line_in_any_order() {
        let lens = [
            0, 10, 300, 3_000, 20_000, 70_000, 5, 2_047, 2_048, 2_049, 65_535, 65_536,
        ];
        let (mut starts, mut content) = (Vec::new(), Vec::new());
        for (nth, len) in lens.iter().cycle().take(60).enumerate() {
            starts.push(content.len());
            content.resize(content.len() + len, b'a' + (nth % 26) as u8);
            content.push(b'\n');
        }
        // The last line has no LF.
        content.pop();
        let memory = Memory::new();
        memory.create_dir("").unwrap();
        memory.put_bytes("a", content.clone());
        let file = memory.open("a", Access::Read).unwrap();
        let name = SegmentName {
            day: Day::of(0).unwrap(),
            kind: Kind::Events,
            number: 1,
        };
        for step in [1, 7, 59, 41] {
            let mut ahead = ReadAhead::new();
            for nth in (0..lens.len() * 20).map(|round| round * step % starts.len()) {
                let start = starts[nth];
                let end = starts.get(nth + 1).map_or(content.len(), |next| next - 1);
                // Alone, or expected with half of its length or with the line after it.
                let extent_len = [0, (end - start) / 2, end - start + 100][nth % 3];
                let run = Run {
                    segment: 3,
                    name,
                    identity: 9,
                    offset: start as u64,
                    extent: Extent {
                        segment: 3,
                        start: start as u32,
                        end: (start + extent_len) as u32,
                    },
                };
                if ahead.find_at(3, 9, run.offset).is_none() {
                    ahead.read(&*file, &run).unwrap();
                }
                let place = ahead.find_at(3, 9, run.offset).unwrap();
                assert_eq!(ahead.line(place), &content[start..end], "line {nth}");
                assert_eq!(ahead.find_at(3, 8, run.offset), None);
                ahead.trim();
            }
            assert!(ahead.filled <= KEPT_BYTES_MAX + content.len());
        }
    }

    /// Regression: a read past the limit of kept bytes forgot which line it was for.
    #[test]
    fn what_is_missing_stays_so_when_what_was_read_is_discarded() {
        let mut ahead = ReadAhead::new();
        let name = SegmentName {
            day: Day::of(0).unwrap(),
            kind: Kind::Events,
            number: 1,
        };
        let extent = Extent {
            segment: 0,
            start: 0,
            end: 0,
        };
        ahead.missing.push(Run {
            segment: 0,
            name,
            identity: 1,
            offset: 0,
            extent,
        });
        ahead.filled = KEPT_BYTES_MAX + 1;
        ahead.trim();
        assert_eq!(ahead.filled, 0);
        assert!(ahead.is_missing());
    }
}
