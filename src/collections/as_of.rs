//! The log as of a past time.
//!
//! Every assertion and retraction takes effect at its own time and stays in effect until the time
//! of a later line with the same key. So the state of a key at a given time is the line with the
//! greatest sequence number among those whose time is not later.

use uuid::Uuid;

use super::page::Page;
use super::{CallQuery, ProposalQuery, TurnQuery, calls, proposals, turns};
use crate::error::Result;
use crate::index::RowId;
use crate::line::{Decoded, Op};
use crate::record::{CodeEditProposal, ConversationTurn, Kind, ToolCall};
use crate::store::{Reads, Snapshot, Store};

/// The state of a store at a point in time. Created by [`Store::as_of`].
#[derive(Debug, Clone, Copy)]
pub struct AsOf<'a> {
    store: &'a Store,
    /// `None`: the current state.
    at: Option<i64>,
}

impl Store {
    /// The turns, tool calls and proposals as of a point in time, in epoch milliseconds. `None`:
    /// the current state.
    ///
    /// ```
    /// # use decklog::{ConversationTurn, Store, TurnKind, Validity};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let turn = ConversationTurn {
    /// #     id: uuid::Uuid::new_v4(), parent_id: None, message_id: uuid::Uuid::new_v4(),
    /// #     kind: TurnKind::User, content: String::new(), created_at: Validity::at(100), thread_id: None,
    /// # };
    /// store.record(turn.clone())?;
    /// store.record(ConversationTurn { created_at: Validity::retracted(200), ..turn.clone() })?;
    /// assert_eq!(store.as_of(150).get_turn(turn.id)?, Some(turn.clone()));
    /// assert_eq!(store.as_of(250).get_turn(turn.id)?, None);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn as_of(&self, at: impl Into<Option<i64>>) -> AsOf<'_> {
        let at = at.into();
        AsOf { store: self, at }
    }
}

impl AsOf<'_> {
    /// The turn with this id; `None` if it did not exist or was retracted at that time.
    pub fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        turns::get(self.store.inner(), id, self.at)
    }

    /// Lists the turns that existed and were not retracted at that time, in pages.
    pub fn turns(&self, query: &TurnQuery) -> Result<Page<ConversationTurn>> {
        self.turns_within(query, usize::MAX)
    }

    /// As [`turns`](AsOf::turns). A page also ends with the line that brings the length of its
    /// lines to this number of bytes.
    pub(crate) fn turns_within(
        &self,
        query: &TurnQuery,
        bytes_max: usize,
    ) -> Result<Page<ConversationTurn>> {
        turns::list(self.store.inner(), query, bytes_max, self.at)
    }

    /// The tool call with this key, with its outcome if it had one; `None` if it did not exist or
    /// was retracted at that time.
    pub fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        calls::get(self.store.inner(), request_id, call_id, self.at)
    }

    /// Lists the tool calls that existed and were not retracted at that time, in pages.
    pub fn tool_calls(&self, query: &CallQuery) -> Result<Page<ToolCall>> {
        self.tool_calls_within(query, usize::MAX)
    }

    /// As [`tool_calls`](AsOf::tool_calls). A page also ends with the line that brings the length
    /// of its lines to this number of bytes.
    pub(crate) fn tool_calls_within(
        &self,
        query: &CallQuery,
        bytes_max: usize,
    ) -> Result<Page<ToolCall>> {
        calls::list(self.store.inner(), query, bytes_max, self.at)
    }

    /// The proposal of a request, with its status at that time; `None` if it did not exist or was
    /// retracted.
    pub fn get_proposal(&self, request_id: Uuid) -> Result<Option<CodeEditProposal>> {
        let inner = self.store.inner();
        inner.with_snapshot(|view| proposals::get(view, request_id, self.at))
    }

    /// Lists the proposals that existed and were not retracted at that time, in pages.
    pub fn proposals(&self, query: &ProposalQuery) -> Result<Page<CodeEditProposal>> {
        self.proposals_within(query, usize::MAX)
    }

    /// As [`proposals`](AsOf::proposals). A page also ends with the line that brings the length of
    /// its lines to this number of bytes.
    pub(crate) fn proposals_within(
        &self,
        query: &ProposalQuery,
        bytes_max: usize,
    ) -> Result<Page<CodeEditProposal>> {
        proposals::list(self.store.inner(), query, bytes_max, self.at)
    }
}

/// The assertion of a row that was in effect at a time.
pub(super) fn assertion(
    view: &Snapshot<'_>,
    kind: Kind,
    id: RowId,
    at: i64,
) -> Result<Option<Decoded>> {
    let table = view.table(kind);
    let only = table.row(id).map(|row| row.asserted);
    let only = only.filter(|asserted| asserted.is_some());
    let lines = table.history(id).unwrap_or(only.as_slice());
    for loc in lines.iter().rev() {
        let line = view.read(kind, *loc)?;
        if line.record.at() <= at {
            return Ok(Some(line).filter(|line| line.op != Op::Retracted));
        }
    }
    Ok(None)
}
