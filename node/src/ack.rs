//! What the log says of recorded facts.

use decklog::bindings::Input;
use decklog::{Ack, AckStatus, Kind, Store, Warning};
use napi::Result;
use serde_json::{Value, json};

use crate::errors::{self, OrThrow as _};
use crate::wire;

/// Length of an acknowledgement in bytes.
const LENGTH: usize = 18;

/// What of a record is needed to describe its acknowledgement.
pub(crate) struct Head {
    kind: Kind,
    id: Option<String>,
}

impl Head {
    pub(crate) fn of(input: &Input) -> Head {
        Head {
            kind: input.kind(),
            id: input.id(),
        }
    }

    pub(crate) fn of_kind(kind: Kind) -> Head {
        Head { kind, id: None }
    }

    pub(crate) fn json(self, ack: Ack) -> Value {
        let sequence = ack.assigned.filter(|_| self.kind == Kind::Messages);
        let id = match self.id {
            Some(id) => Value::from(id),
            None => Value::from(ack.assigned),
        };
        let is_added = ack.status == AckStatus::Added;
        json!([
            ack.seq,
            is_added,
            id,
            sequence,
            ack.warning.map(Warning::as_str)
        ])
    }
}

/// Records one record, and writes its acknowledgement over it: the sequence number and the assigned
/// number or NaN as doubles, whether it was added, and whether there is a warning. Returns the id of
/// the record, if it has one of its own.
#[allow(clippy::cast_precision_loss)] // Neither is as great as that.
pub(crate) fn record(store: &Store, bytes: &mut [u8], length: u32) -> Result<Recorded> {
    let input = wire::record(bytes, length)?;
    let Head { kind, id } = Head::of(&input);
    let ack = store.record_input(input).or_throw()?;
    let out = bytes
        .get_mut(..LENGTH)
        .ok_or_else(|| errors::fault("no room for the answer"))?;
    let assigned = ack.assigned.map_or(f64::NAN, |number| number as f64);
    out[..8].copy_from_slice(&(ack.seq as f64).to_le_bytes());
    out[8..16].copy_from_slice(&assigned.to_le_bytes());
    out[16] = u8::from(ack.status == AckStatus::Added) | u8::from(kind == Kind::Messages) << 1;
    out[17] = match ack.warning {
        None => 0,
        Some(warning) => {
            let known = WARNINGS.iter().position(|known| *known == warning);
            known.map_or(0, |place| place as u8 + 1)
        }
    };
    Ok(id)
}

type Recorded = Option<String>;

/// The warnings, by number.
pub(crate) const WARNINGS: [Warning; 2] = [Warning::EarlyTime, Warning::UnreadMetadata];

/// Records of a batch, as far as they are valid.
pub(crate) struct Batch {
    inputs: Vec<Input>,
    heads: Vec<Result<Head>>,
}

impl Batch {
    /// Reads the number of records, then the records.
    pub(crate) fn read(bytes: &[u8], length: u32) -> Result<Batch> {
        wire::read(bytes, length, |reader| {
            let count = reader.count()?;
            let mut batch = Batch {
                inputs: Vec::with_capacity(count.min(10_000)),
                heads: Vec::with_capacity(count.min(10_000)),
            };
            for _ in 0..count {
                let head = reader.record().map(|input| {
                    let head = Head::of(&input);
                    batch.inputs.push(input);
                    head
                });
                batch.heads.push(head);
            }
            Ok(batch)
        })
    }

    /// Records them, each by itself. Returns for each its acknowledgement or its error, as JSON.
    pub(crate) fn record(self, store: &Store) -> Result<String> {
        let mut acks = store.record_inputs(self.inputs).or_throw()?.into_iter();
        let answers = self.heads.into_iter().map(|head| {
            let answer = head.and_then(|head| {
                let ack = acks
                    .next()
                    .ok_or_else(|| errors::fault("an answer is missing"))?;
                Ok(head.json(ack.or_throw()?))
            });
            answer.unwrap_or_else(|error| errors::of_message(&error))
        });
        Ok(answers.collect::<Value>().to_string())
    }

    /// Records all of them or none.
    pub(crate) fn record_all(self, store: &Store) -> Result<String> {
        let heads = self.heads.into_iter().collect::<Result<Vec<Head>>>()?;
        let acks = store.record_all_inputs(self.inputs).or_throw()?;
        let answers = acks
            .into_iter()
            .zip(heads)
            .map(|(ack, head)| head.json(ack));
        Ok(answers.collect::<Value>().to_string())
    }
}
