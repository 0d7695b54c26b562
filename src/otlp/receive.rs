//! Receives export requests.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value as Json, json};
use uuid::Uuid;

use super::batch::{Batch, Built, ids, is_fatal};
use super::claims::Claims;
use super::item::{Item, Origin};
use super::log::Records;
use super::own;
use super::proto::{LogRecord, Resource, Scope, Span};
use super::request::{self, Encoding, Request, Signal};
use super::value::object_of;
use crate::collections::IfKnown;
use crate::error::{Error, Result};
use crate::record::{ConversationTurn, Record, TurnKind, Validity, now};
use crate::store::Store;

/// Maximum number of resources that are remembered as recorded.
const RESOURCES_MAX: usize = 10_000;
/// Maximum number of reasons in an answer.
const REASONS_MAX: usize = 5;

/// Records what exporters of OpenTelemetry send. Feature `otlp`.
///
/// ```
/// use decklog::Store;
/// use decklog::otlp::{Encoding, Receiver, Signal};
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Store::open(dir.path().join("log"))?;
/// let receiver = Receiver::new(store.clone());
/// let body = br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{
///     "traceId":"5b8efff798038103d269b633813fc60c", "spanId":"eee19b7ec3c1b174",
///     "name":"chat gpt-4o", "kind":3,
///     "startTimeUnixNano":"1766832000000000000", "endTimeUnixNano":"1766832001000000000",
///     "attributes":[
///         {"key":"gen_ai.operation.name", "value":{"stringValue":"chat"}},
///         {"key":"gen_ai.request.model", "value":{"stringValue":"gpt-4o"}},
///         {"key":"gen_ai.usage.output_tokens", "value":{"intValue":"12"}}
///     ]
/// }]}]}]}"#;
/// let outcome = receiver.receive(Encoding::Json, Signal::Traces, body).unwrap();
/// assert_eq!(outcome.accepted, 1);
/// let conversation = &store.conversations(&Default::default())?.items[0];
/// assert_eq!(conversation.1.total_tokens_out, 12);
/// # Ok::<(), decklog::Error>(())
/// ```
pub struct Receiver {
    store: Store,
    /// The resources that are recorded.
    resources: Mutex<HashSet<Uuid>>,
    claims: Claims,
}

/// What became of the items of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Items that are in the log.
    pub accepted: usize,
    /// Items that are not in the log.
    pub rejected: usize,
    /// Accepted items that have no place of their own in the log. They are kept as they are.
    pub kept: usize,
    /// The first reasons for rejections.
    pub reasons: Vec<String>,
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
#[non_exhaustive]
pub enum Refusal {
    /// The request is malformed.
    Malformed(String),
    /// The log failed. The request can be sent again.
    Log(Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Malformed(reason) => f.write_str(reason),
            Refusal::Log(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiver").finish_non_exhaustive()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Log(error)
    }
}

/// Items with the numbers of spans or log records of which they consist.
type Numbered = Vec<(usize, Box<Item>)>;

impl Receiver {
    /// A receiver for this store.
    pub fn new(store: Store) -> Receiver {
        Receiver {
            store,
            resources: Mutex::default(),
            claims: Claims::default(),
        }
    }

    /// Records the items of a request. When it returns, the accepted items are in the log. A request
    /// that is sent again adds nothing.
    ///
    /// # Errors
    /// [`Refusal::Malformed`]: nothing is recorded. [`Refusal::Log`]: some items may be in the log.
    pub fn receive(
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

    fn resources(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The turns of resources that were not recorded yet.
    fn new_resources(&self, resources: Vec<(Uuid, Resource, Scope)>) -> Vec<(Uuid, Record)> {
        let mut known = self.resources();
        if known.len() > RESOURCES_MAX {
            known.clear();
        }
        let mut met = HashSet::new();
        let resources = resources.into_iter();
        let new = resources.filter(|(id, ..)| !known.contains(id) && met.insert(*id));
        new.map(|it| (it.0, described(it))).collect()
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
            .map(|(_, mut item)| {
                item.ids = ids(&item);
                item
            })
            .enumerate()
            .collect();
        let _claim = self.claims.claim(items.iter().map(|(_, item)| &**item));
        let mut batch = Batch::new(&self.store, &items)?;
        let mut failed: Vec<Option<String>> = vec![None; sizes.len()];
        let first_own = items.len();
        for (at, item) in items {
            failed[at] = batch.add(at, *item)?;
        }
        let Built {
            records,
            changes,
            kept,
        } = batch.build();
        outcome.kept = kept;
        let (resources, described): (Vec<Uuid>, Vec<Record>) =
            self.new_resources(resources).into_iter().unzip();
        let nobody = usize::MAX;
        let described = described.into_iter();
        let described = described.map(|record| (nobody, record, IfKnown::Skip));
        let own = own.into_iter().enumerate().flat_map(|(nth, records)| {
            let at = first_own + nth;
            records
                .into_iter()
                .map(move |record| (at, record, IfKnown::Compare))
        });
        let mut numbers = Vec::with_capacity(records.iter().map(Vec::len).sum());
        // The length of a chain is known, so that the batch is allocated once.
        let [first, second, third, fourth] = records;
        let records = described.chain(first).chain(second).chain(third);
        let records = records.chain(fourth).chain(own);
        let records = records.map(|(at, record, if_known)| {
            numbers.push(at);
            (record.checked(), if_known)
        });
        let mut prepared = self.store.prepare_batch(records);
        let answers = self.store.put_prepared(&mut prepared)?;
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
        self.resources().extend(resources);
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

impl Read {
    /// Reads the items of a request. `own` returns the records of an item that a log of decklog
    /// sent, and `take` gets every other item.
    fn groups<T: request::Item>(
        &mut self,
        request: &Request<'_>,
        outcome: &mut Outcome,
        own: fn(&T) -> Option<Vec<Record>>,
        mut take: impl FnMut(&mut Numbered, T, &Origin) -> std::result::Result<(), String>,
    ) {
        for group in request.groups::<T>() {
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
                self.resources.push(resource);
            }
            let is_own = own::is_own(&group.scope);
            for item in group {
                let records = item.as_ref().ok().filter(|_| is_own).and_then(own);
                if let Some(records) = records {
                    self.own.push(records);
                    continue;
                }
                let taken = item.and_then(|item| take(&mut self.items, item, &origin));
                if let Err(reason) = taken {
                    outcome.reject(1, reason);
                }
            }
        }
    }
}

fn spans(request: &Request<'_>, outcome: &mut Outcome) -> Read {
    let mut read = Read::default();
    read.groups::<Span>(request, outcome, own::records_of, |items, span, origin| {
        items.push((1, Box::new(Item::of_span(span, origin)?)));
        Ok(())
    });
    read
}

fn logs(request: &Request<'_>, outcome: &mut Outcome) -> Read {
    let mut read = Read::default();
    let mut records = Records::default();
    read.groups::<LogRecord>(
        request,
        outcome,
        own::records_of_log,
        |_, record, origin| {
            records.add(record, origin);
            Ok(())
        },
    );
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
