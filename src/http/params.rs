//! The parameters of requests: in the path, in the query, and a header.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};
use uuid::Uuid;

use super::problem::Problem;
use crate::collections::{PAGE_LIMIT, PAGE_LIMIT_MAX};
use crate::line::Given;
use crate::record::{NAME_BYTES_MAX, epoch_ms};
use crate::wire::fields::{AnyInt, Int};

/// The query of a request. A parameter that there is not is an error: it would be ignored.
pub(super) struct Query<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        let query = parts.uri.query().unwrap_or_default();
        let from = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        serde_path_to_error::deserialize(from)
            .map(Query)
            .map_err(|e| {
                let path = e.path().to_string();
                let detail = e.into_inner().to_string();
                if path == "." {
                    Problem::bad_request(detail)
                } else {
                    Problem::bad_request(format!("{path}: {detail}")).with_field(path)
                }
            })
    }
}

/// The id in a path, which is its first parameter.
pub(super) struct Id<T>(pub(super) T);

/// What an id in a path may be.
pub(super) trait PathId: FromStr {
    const EXPECTED: &str;
}

impl PathId for Uuid {
    const EXPECTED: &str = "a UUID";
}

impl PathId for AnyInt {
    const EXPECTED: &str = "a whole number of 64 bits";
}

impl PathId for String {
    const EXPECTED: &str = "a text";
}

impl<S: Send + Sync, T: PathId> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>, Problem> {
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| Problem::bad_request("the path is not UTF-8"))?;
        let mut params = params.iter();
        let (name, value) = params.next().unwrap_or(("id", ""));
        id_in_path(name, value).map(Id)
    }
}

/// Reads an id in a path.
pub(super) fn id_in_path<T: PathId>(name: &str, value: &str) -> Result<T, Problem> {
    value.parse().map_err(|_| {
        let expected = T::EXPECTED;
        let detail = format!("{name} in the path is {value:?}: give {expected}");
        Problem::bad_request(detail).with_field(name)
    })
}

/// When a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wait {
    /// Once it is on disk.
    Disk,
    /// At once: it waits in a queue.
    None,
}

/// When records are acknowledged.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Default: as the server was started, as a rule once the operating system has the record. `disk`: once it is on disk. `none`: at once, with 202; the record waits in a queue, and a later rejection is not reported. It is lost if the server fails, or its disk fills up, before it is written.
    pub(super) wait: Option<Wait>,
}

/// The time at which a record is read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AsOfParams {
    /// As it stood at this time: epoch milliseconds, RFC 3339 or a day. Default: now.
    as_of: Option<Time>,
}

impl AsOfParams {
    pub(super) fn at(&self) -> Option<i64> {
        self.as_of.map(|time| time.0)
    }
}

/// An instant as a parameter: epoch milliseconds, RFC 3339 or a day.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) i64);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Time, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        epoch_ms(&text).map(Time).map_err(D::Error::custom)
    }
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String);
        text.description(Some("Epoch milliseconds, RFC 3339 or a UTC day"))
            .into()
    }
}

impl ToSchema for Time {}

/// How many records, at most and at least `MIN`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit<const MIN: usize = 0>(pub(super) usize);

impl<const MIN: usize> Default for Limit<MIN> {
    fn default() -> Self {
        Limit(PAGE_LIMIT)
    }
}

impl<'de, const MIN: usize> Deserialize<'de> for Limit<MIN> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        let limit = text.parse::<usize>().ok();
        let limit = limit.filter(|it| (MIN..=PAGE_LIMIT_MAX).contains(it));
        let limit = limit.ok_or_else(|| {
            let message = format!(
                "give a number from {MIN} to {PAGE_LIMIT_MAX}: what does not fit is on the next page"
            );
            D::Error::custom(message)
        })?;
        Ok(Limit(limit))
    }
}

/// Sets a field of a body that the path says. If the body has it, it must be the same.
pub(super) fn set_as_path<T: PartialEq + ToString + DeserializeOwned>(
    given: &mut Given<'static>,
    name: &'static str,
    in_path: &T,
) -> Result<(), Problem> {
    // What cannot be one is found when the body is read.
    let same = given.json(name).map(serde_json::from_str::<T>);
    if same.is_some_and(|same| same.is_ok_and(|same| same != *in_path)) {
        let detail = format!("{name} is not that of the path: give the same one, or leave it out");
        return Err(Problem::invalid(detail).with_field(format!("/{name}")));
    }
    given.fill_text(name, || in_path.to_string());
    Ok(())
}

/// Reads a number: all parameters are texts.
pub(super) fn number<'de, D: Deserializer<'de>, const MIN: i64, const MAX: i64>(
    from: D,
) -> Result<Option<Int<MIN, MAX>>, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(from)?;
    let number = text
        .parse()
        .map_err(|()| D::Error::custom(format!("give a whole number from {MIN} to {MAX}")))?;
    Ok(Some(number))
}

/// The key under which a request is made once, however often it is sent.
pub(super) struct IdempotencyKey(pub(super) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IdempotencyKey, Problem> {
        const NAME: &str = "Idempotency-Key";
        let mut values = parts.headers.get_all(NAME).iter();
        let (value, more) = (values.next(), values.next());
        let Some(value) = value else {
            return Ok(IdempotencyKey(None));
        };
        let key = value.to_str().ok().filter(|_| more.is_none());
        let is_printable = |key: &str| key.bytes().all(|byte| byte.is_ascii_graphic());
        let key = key.filter(|key| (1..=NAME_BYTES_MAX).contains(&key.len()) && is_printable(key));
        let key = key.ok_or_else(|| {
            let detail = format!(
                "give one {NAME} of 1 to {NAME_BYTES_MAX} ASCII characters that can be seen"
            );
            Problem::bad_request(detail).with_field(NAME)
        })?;
        Ok(IdempotencyKey(Some(key.to_owned())))
    }
}

impl IdempotencyKey {
    /// The id that goes with the key, of the `nth` record of a request within `scope`.
    pub(super) fn id(&self, scope: Uuid, nth: usize) -> Option<Uuid> {
        let key = self.0.as_ref()?;
        let of_key = Uuid::new_v5(&scope, key.as_bytes());
        Some(Uuid::new_v5(&of_key, &nth.to_le_bytes()))
    }
}
