//! Tool calls: requested once, then completed or failed once.

use std::collections::HashMap;
use std::ops::ControlFlow;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::as_of::{Lists, assertion};
use super::page::{Cursor, Page, Walk};
use super::query::query;
use super::seqs::{each_row, read_each};
use super::{
    Ack, asserted, collision, conflict, lower, not_found, outcome, put_version, read_as, record_in,
    record_of, says, time, unchanged,
};
use crate::error::{Error, Result};
use crate::index::{CALL_ID, Hasher, Loc, Position, REQUEST_ID, RowId, Select, Table};
use crate::line::{Op, Value};
use crate::record::{CallStatus, Day, Kind, ToolCall, ToolCallDone, ToolCallReq, now, same_json};
use crate::store::{Inner, Reads, Redacted, RowLines, Snapshot, Store, Txn, Unclear};

const KIND: Kind = Kind::ToolCalls;
/// How long a call without an outcome counts as running.
const RUNNING_MS: i64 = 24 * 60 * 60 * 1000;
/// Number of messages whose calls are looked up under one lock. Writers wait for it.
const PARENTS_AT_A_TIME: usize = 200;

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
            /// Only calls started at this time or later.
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

    /// The calls that are running: those started within the last 24 hours that have no outcome,
    /// latest first. Older ones are calls of agents that were stopped.
    ///
    /// ```
    /// use decklog::{Store, ToolCallReq};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let mut call = ToolCallReq::new(uuid::Uuid::new_v4(), "toolu_1", "anthropic", "bash");
    /// call.arguments_json = Some("{}".into());
    /// store.record(call)?;
    /// assert_eq!(store.running_calls(100)?[0].tool_name, "bash");
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn running_calls(&self, limit: usize) -> Result<Vec<ToolCallReq>> {
        let query = CallQuery {
            status: Some(CallStatus::Requested),
            since: Some(now().saturating_sub(RUNNING_MS)),
            limit,
            ..CallQuery::default()
        };
        let calls = self.tool_calls(&query)?.items.into_iter();
        Ok(calls.map(|(request, _)| request).collect())
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
    let same = |known: &ToolCallReq| {
        let (arguments, given) = (&known.arguments_json, &req.arguments_json);
        let again = ToolCallReq {
            started_at: time(req.started_at, known.started_at, but_time),
            arguments_json: arguments.clone(),
            ..req.clone()
        };
        same_json(arguments.as_deref(), given.as_deref()) && again == *known
    };
    put_version(txn, redacted, req.started_at.is_valid, same)
}

/// Adds an outcome, unless the call already has an equal one. With `but_time`, the times are not
/// compared.
pub(super) fn put_done(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let done: &ToolCallDone = record_in(redacted.record())?;
    let is_latency_known = done.latency_ms != ToolCallDone::LATENCY_UNKNOWN;
    let mut text = [0; Hyphenated::LENGTH];
    let key = [lower(done.request_id, &mut text), &*done.call_id];
    let Some((id, row)) = asserted(txn, redacted.record()) else {
        return Err(not_found(
            "the call was never requested: record its request first",
        ));
    };
    let parent_id = parent_of(txn, row.asserted, key)?;
    let first = outcome(txn, KIND, id)?;
    if let Some(first) = &first {
        let is_same = |known: &ToolCallDone| {
            let (outcome, given) = (&known.outcome_json, &done.outcome_json);
            let again = ToolCallDone {
                ended_at: time(done.ended_at, known.ended_at, but_time),
                outcome_json: outcome.clone(),
                latency_ms: if is_latency_known && !but_time {
                    done.latency_ms
                } else {
                    known.latency_ms
                },
                ..done.clone()
            };
            same_json(outcome.as_deref(), given.as_deref()) && again == *known
        };
        if says(txn, &first.record, is_same)? {
            return unchanged(txn, row.done, first.seq.unwrap_or(0));
        }
    }
    if row.is_retracted {
        return Err(not_found(
            "the call was retracted: request it again before its outcome",
        ));
    }
    if let Some(first) = first {
        return Err(second_outcome(record_in(&first.record)?, done));
    }
    if !is_latency_known {
        let request: ToolCallReq = read_as(txn, row.asserted)?;
        redacted.assign(|done: &mut ToolCallDone| {
            let took = done.ended_at.at.saturating_sub(request.started_at.at);
            done.latency_ms = took.max(0);
        });
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
        return envelope
            .has_key(key)
            .then_some(parent_id)
            .ok_or_else(collision);
    }
    let req: ToolCallReq = read_as(txn, loc)?;
    let is_its = [&*req.request_id.to_string(), &*req.call_id] == key;
    is_its.then_some(req.parent_id).ok_or_else(collision)
}

fn second_outcome(first: &ToolCallDone, second: &ToolCallDone) -> Error {
    conflict(format!(
        "the call has {} and now {}: an outcome is recorded once and the first stands; a tool that runs again needs a call_id of its own",
        in_words(first),
        in_words(second)
    ))
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

/// A row of the tool calls, for sums over them.
pub(crate) struct CallRow {
    pub row: RowId,
    /// Number of its requests and retractions, if there is more than one; else 0.
    pub versions: usize,
    /// The call, if it stands.
    pub call: Option<ToolCall>,
}

/// Calls `take` with these rows. Rows that the index does not have are left out.
pub(crate) fn with_calls(
    inner: &Inner,
    rows: &[RowId],
    mut take: impl FnMut(CallRow),
) -> Result<()> {
    let row = |table: &Table, id: RowId| table.row(id).map(|_| id);
    let read = |view: &Snapshot<'_>, row| {
        let versions = view.table(KIND).history(row).map_or(0, <[_]>::len);
        let call = CallQuery::read(view, row, None)?;
        Ok(Some(CallRow {
            row,
            versions,
            call,
        }))
    };
    read_each(inner, KIND, rows, row, read, |row| {
        take(row);
        Ok(())
    })
}

/// The calls that started on a day.
pub(crate) fn calls_of_day(inner: &Inner, day: Day) -> Result<Vec<RowId>> {
    let (start, end) = day.bounds_ms();
    let bounds = (Position::before(start), Position::before(end));
    let mut rows = Vec::new();
    each_row(inner, KIND, Select::All, bounds, false, |_, row| {
        rows.push(row);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(rows)
}

/// The tools of the calls of each of these messages or turns that has several. Of the others, the
/// index alone is read.
pub(crate) fn tools_of_several(
    inner: &Inner,
    parents: &[Uuid],
) -> Result<HashMap<Uuid, Vec<String>>> {
    let mut found = HashMap::new();
    for some in parents.chunks(PARENTS_AT_A_TIME) {
        found.extend(inner.with_snapshot(|view| {
            let mut several = Vec::new();
            for parent in some {
                let tools = tools_of(view, *parent)?;
                if tools.len() > 1 {
                    several.push((*parent, tools));
                }
            }
            Ok(several)
        })?);
    }
    Ok(found)
}

/// The tools of the calls of a message or turn. Empty if it has only one.
fn tools_of(view: &Snapshot<'_>, parent: Uuid) -> Result<Vec<String>> {
    let table = view.table(KIND);
    let hash = view
        .hasher()
        .lookup(lower(parent, &mut [0; Hyphenated::LENGTH]));
    let rows = table.walk(Select::Lookup(0, hash), Position::FIRST, Position::END);
    let rows = rows.filter_map(|id| table.row(id).filter(|row| row.stands()));
    let asserted: Vec<Loc> = rows.map(|row| row.asserted).collect();
    if asserted.len() < 2 {
        return Ok(Vec::new());
    }
    let mut tools = Vec::with_capacity(asserted.len());
    for loc in asserted {
        let request: ToolCallReq = read_as(view, loc)?;
        // The index has only hashes of the ids.
        tools.extend((request.parent_id == parent).then_some(request.tool_name));
    }
    Ok(tools)
}

/// The start of the first request of a row that has several versions.
pub(crate) fn first_start(view: &Snapshot<'_>, row: RowId) -> Result<Option<i64>> {
    let Some(first) = view.table(KIND).history(row).and_then(<[_]>::first) else {
        return Ok(None);
    };
    let request: ToolCallReq = read_as(view, *first)?;
    Ok(Some(request.started_at.at))
}

impl Lists for CallQuery {
    type Item = ToolCall;
    const KIND: Kind = KIND;
    const IS_IN_LINES: bool = true;

    fn walk(&self, hasher: Hasher, is_now: bool) -> Walk {
        let of = |field, value: &str| Select::Lookup(field, hasher.lookup(value));
        let of_id = |field, id| of(field, lower(id, &mut [0; Hyphenated::LENGTH]));
        let status = self.status.filter(|_| is_now);
        let by_id = match (self.request_id, self.parent_id) {
            (Some(id), _) => Some(of_id(REQUEST_ID, id)),
            (_, Some(id)) => Some(of_id(0, id)),
            _ => None,
        };
        let names = (&self.call_id, &self.tool_name, &self.vendor);
        let select = match (by_id, status, names) {
            (Some(select), ..) => select,
            (_, Some(CallStatus::Requested), ..) => Select::State(Op::Requested),
            (_, Some(CallStatus::Failed), ..) => Select::State(Op::Failed),
            (_, _, (Some(id), ..)) => of(CALL_ID, id),
            (_, _, (_, Some(name), _)) => of(2, name),
            (_, _, (.., Some(vendor))) => of(1, vendor),
            (_, Some(CallStatus::Completed), ..) => Select::State(Op::Completed),
            _ => Select::All,
        };
        let walk = Walk::all(self.order, self.limit, self.after).of(select);
        walk.within(self.since, self.until)
    }

    fn matches(&self, (req, done): &ToolCall) -> bool {
        let is = |wanted: &Option<String>, value: &String| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        let status = CallStatus::of(done.as_ref());
        self.request_id.is_none_or(|id| req.request_id == id)
            && is(&self.call_id, &req.call_id)
            && self.parent_id.is_none_or(|id| req.parent_id == id)
            && is(&self.vendor, &req.vendor)
            && is(&self.tool_name, &req.tool_name)
            && self.status.is_none_or(|wanted| wanted == status)
    }

    #[inline]
    fn read(view: &Snapshot<'_>, id: RowId, as_of: Option<i64>) -> Result<Option<ToolCall>> {
        let Some(at) = as_of else {
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
            return Ok(Some((req, done)));
        };
        let Some(request) = assertion(view, KIND, id, at)? else {
            return Ok(None);
        };
        let done = outcome(view, KIND, id)?.map(record_of).transpose()?;
        let had_ended = |done: &ToolCallDone| done.ended_at.at <= at;
        Ok(Some((record_of(request)?, done.filter(had_ended))))
    }

    #[inline]
    fn read_lines(lines: &RowLines<'_>) -> Result<ToolCall, Unclear> {
        Ok((lines.asserted()?, lines.done()?))
    }

    fn at((req, _): &ToolCall) -> i64 {
        req.started_at.at
    }
}
