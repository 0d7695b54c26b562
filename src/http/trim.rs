//! Gives memory back to the system after requests held much of it. The C library of GNU keeps what
//! was freed between blocks in use, and would keep it for as long as the server runs. Of long blocks
//! it would keep still more: see [`keep_no_long_blocks`].

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory::Memory;

/// Between two looks at what is held.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How many looks in a row must find less than half of the most that was held.
const CALM_LOOKS: u32 = 3;
/// What must have been given up for the work to be worth it.
const FALL_BYTES_MIN: usize = 16 << 20;
/// Between two times that memory is given back.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// A block from this length on is in pages of its own, which the system has back once it is freed.
const LONG_BYTES: libc::c_int = 512 << 10;
/// What may be free at the end of an arena.
const END_BYTES: libc::c_int = 1 << 20;

/// Has the C library go by these lengths for as long as the process runs. Else it raises its own with
/// each long block that is freed: then blocks of up to 32 MiB come from arenas, each of which may
/// keep 64 MiB at its end, and [`malloc_trim`](libc::malloc_trim) looks at the end of the first arena
/// only.
fn keep_no_long_blocks() {
    for (which, bytes) in [
        (libc::M_MMAP_THRESHOLD, LONG_BYTES),
        (libc::M_TRIM_THRESHOLD, END_BYTES),
    ] {
        // Safety: it takes no pointer, and may be called on any thread at any time.
        if unsafe { libc::mallopt(which, bytes) } != 1 {
            tracing::debug!(which, "the allocator cannot be set");
        }
    }
}

/// Looks after what requests hold, until the server ends.
pub(super) async fn keep_trimmed(memories: [Arc<Memory>; 2]) {
    keep_no_long_blocks();
    let mut watched = Watched::default();
    let mut trimmed: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let most = memories.iter().map(|memory| memory.take_most()).sum();
        let may_trim = trimmed.is_none_or(|at| at.elapsed() >= TRIM_INTERVAL);
        if watched.look(most) && may_trim {
            watched = Watched::default();
            // It takes each arena's lock in turn.
            let _ = tokio::task::spawn_blocking(trim).await;
            trimmed = Some(Instant::now());
        }
    }
}

/// What is known of what was held.
#[derive(Debug, Default)]
struct Watched {
    most: usize,
    calm_looks: u32,
}

impl Watched {
    /// Takes in the most that was held since the last look; whether much has been given up since
    /// the most there was.
    fn look(&mut self, most: usize) -> bool {
        self.most = self.most.max(most);
        let is_calm = most <= self.most / 2 && self.most - most >= FALL_BYTES_MIN;
        self.calm_looks = if is_calm { self.calm_looks + 1 } else { 0 };
        self.calm_looks >= CALM_LOOKS
    }
}

fn trim() {
    let started = Instant::now();
    // Safety: it takes no pointer, and may be called on any thread at any time.
    let is_any = unsafe { libc::malloc_trim(0) } == 1;
    let took_ms = started.elapsed().as_millis();
    tracing::debug!(is_any, took_ms, "memory was given back");
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_peak_that_has_passed_is_told_once() {
        let mut watched = Watched::default();
        // Nothing, and load that comes and goes.
        for held in [0, 0, 0, 100, 90, 10, 10, 80, 60, 40, 10] {
            assert!(!watched.look(held * MIB), "{held}");
        }
        assert!(watched.look(0));
        let mut watched = Watched::default();
        // Too little.
        for held in [0, 15, 0, 0, 0, 0, 0] {
            assert!(!watched.look(held * MIB), "{held}");
        }
    }
}
