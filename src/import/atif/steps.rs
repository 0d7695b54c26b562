//! Documents that other programs wrote.

use std::collections::HashMap;

use serde_json::Value;
use uuid::Uuid;

use super::Items;
use crate::atif::model::{Content, Extra, Metrics, ObservationResult, Step, Trajectory};
use crate::import::facts::{Facts, Others, Tokens};
use crate::import::heading::{Heading, Of};
use crate::import::ids::named;
use crate::import::step::{self, Call, Outcome, Thread};
use crate::record::{Role, Timestamp};

const FORMAT: &str = "atif";

/// The document that a document is in.
pub(super) struct Parent {
    id: Uuid,
    key: String,
    session: Option<String>,
    /// The calls that started agents, by the ids of their documents.
    calls: HashMap<String, String>,
    at: Option<i64>,
}

impl Items<'_, '_, '_> {
    /// Reads the steps of a document and of those in it.
    pub(super) fn steps(
        &mut self,
        document: &Trajectory,
        parent: Option<&Parent>,
    ) -> Result<(), String> {
        let key = key(document, parent);
        let mut thread = Thread::new(FORMAT, &key);
        let inherited = parent.and_then(|parent| parent.session.clone());
        thread.session = document.session_id.clone().or(inherited);
        thread.agent = Some(document.agent.name.clone());
        thread.parent = parent.map(|parent| parent.id);
        thread.model.clone_from(&document.agent.model_name);
        let known = document.steps.iter().find_map(|step| time(step).ok()?);
        let mut reader = Reader {
            call: parent.and_then(|parent| {
                let id = document.trajectory_id.as_ref()?;
                parent.calls.get(id).cloned()
            }),
            at: known.or_else(|| parent.and_then(|parent| parent.at)),
            thread,
            calls: HashMap::new(),
            others: Others::default(),
        };
        for (what, is_there) in [
            ("notes", document.notes.is_some()),
            ("extra", document.extra.is_some()),
            ("agent.extra", document.agent.extra.is_some()),
            (
                "agent.tool_definitions",
                document.agent.tool_definitions.is_some(),
            ),
            (
                "continued_trajectory_ref",
                document.continued_trajectory_ref.is_some(),
            ),
        ] {
            if is_there {
                reader.others.count(what);
            }
        }
        for step in &document.steps {
            let number = self.next();
            let facts = reader.step(step);
            self.take(number, facts);
        }
        let parent = Parent {
            id: reader.thread.id,
            key,
            session: reader.thread.session.clone(),
            calls: reader.calls,
            at: known,
        };
        for agent in document.subagent_trajectories.iter().flatten() {
            self.document(agent, Some(&parent))?;
        }
        Ok(())
    }
}

/// What distinguishes a document. Several may have the same session: those of its agents, and those
/// that continue it.
fn key(document: &Trajectory, parent: Option<&Parent>) -> String {
    let of_parent = parent.map(|parent| format!("{}/", parent.key));
    let of_parent = of_parent.unwrap_or_default();
    match (&document.trajectory_id, &document.session_id) {
        (Some(id), Some(session)) => format!("{of_parent}{session}/{id}"),
        (Some(id), None) => format!("{of_parent}{id}"),
        (None, session) => {
            let is_own = |step: &&Step| step.is_copied_context != Some(true);
            let first = document.steps.iter().find(is_own);
            let said = first.and_then(|step| {
                let message = serde_json::to_string(&step.message).ok()?;
                Some(format!("{:?}:{message}", step.timestamp))
            });
            let first = named("atif:first", &said.unwrap_or_default());
            let session = session.as_deref().unwrap_or_default();
            format!("{of_parent}{session}/{first}")
        }
    }
}

/// Epoch milliseconds.
fn time(step: &Step) -> Result<Option<i64>, String> {
    let Some(text) = &step.timestamp else {
        return Ok(None);
    };
    // Times of Python without an offset are in UTC.
    let time = serde_json::from_value::<Timestamp>(Value::String(text.replacen(' ', "T", 1)));
    let shown: String = text.chars().take(80).collect();
    let time = time.map_err(|_| format!("the timestamp {shown:?} is not an ISO 8601 time"))?;
    Ok(Some(time.at()))
}

struct Reader {
    thread: Thread,
    /// The call that started this agent, until it was reported.
    call: Option<String>,
    /// The time of steps that have none: that of the step before.
    at: Option<i64>,
    calls: HashMap<String, String>,
    /// Types of the document that were not understood, until they were reported.
    others: Others,
}

impl Reader {
    fn step(&mut self, step: &Step) -> Result<Vec<Facts<'static>>, String> {
        if step.is_copied_context == Some(true) {
            return Ok(vec![Facts::repeated()]);
        }
        let at = time(step)?.or(self.at);
        let at = at.ok_or("no step has a timestamp")?;
        self.at = Some(at);
        let role = match step.source.as_str() {
            "agent" => Role::Assistant,
            "user" => Role::User,
            "system" => Role::System,
            other => {
                let other: String = other.chars().take(80).collect();
                return Ok(vec![Facts::not_understood(format!("source.{other}"))]);
            }
        };
        let id = self.thread.key(FORMAT, &step.step_id.to_string());
        let mut own = step::Step::new(id, at, role);
        own.others = std::mem::take(&mut self.others);
        own.texts = texts(&step.message, &mut own.others);
        own.reasoning.extend(step.reasoning_content.clone());
        own.model.clone_from(&step.model_name);
        for call in step.tool_calls.iter().flatten() {
            own.calls.push(Call {
                id: call.tool_call_id.clone(),
                name: call.function_name.clone(),
                args: call.arguments.get().to_owned(),
            });
            count(&mut own.others, "tool_call.extra", &call.extra);
        }
        if let Some(metrics) = &step.metrics {
            own.tokens = tokens(metrics);
            own.cost_usd = metrics.cost_usd;
            own.usage = serde_json::to_string(metrics).ok();
        }
        if step.reasoning_effort.is_some() {
            own.others.count("reasoning_effort");
        }
        count(&mut own.others, "extra", &step.extra);
        let mut facts = vec![self.thread.facts(FORMAT, own)?];
        if let Some(call) = self.call.take() {
            facts[0].headings.push(Heading {
                of: Of::ConversationRef(self.thread.id),
                title: None,
                parent: self.thread.parent,
                call: Some(call),
            });
        }
        let results = step.observation.iter().flat_map(|it| &it.results);
        for (n, result) in results.enumerate() {
            let key = format!("{}:result:{n}", step.step_id);
            facts.extend(self.result(&key, at, result)?);
        }
        Ok(facts)
    }

    fn result(
        &mut self,
        key: &str,
        at: i64,
        result: &ObservationResult,
    ) -> Result<Option<Facts<'static>>, String> {
        for agent in result.subagent_trajectory_ref.iter().flatten() {
            if let (Some(id), Some(call)) = (&agent.trajectory_id, &result.source_call_id) {
                self.calls.insert(id.clone(), call.clone());
            }
            if agent.trajectory_path.is_some() {
                self.others.count("subagent_trajectory_ref.trajectory_path");
            }
        }
        let Some(content) = &result.content else {
            return Ok(None);
        };
        let id = self.thread.key(FORMAT, key);
        let mut own = step::Step::new(id, at, Role::Tool);
        let texts = texts(content, &mut own.others);
        let failed = ["tool_result_is_error", "is_error"].iter().any(|name| {
            let extra = result.extra.as_ref();
            extra.and_then(|extra| extra.get(*name)) == Some(&Value::Bool(true))
        });
        match &result.source_call_id {
            Some(call_id) => {
                let text = texts.join("\n\n");
                own.result = Some(Outcome {
                    call_id: call_id.clone(),
                    error: failed.then(|| text.clone()),
                    text,
                    ..Outcome::default()
                });
            }
            None => own.texts = texts,
        }
        count(&mut own.others, "result.extra", &result.extra);
        self.thread.facts(FORMAT, own).map(Some)
    }
}

fn count(others: &mut Others, what: &str, extra: &Extra) {
    if extra.as_ref().is_some_and(|extra| !extra.is_empty()) {
        others.count(what);
    }
}

fn texts(content: &Content, others: &mut Others) -> Vec<String> {
    match content {
        Content::Text(text) if text.is_empty() => Vec::new(),
        Content::Text(text) => vec![text.clone()],
        Content::Parts(parts) => {
            let mut texts = Vec::new();
            for part in parts {
                match &part.text {
                    Some(text) => texts.push(text.clone()),
                    None => others.count(part.kind.clone()),
                }
            }
            texts
        }
    }
}

/// ATIF has no field for tokens written to the cache and for reasoning. Harbor puts them into
/// `extra`, under the names of the agents.
fn tokens(metrics: &Metrics) -> Option<Tokens> {
    let (input, output) = (metrics.prompt_tokens, metrics.completion_tokens);
    if input.is_none() && output.is_none() {
        return None;
    }
    let other = |names: &[&str]| {
        let extra = metrics.extra.as_ref();
        let mut found = names.iter().filter_map(|name| extra?.get(*name)?.as_u64());
        found.next().unwrap_or(0)
    };
    let input = input.unwrap_or(0);
    let output = output.unwrap_or(0);
    let cache_read = metrics.cached_tokens.unwrap_or(0).min(input);
    let writes = [
        "tokens_cache_write",
        "cache_creation_input_tokens",
        "cache_write_input_tokens",
    ];
    let thoughts = [
        "tokens_reasoning",
        "reasoning_output_tokens",
        "reasoning_tokens",
    ];
    Some(Tokens {
        input,
        cache_write: other(&writes).min(input - cache_read),
        cache_read,
        output,
        reasoning: other(&thoughts).min(output),
        ..Tokens::default()
    })
}
