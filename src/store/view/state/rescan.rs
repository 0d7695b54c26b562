//! Rescans all segments for changes by any program, and for new files.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::{Segment, State};
use crate::error::{Error, ErrorKind, Result, is_of_what_is_read};
use crate::record::{Day, Kind};
use crate::segment::{Damage, SegmentName, list_changed};
use crate::storage::{Access, FileTimes, Storage, io_error, is_gone, read_full};
use crate::store::commit::head::{self, Head, Header, SEQ_UNKNOWN};
use crate::store::view::parallel_scan::{ScanJob, ScanResult, scan_parallel};
use crate::store::view::sidecar::{Covered, now_ns};

/// Maximum number of scans when other processes write meanwhile.
const LOOKS_MAX: u32 = 3;
/// Maximum number of scans when segments are rewritten meanwhile.
const LOOKS_REWRITTEN_MAX: u32 = 30;
/// Maximum number of scans when `HEAD` does not say which lines are acknowledged.
const LOOKS_UNKNOWN_MAX: u32 = 30;

/// In a store with more segments, those that come before are not looked at one by one if the
/// sidecar covers them, their directories have not changed, and `HEAD` tells what was appended.
const LOOKED_AT_MAX: usize = 64;

/// The result of one scan.
enum Looked {
    Whole,
    /// Segments were joined meanwhile, and lines may have been missed.
    InBetween,
    /// A known part of a segment no longer exists.
    Gone,
}

/// What is scanned.
#[derive(Clone, Copy)]
struct Files<'a> {
    storage: &'a dyn Storage,
    head: Option<&'a Head>,
    is_locked: bool,
}

/// One scan of all segments.
struct Look<'a> {
    files: Files<'a>,
    /// Segments with appends by other processes. They must be checked even if the length is
    /// unchanged.
    appended_to: Vec<SegmentName>,
    /// Whether each segment exists, by its index.
    present: Vec<bool>,
    /// The ranges to read.
    jobs: Vec<ScanJob>,
    /// Days and kinds of segments that were removed after they were listed.
    vanished: BTreeSet<(Day, Kind)>,
    unreadable: Vec<Damage>,
}

impl Look<'_> {
    /// Records a file that cannot be read. Under the lock, this is an error.
    fn leave_out(&mut self, path: String, e: io::Error) -> Result<()> {
        if self.files.is_locked {
            let doing = "write while a part of the log cannot be read (make it readable, or move it out of the store)";
            return Err(io_error(self.files.storage, doing, &path, e));
        }
        self.unreadable.push(Damage::unreadable(path, &e));
        Ok(())
    }
}

impl State {
    /// Compares all segments with the state and reads the changes. Without the lock, lines that
    /// were acknowledged after the scan began may be left to the next one, and unreadable files
    /// are recorded and skipped. Under the lock they are an error, since sequence numbers and keys
    /// could be assigned twice.
    pub(in crate::store) fn rescan(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
    ) -> Result<()> {
        let files = Files {
            storage,
            head,
            is_locked,
        };
        let mut gathered = Vec::new();
        let looked = self.try_rescan(files, &mut gathered);
        if looked.is_err() && !gathered.is_empty() {
            // Some lines were read but not added to the index.
            self.forget();
        }
        looked
    }

    fn try_rescan(&mut self, files: Files<'_>, gathered: &mut Vec<ScanResult>) -> Result<()> {
        let Files { storage, head, .. } = files;
        let header = || -> Result<Option<Header>> {
            let read = head.map_or(Ok(None), Head::header);
            read.map_err(|e| head::unread(storage, e))
        };
        self.is_stale = true;
        if self.index.is_broken() {
            self.forget();
        }
        // A state from a sidecar does not know yet what was removed.
        if self.max_seq == 0 || self.moved.is_none() {
            self.begin_anew(storage, head)?;
        } else if let Some(head) = head {
            self.relocate(storage, head)
                .map_err(|e| head::unread(storage, e))?;
        }
        let mut looks = 0;
        let (before, bound) = loop {
            looks += 1;
            let before = header()?;
            let is_new = self.look_until_whole(files, gathered)?;
            // The current writer publishes only after all its writes. This scan may have seen a
            // later write of it without an earlier one, unless this scan found nothing that the
            // last one did not.
            let is_still = || {
                let is_free = before.is_none_or(|header| header.holder == 0);
                is_free || looks > 1 && !is_new
            };
            if files.is_locked || is_still() && header()? == before {
                break (before, u64::MAX);
            }
            // After a crash, it is unknown until the first commit, which comes soon.
            let published = before.map_or(SEQ_UNKNOWN, |header| header.last_seq);
            if looks >= LOOKS_MAX && published != SEQ_UNKNOWN || looks == LOOKS_UNKNOWN_MAX {
                break (before, published);
            }
        };
        self.rewind_past(bound, gathered);
        if !self.take_in(std::mem::take(gathered)) {
            // Some lines belong before known ones: build the index again, in order.
            self.forget();
            self.begin_anew(storage, head)?;
            self.look_until_whole(files, gathered)?;
            self.rewind_past(bound, gathered);
            self.take_in(std::mem::take(gathered));
        }
        self.max_seq = self.max_seq.max(self.removals.marks.seq);
        self.removals.marks.raise(&mut self.index);
        self.commits = before.map_or(self.commits, |header| header.commits);
        self.head_identity = head.map_or(0, Head::identity);
        self.is_stale = false;
        Ok(())
    }

    /// Reads what is new in any segment. Reads everything again if a known part was removed or
    /// rewritten. Returns whether there are new lines.
    fn look_until_whole(
        &mut self,
        files: Files<'_>,
        gathered: &mut Vec<ScanResult>,
    ) -> Result<bool> {
        let Files { storage, head, .. } = files;
        let lines = |gathered: &[ScanResult]| -> usize {
            let runs = gathered.iter().flat_map(|read| &read.runs);
            runs.map(|run| run.lines.len()).sum()
        };
        let mut known = lines(gathered);
        for tries in 0..LOOKS_REWRITTEN_MAX {
            match self.look(files, gathered)? {
                Looked::Whole => return Ok(lines(gathered) != known),
                Looked::InBetween => continue,
                Looked::Gone => {}
            }
            // A rewriting process can be faster than the scan. Once nothing is known any more,
            // only the changes since the last scan are read again.
            if tries < LOOKS_MAX && gathered.is_empty() && self.can_relocate(storage, head) {
                continue;
            }
            self.forget();
            self.begin_anew(storage, head)?;
            gathered.clear();
            known = 0;
        }
        let message =
            "segments are taken away or rewritten while they are read: let that end first";
        Err(Error::new(ErrorKind::Damaged, message).with_path(storage.root()))
    }

    /// Reads what is new in any segment.
    fn look(&mut self, files: Files<'_>, gathered: &mut Vec<ScanResult>) -> Result<Looked> {
        let Files { storage, head, .. } = files;
        let appended_to = head.map_or(Ok(Vec::new()), |head| head.appended_to_after(self.commits));
        let mut look = Look {
            files,
            appended_to: appended_to.map_err(|e| head::unread(storage, e))?,
            present: vec![false; self.segments.len()],
            jobs: Vec::new(),
            vanished: BTreeSet::new(),
            unreadable: Vec::new(),
        };
        let now = now_ns();
        let listing = list_changed(storage, |day, times| self.listed(day, times))?;
        let is_listed = |day: &Day, times: &FileTimes| {
            let place = listing.plain.binary_search_by_key(day, |(day, _)| *day);
            place.is_ok_and(|place| listing.plain[place].1 == *times)
        };
        self.covered_days.retain(|day, times| is_listed(day, times));
        // A directory that changed a moment ago may change again without a change of its times.
        let plain = listing.plain.into_iter();
        self.plain_days = plain.filter(|(_, times)| times.are_settled(now)).collect();
        self.obsolete
            .retain(|file| listing.segments.binary_search(&file.name).is_ok());
        self.taken = listing.taken;
        self.foreign = listing.foreign;
        for (dir, e) in listing.unreadable {
            look.leave_out(dir, e)?;
        }
        let mut counts: BTreeMap<Day, usize> = BTreeMap::new();
        for name in &listing.segments {
            *counts.entry(name.day).or_default() += 1;
        }
        let old = listing.segments.len().saturating_sub(LOOKED_AT_MAX);
        let is_known = self.is_followed(files);
        for (nth, name) in listing.segments.into_iter().enumerate() {
            if nth < old && is_known && self.is_covered(name, &mut look) {
                continue;
            }
            if !self.look_at(name, &mut look, gathered)? {
                return Ok(Looked::Gone);
            }
        }
        if !self.unread_missing(&look.present, gathered) {
            return Ok(Looked::Gone);
        }
        // What was left out must be listed again.
        let days = std::mem::take(&mut self.plain_days).into_iter();
        let is_known = |day: &Day| self.of_day(*day).count() == counts.get(day).map_or(0, |n| *n);
        self.plain_days = days.filter(|(day, _)| is_known(day)).collect();
        let found = scan_parallel(storage, self.hasher, &look.jobs)?;
        for (job, mut read) in std::mem::take(&mut look.jobs).iter().zip(found) {
            match read.failed.take() {
                Some(e) if is_gone(&e) && self.unread(job.segment, gathered) => {
                    look.vanished.insert((job.name.day, job.name.kind));
                    continue;
                }
                Some(e) if is_gone(&e) => return Ok(Looked::Gone),
                Some(e) => look.leave_out(job.name.path(), e)?,
                None => {}
            }
            self.go_on(&read);
            gathered.push(read);
        }
        self.unreadable = look.unreadable;
        Ok(self.looked(storage, &look.vanished))
    }

    /// The segments of a day, if its directory has the same times as when it was listed.
    fn listed(&self, day: Day, times: FileTimes) -> Option<Vec<SegmentName>> {
        if self.plain_days.get(&day) != Some(&times) {
            return None;
        }
        let known = self.of_day(day);
        Some(
            known
                .map(|place| self.segments[place as usize].name)
                .collect(),
        )
    }

    /// The existing segments of a day.
    fn of_day(&self, day: Day) -> impl Iterator<Item = u32> {
        let kinds = Kind::ALL.into_iter();
        kinds.flat_map(move |kind| self.of(day, kind))
    }

    /// Makes the next rescan list every directory and look at every file.
    pub(in crate::store) fn look_at_all(&mut self) {
        self.plain_days.clear();
        self.covered_days.clear();
        self.head_identity = 0;
    }

    /// Whether `HEAD` tells of all lines that were appended after the sidecar was written. It does
    /// not if a process died while it wrote, or after a power cut. A writer that does not go by
    /// `HEAD` looks at everything.
    fn is_followed(&self, files: Files<'_>) -> bool {
        let Files {
            storage,
            head: Some(head),
            is_locked: false,
        } = files
        else {
            return false;
        };
        let is_free = matches!(head.header(), Ok(Some(header)) if header.holder == 0);
        is_free
            && head.identity() == self.head_identity
            && self.mount_id.is_some()
            && self.mount_id == storage.mount_id()
            && matches!(head.changes_after(self.commits), Ok(Some(_)))
    }

    /// Whether the sidecar covers a segment of a day whose directory has not changed, and nothing
    /// was appended to it since. Such a segment need not be looked at.
    fn is_covered(&self, name: SegmentName, look: &mut Look<'_>) -> bool {
        let Some(place) = self.by_name.get(&name).map(|place| *place as usize) else {
            return false;
        };
        // Bytes after the last line are read.
        let is_whole = |covered: &Covered| covered.has_only_lines();
        let segment = &self.segments[place];
        let is_covered = !segment.is_compared
            && segment.covered.as_ref().is_some_and(is_whole)
            && self.covered_days.contains_key(&name.day)
            && !look.appended_to.contains(&name);
        if is_covered && let Some(present) = look.present.get_mut(place) {
            *present = true;
        }
        is_covered
    }

    /// Checks one segment and adds a job for the part to read. Returns `false` if a known part of
    /// it no longer exists.
    fn look_at(
        &mut self,
        name: SegmentName,
        look: &mut Look<'_>,
        gathered: &mut Vec<ScanResult>,
    ) -> Result<bool> {
        let (storage, path) = (look.files.storage, name.path());
        let place = self.by_name.get(&name).map(|place| *place as usize);
        let covered = place.and_then(|place| {
            let segment = &mut self.segments[place];
            let is_compared = std::mem::replace(&mut segment.is_compared, true);
            segment.covered.filter(|_| !is_compared)
        });
        let found = if covered.is_some() {
            storage.stat_and_times(&path)
        } else {
            storage.stat(&path).map(|stat| (stat, None))
        };
        let (stat, times) = match found {
            Err(e) if is_gone(&e) => {
                look.vanished.insert((name.day, name.kind));
                return Ok(true);
            }
            Err(e) if is_of_what_is_read(&e) => return look.leave_out(path, e).map(|()| true),
            found => found.map_err(|e| io_error(storage, "look at the segment", &path, e))?,
        };
        if let (Some(covered), Some(place)) = (covered, place) {
            let Some(compared) = covered.compare(storage, &stat, times) else {
                return Ok(false);
            };
            let is_settled = times.is_some_and(|times| times.are_settled(self.read_ns));
            let segment = &mut self.segments[place];
            segment.read_times = times;
            segment.compared = if is_settled { compared } else { 0 };
        }
        if self.is_obsolete(name, stat.identity) {
            return Ok(true);
        }
        let segment = self.place(name);
        look.present.resize(self.segments.len(), false);
        look.present[segment as usize] = true;
        let known = &self.segments[segment as usize];
        let is_there = known.identity == stat.identity && stat.len >= known.end;
        let has_changed = stat.len != known.expected_len() || known.tail.is_some();
        let may_differ = known.last.is_some() && look.appended_to.contains(&name);
        let is_as_known = match known.identity {
            0 => true,
            _ if !is_there => false,
            _ if has_changed || may_differ => match is_as_read(storage, known) {
                Err(e) if is_of_what_is_read(&e) => {
                    return look.leave_out(path, e).map(|()| true);
                }
                read => read.map_err(|e| io_error(storage, "read the segment", &path, e))?,
            },
            _ => true,
        };
        if !is_as_known && !self.unread(segment, gathered) {
            return Ok(false);
        }
        let known = &mut self.segments[segment as usize];
        known.identity = stat.identity;
        known.is_sealed = stat.is_read_only;
        if stat.len != known.expected_len() || known.tail.is_some() {
            // Keep the times only if the whole file is read now. Otherwise its known part may have
            // changed before this scan.
            let is_new = known.end == 0;
            known.read_times = is_new.then(|| storage.times(&path).ok()?).flatten();
            look.jobs.push(ScanJob {
                segment,
                name,
                identity: stat.identity,
                from: known.end,
                until: stat.len,
            });
        }
        Ok(true)
    }

    /// Discards segments that no longer exist, as [`unread`](State::unread) does.
    fn unread_missing(&mut self, present: &[bool], gathered: &mut Vec<ScanResult>) -> bool {
        let missing = (0..).zip(&self.segments).zip(present);
        let missing = missing.filter(|((_, known), is_there)| known.identity != 0 && !**is_there);
        let missing: Vec<u32> = missing.map(|((segment, _), _)| segment).collect();
        missing
            .iter()
            .all(|segment| self.unread(*segment, gathered))
    }

    /// The result of a scan during which segments of these days and kinds were removed. Their
    /// lines may have been joined to the next segment after that was read.
    fn looked(&self, storage: &dyn Storage, vanished: &BTreeSet<(Day, Kind)>) -> Looked {
        let mut known = self.segments.iter().filter(|segment| {
            let SegmentName { day, kind, .. } = segment.name;
            vanished.contains(&(day, kind))
        });
        let are_as_read = known.all(|segment| match storage.stat(&segment.name.path()) {
            Ok(found) => {
                found.identity == segment.identity || self.is_obsolete(segment.name, found.identity)
            }
            Err(e) => !is_gone(&e) || segment.identity == 0,
        });
        if are_as_read {
            Looked::Whole
        } else {
            Looked::InBetween
        }
    }

    /// Discards what was read of a changed segment, if none of it is in the index yet. Returns
    /// `false` if some of it is.
    fn unread(&mut self, segment: u32, gathered: &mut Vec<ScanResult>) -> bool {
        let known = &mut self.segments[segment as usize];
        let path = known.name.path();
        if known.last_seq > 0 || self.damage.iter().any(|damage| damage.file == path) {
            return false;
        }
        *known = Segment::unknown(known.name);
        gathered.retain(|read| read.segment != segment);
        true
    }

    /// Leaves lines past `bound`, written during the scan, to the next scan. Lowers the known
    /// length of their segments accordingly.
    pub(super) fn rewind_past(&mut self, bound: u64, gathered: &mut [ScanResult]) {
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
            // Also drop what a later scan read of the segment.
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
}

/// Whether the last line that was read still ends at the same offset. If not, the file was
/// rewritten in place.
pub(super) fn is_as_read(storage: &dyn Storage, segment: &Segment) -> io::Result<bool> {
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
        // The file was removed since it was listed.
        Err(e) if is_gone(&e) => Ok(false),
        Err(e) => Err(e),
    }
}
