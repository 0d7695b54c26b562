//! The bounded queue between the callers and the writing thread, and the counts of records by result.
//! Its lock is never held across IO.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::{CaptureStats, WhenFull};
use crate::collections::{Ack, IfKnown};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;

/// Initial capacity, so that a burst does not wait for an allocation.
const RESERVED_RECORDS_MAX: usize = 10_000;
/// After a batch the writer collects records for this long, unless a caller waits or the queue
/// fills. Callers do not have to wake it during this time; waking it is the largest cost of a call.
const GATHER: Duration = Duration::from_millis(5);
/// How long the writer waits for more waiting callers if there were several last time. Half as many
/// start a batch, so that it is woken once for all of them.
const GATHER_AWAITED: Duration = Duration::from_micros(200);
/// Number of empty rounds after which the writer sleeps until it is woken.
const QUIET_ROUNDS_MAX: u32 = 20;

/// Called with the results of the records of one call, on the writing thread. Dropped without a call
/// if that thread fails.
pub(crate) type Answer = Box<dyn FnOnce(Vec<Result<Ack>>) + Send>;

/// A checked record on its way to the log.
pub(super) struct Job {
    /// The record, until it is written.
    pub(super) record: Option<Record>,
    pub(super) if_known: IfKnown,
    /// The length of its texts.
    pub(super) bytes: usize,
    /// Whether a caller waits for its result.
    pub(super) is_awaited: bool,
    /// The waiting caller, with the last of its records.
    pub(super) answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) records_max: usize,
    pub(super) bytes_max: usize,
    pub(super) when_full: WhenFull,
}

/// The state of the writer.
#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Busy with a bounded task.
    #[default]
    Busy,
    /// Waits briefly for more records, unless it is woken.
    Gathering,
    /// Waits until it is woken.
    Asleep,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// The length of the texts that `stats.queued` counts.
    bytes: usize,
    stats: CaptureStats,
    last_error: Option<Error>,
    phase: Phase,
    /// Callers that wait on `answered`.
    waiting: usize,
    /// Number of callers that wait for some of `jobs`.
    awaited: usize,
    /// Number of waiting callers that starts a batch.
    awaited_min: usize,
    closed_at: Option<Instant>,
    /// The fatal error after which nothing is written.
    dead: Option<Error>,
    /// The error of the last retry.
    locked: Option<Error>,
}

pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// Wakes the writer: there is work.
    work: Condvar,
    /// Wakes waiting callers: records were answered and there is space.
    answered: Condvar,
    writer: OnceLock<ThreadId>,
}

impl State {
    /// Whether enough callers wait.
    fn is_worth_a_batch(&self) -> bool {
        self.awaited >= self.awaited_min.max(1)
    }
}

impl Queue {
    pub(super) fn new(limits: Limits) -> Queue {
        let state = State {
            jobs: VecDeque::with_capacity(limits.records_max.min(RESERVED_RECORDS_MAX)),
            ..State::default()
        };
        Queue {
            limits,
            state: Mutex::new(state),
            work: Condvar::new(),
            answered: Condvar::new(),
            writer: OnceLock::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `count` records whose texts have `bytes` bytes, or none of them.
    pub(super) fn push(
        &self,
        count: usize,
        bytes: usize,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<()> {
        let mut state = self.lock();
        loop {
            if let Some(dead) = &state.dead {
                let error = dead.clone();
                state.stats.refused += count as u64;
                return Err(error);
            }
            if state.closed_at.is_some() {
                state.stats.refused += count as u64;
                let message = "the capture is closed: make a new one";
                return Err(Error::new(ErrorKind::Lifecycle, message));
            }
            if self.has_room(&state, count, bytes) {
                break;
            }
            // The writer itself, in `on_error`, must not wait for itself.
            if self.limits.when_full == WhenFull::Refuse || self.is_writer() {
                state.stats.refused += count as u64;
                let (queued, queued_bytes) = (state.stats.queued, state.bytes);
                drop(state);
                return Err(self.full(queued, queued_bytes));
            }
            state = self.wait(state);
        }
        let before = state.jobs.len();
        state.jobs.extend(jobs);
        let new = state.jobs.range(before..);
        state.awaited += new.filter(|job| job.answer.is_some()).count();
        state.bytes += bytes;
        state.stats.queued += count as u64;
        state.stats.accepted += count as u64;
        let wake = match state.phase {
            Phase::Busy => false,
            Phase::Gathering => state.is_worth_a_batch() || self.is_half_full(&state),
            Phase::Asleep => true,
        };
        if wake {
            state.phase = Phase::Busy;
            drop(state);
            self.work.notify_one();
        }
        Ok(())
    }

    fn has_room(&self, state: &State, count: usize, bytes: usize) -> bool {
        let queued = state.stats.queued as usize;
        queued == 0
            || queued.saturating_add(count) <= self.limits.records_max
                && state.bytes.saturating_add(bytes) <= self.limits.bytes_max
    }

    fn is_half_full(&self, state: &State) -> bool {
        state.stats.queued as usize >= self.limits.records_max / 2
            || state.bytes >= self.limits.bytes_max / 2
    }

    fn full(&self, queued: u64, bytes: usize) -> Error {
        let (records_max, bytes_max) = (self.limits.records_max, self.limits.bytes_max);
        let message = format!(
            "the capture queue is full, and the record was refused: {queued} of {records_max} records and {bytes} of {bytes_max} bytes wait; use a longer queue, or wait when it is full"
        );
        Error::new(ErrorKind::QueueFull, message)
    }

    /// Waits until records were answered.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        self.wake(&mut state);
        let waited = self.answered.wait(state);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn wake(&self, state: &mut State) {
        if state.phase != Phase::Busy {
            state.phase = Phase::Busy;
            self.work.notify_one();
        }
    }

    /// Returns when everything that is queued now was answered. Returns the number of lost records
    /// so far, and the error of the last one.
    pub(super) fn flush(&self) -> Result<(u64, Option<Error>)> {
        if self.is_writer() {
            let message = "flush was called in on_error, where it would wait for itself";
            return Err(Error::new(ErrorKind::Lifecycle, message));
        }
        let mut state = self.lock();
        let (upto, retries) = (state.stats.accepted, state.stats.lock_retries);
        while state.stats.answered() < upto {
            state = self.wait(state);
            if state.stats.lock_retries != retries
                && let Some(locked) = &state.locked
            {
                return Err(locked.clone());
            }
        }
        let last_error = state.last_error.clone();
        Ok((state.stats.lost(), last_error))
    }

    pub(super) fn stats(&self) -> CaptureStats {
        self.lock().stats
    }

    pub(super) fn last_error(&self) -> Option<Error> {
        self.lock().last_error.clone()
    }

    /// Stores an error for the next call that can report it.
    pub(super) fn note(&self, error: Error) {
        self.lock().last_error = Some(error);
    }

    /// Closes the queue: no more records are queued.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed_at.get_or_insert_with(Instant::now);
        self.wake(&mut state);
    }

    /// Whether this is the writing thread.
    pub(super) fn is_writer(&self) -> bool {
        self.writer.get() == Some(&std::thread::current().id())
    }
}

/// The writer's side.
impl Queue {
    /// Marks this thread as the writer.
    pub(super) fn begin(&self) {
        // There is one writer, which starts once.
        let _ = self.writer.set(std::thread::current().id());
    }

    /// Takes all queued records, in exchange for an empty queue; waits until there are some.
    /// `false` once the queue is closed and empty.
    pub(super) fn take(&self, into: &mut VecDeque<Job>) -> bool {
        let mut state = self.lock();
        let (mut has_gathered, mut quiet_rounds) = (false, 0);
        loop {
            state.phase = Phase::Busy;
            let is_closed = state.closed_at.is_some();
            if state.jobs.is_empty() {
                if is_closed {
                    return false;
                }
            } else if has_gathered
                || is_closed
                || state.is_worth_a_batch()
                || state.waiting > 0
                || self.is_half_full(&state)
            {
                state.awaited_min = (state.awaited / 2).max(1);
                state.awaited = 0;
                std::mem::swap(&mut state.jobs, into);
                return true;
            }
            let is_waiting = |state: &mut State| state.phase != Phase::Busy;
            if quiet_rounds < QUIET_ROUNDS_MAX {
                state.phase = Phase::Gathering;
                let is_awaited = state.awaited_min > 1;
                let gather = if is_awaited { GATHER_AWAITED } else { GATHER };
                let waited = self.work.wait_timeout_while(state, gather, is_waiting);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                quiet_rounds += 1;
            } else {
                state.phase = Phase::Asleep;
                let waited = self.work.wait_while(state, is_waiting);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
            has_gathered = true;
            // The callers of the previous batch did not return.
            state.awaited_min = 1;
        }
    }

    /// Counts results of records, and frees the space of their texts.
    pub(super) fn settle(&self, results: &CaptureStats, bytes: usize, last_error: Option<Error>) {
        let mut state = self.lock();
        state.stats.settle(results);
        state.bytes -= bytes;
        if last_error.is_some() {
            state.last_error = last_error;
        }
        self.notify(&state);
    }

    /// Another process holds the lock. Returns whether to retry: always while the queue is open,
    /// and until the timeout after it was closed.
    pub(super) fn may_retry(&self, locked: &Error, drain_timeout: Duration) -> bool {
        let mut state = self.lock();
        let closed_at = state.closed_at;
        if closed_at.is_some_and(|closed_at| closed_at.elapsed() >= drain_timeout) {
            return false;
        }
        state.stats.lock_retries += 1;
        state.locked = Some(locked.clone());
        self.notify(&state);
        true
    }

    /// Stops writing: every later call gets this error.
    pub(super) fn die(&self, error: Error) {
        let mut state = self.lock();
        state.dead.get_or_insert(error);
        self.notify(&state);
    }

    /// The writer ends. If it ended abnormally, queued records have failed.
    pub(super) fn end(&self) {
        let mut state = self.lock();
        if state.stats.queued == 0 && state.closed_at.is_some() {
            return;
        }
        let error = ended();
        state.dead.get_or_insert(error.clone());
        state.last_error = Some(error);
        state.stats.failed += state.stats.queued;
        state.stats.queued = 0;
        state.bytes = 0;
        state.jobs.clear();
        self.notify(&state);
    }

    fn notify(&self, state: &State) {
        if state.waiting > 0 {
            self.answered.notify_all();
        }
    }
}

/// The writing thread panicked.
pub(super) fn ended() -> Error {
    let message = "the writing thread of the capture has failed, and nothing more is captured: open the store again to recover";
    Error::new(ErrorKind::Poisoned, message)
}
