//! Token usage of models.

use super::super::answer::Fault;
use super::Call;
use super::given::Limit;
use crate::analytics::{AnalyticsQuery, Bucket, Dimension, UsageReport};
use crate::record::Day;

tools! {
    /// Reports requests and tokens by model, config, mode or task type, over UTC days.
    usage_report("Report token usage", ReadsMuch) => report(Report {
        /// Only this UTC day and later, as 2026-07-28. Default: all.
        #[schema(value_type = Option<String>, format = Date)]
        since: Option<Day>,
        /// Only days before this one.
        #[schema(value_type = Option<String>, format = Date)]
        until: Option<Day>,
        /// Columns to group by. Default: model.
        group: Option<Vec<Dimension>>,
        /// The period of each row. Default: all days together.
        bucket: Option<Bucket>,
        /// Maximum number of rows; the totals count all. Default: 100.
        limit: Option<Limit>,
    })
}

fn report(call: &Call<'_>, given: Report) -> Result<UsageReport, Fault> {
    // The first report reads all messages.
    call.check()?;
    Ok(call.analytics.usage(&AnalyticsQuery {
        since: given.since,
        until: given.until,
        group: Some(given.group.unwrap_or_else(|| vec![Dimension::Model])),
        bucket: Some(given.bucket.unwrap_or(Bucket::All)),
        limit: Some(super::given::limit(given.limit)),
        ..AnalyticsQuery::default()
    })?)
}
