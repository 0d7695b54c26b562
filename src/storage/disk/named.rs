//! The store's directory, addressed by its name: for systems on which a directory cannot be held
//! open, or where that is not implemented. If the directory is moved and replaced by another one,
//! an open store writes to the new one.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{Access, Entry, FileStat, FileTimes, sys, uninterrupted};

#[derive(Debug)]
pub(super) struct Place {
    root: PathBuf,
}

impl Place {
    #[allow(clippy::unnecessary_wraps)]
    pub(super) fn open(root: &Path) -> io::Result<Place> {
        let root = root.to_path_buf();
        Ok(Place { root })
    }

    pub(super) fn is_at(&self, root: &Path) -> io::Result<bool> {
        fs::metadata(root).map(|_| true)
    }

    // The first write will fail instead.
    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn check_writable(&self) -> io::Result<()> {
        Ok(())
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self)]
    pub(super) fn free_bytes(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn path(&self, relative: &str) -> PathBuf {
        if relative.is_empty() {
            self.root.clone()
        } else {
            self.root.join(relative)
        }
    }

    pub(super) fn open_file(&self, path: &str, access: Access) -> io::Result<File> {
        let path = self.path(path);
        let mut options = OpenOptions::new();
        sys::at_once(options.read(true));
        match access {
            Access::Read => {}
            Access::Append => _ = options.append(true),
            Access::Overwrite => _ = options.write(true),
        }
        match options.open(&path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && access != Access::Read => {
                let file = sys::private(options.create(true)).open(&path)?;
                sys::make_private_file(&file)?;
                Ok(file)
            }
            opened => opened,
        }
    }

    pub(super) fn stat(&self, path: &str) -> io::Result<FileStat> {
        uninterrupted(|| sys::stat_path(&self.path(path)))
    }

    pub(super) fn times(&self, path: &str) -> io::Result<Option<FileTimes>> {
        let path = self.path(path);
        Ok(sys::times(&uninterrupted(|| fs::metadata(&path))?))
    }

    pub(super) fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(self.path(dir))? {
            let entry = entry?;
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                // The file was removed after it was listed.
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let kind = match kind {
                kind if kind.is_symlink() => {
                    fs::metadata(entry.path()).map(|found| found.file_type())
                }
                kind => Ok(kind),
            };
            entries.push(Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                // A dangling link is neither a directory nor a file.
                is_dir: kind.as_ref().is_ok_and(fs::FileType::is_dir),
                is_file: kind.is_ok_and(|kind| kind.is_file()),
            });
        }
        Ok(entries)
    }

    pub(super) fn create_dir(&self, dir: &str) -> io::Result<bool> {
        super::create_private_dir(&self.path(dir))
    }

    pub(super) fn set_read_only(&self, path: &str) -> io::Result<()> {
        sys::set_read_only(&self.path(path))
    }

    pub(super) fn sync_dir(&self, dir: &str) -> io::Result<()> {
        sys::sync_dir(&self.path(dir))
    }

    pub(super) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let to = self.path(to);
        sys::let_go(&to)?;
        fs::rename(self.path(from), to)
    }

    pub(super) fn remove_dir(&self, dir: &str) -> io::Result<()> {
        fs::remove_dir(self.path(dir))
    }

    pub(super) fn remove_file(&self, path: &str) -> io::Result<()> {
        let path = self.path(path);
        sys::let_go(&path)?;
        fs::remove_file(path)
    }
}
