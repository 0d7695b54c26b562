//! Rescans all segments for changes, by whatever program, and for new files.

use std::collections::BTreeSet;
use std::io;

use super::{Segment, State};
use crate::error::{Error, ErrorKind, Result, is_of_what_is_read};
use crate::record::{Day, Kind};
use crate::segment::{Damage, SegmentName, list};
use crate::storage::{Access, Storage, io_error, is_gone, read_full};
use crate::store::commit::head::{self, Head, Header, SEQ_UNKNOWN};
use crate::store::view::parallel_scan::{ScanJob, ScanResult, scan_parallel};

/// How often a look at all segments is repeated because someone wrote meanwhile.
const LOOKS_MAX: u32 = 3;
/// The same because segments were rewritten meanwhile, one after the other.
const LOOKS_REWRITTEN_MAX: u32 = 30;
/// The same where `HEAD` does not say which lines are whole.
const LOOKS_UNKNOWN_MAX: u32 = 30;

/// What came of a look.
enum Looked {
    Whole,
    /// Segments were joined meanwhile, and lines may have been missed.
    InBetween,
    /// A known part of a segment is no longer there.
    Gone,
}

/// A look at all segments.
struct Look<'a> {
    storage: &'a dyn Storage,
    is_locked: bool,
    /// Where others appended, a segment as long as before may be another one.
    appended_to: Vec<SegmentName>,
    /// Which segments are there, by their places.
    present: Vec<bool>,
    /// What is to be read.
    jobs: Vec<ScanJob>,
    /// Where a segment was taken away since they were listed.
    vanished: BTreeSet<(Day, Kind)>,
    unreadable: Vec<Damage>,
}

impl Look<'_> {
    /// Notes what cannot be read.
    fn leave_out(&mut self, path: String, e: io::Error) -> Result<()> {
        if self.is_locked {
            let doing = "write while a part of the log cannot be read (make it readable, or move it out of the store)";
            return Err(io_error(self.storage, doing, &path, e));
        }
        self.unreadable.push(Damage::unreadable(path, &e));
        Ok(())
    }
}

impl State {
    /// Compares all segments with what is known of them and takes in what changed. Without the
    /// lock, lines that were acknowledged only after the look began may be left for the next one,
    /// and what cannot be read is told and left out; under it that is an error, as numbers and
    /// keys might be given twice.
    pub(in crate::store) fn rescan(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
    ) -> Result<()> {
        let mut gathered = Vec::new();
        let looked = self.try_rescan(storage, head, is_locked, &mut gathered);
        if looked.is_err() && !gathered.is_empty() {
            // That was read and not taken in.
            self.forget();
        }
        looked
    }

    fn try_rescan(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
        gathered: &mut Vec<ScanResult>,
    ) -> Result<()> {
        let header = || -> Result<Option<Header>> {
            let read = head.map_or(Ok(None), Head::header);
            read.map_err(|e| head::unread(storage, e))
        };
        self.is_stale = true;
        if self.max_seq == 0 {
            self.begin_anew(storage, head)?;
        } else if let Some(head) = head {
            self.relocate(storage, head)
                .map_err(|e| head::unread(storage, e))?;
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
        self.max_seq = self.max_seq.max(self.removals.marks.seq);
        self.removals.marks.raise(&mut self.index);
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
        gathered: &mut Vec<ScanResult>,
    ) -> Result<bool> {
        let lines = |gathered: &[ScanResult]| -> usize {
            let runs = gathered.iter().flat_map(|read| &read.runs);
            runs.map(|run| run.lines.len()).sum()
        };
        let mut known = lines(gathered);
        for tries in 0..LOOKS_REWRITTEN_MAX {
            match self.look(storage, head, is_locked, gathered)? {
                Looked::Whole => return Ok(lines(gathered) != known),
                Looked::InBetween => continue,
                Looked::Gone => {}
            }
            // Who rewrites may be quicker than who looks. Once nothing is known any more, only what
            // changed since the look before is read again.
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
    fn look(
        &mut self,
        storage: &dyn Storage,
        head: Option<&Head>,
        is_locked: bool,
        gathered: &mut Vec<ScanResult>,
    ) -> Result<Looked> {
        let appended_to = head.map_or(Ok(Vec::new()), |head| head.appended_to_after(self.commits));
        let mut look = Look {
            storage,
            is_locked,
            appended_to: appended_to.map_err(|e| head::unread(storage, e))?,
            present: vec![false; self.segments.len()],
            jobs: Vec::new(),
            vanished: BTreeSet::new(),
            unreadable: Vec::new(),
        };
        let listing = list(storage)?;
        self.obsolete
            .retain(|file| listing.segments.binary_search(&file.name).is_ok());
        self.taken = listing.taken;
        self.foreign = listing.foreign;
        for (dir, e) in listing.unreadable {
            look.leave_out(dir, e)?;
        }
        for name in listing.segments {
            if !self.look_at(name, &mut look, gathered)? {
                return Ok(Looked::Gone);
            }
        }
        if !self.unread_missing(&look.present, gathered) {
            return Ok(Looked::Gone);
        }
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
            self.segments[read.segment as usize].go_on(&read);
            gathered.push(read);
        }
        self.unreadable = look.unreadable;
        Ok(self.looked(storage, &look.vanished))
    }

    /// Looks at one segment, and notes what of it is to be read; `false` if a known part of it is
    /// no longer there.
    fn look_at(
        &mut self,
        name: SegmentName,
        look: &mut Look<'_>,
        gathered: &mut Vec<ScanResult>,
    ) -> Result<bool> {
        let (storage, path) = (look.storage, name.path());
        let stat = match storage.stat(&path) {
            Err(e) if is_gone(&e) => {
                look.vanished.insert((name.day, name.kind));
                return Ok(true);
            }
            Err(e) if is_of_what_is_read(&e) => return look.leave_out(path, e).map(|()| true),
            stat => stat.map_err(|e| io_error(storage, "look at the segment", &path, e))?,
        };
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
            // All of it is read now, or what was read may have changed before this look.
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

    /// Forgets what was read of segments that are not there, as [`unread`](State::unread) does.
    fn unread_missing(&mut self, present: &[bool], gathered: &mut Vec<ScanResult>) -> bool {
        let missing = (0..).zip(&self.segments).zip(present);
        let missing = missing.filter(|((_, known), is_there)| known.identity != 0 && !**is_there);
        let missing: Vec<u32> = missing.map(|((segment, _), _)| segment).collect();
        missing
            .iter()
            .all(|segment| self.unread(*segment, gathered))
    }

    /// What came of a look during which segments of these days and kinds were taken away. Their lines
    /// may stand in the next one, which was read before they did.
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

    /// Forgets what was read of a segment that is not what it was, if nothing of it was taken in
    /// yet; `false` if something was.
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

    /// Leaves lines past `bound`, written while the look went on, for the next look. The segments
    /// are known to reach as far as they were read.
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
}

/// Whether the last line that was read still stands where it ended: if not, someone rewrote the
/// file in place.
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
        // Taken away a moment ago.
        Err(e) if is_gone(&e) => Ok(false),
        Err(e) => Err(e),
    }
}
