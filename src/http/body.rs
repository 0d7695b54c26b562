//! Bodies: JSON requests within their limits, and JSON answers.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::error::Category;
use utoipa::openapi::schema::{ArrayBuilder, OneOfBuilder, Schema};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::app::{HELD, Shared};
use super::memory::{Gathered, Held, Refused};
use super::problem::Problem;
use crate::wire::issues::{Issue, issues};
use crate::wire::pages::named_by_parameter;

/// Maximum length of a JSON answer: a page and one record.
pub(super) const ANSWER_BYTES_MAX: usize = 48 << 20;
/// Maximum length of a body for which all errors are reported. For a longer body only the first is
/// reported.
const EXPLAINED_BYTES_MAX: usize = 1 << 20;
/// Maximum number of records of a body.
const BATCH_MAX: usize = 1_000;

/// A body that is a JSON object.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned + PartialSchema> FromRequest<Shared> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<Json<T>, Problem> {
        let Object(value) = json::<Object<T>, T>(request, app).await?;
        Ok(Json(value))
    }
}

/// A body that is a JSON object, or absent, which means the default.
pub(super) struct JsonOrNone<T>(pub(super) T);

impl<T: DeserializeOwned + PartialSchema + Default> FromRequest<Shared> for JsonOrNone<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<JsonOrNone<T>, Problem> {
        let (parts, body) = request.into_parts();
        let body = read(body, app).await?;
        if body.is_empty() {
            return Ok(JsonOrNone(T::default()));
        }
        check_is_json(&parts.headers)?;
        from_json::<Object<T>, T>(&body).map(|Object(value)| JsonOrNone(value))
    }
}

impl<T: DeserializeOwned + PartialSchema> FromRequest<Shared> for OneOrMore<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Shared) -> Result<OneOrMore<T>, Problem> {
        json::<OneOrMore<T>, T>(request, app).await
    }
}

async fn json<B, T>(request: Request, app: &Shared) -> Result<B, Problem>
where
    B: DeserializeOwned,
    T: DeserializeOwned + PartialSchema,
{
    check_is_json(request.headers())?;
    let body = read(request.into_body(), app).await?;
    from_json::<B, T>(&body)
}

/// The required fields.
fn required<T: PartialSchema>() -> Vec<String> {
    match T::schema() {
        RefOr::T(Schema::Object(object)) => object.required,
        _ => Vec::new(),
    }
}

/// Only an object: types derived by serde also accept an array of the fields' values.
struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Object<T>, D::Error> {
        struct Only<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Only<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                T::deserialize(map).map(Object)
            }
        }
        from.deserialize_map(Only(std::marker::PhantomData))
    }
}

pub(super) fn check_is_json(headers: &HeaderMap) -> Result<(), Problem> {
    let coding = headers.get(header::CONTENT_ENCODING);
    if coding.is_some_and(|name| name != "identity") {
        let detail = "compressed bodies are only accepted at /records and /v1";
        return Err(Problem::unsupported("Content-Encoding", detail));
    }
    // A browser that sends a body without a type sends the page's Origin.
    if !headers.contains_key(header::CONTENT_TYPE) {
        return Ok(());
    }
    check_type(headers, "application/json", &[])
}

/// Checks the media type: a browser needs permission before it sends JSON to another origin.
pub(super) fn check_type(
    headers: &HeaderMap,
    wanted: &str,
    aliases: &[&str],
) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|value| value.to_str().ok()?.split(';').next());
    let name = given.unwrap_or_default().trim();
    let is_it = |known: &&str| name.eq_ignore_ascii_case(known);
    if is_it(&wanted) || aliases.iter().any(is_it) {
        return Ok(());
    }
    let detail = format!("the Content-Type must be {wanted}");
    Err(Problem::unsupported("Content-Type", detail))
}

/// Reads a body within the limits of size and time.
pub(super) async fn read(body: Body, app: &Shared) -> Result<Bytes, Problem> {
    let limit = app.options.body_bytes_max;
    let mut gathered = Gathered::new(&app.bodies, limit);
    let gathering = tokio::time::timeout(app.options.body_timeout, gather(body, &mut gathered));
    gathering.await.map_err(|_| {
        let detail = "the body took too long to arrive: send it again";
        Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", detail)
    })??;
    let (bytes, held) = gathered.whole();
    // Reserved until the request is answered, because its records take as much memory. Outside a
    // request, as in a test, it is held as long as the body.
    let _ = HELD.try_with(|all| all.borrow_mut().push(held));
    Ok(bytes)
}

async fn gather(mut body: Body, gathered: &mut Gathered) -> Result<(), Problem> {
    if body.size_hint().lower() > gathered.bytes_max() as u64 {
        return Err(too_large(gathered.bytes_max()));
    }
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| {
            Problem::bad_request("the body is incomplete, or does not match its headers")
        })?;
        if let Some(data) = frame.data_ref() {
            push(gathered, data)?;
        }
    }
    Ok(())
}

pub(super) fn push(gathered: &mut Gathered, more: &[u8]) -> Result<(), Problem> {
    gathered.push(more).map_err(|refused| match refused {
        Refused::TooLong => too_large(gathered.bytes_max()),
        Refused::NoRoom(problem) => problem,
    })
}

pub(super) fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body is longer than {bytes_max} bytes: split it");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
}

/// Parses one `T` or an array of them. An error names the invalid fields.
fn from_json<B, T>(body: &[u8]) -> Result<B, Problem>
where
    B: DeserializeOwned,
    T: DeserializeOwned + PartialSchema,
{
    // The path is only computed for errors.
    serde_json::from_slice(body).map_err(|e| why_not::<B, T>(body, &e))
}

fn why_not<B, T>(body: &[u8], error: &serde_json::Error) -> Problem
where
    B: DeserializeOwned,
    T: DeserializeOwned + PartialSchema,
{
    if std::str::from_utf8(body).is_err() {
        return Problem::bad_request("the body is not UTF-8");
    }
    // For some values of a wrong type the parser reports invalid JSON.
    let is_json = || serde_json::from_slice::<IgnoredAny>(body).is_ok();
    if error.classify() != Category::Data && !is_json() {
        let detail = format!("the body is not JSON: {error}");
        return Problem::bad_request(detail);
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let Err(error) = serde_path_to_error::deserialize::<_, B>(&mut from) else {
        return Problem::invalid(error.to_string());
    };
    let path = error.path().clone();
    let short = Some(body).filter(|body| body.len() <= EXPLAINED_BYTES_MAX);
    let whole = short.and_then(|body| serde_json::from_slice::<Value>(body).ok());
    let first = Issue::of_error(&path, error.into_inner().to_string(), whole.as_ref());
    // For an array, all errors of the first invalid item.
    let (place, given) = match first.path.first() {
        Some(place @ Value::Number(nth)) => {
            let nth = nth.as_u64().and_then(|nth| usize::try_from(nth).ok());
            (Some(place), nth.and_then(|nth| whole.as_ref()?.get(nth)))
        }
        Some(_) => (None, whole.as_ref()),
        None => (None, None),
    };
    let given = given.and_then(Value::as_object);
    let mut found = given.map_or_else(Vec::new, |given| issues::<T>(given, &required::<T>()));
    for issue in &mut found {
        issue.path.splice(..0, place.cloned());
    }
    // Only serde detects repeated fields.
    if found.is_empty() {
        found.push(first);
    }
    Problem::of_issues(&found)
}

/// One item or an array of them.
pub(super) enum OneOrMore<T> {
    One(T),
    /// At least one, at most [`BATCH_MAX`].
    More(Vec<T>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneOrMore<T>, D::Error> {
        struct Either<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Either<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object or an array of objects")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore<T>, A::Error> {
                let map = serde::de::value::MapAccessDeserializer::new(map);
                T::deserialize(map).map(OneOrMore::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMore<T>, A::Error> {
                let mut items = Vec::new();
                while let Some(Object(item)) = seq.next_element()? {
                    items.push(item);
                    if items.len() > BATCH_MAX {
                        let message = format!("more than {BATCH_MAX} items: split the request");
                        return Err(A::Error::custom(message));
                    }
                }
                if items.is_empty() {
                    return Err(A::Error::custom("the array is empty"));
                }
                Ok(OneOrMore::More(items))
            }
        }
        from.deserialize_any(Either(std::marker::PhantomData))
    }
}

impl<T: ToSchema> PartialSchema for OneOrMore<T> {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name(T::name());
        let more = ArrayBuilder::new().items(one());
        let more = more.min_items(Some(1)).max_items(Some(BATCH_MAX));
        OneOfBuilder::new().item(one()).item(more).into()
    }
}

named_by_parameter!(OneOrMore, "OneOrMore");

/// An answer.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > ANSWER_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The answer of a handler.
pub(super) type Answer = Result<Made, Problem>;

/// JSON that was already encoded, on a blocking thread.
pub(super) struct Made {
    status: StatusCode,
    body: Bytes,
    held: Option<Held>,
}

impl Made {
    pub(super) fn new(status: StatusCode, value: &impl Serialize) -> Result<Made, Problem> {
        let mut body = Bounded(Vec::new());
        serde_json::to_writer(&mut body, value).map_err(|e| {
            if e.is_io() {
                let detail = format!(
                    "the answer is longer than {ANSWER_BYTES_MAX} bytes: use limit, since and until, or read single records"
                );
                let status = StatusCode::UNPROCESSABLE_ENTITY;
                return Problem::new(status, "answer_too_large", detail);
            }
            tracing::error!(error = %e, "an answer could not be encoded as JSON");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Problem::new(status, "internal", "the answer cannot be encoded as JSON")
        })?;
        Ok(Made::of(status, body.0))
    }

    /// An object with one more member: an array of encoded JSON.
    pub(super) fn with_items(
        object: &impl Serialize,
        name: &str,
        items: Vec<String>,
    ) -> Result<Made, Problem> {
        let Made { status, body, .. } = Made::ok(object)?;
        let members = body.strip_suffix(b"}").unwrap_or(&body);
        let length: usize = items.iter().map(|item| item.len() + 1).sum();
        let mut body = Vec::with_capacity(members.len() + name.len() + length + 8);
        body.extend_from_slice(members);
        let comma = if members.len() > 1 { "," } else { "" };
        body.extend_from_slice(format!("{comma}\"{name}\":[").as_bytes());
        for (place, item) in items.into_iter().enumerate() {
            if place > 0 {
                body.push(b',');
            }
            body.extend_from_slice(item.as_bytes());
        }
        body.extend_from_slice(b"]}");
        Ok(Made::of(status, body))
    }

    fn of(status: StatusCode, body: Vec<u8>) -> Made {
        Made {
            status,
            body: body.into(),
            held: None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.body.len()
    }

    /// The same, with the memory reserved for it.
    pub(super) fn holding(self, held: Held) -> Made {
        let held = Some(held);
        Made { held, ..self }
    }

    pub(super) fn ok(value: &impl Serialize) -> Result<Made, Problem> {
        Made::new(StatusCode::OK, value)
    }
}

impl IntoResponse for Made {
    fn into_response(self) -> Response {
        let held = self.held.map(|held| Extension(Arc::new(held)));
        let json = [(header::CONTENT_TYPE, "application/json")];
        (self.status, held, json, self.body).into_response()
    }
}
