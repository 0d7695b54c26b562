//! The watched paths: the directories below them, and the files that an event is about.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::events::{Events, Heard};
use crate::import::agent::is_source;
use crate::import::walk::{self, Found};

/// What is to be read.
#[derive(Debug, Default)]
pub(super) struct Look {
    pub(super) found: Vec<Found>,
    /// Files that are gone.
    pub(super) gone: Vec<PathBuf>,
    /// Whether all paths are to be checked.
    pub(super) is_rescan_needed: bool,
}

#[derive(Debug)]
pub(super) struct Tree {
    roots: Vec<PathBuf>,
    pub(super) events: Events,
    /// The folders that are watched, by their canonical path, and how the walk reached them.
    folders: HashMap<PathBuf, PathBuf>,
    /// The folders that are watched for single names in them.
    beside: HashSet<PathBuf>,
    /// Files that events name otherwise than the walk, by the path of the events.
    aliases: HashMap<PathBuf, PathBuf>,
    /// Where missing roots will be.
    missing: Vec<PathBuf>,
    /// Why a folder is not watched, if any is not.
    pub(super) unwatched: Option<String>,
}

/// The file to read after a change of this one: SQLite writes beside its database, and Claude Code
/// describes the session of a sub-agent in a file of its own.
pub(super) fn source_of(path: &Path) -> PathBuf {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let database = ["-wal", "-shm", "-journal"];
    if let Some(name) = database.iter().find_map(|end| name.strip_suffix(end)) {
        return path.with_file_name(name);
    }
    if let Some(agent) = name.strip_suffix(".meta.json") {
        return path.with_file_name(format!("{agent}.jsonl"));
    }
    path.to_owned()
}

impl Tree {
    pub(super) fn new(roots: Vec<PathBuf>) -> Tree {
        Tree {
            roots,
            events: Events::new(),
            folders: HashMap::new(),
            beside: HashSet::new(),
            aliases: HashMap::new(),
            missing: Vec::new(),
            unwatched: None,
        }
    }

    pub(super) fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Watches all folders again, as their events were lost.
    pub(super) fn forget_watches(&mut self) {
        for (folder, _) in std::mem::take(&mut self.folders) {
            self.events.unwatch(&folder);
        }
        for folder in std::mem::take(&mut self.beside) {
            self.events.unwatch(&folder);
        }
    }

    /// All files, with the folders watched before their entries are listed.
    pub(super) fn scan(&mut self) -> Vec<Found> {
        self.unwatched = None;
        self.missing.clear();
        self.aliases.clear();
        let (before, beside) = (
            std::mem::take(&mut self.folders),
            std::mem::take(&mut self.beside),
        );
        let mut found = Vec::new();
        for root in self.roots.clone() {
            match fs::metadata(&root) {
                Ok(metadata) if metadata.is_dir() => {
                    found.extend(self.walk(&root, &before));
                }
                Ok(metadata) if metadata.is_file() => {
                    self.watch_name(&root, &beside);
                    found.push(Found::File {
                        path: root,
                        metadata,
                    });
                }
                Ok(_) => found.push(Found::Refused {
                    path: root,
                    reason: walk::NOT_A_FILE.to_owned(),
                }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.await_root(&root, &beside);
                }
                Err(error) => found.push(Found::Refused {
                    path: root,
                    reason: format!("cannot read: {error}"),
                }),
            }
        }
        let links = found.iter().filter_map(|found| match found {
            Found::File { path, .. } if path.is_symlink() => Some(path.clone()),
            _ => None,
        });
        for link in links.collect::<Vec<_>>() {
            self.watch_target(&link, &beside);
        }
        let are_known =
            |folder: &PathBuf| self.folders.contains_key(folder) || self.beside.contains(folder);
        let gone = before.into_keys().chain(beside);
        let gone: Vec<PathBuf> = gone.filter(|folder| !are_known(folder)).collect();
        for folder in gone {
            self.events.unwatch(&folder);
        }
        found
    }

    /// The files under a folder; its folders are watched. `known`: those that already are.
    fn walk(&mut self, folder: &Path, known: &HashMap<PathBuf, PathBuf>) -> Vec<Found> {
        let Tree {
            events,
            folders,
            beside,
            unwatched,
            ..
        } = self;
        walk::sources_by_folder(folder, None, &mut |path, canonical| {
            if folders.contains_key(canonical) {
                // Reached from another root.
                return folders.get(canonical).is_some_and(|known| known == path);
            }
            folders.insert(canonical.to_owned(), path.to_owned());
            if !known.contains_key(canonical)
                && !beside.contains(canonical)
                && let Err(reason) = events.watch(canonical)
            {
                *unwatched = Some(format!("{}: {reason}", path.display()));
            }
            true
        })
    }

    /// Watches a folder for a name in it.
    fn watch_beside(&mut self, folder: &Path, known: &HashSet<PathBuf>) {
        let is_watched = self.folders.contains_key(folder)
            || !self.beside.insert(folder.to_owned())
            || known.contains(folder);
        if !is_watched && let Err(reason) = self.events.watch(folder) {
            self.unwatched = Some(format!("{}: {reason}", folder.display()));
        }
    }

    /// Watches a file by the folder that it is in.
    fn watch_name(&mut self, file: &Path, known: &HashSet<PathBuf>) {
        let folder = file
            .parent()
            .and_then(|folder| fs::canonicalize(folder).ok());
        if let (Some(folder), Some(name)) = (folder, file.file_name()) {
            self.watch_beside(&folder, known);
            self.aliases.insert(folder.join(name), file.to_owned());
        }
    }

    /// Watches the file to which a link leads.
    fn watch_target(&mut self, link: &Path, known: &HashSet<PathBuf>) {
        if let Ok(target) = fs::canonicalize(link)
            && let Some(folder) = target.parent()
        {
            self.watch_beside(folder, known);
            self.aliases.insert(target, link.to_owned());
        }
    }

    /// Watches the nearest folder above a root that does not exist.
    fn await_root(&mut self, root: &Path, known: &HashSet<PathBuf>) {
        for folder in root.ancestors().skip(1) {
            if let Ok(canonical) = fs::canonicalize(folder)
                && let Ok(rest) = root.strip_prefix(folder)
            {
                self.watch_beside(&canonical, known);
                self.missing.push(canonical.join(rest));
                return;
            }
        }
    }

    /// The files that these events are about.
    pub(super) fn heed(&mut self, heard: Heard) -> Look {
        let mut look = Look {
            is_rescan_needed: heard.is_lost,
            ..Look::default()
        };
        let mut files = HashSet::new();
        for event in heard.paths {
            if self.missing.iter().any(|root| root.starts_with(&event)) {
                look.is_rescan_needed = true;
            }
            if self.folders.contains_key(&event) {
                // It was removed, moved or replaced, and with it the watches of the folders below
                // it; or its attributes changed, which is rare.
                self.forget(&event);
                look.is_rescan_needed = true;
                continue;
            }
            let source = source_of(&event);
            files.extend(self.aliases.get(&source).cloned());
            let folder = source.parent().and_then(|folder| self.folders.get(folder));
            if let (Some(folder), Some(name)) = (folder, source.file_name()) {
                files.insert(folder.join(name));
            }
        }
        for path in files {
            self.look_at(path, &mut look);
        }
        look
    }

    fn look_at(&mut self, path: PathBuf, look: &mut Look) {
        let is_named = is_source(&path, None) || self.aliases.values().any(|file| *file == path);
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                let is_new = fs::canonicalize(&path)
                    .is_ok_and(|canonical| !self.folders.contains_key(&canonical));
                if is_new {
                    let found = self.walk(&path, &HashMap::new());
                    look.is_rescan_needed |= found.iter().any(is_link);
                    look.found.extend(found);
                }
            }
            Ok(metadata) if is_named => {
                if path.is_symlink() && !self.aliases.values().any(|file| *file == path) {
                    look.is_rescan_needed = true;
                }
                if metadata.is_file() {
                    look.found.push(Found::File { path, metadata });
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => look.gone.push(path),
            Err(error) if is_named => look.found.push(Found::Refused {
                path,
                reason: format!("cannot read: {error}"),
            }),
            Ok(_) | Err(_) => {}
        }
    }

    /// Forgets a folder and those below it.
    fn forget(&mut self, folder: &Path) {
        let below = self
            .folders
            .keys()
            .filter(|below| below.starts_with(folder));
        for below in below.cloned().collect::<Vec<_>>() {
            self.events.unwatch(&below);
            self.folders.remove(&below);
        }
    }
}

fn is_link(found: &Found) -> bool {
    matches!(found, Found::File { path, .. } if path.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beside_a_source_stand_for_it() {
        for (changed, source) in [
            ("/p/x.db-wal", "/p/x.db"),
            ("/p/x.db-shm", "/p/x.db"),
            ("/p/agent-1.meta.json", "/p/agent-1.jsonl"),
            ("/p/x.jsonl", "/p/x.jsonl"),
            ("/p/sub", "/p/sub"),
        ] {
            assert_eq!(source_of(Path::new(changed)), Path::new(source));
        }
    }
}
