//! The write policy: redacts every record by the store's privacy settings before its bytes can
//! reach the disk.
//!
//! A [`Record`] becomes a [`PreparedRecord`] before the lock is taken, since redaction takes time.
//! It becomes a [`Redacted`] under the lock, where the settings cannot change. A transaction
//! accepts only [`Redacted`], and there is no other way to create one.

use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::policy_cache::PolicyCache;
use crate::error::{Error, ErrorKind, Result};
use crate::line::Value;
use crate::privacy::{Privacy, PrivacySettings, UserIdKey, UserKey, key_of, key_of_record};
use crate::record::declare::{Class, Place};
use crate::record::{Kind, Record, RecordType};
use crate::segment::{each_fact, list};
use crate::storage::Storage;
use crate::store::manifest::Manifest;
use crate::store::{Settings, Store, Txn};

/// Settings in the form in which they are applied.
#[derive(Debug)]
pub(crate) struct WritePolicy {
    settings: Settings,
    /// The fingerprint of the key under which the store's user ids are hashed, if any are.
    key_fingerprint: Option<String>,
    user_id_key: UserKey,
    /// Created when first needed: a process that only reads rarely needs it.
    privacy: OnceLock<Privacy>,
    stricter: OnceLock<Vec<Privacy>>,
    /// Set once the available key is known to be the one of the existing hashed ids.
    is_key_checked: OnceLock<()>,
}

impl WritePolicy {
    pub(super) fn new(manifest: Manifest, user_id_key: UserKey) -> WritePolicy {
        WritePolicy {
            settings: manifest.settings,
            key_fingerprint: manifest.key_fingerprint,
            user_id_key,
            privacy: OnceLock::new(),
            stricter: OnceLock::new(),
            is_key_checked: OnceLock::new(),
        }
    }

    /// The policy of another manifest, with the same key for user ids.
    pub(super) fn with_manifest(&self, manifest: Manifest) -> WritePolicy {
        WritePolicy::new(manifest, self.user_id_key.clone())
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A manifest with this policy, to replace a lost one.
    pub(super) fn to_manifest(&self, store_id: Uuid) -> Manifest {
        Manifest::new(
            store_id,
            self.settings.clone(),
            self.key_fingerprint.clone(),
        )
    }

    pub(in crate::store) fn is_from(&self, manifest: &Manifest) -> bool {
        self.settings == manifest.settings && self.key_fingerprint == manifest.key_fingerprint
    }

    fn is_same(self: &Arc<WritePolicy>, other: &Arc<WritePolicy>) -> bool {
        let is_equal =
            || self.settings == other.settings && self.key_fingerprint == other.key_fingerprint;
        Arc::ptr_eq(self, other) || is_equal()
    }

    fn privacy(&self) -> Result<&Privacy> {
        if let Some(privacy) = self.privacy.get() {
            return Ok(privacy);
        }
        let privacy = self.privacy_by(self.settings.privacy.clone())?;
        Ok(self.privacy.get_or_init(|| privacy))
    }

    fn privacy_by(&self, settings: PrivacySettings) -> Result<Privacy> {
        let key = self.user_id_key.expecting(self.key_fingerprint.clone());
        Ok(Privacy::new(settings)?.with_key(key))
    }

    /// Checks the key of user ids if a record needs it. Creates the key for the first such record.
    fn check_key(&self, storage: &dyn Storage, record: &Record) -> Result<()> {
        let privacy = self.privacy()?;
        let is_known = self.key_fingerprint.is_some() || self.is_key_checked.get().is_some();
        if is_known || !privacy.needs_user_key(record) {
            return Ok(());
        }
        // The fingerprint may have been deleted from the manifest.
        match hashed_under(storage)? {
            Some(key) => self.user_id_key.expecting(Some(key)).check()?,
            None => privacy.make_key()?,
        }
        self.is_key_checked.get_or_init(|| ());
        Ok(())
    }

    /// Redacts a record by these settings.
    fn redact(&self, storage: &dyn Storage, record: Record) -> Result<Redacted> {
        self.check_key(storage, &record)?;
        let (record, original) = self.privacy()?.apply_and_tell(record)?;
        let original = original.map(Box::new);
        Ok(Redacted { record, original })
    }

    /// Redaction with all settings that keep less of a record than these do.
    fn stricter(&self) -> &[Privacy] {
        self.stricter.get_or_init(|| {
            let settings = self.settings.privacy.stricter();
            settings
                .filter_map(|settings| self.privacy_by(settings).ok())
                .collect()
        })
    }

    /// The fingerprint to store in the manifest before a record is written, if any.
    pub(in crate::store) fn key_to_note(&self, record: &Record) -> Option<String> {
        // Also for an id that the caller hashed already, so that no process hashes by another key
        // here.
        let key = key_of_record(record).filter(|_| self.key_fingerprint.is_none());
        key.map(str::to_owned)
    }
}

/// The fingerprint of the key under which the last hashed user id in the log was hashed. Reads the
/// segments of kinds with a user id, the last segment first.
pub(in crate::store) fn hashed_under(storage: &dyn Storage) -> Result<Option<String>> {
    let mut last = None;
    for name in list(storage)?.segments.into_iter().rev() {
        let Some(lookup) = user_lookup(name.kind) else {
            continue;
        };
        // A segment that cannot be read is reported as damage elsewhere.
        let _ = each_fact(storage, name, &mut |fact| {
            let user = fact.envelope.lookups[lookup].as_ref();
            if let Some(key) = user.and_then(key_of_value) {
                last = Some(key);
            }
        });
        if last.is_some() {
            break;
        }
    }
    Ok(last)
}

/// The index of a kind's lookup field that holds a user id, if any.
fn user_lookup(kind: Kind) -> Option<usize> {
    let mut lookups = kind.fields().filter(|field| field.place == Place::Lookup);
    lookups.position(|field| field.class == Class::User)
}

/// The fingerprint of the key under which a user id in a line is hashed, if it is hashed.
pub(crate) fn key_of_value(user: &Value<'_>) -> Option<String> {
    let mut room = [0; Value::BYTES];
    let user = str::from_utf8(user.text(&mut room)).ok()?;
    key_of(user).map(str::to_owned)
}

/// A record redacted by the settings known before the lock was taken.
#[derive(Debug)]
pub(crate) struct PreparedRecord {
    redacted: Redacted,
    policy: Arc<WritePolicy>,
}

/// A record redacted by the settings in force.
#[derive(Debug)]
pub(crate) struct Redacted {
    record: Record,
    /// The original record, if redaction changed it.
    original: Option<Box<Record>>,
}

impl PolicyCache {
    /// Redacts a record, which was checked before, by the current settings.
    pub(crate) fn prepare(&self, record: Record) -> Result<PreparedRecord> {
        self.prepare_by(self.current(), record)
    }

    /// As [`prepare`](PolicyCache::prepare), by these settings.
    pub(crate) fn prepare_by(
        &self,
        policy: Arc<WritePolicy>,
        record: Record,
    ) -> Result<PreparedRecord> {
        let redacted = policy.redact(self.storage(), record)?;
        Ok(PreparedRecord { redacted, policy })
    }

    /// The forms in which a user's id may be in the log, whatever the settings were when it was
    /// recorded: as given, and hashed. No key is created.
    ///
    /// # Errors
    /// The log has hashed ids, and their key is missing or cannot be read.
    pub(crate) fn user_ids(&self, id: &str) -> Result<Vec<String>> {
        let mut forms = vec![id.to_owned()];
        match self.current().privacy()?.hashed_user_id(id) {
            Ok(hashed) if hashed != id => forms.push(hashed),
            Err(e) if hashed_under(self.storage())?.is_some() => return Err(e),
            _ => {}
        }
        Ok(forms)
    }
}

impl Txn<'_> {
    /// Redacts a record that was prepared before the lock was taken.
    pub(crate) fn redact_prepared(&self, prepared: PreparedRecord) -> Result<Redacted> {
        let PreparedRecord { redacted, policy } = prepared;
        if policy.is_same(self.policy()) {
            return Ok(redacted);
        }
        let Redacted { record, original } = redacted;
        self.redact(original.map_or(record, |original| *original))
    }

    /// Redacts a record that was created and checked under the lock.
    pub(crate) fn redact(&self, record: Record) -> Result<Redacted> {
        self.policy().redact(&*self.inner().storage, record)
    }

    /// The record as stricter settings, which the store may have had before, would have redacted
    /// it.
    pub(crate) fn redacted_by_stricter(&self, redacted: &Redacted) -> Vec<Redacted> {
        let record = redacted.original.as_deref().unwrap_or(&redacted.record);
        let stricter = self.policy().stricter();
        let forms = stricter.iter().filter_map(|privacy| {
            // Skip forms that cannot be computed because their key is missing: the log does not
            // have them.
            let record = privacy.apply(record.clone()).ok()?;
            let original = None;
            Some(Redacted { record, original })
        });
        forms.collect()
    }
}

impl Store {
    /// The location of the key of user ids, the key found there, and the key that the store
    /// expects.
    ///
    /// # Errors
    /// The key's file cannot be read, holds no key, or can be read by other users.
    pub fn user_id_key(&self) -> Result<UserIdKey> {
        self.inner().policies.current().privacy()?.describe_key()
    }

    /// Sets the expected key by its fingerprint, since user ids hashed under it are about to be
    /// recorded.
    ///
    /// # Errors
    /// [`UserIdKey`](ErrorKind::UserIdKey) if the store expects another key.
    pub(crate) fn adopt_user_id_key(&self, fingerprint: &str) -> Result<()> {
        self.inner().transact(|txn| {
            let expected = txn.policy().key_fingerprint.clone();
            match expected.as_deref() {
                None => txn.note_user_id_key(Some(fingerprint.to_owned())),
                Some(expected) if expected == fingerprint => Ok(()),
                Some(expected) => {
                    let message = format!(
                        "user ids in the records are hashed under the key with the fingerprint {fingerprint}, those in the store under {expected}: erasing by user would find only one of them. Record into another store"
                    );
                    let root = txn.inner().storage.root();
                    Err(Error::new(ErrorKind::UserIdKey, message).with_path(root))
                }
            }
        })
    }

    /// Makes the key of user ids found on this machine the store's key, whatever the earlier one
    /// was. Creates one if there is none. User ids that were hashed under another key do not
    /// change: they can be found and erased only by their hashed form.
    ///
    /// # Errors
    /// As [`user_id_key`](Store::user_id_key); and if the manifest cannot be written.
    pub fn replace_user_id_key(&self) -> Result<UserIdKey> {
        let inner = self.inner();
        inner.transact(|txn| {
            txn.policy().privacy()?.make_key()?;
            let key = txn.policy().privacy()?.describe_key()?;
            txn.note_user_id_key(key.found)
        })?;
        self.user_id_key()
    }
}

impl Redacted {
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Sets fields that the log assigns, such as an id, a place or a hash. Do not set a caller's
    /// text here: it would not be redacted.
    pub(crate) fn assign<T: RecordType>(&mut self, set: impl FnOnce(&mut T)) {
        if let Some(record) = T::of_mut(&mut self.record) {
            set(record);
        }
    }

    /// Makes a conversation a change of one that the log has.
    pub(crate) fn make_update(&mut self) {
        if let Record::Conversation(conversation) = &self.record {
            self.record = Record::ConversationUpdated(conversation.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ConversationTurn, TurnKind, Validity};
    use crate::storage::Memory;
    use uuid::Uuid;

    fn open(memory: &Memory) -> Store {
        let storage = Arc::new(memory.clone());
        let options = Store::options().storage(storage).upkeep(false);
        options.open("in memory").unwrap()
    }

    fn turn() -> Record {
        Record::Turn(ConversationTurn {
            id: Uuid::from_u128(1),
            parent_id: None,
            message_id: Uuid::from_u128(2),
            kind: TurnKind::User,
            content: "write to ann@example.com".into(),
            created_at: Validity::at(1_766_832_000_000),
            thread_id: None,
        })
    }

    fn content(redacted: &Redacted) -> &str {
        match redacted.record() {
            Record::Turn(turn) => &turn.content,
            _ => "",
        }
    }

    #[test]
    fn conversations_are_found_by_user() {
        for kind in Kind::ALL {
            let expected = (kind == Kind::Conversations).then_some(3);
            assert_eq!(user_lookup(kind), expected, "{kind:?}");
        }
    }

    /// The settings can change after a record was prepared and before the lock is taken.
    #[test]
    fn what_was_admitted_by_other_settings_is_admitted_anew() {
        type Change = fn(&mut Settings);
        let kept_whole = "write to ann@example.com";
        let cases: [(Change, &str); 3] = [
            (|_| (), kept_whole),
            (
                |it| it.privacy.redact_pii = true,
                "write to [REDACTED:email:1]",
            ),
            (|it| it.privacy.store_content = false, "[CONTENT:len=24,"),
        ];
        for (before, _) in cases {
            for (after, expected) in cases {
                let memory = Memory::new();
                let (one, two) = (open(&memory), open(&memory));
                let change = |settings: fn(&mut Settings)| {
                    let changed = two.change_settings(|it| {
                        *it = Settings::default();
                        settings(it);
                    });
                    changed.unwrap();
                };
                change(before);
                let prepared = one.inner().policies().prepare(turn()).unwrap();
                change(after);
                let redacted = one
                    .inner()
                    .transact(|txn| txn.redact_prepared(prepared))
                    .unwrap();
                assert!(
                    content(&redacted).starts_with(expected),
                    "{}",
                    content(&redacted)
                );
            }
        }
    }

    /// The original is kept only if redaction changes the record, to avoid a copy.
    #[test]
    fn only_what_is_changed_is_kept_as_it_was_given() {
        let store = open(&Memory::new());
        assert!(
            store
                .inner()
                .policies()
                .prepare(turn())
                .unwrap()
                .redacted
                .original
                .is_none()
        );
        store
            .change_settings(|it| it.privacy.redact_pii = true)
            .unwrap();
        let original = store
            .inner()
            .policies()
            .prepare(turn())
            .unwrap()
            .redacted
            .original;
        assert_eq!(original.as_deref(), Some(&turn()));
    }
}
