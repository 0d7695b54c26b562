//! Answers of tools: `{"ok":true,"data":…}` or an error; and the errors of other requests.

use std::borrow::Cow;
use std::fmt::Display;

use rmcp::model::{CallToolResult, ErrorData};
use serde_json::{Map, Value, json};

use super::bound::Cuts;
use crate::error::{Error, ErrorKind};
use crate::wire::issues::{Issue, in_words};

/// Maximum length of an invalid uri in an error.
const URI_SHOWN_BYTES: usize = 4 << 10;

/// The error of a tool.
#[derive(Debug)]
pub(super) struct Fault {
    code: Cow<'static, str>,
    message: String,
    details: Map<String, Value>,
    /// Each invalid argument.
    issues: Vec<Issue>,
}

const INVALID_PARAMS: &str = "INVALID_PARAMS";
const NOT_FOUND: &str = "NOT_FOUND";
/// Maximum length of quoted client input, or of a failure, in an error.
const CHARS_MAX: usize = 1_000;

fn clipped(text: String) -> String {
    match text.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

impl Fault {
    pub(super) fn new(code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Fault {
        Fault {
            code: code.into(),
            message: clipped(message.into()),
            details: Map::new(),
            issues: Vec::new(),
        }
    }

    /// An invalid argument.
    pub(super) fn invalid(message: impl Into<String>) -> Fault {
        Fault::new(INVALID_PARAMS, message)
    }

    /// An invalid argument with this name.
    pub(super) fn of_field(field: &str, message: impl Display) -> Fault {
        Fault::invalid(format!("{field}: {message}")).with_field(field)
    }

    /// Invalid arguments, at least one.
    pub(super) fn of_issues(issues: Vec<Issue>) -> Fault {
        let field = issues.first().map(Issue::field).unwrap_or_default();
        let mut fault = Fault::invalid(in_words(&issues)).with_field(field);
        fault.issues = issues.into_iter().map(Issue::short).collect();
        fault
    }

    /// Details of the error.
    fn details(&self) -> Map<String, Value> {
        let mut details = self.details.clone();
        if self.code == INVALID_PARAMS {
            let mut issues = self.issues.clone();
            if issues.is_empty() {
                let field = details.get("field").cloned();
                let issue = Issue::new(field.into_iter().collect(), self.message.clone());
                issues.push(issue.short());
            }
            details.insert("issues".into(), json!(issues));
        }
        details
    }

    pub(super) fn not_found(message: impl Into<String>) -> Fault {
        Fault::new(NOT_FOUND, message)
    }

    /// The argument with this name is an id that the log does not have.
    pub(super) fn unknown(field: &str, message: impl Into<String>) -> Fault {
        Fault::not_found(message).with_field(field)
    }

    pub(super) fn cancelled() -> Fault {
        Fault::new("CANCELLED", "the client cancelled the call")
    }

    pub(super) fn internal() -> Fault {
        let message = "internal error: see the server's standard error";
        Fault::new("INTERNAL", message)
    }

    /// Whether the store failed.
    pub(super) fn is_of_store(&self) -> bool {
        matches!(&*self.code, "IO" | "POISONED")
    }

    /// Names the invalid argument.
    pub(super) fn with_field(mut self, field: impl Into<String>) -> Fault {
        self.details
            .insert("field".into(), clipped(field.into()).into());
        self
    }

    /// Names the invalid resource.
    pub(super) fn with_uri(mut self, uri: &str) -> Fault {
        let shown = &uri[..uri.floor_char_boundary(URI_SHOWN_BYTES)];
        self.details.insert("uri".into(), shown.into());
        self
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        let kind = error.kind();
        let code = match kind {
            ErrorKind::InvalidInput => INVALID_PARAMS.into(),
            // Only the operator of the server can act on these.
            ErrorKind::NewerFormat | ErrorKind::NotAStore | ErrorKind::NetworkFileSystem => {
                "IO".into()
            }
            _ => kind.as_str().to_ascii_uppercase(),
        };
        let message = match kind {
            ErrorKind::InvalidInput
            | ErrorKind::NotFound
            | ErrorKind::Lifecycle
            | ErrorKind::Conflict
            | ErrorKind::QueueFull
            | ErrorKind::UserIdKey => error.reason(),
            ErrorKind::Locked => "another process holds the log's lock: try again".to_owned(),
            ErrorKind::ReadOnly => "the log is read-only".to_owned(),
            // Paths of files are only for the server's operator.
            _ => {
                tracing::error!(%error, "the log failed");
                "the log failed: see the server's standard error. The record may or may not exist: check before you call again".to_owned()
            }
        };
        let fault = Fault::new(code, message);
        match error.field() {
            Some(field) => fault.with_field(field),
            None => fault,
        }
    }
}

/// The answer of a successful call.
pub(super) fn done(data: Value, cuts: &Cuts) -> CallToolResult {
    CallToolResult::structured(whole(data, cuts))
}

pub(super) fn whole(data: Value, cuts: &Cuts) -> Value {
    let mut answer = json!({ "ok": true });
    answer["data"] = data;
    cuts.note_in(&mut answer);
    answer
}

impl From<Fault> for CallToolResult {
    fn from(fault: Fault) -> CallToolResult {
        let details = fault.details();
        CallToolResult::structured_error(json!({
            "ok": false,
            "error": { "code": fault.code, "message": fault.message, "details": details },
        }))
    }
}

impl From<Fault> for ErrorData {
    fn from(fault: Fault) -> ErrorData {
        let details = Value::Object(fault.details());
        let message = fault.message;
        match &*fault.code {
            NOT_FOUND => ErrorData::resource_not_found(message, Some(details)),
            INVALID_PARAMS => ErrorData::invalid_params(message, Some(details)),
            code => ErrorData::internal_error(message, Some(json!({ "code": code }))),
        }
    }
}
