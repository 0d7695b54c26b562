//! State shared by all requests: the store, its queue, the limits.

use std::cell::RefCell;
use std::sync::Arc;

use axum::http::StatusCode;
use serde::Serialize;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::access::Gatekeeper;
use super::body::{Answer, Made};
use super::doubt::Doubt;
use super::memory::{Held, Memory, SMALL_BYTES};
use super::metrics::Metrics;
use super::pages::{IsCut, PAGE_BYTES_MAX};
use super::problem::Problem;
use super::rejected::Rejected;
use super::serve::Options;
use super::syncer::Syncer;
use crate::analytics::Analytics;
use crate::capture::{self, Capture};
use crate::collections::{Ack, IfKnown, Page};
use crate::error::Result;
use crate::line::LINE_BYTES_MAX;
use crate::record::Record;
use crate::store::Store;
use crate::wire::feed::Feed;
use crate::wire::pages::Paged;

use super::params::Wait;

pub(super) type Shared = Arc<App>;

tokio::task_local! {
    /// The resources of a request until it is answered.
    pub(super) static HELD: RefCell<Vec<Arc<Held>>>;
}

/// Maximum number of concurrent long reads and long answers.
const LONG_READS_MAX: usize = 4;
/// Memory reserved for a page: the maximum page size plus one record.
const PAGE_ROOM: usize = PAGE_BYTES_MAX + LINE_BYTES_MAX;

pub(super) struct App {
    pub(super) store: Store,
    pub(super) capture: Capture,
    pub(super) doubt: Arc<Doubt>,
    pub(super) rejected: Rejected,
    pub(super) analytics: Analytics,
    pub(super) readers: Handle,
    pub(super) answers: Answers,
    pub(super) syncer: Syncer,
    pub(super) metrics: Metrics,
    pub(super) gatekeeper: Gatekeeper,
    pub(super) options: Options,
    /// Memory for the bodies of requests.
    pub(super) bodies: Arc<Memory>,
    /// Memory for answers.
    pub(super) answers_held: Arc<Memory>,
    pub(super) long_reads: Arc<Semaphore>,
    pub(super) feed: Arc<Feed>,
    #[cfg(feature = "otlp")]
    pub(super) otlp: super::otlp::Otlp,
    /// Whether the server is stopping.
    pub(super) stopped: watch::Receiver<bool>,
}

/// Carries answers from the writing thread to waiting requests. A task distributes them, so that
/// the writing thread wakes only this task for a whole batch.
#[derive(Clone)]
pub(super) struct Answers(mpsc::UnboundedSender<Answered>);

type Acks = Vec<Result<Ack>>;
type Answered = (oneshot::Sender<Acks>, Acks);

impl Answers {
    /// The other end is for [`hand_on`](Self::hand_on). Bounded by the length of the queue.
    pub(super) fn new() -> (Answers, mpsc::UnboundedReceiver<Answered>) {
        let (answers, answered) = mpsc::unbounded_channel();
        (Answers(answers), answered)
    }

    fn send(&self, to: oneshot::Sender<Acks>, acks: Acks) {
        // After the server stopped, no request waits.
        let _ = self.0.send((to, acks));
    }

    pub(super) async fn hand_on(mut answered: mpsc::UnboundedReceiver<Answered>) {
        while let Some((to, acks)) = answered.recv().await {
            // A client that disconnected needs no answer.
            let _ = to.send(acks);
        }
    }
}

impl App {
    /// Reads the store on one of a few blocking threads. Busy threads take the next request without
    /// being woken.
    pub(super) async fn ask<T: Send + 'static>(
        self: &Arc<App>,
        ask: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = Arc::clone(self);
        let asked = self.readers.spawn_blocking(move || ask(&app)).await;
        asked.unwrap_or_else(|_| Err(panicked()))
    }

    /// Like [`ask`](Self::ask), for writes and long reads: does not delay short reads.
    pub(super) async fn work<T: Send + 'static>(
        self: &Arc<App>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|_| Err(panicked()))
    }

    /// Like [`work`](Self::work), for long reads and long answers: a few at a time.
    pub(super) async fn read_much<T: Send + 'static>(
        self: &Arc<App>,
        read: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let turn = Arc::clone(&self.long_reads).acquire_owned().await;
        self.work(move |app| {
            let _turn = turn;
            read(app)
        })
        .await
    }

    /// Reads a page of a list, by a function that gets the maximum length of the page in bytes and
    /// returns whether the page was cut there. Short pages are read like [`ask`](Self::ask). A
    /// longer one reserves its memory first, so that nothing is read in vain while unread answers
    /// hold it, and is read like [`read_much`](Self::read_much), so that it delays no short one.
    pub(super) async fn page(
        self: &Arc<App>,
        read: impl Fn(&App, usize) -> Result<(Made, IsCut), Problem> + Send + Sync + 'static,
    ) -> Answer {
        let read = Arc::new(read);
        let short = Arc::clone(&read);
        let (made, IsCut(is_cut)) = self.ask(move |app| short(app, SMALL_BYTES)).await?;
        if !is_cut {
            return Ok(made);
        }
        drop(made);
        self.read_much(move |app| {
            let mut held = app.answers_held.reserve(PAGE_ROOM)?;
            let (made, _) = read(app, PAGE_BYTES_MAX)?;
            // Released before the next long read starts.
            held.resize(made.len())?;
            Ok(made.holding(held))
        })
        .await
    }

    /// Reads a page of records like [`page`](Self::page).
    pub(super) async fn list<T: Serialize, E>(
        self: &Arc<App>,
        limit: usize,
        read: impl Fn(&App, usize) -> Result<Page<T>, E> + Send + Sync + 'static,
    ) -> Answer
    where
        Problem: From<E>,
    {
        self.page(move |app, bytes_max| {
            let page = read(app, bytes_max)?;
            let is_cut = IsCut::of(&page, limit);
            Ok((Made::ok(&Paged::from(page))?, is_cut))
        })
        .await
    }

    /// At most [`LONG_READS_MAX`], and limited by the memory for answers.
    pub(super) fn long_reads(answers_held: &Memory) -> Arc<Semaphore> {
        let at_a_time = answers_held.large_max() / PAGE_ROOM;
        Arc::new(Semaphore::new(at_a_time.clamp(1, LONG_READS_MAX)))
    }

    /// Records the checked records of a request through the queue, so that no connection blocks a
    /// thread while it waits for the disk. `None` if the client does not wait.
    pub(super) async fn record(
        &self,
        records: Vec<(Record, IfKnown)>,
        wait: Option<Wait>,
    ) -> Result<Option<Acks>, Problem> {
        // While the store refuses records, there is no 202: the client waits for the answer.
        let wait = wait.filter(|wait| *wait != Wait::None || !self.doubt.is_set());
        let is_awaited = wait != Some(Wait::None) && !records.is_empty();
        let (sender, answer) = oneshot::channel();
        let answers = self.answers.clone();
        let answer_to =
            is_awaited.then(|| Box::new(move |acks| answers.send(sender, acks)) as capture::Answer);
        self.capture.record_all(records, answer_to)?;
        if !is_awaited {
            return Ok(None);
        }
        let acknowledged = async {
            let acks = answer.await.map_err(|_| panicked())?;
            self.doubt.note(&acks);
            let is_any_in_log = acks.iter().any(Result::is_ok);
            if wait == Some(Wait::Disk) && is_any_in_log {
                self.syncer.sync().await?;
            }
            Ok(Some(acks))
        };
        let in_time = tokio::time::timeout(self.options.write_timeout, acknowledged).await;
        in_time.unwrap_or_else(|_| {
            let detail = "the store took too long, and the record may still be recorded: send it again, with the same id or Idempotency-Key";
            Err(Problem::unavailable("timeout", detail))
        })
    }
}

fn panicked() -> Problem {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    Problem::new(status, "internal", "internal error: see the server's log")
}
