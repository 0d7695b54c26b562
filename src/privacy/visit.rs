//! Which fields of a record hold what: texts, payloads, names and keys.

use super::redact::{Numbers, Redactor};
use super::{Privacy, sha256};
use crate::error::{Error, Result};
use crate::record::{NAME_BYTES_MAX, Record, ThoughtRecord};

/// What stands for content that is not kept.
const WITHHELD: &str = "[CONTENT:len=";

/// One record on its way to the disk.
pub(super) struct Visit<'a> {
    privacy: &'a Privacy,
    redactor: &'a Redactor,
    numbers: Numbers,
}

impl<'a> Visit<'a> {
    pub(super) fn new(privacy: &'a Privacy, redactor: &'a Redactor) -> Visit<'a> {
        Visit {
            privacy,
            redactor,
            numbers: Numbers::default(),
        }
    }

    /// Names come before texts: who looks for a record by one finds the same number.
    pub(super) fn record(&mut self, record: &mut Record) -> Result<()> {
        match record {
            Record::Turn(turn) => {
                self.content(&mut turn.content);
            }
            Record::CallRequested(req) => {
                self.key(&mut req.call_id);
                self.name(&mut req.vendor);
                self.name(&mut req.tool_name);
                self.payload(req.arguments_json.as_mut());
            }
            Record::CallDone(done) => {
                self.key(&mut done.call_id);
                self.text(done.error_kind.as_mut());
                self.payload(done.outcome_json.as_mut());
                self.optional_content(done.error_msg.as_mut());
            }
            Record::Proposal(proposal) => {
                self.content(&mut proposal.diffs_json);
            }
            Record::ProposalStep(step) => self.optional_name(step.commit_hash.as_mut()),
            Record::Conversation(conversation) | Record::ConversationUpdated(conversation) => {
                if let Some(user_id) = &mut conversation.user_id {
                    *user_id = self.privacy.user_id(user_id)?;
                }
                self.optional_name(conversation.workspace.as_mut());
                self.optional_name(conversation.project.as_mut());
                self.optional_name(conversation.session_id.as_mut());
                self.optional_content(conversation.last_error.as_mut());
            }
            Record::Message(message) => {
                for name in [
                    &mut message.model_used,
                    &mut message.config_used,
                    &mut message.orchestration_mode,
                    &mut message.task_type,
                    &mut message.error_type,
                    &mut message.tool_name,
                ] {
                    self.optional_name(name.as_mut());
                }
                for model in message.models_in_chain.iter_mut().flatten() {
                    self.name(model);
                }
                self.content(&mut message.content);
                self.payload(message.tool_args.as_mut());
                self.payload(message.tool_result.as_mut());
                self.text(message.inference_metadata.as_mut());
                self.optional_content(message.error.as_mut());
            }
            Record::Event(event) => {
                // A placeholder would not be a dotted name.
                if self.redactor.redacted_key(&event.event_type).is_some() {
                    return Err(Error::invalid(
                        "event_type holds a secret: give another name",
                    ));
                }
                self.optional_content(event.payload.as_mut());
            }
            Record::InboxTask(task) => self.optional_content(task.payload.as_mut()),
            Record::InboxStep(step) => self.optional_content(step.error.as_mut()),
            Record::History(entry) => {
                self.content(&mut entry.content);
            }
            Record::Thought(thought) => self.thought(thought)?,
            Record::Rollup(rollup) => {
                for name in [
                    &mut rollup.model_used,
                    &mut rollup.config_used,
                    &mut rollup.orchestration_mode,
                    &mut rollup.task_type,
                ] {
                    self.optional_name(name.as_mut());
                }
                let others = &mut rollup.others.errors_by_type;
                for types in [&mut rollup.errors_by_type, others] {
                    for (mut name, errors) in std::mem::take(types) {
                        self.name(&mut name);
                        let known = types.entry(name).or_default();
                        *known = known.saturating_add(errors);
                    }
                }
            }
        }
        Ok(())
    }

    /// The hash of a thought is over what is stored. One that was given is over something else
    /// where that is not what was handed over, and a chain with it would be broken.
    fn thought(&mut self, thought: &mut ThoughtRecord) -> Result<()> {
        let mut changed = self.key(&mut thought.id);
        changed |= self.key(&mut thought.task_id);
        self.key(&mut thought.agent_id);
        changed |= self.content(&mut thought.content);
        if changed && !thought.hash.is_empty() {
            return Err(Error::invalid(
                "the thought holds what the store's privacy settings do not let it keep, so the hash that was given would not be true of what is stored: leave hash and prev_hash out, or take the secret out first",
            ));
        }
        Ok(())
    }

    /// A key: what is found by it must stay so.
    fn key(&mut self, key: &mut String) -> bool {
        let redacted = self.redactor.redacted_key(key);
        set_name(key, redacted)
    }

    /// A name of limited length.
    fn name(&mut self, name: &mut String) {
        let redacted = self.redactor.redacted(name, &mut self.numbers);
        set_name(name, redacted);
    }

    fn optional_name(&mut self, name: Option<&mut String>) {
        if let Some(name) = name {
            self.name(name);
        }
    }

    /// What is kept also where contents are not.
    fn text(&mut self, text: Option<&mut String>) {
        if let Some(text) = text
            && let Some(redacted) = self.redactor.redacted(text, &mut self.numbers)
        {
            *text = redacted;
        }
    }

    /// What was said, done or went wrong; returns whether it changed.
    fn content(&mut self, content: &mut String) -> bool {
        let changed = if self.privacy.settings.store_content {
            self.redactor.redacted(content, &mut self.numbers)
        } else {
            withheld(content)
        };
        let is_changed = changed.is_some();
        if let Some(changed) = changed {
            *content = changed;
        }
        is_changed
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
        } else if let Some(withheld) = withheld(payload) {
            *payload = withheld;
        }
    }
}

/// Sets what was redacted, if anything was. A placeholder may be longer than what it stands for.
fn set_name(name: &mut String, redacted: Option<String>) -> bool {
    let is_changed = redacted.is_some();
    if let Some(redacted) = redacted {
        let is_short = redacted.len() <= NAME_BYTES_MAX;
        *name = if is_short { redacted } else { summary(name) };
    }
    is_changed
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

/// The length of a text in bytes and its hash.
fn summary(text: &str) -> String {
    format!("{WITHHELD}{},sha256={}]", text.len(), sha256(text))
}
