//! The files of the log, by kind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use decklog::Kind;
use decklog::record::Day;

use crate::cli::escape;
use crate::cli::exit::Failure;

/// The files of a kind, at least one.
#[derive(Debug)]
pub struct Segments {
    pub kind: Kind,
    /// The directory of the log.
    pub store: PathBuf,
    /// In the order of days.
    pub paths: Vec<PathBuf>,
}

impl Segments {
    /// The pattern of the files below the directory of the log.
    pub fn pattern(&self) -> String {
        format!("*/{}.*.jsonl", self.kind.stem())
    }

    /// The pattern of the files for a shell.
    pub fn in_shell(&self) -> Vec<u8> {
        let mut word = escape::shell_word(self.store.as_os_str().as_encoded_bytes());
        word.push(b'/');
        word.extend(self.pattern().as_bytes());
        word
    }
}

/// The files of each of these kinds that has any.
pub fn of(store: &Path, kinds: &[Kind]) -> Result<Vec<Segments>, Failure> {
    let failed =
        |error: io::Error| Failure::store(format!("cannot read {}: {error}", store.display()));
    let of_kind = kinds.iter().map(|kind| Segments {
        kind: *kind,
        store: store.to_owned(),
        paths: Vec::new(),
    });
    let mut found: Vec<Segments> = of_kind.collect();
    for day in fs::read_dir(store).map_err(failed)? {
        let day = day.map_err(failed)?;
        if day
            .file_name()
            .to_str()
            .is_none_or(|name| name.parse::<Day>().is_err())
        {
            continue;
        }
        for file in fs::read_dir(day.path()).map_err(failed)? {
            let file = file.map_err(failed)?;
            let name = file.file_name();
            let stem = name.to_str().and_then(stem);
            let of_kind = found.iter_mut().find(|it| stem == Some(it.kind.stem()));
            if let Some(files) = of_kind {
                files.paths.push(file.path());
            }
        }
    }
    found.retain(|files| !files.paths.is_empty());
    for files in &mut found {
        files.paths.sort_unstable();
    }
    Ok(found)
}

/// The stem of the name of a segment.
fn stem(name: &str) -> Option<&str> {
    let (stem, rest) = name.split_once('.')?;
    let (_, ending) = rest.split_once('.')?;
    (ending == "jsonl").then_some(stem)
}
