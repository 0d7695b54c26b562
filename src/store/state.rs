//! What a handle knows of its store: the segments, how far each was read, and the index.

use std::collections::BTreeMap;
use std::io;

use super::belief::believe;
use super::gather::{Gathered, Job, Run, gather};
use super::head::{Head, Header, Reach};
use super::sidecar::now_ns;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Entry, Hasher, Index, Loc};
use crate::record::{Day, Kind};
use crate::segment::{Damage, SegmentName, Tail, list};
use crate::storage::{Access, Storage, full_path, read_full};

/// More damage than this of one kind of record is counted, but not listed.
const DAMAGE_LISTED_MAX: usize = 10_000;
/// How often a look at all segments is repeated because someone wrote meanwhile.
const LOOKS_MAX: u32 = 3;

/// One segment, as far as this handle read it.
#[derive(Debug)]
pub(super) struct Segment {
    pub name: SegmentName,
    /// After the last LF that was read.
    pub end: u64,
    /// What followed it then.
    pub tail: Option<Tail>,
    pub identity: u64,
    /// The greatest sequence number in it.
    pub last_seq: u64,
}

impl Segment {
    /// The length that the file has if no one touched it since.
    pub(super) fn expected_len(&self) -> u64 {
        self.end + self.tail.map_or(0, |tail| tail.len)
    }
}

#[derive(Debug)]
pub(super) struct State {
    hasher: Hasher,
    /// Segments keep their places, so that locations stay good.
    pub segments: Vec<Segment>,
    pub by_name: BTreeMap<SegmentName, u32>,
    pub index: Index,
    pub max_seq: u64,
    /// [`Header::commits`] up to which this state is.
    pub commits: u64,
    /// The state may not be what the files say; look at all of them before using it.
    pub is_stale: bool,
    /// When the reading of the segments began, in nanoseconds since 1970.
    pub read_ns: i64,
    /// How many bytes of the segments were not read, as the sidecar covers them.
    pub covered: u64,
    /// How often all that was read was forgotten, as where segments were replaced.
    pub generation: u64,
    pub damage: Vec<Damage>,
    pub damage_count: u64,
    /// How much of [`State::damage`] is of each kind.
    damage_listed: [usize; Kind::ALL.len()],
}

impl State {
    pub(super) fn new(hasher: Hasher) -> State {
        State {
            hasher,
            segments: Vec::new(),
            by_name: BTreeMap::new(),
            index: Index::new(),
            max_seq: 0,
            commits: 0,
            is_stale: true,
            read_ns: now_ns(),
            covered: 0,
            generation: 0,
            damage: Vec::new(),
            damage_count: 0,
            damage_listed: [0; Kind::ALL.len()],
        }
    }

    /// The segment that takes new lines of a day and kind: the last one that is there.
    pub(super) fn active(&self, day: Day, kind: Kind) -> Option<u32> {
        let name = |number| SegmentName { day, kind, number };
        let numbered = self
            .by_name
            .range(name(0)..=name(u32::MAX))
            .rev()
            .map(|(_, id)| *id);
        numbered
            .into_iter()
            .find(|id| self.segments[*id as usize].identity != 0)
    }

    /// The place of a segment, which is new if it was not known.
    pub(super) fn place(&mut self, name: SegmentName) -> u32 {
        *self.by_name.entry(name).or_insert_with(|| {
            self.segments.push(Segment {
                name,
                end: 0,
                tail: None,
                identity: 0,
                last_seq: 0,
            });
            (self.segments.len() - 1) as u32
        })
    }

    /// Takes in what other processes noted in `HEAD` up to the commit of this number, at the
    /// least; looks at all segments where that is not enough.
    pub(super) fn catch_up(
        &mut self,
        storage: &dyn Storage,
        head: &Head,
        commits: u64,
        is_locked: bool,
    ) -> Result<()> {
        let news = if self.is_stale || commits < self.commits {
            None
        } else {
            head.news(self.commits)
                .map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))?
        };
        let Some(news) = news else {
            return self.look_at_all(storage, Some(head), is_locked);
        };
        let bound = if is_locked { u64::MAX } else { news.last_seq };
        if self.follow(storage, &news.reaches, bound) {
            self.commits = commits;
            return Ok(());
        }
        self.look_at_all(storage, Some(head), is_locked)
    }

    /// Reads what was added up to there, but no lines past `bound`; `false` if the segments do
    /// not bear it out.
    fn follow(&mut self, storage: &dyn Storage, reaches: &[Reach], bound: u64) -> bool {
        let mut jobs = Vec::new();
        for Reach { segment: name, end } in reaches.iter().copied() {
            let segment = self.place(name);
            let known = &self.segments[segment as usize];
            if known.end < end {
                jobs.push(Job {
                    segment,
                    name,
                    from: known.end,
                    until: end,
                });
            }
        }
        // The segment may be gone by now; then the look at all of them says what is.
        let Ok(mut gathered) = gather(storage, self.hasher, &jobs) else {
            return false;
        };
        let as_noted = jobs
            .iter()
            .zip(&gathered)
            .all(|(job, read)| read.scanned.end == job.until && read.scanned.tail.is_none());
        if !as_noted {
            return false;
        }
        for job in &jobs {
            if self.segments[job.segment as usize].identity == 0 {
                let path = job.name.path();
                let Ok(stat) = storage.stat(&path) else {
                    return false;
                };
                self.segments[job.segment as usize].identity = stat.identity;
            }
        }
        for read in &gathered {
            let segment = &mut self.segments[read.segment as usize];
            segment.end = read.scanned.end;
            segment.tail = read.scanned.tail;
        }
        self.rewind_past(bound, &mut gathered);
        let taken_in = self.take_in(gathered);
        if !taken_in {
            self.forget();
        }
        taken_in
    }

    /// Compares all segments with what is known of them and takes in what changed. Without the
    /// lock, lines that were acknowledged only after the look began may be left for the next one.
    pub(super) fn look_at_all(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
    ) -> Result<()> {
        let looked = self.try_look_at_all(storage, head, is_locked);
        if looked.is_err() {
            // Some of it may have been read and not taken in.
            self.forget();
        }
        looked
    }

    fn try_look_at_all(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
    ) -> Result<()> {
        let header = || -> Result<Option<Header>> {
            let read = head.map_or(Ok(None), Head::header);
            read.map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))
        };
        self.is_stale = true;
        let mut gathered = Vec::new();
        let mut looks = 0;
        let (before, bound) = loop {
            looks += 1;
            let before = header()?;
            self.look_until_whole(storage, &mut gathered)?;
            if is_locked || header()? == before {
                break (before, u64::MAX);
            }
            if looks == LOOKS_MAX {
                break (before, before.map_or(u64::MAX, |header| header.last_seq));
            }
        };
        self.rewind_past(bound, &mut gathered);
        if !self.take_in(gathered) {
            // Lines came that belong before known ones: the index must be built in order.
            self.forget();
            let mut gathered = Vec::new();
            self.look_until_whole(storage, &mut gathered)?;
            self.rewind_past(bound, &mut gathered);
            self.take_in(gathered);
        }
        self.commits = before.map_or(self.commits, |header| header.commits);
        self.is_stale = false;
        Ok(())
    }

    /// Reads what is new in any segment, and everything anew if something known was taken away
    /// or rewritten.
    fn look_until_whole(
        &mut self,
        storage: &dyn Storage,
        gathered: &mut Vec<Gathered>,
    ) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            if self.look(storage, gathered)? {
                return Ok(());
            }
            self.forget();
            gathered.clear();
        }
        let message =
            "segments are taken away or rewritten while they are read: let that end first";
        Err(Error::new(ErrorKind::Damaged, message).with_path(storage.root()))
    }

    /// Reads what is new in any segment; `false` if a known part of one is no longer there.
    fn look(&mut self, storage: &dyn Storage, gathered: &mut Vec<Gathered>) -> Result<bool> {
        let listing = list(storage)?;
        let mut jobs = Vec::new();
        let mut present = 0;
        for name in listing.segments {
            let path = name.path();
            let stat = match storage.stat(&path) {
                Ok(stat) => stat,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => {
                    return Err(Error::io(
                        "look at the segment",
                        &full_path(storage, &path),
                        e,
                    ));
                }
            };
            let segment = self.place(name);
            let known = &mut self.segments[segment as usize];
            let is_known = known.identity != 0;
            if is_known && (known.identity != stat.identity || stat.len < known.end) {
                return Ok(false);
            }
            present += 1;
            known.identity = stat.identity;
            if stat.len != known.expected_len() || known.tail.is_some() {
                if known.end > 0 && !ends_line(storage, &path, known.end)? {
                    return Ok(false);
                }
                let known = &self.segments[segment as usize];
                jobs.push(Job {
                    segment,
                    name,
                    from: known.end,
                    until: stat.len,
                });
            }
        }
        let known = self
            .segments
            .iter()
            .filter(|segment| segment.identity != 0)
            .count();
        if present < known {
            return Ok(false);
        }
        for read in gather(storage, self.hasher, &jobs)? {
            let segment = &mut self.segments[read.segment as usize];
            segment.end = read.scanned.end;
            segment.tail = read.scanned.tail;
            gathered.push(read);
        }
        Ok(true)
    }

    /// Leaves lines past `bound`, written while the look went on, for the next look. The segments
    /// are known to reach as far as they were read.
    fn rewind_past(&mut self, bound: u64, gathered: &mut [Gathered]) {
        if bound == u64::MAX {
            return;
        }
        for read in gathered {
            let segment = &mut self.segments[read.segment as usize];
            let later = read.runs.iter().filter(|run| run.seq_max() > bound);
            let later = later.flat_map(|run| &run.lines);
            let later = later.filter(|line| line.seq > bound);
            let Some(first) = later.map(|line| line.loc.offset).min() else {
                continue;
            };
            segment.end = segment.end.min(u64::from(first));
            segment.tail = None;
            read.scanned.end = segment.end;
            read.scanned.tail = None;
            for run in &mut read.runs {
                run.lines.retain(|line| line.loc.offset < first);
            }
            read.reports
                .retain(|report| report.offset < u64::from(first));
        }
    }

    /// Takes what was read into the index; `false`, and nothing taken in, if some of it belongs
    /// before lines that are in it already.
    fn take_in(&mut self, gathered: Vec<Gathered>) -> bool {
        let runs = gathered.iter().flat_map(|read| &read.runs);
        let max_good = runs.map(Run::seq_max_good).max();
        let max_good = max_good.unwrap_or(0).max(self.max_seq);
        let bad: u64 = gathered.iter().map(|read| read.reports.len() as u64).sum();
        let ceiling = max_good.saturating_add(bad + self.damage_count);
        let mut lines = Kind::ALL.map(|_| Vec::new());
        let mut reports = Vec::new();
        for mut read in gathered {
            let segment = &mut self.segments[read.segment as usize];
            segment.end = read.scanned.end;
            segment.tail = read.scanned.tail;
            let name = segment.name;
            number(name.kind, &mut read.runs, segment.last_seq, ceiling);
            let last = read.runs.iter().map(Run::seq_max).max();
            segment.last_seq = segment.last_seq.max(last.unwrap_or(0));
            lines[name.kind as usize].append(&mut read.runs);
            reports.extend(
                read.reports
                    .into_iter()
                    .map(|report| (name.kind, report.in_file(name))),
            );
        }
        let lines = lines.map(in_order);
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
            for (kind, runs) in Kind::ALL.into_iter().zip(&lines) {
                for line in runs.iter().flatten() {
                    self.index.apply(kind, line);
                }
            }
        }
        self.max_seq = last.unwrap_or(self.max_seq);
        self.damage_count += reports.len() as u64;
        for (kind, damage) in reports {
            let listed = &mut self.damage_listed[kind as usize];
            if *listed < DAMAGE_LISTED_MAX {
                *listed += 1;
                self.damage.push(damage);
            }
        }
        true
    }

    /// Whether the line at a place was found to be other than decklog wrote it.
    pub(super) fn knows_damage(&self, loc: Loc) -> bool {
        let name = self.segments[loc.segment as usize].name;
        let (path, offset) = (name.path(), u64::from(loc.offset));
        let is_there = |damage: &Damage| {
            let range = damage.offset..=damage.offset + damage.length;
            damage.file == path && range.contains(&offset)
        };
        // Past the limit, it may be one that is not listed.
        self.damage_listed[name.kind as usize] == DAMAGE_LISTED_MAX
            || self.damage.iter().any(is_there)
    }

    /// Forgets all that was read, but not the segments' places.
    pub(super) fn forget(&mut self) {
        self.is_stale = true;
        self.generation += 1;
        self.covered = 0;
        self.read_ns = now_ns();
        for segment in &mut self.segments {
            *segment = Segment {
                name: segment.name,
                end: 0,
                tail: None,
                identity: 0,
                last_seq: 0,
            };
        }
        self.index = Index::new();
        self.max_seq = 0;
        self.damage.clear();
        self.damage_count = 0;
        self.damage_listed = [0; Kind::ALL.len()];
    }
}

/// Gives a segment's rewritten lines the numbers that can be believed.
fn number(kind: Kind, runs: &mut [Run], before: u64, ceiling: u64) {
    if !runs.iter().any(Run::has_altered) {
        return;
    }
    let claims = runs.iter().flat_map(|run| &run.lines);
    let mut seqs: Vec<(u64, bool)> = claims.map(|line| (line.seq, line.is_altered)).collect();
    believe(&mut seqs, before, ceiling);
    let lines = runs.iter_mut().flat_map(|run| &mut run.lines);
    for (line, (seq, _)) in lines.zip(seqs) {
        line.set_seq(kind, seq);
    }
}

/// The lines of one kind in order, those of all runs after one another.
fn in_order(mut runs: Vec<Run>) -> Vec<Vec<Entry>> {
    runs.retain(|run| !run.lines.is_empty());
    runs.sort_by_key(|run| run.lines.first().map(Entry::order));
    let edges =
        |run: &Run| [run.lines.first(), run.lines.last()].map(|edge| edge.map(Entry::order));
    let is_sorted = runs.iter().all(Run::is_sorted) && runs.iter().flat_map(edges).is_sorted();
    let mut runs: Vec<_> = runs.into_iter().map(|run| run.lines).collect();
    if !is_sorted {
        let mut lines: Vec<Entry> = runs.into_iter().flatten().collect();
        lines.sort_by_key(Entry::order);
        runs = vec![lines];
    }
    runs
}

/// Whether an LF still stands where a line ended: if not, someone rewrote the file in place.
fn ends_line(storage: &dyn Storage, path: &str, end: u64) -> Result<bool> {
    let mut last = [0];
    let read = storage
        .open(path, Access::Read)
        .and_then(|file| read_full(&*file, &mut last, end - 1))
        .map_err(|e| Error::io("read the segment", &full_path(storage, path), e))?;
    Ok(read == 1 && last == *b"\n")
}
