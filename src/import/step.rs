//! A step of a session in the form that most agents share: one message with its texts, tool calls,
//! result and tokens. An importer fills it in; the facts for the log are derived from it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::facts::{
    ConversationRef, Counted, Facts, Others, Said, Text, Tokens, blank_message, count, fill,
    joined, metadata,
};
use super::heading::{Heading, Of, Origin};
use super::ids::{foreign_id, named};
use crate::collections::of_prompt;
use crate::record::{
    ConversationTurn, Role, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};

/// The error class of a tool call that failed.
pub(crate) const TOOL_ERROR: &str = "tool_error";
/// The error class of a request that failed.
pub(crate) const API_ERROR: &str = "api_error";
/// Minimum length of a call id that is unique without its session.
const RANDOM_ID_BYTES_MIN: usize = 20;

/// A tool call of a step.
#[derive(Debug, Default)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) name: String,
    /// JSON; empty if the call has no arguments.
    pub(crate) args: String,
}

/// The result of a tool call.
#[derive(Debug, Default)]
#[allow(clippy::struct_field_names)] // `outcome` is the name in the record.
pub(crate) struct Outcome {
    pub(crate) call_id: String,
    /// What the model saw.
    pub(crate) text: String,
    /// The outcome of the call's record, as JSON or as text. Default: the text.
    pub(crate) outcome: Option<String>,
    /// The error message of a call that failed.
    pub(crate) error: Option<String>,
    /// Default: the time since the start of the call.
    pub(crate) latency_ms: Option<i64>,
}

/// One message.
#[derive(Debug)]
pub(crate) struct Step {
    /// The same at every import: see [`Thread::key`].
    pub(crate) id: Uuid,
    /// The turn before it. Default: the previous step of the thread.
    pub(crate) parent: Option<Uuid>,
    /// Epoch milliseconds.
    pub(crate) at: i64,
    pub(crate) role: Role,
    pub(crate) texts: Vec<String>,
    pub(crate) reasoning: Vec<String>,
    pub(crate) calls: Vec<Call>,
    pub(crate) result: Option<Outcome>,
    pub(crate) model: Option<String>,
    pub(crate) tokens: Option<Tokens>,
    /// What the agent recorded, in US dollars.
    pub(crate) cost_usd: Option<f64>,
    /// The provider's complete usage object, as JSON.
    pub(crate) usage: Option<String>,
    pub(crate) latency_ms: Option<i64>,
    /// The error of a request that failed.
    pub(crate) error: Option<String>,
    /// The message was written by the client: instructions, a summary, a notice.
    pub(crate) is_harness: bool,
    /// The first step of the response, if it is another one.
    pub(crate) part_of: Option<Uuid>,
    /// The step only reports tokens and is not a turn.
    pub(crate) is_usage: bool,
    /// The id of the response, if other conversations may have copies of it under other ids. It is
    /// counted once.
    pub(crate) response: Option<Uuid>,
    /// Types that were not understood.
    pub(crate) others: Others,
}

impl Step {
    pub(crate) fn new(id: Uuid, at: i64, role: Role) -> Step {
        Step {
            id,
            parent: None,
            at,
            role,
            texts: Vec::new(),
            reasoning: Vec::new(),
            calls: Vec::new(),
            result: None,
            model: None,
            tokens: None,
            cost_usd: None,
            usage: None,
            latency_ms: None,
            error: None,
            is_harness: false,
            part_of: None,
            is_usage: false,
            response: None,
            others: Others::default(),
        }
    }

    fn is_only_reasoning(&self) -> bool {
        !self.reasoning.is_empty() && self.texts.is_empty() && self.calls.is_empty()
    }

    fn turn_kind(&self) -> TurnKind {
        match self.role {
            _ if self.is_harness => TurnKind::SysInfo,
            Role::User => TurnKind::User,
            Role::System => TurnKind::System,
            Role::Tool => TurnKind::Tool,
            Role::Assistant if self.is_only_reasoning() => TurnKind::SysInfo,
            Role::Assistant => TurnKind::Assistant,
        }
    }

    /// The content of the turn, without reasoning.
    fn turn_content(&self) -> String {
        if self.is_only_reasoning() && self.others.is_empty() {
            return "[reasoning]".to_owned();
        }
        let calls = self.calls.iter();
        let calls: Vec<String> = calls
            .map(|it| format!("[tool_use {} {}]", it.name, it.id))
            .collect();
        let texts = self.texts.iter().chain(&calls);
        let texts = texts.chain(self.result.iter().map(|it| &it.text));
        joined(texts.map(String::as_str), &self.others)
    }
}

/// A conversation while its steps are read.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Thread {
    pub(super) id: Uuid,
    /// The agent's own id of the session.
    pub(super) session: Option<String>,
    pub(super) cwd: Option<String>,
    pub(super) branch: Option<String>,
    /// The agent, if the format does not determine it.
    pub(super) agent: Option<String>,
    /// The conversation that started this one.
    pub(super) parent: Option<Uuid>,
    /// The provider of the model.
    pub(super) vendor: Option<String>,
    /// The model of later steps that name none.
    pub(super) model: Option<String>,
    /// The turn of the previous step.
    pub(super) latest: Option<Uuid>,
    has_prompt: bool,
}

/// The id of a tool call's record. `within` is where the call id is unique if it is short.
pub(crate) fn request_id(format: &str, within: Option<Uuid>, call_id: &str) -> Uuid {
    let scope = format!("{format}:call");
    match within.filter(|_| call_id.len() < RANDOM_ID_BYTES_MIN) {
        Some(within) => named(&scope, &format!("{within}:{call_id}")),
        None => named(&scope, call_id),
    }
}

/// The turns of entries each of which names the one before it.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Tree {
    /// The turn of each entry, or the turn before it if the entry is not a turn.
    turns: BTreeMap<String, Option<Uuid>>,
    latest: Option<Uuid>,
}

impl Tree {
    /// The turn of the entry that is named as the one before; the latest one if that entry is not
    /// in the file.
    pub(super) fn before(&self, parent: Option<&str>) -> Option<Uuid> {
        let turn = self.turns.get(parent?);
        turn.copied().unwrap_or(self.latest)
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: String, turn: Option<Uuid>) {
        self.turns.insert(entry, turn);
        self.latest = turn;
    }
}

impl Thread {
    /// The thread of a session. `format` is the name of the format, which scopes all ids.
    pub(super) fn new(format: &str, session: &str) -> Thread {
        Thread {
            id: foreign_id(&format!("{format}:session"), session),
            session: Some(session.to_owned()),
            ..Thread::default()
        }
    }

    /// The thread of a conversation that is known by its id alone.
    #[cfg(feature = "otlp")]
    pub(crate) fn of(id: Uuid, vendor: Option<String>) -> Thread {
        Thread {
            id,
            vendor,
            ..Thread::default()
        }
    }

    /// The thread of a sub-agent of this session.
    pub(super) fn agent(&self, id: Uuid, parent: Uuid) -> Thread {
        Thread {
            id,
            parent: Some(parent),
            latest: None,
            has_prompt: false,
            ..self.clone()
        }
    }

    /// The id of a step: `key` is unique in the session.
    pub(super) fn key(&self, format: &str, key: &str) -> Uuid {
        named(&format!("{format}:step"), &format!("{}:{key}", self.id))
    }

    fn request_id(&self, format: &str, call_id: &str) -> Uuid {
        request_id(format, Some(self.id), call_id)
    }

    fn talk(&self) -> ConversationRef<'static> {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        ConversationRef {
            id: self.id,
            session: owned(&self.session),
            cwd: owned(&self.cwd),
            branch: owned(&self.branch),
            agent: owned(&self.agent),
            parent: self.parent,
        }
    }

    /// A title of the conversation.
    pub(super) fn titled(&self, origin: Origin, title: &str) -> Option<Heading> {
        Heading::titled(Of::ConversationRef(self.id), origin, title)
    }

    /// The facts of a step.
    pub(crate) fn facts(&mut self, format: &str, mut step: Step) -> Result<Facts<'static>, String> {
        let mut facts = Facts::default();
        if !step.is_usage {
            let turn = self.turn(&step);
            if turn.kind == TurnKind::User
                && !self.has_prompt
                && let Some(prompt) = of_prompt(&turn.content)
            {
                self.has_prompt = true;
                facts.headings.extend(self.titled(Origin::Prompt, &prompt));
            }
            facts.turn = Some(turn);
        }
        let response = step.response.unwrap_or(step.id);
        let mut message = blank_message(response, self.id, step.role, step.at)?;
        message.part_of = step.part_of;
        message.reasoning = Some(step.reasoning.join("\n\n")).filter(|text| !text.is_empty());
        if step.role == Role::Assistant {
            message.model_used = step.model.take().or_else(|| self.model.clone());
        }
        message.cost_usd = step.cost_usd;
        message.latency_ms = step.latency_ms;
        message.inference_metadata = step.usage.as_deref().map(metadata);
        if let Some(tokens) = step.tokens {
            count(&mut message, tokens);
        }
        if let Some(error) = step.error.take() {
            message.error = Some(error);
            message.error_type = Some(API_ERROR.to_owned());
        }
        if let Some(outcome) = step.result.take() {
            message.tool_call_id = Some(outcome.call_id.clone());
            message.tool_result = Some(outcome.text.clone());
            message.error_type = outcome.error.is_some().then(|| TOOL_ERROR.to_owned());
            facts.results.push(self.done(format, step.at, outcome));
        }
        let texts = step
            .texts
            .into_iter()
            .map(|text| Text::Words(Cow::Owned(text)));
        let mut texts: Vec<Text<'_>> = texts.collect();
        for call in step.calls {
            let req = self.request(format, (step.id, step.at), call);
            texts.push(Text::Call {
                id: req.call_id.clone(),
                name: req.tool_name.clone(),
                args: req.arguments_json.clone(),
            });
            facts.calls.push(req);
        }
        if texts.is_empty() && message.tool_result.is_none() {
            let others = joined(std::iter::empty(), &step.others);
            texts.push(Text::Words(Cow::Owned(others)));
        }
        fill(&mut message, texts);
        let others = step.others.under(step.role.as_str());
        facts.not_understood.extend(others);
        facts.said = Some(Said {
            talk: self.talk(),
            message,
            counted: Some(Counted {
                response,
                line: (!step.is_usage).then_some(step.id),
            }),
        });
        Ok(facts)
    }

    fn turn(&mut self, step: &Step) -> ConversationTurn {
        let before = self.latest.replace(step.id);
        ConversationTurn {
            id: step.id,
            parent_id: step.parent.or(before),
            message_id: step.part_of.or(step.response).unwrap_or(step.id),
            kind: step.turn_kind(),
            content: step.turn_content(),
            created_at: Validity::at(step.at),
            thread_id: Some(self.id),
        }
    }

    fn request(&self, format: &str, (turn, at): (Uuid, i64), call: Call) -> ToolCallReq {
        let args = if call.args.is_empty() {
            "{}".to_owned()
        } else {
            call.args
        };
        ToolCallReq {
            request_id: self.request_id(format, &call.id),
            call_id: call.id,
            parent_id: turn,
            vendor: self.vendor.clone().unwrap_or_else(|| format.to_owned()),
            tool_name: call.name,
            args_sha256: args_sha256(&args),
            arguments_json: Some(args),
            started_at: Validity::at(at),
        }
    }

    fn done(&self, format: &str, at: i64, outcome: Outcome) -> ToolCallDone {
        let failed = outcome.error.is_some();
        ToolCallDone {
            request_id: self.request_id(format, &outcome.call_id),
            call_id: outcome.call_id,
            ended_at: Validity::at(at),
            latency_ms: outcome.latency_ms.unwrap_or(0),
            outcome_json: outcome.outcome.or(Some(outcome.text)),
            error_kind: failed.then(|| TOOL_ERROR.to_owned()),
            error_msg: outcome.error,
            status: if failed {
                ToolStatus::Failed
            } else {
                ToolStatus::Completed
            },
        }
    }
}
