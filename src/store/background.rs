//! Work that handles do later than the call that needs it: syncing, releasing the write lock, and
//! upkeep. All handles of a process share the threads.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::Instant;

use super::process::Process;

/// A kind of work. Each has threads of its own, so that a slow fsync does not delay the release of
/// the lock, nor an upkeep of minutes a sync.
#[derive(Debug, Clone, Copy)]
pub(in crate::store) enum Lane {
    Lock,
    Sync,
    Upkeep,
}

/// The names of the threads of each lane, and the maximum number of threads that work at once.
const LANES: [(&str, usize); 3] = [
    ("decklog-lock", 1),
    ("decklog-sync", 4),
    ("decklog-upkeep", 1),
];

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
        let queue = &pool().queues[lane as usize];
        let mut state = queue.lock();
        if state.threads == 0 {
            queue.start_thread(&mut state)?;
        }
        let id = state.next_id;
        state.next_id += 1;
        let entry = Entry {
            work: Arc::new(work),
            due: None,
            runs_in: None,
        };
        state.jobs.insert(id, entry);
        Ok(Job { queue, id })
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
        if let Some(due) = state.jobs.get(&self.id).and_then(|entry| entry.due) {
            state.order.remove(&(due, self.id));
        }
        let me = std::thread::current().id();
        let runs_elsewhere = |state: &mut State| {
            let entry = state.jobs.get(&self.id);
            entry.is_some_and(|entry| entry.runs_in.is_some_and(|thread| thread != me))
        };
        let waited = self.queue.finished.wait_while(state, runs_elsewhere);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let entry = state.jobs.remove(&self.id);
        if let Some(due) = entry.as_ref().and_then(|entry| entry.due) {
            state.order.remove(&(due, self.id));
        }
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
            queues: LANES.map(|(name, threads_max)| Queue {
                name,
                threads_max,
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

/// The jobs of a lane, and its threads. At most one thread waits for the next job to be due; one
/// that would be the second ends.
#[derive(Debug)]
struct Queue {
    name: &'static str,
    threads_max: usize,
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
    has_waiting: bool,
}

struct Entry {
    work: Arc<Work>,
    due: Option<Instant>,
    /// The thread that does the work at the moment.
    runs_in: Option<ThreadId>,
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
        if entry.due.is_some_and(|due| due <= at) {
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

    fn start_thread(&'static self, state: &mut State) -> io::Result<()> {
        std::thread::Builder::new()
            .name(self.name.to_owned())
            .spawn(|| self.work())?;
        state.threads += 1;
        Ok(())
    }

    /// Makes sure that a thread waits for the first job in the order, if there may be one more.
    /// `changed`: the job whose time changed.
    fn staff(&'static self, state: &mut State, changed: u64) {
        let Some((_, first)) = state.order.first() else {
            return;
        };
        if state.has_waiting {
            if *first == changed {
                self.changed.notify_one();
            }
        } else if state.threads < self.threads_max {
            // If it cannot be started, one that is at work takes the job later.
            let _ = self.start_thread(state);
        }
    }

    /// What each thread does.
    fn work(&'static self) {
        let mut state = self.lock();
        while !state.jobs.is_empty() && !state.has_waiting {
            let now = Instant::now();
            let Some(&(due, id)) = state.order.first() else {
                state.has_waiting = true;
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                state.has_waiting = false;
                continue;
            };
            if due > now {
                state.has_waiting = true;
                let waited = self.changed.wait_timeout(state, due - now);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                state.has_waiting = false;
                continue;
            }
            state.order.pop_first();
            state = self.run(id, state);
        }
        state.threads -= 1;
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
        // Another thread waits for the other jobs meanwhile.
        self.staff(&mut state, id);
        drop(state);
        // A panic ends no other job.
        let again = catch_unwind(AssertUnwindSafe(|| work())).unwrap_or(None);
        // What the work owns may take other locks when it is dropped.
        drop(work);
        let mut state = self.lock();
        if let Some(entry) = state.jobs.get_mut(&id) {
            entry.runs_in = None;
            let due = [entry.due.take(), again].into_iter().flatten().min();
            if let Some(due) = due {
                state.schedule(id, due);
            }
        }
        self.finished.notify_all();
        state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn threads(lane: Lane) -> usize {
        pool().queues[lane as usize].lock().threads
    }

    #[test]
    fn work_is_done_when_it_is_due_and_again_when_it_says_so() {
        let (done, runs) = mpsc::channel();
        let left = AtomicUsize::new(2);
        let job = Job::new(Lane::Sync, move || {
            done.send(Instant::now()).expect("the test waits");
            let is_last = left.fetch_sub(1, Ordering::Relaxed) == 0;
            (!is_last).then(|| Instant::now() + Duration::from_millis(5))
        });
        let job = job.expect("a thread");
        let due = Instant::now() + Duration::from_millis(30);
        job.wake_at(due + LONG);
        job.wake_at(due);
        job.wake_at(due + LONG);
        let ran: Vec<Instant> = (0..3)
            .map(|_| runs.recv_timeout(LONG).expect("it runs"))
            .collect();
        assert!(ran[0] >= due, "not before it is due");
        assert!(ran.is_sorted());
        let more = runs.recv_timeout(Duration::from_millis(50));
        assert!(more.is_err(), "not after it said that it is done");
    }

    #[test]
    fn many_jobs_share_few_threads_and_a_slow_one_delays_no_other() {
        let (release, is_released) = mpsc::channel::<()>();
        let is_released = Mutex::new(is_released);
        let slow = Job::new(Lane::Sync, move || {
            let _ = is_released.lock().expect("unharmed").recv_timeout(LONG);
            None
        });
        let slow = slow.expect("a thread");
        slow.wake_at(Instant::now());
        let (done, runs) = mpsc::channel();
        let jobs: Vec<Job> = (0..50)
            .map(|i| {
                let done = done.clone();
                let work = move || {
                    let _ = done.send(i);
                    None
                };
                Job::new(Lane::Sync, work).expect("a thread")
            })
            .collect();
        for job in &jobs {
            job.wake_at(Instant::now());
        }
        let mut ran: Vec<i32> = (0..50)
            .map(|_| runs.recv_timeout(LONG).expect("it runs"))
            .collect();
        ran.sort_unstable();
        assert_eq!(ran, (0..50).collect::<Vec<_>>());
        assert!(threads(Lane::Sync) <= LANES[Lane::Sync as usize].1);
        release.send(()).expect("it waits");
        drop((jobs, slow));
    }

    #[test]
    fn dropping_a_job_waits_for_its_work_and_a_panic_ends_no_other_job() {
        let ends = Arc::new(AtomicUsize::new(0));
        let begins = Arc::new(Barrier::new(2));
        let slow = {
            let (begins, ends) = (Arc::clone(&begins), Arc::clone(&ends));
            Job::new(Lane::Sync, move || {
                begins.wait();
                std::thread::sleep(Duration::from_millis(30));
                ends.fetch_add(1, Ordering::SeqCst);
                Some(Instant::now())
            })
        };
        let slow = slow.expect("a thread");
        slow.wake_at(Instant::now());
        begins.wait();
        drop(slow);
        assert_eq!(ends.load(Ordering::SeqCst), 1);

        let panics = Job::new(Lane::Sync, || panic!("on purpose")).expect("a thread");
        panics.wake_at(Instant::now());
        let (done, runs) = mpsc::channel();
        let next = Job::new(Lane::Sync, move || {
            let _ = done.send(());
            None
        });
        let next = next.expect("a thread");
        next.wake_at(Instant::now());
        runs.recv_timeout(LONG).expect("it runs");
        drop(panics);
        drop(next);
    }

    #[test]
    fn a_job_can_be_dropped_by_its_own_work() {
        let own: Arc<Mutex<Option<Job>>> = Arc::default();
        let (done, runs) = mpsc::channel();
        let job = {
            let own = Arc::clone(&own);
            Job::new(Lane::Upkeep, move || {
                drop(own.lock().expect("unharmed").take());
                let _ = done.send(());
                None
            })
        };
        let mut place = own.lock().expect("unharmed");
        place.insert(job.expect("a thread")).wake_at(Instant::now());
        drop(place);
        runs.recv_timeout(LONG).expect("it ends");
    }
}
