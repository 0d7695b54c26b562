//! Errors as problem details (RFC 9457).

use std::fmt::{self, Display};

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::{IntoResponses, ToSchema};

use crate::error::{Error, ErrorKind};
use crate::wire::issues::{Issue, in_words};

/// The media type of a problem.
pub(super) const MEDIA_TYPE: &str = "application/problem+json";

/// Seconds until a retry when the store is busy.
const RETRY_AFTER_SECS: u16 = 1;

/// Problem details of RFC 9457.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(super) struct Problem {
    /// Always `about:blank`: `code` identifies the problem.
    #[serde(rename = "type")]
    uri: &'static str,
    /// The status in words.
    title: &'static str,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The problem and its remedy.
    detail: String,
    /// A stable code of the problem.
    code: &'static str,
    /// The invalid parameter, or the invalid part of the body as a JSON pointer. An empty text is the
    /// whole body.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    #[serde(skip)]
    retry_after: Option<u16>,
}

/// The response for an unknown id, in descriptions.
#[derive(IntoResponses)]
#[response(status = 404, description = "Not found")]
pub(super) struct NotFound;

/// The response for the id of a record that may have been retracted, in descriptions.
#[derive(IntoResponses)]
#[response(status = 404, description = "Not found, or retracted")]
pub(super) struct NotFoundOrRetracted;

impl Problem {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        detail: impl Into<String>,
    ) -> Problem {
        Problem {
            uri: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: detail.into(),
            code,
            field: None,
            retry_after: None,
        }
    }

    /// An invalid parameter or header, or a body that does not parse.
    pub(super) fn bad_request(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "bad_request", detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", detail)
    }

    /// An unsupported value of this header.
    pub(super) fn unsupported(header: &str, detail: impl Into<String>) -> Problem {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Problem::new(status, "unsupported_media_type", detail).with_field(header)
    }

    pub(super) fn unknown(kind: &str, id: impl Display) -> Problem {
        Problem::not_found(format!("there is no {kind} {id}")).with_field("id")
    }

    /// A JSON body with invalid content.
    pub(super) fn invalid(detail: impl Into<String>) -> Problem {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        Problem {
            // The pointer to the whole body, until a field is known.
            field: Some(String::new()),
            ..Problem::new(status, ErrorKind::InvalidInput.as_str(), detail)
        }
    }

    /// A temporary failure of the store.
    pub(super) fn unavailable(code: &'static str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, code, detail).retry_soon()
    }

    /// The same problem as one that a client solves by sending the request again.
    #[cfg(feature = "otlp")]
    pub(super) fn temporary(mut self) -> Problem {
        if self.status().is_server_error() {
            self.status = StatusCode::SERVICE_UNAVAILABLE.as_u16();
            return self.retry_soon();
        }
        self
    }

    pub(super) fn with_field(mut self, field: impl Into<String>) -> Problem {
        if self.field.as_ref().is_none_or(String::is_empty) {
            self.field = Some(field.into());
        }
        self
    }

    /// The problem of a query. Its parameters have the same names as the fields of the error.
    pub(super) fn of_query(error: &Error) -> Problem {
        let problem = Problem::bad_request(error.reason());
        match (error.kind(), error.field()) {
            (ErrorKind::InvalidInput, Some(name)) => problem.with_field(name),
            (ErrorKind::InvalidInput, None) => problem,
            _ => Problem::from(error),
        }
    }

    fn retry_soon(mut self) -> Problem {
        self.retry_after = Some(RETRY_AFTER_SECS);
        self
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The status in words.
    #[cfg(feature = "page")]
    pub(super) fn title(&self) -> &str {
        self.title
    }

    #[cfg(feature = "page")]
    pub(super) fn detail(&self) -> &str {
        &self.detail
    }

    /// The problem of a body with these errors.
    pub(super) fn of_issues(issues: &[Issue]) -> Problem {
        let field = issues.first().map(Issue::pointer);
        Problem::invalid(in_words(issues)).with_field(field.unwrap_or_default())
    }

    /// The same problem for a part of the body, given as a JSON pointer.
    pub(super) fn within(self, pointer: &str) -> Problem {
        let field = self.field.map(|field| format!("{pointer}{field}"));
        Problem { field, ..self }
    }
}

/// The stable code of an error.
pub(super) fn code(error: &Error) -> &'static str {
    if error.is_disk_full() {
        "disk_full"
    } else {
        error.kind().as_str()
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Problem {
        let kind = error.kind();
        // File paths are only for the operator of the server.
        let detail = error.reason();
        let is_of_store = |status| {
            tracing::error!(%error, "the store failed");
            let detail = "the store failed: see the server's log";
            Problem::new(status, kind.as_str(), detail)
        };
        if error.is_disk_full() {
            tracing::error!(%error, "the disk is full");
            let detail = "the disk of the store is full: try again when there is space";
            let status = StatusCode::INSUFFICIENT_STORAGE;
            return Problem::new(status, code(error), detail).retry_soon();
        }
        match kind {
            ErrorKind::InvalidInput => match error.field() {
                Some(field) => Problem::invalid(detail).with_field(format!("/{field}")),
                None => Problem::invalid(detail),
            },
            ErrorKind::NotFound => Problem::not_found(detail),
            ErrorKind::Lifecycle | ErrorKind::Conflict => {
                Problem::new(StatusCode::CONFLICT, kind.as_str(), detail)
            }
            ErrorKind::QueueFull => {
                let status = StatusCode::TOO_MANY_REQUESTS;
                Problem::new(status, kind.as_str(), detail).retry_soon()
            }
            ErrorKind::UserIdKey => {
                tracing::error!(%error, "the key of user ids is not the store's");
                Problem::new(StatusCode::SERVICE_UNAVAILABLE, kind.as_str(), detail)
            }
            ErrorKind::Locked => {
                let detail = "another process holds the store's lock: try again";
                Problem::unavailable(kind.as_str(), detail)
            }
            ErrorKind::Poisoned | ErrorKind::ReadOnly => {
                is_of_store(StatusCode::SERVICE_UNAVAILABLE)
            }
            _ => is_of_store(StatusCode::INTERNAL_SERVER_ERROR),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        Problem::from(&error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let status = self.status();
        let media_type = [(header::CONTENT_TYPE, MEDIA_TYPE)];
        let retry = self.retry_after.map(|secs| [(header::RETRY_AFTER, secs)]);
        let bearer = [(header::WWW_AUTHENTICATE, "Bearer")];
        let bearer = (status == StatusCode::UNAUTHORIZED).then_some(bearer);
        let response = (status, media_type, retry, bearer, body).into_response();
        #[cfg(feature = "page")]
        let response = (axum::Extension(self), response).into_response();
        response
    }
}

impl Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}
