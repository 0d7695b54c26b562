//! Limits the memory of all requests: bodies until they are answered, and answers until they are
//! sent. A request beyond the limit is answered 503 with `Retry-After`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Bytes;
use memmap2::MmapMut;

use super::problem::Problem;

/// Bodies up to this length have a separate allowance, so that long ones do not block them.
pub(super) const SMALL_BYTES: usize = 64 << 10;
/// The part of all memory for short bodies.
const SMALL_PART: usize = 8;

/// Memory for bodies.
#[derive(Debug)]
pub(super) struct Memory {
    bytes_max: usize,
    large_max: usize,
    small: AtomicUsize,
    large: AtomicUsize,
    /// Maximum number of held bytes since it was last read.
    most: AtomicUsize,
}

impl Memory {
    /// A limit of this many bytes, but at least two bodies of the maximum length, because a
    /// compressed body counts twice.
    pub(super) fn new(bytes_max: usize, body_bytes_max: usize) -> Arc<Memory> {
        let small = (bytes_max / SMALL_PART).max(SMALL_BYTES);
        let large = (bytes_max - bytes_max / SMALL_PART).max(body_bytes_max.saturating_mul(2));
        Arc::new(Memory {
            bytes_max: small.saturating_add(large),
            large_max: large,
            small: AtomicUsize::new(small),
            large: AtomicUsize::new(large),
            most: AtomicUsize::new(0),
        })
    }

    /// The memory for long bodies, in bytes.
    pub(super) fn large_max(&self) -> usize {
        self.large_max
    }

    /// Maximum number of held bytes since the last call.
    #[cfg_attr(not(all(target_os = "linux", target_env = "gnu")), allow(dead_code))]
    pub(super) fn take_most(&self) -> usize {
        let held = self.bytes_held();
        self.most.swap(held, Ordering::Relaxed).max(held)
    }

    fn note_most(&self) {
        let held = self.bytes_held();
        if held > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(held, Ordering::Relaxed);
        }
    }

    fn bytes_held(&self) -> usize {
        let left = self.small.load(Ordering::Relaxed) + self.large.load(Ordering::Relaxed);
        self.bytes_max.saturating_sub(left)
    }

    /// Reserves memory for a future answer of up to this length, or for less if the limit is lower.
    pub(super) fn reserve(self: &Arc<Memory>, bytes: usize) -> Result<Held, Problem> {
        let mut held = self.held();
        held.grow(bytes.min(self.large_max))?;
        Ok(held)
    }

    /// A reservation, empty at first.
    pub(super) fn held(self: &Arc<Memory>) -> Held {
        Held {
            memory: Arc::clone(self),
            small: 0,
            large: 0,
        }
    }
}

fn take(from: &AtomicUsize, bytes: usize) -> bool {
    let taken = from.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
        left.checked_sub(bytes)
    });
    taken.is_ok()
}

/// Memory that is reserved until this is dropped.
#[derive(Debug)]
pub(super) struct Held {
    memory: Arc<Memory>,
    small: usize,
    large: usize,
}

impl Held {
    /// Reserves this many bytes in total, and releases the rest.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Problem> {
        let kept = bytes.next_multiple_of(SMALL_BYTES);
        if let Some(rest) = self.large.checked_sub(kept) {
            self.large = kept;
            self.memory.large.fetch_add(rest, Ordering::AcqRel);
        }
        self.grow(bytes)
    }

    /// Reserves this many bytes in total.
    pub(super) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        if bytes <= self.small + self.large {
            return Ok(());
        }
        let Memory { small, large, .. } = &*self.memory;
        if bytes <= SMALL_BYTES && self.large == 0 && take(small, bytes - self.small) {
            self.small = bytes;
            self.memory.note_most();
            return Ok(());
        }
        // Grows in steps.
        let wanted = bytes.next_multiple_of(SMALL_BYTES);
        if !take(large, wanted - self.large) {
            let detail = format!(
                "other requests hold the {} bytes of memory for bodies: try again later",
                self.memory.bytes_max
            );
            return Err(Problem::unavailable("busy", detail));
        }
        self.large = wanted;
        small.fetch_add(std::mem::take(&mut self.small), Ordering::AcqRel);
        self.memory.note_most();
        Ok(())
    }
}

impl Held {
    /// The same bytes, which hold this memory until they are dropped.
    pub(super) fn keep(self: &Arc<Held>, bytes: impl AsRef<[u8]> + Send + 'static) -> Bytes {
        Bytes::from_owner(Kept {
            bytes,
            _held: Arc::clone(self),
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.small.fetch_add(self.small, Ordering::AcqRel);
        self.memory.large.fetch_add(self.large, Ordering::AcqRel);
    }
}

/// A body while it is received. A long body is in mapped pages, which are returned to the system
/// when it is dropped. An allocator might keep the freed memory.
pub(super) struct Gathered {
    held: Held,
    bytes_max: usize,
    few: Vec<u8>,
    pages: Option<(MmapMut, usize)>,
}

/// The body is too long, or there is no memory.
#[derive(Debug)]
pub(super) enum Refused {
    TooLong,
    NoRoom(Problem),
}

impl Gathered {
    pub(super) fn new(memory: &Arc<Memory>, bytes_max: usize) -> Gathered {
        Gathered {
            held: memory.held(),
            bytes_max,
            few: Vec::new(),
            pages: None,
        }
    }

    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn len(&self) -> usize {
        self.pages.as_ref().map_or(self.few.len(), |(_, len)| *len)
    }

    pub(super) fn push(&mut self, more: &[u8]) -> Result<(), Refused> {
        let len = self.len() + more.len();
        if len > self.bytes_max {
            return Err(Refused::TooLong);
        }
        self.held.grow(len).map_err(Refused::NoRoom)?;
        if self.pages.is_none() && len > SMALL_BYTES {
            // Untouched pages take no memory.
            let mapped = MmapMut::map_anon(self.bytes_max);
            let mut pages = mapped.map_err(|e| {
                tracing::warn!(error = %e, "no memory for a body");
                let detail = "there is no memory for the body: try again later";
                Refused::NoRoom(Problem::unavailable("busy", detail))
            })?;
            let few = std::mem::take(&mut self.few);
            pages[..few.len()].copy_from_slice(&few);
            self.pages = Some((pages, few.len()));
        }
        match &mut self.pages {
            Some((pages, end)) => {
                pages[*end..len].copy_from_slice(more);
                *end = len;
            }
            None => self.few.extend_from_slice(more),
        }
        Ok(())
    }

    /// The body, which holds its memory until it is dropped.
    pub(super) fn whole(self) -> (Bytes, Arc<Held>) {
        let Gathered {
            held, few, pages, ..
        } = self;
        let held = Arc::new(held);
        let bytes = match pages {
            Some((pages, len)) => held.keep(pages).slice(..len),
            None => Bytes::from(few),
        };
        (bytes, held)
    }
}

/// Bytes that hold their memory until they are dropped.
struct Kept<T> {
    bytes: T,
    _held: Arc<Held>,
}

impl<T: AsRef<[u8]>> AsRef<[u8]> for Kept<T> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(memory: &Memory) -> (usize, usize) {
        let read = |of: &AtomicUsize| of.load(Ordering::Acquire);
        (read(&memory.small), read(&memory.large))
    }

    /// Long bodies are limited to the available memory, short bodies are still accepted, and all
    /// memory is released.
    #[test]
    fn long_bodies_keep_no_short_one_out() {
        const MIB: usize = 1 << 20;
        let memory = Memory::new(16 * MIB, 4 * MIB);
        let all = left(&memory);
        let mut bodies = Vec::new();
        let mut refused = 0;
        for _ in 0..8 {
            let mut body = Gathered::new(&memory, 4 * MIB);
            let pushed = (0..4 * MIB / 1_000).try_for_each(|_| body.push(&[7; 1_000]));
            match pushed {
                Ok(()) => bodies.push(body.whole()),
                Err(Refused::NoRoom(problem)) => {
                    assert_eq!(problem.status().as_u16(), 503);
                    refused += 1;
                }
                Err(Refused::TooLong) => panic!("it is not"),
            }
        }
        assert_eq!((bodies.len(), refused), (3, 5));
        let mut short = Gathered::new(&memory, 4 * MIB);
        short.push(b"short").unwrap();
        assert_eq!(&short.whole().0[..], b"short");
        let (bytes, held) = bodies.pop().unwrap();
        assert_eq!(bytes.len(), 4 * MIB / 1_000 * 1_000);
        assert!(bytes.iter().all(|byte| *byte == 7));
        // `bytes` alone keeps the reservation.
        drop(held);
        assert!(left(&memory).1 < all.1 - 8 * MIB);
        drop((bytes, bodies));
        assert_eq!(left(&memory), all);
        let mut long = Gathered::new(&memory, 10);
        assert!(matches!(long.push(&[0; 11]), Err(Refused::TooLong)));
    }
}
