//! `cache/service.json`: where an HTTP service of this store listens, and when each token was last
//! used. It can be made again, so what cannot be read or written is left out.

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
    /// Reads the file; nothing is known if it is not there or not whole.
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

    pub(super) fn tell(&self, info: TokenInfo) -> TokenInfo {
        TokenInfo {
            last_used_at: self.last_used.get(&info.id).copied(),
            ..info
        }
    }
}

/// When each token was last used of a server that runs.
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

    /// Adds them to the file, with the address at which the service listens, or without it once it
    /// does not. Tokens that are not known any more are left out. Another service that writes at the
    /// same time may undo it, until the next time.
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
