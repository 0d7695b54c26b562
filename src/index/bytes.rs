//! Little-endian encoding of numbers for a dump of the index.

use std::io::{self, Write};

use super::entry::Loc;

/// A buffered writer. The first failure is returned by `finish`.
pub(super) struct Out<'a> {
    sink: &'a mut dyn Write,
    held: Vec<u8>,
    failure: io::Result<()>,
}

const HELD_MAX: usize = 256 << 10;

impl<'a> Out<'a> {
    pub(super) fn new(sink: &'a mut dyn Write) -> Out<'a> {
        Out {
            sink,
            held: Vec::with_capacity(HELD_MAX + 64),
            failure: Ok(()),
        }
    }

    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.held.extend_from_slice(&bytes);
        if self.held.len() >= HELD_MAX {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        if self.failure.is_ok() {
            self.failure = self.sink.write_all(&self.held);
        }
        self.held.clear();
    }

    pub(super) fn u32(&mut self, number: u32) {
        self.put(number.to_le_bytes());
    }

    pub(super) fn u64(&mut self, number: u64) {
        self.put(number.to_le_bytes());
    }

    pub(super) fn i64(&mut self, number: i64) {
        self.put(number.to_le_bytes());
    }

    /// Writes the number of items that follow.
    pub(super) fn count(&mut self, count: usize) {
        self.u64(count as u64);
    }

    pub(super) fn loc(&mut self, loc: Loc) {
        self.u32(loc.segment);
        self.u32(loc.offset);
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.pass_on();
        self.failure
    }
}

/// The remaining input. It is not trusted: reads return `None` if the bytes are missing or invalid.
#[derive(Debug, Clone, Copy)]
pub(super) struct In<'a> {
    bytes: &'a [u8],
    /// Segment numbers of lines must be less than this.
    segments: u32,
}

impl<'a> In<'a> {
    pub(super) fn new(bytes: &'a [u8], segments: u32) -> In<'a> {
        In { bytes, segments }
    }

    pub(super) fn segments(&self) -> u32 {
        self.segments
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        match self.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// The number of items that follow, each of at least `bytes_min` bytes; `None` if the remaining
    /// input cannot hold them.
    pub(super) fn count(&mut self, bytes_min: usize) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        (count <= self.bytes.len() / bytes_min.max(1)).then_some(count)
    }

    /// Reads this many items of `N` bytes each.
    pub(super) fn items<const N: usize>(&mut self, count: usize) -> Option<&'a [[u8; N]]> {
        let (items, rest) = self.bytes.split_at_checked(count.checked_mul(N)?)?;
        self.bytes = rest;
        Some(items.as_chunks().0)
    }

    /// The location of a line.
    pub(super) fn loc(&mut self) -> Option<Loc> {
        self.loc_if_any().filter(|loc| loc.is_some())
    }

    /// The location of a line, or [`Loc::NONE`].
    pub(super) fn loc_if_any(&mut self) -> Option<Loc> {
        let loc = Loc {
            segment: self.u32()?,
            offset: self.u32()?,
        };
        (loc.segment < self.segments || !loc.is_some()).then_some(loc)
    }
}
