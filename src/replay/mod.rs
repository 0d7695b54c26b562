//! Reads records back in the order in which they were written: of a day, of a whole store, or of a
//! copied directory of a day.

mod erased;
mod prepare;

use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::line::decode;
use crate::record::{Day, Kind, Record};
use crate::segment::{Fact, Found, SegmentName, Span, scan};
use crate::storage::{Access, Disk, Entry, Storage, io_error};
use crate::store::is_dir_of_store;

/// One line of a day.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Its sequence number in the store it comes from.
    pub seq: u64,
    /// The record.
    pub record: Record,
    /// The file, relative to the directory that was read.
    pub file: String,
    /// The line in the file, without LF.
    pub text: String,
}

/// The result of a read.
#[derive(Debug, Default)]
pub struct Replay {
    /// The records, in the order of their sequence numbers.
    pub lines: Vec<Replayed>,
    /// Number of lines that are damaged or hold no record, and were skipped.
    pub unreadable: u64,
    /// The store of the directory.
    store: Option<PathBuf>,
}

/// Reads a day of the store in `store`.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if the store has no such day.
pub fn day(store: &Path, day: Day) -> Result<Replay> {
    dir(&store.join(day.to_string()))
}

/// The store of a directory: itself, or the one of its day.
fn store_of(dir: &Path) -> Option<PathBuf> {
    let dir = std::path::absolute(dir).ok()?;
    let day = dir.file_name().and_then(|name| name.to_str());
    let parent = dir
        .parent()
        .filter(|_| day.is_some_and(|day| day.parse::<Day>().is_ok()));
    let mut dirs = [Some(&*dir), parent].into_iter().flatten();
    dirs.find(|dir| is_dir_of_store(dir)).map(Path::to_path_buf)
}

/// Reads a directory with the segments of one day, or a whole store. All records are held in memory.
///
/// # Errors
/// [`InvalidInput`](ErrorKind::InvalidInput) if it has none.
pub fn dir(dir: &Path) -> Result<Replay> {
    let storage = Disk::new(dir);
    let list = |name: &str| {
        storage.read_dir(name).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => none(dir),
            _ => io_error(&storage, "list the directory", name, e),
        })
    };
    // A copied directory may have any name, and the segments' names do not have the day.
    let any_day = Day::of(0)?;
    let mut files: Vec<(String, Kind)> = Vec::new();
    let mut add = |dir: &str, entries: &[Entry]| {
        let entries = entries.iter().filter(|entry| entry.is_file);
        files.extend(entries.filter_map(|entry| {
            let name = SegmentName::parse(any_day, &entry.name)?;
            Some((format!("{dir}{}", entry.name), name.kind))
        }));
    };
    let entries = list("")?;
    add("", &entries);
    for entry in entries.iter().filter(|entry| !entry.is_file) {
        if entry.name.parse::<Day>().is_ok() {
            add(&format!("{}/", entry.name), &list(&entry.name)?);
        }
    }
    if files.is_empty() {
        return Err(none(dir));
    }
    files.sort_unstable();
    let mut replay = Replay {
        store: store_of(dir),
        ..Replay::default()
    };
    for (file, kind) in files {
        read_segment(&storage, &file, kind, &mut replay)?;
    }
    replay.lines.sort_by_key(|line| line.seq);
    Ok(replay)
}

fn none(dir: &Path) -> Error {
    let message = "no segments here: use a day of the store, a day's directory or a store";
    Error::new(ErrorKind::InvalidInput, message).with_path(dir)
}

fn read_segment(storage: &Disk, file_name: &str, kind: Kind, replay: &mut Replay) -> Result<()> {
    let io = |e| io_error(storage, "read the segment", file_name, e);
    let file = storage.open(file_name, Access::Read).map_err(io)?;
    let Replay {
        lines, unreadable, ..
    } = replay;
    let mut sink = |found: Found<'_>| {
        let before = lines.len();
        found.facts(kind, &mut |fact: Fact<'_>| {
            let Ok(decoded) = decode(kind, fact.bytes) else {
                return;
            };
            lines.push(Replayed {
                seq: fact.envelope.seq,
                record: decoded.record,
                file: file_name.to_owned(),
                text: String::from_utf8_lossy(fact.bytes).into_owned(),
            });
        });
        *unreadable += u64::from(lines.len() == before);
    };
    let scanned = scan(&*file, kind, Span::ALL, &mut sink).map_err(io)?;
    *unreadable += u64::from(scanned.tail.is_some());
    Ok(())
}
