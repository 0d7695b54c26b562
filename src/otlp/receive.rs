//! Receives export requests.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use super::batch::{Batch, Built, is_fatal};
use super::item::{Item, Origin};
use super::log::Records;
use super::own;
use super::proto::{LogRecord, Resource, Scope, Span};
use super::request::{Encoding, Request, Signal};
use super::value::object_of;
use crate::collections::IfKnown;
use crate::error::{Error, Result};
use crate::record::{ConversationTurn, Record, TurnKind, Validity, now};
use crate::store::Store;

/// Maximum number of resources that are remembered as recorded.
const RESOURCES_MAX: usize = 10_000;
/// Maximum number of reasons in an answer.
const REASONS_MAX: usize = 5;

/// Records what OpenTelemetry exporters send.
pub(crate) struct Receiver {
    store: Store,
    /// The resources that are recorded. While it is locked, one request is recorded: what is new
    /// depends on what the log has.
    resources: Mutex<HashSet<Uuid>>,
}

/// What became of the items of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Items that are in the log.
    pub(crate) accepted: usize,
    pub(crate) rejected: usize,
    /// Items without a place of their own in the log, which are kept as they are.
    pub(crate) kept: usize,
    /// The first reasons for rejections.
    pub(crate) reasons: Vec<String>,
}

impl Outcome {
    fn reject(&mut self, items: usize, reason: String) {
        self.rejected += items;
        if self.reasons.len() < REASONS_MAX && !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

/// Why a request was not recorded.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The request is malformed.
    Malformed(String),
    /// The log failed. The request can be sent again.
    Log(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Log(error)
    }
}

/// Items with the numbers of spans or log records of which they consist.
type Numbered = Vec<(usize, Box<Item>)>;

impl Receiver {
    pub(crate) fn new(store: Store) -> Receiver {
        Receiver {
            store,
            resources: Mutex::default(),
        }
    }

    /// Records the items of a request. When it returns, the accepted items are in the log.
    pub(crate) fn receive(
        &self,
        encoding: Encoding,
        signal: Signal,
        body: &[u8],
    ) -> std::result::Result<Outcome, Refusal> {
        let request = Request::read(encoding, signal, body).map_err(Refusal::Malformed)?;
        let mut outcome = Outcome::default();
        let read = match signal {
            Signal::Traces => spans(&request, &mut outcome),
            Signal::Logs => logs(&request, &mut outcome),
            Signal::Metrics => {
                outcome.accepted = request.len();
                return Ok(outcome);
            }
        };
        self.record(read, &mut outcome)?;
        Ok(outcome)
    }

    fn record(&self, read: Read, outcome: &mut Outcome) -> Result<()> {
        let Read {
            mut items,
            own,
            resources,
        } = read;
        // The order in which things happened. Items that began at the same time stay in the order
        // in which they came.
        items.sort_by_key(|(_, item)| item.start);
        let sizes = items.iter().map(|(size, _)| *size);
        let sizes: Vec<usize> = sizes.chain(own.iter().map(|_| 1)).collect();
        let items: Vec<(usize, Box<Item>)> = items
            .into_iter()
            .map(|(_, item)| item)
            .enumerate()
            .collect();
        let mut known = self
            .resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if known.len() > RESOURCES_MAX {
            known.clear();
        }
        let new = resources.into_iter().filter(|(id, ..)| !known.contains(id));
        let new: Vec<(Uuid, Record)> = new.map(|it| (it.0, described(it))).collect();
        let mut batch = Batch::new(&self.store, &items)?;
        let mut failed: Vec<Option<String>> = vec![None; sizes.len()];
        let first_own = items.len();
        for (at, item) in items {
            let failure = batch.add(at, *item)?;
            failed[at] = failure;
        }
        let Built {
            records,
            changes,
            kept,
        } = batch.build();
        outcome.kept = kept;
        let described = new.iter().map(|(_, record)| {
            let nobody = usize::MAX;
            (nobody, record.clone(), IfKnown::Skip)
        });
        let own = own.into_iter().enumerate().flat_map(|(nth, records)| {
            let at = first_own + nth;
            records
                .into_iter()
                .map(move |record| (at, record, IfKnown::Compare))
        });
        let (numbers, records): (Vec<usize>, Vec<_>) = described
            .chain(records)
            .chain(own)
            .map(|(at, record, if_known)| (at, (record.checked(), if_known)))
            .unzip();
        let answers = self.store.put_batch(records)?;
        for (at, answer) in numbers.into_iter().zip(answers) {
            match answer {
                Ok(_) => {}
                Err(error) if is_fatal(&error) => return Err(error),
                Err(error) => {
                    if let Some(failed) = failed.get_mut(at) {
                        failed.get_or_insert_with(|| error.to_string());
                    }
                }
            }
        }
        for (id, talk) in changes {
            let changed = self.store.amend_conversation(id, |it| talk.apply(it));
            changed
                .map(drop)
                .or_else(|error| if is_fatal(&error) { Err(error) } else { Ok(()) })?;
        }
        known.extend(new.into_iter().map(|(id, _)| id));
        for (size, failed) in sizes.into_iter().zip(failed) {
            match failed {
                Some(reason) => outcome.reject(size, reason),
                None => outcome.accepted += size,
            }
        }
        Ok(())
    }
}

/// What was read of a request.
#[derive(Default)]
struct Read {
    items: Numbered,
    /// The records of each item that a log of decklog sent.
    own: Vec<Vec<Record>>,
    resources: Vec<(Uuid, Resource, Scope)>,
}

fn spans(request: &Request<'_>, outcome: &mut Outcome) -> Read {
    let mut read = Read::default();
    for group in request.groups::<Span>() {
        let group = match group {
            Ok(group) => group,
            Err((count, reason)) => {
                outcome.reject(count, reason);
                continue;
            }
        };
        let origin = Origin::new(&group.resource, &group.scope);
        if let Some(id) = origin.resource {
            let resource = (id, group.resource.clone(), group.scope.clone());
            read.resources.push(resource);
        }
        let is_own = own::is_own(&group.scope);
        for span in group {
            let records = span.as_ref().ok().filter(|_| is_own);
            if let Some(records) = records.and_then(own::records_of) {
                read.own.push(records);
                continue;
            }
            match span.and_then(|span| Item::of_span(span, &origin)) {
                Ok(item) => read.items.push((1, Box::new(item))),
                Err(reason) => outcome.reject(1, reason),
            }
        }
    }
    read
}

fn logs(request: &Request<'_>, outcome: &mut Outcome) -> Read {
    let mut read = Read::default();
    let mut records = Records::default();
    for group in request.groups::<LogRecord>() {
        let group = match group {
            Ok(group) => group,
            Err((count, reason)) => {
                outcome.reject(count, reason);
                continue;
            }
        };
        let origin = Origin::new(&group.resource, &group.scope);
        if let Some(id) = origin.resource {
            let resource = (id, group.resource.clone(), group.scope.clone());
            read.resources.push(resource);
        }
        let is_own = own::is_own(&group.scope);
        for record in group {
            let own = record.as_ref().ok().filter(|_| is_own);
            if let Some(own) = own.and_then(own::records_of_log) {
                read.own.push(own);
                continue;
            }
            match record {
                Ok(record) => records.add(record, &origin),
                Err(reason) => outcome.reject(1, reason),
            }
        }
    }
    read.items = records.into_items();
    read
}

/// The turn that has the attributes of a resource and its scope.
fn described((id, resource, scope): (Uuid, Resource, Scope)) -> Record {
    let mut about = Map::new();
    let resource = object_of(resource.attributes);
    about.insert("resource".to_owned(), Json::Object(resource));
    if !scope.attributes.is_empty() {
        let attributes = object_of(scope.attributes);
        about.insert("scope".to_owned(), Json::Object(attributes));
    }
    let turn = ConversationTurn {
        id,
        parent_id: None,
        message_id: id,
        kind: TurnKind::SysInfo,
        content: json!({ "otel": about }).to_string(),
        created_at: Validity::at(now()),
        thread_id: None,
    };
    turn.into()
}
