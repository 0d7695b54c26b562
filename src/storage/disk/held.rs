//! The store's directory, held open by a descriptor: every path is resolved in that directory, even
//! if it is renamed or the working directory changes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    Access as Permission, AtFlags, CWD, Dir, FileType, Mode, OFlags, Statx, StatxFlags, accessat,
    chmodat, fstatvfs, mkdirat, openat, renameat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::sys::{FILE_STAT, file_stat, make_private_file};
use super::{Access, Entry, FileStat, FileTimes, uninterrupted};

#[derive(Debug)]
pub(super) struct Place {
    dir: OwnedFd,
    identity: u64,
}

impl Place {
    pub(super) fn open(root: &Path) -> io::Result<Place> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = uninterrupted(|| Ok(openat(CWD, root, flags, Mode::empty())?))?;
        let stat = uninterrupted(|| Ok(statx(&dir, c"", AtFlags::EMPTY_PATH, FILE_STAT)?))?;
        let identity = file_stat(&stat).identity;
        Ok(Place { dir, identity })
    }

    pub(super) fn is_at(&self, root: &Path) -> io::Result<bool> {
        let found = uninterrupted(|| Ok(statx(CWD, root, AtFlags::empty(), FILE_STAT)?))?;
        Ok(file_stat(&found).identity == self.identity)
    }

    // For the superuser, this fails only on a read-only file system.
    pub(super) fn check_writable(&self) -> io::Result<()> {
        let needed = Permission::WRITE_OK | Permission::EXEC_OK;
        match accessat(&self.dir, ".", needed, AtFlags::EACCESS) {
            // The kernel cannot check this here: the first write will fail instead.
            Err(Errno::NOSYS | Errno::INVAL) => Ok(()),
            asked => Ok(asked?),
        }
    }

    pub(super) fn free_bytes(&self) -> io::Result<Option<u64>> {
        let found = uninterrupted(|| Ok(fstatvfs(&self.dir)?))?;
        // Some file systems do not report sizes.
        if found.f_blocks == 0 {
            return Ok(None);
        }
        // Only the superuser can use the reserved blocks.
        let blocks = if geteuid().is_root() {
            found.f_bfree
        } else {
            found.f_bavail
        };
        Ok(Some(blocks.saturating_mul(found.f_frsize)))
    }

    pub(super) fn open_file(&self, path: &str, access: Access) -> io::Result<File> {
        // Opening a pipe would block until its other end is opened, and a terminal could become the
        // controlling terminal of this process.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let flags = flags
            | match access {
                Access::Read => OFlags::RDONLY,
                Access::Append => OFlags::RDWR | OFlags::APPEND,
                Access::Overwrite => OFlags::RDWR,
            };
        let open = |flags, mode| uninterrupted(|| Ok(openat(&self.dir, path, flags, mode)?));
        if access == Access::Read {
            // Updating the access time costs a tenth of a short read. Only the file's owner may
            // leave it out.
            match open(flags | OFlags::NOATIME, Mode::empty()) {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
                opened => return Ok(opened?.into()),
            }
        }
        match open(flags, Mode::empty()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && access != Access::Read => {
                let file = open(flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR)?.into();
                make_private_file(&file)?;
                Ok(file)
            }
            opened => Ok(opened?.into()),
        }
    }

    fn open_dir(&self, dir: &str) -> io::Result<File> {
        // The name may belong to something other than a directory by now.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let dir = if dir.is_empty() { "." } else { dir };
        let opened = uninterrupted(|| Ok(openat(&self.dir, dir, flags, Mode::empty())?))?;
        Ok(opened.into())
    }

    pub(super) fn stat(&self, path: &str) -> io::Result<FileStat> {
        Ok(file_stat(&self.statx(path, FILE_STAT)?))
    }

    pub(super) fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        Ok(times_of(&self.statx(path, FILE_TIMES)?))
    }

    /// The number of the mount that the directory is on. It is never given to another mount. `None`
    /// before Linux 6.8.
    pub(super) fn mount_id(&self) -> io::Result<Option<u64>> {
        let stat = self.statx("", MOUNT_ID)?;
        let is_known = stat.stx_mask & MOUNT_ID.bits() != 0;
        Ok(is_known.then_some(stat.stx_mnt_id))
    }

    pub(super) fn stat_and_times(&self, path: &str) -> io::Result<(FileStat, Option<FileTimes>)> {
        let stat = self.statx(path, FILE_STAT | FILE_TIMES)?;
        Ok((file_stat(&stat), times_of(&stat)))
    }

    fn statx(&self, path: &str, wanted: StatxFlags) -> io::Result<Statx> {
        let path = if path.is_empty() { "." } else { path };
        uninterrupted(|| Ok(statx(&self.dir, path, AtFlags::empty(), wanted)?))
    }

    pub(super) fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        let file = self.open_dir(dir)?;
        let mut names = Dir::read_from(&file)?;
        let mut entries = Vec::new();
        while let Some(found) = names.read() {
            let found = found?;
            let name = found.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let kind = match found.file_type() {
                FileType::Unknown => kind_of(&file, name, AtFlags::SYMLINK_NOFOLLOW),
                known => Ok(known),
            };
            let kind = match kind {
                Ok(FileType::Symlink) => kind_of(&file, name, AtFlags::empty()),
                // The file was removed after it was listed.
                Err(Errno::NOENT) => continue,
                kind => Ok(kind?),
            };
            entries.push(Entry {
                name: name.to_string_lossy().into_owned(),
                // A dangling link is neither a directory nor a file.
                is_dir: kind.is_ok_and(FileType::is_dir),
                is_file: kind.is_ok_and(FileType::is_file),
            });
        }
        Ok(entries)
    }

    pub(super) fn create_dir(&self, dir: &str) -> io::Result<bool> {
        if self.is_dir(dir) {
            return Ok(false);
        }
        match mkdirat(&self.dir, dir, Mode::RWXU) {
            Ok(()) => {
                // The umask may have cleared the owner's own bits.
                self.set_mode(dir, Mode::RWXU)?;
                Ok(true)
            }
            // Another process was faster, or a file has the name.
            Err(Errno::EXIST) if self.is_dir(dir) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn is_dir(&self, dir: &str) -> bool {
        let found = self.statx(dir, StatxFlags::TYPE);
        found.is_ok_and(|stat| FileType::from_raw_mode(stat.stx_mode.into()).is_dir())
    }

    fn set_mode(&self, path: &str, mode: Mode) -> io::Result<()> {
        uninterrupted(|| Ok(chmodat(&self.dir, path, mode, AtFlags::empty())?))
    }

    pub(super) fn set_read_only(&self, path: &str) -> io::Result<()> {
        let mode = self.statx(path, StatxFlags::MODE)?.stx_mode & 0o7555;
        self.set_mode(path, Mode::from_raw_mode(mode.into()))
    }

    pub(super) fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.open_dir(dir)?.sync_all()
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.dir, from, &self.dir, to)?)
    }

    pub(super) fn remove_dir(&self, dir: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, dir, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, path, AtFlags::empty())?)
    }
}

/// `STATX_MNT_ID_UNIQUE`.
const MOUNT_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

const FILE_TIMES: StatxFlags = StatxFlags::MTIME.union(StatxFlags::CTIME);

fn times_of(stat: &Statx) -> Option<FileTimes> {
    let ns = |seconds: i64, ns| seconds.checked_mul(1_000_000_000)?.checked_add(ns);
    Some(FileTimes {
        modified_ns: ns(stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec.into())?,
        changed_ns: ns(stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec.into())?,
    })
}

fn kind_of(dir: &File, name: &std::ffi::CStr, flags: AtFlags) -> Result<FileType, Errno> {
    let stat = statx(dir, name, flags, StatxFlags::TYPE)?;
    Ok(FileType::from_raw_mode(stat.stx_mode.into()))
}
