//! Errors of the library as those of JavaScript, which makes a `DecklogError` of the JSON in their
//! message.

use std::fmt::Display;

use serde_json::{Value, json};

/// What the message of each error begins with.
const PREFIX: &str = "decklog:";

/// An error of the library as JSON.
pub(crate) fn json(error: &decklog::Error) -> Value {
    json!({
        "kind": error.kind().as_str(),
        "message": error.to_string(),
        "field": error.field(),
        "path": error.path().map(|path| path.to_string_lossy()),
        "key": error.key(),
        "offset": error.offset(),
    })
}

fn made(json: &Value) -> napi::Error {
    napi::Error::from_reason(format!("{PREFIX}{json}"))
}

/// The JSON in the message of an error.
pub(crate) fn of_message(error: &napi::Error) -> Value {
    let json = error.reason.strip_prefix(PREFIX);
    let json = json.and_then(|json| serde_json::from_str(json).ok());
    json.unwrap_or_else(|| json!({ "kind": "fault", "message": error.reason }))
}

pub(crate) fn of(error: &decklog::Error) -> napi::Error {
    made(&json(error))
}

/// An error that the library itself does not have.
pub(crate) fn of_kind(kind: &str, message: &str) -> napi::Error {
    made(&json!({ "kind": kind, "message": message }))
}

/// A value or an argument is invalid.
pub(crate) fn invalid(field: &str, message: &str) -> napi::Error {
    let message = format!("{field}: {message}");
    made(&json!({ "kind": "invalid_input", "message": message, "field": field }))
}

pub(crate) fn closed() -> napi::Error {
    of_kind("closed", "the log is closed: open it again")
}

/// Something that cannot happen unless this package is at fault.
pub(crate) fn fault(message: impl Display) -> napi::Error {
    of_kind("fault", &message.to_string())
}

/// A result of the library as one of JavaScript.
pub(crate) trait OrThrow<T> {
    fn or_throw(self) -> napi::Result<T>;
}

impl<T> OrThrow<T> for decklog::Result<T> {
    fn or_throw(self) -> napi::Result<T> {
        self.map_err(|error| of(&error))
    }
}
