//! A compact set of sequence numbers, for finding gaps and repetitions.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

/// A range of sequence numbers, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SeqRange {
    /// The first one.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

const WORDS: usize = 16;
const CHUNK: u64 = WORDS as u64 * 64;

/// A set of sequence numbers: a bitmap in chunks.
#[derive(Debug, Default)]
pub(in crate::store) struct SeqSet {
    chunks: BTreeMap<u64, [u64; WORDS]>,
    /// Numbers that were inserted more than once.
    repeated: BTreeSet<u64>,
}

impl SeqSet {
    pub(in crate::store) fn insert(&mut self, seq: u64) {
        let chunk = self.chunks.entry(seq / CHUNK).or_default();
        let word = &mut chunk[(seq % CHUNK / 64) as usize];
        let bit = 1 << (seq % 64);
        // decklog never writes a line with number 0, so report it.
        if *word & bit != 0 || seq == 0 {
            self.repeated.insert(seq);
            return;
        }
        *word |= bit;
    }

    pub(in crate::store) fn contains(&self, seq: u64) -> bool {
        let chunk = self.chunks.get(&(seq / CHUNK));
        chunk.is_some_and(|chunk| chunk[(seq % CHUNK / 64) as usize] >> (seq % 64) & 1 == 1)
    }

    /// The repeated numbers up to `last`.
    pub(in crate::store) fn repeats(&self, last: u64) -> Vec<SeqRange> {
        let repeats = self.repeated.range(..=last);
        repeats
            .map(|seq| SeqRange {
                first: *seq,
                last: *seq,
            })
            .collect()
    }

    /// The missing numbers up to `last` that are below another number in the set, or not greater
    /// than `known`, which is known to have existed.
    pub(in crate::store) fn gaps(&self, last: u64, known: u64) -> Vec<SeqRange> {
        let (mut gaps, mut expected) = (Vec::new(), 1);
        for (number, chunk) in self.chunks.range(..=last / CHUNK) {
            for place in 0..CHUNK {
                let seq = number * CHUNK + place;
                let is_there = chunk[(place / 64) as usize] >> (place % 64) & 1 == 1;
                if !is_there || seq > last {
                    continue;
                }
                if seq > expected {
                    gaps.push(SeqRange {
                        first: expected,
                        last: seq - 1,
                    });
                }
                expected = seq.saturating_add(1);
            }
        }
        let known = known.min(last);
        if known >= expected {
            gaps.push(SeqRange {
                first: expected,
                last: known,
            });
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seqs: &[u64]) -> SeqSet {
        let mut numbers = SeqSet::default();
        for seq in seqs {
            numbers.insert(*seq);
        }
        numbers
    }

    fn pairs(ranges: Vec<SeqRange>) -> Vec<(u64, u64)> {
        ranges
            .into_iter()
            .map(|range| (range.first, range.last))
            .collect()
    }

    #[test]
    fn what_is_missing_and_what_is_there_twice_is_told_up_to_a_bound() {
        let numbers = of(&[1, 2, 5, 5, 2000, 7, u64::MAX, 5]);
        let last = u64::MAX;
        assert_eq!(
            pairs(numbers.gaps(last, 9)),
            [(3, 4), (6, 6), (8, 1999), (2001, last - 1)]
        );
        assert_eq!(pairs(numbers.gaps(6, 0)), [(3, 4)]);
        assert_eq!(pairs(numbers.gaps(6, 6)), [(3, 4), (6, 6)]);
        assert_eq!(pairs(of(&[1, 2]).gaps(last, 4)), [(3, 4)]);
        assert_eq!(pairs(numbers.repeats(last)), [(5, 5)]);
        assert_eq!(pairs(numbers.repeats(4)), []);
        assert_eq!(pairs(of(&[0]).repeats(last)), [(0, 0)]);
    }
}
