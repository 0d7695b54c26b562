//! Reads lines from files while the state is not locked.
//!
//! A closure reads lines from the state. It finds those that were read ahead. At the first other
//! line it ends with an error: the lock is released, that line is read together with those
//! expected next, and the closure is called again.

use std::cell::Cell;
use std::ops::Range;

use crate::error::Result;
use crate::index::{Extent, Loc};
use crate::line::LINE_BYTES_MAX;
use crate::segment::{SegmentName, Window};
use crate::storage::io_error;
use crate::store::Inner;
use crate::store::view::state::{Segment, State};

/// Maximum number of bytes to read ahead at a time.
const READ_BYTES_MAX: usize = 256 << 10;
/// Maximum number of bytes kept from earlier calls.
const KEPT_BYTES_MAX: usize = 512 << 10;

thread_local! {
    /// Empty vectors of this thread's last read, reused by the next: a read by key allocates none.
    static SPARE: Cell<(Vec<Extent>, Vec<Run>)> = const { Cell::new((Vec::new(), Vec::new())) };
}

/// Lines that were read, and lines to read.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// The bytes read last.
    window: Window,
    /// The bytes read before.
    kept: Vec<Chunk>,
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
    start: u64,
    bytes: Vec<u8>,
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

/// The position of a line that was read.
pub(super) struct Place {
    /// The index in `kept`; `None` for the window.
    kept: Option<usize>,
    range: Range<usize>,
}

impl ReadAhead {
    /// An empty `ReadAhead` with recycled capacity.
    pub(super) fn recycled() -> ReadAhead {
        let (expected, missing) = SPARE.take();
        ReadAhead {
            expected,
            missing,
            ..ReadAhead::default()
        }
    }

    /// Keeps the capacity for the next read of this thread.
    pub(super) fn recycle(mut self) {
        self.expected.clear();
        self.missing.clear();
        SPARE.set((self.expected, self.missing));
    }

    /// Discards everything that was read.
    pub(super) fn clear(&mut self) {
        *self = ReadAhead::default();
    }

    /// Discards what was read for earlier calls, if it exceeds the limit.
    pub(super) fn trim(&mut self) {
        let kept: usize = self.kept.iter().map(|kept| kept.bytes.len()).sum();
        if kept + self.window.bytes().len() > KEPT_BYTES_MAX {
            self.clear();
        }
    }

    /// The line at a location, if it was read.
    pub(super) fn find(&self, loc: Loc, identity: u64) -> Option<Place> {
        let (segment, offset) = (loc.segment, u64::from(loc.offset));
        if let Some(range) = self.window.held(segment, identity, offset) {
            return Some(Place { kept: None, range });
        }
        self.kept.iter().enumerate().rev().find_map(|(nth, kept)| {
            if (kept.segment, kept.identity) != (segment, identity) {
                return None;
            }
            let start = usize::try_from(offset.checked_sub(kept.start)?).ok()?;
            let rest = kept.bytes.get(start..)?;
            let len = match memchr::memchr(b'\n', rest) {
                None if kept.is_cut && start == 0 => rest.len(),
                lf => lf?,
            };
            let range = start..start + len;
            let kept = Some(nth);
            Some(Place { kept, range })
        })
    }

    pub(super) fn line(&self, place: Place) -> &[u8] {
        let bytes = match place.kept {
            None => self.window.bytes(),
            Some(nth) => self.kept.get(nth).map_or(&[][..], |kept| &kept.bytes),
        };
        bytes.get(place.range).unwrap_or_default()
    }

    /// Sets the lines to read: the one at this location, and those expected after it.
    pub(super) fn miss(&mut self, state: &State, loc: Loc) {
        let run = |offset: u32, extent: Extent| {
            let Segment { name, identity, .. } = state.segments[extent.segment as usize];
            Run {
                segment: extent.segment,
                name,
                identity,
                offset: offset.into(),
                extent,
            }
        };
        let Loc { segment, offset } = loc;
        let has_it = |extent: &Extent| {
            extent.segment == segment && (extent.start..extent.end).contains(&offset)
        };
        self.missing.clear();
        let Some(first) = self.expected.iter().position(has_it) else {
            let (start, end) = (offset, offset);
            let alone = Extent {
                segment,
                start,
                end,
            };
            self.missing.push(run(offset, alone));
            return;
        };
        self.missing.push(run(offset, self.expected[first]));
        let mut bytes = 0;
        let rest = self.expected[first + 1..].iter().take_while(|extent| {
            bytes += (extent.end - extent.start) as usize;
            bytes <= READ_BYTES_MAX
        });
        let rest = rest.map(|extent| run(extent.start, *extent));
        self.missing.extend(rest);
    }

    /// Whether there are lines to read.
    pub(super) fn is_missing(&self) -> bool {
        !self.missing.is_empty()
    }

    pub(super) fn forget_missing(&mut self) {
        self.missing.clear();
    }

    /// Moves the window's bytes to `kept`, before the next read.
    fn keep(&mut self) {
        if let Some((segment, identity, start)) = self.window.place() {
            self.kept.push(Chunk {
                segment,
                identity,
                start,
                bytes: self.window.bytes().to_vec(),
                is_cut: false,
            });
        }
    }
}

impl Inner {
    /// Reads the missing lines.
    pub(super) fn read_missing(&self, ahead: &mut ReadAhead) -> Result<()> {
        let storage = &*self.storage;
        let mut read = 0;
        let mut missing = std::mem::take(&mut ahead.missing);
        for run in missing.drain(..) {
            // If lines are longer than expected, leave the others until they are requested.
            if read > READ_BYTES_MAX {
                break;
            }
            let Run {
                segment,
                name,
                identity,
                offset,
                extent,
            } = run;
            ahead.keep();
            ahead.window.turn_to(segment, identity, || {
                self.files.get(storage, segment, name, identity)
            })?;
            let (start, end) = (u64::from(extent.start), u64::from(extent.end));
            ahead.window.expect(segment, start, end);
            let line = ahead.window.line(offset, LINE_BYTES_MAX);
            let io = |e| io_error(storage, "read the segment", &name.path(), e);
            let bytes = line.map_err(io)?.len();
            read += ahead.window.bytes().len();
            if ahead.window.held(segment, identity, offset).is_none() {
                let bytes = ahead.window.line(offset, bytes).map_err(io)?.to_vec();
                ahead.kept.push(Chunk {
                    segment,
                    identity,
                    start: offset,
                    bytes,
                    is_cut: true,
                });
            }
        }
        ahead.missing = missing;
        Ok(())
    }
}
