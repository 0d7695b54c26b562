//! Windows-specific parts.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, MetadataExt};
use std::path::Path;

use super::{FileStat, FileTimes};

pub(super) fn private_dir() -> DirBuilder {
    DirBuilder::new()
}

// There is no limit that matters.
pub(super) fn open_files_max() -> usize {
    usize::MAX
}

pub(super) fn at_once(_: &mut OpenOptions) {}

// A user's own directories are private through inherited access lists.
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

// A handle without write access cannot flush, and a read-only file allows no other handle. The
// writer's own handle flushes it within a second.
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

// The time of the last change of metadata is not available.
pub(super) fn times(_: &Metadata) -> Option<FileTimes> {
    None
}

pub(super) fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek_read(buf, offset)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.seek_write(bytes, offset)
}

// Files have no holes here.
pub(super) fn is_whole(_: &File, _: u64) -> bool {
    true
}

pub(super) fn fill(_: &File, _: u64) -> bool {
    true
}

pub(super) fn stat_path(path: &Path) -> io::Result<FileStat> {
    Ok(found(&fs::metadata(path)?))
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
