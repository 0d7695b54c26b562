//! Threads that write at the same time at level `Disk` share a transaction: one of them does the
//! work of all, with one write for each segment and one sync.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::thread::Thread;
use std::time::Instant;

use super::group_sync::{Group, Ticket};
use super::reentrancy;
use super::transaction::Txn;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Durability, Inner, process};

type Work = Box<dyn FnOnce(&mut Txn<'_>) + Send>;

#[derive(Default)]
pub(in crate::store) struct WriteGroup {
    state: Mutex<State>,
    /// Signalled when the group is complete.
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    /// Work that waits for the next transaction.
    jobs: Vec<(Work, Arc<Waiter>)>,
    group: Group,
    /// A thread does the work of a group.
    is_led: bool,
}

struct Waiter {
    thread: Thread,
    /// Of the transaction. Set once the work is done and synced.
    outcome: OnceLock<Result<()>>,
}

impl Inner {
    /// Runs `work` under the write lock, commits, and acknowledges. An error of `work` is returned
    /// after the commit, since what it wrote before the error is in the log.
    pub(crate) fn transact<T>(&self, work: impl FnOnce(&mut Txn<'_>) -> Result<T>) -> Result<T> {
        let mut txn = self.begin()?;
        let answer = work(&mut txn);
        // Commit even after an error: a dropped transaction would make the next writer rescan.
        let ticket = txn.commit()?;
        self.acknowledge(ticket)?;
        answer
    }

    /// As [`transact`](Inner::transact). At level `Disk`, other threads' work may be in the same
    /// transaction, and another thread may do the work.
    pub(crate) fn transact_together<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Txn<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        match self.durability {
            Durability::Process => self.transact(work),
            Durability::Disk => self.write_group.transact(self, work),
        }
    }

    /// Waits until a transaction's writes are as durable as this handle promises.
    pub(in crate::store) fn acknowledge(&self, ticket: Ticket) -> Result<()> {
        if self.durability == Durability::Disk {
            return self.sync.wait(ticket);
        }
        Ok(())
    }
}

impl WriteGroup {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Inner::transact`], in one transaction with the work of other threads.
    fn transact<T: Send + 'static>(
        &self,
        inner: &Inner,
        work: impl FnOnce(&mut Txn<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        reentrancy::check(inner)?;
        if inner.process.is_another() {
            return Err(process::forked(inner.storage.root()));
        }
        let (sender, answer) = mpsc::sync_channel(1);
        let work = move |txn: &mut Txn<'_>| drop(sender.send(work(txn)));
        let me = Arc::new(Waiter {
            thread: std::thread::current(),
            outcome: OnceLock::new(),
        });
        let mut state = self.lock();
        state.jobs.push((Box::new(work), Arc::clone(&me)));
        if state.group.join() {
            self.arrived.notify_one();
        }
        loop {
            if let Some(outcome) = me.outcome.get() {
                outcome.clone()?;
                break;
            }
            if state.is_led {
                drop(state);
                // `park` can return early. Then the loop parks the thread again.
                std::thread::park();
                state = self.lock();
            } else {
                state = self.lead(inner, state);
            }
        }
        drop(state);
        answer.try_recv().unwrap_or_else(|_| Err(panicked(inner)))
    }

    /// Does the work of all that wait, once the expected threads have joined.
    fn lead<'a>(
        &'a self,
        inner: &Inner,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        state.is_led = true;
        state = Group::gather(&self.arrived, state, |state| &state.group);
        let (jobs, waiters): (Vec<_>, Vec<_>) = std::mem::take(&mut state.jobs).into_iter().unzip();
        state.group.begin();
        drop(state);
        let started = Instant::now();
        let done = std::panic::catch_unwind(AssertUnwindSafe(|| {
            inner.transact(|txn| {
                for job in jobs {
                    job(txn);
                }
                Ok(())
            })
        }));
        let (outcome, panic) = match done {
            Ok(outcome) => (outcome, None),
            Err(panic) => (Err(panicked(inner)), Some(panic)),
        };
        for waiter in &waiters {
            let _ = waiter.outcome.set(outcome.clone());
        }
        let mut state = self.lock();
        state.is_led = false;
        state.group.end(started.elapsed());
        // One of the others leads the next group.
        let next = state.jobs.first().map(|(_, waiter)| waiter.thread.clone());
        drop(state);
        let me = std::thread::current().id();
        let served = waiters.iter().map(|waiter| waiter.thread.clone());
        for thread in served.chain(next).filter(|thread| thread.id() != me) {
            thread.unpark();
        }
        if let Some(panic) = panic {
            std::panic::resume_unwind(panic);
        }
        self.lock()
    }
}

fn panicked(inner: &Inner) -> Error {
    let message = "the thread that wrote this record panicked: it may or may not be in the log";
    Error::new(ErrorKind::Io, message).with_path(inner.storage.root())
}

impl std::fmt::Debug for WriteGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteGroup").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collections::AckStatus;
    use crate::storage::Memory;
    use crate::{Event, Store, event_type};

    fn open() -> Store {
        let options = Store::options().storage(Arc::new(Memory::new()));
        let options = options.upkeep(false).durability(Durability::Disk);
        options.open("in memory").unwrap()
    }

    /// Another thread may have written the record.
    #[test]
    fn each_thread_gets_the_answer_to_its_own_record() {
        const THREADS: i64 = 8;
        const EACH: i64 = 40;
        let store = open();
        let event = |id: i64, said: &str| {
            let event = Event::new(None, event_type::AGENT_STARTED).id(id);
            event.created_at(1_766_832_000_000 + id).payload(said)
        };
        // Returns how often the thread wrote the event that all want to write.
        let write = |thread: i64| {
            let mut won = 0;
            for id in (thread + 2) * EACH..(thread + 3) * EACH {
                let said = format!("{{\"by\":{thread}}}");
                let own = event(id, &said);
                assert_eq!(store.record(own.clone()).unwrap().status, AckStatus::Added);
                assert_eq!(store.record(own).unwrap().status, AckStatus::Unchanged);
                match store.record(event(1 + id % EACH, &said)) {
                    Ok(_) => won += 1,
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Conflict),
                }
            }
            won
        };
        let won: i64 = std::thread::scope(|scope| {
            let write = &write;
            let start = |thread| scope.spawn(move || write(thread));
            let threads: Vec<_> = (0..THREADS).map(start).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(won, EACH);
        let last_seq = store.counts().unwrap().last_seq;
        assert_eq!(last_seq, u64::try_from(EACH * (THREADS + 1)).unwrap());
    }

    /// The threads whose work it did get an error, and the group goes on.
    #[test]
    fn a_panic_ends_nobody_elses_wait() {
        let store = open();
        let record = |id: i64| {
            let event = Event::new(None, event_type::AGENT_STARTED).id(id);
            store.record(event)
        };
        record(1).unwrap();
        std::thread::scope(|scope| {
            let panicking = scope.spawn(|| {
                let inner = store.inner();
                inner.transact_together(|_| -> Result<()> { panic!("on purpose") })
            });
            let other = scope.spawn(|| record(2));
            // Either thread does the work that panics, if they are in one group.
            let panics = [panicking.join().is_err(), other.join().is_err()];
            assert_eq!(panics.iter().filter(|it| **it).count(), 1, "{panics:?}");
        });
        record(3).unwrap();
        assert!(store.get_event(3).unwrap().is_some());
    }
}
