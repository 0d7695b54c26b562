//! The log as of a past time.
//!
//! Every assertion and retraction takes effect at its own time and stays in effect until the time
//! of a later line with the same key. So the state of a key at a given time is the line with the
//! greatest sequence number among those whose time is not later.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::page::{Page, Walk, page};
use super::{CallQuery, ProposalQuery, TurnQuery, get_row, lower};
use crate::error::Result;
use crate::index::{Hasher, RowId, Table};
use crate::line::{Decoded, Op};
use crate::record::{CodeEditProposal, ConversationTurn, Kind, ToolCall};
use crate::store::{Reads, RowLines, Snapshot, Store, Unclear};

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

/// A query of a list, and how the records that it lists are read.
pub(crate) trait Lists {
    type Item;
    const KIND: Kind;

    /// The rows to read. `is_now`: as of the current state, which is the only one that the index
    /// knows.
    fn walk(&self, hasher: Hasher, is_now: bool) -> Walk;

    /// Whether a row may match, according to the index.
    fn may_match(&self, _: &Table, _: RowId) -> bool {
        true
    }

    fn matches(&self, item: &Self::Item) -> bool;

    /// The record of a row, as it is now or as of a time; `None` if it does not exist or is
    /// retracted.
    fn read(view: &Snapshot<'_>, row: RowId, as_of: Option<i64>) -> Result<Option<Self::Item>>;

    /// Whether [`read_lines`](Self::read_lines) can read a record.
    const IS_IN_LINES: bool = false;

    /// The record of a row as it is now, read from its lines if these are as decklog wrote them.
    fn read_lines(_: &RowLines<'_>) -> Result<Self::Item, Unclear> {
        Err(Unclear)
    }

    /// The record's own time, if it is also listed as of a past time.
    fn at(_: &Self::Item) -> i64 {
        0
    }
}

impl AsOf<'_> {
    /// The record with this key. The index has only hashes, so `is` checks the record's own key.
    pub(super) fn get<Q: Lists>(
        &self,
        key: [&str; 2],
        is: impl Fn(&Q::Item) -> bool,
    ) -> Result<Option<Q::Item>> {
        let read = |view: &Snapshot<'_>, row| Q::read(view, row, self.at);
        let inner = self.store.inner();
        let quick = (Q::IS_IN_LINES && self.at.is_none()).then_some(Q::read_lines);
        let found = get_row(inner, Q::KIND, key, quick, read)?;
        Ok(found.filter(is))
    }

    /// Lists records, in pages. A page also ends with the line that brings the length of its lines
    /// to this number of bytes.
    pub(crate) fn list<Q: Lists>(&self, query: &Q, bytes_max: usize) -> Result<Page<Q::Item>> {
        let inner = self.store.inner();
        let walk = Walk {
            bytes_max,
            as_of: self.at,
            ..query.walk(inner.hasher(), self.at.is_none())
        };
        let may_match = |table: &Table, row| query.may_match(table, row);
        page(inner, Q::KIND, walk, may_match, |view, row| {
            let item = Q::read(view, row, self.at)?.filter(|item| query.matches(item));
            Ok(item.map(|item| (Q::at(&item), item)))
        })
    }

    /// The turn with this id; `None` if it did not exist or was retracted at that time.
    pub fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        let mut text = [0; Hyphenated::LENGTH];
        self.get::<TurnQuery>([lower(id, &mut text), ""], |turn| turn.id == id)
    }

    /// Lists the turns that existed and were not retracted at that time, in pages.
    pub fn turns(&self, query: &TurnQuery) -> Result<Page<ConversationTurn>> {
        self.list(query, usize::MAX)
    }

    /// The tool call with this key, with its outcome if it had one; `None` if it did not exist or
    /// was retracted at that time.
    pub fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        let mut text = [0; Hyphenated::LENGTH];
        let is_it = |(req, _): &ToolCall| req.request_id == request_id && req.call_id == call_id;
        self.get::<CallQuery>([lower(request_id, &mut text), call_id], is_it)
    }

    /// Lists the tool calls that existed and were not retracted at that time, in pages.
    pub fn tool_calls(&self, query: &CallQuery) -> Result<Page<ToolCall>> {
        self.list(query, usize::MAX)
    }

    /// The proposal of a request, with its status at that time; `None` if it did not exist or was
    /// retracted.
    pub fn get_proposal(&self, request_id: Uuid) -> Result<Option<CodeEditProposal>> {
        let mut text = [0; Hyphenated::LENGTH];
        let is_it = |proposal: &CodeEditProposal| proposal.request_id == request_id;
        self.get::<ProposalQuery>([lower(request_id, &mut text), ""], is_it)
    }

    /// Lists the proposals that existed and were not retracted at that time, in pages.
    pub fn proposals(&self, query: &ProposalQuery) -> Result<Page<CodeEditProposal>> {
        self.list(query, usize::MAX)
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
