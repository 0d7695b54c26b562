//! Options and arguments that several classes take.

use std::time::Duration;

use decklog::uuid::Uuid;
use decklog::{Key, Kind, bindings};
use napi::Result;

use crate::errors::{self, OrThrow as _};

/// The kind with this name.
pub(crate) fn kind(stem: &str) -> Result<Kind> {
    Kind::from_stem(stem).ok_or_else(|| {
        let known = Kind::ALL.map(Kind::stem).join(", ");
        errors::invalid(
            "kind",
            &format!("unknown kind {stem:?}: give one of {known}"),
        )
    })
}

pub(crate) fn uuid(field: &str, text: &str) -> Result<Uuid> {
    text.parse()
        .map_err(|e| errors::invalid(field, &format!("{text:?} is no UUID: {e}")))
}

/// An integer, which JavaScript gives in decimal.
pub(crate) fn integer(field: &str, digits: &str) -> Result<i64> {
    let number = digits.parse();
    number.map_err(|e| errors::invalid(field, &format!("{digits} is no integer of 64 bits: {e}")))
}

/// A number of milliseconds as a duration.
pub(crate) fn milliseconds(field: &str, number: f64) -> Result<Duration> {
    let duration = Duration::try_from_secs_f64(number / 1e3);
    duration.map_err(|e| {
        errors::invalid(
            field,
            &format!("{number} is no number of milliseconds: {e}"),
        )
    })
}

pub(crate) fn key(stem: &str, id: &str, call_id: &str) -> Result<Key> {
    bindings::key(kind(stem)?, id, call_id).or_throw()
}
