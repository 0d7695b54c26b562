//! What a running server goes by: the settings and `access.json` as they are now. It looks at the
//! files for each request, and reads them when they changed.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::file::{self, AccessFile, TokenKind};
use super::service::Uses;
use crate::error::Result;
use crate::privacy::{AccessRole, PrivacySettings};
use crate::record::now;
use crate::storage::{Access, FileStat, Storage, StorageFile, if_there, io_error};
use crate::store::Store;

/// decklog replaces these files, which is seen at once; what other hands write into one is seen
/// after so long.
const READ_INTERVAL: Duration = Duration::from_millis(100);

/// Who may do what, by the store's files.
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

    /// What the manifest says of who is asked, and who is let in.
    ///
    /// # Errors
    /// The manifest cannot be read, or does not read as one.
    pub(crate) fn privacy(&self) -> Result<Arc<PrivacySettings>> {
        let storage = self.store.inner().storage();
        self.settings
            .get(storage, || Ok(self.store.settings()?.privacy))
    }

    /// Whether the settings that were last read ask for a token.
    pub(crate) fn asked_for_token(&self) -> bool {
        let seen = self.settings.seen.read();
        let seen = seen.unwrap_or_else(PoisonError::into_inner);
        seen.as_ref().is_none_or(|seen| seen.value.require_auth)
    }

    /// The role of who shows this; `None` if it is not known, was revoked, or has expired.
    ///
    /// # Errors
    /// `access.json` cannot be read, or does not read as one.
    pub(crate) fn role(&self, kind: TokenKind, shown: &str) -> Result<Option<AccessRole>> {
        let tokens = self.tokens()?;
        let now = now();
        Ok(tokens.find(kind, shown, now).map(|info| {
            self.uses.note(&info.id, now);
            info.role
        }))
    }

    /// Writes when tokens were last used, and that the service listens at an address or no longer
    /// does.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if the file cannot be written; else as [`role`](Watch::role).
    pub(crate) fn write_uses(&self, url: &str, listens: bool) -> Result<()> {
        let tokens = self.tokens()?;
        let is_known = |id: &str| tokens.live(now()).any(|info| info.id == id);
        let storage = self.store.inner().storage();
        let written = self.uses.write(storage, url, listens, is_known);
        written.map_err(|e| io_error(storage, "note the uses of tokens in", "", e))
    }

    fn tokens(&self) -> Result<Arc<AccessFile>> {
        let storage = self.store.inner().storage();
        self.tokens.get(storage, || AccessFile::read(storage))
    }
}

/// A file that is read anew when it is another one or of another length, and now and then.
struct Watched<T> {
    path: &'static str,
    seen: RwLock<Option<Seen<T>>>,
}

struct Seen<T> {
    /// `None` if there is no file.
    stat: Option<FileStat>,
    read: Instant,
    /// While it is open, no other file has its identity.
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
        // First, so that what changes while it is read is read again.
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
