//! Chained thoughts.

use decklog::thoughts::NewThought;
use decklog::{Timestamp, bindings};
use pyo3::prelude::*;

use crate::errors::OrRaise as _;
use crate::fork::Handle;
use crate::{from_json, records, values};

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Thoughts(Handle);

impl Thoughts {
    pub(crate) fn new(store: Handle) -> Thoughts {
        Thoughts(store)
    }
}

#[pymethods]
impl Thoughts {
    #[pyo3(signature = (thought_type, *, task_id, agent_id, content, id = None, timestamp = None))]
    fn create<'py>(
        &self,
        py: Python<'py>,
        thought_type: &str,
        task_id: String,
        agent_id: String,
        content: String,
        id: Option<String>,
        timestamp: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let store = self.0.get()?;
        let thought = NewThought {
            thought_type: thought_type.parse().or_raise()?,
            task_id,
            agent_id,
            content,
        };
        let timestamp = timestamp
            .map(|it| values::text("timestamp", it))
            .transpose()?;
        let timestamp = timestamp.as_deref().map(str::parse::<Timestamp>);
        let timestamp = timestamp.transpose().or_raise()?;
        let created = py.detach(|| {
            let mut thoughts = store.thoughts();
            if let Some(id) = id {
                thoughts = thoughts.with_ids(move || id.clone());
            }
            if let Some(timestamp) = timestamp {
                thoughts = thoughts.with_clock(move || timestamp.clone());
            }
            thoughts.create(thought)
        });
        records::instance(py, &bindings::Item::from(created.or_raise()?))
    }

    fn verify_chain<'py>(&self, py: Python<'py>, task_id: &str) -> PyResult<Bound<'py, PyAny>> {
        let store = self.0.get()?;
        let check = py
            .detach(|| store.thoughts().verify_chain(task_id))
            .or_raise()?;
        let dict = from_json::value(py, &check)?;
        dict.set_item("is_intact", check.is_intact())?;
        Ok(dict)
    }
}
