//! An export request: its spans or log records, each with its resource and scope.
//!
//! The structure is checked before any item is decoded. Items are decoded one at a time, so that a
//! hostile request cannot take much more memory than its length.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::json;
use serde_json::value::RawValue;

use super::json::too_many_elements;
use super::proto::{ELEMENTS_MAX, LogRecord, Resource, Scope, Span};
use super::proto::{ExportResponse, PartialSuccess, RpcStatus};
use super::receive::Outcome;

/// Maximum number of items of a request.
pub(crate) const ITEMS_MAX: usize = 100_000;
/// Maximum size of an item, in bytes.
pub(crate) const ITEM_BYTES_MAX: usize = 8 << 20;
/// Maximum depth of nested values.
const DEPTH_MAX: usize = 90;

/// The encoding of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/x-protobuf`.
    Protobuf,
    /// `application/json`.
    Json,
}

impl Encoding {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }

    /// The body of the answer to a request that was received.
    pub fn response(self, signal: Signal, outcome: &Outcome) -> Vec<u8> {
        let message = outcome.reasons.join("; ");
        let rejected = outcome.rejected as u64;
        match self {
            Encoding::Protobuf => {
                let partial_success = (rejected > 0).then(|| PartialSuccess {
                    rejected: i64::try_from(rejected).unwrap_or(i64::MAX),
                    error_message: message,
                });
                ExportResponse { partial_success }.encode_to_vec()
            }
            Encoding::Json if rejected == 0 => b"{}".to_vec(),
            Encoding::Json => {
                let rejected_name = match signal {
                    Signal::Traces => "rejectedSpans",
                    Signal::Logs => "rejectedLogRecords",
                    Signal::Metrics => "rejectedDataPoints",
                };
                let partial_success = json!({
                    rejected_name: rejected.to_string(),
                    "errorMessage": message,
                });
                json!({ "partialSuccess": partial_success })
                    .to_string()
                    .into_bytes()
            }
        }
    }

    /// The body of the answer to a request that was refused: a `google.rpc.Status`.
    pub fn status(self, message: String) -> Vec<u8> {
        match self {
            Encoding::Protobuf => RpcStatus { code: 0, message }.encode_to_vec(),
            Encoding::Json => json!({ "message": message }).to_string().into_bytes(),
        }
    }

    fn decode<T: Message + Default + DeserializeOwned>(self, bytes: &[u8]) -> Result<T, String> {
        match self {
            Encoding::Protobuf => T::decode(bytes).map_err(|e| format!("not protobuf: {e}")),
            Encoding::Json => serde_json::from_slice(bytes).map_err(|e| e.to_string()),
        }
    }
}

/// What a request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Log records.
    Logs,
    /// Metrics, which are counted and not recorded.
    Metrics,
}

impl Signal {
    /// The name in paths and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Signal::Traces => "traces",
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
        }
    }
}

/// An item of a request that can be decoded.
pub(crate) trait Item: Message + Default + DeserializeOwned {
    /// Checks the numbers of elements of an item in protobuf, without decoding it.
    fn check(bytes: &[u8]) -> Result<(), String>;
}

impl Item for Span {
    fn check(bytes: &[u8]) -> Result<(), String> {
        check_lists(bytes, Shape::Span)
    }
}

impl Item for LogRecord {
    fn check(bytes: &[u8]) -> Result<(), String> {
        check_lists(bytes, Shape::LogRecord)
    }
}

/// A request of which only the structure is read.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    encoding: Encoding,
    groups: Vec<Group<'a>>,
    items: usize,
}

/// The items of one scope of one resource.
#[derive(Debug)]
struct Group<'a> {
    resource: Option<&'a [u8]>,
    scope: Option<&'a [u8]>,
    items: Vec<&'a [u8]>,
}

/// The items of one scope of one resource, which are decoded one at a time.
pub(crate) struct Items<'a, T> {
    pub(crate) resource: Resource,
    pub(crate) scope: Scope,
    encoding: Encoding,
    encoded: std::slice::Iter<'a, &'a [u8]>,
    item: PhantomData<T>,
}

impl<'a> Request<'a> {
    /// Reads the structure of a request.
    ///
    /// # Errors
    /// The reason why the request is malformed.
    pub(crate) fn read(
        encoding: Encoding,
        signal: Signal,
        body: &'a [u8],
    ) -> Result<Request<'a>, String> {
        let mut request = Request {
            encoding,
            groups: Vec::new(),
            items: 0,
        };
        match encoding {
            Encoding::Protobuf => request.read_protobuf(body)?,
            Encoding::Json => request.read_json(signal, body)?,
        }
        Ok(request)
    }

    /// The number of items.
    pub(crate) fn len(&self) -> usize {
        self.items
    }

    /// The items by resource and scope. A resource or scope that cannot be decoded is the error of
    /// all of its items.
    pub(crate) fn groups<T: Item>(
        &self,
    ) -> impl Iterator<Item = Result<Items<'_, T>, (usize, String)>> {
        self.groups.iter().map(|group| {
            let failed = |reason| (group.items.len(), reason);
            Ok(Items {
                resource: self
                    .decoded(group.resource, Shape::Resource)
                    .map_err(failed)?,
                scope: self.decoded(group.scope, Shape::Scope).map_err(failed)?,
                encoding: self.encoding,
                encoded: group.items.iter(),
                item: PhantomData,
            })
        })
    }

    fn decoded<T>(&self, bytes: Option<&[u8]>, shape: Shape) -> Result<T, String>
    where
        T: Message + Default + DeserializeOwned,
    {
        let Some(bytes) = bytes else {
            return Ok(T::default());
        };
        if self.encoding == Encoding::Protobuf {
            check_lists(bytes, shape)?;
        }
        self.encoding.decode(bytes)
    }

    fn add(
        &mut self,
        resource: Option<&'a [u8]>,
        scope: Option<&'a [u8]>,
        items: Vec<&'a [u8]>,
    ) -> Result<(), String> {
        self.items += items.len();
        if self.items > ITEMS_MAX {
            return Err(format!(
                "more than {ITEMS_MAX} items: send fewer in each request"
            ));
        }
        self.groups.push(Group {
            resource,
            scope,
            items,
        });
        Ok(())
    }

    fn read_protobuf(&mut self, body: &'a [u8]) -> Result<(), String> {
        let mut left = ITEMS_MAX;
        for of_resource in messages(body, 1) {
            let of_resource = of_resource?;
            let resource = messages(of_resource, 1).last().transpose()?;
            for of_scope in messages(of_resource, 2) {
                let of_scope = of_scope?;
                let scope = messages(of_scope, 1).last().transpose()?;
                let mut items = Vec::new();
                for item in messages(of_scope, 2).take(left + 1) {
                    items.push(item?);
                }
                left = left.saturating_sub(items.len().max(1));
                self.add(resource, scope, items)?;
            }
        }
        Ok(())
    }

    fn read_json(&mut self, signal: Signal, body: &'a [u8]) -> Result<(), String> {
        // An array would be read as the members in their order.
        if body
            .trim_ascii_start()
            .first()
            .is_some_and(|it| *it == b'[')
        {
            return Err("not OTLP as JSON: the request must be an object".to_owned());
        }
        let malformed = |e: serde_json::Error| format!("not OTLP as JSON: {e}");
        let body: Body<'_> = serde_json::from_slice(body).map_err(malformed)?;
        let resources = match signal {
            Signal::Traces => body.resource_spans,
            Signal::Logs => body.resource_logs,
            Signal::Metrics => body.resource_metrics,
        };
        for of_resource in resources {
            for of_scope in of_resource.scope_spans {
                let items = match signal {
                    Signal::Traces => of_scope.spans,
                    Signal::Logs => of_scope.log_records,
                    Signal::Metrics => of_scope.metrics,
                };
                let bytes = |raw: &'a RawValue| raw.get().as_bytes();
                let items = items.into_iter().map(bytes).collect();
                self.add(
                    of_resource.resource.map(bytes),
                    of_scope.scope.map(bytes),
                    items,
                )?;
            }
        }
        Ok(())
    }
}

impl<T: Item> Iterator for Items<'_, T> {
    type Item = Result<T, String>;

    fn next(&mut self) -> Option<Result<T, String>> {
        let bytes = *self.encoded.next()?;
        if bytes.len() > ITEM_BYTES_MAX {
            let length = bytes.len();
            return Some(Err(format!(
                "it has {length} bytes: the maximum is {ITEM_BYTES_MAX}"
            )));
        }
        if self.encoding == Encoding::Protobuf
            && let Err(reason) = T::check(bytes)
        {
            return Some(Err(reason));
        }
        Some(self.encoding.decode(bytes))
    }
}

/// The messages in a field of a message.
fn messages(mut bytes: &[u8], wanted: u32) -> impl Iterator<Item = Result<&[u8], String>> {
    std::iter::from_fn(move || {
        loop {
            if bytes.is_empty() {
                return None;
            }
            let field = next_field(&mut bytes);
            match field {
                Ok((tag, Some(message))) if tag == wanted => return Some(Ok(message)),
                Ok((tag, None)) if tag == wanted => {
                    bytes = &[];
                    return Some(Err(format!("not protobuf: field {tag} is no message")));
                }
                Ok(_) => {}
                Err(reason) => {
                    bytes = &[];
                    return Some(Err(format!("not protobuf: {reason}")));
                }
            }
        }
    })
}

/// The next field: its tag and, if it has a length, its bytes.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Result<(u32, Option<&'a [u8]>), String> {
    let (tag, wire_type) = decode_key(bytes).map_err(|e| e.to_string())?;
    if wire_type != WireType::LengthDelimited {
        let context = DecodeContext::default();
        skip_field(wire_type, tag, bytes, context).map_err(|e| e.to_string())?;
        return Ok((tag, None));
    }
    let length = decode_varint(bytes).map_err(|e| e.to_string())?;
    let field = usize::try_from(length).ok();
    let field = field.and_then(|length| bytes.get(..length));
    let field = field.ok_or_else(|| {
        let left = bytes.len();
        format!("field {tag} has a length of {length} bytes, and {left} are left")
    })?;
    bytes.advance(field.len());
    Ok((tag, Some(field)))
}

/// The messages whose lists are counted.
#[derive(Clone, Copy)]
enum Shape {
    Span,
    LogRecord,
    Resource,
    Scope,
    SpanEvent,
    Link,
    KeyValue,
    AnyValue,
    Array,
    KeyValues,
}

impl Shape {
    /// The message in a field.
    fn of_field(self, tag: u32) -> Option<Shape> {
        let attributes = match self {
            Shape::Span => 9,
            Shape::LogRecord => 6,
            Shape::Resource | Shape::KeyValues => 1,
            Shape::Scope | Shape::SpanEvent => 3,
            Shape::Link => 4,
            Shape::KeyValue | Shape::AnyValue | Shape::Array => 0,
        };
        if tag == attributes {
            return Some(Shape::KeyValue);
        }
        match (self, tag) {
            (Shape::Span, 11) => Some(Shape::SpanEvent),
            (Shape::Span, 13) => Some(Shape::Link),
            (Shape::LogRecord, 5) | (Shape::KeyValue, 2) | (Shape::Array, 1) => {
                Some(Shape::AnyValue)
            }
            (Shape::AnyValue, 5) => Some(Shape::Array),
            (Shape::AnyValue, 6) => Some(Shape::KeyValues),
            _ => None,
        }
    }
}

/// Checks that no list is too long and no value is nested too deep.
fn check_lists(bytes: &[u8], shape: Shape) -> Result<(), String> {
    let mut waiting = vec![(bytes, shape, 0)];
    while let Some((mut bytes, shape, depth)) = waiting.pop() {
        if depth > DEPTH_MAX {
            return Err(format!("values are nested deeper than {DEPTH_MAX}"));
        }
        let mut elements = 0;
        while !bytes.is_empty() {
            let (tag, message) = next_field(&mut bytes)?;
            if let (Some(of_field), Some(message)) = (shape.of_field(tag), message) {
                elements += 1;
                if elements > ELEMENTS_MAX {
                    return Err(too_many_elements(ELEMENTS_MAX));
                }
                waiting.push((message, of_field, depth + 1));
            }
        }
    }
    Ok(())
}

/// A request in JSON, of any signal.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
#[allow(clippy::struct_field_names)] // The names are those of the specification.
struct Body<'a> {
    #[serde(borrow, alias = "resource_spans", deserialize_with = "items")]
    resource_spans: Vec<OfResource<'a>>,
    #[serde(borrow, alias = "resource_logs", deserialize_with = "items")]
    resource_logs: Vec<OfResource<'a>>,
    #[serde(borrow, alias = "resource_metrics", deserialize_with = "items")]
    resource_metrics: Vec<OfResource<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OfResource<'a> {
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
    #[serde(
        borrow,
        rename = "scopeSpans",
        alias = "scope_spans",
        alias = "scopeLogs",
        alias = "scope_logs",
        alias = "scopeMetrics",
        alias = "scope_metrics",
        deserialize_with = "items"
    )]
    scope_spans: Vec<OfScope<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct OfScope<'a> {
    #[serde(borrow)]
    scope: Option<&'a RawValue>,
    #[serde(borrow, deserialize_with = "items")]
    spans: Vec<&'a RawValue>,
    #[serde(borrow, alias = "log_records", deserialize_with = "items")]
    log_records: Vec<&'a RawValue>,
    #[serde(borrow, deserialize_with = "items")]
    metrics: Vec<&'a RawValue>,
}

/// A list of limited length, or null.
fn items<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    super::json::list_within(from, ITEMS_MAX)
}
