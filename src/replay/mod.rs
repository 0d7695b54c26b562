//! Reads a day of the log back, record by record, in the order in which they were written: from
//! a store, or from a day's directory that was copied out of one.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::line::{LINE_BYTES_MAX, decode};
use crate::record::{Day, Record};
use crate::segment::{Fact, Found, SegmentName, scan};
use crate::storage::{Access, Disk, Storage, full_path};

/// One line of a day.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Its sequence number in the store it comes from.
    pub seq: u64,
    /// What it records.
    pub record: Record,
    /// The file, relative to the store or directory.
    pub file: String,
    /// The line as it stands there, without LF.
    pub text: String,
}

/// A day, read.
#[derive(Debug, Default)]
pub struct Replay {
    /// The records, in the order of their sequence numbers.
    pub lines: Vec<Replayed>,
    /// How many lines could not be replayed because they are damaged or hold no record.
    pub unreadable: u64,
}

/// Reads a day of the store in `store`.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if the store has no such day.
pub fn day(store: &Path, day: Day) -> Result<Replay> {
    read(&store.join(day.to_string()))
}

/// Reads a directory that holds the segments of one day.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if it holds none.
pub fn dir(dir: &Path) -> Result<Replay> {
    read(dir)
}

fn read(dir: &Path) -> Result<Replay> {
    let storage = Disk::new(dir);
    let none = || {
        let message = "there are no segments here: give a day of the store or a day's directory";
        Error::new(ErrorKind::InvalidInput, message).with_path(dir)
    };
    let entries = storage.read_dir("").map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => none(),
        _ => Error::io("list the directory", dir, e),
    })?;
    // The directory may have any name by now; the segments' own names do not hold the day.
    let day = Day::of(0)?;
    let mut names: Vec<SegmentName> = entries
        .iter()
        .filter(|entry| entry.is_file)
        .filter_map(|entry| SegmentName::parse(day, &entry.name))
        .collect();
    if names.is_empty() {
        return Err(none());
    }
    names.sort_unstable();
    let mut replay = Replay::default();
    for name in names {
        read_segment(&storage, name, &mut replay)?;
    }
    replay.lines.sort_by_key(|line| line.seq);
    Ok(replay)
}

fn read_segment(storage: &Disk, name: SegmentName, replay: &mut Replay) -> Result<()> {
    let file_name = name.file_name();
    let path: PathBuf = full_path(storage, &file_name);
    let io = |e| Error::io("read the segment", &path, e);
    let file = storage.open(&file_name, Access::Read).map_err(io)?;
    let Replay { lines, unreadable } = replay;
    let mut sink = |found: Found<'_>| {
        let before = lines.len();
        found.facts(name.kind, &mut |fact: Fact<'_>| {
            let Ok(decoded) = decode(name.kind, fact.bytes) else {
                return;
            };
            lines.push(Replayed {
                seq: fact.envelope.seq,
                record: decoded.record,
                file: file_name.clone(),
                text: String::from_utf8_lossy(fact.bytes).into_owned(),
            });
        });
        *unreadable += u64::from(lines.len() == before);
    };
    let scanned = scan(&*file, name.kind, 0, u64::MAX, LINE_BYTES_MAX, &mut sink).map_err(io)?;
    *unreadable += u64::from(scanned.tail.is_some());
    Ok(())
}
