//! What a transaction gathers before it writes: runs of lines, each for one segment.

use std::collections::BTreeMap;

use crate::index::Loc;

/// Lines for one segment, in the order of their sequence numbers.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) segment: u32,
    /// Where in the file `bytes` will start.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

/// Runs in the order in which they are to be written. A batch that goes from kind to kind has one
/// for nearly every record, and its rules look lines up in all of them.
#[derive(Debug, Default)]
pub(super) struct Runs {
    all: Vec<Run>,
    /// Their places, by segment and offset.
    starts: BTreeMap<(u32, u64), usize>,
}

impl Runs {
    pub(super) fn push(&mut self, run: Run) {
        self.starts
            .insert((run.segment, run.offset), self.all.len());
        self.all.push(run);
    }

    pub(super) fn last_mut(&mut self) -> Option<&mut Run> {
        self.all.last_mut()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn has_any_of(&self, segment: u32) -> bool {
        let of_segment = (segment, 0)..=(segment, u64::MAX);
        self.starts.range(of_segment).next().is_some()
    }

    /// The bytes from a line's start on, if the line is in any run.
    pub(super) fn bytes_from(&self, loc: Loc) -> Option<&[u8]> {
        let offset = u64::from(loc.offset);
        let up_to = (loc.segment, 0)..=(loc.segment, offset);
        let (_, place) = self.starts.range(up_to).next_back()?;
        let run = self.all.get(*place)?;
        let start = usize::try_from(offset - run.offset).ok()?;
        run.bytes.get(start..).filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn take(&mut self) -> Vec<Run> {
        self.starts.clear();
        std::mem::take(&mut self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_in_whatever_run_it_is() {
        let mut runs = Runs::default();
        for (segment, offset, bytes) in [(1, 10, "abc"), (2, 10, "de"), (1, 13, "fgh")] {
            let bytes = Vec::from(bytes);
            runs.push(Run {
                segment,
                offset,
                bytes,
            });
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
        assert_eq!(runs.take().len(), 3);
        assert!(runs.is_empty() && !runs.has_any_of(1));
        assert_eq!(runs.bytes_from(at(1, 10)), None);
    }
}
