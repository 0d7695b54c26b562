//! Chained thoughts.

use decklog::thoughts::NewThought;
use decklog::{Store, Timestamp, bindings};
use napi::Result;
use napi_derive::napi;

use crate::errors::OrThrow as _;
use crate::page;

#[napi]
pub struct Thoughts(Store);

impl Thoughts {
    pub(crate) fn new(store: Store) -> Thoughts {
        Thoughts(store)
    }
}

#[napi]
impl Thoughts {
    #[napi]
    pub fn create(
        &self,
        thought_type: String,
        task_id: String,
        agent_id: String,
        content: String,
        id: Option<String>,
        timestamp: Option<String>,
    ) -> Result<String> {
        let thought = NewThought {
            thought_type: thought_type.parse().or_throw()?,
            task_id,
            agent_id,
            content,
        };
        let timestamp: Option<Timestamp> =
            timestamp.map(|time| time.parse()).transpose().or_throw()?;
        let mut thoughts = self.0.thoughts();
        if let Some(id) = id {
            thoughts = thoughts.with_ids(move || id.clone());
        }
        if let Some(timestamp) = timestamp {
            thoughts = thoughts.with_clock(move || timestamp.clone());
        }
        page::text(&bindings::Item::from(thoughts.create(thought).or_throw()?))
    }

    /// Whether a task's chain is intact, and the result of the check.
    #[napi]
    pub fn verify_chain(&self, task_id: String) -> Result<String> {
        let check = self.0.thoughts().verify_chain(&task_id).or_throw()?;
        page::text(&(check.is_intact(), &check))
    }
}
