//! Redaction. Every record is redacted before it is compared with the log and before its line is
//! encoded. Nothing is hidden at display time.
//!
//! - `scan` searches a text. `anchors` finds the positions at which rules run, and `runs` caches
//!   runs so that they are scanned once.
//! - `rules` has the providers' prefixes; `context`, `blocks` and `commands` find secrets by their
//!   context. `assignment` finds values assigned to names like `password`, with `names`,
//!   `operators`, `extent`, `elements`, `values`, `code` and `literal`.
//! - `pii` finds personal data, with `phone` and `ip`.
//! - `displayed` is a text as a person sees it: without characters that terminals do not show, and
//!   with escapes decoded. Findings in it are removed from the original text. `breaks` finds line
//!   breaks inside a token.
//! - `text`, `json` and `redact` replace findings by placeholders.
//! - `bytes` scans bytes by class.
//! - `visit` visits the fields of a record by their class. `key` has the key for hashing user ids.
//! - `settings` has the settings of an operator.
//!
//! Keys and ids that other records refer to are not changed, except for a token with a provider's
//! prefix in them. Its placeholder is the same in every record.

mod anchors;
mod assignment;
mod blocks;
mod breaks;
mod bytes;
mod code;
mod commands;
mod context;
mod displayed;
mod elements;
mod extent;
mod ip;
mod json;
mod key;
mod literal;
mod names;
mod operators;
mod phone;
mod pii;
mod redact;
mod rules;
mod runs;
mod scan;
mod settings;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod visit;

use sha2::{Digest, Sha256};

pub use key::UserIdKey;
pub(crate) use key::{UserKey, is_key_fingerprint};
pub(crate) use scan::is_redacted;
#[cfg(feature = "http")]
pub(crate) use scan::is_secret;
pub use settings::{AccessRole, Pattern, PrivacySettings};

use self::scan::Scanner;
use self::visit::visit;
use crate::error::Result;
use crate::record::{Record, hex};

/// Start of every placeholder. Its name, its number and `]` follow.
const PLACEHOLDER: &str = "[REDACTED:";
/// Number of hash digits in the placeholder of a key.
const HASH_DIGITS: usize = 16;
/// Maximum length of a pattern's name, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Start of the stored form of a user id. The fingerprint of the key, a colon and 64 hex digits
/// follow.
const HASHED: &str = "hmac:";

/// A range to redact. `name` is the name in its placeholder.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding<'a> {
    name: &'a str,
    start: usize,
    end: usize,
}

/// The range of a secret that a rule found.
type Found = Finding<'static>;

impl<'a> Finding<'a> {
    fn new(name: &'a str, start: usize, end: usize) -> Finding<'a> {
        Finding { name, start, end }
    }
}

/// Compiled privacy settings.
#[derive(Debug)]
pub(crate) struct Privacy {
    settings: PrivacySettings,
    scanner: Scanner,
    user_key: UserKey,
}

impl Privacy {
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a pattern with an invalid name or an
    /// invalid regular expression.
    pub(crate) fn new(settings: PrivacySettings) -> Result<Privacy> {
        Ok(Privacy {
            scanner: Scanner::new(&settings)?,
            settings,
            user_key: UserKey::default(),
        })
    }

    /// Replaces the user-id key.
    pub(crate) fn with_key(self, user_key: UserKey) -> Privacy {
        Privacy { user_key, ..self }
    }

    /// Redacts a validated record. The operation is idempotent.
    ///
    /// # Errors
    /// The given hash of a thought would no longer match, an event type contains a secret, or the
    /// user-id key is not available.
    pub(crate) fn apply(&self, mut record: Record) -> Result<Record> {
        visit(self, &mut record, false)?;
        Ok(record)
    }

    /// Like [`apply`](Self::apply), and also returns the original record if redaction changed it.
    pub(crate) fn apply_and_tell(&self, mut record: Record) -> Result<(Record, Option<Record>)> {
        let is_all_stored = self.settings.store_content && self.settings.store_payloads;
        if is_all_stored && !visit(self, &mut record, true)? {
            return Ok((record, None));
        }
        let original = record.clone();
        Ok((self.apply(record)?, Some(original)))
    }

    /// The stored form of a user id.
    ///
    /// # Errors
    /// There is no key or its fingerprint differs from the expected one; it cannot be read, is not
    /// a key file, or is readable by other users.
    pub(crate) fn user_id(&self, id: &str) -> Result<String> {
        if !self.is_to_be_hashed(id) {
            return Ok(id.to_owned());
        }
        self.hashed_user_id(id)
    }

    /// The stored form of a user id in records whose user id was hashed.
    ///
    /// # Errors
    /// As [`user_id`](Self::user_id).
    pub(crate) fn hashed_user_id(&self, id: &str) -> Result<String> {
        if is_hashed(id) {
            return Ok(id.to_owned());
        }
        let (fingerprint, hmac) = self.user_key.hmac(id)?;
        Ok(format!("{HASHED}{fingerprint}:{hmac}"))
    }

    fn is_to_be_hashed(&self, user_id: &str) -> bool {
        self.settings.hash_user_id && !is_hashed(user_id)
    }

    /// Whether a record has a user id that must be hashed.
    pub(crate) fn needs_user_key(&self, record: &Record) -> bool {
        user_id_of(record).is_some_and(|id| self.is_to_be_hashed(id))
    }

    /// Creates the user-id key unless one exists.
    pub(crate) fn make_key(&self) -> Result<()> {
        self.user_key.make()
    }

    /// Status of the user-id key.
    pub(crate) fn describe_key(&self) -> Result<UserIdKey> {
        self.user_key.describe()
    }
}

fn user_id_of(record: &Record) -> Option<&str> {
    match record {
        Record::Conversation(it) | Record::ConversationUpdated(it) => it.user_id.as_deref(),
        _ => None,
    }
}

/// Fingerprint of the key with which a record's user id is hashed, if it is hashed.
pub(crate) fn key_of_record(record: &Record) -> Option<&str> {
    user_id_of(record).and_then(key_of)
}

/// Fingerprint of the key with which a user id is hashed, if it is hashed.
pub(crate) fn key_of(user_id: &str) -> Option<&str> {
    let (fingerprint, hmac) = user_id.strip_prefix(HASHED)?.split_once(':')?;
    (is_key_fingerprint(fingerprint) && is_hex(hmac, 64)).then_some(fingerprint)
}

fn is_hashed(user_id: &str) -> bool {
    key_of(user_id).is_some()
}

/// The SHA-256 of a text in lower-case hex digits.
fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Whether a text is a hash of this many lower-case hex digits.
fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(is_hex_digit)
}

fn is_hex_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
