//! The last tool call lines that this handle wrote. An outcome usually follows soon after its
//! request, and is checked against it here instead of in the file.

use crate::index::Loc;

/// Maximum number of segments whose last bytes are kept.
const PARTS_MAX: usize = 4;
/// Maximum number of bytes kept of each segment. At least about half of it is kept.
const PART_BYTES: usize = 128 << 10;

/// The last bytes of a segment.
#[derive(Debug)]
struct Part {
    segment: u32,
    /// The offset of `bytes` in the file.
    offset: u64,
    bytes: Vec<u8>,
}

impl Part {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// Parts, the most recently appended one last.
#[derive(Debug, Default)]
pub(super) struct RecentLines(Vec<Part>);

impl RecentLines {
    /// Adds bytes that were appended to a segment at this offset.
    pub(super) fn push(&mut self, segment: u32, offset: u64, bytes: &[u8]) {
        let known = self.0.iter().position(|part| part.segment == segment);
        let mut part = match known {
            Some(place) => self.0.remove(place),
            None if self.0.len() >= PARTS_MAX => self.0.remove(0),
            None => Part {
                segment,
                offset,
                bytes: Vec::new(),
            },
        };
        if part.segment != segment || part.end() != offset {
            part.bytes.clear();
            (part.segment, part.offset) = (segment, offset);
        }
        // The first line may be cut off. It is not found then.
        let kept = &bytes[bytes.len().saturating_sub(PART_BYTES)..];
        let excess = (part.bytes.len() + kept.len()).saturating_sub(PART_BYTES);
        if excess > 0 {
            let cut = excess.max(PART_BYTES / 2).min(part.bytes.len());
            part.bytes.drain(..cut);
        }
        part.bytes.extend_from_slice(kept);
        part.offset = offset + bytes.len() as u64 - part.bytes.len() as u64;
        self.0.push(part);
    }

    /// The bytes from the start of a line on, if the line is here.
    pub(super) fn bytes_from(&self, loc: Loc) -> Option<&[u8]> {
        let part = self
            .0
            .iter()
            .rev()
            .find(|part| part.segment == loc.segment)?;
        let start = u64::from(loc.offset).checked_sub(part.offset)?;
        part.bytes
            .get(usize::try_from(start).ok()?..)
            .filter(|bytes| !bytes.is_empty())
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_what_was_written_there() {
        let byte = |segment: u32, offset: u64| (offset % 251) as u8 ^ segment as u8;
        let mut recent = RecentLines::default();
        let mut ends = [0u64; PARTS_MAX + 2];
        let mut random = 1u64;
        for round in 0..3_000u64 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let segment = (random >> 33) as u32 % (PARTS_MAX as u32 + 2);
            let end = &mut ends[segment as usize];
            if round % 97 == 0 {
                // Another process appended in between.
                *end += 13;
            }
            let longest = if round % 301 == 0 {
                3 * PART_BYTES as u64
            } else {
                2_000
            };
            let len = (random >> 20) % longest + 1;
            let bytes: Vec<u8> = (*end..*end + len)
                .map(|offset| byte(segment, offset))
                .collect();
            recent.push(segment, *end, &bytes);
            let last = *end + len - 1;
            *end += len;
            for back in [0, 1, 100, 5_000, 200_000, 400_000] {
                let Some(offset) = last.checked_sub(back) else {
                    continue;
                };
                let loc = Loc {
                    segment,
                    offset: offset as u32,
                };
                if let Some(found) = recent.bytes_from(loc) {
                    assert_eq!(found.len() as u64, back + 1);
                    assert_eq!(found[0], byte(segment, offset));
                }
            }
            assert!(
                recent
                    .bytes_from(Loc {
                        segment,
                        offset: last as u32
                    })
                    .is_some()
            );
            assert!(recent.0.len() <= PARTS_MAX);
            assert!(recent.0.iter().all(|part| part.bytes.len() <= PART_BYTES));
        }
    }
}
