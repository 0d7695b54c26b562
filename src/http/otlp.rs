//! `/v1/traces`, `/v1/logs` and `/v1/metrics`: OTLP over HTTP, as exporters of OpenTelemetry send it.

use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use tokio::sync::Semaphore;

use super::app::Shared;
use super::body::read;
use super::coding::Coding;
use super::problem::Problem;
use crate::otlp::{Encoding, Outcome, Receiver, Refusal, Signal};
use crate::store::Store;

/// The receiver, its limits and its counters.
pub(super) struct Otlp {
    receiver: Receiver,
    /// Requests that are decoded at a time: one for each core, and one more for the time in which
    /// one of them waits for the log's lock.
    turns: Arc<Semaphore>,
    items: Family<Items, Counter>,
}

/// The labels of received items.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Items {
    signal: &'static str,
    /// `accepted` or `rejected`; of the accepted ones, `kept` counts those without a place of their
    /// own in the log.
    outcome: &'static str,
}

impl Otlp {
    pub(super) fn new(store: Store) -> Otlp {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Otlp {
            receiver: Receiver::new(store),
            turns: Arc::new(Semaphore::new(cores + 1)),
            items: Family::default(),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Spans, log records and metrics received over OTLP";
        registry.register("otlp_items", help, self.items.clone());
    }

    fn count(&self, signal: Signal, outcome: &Outcome) {
        let signal = signal.as_str();
        for (outcome, count) in [
            ("accepted", outcome.accepted),
            ("rejected", outcome.rejected),
            ("kept", outcome.kept),
        ] {
            if count > 0 {
                let items = Items { signal, outcome };
                self.items.get_or_create(&items).inc_by(count as u64);
            }
        }
    }
}

pub(super) fn routes() -> Router<Shared> {
    let receive = |signal| {
        post(move |State(app): State<Shared>, request: Request| receive(app, signal, request))
    };
    Router::new()
        .route("/v1/traces", receive(Signal::Traces))
        .route("/v1/logs", receive(Signal::Logs))
        .route("/v1/metrics", receive(Signal::Metrics))
}

async fn receive(app: Shared, signal: Signal, request: Request) -> Response {
    let encoding = match encoding(request.headers()) {
        Ok(encoding) => encoding,
        Err(problem) => return problem.into_response(),
    };
    match received(&app, signal, encoding, request).await {
        Ok(outcome) => {
            app.otlp.count(signal, &outcome);
            let body = encoding.response(signal, &outcome);
            ([(header::CONTENT_TYPE, encoding.media_type())], body).into_response()
        }
        Err(problem) => refused(&problem, encoding),
    }
}

async fn received(
    app: &Shared,
    signal: Signal,
    encoding: Encoding,
    request: Request,
) -> Result<Outcome, Problem> {
    let coding = Coding::of(request.headers())?;
    let body = read(request.into_body(), app).await?;
    // The semaphore is never closed.
    let _turn = app.otlp.turns.acquire().await;
    app.work(move |app| {
        let body = coding.decoded(body, app)?;
        let received = app.otlp.receiver.receive(encoding, signal, &body);
        received.map_err(|refusal| match refusal {
            Refusal::Malformed(reason) => Problem::bad_request(reason),
            Refusal::Log(error) => Problem::from(&error).temporary(),
        })
    })
    .await
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let given = headers.get(header::CONTENT_TYPE);
    let given = given.and_then(|value| value.to_str().ok()?.split(';').next());
    let given = given.unwrap_or_default().trim();
    let encodings = [Encoding::Protobuf, Encoding::Json];
    let found = encodings
        .into_iter()
        .find(|it| given.eq_ignore_ascii_case(it.media_type()));
    found.ok_or_else(|| {
        let detail = "the Content-Type must be application/x-protobuf or application/json";
        Problem::unsupported("Content-Type", detail)
    })
}

/// An error in the encoding of the request. Exporters send a request again after 429, 502, 503 and
/// 504.
fn refused(problem: &Problem, encoding: Encoding) -> Response {
    let response = problem.clone().into_response();
    let body = encoding.status(problem.to_string());
    let mut headers = HeaderMap::new();
    let media_type = HeaderValue::from_static(encoding.media_type());
    headers.insert(header::CONTENT_TYPE, media_type);
    if let Some(after) = response.headers().get(header::RETRY_AFTER) {
        headers.insert(header::RETRY_AFTER, after.clone());
    }
    (response.status(), headers, body).into_response()
}
