//! Reports on what messages add up to: tokens, latencies, errors, contexts, conversations. They are
//! made of sums that are kept in memory by day and group and that are added to as messages come, so
//! that a report costs the number of groups and days, not of messages. Nothing of this is written:
//! what retention removed is told by the rollups of the log.

mod answers;
mod cells;
mod kept;
mod query;
mod reports;
mod rows;
mod turns;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

pub use answers::{
    ActiveReport, ActiveRow, CompressionReport, CompressionRow, CompressionSums, ContextReport,
    ContextRow, ContextSums, DashboardMetrics, ErrorCount, ErrorRow, ErrorSample, ErrorSums,
    ErrorsReport, LatencyMs, LatencyReport, LatencyRow, LatencySums, ModelRow, ModelSums,
    ModelsReport, RowKey, TaskRow, TaskSums, TasksReport, TurnRow, TurnSums, UsageReport, UsageRow,
    UsageSums,
};
pub use query::{AnalyticsQuery, Bucket, Dimension, ROWS_DEFAULT, ROWS_MAX, Scope};

use self::kept::Kept;
use crate::error::Result;
use crate::store::Store;

/// Makes reports. Clones share what they keep; any number of threads may ask.
///
/// The first report reads all messages of the log once, a few at a time, while others record. Each
/// later one begins with what came since, recorded by any process: also late messages, and what
/// retention, erasure or other hands took away. What retention removed still counts; what was
/// erased does not, unless its day was rolled up before.
///
/// Days are UTC days, by the messages' own time. *Requests* are messages in the role `assistant`
/// that are no further part of another one's answer; latencies, tokens, contexts and errors of
/// models are those of answers, further parts included. Quantiles are within
/// 1 %. A rollup of another tool's making that does not say what of it is of other roles counts as
/// one of requests alone.
///
/// ```
/// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// use decklog::AnalyticsQuery;
///
/// let analytics = store.analytics();
/// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
/// let answer = ConversationMessage {
///     model_used: Some("small-1".into()),
///     tokens_out: Some(7),
///     latency_ms: Some(850),
///     ..ConversationMessage::new(conversation.id, Role::Assistant, "hello")
/// };
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
    kept: Arc<Mutex<Kept>>,
}

impl fmt::Debug for Analytics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Analytics")
            .field("store", &self.store.path())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// A handle to make reports with. Keep it: it is the first report of each that reads the log.
    pub fn analytics(&self) -> Analytics {
        Analytics {
            store: self.clone(),
            kept: Arc::default(),
        }
    }
}

impl Analytics {
    /// Takes in what came since the last report, so that the next one need not: for who wants the
    /// first report to be fast.
    ///
    /// # Errors
    /// Whatever keeps messages from being read; [`Conflict`](crate::ErrorKind::Conflict) if a
    /// day's rollups were written again and again meanwhile.
    pub fn catch_up(&self) -> Result<()> {
        self.caught_up().map(drop)
    }

    /// What is kept, with all that was acknowledged before this call.
    fn caught_up(&self) -> Result<MutexGuard<'_, Kept>> {
        let mut kept = self.kept.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked may have left half of something.
            self.kept.clear_poison();
            let mut kept = poisoned.into_inner();
            *kept = Kept::default();
            kept
        });
        kept.catch_up(&self.store)?;
        Ok(kept)
    }
}
