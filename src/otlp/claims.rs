//! Requests that concern the same conversation, trace, response or call are recorded one after the
//! other, since what is new depends on what the log has. Other requests are recorded side by side.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::item::Item;

/// What is being recorded, as hashes. Two with the same hash only wait for each other.
#[derive(Default)]
pub(super) struct Claims {
    claimed: Mutex<HashSet<u64>>,
    released: Condvar,
}

/// What one request concerns, until it is dropped.
pub(super) struct Claim<'a> {
    claims: &'a Claims,
    subjects: HashSet<u64>,
}

impl Claims {
    /// Waits until no other request concerns what these items concern.
    pub(super) fn claim<'i>(&self, items: impl Iterator<Item = &'i Item>) -> Claim<'_> {
        let subjects: HashSet<u64> = items.flat_map(subjects).collect();
        let mut claimed = self.claimed();
        while !claimed.is_disjoint(&subjects) {
            let waited = self.released.wait(claimed);
            claimed = waited.unwrap_or_else(PoisonError::into_inner);
        }
        claimed.extend(&subjects);
        Claim {
            claims: self,
            subjects,
        }
    }

    fn claimed(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.claims.claimed();
        for subject in &self.subjects {
            claimed.remove(subject);
        }
        drop(claimed);
        self.claims.released.notify_all();
    }
}

/// What an item concerns: all from which the ids of shared records are derived.
fn subjects(item: &Item) -> impl Iterator<Item = u64> {
    let messages = item.input.iter().chain(&item.output);
    let calls = messages.flat_map(|message| {
        let results = message.result.iter().map(|result| &result.call_id);
        message.calls.iter().map(|call| &call.id).chain(results)
    });
    let texts = calls.chain(&item.response).chain(&item.tool.call_id);
    let ids = [Some(item.talk_id()), item.trace, item.part_of];
    texts
        .map(|text| xxh3_64(text.as_bytes()))
        .chain(ids.into_iter().flatten().map(|id| xxh3_64(id.as_bytes())))
}
