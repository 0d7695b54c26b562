//! Batches of records.

use decklog::Store;
use decklog::bindings::{self, Refused};
use napi::Result;
use napi_derive::napi;

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
            while !reader.is_at_end() {
                if batch.push(reader.record()) && !batch.send() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Writes the rest. Returns for each record its acknowledgement or its error, as JSON.
    #[napi]
    pub fn end(&mut self) -> Result<String> {
        let mut out = b"[".to_vec();
        for part in self.0.take().into_iter().flat_map(bindings::Batch::end) {
            for outcome in part.or_throw()? {
                if out.len() > 1 {
                    out.push(b',');
                }
                let written = match outcome {
                    Ok(recorded) => serde_json::to_writer(&mut out, &Answer::from(recorded)),
                    Err(Refused::Unread(error)) => {
                        serde_json::to_writer(&mut out, &errors::of_message(&error))
                    }
                    Err(Refused::Rejected(error)) => {
                        serde_json::to_writer(&mut out, &errors::json(&error))
                    }
                };
                written.map_err(errors::fault)?;
            }
        }
        out.push(b']');
        String::from_utf8(out).map_err(errors::fault)
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
    let answers = acks.into_iter().zip(heads);
    let answers = answers.map(|(ack, head)| Answer::from(head.recorded(ack)));
    serde_json::to_string(&answers.collect::<Vec<_>>()).map_err(errors::fault)
}
