//! Selects expired entities. Related records expire together, when the last of them is old enough.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::cutoffs::Cutoffs;
use super::order::has_older_elsewhere;
use crate::collections::{ended_in_error, event, events_under, latest_event};
use crate::error::Result;
use crate::index::{KeyHash, Position, Select, Sums};
use crate::line::{Line, Op, Value, classify};
use crate::record::{Day, Kind, Record, event_type};
use crate::segment::SegmentName;
use crate::store::{Anchor, Candidate, Dependents, Reads, Snapshot};

/// Classifies the lines of segments, those of conversations before those of messages.
#[derive(Debug, Default)]
pub(super) struct Due {
    cutoffs: Cutoffs,
    /// Checked conversations, with the number of messages of expired ones.
    conversations: HashMap<KeyHash, Option<u64>>,
    /// The first thought of a task, by its hash, to keep.
    chains: HashMap<u32, u64>,
    /// The root of each event's tree.
    roots: HashMap<i64, i64>,
    /// The latest day of each tree.
    trees: HashMap<i64, Day>,
    /// The roots of the trees to keep at any age.
    current: Option<HashSet<i64>>,
    with: Dependents,
    /// Where lines wait until older lines of the same records are removed; `None` if nothing is
    /// removed.
    deferred: Option<BTreeSet<(Day, Kind)>>,
    /// The start of a chain could not be removed, so nothing after it can.
    keeps_thoughts: bool,
}

impl Due {
    /// For a removal, or for a dry run.
    pub(super) fn new(cutoffs: Cutoffs, dry_run: bool) -> Due {
        Due {
            cutoffs,
            deferred: (!dry_run).then(BTreeSet::new),
            ..Due::default()
        }
    }

    /// The entities of the lines that were selected since the last call.
    pub(super) fn with(&mut self) -> Dependents {
        std::mem::take(&mut self.with)
    }

    /// Keeps a segment, overriding its selection.
    pub(super) fn left_out(&mut self, name: SegmentName) {
        self.keeps_thoughts |= name.kind == Kind::ThoughtRecords;
    }

    /// Where lines were kept that can be removed once the lines selected so far are removed.
    pub(super) fn take_deferred(&mut self) -> Vec<(Day, Kind)> {
        let deferred = self.deferred.as_mut().map(std::mem::take);
        deferred.into_iter().flatten().collect()
    }

    /// Whether a line of a segment is kept.
    pub(super) fn stays(
        &mut self,
        view: &Snapshot<'_>,
        name: SegmentName,
        line: &Candidate<'_>,
    ) -> Result<bool> {
        let SegmentName { day, kind, .. } = name;
        let (Some(entry), Some(cutoff)) = (&line.entry, self.cutoffs.last(kind)) else {
            return Ok(true);
        };
        if day >= cutoff {
            return Ok(true);
        }
        let row = view.table(kind).find(entry.key);
        let newest = row.and_then(|row| newest(view, kind, row)).unwrap_or(day);
        let is_due = match kind {
            Kind::Conversations => self.is_over(view, entry.key),
            Kind::Messages => match entry.sums.as_deref() {
                Some(Sums::Message(message)) => self.is_over(view, message.conversation),
                _ => false,
            },
            Kind::Events => {
                let parent = match classify(kind, line.bytes) {
                    Line::Good(envelope) => envelope.lookups[0].as_ref().and_then(Value::integer),
                    _ => event(view, entry.number)?.and_then(|event| event.parent_id),
                };
                let root = self.root(view, entry.number, parent)?;
                self.latest_in_tree(view, root, day)? < cutoff && !self.is_current(view, root)?
            }
            Kind::Inbox => {
                let row = row.and_then(|row| view.table(kind).row(row));
                let is_open = row.is_some_and(|row| ![Op::Done, Op::Failed].contains(&row.state));
                !is_open && newest < cutoff
            }
            Kind::ThoughtRecords if self.keeps_thoughts => false,
            Kind::ThoughtRecords => {
                let is_due = entry.seq < self.first_left(view, entry.lookups[0], cutoff);
                if is_due {
                    self.anchor(line);
                }
                is_due
            }
            _ => newest < cutoff,
        };
        if is_due
            && let Some(deferred) = &mut self.deferred
            && has_older_elsewhere(view, kind, entry, &[name])
        {
            deferred.insert((day, kind));
            return Ok(true);
        }
        Ok(!is_due)
    }

    /// Whether a conversation and its messages have expired.
    fn is_over(&mut self, view: &Snapshot<'_>, key: KeyHash) -> bool {
        let sums = view.index().conversation_totals().get(key);
        let count = sums.map_or(0, |sums| sums.message_count);
        let cutoffs = self.cutoffs;
        let is_over = || is_conversation_over(cutoffs, view, key).then_some(count);
        let over = *self.conversations.entry(key).or_insert_with(is_over);
        if let Some(count) = over
            && self.with.ended.last() != Some(&(key, count))
            && !self.with.ended.contains(&(key, count))
        {
            self.with.ended.push((key, count));
        }
        over.is_some()
    }

    /// The root of the tree that an event is in.
    fn root(&mut self, view: &Snapshot<'_>, id: i64, parent: Option<i64>) -> Result<i64> {
        let mut path = vec![id];
        let mut next = parent;
        let root = loop {
            let Some(parent) = next.filter(|parent| !path.contains(parent)) else {
                break path[path.len() - 1];
            };
            if let Some(root) = self.roots.get(&parent) {
                break *root;
            }
            match event(view, parent)? {
                Some(event) => {
                    path.push(parent);
                    next = event.parent_id;
                }
                // It was removed: the events below it have no other root.
                None => break path[path.len() - 1],
            }
        };
        self.roots.extend(path.into_iter().map(|id| (id, root)));
        Ok(root)
    }

    /// Whether a tree determines the good revision, or the worker count of the current supervisor.
    fn is_current(&mut self, view: &Snapshot<'_>, root: i64) -> Result<bool> {
        if let Some(roots) = &self.current {
            return Ok(roots.contains(&root));
        }
        let mut roots = HashSet::new();
        for of_type in [event_type::REVISION_PROMOTED, event_type::WORKER_SPAWNED] {
            if let Some(latest) = latest_event(view, of_type)? {
                roots.insert(self.root(view, latest.id, latest.parent_id)?);
            }
        }
        Ok(self.current.insert(roots).contains(&root))
    }

    /// The latest day of any event of a tree.
    fn latest_in_tree(&mut self, view: &Snapshot<'_>, root: i64, day: Day) -> Result<Day> {
        const KIND: Kind = Kind::Events;
        if let Some(latest) = self.trees.get(&root) {
            return Ok(*latest);
        }
        let mut latest = day;
        let (mut ids, mut known) = (vec![root], HashSet::from([root]));
        while let Some(id) = ids.pop() {
            let row = view.find(KIND, [itoa::Buffer::new().format(id), ""]);
            let newest = row.and_then(|(row, _)| newest(view, KIND, row));
            latest = latest.max(newest.unwrap_or(day));
            let under = events_under(view, id)?.into_iter().map(|event| event.id);
            ids.extend(under.filter(|id| known.insert(*id)));
        }
        self.trees.insert(root, latest);
        Ok(latest)
    }

    /// The sequence number of a task's first thought to keep.
    fn first_left(&mut self, view: &Snapshot<'_>, task: u32, cutoff: Day) -> u64 {
        const KIND: Kind = Kind::ThoughtRecords;
        *self.chains.entry(task).or_insert_with(|| {
            let table = view.table(KIND);
            let select = Select::Lookup(0, task);
            let mut rows = table.walk(select, Position::FIRST, Position::END);
            let first = rows.find(|row| newest(view, KIND, *row).is_none_or(|day| day >= cutoff));
            let first = first.and_then(|row| table.row(row));
            first.map_or(u64::MAX, |row| row.seq)
        })
    }

    /// Records a removed thought as the end of the removed part of its chain.
    fn anchor(&mut self, line: &Candidate<'_>) {
        let Some(entry) = &line.entry else { return };
        let decoded = crate::line::decode(Kind::ThoughtRecords, line.bytes);
        let Ok(Record::Thought(thought)) = decoded.map(|decoded| decoded.record) else {
            return;
        };
        let anchors = &mut self.with.anchors;
        anchors.retain(|known| known.task_id != thought.task_id);
        anchors.push(Anchor {
            task_id: thought.task_id,
            hash: thought.hash,
            seq: entry.seq,
        });
    }
}

fn is_conversation_over(cutoffs: Cutoffs, view: &Snapshot<'_>, key: KeyHash) -> bool {
    const KIND: Kind = Kind::Conversations;
    let row = view.table(KIND).find(key);
    let said = row.and_then(|row| newest(view, KIND, row));
    let sums = view.index().conversation_totals().get(key);
    let heard = sums.and_then(|sums| Day::of(sums.latest).ok());
    let Some(newest) = said.max(heard) else {
        return false;
    };
    let cutoff = match row.filter(|_| said.is_some()) {
        Some(row) => cutoffs.of_conversation(ended_in_error(view, row)),
        // Its own lines were removed before its messages.
        None => cutoffs.of_rest(),
    };
    cutoff.is_some_and(|cutoff| newest < cutoff)
}

/// The latest day of a line of a row.
fn newest(view: &Snapshot<'_>, kind: Kind, row: crate::index::RowId) -> Option<Day> {
    let lines = view.table(kind).lines(row);
    lines.map(|line| view.day(line)).max()
}
