//! Files in `cache/` that hold one JSON value: what another run need not compute again.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use crate::storage::{Access, Storage, read_all, replace_file, replace_file_unsynced};

const DIR: &str = "cache";

/// The place of a value. The file is `header`, the value, and the XXH3 of both.
#[derive(Debug)]
pub(crate) struct CacheFile {
    pub path: &'static str,
    /// The first line: the layout, and the version of decklog that wrote it.
    pub header: &'static str,
}

impl CacheFile {
    /// The value; `None` if the file is missing, damaged, or has another header.
    pub(crate) fn load<T: DeserializeOwned>(&self, storage: &dyn Storage) -> Option<T> {
        let bytes = read_all(&*storage.open(self.path, Access::Read).ok()?).ok()?;
        let (body, hash) = bytes.split_last_chunk()?;
        if xxh3_64(body) != u64::from_le_bytes(*hash) {
            return None;
        }
        serde_json::from_slice(body.strip_prefix(self.header.as_bytes())?).ok()
    }

    /// Replaces the file.
    pub(crate) fn save(&self, storage: &dyn Storage, value: &impl Serialize) -> io::Result<()> {
        let bytes = self.bytes(value)?;
        storage.create_dir(DIR)?;
        replace_file(storage, self.path, &bytes)
    }

    /// Replaces the file without waiting for the disk. After a power cut the value may be lost.
    pub(crate) fn save_unsynced(
        &self,
        storage: &dyn Storage,
        value: &impl Serialize,
    ) -> io::Result<()> {
        let bytes = self.bytes(value)?;
        storage.create_dir(DIR)?;
        replace_file_unsynced(storage, self.path, &bytes)
    }

    fn bytes(&self, value: &impl Serialize) -> io::Result<Vec<u8>> {
        let mut bytes = self.header.as_bytes().to_vec();
        serde_json::to_writer(&mut bytes, value)?;
        bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
        Ok(bytes)
    }
}
