//! The write policy of the current settings. The manifest is read again only when `HEAD` says that
//! the settings changed.

use std::sync::{Arc, PoisonError, RwLock};

use uuid::Uuid;

use super::head_reader::HeadReader;
use super::write_policy::WritePolicy;
use crate::error::Result;
use crate::privacy::UserKey;
use crate::storage::Storage;
use crate::store::Settings;
use crate::store::manifest::{self, Manifest};

#[derive(Debug)]
pub(crate) struct PolicyCache {
    storage: Arc<dyn Storage>,
    head_reader: Arc<HeadReader>,
    store_id: Uuid,
    cached: RwLock<Cached>,
}

#[derive(Debug)]
struct Cached {
    policy: Arc<WritePolicy>,
    /// The settings count of `HEAD` when the manifest was read.
    count: Option<u64>,
}

impl PolicyCache {
    pub(in crate::store) fn new(
        storage: Arc<dyn Storage>,
        head_reader: Arc<HeadReader>,
        manifest: Manifest,
        user_id_key: UserKey,
    ) -> PolicyCache {
        PolicyCache {
            storage,
            head_reader,
            store_id: manifest.store_id,
            cached: RwLock::new(Cached {
                policy: Arc::new(WritePolicy::new(manifest, user_id_key)),
                count: None,
            }),
        }
    }

    pub(super) fn storage(&self) -> &dyn Storage {
        &*self.storage
    }

    /// The settings as this handle last read them.
    pub(in crate::store) fn known_settings(&self) -> Settings {
        self.known().settings().clone()
    }

    /// The manifest, or one with the known settings if it is missing.
    pub(in crate::store) fn manifest(&self) -> Result<Manifest> {
        let manifest = manifest::read(&*self.storage)?;
        Ok(manifest.unwrap_or_else(|| self.known().to_manifest(self.store_id)))
    }

    /// The policy of the settings that were read last.
    pub(in crate::store) fn known(&self) -> Arc<WritePolicy> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&cached.policy)
    }

    /// The policy of the current settings, as far as known without the lock.
    pub(crate) fn current(&self) -> Arc<WritePolicy> {
        loop {
            let now = self.head_reader.settings(&*self.storage);
            let policy = {
                let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
                if now.is_none() || cached.count == now {
                    return Arc::clone(&cached.policy);
                }
                Arc::clone(&cached.policy)
            };
            // If the manifest cannot be read, the write fails later, under the lock.
            let Ok(manifest) = self.manifest() else {
                return policy;
            };
            // A change of settings increments the count before and after it.
            if self.head_reader.settings(&*self.storage) == now {
                return self.use_manifest(manifest, now);
            }
        }
    }

    /// Applies this manifest to subsequent writes.
    pub(in crate::store) fn use_manifest(
        &self,
        manifest: Manifest,
        count: Option<u64>,
    ) -> Arc<WritePolicy> {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        cached.count = count;
        if !cached.policy.is_from(&manifest) {
            cached.policy = Arc::new(cached.policy.with_manifest(manifest));
        }
        Arc::clone(&cached.policy)
    }
}
