//! `cache/sums`: the sums, so that the next process reads only the messages that it lacks.
//!
//! The sums of a day are used only if the day's segments still begin with everything that they
//! include, so a lost, damaged or outdated file costs time, never a wrong number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cache::{Cache, CachedDay};
use super::turns::Turns;
use crate::error::Result;
use crate::record::{Day, Kind};
use crate::store::{CacheFile, LogMark, Reads, Store};

const FILE: CacheFile = CacheFile {
    path: "cache/sums",
    header: concat!("decklog sums 3, decklog ", env!("CARGO_PKG_VERSION"), "\n"),
};

/// The kinds that the sums of days are of.
const KINDS: [Kind; 2] = [Kind::Messages, Kind::Rollups];

/// The approximate length of a message or an event, in bytes.
const LINE_BYTES: u64 = 256;
/// The sums are saved after this many times as many bytes as the index.
const TIMES: u64 = 8;

/// The contents of the file.
#[derive(Serialize, Deserialize)]
struct Saved<D, T> {
    log: LogMark,
    /// The prices by which costs were computed.
    prices: u64,
    /// The sequence number up to which all days have their messages.
    last_seq: u64,
    /// Number of messages up to this one.
    rows: u32,
    days: D,
    turns: Option<SavedTurns<T>>,
}

#[derive(Serialize, Deserialize)]
struct SavedTurns<T> {
    /// A mark of the events.
    log: LogMark,
    /// Number of events up to the last one that is included.
    rows: u32,
    sums: T,
}

impl Cache {
    /// Takes over the saved sums that are those of this log.
    pub(super) fn recall(&mut self, store: &Store, prices: u64) -> Result<()> {
        // An earlier attempt may have failed, or the prices may have changed.
        *self = Cache::default();
        self.prices = prices;
        let storage = store.inner().storage();
        let saved: Option<Saved<BTreeMap<Day, CachedDay>, Turns>> = FILE.load(storage);
        let Some(mut saved) = saved.filter(|saved| saved.prices == prices) else {
            return Ok(());
        };
        // First: if the log is rewritten after this, the next update begins anew.
        let watermark = store.inner().with_snapshot(|view| Ok(view.watermark()))?;
        let now = store.log_mark(&KINDS)?;
        // All messages that were added since have greater sequence numbers.
        let has_as_many = rows_through(store, Kind::Messages, saved.last_seq)? == saved.rows;
        let is_comparable =
            |now: &LogMark| has_as_many && now.is_undamaged() && saved.log.is_comparable_to(now);
        let Some(now) = now.filter(is_comparable) else {
            return Ok(());
        };
        let grown = saved.log.days_with_more(&now);
        for (day, segments) in saved.log.days_held(storage) {
            let kept = saved.days.remove(&day);
            if let Some(kept) = kept.filter(|_| !grown.contains(&day)) {
                self.days.insert(day, kept.at(segments));
            }
        }
        // Of the days that are left. Numbers after it may be those of other records than when the
        // sums were saved, if a power cut took these.
        let last_seq = self.days.values().map(CachedDay::last_seq).max();
        if let Some(last_seq) = last_seq {
            let last_seq = last_seq.min(saved.last_seq);
            self.watermark = Some(watermark.through(last_seq));
            self.log = Some(saved.log);
        }
        if let Some(turns) = saved.turns
            && has_all(store, &turns)?
        {
            self.turns = turns.sums.at(watermark);
        }
        Ok(())
    }

    /// Saves the sums, if enough was read for them that the next process should not read it again.
    /// Errors are ignored: then it does.
    pub(super) fn save_if_due(&mut self, store: &Store) {
        let read = self.read_count.saturating_add(self.turns.read_count);
        let enough = store.inner().sidecar_bytes_min.saturating_mul(TIMES);
        if read > 0 && read.saturating_mul(LINE_BYTES) >= enough {
            (self.read_count, self.turns.read_count) = (0, 0);
            let _ = self.save(store);
        }
    }

    /// `None` if the log was rewritten meanwhile.
    fn save(&mut self, store: &Store) -> Option<()> {
        let (inner, storage) = (store.inner(), store.inner().storage());
        if !inner.may_cache() {
            return None;
        }
        let log = store.log_mark(&KINDS).ok()??;
        let log = Some(log).filter(LogMark::is_undamaged)?;
        let events = store.log_mark(&[Kind::Events]).ok()??;
        let now = inner.with_snapshot(|view| Ok(view.watermark())).ok()?;
        let watermark = self.watermark.filter(|then| then.is_extended_by(now))?;
        self.days.values_mut().for_each(|day| day.sum.shrink());
        let segments = self.days.values().flat_map(CachedDay::segments);
        let log = log.with_segments(segments);
        let log = log.saved(storage, self.log.as_ref())?;
        log.sync_recent(storage).ok()?;
        let turns = self.turns.are_of(now).then_some(&self.turns);
        let turns = turns.and_then(|sums| {
            let log = events.saved(storage, None)?;
            log.sync_recent(storage).ok()?;
            let rows = rows_through(store, Kind::Events, sums.last_seq).ok()?;
            Some(SavedTurns { log, rows, sums })
        });
        let saved = Saved {
            log,
            prices: self.prices,
            last_seq: watermark.last_seq,
            rows: rows_through(store, Kind::Messages, watermark.last_seq).ok()?,
            days: &self.days,
            turns,
        };
        FILE.save(storage, &saved).ok()?;
        self.log = Some(saved.log);
        Some(())
    }
}

/// Whether the log still has all events that the sums include, and all others came later.
fn has_all(store: &Store, turns: &SavedTurns<Turns>) -> Result<bool> {
    let Some(now) = store.log_mark(&[Kind::Events])? else {
        return Ok(false);
    };
    let rows = rows_through(store, Kind::Events, turns.sums.last_seq)?;
    Ok(rows == turns.rows && turns.log.is_held_by(&now, store.inner().storage()))
}

/// Number of records of a kind in the index up to a sequence number.
fn rows_through(store: &Store, kind: Kind, seq: u64) -> Result<u32> {
    let inner = store.inner();
    inner.with_snapshot(|view| {
        let table = view.table(kind);
        Ok(table.row_from_seq(seq.saturating_add(1)).0)
    })
}
