//! Finds or creates the segment to append a line to, and opens its file.

use std::io;
use std::sync::Arc;

use super::{Handle, Txn, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::storage::{Access, FileStat, Named, full_path, if_there, io_error};
use crate::store::maintain::seal::SealLog;
use crate::store::manifest;
use crate::store::view::state::Segment;

impl Writer {
    /// The open handle of a segment, if it is open. Moves it to the front of the list.
    fn open_handle(&mut self, segment: u32) -> Option<&Handle> {
        let place = self.handles.iter().position(|(id, _)| *id == segment)?;
        if place > 0 {
            self.handles[..=place].rotate_right(1);
        }
        self.handles.first().map(|(_, handle)| handle)
    }

    /// Notes that a segment need not be looked at again in the next transaction, if its file is as
    /// known and open.
    pub(super) fn note_checked(&mut self, id: u32, known: &Segment, found: &FileStat) {
        let is_known = (found.identity, found.len) == (known.identity, known.expected_len())
            && found.is_read_only == known.is_sealed
            && !known.is_sealed;
        let open = self.open_handle(id);
        if is_known && open.is_some_and(|open| open.named.identity == found.identity) {
            self.scratch.checked.push(id);
        }
    }

    /// Closes a segment, if it is open.
    pub(super) fn close(&mut self, segment: u32) {
        self.handles.retain(|(id, _)| *id != segment);
    }
}

impl Txn<'_> {
    /// The segment to append a line of `len` bytes to, checked and open. Its last byte is an LF.
    pub(super) fn target(&mut self, day: Day, kind: Kind, len: u64) -> Result<u32> {
        const LOOKS_MAX: u32 = 3;
        for _ in 0..LOOKS_MAX {
            let first = SegmentName {
                day,
                kind,
                number: 1,
            };
            let active = match self.state.active(day, kind) {
                Some(active) => active,
                None => self.create_from(first)?,
            };
            if self.is_as_known(active)? {
                let segment = &self.state.segments[active as usize];
                let room = self
                    .inner
                    .segment_bytes_max
                    .saturating_sub(segment.expected_len());
                let is_full = segment.is_sealed || segment.end > 0 && len > room;
                let next_number = segment.name.number.checked_add(1);
                let Some(number) = next_number.filter(|_| is_full) else {
                    if segment.tail.is_none() {
                        return Ok(active);
                    }
                    // A torn line of a process that died: terminate it, so that it stays separate.
                    self.flush()?;
                    let ended = self.end_tails(&[active]);
                    ended.map_err(|e| self.give_up(e))?;
                    self.scratch.checked.clear();
                    continue;
                };
                if !segment.is_sealed {
                    self.inner.upkeep_schedule.notify_full();
                }
                let next = self.create_from(SegmentName { number, ..first })?;
                if self.is_as_known(next)? && !self.state.segments[next as usize].is_sealed {
                    return Ok(next);
                }
            }
            // Another program changed the segment: write the buffered lines before the rescan.
            self.flush()?;
            if let Err(e) = self
                .rescan_after_failure()
                .and_then(|()| self.complete_whole_tails())
            {
                return Err(self.give_up(e));
            }
        }
        let message = "segments are changed by another program all the time: end that first";
        let path = full_path(&*self.inner.storage, &day.to_string());
        Err(Error::new(ErrorKind::Damaged, message).with_path(&path))
    }

    /// Whether a segment is still the file, and has the length, that this handle knows. Updates
    /// whether it is sealed. If it is not, it is open afterwards.
    pub(super) fn is_as_known(&mut self, segment: u32) -> Result<bool> {
        if self.scratch.checked.contains(&segment) {
            return Ok(true);
        }
        // By name: the directory may have been moved away together with the open file.
        let open = self
            .writer
            .open_handle(segment)
            .map(|handle| Arc::clone(&handle.path));
        let path = open.unwrap_or_else(|| self.path(segment).into());
        let found = if_there(self.inner.storage.stat(&path));
        let Some(found) = found.map_err(|e| self.io("look at", segment, e))? else {
            return Ok(false);
        };
        let known = &mut self.state.segments[segment as usize];
        if found.identity != known.identity || found.len != known.expected_len() {
            // Do not open it: it may not even be a regular file.
            return Ok(false);
        }
        known.is_sealed = found.is_read_only;
        if known.is_sealed {
            self.writer.close(segment);
            return Ok(true);
        }
        let is_as_known = self.handle(segment)?.named.identity == found.identity;
        if is_as_known {
            self.scratch.checked.push(segment);
        }
        Ok(is_as_known)
    }

    /// Fails if other processes lock another file by now. That may be of another store, whose
    /// sequence numbers and settings this transaction does not know. Call it after opening a file,
    /// so that the check covers that file.
    fn check_lock(&self) -> Result<()> {
        let storage = &*self.inner.storage;
        let path = full_path(storage, "LOCK");
        let is_current = self.writer.lock.is_current(storage);
        if is_current.map_err(|e| Error::io("look at the lock", &path, e))? {
            return Ok(());
        }
        // `LOCK` was deleted, but the store is the same. Other processes wait until the holder
        // notices.
        let found = manifest::read(storage)?;
        if found.is_some_and(|found| {
            found.store_id == self.inner.store_id && self.policy().is_from(&found)
        }) {
            return Ok(());
        }
        let message = "the store was taken away while this was being written, and another one may have come: record it again";
        Err(Error::new(ErrorKind::Locked, message).with_path(&path))
    }

    /// Reads changes in all segments that were made by other programs, and makes the other
    /// processes rescan, too.
    pub(in crate::store) fn rescan_after_failure(&mut self) -> Result<()> {
        self.check_lock()?;
        self.writer.handles.clear();
        self.writer.recent.clear();
        self.scratch.checked.clear();
        self.writer.header.call_for_a_look();
        self.rescan()
    }

    /// The greatest known sequence number.
    pub(in crate::store) fn max_seq(&self) -> u64 {
        self.state.max_seq
    }

    /// All existing segments.
    pub(in crate::store) fn segments(&self) -> Vec<SegmentName> {
        let present = self.state.present_in_order();
        present.map(|(_, segment)| segment.name).collect()
    }

    /// Creates a segment, under the first free name from this one on.
    fn create_from(&mut self, mut name: SegmentName) -> Result<u32> {
        // A sealed segment's name is never reused, even if no record of its removal is left.
        if let Some(last) = SealLog::last_number(&*self.inner.storage, name.day, name.kind) {
            name.number = name.number.max(last.saturating_add(1));
        }
        loop {
            if !self.state.taken.contains(&name) {
                match self.create(name) {
                    Err(_) if self.is_taken(name) => self.state.taken.push(name),
                    made => return made,
                }
            }
            match name.number.checked_add(1) {
                Some(number) => name.number = number,
                None => return self.create(name),
            }
        }
    }

    /// Whether something other than a file has this name.
    fn is_taken(&self, name: SegmentName) -> bool {
        let file_name = name.file_name();
        let entries = self.inner.storage.read_dir(&name.day.to_string());
        entries.is_ok_and(|entries| {
            let mut entries = entries.iter();
            entries.any(|entry| entry.name == file_name && !entry.is_file)
        })
    }

    fn create(&mut self, name: SegmentName) -> Result<u32> {
        let storage = &*self.inner.storage;
        let dir = name.day.to_string();
        storage
            .create_dir(&dir)
            .map_err(|e| io_error(storage, "make the directory", &dir, e))?;
        let segment = self.state.place(name);
        self.state.segments[segment as usize].identity = self.handle(segment)?.named.identity;
        Ok(segment)
    }

    pub(super) fn handle(&mut self, segment: u32) -> Result<Handle> {
        if let Some(handle) = self.writer.open_handle(segment) {
            return Ok(handle.clone());
        }
        let path = self.path(segment);
        let opened = Named::open(&*self.inner.storage, &path, Access::Append);
        let named = opened.map_err(|e| self.io("open", segment, e))?;
        self.check_lock()?;
        // The process that created the file may not have synced the directory.
        let day = self.state.segments[segment as usize].name.day;
        self.inner.sync.mark_dir(&day.to_string());
        self.inner.sync.mark_dir("");
        let others_max = self.writer.handles_max.saturating_sub(1);
        self.writer.handles.truncate(others_max);
        let handle = Handle {
            named,
            path: path.into(),
        };
        self.writer.handles.insert(0, (segment, handle.clone()));
        Ok(handle)
    }

    fn path(&self, segment: u32) -> String {
        self.state.segments[segment as usize].name.path()
    }

    pub(super) fn io(&self, doing: &str, segment: u32, e: io::Error) -> Error {
        let path = self.path(segment);
        io_error(
            &*self.inner.storage,
            &format!("{doing} the segment"),
            &path,
            e,
        )
    }
}
