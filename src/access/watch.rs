//! The current settings and `access.json` of a running server. It checks the files for each request,
//! and reads them when they changed.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::file::{self, AccessFile, TokenKind};
use super::service::Uses;
use crate::error::Result;
use crate::privacy::{AccessRole, PrivacySettings};
use crate::record::now;
use crate::storage::{Access, FileStat, Storage, StorageFile, if_there, io_error};
use crate::store::Store;

/// Delay until a manual edit in place is noticed. Files replaced by decklog are noticed at once.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Roles and requirements, by the store's files.
pub(crate) struct Watch {
    store: Store,
    settings: Watched<PrivacySettings>,
    tokens: Watched<AccessFile>,
    uses: Uses,
}

impl Watch {
    pub(crate) fn new(store: Store) -> Watch {
        Watch {
            settings: Watched::new(crate::store::MANIFEST),
            tokens: Watched::new(file::NAME),
            uses: Uses::default(),
            store,
        }
    }

    /// Whether a token is required, and the accepted roles.
    ///
    /// # Errors
    /// The manifest cannot be read or parsed.
    pub(crate) fn privacy(&self) -> Result<Arc<PrivacySettings>> {
        let storage = self.store.inner().storage();
        self.settings
            .get(storage, || Ok(self.store.settings()?.privacy))
    }

    /// Whether the settings last read require a token.
    pub(crate) fn asked_for_token(&self) -> bool {
        let seen = self.settings.seen.read();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().is_none_or(|seen| seen.value.require_auth)
    }

    /// The role of this secret; `None` if it is unknown, revoked or expired.
    ///
    /// # Errors
    /// `access.json` cannot be read or parsed.
    pub(crate) fn role(&self, kind: TokenKind, shown: &str) -> Result<Option<AccessRole>> {
        let tokens = self.tokens()?;
        let now = now();
        Ok(tokens.find(kind, shown, now).map(|info| {
            self.uses.note(&info.id, now);
            info.role
        }))
    }

    /// Writes the last uses of tokens, and the service's address while it listens.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the file cannot be written; else as [`role`](Watch::role).
    pub(crate) fn write_uses(&self, url: &str, listens: bool) -> Result<()> {
        let tokens = self.tokens()?;
        let is_known = |id: &str| tokens.live(now()).any(|info| info.id == id);
        let storage = self.store.inner().storage();
        let written = self.uses.write(storage, url, listens, is_known);
        written.map_err(|e| io_error(storage, "write the last uses of tokens to", "", e))
    }

    fn tokens(&self) -> Result<Arc<AccessFile>> {
        let storage = self.store.inner().storage();
        self.tokens.get(storage, || AccessFile::read(storage))
    }
}

/// A file that is read again when its identity or length changed, and at intervals.
struct Watched<T> {
    path: &'static str,
    seen: RwLock<Option<Seen<T>>>,
}

struct Seen<T> {
    /// `None` if there is no file.
    stat: Option<FileStat>,
    read: Instant,
    /// Kept open, so that no other file gets its identity.
    _file: Option<Arc<dyn StorageFile>>,
    value: Arc<T>,
}

impl<T> Watched<T> {
    fn new(path: &'static str) -> Watched<T> {
        Watched {
            path,
            seen: RwLock::new(None),
        }
    }

    fn get(&self, storage: &dyn Storage, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let io = |e| io_error(storage, "look at", self.path, e);
        let stat = if_there(storage.stat(self.path)).map_err(io)?;
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        let is_as_read = |seen: &&Seen<T>| seen.stat == stat && seen.read.elapsed() < READ_INTERVAL;
        if let Some(seen) = seen.as_ref().filter(is_as_read) {
            return Ok(Arc::clone(&seen.value));
        }
        drop(seen);
        // First, so that a change during the read causes another read.
        let file = if_there(storage.open(self.path, Access::Read)).map_err(io)?;
        let stat = file.as_ref().map(|file| file.stat()).transpose();
        let stat = stat.map_err(io)?;
        let value = Arc::new(read()?);
        let seen = Seen {
            stat,
            read: Instant::now(),
            _file: file,
            value: Arc::clone(&value),
        };
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(value)
    }
}
