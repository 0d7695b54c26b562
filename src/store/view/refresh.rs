//! Brings a handle's state up to date before each read, and retries a read that met changed files.

use crate::error::{ErrorKind, Result};
use crate::store::commit::head::{self, Head};
use crate::store::commit::reentrancy;
use crate::store::view::read_ahead::ReadAhead;
use crate::store::view::state::State;
use crate::store::{Inner, Snapshot, root_check};

/// Who asks for more lines than this, one after the other and none of them expected, has the others
/// read while the state is locked.
const MISSES_MAX: u32 = 100;

/// How often something was asked that met something else than was known.
#[derive(Debug, Default)]
pub(in crate::store) struct Retries {
    all: u32,
    /// Without segments having been rewritten meanwhile, one after the other.
    in_vain: u32,
}

impl Retries {
    const MAX: u32 = 100;
    const IN_VAIN_MAX: u32 = 2;

    pub(in crate::store) fn are_left(&self) -> bool {
        self.all < Retries::MAX && self.in_vain < Retries::IN_VAIN_MAX
    }

    /// Notes one that failed.
    fn note(&mut self, is_rewritten: bool) {
        self.all += 1;
        self.in_vain = if is_rewritten { 0 } else { self.in_vain + 1 };
    }
}

impl Inner {
    /// The state, with all that any process acknowledged before this call.
    pub(crate) fn snapshot(&self) -> Result<Snapshot<'_>> {
        reentrancy::check(self)?;
        if let Some(commits) = self.head_reader.commits() {
            let state = self.state.read();
            if !state.is_stale && commits == state.commits {
                return Ok(Snapshot::new(self, state));
            }
        }
        self.catch_up()
    }

    /// As [`snapshot`](Self::snapshot), where something may be new.
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
            let state = self.state.read();
            if !state.is_stale && known == Some(state.commits) {
                return Ok(Snapshot::new(self, state));
            }
        }
        {
            let mut state = self.lock_state();
            // Another thread of this process may have written or caught up meanwhile.
            match (&head, commits()?) {
                (Some(head), Some(commits)) if state.is_stale || commits != state.commits => {
                    state.catch_up(storage, head, commits, false)?;
                }
                (Some(_), Some(_)) => {}
                _ => state.rescan(storage, head.as_deref(), false)?,
            }
        }
        let state = self.state.read();
        Ok(Snapshot::new(self, state))
    }

    pub(crate) fn rescan(&self) -> Result<()> {
        reentrancy::check(self)?;
        root_check::check(&*self.storage)?;
        let (head, _) = self.head_reader.head(&*self.storage)?;
        let mut state = self.lock_state();
        state.rescan(&*self.storage, head.as_deref(), false)
    }

    /// Asks the state. Where a line is not what the state says, as in a segment that was replaced
    /// a moment ago, looks at all segments and asks again. So it does with each line that was not
    /// read yet: files are read while the state is not locked.
    pub(crate) fn with_snapshot<T>(&self, ask: impl Fn(&Snapshot<'_>) -> Result<T>) -> Result<T> {
        let mut ahead = ReadAhead::recycled();
        let answer = self.with_snapshot_ahead(&mut ahead, ask);
        ahead.recycle();
        answer
    }

    /// As [`with_snapshot`](Self::with_snapshot), for who asks several times for lines that stand
    /// together.
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
            let view = self.snapshot()?;
            let view = view.with_ahead(known, misses > MISSES_MAX);
            let moved = view.state.moved;
            let mut answer = ask(&view);
            *ahead = view.into_ahead();
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

    /// Looks at the state, and reads files by what `look` saw there, while the state is not locked.
    /// Where that fails, as where a segment was taken away or replaced a moment ago or a line
    /// changed, looks at all segments and begins anew.
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
            drop(view);
            match read(reader, seen) {
                Err(_) if retries.are_left() => self.rescan_after_failure(&mut retries, moved)?,
                answer => return answer,
            }
        }
    }

    /// Looks at all segments after a try that met something else than is known, for all that was
    /// rewritten up to `moved`; after the second one in vain whatever is known.
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

    /// Moves over to rewritten segments before the lock is taken: it may take a while, in which
    /// others can write.
    pub(in crate::store) fn relocate_early(&self, head: &Head) {
        let storage = &*self.storage;
        let is_current = head.is_current(storage).unwrap_or(false);
        // What someone cut off must not be touched.
        if !is_current {
            return;
        }
        let Ok(moved) = head.moved() else {
            return;
        };
        let state = self.state.read();
        let is_behind = state.moved.is_some_and(|known| known != moved);
        drop(state);
        if is_behind {
            // A failure will be met under the lock.
            drop(self.snapshot());
        }
    }
}
