//! The check of a chain in answers: without the paths of files.

use serde::Serialize;
use utoipa::ToSchema;

use crate::collections::ChainCheck;

/// The result of the check of a chain.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verified {
    task_id: String,
    /// Whether it is intact and no line that may belong to it is damaged.
    is_intact: bool,
    /// Number of records of the chain. Compare it with a copy stored elsewhere: a chain that lost its
    /// last records is still intact.
    records: u64,
    /// The hash of the last one.
    head: Option<String>,
    /// The first break.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<Broken>,
    /// Damaged places in the files of thoughts, where records of the chain may be lost:
    /// `decklog thoughts verify` lists them.
    damage: usize,
}

/// Where a chain breaks.
#[derive(Debug, Serialize, ToSchema)]
struct Broken {
    /// The record's position in the chain, from 1.
    position: u64,
    /// Its id, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The reason.
    reason: String,
}

impl From<ChainCheck> for Verified {
    fn from(check: ChainCheck) -> Verified {
        let is_intact = check.is_intact();
        let broken = check.broken.map(|at| Broken {
            position: at.position,
            id: at.id,
            reason: at.reason,
        });
        Verified {
            is_intact,
            broken,
            task_id: check.task_id,
            records: check.records,
            head: check.head,
            damage: check.damage.len(),
        }
    }
}
