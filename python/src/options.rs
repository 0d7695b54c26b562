//! The options of `decklog.open`.

use std::path::PathBuf;
use std::time::Duration;

use decklog::{Durability, Store};
use pyo3::prelude::*;

use crate::errors::{self, OrRaise as _};

/// How a log is opened.
pub(crate) struct Opening {
    pub(crate) path: PathBuf,
    pub(crate) durability: String,
    pub(crate) read_only: bool,
    pub(crate) create: bool,
    pub(crate) lock_timeout: Option<f64>,
}

impl Opening {
    pub(crate) fn open(self, py: Python<'_>) -> PyResult<Store> {
        let mut options = Store::options()
            .durability(match &*self.durability {
                "process" => Durability::Process,
                "disk" => Durability::Disk,
                other => {
                    let message = format!("unknown level {other:?}: give process or disk");
                    return Err(errors::invalid("durability", &message));
                }
            })
            .read_only(self.read_only)
            .create(self.create);
        if let Some(timeout) = self.lock_timeout {
            options = options.lock_timeout(seconds("lock_timeout", timeout)?);
        }
        py.detach(|| options.open(self.path)).or_raise()
    }
}

/// A number of seconds as a duration.
pub(crate) fn seconds(field: &str, number: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(number)
        .map_err(|e| errors::invalid(field, &format!("{number} is no number of seconds: {e}")))
}
