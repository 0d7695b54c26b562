//! What a tool answers: `{"ok":true,"data":…}`, or why not; and why not of all else.

use rmcp::model::{CallToolResult, ErrorData};
use serde_json::{Map, Value, json};

use super::bound::{Cuts, floor};
use crate::error::{Error, ErrorKind};

/// More of what cannot be a resource is not sent back.
const URI_SHOWN_BYTES: usize = 4 << 10;

/// Why a tool did not do what it was asked for.
#[derive(Debug)]
pub(super) struct Fault {
    code: &'static str,
    message: String,
    details: Map<String, Value>,
}

/// How much is told of what a client sent, or of what failed.
const CHARS_MAX: usize = 1_000;

fn clipped(text: String) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl Fault {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: clipped(message.into()),
            details: Map::new(),
        }
    }

    /// An argument that cannot be.
    pub(super) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new("INVALID_PARAMS", message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Fault {
        Fault::new("NOT_FOUND", message)
    }

    pub(super) fn cancelled() -> Fault {
        Fault::new("CANCELLED", "the client cancelled the call")
    }

    pub(super) fn internal() -> Fault {
        let message = "the server failed at this: its standard error tells why";
        Fault::new("INTERNAL", message)
    }

    /// Whether it is the store that failed.
    pub(super) fn is_of_store(&self) -> bool {
        matches!(self.code, "IO" | "POISONED")
    }

    /// Names the argument that is at fault.
    pub(super) fn with_field(mut self, field: impl Into<String>) -> Fault {
        self.details
            .insert("field".into(), clipped(field.into()).into());
        self
    }

    /// Names the resource that is at fault.
    pub(super) fn with_uri(mut self, uri: &str) -> Fault {
        let shown = &uri[..floor(uri, URI_SHOWN_BYTES)];
        self.details.insert("uri".into(), shown.into());
        self
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let kind = error.kind();
        let code = match kind {
            ErrorKind::InvalidInput => "INVALID_PARAMS",
            ErrorKind::Lifecycle => "LIFECYCLE",
            ErrorKind::Conflict => "CONFLICT",
            ErrorKind::Locked => "LOCKED",
            ErrorKind::ReadOnly => "READ_ONLY",
            ErrorKind::Poisoned => "POISONED",
            ErrorKind::Damaged => "DAMAGED",
            ErrorKind::QueueFull => "QUEUE_FULL",
            ErrorKind::UserIdKey => "USER_ID_KEY",
            _ => "IO",
        };
        let message = match kind {
            ErrorKind::InvalidInput
            | ErrorKind::Lifecycle
            | ErrorKind::Conflict
            | ErrorKind::QueueFull
            | ErrorKind::UserIdKey => error.reason(),
            ErrorKind::Locked => "another process keeps the log locked: try again".to_owned(),
            ErrorKind::ReadOnly => "the log was opened to be read only".to_owned(),
            // Where files are is for who runs the server.
            _ => {
                tracing::error!(%error, "the log failed");
                "the log failed at this, and the server's standard error tells why. What was to be recorded may be there or not: look before you call again".to_owned()
            }
        };
        let fault = Fault::new(code, message);
        match error.field() {
            Some(field) => fault.with_field(field),
            None => fault,
        }
    }
}

/// The answer where all is well.
pub(super) fn done(data: Value, cuts: &Cuts) -> CallToolResult {
    CallToolResult::structured(whole(data, cuts))
}

pub(super) fn whole(data: Value, cuts: &Cuts) -> Value {
    let mut answer = json!({ "ok": true });
    answer["data"] = data;
    cuts.tell(&mut answer);
    answer
}

impl From<Fault> for CallToolResult {
    fn from(fault: Fault) -> CallToolResult {
        CallToolResult::structured_error(json!({
            "ok": false,
            "error": {
                "code": fault.code,
                "message": fault.message,
                "details": fault.details,
            },
        }))
    }
}

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> ErrorData {
        let details = Value::Object(fault.details);
        match fault.code {
            "NOT_FOUND" => ErrorData::resource_not_found(fault.message, Some(details)),
            "INVALID_PARAMS" => ErrorData::invalid_params(fault.message, Some(details)),
            code => ErrorData::internal_error(fault.message, Some(json!({ "code": code }))),
        }
    }
}
