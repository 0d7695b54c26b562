//! A number of records, and what belongs to which trace.

use std::collections::{HashMap, HashSet};

use uuid::Uuid;

use super::talk::Talk;
use super::{Items, ids, log};
use crate::collections::Places;
use crate::error::Result;
use crate::record::{Kind, Record, ToolCallReq};
use crate::store::Store;

/// Maximum number of events above an event that are looked up.
const DEPTH_MAX: usize = 1_000;

/// Records in the order of the log, to be sent together.
pub(super) struct Batch<'a> {
    pub(super) store: &'a Store,
    pub(super) records: &'a [Record],
    /// The places of messages, turns and requests of calls in `records`. A request may have several
    /// versions.
    pub(super) messages: HashMap<Uuid, usize>,
    pub(super) turns: HashMap<Uuid, usize>,
    pub(super) requests: HashMap<(Uuid, &'a str), Vec<usize>>,
    /// The calls whose outcomes are in `records`. Their spans have their requests.
    pub(super) ended: HashSet<(Uuid, &'a str)>,
}

/// Whether records of a kind are sent.
pub(super) fn is_sent(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Conversations
            | Kind::Messages
            | Kind::ConversationTurns
            | Kind::ToolCalls
            | Kind::Events
    )
}

/// The items of these records, which are in the order of the log.
///
/// # Errors
/// Errors of reading the log.
pub(super) fn items(store: &Store, records: &[Record]) -> Result<Items> {
    let mut batch = Batch {
        store,
        records,
        messages: HashMap::new(),
        turns: HashMap::new(),
        requests: HashMap::new(),
        ended: HashSet::new(),
    };
    for (at, record) in records.iter().enumerate() {
        match record {
            Record::Message(message) => drop(batch.messages.insert(message.id, at)),
            Record::Turn(turn) => drop(batch.turns.insert(turn.id, at)),
            Record::CallRequested(req) => {
                let key = (req.request_id, &*req.call_id);
                batch.requests.entry(key).or_default().push(at);
            }
            Record::CallDone(done) => {
                batch.ended.insert((done.request_id, &*done.call_id));
            }
            _ => {}
        }
    }
    let mut items = Items::default();
    for (talk, places) in batch.talks()? {
        Talk::read(&batch, talk, &places)?.add_to(&mut items)?;
    }
    let mut roots = HashMap::new();
    for record in records {
        if let Record::Event(event) = record {
            let root = batch.root_of(event.id, event.parent_id, &mut roots)?;
            let trace = ids::trace_of_events(store.inner().store_id(), root);
            items.logs.push(log::of_event(event, trace, record)?);
        }
    }
    Ok(items)
}

impl<'a> Batch<'a> {
    /// The records of each conversation or thread, in the order of its first record.
    fn talks(&self) -> Result<Vec<(Uuid, Vec<usize>)>> {
        let of_record = |record: &Record| match record {
            Record::Turn(turn) => Some(turn.id),
            Record::CallRequested(req) => Some(req.parent_id),
            _ => None,
        };
        let mut ids: Vec<Uuid> = self.records.iter().filter_map(of_record).collect();
        for record in self.records {
            // An outcome does not say which turn its call is of.
            if let Record::CallDone(done) = record {
                ids.extend(self.parent_of(done.request_id, &done.call_id)?);
            }
        }
        let found = Places::default().of_turns(self.store.inner(), &ids)?;
        let talks: HashMap<Uuid, Uuid> = ids
            .into_iter()
            .zip(found)
            .filter_map(|(id, talk)| Some((id, talk?)))
            .collect();
        let mut order: Vec<(Uuid, Vec<usize>)> = Vec::new();
        let mut known: HashMap<Uuid, usize> = HashMap::new();
        for (at, record) in self.records.iter().enumerate() {
            let talk = match record {
                Record::Conversation(it) | Record::ConversationUpdated(it) => it.id,
                Record::Message(message) => message.conversation_id,
                Record::Turn(turn) => {
                    let other = turn.thread_id.unwrap_or(turn.message_id);
                    talks.get(&turn.id).copied().unwrap_or(other)
                }
                Record::CallRequested(req) => {
                    talks.get(&req.parent_id).copied().unwrap_or(req.parent_id)
                }
                Record::CallDone(done) => {
                    let parent = self.parent_of(done.request_id, &done.call_id)?;
                    let parent = parent.unwrap_or(done.request_id);
                    talks.get(&parent).copied().unwrap_or(parent)
                }
                _ => continue,
            };
            let place = *known.entry(talk).or_insert_with(|| {
                order.push((talk, Vec::new()));
                order.len() - 1
            });
            order[place].1.push(at);
        }
        Ok(order)
    }

    /// The last version of a call's request.
    pub(super) fn request(&self, request: Uuid, call: &str) -> Option<&'a ToolCallReq> {
        let at = self.requests.get(&(request, call))?.last()?;
        match &self.records[*at] {
            Record::CallRequested(req) => Some(req),
            _ => None,
        }
    }

    /// The last versions of all requests, in the order of the log.
    pub(super) fn last_requests(&self) -> Vec<&'a ToolCallReq> {
        let mut places: Vec<usize> = self
            .requests
            .values()
            .filter_map(|it| it.last().copied())
            .collect();
        places.sort_unstable();
        let requests = places.into_iter().filter_map(|at| match &self.records[at] {
            Record::CallRequested(req) => Some(req),
            _ => None,
        });
        requests.collect()
    }

    fn parent_of(&self, request: Uuid, call: &str) -> Result<Option<Uuid>> {
        if let Some(req) = self.request(request, call) {
            return Ok(Some(req.parent_id));
        }
        let known = self.store.get_tool_call(request, call)?;
        Ok(known.map(|(req, _)| req.parent_id))
    }

    /// The event at the top of an event's tree.
    fn root_of(&self, id: i64, parent: Option<i64>, roots: &mut HashMap<i64, i64>) -> Result<i64> {
        let (mut root, mut next) = (id, parent);
        for _ in 0..DEPTH_MAX {
            let Some(parent) = next else { break };
            if let Some(known) = roots.get(&parent) {
                root = *known;
                break;
            }
            root = parent;
            next = self.store.get_event(parent)?.and_then(|it| it.parent_id);
        }
        roots.insert(id, root);
        Ok(root)
    }
}
