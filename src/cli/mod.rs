//! The command line: it reads arguments, calls the library and prints. The rules of records are in
//! the library, never here.

// Doc comments on arguments are help texts.
#![allow(clippy::doc_markdown)]

#[cfg(feature = "ship")]
mod backup;
mod branches;
mod calls;
mod check_proof;
mod commands;
mod compact;
mod completions;
mod config;
mod context;
mod conversations;
mod day;
mod demo;
mod doctor;
mod du;
mod erase;
mod escape;
mod events;
mod exit;
mod export;
mod files;
mod get;
mod help;
mod history;
mod hook;
mod hook_settings;
mod ids;
mod import;
mod inbox;
mod line;
mod list;
#[cfg(feature = "wire")]
mod log;
mod man;
mod markdown;
#[cfg(feature = "mcp")]
mod mcp;
mod messages;
mod new_file;
mod open;
mod output;
mod pager;
mod pages;
mod proposals;
mod prove;
#[cfg(feature = "ship")]
mod pull;
mod record;
mod removal;
mod repair;
mod replay;
#[cfg(feature = "page")]
mod report;
mod resume;
mod retain;
mod rollups;
mod schema;
mod seal;
mod search;
#[cfg(feature = "http")]
mod serve;
mod service;
#[cfg(feature = "ship")]
mod ship;
mod show;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "rows")]
mod sql_views;
mod state;
mod stats;
mod statusline;
mod stdin;
mod table;
mod tail;
mod this_day;
mod thoughts;
mod time;
mod today;
#[cfg(feature = "http")]
mod token;
#[cfg(feature = "top")]
mod top;
mod transcript;
#[cfg(feature = "ship")]
mod transfer;
mod tree;
mod turns;
mod verify;
mod watch;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use context::Context;
use exit::{Exit, Failure};
use ids::Finder;
use output::Colours;

/// A log for LLM agents in plain JSONL files: turns, tool calls, messages, events and more.
///
/// Without a command: today's overview.
#[derive(Debug, Parser)]
#[command(name = "decklog", version, after_help = exit::HELP)]
struct Cli {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Option<Command>,
}

// A doc comment would be the help of the program.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Options of every command")]
struct Options {
    /// The store's directory. Default: $DECKLOG_STORE, else decklog in the user's data directory
    #[arg(long, global = true, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Print one JSON object a line, with the field names of the files
    #[arg(long, global = true)]
    json: bool,
    /// Allow writing on a network file system; safe only if no other machine writes the log
    #[arg(long, global = true)]
    allow_network_fs: bool,
    /// Show times in UTC, and read times without a zone as UTC; otherwise as local time
    #[arg(long, global = true)]
    utc: bool,
    /// Use colours and the terminal's width: when the output is a terminal, always, or never
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    color: Colours,
}

/// Declares the commands in groups, each with the module that runs it.
macro_rules! commands {
    ($($group:literal { $($(#[$cfg:meta])? $command:ident $module:ident,)+ })+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($($(#[$cfg])? $command($module::Args),)+)+
        }

        /// The groups of the help.
        const GROUPS: &[help::Group] = &[
            $(($group, &[$($(#[$cfg])? stringify!($command),)+]),)+
        ];

        /// Declares one command, by its name.
        fn declared(name: &str) -> Option<clap::Command> {
            if !Command::has_subcommand(name) {
                return None;
            }
            // A name is static. This one is of the process.
            let command = clap::Command::new(&*name.to_owned().leak());
            $($($(#[$cfg])? if help::is_named(&command, stringify!($command)) {
                return Some(<$module::Args as clap::Args>::augment_args(command));
            })+)+
            None
        }

        fn run(command: &Command, context: &mut Context) -> Result<Exit, Failure> {
            match command {
                $($($(#[$cfg])? Command::$command(args) => $module::run(args, context),)+)+
            }
        }
    };
}

commands! {
    "First steps" {
        Demo demo,
        Import import,
        Watch watch,
        Conversations conversations,
        Show transcript,
        Stats stats,
        Statusline statusline,
        #[cfg(feature = "http")]
        Serve serve,
    }
    "Answers" {
        Today this_day,
        Day day,
        Files files,
        Commands commands,
        Resume resume,
    }
    "Read" {
        Search search,
        Messages messages,
        Turns turns,
        Calls calls,
        Proposals proposals,
        Events events,
        Tree tree,
        Inbox inbox,
        History history,
        Thoughts thoughts,
        State state,
        Get get,
        Tail tail,
        #[cfg(feature = "top")]
        Top top,
        Replay replay,
    }
    "Write" {
        Record record,
        Hook hook,
        Config config,
    }
    "Reports" {
        Rollups rollups,
        #[cfg(feature = "sql")]
        Sql sql,
        Export export,
        #[cfg(feature = "page")]
        Report report,
        Open open,
    }
    "Integrity" {
        Verify verify,
        Doctor doctor,
        Repair repair,
        Seal seal,
        Prove prove,
        CheckProof check_proof,
    }
    "Upkeep" {
        Du du,
        Retain retain,
        Compact compact,
        Erase erase,
    }
    "Copies" {
        #[cfg(feature = "ship")]
        Ship ship,
        #[cfg(feature = "ship")]
        Pull pull,
        #[cfg(feature = "ship")]
        Backup backup,
        #[cfg(feature = "rows")]
        SqlViews sql_views,
    }
    "Servers" {
        #[cfg(feature = "mcp")]
        Mcp mcp,
        #[cfg(feature = "http")]
        Token token,
    }
    "Help" {
        Schema schema,
        Completions completions,
        Man man,
    }
}

/// The options that values of other arguments depend on, and that may come after them: ids are
/// looked up in the store, and times may be local.
#[derive(Debug, Default, PartialEq, Eq)]
struct EarlyOptions {
    store: Option<PathBuf>,
    is_utc: bool,
}

impl EarlyOptions {
    fn of(arguments: impl Iterator<Item = OsString>) -> EarlyOptions {
        let mut arguments = arguments.take_while(|argument| argument != "--");
        let mut options = EarlyOptions::default();
        while let Some(argument) = arguments.next() {
            if argument == "--utc" {
                options.is_utc = true;
            } else if argument == "--store" {
                options.store = arguments.next().map(PathBuf::from);
            } else if let Some(path) = argument.to_str().and_then(|it| it.strip_prefix("--store="))
            {
                options.store = Some(path.into());
            }
        }
        options
    }
}

/// The name of the command in the arguments after the program; `None` if they ask for the help or
/// the version of the program.
fn command_of(mut arguments: impl Iterator<Item = OsString>) -> Option<String> {
    loop {
        let argument = arguments.next()?.into_string().ok()?;
        match argument.as_str() {
            "--store" | "--color" => drop(arguments.next()),
            "--" | "--help" | "--version" => return None,
            other if other.starts_with("--") => {}
            other if other.starts_with('-') && other.contains(['h', 'V']) => return None,
            other if other.starts_with('-') => {}
            _ => return Some(argument),
        }
    }
}

/// The command line with one command, since to declare all of them takes some milliseconds.
fn with_only(command: clap::Command) -> clap::Command {
    let program = clap::Command::new("decklog").version(env!("CARGO_PKG_VERSION"));
    <Options as clap::Args>::augment_args(program).subcommand(command)
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let options = EarlyOptions::of(std::env::args_os().skip(1));
    time::set_utc(options.is_utc);
    let finder = Finder::new(options.store);
    let command = match command_of(std::env::args_os().skip(1))
        .as_deref()
        .and_then(declared)
    {
        Some(command) => with_only(command),
        None => help::grouped(Cli::command(), GROUPS),
    };
    let mut command = time::accepts(finder.accepts(command));
    let parsed = command.try_get_matches_from_mut(std::env::args_os());
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed.map_err(|error| error.format(&mut command)) {
        Ok(cli) => cli,
        Err(error) => {
            if let Some(Failure::Told(exit, message)) = finder.failure() {
                output::say(&message);
                return exit.into();
            }
            if error.use_stderr() && hook::is_called(std::env::args_os()) {
                let text = error.to_string();
                output::say(text.lines().next().unwrap_or_default());
                return Exit::Ok.into();
            }
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
    let of_all = cli.options;
    let mut context = Context::new(
        of_all.store,
        of_all.allow_network_fs,
        of_all.json,
        of_all.color,
    )
    .with_opened(finder.store());
    let ended = match &cli.command {
        Some(command) => run(command, &mut context),
        None => today::run(&mut context),
    };
    let ended = ended.and_then(|exit| Ok(context.out.flush().map(|()| exit)?));
    match ended {
        Ok(exit) => exit.into(),
        // The reader of the output closed it.
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Exit::Ok.into(),
        Err(Failure::Output(error)) => {
            output::say(&format!("cannot write to standard output: {error}"));
            Exit::Store.into()
        }
        Err(Failure::Told(exit, message)) => {
            // Earlier output comes first.
            let _ = context.out.flush();
            output::say(&message);
            exit.into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_others_depend_on_are_known_before() {
        let of = |arguments: &[&str]| EarlyOptions::of(arguments.iter().map(OsString::from));
        let store = |arguments: &[&str]| of(arguments).store;
        assert_eq!(store(&["show", "latest", "--store", "a"]), Some("a".into()));
        assert_eq!(store(&["--store=b", "show", "latest"]), Some("b".into()));
        assert_eq!(store(&["search", "--", "--store", "c"]), None);
        assert_eq!(store(&["show", "--store"]), None);
        assert!(of(&["show", "latest", "--utc"]).is_utc);
        assert!(!of(&["search", "--", "--utc"]).is_utc);
    }

    #[test]
    fn the_command_is_found_behind_the_options_of_all() {
        let of = |arguments: &str| command_of(arguments.split(' ').map(OsString::from));
        assert_eq!(
            of("--store hook --json --color=never tail -n 5").as_deref(),
            Some("tail")
        );
        assert_eq!(of("--unknown tail").as_deref(), Some("tail"));
        assert_eq!(of("-x tail").as_deref(), Some("tail"));
        assert_eq!((of("--help tail"), of("-xh tail")), (None, None));
        assert_eq!(of("--json"), None);
    }

    /// A command that is declared alone has the same arguments and messages.
    #[test]
    fn a_command_is_the_same_alone_and_among_all() {
        let mut all = help::grouped(Cli::command(), GROUPS);
        let names = all.get_subcommands().map(|it| it.get_name().to_owned());
        let names: Vec<String> = names.collect();
        assert!(names.len() > 40, "{}", names.len());
        for name in names {
            let mut alone = with_only(declared(&name).unwrap());
            for arguments in [
                vec!["decklog", &name, "--help"],
                vec!["decklog", &name, "-h"],
                vec!["decklog", &name, "--no-such-option"],
                vec!["decklog", "--json", "--stor", &name],
            ] {
                let said = |command: &mut clap::Command| {
                    let error = command.try_get_matches_from_mut(&arguments).unwrap_err();
                    error.to_string()
                };
                assert_eq!(said(&mut alone), said(&mut all), "{arguments:?}");
            }
        }
        assert!(declared("help").is_none() && declared("checkproof").is_none());
    }
}
