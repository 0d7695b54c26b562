//! Writing: one transaction at a time appends lines and publishes them to other processes.
//!
//! It takes the lock, catches up, appends, and acknowledges. It does not decide which record may
//! follow which, and it never changes bytes that are already in a segment.

pub(super) mod group_sync;
pub(super) mod head;
pub(super) mod head_reader;
pub(super) mod lock;
pub(super) mod policy_cache;
pub(super) mod reentrancy;
pub(super) mod transaction;
pub(super) mod write_group;
pub(super) mod write_policy;
