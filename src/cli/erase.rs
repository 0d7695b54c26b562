//! `decklog erase`

use decklog::retention::{EraseOptions, ErasedPart, Erasure};
use decklog::{ErrorKind, Store};
use serde_json::json;
use uuid::Uuid;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;
use super::removal::{self, Part};
use super::show::row;

/// Erase a conversation, a user or a request from every file of the store
///
/// Files in quarantine/ are erased too. If it is interrupted, run it again. If other processes keep
/// recording the data, it stops within about 30 seconds, with exit code 5.
///
/// Ids may be given by their start or as 'latest'. The first line of the output has the whole id, and
/// the title of a conversation; --dry-run shows it without erasing.
///
/// 'decklog import' and 'decklog replay --into' then skip it, even if the log had none of it.
/// 'decklog import --restore-erased' restores it. Recording it again is allowed.
///
/// Pieces of damaged lines are erased if they contain an id or a longer part of a text of the data,
/// or form a whole line of it with adjacent pieces. Other pieces cannot be recognized: 'decklog
/// verify' lists them. Other programs' files in the store's directory and the directories of its
/// days are only named.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog erase --conversation 67e55044-10b1-426f-9247-bb680e5fe005 --dry-run"
)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Only report what would be erased
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A conversation with its messages, the turns of its thread and their tool calls
    ///
    /// The conversations of its sub-agents, at any depth, are erased too (those with this one as
    /// session or parent). Erasing a sub-agent's conversation keeps its parent.
    ///
    /// The outcome of a call is erased with the call. If this conversation is a fork that completed a
    /// call of another session, that session keeps the outcome.
    #[arg(long, value_name = "ID")]
    conversation: Option<Uuid>,
    /// All conversations of a user, with all their records
    ///
    /// Only conversations have a user. Use --conversation for turns and calls of a conversation that
    /// was already removed (by default, one that ended in an error is removed after 30 days, its
    /// turns after 90).
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The tool calls and the edit proposal of a request
    ///
    /// The messages of its conversation stay, and may repeat arguments and results of the calls.
    /// --conversation erases those too.
    #[arg(long, value_name = "ID")]
    request: Option<Uuid>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let what = match (args.what.conversation, args.what.request) {
        (Some(id), _) => Erasure::Conversation(id),
        (_, Some(id)) => Erasure::Request(id),
        (None, None) => Erasure::User(args.what.user.clone().unwrap_or_default()),
    };
    let store = context.open_to_change()?;
    name(&store, &what, context)?;
    let erased = removal::print(context, args.dry_run, "erased", |progress| {
        let options = EraseOptions {
            dry_run: args.dry_run,
            progress: Some(progress),
        };
        store
            .erase(&what, options)
            .map_err(|error| match error.kind() {
                ErrorKind::Conflict => Failure::Told(Exit::GaveUp, error.to_string()),
                _ => Failure::from(error),
            })
    })?;
    if matches!(what, Erasure::Request(_)) && !erased.parts.is_empty() {
        output::say(
            "the messages of the conversation are kept and may repeat erased data: 'decklog erase --conversation' erases them too",
        );
    }
    for file in &erased.foreign {
        output::say(&format!(
            "{} has some of the data, but is not a file of the store: delete it by hand",
            one_line(file)
        ));
    }
    for thread in &erased.continued {
        output::say(&format!(
            "conversation {thread} has the earlier part that both sessions share: erase it too if that part must be erased"
        ));
    }
    for key in &erased.other_keys {
        output::say(&format!(
            "some user ids are hashed under another key, with the fingerprint {key}, and may be this user's. To search them, make that key the store's with 'decklog config user-id-key --replace' first"
        ));
    }
    let is_missing = erased.parts.is_empty();
    Ok(Exit::with_findings(
        is_missing || !erased.foreign.is_empty() || !erased.other_keys.is_empty(),
    ))
}

/// Names what an id, its start or `latest` stands for, before anything is erased.
fn name(store: &Store, what: &Erasure, context: &mut Context) -> Result<(), Failure> {
    let (value, text) = match what {
        Erasure::Conversation(id) => {
            // If it cannot be read, its lines are erased all the same, or the erasure says why not.
            let known = store.get_conversation(*id).ok().flatten();
            let title = known.and_then(|(it, _)| store.conversation_title(&it).ok().flatten());
            let shown = one_line(title.as_deref().unwrap_or_default());
            let text = format!("conversation {id}  {shown}");
            (json!({ "conversation": id, "title": title }), text)
        }
        Erasure::Request(id) => (json!({ "request": id }), format!("request {id}")),
        Erasure::User(_) => return Ok(()),
    };
    if context.json {
        context.out.json(&value)?;
    } else {
        row(&mut context.out, &text)?;
    }
    Ok(context.out.flush()?)
}

impl Part for ErasedPart {
    fn columns(&self) -> (String, u64, u64, String) {
        let file = format!("{:<44}", one_line(&self.file));
        (file, self.lines, self.bytes, String::new())
    }
}
