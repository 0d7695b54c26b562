//! The inbox: tasks that wait for a worker. Each is taken by one worker.

use super::declare::record;
use super::words::words;
use crate::error::{Error, Result};

words! {
    /// The status of a task.
    #[derive(Default)]
    TaskStatus("status") {
        /// Waiting for a worker.
        #[default]
        Queued = "queued",
        /// Claimed by a worker.
        InProgress = "in_progress",
        /// Completed.
        Done = "done",
        /// Failed, and not tried again.
        Failed = "failed",
    }
}

record! {
    /// A task of the inbox. Key: `id`; `update_id` is unique.
    ///
    /// A new task must be queued. The log records one task for each `update_id`.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct InboxTask {
        /// Id, from 1. 0 assigns the next one.
        [id, default, key] id: i64,
        /// The sender's number for the task, such as Telegram's.
        [int, lookup] update_id: i64,
        /// Time of queuing, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// The chat of the message, if the task is a chat message.
        [int] chat_id: Option<i64>,
        /// The message's time, as given by the sender: Telegram's is in epoch seconds. Required
        /// with a `chat_id`.
        [int] message_date: Option<i64>,
        /// The message's text, stored byte for byte. Required with a `chat_id`.
        [content] text: Option<String>,
        /// The data of the task, with or without a text, stored byte for byte.
        [payload] payload: Option<String>,
        /// The status.
        [word, derived] status: TaskStatus,
        /// Number of claims.
        [count, later] attempts: i64,
        /// While `in_progress`: time of the claim, in epoch milliseconds.
        [millis, later] locked_at: Option<i64>,
        /// The error of the latest failure.
        [content, later] error: Option<String>,
        /// Time of the last status change, in epoch milliseconds. Not stored: read from the last
        /// line. Ignored in input.
        [millis, derived] updated_at: i64,
    }
}

impl InboxTask {
    /// A task to queue, with the current time.
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

    /// A task for a chat message, to queue, with the current time.
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

record! {
    /// A step of a task: claimed, done, failed or returned to the queue.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub struct InboxStep {
        /// The task's id.
        [int, default, key] id: i64,
        /// Number of the claim: the task's `attempts` at that time. The number of a released claim
        /// is rejected. 0 means the latest. Reads never return 0.
        [count, default; locked_at] attempt as "attempts": i64 = "the latest",
        /// The error, if the task failed or was returned. Default: the error of the latest failure.
        [content] error: Option<String>,
        /// The new status.
        [op] status: TaskStatus,
        /// Time of the step, in epoch milliseconds.
        [at] at: i64,
    }
}

impl InboxStep {
    pub(super) fn check(&self) -> Result<()> {
        if self.id < 1 {
            let message = format!("id is {}: ids of tasks begin at 1", self.id);
            return Err(Error::invalid(message));
        }
        Ok(())
    }
}
