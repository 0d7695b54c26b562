//! Exit codes and failures of commands.

use std::io;
use std::process::ExitCode;

use decklog::{Error, ErrorKind};

/// The table of [`Exit`], for `--help`.
pub const HELP: &str = "\
Exit codes:
  0  all is well
  1  it worked, and there is something to look at: a record was rejected, a line was broken,
     damage was found, or the record with this id is not there; a list or search without a
     match exits with 0
  2  the arguments or the input do not make sense; nothing was done
  3  the store, or another file, cannot be opened, read or written
  4  another process kept the store locked for too long: try again
  5  'erase' gave up, as other processes kept recording what it erases: stop them, then run it
     again";

/// The exit codes. Scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok = 0,
    Findings = 1,
    Usage = 2,
    Store = 3,
    Locked = 4,
    GaveUp = 5,
}

impl Exit {
    /// [`Exit::Ok`], or [`Exit::Findings`] if there are any.
    pub fn with_findings(are_any: bool) -> Exit {
        if are_any { Exit::Findings } else { Exit::Ok }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command stopped.
#[derive(Debug)]
pub enum Failure {
    /// The output cannot be written: no one reads it any more, or the disk is full.
    Output(io::Error),
    /// The message for standard error.
    Told(Exit, String),
}

impl Failure {
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::Told(Exit::Usage, message.into())
    }

    pub fn store(message: impl Into<String>) -> Failure {
        Failure::Told(Exit::Store, message.into())
    }

    /// Puts what to do after the error.
    #[cfg(feature = "ship")]
    pub fn followed_by(self, words: &str) -> Failure {
        match self {
            Failure::Told(exit, message) => Failure::Told(exit, format!("{message}{words}")),
            Failure::Output(error) => Failure::Output(error),
        }
    }

    /// Puts the context before the error.
    pub fn in_front(self, words: &str) -> Failure {
        match self {
            Failure::Told(exit, message) => Failure::Told(exit, format!("{words}: {message}")),
            Failure::Output(error) => Failure::Output(error),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error.kind() {
            ErrorKind::InvalidInput => Exit::Usage,
            ErrorKind::NotFound | ErrorKind::Lifecycle | ErrorKind::Conflict => Exit::Findings,
            ErrorKind::Locked => Exit::Locked,
            _ => Exit::Store,
        };
        let message = match error.kind() {
            ErrorKind::NetworkFileSystem => format!("{error} (--allow-network-fs)"),
            _ => error.to_string(),
        };
        Failure::Told(exit, message)
    }
}

/// Only for errors of the output; other IO errors need a message of their own.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}
