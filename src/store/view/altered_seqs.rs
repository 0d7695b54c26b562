//! Bounds the sequence numbers of altered lines by those of their neighbours.

/// Adjusts the sequence numbers of altered lines. `seqs` are the numbers of a segment's lines, in
/// the order of the file; `true` marks an altered line. The number of a line with a correct
/// checksum is reliable. As numbers ascend within a segment, that of an altered line must lie
/// between those of its neighbours. If it does not, the line gets the number after that of the
/// line before it. `before` is the last number before these lines, `ceiling` the greatest possible
/// number.
pub(in crate::store) fn clamp_altered_seqs(seqs: &mut [(u64, bool)], before: u64, ceiling: u64) {
    if !seqs.iter().any(|(_, is_altered)| *is_altered) {
        return;
    }
    let mut next = None;
    let mut lasts = Vec::with_capacity(seqs.len());
    for (seq, is_altered) in seqs.iter().rev() {
        lasts.push(next.map_or(ceiling, |next: u64| next.saturating_sub(1)));
        if !is_altered {
            next = Some(*seq);
        }
    }
    let mut lower = before;
    for ((seq, is_altered), last) in seqs.iter_mut().zip(lasts.into_iter().rev()) {
        let first = lower.saturating_add(1);
        if *is_altered && !(first..=last).contains(seq) {
            *seq = first.min(last).max(lower).max(1);
        }
        lower = lower.max(*seq);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clamped(seqs: &[(u64, bool)], before: u64, ceiling: u64) -> Vec<u64> {
        let mut seqs = seqs.to_vec();
        clamp_altered_seqs(&mut seqs, before, ceiling);
        seqs.into_iter().map(|(seq, _)| seq).collect()
    }

    #[test]
    fn a_rewritten_line_stays_between_its_neighbours() {
        assert_eq!(
            clamped(&[(1, false), (2, true), (3, false)], 0, 9),
            [1, 2, 3]
        );
        assert_eq!(clamped(&[(9, true), (2, false)], 0, 9), [1, 2]);
        assert_eq!(clamped(&[(0, true), (7, false)], 0, 9), [1, 7]);
        assert_eq!(
            clamped(&[(5, false), (u64::MAX, true), (6, false)], 0, 9),
            [5, 5, 6]
        );
        assert_eq!(clamped(&[(5, false), (8, true)], 0, 9), [5, 8]);
        assert_eq!(
            clamped(&[(5, false), (80, true), (81, true)], 0, 9),
            [5, 6, 7]
        );
        assert_eq!(clamped(&[(3, true), (8, true)], 5, 9), [6, 8]);
        assert_eq!(clamped(&[(4, true)], u64::MAX, u64::MAX), [u64::MAX]);
    }
}
