//! Puts a rewritten segment in the place of those that it was made of.

use super::Txn;
use crate::error::{Error, Result};
use crate::index::KeyHash;
use crate::storage::{full_path, is_gone};
use crate::store::moves::Moves;

impl Txn<'_> {
    /// Gives the new file its name, or takes theirs from those of which nothing is left, and moves
    /// over; `false`, and nothing done, if they are not what they were. The other files of several
    /// that became one are the caller's to remove, once the new name survives the machine.
    pub(in super::super) fn replace(&mut self, moves: &Moves, temporary: &str) -> Result<bool> {
        let storage = &*self.inner.storage;
        let io = |path: &str, e| Error::io("rewrite the segment", &full_path(storage, path), e);
        for file in &moves.from {
            let path = file.name.path();
            match storage.stat(&path) {
                Ok(stat) if (stat.identity, stat.len) == (file.identity, file.end) => {}
                Ok(_) => return Ok(false),
                Err(e) if is_gone(&e) => return Ok(false),
                Err(e) => return Err(io(&path, e)),
            }
        }
        let head_io = |e| io("HEAD", e);
        let head = self.writer.head.as_ref();
        let moved = head.map_or(Ok(0), super::Head::moved).map_err(head_io)?;
        // Without the note, others read anew what changed.
        let _ = moves.write(storage, moved + 1);
        match &moves.to {
            Some(new) => {
                let path = new.file.name.path();
                storage.rename(temporary, &path).map_err(|e| io(&path, e))?;
            }
            None => {
                for file in &moves.from {
                    let path = file.name.path();
                    storage.remove_file(&path).map_err(|e| io(&path, e))?;
                }
            }
        }
        self.writer.handles.clear();
        self.writer.recent.clear();
        self.room.checked.clear();
        if let Some(head) = &self.writer.head {
            head.note_moved(moved + 1).map_err(head_io)?;
        }
        if self.state.take_over(moves) {
            self.state.moved = Some(moved + 1);
            self.writer.header.commits = self.writer.header.commits.wrapping_add(1);
        } else {
            self.look_again()?;
        }
        Ok(true)
    }

    /// Whether none of these conversations got another message.
    pub(in super::super) fn still_has(&self, talks: &[(KeyHash, u64)]) -> bool {
        let known = self.state.index.talks();
        talks.iter().all(|(key, count)| {
            let talk = known.get(*key);
            talk.is_none_or(|talk| talk.message_count <= *count)
        })
    }

    /// The index, as it is under the lock.
    pub(in super::super) fn index_of(&self) -> &crate::index::Index {
        &self.state.index
    }
}
