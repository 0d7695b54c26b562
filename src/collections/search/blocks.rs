//! Compares many positions of lines at once, with the widest vectors that the CPU has.

#![allow(unsafe_code)]

use super::raw::{BACKSLASH, LETTER_U, Masked};

/// Number of positions that are compared at once.
const BLOCK: usize = 64;

/// The number of positions, a multiple of a block, of which none has all three bytes at these
/// distances, the greatest first, nor a `\u`.
pub(super) fn skip(lines: &[u8], distances: [usize; 3], wanted: [Masked; 3]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has these instructions.
        return unsafe { skip_by_avx2(lines, distances, wanted) };
    }
    skip_blocks(lines, distances, wanted)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn skip_by_avx2(lines: &[u8], distances: [usize; 3], wanted: [Masked; 3]) -> usize {
    skip_blocks(lines, distances, wanted)
}

/// The loop over a block has no branches, so that the compiler vectorizes it.
#[inline(always)]
#[allow(clippy::inline_always)] // For the instructions of the caller.
fn skip_blocks(lines: &[u8], distances: [usize; 3], wanted: [Masked; 3]) -> usize {
    let [last, one, other] = distances;
    // As many bytes from each of the compared positions on.
    let len = lines.len().saturating_sub(last.max(1));
    let blocks = |distance: usize| {
        let bytes = lines.get(distance..).unwrap_or_default();
        bytes[..len.min(bytes.len())].as_chunks::<BLOCK>().0
    };
    let anchors = blocks(last).iter().zip(blocks(one)).zip(blocks(other));
    let escapes = blocks(0).iter().zip(blocks(1));
    let mut at = 0;
    for (((a, b), c), (first, second)) in anchors.zip(escapes) {
        let mut any = 0;
        for i in 0..BLOCK {
            let is_anchor = wanted[0].is(a[i]) & wanted[1].is(b[i]) & wanted[2].is(c[i]);
            let is_escape = BACKSLASH.is(first[i]) & LETTER_U.is(second[i]);
            any |= u8::from(is_anchor) | u8::from(is_escape);
        }
        if any != 0 {
            break;
        }
        at += BLOCK;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_that_is_wanted_is_skipped(
            filler in prop::sample::select(b"abAB\\u".to_vec()),
            mut lines in prop::collection::vec(prop::sample::select(b"abAB\\u".to_vec()), 0..30),
            len in 0..400usize,
            mut distances in prop::array::uniform3(0..9usize),
            bytes in prop::array::uniform3(prop::sample::select(vec!['a', 'b', 'u'])),
        ) {
            lines.splice(0..0, std::iter::repeat_n(filler, len));
            distances.sort_unstable_by(|one, other| other.cmp(one));
            let wanted = bytes.map(|letter| Masked::all_of(letter)[0]);
            let is_at = |at: usize, byte: Masked| lines.get(at).is_some_and(|found| byte.is(*found));
            let is_wanted = |at: &usize| {
                let is_anchor = distances.iter().zip(wanted).all(|(far, byte)| is_at(at + far, byte));
                is_anchor || is_at(*at, BACKSLASH) && is_at(at + 1, LETTER_U)
            };
            let compared = lines.len().saturating_sub(distances[0].max(1));
            let first = (0..compared).find(is_wanted).unwrap_or(compared);
            let expected = first / BLOCK * BLOCK;
            prop_assert_eq!(skip(&lines, distances, wanted), expected);
            prop_assert_eq!(skip_blocks(&lines, distances, wanted), expected);
        }
    }
}
