//! The lines of a transaction that are not written yet, by segment.

use std::collections::BTreeMap;

use super::SCRATCH_BYTES_MAX;
use crate::index::Loc;

/// Lines for one segment, in the order of their sequence numbers.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) segment: u32,
    /// The offset of `bytes` in the file.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Maximum number of empty buffers kept for reuse.
const SPARE_MAX: usize = 4;
/// With fewer runs than this, a lookup scans them one by one.
const SORTED_MIN: usize = 16;

/// Runs in the order in which they will be written. A batch that alternates between kinds has a
/// run for nearly every record, and lookups search all runs.
#[derive(Debug, Default)]
pub(super) struct AppendBuffer {
    all: Vec<Run>,
    /// The indexes of the runs by segment and offset, once there are many.
    starts: BTreeMap<(u32, u64), usize>,
    /// Empty buffers, kept for their capacity.
    spare: Vec<Vec<u8>>,
}

impl AppendBuffer {
    /// Adds bytes at this offset of a segment. The offset is the end of the segment's last run, if
    /// there is one.
    pub(super) fn push(&mut self, segment: u32, offset: u64, bytes: &[u8]) {
        if let Some(last) = self.all.last_mut().filter(|run| run.segment == segment) {
            last.bytes.extend_from_slice(bytes);
            return;
        }
        let mut scratch = self.spare.pop().unwrap_or_default();
        scratch.extend_from_slice(bytes);
        self.all.push(Run {
            segment,
            offset,
            bytes: scratch,
        });
        if self.all.len() >= SORTED_MIN {
            let unsorted = self.all.iter().enumerate().skip(self.starts.len());
            self.starts
                .extend(unsorted.map(|(place, run)| ((run.segment, run.offset), place)));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn has_any_of(&self, segment: u32) -> bool {
        self.all.iter().any(|run| run.segment == segment)
    }

    /// The bytes from the start of a line on, if the line is in a run.
    pub(super) fn bytes_from(&self, loc: Loc) -> Option<&[u8]> {
        let offset = u64::from(loc.offset);
        let run = if self.starts.is_empty() {
            let mut latest_first = self.all.iter().rev();
            latest_first.find(|run| run.segment == loc.segment && run.offset <= offset)?
        } else {
            let up_to = (loc.segment, 0)..=(loc.segment, offset);
            let (_, place) = self.starts.range(up_to).next_back()?;
            self.all.get(*place)?
        };
        let start = usize::try_from(offset - run.offset).ok()?;
        run.bytes.get(start..).filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Run> {
        self.all.iter()
    }

    pub(super) fn clear(&mut self) {
        self.starts.clear();
        for mut run in self.all.drain(..) {
            if self.spare.len() < SPARE_MAX && run.bytes.capacity() <= SCRATCH_BYTES_MAX {
                run.bytes.clear();
                self.spare.push(run.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_whatever_run_it_is() {
        let mut runs = AppendBuffer::default();
        for (segment, offset, bytes) in [(1, 10, "abc"), (2, 10, "de"), (1, 13, "fgh")] {
            runs.push(segment, offset, bytes.as_bytes());
        }
        let at = |segment, offset| Loc { segment, offset };
        let cases: [(Loc, Option<&[u8]>); 8] = [
            (at(1, 10), Some(b"abc")),
            (at(1, 12), Some(b"c")),
            (at(1, 13), Some(b"fgh")),
            (at(2, 11), Some(b"e")),
            (at(1, 9), None),
            (at(1, 16), None),
            (at(2, 12), None),
            (at(3, 10), None),
        ];
        for (loc, expected) in cases {
            assert_eq!(runs.bytes_from(loc), expected, "{loc:?}");
        }
        assert!(runs.has_any_of(2) && !runs.has_any_of(3));
        assert_eq!(runs.iter().count(), 3);
        runs.clear();
        assert!(runs.is_empty() && !runs.has_any_of(1));
        assert_eq!(runs.bytes_from(at(1, 10)), None);
    }
}
