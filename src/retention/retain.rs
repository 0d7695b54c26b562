//! Removes expired records, and the oldest days of a store that is too large.

use std::collections::HashMap;

use serde::Serialize;

use super::cutoffs::Cutoffs;
use super::due::Due;
use super::{OnPart, report};
use crate::error::Result;
use crate::record::{Day, Kind, now};

use crate::segment::SegmentName;
use crate::store::{Candidate, RemovalReason, Snapshot, Store};

/// Options of [`retain`](Store::retain).
pub struct RetainOptions<'a> {
    /// The current time, in epoch milliseconds. Default: now.
    pub now: i64,
    /// Only reports what would be removed. Default: false.
    pub dry_run: bool,
    /// Called with each part that was removed, or would be. `Break` ends the work early, without
    /// harm. Default: continues.
    pub progress: OnPart<'a, RetainedPart>,
}

impl Default for RetainOptions<'_> {
    fn default() -> Self {
        RetainOptions {
            now: now(),
            dry_run: false,
            progress: None,
        }
    }
}

/// The removal of one day and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetainedPart {
    /// The day.
    pub day: Day,
    /// The kind.
    pub kind: Kind,
    /// The reason.
    pub reason: RemovalReason,
    /// Number of lines.
    pub lines: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The result of [`retain`](Store::retain).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Retained {
    /// The parts, by kind and day.
    pub parts: Vec<RetainedPart>,
    /// Number of bytes above the size limit that cannot be removed, because the records are kept
    /// forever, are of today, or are related to such records.
    pub bytes_over: u64,
    /// Whether [`RetainOptions::progress`] ended it early.
    pub is_interrupted: bool,
}

impl Retained {
    /// Adds a removal to an earlier one of the same day and kind.
    fn add(&mut self, part: RetainedPart) {
        let of = |part: &RetainedPart| (part.day, part.kind, part.reason);
        match self.parts.iter_mut().find(|known| of(known) == of(&part)) {
            Some(known) => {
                known.lines += part.lines;
                known.bytes += part.bytes;
            }
            None => self.parts.push(part),
        }
    }
}

impl Store {
    /// Removes expired records by the store's [`RetentionSettings`](crate::retention::RetentionSettings) and,
    /// if the store exceeds its size limit, the oldest days. Related records are removed together,
    /// when the last of them has expired: a conversation with its messages, a call with its outcome,
    /// a tree of events. A chain of thoughts loses its start. Removals are first recorded in
    /// `removals.jsonl`. A sealed segment that another program changed stays until it is accepted:
    /// see [`repair`](Store::repair). Others can read and write the store meanwhile.
    ///
    /// ```
    /// # use decklog::Store;
    /// # use decklog::retention::RetainOptions;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let would_go = store.retain(RetainOptions {
    ///     dry_run: true,
    ///     ..RetainOptions::default()
    /// })?;
    /// assert!(would_go.parts.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Locked`](crate::ErrorKind::Locked) while another process runs it, or compacts;
    /// [`Io`](crate::ErrorKind::Io). The next call removes the rest.
    pub fn retain(&self, options: RetainOptions<'_>) -> Result<Retained> {
        let _upkeep = self.inner().begin_upkeep(self.inner().lock_timeout)?;
        if !options.dry_run {
            self.inner().complete_rewrites()?;
            self.seal_at(options.now)?;
        }
        retain(self, options, true)
    }
}

/// Removes expired records from sealed segments, if requested by age, and excess data by size. The
/// caller holds the right to rewrite segments.
pub(super) fn retain(store: &Store, options: RetainOptions<'_>, by_age: bool) -> Result<Retained> {
    let settings = store.settings()?;
    let cutoffs = Cutoffs::at(options.now, &settings.retention, &settings.privacy);
    let today = Day::of(options.now)?;
    let mut run = Run {
        store,
        today,
        options,
        done: Retained::default(),
        counted: HashMap::new(),
        has_rolled: false,
    };
    // Rollups last: those of messages that are removed here may have expired too.
    if by_age {
        for kinds in [&records()[..], &ROLLUPS] {
            run.remove(kinds, cutoffs, RemovalReason::Retention)?;
        }
    }
    if let Some(max_bytes) = settings.retention.max_bytes {
        run.shrink(cutoffs, max_bytes)?;
    }
    let is_imported = |part: &RetainedPart| {
        let kinds = [Kind::Conversations, Kind::Messages];
        kinds.contains(&part.kind)
    };
    if !run.options.dry_run && run.done.parts.iter().any(is_imported) {
        store.inner().discard_import_checkpoints()?;
    }
    Ok(run.done)
}

/// The order of removal of kinds: kinds that are found through others come after them, so that the
/// next run finds the rest of an interrupted one expired.
fn records() -> Vec<Kind> {
    const FIRST: [Kind; 2] = [Kind::Conversations, Kind::Messages];
    let is_later = |kind: &Kind| !FIRST.contains(kind) && *kind != Kind::Rollups;
    let rest = Kind::ALL.into_iter().filter(is_later);
    FIRST.into_iter().chain(rest).collect()
}

/// Rolls up removed messages for reports.
const ROLLUPS: [Kind; 1] = [Kind::Rollups];

struct Run<'s, 'o> {
    store: &'s Store,
    today: Day,
    options: RetainOptions<'o>,
    done: Retained,
    /// In a dry run: the reported removals of each segment.
    counted: HashMap<SegmentName, (u64, u64)>,
    /// Whether rollups were written whose segments are not sealed yet.
    has_rolled: bool,
}

impl Run<'_, '_> {
    /// Removes all expired records of these kinds.
    fn remove(&mut self, kinds: &[Kind], cutoffs: Cutoffs, reason: RemovalReason) -> Result<()> {
        if self.done.is_interrupted {
            return Ok(());
        }
        if kinds.contains(&Kind::Rollups) && std::mem::take(&mut self.has_rolled) {
            self.store.seal_at(self.options.now)?;
        }
        let mut due = Due::new(cutoffs, self.options.dry_run);
        let settled = self.store.inner().settled(self.today)?;
        let rank = |kind: &Kind| kinds.iter().position(|one| one == kind);
        let is_before =
            |(day, kind): &(Day, Kind)| rank(kind).is_some() && cutoffs.last(*kind) > Some(*day);
        let mut parts: Vec<(Day, Kind)> = settled.keys().copied().filter(is_before).collect();
        parts.sort_by_key(|(day, kind)| (rank(kind), *day));
        while !parts.is_empty() {
            let mut has_removed = false;
            for place in parts {
                let part = self.remove_part(&mut due, place, &settled[&place], reason)?;
                if part.lines == 0 {
                    continue;
                }
                has_removed = true;
                let goes_on = report(&mut self.options.progress, &part);
                self.done.add(part);
                if goes_on.is_break() {
                    self.done.is_interrupted = true;
                    return Ok(());
                }
            }
            let deferred = due.take_deferred();
            parts = if has_removed { deferred } else { Vec::new() };
        }
        Ok(())
    }

    /// Removes expired records of one day and kind.
    fn remove_part(
        &mut self,
        due: &mut Due,
        (day, kind): (Day, Kind),
        segments: &[(SegmentName, u64)],
        reason: RemovalReason,
    ) -> Result<RetainedPart> {
        let inner = self.store.inner();
        let mut part = RetainedPart {
            day,
            kind,
            reason,
            lines: 0,
            bytes: 0,
        };
        let mut is_rolled = false;
        for (name, _) in segments {
            let mut judge =
                |view: &Snapshot<'_>, line: &Candidate<'_>| due.stays(view, *name, line);
            let Some(plan) = inner.plan_rewrite(&[*name], &mut judge)? else {
                due.left_out(*name);
                continue;
            };
            let with = due.with();
            let Some((_, gone)) = plan.gone().next() else {
                continue;
            };
            if self.options.dry_run {
                let counted = self.counted.entry(*name).or_default();
                part.lines += gone.lines.saturating_sub(counted.0);
                part.bytes += gone.bytes.saturating_sub(counted.1);
                *counted = (gone.lines, gone.bytes);
                continue;
            }
            if kind == Kind::Messages && !std::mem::replace(&mut is_rolled, true) {
                self.store.roll_up(day)?;
                self.has_rolled = true;
            }
            if inner.apply(&plan, reason, &with)? {
                part.lines += gone.lines;
                part.bytes += gone.bytes;
            } else {
                due.left_out(*name);
            }
        }
        Ok(part)
    }

    /// Removes the oldest days until the size without rollups is within the limit.
    fn shrink(&mut self, cutoffs: Cutoffs, max_bytes: u64) -> Result<()> {
        let inner = self.store.inner();
        let mut tried = None;
        loop {
            let bytes = inner.capped_bytes()?;
            let would_go: u64 = self.counted.values().map(|(_, bytes)| bytes).sum();
            let total = bytes.values().sum::<u64>().saturating_sub(would_go);
            self.done.bytes_over = total.saturating_sub(max_bytes);
            let over = self.done.bytes_over;
            let untried = bytes.iter().filter(|((day, kind), _)| {
                cutoffs.last(*kind).is_some()
                    && *day < self.today
                    && tried.is_none_or(|tried| *day > tried)
            });
            // The fewest first days whose removal would suffice, or else all days.
            let (mut freed, mut last) = (0, None);
            for ((day, _), bytes) in untried {
                if freed >= over && last != Some(*day) {
                    break;
                }
                freed += bytes;
                last = Some(*day);
            }
            let Some(last) = last.filter(|_| over > 0 && !self.done.is_interrupted) else {
                return Ok(());
            };
            tried = Some(last);
            let (_, next_ms) = last.bounds_ms();
            let cutoffs = cutoffs.no_earlier_than(Day::of(next_ms)?);
            self.remove(&records(), cutoffs, RemovalReason::Size)?;
        }
    }
}
