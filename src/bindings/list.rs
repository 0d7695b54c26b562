//! Lists of records of any kind.

use uuid::Uuid;

use super::Item;
use crate::collections::{
    Arguments, CallQuery, ConversationQuery, Cursor, EventQuery, HistoryQuery, MessageQuery,
    ProposalQuery, RollupQuery, TaskQuery, ThoughtQuery, TurnQuery, moment,
};
use crate::error::{Error, Result};
use crate::record::{Dynamic, Kind};
use crate::store::Store;

/// Number of records that are read at a time. Other uses of the handle wait meanwhile.
const PAGE: usize = 500;

/// A list of records, read page by page.
#[derive(Debug, Clone)]
pub struct List {
    query: Query,
    as_of: Option<i64>,
    /// Number of records that may still be read.
    left: usize,
}

/// Declares the queries that have pages with a cursor, each with the call that reads one.
macro_rules! queries {
    ($($variant:ident($type:ty) of $kind:ident = $page:expr;)+) => {
        #[derive(Debug, Clone)]
        enum Query {
            $($variant($type),)+
            Messages(Option<Uuid>, MessageQuery),
            Conversations(ConversationQuery),
            Rollups(RollupQuery),
        }

        impl Query {
            fn new(kind: Kind, arguments: &[(&str, Dynamic<'_>)]) -> Result<(Query, usize)> {
                Ok(match kind {
                    $(Kind::$kind => {
                        let query = <$type>::of(arguments)?;
                        let limit = query.limit;
                        (Query::$variant(query), limit)
                    })+
                    Kind::Messages => {
                        let (of, arguments) = taken("conversation_id", arguments);
                        let query = MessageQuery::of(&arguments)?;
                        let limit = query.limit;
                        (Query::Messages(of.map(conversation_id).transpose()?, query), limit)
                    }
                    Kind::Conversations => {
                        let query = ConversationQuery::of(arguments)?;
                        let limit = query.limit;
                        (Query::Conversations(query), limit)
                    }
                    Kind::Rollups => (Query::Rollups(RollupQuery::of(arguments)?), usize::MAX),
                })
            }

            /// The next records, and whether others may follow.
            fn next(&mut self, store: &Store, (as_of, limit): (Option<i64>, usize)) -> Result<(Vec<Item>, bool)> {
                Ok(match self {
                    $(Query::$variant(query) => {
                        query.limit = limit;
                        let read: fn(&Store, &$type, Option<i64>) -> _ = $page;
                        let page = read(store, query, as_of)?;
                        query.after = page.next;
                        items(page.items, page.next)
                    })+
                    Query::Messages(of, query) => {
                        query.limit = limit;
                        let page = store.messages(*of, query)?;
                        query.after = page.next;
                        items(page.items, page.next)
                    }
                    // Pages by position would miss or repeat conversations while others begin.
                    Query::Conversations(query) => {
                        (as_items(store.conversations(query)?.items), false)
                    }
                    Query::Rollups(query) => (as_items(store.rollups(query)?), false),
                })
            }
        }
    };
}

queries! {
    Turns(TurnQuery) of ConversationTurns = |store, query, as_of| store.as_of(as_of).turns(query);
    Calls(CallQuery) of ToolCalls = |store, query, as_of| store.as_of(as_of).tool_calls(query);
    Proposals(ProposalQuery) of CodeEditProposals = |store, query, as_of| store.as_of(as_of).proposals(query);
    Events(EventQuery) of Events = |store, query, _| store.events(query);
    Tasks(TaskQuery) of Inbox = |store, query, _| store.inbox().list(query);
    History(HistoryQuery) of History = |store, query, _| store.history_entries(query);
    Thoughts(ThoughtQuery) of ThoughtRecords = |store, query, _| store.thoughts().page(query);
}

fn as_items<T: Into<Item>>(records: Vec<T>) -> Vec<Item> {
    records.into_iter().map(Into::into).collect()
}

fn items<T: Into<Item>>(records: Vec<T>, next: Option<Cursor>) -> (Vec<Item>, bool) {
    (as_items(records), next.is_some())
}

/// Takes one of the arguments.
fn taken<'m, 'a>(
    wanted: &str,
    arguments: &'m [(&'a str, Dynamic<'a>)],
) -> (Option<&'m Dynamic<'a>>, Vec<(&'a str, Dynamic<'a>)>) {
    let is = |(name, value): &&(&str, Dynamic<'_>)| *name == wanted && *value != Dynamic::Null;
    let found = arguments.iter().find(is).map(|(_, value)| value);
    let others = arguments.iter().filter(|(name, _)| *name != wanted);
    (found, others.cloned().collect())
}

fn conversation_id(value: &Dynamic<'_>) -> Result<Uuid> {
    let text = match value {
        Dynamic::Text(text) => text,
        _ => "",
    };
    Uuid::try_parse(text)
        .map_err(|e| Error::invalid(format!("conversation_id: {e}")).with_field("conversation_id"))
}

/// An argument that is a time: epoch milliseconds, RFC 3339 or a day.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the argument.
pub fn time(name: &str, value: &Dynamic<'_>) -> Result<i64> {
    moment(value).map_err(|reason| Error::invalid(format!("{name}: {reason}")).with_field(name))
}

impl List {
    /// The records of a kind that match all arguments: the filters of the kind's query, such as
    /// [`CallQuery`], and its `since`, `until`, `order` and `limit`. Without `limit`, all of them.
    /// Turns, tool calls and proposals also take `as_of`, a time; messages take `conversation_id`.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), naming the invalid argument.
    pub fn new(kind: Kind, arguments: &[(&str, Dynamic<'_>)]) -> Result<List> {
        let (as_of, arguments) = match kind {
            Kind::ConversationTurns | Kind::ToolCalls | Kind::CodeEditProposals => {
                taken("as_of", arguments)
            }
            _ => (None, arguments.to_vec()),
        };
        let as_of = as_of.map(|value| time("as_of", value)).transpose()?;
        let (query, left) = Query::new(kind, &arguments)?;
        Ok(List { query, as_of, left })
    }

    /// The next records; empty at the end. It sees what was recorded since the one before, unless
    /// that was the end.
    pub fn next(&mut self, store: &Store) -> Result<Vec<Item>> {
        while self.left > 0 {
            let (items, has_more) = self.query.next(store, (self.as_of, self.left.min(PAGE)))?;
            self.left = if has_more {
                self.left.saturating_sub(items.len())
            } else {
                0
            };
            if !items.is_empty() {
                return Ok(items);
            }
        }
        Ok(Vec::new())
    }
}
