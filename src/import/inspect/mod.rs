//! Logs of Inspect AI, the evaluation framework: `.eval` files, which are zip archives with a JSON
//! document for each sample, and the `.json` files with all samples in one document.
//!
//! A sample and epoch is a conversation. Its `messages` are the messages; the events next to them
//! say when each was said, and what a request to a model used. A request whose answer is not among
//! the messages belongs to a sub-agent or a scorer, which has a conversation of its own, or is a
//! turn of the harness. A sample is written once, when it ends.

#[cfg(feature = "databases")]
mod archive;
mod events;
mod message;
mod sample;
mod shape;

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::agent::{Agent, Home, Reader, Whole};
use super::facts::Facts;
use super::json::{self, Raw};

const FORMAT: &str = "inspect";
/// Maximum size in bytes of the JSON of a sample, and of the attachments that its texts name.
const SAMPLE_BYTES_MAX: u64 = 1 << 29;
/// Where the name of the first entry of an archive starts.
const FIRST_NAME: usize = 30;

/// The importer.
pub(super) struct Inspect;

impl Agent for Inspect {
    /// None: Inspect writes to `logs` in its working directory, or to a directory that its user
    /// names.
    fn places(&self, _home: &Home) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.extension().is_some_and(|ext| ext == "eval")
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        let is_first = |name: &str| {
            let names = head.get(FIRST_NAME..);
            names.is_some_and(|names| names.starts_with(name.as_bytes()))
        };
        is_archive(head) && (self.is_source(path) || is_first("_journal/")) || is_document(head)
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        Some(Reader::Whole(read))
    }
}

fn is_archive(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04")
}

/// Whether these are the first bytes of a log in one document.
fn is_document(head: &[u8]) -> bool {
    let head = super::without_bom(head).trim_ascii_start();
    let has = |text: &str| memchr::memmem::find(head, text.as_bytes()).is_some();
    let names = ["\"version\"", "\"eval\"", "\"task\"", "\"task_id\""];
    head.starts_with(b"{") && names.iter().all(|name| has(name))
}

fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    #[cfg(feature = "databases")]
    if let Some(file) = archive::file(whole.path) {
        return archive::read(whole, file);
    }
    let bytes = whole.bytes()?;
    if is_archive(&bytes) {
        #[cfg(feature = "databases")]
        return archive::read(whole, std::io::Cursor::new(bytes));
        #[cfg(not(feature = "databases"))]
        return Err(
            "an archive: this program was built without the feature `databases`, which \
                    reads it"
                .to_owned(),
        );
    }
    document(whole, bytes)
}

/// Reads a log in one document.
fn document(whole: &mut Whole<'_, '_>, bytes: Vec<u8>) -> Result<(), String> {
    let text = text(bytes)?;
    let text = text.trim_start_matches('\u{feff}').trim_ascii_start();
    if super::lines::is_unfinished(text.trim_ascii_end().as_bytes()) {
        whole.unfinished();
        return Ok(());
    }
    let log: shape::Log<'_> = json::object(text)?.ok_or("a log that is no object")?;
    if json::text(log.status)?.as_deref() == Some("started") {
        whole.unfinished();
    }
    let eval = Eval::of(log.eval)?;
    let mut items = Items::new(whole);
    for sample in json::array(log.samples)?.into_iter().flatten() {
        items.sample(&eval, sample);
        if items.whole.is_stopped() {
            break;
        }
    }
    Ok(())
}

/// The bytes as JSON. Inspect writes numbers that are not finite as constants, which JSON has not;
/// they become null.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(bytes);
    let text = text.map_err(|e| format!("not UTF-8 at byte {}", e.utf8_error().valid_up_to()))?;
    let has = |name: &str| memchr::memmem::find(text.as_bytes(), name.as_bytes()).is_some();
    if !has("NaN") && !has("Infinity") {
        return Ok(text);
    }
    let mut finite = String::with_capacity(text.len());
    for (n, part) in pieces(&text).enumerate() {
        if n % 2 == 1 || !part.contains(['N', 'I']) {
            finite.push_str(part);
            continue;
        }
        let part = part
            .replace("-Infinity", "null")
            .replace("Infinity", "null");
        finite.push_str(&part.replace("NaN", "null"));
    }
    Ok(finite)
}

/// What is between strings, and the strings with their quotes, in turns.
fn pieces(json: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(json);
    let mut is_string = true;
    std::iter::from_fn(move || {
        let text = rest?;
        is_string = !is_string;
        let end = if is_string {
            let mut is_escaped = true; // The first quote is not the end.
            let end = text.bytes().position(|byte| {
                let ends = byte == b'"' && !is_escaped;
                is_escaped = byte == b'\\' && !is_escaped;
                ends
            });
            end.map(|end| end + 1)
        } else {
            text.find('"')
        };
        let (piece, after) = match end.and_then(|end| text.split_at_checked(end)) {
            Some((piece, after)) => (piece, Some(after)),
            None => (text, None),
        };
        rest = after;
        Some(piece)
    })
}

/// What a log says about all of its samples.
struct Eval {
    task: String,
    task_id: String,
    created: Option<i64>,
}

impl Eval {
    fn of(raw: Raw<'_>) -> Result<Eval, String> {
        let eval: Option<shape::Eval<'_>> = json::member(raw)?;
        let eval = eval.ok_or("no log of Inspect: it has no `eval`")?;
        let text = |raw| Ok::<_, String>(json::text(raw)?.map(Cow::into_owned).unwrap_or_default());
        Ok(Eval {
            task: text(eval.task)?,
            task_id: text(eval.task_id)?,
            created: events::time(eval.created),
        })
    }
}

/// The samples of a file.
struct Items<'w, 'a, 'log> {
    whole: &'w mut Whole<'a, 'log>,
    number: u64,
}

impl<'w, 'a, 'log> Items<'w, 'a, 'log> {
    fn new(whole: &'w mut Whole<'a, 'log>) -> Self {
        Items { whole, number: 0 }
    }

    fn sample(&mut self, eval: &Eval, json: &str) {
        self.whole.begin_session();
        if let Err(reason) = sample::read(self, eval, json) {
            self.take(Err(reason));
        }
    }

    fn take(&mut self, facts: Result<Facts<'static>, String>) {
        self.number += 1;
        match facts {
            Ok(facts) => self.whole.take(self.number, vec![facts]),
            Err(reason) => self.whole.broken(self.number, reason),
        }
    }
}
