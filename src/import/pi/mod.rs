//! Session files of pi.
//!
//! The entries of a session are a tree: each names the one before it. A fork starts with its own
//! header and then repeats entries of its parent. They have the same ids here in both files, so
//! that they are counted once even if the parent is gone. The ids of the entries themselves are
//! short, and an old file gets them when it is opened again. An entry is therefore known by its
//! time and content.

mod agent;
mod shape;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use super::facts::{Facts, Tokens};
use super::heading::Origin;
use super::ids::{foreign_id, named};
use super::json::{self, Raw};
use super::step::{Call, Outcome, Step, Thread, Tree};
use crate::record::Role;
pub(super) use agent::Pi;
use shape::{Block, Cost, Entry, Message, Usage};

const FORMAT: &str = "pi";
/// The role of a message of an extension, and its name until version 2 of the format.
const CUSTOM: [&str; 2] = ["\"role\":\"custom\"", "\"role\":\"hookMessage\""];

/// State that is kept from line to line.
#[derive(Default, Serialize, Deserialize)]
struct Session {
    thread: Thread,
    turns: Tree,
    /// Entries before this time, in epoch milliseconds, are copies from the parent session, the
    /// file of which exists.
    copied_until: Option<i64>,
    #[serde(skip)]
    path: PathBuf,
}

/// The entry being read.
#[derive(Clone, Copy)]
struct Here {
    id: Uuid,
    at: i64,
}

/// The session in the name of its file, which is `<time>_<session>.jsonl`.
fn session_of(path: &str) -> &str {
    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
    let name = name.strip_suffix(".jsonl").unwrap_or(name);
    name.split_once('_').map_or(name, |(_, session)| session)
}

impl Session {
    fn of_file(path: &Path) -> Session {
        Session {
            thread: Thread::new(FORMAT, session_of(&path.to_string_lossy())),
            path: path.to_owned(),
            ..Session::default()
        }
    }

    /// Parses a line. An `Err` is the reason why the line is broken.
    fn read(&mut self, text: &str) -> Result<Vec<Facts<'static>>, String> {
        let Some(entry) = json::object::<Entry<'_>>(text)? else {
            return Ok(vec![Facts::not_understood("(not an object)")]);
        };
        let kind = json::type_name(entry.kind)?;
        let message = json::member::<Message<'_>>(entry.message)?;
        let written_at = json::timestamp(entry.timestamp)?;
        let stated_at = message.and_then(|it| i64::try_from(json::number(it.timestamp)?).ok());
        if kind == "session" {
            return self.begin(&entry, written_at);
        }
        let Some(at) = written_at.or(stated_at) else {
            return Ok(vec![Facts::not_understood(kind)]);
        };
        let before = match entry.id.get() {
            Some(_) => self.turns.before(json::text(entry.parent)?.as_deref()),
            None => self.thread.latest,
        };
        let is_copy = self.copied_until.is_some_and(|until| at < until);
        let here = Here {
            id: entry_id(&kind, &entry),
            at,
        };
        self.thread.latest = before;
        let kept = is_copy.then(|| self.thread.clone());
        let mut facts = self.entry(here, &kind, &entry, message.as_ref())?;
        if let Some(id) = json::owned_text(entry.id)? {
            self.turns.add(id, self.thread.latest);
        }
        if let Some(kept) = kept {
            let after = std::mem::replace(&mut self.thread, kept);
            self.thread.latest = after.latest;
            self.thread.model = after.model;
            self.thread.vendor = after.vendor;
            facts = vec![Facts::repeated()];
        }
        Ok(facts)
    }

    /// The header of a session.
    fn begin(&mut self, entry: &Entry<'_>, at: Option<i64>) -> Result<Vec<Facts<'static>>, String> {
        if let Some(id) = json::text(entry.id)? {
            self.thread = Thread::new(FORMAT, &id);
        }
        self.thread.cwd = json::owned_text(entry.cwd)?.or(self.thread.cwd.take());
        self.settings(entry)?;
        if let Some(parent) = json::text(entry.parent_session.or(entry.branched_from))? {
            let session = session_of(&parent);
            self.thread.parent = Some(foreign_id("pi:session", session));
            let name = parent.rsplit(['/', '\\']).next().unwrap_or_default();
            let is_there =
                Path::new(&*parent).is_file() || self.path.with_file_name(name).is_file();
            self.copied_until = at.filter(|_| is_there);
        }
        Ok(vec![Facts::default()])
    }

    fn settings(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let thread = &mut self.thread;
        thread.vendor = json::owned_text(entry.provider)?.or(thread.vendor.take());
        thread.model = json::owned_text(entry.model)?.or(thread.model.take());
        Ok(())
    }

    fn entry(
        &mut self,
        here: Here,
        kind: &str,
        entry: &Entry<'_>,
        message: Option<&Message<'_>>,
    ) -> Result<Vec<Facts<'static>>, String> {
        Ok(match (kind, message) {
            ("message", Some(message)) => self.message(here, message)?,
            ("compaction" | "branch_summary", _) => match json::owned_text(entry.summary)? {
                Some(summary) => self.summary(here, summary)?,
                None => vec![Facts::not_understood(kind)],
            },
            ("custom_message", _) => self.said(here, entry.content, true)?,
            ("model_change", _) => {
                self.settings(entry)?;
                vec![Facts::default()]
            }
            ("session_info", _) => {
                let name = json::text(entry.name)?.unwrap_or_default();
                let mut facts = Facts::default();
                facts
                    .headings
                    .extend(self.thread.titled(Origin::User, &name));
                vec![facts]
            }
            // Settings and bookmarks, and the state of an extension, which the model does not see.
            ("thinking_level_change" | "label" | "custom", _) => vec![Facts::default()],
            _ => vec![Facts::not_understood(kind)],
        })
    }

    fn message(
        &mut self,
        here: Here,
        message: &Message<'_>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let role = json::type_name(message.role)?;
        Ok(match &*role {
            "user" => self.said(here, message.content, false)?,
            "custom" | "hookMessage" => self.said(here, message.content, true)?,
            "assistant" => self.answer(here, message)?,
            "toolResult" => self.result(here, message)?,
            "bashExecution" => self.command(here, message)?,
            "branchSummary" | "compactionSummary" => match json::owned_text(message.summary)? {
                Some(summary) => self.summary(here, summary)?,
                None => vec![Facts::not_understood(format!("message.{role}"))],
            },
            _ => vec![Facts::not_understood(format!("message.{role}"))],
        })
    }

    fn step(&mut self, step: Step) -> Result<Facts<'static>, String> {
        self.thread.facts(FORMAT, step)
    }

    fn summary(&mut self, here: Here, summary: String) -> Result<Vec<Facts<'static>>, String> {
        let mut step = Step::new(here.id, here.at, Role::System);
        step.is_harness = true;
        step.texts.push(summary);
        Ok(vec![self.step(step)?])
    }

    /// What the user wrote, or an extension in the place of the user.
    fn said(
        &mut self,
        here: Here,
        content: Raw<'_>,
        is_harness: bool,
    ) -> Result<Vec<Facts<'static>>, String> {
        let mut step = Step::new(here.id, here.at, Role::User);
        step.is_harness = is_harness;
        blocks(content, &mut step)?;
        Ok(vec![self.step(step)?])
    }

    fn answer(&mut self, here: Here, message: &Message<'_>) -> Result<Vec<Facts<'static>>, String> {
        let mut step = Step::new(here.id, here.at, Role::Assistant);
        blocks(message.content, &mut step)?;
        let thread = &mut self.thread;
        thread.vendor = json::owned_text(message.provider)?.or(thread.vendor.take());
        thread.model = json::owned_text(message.model)?.or(thread.model.take());
        if let Some(usage) = json::member::<Usage<'_>>(message.usage)? {
            let tokens = tokens_of(&usage);
            let cost = json::member::<Cost<'_>>(usage.cost)?.unwrap_or_default();
            if tokens != Tokens::default() {
                step.tokens = Some(tokens);
                step.cost_usd = json::float(cost.total).filter(|cost| *cost >= 0.0);
                step.usage = message.usage.get().map(str::to_owned);
            }
        }
        let reason = json::text(message.stop)?.unwrap_or_default();
        let error = json::owned_text(message.error)?;
        if matches!(&*reason, "error" | "aborted") {
            step.error = Some(error.unwrap_or_else(|| reason.into_owned()));
        }
        Ok(vec![self.step(step)?])
    }

    fn result(&mut self, here: Here, message: &Message<'_>) -> Result<Vec<Facts<'static>>, String> {
        let Some(call_id) = json::owned_text(message.call_id)? else {
            return Ok(vec![Facts::not_understood("message.toolResult")]);
        };
        let mut step = Step::new(here.id, here.at, Role::Tool);
        blocks(message.content, &mut step)?;
        let text = std::mem::take(&mut step.texts).join("\n\n");
        step.result = Some(Outcome {
            call_id,
            error: json::is_true(message.is_error).then(|| text.clone()),
            text,
            outcome: message.details.get().map(str::to_owned),
            latency_ms: None,
        });
        Ok(vec![self.step(step)?])
    }

    /// A command that the user ran: a call with its result.
    fn command(
        &mut self,
        here: Here,
        message: &Message<'_>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let call_id = here.id.to_string();
        let command = message.command.get().unwrap_or("null");
        let mut asked = Step::new(here.id, here.at, Role::User);
        asked.is_harness = true;
        asked.calls.push(Call {
            id: call_id.clone(),
            name: "bashExecution".to_owned(),
            args: format!("{{\"command\":{command}}}"),
        });
        let text = json::owned_text(message.output)?.unwrap_or_default();
        let code = message.exit_code.get().filter(|code| *code != "0");
        let error = if json::is_true(message.cancelled) {
            Some("cancelled".to_owned())
        } else {
            code.map(|code| format!("exit code {code}"))
        };
        let id = named("pi:result", &call_id);
        let mut done = Step::new(id, here.at, Role::Tool);
        done.result = Some(Outcome {
            call_id,
            text,
            outcome: None,
            error,
            latency_ms: None,
        });
        Ok(vec![self.step(asked)?, self.step(done)?])
    }
}

/// The id of an entry, by its time and content.
fn entry_id(kind: &str, entry: &Entry<'_>) -> Uuid {
    let [custom, hook] = CUSTOM;
    let message = entry
        .message
        .get()
        .unwrap_or_default()
        .replace(hook, custom);
    let mut hash = Xxh3::new();
    let others = [entry.summary, entry.content, entry.custom_type, entry.name];
    let others = others.map(|raw| raw.get().unwrap_or_default());
    for part in [kind, &message].into_iter().chain(others) {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let time = entry.timestamp.get().unwrap_or_default();
    named("pi:entry", &format!("{time}:{:032x}", hash.digest128()))
}

/// Adds the blocks of a message's content, which may be a text alone.
fn blocks(content: Raw<'_>, step: &mut Step) -> Result<(), String> {
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let Some(items) = json::array(content)? else {
        step.texts.extend(filled(json::owned_text(content)?));
        return Ok(());
    };
    for item in items {
        let block = json::object::<Block<'_>>(item)?.unwrap_or_default();
        let kind = json::type_name(block.kind)?;
        match &*kind {
            "text" => step.texts.extend(filled(json::owned_text(block.text)?)),
            // It is empty if the provider keeps it secret.
            "thinking" => step
                .reasoning
                .extend(filled(json::owned_text(block.thinking)?)),
            "toolCall" => match (json::owned_text(block.id)?, json::owned_text(block.name)?) {
                (Some(id), Some(name)) => step.calls.push(Call {
                    id,
                    name,
                    args: json::text_or_bytes(block.arguments)?
                        .unwrap_or_default()
                        .into_owned(),
                }),
                _ => step.others.count("toolCall"),
            },
            _ => step.others.count(kind),
        }
    }
    Ok(())
}

/// The input is stated without what a cache has. A provider may state only the total, which counts
/// as output then.
fn tokens_of(usage: &Usage<'_>) -> Tokens {
    let number = |raw| json::number(raw).unwrap_or(0);
    let [read, write] = [usage.cache_read, usage.cache_write].map(number);
    let input = number(usage.input)
        .saturating_add(read)
        .saturating_add(write);
    let output = number(usage.output);
    Tokens {
        input,
        cache_read: read,
        cache_write: write,
        output: if input == 0 && output == 0 {
            number(usage.total)
        } else {
            output
        },
        ..Tokens::default()
    }
}
