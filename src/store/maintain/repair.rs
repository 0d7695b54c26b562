//! Repairs a whole store under its lock. Removed bytes are moved to `quarantine/`; none are
//! deleted.

use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use super::seal::SealLog;
use crate::error::Result;
use crate::segment::SegmentName;
use crate::segment::repair::{Repaired, repair_segment, take_out};
use crate::segment::seal::{Contents, SealReason, hash_file};
use crate::storage::{Access, io_error};
use crate::store::{Inner, Store};

impl Store {
    /// Moves damaged bytes from the segments to files under `quarantine/`, one for each segment,
    /// and completes lines that lack only their LF. Edited lines stay as they are. Returns what was
    /// done to each segment; segments without damage are not changed.
    ///
    /// A repaired segment that was sealed gets a new seal. Lines of `seals.jsonl` that are not seals
    /// go to `quarantine/`, too.
    ///
    /// # Errors
    /// [`Locked`](crate::ErrorKind::Locked), [`Io`](crate::ErrorKind::Io). Each segment is
    /// replaced atomically, so after an error each is either unchanged or repaired.
    pub fn repair(&self) -> Result<Vec<Repaired>> {
        self.repair_segments(false)
    }

    /// Like [`repair`](Self::repair). Edited lines get a new checksum and count as good, and a
    /// segment that was changed after it was sealed gets a new seal.
    ///
    /// # Errors
    /// As [`repair`](Self::repair).
    pub fn repair_and_accept_edits(&self) -> Result<Vec<Repaired>> {
        self.repair_segments(true)
    }

    fn repair_segments(&self, accept_edits: bool) -> Result<Vec<Repaired>> {
        let inner = self.inner();
        let moment = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = i64::try_from(moment.as_millis()).unwrap_or(i64::MAX);
        let moment = moment.as_nanos();
        let storage = &*inner.storage;
        let mut log = inner.seals();
        let mut txn = inner.begin()?;
        log.refresh(storage)?;
        let mut repaired = Vec::new();
        for name in txn.segments() {
            let io = |e| io_error(storage, "repair the segment", &name.path(), e);
            let ready = |temporary: &str| inner.seal_repaired(&mut log, now_ms, name, temporary);
            let one = repair_segment(storage, name, accept_edits, txn.max_seq(), moment, ready);
            let mut one = one.map_err(io)?;
            let is_sealed_anew = one.as_ref().is_some_and(|one| one.resealed);
            if accept_edits && !is_sealed_anew && inner.vouch(&mut log, now_ms, name)? {
                let one = one.get_or_insert_with(|| Repaired::nothing(name.path()));
                one.resealed = true;
            }
            repaired.extend(one);
        }
        for (path, lines) in log.broken_lines() {
            let taken_out = take_out(storage, &path, &lines, moment);
            let io = |e| io_error(storage, "repair", &path, e);
            repaired.push(taken_out.map_err(io)?);
        }
        txn.rescan_after_failure()?;
        let ticket = txn.commit()?;
        drop(log);
        inner.acknowledge(ticket)?;
        Ok(repaired)
    }
}

impl Inner {
    /// If a segment is sealed, seals its repaired contents before they replace it. Returns whether
    /// it is sealed.
    fn seal_repaired(
        &self,
        log: &mut SealLog,
        now_ms: i64,
        name: SegmentName,
        temporary: &str,
    ) -> io::Result<bool> {
        let storage = &*self.storage;
        let is_sealed = log.last_of(name).is_some();
        if is_sealed {
            let contents = Contents::of(&*storage.open(temporary, Access::Read)?, name)?;
            self.seal_again(log, now_ms, name, &contents)
                .map_err(io::Error::other)?;
        }
        if is_sealed || storage.stat(&name.path())?.is_read_only {
            storage.set_read_only(temporary)?;
            storage.open(temporary, Access::Read)?.sync()?;
        }
        Ok(is_sealed)
    }

    /// Seals a segment in its present state if it does not match its seal. Returns whether it did
    /// so.
    fn vouch(&self, log: &mut SealLog, now_ms: i64, name: SegmentName) -> Result<bool> {
        let storage = &*self.storage;
        let path = name.path();
        let io = |e| io_error(storage, "seal the segment", &path, e);
        let Some(seal) = log.last_of(name) else {
            return Ok(false);
        };
        let file = storage.open(&path, Access::Read).map_err(io)?;
        if hash_file(&*file).map_err(io)? == (seal.sha256, seal.bytes) {
            return Ok(false);
        }
        storage.set_read_only(&path).map_err(io)?;
        file.sync().map_err(io)?;
        let contents = Contents::of(&*file, name).map_err(io)?;
        self.seal_again(log, now_ms, name, &contents)?;
        Ok(true)
    }

    fn seal_again(
        &self,
        log: &mut SealLog,
        now_ms: i64,
        name: SegmentName,
        contents: &Contents,
    ) -> Result<()> {
        let storage = &*self.storage;
        let last = log.last_of(name);
        // An interrupted repair may have appended this seal already.
        if last.is_some_and(|last| last.contents() == *contents) {
            return log.settle(storage);
        }
        let replaces = last.map(|seal| seal.seal).into_iter().collect();
        let reason = SealReason::Repair;
        log.append(storage, now_ms, name, contents, reason, replaces)?;
        log.settle(storage)
    }
}
