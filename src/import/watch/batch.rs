//! Imports the files that changed, with what earlier imports know about the others.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::Addition;
use crate::error::Result;
use crate::import::checkpoint::{Carried, Checkpoints};
use crate::import::reading::Stop;
use crate::import::report::Report;
use crate::import::walk::place;
use crate::import::{Expired, Importer};
use crate::store::Store;

/// A file to import, as it was found.
pub(super) type Source = (PathBuf, Metadata);

impl<'a> Importer<'a> {
    /// An import that continues with what an earlier one knew.
    pub(super) fn carrying(store: &'a Store, carried: Carried) -> Importer<'a> {
        let mut importer = Importer::new(store).expired(Expired::Expire);
        importer.checkpoints.continue_with(carried);
        importer
    }

    /// Imports these files, in the order in which an import of their folder reads them.
    ///
    /// # Errors
    /// As [`path`](Importer::path), except for errors of single files, which are reported as broken.
    pub(super) fn files(&mut self, sources: &[Source]) -> Result<()> {
        if let Some(store) = self.store {
            let are_changed = self.checkpoints.recall(store);
            self.run.set_conversations_changed(are_changed);
        }
        self.run.load_tombstones(false)?;
        self.bytes_done = 0;
        self.bytes_total = sources.iter().map(|(_, metadata)| metadata.len()).sum();
        let keys = sources.iter().map(|(path, _)| Checkpoints::key_of(path));
        let keys: HashSet<String> = keys.flatten().collect();
        let others = self.checkpoints.headings();
        let others = others.filter(|(path, _)| !keys.contains(*path));
        let others = others.map(|(path, headings)| (path.into(), Err(headings.clone())));
        let all = sources.iter();
        let mut all: Vec<_> = all
            .map(|(path, metadata)| (path.clone(), Ok(metadata)))
            .chain(others)
            .collect();
        all.sort_by(|(a, _), (b, _)| in_order(a, b));
        for (path, what) in all {
            match what {
                // What a file says about conversations of others.
                Err(headings) => drop(self.run.skip_file(&path, &headings)),
                Ok(metadata) => match self.file(&path, metadata) {
                    Ok(()) => {}
                    // It was removed meanwhile.
                    Err(Stop::Source(..)) if !path.exists() => {}
                    Err(Stop::Source(place, error)) => self.run.broken(place, error.to_string()),
                    Err(Stop::Log(error)) => return Err(error),
                },
            }
        }
        self.run.settle()
    }

    /// Ends an import that failed.
    pub(super) fn abandon(self) -> Carried {
        self.checkpoints.into_carried()
    }

    /// Ends an import; another one continues.
    pub(super) fn pause(mut self) -> (Report, Vec<Addition>, Carried) {
        self.run.give_up_results();
        let carried = match self.store {
            Some(store) => self.checkpoints.carry(store, &mut self.run),
            None => Carried::default(),
        };
        let additions = self.run.files_with_news();
        let additions = additions
            .map(|file| Addition::of(file, self.store))
            .collect();
        (self.run.into_report(), additions, carried)
    }
}

/// The order of files in a walk of their folder.
pub(super) fn in_order(a: &Path, b: &Path) -> Ordering {
    let (mut of_a, mut of_b) = (a.components(), b.components());
    loop {
        return match (of_a.next(), of_b.next()) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) => {
                let (a, b): (&Path, &Path) = (a.as_ref(), b.as_ref());
                place(a).cmp(&place(b))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_comes_before_its_folder() {
        let mut paths = ["/p/b/x.jsonl", "/p/b.jsonl", "/p/a.jsonl", "/p/b/a.jsonl"];
        paths.sort_by(|a, b| in_order(Path::new(a), Path::new(b)));
        let expected = ["/p/a.jsonl", "/p/b.jsonl", "/p/b/a.jsonl", "/p/b/x.jsonl"];
        assert_eq!(paths, expected);
    }
}
