//! What of a record may reach the disk. Every record passes here before it is compared with what
//! the log holds and before its bytes are made; nothing is hidden at display.
//!
//! - `rules`, `context`, `blocks`, `assignment` (with `names` and `values`) and `pii` know the forms of
//!   secrets and of what is known of persons; `scan` asks them where `anchors` sees that it may be
//!   worth it, and `runs` what each of them need not look at again; `json` and `redact` put
//!   placeholders there.
//! - `visit` knows the fields of records; `key` has the key of user ids.
//!
//! Keys and ids that others refer to stay as they are, but for a token with a provider's prefix
//! in them, which is the same placeholder in every record.

mod anchors;
mod assignment;
mod blocks;
mod context;
mod json;
mod key;
mod names;
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

use std::path::PathBuf;

use sha2::{Digest, Sha256};

#[cfg(feature = "http")]
pub(crate) use scan::is_secret;
pub use settings::{AccessRole, Pattern, PrivacySettings};

use self::key::UserKey;
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
/// How a user id begins in its stored form; 64 hex digits follow.
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

    /// The same with the key of user ids in another file than the usual one.
    pub(crate) fn with_key_at(self, path: Option<PathBuf>) -> Privacy {
        Privacy {
            user_key: UserKey::at(path),
            ..self
        }
    }

    /// What may be kept of a record that was checked. Applied again, it changes nothing.
    ///
    /// # Errors
    /// A thought whose given hash would no longer be true, an event type that holds a secret; the
    /// key of user ids cannot be had.
    pub(crate) fn apply(&self, mut record: Record) -> Result<Record> {
        let done = Visit::new(self, &self.redactor).record(&mut record);
        match done {
            Ok(()) => Ok(record),
            Err(e) => Err(e.with_key(record.kind().stem())),
        }
    }

    /// A user's id as it is to stand in the log.
    ///
    /// # Errors
    /// The key cannot be read or made, is no key, or others may read it.
    pub(crate) fn user_id(&self, id: &str) -> Result<String> {
        if !self.settings.hash_user_id || is_hashed(id) {
            return Ok(id.to_owned());
        }
        Ok(HASHED.to_owned() + &self.user_key.hmac(id)?)
    }

    /// A user's id as it stands in the log where it was hashed. No key is made.
    ///
    /// # Errors
    /// The key is not there, cannot be read, is no key, or others may read it.
    pub(crate) fn hashed_user_id(&self, id: &str) -> Result<String> {
        if is_hashed(id) {
            return Ok(id.to_owned());
        }
        Ok(HASHED.to_owned() + &self.user_key.hmac_if_there(id)?)
    }
}

fn is_hashed(user_id: &str) -> bool {
    user_id.strip_prefix(HASHED).is_some_and(is_sha256)
}

/// Whether a conversation's line has a user's id that was hashed.
pub(crate) fn has_hashed_user(line: &[u8]) -> bool {
    memchr::memmem::find(line, br#","user_id":"hmac:"#).is_some()
}

/// The SHA-256 of a text, as lower-case hex digits.
fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn is_sha256(hex: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hex.len() == 64 && hex.bytes().all(is_digit)
}
