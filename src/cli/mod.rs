//! The command line: it reads arguments, calls the library and prints. The rules of records are in
//! the library, never here.

// Doc comments on arguments are help texts.
#![allow(clippy::doc_markdown)]

mod branches;
mod calls;
mod check_proof;
mod compact;
mod config;
mod context;
mod conversations;
mod demo;
mod doctor;
mod du;
mod erase;
mod escape;
mod events;
mod exit;
mod get;
mod history;
mod import;
mod inbox;
mod line;
mod list;
#[cfg(feature = "wire")]
mod log;
#[cfg(feature = "mcp")]
mod mcp;
mod messages;
mod output;
mod pages;
mod proposals;
mod prove;
mod record;
mod repair;
mod replay;
mod retain;
mod rollups;
mod schema;
mod seal;
mod search;
#[cfg(feature = "http")]
mod serve;
mod show;
mod state;
mod stats;
mod stdin;
mod tail;
mod thoughts;
mod time;
#[cfg(feature = "http")]
mod token;
mod transcript;
mod tree;
mod turns;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use context::Context;
use exit::{Exit, Failure};

/// A log for LLM agents in plain JSONL files: turns, tool calls, messages, events and more.
#[derive(Debug, Parser)]
#[command(name = "decklog", version, after_help = exit::HELP)]
struct Cli {
    /// The store's directory. Default: $DECKLOG_STORE, else decklog in the user's data directory
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        help_heading = "Options of every command"
    )]
    store: Option<PathBuf>,
    /// Print one JSON object a line, with the field names of the files
    #[arg(long, global = true, help_heading = "Options of every command")]
    json: bool,
    /// Allow writing on a network file system; safe only if no other machine writes the log
    #[arg(long, global = true, help_heading = "Options of every command")]
    allow_network_fs: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Import(import::Args),
    Record(record::Args),
    Turns(turns::Args),
    Calls(calls::Args),
    Proposals(proposals::Args),
    Conversations(conversations::Args),
    Messages(messages::Args),
    Show(transcript::Args),
    Events(events::Args),
    Tree(tree::Args),
    Inbox(inbox::Args),
    State(state::Args),
    History(history::Args),
    Thoughts(thoughts::Args),
    Rollups(rollups::Args),
    Stats(stats::Args),
    Get(get::Args),
    Search(search::Args),
    Tail(tail::Args),
    Replay(replay::Args),
    Seal(seal::Args),
    Prove(prove::Args),
    CheckProof(check_proof::Args),
    Verify(verify::Args),
    Doctor(doctor::Args),
    Du(du::Args),
    Config(config::Args),
    Schema(schema::Args),
    #[cfg(feature = "http")]
    Token(token::Args),
    Repair(repair::Args),
    Retain(retain::Args),
    Compact(compact::Args),
    Erase(erase::Args),
    #[cfg(feature = "http")]
    Serve(serve::Args),
    #[cfg(feature = "mcp")]
    Mcp(mcp::Args),
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // If this cannot be printed, no message can.
            let _ = error.print();
            let exit = if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Ok
            };
            return exit.into();
        }
    };
    let mut context = Context::new(cli.store, cli.allow_network_fs, cli.json);
    let ended = run(&cli.command, &mut context).and_then(|exit| {
        context.out.flush()?;
        Ok(exit)
    });
    match ended {
        Ok(exit) => exit.into(),
        // The reader of the output closed it.
        Err(Failure::BrokenPipe) => Exit::Ok.into(),
        Err(Failure::Told(exit, message)) => {
            // Earlier output comes first.
            let _ = context.out.flush();
            output::say(&message);
            exit.into()
        }
    }
}

fn run(command: &Command, context: &mut Context) -> Result<Exit, Failure> {
    match command {
        Command::Demo(args) => demo::run(args, context),
        Command::Import(args) => import::run(args, context),
        Command::Record(args) => record::run(args, context),
        Command::Turns(args) => turns::run(args, context),
        Command::Calls(args) => calls::run(args, context),
        Command::Proposals(args) => proposals::run(args, context),
        Command::Conversations(args) => conversations::run(args, context),
        Command::Messages(args) => messages::run(args, context),
        Command::Show(args) => transcript::run(args, context),
        Command::Events(args) => events::run(args, context),
        Command::Tree(args) => tree::run(args, context),
        Command::Inbox(args) => inbox::run(args, context),
        Command::State(args) => state::run(args, context),
        Command::History(args) => history::run(args, context),
        Command::Thoughts(args) => thoughts::run(args, context),
        Command::Rollups(args) => rollups::run(args, context),
        Command::Stats(args) => stats::run(args, context),
        Command::Get(args) => get::run(args, context),
        Command::Search(args) => search::run(args, context),
        Command::Tail(args) => tail::run(args, context),
        Command::Replay(args) => replay::run(args, context),
        Command::Seal(args) => seal::run(args, context),
        Command::Prove(args) => prove::run(args, context),
        Command::CheckProof(args) => check_proof::run(args, context),
        Command::Verify(args) => verify::run(args, context),
        Command::Doctor(args) => doctor::run(args, context),
        Command::Du(args) => du::run(args, context),
        Command::Config(args) => config::run(args, context),
        Command::Schema(args) => schema::run(args, context),
        #[cfg(feature = "http")]
        Command::Token(args) => token::run(args, context),
        Command::Repair(args) => repair::run(args, context),
        Command::Retain(args) => retain::run(args, context),
        Command::Compact(args) => compact::run(args, context),
        Command::Erase(args) => erase::run(args, context),
        #[cfg(feature = "http")]
        Command::Serve(args) => serve::run(args, context),
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(args, context),
    }
}
