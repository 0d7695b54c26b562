//! What a running server goes by: the settings and `access.json` as they are now. It looks at the
//! files for each request, and reads them only when they changed.

use std::io;
use std::sync::{Arc, PoisonError, RwLock};

use super::file::{self, AccessFile, TokenKind};
use crate::error::{Error, Result};
use crate::privacy::{AccessRole, PrivacySettings};
use crate::record::now;
use crate::storage::{Access, FileStat, FileTimes, Storage, StorageFile, full_path, is_gone};
use crate::store::Store;

/// Who may do what, by the store's files.
pub(crate) struct Watch {
    store: Store,
    settings: Watched<PrivacySettings>,
    tokens: Watched<AccessFile>,
}

impl Watch {
    pub(crate) fn new(store: Store) -> Watch {
        Watch {
            settings: Watched::new(crate::store::MANIFEST),
            tokens: Watched::new(file::NAME),
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

    /// The role of who shows this; `None` if it is not known, was revoked, or has expired.
    ///
    /// # Errors
    /// `access.json` cannot be read, or does not read as one.
    pub(crate) fn role(&self, kind: TokenKind, shown: &str) -> Result<Option<AccessRole>> {
        let storage = self.store.inner().storage();
        let tokens = self.tokens.get(storage, || AccessFile::read(storage))?;
        Ok(tokens.find(kind, shown, now()).map(|info| info.role))
    }
}

/// A file that is read anew when it is another one, or changed.
struct Watched<T> {
    path: &'static str,
    seen: RwLock<Option<Seen<T>>>,
}

struct Seen<T> {
    stamp: Option<Stamp>,
    /// While it is open, no other file has its identity.
    _file: Option<Arc<dyn StorageFile>>,
    value: Arc<T>,
}

/// `None` if the file is not there.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(e) if is_gone(&e) => Ok(None),
        found => found.map(Some),
    }
}

type Stamp = (FileStat, Option<FileTimes>);

impl<T> Watched<T> {
    fn new(path: &'static str) -> Watched<T> {
        Watched {
            path,
            seen: RwLock::new(None),
        }
    }

    fn get(&self, storage: &dyn Storage, read: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        let io = |e| Error::io("look at", &full_path(storage, self.path), e);
        let stat = if_there(storage.stat(self.path)).map_err(io)?;
        let now = self.stamp(storage, stat).map_err(io)?;
        let seen = self.seen.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = seen.as_ref().filter(|seen| seen.stamp == now) {
            return Ok(Arc::clone(&seen.value));
        }
        drop(seen);
        // First, so that what changes while it is read is read again.
        let file = if_there(storage.open(self.path, Access::Read)).map_err(io)?;
        let stat = file.as_ref().map(|file| file.stat()).transpose();
        let stamp = self.stamp(storage, stat.map_err(io)?).map_err(io)?;
        let value = Arc::new(read()?);
        let seen = Seen {
            stamp,
            _file: file,
            value: Arc::clone(&value),
        };
        *self.seen.write().unwrap_or_else(PoisonError::into_inner) = Some(seen);
        Ok(value)
    }

    fn stamp(&self, storage: &dyn Storage, stat: Option<FileStat>) -> io::Result<Option<Stamp>> {
        let Some(stat) = stat else {
            return Ok(None);
        };
        let times = if_there(storage.times(self.path))?;
        Ok(Some((stat, times.flatten())))
    }
}
