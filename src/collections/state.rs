//! Supervisor state that is derived from the log and need not be stored.

use serde::Serialize;
use serde_json::Value;

use super::events::EventQuery;
use super::page::Order;
use crate::error::Result;
use crate::record::{Event, event_type};
use crate::store::Store;

/// The state derived from the inbox and the events. Returned by [`Store::supervisor_state`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct SupervisorState {
    /// The next update to request from Telegram: the greatest `update_id` of the inbox plus 1, or 0
    /// if there is none.
    pub telegram_offset: i64,
    /// The `revision` of the latest `revision.promoted`; null if none exists.
    #[cfg_attr(feature = "wire", schema(required))]
    pub current_good_rev: Option<String>,
    /// The id of the supervisor's `process.started` event; null if none exists.
    #[cfg_attr(feature = "wire", schema(required))]
    pub supervisor_id: Option<i64>,
    /// Number of workers that this supervisor has spawned.
    pub worker_instance_seq: u64,
}

impl Store {
    /// The state derived from the inbox and the events. Default supervisor: the latest
    /// `process.started` event without a parent.
    ///
    /// ```
    /// # use decklog::{Event, Store, event_type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let supervisor = store.record(Event::new(None, event_type::PROCESS_STARTED))?.assigned;
    /// store.record(Event::new(supervisor, event_type::WORKER_SPAWNED))?;
    /// let state = store.supervisor_state(None)?;
    /// assert_eq!((state.supervisor_id, state.worker_instance_seq), (supervisor, 1));
    /// assert_eq!((state.telegram_offset, state.current_good_rev), (0, None));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn supervisor_state(&self, supervisor_id: Option<i64>) -> Result<SupervisorState> {
        let supervisor_id = match supervisor_id {
            Some(id) => Some(id),
            None => self.latest_supervisor()?,
        };
        let worker_instance_seq = match supervisor_id {
            Some(id) => self.worker_sequence(id)?,
            None => 0,
        };
        Ok(SupervisorState {
            telegram_offset: self.telegram_offset()?,
            current_good_rev: self.current_revision()?.as_ref().and_then(revision),
            supervisor_id,
            worker_instance_seq,
        })
    }

    fn latest_supervisor(&self) -> Result<Option<i64>> {
        let query = EventQuery {
            roots: true,
            event_type: Some(event_type::PROCESS_STARTED.to_owned()),
            order: Order::NewestFirst,
            limit: 1,
            ..EventQuery::default()
        };
        let page = self.events(&query)?;
        Ok(page.items.first().map(|event| event.id))
    }
}

/// The revision in the payload of a `revision.promoted` event.
fn revision(event: &Event) -> Option<String> {
    let payload: Value = serde_json::from_str(event.payload.as_deref()?).ok()?;
    match payload.get("revision")? {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
