//! The object store, and what decklog keeps there.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, UpdateVersion,
};
use uuid::Uuid;

use super::layout::{self, DayEntry, DayManifest, FileEntry, StoreState, path, state_object};
use crate::error::{Error, ErrorKind, Result};
use crate::segment::seal::Digest;
use crate::ship::{TRIES_MAX, remote};

/// Number of removals of objects at the same time.
const REMOVALS: usize = 16;

/// A destination in object storage.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    pub(super) store: Arc<dyn ObjectStore>,
    /// As it was given, without secrets.
    pub(super) name: String,
}

/// A store's `store.json`, and its version, for replacing it only if it is still the same.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub state: StoreState,
    pub version: Option<UpdateVersion>,
}

impl Objects {
    pub(in crate::ship) fn new(store: Arc<dyn ObjectStore>, name: String) -> Objects {
        Objects { store, name }
    }

    /// The bytes of an object; `None` if it does not exist.
    pub(super) async fn get(&self, object: &str) -> Result<Option<Bytes>> {
        Ok(self.fetch(object).await?.map(|(_, bytes)| bytes))
    }

    /// An object and its version; `None` if it does not exist.
    async fn fetch(&self, object: &str) -> Result<Option<(UpdateVersion, Bytes)>> {
        let mut tries = 1;
        loop {
            let got = match self.store.get(&path(object)).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                got => got.map_err(|e| remote("read", object, e))?,
            };
            let version = UpdateVersion {
                e_tag: got.meta.e_tag.clone(),
                version: got.meta.version.clone(),
            };
            match got.bytes().await {
                Ok(bytes) => return Ok(Some((version, bytes))),
                // The answer was cut, and the object replaced before the rest was read.
                Err(_) if tries < TRIES_MAX => tries += 1,
                Err(e) => return Err(remote("read", object, e)),
            }
        }
    }

    /// The bytes of a small object that must be there and have this hash.
    pub(super) async fn get_file(&self, entry: &FileEntry) -> Result<Bytes> {
        let bytes = self.get(&entry.object).await?;
        let bytes = bytes.ok_or_else(|| self.damaged(&entry.object, "it is missing"))?;
        if Digest::of(&bytes) != entry.sha256 {
            return Err(self.damaged(&entry.object, "it was changed"));
        }
        Ok(bytes)
    }

    pub(super) async fn put(&self, object: &str, bytes: Vec<u8>) -> Result<()> {
        let put = self.store.put(&path(object), bytes.into()).await;
        put.map(drop).map_err(|e| remote("write", object, e))
    }

    /// Removes objects. Those that do not exist are skipped.
    pub(super) async fn remove(&self, names: Vec<String>) -> Result<u64> {
        let removals = futures_util::stream::iter(names).map(|object| async move {
            match self.store.delete(&path(&object)).await {
                Ok(()) => Ok(1),
                Err(object_store::Error::NotFound { .. }) => Ok(0),
                Err(e) => Err(remote("remove", &object, e)),
            }
        });
        let removed: Vec<u64> = removals.buffer_unordered(REMOVALS).try_collect().await?;
        Ok(removed.into_iter().sum())
    }

    /// The names of all objects with a prefix.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let listed = self.store.list(Some(&path(prefix)));
        let names = listed.map_ok(|meta| meta.location.to_string());
        names
            .try_collect()
            .await
            .map_err(|e| remote("list", prefix, e))
    }

    pub(super) async fn known(&self, store_id: Uuid) -> Result<Option<Known>> {
        let object = state_object(store_id);
        let Some((version, bytes)) = self.fetch(&object).await? else {
            return Ok(None);
        };
        let state: StoreState = serde_json::from_slice(&bytes)
            .map_err(|e| self.damaged(&object, &format!("it cannot be read: {e}")))?;
        if state.layout > layout::LAYOUT {
            let message = format!(
                "{}: {object} has layout {}, and this version knows layouts up to {}: install a newer version",
                self.name,
                state.layout,
                layout::LAYOUT
            );
            return Err(Error::new(ErrorKind::NewerFormat, message));
        }
        if let Some(reason) = state.flaw(store_id) {
            return Err(self.damaged(&object, &reason));
        }
        Ok(Some(Known {
            state,
            version: Some(version),
        }))
    }

    /// Replaces `store.json` by another version, if it is still the one that is known.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if another process replaced it.
    pub(super) async fn write_state(&self, known: &mut Known) -> Result<()> {
        let object = state_object(known.state.store_id);
        known.state.version = Uuid::new_v4();
        let bytes = serde_json::to_vec(&known.state)
            .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
        let payload = PutPayload::from(bytes);
        let mode = match &known.version {
            Some(version) => PutMode::Update(version.clone()),
            None => PutMode::Create,
        };
        let put = |mode: PutMode| {
            let payload = payload.clone();
            let options = PutOptions::from(mode);
            let location = path(&object);
            async move { self.store.put_opts(&location, payload, options).await }
        };
        let written = match put(mode).await {
            // A directory cannot compare versions. A lock excludes other processes there.
            Err(
                object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. },
            ) => put(PutMode::Overwrite).await,
            written => written,
        };
        match written {
            Ok(written) => {
                known.version = Some(written.into());
                Ok(())
            }
            Err(
                object_store::Error::AlreadyExists { .. }
                | object_store::Error::Precondition { .. },
            ) => match self.known(known.state.store_id).await? {
                // It was written, the answer was lost, and it was written again.
                Some(found) if found.state.version == known.state.version => {
                    known.version = found.version;
                    Ok(())
                }
                _ => Err(Error::new(
                    ErrorKind::Conflict,
                    format!("another process wrote {object} meanwhile: try again"),
                )),
            },
            Err(e) => Err(remote("write", &object, e)),
        }
    }

    /// The ids of the stores that are there.
    pub(in crate::ship) async fn stores(&self) -> Result<Vec<Uuid>> {
        let listed = self
            .store
            .list_with_delimiter(Some(&path(layout::ROOT)))
            .await;
        let listed = listed.map_err(|e| remote("list", layout::ROOT, e))?;
        let ids = listed.common_prefixes.iter().filter_map(|prefix| {
            let name = prefix.filename()?.strip_prefix("store=")?;
            Uuid::try_parse(name).ok()
        });
        let mut ids: Vec<Uuid> = ids.collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// What is there of one store, or of all.
    pub(in crate::ship) async fn states(&self, store_id: Option<Uuid>) -> Result<Vec<StoreState>> {
        let ids = match store_id {
            Some(id) => vec![id],
            None => self.stores().await?,
        };
        let mut states = Vec::new();
        for id in ids {
            states.extend(self.known(id).await?.map(|known| known.state));
        }
        if states.is_empty() {
            let message = match store_id {
                Some(id) => format!("store {id} was not shipped to {}", self.name),
                None => format!("no store was shipped to {}", self.name),
            };
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(states)
    }

    pub(super) async fn day_manifest(&self, entry: &DayEntry) -> Result<DayManifest> {
        let bytes = self.get(&entry.manifest).await?;
        let bytes = bytes.ok_or_else(|| self.damaged(&entry.manifest, "it is missing"))?;
        if !layout::is_named_by(&entry.manifest, Digest::of(&bytes)) {
            return Err(self.damaged(&entry.manifest, "it was changed"));
        }
        let manifest: DayManifest = serde_json::from_slice(&bytes)
            .map_err(|e| self.damaged(&entry.manifest, &format!("it cannot be read: {e}")))?;
        match manifest.flaw() {
            Some(reason) => Err(self.damaged(&entry.manifest, &reason)),
            None => Ok(manifest),
        }
    }

    pub(super) fn damaged(&self, object: &str, reason: &str) -> Error {
        let message = format!("{}: the object {object} is damaged: {reason}", self.name);
        Error::new(ErrorKind::Damaged, message)
    }
}
