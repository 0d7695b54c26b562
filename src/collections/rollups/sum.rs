//! The totals of a day, from its rollups and the messages recorded since.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{KIND, TRIES_MAX, standing_rollups};
use crate::collections::seqs::each_row;
use crate::collections::{conflict, with_seqs};
use crate::error::Result;
use crate::index::{Position, Select};
use crate::prices::{ARE_KNOWN, Prices, Tokens};
use crate::record::{
    Computed, ConversationMessage, Counted, Day, Group, IdHashes, Kind, MessageSums, Role, Rollup,
    Tally, id_hash,
};
use crate::store::{Inner, Reads, Snapshot, Store};

/// The rollups of a day in the log.
pub(crate) struct Found {
    pub rollups: Vec<Rollup>,
    /// The greatest sequence number of the log.
    pub last_seq: u64,
}

/// The sequence numbers of the messages of a day up to this one, in ascending order.
fn messages(inner: &Inner, day: Day, last_seq: u64) -> Result<Vec<u64>> {
    let (start, end) = day.bounds_ms();
    let places = (Position::before(start), Position::before(end));
    let mut seqs = Vec::new();
    each_row(
        inner,
        Kind::Messages,
        Select::All,
        places,
        false,
        |view, row| {
            let seq = view.table(Kind::Messages).row(row).map(|row| row.seq);
            seqs.extend(seq.filter(|seq| *seq <= last_seq));
            Ok(ControlFlow::Continue(()))
        },
    )?;
    seqs.sort_unstable();
    Ok(seqs)
}

/// The sequence numbers of the messages of a day after this one, in ascending order, and the
/// greatest of the log.
pub(crate) fn messages_of_day_after(inner: &Inner, day: Day, seq: u64) -> Result<(Vec<u64>, u64)> {
    let last_seq = inner.with_snapshot(|view| Ok(view.last_seq()))?;
    let mut seqs = messages(inner, day, last_seq)?;
    seqs.drain(..seqs.partition_point(|known| *known <= seq));
    Ok((seqs, last_seq))
}

/// Calls `take` with the messages of a day that are in the log.
pub(crate) fn messages_of_day(inner: &Inner, day: Day, take: impl FnMut(Message)) -> Result<()> {
    let last_seq = inner.with_snapshot(|view| Ok(view.last_seq()))?;
    read(inner, &messages(inner, day, last_seq)?, take)
}

/// An accumulator for the messages of a day.
pub(crate) trait Adds {
    /// Adds a message. Messages come in the order of their sequence numbers.
    fn add(&mut self, message: Message);
}

/// Reads a day: `begin` makes an accumulator from the rollups and from what `see` saw in the same
/// snapshot, and then the day's messages are added to it.
pub(crate) fn sum_day<T: Adds, S>(
    store: &Store,
    day: Day,
    see: impl Fn(&Snapshot<'_>) -> S,
    begin: impl Fn(&Found, S) -> T,
) -> Result<(Found, T)> {
    let inner = store.inner();
    for _ in 0..TRIES_MAX {
        let (found, seen) = inner.with_snapshot(|view| {
            let found = Found {
                rollups: standing_rollups(view, day)?,
                last_seq: view.last_seq(),
            };
            Ok((found, see(view)))
        })?;
        let messages = messages(inner, day, found.last_seq)?;
        let mut sum = begin(&found, seen);
        read(inner, &messages, |message| sum.add(message))?;
        if inner.with_snapshot(|view| standing_rollups(view, day))? == found.rollups {
            return Ok((found, sum));
        }
    }
    let message = "the day's rollups were written again and again while its messages were read: try it again later";
    Err(conflict(message).with_key(format!("{KIND} {day}")))
}

/// A message to be counted.
pub(crate) struct Message {
    pub seq: u64,
    /// The message's own time, in epoch milliseconds.
    pub at: i64,
    pub id: Uuid,
    pub conversation: Uuid,
    pub group: Group,
    pub branch: Option<String>,
    /// The message that represents the response.
    pub response: Uuid,
    /// The tool that an answer calls.
    pub tool: Option<String>,
    pub counted: Counted,
}

/// Calls `take` with the messages that have these sequence numbers. Removed messages are left out.
pub(crate) fn read(inner: &Inner, seqs: &[u64], mut take: impl FnMut(Message)) -> Result<()> {
    let prices = inner.prices()?;
    with_seqs(
        inner,
        seqs,
        |place, mut message: Box<ConversationMessage>| {
            let (id, conversation) = (message.id, message.conversation_id);
            let branch = message.git_branch.take();
            let response = message.part_of.unwrap_or(id);
            let calls = message.role == Role::Assistant;
            let tool = message.tool_name.take().filter(|_| calls);
            let (group, counted) = priced(&prices, place.at, *message);
            take(Message {
                seq: place.seq,
                at: place.at,
                id,
                conversation,
                group,
                branch,
                response,
                tool,
                counted,
            });
            Ok(())
        },
    )
}

/// The group of a message and its data. `at`: its own time. If it records no cost, the cost is
/// computed.
pub(crate) fn priced(prices: &Prices, at: i64, message: ConversationMessage) -> (Group, Counted) {
    let (group, mut counted) = Counted::of(message);
    if ARE_KNOWN && counted.wants_cost() {
        let model = group[0].as_deref();
        let is_call = model.is_some() || counted.is_of_answer();
        let cost = model.and_then(|model| prices.nano_usd(model, at, &tokens_of(&counted)));
        counted.computed = computed(cost, u64::from(is_call));
    }
    (group, counted)
}

fn tokens_of(call: &Counted) -> Tokens {
    Tokens {
        input: call.tokens_in,
        cache_write: call.tokens_cache_write,
        cache_write_1h: call.tokens_cache_write_1h,
        cache_read: call.tokens_cache_read,
        output: call.tokens_out,
        reasoning: call.tokens_reasoning,
        prompt: call.tokens_in,
    }
}

/// A cost computed for this number of messages, or that they have no price.
fn computed(nano_usd: Option<u64>, messages: u64) -> Computed {
    let (count, unpriced) = if nano_usd.is_some() {
        (messages, 0)
    } else {
        (0, messages)
    };
    Computed {
        nano_usd: nano_usd.unwrap_or(0),
        count,
        unpriced,
    }
}

/// The totals of a day's rollups and messages. Messages are added in the order of their sequence
/// numbers, because floating-point sums depend on the order.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DaySum {
    #[serde(with = "pairs")]
    groups: BTreeMap<Group, Part>,
    /// The messages that the rollups count.
    #[serde(skip)]
    rolled: IdHashes,
    is_rolled: bool,
    /// Messages up to this sequence number are counted in `active_conversations` by a rollup that
    /// does not list its messages.
    active_through: u64,
    active: Conversations,
}

/// The totals of a group's rollups and messages.
#[derive(Debug, Default, Serialize, Deserialize)]
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
        let unnamed = farthest.map_or(0, |rollup| rollup.active_conversations);
        DaySum {
            groups,
            rolled: all(|rollup| &rollup.message_hashes),
            is_rolled: !rollups.is_empty(),
            active_through: farthest.map_or(0, |rollup| rollup.through_seq),
            active: Conversations::new(all(|rollup| &rollup.conversation_hashes), unnamed),
        }
    }

    /// Computes the cost of messages that only rollups count, where none of a group reports one.
    /// The lengths of their prompts are not known, so they have the prices of short ones.
    pub(crate) fn price_rolled(&mut self, prices: &Prices, day: Day) {
        for (group, Part { tally, .. }) in &mut self.groups {
            let tokens = |sums: &MessageSums| Tokens {
                input: sums.tokens_in,
                cache_write: sums.tokens_cache_write,
                cache_write_1h: sums.tokens_cache_write_1h,
                cache_read: sums.tokens_cache_read,
                output: sums.tokens_out,
                reasoning: sums.tokens_reasoning,
                prompt: 0,
            };
            let price = |sums: &MessageSums, messages: u64| {
                let wants = sums.cost_count == 0 && (sums.tokens_in > 0 || sums.tokens_out > 0);
                let model = group[0].as_deref().filter(|_| ARE_KNOWN && wants);
                model.map_or_else(Computed::default, |model| {
                    let cost = prices.nano_usd(model, day.bounds_ms().0, &tokens(sums));
                    computed(cost, messages)
                })
            };
            tally.computed = price(&tally.all, tally.requests);
            tally.computed_of_others = price(&tally.others, 0);
        }
    }

    /// Adds a message. Returns whether it was counted, that is, no rollup counts it already.
    pub(crate) fn count(&mut self, message: &Message) -> bool {
        let is_active = message.seq > self.active_through;
        self.active.add(message.conversation, is_active);
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

    /// Frees what only adding messages takes: the hashes of the messages that the rollups count, and
    /// the ids of conversations, of which hashes are kept. If there are rollups, no message may be
    /// added after this.
    pub(crate) fn shrink(&mut self) {
        self.rolled = IdHashes::default();
        if !self.active.present.is_empty() {
            self.active.rolled = IdHashes::of(self.conversations().into_iter().collect());
            self.active.present = HashSet::new();
        }
    }

    /// The totals of each group, in order.
    pub(crate) fn tallies(&self) -> impl Iterator<Item = (&Group, &Tally)> {
        self.groups.iter().map(|(group, part)| (group, &part.tally))
    }

    /// Number of conversations with a message on this day, including those whose messages were all
    /// removed.
    pub(crate) fn active_conversations(&self) -> u64 {
        self.active.count
    }

    /// The hashes of their ids, as far as they are known.
    pub(crate) fn conversations(&self) -> HashSet<u64> {
        let present = self.active.present.iter().map(|id| id_hash(*id));
        present.chain(self.active.rolled.iter()).collect()
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = (Group, Part)> {
        self.groups.into_iter()
    }
}

/// The conversations of a day or of a group.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Conversations {
    /// Those with a message in the log.
    #[serde(skip)]
    present: HashSet<Uuid>,
    /// Those with a message that a rollup counts, or that was added before
    /// [`shrink`](DaySum::shrink).
    rolled: IdHashes,
    pub count: u64,
}

impl Conversations {
    /// Those that rollups count: some by their ids, and the number of others.
    pub(super) fn new(rolled: IdHashes, unnamed: u64) -> Conversations {
        Conversations {
            present: HashSet::new(),
            count: unnamed.saturating_add(rolled.len() as u64),
            rolled,
        }
    }

    /// Adds the conversation of a message. `is_counted`: no rollup counts the message.
    pub(super) fn add(&mut self, id: Uuid, is_counted: bool) {
        if self.present.insert(id) && is_counted && !has(&self.rolled, id) {
            self.count = self.count.saturating_add(1);
        }
    }
}

/// Whether an id is in a set. The set is usually empty.
fn has(set: &IdHashes, id: Uuid) -> bool {
    !set.is_empty() && set.contains(id)
}

/// A map in JSON as an array of pairs, since its keys are not strings.
pub(crate) mod pairs {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(crate) fn deserialize<'de, K, V, D>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
    where
        K: Deserialize<'de> + Ord,
        V: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let pairs = Vec::<(K, V)>::deserialize(deserializer)?;
        Ok(pairs.into_iter().collect())
    }
}
