//! Finds the subscribed resources that new lines change.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde::Deserialize;
use uuid::Uuid;

use super::super::answer::Fault;
use super::super::uri::{Subject, Uri};
use crate::error::Result;
use crate::record::{Day, Kind};
use crate::store::{LogLine, PagedReader, Store};

/// Maximum number of uris of a connection or a stream.
pub(super) const URIS_MAX: usize = 256;
/// Maximum number of pages that are read before notifications are sent.
const PAGES_AT_ONCE: usize = 64;
/// Maximum number of parents of events in memory.
const PARENTS_MAX: usize = 1 << 16;

/// The subscriptions of a client: resources, each with a name that the client has for it.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted(pub(super) BTreeSet<(Subject, String)>);

impl Wanted {
    pub(super) fn add(&mut self, uri: &str) -> Result<(), Fault> {
        let wanted = (Uri::parse(uri)?.subject, uri.to_owned());
        if !self.0.contains(&wanted) && self.0.len() >= URIS_MAX {
            let message = format!(
                "the maximum of {URIS_MAX} subscriptions is reached: unsubscribe from some first"
            );
            return Err(Fault::invalid(message).with_uri(uri));
        }
        self.0.insert(wanted);
        Ok(())
    }

    pub(super) fn remove(&mut self, uri: &str) -> Result<(), Fault> {
        let wanted = (Uri::parse(uri)?.subject, uri.to_owned());
        self.0.remove(&wanted);
        Ok(())
    }
}

/// Finds the changes by new lines.
pub(super) struct Watcher {
    store: Store,
    lines: PagedReader,
    /// The changes since the last notification.
    pub(super) changed: BTreeSet<Subject>,
    /// The parents of events that were looked up.
    parents: HashMap<i64, Option<i64>>,
}

#[derive(Deserialize)]
struct OfConversation {
    id: Option<Uuid>,
    conversation_id: Option<Uuid>,
}

#[derive(Deserialize)]
struct OfEvent {
    id: i64,
    parent_id: Option<i64>,
}

#[derive(Deserialize)]
struct OfTask {
    task_id: String,
}

impl Watcher {
    /// Changes by lines after this one.
    pub(super) fn new(store: &Store, last_seq: u64) -> Watcher {
        Watcher {
            store: store.clone(),
            lines: store.lines_since(last_seq),
            changed: BTreeSet::new(),
            parents: HashMap::new(),
        }
    }

    /// Adds the wanted resources that changed; returns whether all changed.
    pub(super) fn look(&mut self, wanted: &Wanted) -> Result<bool> {
        let wanted: BTreeSet<&Subject> = wanted.0.iter().map(|(subject, _)| subject).collect();
        let has_trees = wanted.iter().any(|it| matches!(it, Subject::Tree(_)));
        let mut seen = HashSet::new();
        for _ in 0..PAGES_AT_ONCE {
            let page = self.lines.page()?;
            if page.is_empty() {
                return Ok(true);
            }
            for line in &page {
                let of = [day(line), conversation(line), task(line)];
                let of = of.into_iter().flatten();
                self.changed
                    .extend(of.filter(|subject| wanted.contains(subject)));
                if has_trees && line.kind == Kind::Events {
                    self.note_trees(line, &wanted, &mut seen);
                }
            }
        }
        Ok(false)
    }

    /// Goes up from an event to the root of its tree, or to a visited event.
    fn note_trees(&mut self, line: &LogLine, wanted: &BTreeSet<&Subject>, seen: &mut HashSet<i64>) {
        let Ok(event) = serde_json::from_str::<OfEvent>(&line.text) else {
            return;
        };
        if self.parents.len() >= PARENTS_MAX {
            self.parents.clear();
        }
        self.parents.insert(event.id, event.parent_id);
        let mut next = Some(event.id);
        while let Some(id) = next.filter(|id| seen.insert(*id)) {
            let tree = Subject::Tree(id);
            if wanted.contains(&tree) {
                self.changed.insert(tree);
            }
            next = self.parent(id);
        }
    }

    fn parent(&mut self, id: i64) -> Option<i64> {
        if let Some(parent) = self.parents.get(&id) {
            return *parent;
        }
        // A removed or damaged event ends the path.
        let parent = self.store.get_event(id).ok().flatten()?.parent_id;
        self.parents.insert(id, parent);
        parent
    }
}

fn day(line: &LogLine) -> Option<Subject> {
    let (day, _) = line.file.split_once('/')?;
    let day: Day = day.parse().ok()?;
    Some(Subject::Day(day, line.kind))
}

fn conversation(line: &LogLine) -> Option<Subject> {
    let of: fn(OfConversation) -> Option<Uuid> = match line.kind {
        Kind::Conversations => |of| of.id,
        Kind::Messages => |of| of.conversation_id,
        _ => return None,
    };
    let ids = serde_json::from_str(&line.text).ok()?;
    of(ids).map(Subject::Conversation)
}

fn task(line: &LogLine) -> Option<Subject> {
    if line.kind != Kind::ThoughtRecords {
        return None;
    }
    let OfTask { task_id } = serde_json::from_str(&line.text).ok()?;
    Some(Subject::Thoughts(task_id))
}
