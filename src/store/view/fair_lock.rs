//! A reader-writer lock in which a stream of readers cannot starve a writer.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum time that a reader yields to a writer that was woken and does not hold the lock yet.
const WAIT_MAX: Duration = Duration::from_millis(1);

/// A fair reader-writer lock. The lock of the standard library wakes a waiting writer but stays
/// free until that thread runs. A reader that takes the lock again and again gets it first each
/// time, and the writer starves.
#[derive(Debug)]
pub(in crate::store) struct FairLock<T> {
    lock: RwLock<T>,
    /// Number of waiting writers.
    waiting: AtomicU32,
}

impl<T> FairLock<T> {
    pub(in crate::store) fn new(value: T) -> FairLock<T> {
        FairLock {
            lock: RwLock::new(value),
            waiting: AtomicU32::new(0),
        }
    }

    /// Ignores poisoning: a transaction that panicked leaves the state marked as stale if it is
    /// not sound.
    pub(in crate::store) fn read(&self) -> RwLockReadGuard<'_, T> {
        if self.is_awaited() {
            let since = Instant::now();
            while self.is_awaited() && since.elapsed() < WAIT_MAX {
                thread::yield_now();
            }
        }
        self.lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store) fn write(&self) -> RwLockWriteGuard<'_, T> {
        match self.lock.try_write() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(e)) => return e.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.lock.write().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    pub(in crate::store) fn get_mut(&mut self) -> &mut T {
        self.lock.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::AtomicBool;

    use super::*;

    /// A writer gets the lock between two parts of a reader, not after the last one.
    #[test]
    fn a_reader_of_many_parts_lets_a_writer_in() {
        const WRITES: usize = 200;
        let lock = FairLock::new(());
        let (is_over, parts) = (AtomicBool::new(false), AtomicU32::new(0));
        let read = || {
            while !is_over.load(Ordering::Relaxed) {
                let part = lock.read();
                let began = Instant::now();
                while began.elapsed() < Duration::from_micros(200) {}
                parts.fetch_add(1, Ordering::Relaxed);
                drop(part);
            }
        };
        let mut waited = thread::scope(|scope| {
            scope.spawn(read);
            let write = |_| {
                thread::sleep(Duration::from_micros(300));
                let before = parts.load(Ordering::Relaxed);
                drop(lock.write());
                parts.load(Ordering::Relaxed) - before
            };
            let waited: Vec<u32> = (0..WRITES).map(write).collect();
            is_over.store(true, Ordering::Relaxed);
            waited
        });
        waited.sort_unstable();
        let [median, most] = [WRITES / 2, WRITES * 9 / 10].map(|place| waited[place]);
        assert!(median <= 2 && most <= 10, "{waited:?}");
    }
}
