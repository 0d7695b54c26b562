//! The parameters of requests: in the path, in the query, and a header.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::problem::Problem;
pub(super) use crate::collections::{Limit, TimeText, number_param};
use crate::line::Given;
use crate::record::{AnyInt, NAME_BYTES_MAX};

/// The query of a request. Unknown parameters are rejected.
pub(super) struct Query<T>(pub(super) T);

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Query<T>, Problem> {
        query(parts.uri.query().unwrap_or_default()).map(Query)
    }
}

fn query<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    let from = serde_urlencoded::Deserializer::new(form_urlencoded::parse(text.as_bytes()));
    serde_path_to_error::deserialize(from).map_err(|e| {
        let path = e.path().to_string();
        let detail = e.into_inner().to_string();
        if path == "." {
            Problem::bad_request(detail)
        } else {
            Problem::bad_request(format!("{path}: {detail}")).with_field(path)
        }
    })
}

/// Parses a list of words, separated by commas.
pub(super) fn separated_by_commas<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let text = Cow::<str>::deserialize(from)?;
    let words = text.split(',').map(str::parse).collect::<Result<_, _>>();
    words.map(Some).map_err(D::Error::custom)
}

/// The query of a list, and the time whose state the list shows.
pub(super) struct ListAsOf<T> {
    pub(super) query: T,
    pub(super) as_of: Option<i64>,
}

impl<S: Sync, T: DeserializeOwned> FromRequestParts<S> for ListAsOf<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<ListAsOf<T>, Problem> {
        let text = parts.uri.query().unwrap_or_default();
        let is_as_of = |pair: &&str| pair.split('=').next() == Some("as_of");
        let (as_of, of_list): (Vec<&str>, Vec<&str>) = text.split('&').partition(is_as_of);
        Ok(ListAsOf {
            query: query(&of_list.join("&"))?,
            as_of: query::<AsOfParams>(&as_of.join("&"))?.at(),
        })
    }
}

/// The id in a path, which is its first parameter.
pub(super) struct Id<T>(pub(super) T);

/// The type of an id in a path.
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

/// Parses an id in a path.
pub(super) fn id_in_path<T: PathId>(name: &str, value: &str) -> Result<T, Problem> {
    value.parse().map_err(|_| {
        let expected = T::EXPECTED;
        let detail = format!("{name} in the path is {value:?}: must be {expected}");
        Problem::bad_request(detail).with_field(name)
    })
}

/// When a record is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Wait {
    /// When it is on disk.
    Disk,
    /// At once: it waits in a queue.
    None,
}

/// When records are acknowledged.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WaitParams {
    /// Default: by the server's `--durability`, normally when the operating system has the record. `disk`: when it is on disk. `none`: at once, with 202; the record waits in a queue, and a later rejection is not reported. It is lost if the server fails, or its disk fills up, before it is written.
    pub(super) wait: Option<Wait>,
}

/// The time of the state to read.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AsOfParams {
    /// As it stood at this time: epoch milliseconds, RFC 3339 or a day. Default: now.
    as_of: Option<TimeText>,
}

impl AsOfParams {
    pub(super) fn at(&self) -> Option<i64> {
        self.as_of.map(|time| time.0)
    }
}

/// Sets a field of a body from the path. If the body has the field, the values must be equal.
pub(super) fn set_as_path<T: PartialEq + ToString + DeserializeOwned>(
    given: &mut Given<'static>,
    name: &'static str,
    in_path: &T,
) -> Result<(), Problem> {
    // An invalid value is reported when the body is parsed.
    let same = given.json(name).map(serde_json::from_str::<T>);
    if same.is_some_and(|same| same.is_ok_and(|same| same != *in_path)) {
        let detail = format!("{name} differs from the path: use the same one, or omit it");
        return Err(Problem::invalid(detail).with_field(format!("/{name}")));
    }
    given.fill_text(name, || in_path.to_string());
    Ok(())
}

/// Parses a header that may be given once.
pub(super) fn header_once<T>(
    parts: &Parts,
    name: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let parsed = text.and_then(parse);
    parsed
        .map(Some)
        .ok_or_else(|| Problem::bad_request(format!("{name} must be {expected}")).with_field(name))
}

/// The idempotency key: repeated requests with the same key take effect once.
pub(super) struct IdempotencyKey(pub(super) Option<String>);

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<IdempotencyKey, Problem> {
        let expected = format!("a single value of 1 to {NAME_BYTES_MAX} visible ASCII characters");
        let key = header_once(parts, "Idempotency-Key", &expected, |key| {
            let is_printable = key.bytes().all(|byte| byte.is_ascii_graphic());
            let is_fit = is_printable && (1..=NAME_BYTES_MAX).contains(&key.len());
            is_fit.then(|| key.to_owned())
        });
        key.map(IdempotencyKey)
    }
}

impl IdempotencyKey {
    /// Sets the id of the `nth` record of a request with this key, within `scope`.
    pub(super) fn fill_id(&self, given: &mut Given<'static>, scope: Uuid, nth: usize) {
        if let Some(key) = &self.0 {
            let of_key = Uuid::new_v5(&scope, key.as_bytes());
            let id = Uuid::new_v5(&of_key, &nth.to_le_bytes());
            given.fill_text("id", || id.to_string());
        }
    }
}
