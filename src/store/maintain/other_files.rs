//! Files in the store's directory other than segments: quarantined, left over, or foreign.

use crate::error::Result;
use crate::record::Day;
use crate::segment::SegmentName;
use crate::storage::{Access, if_there, io_error, read_all, remove_if_there, replace_file};
use crate::store::Inner;

/// Files other than segments, relative to the store.
#[derive(Debug, Default)]
pub(crate) struct OtherFiles {
    /// Files written by repairs.
    pub quarantined: Vec<String>,
    /// Partly written files of processes that died.
    pub leftovers: Vec<String>,
    /// Files of other programs.
    pub foreign: Vec<String>,
}

/// The store's own files and directories that hold no records or are handled separately.
const OWN: [&str; 8] = [
    "decklog.json",
    "access.json",
    "prices.json",
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
        let names = if_there(self.storage.read_dir(dir));
        let names = names.map_err(|e| io_error(&*self.storage, "list the directory", dir, e))?;
        Ok(names.unwrap_or_default())
    }

    /// Removes partly written files. The caller must prevent other rewrites meanwhile.
    pub(crate) fn discard_leftovers(&self, paths: &[String]) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let txn = self.begin()?;
        for path in paths {
            remove_if_there(&*self.storage, path)
                .map_err(|e| io_error(&*self.storage, "remove the file", path, e))?;
        }
        txn.commit()?;
        for path in paths {
            self.sync_dir_of(path)?;
        }
        Ok(())
    }

    /// Removes the checkpoints of imports, which have titles and ids of conversations.
    pub(crate) fn discard_import_checkpoints(&self) -> Result<()> {
        self.discard_cached("imports")
    }

    /// Removes the sums of reports, which have names from messages.
    pub(crate) fn discard_sums(&self) -> Result<()> {
        self.discard_cached("sums")
    }

    fn discard_cached(&self, prefix: &str) -> Result<()> {
        let names = self.names("cache")?.into_iter().map(|entry| entry.name);
        let names = names.filter(|name| name.starts_with(prefix));
        let paths: Vec<String> = names.map(|name| format!("cache/{name}")).collect();
        self.discard_leftovers(&paths)
    }

    /// The contents of a file; empty if it is gone.
    pub(crate) fn read_whole(&self, path: &str) -> Result<Vec<u8>> {
        let file = if_there(self.storage.open(path, Access::Read));
        let read = file.and_then(|file| file.map_or(Ok(Vec::new()), |file| read_all(&*file)));
        read.map_err(|e| io_error(&*self.storage, "read", path, e))
    }

    /// Replaces the contents of a file. Empty contents remove the file.
    pub(crate) fn replace_whole(&self, path: &str, bytes: &[u8]) -> Result<()> {
        let replaced = if bytes.is_empty() {
            self.storage.remove_file(path)
        } else {
            replace_file(&*self.storage, path, bytes)
        };
        replaced.map_err(|e| io_error(&*self.storage, "rewrite", path, e))?;
        self.sync_dir_of(path)
    }

    fn sync_dir_of(&self, path: &str) -> Result<()> {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        let synced = if_there(self.storage.sync_dir(dir)).map(drop);
        synced.map_err(|e| io_error(&*self.storage, "fsync the directory", dir, e))
    }
}
