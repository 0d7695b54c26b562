//! The messages of OTLP 1.x: protobuf and JSON come from one declaration. Unknown fields are
//! ignored, as the specification asks.
//!
//! JSON is read leniently: ids in upper or lower case, 64-bit numbers as numbers or as text, enums as
//! numbers or as names, fields in camelCase or `snake_case`, missing fields and null.

// The names are those of the specification.
#![allow(clippy::struct_field_names)]

use serde::{Deserialize, Serialize};

use super::json;
use crate::record::is_default;

/// Maximum number of elements of a list in one span or log record.
pub(super) const ELEMENTS_MAX: usize = 10_000;

/// A unit of work.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(alias = "trace_id", with = "json::hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(alias = "span_id", with = "json::hex")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    #[serde(
        alias = "trace_state",
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) trace_state: String,
    #[prost(bytes = "vec", tag = "4")]
    #[serde(
        alias = "parent_span_id",
        with = "json::hex",
        skip_serializing_if = "is_default"
    )]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    #[serde(deserialize_with = "json::or_default")]
    pub(crate) name: String,
    /// 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    #[prost(int32, tag = "6")]
    #[serde(deserialize_with = "json::span_kind")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(alias = "start_time_unix_nano", with = "json::number")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(alias = "end_time_unix_nano", with = "json::number")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    #[serde(deserialize_with = "json::list")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "10")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
    #[prost(message, repeated, tag = "11")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) events: Vec<SpanEvent>,
    #[prost(uint32, tag = "12")]
    #[serde(
        alias = "dropped_events_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_events_count: u32,
    #[prost(message, repeated, tag = "13")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) links: Vec<Link>,
    #[prost(uint32, tag = "14")]
    #[serde(
        alias = "dropped_links_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_links_count: u32,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
    #[prost(fixed32, tag = "16")]
    #[serde(deserialize_with = "json::small", skip_serializing_if = "is_default")]
    pub(crate) flags: u32,
}

/// What happened in a span at one time.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SpanEvent {
    #[prost(fixed64, tag = "1")]
    #[serde(alias = "time_unix_nano", with = "json::number")]
    pub(crate) time_unix_nano: u64,
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "json::or_default")]
    pub(crate) name: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
}

/// A related span.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(alias = "trace_id", with = "json::hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(alias = "span_id", with = "json::hex")]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "3")]
    #[serde(
        alias = "trace_state",
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) trace_state: String,
    #[prost(message, repeated, tag = "4")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "5")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
    #[prost(fixed32, tag = "6")]
    #[serde(deserialize_with = "json::small", skip_serializing_if = "is_default")]
    pub(crate) flags: u32,
}

/// The result of a span.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Status {
    #[prost(string, tag = "2")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) message: String,
    /// 0 unset, 1 ok, 2 error.
    #[prost(int32, tag = "3")]
    #[serde(deserialize_with = "json::status_code")]
    pub(crate) code: i32,
}

/// A log record.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    #[serde(alias = "time_unix_nano", with = "json::number")]
    pub(crate) time_unix_nano: u64,
    #[prost(fixed64, tag = "11")]
    #[serde(alias = "observed_time_unix_nano", with = "json::number")]
    pub(crate) observed_time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    #[serde(
        alias = "severity_number",
        deserialize_with = "json::severity",
        skip_serializing_if = "is_default"
    )]
    pub(crate) severity_number: i32,
    #[prost(string, tag = "3")]
    #[serde(
        alias = "severity_text",
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) severity_text: String,
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    #[serde(deserialize_with = "json::list")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "7")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
    #[prost(fixed32, tag = "8")]
    #[serde(deserialize_with = "json::small", skip_serializing_if = "is_default")]
    pub(crate) flags: u32,
    #[prost(bytes = "vec", tag = "9")]
    #[serde(
        alias = "trace_id",
        with = "json::hex",
        skip_serializing_if = "is_default"
    )]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    #[serde(
        alias = "span_id",
        with = "json::hex",
        skip_serializing_if = "is_default"
    )]
    pub(crate) span_id: Vec<u8>,
    #[prost(string, tag = "12")]
    #[serde(
        alias = "event_name",
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) event_name: String,
}

/// What produced the data: a service or a process.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "2")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
}

/// The instrumentation library.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    #[serde(
        deserialize_with = "json::or_default",
        skip_serializing_if = "is_default"
    )]
    pub(crate) version: String,
    #[prost(message, repeated, tag = "3")]
    #[serde(deserialize_with = "json::list", skip_serializing_if = "Vec::is_empty")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(uint32, tag = "4")]
    #[serde(
        alias = "dropped_attributes_count",
        deserialize_with = "json::small",
        skip_serializing_if = "is_default"
    )]
    pub(crate) dropped_attributes_count: u32,
}

/// An attribute.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValue {
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json::or_default")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<AnyValue>,
}

/// A value of any type; empty if it has none.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub(crate) value: Option<Value>,
}

/// The types of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    String(String),
    #[prost(bool, tag = "2")]
    Bool(bool),
    #[prost(int64, tag = "3")]
    Int(i64),
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(message, tag = "5")]
    Array(ArrayValue),
    #[prost(message, tag = "6")]
    KeyValues(KeyValueList),
    #[prost(bytes = "vec", tag = "7")]
    Bytes(Vec<u8>),
}

/// A list of values.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::list")]
    pub(crate) values: Vec<AnyValue>,
}

/// An object.
#[derive(Clone, PartialEq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct KeyValueList {
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json::list")]
    pub(crate) values: Vec<KeyValue>,
}

/// The answer to a request. `partial_success` is absent if everything was accepted.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// What was not accepted.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// `google.rpc.Status`, the body of an error.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}
