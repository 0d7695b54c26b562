//! Tool calls: the request of a model and the span of the tool describe the same call.

use std::collections::hash_map::Entry;

use uuid::Uuid;

use super::Batch;
use super::inference::Place;
use crate::collections::IfKnown;
use crate::error::Result;
use crate::import::{self, TOOL_ERROR};
use crate::otlp::item::Item;
use crate::record::{
    ToolCall, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};

/// The arguments of a call whose arguments are not known.
const NO_ARGS: &str = "{}";

/// The name of a tool whose name is not known.
const UNKNOWN_TOOL: &str = "unknown";

/// The id of a tool call's request.
pub(super) fn request_id(call_id: &str, trace: Option<Uuid>) -> Uuid {
    import::request_id("otlp", trace, call_id)
}

impl Batch<'_> {
    /// Adds the span of a tool.
    pub(super) fn tool(&mut self, at: usize, mut item: Item) -> Result<()> {
        let tool = std::mem::take(&mut item.tool);
        let span_id = || item.key.simple().to_string();
        let call_id = tool.call_id.clone().unwrap_or_else(span_id);
        let request_id = request_id(&call_id, item.trace);
        let args = tool.args.unwrap_or_default();
        let req = match self.known_call(request_id, &call_id)? {
            // The turn that asked for the call is its parent.
            Some((req, _)) => {
                let mut req = req.clone();
                req.started_at = Validity::at(item.start);
                let known_args = req.arguments_json.as_deref().unwrap_or(NO_ARGS);
                if known_args == NO_ARGS && !args.is_empty() {
                    req.args_sha256 = args_sha256(&args);
                    req.arguments_json = Some(args);
                }
                req
            }
            None => request(
                (request_id, call_id),
                item.parent_turn().unwrap_or(item.key),
                item.provider.as_deref(),
                tool.name.unwrap_or_default(),
                args,
                item.start,
            ),
        };
        let (request_id, call_id) = (req.request_id, req.call_id.clone());
        self.put_call(at, req);
        if let Some(end) = item.end {
            let failure = item.failure.take();
            let done = ToolCallDone {
                request_id,
                call_id,
                ended_at: Validity::at(end),
                latency_ms: end.saturating_sub(item.start).max(0),
                outcome_json: tool.result,
                error_kind: failure.as_ref().map(|it| {
                    let class = it.class.clone();
                    class.unwrap_or_else(|| TOOL_ERROR.to_owned())
                }),
                error_msg: failure.as_ref().and_then(|it| it.message.clone()),
                status: if failure.is_some() {
                    ToolStatus::Failed
                } else {
                    ToolStatus::Completed
                },
            };
            item.keep("error_type", done.error_kind.clone());
            if let Some(done) = self.put_done(at, done) {
                item.keep("result", done.outcome_json);
                item.keep("error", done.error_msg);
            }
        }
        item.keep_unused();
        let content = item.kept();
        self.turn(at, &item, TurnKind::SysInfo, content, item.key)
    }

    /// The call with this key, in this batch or in the log.
    pub(super) fn known_call(
        &mut self,
        request_id: Uuid,
        call_id: &str,
    ) -> Result<Option<&ToolCall>> {
        match self.calls.entry((request_id, call_id.to_owned())) {
            Entry::Occupied(entry) => Ok(Some(entry.into_mut())),
            Entry::Vacant(entry) => {
                let logged = self.store.get_tool_call(request_id, call_id)?;
                Ok(logged.map(|call| &*entry.insert(call)))
            }
        }
    }

    /// Adds the calls of a message. `is_answer`: the message made them, and is not the history of a
    /// later request.
    pub(super) fn put_calls(
        &mut self,
        place: &Place<'_>,
        is_answer: bool,
        calls: Vec<ToolCallReq>,
    ) -> Result<()> {
        for (nth, mut call) in calls.into_iter().enumerate() {
            if call.call_id.is_empty() {
                call.call_id = format!("{}:{nth}", call.parent_id.simple());
            }
            if call.tool_name.is_empty() {
                UNKNOWN_TOOL.clone_into(&mut call.tool_name);
            }
            call.request_id = request_id(&call.call_id, place.item.trace);
            if let Some((known, _)) = self.known_call(call.request_id, &call.call_id)? {
                let mut known = known.clone();
                // The span of the tool came first.
                if is_answer || !self.is_answer(known.parent_id)? {
                    known.parent_id = call.parent_id;
                }
                call = known;
            }
            self.put_call(place.at, call);
        }
        Ok(())
    }

    fn put_call(&mut self, at: usize, req: ToolCallReq) {
        let key = (req.request_id, req.call_id.clone());
        match self.calls.entry(key) {
            Entry::Occupied(entry) => entry.into_mut().0.clone_from(&req),
            Entry::Vacant(entry) => drop(entry.insert((req.clone(), None))),
        }
        self.push(at, req.into(), IfKnown::Compare);
    }

    /// Adds an outcome to a known call. Returns the outcome if the call has one already: the first
    /// one stands.
    pub(super) fn put_done(&mut self, at: usize, done: ToolCallDone) -> Option<ToolCallDone> {
        let key = (done.request_id, done.call_id.clone());
        match self.calls.get_mut(&key) {
            Some((_, Some(_))) | None => Some(done),
            Some((_, outcome)) => {
                *outcome = Some(done.clone());
                self.push(at, done.into(), IfKnown::Compare);
                None
            }
        }
    }
}

/// The request of a call.
pub(super) fn request(
    (request_id, call_id): (Uuid, String),
    parent_id: Uuid,
    provider: Option<&str>,
    tool_name: String,
    args: String,
    at: i64,
) -> ToolCallReq {
    let args = if args.is_empty() {
        NO_ARGS.to_owned()
    } else {
        args
    };
    ToolCallReq {
        request_id,
        call_id,
        parent_id,
        vendor: provider.unwrap_or("otlp").to_owned(),
        tool_name: if tool_name.is_empty() {
            UNKNOWN_TOOL.to_owned()
        } else {
            tool_name
        },
        args_sha256: args_sha256(&args),
        arguments_json: Some(args),
        started_at: Validity::at(at),
    }
}
