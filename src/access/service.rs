//! `cache/service.json`: the address of the store's HTTP service, and the last use of each token.
//! The file can be rebuilt, so errors of reading and writing it are ignored.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::TokenInfo;
use crate::storage::{Access, Storage, read_full, replace_file};

const DIR: &str = "cache";
const PATH: &str = "cache/service.json";
const BYTES_MAX: usize = 1 << 20;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Service {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
    /// By the ids of tokens, in epoch milliseconds.
    last_used: BTreeMap<String, i64>,
}

impl Service {
    /// Reads the file; empty if it is missing or incomplete.
    pub(super) fn read(storage: &dyn Storage) -> Service {
        let read = || {
            let file = storage.open(PATH, Access::Read).ok()?;
            let len = usize::try_from(file.stat().ok()?.len).ok()?;
            let mut text = vec![0; len.min(BYTES_MAX)];
            let read = read_full(&*file, &mut text, 0).ok()?;
            serde_json::from_slice(text.get(..read)?).ok()
        };
        read().unwrap_or_default()
    }

    pub(super) fn with_last_use(&self, info: TokenInfo) -> TokenInfo {
        TokenInfo {
            last_used_at: self.last_used.get(&info.id).copied(),
            ..info
        }
    }
}

/// The last use of each token, in a running server.
#[derive(Debug, Default)]
pub(super) struct Uses(Mutex<BTreeMap<String, i64>>);

impl Uses {
    pub(super) fn note(&self, id: &str, now: i64) {
        let mut uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get_mut(id) {
            Some(at) => *at = now,
            None => drop(uses.insert(id.to_owned(), now)),
        }
    }

    /// Adds the uses to the file, with the service's address while it listens. Drops unknown tokens.
    /// If another service writes at the same time, this write may be lost until the next one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(
        &self,
        storage: &dyn Storage,
        url: &str,
        listens: bool,
        is_known: impl Fn(&str) -> bool,
    ) -> std::io::Result<()> {
        let before = Service::read(storage);
        let mut after = before.clone();
        if listens {
            after.url = Some(url.to_owned());
        } else if after.url.as_deref() == Some(url) {
            after.url = None;
        }
        let uses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in &*uses {
            let known = after.last_used.entry(id.clone()).or_insert(*at);
            *known = (*known).max(*at);
        }
        drop(uses);
        after.last_used.retain(|id, _| is_known(id));
        if after == before {
            return Ok(());
        }
        storage.create_dir(DIR)?;
        let mut json = serde_json::to_vec(&after)?;
        json.push(b'\n');
        replace_file(storage, PATH, &json)
    }
}
