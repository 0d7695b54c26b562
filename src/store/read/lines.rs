//! Lines of a segment, with validated sequence numbers.

use crate::error::{Error, ErrorKind, Result};
use crate::record::Kind;
use crate::segment::{Fact, Found, SegmentName, Span, scan};
use crate::storage::{full_path, io_error};
use crate::store::Inner;
use crate::store::view::altered_seqs::clamp_altered_seqs;
use crate::store::view::parallel_scan::LineEnd;
use crate::store::view::state::{KnownDamage, Segment, State};

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// The kind of record it holds.
    pub kind: Kind,
    /// The file, relative to the store.
    pub file: String,
    /// Byte offset of the line in the file.
    pub offset: u64,
    /// Its sequence number.
    pub seq: u64,
    /// The line itself, without LF.
    pub text: String,
}

impl LogLine {
    /// Whether it is the same line. While segments are joined, a line is in two of them.
    pub(in crate::store) fn is_copy_of(&self, other: &LogLine) -> bool {
        (self.seq, self.kind, &self.text) == (other.seq, other.kind, &other.text)
    }
}

/// A copy of the state of a segment, for reading its lines while the state is not locked.
#[derive(Debug)]
pub(in crate::store) struct SegmentView {
    /// The segment's index in the store's list.
    pub id: usize,
    pub identity: u64,
    /// The offset after the last known line.
    pub end: u64,
    pub last_seq: u64,
    pub last: Option<LineEnd>,
    name: SegmentName,
    damage: KnownDamage,
    /// The greatest sequence number of the log.
    max_seq: u64,
}

impl SegmentView {
    pub(in crate::store) fn new(state: &State, id: usize) -> SegmentView {
        let segment = &state.segments[id];
        SegmentView {
            id,
            identity: segment.identity,
            end: segment.end,
            last_seq: segment.last_seq,
            last: segment.last,
            name: segment.name,
            damage: state.known_damage(id),
            max_seq: state.max_seq,
        }
    }

    /// The segments that satisfy `passes`.
    pub(in crate::store) fn of(
        state: &State,
        passes: impl Fn(&Segment) -> bool,
    ) -> Vec<SegmentView> {
        let segments = state.segments.iter().enumerate();
        let segments = segments.filter(|(_, segment)| passes(segment));
        segments
            .map(|(id, _)| SegmentView::new(state, id))
            .collect()
    }

    /// The span from `from` to the end.
    pub(in crate::store) fn rest(&self, from: u64) -> Span {
        Span {
            from,
            stop: u64::MAX,
            until: self.end,
        }
    }
}

/// The lines of a span of a segment with sequence numbers greater than `after`, and the offset of
/// the next line.
///
/// # Errors
/// [`Damaged`](ErrorKind::Damaged) if the lines differ from the view: it is out of date.
pub(in crate::store) fn read_lines(
    inner: &Inner,
    segment: &SegmentView,
    span: Span,
    after: u64,
) -> Result<(Vec<LogLine>, u64)> {
    let storage = &*inner.storage;
    let path = segment.name.path();
    let kind = segment.name.kind;
    let io = |e| io_error(storage, "read the segment", &path, e);
    // Read the file of the view, not another one that has its name by now.
    let place = u32::try_from(segment.id).unwrap_or(u32::MAX);
    let files = &inner.files;
    let file = files.get(storage, place, segment.name, segment.identity)?;
    let (mut lines, mut seqs) = (Vec::new(), Vec::new());
    let mut changed = None;
    let (mut end, mut stop) = (span.from, span.stop);
    loop {
        let mut found = |found: Found<'_>| {
            if let Some(report) = found.report()
                && changed.is_none()
                && !segment.damage.has(report.offset)
            {
                changed = Some(report.offset);
            }
            found.facts(kind, &mut |fact: Fact<'_>| {
                let Fact {
                    offset,
                    envelope,
                    is_altered,
                    ..
                } = fact;
                let is_wanted = is_altered || envelope.seq > after;
                let text = is_wanted.then(|| String::from_utf8_lossy(fact.bytes).into_owned());
                seqs.push((envelope.seq, is_altered));
                lines.push((offset, text));
            });
        };
        let part = Span {
            from: end,
            stop,
            until: span.until,
        };
        let scanned = scan(&*file, kind, part, &mut found);
        let came_to = scanned.map_err(io)?.end;
        // A line that was complete may have lost its LF.
        let is_cut = came_to == end || stop == u64::MAX && came_to < span.until;
        if let Some(offset) = changed.or((is_cut && end < span.until).then_some(came_to)) {
            // Changed since this handle read it or the sidecar was written. The rescan reports it
            // as damage.
            let message = "the line was changed since it was indexed";
            let path = full_path(storage, &path);
            let err = Error::new(ErrorKind::Damaged, message).with_path(&path);
            return Err(err.with_offset(offset));
        }
        end = came_to;
        // The sequence number of an altered line is validated by that of the next line.
        let is_open = seqs.last().is_some_and(|(_, is_altered)| *is_altered);
        if end >= span.until || !is_open {
            break;
        }
        stop = end.saturating_add(1);
    }
    clamp_altered_seqs(&mut seqs, 0, segment.max_seq);
    let read = lines.into_iter().zip(seqs);
    let read = read.filter_map(|((offset, text), (seq, _))| {
        let line = LogLine {
            kind,
            file: path.clone(),
            offset,
            seq,
            text: text?,
        };
        (line.seq > after).then_some(line)
    });
    Ok((read.collect(), end))
}
