//! Arguments of calls: they must match their description. Types that several tools share.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::Call;
use crate::collections::{Ack, AckStatus, Cursor, PAGE_LIMIT, PAGE_LIMIT_MAX, Page, Warning};
use crate::wire::fields::Int;
pub(super) use crate::wire::fields::Moment as Time;
use crate::wire::issues::issues;
use crate::wire::new::{New, NewForm};
use crate::wire::pages::{Paged, paged};

/// A character of a text, from 0.
pub(super) type FromChar = Int<0, 0x7fff_ffff>;

const FROM_CHAR: &str = "from_char";

/// Maximum number of records. More than the maximum of a page is no error: the page is shorter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit(usize);

impl Limit {
    /// The maximum of a page.
    pub(super) const MAX: Limit = Limit(PAGE_LIMIT_MAX);
}

type Positive = Int<1, { i64::MAX }>;

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Limit, D::Error> {
        let Int(given) = Positive::deserialize(from)?;
        let given = usize::try_from(given).unwrap_or(PAGE_LIMIT_MAX);
        Ok(Limit(given.min(PAGE_LIMIT_MAX)))
    }
}

impl PartialSchema for Limit {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        number.minimum(Some(utoipa::Number::Int(1))).into()
    }
}

impl ToSchema for Limit {}

/// Reads a page of a list, limited to the size of an answer.
pub(super) fn page<T: Serialize>(
    given: Option<Limit>,
    cursor: Option<Cursor>,
    read: impl FnMut(usize, Option<Cursor>) -> crate::Result<Page<T>>,
) -> Result<Paged<T>, Fault> {
    Ok(paged(limit(given), PAGE_BYTES_MAX, cursor, read, length)?)
}

/// The length as JSON.
pub(super) fn length(item: &impl Serialize) -> usize {
    serde_json::to_vec(item).map_or(0, |json| json.len())
}

pub(super) fn limit(given: Option<Limit>) -> usize {
    given.map_or(PAGE_LIMIT, |limit| limit.0)
}

/// The first character to show of cut texts. Its range is checked with the other arguments.
pub(super) fn from_char(arguments: &Map<String, Value>) -> usize {
    let given = arguments.get(FROM_CHAR).map(FromChar::deserialize);
    let given = given.and_then(|given| usize::try_from(given.ok()?.0).ok());
    given.unwrap_or(0)
}

/// Parses the arguments of a call; `required` ones must be present.
pub(super) fn arguments<T: DeserializeOwned>(
    given: Map<String, Value>,
    required: &[String],
) -> Result<T, Fault> {
    let given = Value::Object(given);
    T::deserialize(&given).map_err(|error| {
        let found = given.as_object().map(|given| issues::<T>(given, required));
        let found = found.filter(|found| !found.is_empty());
        found.map_or_else(|| Fault::invalid(error.to_string()), Fault::of_issues)
    })
}

/// The result of a record.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Added to the log.
    Added,
    /// Already in the log.
    Unchanged,
}

impl From<AckStatus> for Status {
    fn from(status: AckStatus) -> Status {
        match status {
            AckStatus::Added => Status::Added,
            AckStatus::Unchanged => Status::Unchanged,
        }
    }
}

/// A recorded record.
#[derive(Debug, Serialize)]
pub(super) struct Put {
    /// The sequence number of its line.
    seq: u64,
    /// Whether the call added it or it existed.
    status: Status,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

impl From<Ack> for Put {
    fn from(ack: Ack) -> Put {
        Put {
            seq: ack.seq,
            status: ack.status.into(),
            warning: ack.warning.map(Warning::as_str),
        }
    }
}

/// Records a client's record; returns its key and the result.
pub(super) fn put<F: NewForm>(call: &Call<'_>, given: New<F>) -> Result<(String, Ack), Fault> {
    let (record, if_known) = given.read().map_err(Fault::of_issues)?;
    let key = record.key();
    Ok((key, call.store.record_if(record, if_known)?))
}
