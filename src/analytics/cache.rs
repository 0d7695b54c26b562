//! Cached sums of each day of the log, from which reports are computed. A day is summed again if
//! one of its segments was replaced or its rollups were written. Otherwise only new messages are
//! added.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde::{Deserialize, Serialize};

use super::activity::{Hours, hour_of};
use super::cells::{Cell, Groups, Mask};
use super::query::Scope;
use super::spending::DaySpent;
use super::turns::Turns;
use crate::collections::{
    Adds, DayFound, DaySum, Message, days_of_messages, read_messages, sum_day,
};
use crate::error::Result;
use crate::index::RowId;
use crate::record::{Day, Kind};
use crate::store::{LogMark, Reads, SegmentWatermark, Snapshot, Store, Watermark};

/// Maximum number of threads that read the log.
const THREADS_MAX: usize = 8;

/// The segments of a day's messages and of its rollups.
type Segments = [Vec<SegmentWatermark>; 2];

/// The sums of the messages of a day.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CachedDay {
    /// The segments when they were read.
    #[serde(skip)]
    segments: Segments,
    /// The sequence number up to which messages are included.
    #[serde(skip)]
    through_seq: u64,
    /// The greatest sequence number of an included message.
    last_seq: u64,
    pub sum: DaySum,
    /// Messages with an error, sorted by time and sequence number.
    pub failed: Vec<(i64, u64)>,
    /// The sums of its messages in the log, by conversation.
    pub spent: DaySpent,
    /// The number of its messages in the log, by hour.
    pub hours: Hours,
    /// The sums by requested dimensions, computed on demand.
    #[serde(skip)]
    cells: HashMap<Mask, Vec<Cell>>,
    /// Its conversations, computed on demand.
    #[serde(skip)]
    talks: Option<Vec<u32>>,
}

impl Adds for CachedDay {
    fn add(&mut self, message: Message) {
        if message.seq <= self.through_seq {
            return;
        }
        self.through_seq = message.seq;
        self.last_seq = message.seq;
        self.cells.clear();
        self.talks = None;
        self.sum.count(&message);
        self.spent.add(&message);
        self.hours[hour_of(message.at)] += 1;
        if message.counted.is_error {
            // Usually appended at the end.
            let failed = (message.at, message.seq);
            let place = self.failed.partition_point(|known| *known < failed);
            self.failed.insert(place, failed);
        }
    }
}

impl CachedDay {
    /// Computes the sums of a day.
    fn read(store: &Store, day: Day) -> Result<CachedDay> {
        let prices = store.inner().prices()?;
        let begin = |found: &DayFound, segments| CachedDay {
            segments,
            through_seq: 0,
            last_seq: 0,
            sum: {
                let mut sum = DaySum::new(&found.rollups);
                sum.price_rolled(&prices, day);
                sum
            },
            failed: Vec::new(),
            spent: DaySpent::default(),
            hours: Hours::default(),
            cells: HashMap::new(),
            talks: None,
        };
        let (found, mut kept) = sum_day(store, day, |view| segments(view, day), begin)?;
        kept.through_seq = found.last_seq;
        kept.sum.shrink();
        Ok(kept)
    }

    /// The day as it was saved, with the segments of that moment.
    pub(super) fn at(self, segments: Vec<SegmentWatermark>) -> CachedDay {
        let (messages, rollups) = segments
            .into_iter()
            .partition(|segment| segment.kind() == Kind::Messages);
        CachedDay {
            segments: [messages, rollups],
            through_seq: self.last_seq,
            ..self
        }
    }

    pub(super) fn segments(&self) -> impl Iterator<Item = &SegmentWatermark> {
        self.segments.iter().flatten()
    }

    pub(super) fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Number of messages, in the log or rolled up.
    fn messages(&self) -> u64 {
        let messages = self.sum.tallies().map(|(_, tally)| tally.messages);
        messages.fold(0, u64::saturating_add)
    }

    /// Whether everything that was counted is still unchanged and new messages can be added. They
    /// cannot be added to a day with rollups, which may already include them.
    fn stands(&self, [messages, rollups]: &Segments) -> bool {
        let [known_messages, known_rollups] = &self.segments;
        let is_kept =
            |mark: &SegmentWatermark| messages.iter().any(|later| mark.is_extended_by(later));
        let are_kept = if self.sum.is_rolled() {
            known_messages == messages
        } else {
            known_messages.iter().all(is_kept)
        };
        known_rollups == rollups && are_kept
    }
}

fn segments(view: &Snapshot<'_>, day: Day) -> Segments {
    [Kind::Messages, Kind::Rollups].map(|kind| view.segment_watermarks(day, kind))
}

/// The cache of the whole log.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// The state of the log that the cache reflects.
    pub(super) watermark: Option<Watermark>,
    pub(super) days: BTreeMap<Day, CachedDay>,
    groups: Groups,
    pub(super) turns: Turns,
    /// Numbers for conversations, by the hashes of their ids, so that conversations on several days
    /// are counted quickly.
    talks: HashMap<u64, u32>,
    /// The prices by which costs were computed.
    pub(super) prices: u64,
    /// Whether the saved sums were looked for, and compared with the log.
    is_recalled: bool,
    /// The mark in the saved sums.
    pub(super) log: Option<LogMark>,
    /// Number of messages that were read since the sums were saved.
    pub(super) read_count: u64,
}

/// The changes since the last update.
struct Update {
    now: Watermark,
    /// Unchanged days, with their current segments.
    grown: Vec<(Day, Segments)>,
    /// Days to sum again.
    unread: Vec<Day>,
    /// Sequence numbers of messages to add to unchanged days.
    messages: Vec<u64>,
}

impl Cache {
    /// Adds everything that was acknowledged before this call.
    pub(super) fn catch_up(&mut self, store: &Store) -> Result<()> {
        let prices = store.inner().prices()?.fingerprint;
        if !self.is_recalled || self.prices != prices {
            self.recall(store, prices)?;
        }
        let Some(news) = store.inner().with_snapshot(|view| Ok(self.news(view)))? else {
            return Ok(());
        };
        let mut before = std::mem::take(&mut self.days);
        for (day, segments) in news.grown {
            if let Some(kept) = before.remove(&day) {
                self.days.insert(day, CachedDay { segments, ..kept });
            }
        }
        read_messages(store.inner(), &news.messages, |message| {
            let day = Day::of(message.at).ok();
            if let Some(kept) = day.and_then(|day| self.days.get_mut(&day)) {
                kept.add(message);
            }
        })?;
        self.read_count += news.messages.len() as u64;
        for (day, mut kept) in read_all(store, &news.unread)? {
            self.read_count = self.read_count.saturating_add(kept.messages());
            // So that the first reports are as fast as later ones.
            for mask in Mask::USUAL {
                let cells = mask.cells(&kept.sum, &mut self.groups);
                kept.cells.insert(mask, cells);
            }
            self.days.insert(day, kept);
        }
        // Set last: if an update fails halfway, it is repeated, and nothing is counted twice.
        self.watermark = Some(news.now);
        self.is_recalled = true;
        Ok(())
    }

    /// The changes since the last update; `None` if there are none.
    fn news(&self, view: &Snapshot<'_>) -> Option<Update> {
        let now = view.watermark();
        // The saved sums may lack days.
        if self.is_recalled && self.watermark == Some(now) {
            return None;
        }
        let since = self
            .watermark
            .filter(|watermark| watermark.is_extended_by(now));
        let (mut grown, mut unread) = (Vec::new(), Vec::new());
        for day in days_of_messages(view) {
            let segments = segments(view, day);
            let kept = self.days.get(&day).filter(|_| since.is_some());
            if kept.is_some_and(|kept| kept.stands(&segments)) {
                grown.push((day, segments));
            } else {
                unread.push(day);
            }
        }
        let table = view.table(Kind::Messages);
        let first = since.map(|since| table.row_from_seq(since.last_seq.saturating_add(1)));
        let rows = first.into_iter().flat_map(|first| first.0..);
        let rows = rows.map_while(|row| table.row(RowId(row)));
        let is_of_unread = |at| Day::of(at).is_ok_and(|day| unread.binary_search(&day).is_ok());
        let messages = rows.filter(|row| !is_of_unread(row.at)).map(|row| row.seq);
        Some(Update {
            now,
            grown,
            messages: messages.collect(),
            unread,
        })
    }

    /// The days of a report.
    pub(super) fn days(&self, scope: &Scope) -> impl DoubleEndedIterator<Item = (Day, &CachedDay)> {
        let days = self.days.iter().map(|(day, kept)| (*day, kept));
        days.filter(|(day, _)| scope.has(*day))
    }

    fn days_mut(&mut self, scope: &Scope) -> impl Iterator<Item = &mut CachedDay> {
        let days = self.days.iter_mut();
        let days = days.filter(|(day, _)| scope.has(**day));
        days.map(|(_, kept)| kept)
    }

    /// The sums of a report's days by these dimensions, and the names of the groups.
    pub(super) fn cells(
        &mut self,
        scope: &Scope,
        mask: Mask,
    ) -> (impl Iterator<Item = (Day, &[Cell])>, &Groups) {
        let mut groups = std::mem::take(&mut self.groups);
        for CachedDay { sum, cells, .. } in self.days_mut(scope) {
            let of_day = || mask.cells(sum, &mut groups);
            cells.entry(mask).or_insert_with(of_day);
        }
        self.groups = groups;
        let days = self.days(scope);
        let cells = days.filter_map(move |(day, kept)| {
            let cells = kept.cells.get(&mask)?;
            Some((day, cells.as_slice()))
        });
        (cells, &self.groups)
    }

    /// Number of conversations with a message in each bucket of a report. Fails with a day that has
    /// a rollup without conversation ids and shares its bucket with other days.
    pub(super) fn conversations(&mut self, scope: &Scope) -> Result<Vec<(Option<Day>, u64)>, Day> {
        let mut talks = std::mem::take(&mut self.talks);
        for kept in self.days_mut(scope) {
            if kept.talks.is_none() {
                let of_day = kept.sum.conversations().into_iter().map(|id| {
                    let next = talks.len() as u32;
                    *talks.entry(id).or_insert(next)
                });
                kept.talks = Some(of_day.collect());
            }
        }
        self.talks = talks;
        let mut seen = vec![false; self.talks.len()];
        let mut count = |days: &[(Day, &CachedDay)]| {
            if let [(_, one)] = days {
                return Ok(one.sum.active_conversations());
            }
            seen.fill(false);
            let mut count = 0;
            for (day, kept) in days {
                let talks = kept.talks.as_deref().unwrap_or_default();
                if talks.len() as u64 != kept.sum.active_conversations() {
                    return Err(*day);
                }
                for talk in talks {
                    let seen = &mut seen[*talk as usize];
                    count += u64::from(!*seen);
                    *seen = true;
                }
            }
            Ok(count)
        };
        let bucket = |(day, _): &(Day, &CachedDay)| scope.bucket.of(*day);
        let days: Vec<(Day, &CachedDay)> = self.days(scope).collect();
        let buckets = days.chunk_by(|one, next| bucket(one) == bucket(next));
        let counts = buckets.map(|days| Ok((days.first().and_then(bucket), count(days)?)));
        counts.collect()
    }
}

/// Sums several days in parallel.
fn read_all(store: &Store, days: &[Day]) -> Result<Vec<(Day, CachedDay)>> {
    in_threads(days, |day| Ok((*day, CachedDay::read(store, *day)?)))
}

/// What `each` makes of these items, in any order, in several threads.
pub(super) fn in_threads<T: Sync, R: Send>(
    items: &[T],
    each: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            done.push(each(item)?);
        }
        Ok(done)
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = processors.min(THREADS_MAX).min(items.len());
    if threads < 2 {
        return work();
    }
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = Vec::with_capacity(items.len());
        for thread in threads {
            all.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok(all)
    })
}
