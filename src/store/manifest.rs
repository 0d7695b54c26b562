//! The manifest, `decklog.json`: format version, store id, and settings.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, ErrorKind, Result};
use crate::privacy::is_key_fingerprint;
use crate::record::Day;
use crate::segment::{Damage, DamageClass, Report, list};
use crate::storage::{Access, Storage, full_path, io_error, read_full, replace_file};
use crate::store::RetentionSettings;
use crate::store::commit::write_policy::hashed_under;
use crate::store::maintain::removals;
use crate::store::settings::{self, Settings, written};

pub(crate) const NAME: &str = "decklog.json";
/// The format that this version writes, and the newest that it reads.
pub(crate) const FORMAT: u32 = 1;
const BYTES_MAX: usize = 1 << 20;
/// Maximum number of characters of the parser's message to include in an error.
const REASON_CHARS_MAX: usize = 200;

/// The manifest as it is written.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Written {
    format: u32,
    store_id: Uuid,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user_id_key: Option<String>,
    #[serde(default)]
    privacy: Map<String, Value>,
    #[serde(default)]
    retention: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    budget: Map<String, Value>,
    /// Unknown fields of newer versions are kept, here and in the sections.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    pub store_id: Uuid,
    pub settings: Settings,
    /// The fingerprint of the key under which user ids are hashed, once any are.
    pub key_fingerprint: Option<String>,
    written: Written,
}

impl Manifest {
    /// The manifest of a store that has none.
    pub(super) fn new(
        store_id: Uuid,
        settings: Settings,
        key_fingerprint: Option<String>,
    ) -> Manifest {
        Manifest {
            store_id,
            settings,
            key_fingerprint,
            written: Written {
                format: FORMAT,
                store_id,
                user_id_key: None,
                privacy: Map::new(),
                retention: Map::new(),
                budget: Map::new(),
                rest: Map::new(),
            },
        }
    }

    /// The manifest to assume for a store whose own cannot be read.
    fn unknown() -> Manifest {
        Manifest::new(Uuid::new_v4(), Settings::default(), None)
    }

    /// Replaces the settings and keeps all other fields.
    pub(super) fn with_settings(mut self, settings: Settings) -> Result<Manifest> {
        let put = |fields: &mut Map<String, Value>, old: Map<String, Value>, new| {
            fields.retain(|name, _| !old.contains_key(name));
            fields.extend(new);
        };
        let Written {
            privacy,
            retention,
            budget,
            ..
        } = &mut self.written;
        let old = &self.settings;
        put(privacy, written(&old.privacy)?, written(&settings.privacy)?);
        put(
            retention,
            written(&old.retention)?,
            written(&settings.retention)?,
        );
        put(budget, written(&old.budget)?, written(&settings.budget)?);
        self.settings = settings;
        Ok(self)
    }

    /// Replaces the manifest atomically and syncs it. The caller holds the lock.
    pub(crate) fn write(&self, storage: &dyn Storage) -> Result<()> {
        let path = full_path(storage, NAME);
        let io = |e| Error::io("write the manifest", &path, e);
        let written = Written {
            user_id_key: self.key_fingerprint.clone(),
            ..self.written.clone()
        };
        let mut text = serde_json::to_vec(&written).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        replace_file(storage, NAME, &text).map_err(io)
    }
}

/// The fields common to all formats.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

/// Reads the manifest; `None` if it does not exist.
pub(crate) fn read(storage: &dyn Storage) -> Result<Option<Manifest>> {
    let path = full_path(storage, NAME);
    let io = |e| Error::io("read the manifest", &path, e);
    let file = match storage.open(NAME, Access::Read) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            let message = "the path is a file: give a directory";
            return Err(Error::new(ErrorKind::NotAStore, message).with_path(storage.root()));
        }
        Err(e) => return Err(io(e)),
    };
    let len = file.stat().map_err(io)?.len.min(BYTES_MAX as u64);
    let mut text = vec![0; len as usize];
    let len = read_full(&*file, &mut text, 0).map_err(io)?;
    text.truncate(len);

    let bad = |e: serde_json::Error| {
        // The message may quote the file's contents.
        let reason: String = e.to_string().chars().take(REASON_CHARS_MAX).collect();
        let message = format!(
            "the manifest does not read as one ({reason}): restore it from a copy, or move it away and a new one is made, without its settings of privacy and retention"
        );
        Error::new(ErrorKind::Damaged, message).with_path(&path)
    };
    let AnyFormat { format } = serde_json::from_slice(&text).map_err(bad)?;
    if format > FORMAT {
        let message = format!(
            "the store has format {format}, this version of decklog knows formats up to {FORMAT}: use a newer one"
        );
        return Err(Error::new(ErrorKind::NewerFormat, message).with_path(&path));
    }
    let written: Written = serde_json::from_slice(&text).map_err(bad)?;
    let bad = |what: &str, reason: &str| {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        let message = format!(
            "{what} in the manifest cannot be obeyed ({reason}): mend it, or take it out for its default"
        );
        Error::new(ErrorKind::Damaged, message).with_path(&path)
    };
    let unread = |(name, reason): (String, String)| bad(&name, &reason);
    let settings = Settings {
        privacy: settings::read("privacy", &written.privacy).map_err(unread)?,
        retention: settings::read("retention", &written.retention).map_err(unread)?,
        budget: settings::read("budget", &written.budget).map_err(unread)?,
    };
    let checked = settings.check();
    checked.map_err(|e| bad("a setting", &e.to_string()))?;
    let key_fingerprint = written.user_id_key.clone();
    if key_fingerprint
        .as_deref()
        .is_some_and(|it| !is_key_fingerprint(it))
    {
        return Err(bad("user_id_key", "it is not 16 lower-case hex digits"));
    }
    Ok(Some(Manifest {
        store_id: written.store_id,
        settings,
        key_fingerprint,
        written,
    }))
}

/// The manifest for a reader. A missing or damaged manifest does not hide the lines; it is
/// returned as damage.
pub(super) fn read_leniently(storage: &dyn Storage) -> Result<(Manifest, Option<Damage>)> {
    let damage = match read(storage) {
        Ok(Some(manifest)) => return Ok((manifest, None)),
        Ok(None) => None,
        Err(e) if e.kind() == ErrorKind::Damaged => Some((DamageClass::Damaged, e)),
        Err(e) if e.is_of_what_is_read() => Some((DamageClass::Unreadable, e)),
        Err(e) => return Err(e),
    };
    if !has_segments(storage) {
        return Err(damage.map_or_else(|| no_store(storage), |(_, e)| e));
    }
    let damage = damage.map_or_else(
        || {
            let reason = "the manifest is missing: put back a copy of the file, or the next program that writes makes it anew, without its settings of privacy and retention, and removes nothing";
            of_manifest(DamageClass::Missing, reason)
        },
        |(class, e)| of_manifest(class, e.reason()),
    );
    Ok((Manifest::unknown(), Some(damage)))
}

fn of_manifest(class: DamageClass, reason: impl Into<String>) -> Damage {
    Report::new(class, (0, 0), reason).in_file(NAME)
}

/// Returns an error if the directory holds no store.
#[cfg(feature = "http")]
pub(crate) fn check_is_there(storage: &dyn Storage) -> Result<()> {
    read_leniently(storage).map(drop)
}

/// The fingerprint of the key under which a store's user ids are hashed, if known.
pub(crate) fn key_fingerprint(storage: &dyn Storage) -> Option<String> {
    read(storage).ok()??.key_fingerprint
}

/// Whether a directory holds a store, possibly one that lost its manifest.
pub(crate) fn is_dir_of_store(dir: &Path) -> bool {
    let files = [NAME, removals::NAME];
    files.iter().any(|name| dir.join(name).is_file())
}

/// Whether there are segments. Without a manifest, the store has lost it.
pub(super) fn has_segments(storage: &dyn Storage) -> bool {
    list(storage).is_ok_and(|listing| !listing.segments.is_empty())
}

/// The error for a directory with neither a manifest nor a segment.
pub(super) fn no_store(storage: &dyn Storage) -> Error {
    let message = "there is no store here: check the path, or import or record something first";
    Error::new(ErrorKind::NotAStore, message).with_path(storage.root())
}

/// Creates the manifest of a new store. The caller holds the lock.
pub(super) fn create(storage: &dyn Storage, settings: Settings) -> Result<Manifest> {
    let manifest = Manifest::unknown().with_settings(settings)?;
    manifest.write(storage)?;
    Ok(manifest)
}

/// Creates the manifest of a store that lost its own, and reports that as damage. The lost
/// retention settings are unknown, so nothing is removed until they are set again. The key of user
/// ids is taken from the hashed ids. The caller holds the lock.
pub(super) fn create_anew(
    storage: &dyn Storage,
    mut settings: Settings,
) -> Result<(Manifest, Option<Damage>)> {
    settings.privacy.auto_delete = false;
    settings.retention = RetentionSettings::forever();
    let manifest = Manifest {
        key_fingerprint: hashed_under(storage)?,
        ..Manifest::unknown().with_settings(settings)?
    };
    manifest.write(storage)?;
    let reason = "the manifest was missing and was made anew: its settings of privacy and retention and the store's id are lost. Privacy has the defaults, and nothing is removed (privacy.auto_delete is false, all retention is forever): set both again with 'decklog config', or put back a copy of the file";
    let damage = of_manifest(DamageClass::Missing, reason);
    Ok((manifest, Some(damage)))
}

/// Rejects a directory with files that do not belong to a store. A wrong path must not turn, for
/// example, a home directory into a store.
pub(super) fn check_is_free(storage: &dyn Storage) -> Result<()> {
    let entries = storage
        .read_dir("")
        .map_err(|e| io_error(storage, "list the directory", "", e))?;
    let is_ours = |name: &str| {
        // Includes the manifest: another process may be creating this store now.
        let known = [
            "LOCK",
            "HEAD",
            "cache",
            "quarantine",
            "removals.jsonl",
            "access.json",
        ];
        name.starts_with(NAME) || known.contains(&name) || name.parse::<Day>().is_ok()
    };
    match entries.iter().find(|entry| !is_ours(&entry.name)) {
        None => Ok(()),
        Some(entry) => {
            let message = format!(
                "the directory holds other things ({:?}) and no store: give an empty or new directory",
                entry.name
            );
            Err(Error::new(ErrorKind::NotAStore, message).with_path(storage.root()))
        }
    }
}
