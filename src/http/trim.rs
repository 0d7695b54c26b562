//! Returns memory to the system after requests used much of it. glibc keeps freed memory between
//! used blocks for as long as the server runs, and keeps more if blocks are long: see
//! [`keep_no_long_blocks`].

#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::memory::Memory;

/// Interval of checks.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of consecutive checks that must find less than half of the maximum before a trim.
const CALM_LOOKS: u32 = 3;
/// Minimum amount of released memory that justifies a trim.
const FALL_BYTES_MIN: usize = 16 << 20;
/// Minimum interval of trims.
const TRIM_INTERVAL: Duration = Duration::from_secs(10);

/// Blocks of at least this length are mapped, and return to the system when freed.
const LONG_BYTES: libc::c_int = 512 << 10;
/// Maximum of free memory at the end of an arena.
const END_BYTES: libc::c_int = 1 << 20;

/// Fixes these limits of glibc for the whole process. By default glibc raises them with each freed
/// long block. Blocks of up to 32 MiB then come from arenas, each of which may keep 64 MiB at its
/// end, and [`malloc_trim`](libc::malloc_trim) only trims the end of the first arena.
fn keep_no_long_blocks() {
    for (which, bytes) in [
        (libc::M_MMAP_THRESHOLD, LONG_BYTES),
        (libc::M_TRIM_THRESHOLD, END_BYTES),
    ] {
        // Safety: `mallopt` takes no pointer, and may be called on any thread at any time.
        if unsafe { libc::mallopt(which, bytes) } != 1 {
            tracing::debug!(which, "the allocator cannot be set");
        }
    }
}

/// Checks the memory of requests, until the server ends.
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
            // Blocking, because it takes the lock of each arena in turn.
            let _ = tokio::task::spawn_blocking(trim).await;
            trimmed = Some(Instant::now());
        }
    }
}

/// The history of held memory.
#[derive(Debug, Default)]
struct Watched {
    most: usize,
    calm_looks: u32,
}

impl Watched {
    /// Adds the maximum since the last check. Returns whether much memory was released since the
    /// overall maximum.
    fn look(&mut self, most: usize) -> bool {
        self.most = self.most.max(most);
        let is_calm = most <= self.most / 2 && self.most - most >= FALL_BYTES_MIN;
        self.calm_looks = if is_calm { self.calm_looks + 1 } else { 0 };
        self.calm_looks >= CALM_LOOKS
    }
}

fn trim() {
    let started = Instant::now();
    // Safety: `malloc_trim` takes no pointer, and may be called on any thread at any time.
    let is_any = unsafe { libc::malloc_trim(0) } == 1;
    let took_ms = started.elapsed().as_millis();
    tracing::debug!(is_any, took_ms, "memory was returned to the system");
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_peak_that_has_passed_is_told_once() {
        let mut watched = Watched::default();
        // No load, and intermittent load.
        for held in [0, 0, 0, 100, 90, 10, 10, 80, 60, 40, 10] {
            assert!(!watched.look(held * MIB), "{held}");
        }
        assert!(watched.look(0));
        let mut watched = Watched::default();
        // Too little memory was released.
        for held in [0, 15, 0, 0, 0, 0, 0] {
            assert!(!watched.look(held * MIB), "{held}");
        }
    }
}
