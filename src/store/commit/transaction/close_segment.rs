//! Closes a segment, so that no more lines are appended to it.

use super::{Handle, Txn};
use crate::error::Result;
use crate::segment::SegmentName;
use crate::storage::{Access, Named};

impl Txn<'_> {
    /// Terminates the segment's last line and makes it read-only. Returns `false` if it is missing
    /// or differs from what this handle knows; then it is left for later.
    pub(in crate::store) fn close_segment(&mut self, name: SegmentName) -> Result<bool> {
        let Some(segment) = self.state.by_name.get(&name).copied() else {
            return Ok(false);
        };
        let known = &self.state.segments[segment as usize];
        if known.identity == 0 || !self.is_as_known(segment)? {
            return Ok(false);
        }
        let known = &self.state.segments[segment as usize];
        if known.is_sealed {
            return Ok(true);
        }
        if known.tail.is_some() {
            self.end_tails(&[segment])?;
        }
        let closed = self.inner.storage.set_read_only(&name.path());
        closed.map_err(|e| self.io("make read-only", segment, e))?;
        self.state.segments[segment as usize].is_sealed = true;
        self.writer.close(segment);
        Ok(true)
    }

    /// A segment's open file, for a sync. A sealed segment can only be opened for reading.
    pub(super) fn handle_to_sync(&mut self, segment: u32) -> Result<Handle> {
        let path = self.state.segments[segment as usize].name.path();
        let found = self.inner.storage.stat(&path);
        if !found.is_ok_and(|found| found.is_read_only) {
            return self.handle(segment);
        }
        let opened = Named::open(&*self.inner.storage, &path, Access::Read);
        let named = opened.map_err(|e| self.io("open", segment, e))?;
        let path = path.into();
        Ok(Handle { named, path })
    }
}
