//! Import of the session files of other agents. Every line becomes records of the log, is counted
//! by its type, or is reported with its number and a reason. No line is skipped silently, and
//! importing a file again adds nothing.
//!
//! A line becomes a turn, with its tool calls and results, and a message in its session's
//! conversation. An API response extends over several lines. Each is a message with the tokens that
//! its line adds to those of the lines before it, so that their sum equals the total of the
//! response. One message represents the request; the others name it in `part_of`. The provider's
//! complete usage object is in the message's `inference_metadata`, as `{"usage":…}`. The output of
//! a tool is the message's `tool_result`. A sub-agent has its own conversation, under its session's
//! `session_id`. It names its parent conversation and the call that started it, and has the
//! parent's project. Its title is the task for which it was started. The title of a session is the
//! one given to it, else its summary, else its first prompt.
//!
//! All records are derived only from a line and the lines before it in its file. The final log is
//! therefore the same no matter how often a running session was imported, or where its file was
//! cut. An incomplete last line is left to a later import.
//!
//! A response is counted once. A fork repeats lines of its parent session; these belong to the
//! parent and are read from its file. Files may therefore be imported in any order. Some copies are
//! not marked, as in a session resumed under another id, or in the lines of its session that a
//! sub-agent repeats. Then the file imported first has the response, and the others do not count
//! it. The files of a folder are read in order of their names, a session before its sub-agents.
//!
//! Files are read line by line and may be larger than the memory. They are never modified.

mod agent;
mod aider;
mod atif;
mod batch;
mod checkpoint;
mod claude_code;
mod cline;
mod codex;
mod copilot_cli;
#[cfg(feature = "databases")]
mod database;
mod expiry;
mod facts;
mod format;
mod gemini_cli;
mod goose;
mod heading;
mod ids;
mod inspect;
mod json;
mod lines;
mod opencode;
mod pi;
mod qwen_code;
mod reading;
mod report;
mod run;
mod step;
mod tee;
#[cfg(test)]
mod tests;
mod walk;
mod watch;
mod zed;

use std::fs;
use std::path::Path;

pub use agent::{PLACE_VARIABLES, default_paths};
pub use expiry::{Expired, Expiring};
pub use format::Format;
pub use ids::{NAMESPACE, foreign_id, named};
pub use report::{Broken, FileReport, Progress, Report};
pub use watch::{Addition, News, Stopper, Watcher};

#[cfg(feature = "otlp")]
pub(crate) use facts::Tokens;
#[cfg(any(test, fuzzing))]
pub(crate) use json::any_text;
#[cfg(feature = "otlp")]
pub(crate) use step::{API_ERROR, Call, Outcome, Step, TOOL_ERROR, Thread, request_id};

use batch::Log;
use checkpoint::Checkpoints;
use expiry::{Survey, refused};
use lines::LINE_BYTES_MAX;
use reading::Stop;
use run::Run;
use walk::NOT_A_FILE;

use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;

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
    /// The store whose settings apply.
    store: Option<&'a Store>,
    expired: Expired,
    restores_erased: bool,
    format: Option<Format>,
    checkpoints: Checkpoints<'a>,
    line_bytes_max: usize,
    on_progress: Option<OnProgress<'a>>,
    bytes_done: u64,
    bytes_total: u64,
}

type OnProgress<'a> = Box<dyn FnMut(&Progress<'_>) + 'a>;

impl<'a> Importer<'a> {
    /// Creates an import into this store.
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
            checkpoints: Checkpoints::default(),
            line_bytes_max: LINE_BYTES_MAX,
            on_progress: None,
            bytes_done: 0,
            bytes_total: 0,
        }
    }

    /// Sets the format of every file. Default: `None`, detect it from each file's first lines.
    #[must_use]
    pub fn format(mut self, format: Option<Format>) -> Self {
        self.format = format;
        self
    }

    /// Sets what happens if the store's retention would remove some of the imported data. Default:
    /// [`Expired::Refuse`].
    #[must_use]
    pub fn expired(mut self, expired: Expired) -> Self {
        self.expired = expired;
        self
    }

    /// Whether erased conversations and requests are imported again and kept from then on. Default:
    /// false; they are left out and counted.
    #[must_use]
    pub fn restore_erased(mut self, restore: bool) -> Self {
        self.restores_erased = restore;
        self
    }

    /// Whether all files are read, including those that did not change since an earlier import.
    /// Default: false; checkpoints in the store's `cache/` show which files are unchanged. Reading
    /// a file again adds nothing.
    #[must_use]
    pub fn reread(mut self, reread: bool) -> Self {
        self.checkpoints.ignores_known = reread;
        self
    }

    /// Sets a progress callback. It is called at the start and the end of every file and after
    /// every MiB. Default: none.
    #[must_use]
    pub fn on_progress(mut self, call: impl FnMut(&Progress<'_>) + 'a) -> Self {
        self.on_progress = Some(Box::new(call));
        self
    }

    /// Imports a file, or every `*.jsonl` file under a folder, in order of their names. Symbolic
    /// links are followed; each folder is entered once.
    ///
    /// `/dev/stdin` and `/dev/fd/N` may be pipes. Named pipes and devices are rejected, because
    /// reading them may block forever.
    ///
    /// A result is also matched with a later call, in the same path or in a later one.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if retention would remove some of the data
    /// and [`Expired::Refuse`] is set (nothing of the path is written then), if the format of a
    /// file is unknown, or if the path is neither a file nor a folder. [`Io`](crate::ErrorKind::Io)
    /// if it cannot be read. Files under a folder with such errors are reported as broken, and the
    /// import continues. Any error of the store that does not concern a single record ends the
    /// import; records added before it are kept.
    pub fn path(&mut self, path: &Path) -> Result<()> {
        let metadata = fs::metadata(path).map_err(|e| Error::io("read", path, e))?;
        if !metadata.is_dir() && !metadata.is_file() && !walk::is_open_pipe(path, &metadata) {
            return Err(Error::invalid(NOT_A_FILE).with_path(path));
        }
        self.admit(path)?;
        if let Some(store) = self.store {
            let are_changed = self.checkpoints.recall(store);
            self.run.set_conversations_changed(are_changed);
        }
        self.run.load_tombstones(self.restores_erased)?;
        self.bytes_done = 0;
        let read = self.read(path, &metadata);
        if read.is_err() {
            // Not all that was read of these files is in the log.
            self.checkpoints.give_up();
        }
        read?.map_or(Ok(()), Err)
    }

    /// Reads a path. Returns why it was refused, if it was.
    fn read(&mut self, path: &Path, metadata: &fs::Metadata) -> Result<Option<Error>> {
        let mut refused = None;
        if metadata.is_dir() {
            self.folder(path)?;
        } else {
            self.bytes_total = metadata.len();
            match self.file(path, metadata) {
                Ok(()) => {}
                Err(Stop::Source(_, error)) => refused = Some(error.with_path(path)),
                Err(Stop::Log(error)) => return Err(error),
            }
        }
        self.run.settle()?;
        Ok(refused)
    }

    /// What retention would now remove of the records that these paths would add to the store.
    /// Reads all files and writes nothing. Empty if automatic removal is off
    /// ([`auto_delete`](crate::privacy::PrivacySettings::auto_delete)). Paths that cannot be read
    /// are ignored here: [`path`](Importer::path) reports them.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for input that cannot be read twice, such
    /// as a pipe.
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
        reader.checkpoints = self.checkpoints.for_survey(store);
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

    /// Applies the `expired` setting to a path.
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

    /// Ends the import and returns its report. If files were read, what was recorded is synced to
    /// disk, so that the next import need not read them again.
    ///
    /// # Errors
    /// Currently none. A later version may have to write at the end.
    pub fn finish(mut self) -> Result<Report> {
        self.run.give_up_results();
        if let Some(store) = self.store {
            self.checkpoints.save(store, &mut self.run);
        }
        Ok(self.run.into_report())
    }
}

/// Removes the byte order mark that some editors put before the first line.
pub(crate) fn without_bom(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}
