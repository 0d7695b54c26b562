//! Maintenance: seals, rewrites, repair, verification, and the record of what was removed.
//!
//! Only this module changes lines that are already in segments. It does not decide what is
//! removed; see `retention`.

pub(super) mod other_files;
pub(super) mod removals;
pub(super) mod repair;
pub(super) mod rewrite;
pub(super) mod seal;
pub(super) mod seq_set;
pub(super) mod tombstones;
pub(super) mod upkeep;
pub(super) mod verify;
