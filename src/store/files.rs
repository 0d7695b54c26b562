//! Open segments for reading: a bounded number of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Error, ErrorKind, Result};
use crate::segment::SegmentName;
use crate::storage::{Access, Storage, StorageFile, full_path};

const OPEN_MAX: usize = 128;

/// Handles by the segment's place, with their identity: a file that was replaced has another one.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: Mutex<HashMap<u32, (u64, Arc<dyn StorageFile>)>>,
}

impl Files {
    pub(super) fn get(
        &self,
        storage: &dyn Storage,
        segment: u32,
        name: SegmentName,
        identity: u64,
    ) -> Result<Arc<dyn StorageFile>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, file)) = open.get(&segment).filter(|(known, _)| *known == identity) {
            return Ok(Arc::clone(file));
        }
        let path = name.path();
        let file = storage
            .open(&path, Access::Read)
            .map_err(|e| Error::io("open the segment", &full_path(storage, &path), e))?;
        let stat = file
            .stat()
            .map_err(|e| Error::io("look at the segment", &full_path(storage, &path), e))?;
        if stat.identity != identity {
            let message = "the segment was replaced while it was read: read again";
            let err = Error::new(ErrorKind::Damaged, message);
            return Err(err.with_path(&full_path(storage, &path)));
        }
        if open.len() >= OPEN_MAX {
            // Any one will do: who reads at random keeps none, who reads a few keeps them.
            let evicted = open.keys().next().copied();
            evicted.map(|key| open.remove(&key));
        }
        open.insert(segment, (identity, Arc::clone(&file)));
        Ok(file)
    }
}
