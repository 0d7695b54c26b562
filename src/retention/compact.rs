//! Drops old superseded and retracted versions, and joins small segments.

use std::collections::BTreeSet;

use serde::Serialize;

use super::order::has_older_elsewhere;
use super::{OnPart, report};
use crate::error::Result;
use crate::index::{Loc, Position, RowId, Select};
use crate::line::{Envelope, Line, Op, Value, classify};
use crate::record::{Day, Kind, now};
use crate::segment::SegmentName;
use crate::store::{Candidate, Dependents, Reads, RemovalReason, Snapshot, Store};

/// Options of [`compact`](Store::compact).
pub struct CompactOptions<'a> {
    /// The current time, in epoch milliseconds. Default: now.
    pub now: i64,
    /// Days of history to keep for [`Store::as_of`]. Default: 7.
    pub keep_days: u32,
    /// Only reports what would be removed. Default: false.
    pub dry_run: bool,
    /// Called with each part that was compacted, or would be. `Break` ends the work early, without
    /// harm. Default: continues.
    pub progress: OnPart<'a, CompactedPart>,
}

impl Default for CompactOptions<'_> {
    fn default() -> Self {
        CompactOptions {
            now: now(),
            keep_days: 7,
            dry_run: false,
            progress: None,
        }
    }
}

/// The compaction of one day and kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactedPart {
    /// The day.
    pub day: Day,
    /// The kind.
    pub kind: Kind,
    /// Number of removed lines.
    pub lines: u64,
    /// Number of removed bytes.
    pub bytes: u64,
    /// Number of segments that were joined.
    pub joined: usize,
}

/// The result of [`compact`](Store::compact).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Compacted {
    /// The parts, by day and kind.
    pub parts: Vec<CompactedPart>,
    /// Whether [`CompactOptions::progress`] ended it early.
    pub is_interrupted: bool,
}

impl Store {
    /// Drops versions that were superseded, and facts that were retracted, more than some days
    /// ago, and joins the small segments of past days. It keeps current records, and all lines
    /// that are needed to record the remaining lines into another store. It does not touch
    /// altered lines with other content, damaged bytes, or sealed segments that other programs
    /// changed. Others can read and write the store meanwhile. It needs disk space for one segment.
    ///
    /// ```
    /// # use decklog::Store;
    /// # use decklog::retention::CompactOptions;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// assert!(store.compact(CompactOptions::default())?.parts.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`retain`](Store::retain).
    pub fn compact(&self, options: CompactOptions<'_>) -> Result<Compacted> {
        let CompactOptions {
            now,
            keep_days,
            dry_run,
            mut progress,
        } = options;
        let inner = self.inner();
        let _upkeep = inner.begin_upkeep(inner.lock_timeout)?;
        if !dry_run {
            inner.complete_rewrites()?;
            self.seal_at(now)?;
        }
        let today = Day::of(now)?;
        let kept_ms = i64::from(keep_days) * 86_400_000;
        let horizon = Horizon {
            day: Day::of(now.saturating_sub(kept_ms).max(0))?,
            today,
            dry_run,
        };
        let mut done = Compacted::default();
        let mut settled = inner.settled(today)?;
        while !settled.is_empty() {
            let (mut deferred, mut has_dropped) = (BTreeSet::new(), false);
            for (place, segments) in settled {
                let part = self.compact_part(horizon, place, &segments, &mut deferred)?;
                if part.lines == 0 && part.joined == 0 {
                    continue;
                }
                has_dropped |= part.lines > 0;
                let goes_on = report(&mut progress, &part);
                done.add(part);
                if goes_on.is_break() {
                    done.is_interrupted = true;
                    return Ok(done);
                }
            }
            // These can be removed when the lines before them are gone.
            if !has_dropped || deferred.is_empty() {
                break;
            }
            settled = inner.settled(today)?;
            settled.retain(|place, _| deferred.contains(place));
        }
        Ok(done)
    }

    /// Compacts the segments of one day and kind. Returns where lines must wait for others.
    fn compact_part(
        &self,
        horizon: Horizon,
        (day, kind): (Day, Kind),
        segments: &[(SegmentName, u64)],
        deferred: &mut BTreeSet<(Day, Kind)>,
    ) -> Result<CompactedPart> {
        let inner = self.inner();
        let mut part = CompactedPart {
            day,
            kind,
            lines: 0,
            bytes: 0,
            joined: 0,
        };
        for group in groups(segments, inner.segment_bytes_max, day < horizon.today) {
            let mut judge = |view: &Snapshot<'_>, line: &Candidate<'_>| {
                let goes = day < horizon.day && is_superseded(view, kind, horizon, line);
                let waits = |entry| has_older_elsewhere(view, kind, entry, &group);
                if goes && !horizon.dry_run && line.entry.as_ref().is_some_and(waits) {
                    deferred.insert((day, kind));
                    return Ok(true);
                }
                Ok(!goes)
            };
            let Some(plan) = inner.plan_rewrite(&group, &mut judge)? else {
                continue;
            };
            if !horizon.dry_run
                && !inner.apply(&plan, RemovalReason::Compaction, &Dependents::default())?
            {
                continue;
            }
            for (_, gone) in plan.gone() {
                part.lines += gone.lines;
                part.bytes += gone.bytes;
            }
            if group.len() > 1 {
                part.joined += group.len();
            }
        }
        Ok(part)
    }
}

impl Compacted {
    /// Adds a removal to an earlier one of the same day and kind.
    fn add(&mut self, part: CompactedPart) {
        let mut parts = self.parts.iter_mut();
        match parts.find(|known| (known.day, known.kind) == (part.day, part.kind)) {
            Some(known) => {
                known.lines += part.lines;
                known.bytes += part.bytes;
                known.joined += part.joined;
            }
            None => self.parts.push(part),
        }
    }
}

/// Groups segments to join; only those of a past day are joined.
fn groups(segments: &[(SegmentName, u64)], bytes_max: u64, is_past: bool) -> Vec<Vec<SegmentName>> {
    let mut groups: Vec<(Vec<SegmentName>, u64)> = Vec::new();
    for (name, bytes) in segments {
        match groups.last_mut() {
            Some((group, sum)) if is_past && *sum + bytes <= bytes_max => {
                group.push(*name);
                *sum += bytes;
            }
            _ => groups.push((vec![*name], *bytes)),
        }
    }
    groups.into_iter().map(|(group, _)| group).collect()
}

/// The horizon: history before it is removed.
#[derive(Clone, Copy)]
struct Horizon {
    day: Day,
    today: Day,
    /// Dry run: nothing is removed. Lines that would be sealed first count as removable, and lines
    /// that wait for another line do not have to wait.
    dry_run: bool,
}

impl Horizon {
    /// Whether a line is before the horizon and synced. Otherwise a power cut could lose it after
    /// the line that it supersedes was removed.
    fn is_past(self, view: &Snapshot<'_>, loc: Loc) -> bool {
        view.day(loc) < self.day && (self.dry_run || view.is_sealed(loc))
    }
}

/// Whether a line has no effect on the state at or after the horizon.
fn is_superseded(view: &Snapshot<'_>, kind: Kind, horizon: Horizon, line: &Candidate<'_>) -> bool {
    let table = view.table(kind);
    let found = line.entry.as_ref();
    let found = found.and_then(|entry| {
        let id = table.find(entry.key)?;
        Some((entry, id, *table.row(id)?))
    });
    let Some((entry, id, row)) = found else {
        return false;
    };
    let is_old = |loc| horizon.is_past(view, loc);
    if row.is_retracted {
        return table.lines(id).all(is_old)
            // Its steps would remain without it if the last one is removed first.
            && !(kind == Kind::CodeEditProposals && row.done.is_some())
            && !leads_on(view, kind, line);
    }
    // Another line supersedes it, long enough ago.
    let by = |loc: Loc| loc.is_some() && loc != entry.loc && is_old(loc);
    match (kind, entry.op) {
        (
            Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals,
            Op::Asserted | Op::Requested | Op::Pending | Op::Retracted,
        ) => is_followed(view, kind, id, entry.loc, horizon),
        // The first line has the creation time.
        (Kind::Conversations, Op::Updated) => entry.seq != row.seq && by(row.asserted),
        (Kind::Rollups, _) => by(row.asserted),
        // Outcomes and steps lead from the assertion to the current state.
        _ => false,
    }
}

/// Whether a turn has tool calls: an erasure finds them through the turn.
fn leads_on(view: &Snapshot<'_>, kind: Kind, line: &Candidate<'_>) -> bool {
    let hash = |envelope: &Envelope<'_>| {
        let id = envelope.key[0].text(&mut [0; Value::BYTES]).to_vec();
        view.hasher().lookup(&id)
    };
    let turn = match classify(kind, line.bytes) {
        _ if kind != Kind::ConversationTurns => return false,
        Line::Good(envelope) => hash(&envelope),
        Line::Altered(Ok(decoded)) => hash(&decoded.envelope(0)),
        _ => return false,
    };
    let calls = Select::Lookup(0, turn);
    let calls = view
        .table(Kind::ToolCalls)
        .walk(calls, Position::FIRST, Position::END);
    calls.take(1).count() > 0
}

/// Whether a version of a row is removed: one from before the horizon follows it. The remaining
/// versions, recorded in order, must give the current state: an outcome and the steps of a proposal
/// need the version that was current when they came, and a retraction needs a version to retract.
fn is_followed(view: &Snapshot<'_>, kind: Kind, id: RowId, version: Loc, horizon: Horizon) -> bool {
    let history = view.table(kind).history(id).unwrap_or_default();
    let is_past = |place: usize| {
        history
            .get(place)
            .is_some_and(|loc| horizon.is_past(view, *loc))
    };
    let found = history.iter().position(|loc| *loc == version);
    let settled = settled_versions(view, kind, id, history);
    let last = (0..settled).rfind(|place| is_past(*place));
    let (Some(place), Some(last)) = (found, last) else {
        return false;
    };
    let is_followed = |place: usize| place < last && is_past(place);
    let Some(first_left) = (0..history.len()).find(|place| !is_followed(*place)) else {
        return false;
    };
    let is_assertion = |place: usize| {
        let line = history.get(place).map(|loc| view.read(kind, *loc));
        line.is_some_and(|line| line.is_ok_and(|line| line.op != Op::Retracted))
    };
    if is_assertion(first_left) {
        return is_followed(place);
    }
    // The version it retracts is gone, and an assertion follows: it is not needed.
    let needs_none = first_left == last && is_assertion(first_left + 1);
    if place == first_left || needs_none {
        return needs_none && (place == first_left || is_followed(place));
    }
    let retracted = (0..first_left).rfind(|place| is_assertion(*place));
    is_followed(place) && retracted != Some(place)
}

/// The number of a row's versions before its outcome or first step; all, if it has none.
fn settled_versions(view: &Snapshot<'_>, kind: Kind, id: RowId, history: &[Loc]) -> usize {
    let done = view.table(kind).row(id).map(|row| row.done);
    let Some(done) = done.filter(|done| done.is_some()) else {
        return history.len();
    };
    let read = |loc: &Loc| view.read(kind, *loc).ok();
    if kind == Kind::ToolCalls {
        let seq = |loc: &Loc| read(loc)?.seq;
        return seq(&done).map_or(0, |done| {
            history.partition_point(|loc| seq(loc).is_some_and(|seq| seq < done))
        });
    }
    // A proposal that was never retracted was not proposed again after a step.
    let is_assertion = |loc: &Loc| read(loc).is_some_and(|line| line.op != Op::Retracted);
    if history.iter().all(is_assertion) {
        history.len()
    } else {
        0
    }
}
