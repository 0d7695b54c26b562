//! Messages: added once, each at its own place in its conversation.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::conversations::check_known;
use super::page::{Cursor, Order, Page, Walk, page};
use super::{Ack, collision, lower, number, says, standing_as, unchanged};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Position, RowId, Select};
use crate::record::{ConversationMessage, Kind, Record, same_json};
use crate::store::{Inner, Kept, Reads, Store, Txn, View};

const KIND: Kind = Kind::Messages;

/// Which messages of a conversation to list.
#[derive(Debug, Clone)]
pub struct MessageQuery {
    /// Only messages with this sequence or a later one.
    pub from: Option<i64>,
    /// Only messages with an earlier sequence.
    pub until: Option<i64>,
    /// By sequence. Default: oldest first.
    pub order: Order,
    /// At most this many; 0 gives none. Default: 100.
    pub limit: usize,
    /// Goes on where an earlier page ended.
    pub after: Option<Cursor>,
}

impl Default for MessageQuery {
    fn default() -> MessageQuery {
        MessageQuery {
            from: None,
            until: None,
            order: Order::OldestFirst,
            limit: 100,
            after: None,
        }
    }
}

impl Store {
    /// The message with this id.
    pub fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        self.inner().ask(|view| {
            let mut text = [0; Hyphenated::LENGTH];
            let Some((row, _)) = view.find(KIND, [lower(id, &mut text), ""]) else {
                return Ok(None);
            };
            view.expect(KIND, std::iter::once(row));
            Ok(read(view, row)?.filter(|message| message.id == id))
        })
    }

    /// The messages of a conversation, in the order of their sequence, page by page: 100 unless the
    /// query says otherwise. An unknown conversation has none.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, MessageQuery, Order, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let id = uuid::Uuid::new_v4();
    /// # store.record(Conversation::new(id, Client::Api))?;
    /// # store.record(ConversationMessage::new(id, Role::User, "hi"))?;
    /// let newest = MessageQuery { order: Order::NewestFirst, limit: 1, ..MessageQuery::default() };
    /// assert_eq!(store.messages(id, &newest)?.items[0].sequence, Some(1));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn messages(
        &self,
        conversation_id: Uuid,
        query: &MessageQuery,
    ) -> Result<Page<ConversationMessage>> {
        list(self.inner(), conversation_id, query)
    }

    /// As [`messages`](Store::messages), each as a JSON object; a page ends with the line that makes
    /// its lines this long.
    #[cfg(feature = "http")]
    pub(crate) fn messages_as_json(
        &self,
        conversation_id: Uuid,
        query: &MessageQuery,
        bytes_max: usize,
    ) -> Result<Page<String>> {
        let mut text = [0; Hyphenated::LENGTH];
        let conversation = lower(conversation_id, &mut text);
        list_as(
            self.inner(),
            conversation_id,
            query,
            bytes_max,
            |view, row| read_json(view, row, conversation),
        )
    }
}

pub(super) fn list(
    inner: &Inner,
    conversation_id: Uuid,
    query: &MessageQuery,
) -> Result<Page<ConversationMessage>> {
    list_as(inner, conversation_id, query, usize::MAX, |view, row| {
        let message = read(view, row)?;
        Ok(message.filter(|found| found.conversation_id == conversation_id))
    })
}

/// As [`list`], of what `read` makes of the messages that may be of the conversation.
fn list_as<T>(
    inner: &Inner,
    conversation_id: Uuid,
    query: &MessageQuery,
    bytes_max: usize,
    read: impl Fn(&View<'_>, RowId) -> Result<Option<T>>,
) -> Result<Page<T>> {
    let mut text = [0; Hyphenated::LENGTH];
    let hash = inner.hasher().lookup(lower(conversation_id, &mut text));
    let walk = Walk {
        select: Select::Lookup(0, hash),
        since: query.from.unwrap_or(i64::MIN),
        until: query.until.unwrap_or(i64::MAX),
        order: query.order,
        limit: query.limit,
        bytes_max,
        after: query.after,
        as_of: None,
    };
    // No one asks for what was so at another time, so that theirs need not be known.
    page(inner, KIND, walk, |view, row| {
        Ok(read(view, row)?.map(|item| (0, item)))
    })
}

/// A message as JSON, by the members that come first in its line where that is as it was written:
/// to read it and write it anew takes ten times as long.
#[cfg(feature = "http")]
fn read_json(view: &View<'_>, id: RowId, conversation: &str) -> Result<Option<String>> {
    let row = view.table(KIND).row(id).filter(|row| row.stands());
    let Some(row) = row else { return Ok(None) };
    if let Some(json) = view.read_json(KIND, row.asserted)? {
        // `{"id":"…","conversation_id":"…"`, both of the length of a UUID.
        const MEMBER: &str = "\",\"conversation_id\":\"";
        const AT: usize = "{\"id\":\"".len() + Hyphenated::LENGTH;
        let of = json.get(AT..).and_then(|rest| rest.strip_prefix(MEMBER));
        if of.is_some_and(|of| of.starts_with(conversation)) {
            return Ok(Some(json));
        }
    }
    let message = read(view, id)?;
    let message = message.filter(|found| found.conversation_id.to_string() == conversation);
    let json = message.map(|message| serde_json::to_string(&message));
    json.transpose().map_err(|e| Error::invalid(e.to_string()))
}

/// `is_untimed`: its time is not its own, and is not compared.
pub(super) fn put(txn: &mut Txn<'_>, kept: &mut Kept, is_untimed: bool) -> Result<Ack> {
    let message = message_in(kept.record())?;
    let conflict = |message| Err(Error::new(ErrorKind::Conflict, message));
    let conversation = message.conversation_id;
    check_known(txn, conversation)?;
    if let Some((_, row)) = txn.find(KIND, [&message.id.to_string(), ""]) {
        let decoded = txn.read(KIND, row.asserted)?;
        let known = message_in(&decoded.record)?;
        let same =
            |known: &Record| message_in(known).is_ok_and(|known| same(known, message, is_untimed));
        if !says(txn, &decoded.record, same)? {
            return conflict(format!(
                "the id is that of message {} of conversation {}, which says something else: the first stands",
                known.sequence.unwrap_or_default(),
                known.conversation_id
            ));
        }
        let ack = unchanged(txn, row.asserted, decoded.seq.unwrap_or(0))?;
        return Ok(ack.assigning(known.sequence));
    }
    let sequence = number(
        "sequence",
        message.sequence,
        last_sequence(txn, conversation),
    )?;
    if message.sequence.is_some()
        && let Some(holder) = at_sequence(txn, conversation, sequence)?
    {
        return conflict(format!(
            "sequence {sequence} of conversation {conversation} is taken by message {}: give another, or none for the next one",
            holder.id
        ));
    }
    kept.set_sequence(sequence);
    let seq = txn.push(kept, None)?;
    Ok(Ack::added(seq).assigning(Some(sequence)))
}

fn message_in(record: &Record) -> Result<&ConversationMessage> {
    match record {
        Record::Message(message) => Ok(message),
        _ => Err(collision()),
    }
}

/// Whether the log has this message in another conversation than this.
pub(super) fn is_of_another(from: &impl Reads, id: Uuid, conversation: Uuid) -> bool {
    let hash = from.hasher().lookup(&conversation.to_string());
    let found = from.find(KIND, [&id.to_string(), ""]);
    // Other hashes are of other conversations; no need to read the line.
    found.is_some_and(|(row, _)| !from.table(KIND).has_lookup(row, 0, hash))
}

fn last_sequence(from: &impl Reads, conversation: Uuid) -> i64 {
    let key = from.hasher().key([&conversation.to_string(), ""]);
    let talk = from.index().talks().get(key);
    talk.map_or(0, |talk| talk.last_sequence.max(0))
}

fn at_sequence(
    from: &impl Reads,
    conversation: Uuid,
    sequence: i64,
) -> Result<Option<ConversationMessage>> {
    let hash = from.hasher().lookup(&conversation.to_string());
    let (start, end) = (
        Position::before(sequence),
        Position::before(sequence.saturating_add(1)),
    );
    let rows = from.table(KIND).walk(Select::Lookup(0, hash), start, end);
    for row in rows {
        let message = read(from, row)?;
        if let Some(message) = message.filter(|found| found.conversation_id == conversation) {
            return Ok(Some(message));
        }
    }
    Ok(None)
}

/// Whether a message that is handed over says what the log has; without a sequence it takes any,
/// and without a time, too.
fn same(known: &ConversationMessage, message: &ConversationMessage, is_untimed: bool) -> bool {
    let rest = |message: &ConversationMessage| ConversationMessage {
        sequence: message.sequence.or(known.sequence),
        timestamp: if is_untimed { known } else { message }.timestamp.clone(),
        tool_args: None,
        inference_metadata: None,
        ..message.clone()
    };
    let json = |of: fn(&ConversationMessage) -> Option<&str>| same_json(of(known), of(message));
    json(|message| message.tool_args.as_deref())
        && json(|message| message.inference_metadata.as_deref())
        && rest(known) == rest(message)
}

fn read(from: &impl Reads, id: RowId) -> Result<Option<ConversationMessage>> {
    let message: Option<Box<ConversationMessage>> = standing_as(from, id)?;
    Ok(message.map(|message| *message))
}
