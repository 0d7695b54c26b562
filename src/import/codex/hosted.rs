//! Calls of tools that the provider runs: searches of the web, and images. The model gets their
//! results without the client, so a rollout has only the calls.

use super::items::{CallProgress, TOOL_ERROR};
use super::shape::Payload;
use super::{Here, Rollout, calls};
use crate::import::facts::{Facts, Text};
use crate::import::json;
use crate::record::{Role, ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};

impl Rollout {
    /// A call with its end. Old versions write no id of a search, which is then that of its line.
    pub(super) fn hosted_call(
        &mut self,
        here: Here,
        item: &str,
        payload: &Payload<'_>,
    ) -> Result<Facts<'static>, String> {
        let id = self.id("codex:item", here);
        let call_id = json::owned_text(payload.id.or(payload.call_id))?;
        let call_id = call_id.unwrap_or_else(|| id.to_string());
        let (tool_name, arguments) = if item == "web_search_call" {
            let action = payload.action.get().unwrap_or("{}");
            ("web_search", action.to_owned())
        } else {
            let prompt = payload.revised_prompt.get().unwrap_or("null");
            ("image_generation", format!("{{\"prompt\":{prompt}}}"))
        };
        let mut facts = Facts::default();
        if self.calls.contains_key(&call_id) {
            return Ok(facts);
        }
        let text = Text::Call {
            id: call_id.clone(),
            name: tool_name.to_owned(),
            args: Some(arguments.clone()),
        };
        facts.said = Some(self.said(here, id, Role::Assistant, text)?);
        let status = match json::text(payload.status)?.as_deref() {
            Some("failed") => Some(ToolStatus::Failed),
            Some("in_progress" | "searching" | "generating" | "incomplete") => None,
            _ => Some(ToolStatus::Completed),
        };
        let failure = (status == Some(ToolStatus::Failed)).then(|| TOOL_ERROR.to_owned());
        let request_id = calls::request_id(&call_id);
        facts.results.extend(status.map(|status| ToolCallDone {
            request_id,
            call_id: call_id.clone(),
            ended_at: Validity::at(here.at),
            latency_ms: 0,
            outcome_json: None,
            error_kind: failure,
            error_msg: None,
            status,
        }));
        facts.calls.push(ToolCallReq {
            request_id,
            call_id: call_id.clone(),
            parent_id: self.latest.unwrap_or(self.session),
            vendor: self.vendor.clone(),
            tool_name: tool_name.to_owned(),
            args_sha256: args_sha256(&arguments),
            arguments_json: Some(arguments),
            started_at: Validity::at(here.at),
        });
        let progress = match status {
            Some(_) => CallProgress::Returned,
            None => CallProgress::Asked,
        };
        self.calls.insert(call_id, progress);
        if item == "image_generation_call" && payload.result.get().is_some() {
            facts.count_not_understood("response_item.image_generation_call.image");
        }
        Ok(facts)
    }
}
