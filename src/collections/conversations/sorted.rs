//! Lists of conversations by the totals of their messages. The index has the totals, so all
//! conversations that match are sorted, and only the lines of listed ones are read.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::ops::ControlFlow;

use super::list::Wanted;
use super::{ConversationList, ConversationQuery, KIND, Names, Whole, read, stats};
use crate::collections::RECORD_BYTES;
use crate::collections::page::Order;
use crate::collections::seqs::{each_row, read_each};
use crate::error::Result;
use crate::index::{Row, RowId, Table};
use crate::record::{Conversation, words};
use crate::store::{Inner, Reads, Snapshot};

words! {
    /// What a list of conversations is sorted by. Equal ones are sorted by `created_at`.
    ConversationSort("sort") {
        /// The time of creation.
        Newest = "newest",
        /// The cost of the messages.
        Cost = "cost",
        /// The prompt and answer tokens of the messages.
        Tokens = "tokens",
        /// The time from the creation to the latest message.
        Duration = "duration",
        /// The number of messages that report a failure, also of a tool call.
        Failures = "failures",
    }
}

/// A conversation that matches, with its sort key.
struct Ranked {
    key: u64,
    at: i64,
    seq: u64,
    row: RowId,
}

/// As [`list`](super::list::list), sorted by the totals of messages.
pub(super) fn list(
    inner: &Inner,
    wanted: &Wanted<'_>,
    sort: ConversationSort,
    user_ids: &[String],
    bytes_max: usize,
) -> Result<(ConversationList, bool)> {
    let query = wanted.query;
    let mut ranked = rank(inner, wanted, sort)?;
    let total = ranked.len();
    match query.order {
        // Those with equal times stay in the order in which they were recorded.
        Order::NewestFirst => {
            ranked.sort_unstable_by_key(|it| (Reverse((it.key, it.at)), it.seq));
        }
        Order::OldestFirst => ranked.sort_unstable_by_key(|it| (it.key, it.at, it.seq)),
    }
    let asked = ranked.into_iter().skip(query.offset).take(query.limit);
    let asked: Vec<(RowId, u64)> = asked.map(|it| (it.row, it.seq)).collect();
    let items = read_some(inner, query, user_ids, &asked, bytes_max)?;
    let is_more = !items.is_empty() && query.offset.saturating_add(items.len()) < total;
    Ok((ConversationList { items, total }, is_more))
}

fn rank(inner: &Inner, wanted: &Wanted<'_>, sort: ConversationSort) -> Result<Vec<Ranked>> {
    let select = inner.with_snapshot(|view| Ok(wanted.select(view.table(KIND)).0))?;
    let mut ranked = Vec::new();
    each_row(inner, KIND, select, wanted.bounds(), false, |view, id| {
        let table = view.table(KIND);
        let row = table.row(id).filter(|_| wanted.matches(table, id));
        ranked.extend(row.map(|row| Ranked {
            key: key_of(view, row, sort),
            at: row.at,
            seq: row.seq,
            row: id,
        }));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(ranked)
}

fn key_of(view: &Snapshot<'_>, row: &Row, sort: ConversationSort) -> u64 {
    let Some(sums) = view.index().conversation_totals().get(row.key()) else {
        return 0;
    };
    match sort {
        ConversationSort::Newest => 0,
        ConversationSort::Cost => sums.cost_nano_usd,
        ConversationSort::Tokens => sums.tokens_in.saturating_add(sums.tokens_out),
        ConversationSort::Duration => {
            u64::try_from(sums.latest.saturating_sub(row.at)).unwrap_or(0)
        }
        ConversationSort::Failures => sums.failures,
    }
}

/// Number of conversations that are read before their bytes are compared with the limit.
const AT_A_TIME: usize = 64;

/// Reads these rows, up to the one that exceeds this number of bytes. Rows of conversations that
/// were removed meanwhile are left out.
fn read_some(
    inner: &Inner,
    query: &ConversationQuery,
    user_ids: &[String],
    asked: &[(RowId, u64)],
    bytes_max: usize,
) -> Result<Vec<Whole>> {
    let names = RefCell::new(Names::default());
    // Row ids change when rows are removed.
    let row = |table: &Table, (id, seq): (RowId, u64)| {
        let row = table.row(id).filter(|row| row.seq == seq);
        row.map(|_| id)
    };
    let read = |view: &Snapshot<'_>, id| {
        let found = read(view, id)?.filter(|found| query.matches(found, user_ids));
        let Some(found) = found else {
            return Ok(None);
        };
        let stats = stats(view, &found, &mut names.borrow_mut())?;
        Ok(Some((found, stats)))
    };
    let (mut items, mut bytes) = (Vec::new(), 0_usize);
    for some in asked.chunks(AT_A_TIME) {
        let mut end = None;
        read_each(inner, KIND, some, row, read, |whole: Whole| {
            bytes = bytes.saturating_add(bytes_of(&whole.0));
            items.push(whole);
            if bytes >= bytes_max {
                end.get_or_insert(items.len());
            }
            Ok(())
        })?;
        if let Some(end) = end {
            items.truncate(end);
            break;
        }
    }
    Ok(items)
}

/// The approximate length of a conversation's line.
fn bytes_of(conversation: &Conversation) -> usize {
    let len = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let texts = [&conversation.last_error, &conversation.title];
    let names = [&conversation.workspace, &conversation.project];
    let texts = texts.into_iter().chain(names).map(len);
    RECORD_BYTES + texts.sum::<usize>()
}
