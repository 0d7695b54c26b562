//! What the log says of recorded facts.

use decklog::bindings::{RecordId, Recorded};
use decklog::{AckStatus, Store, Warning};
use napi::Result;
use serde::Serialize;

use crate::errors::{self, OrThrow as _};
use crate::wire;

/// Length of an acknowledgement in bytes.
const LENGTH: usize = 18;

/// An acknowledgement as `ack.js` reads it: the sequence number, whether it was added, the id, the
/// position of a message, and the warning.
#[derive(Serialize)]
pub(crate) struct Answer(
    pub(crate) u64,
    pub(crate) bool,
    pub(crate) Option<Id>,
    pub(crate) Option<i64>,
    pub(crate) Option<&'static str>,
);

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Id {
    Number(i64),
    Text(String),
}

impl From<Recorded> for Answer {
    fn from(recorded: Recorded) -> Answer {
        let id = recorded.id.map(|id| match id {
            RecordId::Number(number) => Id::Number(number),
            RecordId::Text(text) => Id::Text(text),
        });
        let is_added = recorded.status == AckStatus::Added;
        let warning = recorded.warning.map(Warning::as_str);
        Answer(recorded.seq, is_added, id, recorded.sequence, warning)
    }
}

/// Records one record, and writes its acknowledgement over it: the sequence number and the assigned
/// number or NaN as doubles, whether it was added, and whether there is a warning. Returns the id of
/// the record, if it has one of its own.
#[allow(clippy::cast_precision_loss)] // Neither is as great as that.
pub(crate) fn record(store: &Store, bytes: &mut [u8], length: u32) -> Result<Option<String>> {
    let input = wire::record(bytes, length)?;
    let head = input.head();
    let recorded = head.recorded(store.record_input(input).or_throw()?);
    let out = bytes
        .get_mut(..LENGTH)
        .ok_or_else(|| errors::fault("no room for the answer"))?;
    let (number, text) = match recorded.id {
        None => (None, None),
        Some(RecordId::Number(number)) => (Some(number), None),
        Some(RecordId::Text(text)) => (recorded.sequence, Some(text)),
    };
    let number = number.map_or(f64::NAN, |number| number as f64);
    out[..8].copy_from_slice(&(recorded.seq as f64).to_le_bytes());
    out[8..16].copy_from_slice(&number.to_le_bytes());
    let is_added = recorded.status == AckStatus::Added;
    out[16] = u8::from(is_added) | u8::from(recorded.sequence.is_some()) << 1;
    let warning = Warning::ALL
        .iter()
        .position(|known| Some(*known) == recorded.warning);
    out[17] = warning.map_or(0, |place| place as u8 + 1);
    Ok(text)
}
