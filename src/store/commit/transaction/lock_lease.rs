//! The lease of the write lock. The lock is kept after a transaction while others follow at once
//! and no other process waits, since taking it costs more than a small write.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{MutexGuard, RwLockWriteGuard};

use super::waiting_line::{WaitingLine, back_off};
use super::{Inner, State, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::segment::SegmentName;
use crate::storage::{FileStat, Storage, full_path, io_error};
use crate::store::background::{Job, Lane};
use crate::store::commit::head::{self, Head, Header, SEQ_UNKNOWN};
use crate::store::view::relocations;
use crate::store::{process, root_check};

/// Maximum idle time between transactions for which the lock is kept. Taking it costs a tenth.
const IDLE_MAX: Duration = Duration::from_micros(100);
/// Interval at which the background checks whether a kept lock is idle.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time that the lock is kept while other processes wait for it.
const LEASE_MAX: Duration = Duration::from_millis(3);
/// Interval at which a process that keeps the lock checks that others still use the same files.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time in which a process that just checked ends its transaction.
const CHECK_MARGIN: Duration = Duration::from_millis(5);

/// Number of segments, of those that `HEAD` lists, whose files are looked at each time the lock is
/// taken: the ones appended to last.
const LOOKED_AT: usize = 8;
/// Interval at which all that it lists are looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of times that a process which is far behind releases the lock to catch up first.
const CATCH_UPS_MAX: u32 = 4;

/// Maximum number of times that the lock is taken again because the lock file was removed.
const RETRIES_MAX: u32 = 100;

/// When the lock was taken and used.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseTimes {
    taken: Instant,
    /// When the current transaction began.
    begun: Instant,
    /// When the last one ended.
    used: Instant,
    /// When `LOCK` and `HEAD` were last checked to be the files that others use.
    seen: Instant,
    /// When the files of all segments in `HEAD` were last looked at, if they were.
    looked: Option<Instant>,
    /// When the lock was released while others waited, if it was.
    given: Option<Instant>,
    /// Whether the background thread will release the lock.
    is_watched: bool,
}

impl Default for LeaseTimes {
    fn default() -> LeaseTimes {
        let now = Instant::now();
        LeaseTimes {
            taken: now,
            begun: now,
            used: now,
            seen: now,
            looked: None,
            given: None,
            is_watched: false,
        }
    }
}

impl Writer {
    /// Takes the lock and reads what other processes wrote. Also returns whether there may be last
    /// lines that lack only their LF.
    pub(super) fn acquire_lease<'s>(
        &mut self,
        inner: &'s Inner,
    ) -> Result<(RwLockWriteGuard<'s, State>, bool)> {
        if self.process.is_another() {
            return Err(process::forked(inner.storage.root()));
        }
        root_check::check(&*inner.storage).inspect_err(|e| {
            // The handle stays bound to the old directory.
            if e.kind() == ErrorKind::Poisoned {
                self.poisoned = Some(e.clone());
            }
        })?;
        for _ in 0..RETRIES_MAX {
            match self.try_acquire_lease(inner) {
                Ok(Some(taken)) => return Ok(taken),
                // The lock file was removed again.
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

    /// `None` if other processes use another lock file by now.
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
        // A process that is still the holder in `HEAD` died or failed while it wrote.
        let intact = found.filter(|header| header.holder == 0 && state.is_sound());
        let mut header = intact.unwrap_or(Header {
            // Greater than any count seen before.
            commits: found
                .map_or_else(head::clock_us, |found| found.commits)
                .max(state.commits),
            last_seq: SEQ_UNKNOWN,
            holder: 0,
            lapped: 0,
            settings,
        });
        header.holder = std::process::id();
        // A new file may be an older copy and reuse counts that others have seen.
        let is_replaced = is_new && self.has_begun;
        if is_replaced {
            header.commits = header.commits.max(state.commits).max(head::clock_us());
        }
        let found_files = match intact {
            Some(_) => {
                let looks_at = self.looks_at();
                unless_longer(storage, &head, &state, looks_at).map_err(head_io)?
            }
            None => None,
        };
        let rescan = found_files.is_none() || is_replaced;
        if rescan {
            header.call_for_a_look();
        }
        if found.is_none_or(|found| found.holder != 0) {
            // Another handle may have applied a rewrite that the dead process had not counted yet.
            // Skip so many numbers that every handle reads the segments instead.
            let moved = head.moved().map_err(head_io)?;
            let skipped = head.note_moved(moved + 2 * relocations::KEPT);
            skipped.map_err(head_io)?;
        }
        head.write_header(header).map_err(head_io)?;
        if is_new {
            // The new file's settings count may be from another store.
            self.settings_count = None;
        }
        if rescan {
            state.rescan(storage, Some(&head), true)?;
        } else if header.commits != state.commits {
            state.catch_up(storage, &head, header.commits, true)?;
        }
        for (segment, found) in found_files.into_iter().flatten() {
            if let Some(id) = state.by_name.get(&segment).filter(|_| !rescan) {
                self.note_checked(*id, &state.segments[*id as usize], &found);
            }
        }
        // If `HEAD` was removed, the log may have been removed, too: then numbers may be reused.
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

    /// Number of segments to look at when the lock is taken now.
    fn looks_at(&mut self) -> usize {
        let is_recent = |looked: Instant| looked.elapsed() < LOOK_INTERVAL;
        if self.times.looked.is_some_and(is_recent) {
            return LOOKED_AT;
        }
        self.times.looked = Some(Instant::now());
        usize::MAX
    }

    /// Takes the lock. Returns `HEAD`, and whether it may be another file than before.
    fn lock_with_head(&mut self, inner: &Inner) -> Result<(Head, bool)> {
        let storage = &*inner.storage;
        let head_io = |e| io_error(storage, "read or write HEAD", "HEAD", e);
        // `HEAD` is closed after a failure. It may have been replaced since.
        let (head, is_new) = match self.head.take() {
            Some(head) => (head, false),
            None => (Head::open_for_writing(storage).map_err(head_io)?, true),
        };
        if let Some(given) = self.times.given.take() {
            back_off(storage, &head, given);
        }
        let head = RefCell::new(head);
        let line = WaitingLine::new(inner, &head);
        for attempt in 0..=CATCH_UPS_MAX {
            let acquired = self
                .lock
                .acquire(storage, inner.lock_timeout, &|| line.is_next());
            let mut locked = head.borrow_mut();
            let is_current = locked.is_current(storage);
            if is_current.as_ref().is_ok_and(|is_current| *is_current) {
                locked.share();
                line.leave(&locked, acquired.is_err());
            }
            acquired?;
            if !is_current.map_err(head_io)? {
                break;
            }
            let is_behind = attempt < CATCH_UPS_MAX && inner.is_behind(&locked);
            drop(locked);
            if !is_behind {
                return Ok((head.into_inner(), is_new));
            }
            // Others can write meanwhile, but less each time. An error is returned later, under
            // the lock.
            self.lock.release();
            drop(inner.snapshot());
        }
        let head = Head::open_for_writing(storage).map_err(head_io)?;
        Ok((head, true))
    }

    /// Waits for the holder named in `HEAD`. Initializes `HEAD` if it is invalid. Returns its
    /// header, if it was valid, and its [`Header::settings`]; `None` if other processes use
    /// another lock file by now.
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
        // The holder died; or `LOCK` was deleted while it held it, and it has not noticed yet. It
        // may also be named in a deleted `HEAD`.
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
            std::thread::sleep(CHECK_INTERVAL + CHECK_MARGIN);
            if !self.lock.is_current(&*inner.storage)? {
                return Ok(None);
            }
            if !is_missing {
                found = head.header()?;
            }
        }
        Ok(Some((found, settings)))
    }

    /// Whether `LOCK` and `HEAD` are still the files that others use. Checked at most once per
    /// [`CHECK_INTERVAL`].
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
        let idle = self.times.begun.duration_since(self.times.used);
        let follows_at_once = idle < IDLE_MAX;
        self.times.used = now;
        let is_lock_requested = head.is_lock_requested();
        if !follows_at_once
            || is_lock_requested && now.duration_since(self.times.taken) >= LEASE_MAX
        {
            // A waiting process sleeps between attempts. If the lock were taken again at once,
            // that process would never find it free.
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

    /// Releases the lock after everything was published.
    pub(in crate::store) fn release_lease(&mut self) {
        if let Some(head) = self.head.as_ref().filter(|_| self.lock.is_held()) {
            head.give_away();
        }
        self.lock.release();
    }

    /// Releases the lock if it is idle. Returns whether no more checks are needed.
    pub(in crate::store) fn release_if_idle(&mut self) -> bool {
        // Without the lock, do not access `HEAD`: the file may have been truncated.
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

impl Inner {
    /// Has the kept lock released in the background when it is idle. Returns `false` if that is not
    /// possible. The caller holds the writer.
    fn start_lock_releaser(&self) -> bool {
        let next_check = || Instant::now() + IDLE_CHECK_INTERVAL;
        if self.lock_releaser.get().is_none() {
            let writer = Arc::clone(&self.writer);
            let job = Job::new(Lane::Lock, move || {
                // If another thread has the writer, it is in use.
                let is_released = writer
                    .try_lock()
                    .is_some_and(|mut writer| writer.release_if_idle());
                (!is_released).then(next_check)
            });
            let Ok(job) = job else {
                return false;
            };
            let _ = self.lock_releaser.set(job);
        }
        if let Some(job) = self.lock_releaser.get() {
            job.wake_at(next_check());
        }
        true
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.process.is_another() {
            // The lock is shared with the parent process: unlocking it here would unlock it there.
            return;
        }
        self.release_lease();
    }
}

/// The files of the segments in `HEAD`, of at most `looks_at` of them, those appended to last. `None`
/// if one is longer than `HEAD` says: a process appended under the lock without publishing.
fn unless_longer(
    storage: &dyn Storage,
    head: &Head,
    state: &State,
    looks_at: usize,
) -> io::Result<Option<Vec<(SegmentName, FileStat)>>> {
    let mut files = Vec::new();
    let mut left = looks_at;
    for reach in head.last_reaches()? {
        let id = state.by_name.get(&reach.segment);
        let known = id.map(|id| &state.segments[*id as usize]);
        if known.is_some_and(|known| known.is_sealed) {
            continue;
        }
        if left == 0 {
            break;
        }
        left -= 1;
        // `HEAD` does not count a tail that is not a line.
        let end = known.map_or(reach.end, |known| known.expected_len().max(reach.end));
        let found = storage.stat(&reach.segment.path());
        // A missing or unreadable segment is reported when it is used.
        let Ok(found) = found else { continue };
        if found.len > end {
            return Ok(None);
        }
        files.push((reach.segment, found));
    }
    Ok(Some(files))
}

/// Takes the lock, unless it is still held, and the state. Returns the same as
/// [`acquire_lease`](Writer::acquire_lease).
pub(super) fn lease<'s>(
    inner: &'s Inner,
    writer: &mut MutexGuard<'s, Writer>,
) -> Result<(RwLockWriteGuard<'s, State>, bool)> {
    let now = Instant::now();
    writer.times.begun = now;
    if writer.lock.is_held() && !writer.is_seen(inner, now) {
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
