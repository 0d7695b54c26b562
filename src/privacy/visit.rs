//! Which fields of a record hold what: texts, payloads, names and keys.

use serde_json::{Map, Value};

use super::redact::{Numbers, Redactor};
use super::{Privacy, sha256};
use crate::error::{Error, Result};
use crate::record::{
    CodeEditProposal, Conversation, ConversationMessage, ConversationTurn, ERROR_PREFIX, Event,
    HistoryEntry, InboxStep, InboxTask, MessageSums, NAME_BYTES_MAX, ProposalStep, Record, Role,
    Rollup, ThoughtRecord, ToolCallDone, ToolCallReq, TurnKind,
};

/// What stands for content that is not kept.
const WITHHELD: &str = "[CONTENT:len=";

/// One record on its way to the disk.
pub(super) struct Visit<'a> {
    privacy: &'a Privacy,
    redactor: &'a Redactor,
    numbers: Numbers,
    /// Whether a change was found, where that is all that is asked for.
    found: Option<bool>,
}

impl<'a> Visit<'a> {
    pub(super) fn new(privacy: &'a Privacy, redactor: &'a Redactor) -> Visit<'a> {
        Visit {
            privacy,
            redactor,
            numbers: Numbers::default(),
            found: None,
        }
    }

    /// One that changes nothing: it only finds out whether a record has to be changed.
    pub(super) fn look_only(privacy: &'a Privacy, redactor: &'a Redactor) -> Visit<'a> {
        Visit {
            found: Some(false),
            ..Visit::new(privacy, redactor)
        }
    }

    /// Whether a record has to be changed.
    pub(super) fn has_found(&self) -> bool {
        self.found == Some(true)
    }

    /// Every field is named, so that a new one does not compile until it has its treatment. `_` is
    /// for numbers, times, UUIDs, hashes and words of a fixed list. Names come before texts: who
    /// looks for a record by one finds the same number.
    pub(super) fn record(&mut self, record: &mut Record) -> Result<()> {
        match record {
            Record::Turn(ConversationTurn {
                id: _,
                parent_id: _,
                message_id: _,
                thread_id: _,
                kind,
                created_at: _,
                content,
            }) => {
                if *kind == TurnKind::Tool {
                    self.payload(Some(content));
                } else {
                    self.content(content);
                }
            }
            Record::History(HistoryEntry {
                id: _,
                chat_id: _,
                role: _,
                created_at: _,
                text,
            }) => {
                self.content(text);
            }
            Record::CallRequested(req) => self.request(req),
            Record::CallDone(done) => self.outcome(done),
            Record::Proposal(CodeEditProposal {
                request_id: _,
                created_at: _,
                confidence: _,
                status: _,
                decided_at: _,
                applied_at: _,
                commit_hash,
                diffs_json,
            }) => {
                self.optional_name(commit_hash.as_mut());
                self.content(diffs_json);
            }
            Record::ProposalStep(ProposalStep {
                request_id: _,
                status: _,
                at: _,
                decided_at: _,
                applied_at: _,
                commit_hash,
            }) => self.optional_name(commit_hash.as_mut()),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                self.conversation(conversation)?;
            }
            Record::Message(message) => self.message(message),
            Record::Event(Event {
                id: _,
                parent_id: _,
                event_type,
                created_at: _,
                payload,
            }) => {
                // A placeholder would not be a dotted name.
                if self.redactor.redacted_key(event_type).is_some() {
                    return Err(Error::invalid(
                        "event_type holds a secret: give another name",
                    ));
                }
                self.optional_content(payload.as_mut());
            }
            Record::InboxTask(InboxTask {
                id: _,
                update_id: _,
                chat_id: _,
                text,
                message_date: _,
                created_at: _,
                updated_at: _,
                status: _,
                attempts: _,
                locked_at: _,
                error,
                payload,
            }) => {
                self.optional_content(text.as_mut());
                self.optional_content(error.as_mut());
                self.optional_content(payload.as_mut());
            }
            Record::InboxStep(InboxStep {
                id: _,
                status: _,
                at: _,
                attempt: _,
                error,
            }) => self.optional_content(error.as_mut()),
            Record::Thought(thought) => self.thought(thought)?,
            Record::Rollup(rollup) => self.rollup(rollup),
        }
        Ok(())
    }

    fn request(&mut self, req: &mut ToolCallReq) {
        let ToolCallReq {
            request_id: _,
            call_id,
            parent_id: _,
            vendor,
            tool_name,
            args_sha256: _,
            arguments_json,
            started_at: _,
        } = req;
        self.key(call_id);
        self.name(vendor);
        self.name(tool_name);
        self.payload(arguments_json.as_mut());
    }

    fn outcome(&mut self, done: &mut ToolCallDone) {
        let ToolCallDone {
            request_id: _,
            call_id,
            ended_at: _,
            latency_ms: _,
            outcome_json,
            error_kind,
            error_msg,
            status: _,
        } = done;
        self.key(call_id);
        self.text(error_kind.as_mut());
        self.payload(outcome_json.as_mut());
        self.optional_content(error_msg.as_mut());
    }

    fn conversation(&mut self, conversation: &mut Conversation) -> Result<()> {
        let Conversation {
            id: _,
            workspace,
            project,
            client,
            user_id,
            session_id,
            parent_id: _,
            parent_call_id,
            title,
            status: _,
            created_at: _,
            updated_at: _,
            last_error,
        } = conversation;
        // A placeholder would not be a client's name.
        if self.redactor.redacted_key(client.as_str()).is_some() {
            return Err(
                Error::invalid("client holds a secret: give another name").with_field("client")
            );
        }
        if let Some(user_id) = user_id {
            self.user_id(user_id)?;
        }
        for name in [workspace, project, session_id, parent_call_id] {
            self.optional_name(name.as_mut());
        }
        self.optional_content(title.as_mut());
        self.optional_content(last_error.as_mut());
        Ok(())
    }

    fn message(&mut self, message: &mut ConversationMessage) {
        let ConversationMessage {
            id: _,
            conversation_id: _,
            sequence: _,
            timestamp: _,
            role,
            source: _,
            content_type: _,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            tokens_in: _,
            tokens_out: _,
            tokens_cache_write: _,
            tokens_cache_read: _,
            tokens_reasoning: _,
            latency_ms: _,
            context_utilization: _,
            handoff_steps: _,
            compression_applied: _,
            error_type,
            error,
            tool_name,
            tool_call_id,
            models_in_chain,
            part_of: _,
            content,
            reasoning,
            tool_args,
            tool_result,
            inference_metadata,
        } = message;
        for name in [
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            error_type,
            tool_name,
            tool_call_id,
        ] {
            self.optional_name(name.as_mut());
        }
        for model in models_in_chain.iter_mut().flatten() {
            self.name(model);
        }
        // A secret at the beginning of the error is found there, and not behind the prefix.
        let said = content.strip_prefix(ERROR_PREFIX);
        let is_error = said.is_some() && said == error.as_deref() && *role != Role::Tool;
        self.optional_content(error.as_mut());
        if is_error && self.privacy.settings.store_content {
            let redacted = error.as_ref().map(|error| format!("{ERROR_PREFIX}{error}"));
            let redacted = redacted.filter(|redacted| redacted != content);
            self.set(content, redacted);
        } else if *role == Role::Tool {
            self.payload(Some(content));
        } else {
            self.content(content);
        }
        self.optional_content(reasoning.as_mut());
        self.payload(tool_args.as_mut());
        self.payload(tool_result.as_mut());
        self.metadata(inference_metadata.as_mut());
    }

    fn rollup(&mut self, rollup: &mut Rollup) {
        let Rollup {
            day: _,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            part: _,
            through_seq: _,
            messages: _,
            requests: _,
            tokens_in: _,
            tokens_out: _,
            tokens_cache_write: _,
            tokens_cache_read: _,
            tokens_reasoning: _,
            latency_ms_sum: _,
            latency_count: _,
            latency_sketch: _,
            context_utilization_sum: _,
            context_utilization_count: _,
            compressed: _,
            errors: _,
            errors_by_type,
            conversations: _,
            active_conversations: _,
            others,
            message_hashes: _,
            conversation_hashes: _,
        } = rollup;
        let MessageSums {
            tokens_in: _,
            tokens_out: _,
            tokens_cache_write: _,
            tokens_cache_read: _,
            tokens_reasoning: _,
            latency_ms_sum: _,
            latency_count: _,
            latency_sketch: _,
            context_utilization_sum: _,
            context_utilization_count: _,
            compressed: _,
            errors: _,
            errors_by_type: others,
        } = others;
        for name in [model_used, config_used, orchestration_mode, task_type] {
            self.optional_name(name.as_mut());
        }
        for types in [errors_by_type, others] {
            for (mut name, errors) in std::mem::take(types) {
                self.name(&mut name);
                let known = types.entry(name).or_default();
                *known = known.saturating_add(errors);
            }
        }
    }

    /// The hash of a thought is over what is stored. One that was given is over something else
    /// where that is not what was handed over, and a chain with it would be broken.
    fn thought(&mut self, thought: &mut ThoughtRecord) -> Result<()> {
        let ThoughtRecord {
            id,
            task_id,
            prev_hash: _,
            hash,
            thought_type: _,
            agent_id,
            timestamp: _,
            content,
        } = thought;
        let mut changed = self.key(id);
        changed |= self.key(task_id);
        self.key(agent_id);
        changed |= self.content(content);
        if changed && !hash.is_empty() {
            return Err(Error::invalid(
                "the thought holds what the store's privacy settings do not let it keep, so the hash that was given would not be true of what is stored: leave hash and prev_hash out, or take the secret out first",
            ));
        }
        Ok(())
    }

    /// Sets what a field is to say instead, if that is something else; returns whether it is.
    fn set(&mut self, field: &mut String, changed: Option<String>) -> bool {
        let is_changed = changed.is_some();
        match (&mut self.found, changed) {
            (Some(found), _) => *found |= is_changed,
            (None, Some(changed)) => *field = changed,
            (None, None) => {}
        }
        is_changed
    }

    fn user_id(&mut self, user_id: &mut String) -> Result<()> {
        if let Some(found) = &mut self.found {
            *found |= self.privacy.is_to_be_hashed(user_id);
        } else {
            *user_id = self.privacy.user_id(user_id)?;
        }
        Ok(())
    }

    /// A key: what is found by it must stay so.
    fn key(&mut self, key: &mut String) -> bool {
        let redacted = self.redactor.redacted_key(key);
        self.set_name(key, redacted)
    }

    /// A name of limited length.
    fn name(&mut self, name: &mut String) {
        let redacted = self.redactor.redacted(name, &mut self.numbers);
        self.set_name(name, redacted);
    }

    /// A placeholder may be longer than what it stands for.
    fn set_name(&mut self, name: &mut String, redacted: Option<String>) -> bool {
        let is_short = |redacted: &String| redacted.len() <= NAME_BYTES_MAX;
        let changed = redacted.map(|it| if is_short(&it) { it } else { summary(name) });
        self.set(name, changed)
    }

    fn optional_name(&mut self, name: Option<&mut String>) {
        if let Some(name) = name {
            self.name(name);
        }
    }

    /// What is kept also where contents are not.
    fn text(&mut self, text: Option<&mut String>) {
        if let Some(text) = text {
            let redacted = self.redactor.redacted(text, &mut self.numbers);
            self.set(text, redacted);
        }
    }

    /// Metrics and names, and whatever else a gateway puts beside them.
    fn metadata(&mut self, metadata: Option<&mut String>) {
        let Some(metadata) = metadata else { return };
        let redacted = self.redactor.redacted(metadata, &mut self.numbers);
        self.set(metadata, redacted);
        if !self.privacy.settings.store_content {
            let metrics = without_texts(metadata);
            self.set(metadata, metrics);
        }
    }

    /// What was said, done or went wrong; returns whether it changed.
    fn content(&mut self, content: &mut String) -> bool {
        let changed = if self.privacy.settings.store_content {
            self.redactor.redacted(content, &mut self.numbers)
        } else {
            withheld(content)
        };
        self.set(content, changed)
    }

    fn optional_content(&mut self, content: Option<&mut String>) {
        if let Some(content) = content {
            self.content(content);
        }
    }

    /// The arguments or the outcome of a tool.
    fn payload(&mut self, payload: Option<&mut String>) {
        let Some(payload) = payload else { return };
        if self.privacy.settings.store_payloads {
            self.content(payload);
        } else {
            let withheld = withheld(payload);
            self.set(payload, withheld);
        }
    }
}

/// What stands for content that is not kept; `None` if the text is such a thing itself.
fn withheld(content: &str) -> Option<String> {
    let is_withheld = || {
        let rest = content.strip_prefix(WITHHELD)?.strip_suffix(']')?;
        let (len, hash) = rest.split_once(",sha256=")?;
        let is_len = !len.is_empty() && len.len() <= 20 && len.bytes().all(|b| b.is_ascii_digit());
        let is_hash = super::is_sha256(hash);
        (is_len && is_hash).then_some(())
    };
    is_withheld().is_none().then(|| summary(content))
}

/// Names in [`InferenceMetadata`](crate::InferenceMetadata), which are kept where contents are not.
const METADATA_NAMES: [&str; 3] = ["config", "orchestration_mode", "models_used"];

/// Metadata with its numbers and names; every other text in it is not kept. `None` if there is none.
fn without_texts(metadata: &str) -> Option<String> {
    fn withhold(value: &mut Value) -> bool {
        match value {
            Value::String(text) => {
                let changed = withheld(text);
                let is_changed = changed.is_some();
                if let Some(changed) = changed {
                    *text = changed;
                }
                is_changed
            }
            Value::Array(values) => values.iter_mut().fold(false, |any, it| withhold(it) | any),
            Value::Object(members) => {
                let values = members.values_mut();
                values.fold(false, |any, it| withhold(it) | any)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
    let Ok(mut members) = serde_json::from_str::<Map<String, Value>>(metadata) else {
        return withheld(metadata);
    };
    let others = members
        .iter_mut()
        .filter(|(name, _)| !METADATA_NAMES.contains(&name.as_str()));
    let is_changed = others.fold(false, |any, (_, value)| withhold(value) | any);
    is_changed.then(|| Value::Object(members).to_string())
}

/// The length of a text in bytes and its hash.
fn summary(text: &str) -> String {
    format!("{WITHHELD}{},sha256={}]", text.len(), sha256(text))
}
