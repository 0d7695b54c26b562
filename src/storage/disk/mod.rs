//! Storage on disk. The parts that differ between operating systems are in `disk/` and `volume`.

#[cfg(target_os = "linux")]
mod held;
#[cfg(not(target_os = "linux"))]
mod named;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

#[cfg(target_os = "linux")]
use self::held::Place;
#[cfg(not(target_os = "linux"))]
use self::named::Place;
#[cfg(unix)]
use self::unix as sys;
#[cfg(windows)]
use self::windows as sys;
use super::volume::volume_of;
use super::{
    Access, Entry, FileStat, FileTimes, Storage, StorageFile, Volume, Words, read_full,
    uninterrupted,
};

/// Longer appends are split. The bytes just gathered are then still in the processor cache. Linux
/// allocates page-cache memory in runs as long as the write, and long runs are slow to find.
const APPEND_BYTES_MAX: usize = 64 << 10;

/// A directory on disk.
#[derive(Debug)]
pub struct Disk {
    root: PathBuf,
    /// The directory, once it exists.
    place: OnceLock<Place>,
}

impl Disk {
    /// A store in this directory, which need not exist yet. A relative path is resolved in the
    /// current working directory. On Linux the directory is held open from its first use: if it is
    /// moved and another one takes its name, this still refers to the original.
    pub fn new(root: impl Into<PathBuf>) -> Disk {
        let root = root.into();
        // This fails for an empty path, which is invalid anyway.
        let root = std::path::absolute(&root).unwrap_or(root);
        let place = OnceLock::new();
        Disk { root, place }
    }

    fn place(&self) -> io::Result<&Place> {
        if let Some(place) = self.place.get() {
            return Ok(place);
        }
        let place = Place::open(&self.root)?;
        Ok(self.place.get_or_init(|| place))
    }
}

impl Storage for Disk {
    fn root(&self) -> &Path {
        &self.root
    }

    fn is_in_place(&self) -> io::Result<bool> {
        self.place()?.is_at(&self.root)
    }

    fn check_writable(&self) -> io::Result<()> {
        self.place()?.check_writable()
    }

    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        let place = self.place()?;
        uninterrupted(|| place.read_dir(dir))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.place()?.open_file(path, access)?;
        // Opening a pipe to read would block until there is a writer, and writes to a device are
        // lost.
        if !uninterrupted(|| sys::is_file(&file))? {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "this is not a regular file: move it away",
            ));
        }
        Ok(Arc::new(DiskFile { file, access }))
    }

    fn stat(&self, path: &str) -> io::Result<FileStat> {
        self.place()?.stat(path)
    }

    fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        self.place()?.times(path)
    }

    #[cfg(target_os = "linux")]
    fn mount_id(&self) -> Option<u64> {
        let mount = self.place().ok()?.mount_id().ok()??;
        let boot = uninterrupted(|| fs::read("/proc/sys/kernel/random/boot_id")).ok()?;
        Some(xxhash_rust::xxh3::xxh3_64_with_seed(&boot, mount))
    }

    #[cfg(target_os = "linux")]
    fn stat_and_times(&self, path: &str) -> io::Result<(FileStat, Option<FileTimes>)> {
        self.place()?.stat_and_times(path)
    }

    fn volume(&self) -> io::Result<Option<Volume>> {
        volume_of(&self.root)
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        self.place()?.free_bytes()
    }

    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        if !dir.is_empty() {
            return self.place()?.create_dir(dir);
        }
        if self.root.is_dir() {
            return Ok(false);
        }
        make_ancestors(&self.root)?;
        let is_new = create_private_dir(&self.root)?;
        if is_new {
            sys::sync_dir(&self.root.join(".."))?;
        }
        Ok(is_new)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.place()?.sync_dir(dir)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.place()?.rename(from, to)
    }

    fn set_read_only(&self, path: &str) -> io::Result<()> {
        self.place()?.set_read_only(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.place()?.remove_dir(dir)
    }

    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.place()?.remove_file(path)
    }
}

/// Maximum number of open files of this process.
pub(crate) fn open_files_max() -> usize {
    sys::open_files_max()
}

/// Creates a directory with access for its owner only; `false` if it exists.
fn create_private_dir(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    match sys::private_dir().create(path) {
        Ok(()) => {
            sys::make_private_dir(path)?;
            Ok(true)
        }
        // Another process was faster, or a file has the name.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(false),
        Err(e) => Err(e),
    }
}

/// Creates the missing directories above a path, durably.
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

    // An unreadable page, or no space to write one, is an error of a system call, but in mapped
    // memory it kills the process. So both are checked first.
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
