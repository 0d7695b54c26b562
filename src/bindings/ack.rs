//! Acknowledgements as other languages show them.

use super::Input;
use crate::collections::{Ack, AckStatus, Warning};
use crate::record::{Key, Kind};

/// The kind and the id of a record that is recorded: what an acknowledgement takes from it.
#[derive(Debug, Clone)]
pub struct Head {
    kind: Kind,
    id: Option<String>,
}

/// An acknowledgement, with the id of its record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Recorded {
    /// The sequence number of the line that has the record.
    pub seq: u64,
    /// Whether the line is new.
    pub status: AckStatus,
    /// The id of the record. `None` for tool calls, steps of tasks, rollups and retractions.
    pub id: Option<RecordId>,
    /// The position of a message in its conversation.
    pub sequence: Option<i64>,
    /// A probable mistake in the record.
    pub warning: Option<Warning>,
}

/// The id of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordId {
    /// Assigned by the log.
    Number(i64),
    /// Given, or made for the record.
    Text(String),
}

impl Head {
    /// Of a record that is retracted.
    pub fn of_retraction(key: &Key) -> Head {
        Head {
            kind: key.kind(),
            id: None,
        }
    }

    /// The acknowledgement of the record.
    pub fn recorded(self, ack: Ack) -> Recorded {
        Recorded {
            seq: ack.seq,
            status: ack.status,
            id: match self.id {
                Some(id) => Some(RecordId::Text(id)),
                None => ack.assigned.map(RecordId::Number),
            },
            sequence: ack.assigned.filter(|_| self.kind == Kind::Messages),
            warning: ack.warning,
        }
    }
}

impl Input {
    /// The kind and the id of the record.
    pub fn head(&self) -> Head {
        Head {
            kind: self.kind(),
            id: self.id(),
        }
    }
}
