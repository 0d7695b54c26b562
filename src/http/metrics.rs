//! `/metrics`: metrics of the server and its store, for Prometheus.

use std::fmt;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeLabelSet, EncodeMetric, NoLabelSet, text,
};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::{MetricType, TypedMetric};
use prometheus_client::registry::{Registry, Unit};

use super::app::Shared;
use super::problem::Problem;
use super::rejected::Rejected;
use crate::analytics::{Analytics, Budget};
use crate::capture::Capture;
use crate::store::{Counts, KindCounts, Store, SyncTimes};

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) struct Metrics {
    registry: Registry,
    requests: Family<Request, Histogram, fn() -> Histogram>,
    pub(super) connections: Gauge,
    pub(super) streams: Gauge,
}

/// One unit of a gauge, counted until it is dropped.
pub(super) struct Counted(Gauge);

impl Counted {
    pub(super) fn new(gauge: &Gauge) -> Counted {
        gauge.inc();
        Counted(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Buckets from 0.1 ms to 6.5 s.
fn times() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 17))
}

/// The labels of requests. Never a text from a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    /// The route, such as `/conversations/{id}`.
    route: String,
    status: u16,
}

impl Metrics {
    pub(super) fn new(analytics: &Analytics, capture: &Capture, rejected: &Rejected) -> Metrics {
        let store = analytics.store();
        let mut registry = Registry::with_prefix("decklog");
        let requests = Family::new_with_constructor(times as fn() -> Histogram);
        let help = "Time from request to start of answer";
        registry.register_with_unit("http_request", help, Unit::Seconds, requests.clone());
        let (connections, streams) = (Gauge::default(), Gauge::default());
        registry.register("http_connections", "Open connections", connections.clone());
        registry.register("http_streams", "Open streams", streams.clone());
        registry.register_collector(Box::new(OfStore {
            store: store.clone(),
            capture: capture.clone(),
            rejected: rejected.clone(),
            analytics: analytics.clone(),
        }));
        Metrics {
            registry,
            requests,
            connections,
            streams,
        }
    }

    /// Adds metrics of a part of the server.
    #[cfg(feature = "otlp")]
    pub(super) fn with(mut self, register: impl FnOnce(&mut Registry)) -> Metrics {
        register(&mut self.registry);
        self
    }

    /// Counts a request.
    pub(super) fn count(&self, method: &'static str, route: &str, status: u16, took: Duration) {
        let request = Request {
            method,
            route: route.to_owned(),
            status,
        };
        let requests = self.requests.get_or_create(&request);
        requests.observe(took.as_secs_f64());
    }
}

/// The counters of the store and its queue.
#[derive(Debug)]
struct OfStore {
    store: Store,
    capture: Capture,
    rejected: Rejected,
    analytics: Analytics,
}

impl Collector for OfStore {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Numbers(encoder);
        self.of_queue(&mut to)?;
        // The other metrics are reported even if the store cannot be read.
        match self.store.counts() {
            Ok(counts) => {
                of_store(&mut to, &counts)?;
                // Without budgets, nothing is computed.
                match self.analytics.budgets() {
                    Ok(budgets) => of_budgets(&mut to, &budgets)?,
                    Err(error) => tracing::warn!(%error, "the budgets cannot be computed"),
                }
                #[cfg(feature = "ship")]
                of_ships(&mut to, &self.store.ships(), counts.last_seq)?;
                Ok(())
            }
            Err(error) => {
                tracing::warn!(%error, "the store cannot be read");
                to.one("store_readable", IS_READABLE, &ConstGauge::new(0_u64))
            }
        }
    }
}

impl OfStore {
    fn of_queue(&self, to: &mut Numbers<'_>) -> fmt::Result {
        let stats = self.capture.stats();
        let records = [
            ("written", stats.written),
            ("unchanged", stats.unchanged),
            ("refused", stats.refused),
            ("rejected", stats.rejected),
            ("failed", stats.failed),
        ];
        let help = "Records passed to the queue, by result";
        let count = ConstCounter::new;
        to.each("queue_records", help, None, "outcome", records, count)?;
        let help = "Records that wait to be written";
        to.one("queue_length", help, &ConstGauge::new(stats.queued))?;
        let help = "Records answered with 202 and rejected later, by problem code";
        let rejected = self.rejected.by_code();
        to.each("capture_rejected", help, None, "code", rejected, count)?;
        let help = "Retries of batches because another process held the lock";
        to.one("queue_lock_retries", help, &count(stats.lock_retries))
    }
}

const IS_READABLE: &str = "Whether the store can be read";

fn of_store(to: &mut Numbers<'_>, counts: &Counts) -> fmt::Result {
    let Counts {
        last_seq,
        is_poisoned,
        kinds,
        damage,
        syncs,
    } = counts;
    let gauge = ConstGauge::new;
    to.one("store_readable", IS_READABLE, &gauge(1))?;
    let help = "Whether the store refuses records after a failed write or fsync";
    to.one("store_poisoned", help, &gauge(u64::from(*is_poisoned)))?;
    let help = "The sequence number of the last line";
    to.one("last_seq", help, &gauge(*last_seq))?;
    let by = |number: fn(&KindCounts) -> u64| {
        let each = kinds.iter();
        each.map(move |of| (of.kind.stem(), number(of)))
    };
    let help = "Lines added by this server";
    let (added, count) = (by(|of| of.appended), ConstCounter::new);
    to.each("lines_appended", help, None, "kind", added, count)?;
    let help = "Records in the store by kind; the lines of a tool call count as one";
    to.each("records", help, None, "kind", by(|of| of.records), gauge)?;
    let (help, segments) = ("Files of the store", by(|of| of.segments));
    to.each("segments", help, None, "kind", segments, gauge)?;
    let help = "The size of the files";
    let unit = Some(&Unit::Bytes);
    to.each("segment", help, unit, "kind", by(|of| of.bytes), gauge)?;
    let help = "Damaged or edited places in the files";
    let by_class = damage.by_class();
    let by_class = by_class.map(|(class, count)| (class.as_str(), count));
    to.each("damage", help, None, "class", by_class, gauge)?;
    to.times("fsync", "How long fsyncs of files took", syncs)
}

/// The budgets that are set, and the amounts spent.
fn of_budgets(to: &mut Numbers<'_>, budgets: &[Budget]) -> fmt::Result {
    if budgets.is_empty() {
        return Ok(());
    }
    let unit = Unit::Other("usd".to_owned());
    let by = |usd: fn(&Budget) -> f64| {
        let each = budgets.iter();
        each.map(move |it| (it.period.as_str(), usd(it)))
    };
    let help = "The budget of the current day, week or month, in US dollars";
    let budget = by(|it| it.budget_usd);
    to.each(
        "budget",
        help,
        Some(&unit),
        "period",
        budget,
        ConstGauge::new,
    )?;
    let help = "The cost of calls in the current day, week or month, in US dollars";
    let spent = by(|it| it.spent_usd);
    to.each("spent", help, Some(&unit), "period", spent, ConstGauge::new)
}

/// The copies of the store, as the last runs of `decklog ship` on this machine left them.
#[cfg(feature = "ship")]
fn of_ships(to: &mut Numbers<'_>, ships: &[crate::ship::ShipStatus], last_seq: u64) -> fmt::Result {
    use crate::ship::ShipStatus;
    let by = |number: &dyn Fn(&ShipStatus) -> u64| -> Vec<(&str, u64)> {
        let each = ships.iter();
        each.map(|ship| (&*ship.destination, number(ship)))
            .collect()
    };
    let (label, gauge) = ("destination", ConstGauge::new);
    let help = "Lines that are not in the copy yet";
    let behind = by(&|ship| ship.lines_behind(last_seq));
    to.each("ship_lines_behind", help, None, label, behind, gauge)?;
    let help = "When the copy was last brought up to date, in seconds since 1970; 0 if never";
    let at = by(&|ship| ship.at.max(0).cast_unsigned() / 1_000);
    to.each(
        "ship_last_success",
        help,
        Some(&Unit::Seconds),
        label,
        at,
        gauge,
    )?;
    let help = "Whether the last run of 'decklog ship' failed";
    let failing = by(&|ship| u64::from(ship.error.is_some()));
    to.each("ship_failing", help, None, label, failing, gauge)
}

/// Writes metrics to the encoder.
struct Numbers<'a>(DescriptorEncoder<'a>);

impl Numbers<'_> {
    fn one<M: EncodeMetric + TypedMetric>(
        &mut self,
        name: &str,
        help: &str,
        metric: &M,
    ) -> fmt::Result {
        metric.encode(self.0.encode_descriptor(name, help, None, M::TYPE)?)
    }

    /// A metric for each value of a label.
    fn each<'b, M: EncodeMetric + TypedMetric, N>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        label: &str,
        by: impl IntoIterator<Item = (&'b str, N)>,
        metric: fn(N) -> M,
    ) -> fmt::Result {
        let mut to = self.0.encode_descriptor(name, help, unit, M::TYPE)?;
        for (value, number) in by {
            metric(number).encode(to.encode_family(&[(label, value)])?)?;
        }
        Ok(())
    }

    fn times(&mut self, name: &str, help: &str, times: &SyncTimes) -> fmt::Result {
        let unit = Some(&Unit::Seconds);
        let of = MetricType::Histogram;
        let mut to = self.0.encode_descriptor(name, help, unit, of)?;
        let upto = times.upto.iter();
        let mut buckets: Vec<(f64, u64)> = upto
            .map(|(bound, count)| (bound.as_secs_f64(), *count))
            .collect();
        // The buckets are read one by one, so values may have been added in between.
        let known: u64 = buckets.iter().map(|(_, count)| count).sum();
        let count = times.count.max(known);
        buckets.push((f64::INFINITY, count - known));
        to.encode_histogram::<NoLabelSet>(times.total.as_secs_f64(), count, &buckets, None)
    }
}

/// Reads the metrics of the server and its store, for Prometheus.
#[utoipa::path(
    get,
    path = "/metrics",
    responses((status = 200, description = "OpenMetrics text", body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(app): State<Shared>) -> Result<Response, Problem> {
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
    Ok(([(header::CONTENT_TYPE, MEDIA_TYPE)], text).into_response())
}
