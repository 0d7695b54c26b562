//! `decklog export`

mod atif;
pub mod csv;
#[cfg(feature = "page")]
pub mod html;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "parquet")]
mod parquet;
mod sheet;
#[cfg(feature = "sql")]
mod sqlite;

use std::path::PathBuf;

use clap::{Command, Subcommand};
use decklog::Key;
use decklog::query::{ConversationQuery, HistoryQuery, Order};
use uuid::Uuid;

pub use sheet::{Exported, Sheet, Table};

use super::context::Context;
use super::exit::{Exit, Failure};
use super::get::missing;
use super::list::{List, Part};
use super::{
    calls, conversations, events, inbox, markdown, messages, new_file, proposals, rollups,
    thoughts, turns,
};

/// Write records, a conversation or a report in another format
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog export csv messages --since 7d > messages.csv\n  decklog export jsonl calls --tool Bash --status failed\n  decklog export markdown latest -o transcript.md\n  decklog export html latest -o run.html\n  decklog export sqlite log.sqlite --since 30d"
)]
pub struct Args {
    #[command(subcommand)]
    format: Format,
    /// Write to this file, which appears when it is complete. Default: '-', standard output
    #[arg(long, short, global = true, value_name = "FILE", display_order = 100)]
    output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, global = true, display_order = 101)]
    force: bool,
}

#[derive(Debug, Subcommand)]
enum Format {
    /// A list, or the messages of a conversation, as comma-separated values
    ///
    /// The first line has the names of the fields, one for each column. Times are in UTC, as RFC
    /// 3339. Fields that hold JSON have it as text. Texts are written as they are: a spreadsheet
    /// may run a text that begins with =, +, - or @ as a formula, unless --spreadsheet is given.
    #[command(mut_subcommands(without_display_options))]
    Csv {
        #[command(flatten)]
        style: csv::Style,
        #[command(flatten)]
        what: What,
    },
    /// A list, or the messages of a conversation, as one JSON object a line
    ///
    /// The same as the command of that name prints with --json.
    #[command(mut_subcommands(without_display_options))]
    Jsonl(What),
    /// All records, or those of some kinds and times, as a database of SQLite
    #[cfg(feature = "sql")]
    Sqlite(sqlite::Args),
    /// The records of one kind, or those of some time, as a Parquet file
    #[cfg(feature = "parquet")]
    Parquet(parquet::Args),
    /// A conversation as a transcript, or a list as a table
    ///
    /// Contents are escaped: on GitHub and elsewhere they show as text, load nothing and mention
    /// nobody.
    #[command(mut_subcommands(without_display_options))]
    Markdown(What),
    /// Conversations as ATIF v1.7 trajectories, one document per line
    ///
    /// ATIF is Harbor's Agent Trajectory Interchange Format. A document includes the sub-agents of
    /// its conversation. 'decklog import' restores the original conversations from it.
    Atif(atif::Args),
    /// Conversations, runs and events as OTLP, one export request in JSON per line
    ///
    /// The form of the file exporter of the OpenTelemetry Collector. Spans and log records follow
    /// the GenAI conventions, and have the records themselves in attributes, so that another
    /// decklog restores them.
    #[cfg(feature = "otlp")]
    Otlp(otlp::Args),
    /// A conversation, a run or the figures of a period as a web page in one file
    ///
    /// The file needs no other file and loads nothing from the network. Secrets that redaction did
    /// not find are in it as they are in the log.
    #[cfg(feature = "page")]
    Html {
        /// A conversation's id, its start or 'latest', the number of an event, or a
        /// period of UTC days: 7d, today, 2026-06-01, 2026-06-01..2026-06-30. Default: 30d
        what: Option<html::What>,
    },
}

// What is exported: one of the two.
#[derive(Debug, clap::Args)]
struct What {
    /// A conversation's id or its start, or 'latest'
    conversation: Option<Uuid>,
    #[command(subcommand)]
    list: Option<Listed>,
}

/// The lists, each with the options of its command. The name of the kind in file names is an alias.
#[derive(Debug, Subcommand)]
enum Listed {
    #[command(visible_alias = "conversation_turns")]
    Turns(turns::Args),
    #[command(visible_alias = "tool_calls")]
    Calls(calls::Args),
    #[command(visible_alias = "code_edit_proposals")]
    Proposals(proposals::Args),
    Conversations(conversations::Args),
    Messages(messages::Args),
    Events(events::Args),
    Inbox(inbox::Args),
    History(History),
    /// List thoughts in the order in which they were recorded
    #[command(visible_alias = "thought_records")]
    Thoughts(thoughts::Listed),
    Rollups(rollups::Args),
}

/// List the entries of all chats, or of one, by id
#[derive(Debug, clap::Args)]
struct History {
    #[command(flatten)]
    query: HistoryQuery,
    #[command(flatten)]
    part: Part,
}

/// Hides the options that change how a list looks on a terminal, and examples of other commands.
fn without_display_options(list: Command) -> Command {
    let hidden = |id: &str| matches!(id, "long" | "counts");
    list.mut_args(|arg| {
        let is_hidden = hidden(arg.get_id().as_str());
        if is_hidden { arg.hide(true) } else { arg }
    })
    .after_help("")
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    #[cfg(feature = "sql")]
    if let Format::Sqlite(what) = &args.format {
        if args.output.is_some() {
            return Err(Failure::usage("'export sqlite' takes the file without -o"));
        }
        return sqlite::run(what, args.force, context);
    }
    #[cfg(feature = "parquet")]
    if let Format::Parquet(what) = &args.format {
        if args.output.is_some() {
            return Err(Failure::usage("'export parquet' takes the file without -o"));
        }
        return parquet::run(what, args.force, context);
    }
    if args.force && args.output.is_none() {
        return Err(Failure::usage(
            "--force is for a file: give one with --output",
        ));
    }
    if let Some(path) = args.output.as_deref().and_then(new_file::named) {
        return new_file::write_to(path, args.force, context, |context| write(args, context));
    }
    let is_json = match args.format {
        Format::Jsonl(_) | Format::Atif(_) => true,
        #[cfg(feature = "otlp")]
        Format::Otlp(_) => true,
        _ => false,
    };
    if context.json && !is_json {
        let message = "--json is for 'export jsonl', 'export atif' and 'export otlp', or for the report about a file: with -o FILE";
        return Err(Failure::usage(message));
    }
    write(args, context)
}

fn write(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let (what, sheet) = match &args.format {
        Format::Csv { style, what } => (what, Some(Sheet::Csv(*style))),
        Format::Jsonl(what) => (what, None),
        #[cfg(feature = "sql")]
        Format::Sqlite(what) => return sqlite::run(what, false, context),
        #[cfg(feature = "parquet")]
        Format::Parquet(what) => return parquet::run(what, false, context),
        Format::Markdown(what) => (what, Some(Sheet::Markdown)),
        Format::Atif(what) => return atif::run(what, context),
        #[cfg(feature = "otlp")]
        Format::Otlp(what) => return otlp::run(what, context),
        #[cfg(feature = "page")]
        Format::Html { what } => return html::write(what.as_ref(), context),
    };
    context.json = true;
    context.sheet = sheet;
    match (&what.conversation, &what.list) {
        (None, Some(listed)) => list(listed, context),
        (Some(id), None) => {
            if !matches!(sheet, Some(Sheet::Markdown)) {
                return messages::run(&messages::Args::of(*id), context);
            }
            let store = context.open_to_read()?;
            if store.get_conversation(*id)?.is_none() {
                return Ok(missing(Key::Conversation(*id)));
            }
            markdown::transcript(&store, *id, &mut context.out)?;
            Ok(Exit::Ok)
        }
        (Some(_), Some(_)) => {
            let message = "give a conversation or a list: 'messages' takes a conversation too";
            Err(Failure::usage(message))
        }
        (None, None) => {
            let message = "name a conversation, 'latest', or a list: see --help";
            Err(Failure::usage(message))
        }
    }
}

fn list(listed: &Listed, context: &mut Context) -> Result<Exit, Failure> {
    match listed {
        Listed::Turns(args) => turns::run(args, context),
        Listed::Calls(args) => calls::run(args, context),
        Listed::Proposals(args) => proposals::run(args, context),
        Listed::Conversations(args) => conversations::run(args, context),
        Listed::Messages(args) => messages::run(args, context),
        Listed::Events(args) => events::run(args, context),
        Listed::Inbox(args) if args.counts => {
            Err(Failure::usage("--counts is no list: see 'decklog inbox'"))
        }
        Listed::Inbox(args) => inbox::run(args, context),
        Listed::History(args) => {
            let store = context.open_to_read()?;
            let list = List::from(Order::OldestFirst, args.part, "no entries found");
            list.print(context, &args.query, |query| store.history_entries(query))
        }
        Listed::Thoughts(args) => thoughts::list(args, context),
        Listed::Rollups(args) => rollups::run(args, context),
    }
}

/// Checks that ids, all conversations or filters are given. Returns whether filters are.
fn is_filtered(ids: &[Uuid], all: bool, query: &ConversationQuery) -> Result<bool, Failure> {
    let defaults = ConversationQuery::default();
    let is_filtered = format!("{query:?}") != format!("{defaults:?}");
    if is_filtered && !ids.is_empty() {
        return Err(Failure::usage("give either ids or filters"));
    }
    if ids.is_empty() && !all && !is_filtered {
        let message = "give ids of conversations, 'latest', --all or a filter: see --help";
        return Err(Failure::usage(message));
    }
    Ok(is_filtered)
}
