//! A streamed answer that becomes one message.

use uuid::Uuid;

use super::{Capture, gateway};
use crate::error::Result;
use crate::record::{ConversationMessage, InferenceMetadata};

/// A streamed answer; from [`Capture::response`]. It is held in memory until it ends, and queued as
/// one message. If it is dropped before its end, the chunks so far are recorded with an error of type
/// `interrupted`.
///
/// ```
/// use decklog::{Client, Conversation, InferenceMetadata, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// # let capture = store.capture()?;
/// # let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
/// # let conversation_id = conversation.id;
/// # capture.capture_request(conversation, [])?;
/// let mut response = capture.response(conversation_id);
/// for chunk in ["1 + 1 ", "is 2."] {
///     // … send it to the client …
///     response.push(chunk);
/// }
/// let id = response.finish(&InferenceMetadata::default())?;
/// # capture.flush()?;
/// assert_eq!(store.get_message(id)?.unwrap().content, "1 + 1 is 2.");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug)]
pub struct ResponseStream {
    capture: Capture,
    id: Uuid,
    conversation_id: Uuid,
    content: String,
    reasoning: String,
    metadata: Option<InferenceMetadata>,
    has_ended: bool,
}

impl Capture {
    /// A streamed answer that becomes one message.
    pub fn response(&self, conversation_id: Uuid) -> ResponseStream {
        ResponseStream {
            capture: self.clone(),
            id: Uuid::new_v4(),
            conversation_id,
            content: String::new(),
            reasoning: String::new(),
            metadata: None,
            has_ended: false,
        }
    }
}

impl ResponseStream {
    /// Sets metadata before the answer ends, such as the model, for the message of a failed or
    /// interrupted answer.
    #[must_use]
    pub fn with_metadata(mut self, metadata: InferenceMetadata) -> ResponseStream {
        self.metadata = Some(metadata);
        self
    }

    /// The id of the future message.
    pub fn id(&self) -> Uuid {
        self.id
    }

    /// Adds a chunk. Bytes past the store's maximum length of a line, 16 MiB unless set, are dropped:
    /// the answer can then no longer be recorded.
    pub fn push(&mut self, chunk: &str) {
        if self.content.len() <= self.capture.owner.line_bytes_max {
            self.content.push_str(chunk);
        }
    }

    /// Adds a chunk of the model's reasoning: the message's `reasoning`. Bytes past the store's
    /// maximum length of a line are dropped, as in [`push`](ResponseStream::push).
    pub fn push_reasoning(&mut self, chunk: &str) {
        if self.reasoning.len() <= self.capture.owner.line_bytes_max {
            self.reasoning.push_str(chunk);
        }
    }

    /// Queues the answer, filled from the metadata. Returns the message's id.
    ///
    /// # Errors
    /// As [`Capture::record`].
    pub fn finish(mut self, metadata: &InferenceMetadata) -> Result<Uuid> {
        let content = std::mem::take(&mut self.content);
        let message = gateway::response(self.conversation_id, content, metadata);
        self.end(message)
    }

    /// Queues the chunks of a failed answer with the error, which becomes the conversation's
    /// `last_error` and sets its status to `error`. Returns the message's id.
    ///
    /// # Errors
    /// As [`Capture::record`].
    pub fn fail(mut self, error_type: impl Into<String>, error: impl Into<String>) -> Result<Uuid> {
        self.end_failed(error_type.into(), error.into())
    }

    fn end_failed(&mut self, error_type: String, error: String) -> Result<Uuid> {
        let content = std::mem::take(&mut self.content);
        let metadata = self.metadata.as_ref();
        let failed = (error_type, error);
        let message = gateway::failure(self.conversation_id, content, failed, metadata);
        self.end(message)
    }

    fn end(&mut self, message: ConversationMessage) -> Result<Uuid> {
        self.has_ended = true;
        let id = self.id;
        let reasoning = std::mem::take(&mut self.reasoning);
        let reasoning = Some(reasoning).filter(|reasoning| !reasoning.is_empty());
        let message = ConversationMessage {
            id,
            reasoning,
            ..message
        };
        self.capture.record(message).map(|()| id)
    }
}

impl Drop for ResponseStream {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let why = "the answer was interrupted before its end";
        if let Err(error) = self.end_failed("interrupted".into(), why.into()) {
            self.capture.note(error);
        }
    }
}
