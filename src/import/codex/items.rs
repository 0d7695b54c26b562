//! The client's report of a completed item. Texts and calls of the model are also in a
//! `response_item`. Operations inside a call, such as the commands of a script, are only reported
//! here. Older clients use separate line types, such as `exec_command_end`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::messages::parts;
use super::shape::{Duration, Item, McpResult, Payload};
use super::{Here, Rollout, calls};
use crate::import::facts::{Facts, Others};
use crate::import::ids::named;
use crate::import::json::{self, Raw};
use crate::record::{ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};

/// The kind of a failure reported by an exit code.
pub(super) const EXIT_CODE: &str = "exit_code";
/// The kind of any other failure.
pub(super) const TOOL_ERROR: &str = "tool_error";

/// What the rollout has reported about a call so far.
#[derive(Serialize, Deserialize)]
pub(super) enum CallProgress {
    /// The model requested it.
    Asked,
    /// It started inside another call.
    Begun,
    /// Its output was returned to the model.
    Returned,
    /// The client reported the result. The value is the kind of failure.
    Ended(Option<Cow<'static, str>>),
}

impl Rollout {
    pub(super) fn completed(
        &mut self,
        here: Here,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some(item) = json::member::<Item<'_>>(payload.item)? else {
            return Ok(None);
        };
        let kind = json::type_name(item.kind)?;
        Ok(match &*kind {
            // Texts and calls that have items of their own, of which a plan is a part, and pauses.
            "UserMessage"
            | "AgentMessage"
            | "Reasoning"
            | "ContextCompaction"
            | "Plan"
            | "WebSearch"
            | "ImageGeneration"
            | "CollabAgentToolCall"
            | "Sleep" => Some(Facts::default()),
            "SubAgentActivity" => {
                Some(self.activity(item.activity, item.agent_thread_id, item.id)?)
            }
            "CommandExecution" | "FileChange" | "McpToolCall" => {
                self.ended(here, &kind, payload.item)?
            }
            _ => {
                let what = format!("event_msg.item_completed.{kind}");
                Some(Facts::not_understood(what))
            }
        })
    }

    /// The start of a call that the model did not request itself. Calls requested by the model are
    /// already known.
    pub(super) fn begun(
        &mut self,
        here: Here,
        kind: &str,
        raw: Raw<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some((item, call_id)) = item(raw)? else {
            return Ok(None);
        };
        if self.calls.contains_key(&call_id) {
            return Ok(Some(Facts::default()));
        }
        let Some(req) = self.own_call(here.at, kind, &item, call_id)? else {
            return Ok(None);
        };
        self.calls.insert(req.call_id.clone(), CallProgress::Begun);
        Ok(Some(Facts {
            calls: vec![req],
            ..Facts::default()
        }))
    }

    /// The result of a command, a file change or a call to an MCP server. It belongs to a call that
    /// the model requested, or to one that started by itself, for example inside a script. Repeated
    /// results are ignored.
    pub(super) fn ended(
        &mut self,
        here: Here,
        kind: &str,
        raw: Raw<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some((item, call_id)) = item(raw)? else {
            return Ok(None);
        };
        let took = milliseconds(item.duration);
        let mut calls = Vec::new();
        let request_id = match self.calls.get(&call_id) {
            Some(CallProgress::Returned | CallProgress::Ended(_)) => {
                return Ok(Some(Facts::default()));
            }
            Some(CallProgress::Asked) => calls::request_id(&call_id),
            Some(CallProgress::Begun) => self.own_id(&call_id),
            None => {
                let began_at = here.at.saturating_sub(took);
                let Some(req) = self.own_call(began_at, kind, &item, call_id.clone())? else {
                    return Ok(None);
                };
                calls.push(req);
                self.own_id(&call_id)
            }
        };
        let failure = failure(&item)?;
        let ended = CallProgress::Ended(failure.map(Cow::Borrowed));
        self.calls.insert(call_id.clone(), ended);
        let done = ToolCallDone {
            request_id,
            call_id,
            ended_at: Validity::at(here.at),
            latency_ms: took,
            outcome_json: raw.get().map(str::to_owned),
            error_kind: failure.map(str::to_owned),
            error_msg: failure.and(words(&item)?),
            status: match failure {
                Some(_) => ToolStatus::Failed,
                None => ToolStatus::Completed,
            },
        };
        Ok(Some(Facts {
            calls,
            results: vec![done],
            ..Facts::default()
        }))
    }

    /// Item ids are not unique across sessions, so the session is part of the id.
    fn own_id(&self, call_id: &str) -> Uuid {
        named("codex:item", &format!("{}:{call_id}", self.session))
    }

    /// A call that the model did not request itself; `None` for an MCP call without server and tool
    /// name.
    fn own_call(
        &self,
        at: i64,
        kind: &str,
        item: &Item<'_>,
        call_id: String,
    ) -> Result<Option<ToolCallReq>, String> {
        let json = |raw: Raw<'_>| raw.get().unwrap_or("null").to_owned();
        let (tool_name, arguments) = match kind {
            "CommandExecution" | "exec_command_begin" | "exec_command_end" => {
                let [command, cwd] = [item.command, item.cwd].map(json);
                let arguments = format!("{{\"command\":{command},\"cwd\":{cwd}}}");
                ("exec_command".to_owned(), arguments)
            }
            "FileChange" | "patch_apply_begin" | "patch_apply_end" => {
                let arguments = format!("{{\"changes\":{}}}", json(item.changes));
                ("apply_patch".to_owned(), arguments)
            }
            _ => {
                let asked = json::member::<Item<'_>>(item.invocation)?.unwrap_or(*item);
                let (Some(server), Some(tool)) =
                    (json::text(asked.server)?, json::text(asked.tool)?)
                else {
                    return Ok(None);
                };
                let arguments = asked.arguments.get().unwrap_or("{}").to_owned();
                (format!("mcp__{server}__{tool}"), arguments)
            }
        };
        Ok(Some(ToolCallReq {
            request_id: self.own_id(&call_id),
            call_id,
            parent_id: self.latest.unwrap_or(self.session),
            vendor: self.vendor.clone(),
            tool_name,
            args_sha256: args_sha256(&arguments),
            arguments_json: Some(arguments),
            started_at: Validity::at(at),
        }))
    }
}

/// An item and its call id.
fn item(raw: Raw<'_>) -> Result<Option<(Item<'_>, String)>, String> {
    let Some(item) = json::member::<Item<'_>>(raw)? else {
        return Ok(None);
    };
    let call_id = json::owned_text(item.call_id.or(item.id))?;
    Ok(call_id.map(|call_id| (item, call_id)))
}

/// The kind of failure of an item.
fn failure(item: &Item<'_>) -> Result<Option<&'static str>, String> {
    let code = item.exit_code.get().and_then(|code| code.parse().ok());
    if code.is_some_and(|code: i64| code != 0) {
        return Ok(Some(EXIT_CODE));
    }
    let status = json::text(item.status)?;
    let failed = matches!(status.as_deref(), Some("failed" | "declined"))
        || item.success.get() == Some("false")
        || item.error.get().is_some_and(|error| error != "\"\"")
        || mcp_result(item).is_some_and(|it| {
            it.err.get().is_some() || json::is_true(it.is_error) || json::is_true(it.is_error_too)
        });
    Ok(failed.then_some(TOOL_ERROR))
}

/// The result of an MCP tool: as the server returned it, or inside `Ok`.
fn mcp_result<'a>(item: &Item<'a>) -> Option<McpResult<'a>> {
    let result: McpResult<'_> = json::member(item.result).ok()??;
    let ok = json::member(result.ok).ok().flatten();
    Some(ok.unwrap_or(result))
}

/// The error message of a failed item.
fn words(item: &Item<'_>) -> Result<Option<String>, String> {
    let result = mcp_result(item).unwrap_or_default();
    let error: McpResult<'_> = json::member(item.error).ok().flatten().unwrap_or_default();
    let mut texts = Vec::new();
    for raw in [
        item.aggregated_output,
        item.stderr,
        item.error,
        error.message,
        result.err,
    ] {
        texts.extend(json::owned_text(raw)?);
    }
    parts(result.content, &mut texts, &mut Others::default())?;
    Ok(texts.into_iter().find(|text| !text.is_empty()))
}

fn milliseconds(duration: Raw<'_>) -> i64 {
    let Some(duration) = json::member::<Duration<'_>>(duration).ok().flatten() else {
        return 0;
    };
    let number = |raw| i64::try_from(json::number(raw).unwrap_or(0)).unwrap_or(i64::MAX);
    let seconds = number(duration.secs).saturating_mul(1_000);
    seconds.saturating_add(number(duration.nanos) / 1_000_000)
}

/// The exit code in the header that the client writes before a command's output.
pub(super) fn exit_code(output: &str) -> Option<i64> {
    let head = output.lines().take(8).take_while(|line| *line != "Output:");
    let starts = ["Exit code: ", "Process exited with code "];
    if !["Exit code: ", "Chunk ID: ", "Wall time: "]
        .iter()
        .any(|start| output.starts_with(start))
    {
        return None;
    }
    let mut codes = head.filter_map(|line| {
        let code = starts.iter().find_map(|start| line.strip_prefix(start))?;
        code.trim().parse().ok()
    });
    codes.next()
}
