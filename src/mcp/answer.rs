//! What a tool answers: `{"ok":true,"data":…}`, or why not; and why not of all else.

use rmcp::model::{CallToolResult, ErrorData};
use serde_json::{Map, Value, json};

use super::bound::{Cuts, floor};
use crate::error::{Error, ErrorKind};
use crate::wire::issues::{Issue, told};

/// More of what cannot be a resource is not sent back.
const URI_SHOWN_BYTES: usize = 4 << 10;

/// Why a tool did not do what it was asked for.
#[derive(Debug)]
pub(super) struct Fault {
    code: &'static str,
    message: String,
    details: Map<String, Value>,
    /// Each argument at fault.
    issues: Vec<Issue>,
}

const INVALID_PARAMS: &str = "INVALID_PARAMS";
const NOT_FOUND: &str = "NOT_FOUND";
/// Maximum length of what an error repeats of the client's input, or of a failure.
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
            issues: Vec::new(),
        }
    }

    /// An argument that cannot be.
    pub(super) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(INVALID_PARAMS, message)
    }

    /// Arguments that cannot be, of which there is at least one.
    pub(super) fn of_issues(issues: Vec<Issue>) -> Fault {
        let field = issues.first().map(Issue::field).unwrap_or_default();
        let mut fault = Fault::invalid(told(&issues)).with_field(field);
        fault.issues = issues.into_iter().map(Issue::short).collect();
        fault
    }

    /// Details of the error beside its message.
    fn into_details(self) -> Map<String, Value> {
        let mut details = self.details;
        if self.code == INVALID_PARAMS {
            let mut issues = self.issues;
            if issues.is_empty() {
                let field = details.get("field").cloned();
                let issue = Issue::new(field.into_iter().collect(), self.message);
                issues.push(issue.short());
            }
            details.insert("issues".into(), json!(issues));
        }
        details
    }

    pub(super) fn not_found(message: impl Into<String>) -> Fault {
        Fault::new(NOT_FOUND, message)
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
            ErrorKind::InvalidInput => INVALID_PARAMS,
            ErrorKind::NotFound => NOT_FOUND,
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
            | ErrorKind::NotFound
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
        let (code, message) = (fault.code, fault.message.clone());
        CallToolResult::structured_error(json!({
            "ok": false,
            "error": { "code": code, "message": message, "details": fault.into_details() },
        }))
    }
}

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> ErrorData {
        let (code, message) = (fault.code, fault.message.clone());
        let details = Value::Object(fault.into_details());
        match code {
            NOT_FOUND => ErrorData::resource_not_found(message, Some(details)),
            INVALID_PARAMS => ErrorData::invalid_params(message, Some(details)),
            code => ErrorData::internal_error(message, Some(json!({ "code": code }))),
        }
    }
}
