//! `/analytics/…`: reports over messages and tool calls, as `decklog stats` prints them.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::app::Shared;
use super::body::{Answer, Made};
use super::params::{Query, separated_by_commas};
use super::problem::Problem;
use crate::analytics::{
    ActiveReport, Analytics, AnalyticsQuery, Bucket, CompressionReport, ContextReport, CostBy,
    CostQuery, CostReport, DashboardMetrics, Dimension, ErrorsReport, HourActivity, LatencyReport,
    ModelsReport, ProjectsReport, SessionsReport, SpendSort, TasksReport, ToolsReport, UsageReport,
};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, now};

/// Declares the parameters of reports: the days to report on, and these.
macro_rules! params {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[serde(deny_unknown_fields)]
        #[into_params(parameter_in = Query)]
        pub(super) struct $name {
            /// Only this UTC day and later ones: YYYY-MM-DD.
            since: Option<Day>,
            /// Only days before this one.
            until: Option<Day>,
            $($(#[$field_meta])* $field: $type,)*
        }

        impl From<$name> for AnalyticsQuery {
            #[allow(clippy::needless_update)] // Some parameters have all fields.
            fn from(params: $name) -> AnalyticsQuery {
                AnalyticsQuery {
                    since: params.since,
                    until: params.until,
                    $($field: params.$field,)*
                    ..AnalyticsQuery::default()
                }
            }
        }
    };
}

params! {
    /// Which days to report on.
    DayParams {}
}

params! {
    /// Which days to report on, and how long its times are.
    ActiveParams {
        /// Bucket size. Default: day.
        bucket: Option<Bucket>,
        /// Maximum number of rows. Default: 1000.
        #[param(value_type = Option<u32>, maximum = 100_000)]
        limit: Option<usize>,
    }
}

params! {
    /// Which days to report on, and how.
    ReportParams {
        /// Columns to group by: one or several of model, config, mode and `task_type`, separated by
        /// commas.
        #[serde(default, deserialize_with = "separated_by_commas")]
        #[param(value_type = Option<Vec<Dimension>>, explode = false, min_items = 1)]
        group: Option<Vec<Dimension>>,
        /// Bucket size. Default: no buckets.
        bucket: Option<Bucket>,
        /// Maximum number of rows; 0 for the totals alone. Default: 1000.
        #[param(value_type = Option<u32>, maximum = 100_000)]
        limit: Option<usize>,
    }
}

params! {
    /// Which days to report on, and how many rows.
    RowParams {
        /// Maximum number of rows; 0 for the totals alone. Default: 1000.
        #[param(value_type = Option<u32>, maximum = 100_000)]
        limit: Option<usize>,
    }
}

params! {
    /// Which days to report on, and the order and number of rows.
    SpendParams {
        /// Order of the rows: greatest `cost` or most `tokens` first. Default: cost.
        sort: Option<SpendSort>,
        /// Maximum number of rows; 0 for the totals alone. Default: 1000.
        #[param(value_type = Option<u32>, maximum = 100_000)]
        limit: Option<usize>,
    }
}

/// Which hours to report on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct HourParams {
    /// Only this UTC day and later ones: YYYY-MM-DD. Default: seven days before `until`.
    since: Option<Day>,
    /// Only days before this one. Default: through the current day.
    until: Option<Day>,
}

/// Messages and tool calls of each hour, by their own times. Hours without any are left out.
#[utoipa::path(
    get,
    path = "/analytics/activity",
    params(HourParams),
    responses((status = 200, description = "The hours, earliest first", body = Vec<HourActivity>))
)]
pub(super) async fn activity(
    State(app): State<Shared>,
    Query(params): Query<HourParams>,
) -> Answer {
    app.read_much(move |app| {
        let until = match params.until {
            Some(day) => day,
            None => Day::of(now()).map(|today| today.next().unwrap_or(today))?,
        };
        let since = params.since.unwrap_or_else(|| until.minus(7)).min(until);
        let [since, until] = [since, until].map(|day| day.bounds_ms().0);
        let hours = app.analytics.activity(since, until).map_err(invalid)?;
        Made::ok(&hours)
    })
    .await
}

fn invalid(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::InvalidInput => Problem::bad_request(error.reason()),
        _ => Problem::from(error),
    }
}

/// Computes a report.
async fn report<R: Serialize + Send + 'static>(
    app: &Shared,
    query: impl Into<AnalyticsQuery>,
    report: impl FnOnce(&Analytics, &AnalyticsQuery) -> Result<R> + Send + 'static,
) -> Answer {
    let mut query = query.into();
    // An empty period is no error here; `decklog stats` reports it.
    query.until = query
        .until
        .max(query.since.filter(|_| query.until.is_some()));
    // The first report reads all messages.
    app.read_much(move |app| {
        let report = report(&app.analytics, &query).map_err(invalid)?;
        Made::ok(&report)
    })
    .await
}

/// Reports by days, groups and buckets.
macro_rules! reports {
    ($(#[doc = $doc:literal] $path:literal $name:ident($params:ident) -> $body:ident;)+) => {$(
        #[doc = $doc]
        #[utoipa::path(
            get,
            path = $path,
            params($params),
            responses((status = 200, description = "The report", body = $body))
        )]
        pub(super) async fn $name(
            State(app): State<Shared>,
            Query(params): Query<$params>,
        ) -> Answer {
            report(&app, params, Analytics::$name).await
        }
    )+};
}

reports! {
    /// Messages and tokens. Default groups: model, configuration and day.
    "/analytics/usage" usage(ReportParams) -> UsageReport;
    /// Requests, latency, tokens, context utilization and errors; most requests first. Default groups: model and configuration. Default period: the last seven days.
    "/analytics/models" models(ReportParams) -> ModelsReport;
    /// Errors by type and model, and the latest errors.
    "/analytics/errors" errors(ReportParams) -> ErrorsReport;
    /// Latency by orchestration mode.
    "/analytics/latency" latency(ReportParams) -> LatencyReport;
    /// Requests by task type.
    "/analytics/tasks" tasks(ReportParams) -> TasksReport;
    /// Context utilization by model.
    "/analytics/context" context(ReportParams) -> ContextReport;
    /// Compression of contexts, by model.
    "/analytics/compression" compression(ReportParams) -> CompressionReport;
    /// Active conversations, by day.
    "/analytics/active" active(ActiveParams) -> ActiveReport;
    /// Tool calls by tool, most calls first: outcomes and latency.
    "/analytics/tools" tools(RowParams) -> ToolsReport;
    /// Tokens, cost and errors by project, of the messages in the log.
    "/analytics/projects" projects(SpendParams) -> ProjectsReport;
    /// Tokens, cost and errors by conversation, of the messages in the log.
    "/analytics/sessions" sessions(SpendParams) -> SessionsReport;
    /// The metrics of a dashboard. Default period: today.
    "/analytics/dashboard" dashboard(DayParams) -> DashboardMetrics;
}

/// The days and the groups of a cost report.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct CostParams {
    /// Only this UTC day and later ones: YYYY-MM-DD.
    since: Option<Day>,
    /// Only days before this one.
    until: Option<Day>,
    /// Columns to group by, separated by commas: at most one of day, week and month, and any of
    /// model, project, session, branch, tool and agent. Default: day.
    #[serde(default, deserialize_with = "separated_by_commas")]
    #[param(value_type = Option<Vec<CostBy>>, explode = false, min_items = 1)]
    by: Option<Vec<CostBy>>,
    /// Maximum number of rows; 0 for the totals alone. Default: 1000.
    #[param(value_type = Option<u32>, maximum = 100_000)]
    limit: Option<usize>,
}

/// Tokens by kind and their cost, recorded or computed from the price table.
#[utoipa::path(
    get,
    path = "/analytics/cost",
    params(CostParams),
    responses((status = 200, description = "The report", body = CostReport))
)]
pub(super) async fn cost(State(app): State<Shared>, Query(params): Query<CostParams>) -> Answer {
    let is_bounded = params.until.is_some();
    let query = CostQuery {
        since: params.since,
        // An empty period is no error here, as in other reports.
        until: params.until.max(params.since.filter(|_| is_bounded)),
        by: params.by.unwrap_or_default(),
        limit: params.limit,
    };
    app.read_much(move |app| {
        let report = app.analytics.cost(&query).map_err(invalid)?;
        Made::ok(&report)
    })
    .await
}
