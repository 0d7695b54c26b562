//! The disk. What differs between operating systems is in `disk/` and in `volume`.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(unix)]
use self::unix as sys;
#[cfg(windows)]
use self::windows as sys;
use super::volume::volume_of;
use super::{Access, Entry, FileStat, FileTimes, Storage, StorageFile, Volume, Words, read_full};

/// More is appended piece by piece: what was just gathered is still in the processor's cache, and
/// Linux takes memory for the page cache in runs as long as the write, which long ones are slow
/// to be found.
const APPEND_BYTES_MAX: usize = 64 << 10;

/// A directory on disk.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
}

impl Disk {
    /// The store in this directory, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Disk {
        Disk { root: root.into() }
    }

    fn path(&self, relative: &str) -> PathBuf {
        if relative.is_empty() {
            self.root.clone()
        } else {
            self.root.join(relative)
        }
    }
}

impl Storage for Disk {
    fn root(&self) -> &Path {
        &self.root
    }

    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        let path = self.path(dir);
        uninterrupted(|| read_dir(&path))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let path = self.path(path);
        let mut options = OpenOptions::new();
        sys::at_once(options.read(true));
        match access {
            Access::Read => {}
            Access::Append => _ = options.append(true),
            Access::Overwrite => _ = options.write(true),
        }
        let file = match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && access != Access::Read => {
                let file = sys::private(options.create(true)).open(&path)?;
                sys::make_private_file(&file)?;
                file
            }
            other => other?,
        };
        // Whoever reads a pipe waits for its writer, and what is written to a device is gone.
        if !uninterrupted(|| sys::is_file(&file))? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this is not a regular file: move it away",
            ));
        }
        Ok(Arc::new(DiskFile { file, access }))
    }

    fn stat(&self, path: &str) -> io::Result<FileStat> {
        uninterrupted(|| sys::stat_path(&self.root, path))
    }

    fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        let path = self.path(path);
        Ok(sys::times(&uninterrupted(|| fs::metadata(&path))?))
    }

    fn volume(&self) -> io::Result<Option<Volume>> {
        volume_of(&self.root)
    }

    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        let path = self.path(dir);
        if path.is_dir() {
            return Ok(false);
        }
        if dir.is_empty() {
            make_ancestors(&path)?;
        }
        match sys::private_dir().create(&path) {
            Ok(()) => {
                sys::make_private_dir(&path)?;
                if dir.is_empty() {
                    sys::sync_dir(&path.join(".."))?;
                }
                Ok(true)
            }
            // Another process was quicker, or the name is taken by a file.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sys::sync_dir(&self.path(dir))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.path(to);
        sys::let_go(&to)?;
        fs::rename(self.path(from), to)
    }

    fn set_read_only(&self, path: &str) -> io::Result<()> {
        sys::set_read_only(&self.path(path))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        fs::remove_dir(self.path(dir))
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        let path = self.path(path);
        sys::let_go(&path)?;
        fs::remove_file(path)
    }
}

/// Asks again after a signal came in between. Only for what changes nothing.
fn uninterrupted<T>(mut ask: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match ask() {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            answer => return answer,
        }
    }
}

fn read_dir(path: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            // Taken away since it was listed.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(e),
        };
        let kind = match kind {
            kind if kind.is_symlink() => fs::metadata(entry.path()).map(|found| found.file_type()),
            kind => Ok(kind),
        };
        entries.push(Entry {
            name: entry.file_name().to_string_lossy().into_owned(),
            // A link that leads nowhere is neither.
            is_dir: kind.as_ref().is_ok_and(fs::FileType::is_dir),
            is_file: kind.is_ok_and(|kind| kind.is_file()),
        });
    }
    Ok(entries)
}

/// Makes the missing directories above a path, and has each survive the machine.
fn make_ancestors(path: &Path) -> io::Result<()> {
    let is_missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let missing: Vec<&Path> = path.ancestors().skip(1).take_while(is_missing).collect();
    for dir in missing.into_iter().rev() {
        match fs::create_dir(dir) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => sys::sync_dir(&dir.join(".."))?,
        }
    }
    Ok(())
}

#[derive(Debug)]
struct DiskFile {
    file: File,
    access: Access,
}

impl StorageFile for DiskFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        sys::read_at(&self.file, buf, offset)
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(APPEND_BYTES_MAX);
        io::Write::write(&mut &self.file, &bytes[..taken])
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        sys::write_at(&self.file, bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.access {
            Access::Read => sys::sync_mode(&self.file),
            Access::Append | Access::Overwrite => self.file.sync_data(),
        }
    }

    fn stat(&self) -> io::Result<FileStat> {
        uninterrupted(|| sys::stat_file(&self.file))
    }

    // What cannot be read, or written for want of room, is an error of a call, but the end of the
    // process where it is memory: so that is found out before.
    fn words(&self, count: usize) -> Option<Words> {
        let mut bytes = vec![0; count.checked_mul(size_of::<u64>())?];
        if read_full(self, &mut bytes, 0).ok()? < bytes.len() {
            return None;
        }
        let len = bytes.len() as u64;
        match self.access {
            Access::Overwrite if sys::is_whole(&self.file, len) || sys::fill(&self.file, len) => {
                Words::map(&self.file, count)
            }
            Access::Read if sys::is_whole(&self.file, len) => Words::map_to_read(&self.file, count),
            _ => None,
        }
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(e)) => Err(e),
        }
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }
}
