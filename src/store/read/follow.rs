//! Follows the log: lines of all kinds by sequence number, the last ones and those to come.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::change_watch::ChangeWatch;
use super::lines::{LogLine, SegmentView, read_lines};
use crate::error::{ErrorKind, Result};
use crate::store::view::parallel_scan::LineEnd;
use crate::store::view::state::{Segment, State};
use crate::store::{Inner, Store};

impl Store {
    /// The last `count` lines, in order.
    pub fn last_lines(&self, count: usize) -> Result<Vec<LogLine>> {
        let latest_first = |most: &mut usize, state: &State| {
            let ids = state.append_order.latest_first().take(*most);
            ids.map(|id| SegmentView::new(state, id as usize)).collect()
        };
        let inner = self.inner();
        // Each segment has a line. While segments are joined, a line may be in two of them.
        let mut most = count.saturating_mul(2).saturating_add(8);
        loop {
            let found =
                inner.look_and_read(&mut most, latest_first, |most, segments: Vec<_>| {
                    let is_all = segments.len() < *most;
                    last_lines(inner, segments, count, is_all)
                })?;
            match found {
                Some(lines) => return Ok(lines),
                None => most = usize::MAX,
            }
        }
    }

    /// Follows the log from the line after `seq`: 0 for all lines, or the sequence number of the
    /// last line seen.
    ///
    /// ```
    /// # use decklog::{Kind, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let mut follow = store.follow(0)?;
    /// store.log_event(None, event_type::AGENT_STARTED, None)?;
    /// let lines = follow.next_lines(std::time::Duration::from_secs(1))?;
    /// assert_eq!((lines[0].seq, lines[0].kind), (1, Kind::Events));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read.
    pub fn follow(&self, seq: u64) -> Result<Follow> {
        let mut follow = Follow {
            store: self.clone(),
            last: None,
            pending: Vec::new(),
            seq,
            read: HashMap::new(),
            before: HashMap::new(),
            generation: 0,
            seen: None,
            has_new_day: false,
            watch: ChangeWatch::new(self),
        };
        // The first lines are needed later to check whether it is still the same log.
        follow.pending = follow.poll()?;
        Ok(follow)
    }
}

/// Follows a store. Created by [`Store::follow`].
#[derive(Debug)]
pub struct Follow {
    store: Store,
    /// The sequence number of the last line returned.
    seq: u64,
    /// The number and text of the last line returned, if any.
    last: Option<(u64, String)>,
    /// Lines read but not returned yet.
    pending: Vec<LogLine>,
    /// How far each segment was read, by its index and identity.
    read: HashMap<(usize, u64), ReadTo>,
    /// The same for segments that were replaced or removed since.
    before: HashMap<(usize, u64), ReadTo>,
    /// The [`State::generation`](crate::store::view::state::State::generation) of `read`.
    generation: u64,
    /// The position in the append order up to which all growth was read, in that generation.
    seen: Option<u64>,
    /// Whether there is a day that is not watched yet.
    has_new_day: bool,
    watch: ChangeWatch,
}

/// The offset up to which a segment was read, and the last bytes of the line before it.
type ReadTo = (u64, Option<LineEnd>);

/// New lines that were read but not taken into [`Follow`] yet.
#[derive(Default)]
struct NewLines {
    lines: Vec<LogLine>,
    /// As [`Follow::read`].
    read: HashMap<(usize, u64), ReadTo>,
}

/// The segments to read.
struct Seen {
    /// Set if segments were replaced or truncated.
    other: Option<Other>,
    grown: Vec<SegmentView>,
    /// The position in the append order up to which growth is included.
    point: u64,
}

struct Other {
    generation: u64,
    max_seq: u64,
    may_have_last: Option<Vec<SegmentView>>,
}

impl Follow {
    /// Returns the lines appended since the last call, in order. Waits up to `timeout` for the
    /// first.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read, for example because its directory
    /// was moved away. No lines are lost: the next call continues. If another directory has taken
    /// its place, that one is followed.
    pub fn next_lines(&mut self, timeout: Duration) -> Result<Vec<LogLine>> {
        match self.try_next_lines(timeout) {
            Err(e) if e.kind() == ErrorKind::Poisoned => {
                self.turn_to_other()?;
                self.try_next_lines(timeout)
            }
            lines => lines,
        }
    }

    /// Continues with the directory that is now at the store's path.
    fn turn_to_other(&mut self) -> Result<()> {
        let options = Store::options().read_only(true);
        self.store = options.open(self.store.path())?;
        self.watch = ChangeWatch::new(&self.store);
        // An impossible generation, so that the segments are compared with what was read.
        self.generation = u64::MAX;
        self.seen = None;
        Ok(())
    }

    fn try_next_lines(&mut self, timeout: Duration) -> Result<Vec<LogLine>> {
        let started = Instant::now();
        loop {
            if !self.pending.is_empty() {
                return Ok(std::mem::take(&mut self.pending));
            }
            self.watch.look_if_due(&self.store)?;
            self.pending = self.poll()?;
            if std::mem::take(&mut self.has_new_day) {
                self.watch.renew(&self.store);
                // Keep the first lines if this poll fails.
                let more = self.poll()?;
                self.pending.extend(more);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if !self.pending.is_empty() || left.is_zero() {
                return Ok(std::mem::take(&mut self.pending));
            }
            self.watch.wait(left);
        }
    }

    fn poll(&mut self) -> Result<Vec<LogLine>> {
        let store = self.store.clone();
        let inner = store.inner();
        // After a failure, the lines read before it need not be read again.
        let mut polling = (self, NewLines::default());
        inner.look_and_read(
            &mut polling,
            |(follow, _), state| follow.look(state),
            |(follow, news), seen| {
                let point = seen.point;
                follow.read(inner, seen, news)?;
                Ok(follow.take(std::mem::take(news), point))
            },
        )
    }

    fn look(&mut self, state: &State) -> Seen {
        // Segments that cannot be read for a while were not removed.
        let is_other = self.generation != state.generation && state.unreadable.is_empty();
        self.has_new_day |= self.watch.has_new_day(state);
        let since = self.seen.filter(|_| !is_other);
        let grown = grown(state, since).into_iter();
        Seen {
            other: is_other.then(|| Other {
                generation: state.generation,
                max_seq: state.max_seq,
                may_have_last: self.may_have_last(state),
            }),
            grown: grown.map(|id| SegmentView::new(state, id)).collect(),
            point: state.append_order.point(),
        }
    }

    fn read(&mut self, inner: &Inner, seen: Seen, news: &mut NewLines) -> Result<()> {
        if let Some(other) = seen.other {
            // Segments were replaced or truncated, so offsets changed. If the end of the log was
            // removed, new records may reuse its sequence numbers.
            let before = self.seq;
            self.seq = if self.is_same_log(inner, other.may_have_last)? {
                self.seq.min(other.max_seq)
            } else {
                0
            };
            if self.seq < before {
                *news = NewLines::default();
            }
            self.generation = other.generation;
            self.before.extend(self.read.drain());
            self.seen = None;
        }
        for segment in seen.grown {
            let place = (segment.id, segment.identity);
            let now = (segment.end, segment.last);
            if news.read.get(&place) == Some(&now) {
                continue;
            }
            // A segment that was moved away and back is known.
            let back_again = || self.before.get(&place).filter(|then| **then == now);
            let known = self.read.get(&place);
            let from = known.or_else(back_again).map_or(0, |(end, _)| *end);
            if segment.end > from || known.is_none() {
                let after = self.seq;
                if segment.end > from && segment.last_seq > after {
                    let (lines, _) = read_lines(inner, &segment, segment.rest(from), after)?;
                    news.lines.extend(lines);
                }
                news.read.insert(place, now);
            }
        }
        Ok(())
    }

    /// Takes the new lines into this follower and returns them sorted, without copies.
    fn take(&mut self, news: NewLines, point: u64) -> Vec<LogLine> {
        let NewLines { mut lines, read } = news;
        self.seen = Some(point);
        lines.sort_by(|a, b| (a.seq, &a.file, a.offset).cmp(&(b.seq, &b.file, b.offset)));
        lines.dedup_by(|a, b| a.is_copy_of(b));
        self.read.extend(read);
        if let Some(last) = lines.last() {
            self.seq = last.seq;
            self.last = Some((last.seq, last.text.clone()));
        }
        lines
    }

    /// The segments that may hold the last line returned, if none of the segments that were read
    /// is left: a copy of the log may have been restored.
    fn may_have_last(&self, state: &State) -> Option<Vec<SegmentView>> {
        let ends: HashSet<LineEnd> = self.read.values().filter_map(|(_, end)| *end).collect();
        let is_known = |(id, segment): (usize, &Segment)| {
            let is_same = self.read.contains_key(&(id, segment.identity));
            segment.end > 0 && (is_same || segment.last.is_some_and(|last| ends.contains(&last)))
        };
        let mut segments = state.segments.iter().enumerate();
        if ends.is_empty() || segments.any(is_known) {
            return None;
        }
        let may_have_it = |segment: &Segment| segment.end > 0 && segment.last_seq >= self.seq;
        Some(SegmentView::of(state, may_have_it))
    }

    /// Whether anything that was read is left. If not, everything was removed, and the log begins
    /// again.
    fn is_same_log(&self, inner: &Inner, may_have_last: Option<Vec<SegmentView>>) -> Result<bool> {
        let Some(segments) = may_have_last else {
            return Ok(true);
        };
        let mut is_there = false;
        for segment in segments {
            let (lines, _) = read_lines(inner, &segment, segment.rest(0), 0)?;
            let mut these = lines.into_iter().map(|line| (line.seq, line.text));
            is_there |= these.any(|this| self.last.as_ref() == Some(&this));
        }
        Ok(is_there)
    }
}

/// The indexes of the segments that may have lines appended after `since`.
fn grown(state: &State, since: Option<u64>) -> BTreeSet<usize> {
    match since {
        Some(point) => {
            let grown = state.append_order.since(point).iter();
            grown.map(|id| *id as usize).collect()
        }
        None => (0..state.segments.len()).collect(),
    }
}

/// The last lines of these segments, which are the latest ones, in order. `is_all`: there are no
/// others. `None` if the others may have some of the last lines.
fn last_lines(
    inner: &Inner,
    segments: Vec<SegmentView>,
    count: usize,
    is_all: bool,
) -> Result<Option<Vec<LogLine>>> {
    let mut is_whole = is_all;
    let mut last: BTreeMap<(u64, usize, u64), LogLine> = BTreeMap::new();
    for segment in segments {
        let first = last.first_key_value().map_or(0, |((seq, ..), _)| *seq);
        if count == 0 || (last.len() >= count && segment.last_seq < first) {
            is_whole = true;
            break;
        }
        for line in read_lines(inner, &segment, segment.rest(0), 0)?.0 {
            let mut same = last.range((line.seq, 0, 0)..=(line.seq, usize::MAX, u64::MAX));
            if !same.any(|(_, known)| line.is_copy_of(known)) {
                last.insert((line.seq, segment.id, line.offset), line);
            }
            if last.len() > count {
                last.pop_first();
            }
        }
    }
    Ok(is_whole.then(|| last.into_values().collect()))
}
