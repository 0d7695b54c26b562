//! Tool calls: requested once, then completed or failed once.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::as_of::assertion;
use super::page::{Cursor, Page, Walk, page};
use super::query::query;
use super::{
    Ack, collision, get_row, lower, not_found, outcome, put_version, read_as, says, time, unchanged,
};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{CALL_ID, Loc, REQUEST_ID, RowId, Select};
use crate::line::{Decoded, Op, Value};
use crate::record::{CallStatus, Kind, Record, ToolCall, ToolCallDone, ToolCallReq, same_json};
use crate::store::{Inner, Reads, Redacted, RowLines, Snapshot, Store, Txn};

const KIND: Kind = Kind::ToolCalls;

query! {
    /// Selects the tool calls to list.
    ///
    /// ```
    /// # use decklog::{CallStatus, Store};
    /// # use decklog::query::CallQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let query = CallQuery { status: Some(CallStatus::Failed), ..CallQuery::default() };
    /// for (request, outcome) in store.tool_calls(&query)?.items {
    ///     println!("{} failed: {:?}", request.tool_name, outcome.and_then(|done| done.error_msg));
    /// }
    /// # Ok::<(), decklog::Error>(())
    /// ```
    CallQuery {
        filters {
            /// Only calls of this model request.
            request_id: Uuid = "request" "ID",
            /// Only calls with this id, of any request.
            call_id: String = "call" "ID",
            /// Only calls of this turn.
            parent_id: Uuid = "parent" "ID",
            /// Only calls with this status.
            status: CallStatus = "status" "STATUS",
            /// Only calls of this vendor.
            vendor: String = "vendor" "NAME",
            /// Only calls of this tool.
            tool_name: String = "tool" "NAME",
        }
        times {
            /// Only calls started at this time or later: epoch milliseconds, or a text in
            /// RFC 3339 or a UTC day.
            since,
            /// Only calls started before this time.
            until,
        }
        order {
            /// By `started_at`. Default: newest first (`desc`).
            NewestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl CallQuery {
    fn matches(&self, (req, done): &ToolCall) -> bool {
        self.request_id.is_none_or(|id| req.request_id == id)
            && self.call_id.as_ref().is_none_or(|id| req.call_id == *id)
            && self.parent_id.is_none_or(|id| req.parent_id == id)
            && self
                .vendor
                .as_ref()
                .is_none_or(|vendor| req.vendor == *vendor)
            && self
                .tool_name
                .as_ref()
                .is_none_or(|name| req.tool_name == *name)
            && self
                .status
                .is_none_or(|status| CallStatus::of(done.as_ref()) == status)
    }
}

impl Store {
    /// The call with this key, with its outcome if it has one; `None` if the call does not exist or
    /// is retracted.
    pub fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        self.as_of(None).get_tool_call(request_id, call_id)
    }

    /// Lists the tool calls that are not retracted, in pages.
    pub fn tool_calls(&self, query: &CallQuery) -> Result<Page<ToolCall>> {
        self.as_of(None).tool_calls(query)
    }
}

/// Adds a request, unless the current version is equal. With `but_time`, the times are not
/// compared.
pub(super) fn put_request(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    req: &ToolCallReq,
    but_time: bool,
) -> Result<Ack> {
    let mut text = [0; Hyphenated::LENGTH];
    let key = [lower(req.request_id, &mut text), &*req.call_id];
    put_version(
        txn,
        redacted,
        key,
        req.started_at.is_valid,
        |known| match known {
            Record::CallRequested(known) => {
                check_key(known, req.request_id, &req.call_id)?;
                let started_at = time(req.started_at, known.started_at, but_time);
                let req = ToolCallReq {
                    started_at,
                    ..req.clone()
                };
                Ok(same_request(known, &req))
            }
            _ => Err(collision()),
        },
    )
}

/// Adds an outcome, unless the call already has an equal one. With `but_time`, the times are not
/// compared.
pub(super) fn put_done(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let Record::CallDone(done) = redacted.record() else {
        return Err(collision());
    };
    let is_latency_known = done.latency_ms != ToolCallDone::LATENCY_UNKNOWN;
    let mut text = [0; Hyphenated::LENGTH];
    let key = [lower(done.request_id, &mut text), &*done.call_id];
    let found = txn.find(KIND, key);
    let Some((id, row)) = found.filter(|(_, row)| row.asserted.is_some()) else {
        return Err(not_found(
            "the call was never requested: record its request first",
        ));
    };
    let parent_id = parent_of(txn, row.asserted, key)?;
    let first = outcome(txn, KIND, id)?;
    if let Some(first) = &first {
        let is_same = |known: &ToolCallDone| {
            let done = ToolCallDone {
                ended_at: time(done.ended_at, known.ended_at, but_time),
                latency_ms: if is_latency_known && !but_time {
                    done.latency_ms
                } else {
                    known.latency_ms
                },
                ..done.clone()
            };
            same_outcome(known, &done)
        };
        let same = |known: &Record| matches!(known, Record::CallDone(known) if is_same(known));
        if says(txn, &first.record, same)? {
            return unchanged(txn, row.done, first.seq.unwrap_or(0));
        }
    }
    if row.is_retracted {
        return Err(not_found(
            "the call was retracted: request it again before its outcome",
        ));
    }
    match first.map(done_at).transpose()? {
        Some(first) => return Err(second_outcome(&first, done)),
        None if !is_latency_known => {
            let started_at = request_at(txn.read(KIND, row.asserted)?)?.started_at.at;
            redacted.assign(|record| {
                if let Record::CallDone(done) = record {
                    done.latency_ms = done.ended_at.at.saturating_sub(started_at).max(0);
                }
            });
        }
        None => {}
    }
    txn.push(redacted, Some(parent_id)).map(Ack::added)
}

/// Returns the parent of the call whose request line is at `loc`.
fn parent_of(txn: &Txn<'_>, loc: Loc, key: [&str; 2]) -> Result<Uuid> {
    // Usually the request was written a moment ago, and its envelope is still in memory.
    if let Some(envelope) = txn.envelope(KIND, loc)
        && let Some(parent_id) = &envelope.lookups[0]
        && let Ok(parent_id) = Uuid::try_parse_ascii(parent_id.text(&mut [0; Value::BYTES]))
    {
        let is_part = |(known, part): (&Value<'_>, &str)| {
            known.text(&mut [0; Value::BYTES]) == part.as_bytes()
        };
        return if envelope.key.iter().zip(key).all(is_part) {
            Ok(parent_id)
        } else {
            Err(collision())
        };
    }
    let req = request_at(txn.read(KIND, loc)?)?;
    if [&*req.request_id.to_string(), &*req.call_id] == key {
        Ok(req.parent_id)
    } else {
        Err(collision())
    }
}

fn second_outcome(first: &ToolCallDone, second: &ToolCallDone) -> Error {
    let message = format!(
        "the call has {} and now {}: an outcome is recorded once and the first stands; a tool that runs again needs a call_id of its own",
        in_words(first),
        in_words(second)
    );
    Error::new(ErrorKind::Conflict, message)
}

fn in_words(done: &ToolCallDone) -> String {
    // The error kind comes from the tool and may be of any length.
    const SHOWN_CHARS_MAX: usize = 80;
    let error = done.error_kind.as_ref().map_or(String::new(), |kind| {
        let shown: String = kind.chars().take(SHOWN_CHARS_MAX).collect();
        format!(" with {shown:?}")
    });
    format!(
        "{}{error} at {} after {} ms",
        done.status.as_str(),
        done.ended_at.at,
        done.latency_ms
    )
}

fn same_request(known: &ToolCallReq, req: &ToolCallReq) -> bool {
    let same_arguments = same_json(
        known.arguments_json.as_deref(),
        req.arguments_json.as_deref(),
    );
    let rest = |req: &ToolCallReq| ToolCallReq {
        arguments_json: None,
        ..req.clone()
    };
    same_arguments && rest(known) == rest(req)
}

fn same_outcome(known: &ToolCallDone, done: &ToolCallDone) -> bool {
    let same_payload = same_json(known.outcome_json.as_deref(), done.outcome_json.as_deref());
    let rest = |done: &ToolCallDone| ToolCallDone {
        outcome_json: None,
        ..done.clone()
    };
    same_payload && rest(known) == rest(done)
}

fn request_at(decoded: Decoded) -> Result<ToolCallReq> {
    match decoded.record {
        Record::CallRequested(req) => Ok(req),
        _ => Err(collision()),
    }
}

fn done_at(decoded: Decoded) -> Result<ToolCallDone> {
    match decoded.record {
        Record::CallDone(done) => Ok(done),
        _ => Err(collision()),
    }
}

fn check_key(known: &ToolCallReq, request_id: Uuid, call_id: &str) -> Result<()> {
    let same = known.request_id == request_id && known.call_id == call_id;
    if same { Ok(()) } else { Err(collision()) }
}

pub(super) fn get(
    inner: &Inner,
    request_id: Uuid,
    call_id: &str,
    as_of: Option<i64>,
) -> Result<Option<ToolCall>> {
    let mut text = [0; Hyphenated::LENGTH];
    let key = [lower(request_id, &mut text), call_id];
    let quick = |lines: &RowLines<'_>| Some((lines.asserted()?, lines.done()?));
    let call = get_row(inner, KIND, key, as_of, quick, |view, row| {
        read(view, row, as_of)
    })?;
    Ok(call.filter(|(req, _)| check_key(req, request_id, call_id).is_ok()))
}

pub(super) fn list(
    inner: &Inner,
    query: &CallQuery,
    bytes_max: usize,
    as_of: Option<i64>,
) -> Result<Page<ToolCall>> {
    let hash = |value: &str| inner.hasher().lookup(value);
    // The index knows only the current status of calls.
    let status = query.status.filter(|_| as_of.is_none());
    let of_id = |field, id| Select::Lookup(field, hash(lower(id, &mut [0; Hyphenated::LENGTH])));
    let by_id = match (query.request_id, query.parent_id) {
        (Some(id), _) => Some(of_id(REQUEST_ID, id)),
        (_, Some(id)) => Some(of_id(0, id)),
        _ => None,
    };
    let names = (&query.call_id, &query.tool_name, &query.vendor);
    let select = match (by_id, status, names) {
        (Some(select), ..) => select,
        (_, Some(CallStatus::Requested), ..) => Select::State(Op::Requested),
        (_, Some(CallStatus::Failed), ..) => Select::State(Op::Failed),
        (_, _, (Some(id), ..)) => Select::Lookup(CALL_ID, hash(id)),
        (_, _, (_, Some(name), _)) => Select::Lookup(2, hash(name)),
        (_, _, (.., Some(vendor))) => Select::Lookup(1, hash(vendor)),
        (_, Some(CallStatus::Completed), ..) => Select::State(Op::Completed),
        _ => Select::All,
    };
    let walk = Walk {
        select,
        since: query.since.unwrap_or(i64::MIN),
        until: query.until.unwrap_or(i64::MAX),
        order: query.order,
        limit: query.limit,
        bytes_max,
        after: query.after,
        as_of,
    };
    page(inner, KIND, walk, |view, row| {
        let call = read(view, row, as_of)?.filter(|call| query.matches(call));
        Ok(call.map(|call| (call.0.started_at.at, call)))
    })
}

/// The call of a row, as it is now or as of a time.
fn read(view: &Snapshot<'_>, id: RowId, as_of: Option<i64>) -> Result<Option<ToolCall>> {
    let Some(at) = as_of else {
        return read_now(view, id);
    };
    let Some(request) = assertion(view, KIND, id, at)? else {
        return Ok(None);
    };
    let req = request_at(request)?;
    let done = outcome(view, KIND, id)?.map(done_at).transpose()?;
    Ok(Some((req, done.filter(|done| done.ended_at.at <= at))))
}

#[inline]
fn read_now(view: &Snapshot<'_>, id: RowId) -> Result<Option<ToolCall>> {
    let row = view.table(KIND).row(id).filter(|row| row.stands());
    let Some(row) = row else {
        return Ok(None);
    };
    let req = read_as(view, row.asserted)?;
    let done = if row.done.is_some() {
        Some(read_as(view, row.done)?)
    } else {
        None
    };
    Ok(Some((req, done)))
}
