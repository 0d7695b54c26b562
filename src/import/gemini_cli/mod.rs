//! Chat files of Gemini CLI.
//!
//! Older versions write a chat as one document, newer ones as lines. A message changes after it
//! was written first: it gets tool calls, their results and the tokens of its response. Its line is
//! then repeated as a whole. Each of these parts is a step of its own and does not change. The
//! message that carries the tokens represents the response, and the others are parts of it.

mod agent;
mod parts;
mod shape;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::facts::{self, Facts};
use super::heading::{Heading, Of, Origin};
use super::ids::{IdSet, foreign_id};
use super::json::{self, Raw};
use super::step::{self, Outcome, Step, Thread};
use crate::record::Role;
pub(super) use agent::{GeminiCli, document, is_chat, is_document, is_json};
pub(super) use parts::Parts;
use shape::{Call, Entry, Thought, Tokens};

const FORMAT: &str = "gemini-cli";

/// State that is kept from message to message.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Chat {
    #[serde(skip)]
    format: &'static str,
    thread: Thread,
    /// The folder of a sub-agent's file, which has the name of its session.
    folder: Option<String>,
    /// The path of the project.
    project: Option<String>,
    /// The parts that were read. A later version of one is not read.
    done: IdSet,
    /// The latest turn before each message, to which a step back returns.
    before: BTreeMap<String, Option<Uuid>>,
    /// Whether a call has no result yet.
    #[serde(skip)]
    has_open_calls: bool,
}

/// The message that is being read.
struct Here<'a> {
    id: &'a str,
    at: i64,
    model: Option<String>,
}

impl Chat {
    /// The start of a chat.
    fn begin(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        if let Some(id) = json::text(entry.session_id)? {
            let thread = Thread::new(self.format, &id);
            if thread.id == self.thread.id {
                return Ok(());
            }
            self.thread = thread;
        }
        let is_agent = json::text(entry.kind_of_chat)?.as_deref() == Some("subagent");
        if let Some(session) = self.folder.clone().filter(|_| is_agent) {
            let scope = format!("{}:session", self.format);
            self.thread.parent = Some(foreign_id(&scope, &session));
            self.thread.session = Some(session);
        }
        let directories = json::array(entry.directories)?.unwrap_or_default();
        let first = || serde_json::from_str(directories.first()?).ok();
        self.thread.cwd = self.project.clone().or_else(first);
        self.thread.vendor = (self.format == FORMAT).then(|| "google".to_owned());
        Ok(())
    }

    fn titled(&self, summary: Raw<'_>) -> Result<Option<Facts<'static>>, String> {
        let summary = json::text(summary)?.unwrap_or_default();
        let heading = self.thread.titled(Origin::Summary, &summary);
        Ok(heading.map(|heading| Facts {
            headings: vec![heading],
            ..Facts::default()
        }))
    }

    /// Parses a line, or a message of a document. An `Err` is the reason why it is broken.
    fn entry(&mut self, text: &str) -> Result<Vec<Facts<'static>>, String> {
        let Some(entry) = json::object::<Entry<'_>>(text)? else {
            return Ok(vec![Facts::not_understood("(not an object)")]);
        };
        if let Some(target) = json::text(entry.rewind)? {
            // The messages since then stay in the log. The next one follows the one before them.
            self.thread.latest = self.before.get(&*target).copied().flatten();
            return Ok(vec![Facts::default()]);
        }
        if let Some(id) = json::owned_text(entry.id)? {
            return self.message(&id, &entry);
        }
        // Times, folders and memory of the client are no content. Messages are repeated when the
        // client shortens or replaces some.
        let changes = json::member::<Entry<'_>>(entry.set)?;
        if changes.is_none() && entry.session_id.get().is_none() {
            return Ok(vec![Facts::not_understood(json::type_name(entry.kind)?)]);
        }
        let entry = changes.unwrap_or(entry);
        self.begin(&entry)?;
        let mut facts: Vec<Facts<'static>> = self.titled(entry.summary)?.into_iter().collect();
        for message in json::array(entry.messages)?.unwrap_or_default() {
            let message = json::object::<Entry<'_>>(message)?.unwrap_or_default();
            match json::owned_text(message.id)? {
                Some(id) => facts.extend(self.message(&id, &message)?),
                None => facts.push(Facts::not_understood(json::type_name(message.kind)?)),
            }
        }
        Ok(facts)
    }

    fn message(&mut self, id: &str, entry: &Entry<'_>) -> Result<Vec<Facts<'static>>, String> {
        let kind = json::type_name(entry.kind)?;
        let Some(at) = json::timestamp(entry.timestamp)? else {
            return Ok(vec![Facts::not_understood(kind)]);
        };
        let here = Here {
            id,
            at,
            model: json::owned_text(entry.model)?,
        };
        self.before
            .entry(id.to_owned())
            .or_insert(self.thread.latest);
        let mut facts = Vec::new();
        match &*kind {
            "gemini" | "qwen" => {
                self.answer(&here, entry, &mut facts)?;
            }
            "user" => self.said(&here, Role::User, entry, &mut facts)?,
            "info" | "warning" | "error" => self.said(&here, Role::System, entry, &mut facts)?,
            _ => facts.push(Facts::not_understood(kind)),
        }
        Ok(facts)
    }

    /// Adds a step, unless an earlier version of it was read.
    fn add(&mut self, step: Step, facts: &mut Vec<Facts<'static>>) -> Result<(), String> {
        if self.done.insert(step.id) {
            facts.push(self.thread.facts(self.format, step)?);
        }
        Ok(())
    }

    fn id(&self, key: &str) -> Uuid {
        self.thread.key(self.format, key)
    }

    /// What the user wrote, or a notice of the client.
    fn said(
        &mut self,
        here: &Here<'_>,
        role: Role,
        entry: &Entry<'_>,
        facts: &mut Vec<Facts<'static>>,
    ) -> Result<(), String> {
        let parts = Parts::of(entry.content)?;
        let results = parts.results;
        let mut step = Step::new(self.id(here.id), here.at, role);
        step.texts = parts.texts;
        step.others = parts.others;
        step.is_harness = role == Role::System;
        // It is in place of a response.
        if json::text(entry.kind)?.as_deref() == Some("error") {
            step.role = Role::Assistant;
            step.error = Some(step.texts.join("\n\n"));
        }
        if !(step.texts.is_empty() && step.others.is_empty()) {
            self.add(step, facts)?;
        } else if results.is_empty() && !self.done.contains(&step.id) {
            facts.push(Facts::not_understood(format!(
                "{role}.(empty)",
                role = role.as_str()
            )));
        }
        for result in results {
            self.result(here.at, result, facts)?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        here: &Here<'_>,
        entry: &Entry<'_>,
        facts: &mut Vec<Facts<'static>>,
    ) -> Result<(), String> {
        let parts = Parts::of(entry.content)?;
        let mut step = self.part(here, here.id);
        step.texts = parts.texts;
        step.reasoning = parts.thoughts;
        step.others = parts.others;
        for thought in json::array(entry.thoughts)?.unwrap_or_default() {
            let thought = json::object::<Thought<'_>>(thought)?.unwrap_or_default();
            let words = [thought.subject, thought.description].map(json::owned_text);
            let [subject, description] = words;
            let words: Vec<String> = [subject?, description?].into_iter().flatten().collect();
            step.reasoning
                .extend(Some(words.join(": ")).filter(|it| !it.is_empty()));
        }
        // Some versions write the thoughts before there is a text.
        let thoughts = self.part(here, &format!("{}:thoughts", here.id));
        if step.texts.is_empty() && step.others.is_empty() {
            let reasoning = std::mem::take(&mut step.reasoning);
            if !reasoning.is_empty() && !self.done.contains(&step.id) {
                self.add(
                    Step {
                        reasoning,
                        ..thoughts
                    },
                    facts,
                )?;
            }
        } else {
            if self.done.contains(&thoughts.id) {
                step.reasoning.clear();
            }
            self.add(step, facts)?;
        }
        self.used(here, entry.tokens, facts)?;
        for call in parts.calls {
            self.call(here, call, facts)?;
        }
        let calls = json::array(entry.calls)?.unwrap_or_default();
        let mut outcomes = Vec::new();
        for raw in calls {
            let call = json::object::<Call<'_>>(raw)?.unwrap_or_default();
            let (Some(id), Some(name)) = (json::owned_text(call.id)?, json::owned_text(call.name)?)
            else {
                facts.push(Facts::not_understood("gemini.toolCall"));
                continue;
            };
            let args = call.args.get().unwrap_or_default().to_owned();
            if let Some(agent) = json::text(call.agent_id)? {
                facts.push(self.started(&agent, &id));
            }
            outcomes.push((id.clone(), call));
            self.call(here, step::Call { id, name, args }, facts)?;
        }
        for (id, call) in outcomes {
            let ended_at = json::timestamp(call.timestamp)?.unwrap_or(here.at);
            match outcome(id, &call)? {
                Some(outcome) => self.result(ended_at, outcome, facts)?,
                None => self.has_open_calls = true,
            }
        }
        for result in parts.results {
            self.result(here.at, result, facts)?;
        }
        Ok(())
    }

    /// A part of the response of a message.
    fn part(&self, here: &Here<'_>, key: &str) -> Step {
        let mut step = Step::new(self.id(key), here.at, Role::Assistant);
        step.model.clone_from(&here.model);
        step.part_of = Some(self.id(&format!("{}:tokens", here.id)));
        step
    }

    fn call(
        &mut self,
        here: &Here<'_>,
        call: step::Call,
        facts: &mut Vec<Facts<'static>>,
    ) -> Result<(), String> {
        let mut step = self.part(here, &format!("call:{}", call.id));
        step.calls.push(call);
        self.add(step, facts)
    }

    fn result(
        &mut self,
        at: i64,
        outcome: Outcome,
        facts: &mut Vec<Facts<'static>>,
    ) -> Result<(), String> {
        let key = |what: &str| self.id(&format!("{what}:{}", outcome.call_id));
        let mut step = Step::new(key("result"), at, Role::Tool);
        let call = key("call");
        step.parent = Some(call).filter(|call| self.done.contains(call));
        step.result = Some(outcome);
        self.add(step, facts)
    }

    /// A call started a sub-agent, which has a chat of its own.
    fn started(&self, agent: &str, call: &str) -> Facts<'static> {
        let scope = format!("{}:session", self.format);
        Facts {
            headings: vec![Heading {
                of: Of::ConversationRef(foreign_id(&scope, agent)),
                title: None,
                parent: Some(self.thread.id),
                call: Some(call.to_owned()),
            }],
            ..Facts::default()
        }
    }

    fn used(
        &mut self,
        here: &Here<'_>,
        raw: Raw<'_>,
        facts: &mut Vec<Facts<'static>>,
    ) -> Result<(), String> {
        let Some(tokens) = json::member::<Tokens<'_>>(raw)?.map(tokens_of) else {
            return Ok(());
        };
        if tokens == facts::Tokens::default() {
            return Ok(());
        }
        let id = self.id(&format!("{}:tokens", here.id));
        let mut step = Step::new(id, here.at, Role::Assistant);
        step.is_usage = true;
        step.model.clone_from(&here.model);
        step.tokens = Some(tokens);
        step.usage = raw.get().map(str::to_owned);
        self.add(step, facts)
    }
}

/// The outcome of a call; `None` if it still runs.
fn outcome(call_id: String, call: &Call<'_>) -> Result<Option<Outcome>, String> {
    let status = json::text(call.status)?;
    let parts = Parts::of(call.result)?;
    let error = parts.results.iter().find_map(|it| it.error.clone());
    let failed = match status.as_deref() {
        Some("success") => false,
        Some("error" | "cancelled") => true,
        None if call.result.get().is_some() => error.is_some(),
        _ => return Ok(None),
    };
    let texts = parts.results.into_iter().map(|it| it.text);
    let mut texts: Vec<String> = texts.chain(parts.texts).collect();
    texts.retain(|text| !text.is_empty());
    if texts.is_empty() {
        texts.extend(json::owned_text(call.display)?);
    }
    let text = texts.join("\n\n");
    Ok(Some(Outcome {
        call_id,
        error: failed.then(|| error.unwrap_or_else(|| text.clone())),
        text,
        outcome: call.result.get().map(str::to_owned),
        latency_ms: None,
    }))
}

/// The prompt includes what was read from the cache, as in the API, unless the total says
/// otherwise. Thoughts are beside the output there.
fn tokens_of(tokens: Tokens<'_>) -> facts::Tokens {
    let number = |raw| json::number(raw).unwrap_or(0);
    let [input, output] = [tokens.input, tokens.output].map(number);
    let [cached, thoughts, tool] = [tokens.cached, tokens.thoughts, tokens.tool].map(number);
    let sum = [input, output, thoughts, tool].into_iter();
    let sum = sum.fold(0_u64, u64::saturating_add);
    let is_beside = cached > 0 && number(tokens.total) == sum.saturating_add(cached);
    let beside = if is_beside { cached } else { 0 };
    facts::Tokens {
        input: input.saturating_add(tool).saturating_add(beside),
        cache_read: cached,
        output: output.saturating_add(thoughts),
        reasoning: thoughts,
        ..facts::Tokens::default()
    }
}
