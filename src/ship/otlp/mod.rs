//! A log as spans and log records at a receiver of OTLP, over HTTP.
//!
//! The lines after a position are sent in order. A position is kept in `cache/` and advances once
//! the receiver has acknowledged a request. So a run that dies sends at most one request again,
//! and its spans have the same ids as before.

mod client;
mod position;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use prost::Message;
use uuid::Uuid;

pub(super) use self::client::Endpoint;
use self::client::{Client, Sent};
use self::position::{Begun, Position};
use super::{Progress, ShipOptions, Shipped};
use crate::error::Result;
use crate::otlp::send::request::{Logs, Traces, split};
use crate::otlp::send::{Chunk, Chunks, LogRecord, Span};
use crate::store::Store;

/// Maximum number of reasons of rejections that a run keeps.
const REASONS_MAX: usize = 10;

/// Sends a store to one receiver again and again.
#[derive(Debug)]
pub(crate) struct OtlpShipper {
    client: Client,
    store: Store,
    options: ShipOptions,
    progress: Progress,
    /// The destination, without secrets.
    name: String,
}

/// A request that was not sent yet.
enum Request {
    Spans(Vec<Span>),
    Logs(Vec<LogRecord>),
}

impl Request {
    fn len(&self) -> usize {
        match self {
            Request::Spans(spans) => spans.len(),
            Request::Logs(logs) => logs.len(),
        }
    }

    fn path(&self) -> &'static str {
        match self {
            Request::Spans(_) => client::TRACES,
            Request::Logs(_) => client::LOGS,
        }
    }

    fn body(&self, store: Uuid) -> Vec<u8> {
        match self {
            Request::Spans(spans) => Traces::new(store, spans.clone()).encode_to_vec(),
            Request::Logs(logs) => Logs::new(store, logs.clone()).encode_to_vec(),
        }
    }

    /// Splits it into two halves; `None` if it has one item.
    fn halves(self) -> Option<(Request, Request)> {
        if self.len() < 2 {
            return None;
        }
        let half = self.len() / 2;
        Some(match self {
            Request::Spans(mut first) => {
                let rest = first.split_off(half);
                (Request::Spans(first), Request::Spans(rest))
            }
            Request::Logs(mut first) => {
                let rest = first.split_off(half);
                (Request::Logs(first), Request::Logs(rest))
            }
        })
    }

    /// Notes the ids of its items.
    fn note(&self, begun: &mut Begun) {
        match self {
            Request::Spans(spans) => spans.iter().for_each(|span| begun.add_span(span)),
            Request::Logs(logs) => logs.iter().for_each(|log| begun.add_log(log)),
        }
    }
}

impl OtlpShipper {
    pub(super) fn new(
        endpoint: &Endpoint,
        store: Store,
        options: ShipOptions,
        (progress, name): (Progress, &str),
    ) -> Result<OtlpShipper> {
        Ok(OtlpShipper {
            client: Client::new(endpoint)?,
            store,
            options,
            progress,
            name: name.to_owned(),
        })
    }

    /// Sends everything up to now.
    pub(super) async fn try_ship(&mut self) -> Result<Shipped> {
        let mut position = Position::load(&self.store, &self.name);
        let mut shipped = Shipped {
            store_id: self.store.inner().store_id(),
            last_seq: position.seq,
            ..Shipped::default()
        };
        self.store.refresh()?;
        let mut chunks = Chunks::after(&self.store, position.seq);
        loop {
            let upto = position.begun.as_ref().map(|begun| begun.upto);
            let chunk = match chunks.next(upto)? {
                Some(chunk) => chunk,
                // Its lines were removed since.
                None if upto.is_some() => {
                    position.begun = None;
                    continue;
                }
                None => return Ok(shipped),
            };
            self.send(&chunk, &mut position, &mut shipped).await?;
            shipped.last_seq = chunk.last_seq;
            shipped.bytes += chunk.bytes;
            self.progress.advance(chunk.bytes);
        }
    }

    async fn send(
        &self,
        chunk: &Chunk,
        position: &mut Position,
        shipped: &mut Shipped,
    ) -> Result<()> {
        let mut items = chunk.items(&self.store)?;
        let sent = position.begun.take();
        let mut begun = Begun::new(chunk.last_seq);
        if let Some(sent) = sent
            && sent.is_start_of(&items.spans, &items.logs)
        {
            let of_spans = items.spans.len().min(sent.items);
            items.spans.drain(..of_spans);
            items.logs.drain(..sent.items - of_spans);
            begun = sent;
        }
        let spans = split(items.spans).into_iter().map(Request::Spans);
        let logs = split(items.logs).into_iter().map(Request::Logs);
        let mut requests: VecDeque<Request> = spans.chain(logs).collect();
        while let Some(request) = requests.pop_front() {
            let body = request.body(shipped.store_id);
            if !self.options.dry_run {
                let is_sent = match self.client.post(request.path(), &body).await? {
                    Sent::Taken { rejected, reason } => {
                        note(shipped, rejected, reason);
                        true
                    }
                    Sent::TooLarge(reason) => {
                        let len = request.len() as u64;
                        match request.halves() {
                            Some((first, rest)) => {
                                requests.push_front(rest);
                                requests.push_front(first);
                            }
                            None => note(shipped, len, reason),
                        }
                        continue;
                    }
                    Sent::NoLogs(reason) => {
                        shipped.logs_refused += request.len() as u64;
                        note(shipped, 0, reason);
                        false
                    }
                };
                request.note(&mut begun);
                position.begun = Some(begun.clone());
                position.save(&self.store, &self.name)?;
                if !is_sent {
                    continue;
                }
            }
            shipped.bytes_written += body.len() as u64;
            match &request {
                Request::Spans(spans) => shipped.spans_sent += spans.len() as u64,
                Request::Logs(logs) => shipped.logs_sent += logs.len() as u64,
            }
        }
        *position = Position::at(chunk.last_seq);
        if self.options.dry_run {
            return Ok(());
        }
        position.save(&self.store, &self.name)
    }
}

fn note(shipped: &mut Shipped, rejected: u64, reason: String) {
    shipped.items_rejected += rejected;
    let reasons = &mut shipped.rejections;
    if !reason.is_empty() && reasons.len() < REASONS_MAX && !reasons.contains(&reason) {
        reasons.push(reason);
    }
}
