//! The order in which segments were last appended to. With it, the latest lines, and those since a
//! position, are found without checking all segments.

use std::collections::HashSet;

/// Repeated notes are dropped when there are this many more than twice the number of segments.
const SPARE: usize = 1_024;

/// The indexes of segments, in the order of their appends. As sequence numbers ascend from line to
/// line, this is also the order of the segments' last lines.
#[derive(Debug, Default)]
pub(in crate::store) struct AppendOrder {
    /// A segment that was appended to again is listed again.
    notes: Vec<u32>,
    /// The position of the first note. It never decreases. When notes are dropped or merged, the
    /// remaining ones get later positions.
    first: u64,
}

impl AppendOrder {
    /// Records that a segment grew. `segments` is the number of all segments.
    pub(in crate::store) fn note(&mut self, segment: u32, segments: usize) {
        if self.notes.last() == Some(&segment) {
            self.first += 1;
            return;
        }
        self.notes.push(segment);
        if self.notes.len() > 2 * segments + SPARE {
            self.drop_repeated();
        }
    }

    /// Removes all notes.
    pub(in crate::store) fn clear(&mut self) {
        self.first = self.point();
        self.notes.clear();
    }

    /// The current position: the end of the notes.
    pub(in crate::store) fn point(&self) -> u64 {
        self.first + self.notes.len() as u64
    }

    /// The segments that grew after a position, and maybe others. A segment can occur several
    /// times. Notes removed by [`clear`](AppendOrder::clear) are not included.
    pub(in crate::store) fn since(&self, point: u64) -> &[u32] {
        let known = usize::try_from(point.saturating_sub(self.first)).unwrap_or(usize::MAX);
        self.notes.get(known..).unwrap_or_default()
    }

    /// Every segment once, the most recently appended one first.
    pub(in crate::store) fn latest_first(&self) -> impl Iterator<Item = u32> {
        let mut seen = HashSet::new();
        let notes = self.notes.iter().rev().copied();
        notes.filter(move |segment| seen.insert(*segment))
    }

    fn drop_repeated(&mut self) {
        let mut left: Vec<u32> = self.latest_first().collect();
        left.reverse();
        self.first += (self.notes.len() - left.len()) as u64;
        self.notes = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each caller gets all segments that grew since its last call, and the order is right.
    #[test]
    fn nothing_that_grew_is_missed() {
        const SEGMENTS: u32 = 7;
        let mut append_order = AppendOrder::default();
        let mut order: Vec<u32> = Vec::new();
        let mut unheard: [Vec<u32>; 3] = Default::default();
        let mut points = [0; 3];
        let mut random = 1u64;
        for round in 0..20_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let segment = if round % 5 < 2 {
                3
            } else {
                (random >> 33) as u32 % SEGMENTS
            };
            append_order.note(segment, SEGMENTS as usize);
            assert!(append_order.notes.len() <= 2 * SEGMENTS as usize + SPARE);
            order.retain(|known| *known != segment);
            order.insert(0, segment);
            assert!(
                append_order
                    .latest_first()
                    .take(3)
                    .eq(order.iter().copied().take(3))
            );
            for (place, every) in [1, 13, 4_001].into_iter().enumerate() {
                unheard[place].push(segment);
                if round % every == 0 {
                    let heard = append_order.since(points[place]);
                    assert!(unheard[place].iter().all(|grew| heard.contains(grew)));
                    assert!(every > 1 || heard.len() == 1);
                    unheard[place].clear();
                    points[place] = append_order.point();
                    assert_eq!(append_order.since(points[place]), [0; 0]);
                }
            }
        }
        assert!(append_order.latest_first().eq(order));
        let point = append_order.point();
        append_order.clear();
        assert_eq!(
            (append_order.point(), append_order.since(0).len()),
            (point, 0)
        );
    }
}
