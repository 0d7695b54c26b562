//! The running requests of a session. The transport matches answers only by id: if two requests had
//! the same id, one would get the other's answer, and the other none.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use rmcp::model::{JsonRpcMessage, RequestId};
use rmcp::transport::streamable_http_server::session::ServerSseMessage;
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

/// Notifications of a request until it is answered, even if its client does not read them.
pub(super) struct Notifications<S: Stream<Item = ServerSseMessage> + Send + 'static> {
    /// `None` after its end.
    messages: Option<Pin<Box<S>>>,
    call: Option<Call>,
}

impl<S: Stream<Item = ServerSseMessage> + Send + 'static> Notifications<S> {
    pub(super) fn new(messages: S, call: Option<Call>) -> Notifications<S> {
        Notifications {
            messages: Some(Box::pin(messages)),
            call,
        }
    }
}

impl<S: Stream<Item = ServerSseMessage> + Send + 'static> Stream for Notifications<S> {
    type Item = ServerSseMessage;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<ServerSseMessage>> {
        let Some(messages) = &mut self.messages else {
            return Poll::Ready(None);
        };
        let event = ready!(messages.as_mut().poll_next(context));
        // Before the client gets the answer, because its next request may have the same id.
        if event.as_ref().is_none_or(is_answer) {
            self.call = None;
        }
        if event.is_none() {
            self.messages = None;
        }
        Poll::Ready(event)
    }
}

impl<S: Stream<Item = ServerSseMessage> + Send + 'static> Drop for Notifications<S> {
    fn drop(&mut self) {
        let (Some(mut messages), Some(call)) = (self.messages.take(), self.call.take()) else {
            return;
        };
        // The client disconnected, and the request continues.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _call = call;
                while messages
                    .next()
                    .await
                    .is_some_and(|event| !is_answer(&event))
                {}
            });
        }
    }
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
