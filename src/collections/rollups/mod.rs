//! Rollups: daily totals of messages, both of those in the log and of those that were rolled up
//! before they were removed. The totals are the same whichever messages are still in the log.
//!
//! A rollup lists the messages that it counts, by hashes of their ids. A message is added only if
//! no rollup of its day lists it, so none is counted twice: not when it is recorded again after it
//! was removed, nor when a crash let only some of a day's rollups be written. A rollup from another
//! tool that lists no messages counts its group's messages up to its `through_seq`.
//!
//! A day's messages are read in parts, so that writers need not wait for all of them. Messages are
//! removed only after the rollups that count them are durable. So if the day's rollups have not
//! changed since the reading began, no message was missed, except erased ones.

mod roll;
mod sum;

use std::collections::{BTreeSet, HashMap};

use self::roll::Roll;
pub(crate) use self::sum::{
    Adds, DaySum, Found, Message, messages_of_day, messages_of_day_after, pairs, priced, read,
    sum_day,
};
use self::sum::{Conversations, Part};
#[cfg(feature = "bindings")]
use super::arguments::{Argument as _, ArgumentSchema, Arguments, argument};
use super::{
    Ack, BATCH_RECORDS_MAX, collision, conflict, record_in, record_of, standing, unchanged,
};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Loc, Position, Select, Walk};
#[cfg(feature = "bindings")]
use crate::record::Dynamic;
use crate::record::{Day, Group, IdHashes, Kind, Record, Rollup};
use crate::store::{Reads, Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::Rollups;

/// Maximum number of id hashes in a rollup, so that it fits a line: each takes 16 bytes there.
const HASHES_MAX: usize = 1 << 19;

/// Number of times a day is read again because another writer changed its rollups meanwhile.
const TRIES_MAX: u32 = 5;

/// Selects the days of the rollups.
#[derive(Debug, Clone, Copy, Default)]
pub struct RollupQuery {
    /// Only this day and later ones.
    pub since: Option<Day>,
    /// Only days before this one.
    pub until: Option<Day>,
}

#[cfg(feature = "bindings")]
impl Arguments for RollupQuery {
    const ARGUMENTS: &'static [ArgumentSchema] = &[
        ArgumentSchema::new("since", Day::TYPE_NAME, "Only this day and later ones."),
        ArgumentSchema::new("until", Day::TYPE_NAME, "Only days before this one."),
    ];

    fn set(&mut self, name: &str, value: &Dynamic<'_>) -> Result<(), String> {
        match name {
            "since" => self.since = Some(argument(value)?),
            "until" => self.until = Some(argument(value)?),
            // Checked against the names.
            _ => {}
        }
        Ok(())
    }
}

impl Store {
    /// The totals of the messages of each day and group, including messages that retention removed.
    /// Sorted by day, then by model, configuration, orchestration mode and task type; absent values
    /// come first. `through_seq` is the greatest sequence number of the log, or that of a rollup if
    /// greater.
    ///
    /// Reads every message of the requested days that is in the log. Other records can be recorded
    /// in the meantime.
    ///
    /// A message that was removed and then added again is not counted twice, and neither is its
    /// conversation.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # use decklog::query::RollupQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// let answer = ConversationMessage::new(conversation.id, Role::Assistant, "hello")
    ///     .model_used("small-1")
    ///     .tokens_out(7)
    ///     .latency_ms(850);
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
    /// [`Conflict`](ErrorKind::Conflict) if a day's rollups were rewritten repeatedly while its
    /// messages were read.
    pub fn rollups(&self, query: &RollupQuery) -> Result<Vec<Rollup>> {
        let mut rollups = Vec::new();
        for day in self.inner().with_snapshot(|view| Ok(days(view, query)))? {
            let (found, sum) = sum_day(self, day, |_| (), Sum::new)?;
            rollups.extend(sum.rollups(day, found.last_seq));
        }
        Ok(rollups)
    }

    /// Writes the rollups of a day and returns once they are on disk. The day's messages up to the
    /// returned sequence number may then be removed; [`rollups`](Store::rollups) still includes
    /// them. Calling it again, after a crash or without new messages, counts nothing twice.
    ///
    /// # Errors
    /// [`Conflict`](ErrorKind::Conflict) if other writers rewrote the day's rollups repeatedly in
    /// the meantime; any error of writing records.
    pub fn roll_up(&self, day: Day) -> Result<u64> {
        let mut tries = 1;
        loop {
            let (through_seq, rollups) = self.rolled(day, HASHES_MAX)?;
            match write(self, rollups) {
                Err(e) if e.kind() == ErrorKind::Conflict && tries < TRIES_MAX => tries += 1,
                Err(e) => return Err(e),
                Ok(()) => break self.sync().map(|()| through_seq),
            }
        }
    }

    /// The sequence number up to which the log was read, and the rollups to write so that all of a
    /// day's messages are counted, each with at most `hashes_max` hashes.
    fn rolled(&self, day: Day, hashes_max: usize) -> Result<(u64, Vec<Rollup>)> {
        let begin = |found: &Found, ()| Roll::new(&found.rollups, hashes_max);
        let (found, roll) = sum_day(self, day, |_| (), begin)?;
        Ok((found.last_seq, roll.rollups(day, found.last_seq)))
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

pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<Ack> {
    let rollup = record_in::<Box<Rollup>>(redacted.record())?;
    if rollup.message_hashes.is_empty() {
        return put_unnamed(txn, redacted, rollup);
    }
    // The part that this rollup replaces, and the number of the next new part.
    let (mut place, mut next) = (None, 0);
    while let Some((loc, known)) = part(txn, rollup, next)? {
        next += 1;
        let shared = known.message_hashes.shared(&rollup.message_hashes);
        let (ours, theirs) = (known.message_hashes.len(), rollup.message_hashes.len());
        if ours == 0 || shared == 0 {
            continue;
        }
        let is_same = (ours, theirs) == (shared, shared);
        let is_later = is_same && known.part == rollup.part && reaches_farther(rollup, &known);
        if shared == theirs && !is_later {
            let differs = is_same && known.part == rollup.part && known != **rollup;
            if differs {
                return Err(reaches_no_farther(rollup, &known));
            }
            // The existing part already counts everything that this rollup counts.
            let seq = txn.read(KIND, loc)?.seq.unwrap_or(0);
            return unchanged(txn, loc, seq);
        }
        if shared < ours || place.is_some() {
            return Err(conflict(format!(
                "{shared} of the messages that this rollup counts are counted by another rollup of the group already, and others are not: neither can take the other's place"
            )));
        }
        place = Some(known.part);
    }
    redacted.assign(|rollup: &mut Box<Rollup>| rollup.part = place.unwrap_or(next));
    txn.push(redacted, None).map(Ack::added)
}

/// Adds a rollup that lists no messages. It replaces an existing one that lists none if its
/// `through_seq` is greater.
fn put_unnamed(txn: &mut Txn<'_>, redacted: &Redacted, rollup: &Rollup) -> Result<Ack> {
    if let Some((loc, known)) = part(txn, rollup, rollup.part)? {
        if known == *rollup {
            let seq = txn.read(KIND, loc)?.seq.unwrap_or(0);
            return unchanged(txn, loc, seq);
        }
        if !known.message_hashes.is_empty() {
            let message = "the log has a rollup of this group that names the messages that it counts: give message_hashes";
            return Err(conflict(message));
        }
        if !reaches_farther(rollup, &known) {
            return Err(reaches_no_farther(rollup, &known));
        }
    }
    txn.push(redacted, None).map(Ack::added)
}

fn reaches_farther(rollup: &Rollup, known: &Rollup) -> bool {
    rollup.through_seq > known.through_seq
}

fn reaches_no_farther(rollup: &Rollup, known: &Rollup) -> Error {
    conflict(format!(
        "the log has a rollup of this group through seq {}, and this one is through seq {}: sum the day up anew",
        known.through_seq, rollup.through_seq
    ))
}

/// One part of the rollup of a group and day, and its location.
fn part(txn: &Txn<'_>, of: &Rollup, part: u64) -> Result<Option<(Loc, Rollup)>> {
    let key = [&*of.day.to_string(), &*of.key_of_part(part)];
    let Some((_, row)) = txn.find(KIND, key) else {
        return Ok(None);
    };
    let known: Box<Rollup> = record_of(txn.read(KIND, row.asserted)?)?;
    if (known.day, known.group(), known.part) != (of.day, of.group(), part) {
        return Err(collision());
    }
    Ok(Some((row.asserted, *known)))
}

/// The days in the query's range that have a message or a rollup.
fn days(view: &Snapshot<'_>, query: &RollupQuery) -> Vec<Day> {
    let start = |day: Day| day.bounds_ms().0;
    let until = query.until.map_or(i64::MAX, start);
    let mut days = BTreeSet::new();
    for kind in [Kind::Messages, KIND] {
        let mut from = query.since.map_or(0, start);
        while let Some(row) = walk(view, kind, (from, until)).next()
            // Only a forged line has an invalid time. Such times sort after all others.
            && let Some(day) = view.table(kind).row(row).and_then(|row| Day::of(row.at).ok())
        {
            days.insert(day);
            from = day.bounds_ms().1;
        }
    }
    days.into_iter().collect()
}

/// All days that have a message or a rollup, in order.
pub(crate) fn all_days(view: &Snapshot<'_>) -> Vec<Day> {
    days(view, &RollupQuery::default())
}

/// The rows of a kind with times in the range `from..until`.
fn walk<'v>(view: &'v Snapshot<'_>, kind: Kind, (from, until): (i64, i64)) -> Walk<'v> {
    let (from, until) = (Position::before(from), Position::before(until));
    view.table(kind).walk(Select::All, from, until)
}

/// The current rollups of a day, ordered by group.
fn standing_rollups(view: &Snapshot<'_>, day: Day) -> Result<Vec<Rollup>> {
    let mut rollups = Vec::new();
    for row in walk(view, KIND, day.bounds_ms()) {
        if let Some(decoded) = standing(view, KIND, row)? {
            rollups.push(*record_of::<Box<Rollup>>(decoded)?);
        }
    }
    // Skip rollups of other days whose lines were given a time of this day by hand.
    rollups.retain(|rollup| rollup.day == day);
    rollups.sort_by_cached_key(|rollup| (rollup.group(), rollup.part));
    Ok(rollups)
}

/// The totals of a day, with the number of conversations in each group.
struct Sum {
    day: DaySum,
    conversations: HashMap<Group, Conversations>,
}

impl Adds for Sum {
    fn add(&mut self, message: Message) {
        let is_counted = self.day.count(&message);
        let known = self.conversations.entry(message.group).or_default();
        known.add(message.conversation, is_counted);
    }
}

impl Sum {
    fn new(found: &Found, (): ()) -> Sum {
        let mut conversations: HashMap<Group, Conversations> = HashMap::new();
        for parts in found
            .rollups
            .chunk_by(|one, next| one.group() == next.group())
        {
            let hashes = parts
                .iter()
                .flat_map(|part| part.conversation_hashes.iter());
            let rolled = IdHashes::of(hashes.collect());
            let unnamed = parts.iter().filter(|part| part.message_hashes.is_empty());
            let unnamed = unnamed.map(|part| part.conversations);
            let known = Conversations::new(rolled, unnamed.fold(0, u64::saturating_add));
            conversations.insert(parts[0].group(), known);
        }
        Sum {
            day: DaySum::new(&found.rollups),
            conversations,
        }
    }

    fn rollups(self, day: Day, last_seq: u64) -> Vec<Rollup> {
        let active_conversations = self.day.active_conversations();
        let rollup = |(group, part): (Group, Part)| {
            let known = self.conversations.get(&group);
            // A rollup from another log may have a greater sequence number than this log.
            let through_seq = part.through_seq.max(last_seq);
            Rollup {
                conversations: known.map_or(0, |known| known.count),
                active_conversations,
                ..Rollup::of(day, group, through_seq, part.tally)
            }
        };
        self.day.into_parts().map(rollup).collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::record::{Client, Conversation, ConversationMessage, Role, Timestamp};

    /// A group whose hashes exceed the limit of one line is rolled up in several parts.
    #[test]
    fn full_rollups_are_followed_by_others() {
        const DAY_1: i64 = 1_766_793_600_000;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let day = Day::of(DAY_1).unwrap();
        let talk = Conversation::new(Uuid::from_u128(1), Client::Api);
        store.record(talk.clone()).unwrap();
        let (mut parts, mut said) = (Vec::new(), 0);
        for more in [1, 30, 0, 3, 50] {
            for _ in 0..more {
                said += 1;
                let message = ConversationMessage {
                    id: Uuid::from_u128(1_000 + u128::from(said)),
                    timestamp: Timestamp::from_ms(DAY_1).unwrap(),
                    tokens_out: Some(1),
                    ..ConversationMessage::new(talk.id, Role::Assistant, "hello")
                };
                store.record(message).unwrap();
            }
            let (_, rollups) = store.rolled(day, 10).unwrap();
            write(&store, rollups).unwrap();
            let found = store.rollups(&RollupQuery::default()).unwrap();
            let [one] = &found[..] else {
                panic!("{found:?}")
            };
            let counts = (one.messages, one.tokens_out, one.conversations);
            assert_eq!(counts, (said, said, 1));
            let standing = store
                .inner()
                .with_snapshot(|view| standing_rollups(view, day));
            parts.push(standing.unwrap().len());
        }
        // Nine messages, and the conversation of each.
        assert_eq!(parts, [1, 4, 4, 4, 10]);
    }
}
