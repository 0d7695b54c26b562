//! Recording from tasks of a Tokio runtime. Work that waits for a lock or the disk runs on other
//! threads, so the runtime's workers are not blocked. Feature `tokio`.

use tokio::sync::oneshot;
use tokio::task;

use crate::capture::Capture;
use crate::collections::{Ack, IfKnown, given};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::store::Store;

/// Requires the feature `tokio`.
impl Store {
    /// Records one fact, as [`record`](Store::record), on a thread that may block. Concurrent callers
    /// at level [`Disk`](crate::Durability::Disk) share one sync. For hundreds of tasks that record
    /// at the same time, [`Capture::record_async`] needs one thread in all.
    ///
    /// ```
    /// use decklog::{AckStatus, ConversationTurn, Store, TurnKind};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_multi_thread().build().unwrap().block_on(async {
    /// let store = Store::open(dir.path().join("log"))?;
    /// let ack = store.record_async(ConversationTurn::new(TurnKind::User, "hello")).await?;
    /// assert_eq!(ack.status, AckStatus::Added);
    /// # Ok::<(), decklog::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// If the future is dropped, the record may be recorded all the same.
    ///
    /// # Errors
    /// As [`record`](Store::record).
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub async fn record_async(&self, record: impl Into<Record>) -> Result<Ack> {
        let record = record.into();
        self.blocking(move |store| store.record(record)).await
    }

    /// Records facts in order, as [`record_batch`](Store::record_batch), on a thread that may block.
    ///
    /// # Errors
    /// As [`record_batch`](Store::record_batch).
    ///
    /// # Panics
    /// Outside a Tokio runtime.
    pub async fn record_batch_async(&self, records: Vec<Record>) -> Result<Vec<Result<Ack>>> {
        self.blocking(move |store| store.record_batch(records))
            .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Store) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let store = self.clone();
        match task::spawn_blocking(move || work(&store)).await {
            Ok(answer) => answer,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(ended()),
        }
    }
}

/// Requires the feature `tokio`.
impl Capture {
    /// Queues a record and waits, without blocking, for its result. The record is then acknowledged
    /// at the durability level of the store. Callers that wait at the same time share one write and
    /// one sync, on the writer thread.
    ///
    /// ```
    /// # use decklog::{ConversationTurn, Store, TurnKind};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let capture = store.capture()?;
    /// let ack = capture.record_async(ConversationTurn::new(TurnKind::User, "hello")).await?;
    /// assert_eq!(ack.seq, 1);
    /// # Ok::<(), decklog::Error>(())
    /// # }).unwrap();
    /// ```
    ///
    /// If the future is dropped, the record is recorded all the same. Under
    /// [`WhenFull::Wait`](crate::capture::WhenFull::Wait) a full queue blocks the caller's thread.
    ///
    /// # Errors
    /// As [`record`](Capture::record) if the record is not queued, and as [`Store::record`] if the
    /// log rejects it or the write fails. The error is not passed to
    /// [`on_error`](crate::capture::CaptureOptions::on_error).
    pub async fn record_async(&self, record: impl Into<Record>) -> Result<Ack> {
        let checked = given(record.into())?;
        let (told, answer) = oneshot::channel();
        // The send fails if the caller no longer waits. It needs no answer then.
        let tell = Box::new(move |acks| drop(told.send(acks)));
        self.record_all(vec![(checked, IfKnown::Compare)], Some(tell))?;
        let acks: Vec<Result<Ack>> = answer.await.map_err(|_| ended())?;
        acks.into_iter().next().unwrap_or_else(|| Err(ended()))
    }
}

/// The error if the recording thread ended before it answered.
fn ended() -> Error {
    let message = "the runtime or the thread that writes ended before the record was acknowledged: look whether the log has it";
    Error::new(ErrorKind::Poisoned, message)
}
