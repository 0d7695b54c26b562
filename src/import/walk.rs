//! Lists the session files under a folder in order of their names, each folder once.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::Format;
use super::agent::is_source;
use crate::store::MANIFEST;

/// Why a pipe, a device or a socket is not read.
pub(super) const NOT_A_FILE: &str = "not a regular file";

/// An entry under the folder.
#[derive(Debug)]
pub(super) enum Found {
    File {
        path: PathBuf,
        metadata: fs::Metadata,
    },
    /// A session file that cannot be read.
    Refused { path: PathBuf, reason: String },
}

impl Found {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Found::File { metadata, .. } => metadata.len(),
            Found::Refused { .. } => 0,
        }
    }
}

/// Why a store's folder is not read.
const A_STORE: &str = "a decklog store, and no session files: 'decklog replay' reads it";

/// Every session file under a folder, by the names that the agents use, sorted by name on each
/// level: a session comes before the folder of its sub-agents, which has its name. Stores under the
/// folder are skipped.
pub(super) fn sources(folder: &Path, format: Option<Format>) -> Vec<Found> {
    sources_by_folder(folder, format, &mut |_, _| true)
}

/// As [`sources`]. Calls `enter` with each folder and its canonical path before its entries are
/// listed; returns whether it is to be entered.
pub(super) fn sources_by_folder(
    folder: &Path,
    format: Option<Format>,
    enter: &mut dyn FnMut(&Path, &Path) -> bool,
) -> Vec<Found> {
    let mut found = Vec::new();
    // Symbolic links may point anywhere, including upwards, so each folder is entered once, by its
    // canonical path.
    let mut entered = HashSet::new();
    let mut ahead = vec![folder.to_path_buf()];
    while let Some(path) = ahead.pop() {
        let is_source = is_source(&path, format);
        match look(&path, &mut entered, enter) {
            Ok(Seen::Folder(mut entries)) => {
                entries.sort_by_cached_key(|path| Reverse(place(path)));
                ahead.append(&mut entries);
            }
            Ok(Seen::File(metadata)) if is_source => found.push(Found::File { path, metadata }),
            Ok(Seen::Store) if path == folder => found.push(Found::Refused {
                path,
                reason: A_STORE.to_owned(),
            }),
            // A pipe or a device could block forever.
            Ok(Seen::Other) if is_source => found.push(Found::Refused {
                path,
                reason: NOT_A_FILE.to_owned(),
            }),
            Ok(Seen::EnteredBefore | Seen::Store | Seen::File(_) | Seen::Other) => {}
            Err(error) => {
                // Any other dangling link is ignored.
                let dangling = error.kind() == io::ErrorKind::NotFound;
                if is_source || !dangling {
                    let reason = format!("cannot read: {error}");
                    found.push(Found::Refused { path, reason });
                }
            }
        }
    }
    found
}

/// Sort key of an entry in its folder.
pub(super) fn place(path: &Path) -> (Option<OsString>, bool, Option<OsString>) {
    let is_other = path.extension().is_none_or(|ext| ext != "jsonl");
    let owned = |name: Option<&OsStr>| name.map(OsStr::to_owned);
    (owned(path.file_stem()), is_other, owned(path.file_name()))
}

/// Whether the path is an open pipe of this process, such as standard input or the pipe that a
/// shell creates for `<(command)`. Opening a named pipe could block forever.
pub(super) fn is_open_pipe(path: &Path, metadata: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let is_open = path == Path::new("/dev/stdin")
            || path.starts_with("/dev/fd")
            || path.starts_with("/proc/self/fd");
        is_open && metadata.file_type().is_fifo()
    }
    #[cfg(not(unix))]
    {
        let _ = (path, metadata);
        false
    }
}

enum Seen {
    Folder(Vec<PathBuf>),
    EnteredBefore,
    Store,
    File(fs::Metadata),
    Other,
}

fn look(
    path: &Path,
    entered: &mut HashSet<PathBuf>,
    enter: &mut dyn FnMut(&Path, &Path) -> bool,
) -> io::Result<Seen> {
    let metadata = fs::metadata(path)?;
    if metadata.is_file() {
        return Ok(Seen::File(metadata));
    }
    if !metadata.is_dir() {
        return Ok(Seen::Other);
    }
    let canonical = fs::canonicalize(path)?;
    if entered.contains(&canonical) {
        return Ok(Seen::EnteredBefore);
    }
    if path.join(MANIFEST).is_file() {
        return Ok(Seen::Store);
    }
    if !enter(path, &canonical) {
        return Ok(Seen::EnteredBefore);
    }
    entered.insert(canonical);
    let entries: io::Result<Vec<_>> = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect();
    Ok(Seen::Folder(entries?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        sources(folder, None)
            .into_iter()
            .map(|source| match source {
                Found::File { path, .. } => {
                    let path = path.strip_prefix(folder).unwrap();
                    path.to_str().unwrap().replace('\\', "/")
                }
                Found::Refused { path, reason } => panic!("{}: {reason}", path.display()),
            })
            .collect()
    }

    #[test]
    fn files_come_by_name_and_only_those_that_are_jsonl() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["b", "a/deep"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in [
            "c.jsonl",
            "b/2.jsonl",
            "b/1.jsonl",
            "a/deep/x.jsonl",
            "a/n.json",
            "b.jsonl",
        ] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let expected = [
            "a/deep/x.jsonl",
            "b.jsonl",
            "b/1.jsonl",
            "b/2.jsonl",
            "c.jsonl",
        ];
        assert_eq!(names(dir.path()), expected);
    }

    #[test]
    fn a_store_holds_no_sessions() {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("log");
        fs::create_dir_all(store.join("2025-12-27")).unwrap();
        fs::write(store.join(MANIFEST), "{}").unwrap();
        fs::write(store.join("2025-12-27/events.0001.jsonl"), "").unwrap();
        fs::write(dir.path().join("x.jsonl"), "").unwrap();
        assert_eq!(names(dir.path()), ["x.jsonl"]);
        let [Found::Refused { reason, .. }] = &sources(&store, None)[..] else {
            panic!("it is read");
        };
        assert_eq!(reason, A_STORE);
    }

    #[cfg(unix)]
    #[test]
    fn links_that_lead_in_a_circle_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/x.jsonl"), "").unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("sub/up")).unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path().join("gone")).unwrap();
        assert_eq!(names(dir.path()), ["sub/x.jsonl"]);
    }
}
