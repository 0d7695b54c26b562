//! `decklog get`

use clap::Subcommand;
use decklog::Kind;
use uuid::Uuid;

use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use super::show::Shown;

/// Show one record, by its key
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog get calls 67e55044-10b1-426f-9247-bb680e5fe0c8 call_1 --json\n  decklog get events 12"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
    /// The state of the turn, call or proposal at this time: epoch ms, RFC 3339 or YYYY-MM-DD (UTC)
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
        /// The call's id within the request
        #[arg(allow_hyphen_values = true)]
        call_id: String,
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
    /// Its kind and key in the library.
    pub fn key(&self) -> (Kind, [String; 2]) {
        let (kind, one) = match self {
            What::Calls {
                request_id,
                call_id,
            } => return (Kind::ToolCalls, [request_id.to_string(), call_id.clone()]),
            What::Turns { id } => (Kind::ConversationTurns, id.to_string()),
            What::Proposals { request_id } => (Kind::CodeEditProposals, request_id.to_string()),
            What::Conversations { id } => (Kind::Conversations, id.to_string()),
            What::Messages { id } => (Kind::Messages, id.to_string()),
            What::Events { id } => (Kind::Events, id.to_string()),
            What::Inbox { id } => (Kind::Inbox, id.to_string()),
            What::Thoughts { id } => (Kind::ThoughtRecords, id.clone()),
        };
        (kind, [one, String::new()])
    }

    /// Its name in messages.
    pub fn in_words(&self) -> String {
        match self {
            What::Calls {
                request_id,
                call_id,
            } => format!("tool call {request_id} {call_id}"),
            What::Turns { id } => format!("turn {id}"),
            What::Proposals { request_id } => format!("proposal {request_id}"),
            What::Conversations { id } => format!("conversation {id}"),
            What::Messages { id } => format!("message {id}"),
            What::Events { id } => format!("event {id}"),
            What::Inbox { id } => format!("task {id}"),
            What::Thoughts { id } => format!("thought {id}"),
        }
    }
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let has_past = matches!(
        args.what,
        What::Calls { .. } | What::Turns { .. } | What::Proposals { .. }
    );
    if args.as_of.is_some() && !has_past {
        let message =
            "--as-of is only for turns, calls and proposals: other kinds have no earlier states";
        return Err(Failure::usage(message));
    }
    let store = context.open_to_read()?;
    let name = args.what.in_words();
    match &args.what {
        What::Calls {
            request_id,
            call_id,
        } => {
            let found = store.as_of(args.as_of).get_tool_call(*request_id, call_id);
            one(context, found?, &name)
        }
        What::Turns { id } => one(context, store.as_of(args.as_of).get_turn(*id)?, &name),
        What::Proposals { request_id } => one(
            context,
            store.as_of(args.as_of).get_proposal(*request_id)?,
            &name,
        ),
        What::Conversations { id } => one(context, store.get_conversation(*id)?, &name),
        What::Messages { id } => one(context, store.get_message(*id)?, &name),
        What::Events { id } => one(context, store.get_event(*id)?, &name),
        What::Inbox { id } => one(context, store.inbox().get(*id)?, &name),
        What::Thoughts { id } => one(context, store.thoughts().get(id)?, &name),
    }
}

fn one(context: &mut Context, found: Option<impl Shown>, what: &str) -> Result<Exit, Failure> {
    let Some(record) = found else {
        return Ok(missing(what));
    };
    if context.json {
        record.json(&mut context.out)?;
    } else {
        record.in_full(&mut context.out)?;
    }
    Ok(Exit::Ok)
}

/// Reports that the record does not exist.
pub fn missing(what: &str) -> Exit {
    output::say(&format!("there is no {what}"));
    Exit::Findings
}
