//! Checkpoints that a watcher carries from one import to the next. They are written to
//! `cache/imports` from time to time, not after each import.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Checkpoint, Checkpoints, KINDS, Saved, States, key, write};
use crate::import::run::{FileHeadings, Run};
use crate::store::{LogMark, Store};

#[derive(Default)]
pub(in crate::import) struct Carried {
    is_used: bool,
    /// With the mark of the log after the last import.
    known: Option<Saved>,
    /// The mark in `cache/imports`.
    on_disk: Option<LogMark>,
    /// The states that are not in a file.
    states: States,
    /// The headings of files without a checkpoint, by path.
    others: BTreeMap<String, FileHeadings>,
    is_changed: bool,
    /// Whether the log lost records, so that all files are to be read again.
    is_lost: bool,
}

impl Carried {
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }

    pub(super) fn state(&self, hash: u64) -> Option<&[u8]> {
        self.states.get(&hash).map(Vec::as_slice)
    }

    /// Whether there is something to save.
    pub(in crate::import) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Whether the log lost records since the last call.
    pub(in crate::import) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.is_lost)
    }

    /// Forgets what `cache/imports` has. Call [`save`](Carried::save) before.
    pub(in crate::import) fn unload(&mut self) {
        *self = Carried {
            others: std::mem::take(&mut self.others),
            ..Carried::default()
        };
    }

    /// Writes the checkpoints. Errors are ignored: then the files are read again.
    pub(in crate::import) fn save(&mut self, store: &Store) {
        self.is_changed = false;
        let Some(known) = self.known.take() else {
            return;
        };
        let Saved { log, mut files } = known;
        files.retain(|path, _| fs::metadata(path).is_ok());
        let saved = store.sync().ok().and_then(|()| {
            let storage = store.inner().storage();
            log.saved(storage, self.on_disk.as_ref())
        });
        let Some(saved_log) = saved else {
            self.known = Some(Saved { log, files });
            return;
        };
        let saved = Saved {
            log: saved_log,
            files,
        };
        let is_written = write(store, &saved, &self.states).is_ok();
        let Saved {
            log: on_disk,
            files,
        } = saved;
        if is_written {
            self.states.clear();
            self.on_disk = Some(on_disk);
        }
        self.known = Some(Saved { log, files });
    }
}

impl Checkpoints<'_> {
    /// Continues with what an earlier import of this process knew.
    pub(in crate::import) fn continue_with(&mut self, mut carried: Carried) {
        self.is_loaded = carried.is_used;
        self.known = carried.known.take();
        self.log = self.known.as_ref().map(|known| known.log.clone());
        carried.is_used = true;
        self.carried = carried;
    }

    /// The headings of all files that were imported before, by path.
    pub(in crate::import) fn headings(&self) -> impl Iterator<Item = (&String, &FileHeadings)> {
        let known = self.known.iter().flat_map(|known| &known.files);
        let known = known.map(|(path, checkpoint)| (path, &checkpoint.headings));
        known.chain(&self.carried.others)
    }

    /// What the next import continues with, if this one failed.
    pub(in crate::import) fn into_carried(self) -> Carried {
        Carried {
            is_used: self.is_loaded,
            known: self.known,
            is_lost: self.carried.is_lost || self.is_lost && self.log.is_some(),
            ..self.carried
        }
    }

    /// What the next import continues with.
    pub(in crate::import) fn carry(mut self, store: &Store, run: &mut Run<'_>) -> Carried {
        let mut carried = std::mem::take(&mut self.carried);
        let now = store.log_mark(&KINDS).ok().flatten();
        let now = now.filter(|_| run.load_tombstones(false).is_ok());
        let is_extended = self.log.zip(now.as_ref()).is_some_and(|(before, now)| {
            // What an import recalls is held by the log then.
            !self.is_lost && before.is_extended_by(now)
        });
        // A log with unreadable segments gets no checkpoints; then nothing is to be read again.
        carried.is_lost |= !is_extended && now.is_some();
        let known = self.known.filter(|_| is_extended);
        if carried.on_disk.is_none() {
            carried.on_disk = known.as_ref().map(|known| known.log.clone());
        }
        let mut files = known.map(|known| known.files).unwrap_or_default();
        for (path, made) in self.made {
            let has_cursor = made.checkpoint.cursor.is_some();
            let (headings, is_clean) = run.take_headings(made.file, has_cursor);
            let before = files.remove(&path);
            if let Some(state) = before.and_then(|before| before.state) {
                carried.states.remove(&state);
            }
            if is_clean {
                carried.others.remove(&path);
                let checkpoint = Checkpoint {
                    headings,
                    ..made.checkpoint
                };
                carried.states.extend(checkpoint.state.zip(made.state));
                files.insert(path, checkpoint);
            } else {
                carried.others.insert(path, headings);
            }
            carried.is_changed = true;
        }
        files.retain(|_, checkpoint| !run.has_erased(&checkpoint.headings));
        carried.known = now.filter(|_| is_extended).map(|log| Saved { log, files });
        carried
    }

    /// The path under which [`headings`](Checkpoints::headings) lists a file.
    pub(in crate::import) fn key_of(path: &Path) -> Option<String> {
        key(path)
    }
}
