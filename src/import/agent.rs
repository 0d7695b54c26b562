//! The interface of an importer, which turns the sessions of one agent into facts of the log.
//! `docs/importers.md` describes how to add one.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Format;
use super::batch::Place;
use super::facts::Facts;
use super::run::Run;
use crate::error::Error;

/// Maximum size in bytes of a file that is read whole.
const WHOLE_BYTES_MAX: u64 = 1 << 30;

/// An agent whose sessions can be imported.
pub(super) trait Agent: Sync {
    /// The directories or single files where the agent keeps its sessions. They need not exist.
    fn places(&self, home: &Home) -> Vec<PathBuf>;

    /// Whether a file in a directory is read, by its name. Default: every `*.jsonl` file.
    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ext| ext == "jsonl")
    }

    /// Whether the agent wrote this line of a JSONL file. Called for each of the first lines until
    /// an agent recognises one.
    fn wrote_line(&self, _line: &str) -> bool {
        false
    }

    /// Whether the agent wrote this document or database, by its name and its first bytes.
    fn wrote_file(&self, _path: &Path, _head: &[u8]) -> bool {
        false
    }

    /// Another file that is read with a source. If either changes, the source is read again.
    fn beside(&self, _path: &Path) -> Option<PathBuf> {
        None
    }

    /// The reader of a file. `state` is what [`LineReader::state`] returned after the lines that an
    /// earlier import read; `None` if it cannot continue there.
    fn reader(&self, path: &Path, state: Option<&RawValue>) -> Option<Reader>;
}

/// How a source is read.
pub(super) enum Reader {
    /// Line by line.
    Lines(Box<dyn LineReader>),
    /// As a whole, such as one JSON document or a database. An `Err` is the reason why the file is
    /// broken.
    Whole(WholeReader),
}

/// Reads a source as a whole.
pub(super) type WholeReader = fn(&mut Whole<'_, '_>) -> Result<(), String>;

/// Reads the lines of one file in their order.
pub(super) trait LineReader {
    /// The facts of a line, derived only from it and the lines before. An `Err` is the reason why
    /// the line is broken.
    fn read<'a>(&mut self, number: u64, text: &'a str) -> Result<Vec<Facts<'a>>, String>;

    /// The state after the lines read so far, so that a later import can continue there. Default:
    /// none; a file that has grown is read again from its start.
    fn state(&self) -> Option<Box<RawValue>> {
        None
    }
}

/// A source that is read as a whole.
///
/// A document is rewritten as its session grows, and a database changes in place. A reader returns
/// only facts that no longer change, under ids that are the same at every import, and reports the
/// others as [`unfinished`](Whole::unfinished).
pub(super) struct Whole<'a, 'log> {
    pub(super) path: &'a Path,
    input: &'a mut dyn Read,
    run: &'a mut Run<'log>,
    place: Place,
    /// How far an earlier import read a database. The reader sets how far it has read.
    pub(super) cursor: Option<String>,
    stopped: Option<Error>,
}

impl<'a, 'log> Whole<'a, 'log> {
    pub(super) fn new(
        path: &'a Path,
        input: &'a mut dyn Read,
        run: &'a mut Run<'log>,
        place: Place,
        cursor: Option<String>,
    ) -> Self {
        Whole {
            path,
            input,
            run,
            place,
            cursor,
            stopped: None,
        }
    }

    /// All bytes of the file.
    pub(super) fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = self.input.take(WHOLE_BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(|e| format!("cannot read: {e}"))?;
        if bytes.len() as u64 > WHOLE_BYTES_MAX {
            return Err(format!(
                "the file is too large: the maximum is {WHOLE_BYTES_MAX} bytes"
            ));
        }
        Ok(bytes)
    }

    /// The text of the file, without a byte order mark.
    pub(super) fn text(&mut self) -> Result<String, String> {
        let text = String::from_utf8(self.bytes()?);
        let text =
            text.map_err(|e| format!("not UTF-8 at byte {}", e.utf8_error().valid_up_to()))?;
        Ok(match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.to_owned(),
            None => text,
        })
    }

    /// The JSON document in the file; `None` if the file is empty or ends before the document does,
    /// because its agent is writing it.
    pub(super) fn json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, String> {
        let text = self.text()?;
        match serde_json::from_str(&text) {
            Ok(document) => Ok(Some(document)),
            Err(error) if error.classify() == Category::Eof => {
                self.unfinished();
                Ok(None)
            }
            Err(error) => Err(format!("not readable as JSON: {error}")),
        }
    }

    /// The text of another file in the same folder; `None` if it cannot be read.
    pub(super) fn beside(&self, name: &str) -> Option<String> {
        let path = self.path.with_file_name(name);
        let is_small =
            fs::metadata(&path).is_ok_and(|it| it.is_file() && it.len() <= WHOLE_BYTES_MAX);
        is_small.then(|| fs::read_to_string(path).ok())?
    }

    /// Takes the facts of an item. Items are numbered from 1.
    pub(super) fn take(&mut self, number: u64, facts: Vec<Facts<'_>>) {
        let place = self.item(number);
        for facts in facts {
            if self.stopped.is_some() {
                return;
            }
            self.stopped = self.run.take(place, facts).err();
        }
    }

    /// Begins another session of the same file. What is known from the lines of one session does
    /// not apply to another.
    pub(super) fn begin_session(&mut self) {
        self.run.end_file();
    }

    /// Reports that an item cannot be read.
    pub(super) fn broken(&mut self, number: u64, reason: impl Into<String>) {
        let place = self.item(number);
        self.run.broken(place, reason);
    }

    /// Reports that the file has items that may still change. A later import reads it again.
    pub(super) fn unfinished(&mut self) {
        if !self.run.is_unfinished(self.place) {
            self.run.unfinished(self.place);
        }
    }

    /// Whether writing to the log failed. Then nothing more is taken.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    fn item(&mut self, number: u64) -> Place {
        let place = Place {
            line: number,
            ..self.place
        };
        if number != self.place.line {
            self.place.line = number;
            self.run.count_line(place);
        }
        place
    }

    /// The error of the log that ended the reading, if any, and the cursor.
    pub(super) fn finish(self) -> Result<Option<String>, Error> {
        match self.stopped {
            Some(error) => Err(error),
            None => Ok(self.cursor),
        }
    }
}

/// The reader of a database, if this program cannot read one.
#[cfg(not(feature = "databases"))]
pub(super) fn needs_databases(_: &mut Whole<'_, '_>) -> Result<(), String> {
    Err("a database: this program was built without the feature `databases`, which reads it".into())
}

/// When a file was last written, in epoch milliseconds.
pub(super) fn modified_ms(path: &Path) -> Option<i64> {
    let modified = fs::metadata(path).ok()?.modified().ok()?;
    let since = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}

/// The write-ahead log of a database. It is read with the database.
pub(super) fn log_of(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}

/// Whether these are the first bytes of a SQLite database.
pub(super) fn is_database(head: &[u8]) -> bool {
    head.starts_with(b"SQLite format 3\0")
}

/// The environment variables that change [`default_paths`].
pub const PLACE_VARIABLES: &[&str] = &[
    "CLAUDE_CONFIG_DIR",
    "CLINE_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "GEMINI_CLI_HOME",
    "GOOSE_PATH_ROOT",
    "OPENCODE_DB",
    "PI_CODING_AGENT_DIR",
    "QWEN_RUNTIME_DIR",
    "XDG_DATA_HOME",
];

/// Where agents keep their files.
pub(super) struct Home(PathBuf);

impl Home {
    /// The home of the user of this process; `None` if it is not known.
    pub(super) fn of_user() -> Option<Home> {
        std::env::home_dir().map(Home)
    }

    #[cfg(test)]
    pub(super) fn at(path: &Path) -> Home {
        Home(path.to_owned())
    }

    /// A path under the home, with `/` between names.
    pub(super) fn join(&self, path: &str) -> PathBuf {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.fold(self.0.clone(), |path, name| path.join(name))
    }

    /// The directory named by an environment variable, else the one under the home.
    pub(super) fn or(&self, variable: &str, path: &str) -> PathBuf {
        self.variable(variable).unwrap_or_else(|| self.join(path))
    }

    /// The path in an environment variable, if it is set.
    #[allow(clippy::unused_self)]
    pub(super) fn variable(&self, name: &str) -> Option<PathBuf> {
        debug_assert!(PLACE_VARIABLES.contains(&name), "{name}");
        let set = std::env::var_os(name).filter(|value| !value.is_empty());
        set.map(PathBuf::from)
    }

    /// The data directories of the user, on all systems: `$XDG_DATA_HOME`, `~/.local/share`, and
    /// those of macOS and Windows.
    pub(super) fn data(&self, path: &str) -> Vec<PathBuf> {
        let xdg = self.or("XDG_DATA_HOME", ".local/share");
        let others = [
            "Library/Application Support",
            "AppData/Roaming",
            "AppData/Local",
        ];
        let roots = [xdg]
            .into_iter()
            .chain(others.map(|other| self.join(other)));
        let under = |root: PathBuf| path.split('/').fold(root, |path, name| path.join(name));
        roots.map(under).collect()
    }
}

/// The default directories and files of all agents' sessions, whether or not they exist.
///
/// ```
/// for path in decklog::import::default_paths() {
///     println!("{}", path.display());
/// }
/// ```
pub fn default_paths() -> Vec<PathBuf> {
    let Some(home) = Home::of_user() else {
        return Vec::new();
    };
    let agents = Format::ALL.into_iter().map(Format::agent);
    agents.flat_map(|agent| agent.places(&home)).collect()
}

/// Whether a file in a directory is read, by its name.
pub(super) fn is_source(path: &Path, format: Option<Format>) -> bool {
    match format {
        Some(format) => format.agent().is_source(path),
        None => Format::ALL
            .iter()
            .any(|format| format.agent().is_source(path)),
    }
}

/// The file that is read with a source, if any.
pub(super) fn beside(path: &Path) -> Option<PathBuf> {
    let mut agents = Format::ALL.into_iter().map(Format::agent);
    agents.find_map(|agent| agent.beside(path))
}
