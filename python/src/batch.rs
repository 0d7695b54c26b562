//! Batches that are written while their later records are still read from Python.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use decklog::bindings::Input;
use decklog::{Ack, Result, Store};
use pyo3::prelude::*;

/// Number of records that are written at a time.
const PART: usize = 250;
/// Number of parts that may wait for the thread.
const PARTS_AHEAD: usize = 4;

type Answers = Result<Vec<Result<Ack>>>;

/// A batch of records. A short one is written at its end, a longer one in parts, by a thread.
pub(crate) struct Batch {
    store: Store,
    part: Vec<Input>,
    writer: Option<(SyncSender<Vec<Input>>, JoinHandle<Answers>)>,
}

impl Batch {
    pub(crate) fn new(store: Store) -> Batch {
        Batch {
            store,
            part: Vec::new(),
            writer: None,
        }
    }

    /// Returns whether more records are of use: not after the log has failed.
    pub(crate) fn push(&mut self, py: Python<'_>, input: Input) -> bool {
        let is_taken = self.part.len() < PART || py.detach(|| self.send());
        self.part.push(input);
        is_taken
    }

    /// Hands the part to the thread, and waits if that is far behind. Without a thread, the part
    /// grows. Returns whether the thread takes more.
    fn send(&mut self) -> bool {
        if self.writer.is_none() {
            let (sender, parts) = sync_channel(PARTS_AHEAD);
            let store = self.store.clone();
            let thread = std::thread::Builder::new().name("decklog-batch".to_owned());
            let spawned = thread.spawn(move || write(&store, &parts));
            self.writer = spawned.ok().map(|thread| (sender, thread));
        }
        let Some((sender, _)) = &self.writer else {
            return true;
        };
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART));
        // After an error the thread takes no more, and the error is the answer.
        sender.send(part).is_ok()
    }

    /// Writes the rest. The answers are in the order of the records.
    ///
    /// # Errors
    /// As [`Store::record_batch`]. Of a long batch, any number of records may be in the log.
    pub(crate) fn end(mut self) -> Answers {
        if self.writer.is_some() {
            self.send();
        }
        let Some((sender, thread)) = self.writer else {
            return self.store.record_inputs(self.part);
        };
        drop(sender);
        match thread.join() {
            Ok(answers) => answers,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

fn write(store: &Store, parts: &Receiver<Vec<Input>>) -> Answers {
    let mut answers = Vec::new();
    for part in parts {
        answers.extend(store.record_inputs(part)?);
    }
    Ok(answers)
}
