//! Builds the rollups to write before a day's messages are removed.

use std::collections::{BTreeMap, HashSet};

use super::sum::{Adds, DaySum, Message};
use crate::record::{Day, Group, IdHashes, Rollup, Tally, id_hash};

/// Collects a day's messages that no rollup counts yet, group by group. The content of a group's
/// last rollup is included, so that the new rollup replaces it, until it is full; then a new part
/// is begun.
pub(super) struct Roll {
    day: DaySum,
    /// The last rollup of each group.
    standing: BTreeMap<Group, Rollup>,
    hashes_max: usize,
    parts: BTreeMap<Group, Vec<Open>>,
}

/// A rollup under construction.
#[derive(Default)]
struct Open {
    part: u64,
    through_seq: u64,
    tally: Tally,
    messages: Vec<u64>,
    conversations: HashSet<u64>,
}

impl Open {
    /// The rollup that continues the last one of a group.
    fn after(last: &Rollup, hashes_max: usize) -> Open {
        let len = last.message_hashes.len() + last.conversation_hashes.len();
        // A rollup that lists no messages is kept as it is.
        if last.message_hashes.is_empty() || len >= hashes_max {
            return Open {
                part: last.part.saturating_add(1),
                ..Open::default()
            };
        }
        Open {
            part: last.part,
            through_seq: last.through_seq,
            tally: last.tally(),
            messages: last.message_hashes.iter().collect(),
            conversations: last.conversation_hashes.iter().collect(),
        }
    }

    fn add(&mut self, message: &Message) {
        self.tally.count(&message.counted);
        self.messages.push(id_hash(message.id));
        self.conversations.insert(id_hash(message.conversation));
    }
}

impl Adds for Roll {
    fn add(&mut self, message: Message) {
        if !self.day.count(&message) {
            return;
        }
        let Roll {
            standing,
            hashes_max,
            parts,
            ..
        } = self;
        let last = standing.get(&message.group);
        let open = || last.map_or_else(Open::default, |last| Open::after(last, *hashes_max));
        let parts = parts
            .entry(message.group.clone())
            .or_insert_with(|| vec![open()]);
        let last = parts.last().map_or(0, |open| open.part);
        let is_full = |open: &Open| open.messages.len() + open.conversations.len() >= *hashes_max;
        if parts.last().is_none_or(is_full) {
            parts.push(Open {
                part: last.saturating_add(1),
                ..Open::default()
            });
        }
        if let Some(open) = parts.last_mut() {
            open.add(&message);
        }
    }
}

impl Roll {
    pub(super) fn new(rollups: &[Rollup], hashes_max: usize) -> Roll {
        // The rollups are sorted by part, so the last part of each group is kept.
        let standing = rollups
            .iter()
            .map(|rollup| (rollup.group(), rollup.clone()));
        Roll {
            day: DaySum::new(rollups),
            standing: standing.collect(),
            hashes_max,
            parts: BTreeMap::new(),
        }
    }

    /// The rollups of groups that have messages which no rollup counts yet.
    pub(super) fn rollups(self, day: Day, last_seq: u64) -> Vec<Rollup> {
        let active_conversations = self.day.active_conversations();
        let rollup = |group: &Group, open: Open| Rollup {
            part: open.part,
            conversations: open.conversations.len() as u64,
            active_conversations,
            message_hashes: IdHashes::of(open.messages),
            conversation_hashes: IdHashes::of(open.conversations.into_iter().collect()),
            // A rollup from another log may have a greater sequence number than this log.
            ..Rollup::of(
                day,
                group.clone(),
                last_seq.max(open.through_seq),
                open.tally,
            )
        };
        let mut rollups = Vec::new();
        for (group, parts) in self.parts {
            rollups.extend(parts.into_iter().map(|open| rollup(&group, open)));
        }
        rollups
    }
}
