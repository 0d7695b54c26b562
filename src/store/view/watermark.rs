//! Watermarks: the state that a cache derived from the log includes, for finding later changes.

use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::store::Snapshot;
use crate::store::view::state::Segment;

/// The state of a handle at one moment. If two are equal, nothing changed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watermark {
    generation: u64,
    moved: Option<u64>,
    pub last_seq: u64,
}

impl Watermark {
    /// That of a cache that has the log only up to this sequence number.
    pub(crate) fn through(self, last_seq: u64) -> Watermark {
        Watermark { last_seq, ..self }
    }

    /// Whether the ids of index rows are the same in both states.
    pub(crate) fn has_same_rows(self, other: Watermark) -> bool {
        (self.generation, self.moved) == (other.generation, other.moved)
    }

    /// Whether lines added since then have greater sequence numbers than those before, and
    /// segments with equal watermarks are unchanged.
    pub(crate) fn is_extended_by(self, later: Watermark) -> bool {
        self.generation == later.generation
    }
}

/// The state of a segment at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentWatermark {
    pub(in crate::store) name: SegmentName,
    pub(in crate::store) identity: u64,
    pub(in crate::store) end: u64,
}

impl Segment {
    pub(in crate::store) fn watermark(&self) -> SegmentWatermark {
        SegmentWatermark {
            name: self.name,
            identity: self.identity,
            end: self.end,
        }
    }
}

impl SegmentWatermark {
    /// The kind of its records.
    pub(crate) fn kind(&self) -> Kind {
        self.name.kind
    }

    /// Whether the segment was not replaced up to `later`: it may only have grown.
    pub(crate) fn is_extended_by(&self, later: &SegmentWatermark) -> bool {
        (self.name, self.identity) == (later.name, later.identity) && self.end <= later.end
    }
}

impl Snapshot<'_> {
    /// The watermark of this snapshot.
    pub(crate) fn watermark(&self) -> Watermark {
        Watermark {
            generation: self.state.generation,
            moved: self.state.moved,
            last_seq: self.last_seq(),
        }
    }

    /// The watermarks of the segments of a day and kind.
    pub(crate) fn segment_watermarks(&self, day: Day, kind: Kind) -> Vec<SegmentWatermark> {
        let segments = self.state.of(day, kind);
        let segments = segments.map(|place| self.state.segments[place as usize].watermark());
        segments.collect()
    }
}
