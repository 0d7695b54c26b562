//! Limits on memory for a client that reads no answers: running requests and unwritten answers.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, GetExtensions as _, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use tokio::sync::{Semaphore, watch};

use super::subscriptions::STREAMS_MAX;

/// Maximum bytes of answers that wait to be written; above it no message is read.
const ANSWERS_BYTES_MAX: usize = 4 << 20;
/// Maximum bytes of the lines of running requests. The next one waits.
const REQUESTS_BYTES_MAX: u32 = 32 << 20;
/// Minimum size that each counts with: at most 128 run at the same time.
const REQUEST_BYTES_MIN: u32 = 256 << 10;
/// Maximum bytes of the lines of streams, which last until they are cancelled. One more is refused:
/// if it waited, the message that cancels another one would wait too.
const STREAMS_BYTES_MAX: u32 = STREAMS_MAX as u32 * STREAM_BYTES_MIN;
/// Minimum size that each counts with.
const STREAM_BYTES_MIN: u32 = 32 << 10;

#[derive(Debug)]
pub(super) struct Capacity {
    requests: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// Bytes of answers that wait to be written.
    answers: Arc<watch::Sender<usize>>,
}

/// The maximum number of streams is reached.
#[derive(Debug)]
pub(super) struct Full;

impl Capacity {
    pub(super) fn new() -> Capacity {
        let semaphore = |bytes| Arc::new(Semaphore::new(bytes as usize));
        Capacity {
            requests: semaphore(REQUESTS_BYTES_MAX),
            streams: semaphore(STREAMS_BYTES_MAX),
            answers: Arc::default(),
        }
    }

    /// Reserves capacity for a message of this length, if it is a request. Its handler holds it until
    /// it is done.
    pub(super) async fn enter(
        &self,
        message: &mut RxJsonRpcMessage<RoleServer>,
        bytes: usize,
    ) -> Result<(), Full> {
        let JsonRpcMessage::Request(request) = message else {
            return Ok(());
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let place = if let ClientRequest::SubscriptionsListenRequest(_) = request.request {
            let bytes = bytes.clamp(STREAM_BYTES_MIN, STREAMS_BYTES_MAX);
            let place = Arc::clone(&self.streams).try_acquire_many_owned(bytes);
            place.map_err(|_| Full)?
        } else {
            let bytes = bytes.clamp(REQUEST_BYTES_MIN, REQUESTS_BYTES_MAX);
            let place = Arc::clone(&self.requests).acquire_many_owned(bytes);
            place.await.map_err(|_| Full)?
        };
        request.request.extensions_mut().insert(Arc::new(place));
        Ok(())
    }

    /// Counts an answer that waits to be written.
    pub(super) fn wait(&self, bytes: usize) -> Waiting {
        self.answers.send_modify(|all| *all += bytes);
        Waiting {
            bytes,
            all: Arc::clone(&self.answers),
        }
    }

    /// Returns when enough answers are written.
    pub(super) async fn answers_written(&self) {
        let mut answers = self.answers.subscribe();
        // Never closed before this.
        let _ = answers.wait_for(|all| *all <= ANSWERS_BYTES_MAX).await;
    }
}

/// An answer that is counted until this is dropped.
#[derive(Debug)]
pub(super) struct Waiting {
    bytes: usize,
    all: Arc<watch::Sender<usize>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.all.send_modify(|all| *all -= self.bytes);
    }
}
