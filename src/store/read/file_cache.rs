//! A bounded cache of segments that are open for reading.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::segment::SegmentName;
use crate::storage::{Access, Storage, StorageFile, full_path, io_error, is_gone};

/// A segment's index, its identity and its handle. A file that was replaced has another identity.
type Open = (u32, u64, Arc<dyn StorageFile>);

/// Open files. The segment's index determines the slot, so readers of different segments rarely
/// wait for each other.
#[derive(Debug)]
pub(in crate::store) struct FileCache(Box<[Mutex<Option<Open>>]>);

impl FileCache {
    /// An empty cache for at most `open_max` files.
    pub(in crate::store) fn new(open_max: usize) -> FileCache {
        FileCache((0..open_max.max(1)).map(|_| Mutex::default()).collect())
    }

    pub(in crate::store) fn get(
        &self,
        storage: &dyn Storage,
        segment: u32,
        name: SegmentName,
        identity: u64,
    ) -> Result<Arc<dyn StorageFile>> {
        let mut open = self.0[segment as usize % self.0.len()]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((of, known, file)) = &*open
            && (*of, *known) == (segment, identity)
        {
            return Ok(Arc::clone(file));
        }
        let path = name.path();
        let replaced = || {
            let message = "the segment was replaced while it was read: read again";
            Error::new(ErrorKind::Damaged, message).with_path(&full_path(storage, &path))
        };
        let file = match storage.open(&path, Access::Read) {
            Ok(file) => file,
            Err(e) if is_gone(&e) => return Err(replaced()),
            Err(e) => return Err(io_error(storage, "open the segment", &path, e)),
        };
        let stat = file
            .stat()
            .map_err(|e| io_error(storage, "look at the segment", &path, e))?;
        if stat.identity != identity {
            return Err(replaced());
        }
        *open = Some((segment, identity, Arc::clone(&file)));
        Ok(file)
    }
}
