//! Ids by their start or as `latest`, wherever a command takes the id of a record.

use std::any::TypeId;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command};
use decklog::{Key, Kind, Store};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output::Colours;

/// Minimum characters of the start of an id.
const ID_CHARS_MIN: usize = 4;

/// The record that an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Named {
    Key(Kind),
    /// The model request of tool calls.
    Request,
}

/// What the argument of a command names; `None` for an argument that is no id of a record.
fn named(command: &str, argument: &str) -> Option<Named> {
    Some(Named::Key(match (command, argument) {
        ("calls" | "erase", "request_id" | "request") => return Some(Named::Request),
        ("calls", "parent_id") | ("turns", "id" | "parent_id") => Kind::ConversationTurns,
        ("turns", "message_id") | ("messages", "id") => Kind::Messages,
        // The thread of a session's turns has the id of its conversation.
        ("turns", "thread_id")
        | ("conversations", "id" | "parent_id")
        | (
            "messages" | "show" | "resume" | "erase" | "csv" | "jsonl" | "markdown" | "atif"
            | "otlp",
            "conversation",
        )
        | ("atif" | "otlp", "parent_id") => Kind::Conversations,
        ("proposals", "request_id") => Kind::CodeEditProposals,
        ("events", "id" | "parent_id") => Kind::Events,
        ("inbox", "id") => Kind::Inbox,
        ("thoughts", "id") => Kind::ThoughtRecords,
        _ => return None,
    }))
}

/// A run, by its first event, or a session, by its conversation or thread.
#[derive(Debug, Clone, Copy)]
pub enum Root {
    Event(i64),
    Session(Uuid),
}

impl Root {
    /// The root that a text names: the number of an event, or the id of a conversation, its start,
    /// or `latest`.
    pub fn named(store: &Store, text: &str) -> Result<Root, Failure> {
        let event = text.parse().ok();
        if let Some(event) = event
            && (text.len() < ID_CHARS_MIN || store.get_event(event)?.is_some())
        {
            return Ok(Root::Event(event));
        }
        // The start of an id may have digits alone.
        match (store.find_key(Kind::Conversations, text), event) {
            (Ok(Key::Conversation(id)), _) => Ok(Root::Session(id)),
            (Ok(other), _) => Err(Failure::usage(format!("{other} is not a conversation"))),
            (Err(error), Some(event)) if error.kind() == decklog::ErrorKind::NotFound => {
                Ok(Root::Event(event))
            }
            (Err(error), _) => Err(error.into()),
        }
    }
}

/// Finds the records that arguments name. The store is opened when the first id needs it.
#[derive(Debug)]
pub struct Finder {
    store: Option<PathBuf>,
    opened: Mutex<Option<Store>>,
    /// Why an id cannot be used.
    failure: Mutex<Option<Failure>>,
}

impl Finder {
    /// A finder for the store at a path, or for the default store.
    pub fn new(store: Option<PathBuf>) -> Arc<Finder> {
        Arc::new(Finder {
            store,
            opened: Mutex::default(),
            failure: Mutex::default(),
        })
    }

    /// The command, with all its subcommands, whose ids may be given by their start.
    pub fn accepts(self: &Arc<Self>, command: Command) -> Command {
        let name = command.get_name().to_owned();
        let command = command.mut_args(|argument| match named(&name, argument.get_id().as_str()) {
            Some(named) => self.accept(argument, named),
            None => argument,
        });
        command.mut_subcommands(|subcommand| self.accepts(subcommand))
    }

    fn accept(self: &Arc<Self>, argument: Arg, named: Named) -> Arg {
        let finder = Arc::clone(self);
        let value = argument.get_value_parser().type_id();
        if value == TypeId::of::<Uuid>() {
            let of = uuid_of;
            argument.value_parser(Id { named, finder, of })
        } else if value == TypeId::of::<i64>() {
            let of = number_of;
            argument.value_parser(Id { named, finder, of })
        } else {
            let of = text_of;
            argument.value_parser(Id { named, finder, of })
        }
    }

    /// The key that a text names.
    fn find(&self, named: Named, text: &str) -> Result<Key, Failure> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let find = |store: &Store| match named {
            Named::Key(kind) => store.find_key(kind, text),
            Named::Request => store.find_request(text).map(Key::Proposal),
        };
        if let Some(store) = &*opened {
            return Ok(find(store)?);
        }
        let store =
            Context::new(self.store.clone(), false, false, Colours::Auto).open_in_silence()?;
        Ok(find(opened.insert(store))?)
    }

    /// The store, if an id needed it.
    pub fn store(&self) -> Option<Store> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.take()
    }

    /// Why an id could not be used, if that ended the parsing.
    pub fn failure(&self) -> Option<Failure> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }
}

fn uuid_of(key: &Key) -> Option<Uuid> {
    match key {
        Key::Turn(id) | Key::Proposal(id) | Key::Conversation(id) | Key::Message(id) => Some(*id),
        _ => None,
    }
}

fn number_of(key: &Key) -> Option<i64> {
    match key {
        Key::Event(id) | Key::Task(id) | Key::HistoryEntry(id) => Some(*id),
        _ => None,
    }
}

fn text_of(key: &Key) -> Option<String> {
    match key {
        Key::Thought(id) => Some(id.clone()),
        _ => None,
    }
}

/// Parses the id of a record.
#[derive(Debug, Clone)]
struct Id<T> {
    named: Named,
    finder: Arc<Finder>,
    of: fn(&Key) -> Option<T>,
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Id<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let text = value.to_string_lossy();
        // A whole id is not looked up: the command says whether the log has it.
        let whole = Uuid::try_parse(&text).ok().map(Key::Proposal);
        let whole = whole.or_else(|| text.parse().ok().map(Key::Event));
        if let Some(id) = whole.and_then(|key| (self.of)(&key)) {
            return Ok(id);
        }
        let failure = match self.finder.find(self.named, &text) {
            Ok(key) => match (self.of)(&key) {
                Some(id) => return Ok(id),
                None => Failure::usage("the record has no such id"),
            },
            Err(Failure::Told(exit @ (Exit::Usage | Exit::Findings), message)) => {
                Failure::Told(exit, message + &or_a_list(command))
            }
            Err(failure) => failure,
        };
        let mut told = self
            .finder
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        told.get_or_insert(failure);
        Err(clap::Error::new(ErrorKind::ValueValidation).with_cmd(command))
    }
}

/// What else may stand in the place of an id: the names of lists.
fn or_a_list(command: &Command) -> String {
    let lists = command.get_subcommands().map(Command::get_name);
    let lists: Vec<&str> = lists.filter(|name| *name != "help").collect();
    if lists.is_empty() {
        return String::new();
    }
    format!("; or the name of a list: {}", lists.join(", "))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// Calls `each` with every argument of every command.
    fn each(command: &Command, each_one: &mut dyn FnMut(&str, &Arg)) {
        for argument in command.get_arguments() {
            each_one(command.get_name(), argument);
        }
        for subcommand in command.get_subcommands() {
            each(subcommand, each_one);
        }
    }

    #[test]
    fn every_uuid_may_be_given_by_its_start() {
        let mut ids = 0;
        each(&crate::cli::Cli::command(), &mut |command, argument| {
            if argument.get_value_parser().type_id() == TypeId::of::<Uuid>() {
                let id = argument.get_id().as_str();
                assert!(named(command, id).is_some(), "{command} {id}");
                ids += 1;
            }
        });
        assert!(ids > 10, "{ids}");
    }
}
