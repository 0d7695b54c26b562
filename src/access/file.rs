//! `access.json`: the hashes of tokens, sessions and codes of the HTTP service. A file that does not
//! parse denies all access.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::secret::{Secret, random_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::privacy::AccessRole;
use crate::record::{hex, words};
use crate::segment::seal::Digest;
use crate::storage::{Access, Storage, full_path, if_there, read_all, replace_file};

pub(super) const NAME: &str = "access.json";
const BYTES_MAX: usize = 1 << 20;
const ENTRIES_MAX: usize = 1000;
/// Maximum length of the reason in an error.
const REASON_CHARS_MAX: usize = 200;

words! {
    /// The purpose of an entry of `access.json`.
    TokenKind ("kind of token") {
        /// A client's bearer token.
        Token = "token",
        /// The session of a browser.
        Session = "session",
        /// A one-time login code for a browser.
        Code = "code",
    }
}

/// A token, session or code, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenInfo {
    /// Eight hex digits, the id for revocation.
    pub id: String,
    /// Its purpose.
    pub kind: TokenKind,
    /// Its label.
    pub name: String,
    /// The role of its bearer.
    pub role: AccessRole,
    /// Creation time, in epoch milliseconds.
    pub created_at: i64,
    /// Expiry time, in epoch milliseconds; `None` if it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// The last time an HTTP service accepted it, in epoch milliseconds, to the minute; `None` if none
    /// has since `cache/` was last removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<i64>,
}

impl TokenInfo {
    fn is_live(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }
}

/// The file's JSON.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AccessFile {
    entries: Vec<Entry>,
    /// Fields of newer versions are preserved, here and in the entries.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    info: TokenInfo,
    /// The hash of the secret.
    sha256: Digest,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl AccessFile {
    /// Reads the file; empty if it does not exist.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if it does not parse.
    pub(crate) fn read(storage: &dyn Storage) -> Result<AccessFile> {
        let path = full_path(storage, NAME);
        let io = |e| Error::io("read the store's tokens", &path, e);
        let Some(file) = if_there(storage.open(NAME, Access::Read)).map_err(io)? else {
            return Ok(AccessFile::default());
        };
        let bad = |reason: &str| {
            // The reason may quote the file.
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let message = format!(
                "the store's tokens do not parse ({reason}), so all access is denied: restore the file from a copy, or move it away and create new tokens"
            );
            Error::new(ErrorKind::Damaged, message).with_path(&path)
        };
        if file.stat().map_err(io)?.len > BYTES_MAX as u64 {
            return Err(bad(&format!("it has more than {BYTES_MAX} bytes")));
        }
        let text = read_all(&*file).map_err(io)?;
        serde_json::from_slice(&text).map_err(|e| bad(&e.to_string()))
    }

    /// Replaces the file, at once and on disk. The caller holds the lock.
    pub(super) fn write(&self, storage: &dyn Storage) -> Result<()> {
        let path = full_path(storage, NAME);
        let io = |e| Error::io("write the store's tokens", &path, e);
        let mut text = serde_json::to_vec(self).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        if text.len() > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "there are {ENTRIES_MAX} tokens, sessions and codes, or more than {BYTES_MAX} bytes of them: revoke unused ones"
            )));
        }
        replace_file(storage, NAME, &text).map_err(io)
    }

    /// Creates an entry of a kind.
    pub(super) fn add(
        &mut self,
        kind: TokenKind,
        name: &str,
        role: AccessRole,
        created_at: i64,
        expires_at: Option<i64>,
    ) -> Result<(Secret, TokenInfo)> {
        let secret = Secret::random()?;
        let mut id = hex(&random_bytes::<4>()?);
        while self.entries.iter().any(|entry| entry.info.id == id) {
            id = hex(&random_bytes::<4>()?);
        }
        let info = TokenInfo {
            id,
            kind,
            name: name.to_owned(),
            role,
            created_at,
            expires_at,
            last_used_at: None,
        };
        self.entries.push(Entry {
            info: info.clone(),
            sha256: Digest::of(secret.as_str().as_bytes()),
            rest: Map::new(),
        });
        Ok((secret, info))
    }

    /// The entry of a secret, if it exists, has this kind and has not expired. Takes the same time for
    /// all texts of a length: every hash is compared.
    pub(crate) fn find(&self, kind: TokenKind, shown: &str, now: i64) -> Option<&TokenInfo> {
        let Digest(hash) = Digest::of(shown.as_bytes());
        let mut at = u64::MAX;
        for (i, entry) in (0..).zip(&self.entries) {
            at.conditional_assign(&i, entry.sha256.0.ct_eq(&hash));
        }
        let info = &self.entries.get(usize::try_from(at).ok()?)?.info;
        (info.kind == kind && info.is_live(now)).then_some(info)
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<TokenInfo> {
        let at = self.entries.iter().position(|entry| entry.info.id == id)?;
        Some(self.entries.remove(at).info)
    }

    pub(super) fn live(&self, now: i64) -> impl Iterator<Item = &TokenInfo> {
        let infos = self.entries.iter().map(|entry| &entry.info);
        infos.filter(move |info| info.is_live(now))
    }

    pub(super) fn drop_expired(&mut self, now: i64) {
        self.entries.retain(|entry| entry.info.is_live(now));
    }
}
