//! Records spans of the `tracing` crate: events for the start and end of each span and, for spans
//! of tools, tool calls. Feature `tracing`. The layer never blocks: it sends to a bounded queue,
//! and one thread writes.

mod fields;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use self::fields::Fields;
use self::writer::{Begun, Ended, Seen, write};
use crate::error::{Error, ErrorKind, Result};
use crate::record::now;
use crate::store::Store;

/// Maximum number of span starts and ends that wait to be written.
const QUEUE_MAX: usize = 10_000;

/// A layer for a [`tracing_subscriber`] registry that records spans in a log; returned by
/// [`Store::span_layer`].
///
/// A span is recorded as an event `NAME.started` and a child event `NAME.completed` or
/// `NAME.failed`; [`Store::event_tree`] shows them with durations. The payload has the span's
/// fields, target and level. A span failed if its field `error.type` is set, its field
/// `otel.status_code` is `ERROR`, or an event of the level `ERROR` occurred in it, as
/// `#[instrument(err)]` emits.
///
/// A span with the field `gen_ai.tool.name`, from OpenTelemetry's conventions for generative AI, is
/// recorded as a tool call too. Its events are `tool_call.started` and so on. These fields are
/// read:
///
/// | field | meaning | default |
/// |---|---|---|
/// | `gen_ai.tool.name` | `tool_name` | |
/// | `gen_ai.tool.call.id` | `call_id` | a new UUID |
/// | `gen_ai.tool.call.arguments` | `arguments_json`: JSON, or any text | `null` |
/// | `gen_ai.tool.call.result` | `outcome_json`: JSON, or any text | |
/// | `gen_ai.provider.name` | `vendor` | the span's target |
/// | `error.type` | `error_kind` | `tool_error` |
/// | `otel.status_message` | `error_msg` | that of the last `ERROR` event |
/// | `decklog.turn_id` | `parent_id` and `request_id`, a UUID; of a span or of one above it | a new UUID for each outermost span |
///
/// The name, id, arguments, provider and turn must be set when the span starts; the others may be
/// recorded later.
///
/// ```
/// use decklog::Store;
/// use decklog::query::EventQuery;
/// use tracing_subscriber::layer::SubscriberExt;
/// # let dir = tempfile::tempdir().unwrap();
/// let store = Store::open(dir.path().join("log"))?;
/// let (layer, guard) = store.span_layer()?;
/// let subscriber = tracing_subscriber::registry().with(layer);
/// tracing::subscriber::with_default(subscriber, || {
///     let _agent = tracing::info_span!("agent", task_id = "t1").entered();
///     let _call = tracing::info_span!("run", gen_ai.tool.name = "ls", gen_ai.tool.call.id = "c1");
/// });
/// guard.flush()?;
/// let events = store.events(&EventQuery::default())?.items;
/// let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
/// let call = ["tool_call.started", "tool_call.completed"];
/// assert_eq!(types, ["agent.started", call[0], call[1], "agent.completed"]);
/// assert_eq!(store.tool_calls(&Default::default())?.items[0].0.call_id, "c1");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug)]
pub struct SpanLayer {
    queue: SyncSender<Seen>,
    lost: Arc<AtomicU64>,
    next_key: AtomicU64,
}

/// Flushes the records of a [`SpanLayer`]. Keep it until the program ends. Dropping it waits until
/// everything received so far is in the log.
pub struct SpanGuard {
    queue: SyncSender<Seen>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Store {
    /// Creates a layer that records spans in this store, and the guard that flushes it. Feature
    /// `tracing`.
    ///
    /// # Errors
    /// [`ReadOnly`](ErrorKind::ReadOnly); [`Io`](ErrorKind::Io) if no thread can be started.
    pub fn span_layer(&self) -> Result<(SpanLayer, SpanGuard)> {
        self.inner().check_writable()?;
        let (queue, seen) = sync_channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let (store, counted) = (self.clone(), Arc::clone(&lost));
        let thread = std::thread::Builder::new()
            .name("decklog-spans".to_owned())
            .spawn(move || write(&store, &seen, &counted))
            .map_err(|e| Error::io("start the thread that writes spans", self.path(), e))?;
        let layer = SpanLayer {
            queue: queue.clone(),
            lost: Arc::clone(&lost),
            next_key: AtomicU64::new(1),
        };
        let guard = SpanGuard {
            queue,
            lost,
            thread: Some(thread),
        };
        Ok((layer, guard))
    }
}

impl SpanGuard {
    /// Waits until everything received so far is written or rejected.
    ///
    /// # Errors
    /// The error of the last record since the previous call that was not written.
    pub fn flush(&self) -> Result<()> {
        let (sender, answer) = sync_channel(1);
        // If the thread has ended, it drops the sender.
        let _ = self.queue.send(Seen::Flush(sender));
        answer.recv().unwrap_or_else(|_| {
            let message = "the thread that writes spans has ended";
            Err(Error::new(ErrorKind::Poisoned, message))
        })
    }

    /// Number of span starts and ends that are not in the log, because the queue was full or the
    /// write failed.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for SpanGuard {
    fn drop(&mut self) {
        // The layer may live as long as the process, so the thread must end with the guard.
        let _ = self.queue.send(Seen::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for SpanGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpanGuard")
            .field("lost", &self.lost())
            .finish_non_exhaustive()
    }
}

/// The state of an open span.
struct Open {
    key: u64,
    began: Instant,
    fields: Fields,
    /// The message of the last error event in the span.
    error: Option<String>,
}

impl SpanLayer {
    fn send(&self, seen: Seen) {
        // After the guard is dropped, nothing is written.
        if self.queue.try_send(seen).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let parent = span
            .parent()
            .and_then(|parent| Some(parent.extensions().get::<Open>()?.key));
        let metadata = span.metadata();
        self.send(Seen::Begun(Begun {
            key,
            parent,
            at: now(),
            name: metadata.name(),
            target: metadata.target(),
            level: *metadata.level(),
            fields: fields.clone(),
        }));
        span.extensions_mut().insert(Open {
            key,
            began: Instant::now(),
            fields: Fields::default(),
            error: None,
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            values.record(&mut open.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() != Level::ERROR {
            return;
        }
        if let Some(span) = context.event_span(event)
            && let Some(open) = span.extensions_mut().get_mut::<Open>()
        {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let message = fields.text("error").or_else(|| fields.text("message"));
            open.error = Some(message.unwrap_or_default());
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let open = span.extensions_mut().remove::<Open>();
        let Some(open) = open else { return };
        self.send(Seen::Ended(Ended {
            key: open.key,
            at: now(),
            latency_ms: i64::try_from(open.began.elapsed().as_millis()).unwrap_or(i64::MAX),
            fields: open.fields,
            error: open.error,
        }));
    }
}
