//! `decklog erase`

use std::io;

use decklog::{EraseOptions, ErasedPart, Erasure, ErrorKind};
use uuid::Uuid;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};
use super::output;
use super::retain::{told, until_broken};
use super::show::{grouped, row};

/// Forget a conversation, a user or a request: no file of the store holds it then
///
/// Erased is also what repairs put into quarantine/. If it is interrupted, run it again. While other
/// processes keep recording what is to be erased, it gives up within about 30 seconds, with the exit
/// code 5.
///
/// From then on 'decklog import' and 'decklog replay --into' leave it out, whether the log had any
/// of it or not: 'decklog import --restore-erased' brings it back. Recording it again is allowed.
///
/// Pieces of damaged lines go where they hold an id or a longer piece of a text of it, or make a
/// whole line of it with those next to them; others cannot be known: 'decklog verify' tells where
/// there are any. Files that are none of the store's are looked for in its directory and in those
/// of its days, not in others, and are only named.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  decklog erase --conversation 67e55044-10b1-426f-9247-bb680e5fe005 --dry-run"
)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Only say what would go
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A conversation with its messages, the turns of its thread and their tool calls
    ///
    /// Conversations of its sub-agents (those whose session or parent is this one) go with it,
    /// and so do theirs. It stays if one of those is erased.
    ///
    /// The outcome of a call goes with the call: if this conversation is a fork that went on with a
    /// call of another session, that session keeps it.
    #[arg(long, value_name = "ID")]
    conversation: Option<Uuid>,
    /// All conversations of a user, with all that belongs to them
    ///
    /// Only conversations name their users: turns and calls of one that is not there any more (those
    /// that ended in an error go after 30 days, their turns after 90) are found by --conversation.
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// The tool calls and the edit proposal of a request
    ///
    /// The messages of its conversation stay, and may repeat arguments and results of the calls:
    /// --conversation erases those, too.
    #[arg(long, value_name = "ID")]
    request: Option<Uuid>,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let what = match &args.what {
        What {
            conversation: Some(id),
            ..
        } => Erasure::Conversation(*id),
        What {
            request: Some(id), ..
        } => Erasure::Request(*id),
        What { user, .. } => Erasure::User(user.clone().unwrap_or_default()),
    };
    let store = context.open_to_change()?;
    let (mut lines, mut bytes) = (0, 0);
    let mut shown = Ok(());
    let mut show = |part: &ErasedPart| {
        lines += part.lines;
        bytes += part.bytes;
        shown = show(context, part);
        until_broken(&shown)
    };
    let options = EraseOptions {
        dry_run: args.dry_run,
        ..EraseOptions::for_good(&mut show)
    };
    let erased = store.erase(&what, options);
    shown?;
    let erased = erased.map_err(|error| match error.kind() {
        ErrorKind::Conflict => Failure::Told(Exit::GaveUp, error.to_string()),
        _ => Failure::from(error),
    })?;
    if !context.json {
        let verb = if args.dry_run { "would go" } else { "erased" };
        context.out.line(&told(lines, bytes, verb))?;
    }
    if matches!(what, Erasure::Request(_)) && !erased.parts.is_empty() {
        output::say(
            "messages of the conversation are kept, and may repeat what was erased: 'decklog erase --conversation' erases them, too",
        );
    }
    for file in &erased.foreign {
        output::say(&format!(
            "{} holds some of it, but is not a file of the store: delete it by hand",
            one_line(file)
        ));
    }
    for thread in &erased.continued {
        output::say(&format!(
            "conversation {thread} holds what came before it, which both sessions have: erase that one too, if it is to go"
        ));
    }
    for key in &erased.other_keys {
        output::say(&format!(
            "some user ids are hashed under another key, with the fingerprint {key}: whether one of them is this user's is known by that key alone. To look under it, make it the store's with 'decklog config user-id-key --replace' first"
        ));
    }
    let is_missing = erased.parts.is_empty();
    Ok(Exit::with_findings(
        is_missing || !erased.foreign.is_empty() || !erased.other_keys.is_empty(),
    ))
}

fn show(context: &mut Context, part: &ErasedPart) -> io::Result<()> {
    if context.json {
        context.out.json(part)?;
    } else {
        let text = format!(
            "{:<44}  {:>10} lines  {:>14} bytes",
            one_line(&part.file),
            grouped(part.lines),
            grouped(part.bytes),
        );
        row(&mut context.out, &text)?;
    }
    context.out.flush()
}
