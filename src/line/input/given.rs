//! A record's fields as given by a client: by name, with optional fields left out.

use std::borrow::Cow;

use uuid::Uuid;

use super::value::{check, check_bounds, clipped, normal, readable};
use crate::line::Op;
use crate::line::decode::MembersReader;
use crate::record::declare::{Class, Field, Place};
use crate::record::{
    Content, Day, Kind, Record, Role, Source, Timestamp, ToolCallDone, Validity, now, push_quoted,
};

/// The fields of a record by name, each as JSON. Null is the same as leaving the field out.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given<'a> {
    pub(super) members: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Whether it is a whole line, which has its time as `at` and may repeat fields.
    pub(super) is_line: bool,
}

/// The form of the given record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Form {
    pub(crate) kind: Kind,
    /// The allowed ops. The first one is the default.
    pub(crate) ops: &'static [Op],
    pub(crate) op: OpField,
}

/// Whether the client gives the operation, as `op` or `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpField {
    None,
    Optional,
    Required,
}

/// An invalid field, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldFault {
    /// Empty for the record as a whole.
    pub(crate) name: String,
    pub(crate) reason: String,
    /// Whether its value is invalid, and not its presence or absence.
    pub(super) is_of_value: bool,
}

impl FieldFault {
    pub(super) fn new(name: &str, reason: impl Into<String>) -> FieldFault {
        FieldFault {
            name: name.to_owned(),
            reason: reason.into(),
            is_of_value: false,
        }
    }

    fn of_value(name: &str, reason: impl Into<String>) -> FieldFault {
        FieldFault {
            is_of_value: true,
            ..FieldFault::new(name, reason)
        }
    }
}

/// A record that was given.
#[derive(Debug)]
pub(crate) struct GivenRecord {
    pub(crate) record: Record,
    /// Whether its time was given too.
    pub(crate) has_time: bool,
}

impl<'a> Given<'a> {
    /// From a whole line.
    pub(super) fn line(members: impl Iterator<Item = (&'a str, &'a str)>) -> Given<'a> {
        Given {
            members: members
                .map(|(name, json)| (name.into(), json.into()))
                .collect(),
            is_line: true,
        }
    }

    /// The JSON of a field.
    pub(crate) fn json(&self, name: &str) -> Option<&str> {
        let mut found = self.members.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, json)| &**json)
    }

    fn value<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.json(name)?).ok()
    }

    /// Removes a field and returns its JSON.
    pub(crate) fn take(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let place = self.members.iter().position(|(known, _)| known == name)?;
        Some(self.members.swap_remove(place).1)
    }

    /// Sets a field if it is not given.
    pub(crate) fn fill(&mut self, name: &'a str, json: impl FnOnce() -> String) {
        if self.json(name).is_none() {
            self.members.push((name.into(), json().into()));
        }
    }

    /// Sets a string field if it is not given.
    pub(crate) fn fill_text(&mut self, name: &'a str, text: impl FnOnce() -> String) {
        self.fill(name, || {
            let text = text();
            let mut quoted = Vec::with_capacity(text.len() + 2);
            push_quoted(&mut quoted, &text);
            String::from_utf8(quoted).unwrap_or_default()
        });
    }

    /// Reads the record and fills in what was left out. `is_task`: for the inbox, whether it is a
    /// task that is queued for the first time.
    ///
    /// # Errors
    /// All invalid fields.
    pub(crate) fn read(
        mut self,
        form: Form,
        is_task: bool,
    ) -> Result<GivenRecord, Vec<FieldFault>> {
        let kind = form.kind;
        let op = self.take_op(form).map_err(|fault| vec![fault])?;
        if kind == Kind::Inbox && is_task && op != Op::Queued {
            let reason = format!("update_id belongs to op queued, not {}", op.as_str());
            return Err(vec![FieldFault::new("update_id", reason)]);
        }
        let of = kind.type_of(op, !is_task);
        let has_at = self.is_line || of.iter().any(|field| field.class == Class::At);
        // If the record has no `at`, the field is rejected as unknown.
        let given_at = if has_at { self.take("at") } else { None };
        let given_at = given_at.map(|json| {
            let json = normal(Class::OwnMillis, &json).unwrap_or(json);
            serde_json::from_str::<i64>(&json)
                .map_err(|e| vec![FieldFault::of_value("at", readable(&e.to_string()))])
        });
        let given_at = given_at.transpose()?;
        let time_field = time_field(kind, op);
        self.rename_time(kind).map_err(|fault| vec![fault])?;
        let has_time =
            given_at.is_some() || time_field.is_some_and(|name| self.json(name).is_some());
        let mut faults = self.normalize(of, kind, op);
        if kind == Kind::Messages {
            faults.extend(self.normalize_content().err());
        }
        if !faults.is_empty() {
            return Err(self.faults(of, faults));
        }
        if let (Some(at), Some(name)) = (given_at, time_field) {
            self.check_times(at, name).map_err(|fault| vec![fault])?;
        }
        let at = given_at.unwrap_or_else(now);
        self.complete(kind, op, at).map_err(|fault| vec![fault])?;
        let members = self
            .members
            .iter()
            .map(|(name, json)| (&**name, &**json))
            .collect();
        let mut reader = MembersReader::of_given(members, kind, op, at);
        match Record::read(kind, op, is_task, &mut reader) {
            Ok(record) => Ok(GivenRecord { record, has_time }),
            Err(reason) => {
                let mut faults = self.faults(of, Vec::new());
                if faults.is_empty() {
                    faults.push(FieldFault::new("", readable(&reason)));
                }
                Err(faults)
            }
        }
    }

    /// Takes the operation from `op` or `status`.
    fn take_op(&mut self, form: Form) -> Result<Op, FieldFault> {
        let known = || {
            let words: Vec<&str> = form.ops.iter().map(|op| op.as_str()).collect();
            words.join(", ")
        };
        let default = form.ops.first().copied().unwrap_or(Op::Asserted);
        if form.op == OpField::None {
            return Ok(default);
        }
        let (mut name, mut json) = ("op", self.take("op"));
        if !self.is_line
            && let Some(status) = self.take("status")
        {
            if json.is_some() {
                let reason = "status is another name for op: give one of them";
                return Err(FieldFault::new("status", reason));
            }
            (name, json) = ("status", Some(status));
        }
        let Some(json) = json else {
            if form.op == OpField::Optional {
                return Ok(default);
            }
            let name = if self.is_line { "op" } else { "status" };
            let reason = format!("missing, but required: give one of {}", known());
            return Err(FieldFault::new(name, reason));
        };
        let word = json.trim_matches('"');
        let op = form.ops.iter().copied().find(|op| op.as_str() == word);
        op.ok_or_else(|| {
            let reason = format!("unknown {name} {}: give one of {}", clipped(&json), known());
            FieldFault::new(name, reason)
        })
    }

    /// Renames the alternative name of an event's time.
    fn rename_time(&mut self, kind: Kind) -> Result<(), FieldFault> {
        const NAME: &str = "timestamp";
        if kind != Kind::Events || self.json(NAME).is_none() {
            return Ok(());
        }
        if self.json("created_at").is_some() {
            let reason = "timestamp is another name for created_at: give one of them";
            return Err(FieldFault::new(NAME, reason));
        }
        let moment = self.take(NAME).unwrap_or_default();
        let moment = normal(Class::OwnMillis, &moment).unwrap_or(moment);
        check(Class::OwnMillis, None, &moment)
            .map_err(|reason| FieldFault::of_value(NAME, reason))?;
        self.members.push(("created_at".into(), moment));
        Ok(())
    }

    /// Rewrites numbers and times in the form of lines. Reports unknown fields and invalid times.
    fn normalize(&mut self, of: &[Field], kind: Kind, op: Op) -> Vec<FieldFault> {
        let mut faults = Vec::new();
        for (name, json) in &mut self.members {
            let field = of.iter().find(|field| field.name == name);
            let is_given = |field: &&Field| {
                let is_repeated = field.class == Class::Repeated;
                let is_claim = op == Op::InProgress || field.name != "locked_at";
                field.is_of_lines() && (!is_repeated || self.is_line && is_claim)
            };
            match field.filter(is_given) {
                Some(field) => {
                    if let Some(whole) = normal(field.class, json) {
                        *json = whole;
                    }
                    if !self.is_line {
                        let out_of_bounds = check_bounds(field.class, json).err();
                        faults.extend(out_of_bounds.map(|why| FieldFault::of_value(name, why)));
                    }
                }
                None if kind.field(name).is_some() => {
                    let op = op.as_str();
                    let reason = format!("{kind} has no {name} where op is {op}: leave it out");
                    faults.push(FieldFault::new(name, reason));
                }
                None => {
                    let names = of.iter().filter(|field| field.is_of_lines());
                    let names: Vec<&str> = names.map(|field| field.name).collect();
                    let hint = if name == "status" && kind.ops().len() > 2 {
                        "say in op what becomes of the record".to_owned()
                    } else {
                        format!("expected one of {}", names.join(", "))
                    };
                    let reason = format!("unknown field `{}`, {hint}", clipped(name));
                    faults.push(FieldFault::new(clipped(name), reason));
                }
            }
        }
        faults
    }

    /// All invalid or missing fields, including those in `known`.
    fn faults(&self, of: &[Field], known: Vec<FieldFault>) -> Vec<FieldFault> {
        let is_missing = |field: &&Field| field.is_required() && self.json(field.name).is_none();
        let missing = of.iter().filter(is_missing);
        let missing = missing.map(|field| FieldFault::new(field.name, "missing, but required"));
        let is_known = |name: &str| known.iter().any(|fault| fault.name == name);
        let wrong = self.members.iter().filter_map(|(name, json)| {
            if is_known(name) {
                return None;
            }
            let field = of.iter().find(|field| field.name == name)?;
            let reason = check(field.class, field.check_word, json).err()?;
            Some(FieldFault::of_value(name, reason))
        });
        let wrong: Vec<FieldFault> = wrong.collect();
        missing.chain(known).chain(wrong).collect()
    }

    /// A line has its time twice. If both are given they must be equal, because one of them is
    /// dropped.
    fn check_times(&self, at: i64, name: &str) -> Result<(), FieldFault> {
        let validity = self.value::<Validity>(name).map(|validity| validity.at);
        let time = || Some(self.value::<Timestamp>(name)?.at());
        let day = || Some(self.value::<Day>(name)?.bounds_ms().0);
        match validity.or_else(time).or_else(day) {
            Some(given) if at != given => {
                let reason =
                    format!("at is {at} and {name} is {given}: give one of them, or both the same");
                Err(FieldFault::new("", reason))
            }
            _ => Ok(()),
        }
    }

    /// Fills in what was left out. `at` is the record's time.
    fn complete(&mut self, kind: Kind, op: Op, at: i64) -> Result<(), FieldFault> {
        let new_id = || Uuid::new_v4().to_string();
        Day::of(at).map_err(|e| FieldFault::new("at", e.reason()))?;
        let time = || Timestamp::from_ms(at).map_or(String::new(), |time| time.to_string());
        match kind {
            Kind::ConversationTurns => {
                self.fill_text("id", new_id);
                if let Some(id) = self.value::<Uuid>("id") {
                    self.fill_text("message_id", || id.to_string());
                }
            }
            Kind::ToolCalls if matches!(op, Op::Completed | Op::Failed) => {
                self.fill("latency_ms", || ToolCallDone::LATENCY_UNKNOWN.to_string());
            }
            // The hash is computed later, from the arguments.
            Kind::ToolCalls => self.fill_text("args_sha256", String::new),
            Kind::Conversations if op == Op::Created => {
                self.fill_text("id", new_id);
                self.fill_text("created_at", time);
                let created_at = self.json("created_at").unwrap_or_default().to_owned();
                self.fill("updated_at", || created_at);
            }
            Kind::Conversations => self.fill_text("updated_at", time),
            Kind::Messages => {
                self.fill_text("id", new_id);
                if let Some(role) = self.value::<Role>("role") {
                    self.fill_text("source", || Source::of(role).as_str().to_owned());
                }
            }
            Kind::ThoughtRecords => self.fill_text("id", new_id),
            Kind::CodeEditProposals | Kind::Inbox | Kind::Rollups => {}
            _ => self.fill("created_at", || at.to_string()),
        }
        Ok(())
    }

    /// Converts message content that is given as blocks, which may also set other fields.
    fn normalize_content(&mut self) -> Result<(), FieldFault> {
        let Some(blocks) = self.json("content").filter(|json| json.starts_with('[')) else {
            return Ok(());
        };
        let content = Content::from_json(blocks)
            .map_err(|e| FieldFault::of_value("content", readable(&e.to_string())))?;
        self.take("content");
        self.fill_text("content", || content.text);
        if content.is_json {
            self.fill_text("content_type", || "json".to_owned());
        }
        if let Some(reasoning) = content.reasoning {
            self.fill_text("reasoning", || reasoning);
        }
        Ok(())
    }
}

impl Field {
    /// Whether a client must give the field.
    pub(crate) fn is_required(&self) -> bool {
        let is_filled = self.is_optional || self.default.is_some();
        let is_later = self.place == Place::OtherOps;
        self.is_of_lines() && self.class != Class::Repeated && !is_filled && !is_later
    }
}

/// The field that repeats a line's time.
fn time_field(kind: Kind, op: Op) -> Option<&'static str> {
    match (kind, op) {
        (Kind::ToolCalls, Op::Completed | Op::Failed) => Some("ended_at"),
        (Kind::ToolCalls, _) => Some("started_at"),
        (Kind::CodeEditProposals, Op::Approved | Op::Denied) => Some("decided_at"),
        (Kind::CodeEditProposals, Op::Applied) => Some("applied_at"),
        (Kind::Conversations, Op::Updated) => Some("updated_at"),
        (Kind::Messages | Kind::ThoughtRecords, _) => Some("timestamp"),
        (Kind::Inbox, Op::InProgress) => Some("locked_at"),
        (Kind::Rollups, _) => Some("day"),
        (Kind::CodeEditProposals, Op::Reverted) | (Kind::Inbox, Op::Done | Op::Failed) => None,
        _ => Some("created_at"),
    }
}
