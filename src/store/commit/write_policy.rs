//! The write policy: redaction by the store's privacy settings, which every record passes before
//! its bytes can reach the disk.
//!
//! A [`Record`] becomes a [`PreparedRecord`] before the lock is taken, as that takes time, and
//! [`Redacted`] under it, where the settings cannot change. A transaction writes nothing else, and
//! there is no other way to make one.

use std::sync::{Arc, OnceLock};

use uuid::Uuid;

use super::policy_cache::PolicyCache;
use crate::error::{Error, ErrorKind, Result};
use crate::line::Value;
use crate::privacy::{Privacy, PrivacySettings, UserIdKey, UserKey, key_of, key_of_record};
use crate::record::declare::{Class, Place};
use crate::record::{Kind, Record};
use crate::segment::{each_fact, list};
use crate::storage::{Access, Storage};
use crate::store::manifest::Manifest;
use crate::store::{Settings, Store, Txn};

/// Settings, ready to be applied.
#[derive(Debug)]
pub(in crate::store) struct WritePolicy {
    settings: Settings,
    /// The fingerprint of the key under which the store's user ids are hashed, if any was.
    key_fingerprint: Option<String>,
    user_id_key: UserKey,
    /// Made when it is first needed, as who only reads mostly never does.
    privacy: OnceLock<Privacy>,
    stricter: OnceLock<Vec<Privacy>>,
    /// The key that is here was seen to be the one of the ids that are hashed already.
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

    /// The policy of another manifest, with the same key of user ids.
    pub(super) fn with_manifest(&self, manifest: Manifest) -> WritePolicy {
        WritePolicy::new(manifest, self.user_id_key.clone())
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// A manifest of this policy, for a store whose own is gone.
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

    /// Makes the key of user ids where a record is the first one that needs it.
    fn check_key(&self, storage: &dyn Storage, record: &Record) -> Result<()> {
        let privacy = self.privacy()?;
        let is_known = self.key_fingerprint.is_some() || self.is_key_checked.get().is_some();
        if is_known || !privacy.needs_user_key(record) {
            return Ok(());
        }
        // Someone may have taken it out of the manifest.
        match hashed_under(storage)? {
            Some(key) => self.user_id_key.expecting(Some(key)).check()?,
            None => privacy.make_key()?,
        }
        self.is_key_checked.get_or_init(|| ());
        Ok(())
    }

    /// What is kept of a record by these settings.
    fn redact(&self, storage: &dyn Storage, record: Record) -> Result<Redacted> {
        self.check_key(storage, &record)?;
        let (record, original) = self.privacy()?.apply_and_tell(record)?;
        let original = original.map(Box::new);
        Ok(Redacted { record, original })
    }

    /// All settings that keep less of a record than these do.
    fn stricter(&self) -> &[Privacy] {
        self.stricter.get_or_init(|| {
            let settings = self.settings.privacy.stricter();
            settings
                .filter_map(|settings| self.privacy_by(settings).ok())
                .collect()
        })
    }

    /// The fingerprint that the manifest must have before a record is written.
    pub(in crate::store) fn key_to_note(&self, record: &Record) -> Option<String> {
        // Also for an id that came hashed: a process with another key must hash none here.
        let key = key_of_record(record).filter(|_| self.key_fingerprint.is_none());
        key.map(str::to_owned)
    }
}

/// The fingerprint of the key under which the last of the store's hashed user ids is, as its lines
/// say. Reads the segments of kinds that are found by user, from the last one back.
pub(in crate::store) fn hashed_under(storage: &dyn Storage) -> Result<Option<String>> {
    let mut last = None;
    for name in list(storage)?.segments.into_iter().rev() {
        let Some(lookup) = user_lookup(name.kind) else {
            continue;
        };
        // What cannot be read is reported as damage.
        let Ok(file) = storage.open(&name.path(), Access::Read) else {
            continue;
        };
        let _ = each_fact(&*file, name.kind, &mut |fact| {
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

/// Which of a kind's lookup fields holds a user's id, as its type is declared.
fn user_lookup(kind: Kind) -> Option<usize> {
    let mut lookups = kind.fields().filter(|field| field.place == Place::Lookup);
    lookups.position(|field| field.class == Class::User)
}

/// The fingerprint of the key under which a user id in a line is hashed, if it is.
pub(crate) fn key_of_value(user: &Value<'_>) -> Option<String> {
    let mut room = [0; Value::BYTES];
    let user = str::from_utf8(user.text(&mut room)).ok()?;
    key_of(user).map(str::to_owned)
}

/// What may be kept of a record, by the settings that its handle knew then.
#[derive(Debug)]
pub(crate) struct PreparedRecord {
    redacted: Redacted,
    policy: Arc<WritePolicy>,
}

/// What is kept of a record, by the settings that hold.
#[derive(Debug)]
pub(crate) struct Redacted {
    record: Record,
    /// The record as it was given, if that is something else.
    original: Option<Box<Record>>,
}

impl PolicyCache {
    /// What may be kept of a record that was checked, by the current settings.
    pub(crate) fn prepare(&self, record: Record) -> Result<PreparedRecord> {
        let policy = self.current();
        let redacted = policy.redact(self.storage(), record)?;
        Ok(PreparedRecord { redacted, policy })
    }

    /// The forms in which the log may have a user's id, whatever the settings were when it was
    /// recorded: as it is given, and hashed. No key is made.
    ///
    /// # Errors
    /// There are hashed ids, and their key is not there or cannot be read.
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

    /// What is kept of a record that was made, and checked, under the lock.
    pub(crate) fn redact(&self, record: Record) -> Result<Redacted> {
        self.policy().redact(&*self.inner().storage, record)
    }

    /// What would have been kept of a record by stricter settings, which the store may have had
    /// before.
    pub(crate) fn redacted_by_stricter(&self, redacted: &Redacted) -> Vec<Redacted> {
        let record = redacted.original.as_deref().unwrap_or(&redacted.record);
        let stricter = self.policy().stricter();
        let forms = stricter.iter().filter_map(|privacy| {
            // One that cannot be made, as its key is not there, is no form that the log has.
            let record = privacy.apply(record.clone()).ok()?;
            let original = None;
            Some(Redacted { record, original })
        });
        forms.collect()
    }
}

impl Store {
    /// Where the key of user ids is looked for, which one is found there, and which one the store
    /// expects.
    ///
    /// # Errors
    /// The key's file cannot be read, is no key, or others may read it.
    pub fn user_id_key(&self) -> Result<UserIdKey> {
        self.inner().policies.current().privacy()?.describe_key()
    }

    /// Expects the key with this fingerprint from now on, as user ids that are hashed under it are
    /// about to come in.
    ///
    /// # Errors
    /// [`UserIdKey`](ErrorKind::UserIdKey) if the store expects another one.
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

    /// Takes the key of user ids that is found here as the store's from now on, whatever the
    /// earlier one was; makes one if there is none. User ids that were hashed under another key
    /// stay as they are: no one can find or erase them by user any more, unless by their hashed
    /// form.
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

    /// Sets what the log itself assigns, such as an id, a place or a hash. A caller's text must not
    /// be set here: it would not be redacted.
    pub(crate) fn assign(&mut self, set: impl FnOnce(&mut Record)) {
        set(&mut self.record);
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

    /// A change may come between a record's admission and the lock.
    #[test]
    fn conversations_are_found_by_user() {
        for kind in Kind::ALL {
            let expected = (kind == Kind::Conversations).then_some(3);
            assert_eq!(user_lookup(kind), expected, "{kind:?}");
        }
    }

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

    /// What has nothing to be replaced is not copied for this.
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
