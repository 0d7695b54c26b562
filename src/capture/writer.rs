//! The writing thread: writes captured records in the order of the queue, in batches of bounded size,
//! each under one lock. It ends when the queue is closed and empty, and reports a result for every
//! record that it took.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::queue::{Job, Queue, ended};
use super::{CaptureOptions, CaptureStats};
use crate::collections::{
    Ack, AckStatus, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, PreparedBatch, RECORD_BYTES,
};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;

/// Interval of attempts to get the lock.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

pub(super) type OnError = Box<dyn FnMut(&Error, &Record) + Send>;

pub(super) struct Writer {
    options: CaptureOptions,
    queue: Arc<Queue>,
    /// The error after which all further records fail.
    gave_up: Option<Error>,
    /// The results of the first records of a waiting caller.
    awaited: Vec<Result<Ack>>,
}

/// Reports failures for queued records if the thread panics.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Writer {
    pub(super) fn new(options: CaptureOptions, queue: Arc<Queue>) -> Writer {
        Writer {
            options,
            queue,
            gave_up: None,
            awaited: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let _end = End(Arc::clone(&self.queue));
        self.queue.begin();
        let mut jobs = VecDeque::new();
        while self.queue.take(&mut jobs) {
            while !jobs.is_empty() {
                let len = batch_len(&jobs);
                let answers = self.write(&mut jobs, len);
                self.settle(jobs.drain(..len), answers);
            }
        }
    }

    /// Writes the first `len` records; retries while another process holds the lock.
    fn write(&mut self, jobs: &mut VecDeque<Job>, len: usize) -> Result<Vec<Result<Ack>>> {
        let store = &self.options.store;
        let is_told = self.options.on_error.is_some();
        let mut batch: Option<PreparedBatch> = None;
        loop {
            if let Some(error) = &self.gave_up {
                return Err(error.clone());
            }
            let put = || {
                let records = jobs.iter_mut().take(len).filter_map(|job| {
                    // The record is kept unchanged if an error may have to be reported for it.
                    let record = if is_told && !job.is_awaited {
                        job.record.clone()
                    } else {
                        job.record.take()
                    };
                    Some((Ok(record?), job.if_known))
                });
                let batch = batch.get_or_insert_with(|| store.prepare_batch(records));
                store.put_prepared(batch)
            };
            // The store drops the state of an aborted transaction.
            match catch_unwind(AssertUnwindSafe(put)) {
                // Nothing was written.
                Ok(Err(e)) if e.kind() == ErrorKind::Locked => {
                    if self.queue.may_retry(&e, self.options.drain_timeout) {
                        std::thread::sleep(RETRY_PAUSE);
                    } else {
                        self.gave_up = Some(e);
                    }
                }
                Ok(answers) => return answers,
                Err(_panic) => {
                    self.queue.die(ended());
                    self.gave_up = Some(ended());
                }
            }
        }
    }

    fn settle(&mut self, jobs: impl Iterator<Item = Job>, answers: Result<Vec<Result<Ack>>>) {
        let (mut answers, error) = match answers {
            Ok(answers) => (answers.into_iter(), None),
            Err(error) => (Vec::new().into_iter(), Some(error)),
        };
        let mut results = CaptureStats::default();
        let (mut bytes, mut last_error) = (0, None);
        let mut answered = Vec::new();
        for job in jobs {
            bytes += job.bytes;
            let answer = answers.next().unwrap_or_else(|| {
                let error = error.clone();
                Err(error.unwrap_or_else(|| Error::new(ErrorKind::Damaged, "no answer")))
            });
            match &answer {
                Ok(ack) if ack.status == AckStatus::Added => results.written += 1,
                Ok(_) => results.unchanged += 1,
                Err(error) => {
                    if error.kind().is_judgement() {
                        results.rejected += 1;
                    } else {
                        results.failed += 1;
                    }
                    last_error = Some(error.clone());
                }
            }
            if job.is_awaited {
                self.awaited.push(answer);
            } else if let Err(error) = answer {
                self.report(&error, job.record.as_ref());
            }
            if let Some(give) = job.answer {
                answered.push((give, std::mem::take(&mut self.awaited)));
            }
        }
        // Waiting callers find space when they retry.
        self.queue.settle(&results, bytes, last_error);
        for (give, answers) in answered {
            // As in `report`.
            let _ = catch_unwind(AssertUnwindSafe(|| give(answers)));
        }
    }

    fn report(&mut self, error: &Error, record: Option<&Record>) {
        if let (Some(on_error), Some(record)) = (&mut self.options.on_error, record) {
            // The panic is the callback's and was shown by the panic hook. Writing continues.
            let _ = catch_unwind(AssertUnwindSafe(|| on_error(error, record)));
        }
    }
}

/// The number of records in the next batch; at least one.
fn batch_len(jobs: &VecDeque<Job>) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Job| {
        bytes += RECORD_BYTES + job.bytes;
        bytes <= BATCH_BYTES_MAX
    };
    let len = jobs.iter().take(BATCH_RECORDS_MAX).take_while(fits).count();
    len.max(1)
}
