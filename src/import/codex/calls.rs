//! Tool calls and their results in a rollout file.

use std::borrow::Cow;

use uuid::Uuid;

use super::items::{CallProgress, EXIT_CODE, TOOL_ERROR, exit_code};
use super::shape::{Metadata, Outcome, Payload};
use super::{Here, Rollout};
use crate::import::facts::{Facts, Text};
use crate::import::ids::named;
use crate::import::json;
use crate::record::{Role, ToolCallDone, ToolCallReq, ToolStatus, Validity, args_sha256};

/// Scope of the ids of messages that are not turns.
const ITEM: &str = "codex:item";

pub(super) fn call(
    rollout: &mut Rollout,
    here: Here,
    item: &str,
    payload: &Payload<'_>,
) -> Result<Option<Facts<'static>>, String> {
    let (name, call_id, arguments) = match item {
        // The built-in shell has no name, and in some versions its id is the item's.
        "local_shell_call" => (
            Some("local_shell".to_owned()),
            payload.call_id.or(payload.id),
            payload.action,
        ),
        // A search of the provider has no call id.
        "tool_search_call" => (
            Some("tool_search".to_owned()),
            payload.call_id.or(payload.id),
            payload.arguments,
        ),
        "custom_tool_call" => (
            json::owned_text(payload.name)?,
            payload.call_id,
            payload.input,
        ),
        _ => (
            json::owned_text(payload.name)?,
            payload.call_id,
            payload.arguments,
        ),
    };
    let (Some(tool_name), Some(call_id)) = (name, json::owned_text(call_id)?) else {
        return Ok(None);
    };
    // A call without arguments gets an empty object.
    let arguments =
        json::text_or_bytes(arguments)?.map_or_else(|| "{}".to_owned(), Cow::into_owned);
    let req = ToolCallReq {
        request_id: request_id(&call_id),
        call_id,
        parent_id: rollout.latest.unwrap_or(rollout.session),
        vendor: rollout.vendor.clone(),
        tool_name,
        args_sha256: args_sha256(&arguments),
        arguments_json: Some(arguments),
        started_at: Validity::at(here.at),
    };
    let told = rollout.calls.entry(req.call_id.clone());
    told.or_insert(CallProgress::Asked);
    let text = Text::Call {
        id: req.call_id.clone(),
        name: req.tool_name.clone(),
        args: req.arguments_json.clone(),
    };
    let said = rollout.said(here, rollout.id(ITEM, here), Role::Assistant, text)?;
    Ok(Some(Facts {
        calls: vec![req],
        said: Some(said),
        ..Facts::default()
    }))
}

pub(super) fn result(
    rollout: &mut Rollout,
    here: Here,
    payload: &Payload<'_>,
) -> Result<Option<Facts<'static>>, String> {
    let Some(call_id) = json::owned_text(payload.call_id)? else {
        return Ok(None);
    };
    let outcome = json::text_or_bytes(payload.output.or(payload.tools))?.map(Cow::into_owned);
    let failure = outcome.as_deref().and_then(failure);
    let told = rollout
        .calls
        .insert(call_id.clone(), CallProgress::Returned);
    let id = rollout.id(ITEM, here);
    let mut said = rollout.said(here, id, Role::Tool, Text::Words("".into()))?;
    said.message.tool_result = Some(outcome.clone().unwrap_or_default());
    said.message.tool_call_id = Some(call_id.clone());
    // The client reported the result and the duration of the call.
    if let Some(CallProgress::Ended(kind)) = told {
        rollout
            .calls
            .insert(call_id.clone(), CallProgress::Ended(kind.clone()));
        said.message.error_type = kind.map(Cow::into_owned);
        return Ok(Some(Facts {
            answered: Some(request_id(&call_id)),
            said: Some(said),
            ..Facts::default()
        }));
    }
    let status = match failure {
        Some(_) => ToolStatus::Failed,
        None => ToolStatus::Completed,
    };
    let (error_kind, error_msg) = failure.unzip();
    said.message.error_type.clone_from(&error_kind);
    let done = ToolCallDone {
        request_id: request_id(&call_id),
        call_id,
        ended_at: Validity::at(here.at),
        latency_ms: 0,
        outcome_json: outcome,
        error_kind,
        error_msg,
        status,
    };
    Ok(Some(Facts {
        results: vec![done],
        said: Some(said),
        ..Facts::default()
    }))
}

/// The kind and the message of the failure that an outcome reports, if any.
fn failure(outcome: &str) -> Option<(String, String)> {
    if let Some(code) = exit_code(outcome) {
        return (code != 0).then(|| (EXIT_CODE.to_owned(), outcome.to_owned()));
    }
    let said: Outcome<'_> = json::object(outcome).ok()??;
    let metadata = json::member::<Metadata<'_>>(said.metadata).ok().flatten();
    let exit_code = metadata.and_then(|metadata| metadata.exit_code.get());
    let kind = if exit_code.is_some_and(|code| code.parse::<i64>().is_ok_and(|code| code != 0)) {
        EXIT_CODE
    } else if said.success.get() == Some("false") {
        TOOL_ERROR
    } else {
        return None;
    };
    let text = |raw| json::owned_text(raw).ok().flatten();
    let words = text(said.output).or_else(|| text(said.content));
    Some((kind.to_owned(), words.unwrap_or_else(|| outcome.to_owned())))
}

/// Derived from the call's id alone, because an output contains nothing else about its call.
pub(super) fn request_id(call_id: &str) -> Uuid {
    named("codex:call", call_id)
}
