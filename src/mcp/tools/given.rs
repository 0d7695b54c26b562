//! Arguments of calls: they must match their description. Types that several tools share.

use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::Call;
use crate::collections::{Ack, Cursor, PAGE_LIMIT, PAGE_LIMIT_MAX, Page, Warning};
use crate::wire::fields::Int;
pub(super) use crate::wire::fields::Moment as Time;
use crate::wire::issues::issues;
use crate::wire::new::{New, NewForm};

/// A character of a text, from 0.
pub(super) type FromChar = Int<0, 0x7fff_ffff>;

const FROM_CHAR: &str = "from_char";

/// Maximum number of records. More than the maximum of a page is no error: the page is shorter.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Limit(Int<1, { i64::MAX }>);

impl Limit {
    /// At least the maximum of a page.
    pub(super) const MAX: Limit = Limit(Int(i64::MAX));
}

impl PartialSchema for Limit {
    fn schema() -> RefOr<Schema> {
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        number.minimum(Some(utoipa::Number::Int(1))).into()
    }
}

impl ToSchema for Limit {}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Listed<T> {
    /// The name of the records in the answer.
    name: &'static str,
    records: Vec<T>,
    /// The cursor of the next page. Missing on the last page.
    next_cursor: Option<String>,
}

impl<T> Listed<T> {
    pub(super) fn new(
        name: &'static str,
        records: Vec<T>,
        next: Option<impl ToString>,
    ) -> Listed<T> {
        Listed {
            name,
            records,
            next_cursor: next.map(|next| next.to_string()),
        }
    }
}

impl<T: Serialize> Serialize for Listed<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut members = to.serialize_map(None)?;
        members.serialize_entry(self.name, &self.records)?;
        if let Some(next) = &self.next_cursor {
            members.serialize_entry("next_cursor", next)?;
        }
        members.end()
    }
}

/// Reads a page of a list, limited to the size of an answer: one record at a time, as each may be
/// long. `read` gets a limit and a start.
pub(super) fn page<T: Serialize>(
    name: &'static str,
    given: Option<Limit>,
    mut after: Option<Cursor>,
    mut read: impl FnMut(usize, Option<Cursor>) -> crate::Result<Page<T>>,
) -> Result<Listed<T>, Fault> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    loop {
        let page = read(1, after)?;
        bytes += page.items.iter().map(length).sum::<usize>();
        records.extend(page.items);
        after = page.next;
        if after.is_none() || records.len() >= limit(given) || bytes >= PAGE_BYTES_MAX {
            return Ok(Listed::new(name, records, after));
        }
    }
}

/// The position in a list whose cursors have a form of their own.
pub(super) fn position<T: FromStr>(cursor: Option<&str>) -> Result<Option<T>, Fault> {
    let position = cursor.map(str::parse).transpose();
    let message = "must be the next_cursor of an answer, unchanged";
    position.map_err(|_| Fault::of_field("cursor", message))
}

/// The length as JSON.
pub(super) fn length(item: &impl Serialize) -> usize {
    serde_json::to_vec(item).map_or(0, |json| json.len())
}

pub(super) fn limit(given: Option<Limit>) -> usize {
    given.map_or(PAGE_LIMIT, |Limit(Int(limit))| {
        usize::try_from(limit).map_or(PAGE_LIMIT_MAX, |limit| limit.min(PAGE_LIMIT_MAX))
    })
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

/// A recorded record.
#[derive(Debug, Serialize)]
pub(super) struct Put {
    /// Its id, if the log may have assigned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<Value>,
    /// The sequence number of its line.
    seq: u64,
    /// Whether the call added it or it existed.
    status: &'static str,
    /// A probable mistake in the accepted record.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<&'static str>,
}

impl Put {
    pub(super) fn with_id(self, id: impl Into<Value>) -> Put {
        let id = Some(id.into());
        Put { id, ..self }
    }
}

impl From<Ack> for Put {
    fn from(ack: Ack) -> Put {
        Put {
            id: ack.assigned.map(Value::from),
            seq: ack.seq,
            status: ack.status.as_str(),
            warning: ack.warning.map(Warning::as_str),
        }
    }
}

/// Records a client's record.
pub(super) fn put<F: NewForm>(call: &Call<'_>, given: New<F>) -> Result<Put, Fault> {
    Ok(recorded(call, given)?.1.into())
}

/// Records a client's record; returns its key and the result.
pub(super) fn recorded<F: NewForm>(call: &Call<'_>, given: New<F>) -> Result<(String, Ack), Fault> {
    let (record, if_known) = given.read().map_err(Fault::of_issues)?;
    let key = record.key();
    Ok((key, call.store.record_if(record, if_known)?))
}
