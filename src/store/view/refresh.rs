//! Brings a handle's state up to date before each read, and retries a read if files changed.

use std::io;

use crate::error::{ErrorKind, Result};
use crate::store::commit::head::{self, Head, Reach};
use crate::store::commit::reentrancy;
use crate::store::view::read_ahead::ReadAhead;
use crate::store::view::state::State;
use crate::store::{Inner, Snapshot, root_check};

/// Maximum number of unexpected lines in one call that are read without the lock. Further lines
/// are read while the state is locked.
const MISSES_MAX: u32 = 100;

/// Maximum number of bytes appended by other processes that are read under the write lock, while
/// other writers wait. They take about 5 ms. Of 20 processes that write without pauses, each finds
/// more than 1 MiB at each turn, and would have to wait twice.
const APPENDED_MAX: u64 = 4 << 20;

/// Counts the attempts that failed because files differ from the state.
#[derive(Debug, Default)]
pub(in crate::store) struct Retries {
    all: u32,
    /// Consecutive attempts without a rewrite of segments in between.
    in_vain: u32,
}

impl Retries {
    const MAX: u32 = 100;
    const IN_VAIN_MAX: u32 = 2;

    pub(in crate::store) fn are_left(&self) -> bool {
        self.all < Retries::MAX && self.in_vain < Retries::IN_VAIN_MAX
    }

    /// Counts a failed attempt.
    fn note(&mut self, is_rewritten: bool) {
        self.all += 1;
        self.in_vain = if is_rewritten { 0 } else { self.in_vain + 1 };
    }
}

impl Inner {
    /// The state, including everything that any process acknowledged before this call.
    pub(crate) fn snapshot(&self) -> Result<Snapshot<'_>> {
        reentrancy::check(self)?;
        if let Some(commits) = self.head_reader.commits() {
            let state = self.read_state();
            if state.is_current(commits) {
                return Ok(Snapshot::new(self, state));
            }
        }
        self.catch_up()
    }

    /// A further snapshot of a call. It is at least as new as the first, so it includes everything
    /// that was acknowledged before the call, and does not look for the commits of other processes
    /// again.
    fn later_snapshot(&self) -> Result<Snapshot<'_>> {
        let state = self.read_state();
        if !state.is_usable() {
            drop(state);
            return self.catch_up();
        }
        Ok(Snapshot::new(self, state))
    }

    /// As [`snapshot`](Self::snapshot), if the state may be out of date.
    #[cold]
    fn catch_up(&self) -> Result<Snapshot<'_>> {
        let storage = &*self.storage;
        let (head, is_another) = self.head_reader.head(storage)?;
        if is_another {
            self.lock_state().is_stale = true;
        }
        let io = |e| head::unread(storage, e);
        let commits = || {
            head.as_ref()
                .map_or(Ok(None), |head| head.commits())
                .map_err(io)
        };
        let known = commits()?;
        {
            let state = self.read_state();
            if known.is_some_and(|known| state.is_current(known)) {
                return Ok(Snapshot::new(self, state));
            }
        }
        {
            let mut state = self.lock_state();
            state.limit_memory();
            // Another thread of this process may have written or caught up meanwhile.
            match (&head, commits()?) {
                (Some(head), Some(commits)) if !state.is_usable() || commits != state.commits => {
                    state.catch_up(storage, head, commits, false)?;
                }
                (Some(_), Some(_)) => {}
                _ => state.rescan(storage, head.as_deref(), false)?,
            }
        }
        let state = self.read_state();
        Ok(Snapshot::new(self, state))
    }

    pub(crate) fn rescan(&self) -> Result<()> {
        reentrancy::check(self)?;
        root_check::check(&*self.storage)?;
        let (head, _) = self.head_reader.head(&*self.storage)?;
        let mut state = self.lock_state();
        state.look_at_all();
        state.rescan(&*self.storage, head.as_deref(), false)
    }

    /// Calls `ask` with a snapshot. If a line differs from the state, for example because its
    /// segment was just replaced, rescans all segments and calls it again. It is also called again
    /// after each line that was not read ahead, since files are read while the state is not
    /// locked.
    pub(crate) fn with_snapshot<T>(&self, ask: impl Fn(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        self.with_snapshot_ahead(&mut ReadAhead::new(), ask)
    }

    /// As [`with_snapshot`](Self::with_snapshot), for several calls that read adjacent lines.
    pub(crate) fn with_snapshot_ahead<T>(
        &self,
        ahead: &mut ReadAhead,
        ask: impl Fn(&Snapshot<'_>) -> Result<T>,
    ) -> Result<T> {
        let mut retries = Retries::default();
        let mut misses = 0;
        ahead.trim();
        loop {
            let known = std::mem::take(ahead);
            let view = if misses == 0 {
                self.snapshot()?
            } else {
                self.later_snapshot()?
            };
            let view = view.with_ahead(known, misses > MISSES_MAX);
            let moved = view.state.moved;
            let mut answer = ask(&view);
            let is_broken = view.is_broken();
            *ahead = view.into_ahead();
            if is_broken {
                ahead.clear();
                ahead.forget_missing();
                continue;
            }
            if !ahead.is_missing() {
            } else if answer.is_ok() {
                ahead.forget_missing();
            } else if let Err(e) = self.read_missing(ahead) {
                answer = Err(e);
            } else {
                misses += 1;
                continue;
            }
            match answer {
                Err(e) if e.kind() == ErrorKind::Damaged && retries.are_left() => {
                    ahead.clear();
                    self.rescan_after_failure(&mut retries, moved)?;
                }
                answer => return answer,
            }
        }
    }

    /// Calls `look` with the state, and then `read` with the result, which reads files while the
    /// state is not locked. If `read` fails, for example because a segment was removed or replaced
    /// or a line changed, rescans all segments and starts again.
    pub(in crate::store) fn look_and_read<R, S, T>(
        &self,
        reader: &mut R,
        look: impl Fn(&mut R, &State) -> S,
        read: impl Fn(&mut R, S) -> Result<T>,
    ) -> Result<T> {
        let mut retries = Retries::default();
        loop {
            let view = self.snapshot()?;
            let (moved, seen) = (view.state.moved, look(reader, &view.state));
            let is_broken = view.is_broken();
            drop(view);
            if is_broken {
                continue;
            }
            match read(reader, seen) {
                Err(_) if retries.are_left() => self.rescan_after_failure(&mut retries, moved)?,
                answer => return answer,
            }
        }
    }

    /// Rescans all segments after a failed attempt with a state that included rewrites up to
    /// `moved`. After the second failure in a row without a new rewrite, discards the state first.
    pub(in crate::store) fn rescan_after_failure(
        &self,
        retries: &mut Retries,
        moved: Option<u64>,
    ) -> Result<()> {
        let (head, _) = self.head_reader.head(&*self.storage)?;
        let now = head.and_then(|head| head.moved().ok());
        retries.note(now.is_some() && now != moved);
        if retries.in_vain > 1 {
            self.lock_state().forget();
        }
        self.rescan()
    }

    /// Whether catching up takes long: segments were rewritten, or other processes appended more
    /// than [`APPENDED_MAX`] since.
    pub(in crate::store) fn is_behind(&self, head: &Head) -> bool {
        let state = self.read_state();
        let Some(known) = state.moved else {
            return false;
        };
        let is_behind = || -> io::Result<bool> {
            if head.moved()? != known {
                return Ok(true);
            }
            if head
                .commits()?
                .is_none_or(|commits| commits <= state.commits)
            {
                return Ok(false);
            }
            let news = head.changes_after(state.commits)?;
            Ok(news.is_none_or(|news| unread_len(&state, &news.reaches) > APPENDED_MAX))
        };
        is_behind().unwrap_or(false)
    }
}

/// The number of bytes up to these lengths that the state does not have yet.
fn unread_len(state: &State, reaches: &[Reach]) -> u64 {
    let unread = |reach: &Reach| {
        let id = state.by_name.get(&reach.segment);
        let read = id.map_or(0, |id| state.segments[*id as usize].end);
        reach.end.saturating_sub(read)
    };
    reaches.iter().map(unread).fold(0, u64::saturating_add)
}
