//! The lease of the write lock. It outlasts a transaction while others follow at once and no other
//! process waits, as taking the lock costs more than a small write.

use std::cell::RefCell;
use std::io;
use std::sync::{MutexGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use super::{Inner, State, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::storage::{Storage, full_path, io_error};
use crate::store::commit::head::{self, Head, Header, SEQ_UNKNOWN};
use crate::store::view::relocations;
use crate::store::{process, root_check};

/// Transactions that follow on each other within this time keep the lock between them.
const IDLE_MAX: Duration = Duration::from_millis(1);
/// How long the lock is kept while others wait for it.
const LEASE_MAX: Duration = Duration::from_millis(6);
/// How long the lock is kept before it is seen to that it is still the one that others wait for.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// How long to step back for those who were given a turn: longer than they sleep.
const BACKOFF: Duration = Duration::from_millis(3);

/// How often the lock is taken once more because it was taken away meanwhile.
const RETRIES_MAX: u32 = 100;

/// When the hold was taken and used.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTimes {
    taken: Instant,
    used: Instant,
    /// When the files of the lock were last seen to be the ones that others use.
    seen: Instant,
    /// When the lock was given away while others waited, if it was.
    given: Option<Instant>,
    /// Someone sees to it that the lock is given back.
    is_watched: bool,
}

impl Default for LeaseTimes {
    fn default() -> LeaseTimes {
        let now = Instant::now();
        LeaseTimes {
            taken: now,
            used: now,
            seen: now,
            given: None,
            is_watched: false,
        }
    }
}

impl Writer {
    /// Takes the lock and catches up on what other processes wrote; tells whether tails may have
    /// come to light that lack nothing but their LF.
    pub(super) fn acquire_lease<'s>(
        &mut self,
        inner: &'s Inner,
    ) -> Result<(RwLockWriteGuard<'s, State>, bool)> {
        if self.process.is_another() {
            return Err(process::forked(inner.storage.root()));
        }
        root_check::check(&*inner.storage).inspect_err(|e| {
            // The handle is bound to the old one for good.
            if e.kind() == ErrorKind::Poisoned {
                self.poisoned = Some(e.clone());
            }
        })?;
        for _ in 0..RETRIES_MAX {
            match self.try_acquire_lease(inner) {
                Ok(Some(taken)) => return Ok(taken),
                // Someone took `LOCK` away once more.
                Ok(None) => self.lock.release(),
                Err(e) => {
                    self.lock.release();
                    return Err(e);
                }
            }
        }
        let message = "the lock is taken away again and again: end who does that";
        let path = full_path(&*inner.storage, "LOCK");
        Err(Error::new(ErrorKind::Locked, message).with_path(&path))
    }

    /// `None` if the lock that was taken is not the one that others take by now.
    fn try_acquire_lease<'s>(
        &mut self,
        inner: &'s Inner,
    ) -> Result<Option<(RwLockWriteGuard<'s, State>, bool)>> {
        let storage = &*inner.storage;
        let head_io = |e| io_error(storage, "read or write HEAD", "HEAD", e);
        let (mut head, is_new) = self.lock_with_head(inner)?;
        let Some((found, settings)) = self.meet_holder(inner, &mut head).map_err(head_io)? else {
            return Ok(None);
        };
        let mut state = inner.lock_state();
        // A process that is still noted as the holder died or failed while it wrote.
        let intact = found.filter(|header| header.holder == 0 && state.is_sound());
        let mut header = intact.unwrap_or(Header {
            // Past what anyone saw.
            commits: found
                .map_or_else(head::initial_count, |found| found.commits)
                .max(state.commits),
            last_seq: SEQ_UNKNOWN,
            holder: 0,
            lapped: 0,
            settings,
        });
        header.holder = std::process::id();
        // Another file than before may be an older copy, and count again what others saw.
        let is_replaced = is_new && self.has_begun;
        if is_replaced {
            header.commits = header.commits.max(state.commits).max(head::initial_count());
        }
        let is_unknown = intact.is_some() && is_longer(storage, &head, &state).map_err(head_io)?;
        let rescan = intact.is_none() || is_replaced || is_unknown;
        if rescan {
            header.call_for_a_look();
        }
        if found.is_none_or(|found| found.holder != 0) {
            // Someone may have taken over what a process that died had yet to count.
            let moved = head.moved().map_err(head_io)?;
            let skipped = head.note_moved(moved + 2 * relocations::KEPT);
            skipped.map_err(head_io)?;
        }
        head.write_header(header).map_err(head_io)?;
        if is_new {
            // Its count may be another one's.
            self.settings_count = None;
        }
        if rescan {
            state.rescan(storage, Some(&head), true)?;
        } else if header.commits != state.commits {
            state.catch_up(storage, &head, header.commits, true)?;
        }
        // Where `HEAD` is gone too, the log may have been.
        if header.last_seq != SEQ_UNKNOWN {
            state.keep_numbers(header.last_seq);
        }
        self.head = Some(head);
        self.header = header;
        let now = Instant::now();
        self.times = LeaseTimes {
            taken: now,
            seen: now,
            ..self.times
        };
        Ok(Some((state, rescan || !self.has_begun)))
    }

    /// Takes the lock; `HEAD` as it is then, and whether it may be another file than before.
    fn lock_with_head(&mut self, inner: &Inner) -> Result<(Head, bool)> {
        let storage = &*inner.storage;
        let head_io = |e| io_error(storage, "read or write HEAD", "HEAD", e);
        // One that was let go of, by a failure, may have been replaced since.
        let (head, is_new) = match self.head.take() {
            Some(head) => (head, false),
            None => (Head::open_for_writing(storage).map_err(head_io)?, true),
        };
        inner.relocate_early(&head);
        if let Some(given) = self.times.given.take() {
            back_off(&head, given);
        }
        let head = RefCell::new(head);
        let waiting = || {
            let mut head = head.borrow_mut();
            head.share();
            head.request_lock();
            drop(head);
            // What is caught up on now need not be under the lock. A failure will be met there.
            drop(inner.snapshot());
        };
        self.lock.acquire(storage, inner.lock_timeout, &waiting)?;
        let mut head = head.into_inner();
        head.share();
        if head.is_current(storage).map_err(head_io)? {
            return Ok((head, is_new));
        }
        let head = Head::open_for_writing(storage).map_err(head_io)?;
        Ok((head, true))
    }

    /// Waits for who is noted in `HEAD` as the holder, and makes `HEAD` if it does not read as one.
    /// Returns what it says, if it says something, and its [`Header::settings`]; `None` if the lock
    /// is not the one that others take by now.
    fn meet_holder(
        &self,
        inner: &Inner,
        head: &mut Head,
    ) -> io::Result<Option<(Option<Header>, u64)>> {
        let mut found = head.header()?;
        let is_missing = found.is_none();
        let settings = match found {
            Some(header) => header.settings,
            None => head.clear()?,
        };
        // It died; or someone deleted `LOCK` while it keeps it, and it has yet to see that. It may
        // also be named in a `HEAD` that was deleted.
        let is_old = is_missing && !inner.is_empty();
        if head.is_shared() && (is_old || found.is_some_and(|header| header.holder != 0)) {
            if is_missing {
                head.write_header(Header {
                    last_seq: SEQ_UNKNOWN,
                    holder: std::process::id(),
                    settings,
                    ..Header::default()
                })?;
            }
            std::thread::sleep(CHECK_INTERVAL + IDLE_MAX * 5);
            if !self.lock.is_current(&*inner.storage)? {
                return Ok(None);
            }
            if !is_missing {
                found = head.header()?;
            }
        }
        Ok(Some((found, settings)))
    }

    /// Whether the files of the lock are still the ones that others use, as far as that is not
    /// known from a moment ago.
    fn is_seen(&mut self, inner: &Inner, now: Instant) -> bool {
        if now.duration_since(self.times.seen) < CHECK_INTERVAL {
            return true;
        }
        self.times.seen = now;
        let storage = &*inner.storage;
        let head = self.head.as_ref();
        storage.is_in_place().unwrap_or(false)
            && head.is_some_and(|head| head.is_current(storage).unwrap_or(false))
            && self.lock.is_current(storage).unwrap_or(false)
    }

    /// Whether to keep the lock after a transaction that ends now.
    pub(super) fn keeps_lease(&mut self, inner: &Inner) -> bool {
        let Some(head) = self.head.as_ref().filter(|head| head.is_shared()) else {
            return false;
        };
        let now = Instant::now();
        let follows_at_once = now.duration_since(self.times.used) < IDLE_MAX;
        self.times.used = now;
        let is_lock_requested = head.is_lock_requested();
        if !follows_at_once
            || is_lock_requested && now.duration_since(self.times.taken) >= LEASE_MAX
        {
            // A waiting process sleeps: released and taken again at once, the lock would never
            // seem free.
            self.times.given = is_lock_requested.then_some(now);
            return false;
        }
        if !self.is_seen(inner, now) {
            return false;
        }
        if !self.times.is_watched {
            self.times.is_watched = inner.start_lock_releaser();
        }
        self.times.is_watched
    }

    /// Gives the lock back after all was published.
    pub(in crate::store) fn release_lease(&mut self) {
        if let Some(head) = self.head.as_ref().filter(|_| self.lock.is_held()) {
            head.give_away();
        }
        self.lock.release();
    }

    /// Gives the lock back if it was not used lately; whether it needs no more watching.
    pub(in crate::store) fn release_if_idle(&mut self) -> bool {
        // Who does not have the lock any more leaves `HEAD` alone, which may have been cut since.
        if self.lock.is_held() {
            let is_lock_requested = self.head.as_ref().is_some_and(Head::is_lock_requested);
            let is_due = self.times.used.elapsed() >= IDLE_MAX
                || is_lock_requested && self.times.taken.elapsed() >= LEASE_MAX;
            if !is_due {
                return false;
            }
            self.times.given = is_lock_requested.then(Instant::now);
        }
        self.times.is_watched = false;
        self.release_lease();
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process.is_another() {
            // The lock is the parent's too: unlocked here, it would be lost there.
            return;
        }
        self.release_lease();
    }
}

/// Whether a segment is longer than `HEAD` says: someone had the lock and wrote without noting it.
fn is_longer(storage: &dyn Storage, head: &Head, state: &State) -> io::Result<bool> {
    for reach in head.reaches()? {
        let id = state.by_name.get(&reach.segment);
        let known = id.map(|id| &state.segments[*id as usize]);
        if known.is_some_and(|known| known.is_sealed) {
            continue;
        }
        // Where it ends in what is no line, `HEAD` does not count that.
        let end = known.map_or(reach.end, |known| known.expected_len().max(reach.end));
        let found = storage.stat(&reach.segment.path());
        // What is gone, or cannot be read, is met by who needs it.
        if found.is_ok_and(|found| found.len > end) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets others take the lock that was given away while they waited for it.
fn back_off(head: &Head, given: Instant) {
    let is_free = || {
        head.header()
            .is_ok_and(|header| header.is_some_and(|header| header.holder == 0))
    };
    while is_free() && given.elapsed() < BACKOFF {
        std::thread::sleep(Duration::from_micros(20));
    }
}

/// The lock and the state under it; tells what [`acquire_lease`](Writer::acquire_lease) tells.
pub(super) fn lease<'s>(
    inner: &'s Inner,
    writer: &mut MutexGuard<'s, Writer>,
) -> Result<(RwLockWriteGuard<'s, State>, bool)> {
    if writer.lock.is_held() && !writer.is_seen(inner, Instant::now()) {
        writer.release_lease();
    }
    if writer.lock.is_held() {
        let state = inner.lock_state();
        if state.is_sound() {
            return Ok((state, false));
        }
        drop(state);
        writer.release_lease();
    }
    writer.acquire_lease(inner)
}
