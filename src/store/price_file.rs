//! The prices of a store: the built-in table, and the store's own file.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::prices::{ARE_KNOWN, FILE, Prices};
use crate::storage::{Access, full_path, if_there, read_all};
use crate::store::{Inner, Store};

/// The prices, and the file from which they were read.
#[derive(Debug, Default)]
pub(super) struct KnownPrices(Mutex<Option<Known>>);

/// The bytes of the file, if there is one, and its prices.
type Known = (Option<Vec<u8>>, Arc<Prices>);

impl Inner {
    /// The prices in force now. The file is read again each time, since it may have changed.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the store's file is not a valid price
    /// table.
    pub(crate) fn prices(&self) -> Result<Arc<Prices>> {
        let own = if ARE_KNOWN {
            let found = self.storage.open(FILE, Access::Read);
            let found = found.and_then(|file| read_all(&*file));
            let path = full_path(&*self.storage, FILE);
            if_there(found).map_err(|e| Error::io("read the prices", &path, e))?
        } else {
            None
        };
        let mut known = self.prices.0.lock();
        if let Some((file, prices)) = &*known
            && *file == own
        {
            return Ok(Arc::clone(prices));
        }
        let prices = Arc::new(Prices::new(own.as_deref())?);
        *known = Some((own, Arc::clone(&prices)));
        Ok(prices)
    }
}

impl Store {
    /// Checks the prices of the store's file `prices.json`, if there is one. Without the feature
    /// `prices` the file is not read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = decklog::Store::open(dir.path().join("log"))?;
    /// store.check_prices()?;
    /// # #[cfg(feature = "prices")] {
    /// std::fs::write(dir.path().join("log/prices.json"), "{}").unwrap();
    /// assert!(store.check_prices().is_err());
    /// # }
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the file is not a valid price table,
    /// with the provider and the model; [`Io`](crate::ErrorKind::Io) if it cannot be read.
    pub fn check_prices(&self) -> Result<()> {
        self.inner().prices().map(drop)
    }
}
