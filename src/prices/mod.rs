//! What a model call costs, by the prices in force when it was made.
//!
//! The table `table.json` is that of `genai-prices` 0.2.1 (MIT, `LICENSE-genai-prices`), without
//! models that have no price per token. Its crate has the same rules, but takes 40 ms to read its
//! table and 12 µs for a call. Here the first call takes about 1 ms, because only the models of the
//! needed providers are parsed, and each later one 0.1 µs, because the prices of a model are looked
//! up once. A store can have its own table, `prices.json`, in the same format. It overrides the
//! built-in table for the models that it contains.

mod matching;
mod rates;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use xxhash_rust::xxh3::xxh3_64;

use self::rates::ModelPrices;
pub(crate) use self::rates::Tokens;
use self::table::Table;
use crate::error::Result;

/// Whether costs are computed.
pub(crate) const ARE_KNOWN: bool = true;
/// The name of the table of a store.
pub(crate) const FILE: &str = "prices.json";

static BUILT_IN: &str = include_str!("table.json");

/// Changes with the rules by which costs are computed.
const RULES: u64 = 1;

/// The tables, and the prices of the models that were looked up.
#[derive(Debug)]
pub(crate) struct Prices {
    own: Option<Table>,
    /// Changes with the tables and the rules.
    pub fingerprint: u64,
    known: RwLock<HashMap<String, Option<Arc<ModelPrices>>>>,
}

impl Prices {
    /// The built-in table, and before it that of a store's file, if there is one.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the file is not a table.
    pub(crate) fn new(own: Option<&[u8]>) -> Result<Prices> {
        static HASH: OnceLock<u64> = OnceLock::new();
        let built_in = *HASH.get_or_init(|| xxh3_64(BUILT_IN.as_bytes()));
        let hash = own.map_or(0, |bytes| xxh3_64(bytes) | 1);
        Ok(Prices {
            own: own.map(Table::checked).transpose()?,
            fingerprint: built_in ^ hash.rotate_left(17) ^ RULES,
            known: RwLock::default(),
        })
    }

    /// The cost of a call at a time, in billionths of a US dollar. `None` if the model has no
    /// price.
    pub(crate) fn nano_usd(&self, model: &str, at: i64, tokens: &Tokens) -> Option<u64> {
        if let Some(known) = self.known.read().get(model) {
            return known.as_ref()?.nano_usd(at, tokens);
        }
        let found = self.find(model).map(Arc::new);
        let cost = found
            .as_ref()
            .and_then(|prices| prices.nano_usd(at, tokens));
        self.known.write().insert(model.to_owned(), found);
        cost
    }

    fn find(&self, model: &str) -> Option<ModelPrices> {
        let own = self.own.as_ref().and_then(|own| own.find(model));
        own.or_else(|| built_in()?.find(model))
    }
}

/// The built-in table, read when it is first needed. A test reads all of it.
fn built_in() -> Option<&'static Table> {
    static TABLE: OnceLock<Option<Table>> = OnceLock::new();
    TABLE
        .get_or_init(|| Table::read(BUILT_IN.as_bytes()).ok())
        .as_ref()
}

#[cfg(test)]
mod tests;
