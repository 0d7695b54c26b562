//! `/stream`: new records as server-sent events, in the order of `seq`.

use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::Instant;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::access::{Caller, From as CameFrom};
use super::app::Shared;
use super::long;
use super::params::{Query, header_once, number_param, separated_by_commas};
use super::problem::Problem;
use crate::record::Kind;
use crate::store::{LogLine, PagedReader};
use crate::wire::feed::Listener;
use crate::wire::fields::{KindName, Length};

/// Interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What to stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamParams {
    /// Only these kinds: names separated by commas.
    #[param(value_type = Option<String>, pattern = "^(conversation_turns|tool_calls|code_edit_proposals|conversations|messages|events|inbox|history|thought_records|rollups)(,(conversation_turns|tool_calls|code_edit_proposals|conversations|messages|events|inbox|history|thought_records|rollups))*$", example = "messages,conversations")]
    #[serde(default, deserialize_with = "separated_by_commas")]
    kind: Option<Vec<KindName>>,
    /// Only this conversation, its messages, and the turns of the thread with its id.
    conversation_id: Option<Uuid>,
    /// The same as the header `Last-Event-ID`, for clients that cannot set one. The header wins.
    #[serde(default, deserialize_with = "number_param")]
    last_event_id: Option<Length>,
}

/// The header with the client's last event.
pub(super) struct LastEventId(Option<Length>);

impl<S: Sync> FromRequestParts<S> for LastEventId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<LastEventId, Problem> {
        let max = i64::MAX;
        let expected = format!("the id of an event of a stream, a whole number from 0 to {max}");
        let id = header_once(parts, "Last-Event-ID", &expected, |id| {
            id.trim().parse().ok()
        });
        id.map(LastEventId)
    }
}

/// A server-sent event with a line of the log. A stream also sends an `id` without an event: the
/// sequence number up to which the log has been read.
#[derive(ToSchema)]
#[allow(dead_code)]
struct StreamEvent {
    /// The kind of the record.
    event: KindName,
    /// The line's `seq`. The value for `Last-Event-ID`.
    #[schema(pattern = "^[0-9]{1,19}$")]
    id: String,
    /// The record's line: a JSON object with the fields of the store's files.
    #[schema(content_media_type = "application/json")]
    data: String,
}

/// The filter of a stream.
struct Filter {
    /// `None` means all kinds.
    kinds: Option<Vec<KindName>>,
    conversation_id: Option<Uuid>,
}

/// The field with a line's conversation.
#[derive(Deserialize)]
struct Ids {
    id: Option<Uuid>,
    conversation_id: Option<Uuid>,
    thread_id: Option<Uuid>,
}

impl Filter {
    fn lets_through(&self, line: &LogLine) -> bool {
        let is_it = |kind: &KindName| kind.0 == line.kind;
        if self
            .kinds
            .as_ref()
            .is_some_and(|kinds| !kinds.iter().any(is_it))
        {
            return false;
        }
        let Some(wanted) = self.conversation_id else {
            return true;
        };
        let of: fn(Ids) -> Option<Uuid> = match line.kind {
            Kind::Conversations => |ids| ids.id,
            Kind::Messages => |ids| ids.conversation_id,
            Kind::ConversationTurns => |ids| ids.thread_id,
            _ => return false,
        };
        serde_json::from_str(&line.text).is_ok_and(|ids| of(ids) == Some(wanted))
    }
}

/// Streams new records, each as a server-sent event.
///
/// `event` is the kind of the record, `id` the `seq` of its line, and `data` the line itself. With
/// `Last-Event-ID`, the stream begins after the line with this number: no line is missing or
/// repeated. 0 begins with the first line of the log. Without `Last-Event-ID`, only new records are
/// sent. Removed records are not sent. An `id` without data is the number up to which the log has
/// been read, if no record matched.
#[utoipa::path(
    get,
    path = "/stream",
    params(
        StreamParams,
        ("Last-Event-ID" = Option<Length>, Header, description = "The id of the client's last event"),
    ),
    responses(
        (status = 200, description = "Server-sent events, until the client or the server ends the stream. The schema is that of one event.", body = StreamEvent, content_type = "text/event-stream"),
        (status = 503, description = "Too many streams are open. Try again after `Retry-After` seconds."),
    )
)]
pub(super) async fn stream(
    State(app): State<Shared>,
    Query(params): Query<StreamParams>,
    LastEventId(header): LastEventId,
    Extension(from): Extension<CameFrom>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let filter = Filter {
        kinds: params.kind,
        conversation_id: params.conversation_id,
    };
    let listener = app.feed.listen().ok_or_else(|| {
        let detail = "the maximum number of streams is reached: end one, or try again later";
        Problem::unavailable("too_many_streams", detail)
    })?;
    let after = header.or(params.last_event_id);
    let after = after.map(|after| after.0.unsigned_abs());
    let lines = app.ask(move |app| {
        let last_seq = app.store.last_seq()?;
        // Numbers after the last assigned one belong to future records.
        let after = after.map_or(last_seq, |after| after.min(last_seq));
        Ok(app.store.lines_since(after))
    });
    let lines = lines.await?;
    let caller = Caller {
        app: app.clone(),
        headers,
        from,
    };
    let body = long::body(&app, true, |out| send(lines, filter, listener, caller, out));
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        // Some proxies buffer incomplete answers.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, body).into_response())
}

/// Sends the lines to a client. It reads more slowly for a slow client.
async fn send(
    mut lines: PagedReader,
    filter: Filter,
    mut listener: Listener,
    caller: Caller,
    out: mpsc::Sender<Bytes>,
) {
    let mut text = id(lines.seq());
    loop {
        // If the token was revoked, the stream ends before the next event.
        if !caller.is_allowed() || out.send(text.into()).await.is_err() {
            return;
        }
        let quiet_until = Instant::now() + KEEP_ALIVE;
        text = loop {
            listener.look();
            let read = tokio::task::spawn_blocking(move || {
                let page = lines.page();
                (lines, page)
            });
            let Ok((back, page)) = read.await else {
                return;
            };
            lines = back;
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    // The client reconnects and continues here.
                    tracing::warn!(%error, "a stream ended, as the log cannot be read");
                    return;
                }
            };
            let text = events(&page, &filter);
            if !text.is_empty() {
                break text;
            }
            let is_all = page.is_empty();
            let is_quiet = if is_all {
                let changed = listener.changed();
                tokio::time::timeout_at(quiet_until, changed).await.is_err()
            } else {
                Instant::now() >= quiet_until
            };
            if is_quiet {
                break id(lines.seq());
            }
        };
    }
}

/// The position in the log. It is not an event, but the client resumes from it.
fn id(seq: u64) -> String {
    format!("id: {seq}\n\n")
}

fn events(lines: &[LogLine], filter: &Filter) -> String {
    let event = |line: &LogLine| {
        let (kind, seq) = (line.kind.stem(), line.seq);
        // A line has no LF. An edited line may have a CR between members, like a space.
        let data = line.text.replace('\r', " ");
        format!("event: {kind}\nid: {seq}\ndata: {data}\n\n")
    };
    let lines = lines.iter().filter(|line| filter.lets_through(line));
    lines.map(event).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_whatever_stands_in_it() {
        let line = LogLine {
            kind: Kind::Events,
            file: String::new(),
            offset: 0,
            seq: 7,
            text: "{\"id\":1,\r\"payload\":\"a\\nb: c\"}\r".to_owned(),
        };
        let all = Filter {
            kinds: None,
            conversation_id: None,
        };
        let text = "event: events\nid: 7\ndata: {\"id\":1, \"payload\":\"a\\nb: c\"} \n\n";
        assert_eq!(events(&[line], &all), text);
    }
}
