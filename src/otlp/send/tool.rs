//! Tool calls that ended.

use uuid::Uuid;

use super::attributes::Attributes;
use super::ids::{self, Received, SpanId, TraceId};
use super::talk::Talk;
use super::{Draft, INTERNAL};
use crate::collections::CallQuery;
use crate::error::Result;
use crate::otlp::proto::Span;
use crate::record::{ConversationMessage, Record, Role, ToolCallReq, ToolStatus};

impl Talk<'_> {
    /// The span of a call. `None` if the log does not have its request.
    pub(super) fn tool_span(&self, at: usize) -> Result<Option<Span>> {
        let Record::CallDone(done) = self.record(at) else {
            return Ok(None);
        };
        let key = (done.request_id, &*done.call_id);
        let req = match self.batch.request(key.0, key.1) {
            Some(req) if req.started_at.is_valid => req.clone(),
            _ => {
                let known = self.batch.store.get_tool_call(key.0, key.1)?;
                let Some((req, _)) = known else {
                    return Ok(None);
                };
                req
            }
        };
        let (received, parent) = self.parent_of(&req)?;
        let mut attributes = Attributes::default();
        attributes
            .text("gen_ai.operation.name", "execute_tool")
            .text("gen_ai.tool.name", &*req.tool_name)
            .text("gen_ai.tool.call.id", &*req.call_id)
            .text("gen_ai.tool.type", "function")
            .text("gen_ai.conversation.id", self.id.to_string())
            .some_text("gen_ai.tool.call.arguments", req.arguments_json.as_deref())
            .some_text("gen_ai.tool.call.result", done.outcome_json.as_deref());
        let is_failed = done.status == ToolStatus::Failed;
        if is_failed {
            let kind = done.error_kind.as_deref().unwrap_or("_OTHER");
            attributes.text("error.type", kind);
        }
        let draft = Draft {
            trace: received.map_or(parent.0, |ids| ids.trace),
            id: received.map_or_else(|| ids::tool(&req), |ids| ids.span),
            parent: received.map_or(Some(parent.1), |ids| ids.parent),
            name: format!("execute_tool {}", req.tool_name),
            kind: INTERNAL,
            time: (req.started_at.at, done.ended_at.at),
            attributes: attributes.0,
            error: is_failed.then(|| done.error_msg.clone().unwrap_or_default()),
        };
        // All versions, so that the last one stands where they come back.
        let mut places = self.batch.requests.get(&key).cloned().unwrap_or_default();
        places.push(at);
        places.sort_unstable();
        let records: Vec<&Record> = places.iter().map(|at| self.record(*at)).collect();
        draft.span(&records).map(Some)
    }

    /// The ids that a call was received with, and the trace and span that asked for it.
    fn parent_of(&self, req: &ToolCallReq) -> Result<(Option<Received>, (TraceId, SpanId))> {
        let root = (self.trace, ids::root(self.id));
        let store = self.batch.store;
        let id = req.parent_id;
        if let Some(chat) = self.heads.get(&id) {
            return Ok((None, self.chats[*chat].ids(self)));
        }
        let in_batch = self.batch.turns.get(&id).map(|at| self.record(*at));
        let turn = match in_batch {
            Some(Record::Turn(turn)) => Some(turn.clone()),
            _ => store.get_turn(id)?,
        };
        let received = turn.as_ref().and_then(ids::of_turn);
        let message = match &turn {
            Some(turn) if turn.message_id != id => self.answer(turn.message_id)?,
            _ => None,
        };
        let message = match message {
            Some(message) => Some(message),
            None => self.answer(id)?,
        };
        if let Some(message) = message {
            let head = message.part_of.unwrap_or(message.id);
            let own = ids::of_message(&message);
            let span = own.map_or_else(|| ids::chat(head), |ids| ids.span);
            return Ok((received, (own.map_or(root.0, |ids| ids.trace), span)));
        }
        let is_answer = turn.is_some_and(|it| it.kind == crate::record::TurnKind::Assistant);
        let span = if is_answer { ids::chat(id) } else { root.1 };
        Ok((received, (root.0, span)))
    }

    /// The message with this id, if it is an answer.
    fn answer(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        let in_batch = self.batch.messages.get(&id).map(|at| self.record(*at));
        let message = match in_batch {
            Some(Record::Message(message)) => Some((**message).clone()),
            _ => self.batch.store.get_message(id)?,
        };
        Ok(message.filter(|it| it.role == Role::Assistant))
    }

    /// The span of the call of another conversation.
    pub(super) fn call_of(&self, talk: Uuid, call: &str) -> Result<Option<SpanId>> {
        let query = CallQuery {
            call_id: Some(call.to_owned()),
            limit: 10,
            ..CallQuery::default()
        };
        let store = self.batch.store;
        let calls = store.tool_calls(&query)?.items;
        let parents: Vec<Uuid> = calls.iter().map(|(req, _)| req.parent_id).collect();
        let talks = crate::collections::Places::default().of_turns(store.inner(), &parents)?;
        let mut found = calls.iter().zip(talks);
        let found = found.find(|(_, of)| *of == Some(talk));
        Ok(found.map(|((req, _), _)| ids::tool(req)))
    }
}
