//! How a source file is recognized: by its identity, length and times, else by its bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::import::agent::beside;
use crate::record::now;
use crate::storage::FileTimes;

const RECENT_NS: i64 = 86_400_000_000_000;
const READ_BYTES: usize = 256 << 10;

/// A file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stat {
    /// Device and inode.
    identity: u64,
    len: u64,
    modified_ns: i64,
    /// Programs cannot set this time.
    changed_ns: i64,
}

impl Stat {
    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Stat {
        use std::os::unix::fs::MetadataExt;
        let ns = |seconds: i64, ns| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Stat {
            identity: metadata.ino() ^ metadata.dev().rotate_left(40),
            len: metadata.len(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Without a time that programs cannot set, each import compares the bytes.
    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Stat {
        Stat {
            identity: 0,
            len: metadata.len(),
            modified_ns: 0,
            changed_ns: i64::MAX,
        }
    }

    /// Whether any later change also changes the times.
    fn is_settled(&self, settled_ns: i64) -> bool {
        let times = FileTimes {
            modified_ns: self.modified_ns,
            changed_ns: self.changed_ns,
        };
        times.are_older_than(settled_ns, now().saturating_mul(1_000_000))
    }
}

/// A source file as it was found, with the file beside it that is read as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::import) struct Source {
    stat: Stat,
    /// Such as the metadata file of a sub-agent, or the write-ahead log of a database.
    beside: Option<Stat>,
    /// Whether the times suffice to notice later changes.
    is_settled: bool,
}

impl Source {
    /// `None` if it is not a regular file. `settled_ns`: the age at which times suffice.
    pub(in crate::import) fn of(
        path: &Path,
        metadata: &Metadata,
        settled_ns: i64,
    ) -> Option<Source> {
        if !metadata.is_file() {
            return None;
        }
        let stat = Stat::of(metadata);
        let beside = beside(path).and_then(|path| fs::metadata(path).ok());
        let beside = beside.as_ref().map(Stat::of);
        Some(Source {
            stat,
            beside,
            is_settled: stat.is_settled(settled_ns)
                && beside.is_none_or(|stat| stat.is_settled(settled_ns)),
        })
    }

    /// Whether the file changed in the last day, so that it may well grow.
    pub(super) fn is_recent(&self) -> bool {
        !self.stat.is_settled(RECENT_NS)
    }

    pub(in crate::import) fn len(&self) -> u64 {
        self.stat.len
    }

    /// Whether this is what was `known`, by the times.
    pub(in crate::import) fn is_same_as(&self, known: &Source) -> bool {
        known.is_settled && (self.stat, self.beside) == (known.stat, known.beside)
    }

    /// Whether this can be what was `known`, with more bytes at its end.
    pub(super) fn may_extend(&self, known: &Source) -> bool {
        (self.stat.identity, self.beside) == (known.stat.identity, known.beside)
            && (known.is_settled || known.beside.is_none())
    }
}

/// Reads the first bytes of a file. Returns their hash, to be continued; `None` if the file is
/// shorter.
pub(super) fn hash_start(file: &mut File, len: u64) -> io::Result<Option<Xxh3>> {
    let mut hash = Xxh3::new();
    let mut input = Hashed::new(file, Some(&mut hash)).take(len);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    let is_whole = input.limit() == 0;
    Ok(is_whole.then_some(hash))
}

/// Reads an input and hashes what was read.
pub(in crate::import) struct Hashed<'a, R> {
    input: R,
    hash: Option<&'a mut Xxh3>,
}

impl<'a, R> Hashed<'a, R> {
    pub(in crate::import) fn new(input: R, hash: Option<&'a mut Xxh3>) -> Hashed<'a, R> {
        Hashed { input, hash }
    }
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buf)?;
        if let Some(hash) = &mut self.hash {
            hash.update(buf.get(..read).unwrap_or_default());
        }
        Ok(read)
    }
}
