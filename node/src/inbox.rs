//! Tasks, each held by one worker at a time.

use decklog::record::TaskStatus;
use decklog::{InboxTask, Store, bindings};
use napi::Result;
use napi_derive::napi;

use crate::errors::{self, OrThrow as _};
use crate::options::{integer, milliseconds};
use crate::{page, wire};

#[napi]
pub struct Inbox {
    store: Store,
    attempts_max: Option<u32>,
}

impl Inbox {
    pub(crate) fn new(store: Store, attempts_max: Option<u32>) -> Inbox {
        Inbox {
            store,
            attempts_max,
        }
    }

    fn inbox(&self) -> decklog::inbox::Inbox<'_> {
        let inbox = self.store.inbox();
        match self.attempts_max {
            Some(attempts) => inbox.attempts_max(attempts),
            None => inbox,
        }
    }
}

fn json(task: InboxTask) -> Result<String> {
    page::text(&bindings::Item::from(task))
}

/// The task that JavaScript holds.
fn task(bytes: &[u8], length: u32) -> Result<InboxTask> {
    let json = wire::json(bytes, length)?;
    serde_json::from_str(&json).map_err(|e| errors::invalid("task", &format!("it is no task: {e}")))
}

#[napi]
impl Inbox {
    #[napi]
    pub fn enqueue(&self, update_id: String, bytes: &[u8], length: u32) -> Result<String> {
        let payload = (length > 0)
            .then(|| wire::payload(bytes, length))
            .transpose()?;
        let update_id = integer("update_id", &update_id)?;
        json(
            self.inbox()
                .enqueue(update_id, payload.as_deref())
                .or_throw()?,
        )
    }

    #[napi]
    pub fn enqueue_message(
        &self,
        update_id: String,
        chat_id: String,
        text: String,
        date: String,
    ) -> Result<String> {
        let update_id = integer("update_id", &update_id)?;
        let (chat_id, date) = (integer("chat_id", &chat_id)?, integer("date", &date)?);
        json(
            self.inbox()
                .enqueue_message(update_id, chat_id, &text, date)
                .or_throw()?,
        )
    }

    #[napi]
    pub fn claim(&self) -> Result<Option<String>> {
        self.inbox().claim().or_throw()?.map(json).transpose()
    }

    #[napi]
    pub fn done(&self, bytes: &[u8], length: u32) -> Result<()> {
        self.inbox().done(&task(bytes, length)?).or_throw()
    }

    #[napi]
    pub fn fail(&self, bytes: &[u8], length: u32, error: String) -> Result<()> {
        self.inbox().fail(&task(bytes, length)?, &error).or_throw()
    }

    #[napi]
    pub fn retry(&self, bytes: &[u8], length: u32, error: String) -> Result<&'static str> {
        let retried = self.inbox().retry(&task(bytes, length)?, &error);
        retried.map(TaskStatus::as_str).or_throw()
    }

    #[napi]
    pub fn release_stale(&self, timeout_ms: f64) -> Result<String> {
        let timeout = milliseconds("timeoutMs", timeout_ms)?;
        let released = self.inbox().release_stale(timeout).or_throw()?;
        let released: Vec<_> = released.into_iter().map(bindings::Item::from).collect();
        page::text(&released)
    }

    #[napi]
    pub fn counts(&self) -> Result<String> {
        page::text(&self.inbox().counts().or_throw()?)
    }

    #[napi]
    pub fn telegram_offset(&self) -> Result<String> {
        page::text(&self.store.telegram_offset().or_throw()?)
    }
}
