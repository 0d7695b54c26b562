//! The thread that writes what was captured: in the order of the queue, in batches of bounded
//! size, each under one lock. It ends when the queue is closed and empty, and answers for every
//! record that it took.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use super::queue::{Job, Queue, ended};
use super::stats::Answers;
use crate::collections::{Ack, AckStatus, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, RECORD_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Record;
use crate::store::Store;

/// Between two tries to get the lock.
const RETRY_PAUSE: Duration = Duration::from_millis(10);

pub(super) type OnError = Box<dyn FnMut(&Error, &Record) + Send>;

pub(super) struct Writer {
    store: Store,
    queue: Arc<Queue>,
    on_error: Option<OnError>,
    drain_timeout: Duration,
    /// Why nothing more is tried: whatever comes has failed.
    gave_up: Option<Error>,
}

/// Answers for what waits should the thread end in a panic.
struct End(Arc<Queue>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Writer {
    pub(super) fn new(
        store: Store,
        queue: Arc<Queue>,
        on_error: Option<OnError>,
        drain_timeout: Duration,
    ) -> Writer {
        Writer {
            store,
            queue,
            on_error,
            drain_timeout,
            gave_up: None,
        }
    }

    pub(super) fn run(mut self) {
        let _end = End(Arc::clone(&self.queue));
        self.queue.begin();
        let mut jobs = VecDeque::new();
        while self.queue.take(&mut jobs) {
            while !jobs.is_empty() {
                let len = batch_len(&jobs);
                let answers = self.write(&jobs, len);
                self.settle(jobs.drain(..len), answers);
            }
        }
    }

    /// Writes the first `len` records; tries again for as long as another process holds the lock.
    fn write(&mut self, jobs: &VecDeque<Job>, len: usize) -> Result<Vec<Result<Ack>>> {
        loop {
            if let Some(error) = &self.gave_up {
                return Err(error.clone());
            }
            let records = jobs.iter().take(len);
            // It is kept here to be told of, and tried again, as it was given.
            let records = records.map(|job| (Ok(job.record.clone()), job.if_known));
            // The store forgets what a transaction that was cut short left in its memory.
            match catch_unwind(AssertUnwindSafe(|| self.store.put_batch(records))) {
                // Then nothing was written.
                Ok(Err(e)) if e.kind() == ErrorKind::Locked => {
                    if self.queue.may_retry(&e, self.drain_timeout) {
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
        let mut settled = Answers::default();
        let mut awaited = Vec::new();
        for job in jobs {
            settled.bytes += job.bytes;
            let answer = answers.next().unwrap_or_else(|| {
                let error = error.clone();
                Err(error.unwrap_or_else(|| Error::new(ErrorKind::Damaged, "no answer")))
            });
            match &answer {
                Ok(ack) if ack.status == AckStatus::Added => settled.written += 1,
                Ok(_) => settled.unchanged += 1,
                Err(error) => {
                    if error.kind().is_judgement() {
                        settled.rejected += 1;
                    } else {
                        settled.failed += 1;
                    }
                    settled.last_error = Some(error.clone());
                }
            }
            match (job.answer, answer) {
                (Some(tell), answer) => awaited.push((tell, answer)),
                (None, Err(error)) => self.tell(&error, &job.record),
                (None, Ok(_)) => {}
            }
        }
        // Those who wait find room when they come again.
        self.queue.settle(settled);
        for (tell, answer) in awaited {
            // As in `tell`.
            let _ = catch_unwind(AssertUnwindSafe(|| tell(answer)));
        }
    }

    fn tell(&mut self, error: &Error, record: &Record) {
        if let Some(on_error) = &mut self.on_error {
            // A panic there is the program's own, which its hook shows; the records go on.
            let _ = catch_unwind(AssertUnwindSafe(|| on_error(error, record)));
        }
    }
}

/// How many of the first records go into one batch; at least one.
fn batch_len(jobs: &VecDeque<Job>) -> usize {
    let mut bytes = 0;
    let fits = |job: &&Job| {
        bytes += RECORD_BYTES + job.bytes;
        bytes <= BATCH_BYTES_MAX
    };
    let len = jobs.iter().take(BATCH_RECORDS_MAX).take_while(fits).count();
    len.max(1)
}
