//! Full-text search: in the whole log, and for conversations.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::answer::Fault;
use super::super::bound::PAGE_BYTES_MAX;
use super::Call;
use super::given::{Limit, Listed, Time, length, limit, position};
use crate::collections::{
    ConversationQuery, Found, Order, SearchCursor, SearchMatch, SearchProgress, SearchQuery,
};
use crate::record::{Client, Conversation, ConversationStats, ConversationStatus, Kind};
use crate::wire::conversation::Whole;
use crate::wire::fields::{KindName, SearchAfter};

/// Maximum number of matches of a conversation.
const MATCHES_MAX: usize = 3;
/// Matches per search, since several may be of one conversation.
const AT_ONCE: usize = 100;

tools! {
    /// Finds a text in all records, newest first: turns, tool calls with their arguments and
    /// outcomes, proposals, messages, events, tasks, thoughts. Case-insensitive; no wildcards. Call
    /// it to find earlier work.
    log_search("Search the log", ReadsMuch, Kind::ALL) => search(Search {
        /// The text to find.
        #[schema(min_length = 1, max_length = 1024)]
        text: String,
        /// Only records of this kind.
        kind: Option<KindName>,
        /// Only records of this time or later.
        since: Option<Time>,
        /// Only records before this time.
        until: Option<Time>,
        /// Maximum number of results. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page.
        cursor: Option<SearchAfter>,
    })

    /// Finds conversations, newest first, by a text in their messages, or by project, workspace,
    /// client or status. Read one with conversation_get.
    conversation_search("Find conversations", ReadsMuch, [Kind::Conversations, Kind::Messages]) => conversations(Wanted {
        /// A text in one of the messages. Default: any.
        #[schema(min_length = 1, max_length = 1024)]
        text: Option<String>,
        /// Only conversations of this workspace.
        workspace: Option<String>,
        /// Only conversations of this project.
        project: Option<String>,
        /// Only this client, such as cli or vscode.
        client: Option<Client>,
        /// Only conversations with this status.
        status: Option<ConversationStatus>,
        /// With text: a message of this time or later. Else: created then or later.
        since: Option<Time>,
        /// Only before this time. See `since`.
        until: Option<Time>,
        /// Maximum number of results. Default: 100.
        limit: Option<Limit>,
        /// The next_cursor of the previous page. Pages may repeat conversations.
        cursor: Option<String>,
    })
}

fn search(call: &Call<'_>, given: Search) -> Result<Listed<SearchMatch>, Fault> {
    let mut query = SearchQuery {
        text: given.text,
        kind: given.kind.map(|kind| kind.0),
        since: given.since.map(|at| at.0),
        until: given.until.map(|at| at.0),
        limit: limit(given.limit),
        after: given.cursor.map(|cursor| cursor.0),
    };
    let mut found = looked(call, &query)?;
    let fitting = fitting(&found.matches);
    if fitting < found.matches.len() {
        // The cursor right after the returned matches.
        query.limit = fitting;
        found = looked(call, &query)?;
    }
    Ok(Listed::new("matches", found.matches, found.next))
}

/// The number of first items that fit an answer, at least one.
fn fitting<T: Serialize>(items: &[T]) -> usize {
    let mut bytes = 0;
    let fits = |item: &&T| {
        bytes += length(*item);
        bytes <= PAGE_BYTES_MAX
    };
    items.iter().take_while(fits).count().max(1)
}

fn looked(call: &Call<'_>, query: &SearchQuery) -> Result<Found, Fault> {
    let mut go_on = |it: SearchProgress| call.go_on(it.bytes_read, Some(it.bytes_all));
    let found = call.store.search_with(query, &mut go_on)?;
    if !found.is_whole {
        return Err(Fault::cancelled());
    }
    Ok(found)
}

/// A matching conversation.
#[derive(Debug, Serialize)]
struct One {
    conversation: Whole,
    /// The latest matching messages, up to three.
    matches: Vec<Value>,
}

impl One {
    fn of(conversation: (Conversation, ConversationStats)) -> One {
        One {
            conversation: Whole::of(conversation),
            matches: Vec::new(),
        }
    }
}

fn conversations(call: &Call<'_>, given: Wanted) -> Result<Listed<One>, Fault> {
    let query = ConversationQuery {
        workspace: given.workspace,
        project: given.project,
        client: given.client,
        status: given.status,
        since: given.since.map(|at| at.0),
        until: given.until.map(|at| at.0),
        order: Order::NewestFirst,
        limit: limit(given.limit),
        ..ConversationQuery::default()
    };
    let cursor = given.cursor.as_deref();
    if let Some(text) = given.text {
        return with_text(call, text, &query, position(cursor)?);
    }
    let offset = position(cursor)?.unwrap_or(0);
    listed(call, &ConversationQuery { offset, ..query })
}

fn listed(call: &Call<'_>, query: &ConversationQuery) -> Result<Listed<One>, Fault> {
    let list = call.store.conversations(query)?;
    let mut conversations: Vec<One> = list.items.into_iter().map(One::of).collect();
    conversations.truncate(fitting(&conversations));
    let next = query.offset.saturating_add(conversations.len());
    let next = Some(next).filter(|next| *next < list.total && !conversations.is_empty());
    Ok(Listed::new("conversations", conversations, next))
}

fn with_text(
    call: &Call<'_>,
    text: String,
    query: &ConversationQuery,
    after: Option<SearchCursor>,
) -> Result<Listed<One>, Fault> {
    let mut search = SearchQuery {
        text,
        kind: Some(Kind::Messages),
        since: query.since,
        until: query.until,
        limit: AT_ONCE,
        after,
    };
    let mut finds = Finds::default();
    loop {
        let page = looked(call, &search)?;
        let mut next = page.next;
        let mut is_full = false;
        for (place, found) in page.matches.into_iter().enumerate() {
            if finds.take(call, query, found)? {
                continue;
            }
            // The next page begins with this one.
            is_full = true;
            next = search.after;
            if place > 0 {
                search.limit = place;
                next = looked(call, &search)?.next;
            }
            break;
        }
        if is_full || next.is_none() {
            return Ok(Listed::new("conversations", finds.found, next));
        }
        search.after = next;
    }
}

/// Conversations with matches.
#[derive(Default)]
struct Finds {
    found: Vec<One>,
    /// The position of each; `None` if it is filtered out.
    places: BTreeMap<Uuid, Option<usize>>,
    bytes: usize,
}

impl Finds {
    /// Adds a match; `false` if it would exceed the maximum number of conversations.
    fn take(
        &mut self,
        call: &Call<'_>,
        query: &ConversationQuery,
        found: SearchMatch,
    ) -> Result<bool, Fault> {
        let Some(id) = found.conversation_id else {
            return Ok(true);
        };
        let place = if let Some(place) = self.places.get(&id) {
            *place
        } else {
            let conversation = call.store.get_conversation(id)?;
            let wanted = conversation.filter(|(it, _)| query.matches(it, &[]));
            let is_full = self.found.len() >= query.limit || self.bytes >= PAGE_BYTES_MAX;
            if wanted.is_some() && is_full {
                return Ok(false);
            }
            let place = wanted.map(|conversation| {
                let one = One::of(conversation);
                self.bytes += length(&one);
                self.found.push(one);
                self.found.len() - 1
            });
            self.places.insert(id, place);
            place
        };
        let matches = place.map(|place| &mut self.found[place].matches);
        if let Some(matches) = matches.filter(|matches| matches.len() < MATCHES_MAX) {
            let found = json!({
                "message_id": found.key,
                "at": found.at,
                "field": found.field,
                "snippet": found.snippet,
            });
            self.bytes += length(&found);
            matches.push(found);
        }
        Ok(true)
    }
}
