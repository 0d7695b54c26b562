//! Without the feature `prices`, nothing has a price.

use crate::error::Result;

/// Whether costs are computed.
pub(crate) const ARE_KNOWN: bool = false;
/// The name of the table of a store.
pub(crate) const FILE: &str = "prices.json";

/// The tokens of a call.
#[derive(Debug, Clone, Copy, Default)]
#[allow(dead_code)] // The other `Tokens` are read.
pub(crate) struct Tokens {
    pub input: u64,
    pub cache_write: u64,
    pub cache_write_1h: u64,
    pub cache_read: u64,
    pub output: u64,
    pub reasoning: u64,
    pub prompt: u64,
}

/// No prices.
#[derive(Debug)]
pub(crate) struct Prices {
    pub fingerprint: u64,
}

#[allow(clippy::unnecessary_wraps, clippy::unused_self)] // As the other `Prices`.
impl Prices {
    pub(crate) fn new(_: Option<&[u8]>) -> Result<Prices> {
        Ok(Prices { fingerprint: 0 })
    }

    pub(crate) fn nano_usd(&self, _: &str, _: i64, _: &Tokens) -> Option<u64> {
        None
    }
}
