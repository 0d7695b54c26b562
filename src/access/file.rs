//! `access.json`: what may be shown to the HTTP service, by its hashes. A file that does not read
//! lets no one in.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::{ConditionallySelectable, ConstantTimeEq};

use super::secret::{Secret, random_bytes};
use crate::error::{Error, ErrorKind, Result};
use crate::privacy::AccessRole;
use crate::record::{hex, words};
use crate::segment::seal::Digest;
use crate::storage::{Access, Storage, full_path, read_all, replace_file};

pub(super) const NAME: &str = "access.json";
const BYTES_MAX: usize = 1 << 20;
const ENTRIES_MAX: usize = 1000;
/// How much an error shows of why it does not read.
const REASON_CHARS_MAX: usize = 200;

words! {
    /// What something in `access.json` is for.
    TokenKind ("kind of token") {
        /// A client's bearer token.
        Token = "token",
        /// A browser that logged in.
        Session = "session",
        /// A code for a browser to log in with, once.
        Code = "code",
    }
}

/// What is known of a token, session or code, without what its bearer shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TokenInfo {
    /// Eight hex digits, to revoke it by.
    pub id: String,
    /// What it is for.
    pub kind: TokenKind,
    /// Whose it is, as who made it said.
    pub name: String,
    /// What its bearer may do.
    pub role: AccessRole,
    /// When it was made, in epoch milliseconds.
    pub created_at: i64,
    /// From when on it is refused, in epoch milliseconds; never, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<i64>,
    /// When an HTTP service last accepted it, in epoch milliseconds, to the minute; `None` if none
    /// has since `cache/` was last removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<i64>,
}

impl TokenInfo {
    fn is_live(&self, now: i64) -> bool {
        self.expires_at.is_none_or(|at| now < at)
    }
}

/// The file as it is written.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct AccessFile {
    entries: Vec<Entry>,
    /// What a newer version wrote stays, here and in the entries.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    info: TokenInfo,
    /// Of the text that its bearer shows.
    sha256: Digest,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl AccessFile {
    /// Reads the file; nobody is in it if it is not there.
    ///
    /// # Errors
    /// [`Damaged`](ErrorKind::Damaged) if it does not read as one.
    pub(crate) fn read(storage: &dyn Storage) -> Result<AccessFile> {
        let path = full_path(storage, NAME);
        let io = |e| Error::io("read who may use the store", &path, e);
        let file = match storage.open(NAME, Access::Read) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(AccessFile::default()),
            Err(e) => return Err(io(e)),
        };
        let bad = |reason: &str| {
            // It may repeat what stands there.
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let message = format!(
                "who may use the store does not read ({reason}), and so no one may: restore the file from a copy, or move it away and make new tokens"
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
        let io = |e| Error::io("write who may use the store", &path, e);
        let mut text = serde_json::to_vec(self).map_err(|e| io(e.into()))?;
        text.push(b'\n');
        if text.len() > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            return Err(Error::invalid(format!(
                "there are {ENTRIES_MAX} tokens, sessions and codes, or more than {BYTES_MAX} bytes of them: revoke what is not used"
            )));
        }
        replace_file(storage, NAME, &text).map_err(io)
    }

    /// Makes a new one of a kind.
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

    /// What was shown, if it is here, of this kind and not too old. It takes as long for any text
    /// of a length: each hash is compared, whatever the others said.
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
