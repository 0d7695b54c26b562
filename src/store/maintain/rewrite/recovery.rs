//! Completes interrupted rewrites: removes files whose lines are elsewhere, and seals again the
//! segments whose rewrite was not done.

use std::collections::HashSet;
use std::io;

use crate::error::Result;
use crate::record::now;
use crate::segment::seal::{Seal, SealReason, hash_file};
use crate::segment::{SegmentName, each_fact};
use crate::storage::{Access, Storage, if_there, io_error, remove_if_there};
use crate::store::{Inner, SealLog};

impl Inner {
    /// Removes partly written files, and segments whose lines were joined to another one. Seals
    /// every other sealed segment again that does not match its current seal. The caller must
    /// prevent other rewrites meanwhile.
    pub(crate) fn complete_rewrites(&self) -> Result<()> {
        self.discard_leftovers(&self.other_files()?.leftovers)?;
        let storage = &*self.storage;
        let mut log = self.current_seals()?;
        for name in self.segments()? {
            let io = |e| io_error(storage, "read the segment", &name.path(), e);
            let Some(own) = is_not_sealed_as_last(storage, &log, name).map_err(io)? else {
                continue;
            };
            let joined = match log.joined_to(name) {
                Some(by) => join(storage, name, by).map_err(io)?,
                None => Join::Undone,
            };
            match joined {
                Join::Done => self.leave_to_other(name)?,
                Join::Undone => self.seal_anew(&mut log, name, &own)?,
                Join::Unclear => {}
            }
        }
        Ok(())
    }

    /// Removes a segment whose lines are all in another one.
    fn leave_to_other(&self, name: SegmentName) -> Result<()> {
        let storage = &*self.storage;
        let (path, dir) = (name.path(), name.day.to_string());
        let io = |e| io_error(storage, "remove the segment", &path, e);
        storage.sync_dir(&dir).map_err(io)?;
        let mut txn = self.begin()?;
        remove_if_there(storage, &path).map_err(io)?;
        txn.rescan_after_failure()?;
        txn.commit()?;
        storage.sync_dir(&dir).map_err(io)
    }

    /// Seals a segment again in its present state, replacing the seal of the rewrite that was not
    /// done.
    fn seal_anew(&self, log: &mut SealLog, name: SegmentName, own: &Seal) -> Result<()> {
        let storage = &*self.storage;
        let txn = self.begin()?;
        log.refresh(storage)?;
        let last = log.seals_of(name).take(1).map(|seal| seal.seal).collect();
        let (contents, reason) = (own.contents(), SealReason::Sealed);
        log.append(storage, now(), name, &contents, reason, last)?;
        txn.commit()?;
        log.settle(storage)
    }
}

/// The seal that a closed segment matches, if that is not the current one: its rewrite or removal
/// was interrupted. `None` for an interrupted erasure, which must be requested again.
fn is_not_sealed_as_last(
    storage: &dyn Storage,
    log: &SealLog,
    name: SegmentName,
) -> io::Result<Option<Seal>> {
    let path = name.path();
    let Some(stat) = if_there(storage.stat(&path))? else {
        return Ok(None);
    };
    let last = log.last_of(name);
    // A segment of another length is the current one, or was changed by another program.
    let as_long = |seal: &&Seal| seal.bytes == stat.len;
    let is_as_said = last.is_some_and(|last| as_long(&last));
    if !stat.is_read_only || is_as_said || log.is_erased(name) {
        return Ok(None);
    }
    let mut seals = log.seals_of(name).filter(as_long).peekable();
    if seals.peek().is_none() {
        return Ok(None);
    }
    let Some(file) = if_there(storage.open(&path, Access::Read))? else {
        return Ok(None);
    };
    let (sha256, _) = hash_file(&*file)?;
    Ok(seals.find(|seal| seal.sha256 == sha256).cloned())
}

/// The outcome of an interrupted join.
enum Join {
    /// All lines are in the other segment.
    Done,
    /// None of the lines is.
    Undone,
    /// Some are: the other segment was changed since.
    Unclear,
}

/// Whether a segment's lines are in the segment of this seal, to which they were to be joined.
fn join(storage: &dyn Storage, name: SegmentName, by: &Seal) -> io::Result<Join> {
    let Some(into) = SealLog::segment_of(by) else {
        return Ok(Join::Unclear);
    };
    let Some(file) = if_there(storage.open(&into.path(), Access::Read))? else {
        return Ok(Join::Undone);
    };
    let (sha256, _) = hash_file(&*file)?;
    if sha256 == by.sha256 {
        return Ok(Join::Done);
    }
    let own = seqs(storage, name)?;
    Ok(if seqs(storage, into)?.is_disjoint(&own) {
        Join::Undone
    } else {
        Join::Unclear
    })
}

/// The sequence numbers in a segment's lines.
fn seqs(storage: &dyn Storage, name: SegmentName) -> io::Result<HashSet<u64>> {
    let mut seqs = HashSet::new();
    each_fact(storage, name, &mut |fact| {
        seqs.insert(fact.envelope.seq);
    })?;
    Ok(seqs)
}
