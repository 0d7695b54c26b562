//! The sums of a day, of what stands in rollups and of the messages since.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::{KIND, TRIES_MAX, standing_rollups, walk};
use crate::collections::page::ROWS_AT_A_TIME;
use crate::collections::standing_as;
use crate::error::{Error, ErrorKind, Result};
use crate::index::RowId;
use crate::record::{ConversationMessage, Counted, Day, Group, Kind, Rollup, Tally};
use crate::store::{Reads, Store, View};

/// What the log has of a day.
pub(crate) struct Found {
    pub rollups: Vec<Rollup>,
    /// The sequence numbers of its messages, in order.
    messages: Vec<u64>,
    /// The greatest of the log.
    pub last_seq: u64,
}

impl Found {
    fn of(view: &View<'_>, day: Day) -> Result<Found> {
        let table = view.table(Kind::Messages);
        let rows = walk(view, Kind::Messages, day.bounds_ms());
        let mut messages: Vec<u64> = rows
            .filter_map(|row| table.row(row).map(|row| row.seq))
            .collect();
        messages.sort_unstable();
        Ok(Found {
            rollups: standing_rollups(view, day)?,
            messages,
            last_seq: view.last_seq(),
        })
    }
}

/// What adds up the messages of a day.
pub(crate) trait Adds {
    /// Takes in a message; they come in the order of their sequence numbers.
    fn add(&mut self, message: Message);
}

/// Reads a day, and has `begin` begin a sum with what its rollups say, which takes its messages.
/// `seen` is told in the same moment what else is to be known of the log.
pub(crate) fn sum_day<T: Adds, S>(
    store: &Store,
    day: Day,
    begin: impl Fn(&Found) -> T,
    seen: impl Fn(&View<'_>) -> S,
) -> Result<(Found, T, S)> {
    let inner = store.inner();
    for _ in 0..TRIES_MAX {
        let (found, seen) = inner.ask(|view| Ok((Found::of(view, day)?, seen(view))))?;
        let mut sum = begin(&found);
        for seqs in found.messages.chunks(ROWS_AT_A_TIME) {
            for message in inner.ask(|view| read(view, seqs))? {
                sum.add(message);
            }
        }
        if inner.ask(|view| standing_rollups(view, day))? == found.rollups {
            return Ok((found, sum, seen));
        }
    }
    let message = "the day's rollups were written again and again while its messages were read: try it again later";
    Err(Error::new(ErrorKind::Conflict, message).with_key(format!("{KIND} {day}")))
}

/// A message to be counted.
pub(crate) struct Message {
    pub seq: u64,
    /// Its own time, epoch milliseconds.
    pub at: i64,
    pub conversation: Uuid,
    pub group: Group,
    pub counted: Counted,
}

/// What is to be counted of the messages with these sequence numbers, but for those that are gone.
pub(crate) fn read(view: &View<'_>, seqs: &[u64]) -> Result<Vec<Message>> {
    let found = with_seqs(view, seqs)?.into_iter();
    let messages = found.map(|(seq, at, message)| {
        let conversation = message.conversation_id;
        let (group, counted) = Counted::of(*message);
        Message {
            seq,
            at,
            conversation,
            group,
            counted,
        }
    });
    Ok(messages.collect())
}

/// The messages with these sequence numbers, but for those that are gone; each with its number and
/// its time.
pub(crate) fn with_seqs(
    view: &View<'_>,
    seqs: &[u64],
) -> Result<Vec<(u64, i64, Box<ConversationMessage>)>> {
    let table = view.table(Kind::Messages);
    let row = |seq: &u64| {
        let id = table.row_from_seq(*seq);
        let row = table.row(id).filter(|row| row.seq == *seq)?;
        Some((id, *seq, row.at))
    };
    let rows: Vec<(RowId, u64, i64)> = seqs.iter().filter_map(row).collect();
    let mut messages = Vec::with_capacity(rows.len());
    for (id, seq, at) in view.reading(Kind::Messages, &rows, |(id, ..)| id) {
        if let Some(message) = standing_as(view, id)? {
            messages.push((seq, at, message));
        }
    }
    Ok(messages)
}

/// What a day's rollups and messages add up to, the messages in the order of their sequence
/// numbers: sums of fractions depend on it.
#[derive(Debug)]
pub(crate) struct DaySum {
    groups: BTreeMap<Group, Part>,
    /// The number up to which messages are counted in `active_conversations`, and those that are.
    active_through: u64,
    active_conversations: u64,
    conversations: HashSet<Uuid>,
}

/// What a group's rollup and messages add up to.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The number up to which messages are counted in the rollup.
    pub through_seq: u64,
    pub tally: Tally,
}

impl DaySum {
    pub(crate) fn new(rollups: &[Rollup]) -> DaySum {
        let farthest = rollups.iter().max_by_key(|rollup| rollup.through_seq);
        let groups = rollups.iter().map(|rollup| {
            let part = Part {
                through_seq: rollup.through_seq,
                tally: rollup.tally(),
            };
            (rollup.group(), part)
        });
        DaySum {
            groups: groups.collect(),
            active_through: farthest.map_or(0, |rollup| rollup.through_seq),
            active_conversations: farthest.map_or(0, |rollup| rollup.active_conversations),
            conversations: HashSet::new(),
        }
    }

    /// Takes in a message; whether its group's rollup does not count it already.
    pub(crate) fn count(&mut self, message: &Message) -> bool {
        let is_new = self.conversations.insert(message.conversation);
        if is_new && message.seq > self.active_through {
            self.active_conversations = self.active_conversations.saturating_add(1);
        }
        if !self.groups.contains_key(&message.group) {
            self.groups.insert(message.group.clone(), Part::default());
        }
        let part = self.groups.get_mut(&message.group);
        let Some(part) = part.filter(|part| message.seq > part.through_seq) else {
            return false;
        };
        part.tally.count(&message.counted);
        true
    }

    /// What each group adds up to, in order.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = (&Group, &Tally)> {
        self.groups.iter().map(|(group, part)| (group, &part.tally))
    }

    /// How many conversations have a message of the day, those included of which none is left.
    pub(crate) fn active_conversations(&self) -> u64 {
        self.active_conversations
    }

    /// Those of which a message is left.
    pub(crate) fn conversations(&self) -> &HashSet<Uuid> {
        &self.conversations
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = (Group, Part)> {
        self.groups.into_iter()
    }
}
