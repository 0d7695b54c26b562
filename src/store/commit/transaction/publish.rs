//! Shows other processes and threads what a transaction wrote, and has it synced.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::RwLockWriteGuard;

use super::{Handle, Txn};
use crate::error::Result;
use crate::index::Loc;
use crate::storage::io_error;
use crate::store::Durability;
use crate::store::commit::group_sync::Ticket;
use crate::store::commit::head::{Header, Reach};

/// Time after which a batch lets readers in. Until then, its records are checked and encoded. To
/// write them takes about as long again.
const PART: Duration = Duration::from_millis(1);

impl Txn<'_> {
    /// Between two records of a batch: if the batch has taken long, writes and publishes the records
    /// so far, and lets readers of this process in. An error fails the transaction.
    pub(crate) fn let_readers_in(&mut self) {
        if self.since.elapsed() < PART || self.broken.is_some() {
            return;
        }
        if self.flush().and_then(|()| self.publish(true)).is_ok() {
            self.is_partly_done = true;
            self.scratch.appended.clear();
            RwLockWriteGuard::bump(&mut self.state);
            self.since = Instant::now();
            // A reader may have found that other programs changed the files.
            let known = (self.state.generation, self.state.moved);
            if known != self.writer.known || !self.state.is_sound() {
                let rescanned = self.rescan_after_failure();
                self.writer.known = (self.state.generation, self.state.moved);
                let _ = rescanned.map_err(|e| self.give_up(e));
            }
        }
    }

    /// Publishes in `HEAD` what was appended. `is_kept`: the lock is kept.
    pub(super) fn publish(&mut self, is_kept: bool) -> Result<()> {
        let mut header = Header {
            last_seq: self.state.max_seq,
            ..self.writer.header
        };
        if let Err(e) = self.write_head(&mut header, is_kept) {
            let e = io_error(&*self.inner.storage, "write HEAD", "HEAD", e);
            return Err(self.poison(e));
        }
        self.state.commits = header.commits;
        self.state.seen_seq = header.last_seq;
        self.writer.header = header;
        Ok(())
    }

    pub(super) fn write_head(&self, header: &mut Header, is_kept: bool) -> io::Result<()> {
        let Some(head) = &self.writer.head else {
            return Ok(());
        };
        // With shared memory, the holder is cleared later, when the lock is released.
        if !is_kept && !head.is_shared() {
            header.holder = 0;
        }
        let reaches = self.scratch.appended.iter().map(|segment| {
            let known = &self.state.segments[*segment as usize];
            Reach {
                segment: known.name,
                end: known.end,
            }
        });
        head.publish(header, reaches)
    }

    /// Adds a file to those to sync. To limit the number of open files, a full list is passed to
    /// the sync thread, and at level `Disk` synced here. The sync uses the same descriptors as the
    /// writes.
    pub(super) fn mark_dirty(&mut self, handle: Handle) -> Result<()> {
        let file = &handle.named.file;
        let dirty = &mut self.scratch.dirty;
        if dirty
            .iter()
            .any(|known| Arc::ptr_eq(&known.named.file, file))
        {
            return Ok(());
        }
        dirty.push(handle);
        if dirty.len() < self.writer.handles_max {
            return Ok(());
        }
        let ticket = self.ticket();
        if self.inner.durability == Durability::Process {
            return Ok(());
        }
        let synced = self.inner.sync.wait(ticket);
        synced.map_err(|e| self.poison(e))
    }

    /// The ticket for everything written so far.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.inner.sync.ticket(self.scratch.dirty.drain(..))
    }

    /// Makes [`commit`](Txn::commit) also wait until an existing line is synced. Used if the
    /// record is in the log already, since another process may have written it at level `Process`.
    pub(crate) fn confirm(&mut self, loc: Loc) -> Result<()> {
        if self.inner.durability == Durability::Process {
            return Ok(());
        }
        if self.scratch.runs.has_any_of(loc.segment) {
            return Ok(());
        }
        let handle = self.handle_to_sync(loc.segment)?;
        self.mark_dirty(handle)
    }
}
