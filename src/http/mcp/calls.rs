//! The running requests of a session. The transport matches answers only by id: if two requests had
//! the same id, one would get the other's answer, and the other none.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};

/// The ids of a session.
#[derive(Clone, Default)]
pub(super) struct Calls(Arc<Mutex<HashSet<RequestId>>>);

/// A running request, until it is answered.
pub(super) struct Call {
    calls: Calls,
    id: RequestId,
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request with this id; `None` if one is running.
    pub(super) fn begin(&self, id: RequestId) -> Option<Call> {
        let is_new = self.lock().insert(id.clone());
        is_new.then(|| Call {
            calls: self.clone(),
            id,
        })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.id);
    }
}

/// The notifications and the answer of a request. It continues until it is answered, even if its
/// client disconnects.
pub(super) fn events(
    messages: impl Stream<Item = ServerSseMessage> + Send + 'static,
    mut call: Option<Call>,
) -> ReceiverStream<ServerSseMessage> {
    let (out, events) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut messages = pin!(messages);
        loop {
            let event = tokio::select! {
                event = messages.next() => event,
                () = out.closed(), if call.is_none() => return,
            };
            let Some(event) = event else {
                return;
            };
            // Before the client gets the answer, because its next request may have the same id.
            if is_answer(&event) {
                call = None;
            }
            let _ = out.send(event).await;
        }
    });
    ReceiverStream::new(events)
}

fn is_answer(event: &ServerSseMessage) -> bool {
    let message = event.message.as_deref();
    message.is_some_and(|message| {
        matches!(
            message,
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)
        )
    })
}
