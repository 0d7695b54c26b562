//! Scans parts of segments for the index, on all cores.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Result, is_of_what_is_read};
use crate::index::{Entry, Hasher, Loc, run_all};
use crate::line::{Envelope, good};
use crate::segment::{
    DamageClass, Fact, Misplaced, Report, Scanned, SegmentName, Span, Stretch, first_line,
    scan_stretches,
};
use crate::storage::{Access, Storage, StorageFile, io_error, is_gone};

/// With fewer bytes than this, another thread does not pay off.
const PARALLEL_BYTES_MIN: u64 = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// Longer segments are read in parts of this size, so that no core stays idle.
const PART_BYTES: u64 = if cfg!(any(test, fuzzing)) {
    300
} else {
    8 << 20
};

/// Typical length of a line. Determines the initial capacity of a part's list of lines.
const LINE_BYTES_USUAL: u64 = 400;

/// A part of a segment to read.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) struct ScanJob {
    /// The segment's index in the store's list.
    pub segment: u32,
    pub name: SegmentName,
    /// The identity of the file. If the name leads to another file, it is not read.
    pub identity: u64,
    pub from: u64,
    pub until: u64,
}

/// The result of a [`ScanJob`].
#[derive(Debug)]
pub(in crate::store) struct ScanResult {
    pub segment: u32,
    pub scanned: Scanned,
    /// The lines that hold records, in the order in which they are in the file.
    pub runs: Vec<Run>,
    pub reports: Vec<Report>,
    /// The error if the segment could not be read.
    pub failed: Option<io::Error>,
    /// The last bytes of the last line.
    pub last: Option<LineEnd>,
}

/// The last bytes of a line without LF. They contain most of its checksum, and so distinguish a
/// segment that was truncated and grew again from one that only grew.
pub(in crate::store) type LineEnd = [u8; 16];

/// The last bytes of a line without LF; `None` if the line is too short.
pub(in crate::store) fn line_end(line: &[u8]) -> Option<LineEnd> {
    line.last_chunk().copied()
}

/// Lines of one kind.
#[derive(Debug)]
pub(in crate::store) struct Run {
    pub lines: Vec<Entry>,
    /// Whether no line is altered and the sequence numbers ascend. Then the first and the last
    /// line bound the others.
    is_plain: bool,
}

impl Run {
    pub(in crate::store) fn new(lines: Vec<Entry>) -> Run {
        let is_plain = !lines.iter().any(|line| line.is_altered)
            && lines.is_sorted_by(|one, next| one.seq < next.seq);
        Run { lines, is_plain }
    }

    /// Whether no line is altered and the sequence numbers ascend.
    pub(in crate::store) fn is_plain(&self) -> bool {
        self.is_plain
    }

    pub(in crate::store) fn has_altered(&self) -> bool {
        !self.is_plain && self.lines.iter().any(|line| line.is_altered)
    }

    pub(in crate::store) fn is_sorted(&self) -> bool {
        self.is_plain || self.lines.is_sorted_by_key(Entry::order)
    }

    /// The greatest sequence number; 0 if there are no lines.
    pub(in crate::store) fn seq_max(&self) -> u64 {
        if self.is_plain {
            return self.lines.last().map_or(0, |last| last.seq);
        }
        self.lines.iter().map(|line| line.seq).max().unwrap_or(0)
    }

    /// The greatest sequence number of a line that is not altered; 0 if there is none.
    pub(in crate::store) fn seq_max_good(&self) -> u64 {
        if self.is_plain {
            return self.seq_max();
        }
        let good = self.lines.iter().filter(|line| !line.is_altered);
        good.map(|line| line.seq).max().unwrap_or(0)
    }
}

/// Runs all jobs and returns the results in the order of the jobs. If a segment cannot be read or
/// is gone, its result has the error; any other error fails the whole scan.
pub(in crate::store) fn scan_parallel(
    storage: &dyn Storage,
    hasher: Hasher,
    jobs: &[ScanJob],
) -> Result<Vec<ScanResult>> {
    let mut results = read_parts(storage, hasher, jobs);
    results.sort_unstable_by_key(|(place, from, _)| (*place, *from));
    let mut gathered: Vec<ScanResult> = jobs.iter().map(ScanResult::nothing).collect();
    let misplaced = |job: &ScanJob| Misplaced::in_day_of(job.name);
    let mut misplaced: Vec<Misplaced> = jobs.iter().map(misplaced).collect();
    for (place, _, read) in results {
        let (job, all) = (&jobs[place], &mut gathered[place]);
        match read {
            Ok(Some(read)) if all.failed.is_none() => {
                all.scanned = read.scanned;
                all.runs.push(read.run);
                all.last = read.last;
                misplaced[place].go_on(&read.misplaced);
                all.reports.extend(read.reports);
            }
            Ok(_) => {}
            Err(e) if is_of_one_file(&e) => {
                misplaced[place] = Misplaced::in_day_of(job.name);
                *all = ScanResult {
                    failed: Some(e),
                    ..ScanResult::nothing(job)
                };
            }
            Err(e) => {
                let path = job.name.path();
                return Err(io_error(storage, "read the segment", &path, e));
            }
        }
    }
    for (all, misplaced) in gathered.iter_mut().zip(misplaced) {
        all.reports.extend(misplaced.report());
        all.reports.extend(beyond_index(all.scanned.end));
    }
    Ok(gathered)
}

/// Whether an error concerns only the file that was read.
fn is_of_one_file(e: &io::Error) -> bool {
    is_of_what_is_read(e) || is_gone(e)
}

/// The result of one part: the index of its job, its offset, and its lines.
type PartResult = (usize, u64, io::Result<Option<Read>>);

/// Reads the parts of all jobs, in any order. Stops at an error that fails the whole scan.
fn read_parts(storage: &dyn Storage, hasher: Hasher, jobs: &[ScanJob]) -> Vec<PartResult> {
    let sizes = jobs.iter().map(|job| job.until.saturating_sub(job.from));
    let bytes = sizes.clone().fold(0, u64::saturating_add);
    let part_count = sizes
        .map(|size| size.div_ceil(PART_BYTES))
        .fold(0, u64::saturating_add);
    let parts = Parts {
        storage,
        jobs,
        next: 0,
        open: None,
    };
    let threads = if bytes < PARALLEL_BYTES_MIN || part_count < 2 {
        1
    } else {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        cores.min(usize::try_from(part_count).unwrap_or(cores))
    };
    let parts = Mutex::new(parts);
    let work = || {
        let mut results = Vec::new();
        let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(part) = next() {
            // The results hold no file handles: there may be more segments than files can be open.
            let (place, from) = (part.place, part.span.from);
            let read = part.read(hasher);
            let is_over = matches!(&read, Err(e) if !is_of_one_file(e));
            results.push((place, from, read));
            if is_over {
                break;
            }
        }
        results
    };
    let results = run_all(threads > 1, (0..threads).map(|_| &work));
    results.into_iter().flatten().collect()
}

impl ScanResult {
    fn nothing(job: &ScanJob) -> ScanResult {
        ScanResult {
            segment: job.segment,
            scanned: Scanned {
                end: job.from,
                tail: None,
            },
            runs: Vec::new(),
            reports: Vec::new(),
            failed: None,
            last: None,
        }
    }
}

/// decklog writes no segment of this size. The index cannot address the bytes past 4 GiB.
fn beyond_index(end: u64) -> Option<Report> {
    let indexed = u64::from(u32::MAX);
    (end > indexed).then(|| {
        let reason = "the segment is past 4 GiB and its rest is not read: split it";
        Report::new(DamageClass::TooLong, (indexed, end - indexed), reason)
    })
}

/// The parts of all jobs, in order.
struct Parts<'a> {
    storage: &'a dyn Storage,
    jobs: &'a [ScanJob],
    next: usize,
    /// The current job, the offset of its next part, and its file. All parts are read from the
    /// same file, even if the name leads to another one meanwhile.
    open: Option<(ScanJob, u64, Arc<dyn StorageFile>)>,
}

struct Part {
    /// The index of the job.
    place: usize,
    job: ScanJob,
    span: Span,
    /// Or why the file cannot be opened.
    file: io::Result<Arc<dyn StorageFile>>,
}

impl Parts<'_> {
    fn open(&self, job: &mut ScanJob) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.storage.open(&job.name.path(), Access::Read)?;
        let stat = file.stat()?;
        if stat.identity != job.identity {
            return Err(io::ErrorKind::NotFound.into());
        }
        // A length that another process published can be wrong.
        if job.until.saturating_sub(job.from) > PART_BYTES {
            job.until = job.until.min(stat.len);
        }
        Ok(file)
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        let (job, from, file) = if let Some((job, from, file)) = self.open.take() {
            (job, from, Ok(file))
        } else {
            let mut job = *self.jobs.get(self.next)?;
            self.next += 1;
            let file = self.open(&mut job);
            (job, job.from, file)
        };
        let until = job.until;
        let rest = from.saturating_add(PART_BYTES);
        let stop = match &file {
            Ok(file) if until.saturating_sub(rest) >= PART_BYTES / 2 => {
                self.open = Some((job, rest, Arc::clone(file)));
                rest
            }
            // A short rest is added to the last part.
            _ => u64::MAX,
        };
        Some(Part {
            place: self.next - 1,
            job,
            span: Span { from, stop, until },
            file,
        })
    }
}

/// The lines that begin in one part.
struct Read {
    run: Run,
    misplaced: Misplaced,
    last: Option<LineEnd>,
    reports: Vec<Report>,
    scanned: Scanned,
}

impl Part {
    /// Reads the lines that begin in this part; `None` if there is none.
    fn read(self, hasher: Hasher) -> io::Result<Option<Read>> {
        let Part { job, mut span, .. } = self;
        let file = self.file?;
        if span.from > job.from {
            match first_line(&*file, span)? {
                Some(first) => span.from = first,
                None => return Ok(None),
            }
        }
        let kind = job.name.kind;
        let bytes = span.stop.min(span.until).saturating_sub(span.from);
        let mut lines = Vec::with_capacity((bytes / LINE_BYTES_USUAL) as usize);
        let mut reports = Vec::new();
        let mut misplaced = Misplaced::in_day_of(job.name);
        let mut take = |offset: u64, len: u64, envelope: &Envelope<'_>, is_altered: bool| {
            if !is_altered {
                misplaced.look(envelope.at, offset, offset + len);
            }
            // Lines past 4 GiB are reported by `beyond_index`.
            let Ok(offset) = u32::try_from(offset) else {
                return;
            };
            let segment = job.segment;
            let loc = Loc { segment, offset };
            lines.push(Entry {
                is_altered,
                ..hasher.entry(kind, envelope, loc)
            });
        };
        let mut last = None;
        let mut sink = |stretch: Stretch<'_>| {
            last = stretch.bytes.and_then(line_end);
            if let Some(envelope) = stretch.bytes.and_then(|bytes| good(kind, bytes)) {
                take(stretch.offset, stretch.len, &envelope, false);
                return;
            }
            let found = stretch.classified(kind);
            reports.extend(found.report());
            found.facts(kind, &mut |fact: Fact<'_>| {
                let len = fact.bytes.len() as u64;
                take(fact.offset, len, fact.envelope, fact.is_altered);
            });
        };
        let scanned = scan_stretches(&*file, kind, span, &mut sink);
        Ok(Some(Read {
            scanned: scanned?,
            run: Run::new(lines),
            misplaced,
            last,
            reports,
        }))
    }
}

#[cfg(test)]
mod tests;
