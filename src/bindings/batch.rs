//! Batches that are written while their later records are still read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::{Head, Input, Recorded};
use crate::collections::{Ack, PreparedBatch, RECORD_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Durability, Store};

/// Number of records of the first part. It is small, so that the writing begins soon.
const FIRST_PART: usize = 64;
/// Number of records of the other parts.
const PART: usize = 250;
/// Number of records of each part if every part is synced.
const SYNCED_PART: usize = 1000;
/// Estimated size of a part in bytes at which it is full, whatever the number of records.
const PART_BYTES: usize = 1 << 20;
/// Number of parts that may wait for the thread.
const PARTS_AHEAD: usize = 4;

type PartAnswers = Result<Vec<Result<Ack>>>;

/// A batch of records, each accepted or rejected on its own. A short one is written at its end, a
/// longer one in parts, by a thread. `E` is the error of a record that could not be read.
///
/// ```
/// use decklog::bindings::{Batch, Input};
/// use decklog::{Error, Kind};
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = decklog::Store::open(dir.path().join("log"))?;
/// let mut batch = Batch::<Error>::new(store.clone());
/// for _ in 0..1000 {
///     let input = Input::new(Some(Kind::Events), &[("event_type", "worker.spawned".into())]);
///     if batch.push(input) && !batch.send() {
///         break;
///     }
/// }
/// let mut lines = Vec::new();
/// for part in batch.end() {
///     lines.extend(part?.into_iter().flatten().map(|recorded| recorded.seq));
/// }
/// assert!(lines.into_iter().eq(1..=1000));
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug)]
pub struct Batch<E> {
    store: Store,
    /// Of each record what its acknowledgement takes from it, or why it is not sent.
    heads: Vec<Result<Head, E>>,
    part: Vec<Input>,
    part_max: usize,
    part_bytes: usize,
    writer: Option<Writer>,
}

/// Why a record of a batch was not recorded.
#[derive(Debug)]
pub enum Refused<E> {
    /// It could not be read.
    Unread(E),
    /// The log rejected it.
    Rejected(Error),
}

#[derive(Debug)]
struct Writer {
    parts: SyncSender<Part>,
    /// Number of parts that the thread has not written.
    ahead: Arc<AtomicUsize>,
    answers: Receiver<PartAnswers>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Part {
    Given(Vec<Input>),
    Prepared(PreparedBatch),
}

fn prepared(store: &Store, part: Vec<Input>) -> PreparedBatch {
    store.prepare_batch(part.into_iter().map(Input::parts))
}

impl<E> Batch<E> {
    /// A batch without records.
    pub fn new(store: Store) -> Batch<E> {
        let part_max = match store.inner().durability {
            Durability::Disk => SYNCED_PART,
            Durability::Process => FIRST_PART,
        };
        Batch {
            store,
            heads: Vec::new(),
            part: Vec::new(),
            part_max,
            part_bytes: 0,
            writer: None,
        }
    }

    /// Adds a record. Returns whether a part is full: it can be [sent](Batch::send).
    pub fn push(&mut self, input: Result<Input, E>) -> bool {
        self.heads.push(input.map(|input| {
            let head = input.head();
            self.part_bytes += RECORD_BYTES + input.text_len();
            self.part.push(input);
            head
        }));
        let has_room = self.part.len() < self.part_max && self.part_bytes < PART_BYTES;
        !has_room && !self.part.is_empty()
    }

    /// Hands the part to the thread, and waits if that is far behind. Without a thread, the part
    /// grows. Returns whether more records are of use: not after the log has failed.
    pub fn send(&mut self) -> bool {
        if self.writer.is_none() {
            self.writer = Writer::start(self.store.clone());
            self.part_max = match &self.writer {
                Some(_) => self.part_max.max(PART),
                None => usize::MAX,
            };
        }
        self.part_bytes = 0;
        let Some(writer) = &self.writer else {
            return true;
        };
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(PART));
        let is_busy = writer.ahead.fetch_add(1, Ordering::Relaxed) > 0;
        // Redaction takes as long as the rest of the writing. The thread does it if it is idle.
        let part = if is_busy {
            Part::Prepared(prepared(&self.store, part))
        } else {
            Part::Given(part)
        };
        // After an error the thread takes no more, and the error is its last answer.
        writer.parts.send(part).is_ok()
    }

    /// Writes the rest.
    pub fn end(mut self) -> Outcomes<E> {
        if self.writer.is_some() && !self.part.is_empty() {
            self.send();
        }
        Outcomes {
            heads: self.heads.into_iter(),
            is_begun: false,
            answers: match self.writer {
                Some(writer) => Answers::Sent(writer.answers, writer.thread),
                None => Answers::Unsent(self.store, self.part),
            },
        }
    }
}

impl Writer {
    fn start(store: Store) -> Option<Writer> {
        let (parts, sent) = sync_channel(PARTS_AHEAD);
        let (answer, answers) = std::sync::mpsc::channel();
        let ahead = Arc::new(AtomicUsize::new(0));
        let unwritten = Arc::clone(&ahead);
        let write = move || {
            for part in sent {
                let mut part = match part {
                    Part::Given(part) => prepared(&store, part),
                    Part::Prepared(part) => part,
                };
                let answers = store.put_prepared(&mut part);
                let has_failed = answers.is_err();
                unwritten.fetch_sub(1, Ordering::Relaxed);
                // The records are written whether or not the answers are read.
                let _ = answer.send(answers);
                if has_failed {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("decklog-batch".to_owned());
        let thread = thread.spawn(write).ok()?;
        Some(Writer {
            parts,
            ahead,
            answers,
            thread,
        })
    }
}

/// The outcomes of the records of a batch, in their order, part by part. The iterator waits until the
/// next part is written. If a later part cannot be written, that is the outcome of each record from
/// there on.
///
/// # Errors
/// Those of [`record_batch`](Store::record_batch), if the first part cannot be written. It is the
/// last item.
#[derive(Debug)]
pub struct Outcomes<E> {
    heads: std::vec::IntoIter<Result<Head, E>>,
    is_begun: bool,
    answers: Answers,
}

impl<E> Iterator for Outcomes<E> {
    type Item = Result<Vec<Result<Recorded, Refused<E>>>>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut outcomes = Vec::new();
        match self.answers.next() {
            Some(Ok(part)) => {
                for ack in part {
                    let head = self.heads.find_map(|head| match head {
                        Ok(head) => Some(head),
                        Err(error) => {
                            outcomes.push(Err(Refused::Unread(error)));
                            None
                        }
                    })?;
                    let recorded = ack.map(|ack| head.recorded(ack));
                    outcomes.push(recorded.map_err(Refused::Rejected));
                }
            }
            Some(Err(error)) if !self.is_begun => {
                self.heads = Vec::new().into_iter();
                return Some(Err(error));
            }
            Some(Err(error)) => outcomes.extend(self.rest(&error)),
            None => outcomes.extend(self.rest(&Error::new(ErrorKind::Damaged, "no answer"))),
        }
        self.is_begun = true;
        (!outcomes.is_empty()).then_some(Ok(outcomes))
    }
}

impl<E> Outcomes<E> {
    /// The outcomes of records that were not answered.
    fn rest(&mut self, error: &Error) -> impl Iterator<Item = Result<Recorded, Refused<E>>> {
        self.heads.by_ref().map(|head| {
            Err(match head {
                Ok(_) => Refused::Rejected(error.clone()),
                Err(error) => Refused::Unread(error),
            })
        })
    }
}

#[derive(Debug)]
enum Answers {
    Unsent(Store, Vec<Input>),
    Sent(Receiver<PartAnswers>, JoinHandle<()>),
    Ended,
}

impl Answers {
    fn next(&mut self) -> Option<PartAnswers> {
        match std::mem::replace(self, Answers::Ended) {
            Answers::Unsent(_, part) if part.is_empty() => None,
            Answers::Unsent(store, part) => Some(store.record_inputs(part)),
            Answers::Sent(answers, thread) => {
                let part = answers.recv().ok();
                if let Some(Ok(_)) = part {
                    *self = Answers::Sent(answers, thread);
                } else if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
                part
            }
            Answers::Ended => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Batch, FIRST_PART, PART, PART_BYTES, Refused};
    use crate::bindings::{Input, RecordId};
    use crate::collections::EventQuery;
    use crate::error::ErrorKind;
    use crate::record::Kind;
    use crate::store::Store;

    fn event(id: i64, event_type: &str) -> Input {
        let fields = [
            ("id", crate::record::Dynamic::Int(id)),
            ("event_type", event_type.into()),
        ];
        Input::new(Some(Kind::Events), &fields).unwrap()
    }

    /// Of each record, what the log says: its id, the number of one that could not be read, or `None`
    /// for one that the log rejects.
    fn outcomes(store: &Store, count: i64) -> Vec<Option<i64>> {
        let mut batch = Batch::new(store.clone());
        for n in 1..=count {
            let input = match n % 10 {
                3 => Err(n),
                // Another event has this id.
                7 => Ok(event(n - 1, "c.d")),
                _ => Ok(event(n, "a.b")),
            };
            if batch.push(input) && !batch.send() {
                break;
            }
        }
        let mut outcomes = Vec::new();
        for part in batch.end() {
            outcomes.extend(part.unwrap().into_iter().map(|outcome| match outcome {
                Ok(recorded) => match recorded.id {
                    Some(RecordId::Number(id)) => Some(id),
                    other => panic!("{other:?}"),
                },
                Err(Refused::Unread(n)) => Some(n),
                Err(Refused::Rejected(error)) => {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    None
                }
            }));
        }
        outcomes
    }

    #[test]
    fn each_record_has_its_outcome_whatever_the_length() {
        for count in [0, 1, 2, 3, 63, 64, 65, 313, 314, 315, 2000] {
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path().join("log")).unwrap();
            let expected: Vec<_> = (1..=count).map(|n| (n % 10 != 7).then_some(n)).collect();
            assert_eq!(outcomes(&store, count), expected);
            let events = store.events(&EventQuery {
                limit: usize::MAX,
                ..EventQuery::default()
            });
            let ids = events.unwrap().items.into_iter().map(|event| event.id);
            let recorded = (1..=count).filter(|n| ![3, 7].contains(&(n % 10)));
            assert!(ids.eq(recorded));
        }
    }

    #[test]
    fn a_part_of_large_records_is_full_early() {
        let dir = tempfile::tempdir().unwrap();
        let mut batch = Batch::<()>::new(Store::open(dir.path().join("log")).unwrap());
        let payload = "x".repeat(100_000);
        let fields = [
            ("event_type", "a.b".into()),
            ("payload", (&*payload).into()),
        ];
        let large = Input::new(Some(Kind::Events), &fields).unwrap();
        let fitting = (0..FIRST_PART).take_while(|_| !batch.push(Ok(large.clone())));
        assert_eq!(fitting.count(), PART_BYTES / 100_000);
    }

    #[test]
    fn records_after_a_part_that_fails_have_its_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let options = Store::options().lock_timeout(Duration::from_millis(20));
        let store = options.open(&path).unwrap();
        let mut batch = Batch::new(store.clone());
        let first = i64::try_from(FIRST_PART).unwrap();
        let is_full = (1..=first).map(|n| batch.push(Ok(event(n, "a.b"))));
        assert_eq!(is_full.filter(|is_full| *is_full).count(), 1);
        assert!(batch.send());
        while store.get_event(first).unwrap().is_none() {
            std::thread::yield_now();
        }
        let other = Store::open(&path).unwrap();
        let held = other.inner().transact(|_| {
            for n in first + 1..=3 * first {
                batch.push(if n % 2 == 0 {
                    Ok(event(n, "a.b"))
                } else {
                    Err(n)
                });
            }
            let outcomes: Vec<_> = batch.end().flat_map(Result::unwrap).collect();
            Ok(outcomes)
        });
        let (recorded, refused): (Vec<_>, Vec<_>) =
            held.unwrap().into_iter().partition(Result::is_ok);
        assert_eq!(
            (recorded.len(), refused.len()),
            (FIRST_PART, 2 * FIRST_PART)
        );
        let mut unread = 0;
        for refused in refused {
            match refused.unwrap_err() {
                Refused::Unread(n) => unread += n % 2,
                Refused::Rejected(error) => assert_eq!(error.kind(), ErrorKind::Locked),
            }
        }
        assert_eq!(unread, first);
    }

    #[test]
    fn an_error_of_the_log_is_the_last_item() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        Store::open(&path).unwrap();
        let store = Store::options().read_only(true).open(&path).unwrap();
        for count in [1, 2 * PART, 100 * PART] {
            let mut batch = Batch::<()>::new(store.clone());
            let pushed =
                (0..count).take_while(|_| !batch.push(Ok(event(1, "a.b"))) || batch.send());
            // The thread ends with the first error.
            assert!(pushed.count() <= count.min(20 * PART));
            let mut outcomes = batch.end();
            let error = outcomes.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnly);
            assert!(outcomes.next().is_none());
        }
    }
}
