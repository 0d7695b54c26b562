//! The tasks that have thoughts, and the latest thoughts in a time range.

use super::page::{self, Cursor, Order, Page, Walk};
use super::{KIND, PREV_HASH, TASK, Thoughts, rows};
use crate::collections::standing_as;
use crate::error::Result;
use crate::index::{Position, RowId, Select, Table};
use crate::record::{GENESIS_HASH, ThoughtRecord};
use crate::store::{Reads, Snapshot};

impl Thoughts<'_> {
    /// The first thought of each task, newest tasks first. A task keeps its position while thoughts
    /// are added to it.
    pub(crate) fn tasks(&self, limit: usize, after: Option<Cursor>) -> Result<Page<ThoughtRecord>> {
        let inner = self.store.inner();
        let walk = Walk::all(Order::NewestFirst, limit, after);
        let genesis = inner.hasher().lookup(GENESIS_HASH);
        let may_be_first = |table: &Table, row| may_be_first(table, row, genesis);
        page::page(
            inner,
            KIND,
            walk,
            may_be_first,
            |view, row| match standing_as(view, row)? {
                Some(record) if is_first(view, row, &record)? => {
                    Ok(Some((record.timestamp.at(), record)))
                }
                _ => Ok(None),
            },
        )
    }

    /// The latest matching thoughts in a time range, latest first.
    pub(crate) fn of_time(
        &self,
        (since, until): (i64, i64),
        limit: usize,
        is_wanted: impl Fn(&ThoughtRecord) -> bool,
    ) -> Result<Vec<ThoughtRecord>> {
        let walk = Walk::all(Order::NewestFirst, limit, None);
        let is_in_time = |table: &Table, row| {
            let at = table.row(row).map(|row| row.at);
            at.is_some_and(|at| (since..until).contains(&at))
        };
        let found = page::page(self.store.inner(), KIND, walk, is_in_time, |view, row| {
            let record = standing_as(view, row)?.filter(&is_wanted);
            Ok(record.map(|record| (record.timestamp.at(), record)))
        })?;
        Ok(found.items)
    }
}

/// Whether a row is the first of its task, according to the index: it begins a chain, or retention
/// removed what was before it.
fn may_be_first(table: &Table, row: RowId, genesis: u32) -> bool {
    table.has_lookup(row, PREV_HASH, genesis) || is_first_of_its_hash(table, row)
}

fn is_first_of_its_hash(table: &Table, row: RowId) -> bool {
    let Some(hash) = table.lookup(row, TASK) else {
        return false;
    };
    let select = Select::Lookup(TASK, hash);
    let mut of_task = table.walk(select, Position::FIRST, Position::END);
    of_task.next() == Some(row)
}

/// Whether a record is the first of its task. Another tool may have begun a second chain for the
/// same task, and two tasks may have the same hash.
fn is_first(view: &Snapshot<'_>, row: RowId, record: &ThoughtRecord) -> Result<bool> {
    if is_first_of_its_hash(view.table(KIND), row) {
        return Ok(true);
    }
    if record.prev_hash != GENESIS_HASH {
        return Ok(false);
    }
    for before in rows(view, Some(&record.task_id)).take_while(|before| *before != row) {
        match standing_as::<ThoughtRecord>(view, before) {
            Err(e) if view.lacks_lines() => return Err(e),
            Ok(Some(before)) if before.task_id == record.task_id => return Ok(false),
            _ => {}
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::Store;
    use crate::record::ThoughtType;
    use crate::thoughts::NewThought;

    #[test]
    fn every_task_is_told_once_while_they_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let thoughts = store.thoughts();
        let think = |task: usize| {
            let thought = NewThought {
                thought_type: ThoughtType::Decision,
                task_id: format!("task {task}"),
                agent_id: "a".into(),
                content: task.to_string(),
            };
            thoughts.create(thought).unwrap()
        };
        for n in 0..600 {
            think(n * 7 % 40);
        }
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = thoughts.tasks(7, after).unwrap();
            found.extend(page.items.into_iter().map(|first| first.task_id));
            after = page.next;
            if after.is_none() {
                break;
            }
            think(found.len());
            think(100 + found.len());
        }
        let mut begun: Vec<String> = (0..40).map(|n| format!("task {}", n * 7 % 40)).collect();
        begun.reverse();
        assert_eq!(found, begun);
        let all = thoughts.of_time((0, i64::MAX), 1_000, |_| true).unwrap();
        assert_eq!(all.len(), thoughts.list(None, None).unwrap().len());
        let none = thoughts.of_time((0, 1), 1_000, |_| true).unwrap();
        assert_eq!(none, []);
        let seven = thoughts.of_time((0, i64::MAX), 3, |it| it.content == "7");
        assert_eq!(seven.unwrap().len(), 3);
    }
}
