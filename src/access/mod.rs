//! Authentication of the HTTP service: tokens, browser sessions and login codes. `access.json` has
//! only their hashes. The service checks them; a process that opens the directory needs none.

mod file;
mod secret;
mod service;
mod watch;

pub use file::{TokenInfo, TokenKind};
pub use secret::Secret;
pub(crate) use watch::Watch;

use std::path::Path;

use self::file::AccessFile;
use self::service::Service;
use crate::error::{Error, Result};
use crate::privacy::AccessRole;
use crate::record::now;
use crate::storage::{Disk, Storage};
use crate::store::{Store, check_is_there};

const MINUTE_MS: i64 = 60 * 1000;
/// Lifetime of a login code.
const CODE_MS: i64 = 10 * MINUTE_MS;
/// Lifetime of a browser session.
const SESSION_MS: i64 = 30 * 24 * 60 * MINUTE_MS;
/// The longest name of a token, in characters.
const NAME_CHARS_MAX: usize = 100;
/// The name of a browser's session or code.
const BROWSER: &str = "browser";

fn live(storage: &dyn Storage) -> Result<Vec<TokenInfo>> {
    let file = AccessFile::read(storage)?;
    let service = Service::read(storage);
    let live = file.live(now()).cloned();
    Ok(live.map(|info| service.with_last_use(info)).collect())
}

impl TokenInfo {
    /// Like [`Store::tokens`], for the store in a directory. Does not read the log.
    ///
    /// # Errors
    /// [`NotAStore`](crate::ErrorKind::NotAStore) if there is none; otherwise as [`Store::tokens`].
    pub fn list(path: impl AsRef<Path>) -> Result<Vec<TokenInfo>> {
        let storage = Disk::new(path.as_ref());
        check_is_there(&storage)?;
        live(&storage)
    }
}

impl Store {
    /// Creates a token for a client of the HTTP service. It is returned only here; the store keeps
    /// its hash. `expires_at` is in epoch milliseconds; without it the token is valid until it is
    /// revoked.
    ///
    /// ```
    /// use decklog::Store;
    /// use decklog::privacy::AccessRole;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let (secret, info) = store.add_token("gateway", AccessRole::Developer, None)?;
    /// assert!(secret.as_str().starts_with("dl_"));
    /// assert_eq!(store.tokens()?, [info.clone()]);
    /// assert!(store.revoke_token(&info.id)?.is_some());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a name that is empty, longer than 100
    /// characters, of more than one line or another token's, an `expires_at` that is past, and more
    /// than 1,000 tokens; [`Damaged`](crate::ErrorKind::Damaged) if `access.json` does not parse.
    pub fn add_token(
        &self,
        name: &str,
        role: AccessRole,
        expires_at: Option<i64>,
    ) -> Result<(Secret, TokenInfo)> {
        let is_fit = (1..=NAME_CHARS_MAX).contains(&name.chars().count());
        if !is_fit || name.trim().is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid(format!(
                "a token's name has 1 to {NAME_CHARS_MAX} characters in one line"
            )));
        }
        let now = now();
        if expires_at.is_some_and(|at| at <= now) {
            return Err(Error::invalid(
                "expires_at is in the past: use a future time",
            ));
        }
        self.change_access(|file| {
            if let Some(known) = file.live(now).find(|it| it.kind == TokenKind::Token && it.name == name) {
                let message = format!(
                    "a token with this name exists, {}: use another name, or revoke that token first",
                    known.id
                );
                return Err(Error::invalid(message).with_field("name"));
            }
            file.add(TokenKind::Token, name, role, now, expires_at)
        })
    }

    /// Creates a login code for one browser, valid once and for ten minutes; see
    /// [`log_in`](Store::log_in).
    ///
    /// # Errors
    /// As [`add_token`](Store::add_token).
    pub fn add_login_code(&self, role: AccessRole) -> Result<(Secret, TokenInfo)> {
        let now = now();
        let expires_at = Some(now.saturating_add(CODE_MS));
        self.change_access(|file| file.add(TokenKind::Code, BROWSER, role, now, expires_at))
    }

    /// Exchanges a code for a browser session of 30 days; `None` if the code does not exist, was used
    /// or has expired.
    ///
    /// # Errors
    /// As [`add_token`](Store::add_token).
    pub fn log_in(&self, code: &str) -> Result<Option<(Secret, TokenInfo)>> {
        // A wrong code does not take the lock.
        let known = AccessFile::read(self.inner().storage())?;
        if known.find(TokenKind::Code, code, now()).is_none() {
            return Ok(None);
        }
        self.change_access(|file| {
            let now = now();
            let Some(found) = file.find(TokenKind::Code, code, now) else {
                return Ok(None);
            };
            let (id, role) = (found.id.clone(), found.role);
            file.remove(&id);
            let expires_at = Some(now.saturating_add(SESSION_MS));
            let added = file.add(TokenKind::Session, BROWSER, role, now, expires_at);
            added.map(Some)
        })
    }

    /// The tokens, sessions and codes that have not expired, in order of creation.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) if `access.json` does not parse.
    pub fn tokens(&self) -> Result<Vec<TokenInfo>> {
        live(self.inner().storage())
    }

    /// The last address of `decklog serve`, or another HTTP service of this store, such as
    /// `http://127.0.0.1:8084`; `None` if none runs. The address of a killed service remains.
    pub fn service_url(&self) -> Option<String> {
        Service::read(self.inner().storage()).url
    }

    /// Revokes a token, session or code by its id; a server refuses it at the next request. Returns
    /// the revoked entry; `None` if there is none.
    ///
    /// # Errors
    /// [`Damaged`](crate::ErrorKind::Damaged) if `access.json` does not parse.
    pub fn revoke_token(&self, id: &str) -> Result<Option<TokenInfo>> {
        self.change_access(|file| Ok(file.remove(id)))
    }

    /// Changes `access.json` under the write lock, if there is a change.
    fn change_access<T>(&self, change: impl FnOnce(&mut AccessFile) -> Result<T>) -> Result<T> {
        let inner = self.inner();
        inner.transact(|_| {
            let before = AccessFile::read(inner.storage())?;
            let mut after = before.clone();
            let answer = change(&mut after)?;
            if after != before {
                after.drop_expired(now());
                after.write(inner.storage())?;
            }
            Ok(answer)
        })
    }
}
