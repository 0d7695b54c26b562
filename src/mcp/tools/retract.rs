//! Retraction of turns, tool calls and proposals.

use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::super::answer::Fault;
use super::Call;
use super::given::{Put, Time};
use crate::error::ErrorKind;
use crate::record::{Key, now};

tools! {
    /// Retracts a turn, a tool call or a proposal that was recorded by mistake. Lists no longer
    /// show it. The log keeps its history.
    retract("Retract a turn, tool call or proposal", Adds) => retract(Retract {
        /// Its type.
        kind: Retractable,
        /// The id of a turn, or the request_id of a tool call or proposal: a UUID.
        id: Uuid,
        /// The call_id of a tool call.
        call_id: Option<String>,
        /// The time from which it is retracted. Default: now.
        at: Option<Time>,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Retractable {
    Turn,
    ToolCall,
    Proposal,
}

fn retract(call: &Call<'_>, given: Retract) -> Result<Put, Fault> {
    let Retract { kind, id, at, .. } = given;
    let key = match (kind, given.call_id) {
        (Retractable::Turn, None) => Key::Turn(id),
        (Retractable::Proposal, None) => Key::Proposal(id),
        (Retractable::ToolCall, Some(call_id)) => Key::ToolCall {
            request_id: id,
            call_id,
        },
        (Retractable::ToolCall, None) => {
            return Err(Fault::of_field("call_id", "required for a tool call"));
        }
        (_, Some(_)) => return Err(Fault::of_field("call_id", "only for tool calls")),
    };
    let field = match kind {
        Retractable::ToolCall => "call_id",
        _ => "id",
    };
    let ack = call.store.retract(&key, at.map_or_else(now, |at| at.0));
    let ack = ack.map_err(|e| match e.kind() {
        ErrorKind::NotFound => Fault::from(e).with_field(field),
        _ => e.into(),
    })?;
    Ok(ack.into())
}
