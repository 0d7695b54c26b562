//! The inbox: tasks that wait for a worker, each for one.

use serde::{Deserialize, Serialize};

use super::words::words;
use super::{check_count, check_id, payload};
use crate::error::{Error, Result};

words! {
    /// Where a task stands.
    #[derive(Default)]
    TaskStatus("status") {
        /// It waits.
        #[default]
        Queued = "queued",
        /// Someone works on it.
        InProgress = "in_progress",
        /// It is done.
        Done = "done",
        /// It was given up.
        Failed = "failed",
    }
}

/// A task of the inbox. Key: `id`; `update_id` is unique.
///
/// One that is handed over is queued, and the log takes note of it once for each `update_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "face", derive(utoipa::ToSchema))]
pub struct InboxTask {
    /// Its id, from 1; 0 asks for the next one, and is never read back.
    #[serde(default)]
    pub id: i64,
    /// The sender's number for it, such as Telegram's.
    pub update_id: i64,
    /// The chat that it comes from, where it is a message of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<i64>,
    /// The message's text, kept to the byte. Required with a `chat_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The message's time as its sender gives it: Telegram's is in epoch seconds. Required
    /// with a `chat_id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_date: Option<i64>,
    /// When it was queued, in epoch milliseconds.
    pub created_at: i64,
    /// When it came to stand where it stands, in epoch milliseconds. Not stored: that of its last
    /// line, whatever is given.
    #[serde(default)]
    pub updated_at: i64,
    /// Where it stands.
    #[serde(default)]
    pub status: TaskStatus,
    /// How often it was claimed.
    #[serde(default)]
    pub attempts: i64,
    /// While someone works on it: since when, in epoch milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_at: Option<i64>,
    /// Why it was given up, or given back last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Further data of the task, also of one without a text, kept to the byte.
    #[serde(
        default,
        with = "payload::optional",
        skip_serializing_if = "Option::is_none"
    )]
    #[cfg_attr(feature = "face", schema(value_type = Option<serde_json::Value>))]
    pub payload: Option<String>,
}

impl InboxTask {
    /// A task of now, to be queued.
    pub fn new(update_id: i64, payload: Option<String>) -> InboxTask {
        let now = super::now();
        InboxTask {
            id: 0,
            update_id,
            chat_id: None,
            text: None,
            message_date: None,
            created_at: now,
            updated_at: now,
            status: TaskStatus::Queued,
            attempts: 0,
            locked_at: None,
            error: None,
            payload,
        }
    }

    /// A message of a chat of now, to be queued.
    pub fn of_message(update_id: i64, chat_id: i64, text: impl Into<String>, date: i64) -> Self {
        InboxTask {
            chat_id: Some(chat_id),
            text: Some(text.into()),
            message_date: Some(date),
            ..InboxTask::new(update_id, None)
        }
    }

    pub(super) fn check(&mut self) -> Result<()> {
        self.updated_at = self.created_at;
        check_id(self.id)?;
        let is_new = self.attempts == 0 && self.locked_at.is_none() && self.error.is_none();
        if self.status != TaskStatus::Queued || !is_new {
            return Err(Error::invalid(format!(
                "the task is {} after {} attempts: queue it without attempts, locked_at and error, and record each step that follows",
                self.status, self.attempts
            )));
        }
        let of_message = [
            ("text", self.text.is_none()),
            ("message_date", self.message_date.is_none()),
        ];
        let missing = of_message.into_iter().find(|(_, is_missing)| *is_missing);
        if let Some((name, _)) = missing.filter(|_| self.chat_id.is_some()) {
            let message = format!(
                "{name} is missing: a task with a chat_id is a message, give its text and its message_date"
            );
            return Err(Error::invalid(message).with_field(name));
        }
        Ok(())
    }
}

/// A step of a task: it was claimed, done, given up, or given back to the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxStep {
    /// The task.
    pub id: i64,
    /// Where it stands from then on.
    pub status: TaskStatus,
    /// When, in epoch milliseconds.
    pub at: i64,
    /// Which claim: the task's `attempts` at that time. Whoever names another one holds the task
    /// no more. 0 stands for the latest, and is never read back.
    pub attempt: i64,
    /// Why it was given up or given back. Left out, it is the error of the latest failure.
    pub error: Option<String>,
}

impl InboxStep {
    pub(super) fn check(&self) -> Result<()> {
        if self.id < 1 {
            let message = format!("id {} is none of a task: ids begin at 1", self.id);
            return Err(Error::invalid(message));
        }
        check_count("attempts", Some(self.attempt))
    }
}
