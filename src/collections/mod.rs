//! The rules for each kind of record, and the typed API.

#[cfg(feature = "bindings")]
mod arguments;
mod as_of;
mod by_kind;
mod calls;
mod conversations;
#[cfg(feature = "rows")]
pub(crate) mod current_rows;
mod events;
mod find_key;
mod history;
mod inbox;
mod lines_of;
mod messages;
mod observability;
mod page;
mod places;
mod proposals;
mod query;
mod received;
mod resume;
mod retract;
mod rollups;
#[cfg(any(
    feature = "sql",
    feature = "parquet",
    all(feature = "arrow", feature = "bindings")
))]
pub(crate) mod row_list;
mod rows;
mod rules;
mod search;
mod seqs;
mod session;
mod state;
mod thoughts;
mod tree;
mod turns;

pub(crate) use calls::{CallRow, calls_of_day, first_start, tools_of_several, with_calls};
#[cfg(feature = "otlp")]
pub(crate) use conversations::has_conversations;
pub(crate) use conversations::{
    ConversationFacts, ended_in_error, facts_of, in_one_line, of_prompt, projects_of,
};
pub(crate) use events::{
    children as events_under, find as event, latest as latest_event, seqs_of_type as seqs_of_events,
};
#[cfg(feature = "otlp")]
pub(crate) use received::is_received;
pub(crate) use rollups::{
    Adds, DaySum, Found as DayFound, Message, all_days as days_of_messages, messages_of_day,
    messages_of_day_after, pairs, priced, read as read_messages, sum_day,
};
#[cfg(feature = "otlp")]
pub(crate) use turns::{is_elsewhere, may_have_turns_below};

pub(crate) use places::Places;
pub(crate) use search::clipped;
pub(crate) use seqs::{times_of, with_seqs};

#[cfg(feature = "bindings")]
pub use arguments::ArgumentSchema;
#[cfg(feature = "bindings")]
pub(crate) use arguments::{Argument, Arguments, moment};
pub use as_of::AsOf;
pub(crate) use by_kind::{GROUPS, group};
pub use calls::CallQuery;
pub use conversations::{ConversationList, ConversationQuery, ConversationSort};
pub use events::EventQuery;
pub use history::HistoryQuery;
pub use inbox::{Inbox, TaskCounts, TaskQuery};
pub use messages::MessageQuery;
pub use observability::ObservabilityStore;
#[cfg(feature = "wire")]
pub(crate) use page::PAGE_LIMIT_MAX;
pub use page::{Cursor, Order, PAGE_LIMIT, Page};
pub use proposals::ProposalQuery;
#[cfg(feature = "http")]
pub(crate) use query::{Limit, TimeText, number_param};
pub use resume::Resume;
pub use rollups::RollupQuery;
pub use search::{Found, SearchCursor, SearchMatch, SearchProgress, SearchQuery};
pub use session::{SessionItem, SessionNode, SessionTree};
pub use state::SupervisorState;
pub use thoughts::{ChainBreak, ChainCheck, NewThought, ThoughtQuery, Thoughts};
pub use tree::{EventNode, EventTree, SpanStatus};
pub use turns::TurnQuery;

pub(crate) use rows::has_ids;
use rows::{
    EVERYWHERE, at_status, collision, get_row, lower, outcome, read_as, record_in, record_of,
    selected, standing, standing_as,
};
use rules::{
    conflict, lifecycle, next_id, not_found, number, put_again, put_version, says, time, unchanged,
};

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::index::{Row, RowId};
use crate::line::Envelope;
use crate::privacy::is_redacted;
use crate::record::Record;
use crate::store::{PreparedRecord, Reads, Redacted, Store, Txn};

/// Maximum number of records in a batch, for callers that split an endless input.
pub(crate) const BATCH_RECORDS_MAX: usize = 1_000;
/// Number of bytes at which such a batch ends.
pub(crate) const BATCH_BYTES_MAX: usize = 8 << 20;
/// Times mistakenly given in seconds fall before this one until the year 11968.
const YEAR_1980_MS: i64 = 315_532_800_000;
/// Estimated memory overhead of a record, without its strings.
pub(crate) const RECORD_BYTES: usize = 512;

/// The acknowledgement of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// Sequence number of the line that contains the record.
    pub seq: u64,
    /// Whether that line is new.
    pub status: AckStatus,
    /// The id of an event, task or history entry, or the sequence of a message. The log assigns it
    /// if the record has none.
    pub assigned: Option<i64>,
    /// A probable mistake in the record. The record was accepted.
    pub warning: Option<Warning>,
}

/// A probable mistake in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The time is before 1980. It was probably given in seconds instead of milliseconds.
    EarlyTime,
    /// The `inference_metadata` of a message has a field whose type differs from that in
    /// [`InferenceMetadata`]. It is stored, but no field of the message was filled from it.
    ///
    /// [`InferenceMetadata`]: crate::InferenceMetadata
    UnreadMetadata,
}

impl Warning {
    /// All warnings.
    pub const ALL: [Warning; 2] = [Warning::EarlyTime, Warning::UnreadMetadata];

    fn of(record: &Record) -> Option<Warning> {
        match record {
            _ if record.at() < YEAR_1980_MS => Some(Warning::EarlyTime),
            Record::Message(message) if message.has_unread_metadata() => {
                Some(Warning::UnreadMetadata)
            }
            _ => None,
        }
    }

    /// The text of the warning.
    pub fn as_str(self) -> &'static str {
        match self {
            Warning::EarlyTime => {
                "the time of the record is before 1980: times are in milliseconds since 1970, and this one was probably given in seconds"
            }
            Warning::UnreadMetadata => {
                "inference_metadata has a field of another type than the log knows, such as a text for a number: it is kept, and no field of the message was filled from it"
            }
        }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether a record was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckStatus {
    /// A line was added.
    Added,
    /// The log already has this record. Nothing was written.
    Unchanged,
}

impl AckStatus {
    /// The status as one word.
    pub fn as_str(self) -> &'static str {
        match self {
            AckStatus::Added => "added",
            AckStatus::Unchanged => "unchanged",
        }
    }
}

impl Ack {
    fn added(seq: u64) -> Ack {
        Ack {
            seq,
            status: AckStatus::Added,
            assigned: None,
            warning: None,
        }
    }

    fn assigning(self, assigned: Option<i64>) -> Ack {
        Ack { assigned, ..self }
    }
}

impl Store {
    /// Records one fact. When this returns, the fact is acknowledged with the
    /// [`Durability`](crate::Durability) that the store was opened with.
    ///
    /// ```
    /// use decklog::{AckStatus, ConversationTurn, Store, TurnKind, Validity};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let turn = ConversationTurn {
    ///     id: uuid::Uuid::new_v4(),
    ///     parent_id: None,
    ///     message_id: uuid::Uuid::new_v4(),
    ///     kind: TurnKind::User,
    ///     content: "hello".into(),
    ///     created_at: Validity::at(1_766_832_000_123),
    ///     thread_id: None,
    /// };
    /// assert_eq!(store.record(turn.clone())?.status, AckStatus::Added);
    /// assert_eq!(store.record(turn)?.status, AckStatus::Unchanged);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput), [`NotFound`](ErrorKind::NotFound),
    /// [`Lifecycle`](ErrorKind::Lifecycle) and [`Conflict`](ErrorKind::Conflict): the record is
    /// rejected and nothing is written. After [`Io`](ErrorKind::Io) while writing or syncing, the
    /// record may or may not be in the log. Open the store again to find out.
    pub fn record(&self, record: impl Into<Record>) -> Result<Ack> {
        self.record_if(record.into(), IfKnown::Compare)
    }

    /// As [`record`](Store::record), with a rule for records that the log already has.
    pub(crate) fn record_if(&self, record: Record, if_known: IfKnown) -> Result<Ack> {
        let prepared = self.inner().policies().prepare(given(record)?)?;
        self.inner()
            .transact_together(move |txn| put_prepared(txn, Ok(prepared), if_known))
    }

    /// Records facts in order, under one lock, with one write for every run of records of the same
    /// kind and day. Each record is accepted or rejected on its own. The results are in the order
    /// of the records. Readers may see the first records of a large batch before it is complete.
    ///
    /// # Errors
    /// The outer error means that none of the records is acknowledged:
    /// [`Locked`](ErrorKind::Locked), [`Poisoned`](ErrorKind::Poisoned) and
    /// [`ReadOnly`](ErrorKind::ReadOnly) occur before anything is written; after
    /// [`Io`](ErrorKind::Io), any number of the records may be in the log. An `Io` that affects
    /// only one record, such as a failure to create the directory of its day, is the result of that
    /// record.
    pub fn record_batch(
        &self,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Vec<Result<Ack>>> {
        let judged = |record: Record| (given(record), IfKnown::Compare);
        self.put_batch(records.into_iter().map(judged))
    }

    /// Records all of these facts in order or, if one is rejected, none of them. Other readers see
    /// all of them or none. After a crash, the log may have only the first ones.
    ///
    /// ```
    /// use decklog::{ConversationTurn, ErrorKind, Record, Store, ToolCallDone, ToolStatus, TurnKind};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let turn = ConversationTurn::new(TurnKind::User, "hello");
    /// let unknown = ToolCallDone::new(turn.id, "call_1", ToolStatus::Completed);
    /// let id = turn.id;
    /// let error = store.record_all([Record::from(turn), unknown.into()]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::NotFound);
    /// assert_eq!(store.get_turn(id)?, None);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`record`](Store::record), for the first rejected record. If records before it were
    /// accepted, the handle reads its files again.
    pub fn record_all(&self, records: impl IntoIterator<Item = Record>) -> Result<Vec<Ack>> {
        let checked = |record| Ok((given(record)?, IfKnown::Compare));
        self.put_all(records.into_iter().map(checked).collect::<Result<_>>()?)
    }

    /// As [`record_all`](Store::record_all), for checked records, each with its rule for records
    /// that the log already has.
    pub(crate) fn put_all(&self, records: Vec<(Record, IfKnown)>) -> Result<Vec<Ack>> {
        let prepare = |(record, if_known)| {
            let prepared = self.inner().policies().prepare(record)?;
            Ok((prepared, if_known))
        };
        let prepared = records
            .into_iter()
            .map(prepare)
            .collect::<Result<Vec<_>>>()?;
        self.inner().transact(|txn| {
            let put_one = |(record, if_known)| put_prepared(txn, Ok(record), if_known);
            let acks: Result<Vec<_>> = prepared.into_iter().map(put_one).collect();
            acks.map_err(|e| txn.abandon(e))
        })
    }

    /// As [`record_batch`](Store::record_batch), but a record with a key of its own is skipped if
    /// the log has a line with that key, whatever the record says: corrections and retractions made
    /// by a person are kept. After the first record that fails to be written, the rest are not
    /// tried: the store numbers the messages of a conversation in order, so earlier ones must be
    /// recorded first.
    pub(crate) fn record_batch_if_new(
        &self,
        records: impl IntoIterator<Item = Record>,
    ) -> Result<Vec<Result<Ack>>> {
        self.put_in_order(self.prepare_batch_if_new(records))
    }

    /// Does the part of the work of [`record_batch_if_new`](Store::record_batch_if_new) that needs
    /// no lock.
    pub(crate) fn prepare_batch_if_new(
        &self,
        records: impl IntoIterator<Item = Record>,
    ) -> PreparedBatch {
        let checked = |record: Record| (record.checked(), IfKnown::Skip);
        self.prepare_batch(records.into_iter().map(checked))
    }

    /// Writes a prepared batch up to the first record that fails to be written.
    pub(crate) fn put_in_order(&self, batch: PreparedBatch) -> Result<Vec<Result<Ack>>> {
        let PreparedBatch(prepared) = batch;
        let mut failed: Option<Error> = None;
        self.inner().transact(|txn| {
            let put_one = |(record, if_known)| {
                if let Some(e) = &failed {
                    return Err(e.clone());
                }
                let answer = put_prepared(txn, record, if_known);
                txn.let_readers_in();
                if let Err(e) = &answer
                    && !e.kind().is_judgement()
                {
                    failed = Some(e.clone());
                }
                answer
            };
            Ok(prepared.into_iter().map(put_one).collect())
        })
    }

    /// Writes checked records, each with its own rule for records that the log already has.
    pub(crate) fn put_batch(
        &self,
        records: impl IntoIterator<Item = (Result<Record>, IfKnown)>,
    ) -> Result<Vec<Result<Ack>>> {
        self.put_prepared(&mut self.prepare_batch(records))
    }

    /// Does the part of the work that needs no lock.
    pub(crate) fn prepare_batch(
        &self,
        records: impl IntoIterator<Item = (Result<Record>, IfKnown)>,
    ) -> PreparedBatch {
        let policies = self.inner().policies();
        let policy = policies.current();
        let prepare = |(record, if_known): (Result<Record>, IfKnown)| {
            let by = || Arc::clone(&policy);
            let prepared = record.and_then(|record| policies.prepare_by(by(), record));
            (prepared, if_known)
        };
        PreparedBatch(records.into_iter().map(prepare).collect())
    }

    /// Writes a batch. If the lock cannot be taken, the batch is unchanged and can be written
    /// later.
    pub(crate) fn put_prepared(&self, batch: &mut PreparedBatch) -> Result<Vec<Result<Ack>>> {
        self.inner().transact(|txn| {
            let put_one = |(record, if_known)| {
                let answer = put_prepared(txn, record, if_known);
                txn.let_readers_in();
                answer
            };
            Ok(batch.0.drain(..).map(put_one).collect())
        })
    }
}

/// Records to be written under one lock, each with its rule for records that the log already has.
#[derive(Debug)]
pub(crate) struct PreparedBatch(Vec<(Result<PreparedRecord>, IfKnown)>);

impl PreparedBatch {
    /// Adds the records of another batch after those of this one.
    pub(crate) fn append(&mut self, other: PreparedBatch) {
        self.0.extend(other.0);
    }
}

/// Checks a record from a caller. The arguments of a call must match the given hash, unless they
/// were redacted earlier, as in a call that was read from a log.
pub(crate) fn given(record: Record) -> Result<Record> {
    let has_hash = matches!(&record, Record::CallRequested(req) if !req.args_sha256.is_empty());
    let record = record.checked()?;
    if let Record::CallRequested(req) = &record
        && has_hash
        && !req.arguments_json.as_deref().is_some_and(is_redacted)
    {
        req.check_hash().map_err(|e| with_key(e, &record))?;
    }
    Ok(record)
}

fn put_prepared(
    txn: &mut Txn<'_>,
    record: Result<PreparedRecord>,
    if_known: IfKnown,
) -> Result<Ack> {
    txn.check_whole()?;
    let mut redacted = txn.redact_prepared(record?)?;
    let warning = Warning::of(redacted.record());
    let ack = match put_by(txn, &mut redacted, if_known) {
        Err(e) if e.kind() == ErrorKind::Conflict => same_by_stricter(txn, &redacted, if_known, e),
        answer => answer,
    }?;
    Ok(Ack { warning, ..ack })
}

fn put_by(txn: &mut Txn<'_>, redacted: &mut Redacted, if_known: IfKnown) -> Result<Ack> {
    match if_known {
        IfKnown::Skip => put_if_new(txn, redacted),
        IfKnown::Compare => put(txn, redacted, false),
        IfKnown::CompareExceptTime => put(txn, redacted, true),
    }
}

/// Handles a record that conflicts with one in the log. The two may be equal before redaction: the
/// log may hold a form that was redacted more strictly, under earlier settings.
fn same_by_stricter(
    txn: &mut Txn<'_>,
    redacted: &Redacted,
    if_known: IfKnown,
    conflict: Error,
) -> Result<Ack> {
    // A conflict of one of these kinds means that the key is in the log, so trying other forms of
    // the record cannot add a line.
    let (Record::Message(_) | Record::CallDone(_) | Record::Event(_) | Record::History(_)) =
        redacted.record()
    else {
        return Err(conflict);
    };
    for mut form in txn.redacted_by_stricter(redacted) {
        match put_by(txn, &mut form, if_known) {
            Err(e) if e.kind().is_judgement() => {}
            answer => return answer,
        }
    }
    Err(conflict)
}

/// What to do with a record if the log has a line with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfKnown {
    /// Compare the two by the rules of their kind.
    Compare,
    /// Skip the record, whatever it says.
    Skip,
    /// Compare the two except for their times. The store assigned the time, so a client that
    /// retries gets a different one.
    CompareExceptTime,
}

impl IfKnown {
    /// The rule for a record from a client. `has_time`: the client gave its time; otherwise the
    /// store assigned it.
    pub(crate) fn of_client(has_time: bool) -> IfKnown {
        if has_time {
            IfKnown::Compare
        } else {
            IfKnown::CompareExceptTime
        }
    }
}

fn put_if_new(txn: &mut Txn<'_>, redacted: &mut Redacted) -> Result<Ack> {
    let record = redacted.record();
    // Other records only follow on another record, and have no key of their own.
    let has_own_key = matches!(
        record,
        Record::Turn(_)
            | Record::CallRequested(_)
            | Record::Proposal(_)
            | Record::Conversation(_)
            | Record::Message(_)
    );
    match asserted(txn, record).filter(|_| has_own_key) {
        Some((_, row)) => unchanged(txn, row.asserted, row.seq),
        None => put(txn, redacted, false),
    }
}

/// The row of a record's key, if the log has lines with that key.
fn row_of(from: &impl Reads, record: &Record) -> Option<(RowId, Row)> {
    let table = from.table(record.kind());
    let [one, two] = Envelope::of(record, 0).key;
    let id = table.find(from.hasher().key_of([&one, &two]))?;
    table.row(id).map(|row| (id, *row))
}

/// As [`row_of`], if the key was ever asserted.
fn asserted(from: &impl Reads, record: &Record) -> Option<(RowId, Row)> {
    row_of(from, record).filter(|(_, row)| row.asserted.is_some())
}

/// Writes a record by the rule of its kind. With `but_time`, a record that the log has is compared
/// except for its time.
fn put(txn: &mut Txn<'_>, redacted: &mut Redacted, but_time: bool) -> Result<Ack> {
    let put = match redacted.record() {
        Record::Turn(turn) => turns::put(txn, redacted, turn, but_time),
        Record::CallRequested(req) => calls::put_request(txn, redacted, req, but_time),
        Record::CallDone(_) => calls::put_done(txn, redacted, but_time),
        Record::Proposal(proposal) => proposals::put(txn, redacted, proposal, but_time),
        Record::ProposalStep(step) => proposals::put_step(txn, redacted, step),
        Record::Conversation(_) if but_time => conversations::put_begun(txn, redacted),
        Record::Conversation(_) => conversations::put(txn, redacted, false),
        Record::ConversationUpdated(_) => conversations::put(txn, redacted, true),
        Record::Message(_) => messages::put(txn, redacted, but_time),
        Record::Event(_) => events::put(txn, redacted, but_time),
        Record::InboxTask(_) => inbox::put(txn, redacted),
        Record::InboxStep(_) => inbox::put_step(txn, redacted),
        Record::History(_) => history::put(txn, redacted, but_time),
        Record::Thought(_) => thoughts::put(txn, redacted, but_time),
        Record::Rollup(_) => rollups::put(txn, redacted),
    };
    put.map_err(|e| with_key(e, redacted.record()))
}

fn with_key(error: Error, record: &Record) -> Error {
    error.with_key(format!("{} {}", record.kind(), record.key()))
}
