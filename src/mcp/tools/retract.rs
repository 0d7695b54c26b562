//! Retraction of turns, tool calls and proposals.

use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::answer::Fault;
use super::given::{Put, Time};
use super::{Call, Effect, Tool};
use crate::record::{CodeEditProposal, Record, Validity, now};

pub(super) fn tools() -> Vec<Tool> {
    vec![Tool::new(
        "retract",
        "Retract a turn, tool call or proposal",
        "Retracts a turn, a tool call or a proposal that was recorded by mistake. Lists no longer show it. The log keeps its history.",
        Effect::Adds,
        retract,
    )]
}

/// The record to retract.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Retract {
    /// Its type.
    kind: Retractable,
    /// The id of a turn, or the request_id of a tool call or proposal: a UUID.
    id: Uuid,
    /// The call_id of a tool call.
    call_id: Option<String>,
    /// The time from which it is retracted. Default: now.
    at: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Retractable {
    Turn,
    ToolCall,
    Proposal,
}

fn retract(call: &Call<'_>, given: Retract) -> Result<Put, Fault> {
    let validity = Validity::retracted(given.at.map_or_else(now, |at| at.0));
    let is_call = given.kind == Retractable::ToolCall;
    let record = match (given.kind, &given.call_id) {
        (Retractable::Turn, None) => call.store.get_turn(given.id)?.map(|mut turn| {
            turn.created_at = validity;
            Record::Turn(turn)
        }),
        (Retractable::ToolCall, Some(call_id)) => {
            let found = call.store.get_tool_call(given.id, call_id)?;
            found.map(|(mut req, _)| {
                req.started_at = validity;
                Record::CallRequested(req)
            })
        }
        (Retractable::Proposal, None) => call.store.get_proposal(given.id)?.map(|found| {
            // Without the fields of its steps.
            Record::Proposal(CodeEditProposal {
                created_at: validity,
                confidence: found.confidence,
                ..CodeEditProposal::new(found.request_id, found.diffs_json, validity.at)
            })
        }),
        _ if is_call => {
            return Err(Fault::invalid("call_id: required for a tool call").with_field("call_id"));
        }
        _ => {
            let message = "call_id: only for tool calls";
            return Err(Fault::invalid(message).with_field("call_id"));
        }
    };
    let record = record.ok_or_else(|| {
        let message = "no record has this id, or it is already retracted";
        Fault::not_found(message).with_field(if is_call { "call_id" } else { "id" })
    })?;
    Ok(call.store.record(record)?.into())
}
