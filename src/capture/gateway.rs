//! Records of a gateway: requests, answers and failures. They can be queued, or recorded with
//! blocking calls of the store.

use uuid::Uuid;

use crate::collections::IfKnown;
use crate::error::{Error, Result};
use crate::record::{
    Conversation, ConversationMessage, ERROR_PREFIX, InferenceMetadata, Record, Role,
};
use crate::store::Store;

impl Store {
    /// Records a request: the conversation, which is created unless the log has its id, and messages
    /// of it. They are acknowledged when this returns.
    /// [`Capture::capture_request`](crate::Capture::capture_request) does not wait.
    ///
    /// ```
    /// use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// use decklog::record::ConversationStatus;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// let id = conversation.id;
    /// let question = ConversationMessage::new(id, Role::User, "What is 1 + 1?");
    /// store.capture_request(conversation, [question])?;
    /// store.capture_error(id, "timeout", "no answer within 30 s", None)?;
    /// let (conversation, _) = store.get_conversation(id)?.expect("captured above");
    /// assert_eq!(conversation.status, ConversationStatus::Error);
    /// assert_eq!(conversation.last_error.as_deref(), Some("no answer within 30 s"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`record`](Store::record), for the first rejected record; the others may be recorded. [`InvalidInput`](crate::ErrorKind::InvalidInput) for a message of another
    /// conversation, and then nothing is recorded.
    pub fn capture_request(
        &self,
        conversation: Conversation,
        messages: impl IntoIterator<Item = ConversationMessage>,
    ) -> Result<()> {
        let records = request(conversation, messages)?.into_iter();
        let records = records.map(|(record, if_known)| (Ok(record), if_known));
        let mut answers = self.put_batch(records)?.into_iter();
        answers.try_for_each(|answer| answer.map(drop))
    }

    /// Records a model's answer as the next message of its conversation, filled from the metadata.
    /// Returns the message's id.
    ///
    /// # Errors
    /// As [`record`](Store::record).
    pub fn capture_response(
        &self,
        conversation_id: Uuid,
        content: impl Into<String>,
        metadata: &InferenceMetadata,
    ) -> Result<Uuid> {
        let message = response(conversation_id, content.into(), metadata);
        let id = message.id;
        self.record(message).map(|_| id)
    }

    /// Records a failure in place of an answer: a message of the system whose content is `Error: `
    /// and the error, which becomes the conversation's `last_error`. The conversation's status is
    /// `error` until an answer follows. Returns the message's id.
    ///
    /// # Errors
    /// As [`record`](Store::record).
    pub fn capture_error(
        &self,
        conversation_id: Uuid,
        error_type: impl Into<String>,
        error: impl Into<String>,
        metadata: Option<&InferenceMetadata>,
    ) -> Result<Uuid> {
        let failed = (error_type.into(), error.into());
        let message = failure(conversation_id, String::new(), failed, metadata);
        let id = message.id;
        self.record(message).map(|_| id)
    }
}

/// The records of a request, checked.
pub(super) fn request(
    conversation: Conversation,
    messages: impl IntoIterator<Item = ConversationMessage>,
) -> Result<Vec<(Record, IfKnown)>> {
    let id = conversation.id;
    let mut records = vec![(Record::from(conversation), IfKnown::Skip)];
    for message in messages {
        if message.conversation_id != id {
            return Err(Error::invalid(format!(
                "message {} is of conversation {}, and the request of {id}",
                message.id, message.conversation_id
            )));
        }
        records.push((message.into(), IfKnown::Compare));
    }
    let records = records.into_iter();
    let checked = records.map(|(record, if_known)| Ok((record.checked()?, if_known)));
    checked.collect()
}

pub(super) fn response(
    conversation_id: Uuid,
    content: String,
    metadata: &InferenceMetadata,
) -> ConversationMessage {
    ConversationMessage::new(conversation_id, Role::Assistant, content).with_metadata(metadata)
}

/// A failure, by error type and message. Without an answer before it, it is a message of the system;
/// otherwise it belongs to the interrupted answer.
pub(super) fn failure(
    conversation_id: Uuid,
    content: String,
    (error_type, error): (String, String),
    metadata: Option<&InferenceMetadata>,
) -> ConversationMessage {
    let (role, content) = if content.is_empty() {
        (Role::System, format!("{ERROR_PREFIX}{error}"))
    } else {
        (Role::Assistant, content)
    };
    let message = ConversationMessage::new(conversation_id, role, content);
    let message = match metadata {
        Some(metadata) => message.with_metadata(metadata),
        None => message,
    };
    ConversationMessage {
        error_type: Some(error_type),
        error: Some(error),
        ..message
    }
}
