//! Ends what someone began who was interrupted.

use std::io;

use super::remove_if_there;
use crate::error::{Error, Result};
use crate::segment::SegmentName;
use crate::segment::seal::{Seal, hash_file};
use crate::storage::{Access, full_path};
use crate::store::{Inner, SealLog};

impl Inner {
    /// Removes what someone left who was interrupted: files that were written in part, and
    /// segments that were joined to another one. No one else rewrites meanwhile.
    pub(crate) fn clear_up(&self) -> Result<()> {
        self.discard_leftovers(&self.beside()?.leftovers)?;
        self.finish_joins()
    }

    /// Removes segments whose lines stand in another one.
    fn finish_joins(&self) -> Result<()> {
        let storage = &*self.storage;
        let mut log = self.seals();
        log.refresh(storage)?;
        for name in self.segments()? {
            let (Some(own), Some(by)) = (log.gone(name), log.joined_to(name)) else {
                continue;
            };
            let path = name.path();
            let io = |e| Error::io("read the segment", &full_path(storage, &path), e);
            let holds = |seal: &Seal, name: SegmentName| {
                let file = storage.open(&name.path(), Access::Read)?;
                let (sha256, _) = hash_file(&*file)?;
                io::Result::Ok(sha256 == seal.sha256)
            };
            let Some(into) = SealLog::segment_of(by) else {
                continue;
            };
            if !holds(own, name).map_err(io)? || !holds(by, into).map_err(io)? {
                continue;
            }
            storage.sync_dir(&name.day.to_string()).map_err(io)?;
            let mut txn = self.begin()?;
            remove_if_there(storage, &path).map_err(io)?;
            txn.look_again()?;
            txn.commit()?;
            storage.sync_dir(&name.day.to_string()).map_err(io)?;
        }
        Ok(())
    }
}
