//! The history that Aider keeps in a repository: `.aider.chat.history.md`, to which it appends.
//!
//! A chat begins with `# aider chat started at …`, in local time without a zone, which is the only
//! time in the file: all items of a chat get it, as if it were UTC. `#### ` begins the lines of a
//! prompt, `> ` a line of Aider's own, and all other lines are the model's answer. Quotes in an
//! answer look like lines of Aider. There are no calls. Tokens and costs are as Aider rounds them
//! for display, such as `5.1k`.
//!
//! A chat has no id. It is known by its start and its first line, and an item by its place in it.

use std::path::{Path, PathBuf};

use chrono::NaiveDateTime;
use serde_json::value::RawValue;
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::agent::{Agent, Home, Reader, Whole, modified_ms};
use super::facts::{Facts, Tokens};
use super::step::{Step, Thread};
use crate::record::{Role, now};

const FORMAT: &str = "aider";
const NAME: &str = ".aider.chat.history.md";
const START: &str = "# aider chat started at ";
const PROMPT: &str = "####";
const NOTICE: &str = "> ";
/// Aider ends lines of its own and of the user with this.
const BREAK: &str = "  ";
/// After this time without a change, the last answer is over.
const QUIET_MS: i64 = 60_000;

pub(super) struct Aider;

impl Agent for Aider {
    /// None: the history is in each repository.
    fn places(&self, _home: &Home) -> Vec<PathBuf> {
        Vec::new()
    }

    fn is_source(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == NAME)
    }

    fn wrote_file(&self, path: &Path, head: &[u8]) -> bool {
        self.is_source(path) || head.trim_ascii_start().starts_with(START.as_bytes())
    }

    fn reader(&self, _path: &Path, _state: Option<&RawValue>) -> Option<Reader> {
        Some(Reader::Whole(read))
    }
}

fn read(whole: &mut Whole<'_, '_>) -> Result<(), String> {
    let text = whole.text()?;
    let age = modified_ms(whole.path).map(|at| now().saturating_sub(at));
    let is_quiet = age.is_some_and(|age| age > QUIET_MS);
    let folder = std::path::absolute(whole.path).ok();
    let folder = folder.as_deref().and_then(Path::parent);
    let folder = folder.map(|folder| folder.display().to_string());
    let mut chat: Option<Chat> = None;
    let mut start = None;
    let mut number = 0;
    for line in text.split_inclusive('\n') {
        number += 1;
        let is_cut = !line.ends_with('\n');
        if is_cut && !is_quiet {
            whole.unfinished();
            break;
        }
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(at) = line.strip_prefix(START) {
            if let Some(chat) = &mut chat {
                chat.end(whole, number);
            }
            chat = None;
            start = Some(at.trim().to_owned());
        } else if let Some(chat) = &mut chat {
            chat.line(whole, number, line);
        } else if !line.trim().is_empty() {
            let Some(begun) = start.take() else {
                whole.take(number, vec![Facts::not_understood("line before a chat")]);
                continue;
            };
            match Chat::begin(&begun, line, folder.clone()) {
                Ok(begun) => chat.insert(begun).line(whole, number, line),
                Err(reason) => whole.broken(number, reason),
            }
        }
        if whole.is_stopped() {
            return Ok(());
        }
    }
    if let Some(chat) = &mut chat {
        if is_quiet || chat.block.is_empty() {
            chat.end(whole, number);
        } else {
            whole.unfinished();
        }
    }
    Ok(())
}

/// What the lines of a block are.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Prompt,
    Answer,
}

struct Chat {
    thread: Thread,
    at: i64,
    items: u64,
    /// Whether lines of prompts end with a break, as Aider writes them. Headings in answers do not.
    has_breaks: Option<bool>,
    kind: Kind,
    block: Vec<String>,
    /// The last answer since the last prompt.
    answer: Option<Uuid>,
}

impl Chat {
    fn begin(start: &str, line: &str, folder: Option<String>) -> Result<Chat, String> {
        let at = NaiveDateTime::parse_from_str(start, "%Y-%m-%d %H:%M:%S");
        let at = at.map_err(|_| format!("the chat's start {start:?} is not a time"))?;
        let session = format!("{start} {:016x}", xxh3_64(line.trim_end().as_bytes()));
        let mut thread = Thread::new(FORMAT, &session);
        thread.cwd = folder;
        Ok(Chat {
            thread,
            at: at.and_utc().timestamp_millis(),
            items: 0,
            has_breaks: None,
            kind: Kind::Answer,
            block: Vec::new(),
            answer: None,
        })
    }

    fn line(&mut self, whole: &mut Whole<'_, '_>, number: u64, line: &str) {
        if let Some(prompt) = self.prompt(line) {
            if self.kind != Kind::Prompt {
                self.end(whole, number);
                self.kind = Kind::Prompt;
            }
            self.block.push(prompt.trim().to_owned());
        } else if let Some(notice) = line.strip_prefix(NOTICE) {
            self.end(whole, number);
            self.notice(whole, number, notice.trim());
        } else {
            if self.kind != Kind::Answer {
                self.end(whole, number);
            }
            if !self.block.is_empty() || !line.trim().is_empty() {
                self.block.push(line.trim_end().to_owned());
            }
        }
    }

    fn prompt<'l>(&mut self, line: &'l str) -> Option<&'l str> {
        let prompt = line.strip_prefix(PROMPT)?;
        if !prompt.starts_with(' ') {
            return None;
        }
        let has_break = line.ends_with(BREAK);
        let has_breaks = *self.has_breaks.get_or_insert(has_break);
        (has_break || !has_breaks).then_some(prompt)
    }

    fn step(&mut self, role: Role) -> Step {
        self.items += 1;
        let key = self.items.to_string();
        Step::new(self.thread.key(FORMAT, &key), self.at, role)
    }

    fn take(&mut self, whole: &mut Whole<'_, '_>, number: u64, step: Step) {
        match self.thread.facts(FORMAT, step) {
            Ok(facts) => whole.take(number, vec![facts]),
            Err(reason) => whole.broken(number, reason),
        }
    }

    /// Ends a prompt or an answer.
    fn end(&mut self, whole: &mut Whole<'_, '_>, number: u64) {
        let kind = std::mem::replace(&mut self.kind, Kind::Answer);
        let text = std::mem::take(&mut self.block).join("\n");
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let is_prompt = kind == Kind::Prompt;
        let mut step = self.step(if is_prompt {
            Role::User
        } else {
            Role::Assistant
        });
        step.texts.push(text.to_owned());
        self.answer = (!is_prompt).then_some(step.id);
        self.take(whole, number, step);
    }

    fn notice(&mut self, whole: &mut Whole<'_, '_>, number: u64, text: &str) {
        let model = text
            .strip_prefix("Main model: ")
            .or_else(|| text.strip_prefix("Model: "));
        if let Some(model) = model.and_then(|model| model.split_whitespace().next()) {
            self.thread.model = Some(model.to_owned());
        }
        let counted = tokens(text);
        let mut step = self.step(match counted {
            Some(_) => Role::Assistant,
            None => Role::System,
        });
        if let Some((tokens, cost)) = counted {
            step.part_of = self.answer;
            step.tokens = Some(tokens);
            step.cost_usd = cost.filter(|cost| *cost > 0.0);
        }
        step.is_harness = true;
        step.texts.push(text.to_owned());
        self.take(whole, number, step);
    }
}

/// The tokens and the cost of an answer, from a line such as `Tokens: 5.1k sent, 1.2k received.
/// Cost: $0.02 message, $0.05 session.` What was sent has the tokens of the cache in it.
fn tokens(text: &str) -> Option<(Tokens, Option<f64>)> {
    let (counts, cost) = match text.strip_prefix("Tokens: ")?.split_once(" Cost: $") {
        Some((counts, cost)) => (counts, cost.split(' ').next()),
        None => (text.strip_prefix("Tokens: ")?, None),
    };
    let mut tokens = Tokens::default();
    for count in counts.trim_end_matches('.').split(", ") {
        let (count, what) = count.split_once(' ')?;
        let count = match count.strip_suffix('k') {
            Some(thousands) => thousands.parse::<f64>().ok()? * 1000.0,
            None => count.parse().ok()?,
        };
        let count = Tokens::counted(Some(count));
        match what {
            "sent" => tokens.input = count,
            "received" => tokens.output = count,
            "cache write" => tokens.cache_write = count,
            "cache hit" => tokens.cache_read = count,
            _ => return None,
        }
    }
    let cost = cost.map(|cost| cost.replace(',', ""));
    Some((tokens, cost.and_then(|cost| cost.parse().ok())))
}
