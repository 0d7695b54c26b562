//! Import of the session files that other agents keep: every line becomes records of the log, or
//! is counted by its type, or is reported with its number and a reason. None is skipped in
//! silence, and importing a file again adds nothing.
//!
//! A line is a turn, with the tool calls and results in it, and a session is besides a conversation
//! with its messages: one of each API response, whatever the number of its lines, with its tokens
//! and with the provider's usage object whole in its `inference_metadata`, as `{"usage":…}`; one of
//! each tool result, whose text is the message's `tool_result`; one of everything else that was
//! said. A sub-agent has a conversation of its own, under its session's `session_id`. What a later
//! import knows more of a message, because the session was still running, is added as a message of
//! its own, so that a conversation's tokens are always those of its session so far.
//!
//! Files are read line by line and may be larger than the memory. They are never written to.

mod batch;
mod claude_code;
mod codex;
mod facts;
mod format;
mod ids;
mod json;
mod lines;
mod report;
mod run;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

pub use format::Format;
pub use ids::{NAMESPACE, foreign_id, named};
pub use report::{Broken, FileReport, Progress, Report};

#[cfg(any(test, fuzzing))]
pub(crate) use json::any_text;

use batch::{Log, Place};
use facts::Facts;
use format::Detected;
use lines::{LINE_BYTES_MAX, Line, Lines};
use run::Run;
use walk::Source;

use crate::error::{Error, Result};
use crate::store::Store;

const READ_BYTES: usize = 256 << 10;
/// Bytes between two reports of progress.
const PROGRESS_BYTES: u64 = 1 << 20;
const UNKNOWN_FORMAT: &str = "cannot tell which tool wrote this file: \
     name the format (--format claude-code or --format codex)";

/// An import into a store: any number of paths, one report.
///
/// ```no_run
/// use std::path::Path;
/// use decklog::{Store, import::Importer};
///
/// let store = Store::open("log")?;
/// let mut importer = Importer::new(&store);
/// importer.path(Path::new("/home/me/.claude/projects"))?;
/// let report = importer.finish()?;
/// println!("{} turns, {} lines added", report.turns, report.added);
/// # Ok::<(), decklog::Error>(())
/// ```
pub struct Importer<'a> {
    run: Run<'a>,
    format: Option<Format>,
    line_bytes_max: usize,
    on_progress: Option<OnProgress<'a>>,
    bytes_done: u64,
    bytes_total: u64,
}

type OnProgress<'a> = Box<dyn FnMut(&Progress<'_>) + 'a>;

/// Why the reading of a file ended early.
enum Stop {
    /// It cannot be read from here on; other files may.
    Source(Place, Error),
    Log(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Log(error)
    }
}

impl<'a> Importer<'a> {
    /// An import into this store.
    pub fn new(store: &'a Store) -> Self {
        Importer::over(store)
    }

    fn over(log: &'a dyn Log) -> Self {
        Importer {
            run: Run::new(log),
            format: None,
            line_bytes_max: LINE_BYTES_MAX,
            on_progress: None,
            bytes_done: 0,
            bytes_total: 0,
        }
    }

    /// The format of every file; by default, and with `None`, each file's first lines tell.
    #[must_use]
    pub fn format(mut self, format: Option<Format>) -> Self {
        self.format = format;
        self
    }

    /// Calls this at the start and the end of every file and after every MiB; by default nothing.
    #[must_use]
    pub fn on_progress(mut self, call: impl FnMut(&Progress<'_>) + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Imports a file, or every `*.jsonl` file under a folder, by name. Links are followed, each
    /// folder is entered once.
    ///
    /// A result is matched with a call further on in the same path, not in a later one.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a file of unknown format and
    /// [`Io`](crate::ErrorKind::Io) for what cannot be read, if it is `path` itself; under a
    /// folder both are reported as broken and the rest goes on. Any error of the store that is
    /// no judgement on a single record ends the import: what was added until then stays.
    pub fn path(&mut self, path: &Path) -> Result<()> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        self.bytes_done = 0;
        let mut refused = None;
        if metadata.is_dir() {
            self.folder(path)?;
        } else {
            self.bytes_total = metadata.len();
            match self.file(path) {
                Ok(()) => {}
                Err(Stop::Source(_, error)) => refused = Some(error.with_path(path)),
                Err(Stop::Log(error)) => return Err(error),
            }
        }
        self.run.settle()?;
        refused.map_or(Ok(()), Err)
    }

    /// Ends the import and reports on it.
    ///
    /// # Errors
    /// None at present; a later version may have to write at the end.
    pub fn finish(self) -> Result<Report> {
        Ok(self.run.into_report())
    }

    fn folder(&mut self, folder: &Path) -> Result<()> {
        let sources = walk::sources(folder);
        self.bytes_total = sources.iter().map(Source::bytes).sum();
        for source in sources {
            match source {
                Source::File { path, .. } => match self.file(&path) {
                    Ok(()) => {}
                    Err(Stop::Source(place, error)) => self.run.broken(place, error.to_string()),
                    Err(Stop::Log(error)) => return Err(error),
                },
                Source::Refused { path, reason } => {
                    let place = self.run.open_file(&path);
                    self.run.broken(place, reason);
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Stop> {
        let read = self.read_file(path);
        // Also after a file that cannot be read to its end: what was read of it stands.
        if !matches!(read, Err(Stop::Log(_))) {
            self.run.end_file()?;
        }
        read
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Stop> {
        let place = self.run.open_file(path);
        match File::open(path) {
            Ok(file) => self.read(path, place, file),
            Err(e) => Err(Stop::Source(place, Error::io("read", path, e))),
        }
    }

    /// Imports the bytes that a file could have.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<()> {
        let place = self.run.open_file(path);
        let read = self.read(path, place, io::Cursor::new(bytes));
        if let Err(Stop::Log(error)) = read {
            return Err(error);
        }
        self.run.end_file()?;
        self.run.settle()?;
        match read {
            Err(Stop::Source(_, error)) => Err(error),
            _ => Ok(()),
        }
    }

    fn read(
        &mut self,
        path: &Path,
        mut place: Place,
        mut file: impl Read + Seek,
    ) -> Result<(), Stop> {
        let unreadable = |place, e| Stop::Source(place, Error::io("read", path, e));
        let format = match self.format {
            Some(format) => Some(format),
            None => match self.detect(&mut file).map_err(|e| unreadable(place, e))? {
                Detected::Known(format) => Some(format),
                Detected::Empty => None,
                Detected::Unknown => {
                    return Err(Stop::Source(place, Error::invalid(UNKNOWN_FORMAT)));
                }
            },
        };
        self.run.count_file(place);
        self.show_progress(path, 0);
        let mut shown = 0;
        let mut parser = format.map(Parser::new);
        let input = BufReader::with_capacity(READ_BYTES, file);
        let mut lines = Lines::new(input, self.line_bytes_max);
        while let Some(parser) = &mut parser {
            place.line = lines.number() + 1;
            let line = lines.read_next().map_err(|e| unreadable(place, e))?;
            let Some(line) = line else { break };
            self.line(place, &line, parser)?;
            if lines.bytes_read() - shown >= PROGRESS_BYTES {
                shown = lines.bytes_read();
                self.show_progress(path, shown);
            }
        }
        self.bytes_done += lines.bytes_read();
        self.show_progress(path, 0);
        Ok(())
    }

    fn detect(&self, file: &mut (impl Read + Seek)) -> io::Result<Detected> {
        let detected = format::detect(&mut Lines::new(
            BufReader::new(&mut *file),
            self.line_bytes_max,
        ))?;
        file.rewind()?;
        Ok(detected)
    }

    fn line(&mut self, place: Place, line: &Line<'_>, parser: &mut Parser) -> Result<()> {
        let bytes = match line {
            Line::Whole(bytes) => without_bom(bytes).trim_ascii(),
            Line::TooLong(bytes) => {
                self.run.count_line(place);
                let most = self.line_bytes_max;
                let reason = format!("the line has {bytes} bytes: at most {most} are read");
                self.run.broken(place, reason);
                return Ok(());
            }
        };
        if bytes.is_empty() {
            return Ok(());
        }
        self.run.count_line(place);
        let facts = match std::str::from_utf8(bytes) {
            Ok(text) => parser.read(place.line, text),
            Err(e) => Err(format!("not UTF-8 at byte {}", e.valid_up_to())),
        };
        match facts {
            Ok(facts) => self.run.take(place, facts),
            Err(reason) => {
                self.run.broken(place, reason);
                Ok(())
            }
        }
    }

    fn show_progress(&mut self, file: &Path, bytes_in_file: u64) {
        if let Some(call) = &mut self.on_progress {
            call(&Progress {
                file,
                bytes_done: self.bytes_done + bytes_in_file,
                bytes_total: self.bytes_total,
            });
        }
    }
}

/// What reads the lines of one file.
enum Parser {
    ClaudeCode(claude_code::Session),
    Codex(codex::Rollout),
}

impl Parser {
    fn new(format: Format) -> Parser {
        match format {
            Format::ClaudeCode => Parser::ClaudeCode(claude_code::Session::default()),
            Format::Codex => Parser::Codex(codex::Rollout::new()),
        }
    }

    fn read<'a>(&mut self, number: u64, text: &'a str) -> Result<Facts<'a>, String> {
        match self {
            Parser::ClaudeCode(session) => claude_code::read(session, text),
            Parser::Codex(rollout) => rollout.read(number, text),
        }
    }
}

/// Some editors put a byte order mark before the first line.
pub(crate) fn without_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}
