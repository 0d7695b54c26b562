//! The narrow trait through which the store accesses its files, and its two implementations: the
//! [`Disk`], and [`Memory`] for tests, which can fail, write short and lose power on demand.

mod disk;
mod map;
mod memory;
mod volume;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::Error;

pub use disk::Disk;
pub(crate) use disk::open_files_max;
pub use map::Words;
pub use memory::{Fault, Memory};
pub use volume::Volume;

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read an existing file.
    Read,
    /// Read and append; the file is created if it does not exist.
    Append,
    /// Read and overwrite in place; the file is created if it does not exist.
    Overwrite,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its directory. A name that is not UTF-8 is converted lossily and then
    /// cannot be opened.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_dir: bool,
    /// Whether it is a regular file, or a link to one.
    pub is_file: bool,
}

/// Metadata of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Its length in bytes.
    pub len: u64,
    /// Distinguishes this file from another one under the same name; 0 if the system has no such
    /// identity.
    pub identity: u64,
    /// Whether the file still has a name.
    pub is_linked: bool,
    /// Whether its mode forbids everyone to write it, as after [`Storage::set_read_only`].
    pub is_read_only: bool,
}

/// The times of a file's last changes, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTimes {
    /// Last change of its bytes.
    pub modified_ns: i64,
    /// Last change of its bytes, name, owner or mode. Programs cannot set this time.
    pub changed_ns: i64,
}

/// A file changed less than this time ago may be changed again without a change of its times,
/// since the clocks of file systems are coarse.
pub(crate) const SETTLED_NS: i64 = 2_000_000_000;

impl FileTimes {
    /// Whether a file that changed again after `at_ns` would have other times.
    pub(crate) fn are_settled(&self, at_ns: i64) -> bool {
        self.are_older_than(SETTLED_NS, at_ns)
    }

    /// Whether the last change was longer before `at_ns` than this.
    pub(crate) fn are_older_than(&self, age_ns: i64, at_ns: i64) -> bool {
        let changed_ns = self.modified_ns.max(self.changed_ns);
        changed_ns.saturating_add(age_ns) < at_ns
    }
}

/// The files of one store.
///
/// It stays bound to one directory: after the directory is moved and another one takes its place,
/// an open store does not write to the new one; see [`Storage::is_in_place`]. Paths are relative to
/// the store's directory, with `/` between their parts; an empty path is the store's directory
/// itself. Every implementation keeps this contract:
///
/// - **Visibility.** Bytes that [`StorageFile::append`] or [`StorageFile::write_at`] accepted are
///   seen by every later read of the file, through any handle, in any process.
/// - **Durability.** Such bytes survive a crash of the process at once. They survive a crash of the
///   machine or a power cut only after [`StorageFile::sync`] returned `Ok`, and a new name only
///   after [`Storage::sync_dir`] of its directory did. Bytes that were not synced may be present,
///   absent or present in part.
/// - **Failure.** A failed or short append may have added any prefix of its bytes. After a failed
///   sync it is unknown which bytes reached the disk; retrying the sync proves nothing either.
/// - **Locks** belong to the handle, exclude every other handle in every process, and end with the
///   handle or with the process.
pub trait Storage: Debug + Send + Sync {
    /// The location of the store, for messages.
    fn root(&self) -> &Path;

    /// Whether the store's path still refers to the directory that this storage used first. An
    /// error if the path does not exist.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Fails if files cannot be created in the store's directory, as far as the system can tell.
    fn check_writable(&self) -> io::Result<()> {
        Ok(())
    }

    /// The names in a directory, in any order.
    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>>;

    /// Opens a file. A file created here is accessible to its owner only.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>>;

    /// The length and identity of a file, without opening it.
    fn stat(&self, path: &str) -> io::Result<FileStat>;

    /// The times at which a file's bytes, and its bytes or metadata, last changed. `None` if the
    /// system does not support this. Separate from [`stat`](Storage::stat), because on Linux
    /// reading the times makes the next write slower.
    fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        let _ = path;
        Ok(None)
    }

    /// A number that changes whenever the system starts or the file system is mounted again. `None`
    /// if the system does not have one. What was not synced may be undone then, so what was seen
    /// before proves nothing.
    fn mount_id(&self) -> Option<u64> {
        None
    }

    /// Both [`stat`](Storage::stat) and [`times`](Storage::times).
    fn stat_and_times(&self, path: &str) -> io::Result<(FileStat, Option<FileTimes>)> {
        Ok((self.stat(path)?, self.times(path)?))
    }

    /// The file system that the store's directory is on, or will be on. `None` if the system does
    /// not support this.
    fn volume(&self) -> io::Result<Option<Volume>> {
        Ok(None)
    }

    /// Number of bytes that this process can still write to the store's directory. `None` if the
    /// system does not support this.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Creates a directory with access for its owner only, and the missing directories above the
    /// store's own. Not an error if it exists. Returns whether it was created.
    fn create_dir(&self, dir: &str) -> io::Result<bool>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Renames a file atomically, replacing an existing file.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;

    /// Removes write permission from a file's mode; the superuser may ignore it. Handles that are
    /// already open keep working, and the file can still be renamed, replaced and removed. The
    /// change is durable after [`StorageFile::sync`] returned `Ok` on a handle that was opened to
    /// read.
    fn set_read_only(&self, path: &str) -> io::Result<()>;

    /// Removes a file's name.
    fn remove_file(&self, path: &str) -> io::Result<()>;
}

/// An open file of a [`Storage`].
pub trait StorageFile: Debug + Send + Sync {
    /// Reads at an offset. Returns fewer bytes than requested at the end of the file, and 0 past
    /// it.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Appends bytes to the file in one operation; returns how many were written.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Overwrites bytes at an offset; returns how many were written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the file's bytes durable (`fdatasync`); on a handle opened to read, also the read-only
    /// mode (`fsync`).
    fn sync(&self) -> io::Result<()>;

    /// The file's length and identity.
    fn stat(&self) -> io::Result<FileStat>;

    /// Maps the first `count` 64-bit words of the file as memory shared by all processes. They can
    /// be loaded and, if the file was opened to write, stored. The file must be that long and must
    /// never be truncated. `None` if mapping is not possible; the words are then read and written
    /// as bytes.
    fn words(&self, count: usize) -> Option<Words> {
        let _ = count;
        None
    }

    /// Tries to take the exclusive lock; `false` if another handle holds it.
    fn try_lock(&self) -> io::Result<bool>;

    /// Releases the lock.
    fn unlock(&self) -> io::Result<()>;
}

/// The path of a file of the store, for messages.
pub(crate) fn full_path(storage: &dyn Storage, path: &str) -> PathBuf {
    if path.is_empty() {
        storage.root().to_path_buf()
    } else {
        storage.root().join(path)
    }
}

/// The error of a failed operation on a file of the store.
pub(crate) fn io_error(storage: &dyn Storage, doing: &str, path: &str, e: io::Error) -> Error {
    Error::io(doing, &full_path(storage, path), e)
}

/// Whether a file, or its directory, no longer exists.
pub(crate) fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The result; `None` if the file, or its directory, no longer exists.
pub(crate) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if is_gone(&e) => Ok(None),
        found => found.map(Some),
    }
}

/// Removes a file's name, unless it is already removed.
pub(crate) fn remove_if_there(storage: &dyn Storage, path: &str) -> io::Result<()> {
    if_there(storage.remove_file(path)).map(drop)
}

/// Reads a whole file.
pub(crate) fn read_all(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.stat()?.len).unwrap_or(usize::MAX)];
    let read = read_full(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// An open file with its identity, which distinguishes it from a later file of the same name.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub file: Arc<dyn StorageFile>,
    pub identity: u64,
}

impl Named {
    pub(crate) fn open(storage: &dyn Storage, path: &str, access: Access) -> io::Result<Named> {
        let file = storage.open(path, access)?;
        let identity = file.stat()?.identity;
        Ok(Named { file, identity })
    }

    /// Whether `path` still refers to this file.
    pub(crate) fn is_current(&self, storage: &dyn Storage, path: &str) -> io::Result<bool> {
        match storage.stat(path) {
            Ok(found) => Ok(found.identity == self.identity),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
        }
    }
}

/// Retries after an interruption by a signal. Only for calls without side effects.
fn uninterrupted<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match ask() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

/// Reads from `offset` until `buf` is full or the file ends; returns how much was read.
pub(crate) fn read_full(file: &dyn StorageFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buf.len() {
        match file.read_at(&mut buf[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Appends all of `bytes`. A short append is continued where it stopped, which is safe only under
/// the store's lock.
pub(crate) fn append_all(file: &dyn StorageFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.append(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n.min(bytes.len())..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Overwrites all of `bytes` at `offset`.
pub(crate) fn write_all_at(
    file: &dyn StorageFile,
    mut bytes: &[u8],
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => {
                offset += n as u64;
                bytes = &bytes[n.min(bytes.len())..];
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes `bytes` to `path` atomically and durably: a temporary file in the same directory, fsync,
/// rename, fsync of the directory.
pub(crate) fn replace_file(storage: &dyn Storage, path: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file_after(storage, path, bytes, |_| Ok(()))
}

/// As [`replace_file`], but calls `ready` with the temporary file's path after that file is durable
/// and before it is renamed.
pub(crate) fn replace_file_after(
    storage: &dyn Storage,
    path: &str,
    bytes: &[u8],
    ready: impl FnOnce(&str) -> io::Result<()>,
) -> io::Result<()> {
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    put_in_place(storage, path, bytes, |file, temporary| {
        file.sync()?;
        ready(temporary)
    })?;
    storage.sync_dir(dir)
}

/// As [`replace_file`], but without fsync, which takes milliseconds. After a power cut the file may
/// have any contents.
pub(crate) fn replace_file_unsynced(
    storage: &dyn Storage,
    path: &str,
    bytes: &[u8],
) -> io::Result<()> {
    put_in_place(storage, path, bytes, |_, _| Ok(()))
}

/// Writes a temporary file, and renames it when it is `ready`. No other function here renames.
fn put_in_place(
    storage: &dyn Storage,
    path: &str,
    bytes: &[u8],
    ready: impl FnOnce(&dyn StorageFile, &str) -> io::Result<()>,
) -> io::Result<()> {
    let temporary = format!("{path}.tmp");
    remove_if_there(storage, &temporary)?;
    let replaced = (|| {
        let file = storage.open(&temporary, Access::Append)?;
        append_all(&*file, bytes)?;
        ready(&*file, &temporary)?;
        storage.rename(&temporary, path)
    })();
    if replaced.is_err() {
        // The temporary file would take up space, which may be what is missing.
        let _ = storage.remove_file(&temporary);
    }
    replaced
}
