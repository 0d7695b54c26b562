//! `/analytics/…`: reports over messages, as `decklog stats` prints them.

use axum::extract::State;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::Shared;
use super::body::Made;
use super::params::Query;
use super::problem::Problem;
use crate::analytics::{
    ActiveReport, Analytics, AnalyticsQuery, Bucket, CompressionReport, ContextReport,
    DashboardMetrics, Dimension, ErrorsReport, LatencyReport, ModelsReport, TasksReport,
    UsageReport,
};
use crate::error::{ErrorKind, Result};
use crate::record::Day;

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new()
        .routes(routes!(usage))
        .routes(routes!(models))
        .routes(routes!(errors))
        .routes(routes!(latency))
        .routes(routes!(tasks))
        .routes(routes!(context))
        .routes(routes!(compression))
        .routes(routes!(active))
        .routes(routes!(dashboard))
}

/// Which days to report on.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct DayParams {
    /// Only this UTC day and later ones: YYYY-MM-DD.
    since: Option<Day>,
    /// Only days before this one.
    until: Option<Day>,
}

/// Which days to report on, and how long its times are.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ActiveParams {
    /// Only this UTC day and later ones: YYYY-MM-DD.
    since: Option<Day>,
    /// Only days before this one.
    until: Option<Day>,
    /// Bucket size. Default: day.
    bucket: Option<Bucket>,
    /// Maximum number of rows. Default: 1000.
    #[param(value_type = Option<u32>, maximum = 100_000)]
    limit: Option<usize>,
}

/// Which days to report on, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct ReportParams {
    /// Only this UTC day and later ones: YYYY-MM-DD.
    since: Option<Day>,
    /// Only days before this one.
    until: Option<Day>,
    /// Columns to group by: one or several of model, config, mode and `task_type`, separated by
    /// commas.
    #[serde(default, deserialize_with = "groups")]
    #[param(value_type = Option<Vec<Dimension>>, explode = false, min_items = 1)]
    group: Option<Vec<Dimension>>,
    /// Bucket size. Default: no buckets.
    bucket: Option<Bucket>,
    /// Maximum number of rows; 0 for the totals alone. Default: 1000.
    #[param(value_type = Option<u32>, maximum = 100_000)]
    limit: Option<usize>,
}

fn groups<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<Dimension>>, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(from)?;
    let words = text.split(',').map(str::parse);
    let groups = words.collect::<Result<Vec<Dimension>>>();
    groups.map(Some).map_err(serde::de::Error::custom)
}

impl From<DayParams> for AnalyticsQuery {
    fn from(DayParams { since, until }: DayParams) -> AnalyticsQuery {
        AnalyticsQuery {
            since,
            until,
            ..AnalyticsQuery::default()
        }
    }
}

impl From<ActiveParams> for AnalyticsQuery {
    fn from(params: ActiveParams) -> AnalyticsQuery {
        AnalyticsQuery {
            since: params.since,
            until: params.until,
            bucket: params.bucket,
            limit: params.limit,
            group: None,
        }
    }
}

impl From<ReportParams> for AnalyticsQuery {
    fn from(params: ReportParams) -> AnalyticsQuery {
        AnalyticsQuery {
            since: params.since,
            until: params.until,
            group: params.group,
            bucket: params.bucket,
            limit: params.limit,
        }
    }
}

/// Computes a report.
async fn report<R: Serialize + Send + 'static>(
    app: &Shared,
    query: impl Into<AnalyticsQuery>,
    report: impl FnOnce(&Analytics, &AnalyticsQuery) -> Result<R> + Send + 'static,
) -> Result<Made, Problem> {
    let mut query = query.into();
    // An empty period is no error here; `decklog stats` reports it.
    query.until = query
        .until
        .max(query.since.filter(|_| query.until.is_some()));
    // The first report reads all messages.
    app.read_much(move |app| {
        let report = report(&app.analytics, &query).map_err(|e| match e.kind() {
            ErrorKind::InvalidInput => Problem::bad_request(e.reason()),
            _ => Problem::from(e),
        })?;
        Made::ok(&report)
    })
    .await
}

/// A report by days, groups and buckets.
macro_rules! report {
    ($name:ident, $path:literal, $body:ident, $params:ident, $doc:literal) => {
        #[doc = $doc]
        #[utoipa::path(
                            get,
                            path = $path,
                            tag = "analytics",
                            params($params),
                            responses((status = 200, description = "The report", body = $body))
                        )]
        async fn $name(
            State(app): State<Shared>,
            Query(params): Query<$params>,
        ) -> Result<Made, Problem> {
            report(&app, params, Analytics::$name).await
        }
    };
}

report!(
    usage,
    "/analytics/usage",
    UsageReport,
    ReportParams,
    "Messages and tokens. Default groups: model, configuration and day."
);
report!(
    models,
    "/analytics/models",
    ModelsReport,
    ReportParams,
    "Requests, latency, tokens, context utilization and errors; most requests first. Default groups: model and configuration. Default period: the last seven days."
);
report!(
    errors,
    "/analytics/errors",
    ErrorsReport,
    ReportParams,
    "Errors by type and model, and the latest errors."
);
report!(
    latency,
    "/analytics/latency",
    LatencyReport,
    ReportParams,
    "Latency by orchestration mode."
);
report!(
    tasks,
    "/analytics/tasks",
    TasksReport,
    ReportParams,
    "Requests by task type."
);
report!(
    context,
    "/analytics/context",
    ContextReport,
    ReportParams,
    "Context utilization by model."
);
report!(
    compression,
    "/analytics/compression",
    CompressionReport,
    ReportParams,
    "Compression of contexts, by model."
);
report!(
    active,
    "/analytics/active",
    ActiveReport,
    ActiveParams,
    "Active conversations, by day."
);
report!(
    dashboard,
    "/analytics/dashboard",
    DashboardMetrics,
    DayParams,
    "The metrics of a dashboard. Default period: today."
);
