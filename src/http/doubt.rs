//! Tracks whether the store refuses records. While it does, no record is answered with 202.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::problem;
use crate::collections::{Ack, AckStatus};
use crate::error::{Error, ErrorKind, Result};
use crate::store::Store;

/// Minimum interval between checks, because each check writes to the disk.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Set after the store failed to write, until it writes a record again.
pub(super) struct Doubt {
    is_set: AtomicBool,
    checked: Mutex<Option<(Instant, Option<&'static str>)>>,
}

impl Doubt {
    /// Set if the store cannot be written now.
    pub(super) fn of(store: &Store) -> Doubt {
        let refused = store.check_writable().err();
        if let Some(error) = &refused {
            tracing::error!(%error, "the store refuses records");
        }
        Doubt {
            is_set: AtomicBool::new(refused.is_some()),
            checked: Mutex::new(None),
        }
    }

    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// Stores the reason of a refusal.
    pub(super) fn note_error(&self, error: &Error) {
        // A held lock and a full queue are temporary.
        let is_passing = matches!(error.kind(), ErrorKind::Locked | ErrorKind::QueueFull);
        if !error.kind().is_judgement() && !is_passing {
            self.is_set.store(true, Ordering::Relaxed);
        }
    }

    /// Evaluates the results of records.
    pub(super) fn note(&self, acks: &[Result<Ack>]) {
        for ack in acks {
            match ack {
                Err(error) => self.note_error(error),
                Ok(ack) if ack.status == AckStatus::Added => {
                    self.is_set.store(false, Ordering::Relaxed);
                }
                Ok(_) => {}
            }
        }
    }

    /// The reason why a record would be rejected now, as the `code` of a problem; `None` if it
    /// would be accepted. The answer is at most one second old and not older than the last failed
    /// write. A full disk is detected at once.
    pub(super) async fn why_refused(&self, store: &Store) -> Option<&'static str> {
        let mut checked = self.checked.lock().await;
        let mut is_known = false;
        if let Some((at, refused)) = *checked
            && at.elapsed() < CHECK_INTERVAL
        {
            if refused.is_some() {
                return refused;
            }
            // A write may have failed meanwhile.
            is_known = !self.is_set();
        }
        let store = store.clone();
        let check = tokio::task::spawn_blocking(move || {
            if is_known {
                store.check_room()
            } else {
                store.check_writable()
            }
        });
        let refused = match check.await {
            Ok(found) => found.err().as_ref().map(problem::code),
            Err(_panicked) => Some(ErrorKind::Io.as_str()),
        };
        if !is_known || refused.is_some() {
            *checked = Some((Instant::now(), refused));
        }
        refused
    }
}
