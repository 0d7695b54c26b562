//! The inbox: a queue of tasks, each held by one worker at a time.

mod steps;

use std::time::Duration;

pub(super) use self::steps::{put, put_step};

use self::steps::read;
use super::as_of::Lists;
use super::page::{Cursor, Page, Walk};
use super::query::{is_of_time, query};
use super::{EVERYWHERE, at_status, collision, lifecycle, record_in, row_of, with_key};
use crate::error::{ErrorKind, Result};
use crate::index::{Hasher, Row, RowId, Select, Table};
use crate::line::Op;
use crate::record::{InboxStep, InboxTask, Kind, Record, TaskStatus, now};
use crate::store::{Reads, Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::Inbox;

query! {
    /// Selects the tasks to list.
    TaskQuery {
        filters {
            /// Only tasks with this status.
            status: TaskStatus = "status" "STATUS",
        }
        times {
            /// Only tasks queued at this time or later (`created_at`).
            since,
            /// Only tasks queued before this time.
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

/// Number of tasks by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct TaskCounts {
    /// Tasks that wait for a worker.
    pub queued: usize,
    /// Tasks that a worker has claimed.
    pub in_progress: usize,
    /// Completed tasks.
    pub done: usize,
    /// Failed tasks.
    pub failed: usize,
}

/// The tasks of a store. Returned by [`Store::inbox`].
///
/// ```
/// use decklog::Store;
/// use decklog::record::TaskStatus;
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// let inbox = store.inbox().attempts_max(3);
/// inbox.enqueue(7001, Some(r#"{"text":"deploy"}"#))?;
/// let task = inbox.claim()?.expect("queued above");
/// inbox.done(&task)?;
/// assert_eq!(inbox.counts()?.done, 1);
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Inbox<'a> {
    store: &'a Store,
    attempts_max: i64,
}

impl Store {
    /// The inbox.
    pub fn inbox(&self) -> Inbox<'_> {
        Inbox {
            store: self,
            attempts_max: i64::MAX,
        }
    }

    /// The next update to request from Telegram: the greatest `update_id` of the inbox plus 1, or 0
    /// if there is none.
    pub fn telegram_offset(&self) -> Result<i64> {
        self.inner().with_snapshot(|view| {
            let latest = view.index().update_id_max();
            Ok(latest.map_or(0, |id| id.saturating_add(1)))
        })
    }
}

impl Inbox<'_> {
    /// Maximum number of attempts of a task. After the last attempt, a task that is given back, or
    /// whose claim is released, fails instead. Default: no limit. Minimum: 1.
    #[must_use]
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.attempts_max = i64::from(attempts.max(1));
        self
    }

    /// Queues a task and returns it. If the `update_id` is known, returns the existing task.
    pub fn enqueue(&self, update_id: i64, payload: Option<&str>) -> Result<InboxTask> {
        self.put(InboxTask::new(update_id, payload.map(str::to_owned)))
    }

    /// Queues a message of a chat and returns its task. If the `update_id` is known, returns the
    /// existing task. `date` is stored as the sender gives it: Telegram's is in epoch seconds.
    pub fn enqueue_message(
        &self,
        update_id: i64,
        chat_id: i64,
        text: &str,
        date: i64,
    ) -> Result<InboxTask> {
        self.put(InboxTask::of_message(update_id, chat_id, text, date))
    }

    fn put(&self, task: InboxTask) -> Result<InboxTask> {
        let ack = self.store.record(task)?;
        let id = ack.assigned.unwrap_or(0);
        self.get(id)?.ok_or_else(collision)
    }

    /// The task with this id.
    pub fn get(&self, id: i64) -> Result<Option<InboxTask>> {
        let now = self.store.as_of(None);
        now.get::<TaskQuery>([&id.to_string(), ""], |task| task.id == id)
    }

    /// Lists tasks, in pages.
    pub fn list(&self, query: &TaskQuery) -> Result<Page<InboxTask>> {
        self.store.as_of(None).list(query, usize::MAX)
    }

    /// Number of tasks by status.
    pub fn counts(&self) -> Result<TaskCounts> {
        self.store.inner().with_snapshot(|view| {
            let table = view.table(KIND);
            let (start, end) = EVERYWHERE;
            let count = |status| table.walk(at_state(status), start, end).count();
            let queued = count(TaskStatus::Queued);
            let in_progress = count(TaskStatus::InProgress);
            let failed = count(TaskStatus::Failed);
            Ok(TaskCounts {
                queued,
                in_progress,
                // Most tasks are done, so the index keeps no list of them.
                done: table.len().saturating_sub(queued + in_progress + failed),
                failed,
            })
        })
    }

    /// Claims the oldest queued task; `None` if there is none. No other worker can claim the task
    /// until it is given back or its claim is released.
    pub fn claim(&self) -> Result<Option<InboxTask>> {
        // Without a lock first: idle workers poll often.
        if !self.is_any(TaskStatus::Queued)? {
            return Ok(None);
        }
        self.reading(TaskStatus::Queued, || {
            self.store.inner().transact(|txn| self.claim_first(txn))
        })
    }

    fn claim_first(&self, txn: &mut Txn<'_>) -> Result<Option<InboxTask>> {
        while let Some(row) = first(txn, TaskStatus::Queued) {
            let task = read(txn, &row)?.ok_or_else(collision)?;
            // The task was queued under a higher limit of attempts.
            if task.attempts >= self.attempts_max {
                put_made(txn, self.back(&task, None))?;
                continue;
            }
            let step = step(&task, TaskStatus::InProgress, None);
            let at = step.at;
            put_made(txn, step)?;
            return Ok(Some(InboxTask {
                status: TaskStatus::InProgress,
                attempts: task.attempts + 1,
                locked_at: Some(at),
                updated_at: at,
                ..task
            }));
        }
        Ok(None)
    }

    /// Completes a claimed task.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if the claim was released and another worker holds the
    /// task, [`Lifecycle`](ErrorKind::Lifecycle) if no worker holds it.
    pub fn done(&self, task: &InboxTask) -> Result<()> {
        self.end(task, TaskStatus::Done, None)
    }

    /// Fails a claimed task. It is not tried again.
    ///
    /// # Errors
    /// As [`done`](Inbox::done).
    pub fn fail(&self, task: &InboxTask, error: &str) -> Result<()> {
        self.end(task, TaskStatus::Failed, Some(error))
    }

    fn end(&self, task: &InboxTask, status: TaskStatus, error: Option<&str>) -> Result<()> {
        let step = InboxStep {
            attempt: task.attempts,
            ..step(task, status, error)
        };
        self.put_held(step)
    }

    /// Gives a claimed task back to the queue for another attempt. Returns its status: failed if
    /// this was the last attempt.
    ///
    /// # Errors
    /// As [`done`](Inbox::done).
    pub fn retry(&self, task: &InboxTask, error: &str) -> Result<TaskStatus> {
        let step = self.back(task, Some(error));
        let status = step.status;
        self.put_held(step).map(|()| status)
    }

    /// Records a step of the worker that holds a task.
    fn put_held(&self, step: InboxStep) -> Result<()> {
        let inner = self.store.inner();
        let prepared = inner.policies().prepare(Record::from(step).checked()?)?;
        inner.transact(|txn| {
            let mut redacted = txn.redact_prepared(prepared)?;
            put_held(txn, &mut redacted).map_err(|e| with_key(e, redacted.record()))
        })
    }

    /// Releases claims at least as old as a timeout, such as those of workers that died, and claims
    /// at least as far in the future, such as those made before the clock was set back. Returns the
    /// tasks with their new status: queued, or failed if this was the last attempt.
    pub fn release_stale(&self, timeout: Duration) -> Result<Vec<InboxTask>> {
        let timeout = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let now = now();
        // A claim in the future was made before the clock was set back. Its age is unknown, and
        // waiting for its time to come may take days.
        let is_old = |at: i64| now.saturating_sub(at).saturating_abs() >= timeout;
        let is_stale = |task: &InboxTask| task.locked_at.is_none_or(is_old);
        if !self.is_any(TaskStatus::InProgress)? {
            return Ok(Vec::new());
        }
        self.reading(TaskStatus::InProgress, || {
            self.store.inner().transact(|txn| {
                let table = txn.table(KIND);
                let (start, end) = EVERYWHERE;
                let rows = table.walk(at_state(TaskStatus::InProgress), start, end);
                let mut released = Vec::new();
                for row in rows.filter_map(|row| table.row(row)) {
                    released.extend(read(txn, row)?.filter(is_stale));
                }
                for task in &mut released {
                    let reason = format!("the claim of attempt {} timed out", task.attempts);
                    let step = self.back(task, Some(&reason));
                    put_made(txn, step.clone())?;
                    task.status = step.status;
                    task.updated_at = step.at;
                    task.locked_at = None;
                    task.error = Some(reason);
                }
                Ok(released)
            })
        })
    }

    fn is_any(&self, status: TaskStatus) -> Result<bool> {
        self.store
            .inner()
            .with_snapshot(|view| Ok(first(view, status).is_some()))
    }

    /// Runs once more, on the current content of the files, if the line of a task with this status
    /// could not be read: a line that was damaged after it was indexed must not block the other
    /// tasks.
    fn reading<T>(&self, status: TaskStatus, run: impl Fn() -> Result<T>) -> Result<T> {
        match run() {
            Err(e) if e.kind() == ErrorKind::Damaged => {
                self.list(&TaskQuery {
                    status: Some(status),
                    limit: usize::MAX,
                    ..TaskQuery::default()
                })?;
                run()
            }
            answer => answer,
        }
    }

    /// The step that returns a task to the queue or, after its last attempt, fails it.
    fn back(&self, task: &InboxTask, error: Option<&str>) -> InboxStep {
        let is_last = task.attempts >= self.attempts_max;
        let status = if is_last {
            TaskStatus::Failed
        } else {
            TaskStatus::Queued
        };
        let last_words = format!("the task was tried {} times", task.attempts);
        InboxStep {
            attempt: task.attempts,
            ..step(task, status, error.or(is_last.then_some(&last_words)))
        }
    }
}

impl Lists for TaskQuery {
    type Item = InboxTask;
    const KIND: Kind = KIND;

    fn walk(&self, _: Hasher, _: bool) -> Walk {
        let select = self.status.map_or(Select::All, at_state);
        Walk::all(self.order, self.limit, self.after).of(select)
    }

    fn may_match(&self, table: &Table, row: RowId) -> bool {
        is_of_time(table, row, (self.since, self.until))
    }

    fn matches(&self, _: &InboxTask) -> bool {
        true
    }

    fn read(view: &Snapshot<'_>, row: RowId, _: Option<i64>) -> Result<Option<InboxTask>> {
        let row = view.table(KIND).row(row);
        row.map_or(Ok(None), |row| read(view, row))
    }
}

/// Writes a step that was made under the lock.
fn put_made(txn: &mut Txn<'_>, step: InboxStep) -> Result<()> {
    let mut redacted = txn.redact(Record::InboxStep(step))?;
    let put = put_step(txn, &mut redacted);
    put.map(drop).map_err(|e| with_key(e, redacted.record()))
}

fn put_held(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<()> {
    let step: &InboxStep = record_in(redacted.record())?;
    let found = row_of(txn, redacted.record());
    let waits = found.is_some_and(|(_, row)| row.stands() && row.state == Op::Queued);
    if step.attempt == 0 {
        // As a plain record, the step would apply to the latest attempt, which another worker may
        // hold.
        return Err(lifecycle(
            "the task was not claimed: give what claim returned",
        ));
    }
    if waits && step.status == TaskStatus::Failed {
        // As a plain record, the step would fail a task that no worker holds.
        return Err(lifecycle(format!(
            "the task is queued and attempt {} holds it no more: claim it first",
            step.attempt
        )));
    }
    put_step(txn, redacted).map(drop)
}

fn step(task: &InboxTask, status: TaskStatus, error: Option<&str>) -> InboxStep {
    InboxStep {
        id: task.id,
        status,
        at: now(),
        attempt: 0,
        error: error.map(str::to_owned),
    }
}

fn at_state(status: TaskStatus) -> Select {
    at_status(KIND, status.as_str())
}

fn first(from: &impl Reads, status: TaskStatus) -> Option<Row> {
    let table = from.table(KIND);
    let (start, end) = EVERYWHERE;
    let mut rows = table.walk(at_state(status), start, end);
    rows.next().and_then(|row| table.row(row).copied())
}
