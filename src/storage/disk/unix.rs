//! Unix-specific parts.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

pub(super) fn private_dir() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

// The umask may have cleared the owner's own bits.
pub(super) fn make_private_file(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(0o600))
}

pub(super) fn make_private_dir(dir: &Path) -> io::Result<()> {
    fs::set_permissions(dir, Permissions::from_mode(0o700))
}

/// Maximum number of open files of this process.
pub(super) fn open_files_max() -> usize {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).current;
    limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    })
}

pub(super) fn sync_mode(file: &File) -> io::Result<()> {
    file.sync_all()
}

// The name may belong to something other than a directory by now, and opening a pipe would block.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY.union(OFlags::NONBLOCK);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    options.open(dir)?.sync_all()
}

// Bypasses the C library, in which every read is a thread cancellation point.
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

/// Whether the start of a file is allocated on disk, that is, has no holes.
#[cfg(target_os = "linux")]
pub(super) fn is_whole(file: &File, len: u64) -> bool {
    rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(0)).is_ok_and(|hole| hole >= len)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_whole(_: &File, _: u64) -> bool {
    true
}

/// Allocates disk space for holes, if there is enough.
#[cfg(target_os = "linux")]
pub(super) fn fill(file: &File, len: u64) -> bool {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, len).is_ok()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn fill(_: &File, _: u64) -> bool {
    true
}

#[cfg(target_os = "linux")]
mod stat {
    use std::fs::File;
    use std::io;

    use rustix::fs::{AtFlags, FileType, Statx, StatxFlags, statx};

    use super::super::FileStat;

    // Without timestamps: after they are read, the next write has to update them, which costs more
    // than the rest of a small write.
    pub(in super::super) const FILE_STAT: StatxFlags = StatxFlags::SIZE
        .union(StatxFlags::INO)
        .union(StatxFlags::NLINK)
        .union(StatxFlags::MODE)
        .union(StatxFlags::BTIME);

    pub(in super::super) fn stat_file(file: &File) -> io::Result<FileStat> {
        Ok(file_stat(&statx(
            file,
            c"",
            AtFlags::EMPTY_PATH,
            FILE_STAT,
        )?))
    }

    pub(in super::super) fn is_file(file: &File) -> io::Result<bool> {
        let stat = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::TYPE)?;
        Ok(FileType::from_raw_mode(stat.stx_mode.into()).is_file())
    }

    pub(in super::super) fn file_stat(stat: &Statx) -> FileStat {
        let device = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
        // Zero if the file system does not record it.
        let born = stat
            .stx_btime
            .tv_sec
            .cast_unsigned()
            .wrapping_mul(1_000_000_000)
            ^ u64::from(stat.stx_btime.tv_nsec);
        // The inode number alone may be reused for another file after this one is removed.
        let identity = stat.stx_ino ^ device.rotate_left(40) ^ born.rotate_left(20);
        FileStat {
            len: stat.stx_size,
            identity: identity.max(1),
            is_linked: stat.stx_nlink > 0,
            is_read_only: stat.stx_mode & 0o222 == 0,
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) use stat::{FILE_STAT, file_stat, is_file, stat_file};

/// Other Unix systems find the directory by its name.
#[cfg(not(target_os = "linux"))]
mod by_name {
    use std::fs::{self, File, Metadata, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;

    use super::super::{FileStat, FileTimes};

    pub(in super::super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
        options.mode(0o600)
    }

    // Opening a pipe would block, and a terminal could become the controlling terminal of this
    // process.
    pub(in super::super) fn at_once(options: &mut OpenOptions) {
        let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
        options.custom_flags(flags.bits().cast_signed());
    }

    pub(in super::super) fn set_read_only(path: &Path) -> io::Result<()> {
        let mode = fs::metadata(path)?.mode();
        fs::set_permissions(path, Permissions::from_mode(mode & 0o7555))
    }

    // Renaming or removing a name depends on its directory here, not on the file's mode.
    #[allow(clippy::unnecessary_wraps)]
    pub(in super::super) fn let_go(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(in super::super) fn times(metadata: &Metadata) -> Option<FileTimes> {
        let ns = |seconds: i64, ns| seconds.checked_mul(1_000_000_000)?.checked_add(ns);
        Some(FileTimes {
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec())?,
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec())?,
        })
    }

    pub(in super::super) fn stat_path(path: &Path) -> io::Result<FileStat> {
        Ok(found(&fs::metadata(path)?))
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

#[cfg(not(target_os = "linux"))]
pub(super) use by_name::{
    at_once, is_file, let_go, private, set_read_only, stat_file, stat_path, times,
};
