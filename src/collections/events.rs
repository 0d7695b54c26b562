//! Events: append-only records, each with an optional parent.

use super::as_of::Lists;
use super::page::{Cursor, Page, PartEnd, Walk};
use super::query::{is_of_time, query};
use super::{Ack, EVERYWHERE, lifecycle, next_id, put_again, record_in, selected, standing_as};
use crate::error::Result;
use crate::index::{Hasher, RowId, Select, Table};
use crate::record::{Event, Kind, event_type, same_json};
use crate::store::{Inner, Reads, Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::Events;

query! {
    /// Selects the events to list.
    ///
    /// ```
    /// # use decklog::{Store, event_type};
    /// # use decklog::query::EventQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let runs = EventQuery { event_type: Some(event_type::AGENT_STARTED.into()), ..EventQuery::default() };
    /// assert!(store.events(&runs)?.items.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    EventQuery {
        filters {
            /// Only the children of this event.
            #[cfg_attr(feature = "http", serde(deserialize_with = "super::query::integer"))]
            #[cfg_attr(feature = "http", param(value_type = Option<crate::record::AnyInt>))]
            parent_id: i64 = "parent" "ID",
            /// Only events of this type, such as `worker.spawned`.
            event_type: String = "type" "NAME",
        }
        flags {
            /// Only events without a parent.
            #[cfg_attr(feature = "cli", arg(conflicts_with = "parent_id"))]
            roots,
        }
        times {
            /// Only events of this time or later.
            since,
            /// Only events before this time.
            until,
        }
        order {
            /// By id. Default: oldest first (`asc`).
            OldestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl Store {
    /// Logs an event with the current time and returns its id. To set another time, pass an
    /// [`Event`] to [`record`](Store::record).
    ///
    /// ```
    /// # use decklog::{Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let run = store.log_event(None, event_type::AGENT_STARTED, Some(r#"{"agent":"coder"}"#))?;
    /// let turn = store.log_event(Some(run), event_type::TURN_STARTED, None)?;
    /// store.log_event(Some(turn), event_type::TURN_COMPLETED, None)?;
    /// assert_eq!(store.event_tree(run)?.unwrap().nodes.len(), 3);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Lifecycle`](crate::ErrorKind::Lifecycle) if there is no event `parent_id`;
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the type is not a dotted name.
    pub fn log_event(
        &self,
        parent_id: Option<i64>,
        event_type: &str,
        payload: Option<&str>,
    ) -> Result<i64> {
        let event = Event {
            payload: payload.map(str::to_owned),
            ..Event::new(parent_id, event_type)
        };
        self.record(event).map(|ack| ack.assigned.unwrap_or(0))
    }

    /// The event with this id.
    pub fn get_event(&self, id: i64) -> Result<Option<Event>> {
        self.inner().with_snapshot(|view| find(view, id))
    }

    /// Lists events, in pages.
    pub fn events(&self, query: &EventQuery) -> Result<Page<Event>> {
        self.as_of(None).list(query, usize::MAX)
    }

    /// The latest `revision.promoted` event. It names the known good revision to roll back to.
    pub fn current_revision(&self) -> Result<Option<Event>> {
        self.inner()
            .with_snapshot(|view| latest(view, event_type::REVISION_PROMOTED))
    }

    /// Number of workers that a supervisor has spawned: the `worker.spawned` events directly under
    /// its event.
    pub fn worker_sequence(&self, supervisor_id: i64) -> Result<u64> {
        let below = under(self, supervisor_id)?.into_iter();
        let spawned = below.filter(|event| event.event_type == event_type::WORKER_SPAWNED);
        Ok(spawned.count() as u64)
    }
}

impl Lists for EventQuery {
    type Item = Event;
    const KIND: Kind = KIND;

    fn walk(&self, hasher: Hasher, _: bool) -> Walk {
        let of = |field, value: &str| Select::Lookup(field, hasher.lookup(value));
        let select = match (self.parent_id, &self.event_type) {
            (Some(id), _) => of(0, &id.to_string()),
            _ if self.roots => Select::Lookup(0, 0),
            (_, Some(wanted)) => of(1, wanted),
            _ => Select::All,
        };
        Walk::all(self.order, self.limit, self.after).of(select)
    }

    fn may_match(&self, table: &Table, row: RowId) -> bool {
        is_of_time(table, row, (self.since, self.until))
    }

    fn matches(&self, event: &Event) -> bool {
        let of_type = self.event_type.as_ref();
        self.parent_id.is_none_or(|id| event.parent_id == Some(id))
            && !(self.roots && event.parent_id.is_some())
            && of_type.is_none_or(|wanted| event.event_type == *wanted)
    }

    fn read(view: &Snapshot<'_>, row: RowId, _: Option<i64>) -> Result<Option<Event>> {
        standing_as(view, row)
    }
}

/// Adds an event. If the log has its id, the two must be equal. With `but_time`, the times are not
/// compared.
pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let event: &Event = record_in(redacted.record())?;
    let differs = |known: &Event| {
        format!(
            "event {} is a {} and says something else: leave the id out for the next one",
            known.id, known.event_type
        )
    };
    let same = |known: &Event| {
        let again = Event {
            created_at: if but_time { known } else { event }.created_at,
            payload: known.payload.clone(),
            ..event.clone()
        };
        same_json(known.payload.as_deref(), event.payload.as_deref()) && again == *known
    };
    if event.id != 0
        && let Some((ack, known)) = put_again(txn, redacted.record(), same, differs)?
    {
        return Ok(ack.assigning(Some(known.id)));
    }
    if let Some(parent) = event.parent_id
        && txn.find(KIND, [&parent.to_string(), ""]).is_none()
        && !(1..=txn.removed_events()).contains(&parent)
    {
        return Err(lifecycle(format!(
            "there is no event {parent} in the log for it to be under: log the parent first"
        )));
    }
    let id = next_id(txn, KIND, event.id)?;
    redacted.assign(|event: &mut Event| event.id = id);
    let seq = txn.push(redacted, None)?;
    Ok(Ack::added(seq).assigning(Some(id)))
}

pub(crate) fn find(from: &impl Reads, id: i64) -> Result<Option<Event>> {
    let Some((row, _)) = from.find(KIND, [&id.to_string(), ""]) else {
        return Ok(None);
    };
    Ok(standing_as::<Event>(from, row)?.filter(|event| event.id == id))
}

/// The event of this type with the greatest id.
pub(crate) fn latest(from: &impl Reads, event_type: &str) -> Result<Option<Event>> {
    let select = Select::Lookup(1, from.hasher().lookup(event_type));
    let is_it = |event: &Event| event.event_type == event_type;
    selected(from, select, EVERYWHERE, is_it)
        .next_back()
        .transpose()
}

/// The sequence numbers of the events of a type that are greater than the first bound and not
/// greater than the second.
pub(crate) fn seqs_of_type(
    inner: &Inner,
    event_type: &str,
    (mut after, upto): (u64, u64),
) -> Result<Vec<u64>> {
    let mut seqs = Vec::new();
    let hash = inner.hasher().lookup(event_type);
    while after < upto {
        let (found, seen) = inner.with_snapshot(|view| {
            let table = view.table(KIND);
            let first = table.row_from_seq(after + 1);
            let rows = (first.0..).map(RowId);
            let rows = rows.map_while(|id| table.row(id).map(|row| (id, row)));
            let (mut found, mut end) = (Vec::new(), PartEnd::new());
            for (id, row) in rows.take_while(|(_, row)| row.seq <= upto) {
                if row.stands() && table.has_lookup(id, 1, hash) {
                    found.push(row.seq);
                }
                if end.has_come(false) {
                    return Ok((found, row.seq));
                }
            }
            Ok((found, upto))
        })?;
        seqs.extend(found);
        after = seen;
    }
    Ok(seqs)
}

/// As [`children`], but releases the lock at intervals to let writers in.
pub(super) fn under(store: &Store, id: i64) -> Result<Vec<Event>> {
    let query = EventQuery {
        parent_id: Some(id),
        limit: usize::MAX,
        ..EventQuery::default()
    };
    Ok(store.events(&query)?.items)
}

/// The direct children of an event, by id.
pub(crate) fn children(from: &impl Reads, id: i64) -> Result<Vec<Event>> {
    let select = Select::Lookup(0, from.hasher().lookup(&id.to_string()));
    let is_child = move |event: &Event| event.parent_id == Some(id);
    selected(from, select, EVERYWHERE, is_child).collect()
}
