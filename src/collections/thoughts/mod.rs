//! Thought records: one hash chain per task. Every record holds the hash of the one before it.

mod chain;
#[cfg(feature = "mcp")]
mod tasks;

use std::fmt;
use std::ops::ControlFlow;

use uuid::Uuid;

pub use self::chain::{ChainBreak, ChainCheck};

use self::chain::check;
use super::as_of::Lists;
use super::page::{self, Cursor, Page};
use super::query::{is_of_time, query};
use super::{Ack, EVERYWHERE, conflict, put_again, record_in, row_of, selected, standing_as};
use crate::error::{Error, Result};
use crate::index::{Hasher, Loc, Position, RowId, Select, Table, Walk};
use crate::record::{
    GENESIS_HASH, Kind, Record, ThoughtRecord, ThoughtType, Timestamp, check_name, check_sha256,
};
use crate::store::{Reads, Redacted, Snapshot, Store, Txn};

const KIND: Kind = Kind::ThoughtRecords;
/// Indexes of the lookup fields of a line.
const TASK: usize = 0;
const PREV_HASH: usize = 1;
const HASH: usize = 2;

/// A thought to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewThought {
    /// The type of the thought.
    pub thought_type: ThoughtType,
    /// The task; not empty.
    pub task_id: String,
    /// The agent; not empty.
    pub agent_id: String,
    /// The text; may be empty.
    pub content: String,
}

query! {
    /// Selects the thoughts to list.
    ///
    /// ```
    /// # use decklog::Store;
    /// # use decklog::query::ThoughtQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let hash = decklog::record::GENESIS_HASH;
    /// let first = ThoughtQuery { prev_hash: Some(hash.into()), ..ThoughtQuery::default() };
    /// assert!(store.thoughts().page(&first)?.items.is_empty());
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ThoughtQuery {
        limit {
            /// Maximum number of thoughts, from 1. Default: 100.
            #[cfg_attr(feature = "http", serde(deserialize_with = "crate::collections::query::limit::<_, 1>"))]
            #[cfg_attr(feature = "http", param(value_type = Option<u32>, minimum = 1, maximum = 1000))]
        }
        filters {
            /// Only thoughts of this task.
            #[cfg_attr(feature = "cli", arg(global = true))]
            #[cfg_attr(feature = "http", param(min_length = 1, max_length = 1024))]
            task_id: String = "task" "TASK",
            /// Only thoughts with this `prev_hash`: 64 zeros for the first of each chain.
            #[cfg_attr(feature = "http", param(pattern = "^[0-9a-fA-F]{64}$"))]
            prev_hash: String = "prev-hash" "HASH",
        }
        times {
            /// Only thoughts of this time or later.
            since,
            /// Only thoughts before this time.
            until,
        }
        order {
            /// By the order in which they were recorded. Default: oldest first (`asc`).
            OldestFirst
        }
        from {
            /// Page cursor: the `next` of the previous page.
            after: Option<Cursor>
        }
    }
}

impl ThoughtQuery {
    fn check(&self) -> Result<()> {
        if let Some(task_id) = &self.task_id {
            check_name("task_id", task_id, false)?;
        }
        if let Some(hash) = &self.prev_hash {
            check_sha256("prev_hash", hash)?;
        }
        if self.limit == 0 {
            let message = "limit is 0: give a number from 1";
            return Err(Error::invalid(message).with_field("limit"));
        }
        Ok(())
    }
}

impl Lists for ThoughtQuery {
    type Item = ThoughtRecord;
    const KIND: Kind = KIND;

    fn walk(&self, hasher: Hasher, _: bool) -> page::Walk {
        let select = match (&self.task_id, &self.prev_hash) {
            (None, Some(hash)) => {
                let hash = hasher.lookup(&hash.to_ascii_lowercase());
                Select::Lookup(PREV_HASH, hash)
            }
            (task_id, _) => select(hasher, task_id.as_deref()),
        };
        page::Walk::all(self.order, self.limit, self.after).of(select)
    }

    fn may_match(&self, table: &Table, row: RowId) -> bool {
        is_of_time(table, row, (self.since, self.until))
    }

    fn matches(&self, record: &ThoughtRecord) -> bool {
        let (task_id, prev_hash) = (self.task_id.as_ref(), self.prev_hash.as_ref());
        task_id.is_none_or(|task_id| record.task_id == *task_id)
            && prev_hash.is_none_or(|hash| record.prev_hash.eq_ignore_ascii_case(hash))
    }

    fn read(view: &Snapshot<'_>, row: RowId, _: Option<i64>) -> Result<Option<ThoughtRecord>> {
        standing_as(view, row)
    }
}

type Ids<'a> = Box<dyn Fn() -> String + 'a>;
type Clock<'a> = Box<dyn Fn() -> Timestamp + 'a>;

/// The thoughts of a store. Returned by [`Store::thoughts`].
///
/// ```
/// use decklog::Store;
/// use decklog::record::ThoughtType;
/// use decklog::thoughts::NewThought;
/// # let dir = tempfile::tempdir().unwrap();
/// # let store = Store::open(dir.path().join("log"))?;
/// let thoughts = store.thoughts();
/// let plan = thoughts.create(NewThought {
///     thought_type: ThoughtType::Plan,
///     task_id: "fix-the-build".into(),
///     agent_id: "coder".into(),
///     content: "Read the error first.".into(),
/// })?;
/// assert_eq!(thoughts.get(&plan.id)?, Some(plan));
/// assert!(thoughts.verify_chain("fix-the-build")?.is_intact());
/// # Ok::<(), decklog::Error>(())
/// ```
pub struct Thoughts<'a> {
    store: &'a Store,
    ids: Ids<'a>,
    clock: Clock<'a>,
}

impl fmt::Debug for Thoughts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Thoughts")
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// The thoughts.
    pub fn thoughts(&self) -> Thoughts<'_> {
        Thoughts {
            store: self,
            ids: Box::new(|| Uuid::new_v4().to_string()),
            clock: Box::new(Timestamp::now),
        }
    }
}

impl<'a> Thoughts<'a> {
    /// Sets the source of the ids of new records. Default: random UUIDs (v4).
    #[must_use]
    pub fn with_ids(mut self, ids: impl Fn() -> String + 'a) -> Self {
        self.ids = Box::new(ids);
        self
    }

    /// Sets the source of the times of new records. Default: the system clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Timestamp + 'a) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Appends a thought to its task's chain.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty task or agent;
    /// [`Conflict`](crate::ErrorKind::Conflict) if the id is taken.
    pub fn create(&self, thought: NewThought) -> Result<ThoughtRecord> {
        let record = ThoughtRecord {
            id: (self.ids)(),
            task_id: thought.task_id,
            prev_hash: String::new(),
            hash: String::new(),
            thought_type: thought.thought_type,
            agent_id: thought.agent_id,
            timestamp: (self.clock)(),
            content: thought.content,
        };
        let inner = self.store.inner();
        let key = format!("{KIND} {}", record.id);
        let prepared = inner
            .policies()
            .prepare(Record::Thought(record).checked()?)?;
        let made = inner.transact(|txn| {
            let mut redacted = txn.redact_prepared(prepared)?;
            if row_of(txn, redacted.record()).is_some() {
                return Err(conflict(taken(record_in(redacted.record())?)));
            }
            append(txn, &mut redacted)?;
            record_in(redacted.record()).cloned()
        });
        made.map_err(|e| e.with_key(key))
    }

    /// The record with this id.
    pub fn get(&self, id: &str) -> Result<Option<ThoughtRecord>> {
        let now = self.store.as_of(None);
        now.get::<ThoughtQuery>([id, ""], |record| record.id == id)
    }

    /// The records of a task, or of all tasks, in the order in which they were recorded. With a
    /// limit, the first ones.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty task or a limit of 0.
    pub fn list(&self, task_id: Option<&str>, limit: Option<usize>) -> Result<Vec<ThoughtRecord>> {
        let query = ThoughtQuery {
            task_id: task_id.map(str::to_owned),
            limit: limit.unwrap_or(usize::MAX),
            ..ThoughtQuery::default()
        };
        Ok(self.page(&query)?.items)
    }

    /// Lists thoughts in the order in which they were recorded, in pages.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty task, a `prev_hash` that is
    /// not a SHA-256, or a limit of 0.
    pub fn page(&self, query: &ThoughtQuery) -> Result<Page<ThoughtRecord>> {
        self.page_within(query, usize::MAX)
    }

    /// As [`page`](Thoughts::page). A page also ends with the line that brings the length of its
    /// lines to this number of bytes.
    pub(crate) fn page_within(
        &self,
        query: &ThoughtQuery,
        bytes_max: usize,
    ) -> Result<Page<ThoughtRecord>> {
        query.check()?;
        self.store.as_of(None).list(query, bytes_max)
    }

    /// Recomputes the chain of a task from its current lines. The chain of an unknown task has no
    /// records.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for an empty task; otherwise fails only
    /// if the store cannot be read. A broken chain is not an error: the result names the break.
    pub fn verify_chain(&self, task_id: &str) -> Result<ChainCheck> {
        let check = self.verify_chain_with(task_id, &mut |_| ControlFlow::Continue(()))?;
        Ok(check.unwrap_or_default())
    }

    /// Like [`verify_chain`](Thoughts::verify_chain). `go_on` is called repeatedly with the number
    /// of records checked so far. If it breaks, the check ends and returns `None`.
    ///
    /// # Errors
    /// As [`verify_chain`](Thoughts::verify_chain).
    pub fn verify_chain_with(
        &self,
        task_id: &str,
        go_on: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Option<ChainCheck>> {
        check_name("task_id", task_id, false)?;
        let inner = self.store.inner();
        inner.rescan()?;
        let Some(mut checks) = check(inner, Some(task_id), go_on)? else {
            return Ok(None);
        };
        let without_records = || ChainCheck {
            task_id: task_id.to_owned(),
            ..ChainCheck::default()
        };
        Ok(Some(checks.remove(task_id).unwrap_or_else(without_records)))
    }

    /// Recomputes the chains of all tasks, sorted by name. Unreadable records whose task is unknown
    /// are reported under the empty name, which no task has.
    ///
    /// # Errors
    /// As [`verify_chain`](Thoughts::verify_chain).
    pub fn verify_chains(&self) -> Result<Vec<ChainCheck>> {
        let inner = self.store.inner();
        inner.rescan()?;
        let checks = check(inner, None, &mut |_| ControlFlow::Continue(()))?;
        Ok(checks.unwrap_or_default().into_values().collect())
    }
}

/// Adds a thought. If the log has its id, the two must be equal. With `but_time`, the times are not
/// compared.
pub(super) fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let thought: &ThoughtRecord = record_in(redacted.record())?;
    let filled = |given: &str, known: &str| {
        let text = if given.is_empty() { known } else { given };
        text.to_owned()
    };
    let same = |known: &ThoughtRecord| {
        let again = ThoughtRecord {
            prev_hash: filled(&thought.prev_hash, &known.prev_hash),
            hash: filled(&thought.hash, &known.hash),
            timestamp: if but_time { known } else { thought }.timestamp.clone(),
            ..thought.clone()
        };
        again == *known
    };
    match put_again(txn, redacted.record(), same, |_| taken(thought))? {
        Some((ack, _)) => Ok(ack),
        None => append(txn, redacted).map(Ack::added),
    }
}

/// Appends a record with a new id to its chain; returns its sequence number.
fn append(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<u64> {
    let thought: &ThoughtRecord = record_in(redacted.record())?;
    let (given_prev_hash, given_hash) = (thought.prev_hash.clone(), thought.hash.clone());
    let prev_hash = match latest(txn, &thought.task_id)? {
        Some((before, loc)) => {
            // After a power cut, a record must not survive the one whose hash it holds.
            txn.confirm(loc)?;
            before.hash
        }
        None => start_of(txn, &thought.task_id),
    };
    redacted.assign(|thought: &mut ThoughtRecord| {
        thought.prev_hash = prev_hash;
        thought.hash = thought.computed_hash();
    });
    let thought: &ThoughtRecord = record_in(redacted.record())?;
    for hash in [&given_hash, &thought.hash] {
        if let Some(holder) = with_hash(txn, hash)? {
            let message = format!("the hash {hash} is that of record {}", holder.id);
            return Err(conflict(message));
        }
    }
    if !given_prev_hash.is_empty() && given_prev_hash != thought.prev_hash {
        return Err(conflict(format!(
            "prev_hash is {given_prev_hash}, but the latest hash of task {:?} is {}: leave prev_hash and hash out",
            thought.task_id, thought.prev_hash
        )));
    }
    if !given_hash.is_empty() && given_hash != thought.hash {
        return Err(conflict(format!(
            "hash is {given_hash}, but that of what is kept of this record is {}: leave it out",
            thought.hash
        )));
    }
    txn.push(redacted, None)
}

/// The `prev_hash` for the first record of a chain that has no records left.
fn start_of(from: &impl Reads, task_id: &str) -> String {
    let removed = from.anchors(task_id).max_by_key(|anchor| anchor.seq);
    removed
        .map_or(GENESIS_HASH, |anchor| &*anchor.hash)
        .to_owned()
}

fn taken(thought: &ThoughtRecord) -> String {
    format!(
        "the id {:?} is that of another record: thoughts are never changed",
        thought.id
    )
}

fn select(hasher: Hasher, task_id: Option<&str>) -> Select {
    task_id.map_or(Select::All, |task_id| {
        Select::Lookup(TASK, hasher.lookup(task_id))
    })
}

fn rows<'a>(from: &'a impl Reads, task_id: Option<&str>) -> Walk<'a> {
    let table = from.table(KIND);
    let select = select(from.hasher(), task_id);
    table.walk(select, Position::FIRST, Position::END)
}

/// The last record of a task, and the location of its line.
fn latest(from: &impl Reads, task_id: &str) -> Result<Option<(ThoughtRecord, Loc)>> {
    let table = from.table(KIND);
    for id in rows(from, Some(task_id)).rev() {
        if let Some(row) = table.row(id)
            && let Some(record) = standing_as::<ThoughtRecord>(from, id)?
            && record.task_id == task_id
        {
            return Ok(Some((record, row.asserted)));
        }
    }
    Ok(None)
}

fn with_hash(from: &impl Reads, hash: &str) -> Result<Option<ThoughtRecord>> {
    let select = Select::Lookup(HASH, from.hasher().lookup(hash));
    let is_it = |thought: &ThoughtRecord| thought.hash == hash;
    selected(from, select, EVERYWHERE, is_it).next().transpose()
}
