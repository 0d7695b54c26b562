//! How far a store was sent to a receiver. Kept in `cache/`.

use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::otlp::send::{LogRecord, Span};
use crate::ship::status::cache_name;
use crate::store::Store;

/// The last line of which everything was acknowledged, and how much of what follows was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    pub(super) seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) begun: Option<Begun>,
}

/// The start of the items of the lines up to `upto`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) upto: u64,
    /// Number of items that were acknowledged.
    pub(super) items: usize,
    /// A hash of their ids, to find out whether the log was rewritten since.
    ids: u64,
}

impl Begun {
    pub(super) fn new(upto: u64) -> Begun {
        Begun {
            upto,
            items: 0,
            ids: 0,
        }
    }

    pub(super) fn add_span(&mut self, span: &Span) {
        self.items += 1;
        self.ids = xxh3_64_with_seed(&span.span_id, self.ids);
    }

    pub(super) fn add_log(&mut self, log: &LogRecord) {
        self.items += 1;
        let time = log.time_unix_nano.to_le_bytes();
        let ids = xxh3_64_with_seed(&time, self.ids);
        self.ids = xxh3_64_with_seed(log.event_name.as_bytes(), ids);
    }

    /// Whether the items begin with those that were acknowledged.
    pub(super) fn is_start_of(&self, spans: &[Span], logs: &[LogRecord]) -> bool {
        let mut same = Begun::new(self.upto);
        for span in spans.iter().take(self.items) {
            same.add_span(span);
        }
        for log in logs.iter().take(self.items - same.items) {
            same.add_log(log);
        }
        same == *self
    }
}

impl Position {
    pub(super) fn at(seq: u64) -> Position {
        Position { seq, begun: None }
    }

    fn path(store: &Store, name: &str) -> PathBuf {
        let file = format!("{}.position", cache_name(name));
        store.path().join("cache").join(file)
    }

    /// The start of the log, if nothing was sent.
    pub(super) fn load(store: &Store, name: &str) -> Position {
        let bytes = fs::read(Position::path(store, name)).ok();
        let position = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        position.unwrap_or_default()
    }

    /// # Errors
    /// [`Io`](crate::ErrorKind::Io). Without its position, the next run would send all again.
    pub(super) fn save(&self, store: &Store, name: &str) -> Result<()> {
        let path = Position::path(store, name);
        let temporary = path.with_extension("position.tmp");
        let written = || {
            fs::write(&temporary, serde_json::to_vec(self)?)?;
            fs::rename(&temporary, &path)
        };
        written().map_err(|e| Error::io("write the position", &path, e))
    }
}
