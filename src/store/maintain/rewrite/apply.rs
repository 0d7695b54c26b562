//! Applies a planned rewrite: records the removal, then replaces the old files with the new one.

use std::io;

use serde_json::value::RawValue;

use super::plan::RewritePlan;
use super::{Dependents, discard};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, now};
use crate::segment::SegmentName;
use crate::segment::seal::{Contents, Seal, hash_file};
use crate::storage::{
    Access, Entry, Storage, append_all, full_path, if_there, io_error, read_full, remove_if_there,
};
use crate::store::maintain::removals::{self, Anchor, Removal, RemovalReason};
use crate::store::view::relocations::{NewFile, RelocatedFile, Relocations};
use crate::store::{Inner, SealLog};

/// Number of bytes to copy at a time.
const COPY_BYTES: usize = 1 << 20;

impl Inner {
    /// Replaces the planned segments with one with the remaining lines, under the name of the last
    /// segment, and records the removal. Returns `false` and changes nothing if the segments are
    /// not sealed or changed meanwhile.
    pub(crate) fn apply(
        &self,
        plan: &RewritePlan,
        reason: RemovalReason,
        with: &Dependents,
    ) -> Result<bool> {
        if plan.changes_nothing() {
            return Ok(true);
        }
        let storage = &*self.storage;
        let Some((last, _)) = plan.files.last() else {
            return Ok(true);
        };
        let target = last.name;
        let temporary = format!("{}.tmp", target.path());
        let io = |e| io_error(storage, "rewrite the segment", &target.path(), e);
        if !self.is_as_sealed(plan, reason)? {
            return Ok(false);
        }
        let written = if plan.pieces.is_empty() {
            None
        } else {
            let written = plan.write(storage, target, &temporary);
            let written = written.inspect_err(|_| discard(storage, &temporary));
            Some(written.map_err(io)?)
        };
        let to = written.map(|(identity, contents)| NewFile {
            file: RelocatedFile {
                name: target,
                identity,
                end: contents.bytes,
            },
            last_seq: plan.last_seq,
            last: plan.last,
        });
        let contents = written.map(|(_, contents)| contents);
        let is_noted = self.note(plan, reason, &with.anchors, contents.as_ref())?;
        if !is_noted || !self.put_in_place(plan, to, &temporary, with)? {
            discard(storage, &temporary);
            return Ok(false);
        }
        let dir = plan.day.to_string();
        storage.sync_dir(&dir).map_err(io)?;
        // At this point the new file survives a power cut, so the other files can be removed.
        for (file, _) in &plan.files {
            if to.is_some() && file.name != target {
                remove_if_there(storage, &file.name.path()).map_err(io)?;
            }
        }
        if plan.files.len() > 1 {
            storage.sync_dir(&dir).map_err(io)?;
        }
        self.leave_day(plan.day, reason)?;
        Ok(true)
    }

    /// Whether each segment matches one of its seals. The new seal must not confirm a segment that
    /// someone changed: a person has to decide about that.
    fn is_as_sealed(&self, plan: &RewritePlan, reason: RemovalReason) -> Result<bool> {
        let storage = &*self.storage;
        let log = self.current_seals()?;
        for (file, opened) in &plan.files {
            let path = full_path(storage, &file.name.path());
            let hashed = hash_file(&**opened);
            let (sha256, _) = hashed.map_err(|e| Error::io("read the segment", &path, e))?;
            let mut seals = log.seals_of(file.name).peekable();
            let is_sealed = seals.peek().is_some();
            if seals.any(|seal| seal.sha256 == sha256) {
                continue;
            }
            if is_sealed && reason == RemovalReason::Erasure {
                let message = "the segment was changed after it was sealed, so nothing is erased from it: put back a copy, or take it as it is with 'decklog repair --accept-edits', and erase then";
                return Err(Error::new(ErrorKind::Damaged, message).with_path(&path));
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn put_in_place(
        &self,
        plan: &RewritePlan,
        to: Option<NewFile>,
        temporary: &str,
        with: &Dependents,
    ) -> Result<bool> {
        let relocations = Relocations {
            from: plan.files.iter().map(|(file, _)| *file).collect(),
            to,
            pieces: plan.pieces.clone(),
            ended: with.ended.iter().map(|(key, _)| *key).collect(),
        };
        let txn = self.begin()?;
        if txn.still_has(&with.ended) {
            return txn.replace(&relocations, temporary);
        }
        txn.commit()?;
        Ok(false)
    }

    /// Records the removal and seals the new contents, and syncs both, before anything is changed.
    /// Returns `false`, and records nothing, if a segment is not sealed.
    fn note(
        &self,
        plan: &RewritePlan,
        reason: RemovalReason,
        anchors: &[Anchor],
        contents: Option<&Contents>,
    ) -> Result<bool> {
        let storage = &*self.storage;
        let mut log = self.seals();
        let txn = self.begin()?;
        log.refresh(storage)?;
        let mut sealed: Vec<&Seal> = Vec::new();
        for (file, _) in &plan.files {
            let path = file.name.path();
            let found = if_there(storage.stat(&path));
            let found = found.map_err(|e| io_error(storage, "look at the segment", &path, e))?;
            let is_closed = found.is_some_and(|found| found.is_read_only);
            sealed.extend(log.seals_of(file.name).next().filter(|_| is_closed));
        }
        if sealed.len() < plan.files.len() {
            txn.commit()?;
            return Ok(false);
        }
        let replaces = sealed.iter().map(|seal| seal.seal).collect();
        let noting = |e| io_error(storage, "note what is removed", removals::NAME, e);
        let mut file = None;
        for (name, gone) in plan.gone() {
            let mut removal = Removal {
                lines: gone.lines,
                bytes: gone.bytes,
                first_seq: gone.seqs.0.min(gone.seqs.1),
                last_seq: gone.seqs.1,
                first_at: gone.ats.0.min(gone.ats.1),
                last_at: gone.ats.1,
                ..Removal::new(reason, name.path(), txn.number_watermarks())
            };
            if file.is_none() {
                removal.anchors = anchors.to_vec();
                if contents.is_none() {
                    removal.seals = sealed.iter().copied().map(raw).collect();
                }
            }
            file = Some(removals::append(storage, removal).map_err(noting)?);
        }
        if let (Some(contents), Some((last, _))) = (contents, plan.files.last()) {
            let reason = reason.into();
            log.append(storage, now(), last.name, contents, reason, replaces)?;
        }
        txn.commit()?;
        log.settle(storage)?;
        removals::sync(storage, file).map_err(noting)?;
        Ok(true)
    }

    /// Removes a day's directory if it has no segments any more. Its seals are kept in
    /// `removals.jsonl`.
    fn leave_day(&self, day: Day, reason: RemovalReason) -> Result<()> {
        let storage = &*self.storage;
        let dir = day.to_string();
        let io = |e| io_error(storage, "remove the directory", &dir, e);
        let seals = format!("{dir}/{}", SealLog::FILE);
        let is_left = || -> Result<bool> {
            let entries = if_there(storage.read_dir(&dir)).map_err(io)?;
            let is_seals = |entry: &Entry| entry.name == SealLog::FILE;
            Ok(entries.is_some_and(|entries| entries.iter().all(is_seals)))
        };
        if !is_left()? {
            return Ok(());
        }
        let mut log = self.seals();
        let txn = self.begin()?;
        log.refresh(storage)?;
        let left: Vec<_> = log.only_in(&seals).map(raw).collect();
        let noting = |e| io_error(storage, "note what is removed", removals::NAME, e);
        let mut file = None;
        if !left.is_empty() {
            let removal = Removal {
                seals: left,
                ..Removal::new(reason, seals.clone(), txn.number_watermarks())
            };
            file = Some(removals::append(storage, removal).map_err(noting)?);
        }
        txn.commit()?;
        removals::sync(storage, file).map_err(noting)?;
        // Another process may have just written a late record there, or sealed a segment.
        let txn = self.begin()?;
        log.refresh(storage)?;
        if is_left()? && log.only_in(&seals).next().is_none() {
            remove_if_there(storage, &seals).map_err(io)?;
            storage.remove_dir(&dir).map_err(io)?;
        }
        txn.commit()?;
        storage.sync_dir("").map_err(io)
    }
}

impl RewritePlan {
    /// Writes the remaining lines to a temporary file, makes it read-only and syncs it. The caller
    /// renames it and syncs the directory. Returns its identity and its contents, for the seal
    /// under `name`.
    fn write(
        &self,
        storage: &dyn Storage,
        name: SegmentName,
        path: &str,
    ) -> io::Result<(u64, Contents)> {
        remove_if_there(storage, path)?;
        let out = storage.open(path, Access::Append)?;
        let mut room = vec![0; COPY_BYTES];
        for piece in &self.pieces {
            let (_, file) = &self.files[piece.file as usize];
            let (mut at, mut left) = (u64::from(piece.start), piece.len as usize);
            while left > 0 {
                let wanted = left.min(COPY_BYTES);
                let read = read_full(&**file, &mut room[..wanted], at)?;
                if read < wanted {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                append_all(&*out, &room[..read])?;
                at += read as u64;
                left -= read;
            }
        }
        storage.set_read_only(path)?;
        // A handle opened for reading also syncs the mode.
        storage.open(path, Access::Read)?.sync()?;
        let contents = Contents::of(&*out, name)?;
        Ok((out.stat()?.identity, contents))
    }
}

/// A seal in the format of its line.
fn raw(seal: &Seal) -> Box<RawValue> {
    RawValue::from_string(seal.to_line()).unwrap_or_default()
}
