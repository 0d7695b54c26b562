//! The bounded queue between the callers and the thread that writes, and the count of what became
//! of each record. Its lock is never held across IO.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::WhenFull;
use super::stats::{Answers, CaptureStats};
use crate::collections::{Ack, IfKnown};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;

/// Room for so many records is there from the start, so that a burst does not wait for it.
const RESERVED_RECORDS_MAX: usize = 10_000;
/// After a batch the writer gathers for this long before it writes the next one, unless someone
/// waits for it or the queue fills. Callers need not wake it meanwhile, which is what would cost a
/// call the most.
const GATHER: Duration = Duration::from_millis(5);
/// For how long it waits for others who wait, where several did last time: as many as half of those
/// make a batch, so that it is woken once for all of them.
const GATHER_AWAITED: Duration = Duration::from_micros(200);
/// After so many times that nothing came it sleeps until it is woken.
const QUIET_ROUNDS_MAX: u32 = 20;

/// Is told what became of the records of one call, on the thread that writes. Dropped without a word
/// if that thread fails.
pub(crate) type Answer = Box<dyn FnOnce(Vec<Result<Ack>>) + Send>;

/// A checked record on its way to the log.
pub(super) struct Job {
    /// Until it is written.
    pub(super) record: Option<Record>,
    pub(super) if_known: IfKnown,
    /// The length of its texts.
    pub(super) bytes: usize,
    /// Whether someone waits for what becomes of it.
    pub(super) is_awaited: bool,
    /// With the last of those that are awaited together: who waits.
    pub(super) answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) records_max: usize,
    pub(super) bytes_max: usize,
    pub(super) when_full: WhenFull,
}

/// What the writer does.
#[derive(Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Something that ends by itself.
    #[default]
    Busy,
    /// It waits a moment for more, unless it is woken.
    Gathering,
    /// It waits until it is woken.
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
    /// How many wait for some of `jobs`.
    awaited: usize,
    /// How many are worth a batch.
    awaited_min: usize,
    closed_at: Option<Instant>,
    /// Why nothing more is written.
    dead: Option<Error>,
    /// Why the last batch that was tried again had to be.
    locked: Option<Error>,
}

pub(super) struct Queue {
    limits: Limits,
    state: Mutex<State>,
    /// To the writer: there is work.
    work: Condvar,
    /// To the callers that wait: records were answered, and there is room.
    answered: Condvar,
    writer: OnceLock<ThreadId>,
}

impl State {
    /// Whether as many wait as are to be waited for.
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
            if self.has_room(&state, count, bytes) {
                break;
            }
            // The writer itself, in `on_error`, must not wait for what it alone can do.
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
        }
        drop(state);
        if wake {
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
        let Limits {
            records_max,
            bytes_max,
            ..
        } = self.limits;
        let message = format!(
            "the queue of captured records is full, and the record was refused: {queued} of {records_max} records and {bytes} of {bytes_max} bytes wait; allow a longer queue, or let callers wait"
        );
        Error::new(ErrorKind::QueueFull, message)
    }

    /// Waits until records were answered.
    fn wait<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.waiting += 1;
        self.wake(&mut state);
        let mut state = self
            .answered
            .wait(state)
            .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
        state
    }

    fn wake(&self, state: &mut State) {
        if state.phase != Phase::Busy {
            state.phase = Phase::Busy;
            self.work.notify_one();
        }
    }

    /// Returns once everything that is queued now is answered: how many records were lost so far,
    /// and why the last one was.
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

    /// Keeps an error that no one is there to be told.
    pub(super) fn note(&self, error: Error) {
        self.lock().last_error = Some(error);
    }

    /// No one will queue anything more.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed_at = Some(Instant::now());
        self.wake(&mut state);
    }

    /// Whether this is the thread that writes.
    pub(super) fn is_writer(&self) -> bool {
        self.writer.get() == Some(&std::thread::current().id())
    }
}

/// The writer's side.
impl Queue {
    /// This thread writes.
    pub(super) fn begin(&self) {
        // There is one writer, which begins once.
        let _ = self.writer.set(std::thread::current().id());
    }

    /// Takes everything that waits, in exchange for an empty queue; waits for something to take.
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
            if quiet_rounds < QUIET_ROUNDS_MAX {
                state.phase = Phase::Gathering;
                let is_awaited = state.awaited_min > 1;
                let gather = if is_awaited { GATHER_AWAITED } else { GATHER };
                let is_gathering = |state: &mut State| state.phase == Phase::Gathering;
                state = self
                    .work
                    .wait_timeout_while(state, gather, is_gathering)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                quiet_rounds += 1;
            } else {
                state.phase = Phase::Asleep;
                state = self
                    .work
                    .wait_while(state, |state| state.phase == Phase::Asleep)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            has_gathered = true;
            // Those of last time do not come again.
            state.awaited_min = 1;
        }
    }

    /// Counts what became of records, and makes room for others.
    pub(super) fn settle(&self, answers: Answers) {
        let mut state = self.lock();
        state.stats.settle(&answers);
        state.bytes -= answers.bytes;
        if answers.last_error.is_some() {
            state.last_error = answers.last_error;
        }
        self.tell(&state);
    }

    /// Another process holds the lock. Whether to try again: always, but for so long after the
    /// queue was closed.
    pub(super) fn may_retry(&self, locked: &Error, drain_timeout: Duration) -> bool {
        let mut state = self.lock();
        let closed_for = state.closed_at.map(|closed_at| closed_at.elapsed());
        if closed_for.is_some_and(|closed_for| closed_for >= drain_timeout) {
            return false;
        }
        state.stats.lock_retries += 1;
        state.locked = Some(locked.clone());
        self.tell(&state);
        true
    }

    /// Nothing more is written: every later call gets this error.
    pub(super) fn die(&self, error: Error) {
        let mut state = self.lock();
        state.dead.get_or_insert(error);
        self.tell(&state);
    }

    /// The writer ends. If it does not end as it should, what waits has failed.
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
        self.tell(&state);
    }

    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.answered.notify_all();
        }
    }
}

/// The thread that writes panicked.
pub(super) fn ended() -> Error {
    let message = "the thread that writes captured records has failed, and nothing more is captured: open the store again to recover";
    Error::new(ErrorKind::Poisoned, message)
}
