//! A log in memory that follows the rules relevant to an import.

use std::cell::RefCell;
use std::collections::BTreeMap;

use uuid::Uuid;

use crate::collections::{Ack, AckStatus};
use crate::error::{Error, ErrorKind, Result};
use crate::import::batch::Log;
use crate::record::{
    Conversation, ConversationMessage, ConversationTurn, Record, Role, ToolCall, ToolStatus,
};

#[derive(Default)]
pub(super) struct MemoryLog {
    held: RefCell<Held>,
    /// If set, every operation fails with this error.
    pub(super) fault: RefCell<Option<ErrorKind>>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Content {
    turns: BTreeMap<Uuid, ConversationTurn>,
    calls: BTreeMap<(Uuid, String), ToolCall>,
    conversations: BTreeMap<Uuid, Conversation>,
    talks: BTreeMap<Uuid, Vec<ConversationMessage>>,
}

#[derive(Default)]
struct Held {
    turns: Vec<ConversationTurn>,
    calls: BTreeMap<(Uuid, String), ToolCall>,
    conversations: Vec<Conversation>,
    messages: Vec<ConversationMessage>,
    batches: Vec<usize>,
}

impl MemoryLog {
    pub(super) fn turns(&self) -> Vec<ConversationTurn> {
        self.held.borrow().turns.clone()
    }

    pub(super) fn conversations(&self) -> Vec<Conversation> {
        self.held.borrow().conversations.clone()
    }

    pub(super) fn messages(&self) -> Vec<ConversationMessage> {
        self.held.borrow().messages.clone()
    }

    /// The input and output tokens of all messages of a conversation, and the number of messages.
    pub(super) fn sums(&self, conversation: Uuid) -> (i64, i64, usize) {
        let held = self.held.borrow();
        let messages = held.messages.iter();
        let of: Vec<_> = messages
            .filter(|message| message.conversation_id == conversation)
            .collect();
        let sum = |count: fn(&ConversationMessage) -> Option<i64>| {
            of.iter().filter_map(|message| count(message)).sum()
        };
        (sum(|m| m.tokens_in), sum(|m| m.tokens_out), of.len())
    }

    /// The tokens of all messages, and the number of requests.
    pub(super) fn usage(&self) -> (u64, u64, u64) {
        let held = self.held.borrow();
        let sum = |count: fn(&ConversationMessage) -> Option<i64>| {
            let counts = held.messages.iter().filter_map(count);
            counts.map(i64::unsigned_abs).sum()
        };
        let is_request =
            |m: &&ConversationMessage| m.role == Role::Assistant && m.part_of.is_none();
        let requests = held.messages.iter().filter(is_request).count();
        (sum(|m| m.tokens_in), sum(|m| m.tokens_out), requests as u64)
    }

    /// The contents, in an order that is independent of the order of arrival where that is not
    /// observable.
    pub(super) fn content(&self) -> Content {
        let held = self.held.borrow();
        let mut talks: BTreeMap<Uuid, Vec<ConversationMessage>> = BTreeMap::new();
        for message in &held.messages {
            let talk = talks.entry(message.conversation_id).or_default();
            talk.push(message.clone());
        }
        Content {
            turns: held
                .turns
                .iter()
                .map(|turn| (turn.id, turn.clone()))
                .collect(),
            calls: held.calls.clone(),
            conversations: held
                .conversations
                .iter()
                .map(|talk| (talk.id, talk.clone()))
                .collect(),
            talks,
        }
    }

    pub(super) fn forget_turns(&self) {
        self.held.borrow_mut().turns.clear();
    }

    /// The call with this id.
    pub(super) fn call(&self, call_id: &str) -> Option<ToolCall> {
        let held = self.held.borrow();
        let mut found = held.calls.iter().filter(|((_, id), _)| id == call_id);
        let call = found.next().map(|(_, call)| call.clone());
        assert!(found.next().is_none(), "{call_id} twice");
        call
    }

    pub(super) fn failed_calls(&self) -> Vec<String> {
        let held = self.held.borrow();
        let done = held.calls.values().filter_map(|(_, done)| done.as_ref());
        done.filter(|done| done.status == ToolStatus::Failed)
            .map(|done| done.call_id.clone())
            .collect()
    }

    pub(super) fn batches(&self) -> Vec<usize> {
        self.held.borrow().batches.clone()
    }
}

impl Held {
    fn record(&mut self, record: Record) -> Result<bool> {
        match record.checked()? {
            Record::Turn(turn) => match self.turns.iter().find(|old| old.id == turn.id) {
                Some(_) => return Ok(false),
                None => self.turns.push(turn),
            },
            Record::CallRequested(req) => {
                let key = (req.request_id, req.call_id.clone());
                match self.calls.get(&key) {
                    Some(_) => return Ok(false),
                    None => {
                        self.calls.insert(key, (req, None));
                    }
                }
            }
            Record::CallDone(done) => {
                let key = (done.request_id, done.call_id.clone());
                match self.calls.get_mut(&key) {
                    None => return Err(Error::new(ErrorKind::NotFound, "never requested")),
                    Some((_, Some(old))) if *old == done => return Ok(false),
                    Some((_, Some(_))) => {
                        return Err(Error::new(ErrorKind::Conflict, "another outcome stands"));
                    }
                    Some((_, free)) => *free = Some(done),
                }
            }
            Record::Conversation(new) => {
                if self.conversations.iter().any(|old| old.id == new.id) {
                    return Ok(false);
                }
                self.conversations.push(new);
            }
            Record::Message(new) => {
                let mut known = self.conversations.iter();
                if !known.any(|old| old.id == new.conversation_id) {
                    return Err(Error::new(ErrorKind::NotFound, "no such conversation"));
                }
                if self.messages.iter().any(|old| old.id == new.id) {
                    return Ok(false);
                }
                self.messages.push(*new);
            }
            other => panic!("{other:?}"),
        }
        Ok(true)
    }
}

impl Log for MemoryLog {
    fn record_batch(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        if let Some(kind) = *self.fault.borrow() {
            return Err(Error::new(kind, "injected"));
        }
        let mut held = self.held.borrow_mut();
        held.batches.push(records.len());
        let record = |record| {
            let added = held.record(record)?;
            Ok(Ack {
                seq: 0,
                status: if added {
                    AckStatus::Added
                } else {
                    AckStatus::Unchanged
                },
                assigned: None,
                warning: None,
            })
        };
        Ok(records.into_iter().map(record).collect())
    }

    fn get_tool_call(&self, request_id: Uuid, call_id: &str) -> Result<Option<ToolCall>> {
        let key = (request_id, call_id.to_owned());
        Ok(self.held.borrow().calls.get(&key).cloned())
    }

    fn get_message(&self, id: Uuid) -> Result<Option<ConversationMessage>> {
        let held = self.held.borrow();
        let found = held.messages.iter().find(|message| message.id == id);
        Ok(found.cloned())
    }

    fn conversation(&self, id: Uuid) -> Result<Option<Conversation>> {
        let held = self.held.borrow();
        Ok(held.conversations.iter().find(|it| it.id == id).cloned())
    }

    fn amend(&self, id: Uuid, change: &dyn Fn(&mut Conversation)) -> Result<bool> {
        let mut held = self.held.borrow_mut();
        let Some(known) = held.conversations.iter_mut().find(|it| it.id == id) else {
            return Ok(false);
        };
        let before = known.clone();
        change(known);
        Ok(*known != before)
    }

    fn get_turn(&self, id: Uuid) -> Result<Option<ConversationTurn>> {
        let held = self.held.borrow();
        Ok(held.turns.iter().find(|turn| turn.id == id).cloned())
    }
}
