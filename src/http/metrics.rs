//! `/metrics`: what the server and its store did, as Prometheus reads it.

use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::Shared;
use super::problem::Problem;

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Shared> {
    OpenApiRouter::new().routes(routes!(metrics))
}

pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Request, Histogram, fn() -> Histogram>,
}

/// From 0.1 ms to 6.5 s.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 17))
}

/// What requests are told apart by. Never anything that a client makes up.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    /// The route, as `/conversations/{id}`.
    route: String,
    status: u16,
}

impl Metrics {
    pub(super) fn new() -> Metrics {
        let mut registry = Registry::with_prefix("decklog");
        let requests = Family::new_with_constructor(times as fn() -> Histogram);
        registry.register_with_unit(
            "http_request",
            "How long requests took until their answers began",
            Unit::Seconds,
            requests.clone(),
        );
        Metrics { registry, requests }
    }

    /// Counts a request.
    pub(super) fn count(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let request = Request {
            method,
            route: route.to_owned(),
            status,
        };
        self.requests
            .get_or_create(&request)
            .observe(took.as_secs_f64());
    }
}

/// Tells what the server and its store did, as Prometheus reads it.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "server",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"))
)]
async fn metrics(State(app): State<Shared>) -> Result<Response, Problem> {
    let text = app
        .ask(|app| {
            let mut text = String::new();
            text::encode(&mut text, &app.metrics.registry).map_err(|e| {
                tracing::error!(error = %e, "the metrics could not be written");
                Problem::unavailable("internal", "the metrics cannot be written")
            })?;
            Ok(text)
        })
        .await?;
    let mut response = text.into_response();
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, media_type);
    Ok(response)
}
