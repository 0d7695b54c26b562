//! The report of an import.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use super::Format;

/// Maximum number of broken lines listed per file. One more entry counts the rest.
const BROKEN_LISTED_MAX: usize = 10_000;
/// Maximum number of distinct types counted per file. The rest is counted as `(other types)`.
const TYPES_MAX: usize = 1_000;
/// Maximum number of characters of a foreign type that a report shows.
const TYPE_CHARS_MAX: usize = 100;

/// Progress of an import, for a progress bar.
#[derive(Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a Path,
    /// Bytes read so far, over all files under the path given to
    /// [`Importer::path`](super::Importer::path).
    pub bytes_done: u64,
    /// Total size of the files under that path when reading began.
    pub bytes_total: u64,
}

/// The result of an import.
///
/// Turns, calls, results, conversations, messages, responses and tokens describe what was read of
/// the sources. Each is counted once in the whole import, whether or not the store already had it.
/// `added` counts what the store added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files read.
    pub files: u64,
    /// Files that were not read, as they did not change since an earlier import. Their contents
    /// are not counted.
    pub unchanged: u64,
    /// Lines read, without empty lines.
    pub lines: u64,
    /// Lines that the store added.
    pub added: u64,
    /// Distinct turns.
    pub turns: u64,
    /// Distinct tool calls.
    pub tool_calls: u64,
    /// Distinct tool calls with a result.
    pub tool_results: u64,
    /// Distinct conversations. A sub-agent has its own.
    pub conversations: u64,
    /// Distinct messages. Each line with content is a message, and so is a line of Codex with the
    /// tokens of a response.
    pub messages: u64,
    /// Distinct API responses, including errors in place of a response: the requests that
    /// [`usage`](crate::analytics::Analytics::usage) and
    /// [`models`](crate::analytics::Analytics::models) report.
    pub api_responses: u64,
    /// Prompt tokens, including cached ones.
    pub tokens_in: u64,
    /// Generated tokens, including reasoning tokens.
    pub tokens_out: u64,
    /// Prompt tokens that were written to a cache.
    pub tokens_cache_write: u64,
    /// Prompt tokens that were read from a cache.
    pub tokens_cache_read: u64,
    /// Generated reasoning tokens.
    pub tokens_reasoning: u64,
    /// Lines of a fork that belong to its parent session and are imported from the parent's file.
    pub repeated: u64,
    /// Files with an incomplete last line. The line is imported once it is complete.
    pub unfinished: u64,
    /// Distinct conversations and requests that were left out because they were erased from the
    /// store.
    pub erased: u64,
    /// Records of these that were left out: turns, messages, requests and outcomes of calls.
    pub left_out: u64,
    /// Items that were read but not understood, by type.
    pub not_understood: BTreeMap<String, u64>,
    /// Lines, or whole files (line 0), that could not be read or that the store rejected.
    pub broken: Vec<Broken>,
    /// The report of each file that was read, in their order. Not serialised.
    #[serde(skip)]
    pub per_file: Vec<FileReport>,
}

/// The [`Report`] of one file. Items that occur in several files are counted for the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The file's path.
    pub file: String,
    /// The counts of this file.
    #[serde(flatten)]
    pub report: Report,
}

/// A line that was not imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file's path.
    pub file: String,
    /// The line's number, from 1; 0 for the whole file.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

impl Report {
    pub(super) fn count_not_understood(&mut self, what: &str, n: u64) {
        if let Some(count) = self.not_understood.get_mut(what) {
            *count += n;
            return;
        }
        let mut key: String = what.chars().take(TYPE_CHARS_MAX).collect();
        // The number of types in a file is not trusted, so the report's size is limited.
        if self.not_understood.len() >= TYPES_MAX && !self.not_understood.contains_key(&key) {
            "(other types)".clone_into(&mut key);
        }
        *self.not_understood.entry(key).or_default() += n;
    }

    pub(super) fn add(&mut self, part: &Report) {
        self.files += part.files;
        self.unchanged += part.unchanged;
        self.lines += part.lines;
        self.added += part.added;
        self.turns += part.turns;
        self.tool_calls += part.tool_calls;
        self.tool_results += part.tool_results;
        self.conversations += part.conversations;
        self.messages += part.messages;
        self.api_responses += part.api_responses;
        self.tokens_in = self.tokens_in.saturating_add(part.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(part.tokens_out);
        for (sum, part) in [
            (&mut self.tokens_cache_write, part.tokens_cache_write),
            (&mut self.tokens_cache_read, part.tokens_cache_read),
            (&mut self.tokens_reasoning, part.tokens_reasoning),
        ] {
            *sum = sum.saturating_add(part);
        }
        self.repeated += part.repeated;
        self.unfinished += part.unfinished;
        self.erased += part.erased;
        self.left_out += part.left_out;
        for (what, n) in &part.not_understood {
            *self.not_understood.entry(what.clone()).or_default() += n;
        }
        self.broken.extend_from_slice(&part.broken);
    }
}

/// The report of a file under construction.
pub(super) struct FileState {
    made: FileReport,
    /// The format of the file, once it is known.
    pub(super) format: Option<Format>,
    /// The conversation of the last message.
    pub(super) conversation: Option<Uuid>,
    broken_unlisted: u64,
    first_unlisted: u64,
}

impl FileState {
    pub(super) fn new(path: &Path) -> FileState {
        FileState {
            made: FileReport {
                file: path.display().to_string(),
                report: Report::default(),
            },
            format: None,
            conversation: None,
            broken_unlisted: 0,
            first_unlisted: 0,
        }
    }

    pub(super) fn as_report(&self) -> &FileReport {
        &self.made
    }

    pub(super) fn report(&mut self) -> &mut Report {
        &mut self.made.report
    }

    /// Whether nothing is to be reported when the file is imported again.
    pub(super) fn is_clean(&self, may_be_unfinished: bool) -> bool {
        let report = &self.made.report;
        report.broken.is_empty()
            && (report.erased, report.left_out) == (0, 0)
            && (may_be_unfinished || report.unfinished == 0)
    }

    pub(super) fn broken(&mut self, line: u64, reason: String) {
        let listed = &mut self.made.report.broken;
        if listed.len() < BROKEN_LISTED_MAX {
            let file = self.made.file.clone();
            listed.push(Broken { file, line, reason });
            return;
        }
        if self.broken_unlisted == 0 {
            self.first_unlisted = line;
        }
        self.broken_unlisted += 1;
    }

    pub(super) fn into_report(mut self) -> FileReport {
        let listed = &mut self.made.report.broken;
        // Rejections by the log arrive per batch, after the lines that the parser rejected.
        listed.sort_by_key(|broken| broken.line);
        if self.broken_unlisted > 0 {
            listed.push(Broken {
                file: self.made.file.clone(),
                line: self.first_unlisted,
                reason: format!("and {} more, not listed", self.broken_unlisted),
            });
        }
        self.made
    }
}
