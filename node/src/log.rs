//! The log.

use std::sync::{PoisonError, RwLock};

use decklog::bindings::{self, Dynamic, Head};
use decklog::query::SearchQuery;
use decklog::{Durability, Kind, Store};
use napi::Result;
use napi::bindgen_prelude::{AsyncTask, BufferSlice, Either};
use napi_derive::napi;

use crate::ack::{self, Answer};
use crate::batch::{self, Batch};
use crate::capture::Capture;
use crate::errors::{self, OrThrow as _};
use crate::inbox::Inbox;
use crate::list::List;
use crate::otlp::Receiver;
use crate::queued::Queued;
use crate::run::Run;
use crate::tasks::{self, Work};
use crate::thoughts::Thoughts;
use crate::{options, page, wire};

#[napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The names of the kinds, by number.
#[napi]
pub fn kinds() -> Vec<&'static str> {
    Kind::ALL.map(Kind::stem).to_vec()
}

/// The warnings of acknowledgements, by number.
#[napi]
pub fn warnings() -> Vec<&'static str> {
    decklog::Warning::ALL.map(decklog::Warning::as_str).to_vec()
}

#[napi]
pub fn args_sha256(bytes: &[u8], length: u32) -> Result<String> {
    Ok(decklog::args_sha256(&wire::payload(bytes, length)?))
}

#[napi]
pub struct Log {
    store: RwLock<Option<Store>>,
}

impl Log {
    fn store(&self) -> Result<Store> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        store.clone().ok_or_else(errors::closed)
    }

    fn with<T>(&self, work: impl FnOnce(&Store) -> Result<T>) -> Result<T> {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        work(store.as_ref().ok_or_else(errors::closed)?)
    }

    fn take(&self) -> Option<Store> {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        store.take()
    }
}

fn close(store: Option<Store>) -> Result<Option<String>> {
    store.map_or(Ok(()), Store::close).or_throw()?;
    Ok(None)
}

/// A copy of the bytes, for another thread.
fn kept(bytes: &[u8], length: u32) -> Vec<u8> {
    bytes.get(..length as usize).unwrap_or_default().to_vec()
}

#[napi]
impl Log {
    #[napi(constructor)]
    pub fn new(
        path: String,
        durability: String,
        read_only: bool,
        create: bool,
        lock_timeout_ms: Option<f64>,
    ) -> Result<Log> {
        let mut options = Store::options()
            .durability(match &*durability {
                "process" => Durability::Process,
                "disk" => Durability::Disk,
                other => {
                    let message = format!("unknown level {other:?}: give process or disk");
                    return Err(errors::invalid("durability", &message));
                }
            })
            .read_only(read_only)
            .create(create);
        if let Some(timeout) = lock_timeout_ms {
            options = options.lock_timeout(options::milliseconds("lockTimeoutMs", timeout)?);
        }
        let store = options.open(path).or_throw()?;
        Ok(Log {
            store: RwLock::new(Some(store)),
        })
    }

    #[napi(getter)]
    pub fn path(&self) -> Result<String> {
        self.with(|store| Ok(store.path().to_string_lossy().into_owned()))
    }

    #[napi]
    pub fn close(&self) -> Result<()> {
        close(self.take()).map(drop)
    }

    #[napi]
    pub fn close_async(&self) -> AsyncTask<Work> {
        let store = self.take();
        tasks::spawn(move || close(store))
    }

    /// Records one record, and writes the acknowledgement over it.
    #[napi]
    pub fn record(&self, mut bytes: BufferSlice<'_>, length: u32) -> Result<Option<String>> {
        self.with(|store| ack::record(store, &mut bytes, length))
    }

    /// Begins a batch.
    #[napi]
    pub fn batch(&self) -> Result<Batch> {
        Ok(Batch::new(self.store()?))
    }

    #[napi]
    pub fn record_batch_async(&self, bytes: &[u8], length: u32) -> Result<AsyncTask<Work>> {
        let (store, bytes) = (self.store()?, kept(bytes, length));
        Ok(tasks::spawn(move || {
            batch::record(&store, &bytes, length).map(Some)
        }))
    }

    #[napi]
    pub fn record_all(&self, bytes: &[u8], length: u32) -> Result<String> {
        self.with(|store| batch::record_all(store, bytes, length))
    }

    #[napi]
    pub fn record_all_async(&self, bytes: &[u8], length: u32) -> Result<AsyncTask<Work>> {
        let (store, bytes) = (self.store()?, kept(bytes, length));
        Ok(tasks::spawn(move || {
            batch::record_all(&store, &bytes, length).map(Some)
        }))
    }

    /// A batch of the queue of `recordAsync`.
    #[napi]
    pub fn queued(&self, bytes: &[u8], length: u32) -> Result<Queued> {
        Ok(Queued::new(self.store()?, kept(bytes, length)))
    }

    #[napi]
    pub fn list(&self, kind: String, bytes: &[u8], length: u32) -> Result<List> {
        let (store, kind) = (self.store()?, options::kind(&kind)?);
        let list = wire::read(bytes, length, |reader| {
            bindings::List::new(kind, &reader.members()?).or_throw()
        })?;
        Ok(List::new(store, list))
    }

    #[napi]
    pub fn get(
        &self,
        kind: String,
        id: String,
        call_id: String,
        as_of: Option<Time>,
    ) -> Result<Option<String>> {
        let key = options::key(&kind, &id, &call_id)?;
        let as_of = as_of.map(|time| moment("as_of", &time)).transpose()?;
        self.with(|store| page::optional(bindings::get(store, &key, as_of).or_throw()?))
    }

    #[napi]
    pub fn retract(
        &self,
        kind: String,
        id: String,
        call_id: String,
        at: Option<Time>,
    ) -> Result<String> {
        let key = options::key(&kind, &id, &call_id)?;
        let at = match at {
            Some(time) => moment("at", &time)?,
            None => decklog::Validity::now().at,
        };
        let ack = self.with(|store| store.retract(&key, at).or_throw())?;
        page::text(&Answer::from(Head::of_retraction(&key).recorded(ack)))
    }

    /// Changes fields of a conversation. Returns the conversation after the change.
    #[napi]
    pub fn update_conversation(&self, id: String, bytes: &[u8], length: u32) -> Result<String> {
        let id = options::uuid("id", &id)?;
        wire::read(bytes, length, |reader| {
            let fields = reader.members()?;
            self.with(|store| {
                page::text(&bindings::update_conversation(store, id, &fields).or_throw()?)
            })
        })
    }

    #[napi]
    pub fn log_event(
        &self,
        event_type: String,
        parent_id: Option<String>,
        bytes: &[u8],
        length: u32,
    ) -> Result<String> {
        let payload = (length > 0)
            .then(|| wire::payload(bytes, length))
            .transpose()?;
        let parent_id = parent_id
            .map(|id| options::integer("parent_id", &id))
            .transpose()?;
        self.with(|store| {
            let id = store
                .log_event(parent_id, &event_type, payload.as_deref())
                .or_throw()?;
            page::text(&id)
        })
    }

    /// Searches. `search_async` does so on another thread.
    #[napi]
    pub fn search(
        &self,
        text: String,
        kind: Option<String>,
        since: Option<Time>,
        until: Option<Time>,
        limit: Option<u32>,
    ) -> Result<String> {
        let query = search_query(text, kind, (since, until), limit)?;
        self.with(|store| page::text(&store.search(&query).or_throw()?.matches))
    }

    #[napi]
    pub fn search_async(
        &self,
        text: String,
        kind: Option<String>,
        since: Option<Time>,
        until: Option<Time>,
        limit: Option<u32>,
    ) -> Result<AsyncTask<Work>> {
        let query = search_query(text, kind, (since, until), limit)?;
        let store = self.store()?;
        Ok(tasks::spawn(move || {
            page::text(&store.search(&query).or_throw()?.matches).map(Some)
        }))
    }

    #[napi]
    pub fn event_tree(&self, id: String) -> Result<Option<String>> {
        let id = options::integer("id", &id)?;
        self.with(|store| page::optional(store.event_tree(id).or_throw()?.map(|tree| tree.nodes)))
    }

    #[napi]
    pub fn session_tree(&self, id: String) -> Result<Option<String>> {
        let id = options::uuid("id", &id)?;
        self.with(|store| page::optional(store.session_tree(id).or_throw()?.map(|tree| tree.nodes)))
    }

    #[napi]
    pub fn sync(&self) -> Result<()> {
        self.with(|store| store.sync().or_throw())
    }

    #[napi]
    pub fn sync_async(&self) -> Result<AsyncTask<Work>> {
        let store = self.store()?;
        Ok(tasks::spawn(move || store.sync().or_throw().map(|()| None)))
    }

    /// `length`: that of the conversation, or 0 for none.
    #[napi]
    pub fn run(
        &self,
        vendor: String,
        thread_id: Option<String>,
        through: Option<&Capture>,
        bytes: &[u8],
        length: u32,
    ) -> Result<Run> {
        Run::new(&self.store()?, vendor, thread_id, through, (bytes, length))
    }

    #[napi]
    pub fn inbox(&self, attempts_max: Option<u32>) -> Result<Inbox> {
        Ok(Inbox::new(self.store()?, attempts_max))
    }

    #[napi]
    pub fn thoughts(&self) -> Result<Thoughts> {
        Ok(Thoughts::new(self.store()?))
    }

    #[napi]
    pub fn receiver(&self) -> Result<Receiver> {
        Ok(Receiver::new(self.store()?))
    }

    /// Starts a capture. `on_error` gets the error, the kind and the key of a lost record, as JSON.
    #[napi]
    pub fn capture(
        &self,
        queue_records_max: Option<u32>,
        queue_bytes_max: Option<f64>,
        is_waiting: bool,
        drain_timeout_ms: Option<f64>,
        on_error: Option<crate::capture::OnError>,
    ) -> Result<Capture> {
        let limits = crate::capture::Limits {
            queue_records_max,
            queue_bytes_max,
            is_waiting,
            drain_timeout_ms,
        };
        Capture::new(&self.store()?, &limits, on_error)
    }
}

/// Epoch milliseconds, which `wire.js` gives as a safe integer, or a text.
type Time = Either<f64, String>;

/// A time: epoch milliseconds, RFC 3339 or a day.
fn moment(field: &str, given: &Time) -> Result<i64> {
    let value = match given {
        Either::A(number) => Dynamic::Int(*number as i64),
        Either::B(text) => Dynamic::from(&**text),
    };
    bindings::time(field, &value).or_throw()
}

fn search_query(
    text: String,
    kind: Option<String>,
    (since, until): (Option<Time>, Option<Time>),
    limit: Option<u32>,
) -> Result<SearchQuery> {
    let mut query = SearchQuery {
        text,
        kind: kind.map(|kind| options::kind(&kind)).transpose()?,
        since: since.map(|time| moment("since", &time)).transpose()?,
        until: until.map(|time| moment("until", &time)).transpose()?,
        ..SearchQuery::default()
    };
    query.limit = limit.map_or(query.limit, |limit| limit as usize);
    Ok(query)
}
