//! The totals of a day, from its rollups and the messages recorded since.

use std::collections::{BTreeMap, HashSet};

use uuid::Uuid;

use super::{KIND, TRIES_MAX, standing_rollups};
use crate::collections::page::PartEnd;
use crate::collections::with_seqs;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Position, Select};
use crate::record::{
    ConversationMessage, Counted, Day, Group, IdHashes, Kind, Rollup, Tally, id_hash,
};
use crate::store::{Inner, Reads, Snapshot, Store};

/// The rollups and messages of a day in the log.
pub(crate) struct Found {
    pub rollups: Vec<Rollup>,
    /// The sequence numbers of its messages, in ascending order.
    messages: Vec<u64>,
    /// The greatest sequence number of the log.
    pub last_seq: u64,
}

impl Found {
    /// Everything but the messages.
    fn begin(view: &Snapshot<'_>, day: Day) -> Result<Found> {
        Ok(Found {
            rollups: standing_rollups(view, day)?,
            messages: Vec::new(),
            last_seq: view.last_seq(),
        })
    }

    /// Lists the messages of the day up to `last_seq`.
    fn list_messages(&mut self, inner: &Inner, day: Day) -> Result<()> {
        let (start, end) = day.bounds_ms();
        let (mut from, until) = (Some(Position::before(start)), Position::before(end));
        while let Some(start) = from {
            let (seqs, next) = inner.with_snapshot(|view| {
                let table = view.table(Kind::Messages);
                let (mut seqs, mut end) = (Vec::new(), PartEnd::new());
                for row in table.walk(Select::All, start, until) {
                    let Some(row) = table.row(row) else { continue };
                    seqs.push(row.seq);
                    if end.has_come(false) {
                        return Ok((seqs, Some(Position::after(row.at, row.seq))));
                    }
                }
                Ok((seqs, None))
            })?;
            let known = seqs.into_iter().filter(|seq| *seq <= self.last_seq);
            self.messages.extend(known);
            from = next;
        }
        self.messages.sort_unstable();
        Ok(())
    }
}

/// An accumulator for the messages of a day.
pub(crate) trait Adds {
    /// Adds a message. Messages come in the order of their sequence numbers.
    fn add(&mut self, message: Message);
}

/// Reads a day: `begin` makes an accumulator from the rollups, and then the day's messages are
/// added to it. `seen` is called with the same snapshot as the rollups.
pub(crate) fn sum_day<T: Adds, S>(
    store: &Store,
    day: Day,
    begin: impl Fn(&Found) -> T,
    seen: impl Fn(&Snapshot<'_>) -> S,
) -> Result<(Found, T, S)> {
    let inner = store.inner();
    for _ in 0..TRIES_MAX {
        let (mut found, seen) =
            inner.with_snapshot(|view| Ok((Found::begin(view, day)?, seen(view))))?;
        found.list_messages(inner, day)?;
        let mut sum = begin(&found);
        read(inner, &found.messages, |message| sum.add(message))?;
        if inner.with_snapshot(|view| standing_rollups(view, day))? == found.rollups {
            return Ok((found, sum, seen));
        }
    }
    let message = "the day's rollups were written again and again while its messages were read: try it again later";
    Err(Error::new(ErrorKind::Conflict, message).with_key(format!("{KIND} {day}")))
}

/// A message to be counted.
pub(crate) struct Message {
    pub seq: u64,
    /// The message's own time, in epoch milliseconds.
    pub at: i64,
    pub id: Uuid,
    pub conversation: Uuid,
    pub group: Group,
    pub counted: Counted,
}

/// Calls `take` with the messages that have these sequence numbers. Removed messages are left out.
pub(crate) fn read(inner: &Inner, seqs: &[u64], mut take: impl FnMut(Message)) -> Result<()> {
    with_seqs(inner, seqs, |seq, at, message: Box<ConversationMessage>| {
        let (id, conversation) = (message.id, message.conversation_id);
        let (group, counted) = Counted::of(*message);
        take(Message {
            seq,
            at,
            id,
            conversation,
            group,
            counted,
        });
    })
}

/// The totals of a day's rollups and messages. Messages are added in the order of their sequence
/// numbers, because floating-point sums depend on the order.
#[derive(Debug)]
pub(crate) struct DaySum {
    groups: BTreeMap<Group, Part>,
    /// The messages that the rollups count.
    rolled: IdHashes,
    is_rolled: bool,
    /// Messages up to this sequence number are counted in `active_conversations` by a rollup that
    /// does not list its messages.
    active_through: u64,
    active_conversations: u64,
    /// Conversations with a message in the log.
    present: HashSet<Uuid>,
    /// Conversations with a message that a rollup counts.
    rolled_conversations: IdHashes,
}

/// The totals of a group's rollups and messages.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// The greatest `through_seq` of the rollups.
    pub through_seq: u64,
    /// Messages up to this sequence number are counted by a rollup that does not list its messages.
    counted_through: u64,
    pub tally: Tally,
}

impl DaySum {
    pub(crate) fn new(rollups: &[Rollup]) -> DaySum {
        let unnamed = || rollups.iter().filter(|one| one.message_hashes.is_empty());
        let farthest = unnamed().max_by_key(|rollup| rollup.through_seq);
        let mut groups: BTreeMap<Group, Part> = BTreeMap::new();
        for rollup in rollups {
            let part = groups.entry(rollup.group()).or_default();
            part.through_seq = part.through_seq.max(rollup.through_seq);
            part.tally.merge(&rollup.tally());
        }
        for rollup in unnamed() {
            let part = groups.entry(rollup.group()).or_default();
            part.counted_through = part.counted_through.max(rollup.through_seq);
        }
        let all = |of: fn(&Rollup) -> &IdHashes| {
            let hashes = rollups.iter().flat_map(|rollup| of(rollup).iter());
            IdHashes::of(hashes.collect())
        };
        let rolled_conversations = all(|rollup| &rollup.conversation_hashes);
        let unnamed = farthest.map_or(0, |rollup| rollup.active_conversations);
        DaySum {
            groups,
            rolled: all(|rollup| &rollup.message_hashes),
            is_rolled: !rollups.is_empty(),
            active_through: farthest.map_or(0, |rollup| rollup.through_seq),
            active_conversations: unnamed.saturating_add(rolled_conversations.len() as u64),
            present: HashSet::new(),
            rolled_conversations,
        }
    }

    /// Adds a message. Returns whether it was counted, that is, no rollup counts it already.
    pub(crate) fn count(&mut self, message: &Message) -> bool {
        let conversation = message.conversation;
        if self.present.insert(conversation)
            && message.seq > self.active_through
            && !has(&self.rolled_conversations, conversation)
        {
            self.active_conversations = self.active_conversations.saturating_add(1);
        }
        if !self.groups.contains_key(&message.group) {
            self.groups.insert(message.group.clone(), Part::default());
        }
        let part = self.groups.get_mut(&message.group);
        let Some(part) = part.filter(|part| message.seq > part.counted_through) else {
            return false;
        };
        if has(&self.rolled, message.id) {
            return false;
        }
        part.tally.count(&message.counted);
        true
    }

    /// Whether the day has rollups. They may count messages that are recorded later.
    pub(crate) fn is_rolled(&self) -> bool {
        self.is_rolled
    }

    /// Frees the hashes of the messages that the rollups count. If there are rollups, no message
    /// may be added after this.
    pub(crate) fn forget_rolled(&mut self) {
        self.rolled = IdHashes::default();
    }

    /// The totals of each group, in order.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = (&Group, &Tally)> {
        self.groups.iter().map(|(group, part)| (group, &part.tally))
    }

    /// Number of conversations with a message on this day, including those whose messages were all
    /// removed.
    pub(crate) fn active_conversations(&self) -> u64 {
        self.active_conversations
    }

    /// The hashes of their ids, as far as they are known.
    pub(crate) fn conversations(&self) -> HashSet<u64> {
        let present = self.present.iter().map(|id| id_hash(*id));
        present.chain(self.rolled_conversations.iter()).collect()
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = (Group, Part)> {
        self.groups.into_iter()
    }
}

/// Whether an id is in a set. The set is usually empty.
pub(super) fn has(set: &IdHashes, id: Uuid) -> bool {
    !set.is_empty() && set.contains(id)
}
