//! What a client says of an item once it is complete. Texts and calls of the model stand in a
//! `response_item` as well; what runs within a call, as the commands of a script, stands here alone.

use super::shape::{Duration, Item, Payload};
use super::{Here, Rollout};
use crate::import::facts::Facts;
use crate::import::ids::named;
use crate::import::json::{self, Raw};
use crate::record::{ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};

/// The kind of a failure that an exit code tells of.
pub(super) const EXIT_CODE: &str = "exit_code";
/// The kind of any other.
pub(super) const TOOL_ERROR: &str = "tool_error";

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
            "UserMessage" | "AgentMessage" | "Reasoning" | "ContextCompaction" => {
                Some(Facts::default())
            }
            "SubAgentActivity" => Some(match json::text(item.activity)?.as_deref() {
                Some("started") => self.started(item.agent_thread_id, item.id)?,
                _ => Facts::default(),
            }),
            "CollabAgentToolCall" => Some(Facts::default()),
            "CommandExecution" => self.ran(here, payload.item, &item, "exec_command")?,
            "FileChange" => self.ran(here, payload.item, &item, "apply_patch")?,
            _ => {
                let what = format!("event_msg.item_completed.{kind}");
                Some(Facts::not_understood(what))
            }
        })
    }

    /// A command or a change of files that ran within a call: a call of its own, unless it is the
    /// call that the model made. That one's result comes on a line of its own, and says less.
    fn ran(
        &mut self,
        here: Here,
        raw: Raw<'_>,
        item: &Item<'_>,
        tool: &str,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some(call_id) = json::owned_text(item.id)? else {
            return Ok(None);
        };
        let failure = failure(item)?;
        if self.asked.contains(&call_id) {
            self.failed.extend(failure.map(|kind| (call_id, kind)));
            return Ok(Some(Facts::default()));
        }
        let arguments = if let Some(changes) = item.changes.get() {
            ["{\"changes\":", changes, "}"].concat()
        } else {
            let [command, cwd] = [item.command, item.cwd].map(|raw| raw.get().unwrap_or("null"));
            ["{\"command\":", command, ",\"cwd\":", cwd, "}"].concat()
        };
        let started_at = here.at.saturating_sub(milliseconds(item.duration));
        // Items of several sessions may have one id.
        let request_id = named("codex:item", &format!("{}:{call_id}", self.session));
        let req = ToolCallReq {
            request_id,
            call_id: call_id.clone(),
            parent_id: self.latest.unwrap_or(self.session),
            vendor: self.vendor.clone(),
            tool_name: tool.to_owned(),
            args_sha256: args_sha256(&arguments),
            arguments_json: Some(arguments),
            started_at: Validity::at(started_at),
        };
        let words = failure.and(json::owned_text(item.aggregated_output.or(item.stderr))?);
        let done = ToolCallDone {
            request_id,
            call_id,
            ended_at: Validity::at(here.at),
            latency_ms: 0,
            outcome_json: raw.get().map(str::to_owned),
            error_kind: failure.map(str::to_owned),
            error_msg: words,
            status: match failure {
                Some(_) => ToolStatus::Failed,
                None => ToolStatus::Completed,
            },
        };
        Ok(Some(Facts {
            calls: vec![req],
            results: vec![done],
            ..Facts::default()
        }))
    }
}

/// The kind of an item's failure.
fn failure(item: &Item<'_>) -> Result<Option<&'static str>, String> {
    let code = item.exit_code.get().and_then(|code| code.parse().ok());
    if code.is_some_and(|code: i64| code != 0) {
        return Ok(Some(EXIT_CODE));
    }
    let status = json::text(item.status)?;
    let failed = matches!(status.as_deref(), Some("failed" | "declined"));
    Ok(failed.then_some(TOOL_ERROR))
}

fn milliseconds(duration: Raw<'_>) -> i64 {
    let Some(duration) = json::member::<Duration<'_>>(duration).ok().flatten() else {
        return 0;
    };
    let number = |raw| i64::try_from(json::number(raw).unwrap_or(0)).unwrap_or(i64::MAX);
    let seconds = number(duration.secs).saturating_mul(1_000);
    seconds.saturating_add(number(duration.nanos) / 1_000_000)
}

/// The exit code in the head of what a command returned as text, as the client writes it.
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
