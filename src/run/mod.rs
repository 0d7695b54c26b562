//! The run of an agent: a handle that keeps the thread, the last turn, the clock and the vendor, so
//! that an agent's loop passes only what changes. It writes turns and tool calls, and messages if
//! the run has a conversation. It adds no rules: it writes records that [`Store::record`] and
//! [`Capture::record`] accept.

mod call;
mod draft;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use uuid::Uuid;

pub use self::call::Call;
pub use self::draft::Draft;

use crate::capture::Capture;
use crate::collections::{IfKnown, Order, TurnQuery, given};
use crate::error::{Error, Result};
use crate::record::{
    Conversation, ConversationMessage, ConversationTurn, Record, Role, Timestamp, ToolCallReq,
    TurnKind, Validity, now,
};
use crate::store::Store;

/// Maximum number of turns in one millisecond that are read to find the last turn of a thread.
const TURNS_OF_A_MOMENT_MAX: usize = 1_000;

/// A run of an agent: the turns and calls of one loop in one thread; returned by [`Store::run`].
///
/// Each turn's parent is the turn before it. The parent of a call is its turn: the turn's id is the
/// call's `request_id` and `parent_id`. Times never go back within a run. Clones share the run and
/// can be used from other threads.
///
/// ```
/// use decklog::Store;
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Store::open(dir.path().join("log"))?;
/// let run = store.run("anthropic");
/// run.user("How long is main.rs?")?;
/// let turn = run.assistant("I will look.")?;
/// let call = turn.call("toolu_1", "count_lines", &serde_json::json!({ "path": "main.rs" }))?;
/// let lines = call.run(|| Ok::<_, std::io::Error>(40))?;
/// run.assistant(format!("{} lines.", lines.unwrap()))?;
///
/// let (request, outcome) = store.get_tool_call(turn.id(), "toolu_1")?.expect("recorded above");
/// assert_eq!(request.arguments_json.as_deref(), Some(r#"{"path":"main.rs"}"#));
/// assert_eq!(outcome.unwrap().outcome_json.as_deref(), Some("40"));
/// assert_eq!(store.session_tree(run.thread_id())?.unwrap().nodes.len(), 4);
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Clone)]
pub struct Run {
    store: Store,
    /// Takes the run's records, if they are queued. The store then is for reads.
    capture: Option<Capture>,
    vendor: Arc<str>,
    thread_id: Uuid,
    /// Whether the thread belongs to a conversation. Turns are then recorded as messages too.
    has_messages: bool,
    place: Arc<Mutex<Place>>,
}

/// The position of a run.
#[derive(Debug, Default)]
struct Place {
    last_turn: Option<Uuid>,
    /// The latest time assigned, in epoch milliseconds.
    at: i64,
}

impl Store {
    /// Starts an agent run in a new thread. `vendor` is the provider of the model or the tools,
    /// such as `anthropic`. Writes nothing yet.
    pub fn run(&self, vendor: impl Into<Arc<str>>) -> Run {
        Run {
            store: self.clone(),
            capture: None,
            vendor: vendor.into(),
            thread_id: Uuid::new_v4(),
            has_messages: false,
            place: Arc::default(),
        }
    }
}

impl Run {
    /// Queues the run's records instead of waiting for the log, as [`Capture::record`] does. The
    /// capture reports records that are rejected or cannot be written.
    ///
    /// ```
    /// # use decklog::Store;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let capture = store.capture()?;
    /// let run = store.run("anthropic").through(&capture);
    /// let turn = run.user("hello")?;
    /// capture.flush()?;
    /// assert_eq!(store.get_turn(turn.id())?.unwrap().content, "hello");
    /// # Ok::<(), decklog::Error>(())
    /// ```
    #[must_use]
    pub fn through(self, capture: &Capture) -> Run {
        let capture = Some(capture.clone());
        Run { capture, ..self }
    }

    /// Continues a thread: the next turn follows the thread's latest turn in the log.
    ///
    /// # Errors
    /// As [`Store::turns`].
    pub fn in_thread(mut self, thread_id: Uuid) -> Result<Run> {
        let newest = TurnQuery {
            thread_id: Some(thread_id),
            order: Order::NewestFirst,
            limit: 1,
            ..TurnQuery::default()
        };
        let newest = self.store.turns(&newest)?.items.pop();
        // Turns with equal times are listed in log order, in either sort order. So read them oldest
        // first and take the last.
        let of_its_moment = TurnQuery {
            thread_id: Some(thread_id),
            since: newest.map(|turn| turn.created_at.at),
            limit: TURNS_OF_A_MOMENT_MAX,
            ..TurnQuery::default()
        };
        let latest = self.store.turns(&of_its_moment)?.items.pop();
        self.place = Arc::new(Mutex::new(Place {
            at: latest.as_ref().map_or(0, |turn| turn.created_at.at),
            last_turn: latest.map(|turn| turn.id),
        }));
        self.thread_id = thread_id;
        Ok(self)
    }

    /// Starts or continues a conversation. The conversation is recorded if the log has none with
    /// its id; an existing one is not changed. Its id is the thread, and each turn is recorded as a
    /// message too. A turn and its message have the same id. A turn of the kind
    /// [`SysInfo`](TurnKind::SysInfo) has no message.
    ///
    /// ```
    /// use decklog::{Client, Conversation, InferenceMetadata, Store, TurnKind};
    /// use decklog::query::MessageQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(decklog::uuid::Uuid::new_v4(), Client::Cli);
    /// let id = conversation.id;
    /// let run = store.run("openai").in_conversation(conversation)?;
    /// run.user("What is 1 + 1?")?;
    /// let metadata = InferenceMetadata { models_used: vec!["small-1".into()], ..Default::default() };
    /// run.draft(TurnKind::Assistant, "2").metadata(&metadata).record()?;
    /// let messages = store.messages(id, &MessageQuery::default())?.items;
    /// assert_eq!(messages[1].model_used.as_deref(), Some("small-1"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Store::record`] and [`in_thread`](Run::in_thread).
    pub fn in_conversation(self, conversation: Conversation) -> Result<Run> {
        let run = self.in_thread(conversation.id)?;
        run.write([conversation.into()], IfKnown::Skip)?;
        Ok(Run {
            has_messages: true,
            ..run
        })
    }

    /// The thread of the run's turns. [`TurnQuery`] and [`Store::session_tree`] select turns by it.
    pub fn thread_id(&self) -> Uuid {
        self.thread_id
    }

    /// Records a user's turn.
    ///
    /// # Errors
    /// As [`turn`](Run::turn).
    pub fn user(&self, content: impl Into<String>) -> Result<Turn> {
        self.turn(TurnKind::User, content)
    }

    /// Records an assistant's turn.
    ///
    /// # Errors
    /// As [`turn`](Run::turn).
    pub fn assistant(&self, content: impl Into<String>) -> Result<Turn> {
        self.turn(TurnKind::Assistant, content)
    }

    /// Records a turn of any kind.
    ///
    /// # Errors
    /// As [`Store::record`] or, [through](Run::through) a capture, as [`Capture::record`].
    pub fn turn(&self, kind: TurnKind, content: impl Into<String>) -> Result<Turn> {
        let (turn, _) = self.draft(kind, content).record()?;
        Ok(turn)
    }

    /// Creates a turn to be recorded together with its calls, or with the metadata of its message.
    pub fn draft(&self, kind: TurnKind, content: impl Into<String>) -> Draft<'_> {
        Draft::new(self, kind, content.into())
    }

    /// Writes all records, or none.
    fn write(&self, records: impl IntoIterator<Item = Record>, if_known: IfKnown) -> Result<()> {
        let records = records.into_iter();
        let records = records.map(|record| Ok((given(record)?, if_known)));
        let records = records.collect::<Result<_>>()?;
        match &self.capture {
            None => self.store.put_all(records).map(drop),
            Some(capture) => capture.record_all(records, None),
        }
    }

    fn place(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The system clock's time, but never earlier than a time already assigned.
    fn now(&self) -> Validity {
        let mut place = self.place();
        place.at = place.at.max(now());
        Validity::at(place.at)
    }

    fn next_turn(&self, kind: TurnKind, content: String) -> ConversationTurn {
        let parent_id = self.place().last_turn;
        ConversationTurn {
            parent_id,
            thread_id: Some(self.thread_id),
            created_at: self.now(),
            ..ConversationTurn::new(kind, content)
        }
    }

    /// The request of a call of a turn.
    fn request(
        &self,
        turn_id: Uuid,
        call_id: String,
        tool_name: String,
        arguments_json: String,
    ) -> ToolCallReq {
        ToolCallReq {
            arguments_json: Some(arguments_json),
            started_at: self.now(),
            ..ToolCallReq::new(turn_id, call_id, &*self.vendor, tool_name)
        }
    }

    /// The message of a turn, if it has one.
    fn message(&self, turn: &ConversationTurn) -> Result<Option<ConversationMessage>> {
        let role = match turn.kind {
            TurnKind::User => Role::User,
            TurnKind::Assistant => Role::Assistant,
            TurnKind::System => Role::System,
            TurnKind::Tool => Role::Tool,
            TurnKind::SysInfo => return Ok(None),
        };
        if !self.has_messages {
            return Ok(None);
        }
        Ok(Some(ConversationMessage {
            id: turn.id,
            timestamp: Timestamp::from_ms(turn.created_at.at)?,
            ..ConversationMessage::new(self.thread_id, role, &*turn.content)
        }))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("thread_id", &self.thread_id)
            .field("vendor", &self.vendor)
            .finish_non_exhaustive()
    }
}

/// A turn of a [`Run`] that was recorded.
#[derive(Debug, Clone)]
pub struct Turn {
    run: Run,
    id: Uuid,
}

impl Turn {
    /// The turn's id, which is also the `request_id` and `parent_id` of its calls.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Records a tool call of this turn. `call_id` is the provider's id, unique within the turn.
    /// Some providers pass arguments as a string that contains a JSON object; such arguments are
    /// recorded as that object.
    ///
    /// The call is recorded before the tool starts, so that a crash leaves a trace.
    ///
    /// # Errors
    /// As [`Run::turn`]; also [`InvalidInput`](crate::ErrorKind::InvalidInput) for arguments that
    /// cannot be serialized as JSON.
    pub fn call(
        &self,
        call_id: impl Into<String>,
        tool_name: impl Into<String>,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<Call> {
        self.call_json(call_id, tool_name, arguments_json(arguments)?)
    }

    /// As [`call`](Turn::call), with arguments that are JSON already, or text.
    ///
    /// # Errors
    /// As [`Store::record`].
    pub fn call_json(
        &self,
        call_id: impl Into<String>,
        tool_name: impl Into<String>,
        arguments_json: String,
    ) -> Result<Call> {
        let (run, call_id) = (&self.run, call_id.into());
        let request = run.request(self.id, call_id.clone(), tool_name.into(), arguments_json);
        run.write([request.into()], IfKnown::Compare)?;
        Ok(Call::new(run.clone(), self.id, call_id))
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::invalid(format!("a value has no form in JSON: {e}")))
}

fn arguments_json(arguments: &(impl Serialize + ?Sized)) -> Result<String> {
    let json = json(arguments).map_err(|e| e.with_field("arguments_json"))?;
    if !json.starts_with('"') {
        return Ok(json);
    }
    let text: Option<String> = serde_json::from_str(&json).ok();
    let object = text.filter(|text| {
        serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok()
    });
    Ok(object.unwrap_or(json))
}
