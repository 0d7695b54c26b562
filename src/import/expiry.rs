//! Computes what retention would remove of an import, before anything is written.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

use serde::Serialize;
use uuid::Uuid;

use super::batch::Log;
use crate::collections::{Ack, AckStatus, RECORD_BYTES};
use crate::error::{Error, Result};
use crate::line::text_len;
use crate::record::{
    ConversationMessage, ConversationTurn, Day, Kind, Record, Role, ToolCall, now,
};
use crate::retention::Cutoffs;
use crate::store::{Keep, Reads, RemovalReason, Settings, Snapshot, Store, Tombstones};

/// What an import does if the store's retention would remove some of the imported data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expired {
    /// Stop before anything is written, with an error that lists what would be removed.
    #[default]
    Refuse,
    /// Change the store's settings first, so that imported data is kept forever.
    Keep,
    /// Import everything. Retention removes what has expired; reports still count it.
    Expire,
}

/// A part of an import that retention would remove; from
/// [`Importer::expiring`](super::Importer::expiring).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Expiring {
    /// The kind of record; `conversations` stands for conversations and their messages.
    pub kind: Kind,
    /// Reason for the removal: age or size.
    pub reason: RemovalReason,
    /// Number of conversations.
    pub conversations: u64,
    /// Number of records that the store does not have: messages, turns, or requests and outcomes of
    /// tool calls. For removal by size, all of them.
    pub records: u64,
    /// For removal by age, the first day that is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Day>,
    /// The setting that causes the removal.
    pub setting: &'static str,
    /// The value of the setting: days or bytes.
    pub value: u64,
}

impl fmt::Display for Expiring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (records, setting, value) = (self.records, self.setting, self.value);
        let conversations = count(self.conversations, "conversation");
        let Some(before) = self.before else {
            let records = count(records, "record");
            return write!(
                f,
                "the oldest of {records} of {conversations} ({setting} is {value} bytes)"
            );
        };
        let what = match self.kind {
            Kind::Conversations => format!("{conversations} with {}", count(records, "message")),
            Kind::ToolCalls => format!("{} of tool calls", count(records, "record")),
            _ => count(records, "turn"),
        };
        write!(f, "{what} before {before} ({setting} is {value} days)")
    }
}

/// The error of a refused import.
pub(super) fn refused(expiring: &[Expiring]) -> Error {
    let what: Vec<String> = expiring.iter().map(Expiring::to_string).collect();
    Error::invalid(format!(
        "retention would remove {}: nothing was imported; choose to keep it or to let it expire",
        what.join("; ")
    ))
}

/// A log that only records what retention would do with the records passed to it. It writes
/// nothing.
pub(super) struct Survey<'a> {
    store: &'a Store,
    found: RefCell<Found>,
}

/// The records that the store does not have.
#[derive(Default)]
struct Found {
    conversations: HashMap<Uuid, Conversation>,
    turns: BTreeMap<Day, u64>,
    /// The latest time and the number of new records of each call.
    calls: HashMap<(Uuid, String), (i64, u64)>,
    records: u64,
    bytes: u64,
}

impl Found {
    /// The removal by size, if the log would exceed its maximum size.
    fn over_size(&self, store: &Store, max_bytes: u64) -> Result<Option<Expiring>> {
        if self.records == 0 {
            return Ok(None);
        }
        let known = store.inner().capped_bytes()?;
        if known.values().sum::<u64>() + self.bytes <= max_bytes {
            return Ok(None);
        }
        let is_new =
            |conversation: &&Conversation| conversation.is_new || conversation.messages > 0;
        Ok(Some(Expiring {
            kind: Kind::Conversations,
            reason: RemovalReason::Size,
            conversations: self.conversations.values().filter(is_new).count() as u64,
            records: self.records,
            before: None,
            setting: "retention.max_bytes",
            value: max_bytes,
        }))
    }
}

/// A conversation, summarized over all of its messages.
struct Conversation {
    latest: i64,
    is_error: bool,
    is_new: bool,
    messages: u64,
}

impl Log for Survey<'_> {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        let are_known = |view: &Snapshot<'_>| {
            let known = records.iter().map(|record| is_known(view, record));
            Ok(known.collect::<Vec<bool>>())
        };
        let known = self.store.inner().with_snapshot(are_known)?;
        let mut found = self.found.borrow_mut();
        for (record, is_known) in records.iter().zip(known) {
            found.add(record, is_known);
        }
        let taken = |_| {
            Ok(Ack {
                seq: 0,
                status: AckStatus::Unchanged,
                assigned: None,
                warning: None,
            })
        };
        Ok(records.into_iter().map(taken).collect())
    }

    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        Log::get_tool_call(self.store, request_id, call_id)
    }

    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        Log::get_message(self.store, id)
    }

    fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        Log::get_turn(self.store, id)
    }

    fn tombstones(&self) -> Result<Tombstones> {
        Log::tombstones(self.store)
    }
}

/// Whether the store has a record with this key.
fn is_known(view: &Snapshot<'_>, record: &Record) -> bool {
    let (id, call_id) = match record {
        Record::Turn(turn) => (turn.id, ""),
        Record::CallRequested(req) => (req.request_id, &*req.call_id),
        Record::CallDone(done) => (done.request_id, &*done.call_id),
        Record::Conversation(conversation) => (conversation.id, ""),
        Record::Message(message) => (message.id, ""),
        _ => return false,
    };
    let found = view.find(record.kind(), [&id.to_string(), call_id]);
    found.is_some_and(|(_, row)| match record {
        Record::CallDone(_) => row.done.is_some(),
        _ => row.asserted.is_some(),
    })
}

impl Found {
    fn add(&mut self, record: &Record, is_known: bool) {
        let new = u64::from(!is_known);
        self.records += new;
        if !is_known {
            self.bytes += (RECORD_BYTES + text_len(record)) as u64;
        }
        match record {
            Record::Conversation(conversation) => {
                let conversation = self.conversation(conversation.id, conversation.created_at.at());
                conversation.is_new |= !is_known;
            }
            Record::Message(message) => {
                let conversation =
                    self.conversation(message.conversation_id, message.timestamp.at());
                conversation.messages += new;
                if message.error.is_some() {
                    conversation.is_error = true;
                } else if message.role == Role::Assistant {
                    conversation.is_error = false;
                }
            }
            Record::Turn(turn) if !is_known => {
                if let Ok(day) = Day::of(turn.created_at.at) {
                    *self.turns.entry(day).or_default() += 1;
                }
            }
            Record::CallRequested(req) => {
                self.call(req.request_id, &req.call_id, req.started_at.at, new);
            }
            Record::CallDone(done) => {
                self.call(done.request_id, &done.call_id, done.ended_at.at, new);
            }
            _ => {}
        }
    }

    fn conversation(&mut self, id: Uuid, at: i64) -> &mut Conversation {
        let conversation = self.conversations.entry(id).or_insert(Conversation {
            latest: at,
            is_error: false,
            is_new: false,
            messages: 0,
        });
        conversation.latest = conversation.latest.max(at);
        conversation
    }

    fn call(&mut self, request_id: Uuid, call_id: &str, at: i64, new: u64) {
        let key = (request_id, call_id.to_owned());
        let (latest, records) = self.calls.entry(key).or_insert((at, 0));
        *latest = at.max(*latest);
        *records += new;
    }
}

impl<'a> Survey<'a> {
    pub(super) fn new(store: &'a Store) -> Survey<'a> {
        Survey {
            store,
            found: RefCell::default(),
        }
    }

    /// What retention would now remove of the recorded data.
    pub(super) fn expiring(self, settings: &Settings) -> Result<Vec<Expiring>> {
        let Settings {
            privacy, retention, ..
        } = settings;
        let cutoffs = Cutoffs::at(now(), retention, privacy);
        let found = self.found.into_inner();
        let is_before = |at: i64, first: Option<Day>| {
            let day = Day::of(at).ok();
            first.is_some_and(|first| day.is_some_and(|day| day < first))
        };
        let mut expiring = Vec::new();
        let mut add = |kind, (keep, setting): (Keep, _), before, (conversations, records)| {
            if let Keep::Days(days) = keep
                && conversations + records > 0
            {
                expiring.push(Expiring {
                    kind,
                    reason: RemovalReason::Retention,
                    conversations,
                    records,
                    before,
                    setting,
                    value: days.into(),
                });
            }
        };
        // A conversation with later messages in the log expires later.
        let latest = self.store.inner().with_snapshot(|view| {
            let of = |(id, conversation): (&Uuid, &Conversation)| {
                let key = view.hasher().key([&id.to_string(), ""]);
                let known = view.index().conversation_totals().get(key);
                (
                    *id,
                    known.map_or(conversation.latest, |known| {
                        known.latest.max(conversation.latest)
                    }),
                )
            };
            Ok(found
                .conversations
                .iter()
                .map(of)
                .collect::<HashMap<Uuid, i64>>())
        })?;
        for is_error in [false, true] {
            let before = cutoffs.of_conversation(is_error);
            let conversations = found.conversations.iter().filter(|(id, conversation)| {
                let latest = latest.get(id).copied().unwrap_or(conversation.latest);
                conversation.is_error == is_error
                    && (conversation.is_new || conversation.messages > 0)
                    && is_before(latest, before)
            });
            let sums = conversations.fold((0, 0), |sum, (_, conversation)| {
                (sum.0 + 1, sum.1 + conversation.messages)
            });
            let keep = if is_error {
                (retention.keep_errors(privacy), "retention.errors")
            } else {
                retention.keep_by(Kind::Messages, privacy)
            };
            add(Kind::Conversations, keep, before, sums);
        }
        let before = cutoffs.last(Kind::ConversationTurns);
        let turns = found.turns.iter().filter(|(day, _)| Some(**day) < before);
        let turns = turns.map(|(_, turns)| turns).sum();
        let keep = retention.keep_by(Kind::ConversationTurns, privacy);
        add(Kind::ConversationTurns, keep, before, (0, turns));
        let before = cutoffs.last(Kind::ToolCalls);
        let calls = found.calls.values();
        let calls = calls.filter(|(latest, _)| is_before(*latest, before));
        let calls = calls.map(|(_, records)| records).sum();
        let keep = retention.keep_by(Kind::ToolCalls, privacy);
        add(Kind::ToolCalls, keep, before, (0, calls));
        if let Some(max_bytes) = retention.max_bytes {
            expiring.extend(found.over_size(self.store, max_bytes)?);
        }
        Ok(expiring)
    }
}
