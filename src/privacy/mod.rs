//! Redaction. Each record passes here before it is compared with the log and before its line is
//! encoded. Nothing is hidden at display.
//!
//! - `scan` searches a text. `anchors` finds the places that may hold something, and `runs`
//!   remembers what need not be read again.
//! - `rules` has the providers' prefixes; `context`, `blocks` and `commands` find secrets by what
//!   stands around them. `assignment` finds a value that is assigned to a name like `password`,
//!   with `names`, `operators`, `extent`, `elements`, `values`, `code` and `literal`.
//! - `pii` finds personal data, with `phone` and `ip`.
//! - `displayed` is a text as a person sees it: without characters that terminals do not show, and
//!   with escapes decoded. What is found there is removed from the original text. `breaks` finds
//!   the ends of lines within a token.
//! - `text`, `json` and `redact` put placeholders in place of what is found.
//! - `visit` visits the fields of a record by their class. `key` has the key of user ids.
//! - `settings` has the settings of an operator.
//!
//! Keys and ids that other records refer to stay as they are, except for a token with a provider's
//! prefix in them. Its placeholder is the same in every record.

mod anchors;
mod assignment;
mod blocks;
mod breaks;
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

use self::redact::Redactor;
use self::visit::Visit;
use crate::error::Result;
use crate::record::{Record, hex};

/// How every placeholder begins; its name, its number and `]` follow.
const PLACEHOLDER: &str = "[REDACTED:";
/// How many digits of a hash stand in a placeholder of a key.
const HASH_DIGITS: usize = 16;
/// The longest name of a pattern, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// How a user id begins in its stored form. The fingerprint of the key follows, a colon, and 64 hex
/// digits.
const HASHED: &str = "hmac:";

/// Where a rule found something.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    name: &'static str,
    start: usize,
    end: usize,
}

/// Settings, ready to be applied.
#[derive(Debug)]
pub(crate) struct Privacy {
    settings: PrivacySettings,
    redactor: Redactor,
    user_key: UserKey,
}

impl Privacy {
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a pattern that has no proper name, or
    /// is no regular expression.
    pub(crate) fn new(settings: PrivacySettings) -> Result<Privacy> {
        Ok(Privacy {
            redactor: Redactor::new(&settings)?,
            settings,
            user_key: UserKey::default(),
        })
    }

    /// The same with another key of user ids than the usual one.
    pub(crate) fn with_key(self, user_key: UserKey) -> Privacy {
        Privacy { user_key, ..self }
    }

    /// What may be kept of a record that was checked. Applied again, it changes nothing.
    ///
    /// # Errors
    /// A thought whose given hash would no longer be true, an event type that holds a secret; the
    /// key of user ids cannot be had.
    pub(crate) fn apply(&self, mut record: Record) -> Result<Record> {
        match Visit::new(self, &self.redactor).record(&mut record) {
            Ok(()) => Ok(record),
            Err(e) => Err(e.with_key(record.kind().stem())),
        }
    }

    /// As [`apply`](Self::apply), with the record as it was, if that is not what is kept of it.
    pub(crate) fn apply_and_tell(&self, mut record: Record) -> Result<(Record, Option<Record>)> {
        let withholds = !(self.settings.store_content && self.settings.store_payloads);
        let mut look = Visit::look_only(self, &self.redactor);
        let looked = if withholds {
            Ok(())
        } else {
            look.record(&mut record)
        };
        looked.map_err(|e| e.with_key(record.kind().stem()))?;
        if !withholds && !look.has_found() {
            return Ok((record, None));
        }
        let original = record.clone();
        Ok((self.apply(record)?, Some(original)))
    }

    /// A user's id as it is to stand in the log.
    ///
    /// # Errors
    /// There is no key, or another one than is expected; it cannot be read, is no key, or others
    /// may read it.
    pub(crate) fn user_id(&self, id: &str) -> Result<String> {
        if !self.is_to_be_hashed(id) {
            return Ok(id.to_owned());
        }
        self.hashed_user_id(id)
    }

    /// A user's id as it stands in the log where it was hashed.
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

    /// Whether a record has a user's id that is to be hashed.
    pub(crate) fn needs_user_key(&self, record: &Record) -> bool {
        user_id_of(record).is_some_and(|id| self.is_to_be_hashed(id))
    }

    /// Makes the key of user ids, unless there is one.
    pub(crate) fn make_key(&self) -> Result<()> {
        self.user_key.make()
    }

    /// What is known of the key of user ids.
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

/// The fingerprint of the key under which a record's user id is hashed, if it is.
pub(crate) fn key_of_record(record: &Record) -> Option<&str> {
    user_id_of(record).and_then(key_of)
}

/// The fingerprint of the key under which a user id is hashed, if it is.
pub(crate) fn key_of(user_id: &str) -> Option<&str> {
    let (fingerprint, hmac) = user_id.strip_prefix(HASHED)?.split_once(':')?;
    (is_key_fingerprint(fingerprint) && is_sha256(hmac)).then_some(fingerprint)
}

fn is_hashed(user_id: &str) -> bool {
    key_of(user_id).is_some()
}

/// The SHA-256 of a text, as lower-case hex digits.
fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn is_sha256(hex: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hex.len() == 64 && hex.bytes().all(is_digit)
}
