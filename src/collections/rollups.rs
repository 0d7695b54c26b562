//! Rollups: what the messages of each day add up to, of those that are in the log and of those
//! that were rolled up before they were removed. One sum, whichever of them are still there.
//!
//! A message is in its group's standing rollup if it has no greater `seq` than the rollup's
//! `through_seq`. Else it is added. A rollup whose groups were written in part, before a crash,
//! counts nothing twice for that: each says for itself how far it reaches.
//!
//! Who reads a day's messages takes some at a time, so that writers need not wait for all of them.
//! Messages are removed only once the rollups that count them are durable. So if the day's rollups
//! are what they were when the reading began, no message was missed but one that was erased.

mod sum;

use std::collections::{BTreeSet, HashMap, HashSet};

use uuid::Uuid;

use self::sum::Found;
use self::sum::Part;
pub(crate) use self::sum::{Adds, DaySum, Message, read, sum_day, with_seqs};
use super::{Ack, BATCH_RECORDS_MAX, collision, standing, unchanged};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Position, Select, Walk};
use crate::record::{Day, Group, Kind, Record, Rollup};
use crate::store::{Kept, Reads, Store, Txn, View};

const KIND: Kind = Kind::Rollups;

/// How often a day is begun anew whose rollups were written by another meanwhile.
const TRIES_MAX: u32 = 5;

/// Of which days to tell what messages add up to.
#[derive(Debug, Clone, Copy, Default)]
pub struct RollupQuery {
    /// Only this day and later ones.
    pub since: Option<Day>,
    /// Only days before this one.
    pub until: Option<Day>,
}

impl Store {
    /// What the messages of each day and group add up to, those that retention removed included:
    /// by day, then by model, configuration, orchestration mode and task type, those that have
    /// none first. `through_seq` is the greatest sequence number of the log, or that of a rollup
    /// that says more.
    ///
    /// It reads every message of the days asked for that is in the log; other records are
    /// recorded meanwhile.
    ///
    /// Which conversations the removed messages were of is not kept, only how many. A conversation
    /// of which a message was removed, and no other of that day was left that the rollup counts,
    /// counts once more in `conversations` and `active_conversations` if another message of that
    /// day is recorded later.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, RollupQuery, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// let answer = ConversationMessage {
    ///     model_used: Some("small-1".into()),
    ///     tokens_out: Some(7),
    ///     latency_ms: Some(850),
    ///     ..ConversationMessage::new(conversation.id, Role::Assistant, "hello")
    /// };
    /// store.record(conversation)?;
    /// store.record(answer)?;
    /// let rollups = store.rollups(&RollupQuery::default())?;
    /// assert_eq!((rollups[0].requests, rollups[0].tokens_out), (1, 7));
    /// let p95 = rollups[0].latency_sketch.quantile(0.95).unwrap();
    /// assert!((p95 - 850.0).abs() <= 8.5);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if a day's rollups were written again and again while its
    /// messages were read.
    pub fn rollups(&self, query: &RollupQuery) -> Result<Vec<Rollup>> {
        let mut rollups = Vec::new();
        for day in self.inner().ask(|view| Ok(days(view, query)))? {
            rollups.extend(sum_up(self, day)?.1);
        }
        Ok(rollups)
    }

    /// Writes what the messages of a day add up to, and returns once that is on disk: those of
    /// its messages that have no greater sequence number than the one returned may be removed
    /// then, and [`rollups`](Store::rollups) still tells of them. Again after a crash, or with
    /// nothing new, it counts nothing twice.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if others wrote the day's rollups again and again
    /// meanwhile; whatever keeps records from being written.
    pub fn roll_up(&self, day: Day) -> Result<u64> {
        let mut tries = 1;
        loop {
            let (through_seq, rollups) = sum_up(self, day)?;
            match write(self, rollups) {
                Err(e) if e.kind() == ErrorKind::Conflict && tries < TRIES_MAX => tries += 1,
                Err(e) => return Err(e),
                Ok(()) => break self.sync().map(|()| through_seq),
            }
        }
    }
}

fn write(store: &Store, rollups: Vec<Rollup>) -> Result<()> {
    let records: Vec<Record> = rollups.into_iter().map(Record::from).collect();
    for batch in records.chunks(BATCH_RECORDS_MAX) {
        for answer in store.record_batch(batch.iter().cloned())? {
            answer?;
        }
    }
    Ok(())
}

pub(super) fn put(txn: &mut Txn<'_>, kept: &Kept, rollup: &Rollup) -> Result<Ack> {
    let key = [&*rollup.day.to_string(), &*rollup.group_key()];
    if let Some((_, row)) = txn.find(KIND, key) {
        let decoded = txn.read(KIND, row.asserted)?;
        let known = rollup_in(decoded.record)?;
        if known == *rollup {
            return unchanged(txn, row.asserted, decoded.seq.unwrap_or(0));
        }
        if (known.day, known.group()) != (rollup.day, rollup.group()) {
            return Err(collision());
        }
        if known.through_seq >= rollup.through_seq {
            let message = format!(
                "the log has a rollup of this group through seq {}, and this one is through seq {}: sum the day up anew",
                known.through_seq, rollup.through_seq
            );
            return Err(Error::new(ErrorKind::Conflict, message));
        }
    }
    txn.push(kept, None).map(Ack::added)
}

fn rollup_in(record: Record) -> Result<Rollup> {
    match record {
        Record::Rollup(rollup) => Ok(*rollup),
        _ => Err(collision()),
    }
}

/// The days of a query that have a message or a rollup.
fn days(view: &View<'_>, query: &RollupQuery) -> Vec<Day> {
    let start = |day: Day| day.bounds_ms().0;
    let until = query.until.map_or(i64::MAX, start);
    let mut days = BTreeSet::new();
    for kind in [Kind::Messages, KIND] {
        let mut from = query.since.map_or(0, start);
        while let Some(row) = walk(view, kind, (from, until)).next()
            // A time that is none is that of a line which someone forged, and the others are later.
            && let Some(day) = view.table(kind).row(row).and_then(|row| Day::of(row.at).ok())
        {
            days.insert(day);
            from = day.bounds_ms().1;
        }
    }
    days.into_iter().collect()
}

/// All days that have a message or a rollup, in order.
pub(crate) fn all_days(view: &View<'_>) -> Vec<Day> {
    days(view, &RollupQuery::default())
}

/// The rows of a kind from one time on until before another.
fn walk<'v>(view: &'v View<'_>, kind: Kind, (from, until): (i64, i64)) -> Walk<'v> {
    let (from, until) = (Position::before(from), Position::before(until));
    view.table(kind).walk(Select::All, from, until)
}

/// The rollups of a day as they stand, in the order of their groups.
fn standing_rollups(view: &View<'_>, day: Day) -> Result<Vec<Rollup>> {
    let mut rollups = Vec::new();
    for row in walk(view, KIND, day.bounds_ms()) {
        if let Some(decoded) = standing(view, KIND, row)? {
            rollups.push(rollup_in(decoded.record)?);
        }
    }
    // A line that someone put in another day's time is not of this day.
    rollups.retain(|rollup| rollup.day == day);
    rollups.sort_by_cached_key(Rollup::group);
    Ok(rollups)
}

/// How far the log was read, and what the messages of a day add up to, by group.
fn sum_up(store: &Store, day: Day) -> Result<(u64, Vec<Rollup>)> {
    let (found, sum, ()) = sum_day(store, day, Sum::new, |_| ())?;
    Ok((found.last_seq, sum.rollups(day, found.last_seq)))
}

/// The sums of a day, with how many conversations each group is of.
struct Sum {
    day: DaySum,
    conversations: HashMap<Group, (HashSet<Uuid>, u64)>,
}

impl Adds for Sum {
    fn add(&mut self, message: Message) {
        let is_counted = self.day.count(&message);
        let (known, count) = self.conversations.entry(message.group).or_default();
        if known.insert(message.conversation) && is_counted {
            *count = count.saturating_add(1);
        }
    }
}

impl Sum {
    fn new(found: &Found) -> Sum {
        let rolled = found.rollups.iter().map(|rollup| {
            let conversations = (HashSet::new(), rollup.conversations);
            (rollup.group(), conversations)
        });
        Sum {
            day: DaySum::new(&found.rollups),
            conversations: rolled.collect(),
        }
    }

    fn rollups(self, day: Day, last_seq: u64) -> Vec<Rollup> {
        let active_conversations = self.day.active_conversations();
        let rollup = |(group, part): (Group, Part)| {
            let conversations = self
                .conversations
                .get(&group)
                .map_or(0, |(_, count)| *count);
            // One from another log may reach farther than this log does.
            let through_seq = part.through_seq.max(last_seq);
            Rollup {
                conversations,
                active_conversations,
                ..Rollup::of(day, group, through_seq, part.tally)
            }
        };
        self.day.into_parts().map(rollup).collect()
    }
}
