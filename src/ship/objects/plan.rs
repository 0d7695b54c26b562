//! Decides which objects a day has: which of those that are there stay, and which are written.

use uuid::Uuid;

use super::layout::{DayManifest, ObjectEntry, Piece, part_object, sealed_object};
use crate::error::Result;
use crate::record::Kind;
use crate::segment::seal::Digest;
use crate::ship::Format;
use crate::storage::Storage;
use crate::store::PointSegment;

/// Sealed segments of a day and kind are joined until an object has this size, in bytes of JSONL.
const OBJECT_BYTES_MIN: u64 = 64 << 20;

/// An object that a day is to have.
#[derive(Debug)]
pub(super) struct Planned {
    pub object: String,
    pub kind: Kind,
    pub pieces: Vec<PlannedPiece>,
    /// Its entry, if it is there already.
    pub there: Option<ObjectEntry>,
}

/// A range of a segment.
#[derive(Debug, Clone)]
pub(super) struct PlannedPiece {
    pub segment: PointSegment,
    pub from: u64,
    pub to: u64,
}

impl Planned {
    /// Size of its lines, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        let pieces = self.pieces.iter();
        pieces.map(|piece| piece.to - piece.from).sum()
    }
}

/// A hash of all that decides what a day has: its segments, and the number of its last seal.
pub(super) fn fingerprint(segments: &[PointSegment], last_seal: u64, format: Format) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{} {last_seal}\n", format.extension());
    for segment in segments {
        // Writing to a String cannot fail.
        let _ = match &segment.seal {
            Some(seal) => writeln!(text, "{} {} {}", segment.name, seal.seal, seal.sha256),
            None => writeln!(text, "{} {}", segment.name, segment.bytes),
        };
    }
    Digest::of(text.as_bytes()).to_string()
}

/// The objects of a day, given its segments in order and its present manifest. The names of new
/// ones have that of the run.
pub(super) fn plan_day(
    storage: &dyn Storage,
    segments: &[PointSegment],
    present: Option<&DayManifest>,
    (store_id, run): (Uuid, &str),
    format: Format,
) -> Result<Vec<Planned>> {
    let present = present.map_or(&[][..], |manifest| &manifest.objects);
    let mut planned = Vec::new();
    for of_kind in segments.chunk_by(|a, b| a.name.kind == b.name.kind) {
        let mut rest = of_kind;
        while let Some(first) = rest.first() {
            if first.seal.is_some() {
                let (group, others) = rest.split_at(group_len(rest));
                planned.push(plan_sealed(group, present, (store_id, run), format));
                rest = others;
            } else {
                let parts = plan_parts(storage, first, present, (store_id, run), format)?;
                planned.extend(parts);
                rest = &rest[1..];
            }
        }
    }
    Ok(planned)
}

/// The number of sealed segments at the start of these that are joined.
fn group_len(segments: &[PointSegment]) -> usize {
    let mut bytes = 0;
    for (place, segment) in segments.iter().enumerate() {
        if segment.seal.is_none() || bytes >= OBJECT_BYTES_MIN {
            return place;
        }
        bytes += segment.bytes;
    }
    segments.len()
}

fn plan_sealed(
    group: &[PointSegment],
    present: &[ObjectEntry],
    (store_id, run): (Uuid, &str),
    format: Format,
) -> Planned {
    let names = (group[0].name, group[group.len() - 1].name);
    let has_piece = |segment: &PointSegment, piece: &Piece| {
        let sha256 = segment.seal.as_ref().map(|seal| seal.sha256);
        piece.sealed && piece.file == segment.name.path() && Some(piece.sha256) == sha256
    };
    let there = present.iter().find(|entry| {
        entry.pieces.len() == group.len()
            && group
                .iter()
                .zip(&entry.pieces)
                .all(|(a, b)| has_piece(a, b))
    });
    let pieces = group.iter().map(|segment| PlannedPiece {
        from: 0,
        to: segment.bytes,
        segment: segment.clone(),
    });
    let new = || sealed_object(names, store_id, run, format);
    Planned {
        object: there.map_or_else(new, |there| there.object.clone()),
        kind: names.0.kind,
        pieces: pieces.collect(),
        there: there.cloned(),
    }
}

/// The parts of a segment that is still appended to. A part is at least twice as long as the next
/// one, so there are few, and each byte is written a few times at most.
fn plan_parts(
    storage: &dyn Storage,
    segment: &PointSegment,
    present: &[ObjectEntry],
    (store_id, run): (Uuid, &str),
    format: Format,
) -> Result<Vec<Planned>> {
    let file = segment.name.path();
    let mut parts: Vec<&ObjectEntry> = Vec::new();
    let mut end = 0;
    let mut of_segment: Vec<(&ObjectEntry, &Piece)> = present
        .iter()
        .filter_map(|entry| match &*entry.pieces {
            [piece] if piece.file == file && !piece.sealed => Some((entry, piece)),
            _ => None,
        })
        .collect();
    of_segment.sort_by_key(|(_, piece)| piece.from);
    for (entry, piece) in of_segment {
        if piece.from != end || piece.to > segment.bytes {
            break;
        }
        parts.push(entry);
        end = piece.to;
    }
    // If the last part is as it was written, so are those before it.
    let last = parts.last().and_then(|entry| entry.pieces.first());
    if let Some(last) = last
        && segment.tail_crc(storage, last.to)? != last.tail_crc
    {
        parts.clear();
        end = 0;
    }
    let mut from = end;
    if end < segment.bytes {
        while let Some(last) = parts.last().and_then(|entry| entry.pieces.first()) {
            if last.to - last.from >= 2 * (segment.bytes - from) {
                break;
            }
            from = last.from;
            parts.pop();
        }
    }
    let piece = |from, to| PlannedPiece {
        segment: segment.clone(),
        from,
        to,
    };
    let kind = segment.name.kind;
    let mut planned: Vec<Planned> = parts
        .into_iter()
        .map(|entry| Planned {
            object: entry.object.clone(),
            kind,
            pieces: entry
                .pieces
                .iter()
                .map(|it| piece(it.from, it.to))
                .collect(),
            there: Some(entry.clone()),
        })
        .collect();
    if from < segment.bytes {
        let range = (from, segment.bytes);
        planned.push(Planned {
            object: part_object(segment.name, range, store_id, run, format),
            kind,
            pieces: vec![piece(range.0, range.1)],
            there: None,
        });
    }
    Ok(planned)
}
