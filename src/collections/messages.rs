//! Messages: added once, each with a sequence number that is unique in its conversation.

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::conversations::{check_known, sums};
use super::page::{Cursor, Page, Walk, page};
use super::query::{is_of_time, query};
use super::{
    Ack, conflict, get_row, lower, number, put_again, read_as, record_in, selected, standing_as,
};
use crate::error::Result;
use crate::index::{Hasher, Position, RowId, Select, Table};
use crate::record::{ConversationMessage, Kind, Role, same_json};
use crate::store::{Inner, Reads, Redacted, RowLines, Snapshot, Store, Txn};

const KIND: Kind = Kind::Messages;

/// A message as a record holds it.
type Held = Box<ConversationMessage>;

query! {
    /// Selects the messages to list.
    MessageQuery {
        filters {
            /// Only messages with this sequence or a later one.
            #[cfg_attr(feature = "http", serde(deserialize_with = "super::query::integer"))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::record::AnyInt>))]
            from_sequence: i64 = "from-sequence" "N",
            /// Only messages with an earlier sequence.
            #[cfg_attr(feature = "http", serde(deserialize_with = "super::query::integer"))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::record::AnyInt>))]
            until_sequence: i64 = "until-sequence" "N",
            /// Only messages in this role.
            role: Role = "role" "ROLE",
            /// Only messages that this model (`model_used`) answered.
            #[cfg_attr(feature = "http", serde(rename = "model"))]
            model_used: String = "model" "NAME",
            /// Only messages answered under this configuration (`config_used`).
            #[cfg_attr(feature = "http", serde(rename = "config"))]
            config_used: String = "config" "NAME",
            /// Only messages with an error (`true`), or without one (`false`).
            #[cfg_attr(feature = "cli", arg(num_args = 0..=1, require_equals = true, default_missing_value = "true"))]
            error: bool = "error" "BOOL",
        }
        times {
            /// Only messages of this time or later.
            since,
            /// Only messages before this time.
            until,
        }
        order {
            /// By sequence within a conversation, else by time. Default: oldest first (`asc`).
            OldestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl MessageQuery {
    /// Whether the filters need fields that only the lines have, not the index.
    #[cfg(feature = "http")]
    fn asks_for_fields(&self, conversation_id: Option<Uuid>) -> bool {
        // A new filter is one for which the lines are read, unless it is listed as found by the
        // index. The index has the sequence numbers of a single conversation's messages.
        let MessageQuery {
            from_sequence,
            until_sequence,
            role,
            model_used,
            config_used,
            error,
            since: _,
            until: _,
            order: _,
            limit: _,
            after: _,
        } = self;
        let has_bounds = from_sequence.is_some() || until_sequence.is_some();
        role.is_some()
            || error.is_some()
            || model_used.is_some()
            || config_used.is_some()
            || conversation_id.is_none() && has_bounds
    }

    fn matches(&self, message: &ConversationMessage) -> bool {
        let is =
            |wanted: &Option<String>, name: &Option<String>| wanted.is_none() || wanted == name;
        let (sequence, has_error) = (message.sequence, message.error.is_some());
        let before = |until| sequence < Some(until);
        self.from_sequence.is_none_or(|from| sequence >= Some(from))
            && self.until_sequence.is_none_or(before)
            && self.role.is_none_or(|role| message.role == role)
            && is(&self.model_used, &message.model_used)
            && is(&self.config_used, &message.config_used)
            && self.error.is_none_or(|error| has_error == error)
    }
}

impl Store {
    /// The message with this id.
    pub fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        let mut text = [0; Hyphenated::LENGTH];
        let key = [lower(id, &mut text), ""];
        let quick = |lines: &RowLines<'_>| lines.asserted().map(|message: Box<_>| *message);
        let message = get_row(self.inner(), KIND, key, Some(quick), |view, row| {
            read(view, row)
        })?;
        Ok(message.filter(|message| message.id == id))
    }

    /// Lists messages, in pages. Default page size: 100. With a `conversation_id`, lists the
    /// messages of that conversation in the order of their sequence; none if it is unknown. Without
    /// one, lists the messages of all conversations in the order of their time.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # use decklog::query::{MessageQuery, Order};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let id = uuid::Uuid::new_v4();
    /// # store.record(Conversation::new(id, Client::Api))?;
    /// # store.record(ConversationMessage::new(id, Role::User, "hi"))?;
    /// let newest = MessageQuery { order: Order::NewestFirst, limit: 1, ..MessageQuery::default() };
    /// assert_eq!(store.messages(id, &newest)?.items[0].sequence, Some(1));
    ///
    /// let failed = MessageQuery { error: Some(true), ..MessageQuery::default() };
    /// assert_eq!(store.messages(None, &failed)?.items, []);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn messages(
        &self,
        conversation_id: impl Into<Option<Uuid>>,
        query: &MessageQuery,
    ) -> Result<Page<ConversationMessage>> {
        let id = conversation_id.into();
        list_as(self.inner(), id, query, usize::MAX, |view, row| {
            read_listed(view, row, id, query)
        })
    }

    /// As [`messages`](Store::messages), each as a JSON object. A page also ends with the line that
    /// brings the length of its lines to this number of bytes.
    #[cfg(feature = "http")]
    pub(crate) fn messages_as_json(
        &self,
        conversation_id: Option<Uuid>,
        query: &MessageQuery,
        bytes_max: usize,
    ) -> Result<Page<String>> {
        let of = conversation_id.map(|id| id.to_string());
        let is_plain = !query.asks_for_fields(conversation_id);
        list_as(
            self.inner(),
            conversation_id,
            query,
            bytes_max,
            |view, row| {
                if is_plain && let Some(json) = read_json(view, row, of.as_deref())? {
                    return Ok(Some(json));
                }
                let message = read_listed(view, row, conversation_id, query)?;
                let json = message.map(|message| serde_json::to_string(&message));
                json.transpose()
                    .map_err(|e| crate::error::Error::invalid(e.to_string()))
            },
        )
    }
}

fn read_listed(
    view: &Snapshot<'_>,
    row: RowId,
    conversation_id: Option<Uuid>,
    query: &MessageQuery,
) -> Result<Option<ConversationMessage>> {
    let message = read(view, row)?.filter(|found| query.matches(found));
    Ok(message.filter(|found| conversation_id.is_none_or(|id| found.conversation_id == id)))
}

/// Lists messages. Each item is what `read` makes of a message row.
fn list_as<T>(
    inner: &Inner,
    conversation_id: Option<Uuid>,
    query: &MessageQuery,
    bytes_max: usize,
    read: impl Fn(&Snapshot<'_>, RowId) -> Result<Option<T>>,
) -> Result<Page<T>> {
    let all = Walk {
        bytes_max,
        ..Walk::all(query.order, query.limit, query.after)
    };
    let walk = match conversation_id {
        Some(id) => all
            .of(of_conversation(inner.hasher(), id))
            .within(query.from_sequence, query.until_sequence),
        None => all.within(query.since, query.until),
    };
    let may_match = |table: &Table, row| is_of_time(table, row, (query.since, query.until));
    // Messages are never listed as of a past time, so the item's time is not needed.
    page(inner, KIND, walk, may_match, |view, row| {
        Ok(read(view, row)?.map(|item| (0, item)))
    })
}

/// A message as JSON, copied from its line if the line has the exact form that decklog writes:
/// parsing and serialising it takes ten times as long. `None` if the line has to be parsed, or is
/// of another conversation.
#[cfg(feature = "http")]
fn read_json(view: &Snapshot<'_>, id: RowId, conversation: Option<&str>) -> Result<Option<String>> {
    let row = view.table(KIND).row(id).filter(|row| row.stands());
    let Some(row) = row else { return Ok(None) };
    let json = view.read_json(KIND, row.asserted)?;
    Ok(json.filter(|json| {
        // `{"id":"…","conversation_id":"…"`: both values are as long as a UUID.
        const MEMBER: &str = "\",\"conversation_id\":\"";
        const AT: usize = "{\"id\":\"".len() + Hyphenated::LENGTH;
        let of = json.get(AT..).and_then(|rest| rest.strip_prefix(MEMBER));
        of.is_some_and(|of| conversation.is_none_or(|wanted| of.starts_with(wanted)))
    }))
}

/// `is_untimed`: the store assigned the record's time, so it is not compared.
pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, is_untimed: bool) -> Result<Ack> {
    let message: &Held = record_in(redacted.record())?;
    let conversation = message.conversation_id;
    check_known(txn, conversation)?;
    let same = |known: &Held| same(known, message, is_untimed);
    let differs = |known: &Held| {
        format!(
            "the id is that of message {} of conversation {}, which says something else: the first stands",
            known.sequence.unwrap_or_default(),
            known.conversation_id
        )
    };
    if let Some((ack, known)) = put_again(txn, redacted.record(), same, differs)? {
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
        return Err(conflict(format!(
            "sequence {sequence} of conversation {conversation} is taken by message {}: give another, or none for the next one",
            holder.id
        )));
    }
    let task_type = match message.task_type {
        None if message.is_answer() => asked_for(txn, conversation, sequence)?,
        _ => None,
    };
    redacted.assign(|message: &mut Held| {
        message.sequence = Some(sequence);
        message.task_type = task_type.or(message.task_type.take());
    });
    let seq = txn.push(redacted, None)?;
    Ok(Ack::added(seq).assigning(Some(sequence)))
}

/// Whether a message is in a conversation other than the given one; `None` if the log does not have
/// the message.
pub(super) fn is_of_another(from: &impl Reads, id: Uuid, conversation: Uuid) -> Option<bool> {
    let hash = from.hasher().lookup(&conversation.to_string());
    let found = from.find(KIND, [&id.to_string(), ""]);
    // A different hash means a different conversation, so the line need not be read.
    found.map(|(row, _)| !from.table(KIND).has_lookup(row, 0, hash))
}

fn last_sequence(from: &impl Reads, conversation: Uuid) -> i64 {
    sums(from, conversation).map_or(0, |sums| sums.last_sequence.max(0))
}

/// The task type of the last request in a conversation before this sequence number.
fn asked_for(from: &impl Reads, conversation: Uuid, sequence: i64) -> Result<Option<String>> {
    let Some(sums) = sums(from, conversation) else {
        return Ok(None);
    };
    if sequence < sums.asked_at {
        return asked_before(from, conversation, sequence);
    }
    let Some((_, line)) = sums.asked else {
        return Ok(None);
    };
    let request: Held = read_as(from, line)?;
    let request = Some(request).filter(|request| request.conversation_id == conversation);
    Ok(request.and_then(|request| request.task_type))
}

/// As [`asked_for`], for an answer that is recorded late: reads the preceding messages from the
/// last to the first.
fn asked_before(from: &impl Reads, conversation: Uuid, sequence: i64) -> Result<Option<String>> {
    let is_request = |found: &Held| found.role == Role::User;
    let before = (Position::FIRST, Position::before(sequence));
    let request = within(from, conversation, before, is_request).next_back();
    Ok(request.transpose()?.and_then(|request| request.task_type))
}

fn at_sequence(from: &impl Reads, conversation: Uuid, sequence: i64) -> Result<Option<Held>> {
    let next = Position::before(sequence.saturating_add(1));
    let place = (Position::before(sequence), next);
    let mut found = within(from, conversation, place, |_| true);
    found.next().transpose()
}

/// The messages of a conversation between two positions that `is` accepts.
fn within<'a>(
    from: &'a impl Reads,
    conversation: Uuid,
    places: (Position, Position),
    is: impl Fn(&Held) -> bool + 'a,
) -> impl DoubleEndedIterator<Item = Result<Held>> + 'a {
    let select = of_conversation(from.hasher(), conversation);
    selected(from, select, places, move |found: &Held| {
        found.conversation_id == conversation && is(found)
    })
}

fn of_conversation(hasher: Hasher, id: Uuid) -> Select {
    let mut text = [0; Hyphenated::LENGTH];
    Select::Lookup(0, hasher.lookup(lower(id, &mut text)))
}

/// Whether a new message is equal to the recorded one. A missing sequence matches any sequence, an
/// answer without a task type matches any task type, and with `is_untimed` any time matches.
fn same(known: &ConversationMessage, message: &ConversationMessage, is_untimed: bool) -> bool {
    let inherited = || known.task_type.clone().filter(|_| known.is_answer());
    let rest = |message: &ConversationMessage| {
        let mut message = message.clone();
        message.fill_from_metadata();
        ConversationMessage {
            sequence: message.sequence.or(known.sequence),
            timestamp: if is_untimed { known } else { &message }.timestamp.clone(),
            task_type: message.task_type.or_else(inherited),
            tool_args: None,
            inference_metadata: None,
            ..message
        }
    };
    let json = |of: fn(&ConversationMessage) -> Option<&str>| same_json(of(known), of(message));
    json(|message| message.tool_args.as_deref())
        && json(|message| message.inference_metadata.as_deref())
        && rest(known) == rest(message)
}

fn read(from: &impl Reads, id: RowId) -> Result<Option<ConversationMessage>> {
    let message: Option<Held> = standing_as(from, id)?;
    Ok(message.map(|message| *message))
}
