//! What an import says about itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

/// Maximum number of broken lines of one file that a report lists; the rest is one entry that counts them.
const BROKEN_LISTED_MAX: usize = 10_000;
/// Maximum number of types of one file that a report tells apart; the rest is `(other types)`.
const TYPES_MAX: usize = 1_000;
/// Maximum number of characters of a foreign type that a report shows.
const TYPE_CHARS_MAX: usize = 100;

/// How far an import has come, for a progress bar.
#[derive(Debug)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The file being read.
    pub file: &'a Path,
    /// Bytes read of everything under the path given to [`Importer::path`](super::Importer::path).
    pub bytes_done: u64,
    /// Bytes of everything under that path, as large as it was when the reading began.
    pub bytes_total: u64,
}

/// What an import found and did.
///
/// Turns, calls, results, conversations, messages, responses and tokens are what the sources hold,
/// each counted once over the whole import, whether or not the store already had them. `added` is
/// what the store added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Files read.
    pub files: u64,
    /// Lines read, without the empty ones.
    pub lines: u64,
    /// Lines that the store added.
    pub added: u64,
    /// Distinct turns.
    pub turns: u64,
    /// Distinct tool calls.
    pub tool_calls: u64,
    /// Distinct tool calls with a result.
    pub tool_results: u64,
    /// Distinct conversations; a sub-agent has one of its own.
    pub conversations: u64,
    /// Distinct messages: each line that says something is one, and so is a line of Codex that tells
    /// the tokens of a response.
    pub messages: u64,
    /// Distinct API responses, an error in the place of one included: the requests that
    /// [`usage`](crate::analytics::Analytics::usage) and [`models`](crate::analytics::Analytics::models) report.
    pub api_responses: u64,
    /// Prompt tokens, cached ones included.
    pub tokens_in: u64,
    /// Generated tokens, those of reasoning included.
    pub tokens_out: u64,
    /// Prompt tokens that were written to a cache.
    pub tokens_cache_write: u64,
    /// Prompt tokens that were read from a cache.
    pub tokens_cache_read: u64,
    /// Generated tokens that models reasoned with.
    pub tokens_reasoning: u64,
    /// Lines of a forked session that are its parent's: they are taken from that one's file.
    pub repeated: u64,
    /// Files whose last line is not whole: it is taken when it is.
    pub unfinished: u64,
    /// Distinct conversations and requests that were erased from the store, and were left out.
    pub erased: u64,
    /// Their records: turns, messages, requests and outcomes of calls.
    pub left_out: u64,
    /// What was read but not understood, by its type.
    pub not_understood: BTreeMap<String, u64>,
    /// Lines, or whole files (line 0), that could not be read, or that the store refused.
    pub broken: Vec<Broken>,
    /// The same for each file, in the order they were read. Not serialised.
    #[serde(skip)]
    pub per_file: Vec<FileReport>,
}

/// The [`Report`] of one file. What several files hold is counted with the first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// The file's path.
    pub file: String,
    /// Its part of the sum.
    #[serde(flatten)]
    pub report: Report,
}

/// A line that was not imported, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file's path.
    pub file: String,
    /// The line's number, from 1; 0 for the whole file.
    pub line: u64,
    /// Why, in words.
    pub reason: String,
}

impl Report {
    pub(super) fn count_not_understood(&mut self, what: &str, n: u64) {
        if let Some(count) = self.not_understood.get_mut(what) {
            *count += n;
            return;
        }
        let mut key: String = what.chars().take(TYPE_CHARS_MAX).collect();
        // A file is not trusted to have few types: the report must not grow with it.
        if self.not_understood.len() >= TYPES_MAX && !self.not_understood.contains_key(&key) {
            "(other types)".clone_into(&mut key);
        }
        *self.not_understood.entry(key).or_default() += n;
    }

    pub(super) fn add(&mut self, part: &Report) {
        self.files += part.files;
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

/// The report of a file while it is made.
pub(super) struct FileState {
    made: FileReport,
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
            broken_unlisted: 0,
            first_unlisted: 0,
        }
    }

    pub(super) fn report(&mut self) -> &mut Report {
        &mut self.made.report
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
        // The log's refusals came batch by batch, after the lines that no parser could read.
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
