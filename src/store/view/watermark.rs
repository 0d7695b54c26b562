//! Watermarks: what a cache derived from the log was made of, to tell later what changed since.

use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::store::Snapshot;

/// How a handle's state was at some moment. At another that is equal to it, nothing is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watermark {
    generation: u64,
    moved: Option<u64>,
    pub last_seq: u64,
}

impl Watermark {
    /// Whether rows of the index have the same ids as at another moment.
    pub(crate) fn has_same_rows(self, other: Watermark) -> bool {
        (self.generation, self.moved) == (other.generation, other.moved)
    }

    /// Whether lines that are new since this moment have greater numbers than those before, and
    /// segments that are marked as they were hold what they held.
    pub(crate) fn is_extended_by(self, later: Watermark) -> bool {
        self.generation == later.generation
    }
}

/// A segment, as it was at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentWatermark {
    name: SegmentName,
    identity: u64,
    end: u64,
}

impl SegmentWatermark {
    /// Whether the segment was not replaced up to this later mark: it may only have grown.
    pub(crate) fn is_extended_by(&self, later: &SegmentWatermark) -> bool {
        (self.name, self.identity) == (later.name, later.identity) && self.end <= later.end
    }
}

impl Snapshot<'_> {
    /// The moment that is viewed.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark {
            generation: self.state.generation,
            moved: self.state.moved,
            last_seq: self.last_seq(),
        }
    }

    /// The segments of a day and kind.
    pub(crate) fn segment_watermarks(&self, day: Day, kind: Kind) -> Vec<SegmentWatermark> {
        let name = |number| SegmentName { day, kind, number };
        let named = self.state.by_name.range(name(0)..=name(u32::MAX));
        let segments = named.map(|(_, place)| &self.state.segments[*place as usize]);
        // One that is not there, or no more, has no identity.
        let segments = segments.filter(|segment| segment.identity != 0);
        let mark = segments.map(|segment| SegmentWatermark {
            name: segment.name,
            identity: segment.identity,
            end: segment.end,
        });
        mark.collect()
    }
}
