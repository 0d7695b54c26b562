//! Where lines are after segments were rewritten.
//!
//! A rewrite stores the new positions in `cache/moves`. Other handles update their index from it
//! without reading the segments again. It can be deleted at any time; handles then read what
//! changed.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::parallel_scan::LineEnd;
use crate::index::{Codec, In, KeyHash, Loc, encoded_as};
use crate::segment::SegmentName;
use crate::storage::{Access, Storage, append_all, read_all, remove_if_there};

const DIR: &str = "cache/moves";
const MAGIC: u64 = u64::from_le_bytes(*b"DLMOVE01");
/// Number of rewrites whose relocations are kept. A handle that missed more reads what changed.
pub(in crate::store) const KEPT: u64 = 64;
/// Maximum size of a file of relocations. A longer file is not one.
const BYTES_MAX: u64 = 64 << 20;

/// A segment's file, before or after a rewrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct RelocatedFile {
    pub name: SegmentName,
    pub identity: u64,
    /// Its length. The last byte is an LF.
    pub end: u64,
}

/// The new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct NewFile {
    pub file: RelocatedFile,
    pub last_seq: u64,
    pub last: Option<LineEnd>,
}

/// A run of whole lines. `file` is an index in [`Relocations::from`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) struct Piece {
    pub file: u32,
    pub start: u32,
    pub len: u32,
}

/// The relocation of the lines of some segments of one day and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Relocations {
    pub from: Vec<RelocatedFile>,
    /// `None` if no lines are left.
    pub to: Option<NewFile>,
    /// The kept runs, in the order of the new file. The runs of each file are in the order of that
    /// file.
    pub pieces: Vec<Piece>,
    /// The conversations whose messages are removed.
    pub ended: Vec<KeyHash>,
}

impl Relocations {
    /// Maps the location of a line to its new one. `places` are the caller's indexes of the files
    /// in `from`, and `to` is that of the new file.
    pub(in crate::store) fn map<'a>(
        &'a self,
        places: &'a [u32],
        to: u32,
    ) -> impl Fn(Loc) -> Loc + 'a {
        // By file, then by old offset.
        let mut kept: Vec<Vec<(u32, u32, u32)>> = vec![Vec::new(); self.from.len()];
        let mut end = 0u32;
        for piece in &self.pieces {
            if let Some(kept) = kept.get_mut(piece.file as usize) {
                kept.push((piece.start, piece.len, end));
            }
            end = end.saturating_add(piece.len);
        }
        move |loc| {
            let Some(file) = places.iter().position(|place| *place == loc.segment) else {
                return loc;
            };
            let kept = &kept[file];
            let after = kept.partition_point(|(start, ..)| *start <= loc.offset);
            let piece = after.checked_sub(1).map(|place| kept[place]);
            match piece {
                Some((start, len, new)) if loc.offset - start < len => Loc {
                    segment: to,
                    offset: new + (loc.offset - start),
                },
                _ => Loc::NONE,
            }
        }
    }

    /// Stores the relocations for other handles, and removes the oldest file of them. They are not
    /// synced: after a crash, no open handle has old positions.
    pub(in crate::store) fn write(&self, storage: &dyn Storage, number: u64) -> io::Result<()> {
        let ended = self.ended.iter();
        let ended = ended.map(|key| [key.hash, u64::from(key.check)]);
        let mut bytes = Vec::new();
        [MAGIC, number].encode(&mut bytes);
        self.from.encode(&mut bytes);
        self.to.encode(&mut bytes);
        self.pieces.encode(&mut bytes);
        ended.collect::<Vec<_>>().encode(&mut bytes);
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());

        for dir in ["cache", DIR] {
            storage.create_dir(dir)?;
        }
        // A file with the same number may be left by a rewrite that failed.
        for old in [number, number.saturating_sub(KEPT)] {
            remove_if_there(storage, &path(old))?;
        }
        let file = storage.open(&path(number), Access::Append)?;
        append_all(&*file, &bytes)
    }

    /// Reads the relocations with this number; `None` if there are none or they are invalid.
    pub(in crate::store) fn read(storage: &dyn Storage, number: u64) -> Option<Relocations> {
        let file = storage.open(&path(number), Access::Read).ok()?;
        if file.stat().ok()?.len > BYTES_MAX {
            return None;
        }
        let bytes = read_all(&*file).ok()?;
        let (body, hash) = bytes.split_last_chunk::<8>()?;
        if xxh3_64(body) != u64::from_le_bytes(*hash) {
            return None;
        }
        let mut rest = In {
            bytes: body,
            segments: 0,
        };
        if <[u64; 2]>::decode(&mut rest)? != [MAGIC, number] {
            return None;
        }
        let (from, to) = Codec::decode(&mut rest)?;
        let (pieces, ended) = Codec::decode(&mut rest)?;
        let key = |[hash, check]: [u64; 2]| KeyHash {
            hash,
            check: check as u32,
        };
        Some(Relocations {
            from,
            to,
            pieces,
            ended: Vec::into_iter(ended).map(key).collect(),
        })
    }
}

fn path(number: u64) -> String {
    format!("{DIR}/{number}")
}

encoded_as!(
    [u64; 3],
    RelocatedFile,
    |file| [file.name.pack(), file.identity, file.end],
    |[name, identity, end]| {
        let name = SegmentName::unpack(name)?;
        Some(RelocatedFile {
            name,
            identity,
            end,
        })
    }
);
encoded_as!(
    (RelocatedFile, ([u64; 2], LineEnd)),
    NewFile,
    |new| {
        let has_last = u64::from(new.last.is_some());
        (
            new.file,
            ([new.last_seq, has_last], new.last.unwrap_or_default()),
        )
    },
    |(file, ([last_seq, has_last], last))| {
        let last = (has_last == 1).then_some(last);
        Some(NewFile {
            file,
            last_seq,
            last,
        })
    }
);
encoded_as!(
    [u64; 2],
    Piece,
    |piece| {
        let range = u64::from(piece.start) << 32 | u64::from(piece.len);
        [u64::from(piece.file), range]
    },
    |[file, range]| {
        let file = u32::try_from(file).ok()?;
        let (start, len) = ((range >> 32) as u32, range as u32);
        Some(Piece { file, start, len })
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;
    use crate::storage::{Memory, read_full};

    fn file(number: u32, end: u64) -> RelocatedFile {
        RelocatedFile {
            name: SegmentName {
                day: "2025-12-27".parse().unwrap(),
                kind: Kind::Messages,
                number,
            },
            identity: u64::from(number) << 40,
            end,
        }
    }

    fn relocations() -> Relocations {
        let piece = |file, start, len| Piece { file, start, len };
        Relocations {
            from: vec![file(1, 300), file(2, 100)],
            to: Some(NewFile {
                file: file(1, 180),
                last_seq: 9,
                last: Some(*b"0123456789abcdef"),
            }),
            pieces: vec![piece(0, 100, 50), piece(0, 200, 100), piece(1, 0, 30)],
            ended: vec![KeyHash { hash: 7, check: 8 }],
        }
    }

    #[test]
    fn a_line_is_where_its_piece_is() {
        let relocations = relocations();
        let to = relocations.map(&[3, 5], 3);
        let at = |segment, offset| Loc { segment, offset };
        for (from, expected) in [
            (at(3, 0), Loc::NONE),
            (at(3, 100), at(3, 0)),
            (at(3, 149), at(3, 49)),
            (at(3, 150), Loc::NONE),
            (at(3, 200), at(3, 50)),
            (at(5, 0), at(3, 150)),
            (at(5, 30), Loc::NONE),
            (at(4, 0), at(4, 0)),
        ] {
            assert_eq!(to(from), expected, "{from:?}");
        }
    }

    #[test]
    fn a_note_reads_as_it_was_written_or_not_at_all() {
        let storage = Memory::new();
        storage.create_dir("").unwrap();
        let nothing_left = Relocations {
            to: None,
            pieces: Vec::new(),
            ..relocations()
        };
        for (number, relocations) in [(1, relocations()), (2, nothing_left)] {
            relocations.write(&storage, number).unwrap();
            relocations.write(&storage, number).unwrap();
            assert_eq!(Relocations::read(&storage, number), Some(relocations));
        }
        assert_eq!(Relocations::read(&storage, 3), None);
        let file = storage.open(&path(1), Access::Overwrite).unwrap();
        let len = file.stat().unwrap().len;
        for offset in 0..len {
            let mut byte = [0];
            read_full(&*file, &mut byte, offset).unwrap();
            file.write_at(&[byte[0] ^ 1], offset).unwrap();
            assert_eq!(Relocations::read(&storage, 1), None, "{offset}");
            file.write_at(&byte, offset).unwrap();
        }
        relocations().write(&storage, 1 + KEPT).unwrap();
        assert_eq!(Relocations::read(&storage, 1), None);
        assert!(Relocations::read(&storage, 2).is_some());
    }
}
