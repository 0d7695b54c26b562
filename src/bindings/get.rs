//! Records by key.

use super::Item;
use crate::error::{Error, Result};
use crate::record::{Key, Kind};
use crate::store::Store;

/// The current version of the record with this key; `None` if the log has none, or it is retracted.
///
/// ```
/// use decklog::{Key, bindings};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = decklog::Store::open(dir.path().join("log"))?;
/// assert!(bindings::get(&store, &Key::Event(1), None)?.is_none());
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// `as_of` is a time in epoch milliseconds: a turn, a tool call or a proposal is read as it was
/// then.
pub fn get(store: &Store, key: &Key, as_of: Option<i64>) -> Result<Option<Item>> {
    let then = store.as_of(as_of);
    Ok(match key {
        Key::Turn(id) => then.get_turn(*id)?.map(Item::from),
        Key::ToolCall {
            request_id,
            call_id,
        } => then.get_tool_call(*request_id, call_id)?.map(Item::from),
        Key::Proposal(id) => then.get_proposal(*id)?.map(Item::from),
        Key::Conversation(id) => store.get_conversation(*id)?.map(Item::from),
        Key::Message(id) => store.get_message(*id)?.map(Item::from),
        Key::Event(id) => store.get_event(*id)?.map(Item::from),
        Key::Task(id) => store.inbox().get(*id)?.map(Item::from),
        Key::HistoryEntry(id) => store.get_history_entry(*id)?.map(Item::from),
        Key::Thought(id) => store.thoughts().get(id)?.map(Item::from),
    })
}

/// The key of a record of a kind: its id, and for a tool call the ids of its request and itself.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput), saying what form an id of this kind has.
pub fn key(kind: Kind, id: &str, call_id: &str) -> Result<Key> {
    Key::of_parts(kind, [id.to_owned(), call_id.to_owned()]).ok_or_else(|| {
        let form = match kind {
            Kind::Events | Kind::Inbox | Kind::History => "is a whole number",
            Kind::ThoughtRecords => "is a text",
            Kind::Rollups => "does not exist",
            _ => "is a UUID, such as 67e55044-10b1-426f-9247-bb680e5fe0c8",
        };
        Error::invalid(format!("id is {id:?}: an id of {kind} {form}")).with_field("id")
    })
}
