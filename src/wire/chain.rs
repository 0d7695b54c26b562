//! The check of a chain as answers have it: without the paths of files.

use serde::Serialize;
use utoipa::ToSchema;

use crate::collections::ChainCheck;

/// What a check of a chain found.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Verified {
    task_id: String,
    /// Whether it holds and no line that may belong to it is damaged.
    is_intact: bool,
    /// How many records the chain has: compare it with what was kept elsewhere, because a chain
    /// that lost its last records holds.
    records: u64,
    /// The hash of the last one.
    head: Option<String>,
    /// The first place where it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<Broken>,
    /// Places in the files of thoughts that are damaged and may have taken records from the chain:
    /// `decklog thoughts verify` tells where.
    damage: usize,
}

/// Where a chain breaks.
#[derive(Debug, Serialize, ToSchema)]
struct Broken {
    /// Which record of the chain, from 1.
    position: u64,
    /// Its id, if it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// What does not hold.
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
