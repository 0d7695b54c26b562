//! `/healthz` and `/readyz`: liveness of the server, and readiness of its store.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::app::Shared;
use super::body::{Answer, Made};
use super::problem;

/// Liveness.
#[derive(Debug, Serialize, ToSchema)]
struct Alive {
    /// Always `ok`.
    status: &'static str,
}

/// Checks that the server answers. It does not touch the store.
#[utoipa::path(
    get,
    path = "/healthz",
    responses((status = 200, description = "The server answers", body = Alive))
)]
pub(super) async fn healthz() -> Answer {
    Made::ok(&Alive { status: "ok" })
}

/// The state of the store.
#[derive(Debug, Serialize, ToSchema)]
struct Readiness {
    /// Whether a record would be accepted now.
    ready: bool,
    /// The reason if not, as the `code` of a problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// The sequence number of the last line, if the store can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_seq: Option<u64>,
    /// Records that wait to be written.
    queued: u64,
    /// Number of damaged or edited places: see `decklog doctor`. They do not prevent writes. Only if
    /// the store can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<u64>,
}

/// Checks that the store accepts records. At most once a second, the check takes the write lock and
/// writes 64 KiB to the disk.
#[utoipa::path(
    get,
    path = "/readyz",
    responses(
        (status = 200, description = "Ready: the store accepts records", body = Readiness),
        (status = 503, description = "Not ready: `reason` says why", body = Readiness),
    )
)]
pub(super) async fn readyz(State(app): State<Shared>) -> Answer {
    let refused = app.doubt.why_refused(&app.store).await;
    app.work(move |app| {
        let counts = app.store.counts();
        let refused = refused.or_else(|| counts.as_ref().err().map(problem::code));
        let counts = counts.ok();
        let status = refused.map_or(StatusCode::OK, |_| StatusCode::SERVICE_UNAVAILABLE);
        Made::new(
            status,
            &Readiness {
                ready: refused.is_none(),
                reason: refused,
                last_seq: counts.as_ref().map(|counts| counts.last_seq),
                queued: app.capture.stats().queued,
                damage: counts.map(|counts| counts.damage.total()),
            },
        )
    })
    .await
}
