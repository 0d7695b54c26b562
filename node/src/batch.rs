//! Batches of records.

use decklog::Store;
use decklog::bindings::{self, Recorded, Refused};
use napi::Result;
use napi_derive::napi;
use serde::Serialize;

use crate::ack::Answer;
use crate::errors::{self, OrThrow as _};
use crate::wire;

/// Records, each of which is recorded by itself, while the next ones are read.
#[napi]
pub struct Batch(Option<bindings::Batch<napi::Error>>);

impl Batch {
    pub(crate) fn new(store: Store) -> Batch {
        Batch(Some(bindings::Batch::new(store)))
    }
}

#[napi]
impl Batch {
    /// Adds records. Returns whether more of them are of use: not after the log has failed.
    #[napi]
    pub fn add(&mut self, bytes: &[u8], length: u32) -> Result<bool> {
        let Some(batch) = &mut self.0 else {
            return Ok(false);
        };
        wire::read(bytes, length, |reader| {
            let mut is_taken = true;
            while !reader.is_at_end() {
                // Each record that was handed over has an outcome, also after the log has failed.
                if batch.push(reader.record()) && is_taken {
                    is_taken = batch.send();
                }
            }
            Ok(is_taken)
        })
    }

    /// Writes the rest. Returns a JSON array, which has for each record the values of its
    /// acknowledgement or its error.
    #[napi]
    pub fn end(&mut self) -> Result<String> {
        let mut answers = Answers::new();
        for part in self.0.take().into_iter().flat_map(bindings::Batch::end) {
            for outcome in part.or_throw()? {
                match outcome {
                    Ok(recorded) => answers.recorded(recorded)?,
                    Err(Refused::Unread(error)) => answers.value(&errors::of_message(&error))?,
                    Err(Refused::Rejected(error)) => answers.value(&errors::json(&error))?,
                }
            }
        }
        answers.json()
    }
}

/// A JSON array, which has for each record the values of its acknowledgement or its error.
struct Answers(Vec<u8>);

impl Answers {
    fn new() -> Answers {
        Answers(b"[".to_vec())
    }

    fn value(&mut self, value: &impl Serialize) -> Result<()> {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        serde_json::to_writer(&mut self.0, value).map_err(errors::fault)
    }

    fn recorded(&mut self, recorded: Recorded) -> Result<()> {
        let Answer(seq, is_added, id, sequence, warning) = recorded.into();
        self.value(&seq)?;
        self.value(&is_added)?;
        self.value(&id)?;
        self.value(&sequence)?;
        self.value(&warning)
    }

    fn json(mut self) -> Result<String> {
        self.0.push(b']');
        String::from_utf8(self.0).map_err(errors::fault)
    }
}

/// Records a whole batch, each record by itself.
pub(crate) fn record(store: &Store, bytes: &[u8], length: u32) -> Result<String> {
    let mut batch = Batch::new(store.clone());
    batch.add(bytes, length)?;
    batch.end()
}

/// Records all of these records or none. Returns their acknowledgements as JSON.
pub(crate) fn record_all(store: &Store, bytes: &[u8], length: u32) -> Result<String> {
    let (mut inputs, mut heads) = (Vec::new(), Vec::new());
    wire::read(bytes, length, |reader| {
        while !reader.is_at_end() {
            let input = reader.record()?;
            heads.push(input.head());
            inputs.push(input);
        }
        Ok(())
    })?;
    let acks = store.record_all_inputs(inputs).or_throw()?;
    let mut answers = Answers::new();
    for (ack, head) in acks.into_iter().zip(heads) {
        answers.recorded(head.recorded(ack))?;
    }
    answers.json()
}
