//! Capture: a gateway records without waiting for the disk. Calls check a record, put it in a bounded
//! queue and return; one thread writes queued records, in order, in batches under one lock. No call
//! touches a file.

mod gateway;
mod options;
mod queue;
mod stats;
mod stream;
mod writer;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use uuid::Uuid;

pub use self::options::{CaptureOptions, WhenFull};
pub use self::stats::CaptureStats;
pub use self::stream::ResponseStream;

pub(crate) use self::queue::Answer;
use self::queue::{Job, Queue};
use crate::collections::{IfKnown, given};
use crate::error::{Error, Result};
use crate::line::text_len;
use crate::record::{Conversation, ConversationMessage, InferenceMetadata, Record};
use crate::store::{Process, Store};

/// A non-blocking handle to record with; from [`Store::capture`].
///
/// Clones share one queue and one thread that writes. Records are written in the order in which
/// they were queued, so records of one thread stay in its order. Dropping the last clone writes all
/// queued records and ends the thread; failures are then only reported to
/// [`on_error`](CaptureOptions::on_error), so call [`flush`](Capture::flush) first if they matter. A
/// program that exits without dropping its handles loses queued records. A handle keeps the store
/// open.
///
/// ```
/// use decklog::{Client, Conversation, ConversationMessage, InferenceMetadata, Role, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Store::open(dir.path().join("log"))?;
/// let capture = store.capture()?;
///
/// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
/// let id = conversation.id;
/// let question = ConversationMessage::new(id, Role::User, "What is 1 + 1?");
/// capture.capture_request(conversation, [question])?;
/// let metadata = InferenceMetadata { models_used: vec!["small-1".into()], ..Default::default() };
/// capture.capture_response(id, "2", &metadata)?;
///
/// capture.flush()?;
/// let (_, stats) = store.get_conversation(id)?.expect("captured above");
/// assert_eq!((stats.message_count, stats.models_used), (2, vec!["small-1".to_owned()]));
/// # Ok::<(), decklog::Error>(())
/// ```
pub struct Capture {
    owner: Arc<Owner>,
    /// Number of lost records that this handle has reported.
    told: AtomicU64,
}

/// The queue, shared by the clones of a handle.
struct Owner {
    queue: Arc<Queue>,
    line_bytes_max: usize,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: Process,
}

impl Store {
    /// Starts the writing thread, with the default limits: at most 10,000 records and 64 MiB of texts
    /// wait, and further records are refused.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`Io`](crate::ErrorKind::Io) if no thread can be
    /// started.
    pub fn capture(&self) -> Result<Capture> {
        self.capture_options().start()
    }
}

impl Capture {
    /// Queues a record of any kind.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a record that is invalid by itself; [`QueueFull`](crate::ErrorKind::QueueFull), at once, under [`WhenFull::Refuse`];
    /// [`Poisoned`](crate::ErrorKind::Poisoned) if the writing thread has failed. The record is then
    /// not queued. Later errors, such as a conflict, are reported by [`on_error`](CaptureOptions::on_error), [`last_error`](Capture::last_error) and
    /// [`flush`](Capture::flush).
    pub fn record(&self, record: impl Into<Record>) -> Result<()> {
        let job = self.job(given(record.into())?, IfKnown::Compare, false)?;
        self.owner.queue.push(1, job.bytes, [job])
    }

    /// Queues checked records, all or none, and passes the answers to the waiting caller, if any, on
    /// the writing thread, which it must not block. They are written at once. An empty list has no
    /// answer.
    ///
    /// # Errors
    /// As [`record`](Capture::record); then there is no answer.
    pub(crate) fn record_all(
        &self,
        records: Vec<(Record, IfKnown)>,
        answer: Option<Answer>,
    ) -> Result<()> {
        let is_awaited = answer.is_some();
        let job = |(record, if_known)| self.job(record, if_known, is_awaited);
        let mut jobs = records.into_iter().map(job).collect::<Result<Vec<_>>>()?;
        if let Some(last) = jobs.last_mut() {
            last.answer = answer;
        }
        let bytes = jobs.iter().map(|job| job.bytes).sum();
        self.owner.queue.push(jobs.len(), bytes, jobs)
    }

    /// Queues a request: the conversation, which is created unless the log has its id, and messages of
    /// it. All of them are queued, or none.
    ///
    /// # Errors
    /// As [`record`](Capture::record); also
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a message of another conversation.
    pub fn capture_request(
        &self,
        conversation: Conversation,
        messages: impl IntoIterator<Item = ConversationMessage>,
    ) -> Result<()> {
        self.record_all(gateway::request(conversation, messages)?, None)
    }

    /// Queues a model's complete answer, as the next message of its conversation, filled from the
    /// metadata. Returns the message's id.
    ///
    /// # Errors
    /// As [`record`](Capture::record).
    pub fn capture_response(
        &self,
        conversation_id: Uuid,
        content: impl Into<String>,
        metadata: &InferenceMetadata,
    ) -> Result<Uuid> {
        let message = gateway::response(conversation_id, content.into(), metadata);
        let id = message.id;
        self.record(message).map(|()| id)
    }

    /// Queues a failure in place of an answer: a message of the system whose content is `Error: `
    /// and the error, which becomes the conversation's `last_error`. The conversation's status is
    /// `error` until an answer follows. Returns the message's id.
    ///
    /// # Errors
    /// As [`record`](Capture::record).
    pub fn capture_error(
        &self,
        conversation_id: Uuid,
        error_type: impl Into<String>,
        error: impl Into<String>,
        metadata: Option<&InferenceMetadata>,
    ) -> Result<Uuid> {
        let failure = (error_type.into(), error.into());
        let message = gateway::failure(conversation_id, String::new(), failure, metadata);
        let id = message.id;
        self.record(message).map(|()| id)
    }

    /// Returns when all records queued before are acknowledged or rejected, at the store's level of
    /// durability.
    ///
    /// # Errors
    /// The error of the last lost record, if this handle has not reported it yet.
    /// [`Locked`](crate::ErrorKind::Locked) if another process holds the lock for longer than the
    /// store's timeout; then nothing is lost, and the records stay queued.
    /// [`Lifecycle`](crate::ErrorKind::Lifecycle) within
    /// [`on_error`](CaptureOptions::on_error), which would wait for itself.
    pub fn flush(&self) -> Result<()> {
        let (lost, last_error) = self.owner.queue.flush()?;
        let told = self.told.swap(lost, Ordering::Relaxed);
        match last_error {
            Some(error) if lost > told => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes all queued records and ends the thread, also while there are other clones, whose later
    /// records are refused with [`Lifecycle`](crate::ErrorKind::Lifecycle). Like dropping the last
    /// clone, it reports no failures. In [`on_error`](CaptureOptions::on_error) it does not wait.
    pub fn close(&self) {
        self.owner.close();
    }

    /// The counts of records by result, at one moment.
    pub fn stats(&self) -> CaptureStats {
        self.owner.queue.stats()
    }

    /// The error of the last record that was queued and then lost.
    pub fn last_error(&self) -> Option<Error> {
        self.owner.queue.last_error()
    }

    /// Creates the queue entry of a validated record.
    fn job(&self, record: Record, if_known: IfKnown, is_awaited: bool) -> Result<Job> {
        let (bytes, bytes_max) = (text_len(&record), self.owner.line_bytes_max);
        if bytes > bytes_max {
            let message = format!(
                "the record is too long for one line: its texts have {bytes} bytes, the limit is {bytes_max}"
            );
            let key = format!("{} {}", record.kind(), record.key());
            return Err(Error::invalid(message).with_key(key));
        }
        Ok(Job {
            record: Some(record),
            if_known,
            bytes,
            is_awaited,
            answer: None,
        })
    }

    /// Stores an error that no caller is waiting for.
    pub(crate) fn note(&self, error: Error) {
        self.owner.queue.note(error);
    }
}

impl Clone for Capture {
    fn clone(&self) -> Capture {
        Capture {
            owner: Arc::clone(&self.owner),
            told: AtomicU64::new(self.told.load(Ordering::Relaxed)),
        }
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

impl Owner {
    fn close(&self) {
        if self.process.is_another() {
            return;
        }
        self.queue.close();
        // The thread itself may close the queue, in `on_error`: it cannot wait for itself, and ends
        // when the queue is empty.
        if self.queue.is_writer() {
            return;
        }
        // Another caller that closes it waits here.
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // Failures and panics of the thread are counted and reported.
            let _ = thread.join();
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.process.is_another() {
            // Queue and thread belong to the parent process.
            let thread = self.thread.get_mut();
            std::mem::forget(thread.unwrap_or_else(PoisonError::into_inner).take());
            return;
        }
        self.close();
    }
}
