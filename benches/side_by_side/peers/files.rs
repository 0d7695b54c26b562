//! What the system gives without a log: files, written and scanned.

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::table::seconds;

/// The finished lines of a store, in order.
pub struct Lines {
    bytes: Vec<u8>,
    /// Where each begins, and the end.
    bounds: Vec<usize>,
}

impl Lines {
    pub fn of(store: &Path) -> Lines {
        let read = |path: PathBuf| std::fs::read(path).expect("a segment");
        let bytes: Vec<u8> = segments(store).into_iter().flat_map(read).collect();
        let ends = ends_of_lines(&bytes);
        let bounds = std::iter::once(0).chain(ends).collect();
        Lines { bytes, bounds }
    }

    pub fn count(&self) -> usize {
        self.bounds.len() - 1
    }

    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.bounds.windows(2).map(|at| &self.bytes[at[0]..at[1]])
    }

    /// Lines in groups, each in one piece.
    pub fn groups(&self, of: usize) -> impl Iterator<Item = &[u8]> {
        let starts = (0..self.count()).step_by(of);
        starts.map(move |i| {
            let end = (i + of).min(self.count());
            &self.bytes[self.bounds[i]..self.bounds[end]]
        })
    }
}

fn ends_of_lines(bytes: &[u8]) -> impl Iterator<Item = usize> {
    let lines = bytes.split_inclusive(|b| *b == b'\n');
    lines.scan(0, |end, line| {
        *end += line.len();
        Some(*end)
    })
}

/// A store's segments, in order.
pub fn segments(store: &Path) -> Vec<PathBuf> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).expect("a directory").flatten();
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        paths
    };
    let is_day = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && name.starts_with(|first: char| first.is_ascii_digit())
    };
    // Beside `<kind>.<number>.jsonl` a day may have its seals.
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.split('.').count() == 3
    };
    let days = list(store).into_iter().filter(is_day);
    days.flat_map(|day| list(&day)).filter(is_segment).collect()
}

/// The bytes of everything in a directory.
pub fn bytes_under(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    let sizes = entries.map(|entry| {
        let metadata = entry.metadata().expect("metadata");
        if metadata.is_dir() {
            bytes_under(&entry.path())
        } else {
            metadata.len()
        }
    });
    sizes.sum()
}

/// One `write(2)` a line.
pub fn write_each(lines: &Lines, path: &Path) -> f64 {
    let mut file = file(path);
    let taken = seconds(|| {
        for line in lines.iter() {
            file.write_all(line).expect("written");
        }
    });
    settle(&file);
    taken
}

/// All lines through a `BufWriter`.
pub fn write_buffered(lines: &Lines, path: &Path) -> f64 {
    let file = file(path);
    let taken = seconds(|| {
        let mut buffered = BufWriter::new(&file);
        for line in lines.iter() {
            buffered.write_all(line).expect("written");
        }
        buffered.flush().expect("written");
    });
    settle(&file);
    taken
}

/// A `write` and an `fdatasync` for so many lines at a time.
pub fn write_synced(lines: &Lines, at_a_time: usize, path: &Path) -> f64 {
    let mut file = file(path);
    seconds(|| {
        for group in lines.groups(at_a_time) {
            file.write_all(group).expect("written");
            file.sync_data().expect("synced");
        }
    })
}

fn file(path: &Path) -> File {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true);
    options.open(path).expect("a file")
}

/// Writes back what waits, so that it is not the next side that pays for it.
fn settle(file: &File) {
    file.sync_all().expect("synced");
}

/// What a reader without an index does: parse the key fields of every line.
pub fn scan(store: &Path) -> f64 {
    #[derive(serde::Deserialize)]
    #[allow(dead_code)]
    struct Keys {
        seq: u64,
        at: i64,
        request_id: Uuid,
        call_id: String,
        parent_id: Option<Uuid>,
    }
    let files = segments(store);
    seconds(|| {
        for file in &files {
            let bytes = std::fs::read(file).expect("a segment");
            for line in bytes.split_inclusive(|b| *b == b'\n') {
                black_box(serde_json::from_slice::<Keys>(line).expect("a line"));
            }
        }
    })
}
