//! What a handle knows of its store: the segments, how far each was read, and the index.

use std::collections::BTreeMap;
use std::io;

use super::belief::believe;
use super::gather::{Gathered, Job, LineEnd, Run, gather};
use super::growth::Growth;
use super::head::{Head, Header, Reach, SEQ_UNKNOWN};
use super::moves::{self, MovedFile, Moves};
use super::removals::{self, Remains};
use super::sidecar::now_ns;
use crate::error::{Error, ErrorKind, Result, is_of_what_is_read};
use crate::index::{Entry, Hasher, Index, Loc};
use crate::record::{Day, Kind};
use crate::segment::{Damage, DamageClass, DamageCounts, Report, SegmentName, Tail, list};
use crate::storage::{Access, FileTimes, Storage, full_path, is_gone, read_full};

/// More damage than this of one kind of record is counted, but not listed.
const DAMAGE_LISTED_MAX: usize = 10_000;
/// How often a look at all segments is repeated because someone wrote meanwhile.
const LOOKS_MAX: u32 = 3;
/// The same where `HEAD` does not say which lines are whole.
const LOOKS_UNKNOWN_MAX: u32 = 30;

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
    /// Its times before it was read, where all that is known of it was read then.
    pub read_times: Option<FileTimes>,
    /// How the line before `end` ends, where that is known.
    pub last: Option<LineEnd>,
    /// It is read-only, so that no line goes there any more.
    pub is_sealed: bool,
}

impl Segment {
    /// One of which nothing was read.
    fn unknown(name: SegmentName) -> Segment {
        Segment {
            name,
            end: 0,
            tail: None,
            identity: 0,
            last_seq: 0,
            read_times: None,
            last: None,
            is_sealed: false,
        }
    }

    /// Notes how far it was read by now.
    fn go_on(&mut self, read: &Gathered) {
        if self.end != read.scanned.end {
            self.last = read.last;
        }
        self.end = read.scanned.end;
        self.tail = read.scanned.tail;
    }

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
    /// Every segment that holds lines, by when it grew.
    pub growth: Growth,
    /// Names of segments that are not a file's: no line goes there.
    pub taken: Vec<SegmentName>,
    /// Files in day directories that are none of the store's.
    pub foreign: Vec<String>,
    pub index: Index,
    pub max_seq: u64,
    /// What is kept of lines that were removed.
    pub remains: Remains,
    /// The greatest that it ever was with lines that are in the files.
    pub seen_seq: u64,
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
    /// [`Head::moved`] up to which this state is, once it is known.
    pub moved: Option<u64>,
    /// Files whose lines stand in another one by now, and that are about to be removed.
    obsolete: Vec<MovedFile>,
    pub damage: Vec<Damage>,
    /// How much there is, listed or not.
    pub damage_counts: DamageCounts,
    /// How much of [`State::damage`] is of each kind.
    damage_listed: [usize; Kind::ALL.len()],
    /// Which files and directories could not be read at the last look at all of them.
    pub unreadable: Vec<Damage>,
}

impl State {
    pub(super) fn new(hasher: Hasher) -> State {
        State {
            hasher,
            segments: Vec::new(),
            by_name: BTreeMap::new(),
            growth: Growth::default(),
            taken: Vec::new(),
            foreign: Vec::new(),
            index: Index::new(),
            max_seq: 0,
            remains: Remains::default(),
            seen_seq: 0,
            commits: 0,
            is_stale: true,
            read_ns: now_ns(),
            covered: 0,
            generation: 0,
            moved: None,
            obsolete: Vec::new(),
            damage: Vec::new(),
            damage_counts: DamageCounts::default(),
            damage_listed: [0; Kind::ALL.len()],
            unreadable: Vec::new(),
        }
    }

    /// Whether this is all that the files say, so that it can be written to.
    pub(super) fn is_sound(&self) -> bool {
        !self.is_stale && self.unreadable.is_empty()
    }

    /// The segment that takes new lines of a day and kind, unless it is sealed: the last one that
    /// is there.
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
            self.segments.push(Segment::unknown(name));
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
        if !self.is_stale {
            self.move_over(storage, head)
                .map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))?;
        }
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
            // Someone cut it, and others appended.
            if known.end > end || !is_as_read(storage, known).unwrap_or(false) {
                return false;
            }
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
        // Nor does one that cannot be read reach that far.
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
            self.segments[read.segment as usize].go_on(read);
        }
        self.rewind_past(bound, &mut gathered);
        let taken_in = self.take_in(gathered);
        if !taken_in {
            self.forget();
        }
        taken_in
    }

    /// Notes, before the segments are read from their starts, what they do not tell: how often
    /// some were rewritten by then, or more often; and which numbers were given.
    fn begin_anew(&mut self, storage: &dyn Storage, head: Option<&Head>) -> Result<()> {
        let io = |name, e| Error::io("read", &full_path(storage, name), e);
        let moved = head.map_or(Ok(0), Head::moved);
        self.moved = Some(moved.map_err(|e| io("HEAD", e))?);
        self.remains = removals::read(storage).map_err(|e| io(removals::NAME, e))?;
        Ok(())
    }

    /// Takes in which segments were rewritten since. Where that cannot be told, the state is stale.
    fn move_over(&mut self, storage: &dyn Storage, head: &Head) -> io::Result<()> {
        let moved = head.moved()?;
        let known = self.moved.unwrap_or(moved);
        let missed = moved
            .checked_sub(known)
            .filter(|missed| *missed <= moves::KEPT);
        let mut numbers = known + 1..=moved;
        let can_tell = missed.is_some()
            && numbers.all(|number| {
                Moves::read(storage, number).is_some_and(|moves| self.take_over(storage, &moves))
            });
        self.moved = Some(moved);
        self.is_stale |= !can_tell;
        Ok(())
    }

    /// Takes in that segments were rewritten; `false` if they are not those that this knows.
    fn take_over(&mut self, storage: &dyn Storage, moves: &Moves) -> bool {
        let known = |file: &MovedFile| {
            let place = *self.by_name.get(&file.name)?;
            let segment = &self.segments[place as usize];
            (segment.identity == file.identity).then_some((place, segment))
        };
        let is_new = |file: &MovedFile| {
            let to = moves.to.map(|new| new.file.identity);
            to == Some(file.identity)
        };
        let has_new = moves.to.is_none_or(|new| known(&new.file).is_some());
        if has_new
            && !moves
                .from
                .iter()
                .any(|file| known(file).is_some() && !is_new(file))
        {
            // It was rewritten before this state was read.
            return true;
        }
        let places = moves.from.iter().map(|file| {
            let (place, segment) = known(file)?;
            (segment.end == file.end && segment.tail.is_none()).then_some(place)
        });
        let Some(places) = places.collect::<Option<Vec<u32>>>() else {
            return false;
        };
        let Some(kind) = moves.from.first().map(|file| file.name.kind) else {
            return true;
        };
        let to = match &moves.to {
            Some(new) => self.place(new.file.name),
            None => u32::MAX,
        };
        let Ok(remains) = removals::read(storage) else {
            return false;
        };
        self.remains = remains;
        let taken_over = self
            .index
            .relocate(kind, moves.map(&places, to), &moves.ended)
            && self.move_damage(moves, &places, to);
        if !taken_over {
            self.forget();
            return false;
        }
        for place in places {
            let segment = &mut self.segments[place as usize];
            *segment = Segment::unknown(segment.name);
        }
        if let Some(new) = &moves.to {
            self.segments[to as usize] = Segment {
                end: new.file.end,
                identity: new.file.identity,
                last_seq: new.last_seq,
                last: new.last,
                is_sealed: true,
                ..Segment::unknown(new.file.name)
            };
        }
        let others = moves.from.iter().filter(|file| !is_new(file));
        self.obsolete.extend(others);
        let grown = self.segments.iter().zip(0..);
        let grown = grown.filter(|(segment, _)| segment.last_seq > 0);
        let grown = grown.map(|(segment, place)| (segment.last_seq, place));
        let grown = grown.collect();
        self.growth.clear();
        self.note_grown(grown);
        self.covered = 0;
        true
    }

    /// Has damage be told where it stands now; `false` if some of it is gone.
    fn move_damage(&mut self, moves: &Moves, places: &[u32], to: u32) -> bool {
        let to = moves.map(places, to);
        let paths: Vec<String> = moves.from.iter().map(|file| file.name.path()).collect();
        self.damage.iter_mut().all(|damage| {
            let Some(file) = paths.iter().position(|path| *path == damage.file) else {
                return true;
            };
            let now = to(Loc {
                segment: places[file],
                offset: damage.offset as u32,
            });
            damage.offset = now.offset.into();
            if let Some(new) = &moves.to {
                damage.file = new.file.name.path();
            }
            now.is_some()
        })
    }

    /// Compares all segments with what is known of them and takes in what changed. Without the
    /// lock, lines that were acknowledged only after the look began may be left for the next one,
    /// and what cannot be read is told and left out; under it that is an error, as numbers and
    /// keys might be given twice.
    pub(super) fn look_at_all(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
    ) -> Result<()> {
        let mut gathered = Vec::new();
        let looked = self.try_look_at_all(storage, head, is_locked, &mut gathered);
        if looked.is_err() && !gathered.is_empty() {
            // That was read and not taken in.
            self.forget();
        }
        looked
    }

    fn try_look_at_all(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
        gathered: &mut Vec<Gathered>,
    ) -> Result<()> {
        let header = || -> Result<Option<Header>> {
            let read = head.map_or(Ok(None), Head::header);
            read.map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))
        };
        self.is_stale = true;
        if self.max_seq == 0 {
            self.begin_anew(storage, head)?;
        } else if let Some(head) = head {
            self.move_over(storage, head)
                .map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))?;
        }
        let mut looks = 0;
        let (before, bound) = loop {
            looks += 1;
            let before = header()?;
            let is_new = self.look_until_whole(storage, head, is_locked, gathered)?;
            // Who writes right now notes it only once all is written: what was read last may be
            // there without what was read first, unless nothing came since the look before.
            let is_still = || {
                let is_free = before.is_none_or(|header| header.holder == 0);
                is_free || looks > 1 && !is_new
            };
            if is_locked || is_still() && header()? == before {
                break (before, u64::MAX);
            }
            // Not known until the first commit after a crash is whole, which does not take long.
            let published = before.map_or(SEQ_UNKNOWN, |header| header.last_seq);
            if looks >= LOOKS_MAX && published != SEQ_UNKNOWN || looks == LOOKS_UNKNOWN_MAX {
                break (before, published);
            }
        };
        self.rewind_past(bound, gathered);
        if !self.take_in(std::mem::take(gathered)) {
            // Lines came that belong before known ones: the index must be built in order.
            self.forget();
            self.begin_anew(storage, head)?;
            self.look_until_whole(storage, head, is_locked, gathered)?;
            self.rewind_past(bound, gathered);
            self.take_in(std::mem::take(gathered));
        }
        self.max_seq = self.max_seq.max(self.remains.marks.seq);
        self.remains.marks.raise(&mut self.index);
        self.commits = before.map_or(self.commits, |header| header.commits);
        self.is_stale = false;
        Ok(())
    }

    /// Reads what is new in any segment, and everything anew if something known was taken away
    /// or rewritten. Tells whether lines came.
    fn look_until_whole(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
        gathered: &mut Vec<Gathered>,
    ) -> Result<bool> {
        for _ in 0..LOOKS_MAX {
            let known = gathered.len();
            if self.look(storage, head, is_locked, gathered)? {
                let mut runs = gathered[known..].iter().flat_map(|read| &read.runs);
                return Ok(runs.any(|run| !run.lines.is_empty()));
            }
            // Rewritten a moment ago, which may not be published yet.
            let next = self.moved.map_or(0, |moved| moved + 1);
            if gathered.is_empty()
                && Moves::read(storage, next).is_some_and(|moves| self.take_over(storage, &moves))
            {
                self.moved = Some(next);
                continue;
            }
            self.forget();
            self.begin_anew(storage, head)?;
            gathered.clear();
        }
        let message =
            "segments are taken away or rewritten while they are read: let that end first";
        Err(Error::new(ErrorKind::Damaged, message).with_path(storage.root()))
    }

    /// Reads what is new in any segment; `false` if a known part of one is no longer there.
    fn look(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
        gathered: &mut Vec<Gathered>,
    ) -> Result<bool> {
        // Where others appended, a segment as long as before may be another one.
        let appended_to = head.map_or(Ok(Vec::new()), |head| head.appended_to_after(self.commits));
        let appended_to =
            appended_to.map_err(|e| Error::io("read HEAD", &full_path(storage, "HEAD"), e))?;
        let listing = list(storage)?;
        self.obsolete
            .retain(|file| listing.segments.binary_search(&file.name).is_ok());
        self.taken = listing.taken;
        self.foreign = listing.foreign;
        let mut unreadable = Vec::new();
        let mut leave_out = |path: String, e: io::Error| {
            if is_locked {
                let doing = "write while a part of the log cannot be read (make it readable, or move it out of the store)";
                return Err(Error::io(doing, &full_path(storage, &path), e));
            }
            unreadable.push(Damage::unreadable(path, &e));
            Ok(())
        };
        for (dir, e) in listing.unreadable {
            leave_out(dir, e)?;
        }
        let mut jobs = Vec::new();
        let mut present = 0;
        for name in listing.segments {
            let path = name.path();
            let stat = match storage.stat(&path) {
                Ok(stat) => stat,
                Err(e) if is_gone(&e) => continue,
                Err(e) if is_of_what_is_read(&e) => {
                    leave_out(path, e)?;
                    continue;
                }
                Err(e) => {
                    return Err(Error::io(
                        "look at the segment",
                        &full_path(storage, &path),
                        e,
                    ));
                }
            };
            if self.is_obsolete(name, stat.identity) {
                continue;
            }
            let segment = self.place(name);
            let known = &mut self.segments[segment as usize];
            let is_known = known.identity != 0;
            if is_known && (known.identity != stat.identity || stat.len < known.end) {
                return Ok(false);
            }
            present += 1;
            known.identity = stat.identity;
            known.is_sealed = stat.is_read_only;
            let has_changed = stat.len != known.expected_len() || known.tail.is_some();
            let may_differ = known.last.is_some() && appended_to.contains(&name);
            if has_changed || may_differ {
                match is_as_read(storage, known) {
                    Ok(true) => {}
                    Ok(false) => return Ok(false),
                    Err(e) if is_of_what_is_read(&e) => {
                        leave_out(path, e)?;
                        continue;
                    }
                    Err(e) => {
                        let path = full_path(storage, &path);
                        return Err(Error::io("read the segment", &path, e));
                    }
                }
            }
            if has_changed {
                let known = &mut self.segments[segment as usize];
                // All of it is read now, or what was read may have changed before this look.
                known.read_times = if known.end == 0 {
                    storage.times(&path).ok().flatten()
                } else {
                    None
                };
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
        let mut found = gather(storage, self.hasher, &jobs)?;
        for (job, read) in jobs.iter().zip(&mut found) {
            if let Some(e) = read.failed.take() {
                leave_out(job.name.path(), e)?;
            }
        }
        for read in found {
            self.segments[read.segment as usize].go_on(&read);
            gathered.push(read);
        }
        self.unreadable = unreadable;
        Ok(true)
    }

    /// Whether a file's lines stand in another one.
    fn is_obsolete(&self, name: SegmentName, identity: u64) -> bool {
        let mut obsolete = self.obsolete.iter();
        obsolete.any(|file| (file.name, file.identity) == (name, identity))
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
            if let Some(first) = later.map(|line| u64::from(line.loc.offset)).min()
                && first < segment.end
            {
                segment.end = first;
                segment.tail = None;
                segment.last = None;
            }
            // Also what a later look read of it.
            let end = segment.end;
            if read.scanned.end <= end {
                continue;
            }
            for run in &mut read.runs {
                run.lines.retain(|line| u64::from(line.loc.offset) < end);
            }
            read.reports.retain(|report| report.offset < end);
        }
    }

    /// Takes what was read into the index; `false`, and nothing taken in, if some of it belongs
    /// before lines that are in it already.
    fn take_in(&mut self, gathered: Vec<Gathered>) -> bool {
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
            // One that only got what is no line has nothing new to tell.
            let last = last.filter(|last| *last > 0);
            grown.extend(last.map(|last| (last, read.segment)));
            lines[name.kind as usize].append(&mut read.runs);
            reports.extend(
                read.reports
                    .into_iter()
                    .map(|report| (name.kind, report.in_file(name))),
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
            for (kind, runs) in Kind::ALL.into_iter().zip(&lines) {
                for line in runs.iter().flatten() {
                    self.index.apply(kind, line);
                }
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

    /// Has numbers that were given up to `published` not given again, whoever took their lines
    /// away: they leave a gap.
    pub(super) fn keep_numbers(&mut self, published: u64) {
        self.max_seq = self.max_seq.max(self.seen_seq.min(published));
    }

    /// Notes segments that grew, each with its last sequence number.
    pub(super) fn note_grown(&mut self, mut grown: Vec<(u64, u32)>) {
        grown.sort_unstable();
        for (_, segment) in grown {
            self.growth.note(segment, self.segments.len());
        }
    }

    /// Segments with lines, in order, that have the numbers of lines before them.
    fn repeats(&self, runs: &[Vec<Entry>]) -> Vec<Damage> {
        let mut found: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut last: Option<&Entry> = None;
        for line in runs.iter().flatten().filter(|line| !line.is_altered) {
            if last.is_some_and(|last| last.seq == line.seq) {
                let offset = u64::from(line.loc.offset);
                let (first, count) = found.entry(line.loc.segment).or_insert((offset, 0));
                *first = offset.min(*first);
                *count += 1;
            }
            last = Some(line);
        }
        let report = |(segment, (first, count)): (u32, (u64, u64))| {
            let Segment { name, end, .. } = self.segments[segment as usize];
            Report::repeated(count, first, end).in_file(name)
        };
        found.into_iter().map(report).collect()
    }

    /// Whether the line at a place was found to be other than decklog wrote it.
    pub(super) fn knows_damage(&self, loc: Loc) -> bool {
        let name = self.segments[loc.segment as usize].name;
        let (path, offset) = (name.path(), u64::from(loc.offset));
        let is_there = |damage: &Damage| {
            let range = damage.offset..=damage.offset + damage.length;
            // As it was written, but not where or how often it was.
            let is_whole = [DamageClass::Repeated, DamageClass::Misplaced].contains(&damage.class);
            damage.file == path && !is_whole && range.contains(&offset)
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
            *segment = Segment::unknown(segment.name);
        }
        self.growth.clear();
        self.index = Index::new();
        self.max_seq = 0;
        self.damage.clear();
        self.damage_counts = DamageCounts::default();
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

/// The lines of one kind in order, those of all runs after one another; and whether two may have
/// one number.
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

/// Whether the last line that was read still stands where it ended: if not, someone rewrote the
/// file in place.
fn is_as_read(storage: &dyn Storage, segment: &Segment) -> io::Result<bool> {
    if segment.end == 0 {
        return Ok(true);
    }
    let path = segment.name.path();
    let mut expected = segment.last.map_or(Vec::new(), |last| last.to_vec());
    expected.push(b'\n');
    let Some(start) = segment.end.checked_sub(expected.len() as u64) else {
        return Ok(false);
    };
    let mut found = vec![0; expected.len()];
    let read = storage
        .open(&path, Access::Read)
        .and_then(|file| read_full(&*file, &mut found, start));
    match read {
        Ok(read) => Ok(read == found.len() && found == expected),
        // Taken away a moment ago.
        Err(e) if is_gone(&e) => Ok(false),
        Err(e) => Err(e),
    }
}
