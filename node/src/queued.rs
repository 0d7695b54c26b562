//! Batches of the queue of `recordAsync`.

use std::sync::{Arc, Mutex, PoisonError};

use decklog::Store;
use napi::bindgen_prelude::AsyncTask;
use napi::{Error, Result};
use napi_derive::napi;

use crate::tasks::{self, Work};
use crate::{batch, errors};

/// A batch that is recorded once: on another thread or, if that thread has not begun when the log is
/// closed or the process ends, at once.
#[napi]
pub struct Queued(Arc<Mutex<State>>);

enum State {
    Unsent(Store, Vec<u8>),
    /// The answers as JSON, or the reason of the error. None after a panic.
    Sent(Option<std::result::Result<String, String>>),
}

impl Queued {
    pub(crate) fn new(store: Store, bytes: Vec<u8>) -> Queued {
        Queued(Arc::new(Mutex::new(State::Unsent(store, bytes))))
    }
}

/// Records it, or waits for the thread that does. Returns the answers.
fn answers(state: &Mutex<State>) -> Result<String> {
    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*state, State::Unsent(..))
        && let State::Unsent(store, bytes) = std::mem::replace(&mut *state, State::Sent(None))
    {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let answers = batch::record(&store, &bytes, length);
        *state = State::Sent(Some(answers.map_err(|error| error.reason.clone())));
    }
    match &*state {
        State::Sent(Some(answers)) => answers.clone().map_err(Error::from_reason),
        _ => Err(errors::fault("a batch has no answers")),
    }
}

#[napi]
impl Queued {
    #[napi]
    pub fn record_async(&self) -> AsyncTask<Work> {
        let state = Arc::clone(&self.0);
        tasks::spawn(move || answers(&state).map(Some))
    }

    /// Returns when it is recorded.
    #[napi]
    pub fn record(&self) -> Result<String> {
        answers(&self.0)
    }
}
