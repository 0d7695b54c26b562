//! What a tool has while it is called.

use std::fmt;
use std::ops::ControlFlow;

use tokio::sync::watch;

use super::super::answer::Fault;
use crate::analytics::Analytics;
use crate::store::Store;

/// How far a call has come: so much of so much, in whatever it counts.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(in crate::mcp) struct Progress {
    pub(in crate::mcp) done: f64,
    /// If that is known.
    pub(in crate::mcp) total: Option<f64>,
}

pub(in crate::mcp) struct Call<'a> {
    pub(in crate::mcp) store: &'a Store,
    pub(in crate::mcp) analytics: &'a Analytics,
    pub(in crate::mcp) progress: &'a watch::Sender<Progress>,
    /// Whether the client does not wait for it any more.
    pub(in crate::mcp) is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

impl Call<'_> {
    /// Tells how far it has come, and whether it is to go on.
    #[allow(clippy::cast_precision_loss)] // No one counts so far.
    pub(super) fn go_on(&self, done: u64, total: Option<u64>) -> ControlFlow<()> {
        let (done, total) = (done as f64, total.map(|total| total as f64));
        self.progress.send_replace(Progress { done, total });
        if (self.is_cancelled)() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// # Errors
    /// If the client does not wait for it any more.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if (self.is_cancelled)() {
            return Err(Fault::cancelled());
        }
        Ok(())
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}
