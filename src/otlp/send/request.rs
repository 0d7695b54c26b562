//! Export requests of a bounded size.

use serde::Serialize;
use uuid::Uuid;

use super::scope;
use crate::otlp::proto::{AnyValue, KeyValue, LogRecord, Resource, Scope, Span, Value};
use prost::Message;

/// Maximum number of items of a request.
const ITEMS_MAX: usize = 500;
/// Size in bytes at which a request ends.
const BYTES_MAX: usize = 1 << 20;

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Traces {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

/// The spans of a resource.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

/// The spans of a scope.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

/// `ExportLogsServiceRequest`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Logs {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_logs: Vec<ResourceLogs>,
}

/// The log records of a resource.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_logs: Vec<ScopeLogs>,
}

/// The log records of a scope.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) log_records: Vec<LogRecord>,
}

/// What produced the data: this store.
fn resource(store: Uuid) -> Resource {
    let attribute = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::String(value.to_owned())),
        }),
    };
    Resource {
        attributes: vec![
            attribute("service.name", "decklog"),
            attribute("service.version", env!("CARGO_PKG_VERSION")),
            attribute("decklog.store", &store.to_string()),
        ],
        ..Resource::default()
    }
}

impl Traces {
    pub(crate) fn new(store: Uuid, spans: Vec<Span>) -> Traces {
        Traces {
            resource_spans: vec![ResourceSpans {
                resource: Some(resource(store)),
                scope_spans: vec![ScopeSpans {
                    scope: Some(scope()),
                    spans,
                }],
            }],
        }
    }
}

impl Logs {
    pub(crate) fn new(store: Uuid, log_records: Vec<LogRecord>) -> Logs {
        Logs {
            resource_logs: vec![ResourceLogs {
                resource: Some(resource(store)),
                scope_logs: vec![ScopeLogs {
                    scope: Some(scope()),
                    log_records,
                }],
            }],
        }
    }
}

/// Splits items into requests. An item that is larger than a request is in one of its own.
pub(crate) fn split<T: Message>(items: Vec<T>) -> Vec<Vec<T>> {
    let mut requests: Vec<Vec<T>> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let len = item.encoded_len();
        bytes += len;
        match requests.last_mut() {
            Some(last) if bytes <= BYTES_MAX && last.len() < ITEMS_MAX => last.push(item),
            _ => {
                bytes = len;
                requests.push(vec![item]);
            }
        }
    }
    requests
}
