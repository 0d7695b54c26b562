//! `decklog get`

use std::fmt::Display;

use clap::Subcommand;
use decklog::query::CallQuery;
use decklog::{Key, Store};
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::show::{Listed, Shown};

/// Show one record, by its key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog get calls 67e55044-10b1-426f-9247-bb680e5fe0c8 call_1 --json\n  decklog get events 12"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The state of the turn, call or proposal at this time
    #[arg(long, global = true, value_name = "TIME", value_parser = decklog::record::epoch_ms)]
    as_of: Option<i64>,
}

/// A record by its key.
#[derive(Debug, Subcommand)]
pub enum What {
    /// A tool call with its outcome
    Calls {
        /// The model request of the call
        request_id: Uuid,
        /// The call's id within the request. Default: the only call of the request
        #[arg(allow_hyphen_values = true)]
        call_id: Option<String>,
    },
    /// A conversation turn
    Turns {
        /// The turn's id
        id: Uuid,
    },
    /// A code edit proposal with its status
    Proposals {
        /// The request that proposed the edit
        request_id: Uuid,
    },
    /// A conversation with totals of its messages
    Conversations {
        /// The conversation's id
        id: Uuid,
    },
    /// A message of a conversation
    Messages {
        /// The message's id
        id: Uuid,
    },
    /// An event
    Events {
        /// The event's id
        id: i64,
    },
    /// A task of the inbox
    Inbox {
        /// The task's id
        id: i64,
    },
    /// A thought
    Thoughts {
        /// The thought's id
        #[arg(allow_hyphen_values = true)]
        id: String,
    },
}

impl What {
    /// The key in the library.
    pub fn key(&self, store: &Store) -> Result<Key, Failure> {
        Ok(match self {
            What::Calls {
                request_id,
                call_id,
            } => Key::ToolCall {
                request_id: *request_id,
                call_id: match call_id {
                    Some(call_id) => call_id.clone(),
                    None => only_call(store, *request_id)?,
                },
            },
            What::Turns { id } => Key::Turn(*id),
            What::Proposals { request_id } => Key::Proposal(*request_id),
            What::Conversations { id } => Key::Conversation(*id),
            What::Messages { id } => Key::Message(*id),
            What::Events { id } => Key::Event(*id),
            What::Inbox { id } => Key::Task(*id),
            What::Thoughts { id } => Key::Thought(id.clone()),
        })
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let key = args.what.key(&store)?;
    if args.as_of.is_some()
        && !matches!(key, Key::ToolCall { .. } | Key::Turn(_) | Key::Proposal(_))
    {
        let message =
            "--as-of is only for turns, calls and proposals: other kinds have no earlier states";
        return Err(Failure::usage(message));
    }
    let past = store.as_of(args.as_of);
    match &key {
        Key::ToolCall {
            request_id,
            call_id,
        } => one(context, past.get_tool_call(*request_id, call_id)?, &key),
        Key::Turn(id) => one(context, past.get_turn(*id)?, &key),
        Key::Proposal(id) => one(context, past.get_proposal(*id)?, &key),
        Key::Conversation(id) => {
            let found = store.get_conversation(*id)?;
            let found = found.map(|it| Listed::of(&store, it)).transpose()?;
            one(context, found, &key)
        }
        Key::Message(id) => one(context, store.get_message(*id)?, &key),
        Key::Event(id) => one(context, store.get_event(*id)?, &key),
        Key::Task(id) => one(context, store.inbox().get(*id)?, &key),
        Key::Thought(id) => one(context, store.thoughts().get(id)?, &key),
        _ => Ok(missing(&key)),
    }
}

/// The id of the only call of a request.
fn only_call(store: &Store, request_id: Uuid) -> Result<String, Failure> {
    const NAMED: usize = 3;
    let query = CallQuery {
        request_id: Some(request_id),
        limit: NAMED + 1,
        ..CallQuery::default()
    };
    let calls = store.tool_calls(&query)?.items.into_iter();
    let mut calls: Vec<String> = calls.map(|(request, _)| request.call_id).collect();
    match (calls.pop(), &calls[..]) {
        (None, _) => Err(Failure::Told(
            Exit::Findings,
            format!("there is no tool call of request {request_id}"),
        )),
        (Some(only), []) => Ok(only),
        (Some(last), others) => {
            let named = others.iter().chain([&last]).take(NAMED);
            let named: Vec<&str> = named.map(String::as_str).collect();
            let more = if others.len() >= NAMED { ", …" } else { "" };
            Err(Failure::usage(format!(
                "request {request_id} has several calls: give the id of one, such as {}{more}",
                named.join(", ")
            )))
        }
    }
}

fn one(context: &mut Context, found: Option<impl Shown>, key: &Key) -> Result<Exit, Failure> {
    let Some(record) = found else {
        return Ok(missing(key));
    };
    if context.json {
        context.out.json(&record.as_json())?;
    } else {
        record.in_full(&mut context.out)?;
    }
    Ok(Exit::Ok)
}

/// Reports that the record does not exist.
pub fn missing(what: impl Display) -> Exit {
    output::say(&format!("there is no {what}"));
    Exit::Findings
}
