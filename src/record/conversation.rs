//! Conversations of an LLM gateway or an editor.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::declare::record;
use super::text::text_schema;
use super::timestamp::Timestamp;
use super::words::words;
use crate::error::{Error, Result};

/// The client of a conversation: one of four known clients, or another short name.
///
/// ```
/// use decklog::Client;
/// assert_eq!("vscode".parse::<Client>()?, Client::Vscode);
/// let zed: Client = "zed".parse()?;
/// assert_eq!(zed.as_str(), "zed");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Client {
    /// An extension of VS Code: `vscode`.
    Vscode,
    /// A web page: `web`.
    Web,
    /// A program that uses an API: `api`.
    Api,
    /// A terminal: `cli`.
    Cli,
    /// Any other client.
    Other(ClientName),
}

/// The name of a client: 1 to 32 ASCII letters, digits, `.`, `_` and `-`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientName {
    len: u8,
    bytes: [u8; ClientName::BYTES_MAX],
}

impl ClientName {
    /// Maximum length of a name, in bytes.
    pub const BYTES_MAX: usize = 32;

    fn new(name: &str) -> Option<ClientName> {
        let is_of_name =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        let mut bytes = [0; ClientName::BYTES_MAX];
        bytes
            .get_mut(..name.len())?
            .copy_from_slice(name.as_bytes());
        let len = u8::try_from(name.len()).ok()?;
        (len > 0 && name.bytes().all(is_of_name)).then_some(ClientName { len, bytes })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        let name = self.bytes.get(..usize::from(self.len));
        std::str::from_utf8(name.unwrap_or_default()).unwrap_or_default()
    }
}

impl fmt::Debug for ClientName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Client {
    /// The clients with a fixed name.
    pub const ALL: &'static [Client] = &[Client::Vscode, Client::Web, Client::Api, Client::Cli];

    /// The name in the files.
    pub fn as_str(&self) -> &str {
        match self {
            Client::Vscode => "vscode",
            Client::Web => "web",
            Client::Api => "api",
            Client::Cli => "cli",
            Client::Other(name) => name.as_str(),
        }
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Client {
    type Err = Error;

    fn from_str(word: &str) -> Result<Client> {
        let known = Client::ALL.iter().find(|known| known.as_str() == word);
        let client = known
            .copied()
            .or_else(|| ClientName::new(word).map(Client::Other));
        client.ok_or_else(|| {
            let shown: String = word.chars().take(80).collect();
            Error::invalid(format!(
                "{shown:?} is no client: give vscode, web, api, cli or another name of 1 to {} ASCII letters, digits, dots, hyphens and underscores",
                ClientName::BYTES_MAX
            ))
        })
    }
}

impl Serialize for Client {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Client {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Client, D::Error> {
        let word = std::borrow::Cow::<str>::deserialize(from)?;
        word.parse().map_err(serde::de::Error::custom)
    }
}

text_schema! {
    Client: "`vscode`, `web`, `api`, `cli` or another short name", "^[A-Za-z0-9._-]{1,32}$"
}

words! {
    /// The status of a conversation.
    #[derive(Default)]
    ConversationStatus("status") {
        /// In progress.
        #[default]
        Active = "active",
        /// Ended.
        Completed = "completed",
        /// Failed, and no later answer or update cleared the error.
        Error = "error",
    }
}

record! {
    /// A conversation. Key: `id`. The totals of its messages are derived: [`ConversationStats`].
    ///
    /// Recording a conversation again replaces all fields; `created_at` must be the same.
    /// [`Store::update_conversation`](crate::Store::update_conversation) changes some of them.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct Conversation {
        /// Unique id.
        [uuid, key] id: Uuid = "a new UUID",
        /// The workspace or directory.
        [name, lookup, null] workspace: Option<String>,
        /// The project.
        [name, lookup, null] project: Option<String>,
        /// The client, such as `cli`.
        [client, lookup] client: Client,
        /// The user's id.
        [user, lookup, null] user_id: Option<String>,
        /// The client's session id.
        [name, lookup, null] session_id: Option<String>,
        /// The parent conversation: for a sub-agent, that of the agent that started it. It need not
        /// be in the log.
        [uuid, lookup] parent_id: Option<Uuid>,
        /// The program that ran the conversation, such as `claude-code` or `codex`.
        [name, lookup] agent: Option<String>,
        /// The provider's id of the tool call that started the conversation.
        [name] parent_call_id: Option<String>,
        /// The title, in one line.
        [title] title: Option<String>,
        /// The status.
        [word, default] status: ConversationStatus = "active",
        /// Creation time.
        [instant] created_at: Timestamp = "now",
        /// Time of the last change. Reads return the latest message's time if that is later.
        [instant] updated_at: Timestamp = "`created_at`, or now for a change",
        /// The last error message.
        [content] last_error: Option<String>,
    }
}

impl Conversation {
    /// An active conversation that starts now.
    pub fn new(id: Uuid, client: Client) -> Conversation {
        let now = Timestamp::now();
        Conversation {
            id,
            workspace: None,
            project: None,
            client,
            user_id: None,
            session_id: None,
            parent_id: None,
            agent: None,
            parent_call_id: None,
            title: None,
            status: ConversationStatus::Active,
            created_at: now.clone(),
            updated_at: now,
            last_error: None,
        }
    }

    /// The time from its creation to its last change, in milliseconds; at least 0.
    pub fn lasted_ms(&self) -> i64 {
        let (from, to) = (self.created_at.at(), self.updated_at.at());
        to.saturating_sub(from).max(0)
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.parent_id == Some(self.id) {
            let message = "parent_id is the conversation itself: leave it out";
            return Err(Error::invalid(message).with_field("parent_id"));
        }
        if self.updated_at.at() < self.created_at.at() {
            return Err(Error::invalid(format!(
                "updated_at {} is before created_at {}",
                self.updated_at, self.created_at
            )));
        }
        Ok(())
    }
}

/// Totals of the messages of a conversation. They are derived from the messages and not stored.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ConversationStats {
    /// Number of messages.
    pub message_count: u64,
    /// Sum of the messages' `tokens_in`.
    pub total_tokens_in: u64,
    /// Sum of the messages' `tokens_out`.
    pub total_tokens_out: u64,
    /// Sum of the messages' `latency_ms`.
    pub total_latency_ms: u64,
    /// Sum of the messages' `cost_usd`, each rounded to billionths, in US dollars. Absent if no
    /// message has a cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<f64>,
    /// Number of messages with an `error`. A failed request has one.
    pub error_count: u64,
    /// Number of messages with an `error` or an `error_type`. The result of a failed tool call has
    /// only the type.
    pub failure_count: u64,
    /// Distinct values of `model_used`, in the order of first use. Models that occur only in
    /// `models_in_chain` are not included.
    pub models_used: Vec<String>,
    /// Distinct values of `config_used`, in the order of first use.
    pub configs_used: Vec<String>,
}

/// A conversation with the totals of its messages, as one JSON object.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ConversationView<'a> {
    /// The conversation.
    #[serde(flatten)]
    pub conversation: &'a Conversation,
    /// The totals.
    #[serde(flatten)]
    pub stats: &'a ConversationStats,
}

impl<'a> From<&'a (Conversation, ConversationStats)> for ConversationView<'a> {
    fn from((conversation, stats): &'a (Conversation, ConversationStats)) -> ConversationView<'a> {
        ConversationView {
            conversation,
            stats,
        }
    }
}
