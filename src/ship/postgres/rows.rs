//! Reads the current rows of a range of a segment, and writes them with the offset that was
//! reached.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use futures_util::SinkExt as _;
use tokio_postgres::{Transaction, error::SqlState};
use uuid::Uuid;

use super::binary::Rows;
use super::changes::lock_store;
use super::keys::Stage;
use super::schema::{self, quoted};
use super::{Copied, Session, failed};
use crate::collections::current_rows::CurrentRow;
use crate::error::{Error, ErrorKind, Result};
use crate::index::KeyHash;
use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::store::{PointSegment, Store};

/// Size of the lines of a chunk, in bytes.
const CHUNK_BYTES: u64 = 8 << 20;

/// Size of the pieces in which a copy is sent.
const SEND_BYTES: usize = 1 << 20;

/// The rows of a range of a segment.
#[derive(Debug)]
pub(super) struct Chunk {
    pub segment: PointSegment,
    pub from: u64,
    pub to: u64,
    tail_crc: u32,
    /// Rows that are probably new, by the day of their partition.
    new: BTreeMap<Day, Rows>,
    /// Rows that may be there already.
    changed: Batch,
    /// The conversations of messages, whose totals have changed.
    conversations: Batch,
}

/// Rows to insert or to replace.
#[derive(Debug)]
struct Batch {
    kind: Kind,
    rows: Rows,
    /// The days of the rows.
    days: BTreeSet<Day>,
    /// The keys of rows that may be in another partition, and of records that are retracted.
    elsewhere: Vec<[String; 2]>,
}

impl Batch {
    fn new(kind: Kind) -> Batch {
        Batch {
            kind,
            rows: Rows::new(),
            days: BTreeSet::new(),
            elsewhere: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.rows.len == 0 && self.elsewhere.is_empty()
    }
}

/// How far each segment was copied, with the chunks that were read but not written yet.
pub(super) type Reached = BTreeMap<SegmentName, u64>;

/// Whether the line that asserts a row is among those that were copied. If it is not, the row is
/// written with that line. Otherwise it could be there although its segment is not, and would stay
/// if that segment was removed before it was copied.
fn is_reached(row: &CurrentRow, reached: &Reached) -> bool {
    let (name, offset) = row.home;
    reached.get(&name).is_some_and(|to| offset < *to)
}

/// Reads the next chunk of a segment.
pub(super) fn chunk(
    store: &Store,
    segment: &PointSegment,
    from: u64,
    reached: &mut Reached,
) -> Result<Chunk> {
    let kind = segment.name.kind;
    let found = store.keys_of_range(segment, from, from.saturating_add(CHUNK_BYTES))?;
    // A range without a line end, such as the rest of a damaged segment, is skipped.
    let to = if found.end > from {
        found.end
    } else {
        segment.bytes
    };
    reached.insert(segment.name, to);
    let texts: HashMap<KeyHash, usize> = found.keys.iter().copied().zip(0..).collect();
    let mut chunk = Chunk {
        segment: segment.clone(),
        from,
        to,
        tail_crc: segment.tail_crc(store.inner().storage(), to)?,
        new: BTreeMap::new(),
        changed: Batch::new(kind),
        conversations: Batch::new(Kind::Conversations),
    };
    let store_id = store.inner().store_id();
    let mut standing = HashSet::new();
    let is_final = matches!(
        kind,
        Kind::Messages | Kind::Events | Kind::History | Kind::ThoughtRecords
    );
    store.rows_of_keys(kind, &found.keys, |(key, row)| {
        standing.insert(key);
        if !is_reached(&row, reached) {
            return Ok(());
        }
        let day = Day::of(row.at)?;
        if is_final {
            let rows = chunk.new.entry(day).or_insert_with(Rows::new);
            push(rows, store_id, &row);
        } else {
            push(&mut chunk.changed.rows, store_id, &row);
            chunk.changed.days.insert(day);
            if row.has_history && kind != Kind::Conversations {
                let text = texts.get(&key).and_then(|place| found.texts.get(*place));
                chunk.changed.elsewhere.extend(text.cloned());
            }
        }
        Ok(())
    })?;
    let retracted = found.keys.iter().zip(&found.texts);
    let retracted = retracted.filter(|(key, _)| !is_final && !standing.contains(*key));
    let retracted = retracted.map(|(_, text)| text.clone());
    chunk.changed.elsewhere.extend(retracted);
    let talks = &mut chunk.conversations;
    store.rows_of_keys(Kind::Conversations, &found.conversations, |(_, row)| {
        if !is_reached(&row, reached) {
            return Ok(());
        }
        push(&mut talks.rows, store_id, &row);
        talks.days.insert(Day::of(row.at)?);
        Ok(())
    })?;
    Ok(chunk)
}

fn push(rows: &mut Rows, store_id: Uuid, row: &CurrentRow) {
    rows.begin(row.cells.len() + 2);
    rows.uuid(store_id);
    rows.integer(i64::try_from(row.seq).unwrap_or(i64::MAX));
    for cell in &row.cells {
        rows.cell(cell);
    }
}

impl Session {
    /// Writes a chunk, and the offset that it came to, in one transaction. Returns the number of
    /// rows.
    pub(super) async fn write(&mut self, store_id: Uuid, chunk: &Chunk) -> Result<u64> {
        let kind = chunk.segment.name.kind;
        for (kind, day) in chunk.partitions() {
            self.create_partition(kind, day).await?;
        }
        match self.try_write(store_id, chunk, true).await {
            // A row is there already: replace it.
            Err(Failed::Unique) => {}
            Err(Failed::Other(e)) => return Err(e),
            Ok(rows) => return Ok(rows),
        }
        self.try_write(store_id, chunk, false)
            .await
            .map_err(|e| match e {
                Failed::Unique => Error::new(
                    ErrorKind::Remote,
                    format!("two rows of {kind} have the same key"),
                ),
                Failed::Other(e) => e,
            })
    }

    async fn try_write(
        &mut self,
        store_id: Uuid,
        chunk: &Chunk,
        is_new: bool,
    ) -> Result<u64, Failed> {
        let name = chunk.segment.name;
        let of = |e: tokio_postgres::Error| Failed::of(name.kind, &e);
        let known = self.copied.get(&name).map_or(0, |copied| copied.bytes);
        let transaction = self.client.transaction().await.map_err(of)?;
        lock_store(&transaction, store_id).await.map_err(of)?;
        let there = bytes_there(&transaction, store_id, chunk)
            .await
            .map_err(of)?;
        if there != known || known != chunk.from {
            let message = "another process copied this store meanwhile: try again";
            return Err(Failed::Other(Error::new(ErrorKind::Conflict, message)));
        }
        let mut rows = 0;
        for (day, new) in &chunk.new {
            rows += new.len;
            if is_new {
                let partition = schema::partition(name.kind, &day.to_string());
                let sql = copy_into(&partition, name.kind);
                copy_in(&transaction, &sql, new.to_bytes())
                    .await
                    .map_err(of)?;
            } else {
                upsert(&transaction, name.kind, new.to_bytes())
                    .await
                    .map_err(of)?;
            }
        }
        for batch in [&chunk.changed, &chunk.conversations] {
            if batch.is_empty() {
                continue;
            }
            // New totals of a conversation are no new row.
            if batch.kind == name.kind {
                rows += batch.rows.len;
            }
            remove_elsewhere(&transaction, store_id, batch)
                .await
                .map_err(of)?;
            upsert(&transaction, batch.kind, batch.rows.to_bytes())
                .await
                .map_err(of)?;
        }
        let was_rewritten = self.copied.get(&name).is_some_and(|it| it.is_rewritten);
        let is_rewritten = was_rewritten && chunk.to < chunk.segment.bytes;
        note(&transaction, store_id, chunk, is_rewritten)
            .await
            .map_err(of)?;
        transaction.commit().await.map_err(of)?;
        self.copied.insert(
            name,
            Copied {
                bytes: chunk.to,
                tail_crc: chunk.tail_crc,
                seal: None,
                is_rewritten,
            },
        );
        Ok(rows)
    }

    /// Creates the partition of a day, unless it exists.
    async fn create_partition(&mut self, kind: Kind, day: Day) -> Result<()> {
        let partition = schema::partition(kind, &day.to_string());
        if self.partitions.contains(&partition) {
            return Ok(());
        }
        let creating = |e: tokio_postgres::Error| failed("create", &partition, &e);
        let (table, name) = (quoted(kind.stem()), quoted(&partition));
        let (start_ms, end_ms) = day.bounds_ms();
        let bound = |ms: i64| {
            let time = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
            time.format("%Y-%m-%d %H:%M:%S+00").to_string()
        };
        let sql = format!(
            "SELECT pg_advisory_xact_lock(hashtext('decklog')); CREATE TABLE IF NOT EXISTS {name} PARTITION OF {table} FOR VALUES FROM ('{}') TO ('{}')",
            bound(start_ms),
            bound(end_ms)
        );
        let transaction = self.client.transaction().await.map_err(creating)?;
        transaction.batch_execute(&sql).await.map_err(creating)?;
        transaction.commit().await.map_err(creating)?;
        self.partitions.insert(partition);
        Ok(())
    }
}

impl Chunk {
    /// The partitions that its rows are in.
    fn partitions(&self) -> Vec<(Kind, Day)> {
        let kind = self.segment.name.kind;
        let new = self.new.keys().map(|day| (kind, *day));
        let changed = self.changed.days.iter().map(|day| (kind, *day));
        let talks = self.conversations.days.iter();
        let talks = talks.map(|day| (Kind::Conversations, *day));
        new.chain(changed).chain(talks).collect()
    }
}

enum Failed {
    /// A row with this key exists.
    Unique,
    Other(Error),
}

impl Failed {
    fn of(kind: Kind, e: &tokio_postgres::Error) -> Failed {
        match e.code() {
            Some(code) if *code == SqlState::UNIQUE_VIOLATION => Failed::Unique,
            // Another process dropped the empty partition.
            Some(code)
                if *code == SqlState::CHECK_VIOLATION || *code == SqlState::UNDEFINED_TABLE =>
            {
                let message = format!("a partition of {kind} was dropped meanwhile: try again");
                Failed::Other(Error::new(ErrorKind::Conflict, message))
            }
            _ => Failed::Other(failed("write", kind.stem(), e)),
        }
    }
}

fn columns(kind: Kind) -> String {
    let own = ["store_id".to_owned(), "seq".to_owned()].into_iter();
    let columns = kind.columns().iter().map(|column| quoted(column.name));
    own.chain(columns).collect::<Vec<_>>().join(", ")
}

fn copy_into(table: &str, kind: Kind) -> String {
    let (table, columns) = (quoted(table), columns(kind));
    format!("COPY {table} ({columns}) FROM STDIN (FORMAT binary)")
}

/// Sends rows in the binary format.
pub(super) async fn copy_in(
    transaction: &Transaction<'_>,
    sql: &str,
    bytes: Vec<u8>,
) -> Result<(), tokio_postgres::Error> {
    let sink = transaction.copy_in::<_, Bytes>(sql).await?;
    let mut sink = std::pin::pin!(sink);
    let mut bytes = Bytes::from(bytes);
    while !bytes.is_empty() {
        let piece = bytes.split_to(bytes.len().min(SEND_BYTES));
        sink.send(piece).await?;
    }
    sink.finish().await.map(drop)
}

/// Inserts rows, and replaces those with the same key.
async fn upsert(
    transaction: &Transaction<'_>,
    kind: Kind,
    bytes: Vec<u8>,
) -> Result<(), tokio_postgres::Error> {
    let table = quoted(kind.stem());
    let stage = quoted(&format!("decklog_{}", kind.stem()));
    let create = format!(
        "DROP TABLE IF EXISTS pg_temp.{stage}; CREATE TEMP TABLE {stage} (LIKE {table}) ON COMMIT DROP"
    );
    transaction.batch_execute(&create).await?;
    let copy = copy_into(&format!("decklog_{}", kind.stem()), kind);
    copy_in(transaction, &copy, bytes).await?;
    let names = columns(kind);
    let mut key = vec!["store_id".to_owned()];
    key.extend(schema::key(kind).into_iter().map(quoted));
    key.push(quoted(kind.time_column()));
    let set: Vec<String> = names
        .split(", ")
        .filter(|name| !key.iter().any(|key| key == name))
        .map(|name| format!("{name} = excluded.{name}"))
        .collect();
    let sql = format!(
        "INSERT INTO {table} ({names}) SELECT {names} FROM {stage} ON CONFLICT ({}) DO UPDATE SET {}",
        key.join(", "),
        set.join(", ")
    );
    transaction.batch_execute(&sql).await
}

/// Deletes the rows of records that are retracted, or may be in the partition of another day.
async fn remove_elsewhere(
    transaction: &Transaction<'_>,
    store_id: Uuid,
    batch: &Batch,
) -> Result<(), tokio_postgres::Error> {
    if batch.elsewhere.is_empty() {
        return Ok(());
    }
    let stage = Stage::of_keys(batch.kind);
    transaction.batch_execute(&stage.create).await?;
    let keys = batch.elsewhere.iter().map(|key| (key, None));
    copy_in(transaction, &stage.copy, stage.rows(keys).into_bytes()).await?;
    let sql = format!(
        "DELETE FROM {} t USING decklog_keys k WHERE t.store_id = $1 AND {}",
        quoted(batch.kind.stem()),
        stage.is_same()
    );
    transaction.execute(&sql, &[&store_id]).await?;
    transaction.batch_execute("DROP TABLE decklog_keys").await
}

async fn bytes_there(
    transaction: &Transaction<'_>,
    store_id: Uuid,
    chunk: &Chunk,
) -> Result<u64, tokio_postgres::Error> {
    let name = chunk.segment.name;
    let row = transaction
        .query_opt(
            "SELECT bytes FROM decklog_segments WHERE store_id = $1 AND day = $2::text::date AND kind = $3 AND number = $4",
            &[
                &store_id,
                &name.day.to_string(),
                &name.kind.stem(),
                &i32::try_from(name.number).unwrap_or(i32::MAX),
            ],
        )
        .await?;
    Ok(row.map_or(0, |row| row.get::<_, i64>(0).cast_unsigned()))
}

/// Notes the offset that a chunk came to.
async fn note(
    transaction: &Transaction<'_>,
    store_id: Uuid,
    chunk: &Chunk,
    is_rewritten: bool,
) -> Result<(), tokio_postgres::Error> {
    let name = chunk.segment.name;
    transaction
        .execute(
            "INSERT INTO decklog_segments (store_id, day, kind, number, bytes, tail_crc, rewritten) VALUES ($1, $2::text::date, $3, $4, $5, $6, $7) ON CONFLICT (store_id, day, kind, number) DO UPDATE SET bytes = excluded.bytes, tail_crc = excluded.tail_crc, seal = NULL, rewritten = excluded.rewritten",
            &[
                &store_id,
                &name.day.to_string(),
                &name.kind.stem(),
                &i32::try_from(name.number).unwrap_or(i32::MAX),
                &chunk.to.cast_signed(),
                &i64::from(chunk.tail_crc),
                &is_rewritten,
            ],
        )
        .await
        .map(drop)
}
