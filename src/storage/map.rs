//! Maps the words of a file as memory that processes share. One of four modules with unsafe code;
//! the others return memory to the system, use vector instructions, and declare tables to SQLite.

#![allow(unsafe_code)]

use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

const WORD_BYTES: usize = size_of::<u64>();

/// The first 64-bit words of a file, little-endian, mapped.
///
/// A value that one process stores can be loaded by every other process that maps the file, without
/// a system call. A load that sees a store also sees all earlier stores of the same process.
///
/// If a file is truncated while it is mapped, processes that touch the missing part are killed, as
/// with `SQLite`'s `-shm` file. So only files that no other program should touch are mapped.
#[derive(Debug)]
pub struct Words {
    map: MmapRaw,
    count: usize,
    is_writable: bool,
}

impl Words {
    pub(super) fn map(file: &File, count: usize) -> Option<Words> {
        Some(Words {
            map: options(file, count)?.map_raw(file).ok()?,
            count,
            is_writable: true,
        })
    }

    /// Maps words for loads only.
    pub(super) fn map_to_read(file: &File, count: usize) -> Option<Words> {
        Some(Words {
            map: options(file, count)?.map_raw_read_only(file).ok()?,
            count,
            is_writable: false,
        })
    }

    /// The word at an index; 0 past the last one.
    pub fn load(&self, place: usize) -> u64 {
        self.word(place)
            .map_or(0, |word| u64::from_le(word.load(Ordering::Acquire)))
    }

    /// Stores a word. Does nothing past the last one, or if the file was opened to read.
    pub fn store(&self, place: usize, value: u64) {
        if let Some(word) = self.word(place).filter(|_| self.is_writable) {
            word.store(value.to_le(), Ordering::Release);
        }
    }

    // A mapping is page-aligned.
    #[allow(clippy::cast_ptr_alignment)]
    fn word(&self, place: usize) -> Option<&AtomicU64> {
        if place >= self.count {
            return None;
        }
        // SAFETY: the mapping lives as long as `self` and has at least `count` words. It is
        // page-aligned and so aligned for a word, and all processes access it through atomics only.
        Some(unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast::<u64>().add(place)) })
    }
}

/// `None` if the file has fewer words: touching memory past its end kills the process.
fn options(file: &File, count: usize) -> Option<MmapOptions> {
    let len = count.checked_mul(WORD_BYTES)?;
    let has_all = file.metadata().ok()?.len() >= len as u64;
    has_all.then(|| {
        let mut options = MmapOptions::new();
        options.len(len);
        options
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, OpenOptions};

    #[test]
    fn what_one_mapping_stores_another_loads_and_the_file_has() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("words");
        fs::write(&path, [0; 24]).unwrap();
        let open = |write| OpenOptions::new().read(true).write(write).open(&path);
        let writer = Words::map(&open(true).unwrap(), 3).unwrap();
        let reader = Words::map_to_read(&open(false).unwrap(), 3).unwrap();
        writer.store(1, 0x0102);
        writer.store(3, 7);
        reader.store(0, 7);
        assert_eq!(
            [0, 1, 2, 3].map(|place| reader.load(place)),
            [0, 0x0102, 0, 0]
        );
        assert_eq!(fs::read(&path).unwrap()[8..10], [2, 1]);
        assert!(Words::map(&open(true).unwrap(), 4).is_none());
    }
}
