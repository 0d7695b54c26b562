//! `decklog open`

mod duckdb;
mod lnav;
mod segments;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::slice;

use clap::Subcommand;
use decklog::Kind;

use super::context::Context;
use super::escape;
use super::exit::{Exit, Failure};
use segments::Segments;

/// Open the log in another program: DuckDB, lnav or jq
///
/// On a terminal, starts the program. Otherwise, and with --print, prints the command that does.
/// The programs read the files of the log: one line for each change of a record, as
/// 'decklog tail' shows them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog open duckdb\n  decklog open duckdb -- -c 'select role, count(*) from messages group by 1'\n  decklog open lnav messages\n  decklog open jq tool_calls -- -r 'select(.op == \"failed\").error_msg'"
)]
pub struct Args {
    #[command(subcommand)]
    program: Program,
    /// Print the command instead of starting the program
    #[arg(long, global = true)]
    print: bool,
}

#[derive(Debug, Subcommand)]
enum Program {
    /// SQL over the log, with a view for each kind of record
    Duckdb {
        /// Further arguments for duckdb
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// All lines in the order of their time, with filters and SQL
    Lnav {
        /// Only this kind, as in file names
        kind: Option<Kind>,
        /// Further arguments for lnav
        #[arg(last = true)]
        args: Vec<OsString>,
    },
    /// The lines of the log as JSON
    Jq {
        /// Only this kind, as in file names
        kind: Option<Kind>,
        /// Arguments for jq, such as a filter. Default: the filter '.', which prints all
        #[arg(last = true)]
        args: Vec<OsString>,
    },
}

/// A program with its arguments.
#[derive(Debug)]
struct Start {
    program: &'static str,
    /// How to get the program.
    install: &'static str,
    args: Vec<OsString>,
    /// The files come last.
    files: Vec<Segments>,
}

impl Start {
    /// The command for a shell, which finds the files anew.
    fn in_shell(&self) -> Vec<u8> {
        let mut line = self.program.as_bytes().to_vec();
        for arg in &self.args {
            line.push(b' ');
            line.extend(escape::shell_word(arg.as_encoded_bytes()));
        }
        for files in &self.files {
            line.push(b' ');
            line.extend(files.in_shell());
        }
        line
    }

    fn run(&self) -> Result<Exit, Failure> {
        let files: Vec<PathBuf> = self.files.iter().flat_map(|it| it.paths.clone()).collect();
        let mut command = Command::new(self.program);
        command.args(&self.args).args(files);
        let error = match replace_process(&mut command) {
            Ok(exit) => return Ok(exit),
            Err(error) => error,
        };
        let Start {
            program, install, ..
        } = self;
        Err(Failure::store(match error.kind() {
            io::ErrorKind::NotFound => format!("{program} is not installed: {install}"),
            _ => format!("cannot start {program}: {error}"),
        }))
    }
}

/// Becomes the program; returns only if it cannot be started.
#[cfg(unix)]
fn replace_process(command: &mut Command) -> io::Result<Exit> {
    use std::os::unix::process::CommandExt as _;
    Err(command.exec())
}

#[cfg(not(unix))]
fn replace_process(command: &mut Command) -> io::Result<Exit> {
    let status = command.status()?;
    Ok(Exit::with_findings(!status.success()))
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let path = std::path::absolute(store.path());
    let path = path.unwrap_or_else(|_| store.path().to_owned());
    drop(store);
    let kind = match &args.program {
        Program::Duckdb { .. } => None,
        Program::Lnav { kind, .. } | Program::Jq { kind, .. } => *kind,
    };
    let files = segments::of(&path, kind.as_ref().map_or(&Kind::ALL, slice::from_ref))?;
    // Without files, jq would wait for its standard input.
    if files.is_empty() {
        let what = kind.map_or("records", Kind::stem);
        let message = format!("the log has no {what}");
        return Err(Failure::Told(Exit::Findings, message));
    }
    let start = match &args.program {
        Program::Duckdb { args } => duckdb::start(&files, args),
        Program::Lnav { args, .. } => lnav::start(files, args)?,
        Program::Jq { args, .. } => Start {
            program: "jq",
            install: "apt install jq, brew install jq, or https://jqlang.org",
            args: match &**args {
                [] => vec![".".into()],
                args => args.to_vec(),
            },
            files,
        },
    };
    if args.print || !context.out.is_terminal() {
        let mut line = start.in_shell();
        line.push(b'\n');
        context.out.write_all(&line)?;
        return Ok(Exit::Ok);
    }
    start.run()
}
