//! The inbox: tasks that wait for a worker. Each is taken by one worker.

use super::declare::record;
use super::words::words;
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

record! {
    /// A task of the inbox. Key: `id`; `update_id` is unique.
    ///
    /// One that is handed over is queued, and the log takes note of it once for each `update_id`.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub non_exhaustive struct InboxTask {
        /// Its id, from 1. 0 asks for the next one.
        [id, default, key] id: i64,
        /// The sender's number for it, such as Telegram's.
        [int, lookup] update_id: i64,
        /// When it was queued, in epoch milliseconds.
        [own_millis] created_at: i64,
        /// The chat that it comes from, where it is a message of one.
        [int] chat_id: Option<i64>,
        /// The message's time as its sender gives it: Telegram's is in epoch seconds. Required
        /// with a `chat_id`.
        [int] message_date: Option<i64>,
        /// The message's text, kept to the byte. Required with a `chat_id`.
        [content] text: Option<String>,
        /// Further data of the task, also of one without a text, kept to the byte.
        [payload] payload: Option<String>,
        /// Where it stands.
        [word, default, derived] status: TaskStatus,
        /// How often it was claimed.
        [count, default, later] attempts: i64,
        /// While someone works on it: since when, in epoch milliseconds.
        [millis, later] locked_at: Option<i64>,
        /// Why it was given up, or given back last.
        [content, later] error: Option<String>,
        /// When it came to stand where it stands, in epoch milliseconds. Not stored: that of its last
        /// line, whatever is given.
        [millis, default, derived] updated_at: i64,
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

    /// A task for a chat message, to queue now.
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
    /// A step of a task: it was claimed, done, given up, or given back to the queue.
    #[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
    #[derive(Eq)]
    pub struct InboxStep {
        /// The task.
        [int, default, key] id: i64,
        /// Which claim: the task's `attempts` at that time. Whoever names another one holds the
        /// task no more. 0 stands for the latest, and is never read back.
        [count, default; locked_at] attempt as "attempts": i64 = "the latest",
        /// Why it was given up or given back. Left out, it is the error of the latest failure.
        [content] error: Option<String>,
        /// Where it stands from then on.
        [op] status: TaskStatus,
        /// When, in epoch milliseconds.
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
