//! Counts of captured records by result.

use crate::error::Error;

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

    pub(super) fn settle(&mut self, answers: &Answers) {
        self.queued -= answers.written + answers.unchanged + answers.rejected + answers.failed;
        self.written += answers.written;
        self.unchanged += answers.unchanged;
        self.rejected += answers.rejected;
        self.failed += answers.failed;
    }
}

/// The results of records.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) written: u64,
    pub(super) unchanged: u64,
    pub(super) rejected: u64,
    pub(super) failed: u64,
    /// The bytes of their texts.
    pub(super) bytes: usize,
    pub(super) last_error: Option<Error>,
}
