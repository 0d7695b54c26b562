//! Import of the session files that other agents keep: every line becomes records of the log, or
//! is counted by its type, or is reported with its number and a reason. None is skipped in
//! silence, and importing a file again adds nothing.
//!
//! A line is a turn, with the tool calls and results in it, and a message of its session's
//! conversation. What an API response said and called stands on several lines, each a message with
//! the tokens that its line tells beyond those before it, so that they add up to the response's. One
//! of them stands for the request; the others name it as what they are a `part_of`. The provider's
//! usage object is whole in the message's `inference_metadata`, as `{"usage":…}`, and the text of
//! what a tool returned is the message's `tool_result`. A sub-agent has a conversation of its own,
//! under its session's `session_id`; it names its parent's and the call that started it, and has the
//! parent's project. Its title is what it was started for, and that of a session is the one it was
//! given, else its summary or its first prompt.
//!
//! Everything is made of a line and of those before it in its file. So it does not matter how often
//! a session was imported while it was running, nor where it was cut: the log holds the same in the
//! end. A last line that is not whole yet waits for an import that finds it so.
//!
//! A response is counted once. A fork repeats lines of the session that it comes from: they are that
//! session's, and are taken from its file. So files may be imported in any order. Where no line says
//! that it is a copy, as in a session that was resumed under another id, or in what a sub-agent
//! repeats of its session, the file that is imported first has the response, and the others do not
//! count it. A folder's files are read by name, a session before its sub-agents.
//!
//! Files are read line by line and may be larger than the memory. They are never written to.

mod batch;
mod claude_code;
mod codex;
mod expiry;
mod facts;
mod format;
mod heading;
mod ids;
mod json;
mod lines;
mod report;
mod run;
mod tee;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read, Seek};
use std::path::Path;

pub use expiry::{Expired, Expiring};
pub use format::Format;
pub use ids::{NAMESPACE, foreign_id, named};
pub use report::{Broken, FileReport, Progress, Report};

#[cfg(any(test, fuzzing))]
pub(crate) use json::any_text;

use batch::{Log, Place};
use expiry::{Survey, refused};
use facts::Facts;
use format::Detected;
use lines::{LINE_BYTES_MAX, Line, Lines};
use run::Run;
use tee::Tee;
use walk::{NOT_A_FILE, Source};

use crate::error::{Error, ErrorKind, Result};
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
    /// Whose settings are asked.
    store: Option<&'a Store>,
    expired: Expired,
    restores_erased: bool,
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
        Importer {
            store: Some(store),
            ..Importer::over(store)
        }
    }

    fn over(log: &'a dyn Log) -> Self {
        Importer {
            run: Run::new(log),
            store: None,
            expired: Expired::default(),
            restores_erased: false,
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

    /// What to do where the store's retention would remove some of what is imported. Default:
    /// [`Expired::Refuse`].
    #[must_use]
    pub fn expired(mut self, expired: Expired) -> Self {
        self.expired = expired;
        self
    }

    /// Whether conversations and requests that were erased come back, and stay from then on. By
    /// default they are left out and counted.
    #[must_use]
    pub fn restore_erased(mut self, restore: bool) -> Self {
        self.restores_erased = restore;
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
    /// `/dev/stdin` and `/dev/fd/N` may be pipes. Named pipes and devices are refused, as reading
    /// them may never end.
    ///
    /// A result is matched with a call further on, in the same path or in a later one.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if retention would remove some of it and
    /// [`Expired::Refuse`] holds: nothing of the path is written then; for a file of unknown format;
    /// and for what is neither a file nor a folder. [`Io`](crate::ErrorKind::Io) for what cannot be
    /// read. Of the files under a
    /// folder, such are reported as broken and the rest goes on. Any error of the store that is
    /// no judgement on a single record ends the import: what was added until then stays.
    pub fn path(&mut self, path: &Path) -> Result<()> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        if !metadata.is_dir() && !metadata.is_file() && !walk::is_open_pipe(path, &metadata) {
            return Err(Error::invalid(NOT_A_FILE).with_path(path));
        }
        self.admit(path)?;
        self.run.load_tombstones(self.restores_erased)?;
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

    /// What retention would remove by now of what these paths would add: records that the store
    /// does not have. Reads them all and writes nothing. Empty where nothing is removed on its own
    /// ([`auto_delete`](crate::privacy::PrivacySettings::auto_delete)). Paths that cannot be read add
    /// nothing: [`path`](Importer::path) reports them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what cannot be read twice, as a pipe.
    pub fn expiring(&self, paths: &[impl AsRef<Path>]) -> Result<Vec<Expiring>> {
        let Some(store) = self.store else {
            return Ok(Vec::new());
        };
        let settings = store.settings()?;
        if !settings.privacy.auto_delete || settings.retention.keeps_imported(&settings.privacy) {
            return Ok(Vec::new());
        }
        let survey = Survey::new(store);
        let mut reader = Importer::over(&survey)
            .format(self.format)
            .restore_erased(self.restores_erased);
        for path in paths.iter().map(AsRef::as_ref) {
            if fs::metadata(path).is_ok_and(|found| walk::is_open_pipe(path, &found)) {
                let message = "cannot be read twice, to see first what retention would remove: choose to keep what is imported or to let it expire";
                return Err(Error::invalid(message).with_path(path));
            }
            match reader.path(path) {
                Err(e) if !matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Io) => {
                    return Err(e);
                }
                _ => {}
            }
        }
        drop(reader);
        survey.expiring(&settings)
    }

    /// Sees to what retention would remove of a path.
    fn admit(&mut self, path: &Path) -> Result<()> {
        let Some(store) = self.store else {
            return Ok(());
        };
        match self.expired {
            Expired::Refuse => match self.expiring(&[path])? {
                expiring if expiring.is_empty() => Ok(()),
                expiring => Err(refused(&expiring).with_path(path)),
            },
            Expired::Keep => {
                let keep = store.change_settings(|settings| settings.retention.keep_imported());
                keep.map(drop)
            }
            Expired::Expire => Ok(()),
        }
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
            self.run.end_file();
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
        self.run.end_file();
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
        let mut head = Vec::new();
        let format = match self.format {
            Some(format) => Some(format),
            None => match self
                .detect(&mut file, &mut head)
                .map_err(|e| unreadable(place, e))?
            {
                Detected::Known(format) => Some(format),
                Detected::Empty => None,
                Detected::Unfinished => {
                    self.run.count_line(place);
                    self.run.unfinished(place);
                    None
                }
                Detected::Unknown => {
                    return Err(Stop::Source(place, Error::invalid(UNKNOWN_FORMAT)));
                }
            },
        };
        let file = Cursor::new(head).chain(file);
        self.run.count_file(place);
        self.show_progress(path, 0);
        let mut shown = 0;
        let mut parser = format.map(|format| Parser::new(format, path));
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

    /// Detects the format. What was read of a pipe, which cannot be rewound, is added to `head`.
    fn detect(&self, file: &mut (impl Read + Seek), head: &mut Vec<u8>) -> io::Result<Detected> {
        let line_bytes_max = self.line_bytes_max;
        if file.stream_position().is_err() {
            let tee = BufReader::new(Tee::new(file, head, line_bytes_max));
            return format::detect(&mut Lines::new(tee, line_bytes_max));
        }
        let input = BufReader::new(&mut *file);
        let detected = format::detect(&mut Lines::new(input, line_bytes_max))?;
        file.rewind()?;
        Ok(detected)
    }

    fn line(&mut self, place: Place, line: &Line<'_>, parser: &mut Parser) -> Result<()> {
        let is_last = matches!(line, Line::Last(_));
        let bytes = match line {
            Line::Whole(bytes) | Line::Last(bytes) => without_bom(bytes).trim_ascii(),
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
            Err(_) if is_last && lines::is_unfinished(bytes) => {
                self.run.unfinished(place);
                Ok(())
            }
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
    fn new(format: Format, path: &Path) -> Parser {
        match format {
            Format::ClaudeCode => Parser::ClaudeCode(claude_code::Session::of_file(path)),
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
