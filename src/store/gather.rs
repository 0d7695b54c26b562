//! Reads parts of segments for the index, on every core.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::index::{Entry, Hasher, Loc};
use crate::line::LINE_BYTES_MAX;
use crate::record::Kind;
use crate::segment::{DamageClass, Fact, Found, Report, Scanned, SegmentName, scan};
use crate::storage::{Access, Storage, full_path};

/// Fewer bytes than this are not worth a thread.
const PARALLEL_BYTES_MIN: u64 = 1 << 20;

/// A part of a segment to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job {
    /// The segment's place in the store's list.
    pub segment: u32,
    pub name: SegmentName,
    pub from: u64,
    pub until: u64,
}

/// A line that counts.
#[derive(Debug, Clone)]
pub(super) struct ReadLine {
    pub kind: Kind,
    pub entry: Entry,
    /// Someone rewrote it: what it says of itself is not proven.
    pub is_altered: bool,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Gathered {
    pub segment: u32,
    pub scanned: Scanned,
    /// In the order in which they stand.
    pub lines: Vec<ReadLine>,
    pub reports: Vec<Report>,
}

/// Reads all jobs; the results are in the jobs' order.
pub(super) fn gather(storage: &dyn Storage, hasher: Hasher, jobs: &[Job]) -> Result<Vec<Gathered>> {
    let one = |job: &Job| read(storage, hasher, job);
    let bytes: u64 = jobs
        .iter()
        .map(|job| job.until.saturating_sub(job.from))
        .fold(0, u64::saturating_add);
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(jobs.len());
    if threads < 2 || bytes < PARALLEL_BYTES_MIN {
        return jobs.iter().map(one).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, job)) = {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    jobs.get(place).map(|job| (place, job))
                } {
                    let result = one(job);
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((place, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_unstable_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

fn read(storage: &dyn Storage, hasher: Hasher, job: &Job) -> Result<Gathered> {
    let path = job.name.path();
    let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
    let file = storage.open(&path, Access::Read).map_err(io)?;
    let kind = job.name.kind;
    let (mut lines, mut reports) = (Vec::new(), Vec::new());
    let mut sink = |found: Found<'_>| {
        reports.extend(found.report());
        found.facts(kind, &mut |fact: Fact<'_>| {
            // Told below.
            let Ok(offset) = u32::try_from(fact.offset) else {
                return;
            };
            let loc = Loc {
                segment: job.segment,
                offset,
            };
            lines.push(ReadLine {
                kind,
                entry: hasher.entry(kind, fact.envelope, loc),
                is_altered: fact.is_altered,
            });
        });
    };
    let scanned = scan(&*file, kind, job.from, job.until, LINE_BYTES_MAX, &mut sink).map_err(io)?;
    // Only someone else makes such a segment; the index has no place for what lies past that.
    let indexed = u64::from(u32::MAX);
    if scanned.end > indexed {
        reports.push(Report {
            offset: indexed,
            length: scanned.end - indexed,
            class: DamageClass::TooLong,
            reason: "the segment is past 4 GiB and its rest is not read: split it".to_owned(),
        });
    }
    Ok(Gathered {
        segment: job.segment,
        scanned,
        lines,
        reports,
    })
}
