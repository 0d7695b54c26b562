//! Files in the store's directory other than segments: quarantined, left over, or foreign.

use std::io;

use crate::error::{Error, Result};
use crate::record::Day;
use crate::segment::SegmentName;
use crate::storage::{Access, full_path, is_gone, read_full, replace_file};
use crate::store::Inner;

/// Files other than segments, relative to the store.
#[derive(Debug, Default)]
pub(crate) struct OtherFiles {
    /// Files that repairs wrote.
    pub quarantined: Vec<String>,
    /// Partly written files of processes that died.
    pub leftovers: Vec<String>,
    /// Files of other programs.
    pub foreign: Vec<String>,
}

/// The store's own files and directories that hold none of what was recorded, or are looked at
/// apart.
const OWN: [&str; 7] = [
    "decklog.json",
    "access.json",
    "LOCK",
    "HEAD",
    "cache",
    "removals.jsonl",
    "quarantine",
];

impl Inner {
    pub(crate) fn other_files(&self) -> Result<OtherFiles> {
        let mut other_files = OtherFiles::default();
        for entry in self.names("")? {
            let name = &entry.name;
            match name.parse::<Day>() {
                Ok(day) if entry.is_dir => {
                    for file in self.names(name)? {
                        let path = format!("{name}/{}", file.name);
                        let segment = file.name.strip_suffix(".tmp").unwrap_or(&file.name);
                        let is_ours = SegmentName::parse(day, segment).is_some();
                        if is_ours && segment != file.name {
                            other_files.leftovers.push(path);
                        } else if !is_ours && file.name != "seals.jsonl" && file.is_file {
                            other_files.foreign.push(path);
                        }
                    }
                }
                _ if name == "quarantine" => {
                    for file in self.names(name)?.into_iter().filter(|file| file.is_file) {
                        other_files
                            .quarantined
                            .push(format!("{name}/{}", file.name));
                    }
                }
                _ if entry.is_file && !OWN.contains(&&**name) => {
                    other_files.foreign.push(name.clone());
                }
                _ => {}
            }
        }
        Ok(other_files)
    }

    fn names(&self, dir: &str) -> Result<Vec<crate::storage::Entry>> {
        match self.storage.read_dir(dir) {
            Err(e) if is_gone(&e) => Ok(Vec::new()),
            Err(e) => {
                let path = full_path(&*self.storage, dir);
                Err(Error::io("list the directory", &path, e))
            }
            names => names.map_err(|e| Error::io("list the directory", self.storage.root(), e)),
        }
    }

    /// Removes what was written in part. No one else does so meanwhile.
    pub(crate) fn discard_leftovers(&self, paths: &[String]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let txn = self.begin()?;
        for path in paths {
            match self.storage.remove_file(path) {
                Err(e) if !is_gone(&e) => {
                    let path = full_path(&*self.storage, path);
                    return Err(Error::io("remove the file", &path, e));
                }
                _ => {}
            }
        }
        txn.commit()?;
        for path in paths {
            self.sync_dir_of(path)?;
        }
        Ok(())
    }

    /// All bytes of a file; none if it is gone.
    pub(crate) fn read_whole(&self, path: &str) -> Result<Vec<u8>> {
        let read = || -> io::Result<Vec<u8>> {
            let file = self.storage.open(path, Access::Read)?;
            let len = usize::try_from(file.stat()?.len).unwrap_or(usize::MAX);
            let mut bytes = vec![0; len];
            let read = read_full(&*file, &mut bytes, 0)?;
            bytes.truncate(read);
            Ok(bytes)
        };
        match read() {
            Err(e) if is_gone(&e) => Ok(Vec::new()),
            read => read.map_err(|e| Error::io("read", &full_path(&*self.storage, path), e)),
        }
    }

    /// Puts bytes in the place of a file's; none take it away.
    pub(crate) fn replace_whole(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let replaced = if bytes.is_empty() {
            self.storage.remove_file(path)
        } else {
            replace_file(&*self.storage, path, bytes)
        };
        replaced.map_err(|e| Error::io("rewrite", &full_path(&*self.storage, path), e))?;
        self.sync_dir_of(path)
    }

    fn sync_dir_of(&self, path: &str) -> Result<()> {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        match self.storage.sync_dir(dir) {
            Err(e) if !is_gone(&e) => {
                let path = full_path(&*self.storage, dir);
                Err(Error::io("fsync the directory", &path, e))
            }
            _ => Ok(()),
        }
    }
}
