//! The settings under the lock: reads them from the manifest, and replaces them there.

use std::sync::Arc;

use super::Txn;
use crate::error::Result;
use crate::storage::io_error;
use crate::store::commit::head::Head;
use crate::store::commit::write_policy::WritePolicy;
use crate::store::manifest::Manifest;
use crate::store::{Inner, Settings};

impl<'s> Txn<'s> {
    /// Reads the settings, if they may have changed since this handle last did.
    pub(super) fn read_settings(&mut self) -> Result<()> {
        let writer = &mut *self.writer;
        let shared = writer.head.as_ref().and_then(Head::shared_settings);
        let count = shared.unwrap_or(writer.header.settings);
        if writer.settings_count != Some(count) {
            let policies = &self.inner.policies;
            writer.policy = policies.use_manifest(policies.manifest()?, Some(count));
            writer.settings_count = Some(count);
        }
        Ok(())
    }

    /// Reads the settings, even if there is no sign of a change.
    pub(in crate::store) fn reload_settings(&mut self) -> Result<Settings> {
        self.writer.settings_count = None;
        self.read_settings()?;
        Ok(self.inner.policies.known_settings())
    }

    pub(in crate::store) fn inner(&self) -> &'s Inner {
        self.inner
    }

    /// The policy that applies to records written now.
    pub(in crate::store) fn policy(&self) -> &Arc<WritePolicy> {
        &self.writer.policy
    }

    /// Changes the settings in the manifest and returns them.
    pub(in crate::store) fn change_settings(
        &mut self,
        change: impl FnOnce(&mut Settings),
    ) -> Result<Settings> {
        let known = self.inner.policies.manifest()?;
        let mut settings = known.settings.clone();
        change(&mut settings);
        if settings != known.settings {
            settings.check()?;
            self.replace_manifest(&known.with_settings(settings.clone())?)?;
        }
        Ok(settings)
    }

    /// Records in the manifest the key under which user ids are hashed from now on.
    pub(in crate::store) fn note_user_id_key(&mut self, fingerprint: Option<String>) -> Result<()> {
        let mut manifest = self.inner.policies.manifest()?;
        manifest.key_fingerprint = fingerprint;
        self.replace_manifest(&manifest)
    }

    /// Replaces the manifest, and makes every process read it.
    fn replace_manifest(&mut self, manifest: &Manifest) -> Result<()> {
        // Increment the count before the write: if this process dies in between, the next holder
        // of the lock reads the manifest again in any case. Increment it again afterwards, for
        // processes that read without the lock.
        self.call_for_settings()?;
        manifest.write(&*self.inner.storage)?;
        self.call_for_settings()?;
        self.read_settings()
    }

    fn call_for_settings(&mut self) -> Result<()> {
        let writer = &mut *self.writer;
        let Some(head) = &writer.head else {
            return Ok(());
        };
        head.call_for_settings(&mut writer.header)
            .map_err(|e| io_error(&*self.inner.storage, "write HEAD", "HEAD", e))
    }
}
