//! Chat files of Qwen Code.
//!
//! A line is a message or an event of the client, and names the line before it. A fork repeats
//! lines of its session under its own session id and names that session in them. They keep their
//! ids, so that they are counted once even if the other file is gone.

mod agent;
mod shape;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::facts::{Facts, Tokens};
use super::gemini_cli::Parts;
use super::heading::{Heading, Of, Origin};
use super::ids::{foreign_id, named};
use super::json::{self, Raw};
use super::step::{Step, Thread, Tree};
use crate::record::Role;
pub(super) use agent::{QwenCode, is_line};
use shape::{Event, Fork, Line, Message, Outcome, Payload, Shown, Usage};

const FORMAT: &str = "qwen-code";

/// State that is kept from line to line.
#[derive(Default, Serialize, Deserialize)]
struct Session {
    /// The threads of sessions and of sub-agents.
    threads: BTreeMap<Uuid, Thread>,
    turns: Tree,
    #[serde(skip)]
    path: PathBuf,
}

/// The line being read.
struct Here {
    id: Uuid,
    at: i64,
    thread: Uuid,
}

impl Session {
    /// Parses a line. An `Err` is the reason why the line is broken.
    fn read(&mut self, text: &str) -> Result<Vec<Facts<'static>>, String> {
        let Some(line) = json::object::<Line<'_>>(text)? else {
            return Ok(vec![Facts::not_understood("(not an object)")]);
        };
        let kind = json::type_name(line.kind)?;
        let (uuid, session) = (json::owned_text(line.uuid)?, json::text(line.session_id)?);
        let at = json::timestamp(line.timestamp)?;
        let (Some(uuid), Some(session), Some(at)) = (uuid, session, at) else {
            return Ok(vec![Facts::not_understood(kind)]);
        };
        let parent = json::text(line.parent)?;
        let fork = json::member::<Fork<'_>>(line.fork)?.unwrap_or_default();
        let origin = json::text(fork.session_id)?;
        let thread = self.thread(&session, origin.as_deref(), &line)?;
        let here = Here {
            id: foreign_id("qwen-code:line", &uuid),
            at,
            thread,
        };
        let file = origin.map(|origin| self.path.with_file_name(format!("{origin}.jsonl")));
        let is_copy = file.is_some_and(|file| file.is_file());
        let kept = is_copy.then(|| self.thread_of(&here).clone());
        self.thread_of(&here).latest = self.turns.before(parent.as_deref());
        let mut facts = self.line(&here, &kind, &line)?;
        let latest = self.thread_of(&here).latest;
        self.turns.add(uuid, latest);
        if let Some(kept) = kept {
            self.threads.insert(here.thread, kept);
            facts = vec![Facts::repeated()];
        }
        Ok(facts)
    }

    /// The thread of a line: that of its session, or of a sub-agent.
    fn thread(
        &mut self,
        session: &str,
        origin: Option<&str>,
        line: &Line<'_>,
    ) -> Result<Uuid, String> {
        let mut thread = Thread::new(FORMAT, session);
        let agent = json::text(line.agent_id)?.filter(|_| json::is_true(line.is_agent));
        if let Some(agent) = agent {
            let id = named("qwen-code:agent", &format!("{}:{agent}", thread.id));
            thread = thread.agent(id, thread.id);
        } else if let Some(origin) = origin {
            thread.parent = Some(foreign_id("qwen-code:session", origin));
        }
        let id = thread.id;
        let thread = self.threads.entry(id).or_insert(thread);
        thread.cwd = json::owned_text(line.cwd)?.or(thread.cwd.take());
        thread.branch = json::owned_text(line.branch)?.or(thread.branch.take());
        thread.model = json::owned_text(line.model)?.or(thread.model.take());
        Ok(id)
    }

    fn thread_of(&mut self, here: &Here) -> &mut Thread {
        self.threads.entry(here.thread).or_default()
    }

    fn line(
        &mut self,
        here: &Here,
        kind: &str,
        line: &Line<'_>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let message = json::member::<Message<'_>>(line.message)?.unwrap_or_default();
        let parts = Parts::of(message.parts)?;
        Ok(match kind {
            "user" => {
                let subtype = json::text(line.subtype)?.unwrap_or_default();
                let by = json::text(line.provenance)?;
                let mut step = Step::new(here.id, here.at, Role::User);
                step.is_harness = matches!(&*subtype, "notification" | "cron" | "goal_runtime")
                    || by.is_some_and(|by| by != "real_user");
                self.said(here, step, line, parts)?
            }
            "assistant" => {
                let mut step = Step::new(here.id, here.at, Role::Assistant);
                step.tokens = json::member::<Usage<'_>>(line.usage)?.map(tokens_of);
                step.tokens = step.tokens.filter(|tokens| *tokens != Tokens::default());
                step.usage = line
                    .usage
                    .get()
                    .filter(|_| step.tokens.is_some())
                    .map(str::to_owned);
                self.said(here, step, line, parts)?
            }
            "tool_result" => self.results(here, line, parts, true)?,
            "system" => {
                let subtype = json::type_name(line.subtype)?;
                let payload = json::member::<Payload<'_>>(line.payload)?.unwrap_or_default();
                self.event(here, &subtype, &payload)?
            }
            _ => vec![Facts::not_understood(kind)],
        })
    }

    fn step(&mut self, here: &Here, step: Step) -> Result<Facts<'static>, String> {
        self.thread_of(here).facts(FORMAT, step)
    }

    fn said(
        &mut self,
        here: &Here,
        mut step: Step,
        line: &Line<'_>,
        mut parts: Parts,
    ) -> Result<Vec<Facts<'static>>, String> {
        step.texts = std::mem::take(&mut parts.texts);
        step.reasoning = std::mem::take(&mut parts.thoughts);
        step.calls = std::mem::take(&mut parts.calls);
        step.others = std::mem::take(&mut parts.others);
        let is_first = self.thread_of(here).latest.is_none();
        let mut facts = vec![self.step(here, step)?];
        let name =
            json::text(line.agent_name)?.filter(|_| is_first && json::is_true(line.is_agent));
        if let Some(name) = name {
            let of = Of::ConversationRef(here.thread);
            facts.push(Facts {
                headings: Heading::titled(of, Origin::Summary, &name)
                    .into_iter()
                    .collect(),
                ..Facts::default()
            });
        }
        if !parts.results.is_empty() {
            facts.extend(self.results(here, line, parts, false)?);
        }
        Ok(facts)
    }

    /// The results of tool calls. `is_line`: the first one is the line's turn.
    fn results(
        &mut self,
        here: &Here,
        line: &Line<'_>,
        parts: Parts,
        is_line: bool,
    ) -> Result<Vec<Facts<'static>>, String> {
        if parts.results.is_empty() {
            return Ok(vec![Facts::not_understood("tool_result")]);
        }
        let told = json::member::<Outcome<'_>>(line.outcome)?.unwrap_or_default();
        let status = json::text(told.status)?;
        let failed = matches!(status.as_deref(), Some("error" | "cancelled"));
        let display = json::text_or_bytes(told.display)?;
        let mut facts = Vec::new();
        let mut others = Some(parts.others);
        let mut texts = parts.texts;
        for mut outcome in parts.results {
            let is_first = is_line && facts.is_empty();
            let id = if is_first {
                here.id
            } else {
                named(
                    "qwen-code:result",
                    &format!("{}:{}", here.id, outcome.call_id),
                )
            };
            let mut step = Step::new(id, here.at, Role::Tool);
            step.others = others.take().unwrap_or_default();
            for text in texts.drain(..) {
                outcome.text.push_str("\n\n");
                outcome.text.push_str(&text);
            }
            if failed && outcome.error.is_none() {
                let shown = display.as_deref().unwrap_or(&outcome.text);
                outcome.error = Some(shown.to_owned());
            }
            step.result = Some(outcome);
            facts.push(self.step(here, step)?);
        }
        Ok(facts)
    }

    fn event(
        &mut self,
        here: &Here,
        subtype: &str,
        payload: &Payload<'_>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let mut facts = Facts::default();
        match subtype {
            "custom_title" => {
                let title = json::text(payload.title)?.unwrap_or_default();
                let origin = match json::text(payload.source)?.as_deref() {
                    Some("auto") => Origin::Model,
                    _ => Origin::User,
                };
                facts
                    .headings
                    .extend(self.thread_of(here).titled(origin, &title));
            }
            "parent_session" => {
                if let Some(parent) = json::text(payload.parent_session)? {
                    let parent = foreign_id("qwen-code:session", &parent);
                    self.thread_of(here).parent = Some(parent);
                    facts.headings.push(Heading {
                        of: Of::ConversationRef(here.thread),
                        title: None,
                        parent: Some(parent),
                        call: None,
                    });
                }
            }
            "session_model" => {
                let thread = self.thread_of(here);
                thread.model = json::owned_text(payload.model)?.or(thread.model.take());
            }
            // The first text of the new history is the summary. The others are in the log.
            "chat_compression" => {
                let history = json::array(payload.history)?.unwrap_or_default();
                let first = history
                    .first()
                    .map(|first| json::object::<Message<'_>>(first));
                let first = first.transpose()?.flatten().unwrap_or_default();
                let texts = Parts::of(first.parts)?.texts;
                return self.note(here, texts, None);
            }
            "slash_command" => {
                let mut texts: Vec<String> =
                    json::owned_text(payload.command)?.into_iter().collect();
                for item in json::array(payload.items)?.unwrap_or_default() {
                    let item = json::object::<Shown<'_>>(item)?.unwrap_or_default();
                    texts.extend(json::owned_text(item.text)?);
                }
                return self.note(here, texts, None);
            }
            // Responses and calls have their own lines. A failed request has none.
            "ui_telemetry" => {
                let event = json::member::<Event<'_>>(payload.event)?.unwrap_or_default();
                let name = json::text(event.name)?.unwrap_or_default();
                if name.ends_with(".api_error") {
                    let error = json::owned_text(event.error.or(event.error_too))?;
                    let error = error.unwrap_or_else(|| name.into_owned());
                    return self.note(here, Vec::new(), Some(error));
                }
            }
            _ if is_state(subtype) => {}
            _ => facts.count_not_understood(format!("system.{subtype}")),
        }
        Ok(vec![facts])
    }

    /// Texts of the client.
    fn note(
        &mut self,
        here: &Here,
        texts: Vec<String>,
        error: Option<String>,
    ) -> Result<Vec<Facts<'static>>, String> {
        // An error is in place of a response.
        let role = match error {
            Some(_) => Role::Assistant,
            None => Role::System,
        };
        let mut step = Step::new(here.id, here.at, role);
        step.is_harness = true;
        step.texts = texts;
        step.texts.extend(error.clone());
        step.texts.retain(|text| !text.is_empty());
        step.error = error;
        if step.texts.is_empty() {
            return Ok(vec![Facts::default()]);
        }
        Ok(vec![self.step(here, step)?])
    }
}

/// Whether system lines of this kind are the state of the client and no content of the
/// conversation.
fn is_state(subtype: &str) -> bool {
    matches!(
        subtype,
        // What the user attached or wrote is in the message of the user.
        "at_command" | "user_text_elements"
            // Settings of the session.
            | "session_source" | "session_approval_mode" | "session_execution_engine"
            // The states of files and of what came about.
            | "attribution_snapshot" | "file_history_snapshot" | "session_artifact_event"
            | "session_artifact_snapshot" | "session_sources_snapshot"
            // The tree of the lines is in the lines.
            | "rewind" | "branch_checkpoint"
            // The course of goals, of turns and of sub-agents, which have their own lines.
            | "goal_state" | "goal_turn_end" | "turn_result" | "agent_bootstrap" | "agent_retry"
            | "agent_session_ready" | "background_task_completed"
    )
}

/// The prompt includes what was read from the cache. Thoughts are part of the output, unless the
/// total says that they are beside it.
fn tokens_of(usage: Usage<'_>) -> Tokens {
    let number = |raw: Raw<'_>| json::number(raw).unwrap_or(0);
    let [input, output] = [usage.prompt, usage.output].map(number);
    let [thoughts, cached] = [usage.thoughts, usage.cached].map(number);
    let sum = input.saturating_add(output).saturating_add(thoughts);
    let is_beside = thoughts > 0 && number(usage.total) == sum;
    let beside = if is_beside { thoughts } else { 0 };
    Tokens {
        input,
        cache_read: cached,
        output: output.saturating_add(beside),
        reasoning: thoughts,
        ..Tokens::default()
    }
}
