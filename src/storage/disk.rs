//! The disk. What differs between operating systems is in this file and in `volume`.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

#[cfg(unix)]
mod sys {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::FileTimes;

    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    // Opening a pipe would wait for the other end, and a terminal might become this process's own.
    pub(super) fn at_once(options: &mut OpenOptions) {
        let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
        options.custom_flags(flags.bits().cast_signed());
    }

    pub(super) fn private_dir() -> DirBuilder {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        builder
    }

    // The umask may have taken the owner's own bits.
    pub(super) fn make_private_file(file: &File) -> io::Result<()> {
        file.set_permissions(Permissions::from_mode(0o600))
    }

    pub(super) fn make_private_dir(dir: &Path) -> io::Result<()> {
        fs::set_permissions(dir, Permissions::from_mode(0o700))
    }

    pub(super) fn set_read_only(path: &Path) -> io::Result<()> {
        let mode = fs::metadata(path)?.mode();
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7555))
    }

    pub(super) fn sync_mode(file: &File) -> io::Result<()> {
        file.sync_all()
    }

    // A name belongs to its directory here, whatever the file's mode.
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn let_go(_: &Path) -> io::Result<()> {
        Ok(())
    }

    // Something else may have its name by now, and opening a pipe would wait for the other end.
    pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
        let flags = OFlags::DIRECTORY.union(OFlags::NONBLOCK);
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        options.open(dir)?.sync_all()
    }

    pub(super) fn times(metadata: &Metadata) -> Option<FileTimes> {
        let ns = |seconds: i64, ns| seconds.checked_mul(1_000_000_000)?.checked_add(ns);
        Some(FileTimes {
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec())?,
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec())?,
        })
    }

    // Without the C library, to which every read is a point at which the thread may be cancelled.
    #[cfg(target_os = "linux")]
    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(file, buf, offset)?)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.read_at(buf, offset)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.write_at(bytes, offset)
    }

    /// Whether a file's first bytes have their place on the disk: a hole has none.
    #[cfg(target_os = "linux")]
    pub(super) fn is_whole(file: &File, len: u64) -> bool {
        rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole >= len)
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_whole(_: &File, _: u64) -> bool {
        true
    }

    /// Gives holes their place, if there is room.
    #[cfg(target_os = "linux")]
    pub(super) fn fill(file: &File, len: u64) -> bool {
        rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, len).is_ok()
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn fill(_: &File, _: u64) -> bool {
        true
    }

    // Asked without timestamps: on Linux, who reads them makes the next write bring them up to
    // date, which costs more than the rest of a small write.
    #[cfg(target_os = "linux")]
    mod stat {
        use std::ffi::{CStr, OsStr};
        use std::fs::File;
        use std::io;
        use std::os::unix::ffi::OsStrExt;
        use std::path::Path;

        use rustix::fs::{AtFlags, CWD, FileType, Statx, StatxFlags, statx};

        use super::super::FileStat;

        const WANTED: StatxFlags = StatxFlags::SIZE
            .union(StatxFlags::INO)
            .union(StatxFlags::NLINK)
            .union(StatxFlags::MODE)
            .union(StatxFlags::BTIME);

        // Every append asks, so the path is put together where it needs no allocation.
        pub(in super::super) fn stat_path(root: &Path, path: &str) -> io::Result<FileStat> {
            const SHORT: usize = 256;
            let root = root.as_os_str().as_bytes();
            let mut joined = [0; SHORT];
            let len = root.len() + 1 + path.len();
            let stat = if len < SHORT && !path.is_empty() {
                joined[..root.len()].copy_from_slice(root);
                joined[root.len()] = b'/';
                joined[root.len() + 1..len].copy_from_slice(path.as_bytes());
                let path = CStr::from_bytes_with_nul(&joined[..=len]);
                let path = path.map_err(|e| io::Error::new(io::ErrorKind::InvalidInput, e))?;
                statx(CWD, path, AtFlags::empty(), WANTED)?
            } else {
                let path = Path::new(OsStr::from_bytes(root)).join(path);
                statx(CWD, path, AtFlags::empty(), WANTED)?
            };
            Ok(found(&stat))
        }

        pub(in super::super) fn stat_file(file: &File) -> io::Result<FileStat> {
            Ok(found(&statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?))
        }

        pub(in super::super) fn is_file(file: &File) -> io::Result<bool> {
            let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
            Ok(FileType::from_raw_mode(stat.stx_mode.into()).is_file())
        }

        fn found(stat: &Statx) -> FileStat {
            let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
            // Zero where the file system does not keep it.
            let born = stat
                .stx_btime
                .tv_sec
                .cast_unsigned()
                .wrapping_mul(1_000_000_000)
                ^ u64::from(stat.stx_btime.tv_nsec);
            // The number alone would be given to another file once this one is gone.
            let identity = stat.stx_ino ^ device.rotate_left(40) ^ born.rotate_left(20);
            FileStat {
                len: stat.stx_size,
                identity: identity.max(1),
                is_linked: stat.stx_nlink > 0,
                is_read_only: stat.stx_mode & 0o222 == 0,
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    mod stat {
        use std::fs::{self, File, Metadata};
        use std::io;
        use std::os::unix::fs::MetadataExt;
        use std::path::Path;

        use super::super::FileStat;

        pub(in super::super) fn stat_path(root: &Path, path: &str) -> io::Result<FileStat> {
            Ok(found(&fs::metadata(root.join(path))?))
        }

        pub(in super::super) fn stat_file(file: &File) -> io::Result<FileStat> {
            Ok(found(&file.metadata()?))
        }

        pub(in super::super) fn is_file(file: &File) -> io::Result<bool> {
            Ok(file.metadata()?.is_file())
        }

        fn found(metadata: &Metadata) -> FileStat {
            FileStat {
                len: metadata.len(),
                identity: (metadata.ino() ^ metadata.dev().rotate_left(40)).max(1),
                is_linked: metadata.nlink() > 0,
                is_read_only: metadata.mode() & 0o222 == 0,
            }
        }
    }

    pub(super) use stat::{is_file, stat_file, stat_path};
}

#[cfg(windows)]
mod sys {
    use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::{FileExt, MetadataExt};
    use std::path::Path;

    use super::{FileStat, FileTimes};

    pub(super) fn private_dir() -> DirBuilder {
        DirBuilder::new()
    }

    pub(super) fn at_once(_: &mut OpenOptions) {}

    // A user's own directories are private by their inherited access lists.
    pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options
    }

    pub(super) fn make_private_file(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn make_private_dir(_: &Path) -> io::Result<()> {
        Ok(())
    }

    // NTFS logs its directory changes in order; a directory handle cannot be flushed.
    pub(super) fn sync_dir(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn set_read_only(path: &Path) -> io::Result<()> {
        let mut permissions = fs::metadata(path)?.permissions();
        permissions.set_readonly(true);
        fs::set_permissions(path, permissions)
    }

    // A handle that may not write cannot flush either, and a file that is read-only gives no other:
    // who wrote it flushes it within a second.
    pub(super) fn sync_mode(_: &File) -> io::Result<()> {
        Ok(())
    }

    // A read-only file can be neither replaced nor removed.
    pub(super) fn let_go(path: &Path) -> io::Result<()> {
        let mut permissions = match fs::metadata(path) {
            Ok(found) if found.permissions().readonly() => found.permissions(),
            _ => return Ok(()),
        };
        #[allow(clippy::permissions_set_readonly_false)]
        permissions.set_readonly(false);
        fs::set_permissions(path, permissions)
    }

    // The time of the last change of anything is not to be had.
    pub(super) fn times(_: &Metadata) -> Option<FileTimes> {
        None
    }

    pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        file.seek_read(buf, offset)
    }

    pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        file.seek_write(bytes, offset)
    }

    // A file is written as a whole.
    pub(super) fn is_whole(_: &File, _: u64) -> bool {
        true
    }

    pub(super) fn fill(_: &File, _: u64) -> bool {
        true
    }

    pub(super) fn stat_path(root: &Path, path: &str) -> io::Result<FileStat> {
        Ok(found(&fs::metadata(root.join(path))?))
    }

    pub(super) fn stat_file(file: &File) -> io::Result<FileStat> {
        Ok(found(&file.metadata()?))
    }

    pub(super) fn is_file(file: &File) -> io::Result<bool> {
        Ok(file.metadata()?.is_file())
    }

    fn found(metadata: &Metadata) -> FileStat {
        FileStat {
            len: metadata.len(),
            identity: metadata.creation_time().max(1),
            is_linked: true,
            is_read_only: metadata.permissions().readonly(),
        }
    }
}
