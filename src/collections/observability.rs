//! The trait through which agents use the log.

use std::sync::Arc;

use uuid::Uuid;

use super::{CallQuery, TurnQuery};
use crate::error::DbError;
use crate::record::{ConversationTurn, ToolCall, ToolCallDone, ToolCallReq};
use crate::store::Store;

/// The interface with which an agent records and reads its conversation.
pub trait ObservabilityStore {
    /// Records a turn, or a new version of it. Recording the same turn again has no effect. A
    /// `created_at` that is not valid retracts the turn.
    fn upsert_conversation_turn(&self, turn: ConversationTurn) -> Result<(), DbError>;

    /// Lists the turns created at or after `since_ms`, in epoch milliseconds, earliest first. Turns
    /// with the same time are in the order in which they were recorded. A limit of 0 gives none.
    fn list_conversation_since(
        &self,
        since_ms: i64,
        limit: usize,
    ) -> Result<Vec<ConversationTurn>, DbError>;

    /// Records a request, or a new version of it. Recording the same request again has no effect.
    /// An existing outcome of the call is kept: to run a tool again, record another call with its
    /// own `call_id`. A `started_at` that is not valid retracts the call.
    fn record_tool_call_requested(&self, req: ToolCallReq) -> Result<(), DbError>;

    /// Records the outcome of a call. Recording the same outcome again has no effect.
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if the call was never requested or was retracted;
    /// [`Conflict`](crate::ErrorKind::Conflict) if it has another outcome, which is kept.
    fn record_tool_call_done(&self, done: ToolCallDone) -> Result<(), DbError>;

    /// The call with this key, with its outcome if it has one.
    fn get_tool_call(
        &self,
        request_id: Uuid,
        call_id: &str,
    ) -> Result<Option<(ToolCallReq, Option<ToolCallDone>)>, DbError>;

    /// Lists the calls of a turn, latest start first. Calls with the same start are in the order in
    /// which they were recorded. A limit of 0 gives none.
    fn list_tool_calls_by_parent(
        &self,
        parent_id: Uuid,
        limit: usize,
    ) -> Result<Vec<(ToolCallReq, Option<ToolCallDone>)>, DbError>;
}

impl ObservabilityStore for Store {
    fn upsert_conversation_turn(&self, turn: ConversationTurn) -> Result<(), DbError> {
        self.record(turn).map(drop)
    }

    fn list_conversation_since(
        &self,
        since_ms: i64,
        limit: usize,
    ) -> Result<Vec<ConversationTurn>, DbError> {
        let query = TurnQuery {
            since: Some(since_ms),
            limit,
            ..TurnQuery::default()
        };
        self.turns(&query).map(|page| page.items)
    }

    fn record_tool_call_requested(&self, req: ToolCallReq) -> Result<(), DbError> {
        self.record(req).map(drop)
    }

    fn record_tool_call_done(&self, done: ToolCallDone) -> Result<(), DbError> {
        self.record(done).map(drop)
    }

    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>, DbError> {
        Store::get_tool_call(self, request_id, call_id)
    }

    fn list_tool_calls_by_parent(
        &self,
        parent_id: Uuid,
        limit: usize,
    ) -> Result<Vec<ToolCall>, DbError> {
        let query = CallQuery {
            parent_id: Some(parent_id),
            limit,
            ..CallQuery::default()
        };
        self.tool_calls(&query).map(|page| page.items)
    }
}

/// Implements the trait for pointers to a store.
macro_rules! through {
    ($($pointer:ty),+) => {
        $(impl<S: ObservabilityStore + ?Sized> ObservabilityStore for $pointer {
            fn upsert_conversation_turn(&self, turn: ConversationTurn) -> Result<(), DbError> {
                (**self).upsert_conversation_turn(turn)
            }

            fn list_conversation_since(
                &self,
                since_ms: i64,
                limit: usize,
            ) -> Result<Vec<ConversationTurn>, DbError> {
                (**self).list_conversation_since(since_ms, limit)
            }

            fn record_tool_call_requested(&self, req: ToolCallReq) -> Result<(), DbError> {
                (**self).record_tool_call_requested(req)
            }

            fn record_tool_call_done(&self, done: ToolCallDone) -> Result<(), DbError> {
                (**self).record_tool_call_done(done)
            }

            fn get_tool_call(
                &self,
                request_id: Uuid,
                call_id: &str,
            ) -> Result<Option<ToolCall>, DbError> {
                (**self).get_tool_call(request_id, call_id)
            }

            fn list_tool_calls_by_parent(
                &self,
                parent_id: Uuid,
                limit: usize,
            ) -> Result<Vec<ToolCall>, DbError> {
                (**self).list_tool_calls_by_parent(parent_id, limit)
            }
        })+
    };
}

through!(&S, Box<S>, Arc<S>);
