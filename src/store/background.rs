//! Work that handles do later than the call that needs it: syncing, releasing the write lock, and
//! upkeep. All handles of a process share the threads.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use super::process::Process;

/// A kind of work. Each has threads of its own, so that a slow fsync does not delay the release of
/// the lock, nor an upkeep of minutes a sync.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Lane {
    Lock,
    Sync,
    Upkeep,
}

/// The properties of each lane.
const LANES: [LaneOptions; 3] = [
    // Its work never waits.
    LaneOptions {
        name: "decklog-lock",
        busy_max: 1,
        patience: None,
    },
    LaneOptions {
        name: "decklog-sync",
        busy_max: 4,
        patience: Some(Duration::from_millis(100)),
    },
    LaneOptions {
        name: "decklog-upkeep",
        busy_max: 1,
        patience: Some(Duration::from_secs(5)),
    },
];

#[derive(Debug, Clone, Copy)]
struct LaneOptions {
    /// The name of its threads.
    name: &'static str,
    /// Number of threads that work at once, unless all of them take long.
    busy_max: usize,
    /// How long a due job waits for them before one more thread may work, so that a disk that hangs
    /// delays no job for another disk for long.
    patience: Option<Duration>,
}

/// What a job does when it is due. Returns when it is due again, if it is.
type Work = dyn Fn() -> Option<Instant> + Send + Sync;

/// Something that a handle has done repeatedly. When it is dropped, its work is not done again;
/// dropping it waits for work in progress, except in the thread that does it.
#[derive(Debug)]
pub(in crate::store) struct Job {
    queue: &'static Queue,
    id: u64,
}

impl Job {
    /// Registers the job. It is due when `work` or [`wake_at`](Job::wake_at) says so.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(in crate::store) fn new(
        lane: Lane,
        work: impl Fn() -> Option<Instant> + Send + Sync + 'static,
    ) -> io::Result<Job> {
        pool().queues[lane as usize].add(Arc::new(work))
    }

    /// Makes the job due at a time, if it is not due earlier.
    pub(in crate::store) fn wake_at(&self, at: Instant) {
        let mut state = self.queue.lock();
        state.schedule(self.id, at);
        self.queue.staff(&mut state, self.id);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.queue.process.is_another() {
            // After a fork, the threads belong to the parent.
            return;
        }
        let mut state = self.queue.lock();
        if let Some(entry) = state.jobs.get_mut(&self.id) {
            entry.is_ending = true;
            if let Some(due) = entry.due.take() {
                state.order.remove(&(due, self.id));
            }
        }
        let me = std::thread::current().id();
        let runs_elsewhere = |state: &mut State| {
            let entry = state.jobs.get(&self.id);
            entry.is_some_and(|entry| entry.runs_in.is_some_and(|thread| thread != me))
        };
        let waited = self.queue.finished.wait_while(state, runs_elsewhere);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let entry = state.jobs.remove(&self.id);
        if state.jobs.is_empty() {
            self.queue.changed.notify_all();
        }
        drop(state);
        // What the work owns may take other locks when it is dropped.
        drop(entry);
    }
}

/// The queues of a process.
#[derive(Debug)]
struct Pool {
    process: Process,
    queues: [Queue; LANES.len()],
    /// The pool of a child that was forked from `process`, since threads do not survive that.
    of_child: OnceLock<Box<Pool>>,
}

impl Pool {
    fn new() -> Pool {
        let process = Process::default();
        Pool {
            process,
            queues: LANES.map(|options| Queue {
                options,
                process,
                state: Mutex::default(),
                changed: Condvar::new(),
                finished: Condvar::new(),
            }),
            of_child: OnceLock::new(),
        }
    }
}

/// The pool of this process.
fn pool() -> &'static Pool {
    static FIRST: OnceLock<Pool> = OnceLock::new();
    let mut pool = FIRST.get_or_init(Pool::new);
    while pool.process.is_another() {
        pool = pool.of_child.get_or_init(|| Box::new(Pool::new()));
    }
    pool
}

/// The jobs of a lane, and its threads. At most one thread waits for the next job to be due. One that
/// would be the second ends.
#[derive(Debug)]
struct Queue {
    options: LaneOptions,
    process: Process,
    state: Mutex<State>,
    /// Signalled when the waiting thread should look again.
    changed: Condvar,
    /// Signalled when work is done.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: HashMap<u64, Entry>,
    /// The jobs that are due at some time and not being worked on.
    order: BTreeSet<(Instant, u64)>,
    next_id: u64,
    threads: usize,
    /// Number of threads that do some job's work.
    busy: usize,
    /// Number of threads above [`LaneOptions::busy_max`] that may work, since the others take long.
    more: usize,
    /// When it was raised.
    raised: Option<Instant>,
    /// A thread was started and has not looked for a job yet.
    is_one_starting: bool,
    has_waiting: bool,
}

struct Entry {
    work: Arc<Work>,
    due: Option<Instant>,
    /// The thread that does the work at the moment.
    runs_in: Option<ThreadId>,
    /// The job is being dropped.
    is_ending: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

impl State {
    fn schedule(&mut self, id: u64, at: Instant) {
        let Some(entry) = self.jobs.get_mut(&id) else {
            return;
        };
        if entry.is_ending || entry.due.is_some_and(|due| due <= at) {
            return;
        }
        let later = entry.due.replace(at);
        // A job that is being worked on is put in order afterwards.
        if entry.runs_in.is_none() {
            if let Some(later) = later {
                self.order.remove(&(later, id));
            }
            self.order.insert((at, id));
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&'static self, work: Arc<Work>) -> io::Result<Job> {
        let mut state = self.lock();
        if state.threads == 0 {
            self.start_thread(&mut state)?;
        }
        let id = state.next_id;
        state.next_id += 1;
        let entry = Entry {
            work,
            due: None,
            runs_in: None,
            is_ending: false,
        };
        state.jobs.insert(id, entry);
        Ok(Job { queue: self, id })
    }

    fn start_thread(&'static self, state: &mut State) -> io::Result<()> {
        std::thread::Builder::new()
            .name(self.options.name.to_owned())
            .spawn(|| self.work())?;
        state.threads += 1;
        state.is_one_starting = true;
        Ok(())
    }

    /// Makes sure that a thread waits for the first job in the order. `changed`: the job whose time
    /// changed.
    fn staff(&'static self, state: &mut State, changed: u64) {
        let Some((_, first)) = state.order.first() else {
            return;
        };
        if state.has_waiting {
            if *first == changed {
                self.changed.notify_one();
            }
        } else if !state.is_one_starting
            && (self.has_room(state) || self.options.patience.is_some())
        {
            // If it cannot be started, one that is at work takes the job later.
            let _ = self.start_thread(state);
        }
    }

    /// What each thread does.
    fn work(&'static self) {
        let mut state = self.lock();
        state.is_one_starting = false;
        while !state.jobs.is_empty() {
            let first = state.order.first().copied();
            let start = first.and_then(|(due, id)| Some((self.start_time(&state, due)?, id)));
            let now = Instant::now();
            match start {
                Some((at, id)) if at <= now => {
                    state.order.pop_first();
                    if !self.has_room(&state) {
                        state.more += 1;
                        state.raised = Some(now);
                    }
                    state = self.run(id, state);
                }
                _ if state.has_waiting => break,
                _ => {
                    state.has_waiting = true;
                    state = self.wait(state, start.map(|(at, _)| at - now));
                    state.has_waiting = false;
                }
            }
        }
        state.threads -= 1;
    }

    fn wait<'a>(
        &self,
        state: MutexGuard<'a, State>,
        left: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let Some(left) = left else {
            let waited = self.changed.wait(state);
            return waited.unwrap_or_else(PoisonError::into_inner);
        };
        let waited = self.changed.wait_timeout(state, left);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// When a thread that is free may do a job that is due. `None` if it leaves the job to one that
    /// is at work.
    fn start_time(&self, state: &State, due: Instant) -> Option<Instant> {
        if self.has_room(state) {
            return Some(due);
        }
        let since = state.raised.map_or(due, |raised| raised.max(due));
        self.options.patience.map(|patience| since + patience)
    }

    fn has_room(&self, state: &State) -> bool {
        state.busy < self.options.busy_max + state.more
    }

    fn run(
        &'static self,
        id: u64,
        mut state: MutexGuard<'static, State>,
    ) -> MutexGuard<'static, State> {
        let Some(entry) = state.jobs.get_mut(&id) else {
            return state;
        };
        entry.due = None;
        entry.runs_in = Some(std::thread::current().id());
        let work = Arc::clone(&entry.work);
        state.busy += 1;
        // Another thread waits for the other jobs meanwhile.
        self.staff(&mut state, id);
        drop(state);
        // A panic ends no other job.
        let again = catch_unwind(AssertUnwindSafe(|| work())).unwrap_or(None);
        // What the work owns may take other locks when it is dropped.
        drop(work);
        let mut state = self.lock();
        state.busy -= 1;
        if state.busy < self.options.busy_max {
            state.more = 0;
        }
        if let Some(entry) = state.jobs.get_mut(&id) {
            entry.runs_in = None;
            let due = [entry.due.take(), again].into_iter().flatten().min();
            if let Some(due) = due {
                state.schedule(id, due);
            }
        }
        if state.has_waiting {
            // This job may be the next one, and others may be done sooner.
            self.changed.notify_one();
        }
        self.finished.notify_all();
        state
    }
}

#[cfg(test)]
mod tests;
