//! The state of a handle: the segments, how far each was read, and the index.
//!
//! It is rebuilt from the segments whenever they differ from it. This module never writes to a
//! segment. The files that it writes to `cache/` can be deleted at any time.

pub(super) mod altered_seqs;
pub(super) mod append_order;
pub(super) mod parallel_scan;
pub(super) mod read_ahead;
pub(super) mod refresh;
pub(super) mod relocations;
pub(super) mod renew;
pub(super) mod row_lines;
pub(super) mod sidecar;
pub(super) mod snapshot;
pub(super) mod state;
pub(super) mod watermark;
