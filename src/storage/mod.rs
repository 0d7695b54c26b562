//! The narrow trait through which the store reaches its files, and its two implementations: the
//! [`Disk`], and [`Memory`] for tests, which fails, writes short and loses power on demand.

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
    /// To read what exists.
    Read,
    /// To read and append; the file is made if it is not there.
    Append,
    /// To read and overwrite in place; the file is made if it is not there.
    Overwrite,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, without its directory. A name that is not UTF-8 is given lossily, and can then
    /// not be opened.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_dir: bool,
    /// Whether it is a regular file, or a link to one.
    pub is_file: bool,
}

/// What is known of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// Its length in bytes.
    pub len: u64,
    /// What tells this file from another under the same name, where the system has such a thing;
    /// else 0.
    pub identity: u64,
    /// Whether the file still has a name.
    pub is_linked: bool,
    /// Whether its mode lets no one write it, as [`Storage::set_read_only`] leaves it.
    pub is_read_only: bool,
}

/// When a file changed, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileTimes {
    /// Its bytes.
    pub modified_ns: i64,
    /// Its bytes, name, owner or mode: no program sets this one at will.
    pub changed_ns: i64,
}

/// The files of one store.
///
/// One directory for good: who moves it away and puts another one in its place does not have what is
/// open write there, see [`Storage::is_in_place`]. Paths are relative to the store's directory, with `/` between their parts; an empty path is
/// the store's directory itself. The contract, which every implementation keeps:
///
/// - **Visibility.** Bytes that [`StorageFile::append`] or [`StorageFile::write_at`] took are
///   seen by every later read of the file, through any handle, in any process.
/// - **Survival.** They outlive the process at once. They outlive the machine only once
///   [`StorageFile::sync`] returned `Ok` after them, and a new name only once
///   [`Storage::sync_dir`] of its directory did. What was not synced may be there, in part, or not.
/// - **Failure.** A failed or short append may have added any prefix of its bytes. A failed
///   sync says nothing of what reached the disk; repeating it proves nothing either.
/// - **Locks** belong to the handle, exclude every other handle, in whatever process, and end
///   with it or with the process.
pub trait Storage: Debug + Send + Sync {
    /// Where the store is, for messages.
    fn root(&self) -> &Path;

    /// Whether the store's path still leads to the directory that was first used through this. An
    /// error if it leads nowhere.
    fn is_in_place(&self) -> io::Result<bool> {
        Ok(true)
    }

    /// Fails where files cannot be made in the store's directory, as far as the system tells.
    fn check_writable(&self) -> io::Result<()> {
        Ok(())
    }

    /// The names in a directory, in any order.
    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>>;

    /// Opens a file; a file made here can be read and written by its owner only.
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>>;

    /// The length and identity of a file that need not be open.
    fn stat(&self, path: &str) -> io::Result<FileStat>;

    /// When a file's bytes, and when anything about it, last changed. `None` where the system
    /// does not tell. Apart from [`stat`](Storage::stat), as on Linux asking makes the next write
    /// slower.
    fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        let _ = path;
        Ok(None)
    }

    /// What the store's directory lies on, or will lie on. `None` where the system does not tell.
    fn volume(&self) -> io::Result<Option<Volume>> {
        Ok(None)
    }

    /// How many bytes this process can still write to the store's directory. `None` where the system
    /// does not tell.
    fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Makes a directory, for its owner only, and the missing ones above the store's own; one that
    /// is there already is no error. Tells whether it was made.
    fn create_dir(&self, dir: &str) -> io::Result<bool>;

    /// Makes the names in a directory survive the machine.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;

    /// Gives a file another name in one step, replacing what had it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Takes an empty directory away.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;

    /// Lets no one open a file to write it any more, by its mode, which the superuser may ignore.
    /// Who has it open goes on, and it can still be renamed, replaced and removed. It survives the
    /// machine once [`StorageFile::sync`] returned `Ok` on a handle that was opened to read.
    fn set_read_only(&self, path: &str) -> io::Result<()>;

    /// Takes a file's name away.
    fn remove_file(&self, path: &str) -> io::Result<()>;
}

/// An open file of a [`Storage`].
pub trait StorageFile: Debug + Send + Sync {
    /// Reads at an offset: fewer bytes than asked for where the file ends, 0 past its end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Adds bytes at the end of the file, in one operation; returns how many were taken.
    fn append(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Overwrites bytes at an offset; returns how many were taken.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;

    /// Makes the file's bytes survive the machine (`fdatasync`); on a handle opened to read, also
    /// that the file is read-only (`fsync`).
    fn sync(&self) -> io::Result<()>;

    /// The file's length and identity.
    fn stat(&self) -> io::Result<FileStat>;

    /// The first `count` 64-bit words of the file as memory that all processes share, to load
    /// and, if the file was opened to write, to store. The file must be that long, and never be
    /// made shorter. `None` where that cannot be had: then they are read and written.
    fn words(&self, count: usize) -> Option<Words> {
        let _ = count;
        None
    }

    /// Tries to take the exclusive lock; `false` if another handle has it.
    fn try_lock(&self) -> io::Result<bool>;

    /// Gives the lock back.
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

/// The error of what could not be done to a file of the store.
pub(crate) fn io_error(storage: &dyn Storage, doing: &str, path: &str, e: io::Error) -> Error {
    Error::io(doing, &full_path(storage, path), e)
}

/// Whether a file's name, or its directory, is no longer there.
pub(crate) fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// What was found; `None` if its name, or its directory, is no longer there.
pub(crate) fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if is_gone(&e) => Ok(None),
        found => found.map(Some),
    }
}

/// Takes a file's name away, unless someone else did.
pub(crate) fn remove_if_there(storage: &dyn Storage, path: &str) -> io::Result<()> {
    if_there(storage.remove_file(path)).map(drop)
}

/// All bytes of a file.
pub(crate) fn read_all(file: &dyn StorageFile) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(file.stat()?.len).unwrap_or(usize::MAX)];
    let read = read_full(file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// An open file with its identity, which differs from that of a later file of the same name.
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

    /// Whether this is the file that others would find under `path`.
    pub(crate) fn is_current(&self, storage: &dyn Storage, path: &str) -> io::Result<bool> {
        match storage.stat(path) {
            Ok(found) => Ok(found.identity == self.identity),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(e),
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

/// Appends all of `bytes`. A short append is continued where it stopped, which only the holder
/// of the store's lock may do.
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

/// Puts `bytes` under `path` in one step that survives the machine: a temporary file in the same
/// directory, fsync, rename, fsync of the directory. Nothing else here renames.
pub(crate) fn replace_file(storage: &dyn Storage, path: &str, bytes: &[u8]) -> io::Result<()> {
    replace_file_after(storage, path, bytes, |_| Ok(()))
}

/// As [`replace_file`]; calls `ready` with the temporary file's path once that survives the
/// machine, before it takes the place of the other.
pub(crate) fn replace_file_after(
    storage: &dyn Storage,
    path: &str,
    bytes: &[u8],
    ready: impl FnOnce(&str) -> io::Result<()>,
) -> io::Result<()> {
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let temporary = format!("{path}.tmp");
    remove_if_there(storage, &temporary)?;
    let replaced = (|| {
        let file = storage.open(&temporary, Access::Append)?;
        append_all(&*file, bytes)?;
        file.sync()?;
        ready(&temporary)?;
        storage.rename(&temporary, path)
    })();
    if replaced.is_err() {
        // It would take up space that may be what is missing.
        let _ = storage.remove_file(&temporary);
    }
    replaced?;
    storage.sync_dir(dir)
}
