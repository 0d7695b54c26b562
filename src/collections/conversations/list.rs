//! Lists of conversations. The index decides which ones match; only the lines of listed ones are
//! read.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;

use super::super::page::{Cursor, Order, PartEnd, Walk, cursor_at, ordered, page};
use super::{
    ConversationList, ConversationQuery, ConversationSort, KIND, Names, is_within, read, sorted,
    stats,
};
use crate::collections::EVERYWHERE;
use crate::collections::seqs::each_row;
use crate::error::Result;
use crate::index::{Hasher, Position, RowId, Select, Table, status_state};
use crate::line::Op;
use crate::record::Client;
use crate::store::{Inner, Reads};

// As in [`Kind::lookups`](crate::record::Kind::lookups).
const WORKSPACE: usize = 0;
pub(super) const PROJECT: usize = 1;
const CLIENT: usize = 2;
const USER: usize = 3;
const SESSION: usize = 4;
pub(in crate::collections) const PARENT: usize = 5;
const AGENT: usize = 6;

/// The filters of a query, in terms of the index.
pub(super) struct Wanted<'q> {
    pub(super) query: &'q ConversationQuery,
    /// Lookup fields, each with the accepted hashes.
    values: Vec<(usize, Vec<(u32, u32)>)>,
    state: Option<Op>,
}

impl Wanted<'_> {
    fn new<'q>(
        query: &'q ConversationQuery,
        user_ids: &[String],
        workspaces: Option<Vec<(u32, u32)>>,
        hasher: Hasher,
    ) -> Wanted<'q> {
        let hash = |value: &str| (hasher.lookup(value), hasher.check(value));
        let one = |field: usize, value: Option<&str>| Some((field, vec![hash(value?)]));
        let user = query.user_id.as_ref().map(|_| {
            let forms = user_ids.iter().map(|id| hash(id));
            (USER, forms.collect())
        });
        let parent_id = query.parent_id.map(|id| id.to_string());
        let values = [
            one(PARENT, parent_id.as_deref()),
            one(SESSION, query.session_id.as_deref()),
            user,
            one(AGENT, query.agent.as_deref()),
            one(PROJECT, query.project.as_deref()),
            workspaces.map(|forms| (WORKSPACE, forms)),
            one(CLIENT, query.client.as_ref().map(Client::as_str)),
        ];
        Wanted {
            query,
            values: values.into_iter().flatten().collect(),
            state: query.status.map(status_state),
        }
    }

    pub(super) fn matches(&self, table: &Table, row: RowId) -> bool {
        let has_value = |(field, hashes): &(usize, Vec<(u32, u32)>)| {
            let mut hashes = hashes.iter();
            hashes.any(|hash| table.has_value(row, *field, *hash))
        };
        let is_at = |state| table.row(row).is_some_and(|row| row.state == state);
        self.state.is_none_or(is_at) && self.values.iter().all(has_value)
    }

    /// The range of positions that the time bounds select.
    pub(super) fn bounds(&self) -> (Position, Position) {
        let (start, end) = EVERYWHERE;
        (
            self.query.since.map_or(start, Position::before),
            self.query.until.map_or(end, Position::before),
        )
    }

    /// The shortest index list that contains all matching rows. The count is given if that list
    /// contains only matching rows.
    pub(super) fn select(&self, table: &Table) -> (Select, Option<usize>) {
        let (from, to) = self.bounds();
        let mut lists = Vec::new();
        for (field, hashes) in &self.values {
            let list = |(hash, _): &(u32, u32)| Select::Lookup(*field, *hash);
            let is_used = |list: &Select| {
                let (start, end) = EVERYWHERE;
                table.walk(*list, start, end).next().is_some()
            };
            // A user's id has several forms; usually the log has one of them.
            let mut used = hashes.iter().map(list).filter(is_used);
            match (used.next(), used.next()) {
                (Some(list), None) => lists.push(list),
                (None, _) => lists.extend(hashes.first().map(list)),
                (Some(_), Some(_)) => {}
            }
        }
        lists.extend(self.state.map(Select::State));
        let criteria = self.values.len() + usize::from(self.state.is_some());
        if lists.len() < criteria || criteria == 0 {
            lists.push(Select::All);
        }
        let counted = lists.into_iter();
        let counted = counted.map(|list| (table.walk(list, from, to).count(), list));
        let shortest = counted.min_by_key(|(count, _)| *count);
        let (count, list) = shortest.unwrap_or((0, Select::All));
        let has_no_others = table.is_of_one(list) && criteria == usize::from(list != Select::All);
        (list, has_no_others.then_some(count))
    }

    fn walk(&self, select: Select, limit: usize, after: Option<Cursor>) -> Walk {
        let walk = Walk::all(self.query.order, limit, after).of(select);
        walk.within(self.query.since, self.query.until)
    }

    /// Number of matching conversations.
    fn total(&self, inner: &Inner) -> Result<usize> {
        let (select, count) = inner.with_snapshot(|view| Ok(self.select(view.table(KIND))))?;
        if let Some(count) = count {
            return Ok(count);
        }
        let mut total = 0;
        each_row(inner, KIND, select, self.bounds(), false, |view, row| {
            total += usize::from(self.matches(view.table(KIND), row));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(total)
    }

    /// The cursor after the first `passed` matching rows, at least one; `None` if no row follows.
    fn place_after(&self, inner: &Inner, passed: usize) -> Result<Option<Cursor>> {
        let (left, after) = (Cell::new(passed), Cell::new(None));
        loop {
            let is_end = inner.with_snapshot(|view| {
                let table = view.table(KIND);
                let (select, count) = self.select(table);
                let mut walk = self.walk(select, usize::MAX, after.get());
                if let Some(count) = count.filter(|_| after.get().is_none()) {
                    match self.jump(table, &mut walk, passed, count) {
                        Some(rest) => left.set(rest),
                        None => return Ok(true),
                    }
                }
                let mut end = PartEnd::new();
                for position in ordered(table, walk) {
                    left.set(left.get() - usize::from(self.matches(table, position.row)));
                    after.set(Some(cursor_at(position)));
                    if left.get() == 0 || end.has_come(false) {
                        return Ok(false);
                    }
                }
                Ok(true)
            })?;
            if is_end {
                return Ok(None);
            }
            if left.get() == 0 {
                return Ok(after.get());
            }
        }
    }

    /// Moves the start of a walk over `count` matching rows to the time of row number `passed`.
    /// Returns how many rows at that time are still to be skipped, at least one; `None` if no row
    /// follows.
    fn jump(&self, table: &Table, walk: &mut Walk, passed: usize, count: usize) -> Option<usize> {
        let last = passed.checked_sub(1)?;
        let is_newest_first = self.query.order == Order::NewestFirst;
        let others = count.checked_sub(passed).filter(|others| *others > 0)?;
        let from_first = if is_newest_first { others } else { last };
        let (from, to) = self.bounds();
        let row = table.walk(walk.select, from, to).nth(from_first)?;
        let at = table.row(row)?.at;
        let before = if is_newest_first {
            walk.until = walk.until.min(at.saturating_add(1));
            (Position::before(walk.until), to)
        } else {
            walk.since = at;
            (from, Position::before(at))
        };
        let before = table.walk(walk.select, before.0, before.1).count();
        passed.checked_sub(before).filter(|left| *left > 0)
    }
}

/// The hashes of the workspaces that are this directory or below it. The index has only hashes, so
/// one line of each workspace is read.
fn workspaces(inner: &Inner, directory: &str) -> Result<Vec<(u32, u32)>> {
    let mut seen = HashMap::new();
    each_row(inner, KIND, Select::All, EVERYWHERE, false, |view, row| {
        if let Some(value) = view.table(KIND).value(row, WORKSPACE)
            && !seen.contains_key(&value)
        {
            let workspace = read(view, row)?.and_then(|found| found.workspace);
            let is_within = |workspace: String| is_within(directory, &workspace);
            seen.insert(value, workspace.is_some_and(is_within));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    let within = seen.into_iter();
    Ok(within
        .filter_map(|(value, is_within)| is_within.then_some(value))
        .collect())
}

/// Lists the conversations that match a query, and reports whether more follow. `user_ids` are the
/// forms of the user id in the query.
pub(super) fn list(
    inner: &Inner,
    query: &ConversationQuery,
    user_ids: &[String],
    bytes_max: usize,
) -> Result<(ConversationList, bool)> {
    let workspace = query.workspace.as_deref();
    let workspaces = workspace.map(|directory| workspaces(inner, directory));
    let wanted = Wanted::new(query, user_ids, workspaces.transpose()?, inner.hasher());
    let sort = query.sort.filter(|sort| *sort != ConversationSort::Newest);
    if let Some(sort) = sort {
        return sorted::list(inner, &wanted, sort, user_ids, bytes_max);
    }
    let mut list = ConversationList {
        items: Vec::new(),
        total: 0,
    };
    let after = match query.offset {
        0 => None,
        passed => wanted.place_after(inner, passed)?,
    };
    if query.limit > 0 && (query.offset == 0 || after.is_some()) {
        let select = inner.with_snapshot(|view| Ok(wanted.select(view.table(KIND)).0))?;
        let walk = Walk {
            bytes_max,
            ..wanted.walk(select, query.limit, after)
        };
        let names = RefCell::new(Names::default());
        let matches = |table: &Table, row| wanted.matches(table, row);
        let page = page(inner, KIND, walk, matches, |view, row| {
            let found = read(view, row)?.filter(|found| query.matches(found, user_ids));
            let Some(found) = found else {
                return Ok(None);
            };
            let stats = stats(view, &found, &mut names.borrow_mut())?;
            Ok(Some((found.created_at.at(), (found, stats))))
        })?;
        list.items = page.items;
        if page.next.is_none() {
            list.total = query.offset + list.items.len();
            return Ok((list, false));
        }
    }
    list.total = wanted.total(inner)?;
    let is_more = !list.items.is_empty();
    if is_more {
        // Conversations may have been removed meanwhile.
        let passed = query.offset.saturating_add(list.items.len());
        list.total = list.total.max(passed);
    }
    Ok((list, is_more))
}
