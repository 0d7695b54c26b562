//! Recording without waiting.

use std::sync::{Arc, PoisonError, RwLock};

use decklog::capture::WhenFull;
use decklog::{Error, Kind, Record, Store};
use napi::Result;
use napi::bindgen_prelude::AsyncTask;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use serde_json::json;

use crate::errors::{self, OrThrow as _};
use crate::tasks::{self, Work};
use crate::{options, page, wire};

/// The callback for lost records. It does not keep the event loop alive.
pub(crate) type OnError = ThreadsafeFunction<String, (), String, napi::Status, false, true>;

/// The limits of the queue.
pub(crate) struct Limits {
    pub(crate) queue_records_max: Option<u32>,
    pub(crate) queue_bytes_max: Option<f64>,
    pub(crate) is_waiting: bool,
    pub(crate) drain_timeout_ms: Option<f64>,
}

#[napi]
pub struct Capture(RwLock<Option<Handle>>);

/// Shared, not cloned: each clone would report the same error.
type Handle = Arc<decklog::Capture>;

impl Capture {
    pub(crate) fn new(
        store: &Store,
        limits: &Limits,
        on_error: Option<OnError>,
    ) -> Result<Capture> {
        let mut options = store.capture_options().when_full(if limits.is_waiting {
            WhenFull::Wait
        } else {
            WhenFull::Refuse
        });
        if let Some(records) = limits.queue_records_max {
            options = options.queue_records_max(records as usize);
        }
        if let Some(bytes) = limits.queue_bytes_max {
            #[allow(clippy::cast_sign_loss)] // A negative one is 0.
            let bytes = bytes as usize;
            options = options.queue_bytes_max(bytes);
        }
        if let Some(timeout) = limits.drain_timeout_ms {
            options = options.drain_timeout(options::milliseconds("drainTimeoutMs", timeout)?);
        }
        if let Some(on_error) = on_error {
            options = options.on_error(move |error, record| told(&on_error, error, record));
        }
        Ok(Capture(RwLock::new(Some(Arc::new(
            options.start().or_throw()?,
        )))))
    }

    pub(crate) fn handle(&self) -> Result<Handle> {
        let capture = self.0.read().unwrap_or_else(PoisonError::into_inner);
        capture.clone().ok_or_else(errors::closed)
    }

    fn with<T>(&self, work: impl FnOnce(&decklog::Capture) -> Result<T>) -> Result<T> {
        let capture = self.0.read().unwrap_or_else(PoisonError::into_inner);
        work(capture.as_ref().ok_or_else(errors::closed)?)
    }

    fn take(&self) -> Option<Handle> {
        let mut capture = self.0.write().unwrap_or_else(PoisonError::into_inner);
        capture.take()
    }
}

/// Writes what is queued. The last handle waits for that when it is dropped, but a run or a flush may
/// have another one. `on_error` and `last_error` report what was lost.
fn close(capture: Option<Handle>) {
    if let Some(capture) = capture {
        let _ = capture.flush();
    }
}

/// Calls the caller's function, later and on its own thread: the writing thread never waits for it.
fn told(on_error: &OnError, error: &Error, record: &Record) {
    let what = json!([errors::json(error), record.kind().stem(), record.key()]);
    on_error.call(what.to_string(), ThreadsafeFunctionCallMode::NonBlocking);
}

#[napi]
impl Capture {
    /// Queues a record. Returns its id, unless the log assigns it.
    #[napi]
    pub fn record(&self, bytes: &[u8], length: u32) -> Result<Option<String>> {
        self.with(|capture| {
            let input = wire::record(bytes, length)?;
            let id = input.id();
            capture.record_input(input).or_throw()?;
            Ok(id)
        })
    }

    /// Queues a conversation, unless the log has it, and messages of it.
    #[napi]
    pub fn request(&self, bytes: &[u8], length: u32) -> Result<()> {
        self.with(|capture| {
            let (conversation, asked) = wire::read(bytes, length, |reader| {
                let conversation = reader.record_of(Some(Kind::Conversations))?;
                let Record::Conversation(conversation) = conversation.into_record() else {
                    return Err(errors::invalid("conversation", "it is no conversation"));
                };
                let mut asked = Vec::new();
                for _ in 0..reader.count()? {
                    match reader.record_of(Some(Kind::Messages))?.into_record() {
                        Record::Message(message) => asked.push(*message),
                        _ => return Err(errors::invalid("messages", "it is no message")),
                    }
                }
                Ok((conversation, asked))
            })?;
            capture.capture_request(conversation, asked).or_throw()
        })
    }

    #[napi]
    pub fn flush(&self) -> Result<()> {
        self.handle()?.flush().or_throw()
    }

    #[napi]
    pub fn flush_async(&self) -> Result<AsyncTask<Work>> {
        let capture = self.handle()?;
        Ok(tasks::spawn(move || {
            capture.flush().or_throw().map(|()| None)
        }))
    }

    #[napi]
    pub fn close(&self) {
        close(self.take());
    }

    #[napi]
    pub fn close_async(&self) -> AsyncTask<Work> {
        let capture = self.take();
        tasks::spawn(move || {
            close(capture);
            Ok(None)
        })
    }

    #[napi]
    pub fn stats(&self) -> Result<String> {
        self.with(|capture| {
            let stats = capture.stats();
            page::text(&json!({
                "queued": stats.queued,
                "accepted": stats.accepted,
                "written": stats.written,
                "unchanged": stats.unchanged,
                "refused": stats.refused,
                "rejected": stats.rejected,
                "failed": stats.failed,
                "lockRetries": stats.lock_retries,
            }))
        })
    }

    #[napi]
    pub fn last_error(&self) -> Result<Option<String>> {
        self.with(|capture| page::optional(capture.last_error().map(|error| errors::json(&error))))
    }
}
