//! Counts of captured records by result.

/// Counts of captured records by result. At any moment `accepted` is the sum of `queued`, `written`,
/// `unchanged`, `rejected` and `failed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureStats {
    /// Records that wait or are being written.
    pub queued: u64,
    /// Records that were queued.
    pub accepted: u64,
    /// Records that were added to the log.
    pub written: u64,
    /// Records that the log already had, such as the conversation of a second request.
    pub unchanged: u64,
    /// Records that were not queued, because the queue was full or the writing thread had failed.
    pub refused: u64,
    /// Records that a rule of the log rejected, such as a conflict.
    pub rejected: u64,
    /// Records that the store failed to write. They may still be in the log.
    pub failed: u64,
    /// Number of retries of batches because another process held the store's lock.
    pub lock_retries: u64,
}

impl CaptureStats {
    pub(super) fn answered(&self) -> u64 {
        self.accepted - self.queued
    }

    pub(super) fn lost(&self) -> u64 {
        self.rejected + self.failed
    }

    /// Adds the results of queued records.
    pub(super) fn settle(&mut self, results: &CaptureStats) {
        self.queued -= results.written + results.unchanged + results.lost();
        self.written += results.written;
        self.unchanged += results.unchanged;
        self.rejected += results.rejected;
        self.failed += results.failed;
    }
}
