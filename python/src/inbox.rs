//! Tasks, each held by one worker at a time.

use decklog::record::TaskStatus;
use decklog::{InboxTask, bindings};
use pyo3::prelude::*;

use crate::errors::{self, OrRaise as _};
use crate::fork::Handle;
use crate::options::seconds;
use crate::{from_json, records, to_json};

#[pyclass(frozen, module = "decklog")]
pub(crate) struct Inbox {
    store: Handle,
    attempts_max: Option<u32>,
}

impl Inbox {
    pub(crate) fn new(store: Handle, attempts_max: Option<i64>) -> PyResult<Inbox> {
        let checked = |attempts| {
            let message = format!("{attempts} is out of bounds: give a whole number from 1");
            let attempts = u32::try_from(attempts).ok().filter(|it| *it > 0);
            attempts.ok_or_else(|| errors::invalid("attempts_max", &message))
        };
        Ok(Inbox {
            store,
            attempts_max: attempts_max.map(checked).transpose()?,
        })
    }

    /// Does something with the inbox, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(decklog::inbox::Inbox<'_>) -> decklog::Result<T> + Send,
    ) -> PyResult<T> {
        let store = self.store.get()?;
        py.detach(|| {
            let inbox = store.inbox();
            work(match self.attempts_max {
                Some(attempts) => inbox.attempts_max(attempts),
                None => inbox,
            })
        })
        .or_raise()
    }
}

fn instance(py: Python<'_>, task: InboxTask) -> PyResult<Bound<'_, PyAny>> {
    records::instance(py, &bindings::Item::from(task))
}

/// The task that Python holds.
fn given(task: &Bound<'_, PyAny>) -> PyResult<InboxTask> {
    let json = to_json::json(task, "task")?;
    serde_json::from_str(&json).map_err(|e| errors::invalid("task", &format!("it is no task: {e}")))
}

#[pymethods]
impl Inbox {
    #[pyo3(signature = (update_id, payload = None))]
    fn enqueue<'py>(
        &self,
        py: Python<'py>,
        update_id: i64,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let payload = payload
            .map(|it| to_json::payload(it, "payload"))
            .transpose()?;
        instance(
            py,
            self.with(py, |inbox| inbox.enqueue(update_id, payload.as_deref()))?,
        )
    }

    fn enqueue_message<'py>(
        &self,
        py: Python<'py>,
        update_id: i64,
        chat_id: i64,
        text: &str,
        date: i64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let queued = self.with(py, |inbox| {
            inbox.enqueue_message(update_id, chat_id, text, date)
        });
        instance(py, queued?)
    }

    fn claim<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let claimed = self.with(py, |inbox| inbox.claim())?;
        claimed.map(|task| instance(py, task)).transpose()
    }

    fn done(&self, py: Python<'_>, task: &Bound<'_, PyAny>) -> PyResult<()> {
        let task = given(task)?;
        self.with(py, |inbox| inbox.done(&task))
    }

    fn fail(&self, py: Python<'_>, task: &Bound<'_, PyAny>, error: &str) -> PyResult<()> {
        let task = given(task)?;
        self.with(py, |inbox| inbox.fail(&task, error))
    }

    fn retry(
        &self,
        py: Python<'_>,
        task: &Bound<'_, PyAny>,
        error: &str,
    ) -> PyResult<&'static str> {
        let task = given(task)?;
        self.with(py, |inbox| inbox.retry(&task, error))
            .map(TaskStatus::as_str)
    }

    fn release_stale<'py>(
        &self,
        py: Python<'py>,
        timeout: f64,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let timeout = seconds("timeout", timeout)?;
        let released = self.with(py, |inbox| inbox.release_stale(timeout))?;
        released
            .into_iter()
            .map(|task| instance(py, task))
            .collect()
    }

    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let counts = self.with(py, |inbox| inbox.counts())?;
        from_json::value(py, &counts)
    }

    fn telegram_offset(&self, py: Python<'_>) -> PyResult<i64> {
        let store = self.store.get()?;
        py.detach(|| store.telegram_offset()).or_raise()
    }
}
