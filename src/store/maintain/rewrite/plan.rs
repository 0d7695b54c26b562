//! Plans a rewrite: reads segments and decides which lines stay and which are removed.

use std::sync::Arc;

use crate::error::Result;
use crate::index::{Entry, Loc};
use crate::line::{LINE_BYTES_MAX, Line};
use crate::record::{Day, Kind};
use crate::segment::{Fact, Found, SegmentName, Span, Stretch, scan, scan_stretches};
use crate::storage::{Access, StorageFile, if_there, io_error, read_full};
use crate::store::view::parallel_scan::{LineEnd, line_end};
use crate::store::view::relocations::{Piece, RelocatedFile};
use crate::store::{Inner, Snapshot};

/// Maximum number of lines to judge under one snapshot.
const BATCH_LINES: usize = 500;
/// Maximum bytes of lines to judge under one snapshot.
const BATCH_BYTES: usize = 1 << 20;

/// A line of a segment, possibly one that is too long to be read.
pub(crate) struct Candidate<'a> {
    /// Without LF. Empty if the line is too long to be read.
    pub bytes: &'a [u8],
    /// The line's index entry; `None` if it holds no record.
    pub entry: Option<Entry>,
}

/// Whether a line stays in the log.
pub(crate) type KeepsLine<'j> = dyn FnMut(&Snapshot<'_>, &Candidate<'_>) -> Result<bool> + 'j;

/// The lines of segments of one day and kind that stay, and those that are removed.
pub(crate) struct RewritePlan {
    pub(super) day: Day,
    pub(super) files: Vec<(RelocatedFile, Arc<dyn StorageFile>)>,
    pub(super) pieces: Vec<Piece>,
    /// What is removed, by file.
    gone: Vec<Gone>,
    /// The last sequence number of the lines that stay.
    pub(super) last_seq: u64,
    /// The last bytes of the last line that stays.
    pub(super) last: Option<LineEnd>,
}

/// The lines removed from one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gone {
    pub lines: u64,
    pub bytes: u64,
    /// The first and the last sequence number.
    pub(super) seqs: (u64, u64),
    /// The first and the last time.
    pub(super) ats: (i64, i64),
}

impl Gone {
    const NOTHING: Gone = Gone {
        lines: 0,
        bytes: 0,
        seqs: (u64::MAX, 0),
        ats: (i64::MAX, i64::MIN),
    };

    fn add(&mut self, bytes: u64, entry: Option<&Entry>) {
        self.lines += 1;
        self.bytes += bytes;
        if let Some(Entry { seq, at, .. }) = entry {
            self.seqs = (self.seqs.0.min(*seq), self.seqs.1.max(*seq));
            self.ats = (self.ats.0.min(*at), self.ats.1.max(*at));
        }
    }
}

impl RewritePlan {
    /// What is removed, by segment.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (SegmentName, Gone)> {
        let names = self.files.iter().map(|(file, _)| file.name);
        let gone = names.zip(self.gone.iter().copied());
        gone.filter(|(_, gone)| gone.lines > 0)
    }

    pub(super) fn changes_nothing(&self) -> bool {
        self.files.len() == 1 && self.gone().next().is_none()
    }

    fn keep(&mut self, file: u32, start: u64, len: u64) {
        let (start, len) = (start as u32, len as u32);
        if let Some(last) = self.pieces.last_mut()
            && last.file == file
            && last.start + last.len == start
        {
            last.len += len;
            return;
        }
        self.pieces.push(Piece { file, start, len });
    }
}

impl Inner {
    /// Calls `sink` for every line of a segment, including a last one without LF. Does nothing if
    /// the segment is gone.
    pub(crate) fn each_line(&self, name: SegmentName, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        let path = name.path();
        let storage = &*self.storage;
        let io = |e| io_error(storage, "read the segment", &path, e);
        let Some(file) = if_there(storage.open(&path, Access::Read)).map_err(io)? else {
            return Ok(());
        };
        let mut line = |line: Stretch<'_>| {
            if let Some(bytes) = line.bytes {
                sink(bytes);
            }
        };
        let scanned = scan_stretches(&*file, name.kind, Span::ALL, &mut line).map_err(io)?;
        if let Some(tail) = scanned.tail.filter(|tail| tail.len < LINE_BYTES_MAX as u64) {
            let mut bytes = vec![0; tail.len as usize];
            let read = read_full(&*file, &mut bytes, scanned.end).map_err(io)?;
            sink(&bytes[..read]);
        }
        Ok(())
    }

    /// Reads segments of one day and kind, in the order of their numbers, and judges each line.
    /// `None` if one of them is gone or lacks its last LF.
    pub(crate) fn plan_rewrite(
        &self,
        names: &[SegmentName],
        judge: &mut KeepsLine<'_>,
    ) -> Result<Option<RewritePlan>> {
        let Some(first) = names.first().copied() else {
            return Ok(None);
        };
        let mut plan = RewritePlan {
            day: first.day,
            files: Vec::new(),
            pieces: Vec::new(),
            gone: Vec::new(),
            last_seq: 0,
            last: None,
        };
        let storage = &*self.storage;
        for (name, number) in names.iter().copied().zip(0..) {
            let path = name.path();
            let io = |e| io_error(storage, "read the segment", &path, e);
            let place = {
                let view = self.snapshot()?;
                let place = view.state.by_name.get(&name).copied();
                let known = place.map(|place| &view.state.segments[place as usize]);
                if known.is_none_or(|known| known.identity == 0 || known.tail.is_some()) {
                    return Ok(None);
                }
                place.unwrap_or(0)
            };
            let Some(file) = if_there(storage.open(&path, Access::Read)).map_err(io)? else {
                return Ok(None);
            };
            let stat = file.stat().map_err(io)?;
            // The index cannot address lines past that offset.
            if stat.len >= u64::from(u32::MAX) {
                return Ok(None);
            }
            let end = self.judge_all(&mut plan, (number, place, name), &*file, judge)?;
            if end != stat.len {
                return Ok(None);
            }
            let identity = stat.identity;
            plan.files.push((
                RelocatedFile {
                    name,
                    identity,
                    end,
                },
                file,
            ));
        }
        Ok(Some(plan))
    }

    /// Judges the lines of one segment. Returns the offset at which they end.
    fn judge_all(
        &self,
        plan: &mut RewritePlan,
        (number, place, name): (u32, u32, SegmentName),
        file: &dyn StorageFile,
        judge: &mut KeepsLine<'_>,
    ) -> Result<u64> {
        let mut batch = Batch {
            number,
            place,
            bytes: Vec::new(),
            lines: Vec::new(),
        };
        plan.gone.push(Gone::NOTHING);
        let mut failed = None;
        let mut sink = |found: Found<'_>| {
            batch.take(self, name.kind, &found);
            if batch.lines.len() >= BATCH_LINES || batch.bytes.len() >= BATCH_BYTES {
                failed = failed.take().or(batch.judge(self, plan, judge).err());
            }
        };
        let scanned = scan(file, name.kind, Span::ALL, &mut sink);
        let io = |e| io_error(&*self.storage, "read the segment", &name.path(), e);
        let scanned = scanned.map_err(io)?;
        match failed {
            Some(e) => return Err(e),
            None => batch.judge(self, plan, judge)?,
        }
        Ok(if scanned.tail.is_some() {
            u64::MAX
        } else {
            scanned.end
        })
    }
}

/// Lines judged under one snapshot.
struct Batch {
    /// The file's index in [`RewritePlan::files`].
    number: u32,
    /// The segment's index in the state.
    place: u32,
    bytes: Vec<u8>,
    lines: Vec<BatchLine>,
}

struct BatchLine {
    start: u64,
    /// Including the LF.
    len: u64,
    /// The range of its bytes in those of the batch.
    range: std::ops::Range<usize>,
    entry: Option<Entry>,
}

impl Batch {
    fn take(&mut self, inner: &Inner, kind: Kind, found: &Found<'_>) {
        let segment = self.place;
        let mut entry = None;
        // A damaged line may contain several records.
        if !matches!(found.line, Some(Line::Damaged(_))) {
            found.facts(kind, &mut |fact: Fact<'_>| {
                let offset = fact.offset as u32;
                let loc = Loc { segment, offset };
                entry = Some(inner.hasher.entry(kind, fact.envelope, loc));
            });
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(found.bytes);
        self.lines.push(BatchLine {
            start: found.offset,
            len: found.len + 1,
            range: from..self.bytes.len(),
            entry,
        });
    }

    fn judge(
        &mut self,
        inner: &Inner,
        plan: &mut RewritePlan,
        judge: &mut KeepsLine<'_>,
    ) -> Result<()> {
        let view = inner.snapshot()?;
        let last_known = view.state.segments[self.place as usize].last_seq;
        for line in self.lines.drain(..) {
            let candidate = Candidate {
                bytes: &self.bytes[line.range],
                entry: line.entry,
            };
            if judge(&view, &candidate)? {
                plan.keep(self.number, line.start, line.len);
                plan.last = line_end(candidate.bytes);
                // The sequence number of an altered line is not reliable.
                let intact = candidate.entry.filter(|entry| !entry.is_altered);
                let seq = intact.map_or(last_known, |entry| entry.seq.min(last_known));
                plan.last_seq = plan.last_seq.max(seq);
            } else if let Some(gone) = plan.gone.last_mut() {
                gone.add(line.len, candidate.entry.as_ref());
            }
        }
        self.bytes.clear();
        view.check()
    }
}
