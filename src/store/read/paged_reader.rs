//! Reads the lines after a sequence number in order, one bounded page at a time.

use std::collections::{BTreeMap, HashMap};

use super::lines::{LogLine, SegmentView, read_lines};
use crate::error::Result;
use crate::record::{Day, Kind};
use crate::segment::Span;
use crate::store::view::state::{Segment, State};
use crate::store::{Inner, Store};

/// Maximum number of sequence numbers that a page spans.
const PAGE_SEQS: u64 = 1_000;
/// Maximum size of a page in bytes, unless it has only one line.
const PAGE_BYTES_MAX: usize = 256 << 10;
/// Number of bytes read at once from a segment.
const STRIDE_BYTES: u64 = 256 << 10;

/// Reads lines in pages. Created by [`Store::lines_since`].
#[derive(Debug)]
pub(crate) struct PagedReader {
    store: Store,
    /// The sequence number of the last line returned.
    seq: u64,
    /// The day and kind to read, or all if `None`.
    only: Option<(Day, Kind)>,
    /// The offset of the last line returned in its segment, if known.
    began: Option<u64>,
    /// The [`generation`](crate::store::view::state::State::generation) of `places`, once known.
    generation: Option<u64>,
    /// How far each segment was read, by its index and identity.
    places: HashMap<(usize, u64), Place>,
}

/// The position of the first line of a segment that was not returned yet.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: u64,
    /// Its sequence number, once read.
    next: Option<u64>,
}

/// Lines by sequence number, segment and offset.
#[derive(Default)]
struct Found {
    lines: BTreeMap<(u64, usize, u64), LogLine>,
    bytes: usize,
}

impl Store {
    /// Reads the lines after `seq`; 0 for all lines.
    pub(crate) fn lines_since(&self, seq: u64) -> PagedReader {
        PagedReader {
            store: self.clone(),
            seq,
            only: None,
            began: None,
            generation: None,
            places: HashMap::new(),
        }
    }
}

impl PagedReader {
    /// Reads only lines in the files of a day and kind. `began` is the offset of the line `seq` in
    /// its file, if known: bytes before it are not read again.
    #[cfg(feature = "mcp")]
    pub(crate) fn only(self, day: Day, kind: Kind, began: Option<u64>) -> PagedReader {
        PagedReader {
            only: Some((day, kind)),
            began,
            ..self
        }
    }

    /// The sequence number of the last line returned.
    #[cfg(any(test, feature = "http"))]
    pub(crate) fn seq(&self) -> u64 {
        self.seq
    }

    /// The next lines. Empty if there are no new lines yet.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read. The call can be repeated and
    /// skips no lines.
    pub(crate) fn page(&mut self) -> Result<Vec<LogLine>> {
        let store = self.store.clone();
        let inner = store.inner();
        inner.look_and_read(self, PagedReader::look, |reader, segments| {
            let page = reader.try_page(inner, &segments);
            if page.is_err() {
                reader.generation = None;
            }
            page
        })
    }

    /// The segments with lines that were not returned yet.
    fn look(&mut self, state: &State) -> Vec<SegmentView> {
        // If the end of the log was removed, new records may reuse its sequence numbers. If
        // segments cannot be read, their lines are not removed.
        if state.unreadable.is_empty() {
            self.seq = self.seq.min(state.max_seq);
        }
        if self.generation.replace(state.generation) != Some(state.generation) {
            self.places.clear();
            for (id, segment) in state.segments.iter().enumerate() {
                if segment.last_seq <= self.seq {
                    let (offset, next) = (segment.end, None);
                    let place = Place { offset, next };
                    self.places.insert((id, segment.identity), place);
                }
            }
        }
        let has_news = |segment: &Segment| {
            let place = (segment.name.day, segment.name.kind);
            segment.last_seq > self.seq && self.only.is_none_or(|only| only == place)
        };
        SegmentView::of(state, has_news)
    }

    fn try_page(&mut self, inner: &Inner, segments: &[SegmentView]) -> Result<Vec<LogLine>> {
        let mut open = Vec::new();
        for (nth, segment) in segments.iter().enumerate() {
            if let Some(next) = self.next_of(inner, segment)? {
                open.push((next, nth));
            }
        }
        open.sort_unstable();
        let Some((first, _)) = open.first() else {
            return Ok(Vec::new());
        };
        let mut upto = first.saturating_add(PAGE_SEQS - 1);
        let mut found = Found::default();
        for (next, nth) in open {
            if next > upto {
                break;
            }
            self.gather(inner, (segments, nth), &mut upto, &mut found)?;
        }
        let lines = found.lines.into_values();
        let mut lines: Vec<LogLine> = lines.collect();
        lines.dedup_by(|a, b| a.is_copy_of(b));
        if let Some(last) = lines.last() {
            self.seq = last.seq;
        }
        Ok(lines)
    }

    /// The sequence number of the first line of a segment that was not returned yet, if any.
    fn next_of(&mut self, inner: &Inner, segment: &SegmentView) -> Result<Option<u64>> {
        let place = self.places.entry((segment.id, segment.identity));
        let place = place.or_default();
        let is_unread = (place.offset, place.next) == (0, None);
        if let Some(began) = self.began.filter(|_| is_unread)
            && begins(inner, segment, began, self.seq)
        {
            place.offset = began;
        }
        while place.next.is_none() && place.offset < segment.end {
            let (lines, end) = stride(inner, segment, place.offset, self.seq)?;
            match lines.first() {
                Some(line) => {
                    place.offset = line.offset;
                    place.next = Some(line.seq);
                }
                None => place.offset = end,
            }
        }
        Ok(place.next)
    }

    /// Adds the lines of a segment up to `upto`. Lowers `upto` if the page gets too large.
    fn gather(
        &mut self,
        inner: &Inner,
        (segments, nth): (&[SegmentView], usize),
        upto: &mut u64,
        found: &mut Found,
    ) -> Result<()> {
        let segment = &segments[nth];
        let id = (segment.id, segment.identity);
        let mut place = self.places.get(&id).copied();
        let mut offset = place.take().unwrap_or_default().offset;
        'segment: while offset < segment.end {
            let (lines, end) = stride(inner, segment, offset, self.seq)?;
            offset = end;
            for line in lines {
                if line.seq > *upto {
                    let (offset, next) = (line.offset, Some(line.seq));
                    place = Some(Place { offset, next });
                    break 'segment;
                }
                found.bytes += line.text.len();
                found.lines.insert((line.seq, nth, line.offset), line);
                self.put_back(segments, upto, found);
            }
        }
        // If `put_back` has set an earlier position, keep it.
        let known = self.places.entry(id).or_default();
        let was_put_back = known.next.is_some_and(|next| next > *upto);
        if !was_put_back {
            *known = place.unwrap_or(Place { offset, next: None });
        }
        Ok(())
    }

    /// Leaves the last lines to the next page while this one is too large.
    fn put_back(&mut self, segments: &[SegmentView], upto: &mut u64, found: &mut Found) {
        while let (Some((first, ..)), Some(((seq, nth, offset), _))) = (
            found.lines.first_key_value().map(|(key, _)| *key),
            found.lines.last_key_value().map(|(key, line)| (*key, line)),
        ) {
            let is_too_much = found.bytes > PAGE_BYTES_MAX && seq > first;
            if seq <= *upto && !is_too_much {
                return;
            }
            *upto = (*upto).min(seq - 1);
            if let Some((_, line)) = found.lines.pop_last() {
                found.bytes -= line.text.len();
            }
            let SegmentView { id, identity, .. } = segments[nth];
            let next = Some(seq);
            self.places.insert((id, identity), Place { offset, next });
        }
    }
}

/// Whether a line with this number begins at this offset. The offset comes from the caller, and
/// segments may have been rewritten.
fn begins(inner: &Inner, segment: &SegmentView, offset: u64, seq: u64) -> bool {
    let until = segment.end;
    if offset >= until {
        return false;
    }
    let line = Span {
        from: offset,
        stop: offset + 1,
        until,
    };
    let read = read_lines(inner, segment, line, seq.saturating_sub(1));
    let lines = read.map_or_else(|_| Vec::new(), |(lines, _)| lines);
    let first = lines.first().map(|line| (line.offset, line.seq));
    first == Some((offset, seq))
}

/// The next lines of a segment after `seq`, and the offset of the first line that was not read.
fn stride(
    inner: &Inner,
    segment: &SegmentView,
    from: u64,
    seq: u64,
) -> Result<(Vec<LogLine>, u64)> {
    let span = Span {
        from,
        stop: from.saturating_add(STRIDE_BYTES),
        until: segment.end,
    };
    read_lines(inner, segment, span, seq)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ConversationTurn, Event, Record, TurnKind, Validity};
    use uuid::Uuid;

    const DAY_1: i64 = 1_766_793_600_000;
    const DAY_MS: i64 = 86_400_000;

    /// `SplitMix64`.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (z ^ (z >> 31)) % n
        }
    }

    fn record(n: u64, dice: &mut Dice) -> Record {
        // A few records exceed the page limit alone.
        let len = match dice.below(20) {
            0 => 300 << 10,
            1..4 => 60 << 10,
            _ => 100,
        };
        let text = "x".repeat(len);
        let at = DAY_1 + dice.below(5).cast_signed() * DAY_MS;
        if dice.below(2) == 0 {
            let mut event = Event::new(None, "test.said");
            event.created_at = at;
            event.payload = Some(format!("\"{text}\""));
            return event.into();
        }
        let turn = ConversationTurn {
            id: Uuid::from_u128(n.into()),
            parent_id: None,
            message_id: Uuid::from_u128(n.into()),
            kind: TurnKind::User,
            content: text,
            created_at: Validity::at(at),
            thread_id: None,
        };
        turn.into()
    }

    fn open(dir: &tempfile::TempDir) -> Store {
        let options = Store::options();
        let options = options.segment_bytes_max(1 << 20).upkeep(false);
        options.open(dir.path().join("log")).unwrap()
    }

    fn rest(reader: &mut PagedReader) -> Vec<LogLine> {
        let mut lines = Vec::new();
        loop {
            let page = reader.page().unwrap();
            if page.is_empty() {
                return lines;
            }
            let bytes: usize = page.iter().map(|line| line.text.len()).sum();
            assert!(bytes <= PAGE_BYTES_MAX || page.len() == 1, "{bytes}");
            lines.extend(page);
        }
    }

    /// Lines of several files, with very different lengths, read while others are appended.
    #[test]
    fn pages_are_all_lines_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let mut dice = Dice(7);
        let mut n = 0;
        let mut add = |count: u64, dice: &mut Dice| {
            let records: Vec<Record> = (n..n + count).map(|n| record(n, dice)).collect();
            n += count;
            for answer in store.record_batch(records).unwrap() {
                answer.unwrap();
            }
        };
        add(400, &mut dice);
        let begin = |seq| (seq, store.lines_since(seq), Vec::new());
        let mut readers = [0, 1, 57, 399, 400].map(begin);
        for round in 0..200 {
            if round % 8 == 0 {
                add(dice.below(6), &mut dice);
            }
            for (_, reader, lines) in &mut readers {
                lines.extend(reader.page().unwrap());
            }
        }
        let all = store.last_lines(usize::MAX).unwrap();
        for (after, mut reader, mut lines) in readers {
            lines.extend(rest(&mut reader));
            assert_eq!(reader.seq(), all.len() as u64);
            assert!(lines == all[after as usize..], "after {after}");
        }
    }

    /// Lines of one day and kind, from any line on, with a correct, a wrong or no offset.
    #[cfg(feature = "mcp")]
    #[test]
    fn lines_of_a_day_and_kind_are_found_from_any_place() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let mut dice = Dice(11);
        for n in 0..300 {
            store.record(record(n, &mut dice)).unwrap();
        }
        let all = store.last_lines(usize::MAX).unwrap();
        let day = Day::of(DAY_1 + DAY_MS).unwrap();
        for kind in [Kind::Events, Kind::ConversationTurns, Kind::Messages] {
            let of_it =
                |line: &&LogLine| line.kind == kind && line.file.starts_with(&format!("{day}/"));
            let wanted: Vec<LogLine> = all.iter().filter(of_it).cloned().collect();
            let read = |seq, began| rest(&mut store.lines_since(seq).only(day, kind, began));
            assert!(read(0, None) == wanted);
            for (place, line) in wanted.iter().enumerate().step_by(3) {
                let left = &wanted[place + 1..];
                for began in [line.offset, line.offset + 1, 0, u64::MAX] {
                    assert!(read(line.seq, Some(began)) == left, "{kind} {began}");
                }
            }
        }
    }

    /// An altered line is returned in its place, whatever sequence number it has.
    #[test]
    fn rewritten_lines_stay_in_their_places() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let mut dice = Dice(3);
        for n in 0..60 {
            store.record(record(n, &mut dice)).unwrap();
        }
        let all = store.last_lines(usize::MAX).unwrap();
        for (nth, claimed) in [(10, 11), (11, 4_000), (40, 1)] {
            let line = &all[nth];
            let path = store.path().join(&line.file);
            let text = std::fs::read_to_string(&path).unwrap();
            let (start, _) = line.text.rsplit_once(",\"crc\"").unwrap();
            let (_, members) = start.split_once(',').unwrap();
            let rewritten = format!("{{\"seq\":{claimed},{members}}}");
            std::fs::write(&path, text.replace(&line.text, &rewritten)).unwrap();
        }
        drop(store);
        let store = open(&dir);
        let lines = rest(&mut store.lines_since(0));
        assert_eq!(lines.len(), 60);
        let all = store.last_lines(usize::MAX).unwrap();
        let seqs = |lines: &[LogLine]| lines.iter().map(|line| line.seq).collect::<Vec<_>>();
        assert_eq!(seqs(&lines), seqs(&all));
    }
}
