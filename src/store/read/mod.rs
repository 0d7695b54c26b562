//! Reading lines in order: following the log, paging through it, and scanning it backwards.
//!
//! Nothing here writes to the store.

pub(super) mod change_watch;
#[cfg(feature = "mcp")]
pub(super) mod days;
pub(super) mod file_cache;
pub(super) mod file_events;
pub(super) mod follow;
pub(super) mod lines;
#[cfg(any(feature = "otlp", feature = "wire"))]
pub(super) mod paged_reader;
#[cfg(feature = "ship")]
pub(super) mod point;
pub(super) mod reverse_scan;
