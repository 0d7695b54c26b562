//! Reads lines at known offsets. Each read includes adjacent bytes, because the next request is
//! usually for a line nearby.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use crate::storage::{StorageFile, read_full};

/// A line that starts less than this before the last read is read together with the bytes between.
const NEAR_BYTES: u64 = 16 << 10;

thread_local! {
    /// The buffer of this thread's last window, for reuse by the next one.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A part of a segment in memory.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The segment's index in the store's list, its identity and its open file.
    of: Option<(u32, u64, Arc<dyn StorageFile>)>,
    /// Offset in the file at which `room` starts.
    start: u64,
    /// Number of valid bytes in `room`.
    filled: usize,
    room: Vec<u8>,
}

/// Which bytes to read for a line at `offset`, after a read of `last`: an offset and a number of
/// bytes. Sequential reads grow.
pub(crate) fn next_read(last: Option<(u64, usize)>, offset: u64) -> (u64, usize) {
    let Some((start, len)) = last else {
        return (offset, Window::FIRST_READ_BYTES);
    };
    let twice = (len * 2).clamp(Window::FIRST_READ_BYTES, Window::READ_BYTES_MAX);
    if offset < start && start - offset <= NEAR_BYTES {
        // Reading backwards: read up to the start of the last read.
        let from = start.saturating_sub(twice.max(NEAR_BYTES as usize / 2) as u64);
        let from = from.min(offset);
        (from, (start - from) as usize)
    } else if offset >= start && offset < start + len as u64 + NEAR_BYTES {
        (offset, twice)
    } else {
        (offset, Window::FIRST_READ_BYTES)
    }
}

impl Window {
    /// Enough for a typical tool call and its outcome.
    pub(crate) const FIRST_READ_BYTES: usize = 2 << 10;
    /// Sequential reads grow up to this size.
    pub(crate) const READ_BYTES_MAX: usize = 64 << 10;

    /// Points the window at a segment. If it is another one than before, `open` opens its file.
    pub(crate) fn turn_to<E>(
        &mut self,
        segment: u32,
        identity: u64,
        open: impl FnOnce() -> Result<Arc<dyn StorageFile>, E>,
    ) -> Result<(), E> {
        let is_there = matches!(&self.of, Some((at, of, _)) if (*at, *of) == (segment, identity));
        if !is_there {
            self.of = Some((segment, identity, open()?));
            self.filled = 0;
            if self.room.is_empty() {
                self.room = ROOM.take();
            }
        }
        Ok(())
    }

    /// The bytes from `offset` up to the next LF or the end of the file, at most `line_bytes_max`.
    pub(crate) fn line(&mut self, offset: u64, line_bytes_max: usize) -> io::Result<&[u8]> {
        let range = match self.find(offset) {
            Some(range) => range,
            None => self.read_line(offset, line_bytes_max)?,
        };
        Ok(&self.room[range])
    }

    /// Finds a whole line in memory.
    fn find(&self, offset: u64) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let rest = self.room.get(start..self.filled)?;
        let len = memchr::memchr(b'\n', rest)?;
        Some(start..start + len)
    }

    fn read_line(
        &mut self,
        offset: u64,
        line_bytes_max: usize,
    ) -> io::Result<std::ops::Range<usize>> {
        let last = (self.filled > 0).then_some((self.start, self.filled));
        let (from, wanted) = next_read(last, offset);
        self.read(from, wanted)?;
        if let Some(range) = self.find(offset) {
            return Ok(range);
        }
        // The line extends past the read, or ends at the end of the file.
        let mut asked = wanted;
        if from < offset {
            asked = Window::FIRST_READ_BYTES;
            self.read(offset, asked)?;
        }
        loop {
            if let Some(range) = self.find(offset) {
                return Ok(range);
            }
            if self.filled < asked || asked >= line_bytes_max {
                return Ok(0..self.filled.min(line_bytes_max));
            }
            asked = (asked * 4)
                .max(Window::FIRST_READ_BYTES)
                .min(line_bytes_max);
            self.read_on(asked)?;
        }
    }

    fn read(&mut self, from: u64, wanted: usize) -> io::Result<()> {
        (self.start, self.filled) = (from, 0);
        self.read_on(wanted)
    }

    /// Fills the buffer up to `wanted` bytes, or to the end of the file.
    fn read_on(&mut self, wanted: usize) -> io::Result<()> {
        let Some((_, _, file)) = &self.of else {
            return Ok(());
        };
        if self.room.len() < wanted {
            self.room.resize(wanted.max(Window::READ_BYTES_MAX), 0);
        }
        let missing = &mut self.room[self.filled..wanted.max(self.filled)];
        self.filled += read_full(&**file, missing, self.start + self.filled as u64)?;
        Ok(())
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        if (1..=Window::READ_BYTES_MAX).contains(&self.room.len()) {
            ROOM.set(std::mem::take(&mut self.room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{Access, Memory, Storage};

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) % end
        }
    }

    fn file(lines: &[usize]) -> (Vec<u64>, Vec<u8>, Arc<dyn StorageFile>) {
        let (mut starts, mut bytes) = (Vec::new(), Vec::new());
        for len in lines {
            starts.push(bytes.len() as u64);
            bytes.extend((0..*len).map(|at| (b'a' + (at % 26) as u8) ^ (*len as u8 & 7)));
            bytes.push(b'\n');
        }
        // The last line has no LF.
        bytes.pop();
        let memory = Memory::new();
        memory.create_dir("").unwrap();
        memory.put_bytes("a", bytes.clone());
        (starts, bytes, memory.open("a", Access::Read).unwrap())
    }

    /// Lines of various lengths, read in various orders, match the file.
    #[test]
    fn any_line_in_any_order() {
        let mut random = Random(7);
        for longest in [3, 200, 3_000, 40_000] {
            let lines: Vec<usize> = (0..300)
                .map(|number| match number % 100 {
                    0 => 0,
                    1 => 200_000,
                    2 => Window::READ_BYTES_MAX,
                    _ => random.below(longest) as usize,
                })
                .collect();
            let (starts, bytes, file) = file(&lines);
            let mut window = Window::default();
            let mut place = 0;
            for round in 0..4_000u64 {
                place = match round / 400 % 4 {
                    0 => (place + 1) % lines.len(),
                    1 => place.checked_sub(1).unwrap_or(lines.len() - 1),
                    2 => random.below(lines.len() as u64) as usize,
                    _ => (place + random.below(5) as usize + lines.len() - 2) % lines.len(),
                };
                if random.below(50) == 0 {
                    window = Window::default();
                }
                window
                    .turn_to(1, 1, || Ok::<_, ()>(Arc::clone(&file)))
                    .unwrap();
                let start = starts[place] as usize;
                let read = window.line(starts[place], 1 << 20).unwrap();
                assert_eq!(read, &bytes[start..start + lines[place]], "line {place}");
            }
            assert_eq!(window.line(starts[1], 1_000).unwrap().len(), 1_000);
            assert_eq!(window.line(1 << 40, 1_000).unwrap(), b"");
        }
    }

    /// Regression: a read that began at the start of a line and ended within it was taken for the
    /// end of the file.
    #[test]
    fn a_read_that_ends_within_the_line_it_began_with_goes_on() {
        let lines = [100; 30];
        let (starts, bytes, file) = file(&lines);
        for first in 0..lines.len() {
            for cut in 0..101 {
                let mut window = Window::default();
                window
                    .turn_to(1, 1, || Ok::<_, ()>(Arc::clone(&file)))
                    .unwrap();
                // The state that a backward read leaves.
                window.read(starts[first] + cut, 500).unwrap();
                for place in (0..=first).rev() {
                    let start = starts[place] as usize;
                    let read = window.line(starts[place], 1 << 20).unwrap();
                    assert_eq!(read, &bytes[start..start + 100]);
                }
            }
        }
    }
}
