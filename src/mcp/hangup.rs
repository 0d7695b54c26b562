//! Ends streams when their connection ends.

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// A transport that cancels streams when the client has closed it: the server waits for running
/// requests, and streams never end by themselves.
pub(super) struct Hangup<T> {
    transport: T,
    /// Requested streams.
    streams: Vec<RequestId>,
    is_over: bool,
}

impl<T> Hangup<T> {
    pub(super) fn new(transport: T) -> Hangup<T> {
        Hangup {
            transport,
            streams: Vec::new(),
            is_over: false,
        }
    }

    fn forget(&mut self, id: &RequestId) {
        self.streams.retain(|stream| stream != id);
    }

    fn note(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::SubscriptionsListenRequest(_) = request.request {
                    self.streams.push(request.id.clone());
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(it) = &notification.notification
                    && let Some(id) = &it.params.request_id
                {
                    self.forget(id);
                }
            }
            _ => {}
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for Hangup<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(answer) => self.forget(&answer.id),
            JsonRpcMessage::Error(answer) => {
                if let Some(id) = &answer.id {
                    self.forget(id);
                }
            }
            _ => {}
        }
        self.transport.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        if !self.is_over {
            if let Some(message) = self.transport.receive().await {
                self.note(&message);
                return Some(message);
            }
            self.is_over = true;
        }
        let id = self.streams.pop()?;
        let cancelled = CancelledNotificationParam::new(Some(id), None);
        let cancelled = CancelledNotification::new(cancelled);
        let cancelled = ClientNotification::CancelledNotification(cancelled);
        Some(JsonRpcMessage::notification(cancelled))
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.transport.close()
    }
}
