//! Puts a rewritten segment in place of those it was made from.

use super::{Head, Txn};
use crate::error::Result;
use crate::index::KeyHash;
use crate::storage::{io_error, is_gone};
use crate::store::maintain::removals::NumberWatermarks;
use crate::store::view::relocations::Relocations;

impl Txn<'_> {
    /// Renames the new file, or removes the old ones if no lines are left, publishes that and
    /// releases the lock. Returns `false`, and does nothing, if the old files changed. All
    /// handles, including this one, update their state when they next read. If several files were
    /// joined, the caller removes the others once the new name is synced.
    pub(in crate::store) fn replace(
        mut self,
        relocations: &Relocations,
        temporary: &str,
    ) -> Result<bool> {
        self.check_index()?;
        let storage = &*self.inner.storage;
        let io = |path: &str, e| io_error(storage, "rewrite the segment", path, e);
        for file in &relocations.from {
            let path = file.name.path();
            let is_as_it_was = match storage.stat(&path) {
                Ok(stat) => (stat.identity, stat.len) == (file.identity, file.end),
                Err(e) if is_gone(&e) => false,
                Err(e) => return Err(io(&path, e)),
            };
            if !is_as_it_was {
                self.commit()?;
                return Ok(false);
            }
        }
        let head = self.writer.head.as_ref();
        let before = head.map_or(Ok(0), Head::moved);
        let number = before.map_err(|e| io("HEAD", e))? + 1;
        // If this fails, other handles read the changed segments again.
        let _ = relocations.write(storage, number);
        match &relocations.to {
            Some(new) => {
                let path = new.file.name.path();
                storage.rename(temporary, &path).map_err(|e| io(&path, e))?;
            }
            None => {
                for file in &relocations.from {
                    let path = file.name.path();
                    storage.remove_file(&path).map_err(|e| io(&path, e))?;
                }
            }
        }
        let mut header = self.writer.header;
        header.last_seq = self.state.max_seq;
        header.commits = header.commits.wrapping_add(1);
        if let Some(head) = &self.writer.head {
            let noted = head.note_moved(number);
            let noted = noted.and_then(|()| self.write_head(&mut header, false));
            noted.map_err(|e| io("HEAD", e))?;
        }
        self.writer.header = header;
        self.writer.release_lease();
        self.is_committed = true;
        self.ticket();
        Ok(true)
    }

    /// Whether none of these conversations got another message.
    pub(in crate::store) fn still_has(&self, conversations: &[(KeyHash, u64)]) -> bool {
        let known = self.state.index.conversation_totals();
        conversations.iter().all(|(key, count)| {
            let sums = known.get(*key);
            sums.is_none_or(|sums| sums.message_count <= *count)
        })
    }

    /// The greatest numbers assigned so far.
    pub(in crate::store) fn number_watermarks(&self) -> NumberWatermarks {
        NumberWatermarks::of(&self.state.index, self.state.max_seq)
    }
}
