//! What each kind of event becomes.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_128;

use super::shape::{Attachment, Context, Data, Outcome as Answer, Request};
use super::{FORMAT, Here, Session};
use crate::import::facts::{Facts, Tokens};
use crate::import::heading::Origin;
use crate::import::ids::{foreign_id, named};
use crate::import::json::{self, Raw};
use crate::import::step::{Call, Outcome, Step, Thread};
use crate::record::Role;

/// The start of a text that the client adds when a skill is used.
const SKILL_TEXT: &str = "<skill-context";

impl Session {
    pub(super) fn event(
        &mut self,
        here: Here,
        kind: &str,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let note = |text| note(here, text);
        Ok(match kind {
            "session.start" => self.begin(here.at, data)?,
            "session.resume" => {
                if !json::is_true(data.was_active) {
                    self.meter.restart();
                }
                self.settings(data.context, data.selected_model)?;
                vec![Facts::default()]
            }
            "session.context_changed" => {
                self.moved(data.cwd, data.branch)?;
                vec![Facts::default()]
            }
            "session.model_change" => {
                let thread = self.thread(agent);
                thread.model = json::owned_text(data.new_model)?.or(thread.model.take());
                vec![Facts::default()]
            }
            "session.title_changed" => {
                let title = json::text(data.title)?.unwrap_or_default();
                vec![self.titled(Origin::Model, &title)]
            }
            "user.message" => self.prompt(here, data, agent)?,
            "assistant.message" => self.answer(here, data, agent)?,
            "assistant.reasoning" => self.reasoning(here, data, agent)?,
            "tool.execution_start" | "tool.user_requested" => self.call(here, data, agent)?,
            "tool.execution_complete" => self.result(here, data, agent)?,
            "subagent.started" => {
                let Some(call) = json::text(data.call_id)? else {
                    return Ok(vec![Facts::not_understood(kind)]);
                };
                let title = json::text(data.agent_title.or(data.agent_name))?;
                vec![self.started(agent, &call, &title.unwrap_or_default())]
            }
            "subagent.failed" => {
                let call = json::text(data.call_id)?;
                match note(json::owned_text(data.error)?) {
                    Some(step) => self.step(call.as_deref().or(agent), step)?,
                    None => vec![Facts::not_understood(kind)],
                }
            }
            "session.shutdown" => self.shutdown(here, data)?,
            _ if is_state(kind) => vec![Facts::default()],
            _ => self.words(here, kind, data, agent)?,
        })
    }

    /// Texts of the client: notices, errors, the summary before a new context, a skill.
    fn words(
        &mut self,
        here: Here,
        kind: &str,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let is_known = matches!(
            kind,
            "session.info"
                | "session.warning"
                | "session.error"
                | "session.handoff"
                | "session.compaction_complete"
                | "session.task_complete"
                | "skill.invoked"
                | "system.message"
                | "system.notification"
                | "abort"
        );
        if !is_known {
            return Ok(vec![Facts::not_understood(kind)]);
        }
        let text = data.summary_content.or(data.content).or(data.summary);
        let text = text.or(data.message).or(data.error).or(data.reason);
        let text = json::text_or_bytes(text)?.map(Cow::into_owned);
        // Without a text it only marks a moment.
        let Some(mut step) = note(here, text) else {
            return Ok(vec![Facts::default()]);
        };
        step.is_harness = kind != "system.message";
        // It is in place of a response.
        if kind == "session.error" {
            step.role = Role::Assistant;
            step.error = step.texts.first().cloned();
        }
        self.step(agent, step)
    }

    fn begin(&mut self, at: i64, data: &Data<'_>) -> Result<Vec<Facts<'static>>, String> {
        if let Some(id) = json::text(data.session_id)? {
            self.thread = Thread::new(FORMAT, &id);
        }
        let began_at = json::timestamp(data.start_time).ok().flatten();
        self.meter.began_at = Some(began_at.unwrap_or(at));
        let spawner = json::text(data.spawner)?;
        let spawner = spawner.map(|id| foreign_id("copilot-cli:session", &id));
        self.thread.parent = spawner;
        self.settings(data.context, data.selected_model)?;
        Ok(vec![Facts::default()])
    }

    fn settings(&mut self, context: Raw<'_>, model: Raw<'_>) -> Result<(), String> {
        let context = json::member::<Context<'_>>(context)?.unwrap_or_default();
        self.moved(context.cwd, context.branch)?;
        let model = json::owned_text(model.or(context.model))?;
        self.thread.model = model.or(self.thread.model.take());
        Ok(())
    }

    fn moved(&mut self, cwd: Raw<'_>, branch: Raw<'_>) -> Result<(), String> {
        let thread = &mut self.thread;
        thread.cwd = json::owned_text(cwd)?.or(thread.cwd.take());
        thread.branch = json::owned_text(branch)?.or(thread.branch.take());
        Ok(())
    }

    fn prompt(
        &mut self,
        here: Here,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let text = json::owned_text(data.content)?.unwrap_or_default();
        let source = json::text(data.source)?.unwrap_or_default();
        let mut step = Step::new(here.id, here.at, Role::User);
        step.is_harness = source.starts_with("skill-") || text.starts_with(SKILL_TEXT);
        for attachment in json::array(data.attachments)?.unwrap_or_default() {
            let attachment = json::object::<Attachment<'_>>(attachment)?.unwrap_or_default();
            step.others
                .count(format!("attachment.{}", json::type_name(attachment.kind)?));
        }
        step.texts.push(text);
        self.step(agent, step)
    }

    fn answer(
        &mut self,
        here: Here,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let mut step = Step::new(here.id, here.at, Role::Assistant);
        let content = json::owned_text(data.content)?;
        step.texts.extend(content.filter(|text| !text.is_empty()));
        let reasoning = json::owned_text(data.reasoning)?.filter(|text| !text.is_empty());
        if let Some(text) = reasoning
            && self.is_new_reasoning(&text)
        {
            step.reasoning.push(text);
        }
        for request in json::array(data.requests)?.unwrap_or_default() {
            let request = json::object::<Request<'_>>(request)?.unwrap_or_default();
            let id = json::owned_text(request.id)?;
            let name = json::owned_text(request.name.or(request.name_too))?;
            match (id, name) {
                (Some(id), Some(name)) => {
                    let call = self.asked(agent, id, name, request.arguments)?;
                    step.calls.push(call);
                }
                _ => step.others.count("toolRequest"),
            }
        }
        step.model = json::owned_text(data.model)?.or_else(|| self.thread(agent).model.clone());
        let output = json::number(data.output_tokens).unwrap_or(0);
        // A response that is split into several messages has the same call id in each.
        let response = match json::owned_text(data.api_call_id.or(data.message_id))? {
            Some(response) => response,
            None => here.id.to_string(),
        };
        let told = self.responses.entry(response).or_insert((here.id, 0));
        let more = output.saturating_sub(told.1);
        told.1 = told.1.max(output);
        let first = told.0;
        self.response = Some(first);
        step.part_of = Some(first).filter(|first| *first != here.id);
        if more > 0 {
            step.tokens = Some(Tokens {
                output: more,
                ..Tokens::default()
            });
        }
        self.meter.add(step.model.as_deref(), (first, agent), more);
        self.step(agent, step)
    }

    fn is_new_reasoning(&mut self, text: &str) -> bool {
        let hash = Some(xxh3_128(text.as_bytes()));
        std::mem::replace(&mut self.reasoning, hash) != hash
    }

    fn reasoning(
        &mut self,
        here: Here,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let text = json::owned_text(data.content)?.filter(|text| !text.is_empty());
        let Some(text) = text.filter(|text| self.is_new_reasoning(text)) else {
            return Ok(vec![Facts::default()]);
        };
        let mut step = Step::new(here.id, here.at, Role::Assistant);
        step.reasoning.push(text);
        // It is no response of its own. The client writes it after the message, in most versions.
        let before = || named("copilot-cli:response", &here.id.to_string());
        step.part_of = Some(self.response.unwrap_or_else(before));
        self.step(agent, step)
    }

    /// Remembers a call.
    fn asked(
        &mut self,
        agent: Option<&str>,
        id: String,
        name: String,
        arguments: Raw<'_>,
    ) -> Result<Call, String> {
        self.calls.insert(id.clone(), agent.map(str::to_owned));
        let args = json::text_or_bytes(arguments)?.unwrap_or_default();
        Ok(Call {
            id,
            name,
            args: args.into_owned(),
        })
    }

    /// The start of a call, which its message has asked for, if the model did.
    fn call(
        &mut self,
        here: Here,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let (Some(id), name) = (
            json::owned_text(data.call_id)?,
            json::owned_text(data.tool)?,
        ) else {
            return Ok(vec![Facts::not_understood("tool.execution_start")]);
        };
        if self.calls.contains_key(&id) {
            return Ok(vec![Facts::default()]);
        }
        let Some(name) = name else {
            return Ok(vec![Facts::not_understood("tool.execution_start")]);
        };
        let mut step = Step::new(here.id, here.at, Role::User);
        step.is_harness = true;
        step.calls
            .push(self.asked(agent, id, name, data.arguments)?);
        self.step(agent, step)
    }

    fn result(
        &mut self,
        here: Here,
        data: &Data<'_>,
        agent: Option<&str>,
    ) -> Result<Vec<Facts<'static>>, String> {
        let Some(call_id) = json::owned_text(data.call_id)? else {
            return Ok(vec![Facts::not_understood("tool.execution_complete")]);
        };
        let words = |raw: Raw<'_>| -> Result<String, String> {
            let answer = json::member::<Answer<'_>>(raw)?.unwrap_or_default();
            let text = answer.content.or(answer.message).or(raw);
            Ok(json::text_or_bytes(text)?.unwrap_or_default().into_owned())
        };
        let failed = data.success.get() == Some("false");
        let text = words(data.result)?;
        let error = words(data.error)?;
        let error = match failed {
            true if error.is_empty() => Some(text.clone()),
            true => Some(error),
            false => None,
        };
        let text = match &error {
            Some(error) if text.is_empty() => error.clone(),
            _ => text,
        };
        let outcome = data.result.get().filter(|raw| raw.starts_with(['{', '[']));
        let mut step = Step::new(here.id, here.at, Role::Tool);
        step.result = Some(Outcome {
            call_id,
            text,
            outcome: outcome.map(str::to_owned),
            error,
            latency_ms: None,
        });
        self.step(agent, step)
    }

    /// The client ended: the tokens that the messages did not state.
    fn shutdown(&mut self, here: Here, data: &Data<'_>) -> Result<Vec<Facts<'static>>, String> {
        let mut facts = vec![Facts::default()];
        for used in self.meter.end(data)? {
            let id = named("copilot-cli:usage", &format!("{}:{}", here.id, used.model));
            let mut step = Step::new(id, here.at, Role::Assistant);
            step.is_usage = true;
            step.model = Some(used.model);
            step.tokens = Some(used.tokens);
            step.usage = Some(used.usage);
            step.part_of = used.response;
            step.cost_usd = used.cost_usd;
            facts.extend(self.step(used.agent.as_deref(), step)?);
        }
        Ok(facts)
    }
}

/// A text of the client.
fn note(here: Here, text: Option<String>) -> Option<Step> {
    let text = text.filter(|text| !text.is_empty())?;
    let mut step = Step::new(here.id, here.at, Role::System);
    step.is_harness = true;
    step.texts.push(text);
    Some(step)
}

/// Whether events of this kind are the state of the client and no content of the conversation.
fn is_state(kind: &str) -> bool {
    matches!(
        kind,
        // The limits of the answers, which have their own events.
        "assistant.turn_start" | "assistant.turn_end" | "session.compaction_start"
            // Counts. Their totals are in `session.shutdown`.
            | "session.usage_checkpoint" | "session.truncation" | "subagent.completed"
            // Choices of the user.
            | "session.mode_changed" | "session.permissions_changed" | "permission.requested"
            | "permission.completed" | "session.session_limits_changed" | "subagent.selected"
            | "subagent.deselected" | "session.auto_mode_resolved"
            // Where the calls of tools and hooks are, and what is shown.
            | "hook.start" | "hook.end" | "external_tool.requested" | "external_tool.completed"
            | "tool_search.activated" | "session.remote_steerable_changed"
            | "session.schedule_created" | "session.schedule_cancelled"
            | "session.schedule_rearmed" | "session.autopilot_objective_changed"
            | "session.plan_changed" | "session.workspace_file_changed"
            | "session.context_cleared" | "session.canvas.recorded" | "session.canvas.removed"
    )
}
