//! Reports over messages and tool calls: tokens, cost, latencies, errors, contexts, conversations,
//! tools. They use sums in memory by day and group, which are updated with new records. The cost of
//! a report therefore depends on the number of groups and days, not of messages. The sums are saved
//! in the log's cache. Removed messages are in the rollups of the log.

mod activity;
mod answers;
mod budgets;
mod cache;
mod calls;
mod cells;
mod cost;
mod edits;
mod paths;
mod query;
mod reports;
mod rows;
mod saved;
mod shell;
mod spending;
mod status;
mod today;
mod tools;
mod turns;
mod work;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

pub use crate::store::{BudgetSettings, Usd};
pub use activity::HourActivity;
pub use answers::{
    ActiveReport, ActiveRow, CompressionReport, CompressionRow, CompressionSums, ContextReport,
    ContextRow, ContextSums, DashboardMetrics, ErrorCount, ErrorRow, ErrorSample, ErrorSums,
    ErrorsReport, LatencyMs, LatencyReport, LatencyRow, LatencySums, ModelRow, ModelSums,
    ModelsReport, RowKey, TaskRow, TaskSums, TasksReport, TurnRow, TurnSums, UsageReport, UsageRow,
    UsageSums,
};
pub use budgets::Budget;
pub use cost::{CostBy, CostKey, CostQuery, CostReport, CostRow, CostSums, UnpricedModel};
pub use edits::{Edit, EditKind, edits_of};
pub use query::{AnalyticsQuery, Bucket, Dimension, ROWS_DEFAULT, ROWS_MAX, Scope, SpendSort};
pub use spending::{ProjectRow, ProjectsReport, SessionRow, SessionsReport, SpendSums};
pub use status::SpendingNow;
pub use today::{DayFigures, TodayReport};
pub use tools::{CallLatencyMs, LatencyBucket, ToolRow, ToolSums, ToolsReport};

pub use work::{
    CallEnd, CommandFailure, CommandLatencyMs, CommandRow, CommandSums, CommandsReport,
    FailureWork, FileChange, FileRow, FileWork, FilesReport, LineSums, ProjectWork, SessionWork,
    WorkQuery, WorkReport, WorkSums,
};

use self::cache::Cache;
use self::calls::Calls;
use crate::error::Result;
use crate::store::Store;

/// Computes reports. Clones share their sums; any number of threads can use them.
///
/// The first report reads the messages of the log once, in small steps, while others can record,
/// except those in the sums that an earlier handle saved in the store's cache. Each later report
/// first adds the changes since the previous one, made by any process, including late messages and
/// removals by retention, erasure or other programs. Messages that retention removed still count.
/// Erased messages do not, unless their day was rolled up before.
///
/// Days are UTC days, by the messages' own time. *Requests* are messages in the role `assistant`
/// that are not a part of another message's answer. Latencies, tokens, contexts and errors of
/// models are those of answers, including their parts. Quantiles are within 1 %. A rollup written
/// by another tool that does not separate the other roles counts as requests only.
///
/// ```
/// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// use decklog::analytics::AnalyticsQuery;
///
/// let analytics = store.analytics();
/// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
/// let answer = ConversationMessage::new(conversation.id, Role::Assistant, "hello")
///     .model_used("small-1")
///     .tokens_out(7)
///     .latency_ms(850);
/// store.record(conversation)?;
/// store.record(answer)?;
/// let models = analytics.models(&AnalyticsQuery::default())?;
/// let row = &models.rows[0];
/// assert_eq!((row.of.model_used.as_deref(), row.sums.requests), (Some("small-1"), 1));
/// assert_eq!(row.sums.latency_ms.avg, Some(850.0));
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Clone)]
pub struct Analytics {
    store: Store,
    kept: Arc<Mutex<Cache>>,
    calls: Arc<Mutex<Calls>>,
}

impl fmt::Debug for Analytics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analytics")
            .field("store", &self.store.path())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// A handle for reports. Keep it: the first report of each handle reads what is new in the log.
    pub fn analytics(&self) -> Analytics {
        Analytics {
            store: self.clone(),
            kept: Arc::default(),
            calls: Arc::default(),
        }
    }
}

impl Analytics {
    /// The store that the reports are of.
    #[cfg(feature = "http")]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Adds the changes since the last report, so that the next report is fast.
    ///
    /// # Errors
    /// The error of reading messages; [`Conflict`](crate::ErrorKind::Conflict) if a day's rollups
    /// were repeatedly written during the call.
    pub fn catch_up(&self) -> Result<()> {
        self.caught_up().map(drop)
    }

    /// The sums, including everything that was acknowledged before this call.
    fn caught_up(&self) -> Result<MutexGuard<'_, Cache>> {
        self.updated(|_, _| Ok(()))
    }

    /// The sums, updated with new messages and then by `also`.
    fn updated(
        &self,
        also: impl FnOnce(&mut Cache, &Store) -> Result<()>,
    ) -> Result<MutexGuard<'_, Cache>> {
        let mut kept = lock(&self.kept);
        kept.catch_up(&self.store)?;
        also(&mut kept, &self.store)?;
        kept.save_if_due(&self.store);
        Ok(kept)
    }
}

/// Locks sums. A thread that panicked may have left an incomplete update: then they start anew.
fn lock<T: Default>(sums: &Mutex<T>) -> MutexGuard<'_, T> {
    sums.lock().unwrap_or_else(|poisoned| {
        sums.clear_poison();
        let mut kept = poisoned.into_inner();
        *kept = T::default();
        kept
    })
}
