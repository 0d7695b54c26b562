//! The log.

use std::path::PathBuf;
use std::sync::Arc;

use decklog::bindings::{self, Batch, Head, Input, List, Refused};
use decklog::query::SearchQuery;
use decklog::{Key, Store};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::ack::Ack;
use crate::arrow::ArrowStream;
use crate::capture::{self, Capture};
use crate::errors::{self, OrRaise as _};
use crate::fork::{Handle, OfProcess};
use crate::inbox::Inbox;
use crate::options::Opening;
use crate::otlp::Receiver;
use crate::records::{self, Records};
use crate::run::Run;
use crate::thoughts::Thoughts;
use crate::{from_json, to_json, values};

#[pyclass(frozen, subclass, weakref, module = "decklog")]
pub(crate) struct Log {
    handle: Handle,
}

impl Log {
    fn store(&self) -> PyResult<Store> {
        self.handle.get()
    }

    /// The handle, if the log is open.
    fn handle(&self) -> PyResult<Handle> {
        self.store()?;
        Ok(Arc::clone(&self.handle))
    }
}

#[pymethods]
impl Log {
    #[new]
    #[pyo3(signature = (path, *, durability = "process".to_owned(), read_only = false, create = true, lock_timeout = None))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        durability: String,
        read_only: bool,
        create: bool,
        lock_timeout: Option<f64>,
    ) -> PyResult<Log> {
        let opening = Opening {
            path,
            durability,
            read_only,
            create,
            lock_timeout,
        };
        Ok(Log {
            handle: Arc::new(OfProcess::new(opening.open(py)?)),
        })
    }

    /// The directory of the log.
    #[getter]
    fn path(&self) -> PyResult<PathBuf> {
        Ok(self.store()?.path().to_path_buf())
    }

    /// Syncs the log to disk and closes it. Later calls raise `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.handle.take()?;
        py.detach(|| store.map_or(Ok(()), Store::close)).or_raise()
    }

    /// Records a fact: a dict, a record of this package, a dataclass or a pydantic model.
    ///
    /// Field names are those of the files. What is left out is filled in, such as ids and times. The
    /// same fact again changes nothing. When it returns, the fact is in the log.
    ///
    /// kind: The kind of record, if it has no field that says so.
    ///
    /// >>> log.record({"kind": "events", "event_type": "worker.spawned", "payload": {"pid": 7}})
    /// Ack(seq=1, status='added', id=1)
    /// >>> from decklog import Event
    /// >>> log.record(Event(event_type="worker.exited", parent_id=1)).id
    /// 2
    #[pyo3(signature = (record, /, *, kind = None))]
    fn record(
        &self,
        py: Python<'_>,
        record: &Bound<'_, PyAny>,
        kind: Option<&str>,
    ) -> PyResult<Ack> {
        let store = self.store()?;
        let input = values::input(record, values::kind(kind)?)?;
        let head = input.head();
        let ack = py.detach(|| store.record_input(input)).or_raise()?;
        Ok(Ack::from(head.recorded(ack)))
    }

    /// Records all of these facts in order or, if one is rejected, none of them.
    ///
    /// >>> [ack.id for ack in log.record_all([{"event_type": "a.b"}], kind="events")]
    /// [1]
    #[pyo3(signature = (records, /, *, kind = None))]
    fn record_all(
        &self,
        py: Python<'_>,
        records: &Bound<'_, PyAny>,
        kind: Option<&str>,
    ) -> PyResult<Vec<Ack>> {
        let store = self.store()?;
        let (inputs, heads) = inputs(records, kind)?;
        let acks = py.detach(|| store.record_all_inputs(inputs)).or_raise()?;
        let acks = acks.into_iter().zip(heads);
        Ok(acks
            .map(|(ack, head)| Ack::from(head.recorded(ack)))
            .collect())
    }

    // Each is accepted or rejected on its own: the list has an `Ack` or an exception for each.
    #[pyo3(signature = (records, /, *, kind = None))]
    fn _record_batch<'py>(
        &self,
        py: Python<'py>,
        records: &Bound<'py, PyAny>,
        kind: Option<&str>,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let kind = values::kind(kind)?;
        let mut batch = Batch::new(self.store()?);
        let mut raised = None;
        for record in records.try_iter()? {
            let is_taken = record.and_then(|record| {
                let input = match values::input(&record, kind) {
                    Err(error) if !errors::is_ours(py, &error) => return Err(error),
                    input => input,
                };
                if !batch.push(input) {
                    return Ok(true);
                }
                // A log that is closed takes no more.
                self.store()?;
                Ok(py.detach(|| batch.send()))
            });
            match is_taken {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    // The records before it are recorded.
                    raised = Some(error);
                    break;
                }
            }
        }
        let (results, mut failed) = (PyList::empty(py), 0);
        let mut outcomes = py.detach(|| batch.end());
        while let Some(part) = py.detach(|| outcomes.next()) {
            let part = match part {
                Ok(part) => part,
                Err(error) => {
                    let error = errors::of(error);
                    error.set_cause(py, raised);
                    return Err(error);
                }
            };
            for outcome in part {
                let error = match outcome {
                    Ok(recorded) => {
                        results.append(Bound::new(py, Ack::from(recorded))?)?;
                        continue;
                    }
                    Err(Refused::Unread(error)) => error,
                    Err(Refused::Rejected(error)) => errors::of(error),
                };
                failed += 1;
                results.append(error.into_value(py))?;
            }
        }
        if let Some(raised) = raised {
            return Err(raised);
        }
        Ok((results, failed))
    }

    #[pyo3(signature = (kind, /, **arguments))]
    fn _list(&self, kind: &str, arguments: Option<&Bound<'_, PyDict>>) -> PyResult<Records> {
        let handle = self.handle()?;
        let kind = values::kind(Some(kind))?.ok_or_else(|| errors::fault("no kind"))?;
        let list = values::with_arguments(arguments, |named| List::new(kind, named))?;
        Ok(Records::new(handle, list))
    }

    #[pyo3(signature = (kind, id, call_id = "", as_of = None))]
    fn _get<'py>(
        &self,
        py: Python<'py>,
        kind: &str,
        id: &Bound<'py, PyAny>,
        call_id: &str,
        as_of: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let store = self.store()?;
        let key = key(kind, id, call_id)?;
        let as_of = values::time("as_of", as_of)?;
        let item = py
            .detach(|| bindings::get(&store, &key, as_of))
            .or_raise()?;
        records::optional(py, item)
    }

    #[pyo3(signature = (kind, id, call_id = "", at = None))]
    fn _retract(
        &self,
        py: Python<'_>,
        kind: &str,
        id: &Bound<'_, PyAny>,
        call_id: &str,
        at: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Ack> {
        let store = self.store()?;
        let key = key(kind, id, call_id)?;
        let at = values::time("at", at)?.unwrap_or_else(|| decklog::Validity::now().at);
        let ack = py.detach(|| store.retract(&key, at)).or_raise()?;
        Ok(Ack::from(Head::of_retraction(&key).recorded(ack)))
    }

    #[pyo3(signature = (id, /, **fields))]
    fn _update_conversation<'py>(
        &self,
        py: Python<'py>,
        id: &str,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store()?;
        let id = uuid("id", id)?;
        let changed = values::with_arguments(fields, |named| {
            py.detach(|| bindings::update_conversation(&store, id, named))
        })?;
        records::instance(py, &changed)
    }

    /// Records an event and returns its id.
    ///
    /// >>> agent = log.log_event("agent.started")
    /// >>> _ = log.log_event("agent.completed", {"turns": 3}, parent_id=agent)
    /// >>> [(it["event_type"], it.get("status")) for it in log.event_tree(agent)]
    /// [('agent.started', 'completed'), ('agent.completed', None)]
    #[pyo3(signature = (event_type, payload = None, *, parent_id = None))]
    fn log_event(
        &self,
        py: Python<'_>,
        event_type: &str,
        payload: Option<&Bound<'_, PyAny>>,
        parent_id: Option<i64>,
    ) -> PyResult<i64> {
        let store = self.store()?;
        let payload = payload
            .map(|it| to_json::payload(it, "payload"))
            .transpose()?;
        let logged = py.detach(|| store.log_event(parent_id, event_type, payload.as_deref()));
        logged.or_raise()
    }

    #[pyo3(signature = (text, *, kind = None, since = None, until = None, limit = None))]
    fn _search<'py>(
        &self,
        py: Python<'py>,
        text: String,
        kind: Option<&str>,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        limit: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let store = self.store()?;
        let mut query = SearchQuery {
            text,
            kind: values::kind(kind)?,
            since: values::time("since", since)?,
            until: values::time("until", until)?,
            ..SearchQuery::default()
        };
        if let Some(limit) = limit {
            query.limit = values::count("limit", limit)?;
        }
        let found = py.detach(|| store.search(&query)).or_raise()?;
        from_json::value(py, &found.matches)
    }

    /// An event and all events under it, with depths, and durations of spans. `None` if there is no
    /// such event.
    fn event_tree<'py>(&self, py: Python<'py>, id: i64) -> PyResult<Option<Bound<'py, PyAny>>> {
        let store = self.store()?;
        let tree = py.detach(|| store.event_tree(id)).or_raise()?;
        tree.map(|tree| from_json::value(py, &tree.nodes))
            .transpose()
    }

    /// The items of a conversation or a thread of turns, with depths and durations. `None` if there is
    /// neither.
    fn session_tree<'py>(
        &self,
        py: Python<'py>,
        id: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let store = self.store()?;
        let id = uuid("id", to_json::text(&id.str()?, "id")?)?;
        let tree = py.detach(|| store.session_tree(id)).or_raise()?;
        tree.map(|tree| from_json::value(py, &tree.nodes))
            .transpose()
    }

    /// Returns when all that was recorded is on disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.store()?;
        py.detach(|| store.sync()).or_raise()
    }

    #[pyo3(signature = (vendor, *, thread_id = None, conversation = None, through = None))]
    fn _run(
        &self,
        py: Python<'_>,
        vendor: &str,
        thread_id: Option<&str>,
        conversation: Option<&Bound<'_, PyAny>>,
        through: Option<PyRef<'_, Capture>>,
    ) -> PyResult<Run> {
        Run::new(
            py,
            self.handle()?,
            vendor,
            (thread_id, conversation),
            through.as_deref(),
        )
    }

    #[pyo3(signature = (*, queue_records_max = None, queue_bytes_max = None, when_full = "refuse", drain_timeout = None, on_error = None))]
    fn _capture(
        &self,
        queue_records_max: Option<i64>,
        queue_bytes_max: Option<i64>,
        when_full: &str,
        drain_timeout: Option<f64>,
        on_error: Option<Py<PyAny>>,
    ) -> PyResult<Capture> {
        let limits = capture::Limits {
            queue_records_max,
            queue_bytes_max,
            when_full,
            drain_timeout,
        };
        Capture::new(&self.store()?, &limits, on_error)
    }

    #[pyo3(signature = (attempts_max = None))]
    fn _inbox(&self, attempts_max: Option<i64>) -> PyResult<Inbox> {
        Inbox::new(self.handle()?, attempts_max)
    }

    fn _thoughts(&self) -> PyResult<Thoughts> {
        Ok(Thoughts::new(self.handle()?))
    }

    fn _receiver(&self) -> PyResult<Receiver> {
        Receiver::new(self.handle()?)
    }

    #[pyo3(signature = (kind, *, since = None, until = None, columns = None))]
    fn _arrow(
        &self,
        kind: &str,
        since: Option<&Bound<'_, PyAny>>,
        until: Option<&Bound<'_, PyAny>>,
        columns: Option<Vec<String>>,
    ) -> PyResult<ArrowStream> {
        let kind = values::kind(Some(kind))?.ok_or_else(|| errors::fault("no kind"))?;
        let times = (values::time("since", since)?, values::time("until", until)?);
        ArrowStream::new(self.store()?, kind, times, columns)
    }
}

fn inputs(records: &Bound<'_, PyAny>, kind: Option<&str>) -> PyResult<(Vec<Input>, Vec<Head>)> {
    let kind = values::kind(kind)?;
    let (mut inputs, mut heads) = (Vec::new(), Vec::new());
    for record in records.try_iter()? {
        let input = values::input(&record?, kind)?;
        heads.push(input.head());
        inputs.push(input);
    }
    Ok((inputs, heads))
}

pub(crate) fn uuid(field: &str, text: &str) -> PyResult<decklog::uuid::Uuid> {
    text.parse()
        .map_err(|e| errors::invalid(field, &format!("{text:?} is no UUID: {e}")))
}

fn key(kind: &str, id: &Bound<'_, PyAny>, call_id: &str) -> PyResult<Key> {
    let kind = values::kind(Some(kind))?.ok_or_else(|| errors::fault("no kind"))?;
    let id = id.str()?;
    bindings::key(kind, to_json::text(&id, "id")?, call_id).or_raise()
}

/// The SHA-256 of arguments as canonical JSON (RFC 8785), in hexadecimal.
///
/// >>> args_sha256({"path": "main.rs"})[:8]
/// '02bfa9f4'
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn args_sha256(arguments: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(decklog::args_sha256(&to_json::payload(
        arguments,
        "arguments",
    )?))
}
