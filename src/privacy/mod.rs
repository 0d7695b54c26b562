//! What of a record may reach the disk.

mod settings;

pub use settings::{Pattern, PrivacySettings};

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::record::Record;

/// Settings, ready to be applied.
#[derive(Debug)]
pub(crate) struct Privacy {
    settings: PrivacySettings,
}

impl Privacy {
    pub(crate) fn new(settings: PrivacySettings) -> Result<Privacy> {
        for pattern in &settings.patterns {
            if stand_in::prefix(pattern).is_none() {
                let message = format!("pattern {} does not read: mend it", pattern.name);
                return Err(Error::invalid(message));
            }
        }
        Ok(Privacy { settings })
    }

    /// The same, with the key for users' ids in this file.
    pub(crate) fn with_key_at(self, _path: Option<PathBuf>) -> Privacy {
        self
    }

    /// What may be kept of a record that was checked.
    pub(crate) fn apply(&self, mut record: Record) -> Result<Record> {
        for pattern in &self.settings.patterns {
            for text in stand_in::texts(&mut record) {
                stand_in::redact(pattern, text);
            }
        }
        Ok(record)
    }

    /// A user's id as it stands in the log.
    #[allow(clippy::unused_self)]
    pub(crate) fn user_id(&self, id: &str) -> Result<String> {
        Ok(id.to_owned())
    }
}

/// Stands in for the engine: texts of one's own patterns, where these are a prefix and digits.
mod stand_in {
    use super::Pattern;
    use crate::record::Record;

    pub(super) fn prefix(pattern: &Pattern) -> Option<&str> {
        pattern.regex.strip_suffix("[0-9]+")
    }

    pub(super) fn redact(pattern: &Pattern, text: &mut String) {
        let Some(prefix) = prefix(pattern) else {
            return;
        };
        let mut found: Vec<String> = Vec::new();
        while let Some((before, rest)) = text.split_once(prefix) {
            let digits = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            let secret = &rest[..rest.len() - digits.len()];
            let known = found.iter().position(|known| known == secret);
            let number = known.unwrap_or_else(|| {
                found.push(secret.to_owned());
                found.len() - 1
            });
            let name = &pattern.name;
            *text = format!("{before}[REDACTED:{name}:{}]{digits}", number + 1);
        }
    }

    pub(super) fn texts(record: &mut Record) -> Vec<&mut String> {
        let mut texts = Vec::new();
        match record {
            Record::Rollup(_) => {}
            Record::Turn(turn) => texts.push(&mut turn.content),
            Record::CallRequested(req) => texts.extend(&mut req.arguments_json),
            Record::CallDone(done) => {
                texts.extend(&mut done.outcome_json);
                texts.extend(&mut done.error_msg);
            }
            Record::Proposal(proposal) => texts.push(&mut proposal.diffs_json),
            Record::ProposalStep(step) => texts.extend(&mut step.commit_hash),
            Record::Conversation(it) | Record::ConversationUpdated(it) => {
                texts.extend(&mut it.project);
                texts.extend(&mut it.last_error);
            }
            Record::Message(message) => {
                texts.push(&mut message.content);
                texts.extend(&mut message.tool_args);
                texts.extend(&mut message.tool_result);
                texts.extend(&mut message.error);
            }
            Record::Event(event) => texts.extend(&mut event.payload),
            Record::InboxTask(task) => texts.extend(&mut task.payload),
            Record::InboxStep(step) => texts.extend(&mut step.error),
            Record::History(entry) => texts.push(&mut entry.content),
            Record::Thought(thought) => texts.push(&mut thought.content),
        }
        texts
    }
}
