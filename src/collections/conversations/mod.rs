//! Conversations: an upsert by id. The totals of their messages are kept in the index.

mod facts;
mod list;
mod projects;
mod sorted;
mod title;

pub(crate) use facts::{ConversationFacts, facts_of};
pub(in crate::collections) use list::PARENT;
pub(crate) use projects::projects_of;
pub use sorted::ConversationSort;
pub(crate) use title::{in_one_line, of_prompt};

use std::collections::HashMap;
#[cfg(feature = "otlp")]
use std::collections::HashSet;

use uuid::Uuid;

#[cfg(feature = "mcp")]
use super::page::{Cursor, Order, Page, Walk, page};
use super::query::query;
use super::{
    Ack, asserted, collision, conflict, not_found, put_again, read_as, record_in, record_of, says,
    standing, unchanged, with_key,
};
use crate::error::{Error, Result};
use crate::index::{ConversationSums, Loc, RowId, status_state};
use crate::record::{
    Client, Conversation, ConversationMessage, ConversationStats, ConversationStatus, Kind, Record,
    Timestamp, usd,
};
use crate::store::{Reads, Redacted, Store, Txn};

const KIND: Kind = Kind::Conversations;

query! {
    /// Selects the conversations to list.
    ///
    /// ```
    /// # use decklog::{Client, Store};
    /// # use decklog::query::ConversationQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let query = ConversationQuery { client: Some(Client::Vscode), limit: 20, ..ConversationQuery::default() };
    /// let list = store.conversations(&query)?;
    /// assert_eq!((list.items.len(), list.total), (0, 0));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ConversationQuery {
        filters {
            /// Only conversations of this workspace or of a directory below it.
            workspace: String = "workspace" "DIR",
            /// Only conversations of this project.
            project: String = "project" "NAME",
            /// Only conversations of this client.
            client: Client = "client" "NAME",
            /// Only conversations of this user: the original id, or its hash.
            user_id: String = "user" "ID",
            /// Only conversations of this session.
            session_id: String = "session" "ID",
            /// Only conversations with this `parent_id`, such as those of sub-agents.
            parent_id: Uuid = "parent" "ID",
            /// Only conversations of this agent, such as `claude-code`.
            agent: String = "agent" "NAME",
            /// Only conversations with this status.
            status: ConversationStatus = "status" "STATUS",
            /// What to sort by, in descending order unless `order` is `asc`. Default: `newest`.
            sort: ConversationSort = "sort" "FIELD",
        }
        times {
            /// Only conversations created at this time or later.
            since,
            /// Only conversations created before this time.
            until,
        }
        order {
            /// By `created_at`, or by what `sort` names. Default: newest first (`desc`).
            NewestFirst
        }
        from {
            /// Skip the first N. Default: 0.
            #[cfg_attr(feature = "http", serde(deserialize_with = "crate::collections::query::offset"))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::record::Length>))]
            offset: usize
        }
    }
}

type Whole = (Conversation, ConversationStats);

/// A page of the conversations that match a query.
#[derive(Debug, Clone, PartialEq)]
pub struct ConversationList {
    /// The conversations of the page, each with the totals of its messages.
    pub items: Vec<(Conversation, ConversationStats)>,
    /// Number of conversations that match, regardless of limit and offset.
    pub total: usize,
}

impl ConversationQuery {
    /// Whether a conversation matches the query. `user_ids` are the forms of the user id in the
    /// query.
    pub(crate) fn matches(&self, conversation: &Conversation, user_ids: &[String]) -> bool {
        let is =
            |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
        let is_user = |id: &String| user_ids.contains(id);
        let workspace = conversation.workspace.as_deref();
        let is_in = |wanted: &String| workspace.is_some_and(|it| is_within(wanted, it));
        let Conversation { client, status, .. } = conversation;
        self.workspace.as_ref().is_none_or(is_in)
            && is(&self.project, &conversation.project)
            && (self.user_id.is_none() || conversation.user_id.as_ref().is_some_and(is_user))
            && is(&self.session_id, &conversation.session_id)
            && (self.parent_id.is_none() || self.parent_id == conversation.parent_id)
            && is(&self.agent, &conversation.agent)
            && self.client.is_none_or(|wanted| *client == wanted)
            && self.status.is_none_or(|wanted| *status == wanted)
    }
}

/// Whether a workspace is this directory or one below it.
fn is_within(directory: &str, workspace: &str) -> bool {
    let is_separator = |c| c == '/' || c == '\\';
    let rest = workspace.strip_prefix(directory.trim_end_matches(is_separator));
    workspace == directory
        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(is_separator))
}

impl Store {
    /// The conversation with this id, and the totals of its messages.
    pub fn get_conversation(&self, id: Uuid) -> Result<Option<(Conversation, ConversationStats)>> {
        self.inner().with_snapshot(|view| get(view, id))
    }

    /// Whether the log has a conversation with this id.
    #[cfg(feature = "http")]
    pub(crate) fn has_conversation(&self, id: Uuid) -> Result<bool> {
        self.inner()
            .with_snapshot(|view| Ok(check_known(view, id).is_ok()))
    }

    /// Lists conversations, by limit and offset. A user's conversations are found by the original
    /// id, even if ids are hashed.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io), also if the query has a user, ids in the log are hashed, and
    /// the key of user ids is missing.
    pub fn conversations(&self, query: &ConversationQuery) -> Result<ConversationList> {
        Ok(self.conversations_within(query, usize::MAX)?.0)
    }

    /// As [`conversations`](Store::conversations). The page also ends with the line that exceeds
    /// this number of bytes. Also returns whether more follow.
    pub(crate) fn conversations_within(
        &self,
        query: &ConversationQuery,
        bytes_max: usize,
    ) -> Result<(ConversationList, bool)> {
        let user_id = query.user_id.as_deref();
        let user_ids = user_id
            .map(|id| self.inner().policies().user_ids(id))
            .transpose()?;
        let user_ids = user_ids.unwrap_or_default();
        list::list(self.inner(), query, &user_ids, bytes_max)
    }

    /// Conversations, newest first, page by page. Paging works while new conversations begin.
    #[cfg(feature = "mcp")]
    pub(crate) fn conversation_page(
        &self,
        limit: usize,
        after: Option<Cursor>,
    ) -> Result<Page<Conversation>> {
        let walk = Walk::all(Order::NewestFirst, limit, after);
        page(
            self.inner(),
            KIND,
            walk,
            |_, _| true,
            |view, row| Ok(read(view, row)?.map(|found| (found.created_at.at(), found))),
        )
    }

    /// Changes a conversation: applies `change` to its current version, and records the result if
    /// it differs. Its `updated_at` becomes the current time unless `change` sets it, or it is
    /// later. Returns the new version. `change` runs while the store is locked and must not use the
    /// store: this would deadlock.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, Store};
    /// # use decklog::record::ConversationStatus;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let id = uuid::Uuid::new_v4();
    /// store.record(Conversation::new(id, Client::Web))?;
    /// store.update_conversation(id, |it| it.status = ConversationStatus::Completed)?;
    /// assert_eq!(store.get_conversation(id)?.unwrap().0.status, ConversationStatus::Completed);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if there is no such conversation;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) and
    /// [`Conflict`](crate::ErrorKind::Conflict) if the result cannot be recorded, for example if it
    /// has another `created_at`.
    pub fn update_conversation(
        &self,
        id: Uuid,
        change: impl FnOnce(&mut Conversation),
    ) -> Result<Conversation> {
        self.inner().transact(|txn| {
            let known = find(txn, id)?.ok_or_else(|| unknown(id))?;
            let mut conversation = known.clone();
            change(&mut conversation);
            conversation.id = id;
            if conversation == known {
                return Ok(known);
            }
            let is_stamped = conversation.updated_at == known.updated_at;
            if is_stamped {
                // If this clock is behind the last writer's, `updated_at` must not go backwards.
                let now = Timestamp::now();
                if now.at() > known.updated_at.at() {
                    conversation.updated_at = now;
                }
            }
            let is_same = |stamped: &Conversation| {
                let as_known = Conversation {
                    updated_at: known.updated_at.clone(),
                    ..stamped.clone()
                };
                is_stamped && as_known == known
            };
            let changed = put_change(txn, &known, conversation, is_same)?;
            Ok(changed.unwrap_or(known))
        })
    }

    /// Changes a conversation, if it exists, but keeps its `updated_at`. Returns whether anything
    /// changed.
    pub(crate) fn amend_conversation(
        &self,
        id: Uuid,
        amend: impl Fn(&mut Conversation),
    ) -> Result<bool> {
        let amended = |known: &Conversation| {
            let mut conversation = known.clone();
            amend(&mut conversation);
            conversation
        };
        let stands = self.inner().with_snapshot(|view| find(view, id))?;
        if stands.is_none_or(|known| amended(&known) == known) {
            return Ok(false);
        }
        self.inner().transact(|txn| {
            let Some(known) = find(txn, id)? else {
                return Ok(false);
            };
            let changed = put_change(txn, &known, amended(&known), |it| *it == known)?;
            Ok(changed.is_some())
        })
    }

    /// A conversation's title after redaction by the store's privacy settings.
    pub(crate) fn kept_title(&self, title: String) -> Result<String> {
        let titled = Conversation {
            title: Some(title),
            ..Conversation::new(Uuid::nil(), Client::Cli)
        };
        let record = Record::Conversation(titled).checked()?;
        self.inner().transact(|txn| {
            let redacted = txn.redact(record)?;
            let titled: &Conversation = record_in(redacted.record())?;
            Ok(titled.title.clone().unwrap_or_default())
        })
    }
}

pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, is_update: bool) -> Result<Ack> {
    let conversation: &Conversation = record_in(redacted.record())?;
    let Some((id, row)) = asserted(txn, redacted.record()) else {
        if is_update {
            return Err(unknown(conversation.id));
        }
        return txn.push(redacted, None).map(Ack::added);
    };
    let decoded = txn.read(KIND, row.asserted)?;
    let known: &Conversation = record_in(&decoded.record)?;
    if known.id != conversation.id {
        return Err(collision());
    }
    let same = |known: &Conversation| known == conversation;
    // An update to what its last line says is still a change if messages have changed the state
    // since.
    let is_back = is_update
        && read(txn, id)?.is_some_and(|stands| {
            (stands.status, &stands.last_error) != (known.status, &known.last_error)
        });
    if !is_back && says(txn, &decoded.record, same)? {
        return unchanged(txn, row.asserted, decoded.seq.unwrap_or(0));
    }
    change(txn, known, redacted)
}

/// Adds a conversation that begins now. If the log has its id, it must be the same conversation,
/// whatever has changed since.
pub(super) fn put_begun(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<Ack> {
    let conversation: &Conversation = record_in(redacted.record())?;
    let same = |known: &Conversation| {
        let as_begun = Conversation {
            project: conversation.project.clone(),
            title: conversation.title.clone(),
            status: conversation.status,
            created_at: conversation.created_at.clone(),
            updated_at: conversation.updated_at.clone(),
            last_error: conversation.last_error.clone(),
            ..known.clone()
        };
        as_begun == *conversation
    };
    let differs = |_: &Conversation| {
        "the log has a conversation with this id that says something else: the first stands; change it, or give another id".to_owned()
    };
    match put_again(txn, redacted.record(), same, differs)? {
        Some((ack, _)) => Ok(ack),
        None => put(txn, redacted, false),
    }
}

/// Records a change of a conversation and returns what is kept of it; `None` if that is the same.
/// A state that messages have overridden since the last line is a change, even if it equals that
/// line.
fn put_change(
    txn: &mut Txn<'_>,
    known: &Conversation,
    changed: Conversation,
    is_same: impl Fn(&Conversation) -> bool,
) -> Result<Option<Conversation>> {
    let record = Record::ConversationUpdated(changed).checked()?;
    let mut redacted = txn.redact(record)?;
    if is_same(record_in(redacted.record())?) {
        return Ok(None);
    }
    change(txn, known, &mut redacted).map_err(|e| with_key(e, redacted.record()))?;
    record_in(redacted.record()).cloned().map(Some)
}

fn change(txn: &mut Txn<'_>, known: &Conversation, redacted: &mut Redacted) -> Result<Ack> {
    let conversation: &Conversation = record_in(redacted.record())?;
    if known.created_at != conversation.created_at {
        return Err(conflict(format!(
            "the conversation began at {}, and now at {}: the first stands; give its created_at",
            known.created_at, conversation.created_at
        )));
    }
    redacted.make_update();
    txn.push(redacted, None).map(Ack::added)
}

fn unknown(id: Uuid) -> Error {
    not_found(format!(
        "there is no conversation {id} in the log: record it first"
    ))
}

pub(super) fn get(
    from: &impl Reads,
    id: Uuid,
) -> Result<Option<(Conversation, ConversationStats)>> {
    let Some(found) = find(from, id)? else {
        return Ok(None);
    };
    let stats = stats(from, &found, &mut Names::default())?;
    Ok(Some((found, stats)))
}

/// The conversation of a row, with the totals of its messages.
#[cfg(feature = "rows")]
pub(super) fn get_row(
    from: &impl Reads,
    id: RowId,
) -> Result<Option<(Conversation, ConversationStats)>> {
    let Some(found) = read(from, id)? else {
        return Ok(None);
    };
    let stats = stats(from, &found, &mut Names::default())?;
    Ok(Some((found, stats)))
}

/// The current version of the conversation.
fn find(from: &impl Reads, id: Uuid) -> Result<Option<Conversation>> {
    let Some((row, _)) = from.find(KIND, [&id.to_string(), ""]) else {
        return Ok(None);
    };
    Ok(read(from, row)?.filter(|conversation| conversation.id == id))
}

/// Checks that a conversation is in the log.
pub(super) fn check_known(from: &impl Reads, id: Uuid) -> Result<()> {
    let found = from.find(KIND, [&id.to_string(), ""]);
    if found.is_some_and(|(_, row)| row.asserted.is_some()) {
        return Ok(());
    }
    Err(unknown(id))
}

/// Those of these ids that are conversations of the log.
#[cfg(feature = "otlp")]
pub(crate) fn has_conversations(from: &impl Reads, ids: &HashSet<Uuid>) -> HashSet<Uuid> {
    let ids = ids.iter().copied();
    ids.filter(|id| check_known(from, *id).is_ok()).collect()
}

/// The conversation of a row, with the status and time that later messages imply.
fn read(from: &impl Reads, id: RowId) -> Result<Option<Conversation>> {
    let Some(decoded) = standing(from, KIND, id)? else {
        return Ok(None);
    };
    let said = decoded.seq;
    let mut conversation: Conversation = record_of(decoded)?;
    let Some(sums) = sums(from, conversation.id) else {
        return Ok(Some(conversation));
    };
    if let Some((seq, loc)) = sums.error
        && said.is_none_or(|said| said < seq)
        && let Record::Message(message) = from.read(Kind::Messages, loc)?.record
    {
        conversation.status = ConversationStatus::Error;
        conversation.last_error = message.error;
    } else if sums.error.is_none() && said.is_some_and(|said| said < sums.answered) {
        if conversation.status == ConversationStatus::Error {
            conversation.status = ConversationStatus::Active;
        }
        conversation.last_error = None;
    }
    // A forged message line may have an invalid time.
    if sums.latest > conversation.updated_at.at()
        && let Ok(latest) = Timestamp::from_ms(sums.latest)
    {
        conversation.updated_at = latest;
    }
    Ok(Some(conversation))
}

/// Whether the current status of a row's conversation is an error.
pub(crate) fn ended_in_error(from: &impl Reads, id: RowId) -> bool {
    let row = from.table(KIND).row(id).filter(|row| row.stands());
    row.is_some_and(|row| row.state == status_state(ConversationStatus::Error))
}

/// The totals of a conversation's messages.
pub(super) fn sums(from: &impl Reads, id: Uuid) -> Option<&ConversationSums> {
    let key = from.hasher().key([&id.to_string(), ""]);
    from.index().conversation_totals().get(key)
}

/// Names of models and configurations, by hash.
type Names = HashMap<u64, String>;
type NameOf = fn(ConversationMessage) -> Option<String>;

fn stats(
    from: &impl Reads,
    conversation: &Conversation,
    names: &mut Names,
) -> Result<ConversationStats> {
    let Some(sums) = sums(from, conversation.id) else {
        return Ok(ConversationStats::default());
    };
    let mut all_of = |users: &[(u64, Loc)], name: NameOf| -> Result<Vec<String>> {
        let mut found = Vec::with_capacity(users.len());
        for (hash, loc) in users {
            if let Some(name) = names.get(hash) {
                found.push(name.clone());
                continue;
            }
            let message: Box<ConversationMessage> = read_as(from, *loc)?;
            let name = name(*message).unwrap_or_default();
            names.insert(*hash, name.clone());
            found.push(name);
        }
        Ok(found)
    };
    Ok(ConversationStats {
        message_count: sums.message_count,
        total_tokens_in: sums.tokens_in,
        total_tokens_out: sums.tokens_out,
        total_latency_ms: sums.latency_ms,
        total_cost_usd: usd(sums.cost_nano_usd, sums.cost_count),
        error_count: sums.errors,
        failure_count: sums.failures,
        models_used: all_of(&sums.models, |message| message.model_used)?,
        configs_used: all_of(&sums.configs, |message| message.config_used)?,
    })
}
