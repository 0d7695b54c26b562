//! The context of a tool's call.

use std::ops::ControlFlow;

use tokio::sync::watch;

use super::super::answer::Fault;
use crate::analytics::Analytics;
use crate::store::Store;

/// The progress of a call, in any unit.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::mcp) struct Progress {
    pub(in crate::mcp) done: f64,
    /// If known.
    pub(in crate::mcp) total: Option<f64>,
}

pub(in crate::mcp) struct Call<'a> {
    pub(in crate::mcp) store: &'a Store,
    pub(in crate::mcp) analytics: &'a Analytics,
    pub(in crate::mcp) progress: &'a watch::Sender<Progress>,
    /// Whether the client cancelled it.
    pub(in crate::mcp) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Call<'_> {
    /// Reports progress, and fails if it was cancelled.
    #[allow(clippy::cast_precision_loss)] // Counts are far smaller.
    pub(super) fn go_on(&self, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let (done, total) = (done as f64, total.map(|total| total as f64));
        self.progress.send_replace(Progress { done, total });
        if (self.is_cancelled)() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// # Errors
    /// If the client cancelled it.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if (self.is_cancelled)() {
            return Err(Fault::cancelled());
        }
        Ok(())
    }
}
