//! Follows the log: lines of all kinds by sequence number, the last ones and those to come.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use super::change_watch::ChangeWatch;
use super::lines::{LogLine, read_lines};
use crate::error::{ErrorKind, Result};
use crate::segment::Span;
use crate::store::view::parallel_scan::LineEnd;
use crate::store::view::refresh::Retries;
use crate::store::view::state::{Segment, State};
use crate::store::{Snapshot, Store};

impl Store {
    /// The last `count` lines, in order.
    pub fn last_lines(&self, count: usize) -> Result<Vec<LogLine>> {
        self.inner().with_snapshot(|view| last_lines(view, count))
    }

    /// Follows the log from the line after `seq` on: 0 for all of it, or the sequence number of
    /// the last line seen.
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
            segments: 0,
            seen: None,
            has_new_day: false,
            watch: ChangeWatch::new(self),
        };
        // What is there now tells later whether it is still the same log.
        follow.pending = follow.poll()?;
        Ok(follow)
    }
}

/// Follows a store; from [`Store::follow`].
#[derive(Debug)]
pub struct Follow {
    store: Store,
    /// The last line returned.
    seq: u64,
    /// Its number and text, if there was one.
    last: Option<(u64, String)>,
    /// Read, and not handed out yet.
    pending: Vec<LogLine>,
    /// How far each segment was read, by its place and identity.
    read: HashMap<(usize, u64), ReadTo>,
    /// How far those were read that are not there any more, or not as they were.
    before: HashMap<(usize, u64), ReadTo>,
    /// [`State::generation`](crate::store::view::state::State::generation) that `read` is of.
    generation: u64,
    /// Up to where all that grew was looked at, in that generation.
    seen: Option<u64>,
    /// How many segments there were when they were last seen.
    segments: usize,
    /// There is a day that is not watched.
    has_new_day: bool,
    watch: ChangeWatch,
}

/// How much of a segment was read, and how the line ends that is the last of it.
type ReadTo = (u64, Option<LineEnd>);

/// What came since lines were handed out, as far as it was read.
#[derive(Default)]
struct News {
    lines: Vec<LogLine>,
    /// As [`Follow::read`].
    read: HashMap<(usize, u64), ReadTo>,
}

impl Follow {
    /// Returns the lines appended since the last call, in order. Waits up to `timeout` for the
    /// first.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the store cannot be read, as where its directory was moved away.
    /// Nothing is lost by that: the next call goes on where this one began. Once another directory has
    /// taken its place, that one is followed.
    pub fn next_lines(&mut self, timeout: Duration) -> Result<Vec<LogLine>> {
        match self.try_next_lines(timeout) {
            Err(e) if e.kind() == ErrorKind::Poisoned => {
                self.turn_to_other()?;
                self.try_next_lines(timeout)
            }
            lines => lines,
        }
    }

    /// Goes on in the directory that has taken the place of the store's.
    fn turn_to_other(&mut self) -> Result<()> {
        let options = Store::options().read_only(true);
        self.store = options.open(self.store.path())?;
        self.watch = ChangeWatch::new(&self.store);
        // Of none that it can have: what was read is compared with what is there.
        self.generation = u64::MAX;
        self.segments = 0;
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
                // What was read before stays, should this fail.
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
        let (mut retries, mut news) = (Retries::default(), News::default());
        loop {
            let store = self.store.clone();
            let view = store.inner().snapshot()?;
            let moved = view.state.moved;
            match self.try_poll(&view, &mut news) {
                // A segment was taken away or replaced a moment ago, or a line changed. What was
                // read by then need not be read again.
                Err(_) if retries.are_left() => {
                    drop(view);
                    store.inner().rescan_after_failure(&mut retries, moved)?;
                }
                polled => {
                    polled?;
                    return Ok(self.take(news, &view));
                }
            }
        }
    }

    fn try_poll(&mut self, view: &Snapshot<'_>, news: &mut News) -> Result<()> {
        // What cannot be read for a while is not gone.
        if self.generation != view.state.generation && view.state.unreadable.is_empty() {
            // Segments were replaced or cut: nothing is where it was. What is recorded after the
            // end of the log was taken away may get its numbers again.
            let before = self.seq;
            self.seq = if self.is_same_log(view)? {
                self.seq.min(view.state.max_seq)
            } else {
                0
            };
            if self.seq < before {
                *news = News::default();
            }
            self.generation = view.state.generation;
            self.before.extend(self.read.drain());
            self.seen = None;
        }
        if self.segments != view.state.segments.len() {
            let new = view.state.segments.iter().skip(self.segments);
            let mut days = new.map(|segment| segment.name.day);
            self.has_new_day |= days.any(|day| !self.watch.knows(day));
            self.segments = view.state.segments.len();
        }
        for id in self.grown(&view.state) {
            let segment = &view.state.segments[id];
            let place = (id, segment.identity);
            let now = (segment.end, segment.last);
            if news.read.get(&place) == Some(&now) {
                continue;
            }
            // One that was moved away and back is known.
            let back_again = || self.before.get(&place).filter(|then| **then == now);
            let known = self.read.get(&place);
            let from = known.or_else(back_again).map_or(0, |(end, _)| *end);
            if segment.end > from || known.is_none() {
                let after = self.seq;
                if segment.end > from && segment.last_seq > after {
                    lines(view, id, from, &mut |line| {
                        if line.seq > after {
                            news.lines.push(line);
                        }
                    })?;
                }
                news.read.insert(place, now);
            }
        }
        Ok(())
    }

    /// Takes in what is news, up to what was seen; the lines.
    fn take(&mut self, news: News, view: &Snapshot<'_>) -> Vec<LogLine> {
        let News { mut lines, read } = news;
        self.seen = Some(view.state.append_order.point());
        lines.sort_by(|a, b| (a.seq, &a.file, a.offset).cmp(&(b.seq, &b.file, b.offset)));
        lines.dedup_by(|a, b| a.is_copy_of(b));
        self.read.extend(read);
        if let Some(last) = lines.last() {
            self.seq = last.seq;
            self.last = Some((last.seq, last.text.clone()));
        }
        lines
    }

    /// The segments that may have lines that were not handed out, each once.
    fn grown(&self, state: &State) -> BTreeSet<usize> {
        match self.seen {
            Some(point) => {
                let grown = state.append_order.since(point).iter();
                grown.map(|id| *id as usize).collect()
            }
            None => (0..state.segments.len()).collect(),
        }
    }
}

fn last_lines(view: &Snapshot<'_>, count: usize) -> Result<Vec<LogLine>> {
    let mut last: BTreeMap<(u64, usize, u64), LogLine> = BTreeMap::new();
    for id in view.state.append_order.latest_first() {
        let id = id as usize;
        let first = last.first_key_value().map_or(0, |((seq, ..), _)| *seq);
        if count == 0 || (last.len() >= count && view.state.segments[id].last_seq < first) {
            break;
        }
        lines(view, id, 0, &mut |line| {
            let mut same = last.range((line.seq, 0, 0)..=(line.seq, usize::MAX, u64::MAX));
            if !same.any(|(_, known)| line.is_copy_of(known)) {
                last.insert((line.seq, id, line.offset), line);
            }
            if last.len() > count {
                last.pop_first();
            }
        })?;
    }
    Ok(last.into_values().collect())
}

impl Follow {
    /// Whether anything is left of what was read: if not, all was taken away, and the log begins
    /// again.
    fn is_same_log(&self, view: &Snapshot<'_>) -> Result<bool> {
        let ends: HashSet<LineEnd> = self.read.values().filter_map(|(_, end)| *end).collect();
        let is_known = |(id, segment): (usize, &Segment)| {
            let is_same = self.read.contains_key(&(id, segment.identity));
            segment.end > 0 && (is_same || segment.last.is_some_and(|last| ends.contains(&last)))
        };
        let mut segments = view.state.segments.iter().enumerate();
        if ends.is_empty() || segments.any(is_known) {
            return Ok(true);
        }
        // Other files, as of a copy that was put back: the last line handed out may stand there.
        let mut is_there = false;
        for (id, segment) in view.state.segments.iter().enumerate() {
            if segment.end > 0 && segment.last_seq >= self.seq {
                lines(view, id, 0, &mut |line| {
                    let this = (line.seq, line.text);
                    is_there |= self.last.as_ref() == Some(&this);
                })?;
            }
        }
        Ok(is_there)
    }
}

/// Calls `sink` for every line of a segment from `from` up to where the view knows it.
fn lines(view: &Snapshot<'_>, id: usize, from: u64, sink: &mut dyn FnMut(LogLine)) -> Result<()> {
    let span = Span {
        from,
        stop: u64::MAX,
        until: view.state.segments[id].end,
    };
    let (lines, _) = read_lines(view, id, span, 0)?;
    lines.into_iter().for_each(sink);
    Ok(())
}
