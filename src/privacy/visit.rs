//! Maps the fields of a record to their treatment: texts, payloads, names and keys.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::redact::Numbers;
use super::{Privacy, is_hex, sha256};
use crate::error::{Error, Result};
use crate::record::declare::{Field, FieldVisitor, Fields, Maybe, Place};
use crate::record::{
    Client, ConversationMessage, ERROR_PREFIX, MessageSums, NAME_BYTES_MAX, Record, Role,
    ThoughtRecord, TurnKind, each_type,
};

/// Start of the text that replaces content that is not stored.
const WITHHELD: &str = "[CONTENT:len=";

/// The redaction of one record before it is written.
struct Visit<'a> {
    privacy: &'a Privacy,
    numbers: Numbers,
    /// Set if the visit only checks: whether a change was found.
    found: Option<bool>,
    phase: Phase,
    /// The content of the record was returned by a tool.
    is_of_tool: bool,
    /// The content of the record is derived from its error.
    leaves_said: bool,
    /// A field changed that is covered by the hash of a thought.
    changed_hashed: bool,
}

/// The fields that a pass treats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Names,
    Contents,
}

/// Redacts a record. If `only_checks`, it changes nothing and returns whether the record must
/// change.
pub(super) fn visit(privacy: &Privacy, record: &mut Record, only_checks: bool) -> Result<bool> {
    let mut visit = Visit {
        privacy,
        numbers: Numbers::default(),
        found: only_checks.then_some(false),
        phase: Phase::Names,
        is_of_tool: match record {
            Record::Turn(turn) => turn.kind == TurnKind::Tool,
            Record::Message(message) => message.role == Role::Tool,
            _ => false,
        },
        leaves_said: false,
        changed_hashed: false,
    };
    let visited = visit.record(record);
    visited.map_err(|e| e.with_key(record.kind().stem()))?;
    Ok(visit.found == Some(true))
}

impl Visit<'_> {
    /// Names come before texts, so that searching for a record by a name yields the same number.
    fn record(&mut self, record: &mut Record) -> Result<()> {
        let says_error = matches!(record, Record::Message(message) if says_error(message));
        each_type!(record, it => it.visit(self))?;
        self.phase = Phase::Contents;
        self.leaves_said = says_error && self.privacy.settings.store_content;
        each_type!(record, it => it.visit(self))?;
        match record {
            Record::Message(message) if self.leaves_said => self.error_message(message),
            Record::Thought(thought) => return self.check_thought(thought),
            _ => {}
        }
        Ok(())
    }

    /// A secret at the start of the error must be found in the error, not after the prefix of the
    /// content.
    fn error_message(&mut self, message: &mut ConversationMessage) {
        let error = message.error.as_ref();
        let redacted = error.map(|error| format!("{ERROR_PREFIX}{error}"));
        let redacted = redacted.filter(|redacted| *redacted != message.content);
        self.set(&mut message.content, redacted);
    }

    /// The hash of a thought covers its stored form. If redaction changes the thought, a hash given
    /// by the caller does not match and would break the chain.
    fn check_thought(&self, thought: &ThoughtRecord) -> Result<()> {
        if self.changed_hashed && !thought.hash.is_empty() {
            return Err(Error::invalid(
                "the thought holds what the store's privacy settings do not let it keep, so the hash that was given would not be true of what is stored: leave hash and prev_hash out, or take the secret out first",
            ));
        }
        Ok(())
    }

    /// A placeholder would not be a valid value here.
    fn check_fixed(&self, field: &Field, name: &str) -> Result<()> {
        if self.phase == Phase::Names && self.privacy.scanner.redacted_key(name).is_some() {
            let message = format!("{} holds a secret: give another name", field.name);
            return Err(Error::invalid(message).with_field(field.name));
        }
        Ok(())
    }

    /// Counts by name. If redaction makes two names equal, their counts are added.
    fn names_of(&mut self, counts: &mut BTreeMap<String, u64>) {
        for (mut name, count) in std::mem::take(counts) {
            self.redact_name(&mut name);
            let known = counts.entry(name).or_default();
            *known = known.saturating_add(count);
        }
    }

    /// Replaces a field if there is a new value. Returns whether it changed.
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

    /// Redacts a name, which has a maximum length.
    fn redact_name(&mut self, name: &mut String) {
        let redacted = self.privacy.scanner.redacted(name, &mut self.numbers);
        self.set_name(name, redacted);
    }

    /// A placeholder may be longer than the text it replaces.
    fn set_name(&mut self, name: &mut String, redacted: Option<String>) -> bool {
        let is_short = |redacted: &String| redacted.len() <= NAME_BYTES_MAX;
        let changed = redacted.map(|it| if is_short(&it) { it } else { summary(name) });
        self.set(name, changed)
    }

    /// The text of what was said or done, or of an error.
    fn withhold_or_redact(&mut self, content: &mut String, is_kept: bool) {
        let changed = if is_kept {
            self.privacy.scanner.redacted(content, &mut self.numbers)
        } else {
            withheld(content)
        };
        self.changed_hashed |= self.set(content, changed);
    }

    fn redact_content(&mut self, content: &mut String) {
        self.withhold_or_redact(content, self.privacy.settings.store_content);
    }

    /// The arguments or the outcome of a tool.
    fn redact_of_tool(&mut self, payload: &mut String) {
        let settings = &self.privacy.settings;
        self.withhold_or_redact(payload, settings.store_payloads && settings.store_content);
    }
}

/// Whether the content of a message is the error prefix and the message's error.
fn says_error(message: &ConversationMessage) -> bool {
    let said = message.content.strip_prefix(ERROR_PREFIX);
    said.is_some() && said == message.error.as_deref() && message.role != Role::Tool
}

/// Methods that treat a text of their class in their phase.
macro_rules! texts {
    ($($method:ident: $type:ty, $phase:ident => $treat:expr;)+) => {
        $(fn $method(&mut self, _: &'static Field, value: &mut impl Maybe<$type>) -> Result<()> {
            let treat: fn(&mut Self, &mut $type) = $treat;
            if self.phase == Phase::$phase && let Some(value) = value.given_mut() {
                treat(self, value);
            }
            Ok(())
        })+
    };
}

impl FieldVisitor for Visit<'_> {
    texts! {
        name: String, Names => Visit::redact_name;
        names: Vec<String>, Names => |visit, names| {
            for name in names {
                visit.redact_name(name);
            }
        };
        counts: BTreeMap<String, u64>, Names => Visit::names_of;
        sums: MessageSums, Names => |visit, sums| visit.names_of(&mut sums.errors_by_type);
        label: String, Contents => |visit, text| visit.withhold_or_redact(text, true);
        title: String, Contents => Visit::redact_content;
        content: String, Contents => Visit::redact_content;
        payload: String, Contents => Visit::redact_content;
        arguments: String, Contents => Visit::redact_of_tool;
        output: String, Contents => Visit::redact_of_tool;
        said: String, Contents => |visit, text| {
            if visit.is_of_tool {
                visit.redact_of_tool(text);
            } else if !visit.leaves_said {
                visit.redact_content(text);
            }
        };
        // Metrics, names and other data from a gateway.
        metadata: String, Contents => |visit, metadata| {
            visit.withhold_or_redact(metadata, true);
            if !visit.privacy.settings.store_content {
                let metrics = without_texts(metadata);
                visit.set(metadata, metrics);
            }
        };
    }

    /// Records are looked up by this id, so its replacement is the same in every record.
    fn text_id(&mut self, field: &'static Field, value: &mut impl Maybe<String>) -> Result<()> {
        if self.phase == Phase::Names
            && let Some(id) = value.given_mut()
        {
            let redacted = self.privacy.scanner.redacted_key(id);
            let is_changed = self.set_name(id, redacted);
            // An id in the body, such as the agent's, is not covered by the hash.
            self.changed_hashed |= is_changed && field.place != Place::Body;
        }
        Ok(())
    }

    fn user(&mut self, _: &'static Field, value: &mut impl Maybe<String>) -> Result<()> {
        match value.given_mut() {
            Some(user_id) if self.phase == Phase::Names => self.user_id(user_id),
            _ => Ok(()),
        }
    }

    fn dotted_name(&mut self, field: &'static Field, value: &mut impl Maybe<String>) -> Result<()> {
        let name = value.given_mut();
        name.map_or(Ok(()), |name| self.check_fixed(field, name))
    }

    fn client(&mut self, field: &'static Field, value: &mut impl Maybe<Client>) -> Result<()> {
        let client = value.given_mut();
        client.map_or(Ok(()), |client| self.check_fixed(field, client.as_str()))
    }
}

/// The replacement for content that is not stored; `None` if the text already is one.
fn withheld(content: &str) -> Option<String> {
    let is_withheld = || {
        let rest = content.strip_prefix(WITHHELD)?.strip_suffix(']')?;
        let (len, hash) = rest.split_once(",sha256=")?;
        let is_len = !len.is_empty() && len.len() <= 20 && len.bytes().all(|b| b.is_ascii_digit());
        (is_len && is_hex(hash, 64)).then_some(())
    };
    is_withheld().is_none().then(|| summary(content))
}

/// Names in [`InferenceMetadata`](crate::InferenceMetadata) that are stored even if content is not.
const METADATA_NAMES: [&str; 3] = ["config", "orchestration_mode", "models_used"];

/// Metadata reduced to its numbers and names; all other texts are replaced. `None` if there are
/// none.
fn without_texts(metadata: &str) -> Option<String> {
    fn withhold(value: &mut Value) -> bool {
        match value {
            Value::String(text) => withheld(text).map(|it| *text = it).is_some(),
            Value::Array(values) => values.iter_mut().fold(false, |any, it| withhold(it) | any),
            Value::Object(members) => members
                .values_mut()
                .fold(false, |any, it| withhold(it) | any),
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

/// The length in bytes and the hash of a text.
fn summary(text: &str) -> String {
    format!("{WITHHELD}{},sha256={}]", text.len(), sha256(text))
}
