//! Ends streams when their connection ends.

use rmcp::RoleServer;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    JsonRpcMessage, RequestId,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};

/// Requested streams. They are cancelled when the client has closed its side: the server waits for
/// running requests, and streams never end by themselves.
#[derive(Default)]
pub(super) struct Streams(Vec<RequestId>);

impl Streams {
    fn forget(&mut self, id: Option<&RequestId>) {
        self.0.retain(|stream| Some(stream) != id);
    }

    pub(super) fn note_request(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Request(request) => {
                if let ClientRequest::SubscriptionsListenRequest(_) = request.request {
                    self.0.push(request.id.clone());
                }
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(it) = &notification.notification {
                    self.forget(it.params.request_id.as_ref());
                }
            }
            _ => {}
        }
    }

    pub(super) fn note_answer(&mut self, message: &TxJsonRpcMessage<RoleServer>) {
        match message {
            JsonRpcMessage::Response(answer) => self.forget(Some(&answer.id)),
            JsonRpcMessage::Error(answer) => self.forget(answer.id.as_ref()),
            _ => {}
        }
    }

    /// Cancels one of the streams, as its client would.
    pub(super) fn cancel_one(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        let cancelled = CancelledNotificationParam::new(Some(self.0.pop()?), None);
        let cancelled = CancelledNotification::new(cancelled);
        let cancelled = ClientNotification::CancelledNotification(cancelled);
        Some(JsonRpcMessage::notification(cancelled))
    }
}
