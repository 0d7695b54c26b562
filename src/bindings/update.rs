//! Changes of conversations, by name and value.

use serde_json::Value;
use uuid::Uuid;

use super::Item;
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Conversation, Dynamic, Kind, Record};
use crate::store::Store;

/// Changes fields of a conversation, as
/// [`update_conversation`](Store::update_conversation) does: no other writer comes between the
/// reading and the change. A null removes a value. Returns the conversation after the change.
///
/// ```
/// use decklog::{Client, Conversation, bindings};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = decklog::Store::open(dir.path().join("log"))?;
/// let id = uuid::Uuid::new_v4();
/// store.record(Conversation::new(id, Client::Web))?;
/// let changed = bindings::update_conversation(&store, id, &[("title", "Lengths".into())])?;
/// assert_eq!(serde_json::to_value(&changed).unwrap()["title"], "Lengths");
/// # Ok::<(), decklog::Error>(())
/// ```
///
/// # Errors
/// As [`update_conversation`](Store::update_conversation);
/// [`InvalidInput`](ErrorKind::InvalidInput) also for a field that a conversation does not have.
pub fn update_conversation(
    store: &Store,
    id: Uuid,
    fields: &[(&str, Dynamic<'_>)],
) -> Result<Item> {
    let same_id = Dynamic::Text(id.to_string().into());
    for (name, value) in fields {
        let is_fixed = match *name {
            "id" => *value != same_id,
            "kind" | "op" => true,
            _ => false,
        };
        if is_fixed {
            let message = format!("the {name} of a conversation cannot change");
            return Err(Error::invalid(message).with_field(name));
        }
    }
    let mut invalid = None;
    store.update_conversation(id, |conversation| match with_fields(conversation, fields) {
        Ok(changed) => *conversation = changed,
        Err(error) => invalid = Some(error),
    })?;
    if let Some(error) = invalid {
        return Err(error);
    }
    let changed = store.get_conversation(id)?;
    changed.map(Item::from).ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            format!("the log has no conversation {id}"),
        )
    })
}

fn with_fields(known: &Conversation, fields: &[(&str, Dynamic<'_>)]) -> Result<Conversation> {
    let unreadable = |e: serde_json::Error| Error::invalid(e.to_string());
    let mut object = serde_json::to_value(known).map_err(unreadable)?;
    for (name, value) in fields {
        let mut json = Vec::new();
        value.push_json(name, &mut json)?;
        object[*name] = serde_json::from_slice(&json).map_err(unreadable)?;
    }
    object["kind"] = Value::from(Kind::Conversations.stem());
    object["op"] = Value::from("updated");
    match Record::from_json(&object.to_string())? {
        Record::ConversationUpdated(changed) => Ok(changed),
        other => Err(Error::invalid(format!(
            "this is a record of {}",
            other.kind()
        ))),
    }
}
