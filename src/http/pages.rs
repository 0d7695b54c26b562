//! How long pages are over HTTP.

/// A page ends with the record that makes it this long, as the log has it.
pub(super) const PAGE_BYTES_MAX: usize = 8 << 20;
