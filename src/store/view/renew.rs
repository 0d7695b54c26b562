//! Saves the index of a handle that stays open, and reads it from the sidecar from then on. The
//! handle's memory then does not grow with the log, and other processes open faster.

use std::time::Duration;

use super::sidecar;
use super::state::State;
use crate::segment::SegmentName;
use crate::store::Inner;
use crate::store::commit::head::Head;
use crate::store::options::SIDECAR_BYTES_MIN;

/// The sidecar is renewed after this many times [`Options::sidecar_bytes_min`] bytes.
///
/// [`Options::sidecar_bytes_min`]: crate::Options::sidecar_bytes_min
const TIMES: u64 = 256;
/// But not after fewer bytes than these.
const BYTES_MIN: u64 = 1 << 20;

/// Time before a renewal, in which the handle may close: this much for the default of
/// [`Options::sidecar_bytes_min`] or more, and less for less.
///
/// [`Options::sidecar_bytes_min`]: crate::Options::sidecar_bytes_min
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// Maximum number of bytes that are read while the state is locked. They take about 3 ms, since an
/// index of a sidecar reads a few pieces of it for each line.
const UNREAD_MAX: u64 = 128 << 10;
/// Maximum number of times that what was written meanwhile is read.
const PASSES_MAX: u32 = 4;

impl Inner {
    /// Time between the notice that the sidecar should be renewed and the renewal.
    pub(in crate::store) fn renewal_pause(&self) -> Duration {
        let parts = self.sidecar_bytes_min.min(SIDECAR_BYTES_MIN) * 1024 / SIDECAR_BYTES_MIN;
        (PAUSE_MAX / 1024 * u32::try_from(parts).unwrap_or(0)).max(PAUSE_MIN)
    }

    /// Whether so much was read or written since the last sidecar that it should be renewed. Is
    /// true once.
    pub(in crate::store) fn takes_renewal(&self, state: &mut State) -> bool {
        let enough = self.sidecar_bytes_min.saturating_mul(TIMES);
        let is_due = state.uncovered >= enough.max(BYTES_MIN);
        if is_due {
            state.uncovered = 0;
        }
        is_due
    }

    /// Writes a sidecar, and takes the index from it. Reads and writes go on meanwhile, since it is
    /// written from another state, which reads what the last sidecar does not cover. Errors are
    /// ignored: then the index stays in memory.
    pub(in crate::store) fn renew_sidecar(&self) {
        let state = self.read_state();
        let is_whole = state.is_sound() && state.damage_counts.total() == 0;
        drop(state);
        if !is_whole {
            return;
        }
        // Without the sidecar, if that has the segments in another order.
        let other = self.other_state(true).or_else(|| self.other_state(false));
        let Some(other) = other else {
            return;
        };
        let least = self.sidecar_bytes_min;
        sidecar::save(&*self.storage, self.store_id, &other, least);
        drop(other);
        let Some(mut renewed) = self.other_state(true) else {
            return;
        };
        // Each pass reads what was written during the one before. If that does not become less, the
        // index stays in memory until less is written.
        for _ in 0..PASSES_MAX {
            let read = renewed.uncovered;
            if self.read_into(&mut renewed).is_none() {
                return;
            }
            if renewed.uncovered.saturating_sub(read) <= UNREAD_MAX {
                self.take_over(renewed);
                return;
            }
        }
    }

    /// The names of this handle's segments, in its order.
    fn segment_names(&self) -> Vec<SegmentName> {
        let state = self.read_state();
        state.segments.iter().map(|known| known.name).collect()
    }

    /// A state that was read from the files, and from the sidecar if that is wanted. `None` if its
    /// segments are not in the order of this handle, as after another process has written the
    /// sidecar.
    fn other_state(&self, with_sidecar: bool) -> Option<State> {
        let names = self.segment_names();
        let mut other = State::new(self.hasher);
        if with_sidecar {
            sidecar::load(&*self.storage, self.store_id, &mut other);
        }
        for name in &names {
            other.place(*name);
        }
        if !other.is_in_order_of(&names) {
            return None;
        }
        self.read_into(&mut other)?;
        Some(other)
    }

    fn read_into(&self, other: &mut State) -> Option<()> {
        let storage = &*self.storage;
        let head = Head::open_for_reading(storage).ok()?;
        other.rescan(storage, head.as_ref(), false).ok()?;
        let is_whole = other.is_sound() && other.damage_counts.total() == 0;
        is_whole.then_some(())
    }

    /// Replaces the state by one that was read from the files, with what was added since.
    fn take_over(&self, mut renewed: State) {
        let mut state = self.lock_state();
        let known: Vec<SegmentName> = state.segments.iter().map(|known| known.name).collect();
        for name in &known {
            renewed.place(*name);
        }
        // This handle writes nothing while its state is locked.
        if !renewed.is_in_order_of(&known) || self.read_into(&mut renewed).is_none() {
            return;
        }
        if !state.is_sound() || renewed.max_seq < state.max_seq {
            return;
        }
        renewed.generation = state.generation + 1;
        renewed.seen_seq = renewed.seen_seq.max(state.seen_seq);
        renewed.uncovered = 0;
        let old = std::mem::replace(&mut *state, renewed);
        drop(state);
        // A large index is freed while others read and write.
        drop(old);
    }
}
