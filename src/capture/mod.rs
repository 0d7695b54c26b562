//! Capture: a gateway logs what passes through it and never waits for a disk. Calls check a
//! record, put it in a bounded queue and return; one thread writes what waits, in order, in
//! batches under one lock. Rules on records are not known here, and no call touches a file.

mod gateway;
mod options;
mod queue;
mod stats;
mod stream;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

/// A handle to log with that does not wait for the log; from [`Store::capture`].
///
/// Clones share one queue and one thread that writes. Records are written in the order in which
/// they were queued, so those of one thread stay in that thread's order. Dropping the last clone
/// writes what still waits and ends the thread; what fails then is told to
/// [`on_error`](CaptureOptions::on_error) alone, so [`flush`](Capture::flush) first where that
/// matters. A program that exits without dropping its handles loses what waits. A handle keeps the
/// store open.
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
    /// How many lost records this handle has told of.
    told: AtomicU64,
}

/// The queue's end that is shared by the clones of a handle.
struct Owner {
    queue: Arc<Queue>,
    line_bytes_max: usize,
    thread: Option<JoinHandle<()>>,
    process: Process,
}

impl Store {
    /// Starts a thread that writes what is captured, with the default limits: 10,000 records and
    /// 64 MiB of texts wait at the most, and what comes on top is refused.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly); [`Io`](crate::ErrorKind::Io) if no thread can be
    /// started.
    pub fn capture(&self) -> Result<Capture> {
        self.capture_options().start()
    }

    /// Options to capture with.
    ///
    /// ```
    /// use decklog::{Store, WhenFull};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let capture = store
    ///     .capture_options()
    ///     .queue_records_max(100_000)
    ///     .when_full(WhenFull::Wait)
    ///     .on_error(|error, record| eprintln!("not logged: {} {error}", record.kind()))
    ///     .start()?;
    /// # Ok::<(), decklog::Error>(())
    /// ```
    pub fn capture_options(&self) -> CaptureOptions {
        CaptureOptions::new(self.clone())
    }
}

impl Capture {
    /// Queues a record of any kind.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for what can be told from the record
    /// alone; [`QueueFull`](crate::ErrorKind::QueueFull), at once, under [`WhenFull::Refuse`];
    /// [`Poisoned`](crate::ErrorKind::Poisoned) if the thread that writes has failed. The record
    /// is then not queued. What the log says to it later, such as a conflict, is told by
    /// [`on_error`](CaptureOptions::on_error), [`last_error`](Capture::last_error) and
    /// [`flush`](Capture::flush).
    pub fn record(&self, record: impl Into<Record>) -> Result<()> {
        let job = self.job(given(record.into())?, IfKnown::Compare)?;
        self.owner.queue.push(1, job.bytes, [job])
    }

    /// Queues checked records, all or none, and has the answers told to who waits for them, if anyone
    /// does; that is done on the thread that writes and must not take long. They are written at once.
    /// No records have no answer.
    ///
    /// # Errors
    /// As [`record`](Capture::record); then no answer comes.
    pub(crate) fn record_all(
        &self,
        records: Vec<(Record, IfKnown)>,
        answer: Option<Answer>,
    ) -> Result<()> {
        let job = |(record, if_known)| {
            let job = self.job(record, if_known)?;
            let is_awaited = answer.is_some();
            Ok(Job { is_awaited, ..job })
        };
        let mut jobs = records.into_iter().map(job).collect::<Result<Vec<_>>>()?;
        if let Some(last) = jobs.last_mut() {
            last.answer = answer;
        }
        self.push_all(jobs)
    }

    fn push_all(&self, jobs: Vec<Job>) -> Result<()> {
        let bytes = jobs.iter().map(|job| job.bytes).sum();
        self.owner.queue.push(jobs.len(), bytes, jobs)
    }

    /// Queues a request: the conversation, which is created if the log has none with its id and
    /// is else left as it is, and messages of it. All of them are queued, or none.
    ///
    /// # Errors
    /// As [`record`](Capture::record); also
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a message of another conversation.
    pub fn capture_request(
        &self,
        conversation: Conversation,
        messages: impl IntoIterator<Item = ConversationMessage>,
    ) -> Result<()> {
        let records = gateway::request(conversation, messages)?;
        let jobs = records
            .into_iter()
            .map(|(record, if_known)| self.job(record.checked()?, if_known))
            .collect::<Result<Vec<_>>>()?;
        self.push_all(jobs)
    }

    /// Queues a model's whole answer, as the next message of its conversation, filled from the
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

    /// An answer that comes in chunks and is to become one message.
    pub fn response(&self, conversation_id: Uuid) -> ResponseStream {
        ResponseStream::new(self.clone(), conversation_id)
    }

    /// Returns once the log has answered for everything that was queued before, at the level of
    /// durability that the store was opened with.
    ///
    /// # Errors
    /// That of the last record that the log did not take, if there are any that this handle has
    /// not told of yet. [`Locked`](crate::ErrorKind::Locked) if another process keeps the lock
    /// for longer than the store's timeout; then nothing is lost, and the records still wait.
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

    /// What became of the records so far, at one moment.
    pub fn stats(&self) -> CaptureStats {
        self.owner.queue.stats()
    }

    /// Why the last record that was queued and then not taken by the log was not taken.
    pub fn last_error(&self) -> Option<Error> {
        self.owner.queue.last_error()
    }

    /// A checked record, to be queued.
    fn job(&self, record: Record, if_known: IfKnown) -> Result<Job> {
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
            is_awaited: false,
            answer: None,
        })
    }

    /// Keeps an error that no one is there to be told.
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

impl Drop for Owner {
    fn drop(&mut self) {
        if self.process.is_another() {
            // What is queued is the parent's to write, and so is the thread.
            std::mem::forget(self.thread.take());
            return;
        }
        self.queue.close();
        // The thread itself may drop the last handle, in `on_error`: it cannot wait for itself,
        // and ends when the queue is empty.
        if !self.queue.is_writer()
            && let Some(thread) = self.thread.take()
        {
            // What it could not write is counted and told; a panic in it is, too.
            let _ = thread.join();
        }
    }
}
