//! The state of a handle: the segments, how far each was read, and the index.

mod damage;
mod relocate;
mod rescan;

use std::collections::BTreeMap;

pub(in crate::store) use self::damage::KnownDamage;
use self::rescan::is_as_read;
use super::altered_seqs::clamp_altered_seqs;
use super::append_order::AppendOrder;
use super::parallel_scan::{LineEnd, Run, ScanJob, ScanResult, scan_parallel};
use super::relocations::RelocatedFile;
use super::sidecar::{Covered, now_ns};
use crate::error::Result;
use crate::index::{Entry, Hasher, Index, Loc};
use crate::record::{Day, Kind};
use crate::segment::{Damage, DamageCounts, SegmentName, Tail};
use crate::storage::{FileTimes, Storage};
use crate::store::commit::head::{self, Head, Reach};
use crate::store::maintain::removals::RemovalSummary;

/// Maximum number of damaged places listed per kind of record. More are only counted.
const DAMAGE_LISTED_MAX: usize = 10_000;

/// Once more of a saved index is in memory, what can be read again is dropped.
const LOADED_BYTES_MAX: usize = 64 << 20;

/// One segment, as far as this handle has read it.
#[derive(Debug)]
pub(in crate::store) struct Segment {
    pub name: SegmentName,
    /// The offset after the last LF that was read.
    pub end: u64,
    /// The bytes after `end` at the last read, if there were any.
    pub tail: Option<Tail>,
    pub identity: u64,
    /// The greatest sequence number in it.
    pub last_seq: u64,
    /// The times of the file before it was read. `None` unless everything known of it was read at
    /// once.
    pub read_times: Option<FileTimes>,
    /// The offset up to which its lines were checked when they were read, by this handle or by the
    /// writer of the sidecar.
    pub verified: u64,
    /// What the sidecar says of the file.
    pub covered: Option<Covered>,
    /// Whether that was compared with the file.
    pub is_compared: bool,
    /// Number of bytes that had to be compared, and would not if the sidecar were saved again.
    pub compared: u64,
    /// The last bytes of the line before `end`, if known.
    pub last: Option<LineEnd>,
    /// Whether the file is read-only. No more lines are appended to it then.
    pub is_sealed: bool,
}

impl Segment {
    /// A segment that was not read yet.
    pub(in crate::store) fn unknown(name: SegmentName) -> Segment {
        Segment {
            name,
            end: 0,
            tail: None,
            identity: 0,
            last_seq: 0,
            read_times: None,
            verified: 0,
            covered: None,
            is_compared: false,
            compared: 0,
            last: None,
            is_sealed: false,
        }
    }

    /// Records how far the segment has been read.
    fn go_on(&mut self, read: &ScanResult) {
        if self.end != read.scanned.end {
            self.last = read.last;
        }
        self.end = read.scanned.end;
        self.verified = self.end;
        self.tail = read.scanned.tail;
    }

    /// The length of the file if it was not changed since it was read.
    pub(in crate::store) fn expected_len(&self) -> u64 {
        self.end + self.tail.map_or(0, |tail| tail.len)
    }
}

#[derive(Debug)]
pub(in crate::store) struct State {
    hasher: Hasher,
    /// A segment keeps its index in this list, so that a [`Loc`] stays valid.
    pub segments: Vec<Segment>,
    pub by_name: BTreeMap<SegmentName, u32>,
    /// All segments with lines, in the order in which they were last appended to.
    pub append_order: AppendOrder,
    /// The times of day directories before they were listed. A directory with the same times need
    /// not be listed again.
    pub plain_days: BTreeMap<Day, FileTimes>,
    /// Those of the sidecar whose directories have not changed since.
    pub covered_days: BTreeMap<Day, FileTimes>,
    /// The identity of the `HEAD` whose commits `commits` counts; 0 if unknown.
    pub head_identity: u64,
    /// The [`Storage::mount_id`] at which the sidecar was written.
    pub mount_id: Option<u64>,
    /// Names of segments under which there is something other than a file. No lines are appended
    /// there.
    pub taken: Vec<SegmentName>,
    /// Files in day directories that do not belong to the store.
    pub foreign: Vec<String>,
    pub index: Index,
    pub max_seq: u64,
    /// A summary of the lines that were removed.
    pub removals: RemovalSummary,
    /// The greatest `max_seq` ever read from the files.
    pub seen_seq: u64,
    /// The [`Header::commits`](crate::store::commit::head::Header::commits) that this state
    /// includes.
    pub commits: u64,
    /// The state may differ from the files. Rescan all segments before using it.
    pub is_stale: bool,
    /// When reading of the segments began, in nanoseconds since 1970.
    pub read_ns: i64,
    /// Number of bytes that were not read, since the sidecar covers them.
    pub covered: u64,
    /// Number of bytes that were read or written since the sidecar was last loaded.
    pub uncovered: u64,
    /// Number of bytes of the log that the base of the sidecar covers which the index was opened
    /// from.
    pub in_base: u64,
    /// Number of times that the state was discarded, for example because segments were replaced.
    pub generation: u64,
    /// The [`Head::moved`] that this state includes, once known.
    pub moved: Option<u64>,
    /// What stands for a segment that a saved index names and the store does not have.
    nowhere: Segment,
    /// Files that are about to be removed. Their lines are in another file already.
    obsolete: Vec<RelocatedFile>,
    pub damage: Vec<Damage>,
    /// Number of damaged places, listed or not.
    pub damage_counts: DamageCounts,
    /// Number of entries of [`State::damage`] by kind.
    damage_listed: [usize; Kind::ALL.len()],
    /// Files and directories that could not be read in the last rescan.
    pub unreadable: Vec<Damage>,
}

impl State {
    pub(in crate::store) fn new(hasher: Hasher) -> State {
        State {
            hasher,
            segments: Vec::new(),
            by_name: BTreeMap::new(),
            append_order: AppendOrder::default(),
            plain_days: BTreeMap::new(),
            covered_days: BTreeMap::new(),
            head_identity: 0,
            mount_id: None,
            taken: Vec::new(),
            foreign: Vec::new(),
            index: Index::new(),
            max_seq: 0,
            removals: RemovalSummary::default(),
            seen_seq: 0,
            commits: 0,
            is_stale: true,
            read_ns: now_ns(),
            covered: 0,
            uncovered: 0,
            in_base: 0,
            generation: 0,
            moved: None,
            nowhere: Segment::unknown(SegmentName {
                day: Day::LAST,
                kind: Kind::Events,
                number: u32::MAX,
            }),
            obsolete: Vec::new(),
            damage: Vec::new(),
            damage_counts: DamageCounts::default(),
            damage_listed: [0; Kind::ALL.len()],
            unreadable: Vec::new(),
        }
    }

    pub(super) fn hasher(&self) -> Hasher {
        self.hasher
    }

    /// Whether the state includes everything in the files. Otherwise nothing may be written.
    pub(in crate::store) fn is_sound(&self) -> bool {
        self.is_usable() && self.unreadable.is_empty()
    }

    /// Whether so much of the saved index is in memory that it should be dropped.
    fn is_large(&self) -> bool {
        self.index.loaded() > LOADED_BYTES_MAX
    }

    /// Whether the state includes this commit, the last one, and can be read as it is.
    pub(super) fn is_current(&self, commits: u64) -> bool {
        self.is_usable() && self.commits == commits && !self.is_large()
    }

    /// Drops what can be read again of the saved index, if that is much.
    pub(in crate::store) fn limit_memory(&mut self) {
        if self.is_large() {
            self.index.evict();
        }
    }

    /// Whether the state is as the files were when they were last looked at.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_stale && !self.index.is_broken()
    }

    /// The segment of a line.
    pub(in crate::store) fn segment_of(&self, loc: Loc) -> &Segment {
        let known = self.segments.get(loc.segment as usize);
        known.unwrap_or_else(|| {
            self.index.note_broken();
            &self.nowhere
        })
    }

    /// The existing segments. A removed one, or one that could not be created, has no identity.
    pub(in crate::store) fn present(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().filter(|segment| segment.identity != 0)
    }

    /// The existing segments in the order of their names, each with its index.
    pub(in crate::store) fn present_in_order(&self) -> impl Iterator<Item = (u32, &Segment)> {
        let all = self
            .by_name
            .values()
            .map(|id| (*id, &self.segments[*id as usize]));
        all.filter(|(_, segment)| segment.identity != 0)
    }

    /// The existing segments of a day and kind, in the order of their names.
    pub(super) fn of(&self, day: Day, kind: Kind) -> impl DoubleEndedIterator<Item = u32> {
        let name = |number| SegmentName { day, kind, number };
        let places = self.by_name.range(name(0)..=name(u32::MAX));
        let places = places.map(|(_, place)| *place);
        places.filter(|place| self.segments[*place as usize].identity != 0)
    }

    /// The segment to append lines of a day and kind to: the last existing one. It may be sealed.
    pub(in crate::store) fn active(&self, day: Day, kind: Kind) -> Option<u32> {
        self.of(day, kind).next_back()
    }

    /// Whether its first segments are these.
    pub(super) fn is_in_order_of(&self, names: &[SegmentName]) -> bool {
        let known = self.segments.iter().map(|known| &known.name);
        known.take(names.len()).eq(names)
    }

    /// The index of a segment. Adds the segment if it is unknown.
    pub(in crate::store) fn place(&mut self, name: SegmentName) -> u32 {
        *self.by_name.entry(name).or_insert_with(|| {
            self.segments.push(Segment::unknown(name));
            (self.segments.len() - 1) as u32
        })
    }

    /// Reads what other processes published in `HEAD`, at least up to this commit. Rescans all
    /// segments if `HEAD` does not say enough.
    pub(in crate::store) fn catch_up(
        &mut self,
        storage: &dyn Storage,
        head: &Head,
        commits: u64,
        is_locked: bool,
    ) -> Result<()> {
        if self.is_usable() {
            self.relocate(storage, head)
                .map_err(|e| head::unread(storage, e))?;
        }
        let news = if !self.is_usable() || commits < self.commits {
            None
        } else {
            head.changes_after(self.commits)
                .map_err(|e| head::unread(storage, e))?
        };
        let Some(news) = news else {
            return self.rescan(storage, Some(head), is_locked);
        };
        let bound = if is_locked { u64::MAX } else { news.last_seq };
        if self.follow(storage, &news.reaches, bound) {
            self.commits = commits;
            return Ok(());
        }
        self.rescan(storage, Some(head), is_locked)
    }

    /// Reads the lines appended up to these lengths, but none past `bound`. Returns `false` if the
    /// files do not match `HEAD`.
    fn follow(&mut self, storage: &dyn Storage, reaches: &[Reach], bound: u64) -> bool {
        let mut jobs = Vec::new();
        for Reach { segment: name, end } in reaches.iter().copied() {
            let segment = self.place(name);
            // From now on, it is known as any other segment of an open handle.
            self.segments[segment as usize].is_compared = true;
            let known = &self.segments[segment as usize];
            // Another program truncated the segment, or rewrote it in place.
            if known.end > end || !is_as_read(storage, known).unwrap_or(false) {
                return false;
            }
            if known.end == end {
                continue;
            }
            let identity = match known.identity {
                0 => storage.stat(&name.path()).map_or(0, |stat| stat.identity),
                known => known,
            };
            jobs.push(ScanJob {
                segment,
                name,
                identity,
                from: known.end,
                until: end,
            });
        }
        // If a segment is gone, the rescan finds it out.
        let Ok(mut gathered) = scan_parallel(storage, self.hasher, &jobs) else {
            return false;
        };
        // A segment that cannot be read ends before `until`, too.
        let as_noted = jobs
            .iter()
            .zip(&gathered)
            .all(|(job, read)| read.scanned.end == job.until && read.scanned.tail.is_none());
        if !as_noted {
            return false;
        }
        for job in &jobs {
            self.segments[job.segment as usize].identity = job.identity;
        }
        for read in &gathered {
            self.go_on(read);
        }
        self.rewind_past(bound, &mut gathered);
        let taken_in = self.take_in(gathered);
        if !taken_in {
            self.forget();
        }
        taken_in
    }

    /// Records how far a segment has been read.
    fn go_on(&mut self, read: &ScanResult) {
        let segment = &mut self.segments[read.segment as usize];
        self.uncovered += read.scanned.end.saturating_sub(segment.end);
        segment.go_on(read);
    }

    /// Adds the lines that were read to the index. Returns `false`, and adds nothing, if some of
    /// them belong before lines that are in the index already.
    fn take_in(&mut self, gathered: Vec<ScanResult>) -> bool {
        let runs = gathered.iter().flat_map(|read| &read.runs);
        let max_good = runs.map(Run::seq_max_good).max();
        let max_good = max_good.unwrap_or(0).max(self.max_seq);
        let bad: u64 = gathered.iter().map(|read| read.reports.len() as u64).sum();
        let ceiling = max_good.saturating_add(bad + self.damage_counts.total());
        let mut lines = Kind::ALL.map(|_| Vec::new());
        let (mut reports, mut grown) = (Vec::new(), Vec::new());
        for mut read in gathered {
            let segment = &mut self.segments[read.segment as usize];
            let name = segment.name;
            number(name.kind, &mut read.runs, segment.last_seq, ceiling);
            let last = read.runs.iter().map(Run::seq_max).max();
            segment.last_seq = segment.last_seq.max(last.unwrap_or(0));
            // A segment without new records keeps its place in the append order.
            let last = last.filter(|last| *last > 0);
            grown.extend(last.map(|last| (last, read.segment)));
            lines[name.kind as usize].append(&mut read.runs);
            reports.extend(
                read.reports
                    .into_iter()
                    .map(|report| (name.kind, report.in_segment(name))),
            );
        }
        let lines = lines.map(in_order);
        for (kind, (_, has_repeats)) in Kind::ALL.into_iter().zip(&lines) {
            if *has_repeats {
                let runs = &lines[kind as usize].0;
                reports.extend(self.repeats(runs).into_iter().map(|found| (kind, found)));
            }
        }
        let lines = lines.map(|(runs, _)| runs);
        let firsts = lines.iter().filter_map(|runs| runs.first()?.first());
        let first = firsts.map(|first| first.seq).min();
        if first.is_some_and(|first| first <= self.max_seq) {
            return false;
        }
        let lasts = lines.iter().filter_map(|runs| runs.last()?.last());
        let last = lasts.map(|last| last.seq).max();
        if self.max_seq == 0 {
            self.index = Index::build(lines);
        } else {
            // Apply in the order of `seq`: the state of a conversation depends on its messages,
            // until a line of its own replaces that.
            let of_kinds = Kind::ALL.into_iter().zip(&lines);
            let mut all: Vec<(Kind, &Entry)> = of_kinds
                .flat_map(|(kind, runs)| runs.iter().flatten().map(move |line| (kind, line)))
                .collect();
            all.sort_by_key(|(_, line)| line.order());
            for (kind, line) in all {
                self.index.apply(kind, line);
            }
        }
        self.max_seq = last.unwrap_or(self.max_seq);
        self.seen_seq = self.seen_seq.max(self.max_seq);
        self.note_grown(grown);
        for (kind, damage) in reports {
            self.damage_counts.add(damage.class);
            let listed = &mut self.damage_listed[kind as usize];
            if *listed < DAMAGE_LISTED_MAX {
                *listed += 1;
                self.damage.push(damage);
            }
        }
        true
    }

    /// Prevents sequence numbers up to `published` from being assigned again after their lines
    /// were removed. They leave a gap.
    pub(in crate::store) fn keep_numbers(&mut self, published: u64) {
        self.max_seq = self.max_seq.max(self.seen_seq.min(published));
    }

    /// Records the segments that grew, each with its last sequence number.
    pub(in crate::store) fn note_grown(&mut self, mut grown: Vec<(u64, u32)>) {
        grown.sort_unstable();
        for (_, segment) in grown {
            self.append_order.note(segment, self.segments.len());
        }
    }

    /// Discards everything that was read. Segments keep their indexes.
    pub(in crate::store) fn forget(&mut self) {
        self.is_stale = true;
        self.generation += 1;
        self.covered = 0;
        self.in_base = 0;
        self.uncovered = 0;
        self.read_ns = now_ns();
        for segment in &mut self.segments {
            *segment = Segment::unknown(segment.name);
        }
        self.append_order.clear();
        self.look_at_all();
        self.index = Index::new();
        self.max_seq = 0;
        self.damage.clear();
        self.damage_counts = DamageCounts::default();
        self.damage_listed = [0; Kind::ALL.len()];
    }
}

/// Clamps the sequence numbers of a segment's altered lines to those of their neighbours.
fn number(kind: Kind, runs: &mut [Run], before: u64, ceiling: u64) {
    if !runs.iter().any(Run::has_altered) {
        return;
    }
    let claims = runs.iter().flat_map(|run| &run.lines);
    let mut seqs: Vec<(u64, bool)> = claims.map(|line| (line.seq, line.is_altered)).collect();
    clamp_altered_seqs(&mut seqs, before, ceiling);
    let lines = runs.iter_mut().flat_map(|run| &mut run.lines);
    for (line, (seq, _)) in lines.zip(seqs) {
        line.set_seq(kind, seq);
    }
}

/// Sorts the lines of one kind and concatenates the runs. Also returns whether sequence numbers
/// may be repeated.
fn in_order(mut runs: Vec<Run>) -> (Vec<Vec<Entry>>, bool) {
    runs.retain(|run| !run.lines.is_empty());
    runs.sort_by_key(|run| run.lines.first().map(Entry::order));
    let edges =
        |run: &Run| [run.lines.first(), run.lines.last()].map(|edge| edge.map(Entry::order));
    let grows = |pair: &[Run]| {
        let [one, next] = pair else { return true };
        let last = one.lines.last().map(|line| line.seq);
        last < next.lines.first().map(|line| line.seq)
    };
    let may_repeat = !(runs.iter().all(Run::is_plain) && runs.windows(2).all(grows));
    let is_sorted = runs.iter().all(Run::is_sorted) && runs.iter().flat_map(edges).is_sorted();
    let mut runs: Vec<_> = runs.into_iter().map(|run| run.lines).collect();
    if !is_sorted {
        let mut lines: Vec<Entry> = runs.into_iter().flatten().collect();
        lines.sort_by_key(Entry::order);
        runs = vec![lines];
    }
    (runs, may_repeat)
}
