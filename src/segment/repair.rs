//! Repairs a segment: moves damaged bytes to `quarantine/` and restamps hand-edited lines with a
//! new checksum. The caller holds the write lock.

use std::io;

use serde::Serialize;

use super::name::SegmentName;
use super::scan::{Found, Span, Stretch, scan};
use crate::line::{Decoded, Line, decode, restamp};
use crate::record::Kind;
use crate::storage::{
    Access, Named, Storage, StorageFile, append_all, read_all, read_full, replace_file,
    replace_file_after,
};

/// The result of [`repair`](crate::Store::repair) for one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    /// The segment, relative to the store.
    pub file: String,
    /// The quarantine file that has the removed bytes, relative to the store.
    pub quarantine: Option<String>,
    /// Number of damaged lines that were removed.
    pub quarantined_lines: u64,
    /// Number of bytes in those lines.
    pub quarantined_bytes: u64,
    /// Number of edited lines that were given a new checksum.
    pub restamped_lines: u64,
    /// Number of edited lines that were left unchanged: because the caller did not accept edits, or
    /// because they hold no valid record or an impossible sequence number.
    pub altered_lines_left: u64,
    /// Whether the segment was sealed and has a new seal.
    pub resealed: bool,
}

impl Repaired {
    /// The result before anything was done.
    pub(crate) fn nothing(file: String) -> Repaired {
        Repaired {
            file,
            ..Repaired::default()
        }
    }

    /// Lines were removed, given by offset and length.
    fn take_out(&mut self, lines: &[(u64, u64)], quarantine: String) {
        self.quarantined_lines = lines.len() as u64;
        self.quarantined_bytes = lines.iter().map(|(_, len)| len).sum();
        self.quarantine = Some(quarantine);
    }
}

/// The lines of a segment, separated into those to keep and those to remove.
struct Sorted {
    kind: Kind,
    accept_edits: bool,
    /// The greatest sequence number that an edited line may have.
    seq_max: u64,
    kept: Vec<u8>,
    /// Offsets and lengths.
    taken_out: Vec<(u64, u64)>,
    /// The sequence number of the last line.
    seq: u64,
    /// The last line is complete but had no LF.
    is_tail_ended: bool,
    repaired: Repaired,
}

impl Sorted {
    /// Separates the lines of a segment.
    fn read(mut self, file: &dyn StorageFile) -> io::Result<Sorted> {
        self.kept
            .reserve(usize::try_from(file.stat()?.len).unwrap_or(0));
        let scanned = scan(file, self.kind, Span::ALL, &mut |found| self.add(found))?;
        let Some(tail) = scanned.tail else {
            return Ok(self);
        };
        self.is_tail_ended = tail.holds_facts;
        if !tail.holds_facts {
            self.taken_out.push((scanned.end, tail.len));
            return Ok(self);
        }
        let mut line = vec![0; usize::try_from(tail.len).unwrap_or(0)];
        read_full(file, &mut line, scanned.end)?;
        self.add(Stretch::line(scanned.end, &line).classified(self.kind));
        // The last line has no LF to remove.
        if let Some((offset, len)) = self.taken_out.last_mut() {
            *len = (*len).min(scanned.end + tail.len - *offset);
        }
        Ok(self)
    }

    fn keep(&mut self, line: &[u8]) {
        self.kept.extend_from_slice(line);
        self.kept.push(b'\n');
    }

    fn add(&mut self, found: Found<'_>) {
        let bytes = found.bytes;
        match found.line {
            // It is too long, or holds no record although its checksum is right.
            None | Some(Line::Void(_)) => self.taken_out.push((found.offset, found.len + 1)),
            Some(Line::Good(envelope)) => {
                self.seq = envelope.seq;
                self.keep(bytes);
            }
            Some(Line::Altered(_)) => {
                let believable = self.seq.saturating_add(1)..=self.seq_max;
                let stamped = self
                    .accept_edits
                    .then(|| restamp(self.kind, bytes, believable));
                if let Some((stamped_seq, line)) = stamped.flatten() {
                    self.seq = stamped_seq;
                    self.repaired.restamped_lines += 1;
                    self.kept.extend_from_slice(&line);
                } else {
                    self.repaired.altered_lines_left += 1;
                    self.keep(bytes);
                }
            }
            Some(Line::Damaged(pieces)) => {
                self.taken_out.push((found.offset, found.len + 1));
                let pieces = pieces.into_iter();
                for piece in pieces.map(|(start, len)| &bytes[start..start + len]) {
                    if let Ok(Decoded { seq, .. }) = decode(self.kind, piece) {
                        self.seq = self.seq.max(seq.unwrap_or(0));
                        self.keep(piece);
                    }
                }
            }
        }
    }
}

/// Repairs one segment; `None` if there is nothing to do. `seq_max` is the greatest sequence number
/// that an edited line may have. `moment` makes the quarantine file name unique. Before the segment
/// is replaced, calls `ready` with the name of the temporary file that has its new bytes; `ready`
/// returns whether it sealed them.
pub(crate) fn repair_segment(
    storage: &dyn Storage,
    name: SegmentName,
    accept_edits: bool,
    seq_max: u64,
    moment: u128,
    ready: impl FnOnce(&str) -> io::Result<bool>,
) -> io::Result<Option<Repaired>> {
    let path = name.path();
    let segment = Named::open(storage, &path, Access::Read)?;
    let file = &segment.file;
    let sorted = Sorted {
        kind: name.kind,
        accept_edits,
        seq_max,
        kept: Vec::new(),
        taken_out: Vec::new(),
        seq: 0,
        is_tail_ended: false,
        repaired: Repaired::nothing(path.clone()),
    };
    let Sorted {
        kept,
        taken_out,
        is_tail_ended,
        mut repaired,
        ..
    } = sorted.read(&**file)?;
    if taken_out.is_empty() && repaired.restamped_lines == 0 && !is_tail_ended {
        return Ok((repaired.altered_lines_left > 0).then_some(repaired));
    }

    if !taken_out.is_empty() {
        let target = free_name(storage, &path, moment)?;
        copy_out(storage, &**file, &taken_out, &target)?;
        repaired.take_out(&taken_out, target);
    }
    let replaced = replace_file_after(storage, &path, &kept, |temporary| {
        repaired.resealed = ready(temporary)?;
        Ok(())
    });
    if let (Err(_), Some(target)) = (&replaced, &repaired.quarantine)
        && segment.is_current(storage, &path).unwrap_or(false)
    {
        // The bytes are still in the segment, so repeated attempts would fill the disk with copies.
        // If the segment was replaced, and for example only the directory's sync failed, the copy
        // is the only one left.
        let _ = storage.remove_file(target);
    }
    replaced?;
    Ok(Some(repaired))
}

/// Moves lines, by offset and length, to quarantine from a file that is not a segment.
pub(crate) fn take_out(
    storage: &dyn Storage,
    path: &str,
    lines: &[(u64, u64)],
    moment: u128,
) -> io::Result<Repaired> {
    let file = storage.open(path, Access::Read)?;
    let bytes = read_all(&*file)?;
    let read = bytes.len();
    let mut kept = Vec::with_capacity(read);
    let mut end = 0;
    for (offset, len) in lines {
        let start = usize::try_from(*offset).unwrap_or(read).clamp(end, read);
        kept.extend_from_slice(&bytes[end..start]);
        let len = usize::try_from(*len).unwrap_or(read);
        end = start.saturating_add(len).saturating_add(1).min(read);
    }
    kept.extend_from_slice(&bytes[end..]);
    let target = free_name(storage, path, moment)?;
    copy_out(storage, &*file, lines, &target)?;
    replace_file(storage, path, &kept)?;
    let mut repaired = Repaired::nothing(path.to_owned());
    repaired.take_out(lines, target);
    Ok(repaired)
}

/// An unused name in quarantine. `moment` alone is not unique: a clock may stand still or be set
/// back.
fn free_name(storage: &dyn Storage, path: &str, moment: u128) -> io::Result<String> {
    for moment in moment.. {
        let target = format!("quarantine/{}.{moment}", path.replace('/', "-"));
        match storage.stat(&target) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(target),
            found => found?,
        };
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Copies parts of a segment, by offset and length, into a new durable file. If that fails, the
/// file is removed.
fn copy_out(
    storage: &dyn Storage,
    from: &dyn StorageFile,
    parts: &[(u64, u64)],
    target: &str,
) -> io::Result<()> {
    let copied = (|| {
        if storage.create_dir("quarantine")? {
            storage.sync_dir("")?;
        }
        let out = storage.open(target, Access::Append)?;
        let mut bytes = Vec::new();
        for (offset, len) in parts {
            bytes.resize(usize::try_from(*len).unwrap_or(0), 0);
            let read = read_full(from, &mut bytes, *offset)?;
            append_all(&*out, &bytes[..read])?;
        }
        out.sync()?;
        storage.sync_dir("quarantine")
    })();
    if copied.is_err() {
        // A partial copy would take up space, which may be what is missing.
        let _ = storage.remove_file(target);
    }
    copied
}
