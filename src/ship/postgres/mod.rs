//! A log in PostgreSQL: the current state of each record as a row.
//!
//! The shipper goes through the segments. For each range of a segment it looks up the records that
//! the range's lines are about, and writes their current rows in one transaction with the offset
//! that it came to. So a run that dies leaves either both or neither. Rows do not depend on the
//! order in which segments are copied, since each has the record's state at the time.
//!
//! If a segment was rewritten or removed, the rows of its day that the log does not have any more
//! are deleted, and the rest of the segment is copied again.

mod binary;
mod changes;
mod connect;
mod keys;
mod rows;
mod schema;
mod totals;

use std::collections::{BTreeMap, HashSet};

use tokio_postgres::Client;
use uuid::Uuid;

use self::changes::{Work, work};
pub(super) use self::connect::Config;
use self::rows::{Chunk, Reached, chunk};
use super::{Progress, ShipOptions, Shipped};
use crate::error::{Error, ErrorKind, Result};
use crate::record::{Day, Kind, now};
use crate::segment::SegmentName;
use crate::store::{Point, Store};

/// Copies a store to one database again and again.
#[derive(Debug)]
pub(crate) struct PostgresShipper {
    config: Config,
    store: Store,
    options: ShipOptions,
    progress: Progress,
    session: Option<Session>,
    totals: totals::Schedule,
}

/// A connection, and what is known of the database.
struct Session {
    client: Client,
    /// How far each segment was copied.
    copied: BTreeMap<SegmentName, Copied>,
    /// The partitions that exist.
    partitions: HashSet<String>,
    /// The last sequence number and seal of the last run, if that also summed the days. Nothing is
    /// written until they change.
    done: Option<(u64, u64)>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// How far a segment was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Copied {
    bytes: u64,
    /// CRC-32 of the last bytes before that, as for parts in object storage.
    tail_crc: u32,
    /// The SHA-256 of its seal, once it is sealed.
    seal: Option<String>,
    /// Set while a segment that was rewritten is copied again. Until all of it is there, rows may
    /// be left of lines that it had before.
    is_rewritten: bool,
}

impl PostgresShipper {
    pub(super) fn new(
        config: Config,
        store: Store,
        options: ShipOptions,
        progress: Progress,
    ) -> PostgresShipper {
        PostgresShipper {
            config,
            store,
            options,
            progress,
            session: None,
            totals: totals::Schedule::default(),
        }
    }

    /// Copies everything up to now. After an error, the database is connected to again, and what
    /// is there is read again.
    pub(super) async fn try_ship(&mut self) -> Result<Shipped> {
        let store_id = self.store.inner().store_id();
        let point = self.store.point(false)?;
        let mut shipped = Shipped {
            store_id,
            last_seq: point.last_seq,
            ..Shipped::default()
        };
        let mut session = match self.session.take() {
            Some(session) => session,
            None => Session::open(&self.config, store_id, self.options.dry_run).await?,
        };
        let work = work(self.store.inner().storage(), &point, &session.copied)?;
        shipped.bytes = work.bytes(&point);
        self.progress.expect(shipped.bytes);
        if self.options.dry_run {
            return Ok(shipped);
        }
        let state = (point.last_seq, point.last_seal);
        if work.is_none() && session.done == Some(state) {
            self.session = Some(session);
            return Ok(shipped);
        }
        for (kind, day) in &work.rewritten {
            let removed = session.reconcile(&self.store, &point, *kind, *day).await?;
            shipped.rows_removed += removed;
        }
        self.copy(&mut session, &point, &work, &mut shipped).await?;
        session.close_segments(store_id, &point).await?;
        let follows = self.options.follows;
        let totals = self.totals.due(follows);
        if totals {
            let began = std::time::Instant::now();
            session.sum_days(&self.store, &point).await?;
            self.totals.took(began.elapsed());
        }
        session.end_run(store_id, point.last_seq).await?;
        session.done = totals.then_some(state);
        self.session = Some(session);
        Ok(shipped)
    }

    /// Copies the new ranges of all segments, in chunks. The next chunk is read while one is
    /// written.
    async fn copy(
        &self,
        session: &mut Session,
        point: &Point,
        work: &Work,
        shipped: &mut Shipped,
    ) -> Result<()> {
        let (sender, mut chunks) = tokio::sync::mpsc::channel::<Result<Chunk>>(1);
        let (store, ranges) = (self.store.clone(), work.ranges(point));
        let copied = session.copied.iter();
        let mut reached: Reached = copied.map(|(name, copied)| (*name, copied.bytes)).collect();
        let reader = tokio::task::spawn_blocking(move || {
            for (segment, from) in ranges {
                let mut at = from;
                while at < segment.bytes {
                    let read = chunk(&store, &segment, at, &mut reached);
                    let next = read.as_ref().map(|chunk| chunk.to).ok();
                    if sender.blocking_send(read).is_err() {
                        return;
                    }
                    match next {
                        Some(next) => at = next,
                        None => return,
                    }
                }
            }
        });
        let copied = async {
            while let Some(chunk) = chunks.recv().await {
                let chunk = chunk?;
                shipped.rows_written += session.write(point.store_id, &chunk).await?;
                self.progress.advance(chunk.to - chunk.from);
            }
            Ok(())
        };
        let copied = copied.await;
        drop(chunks);
        let read = reader.await;
        copied.and(read.map_err(|e| Error::new(ErrorKind::Io, e.to_string())))
    }
}

impl Session {
    async fn open(config: &Config, store_id: Uuid, is_dry: bool) -> Result<Session> {
        let client = config.connect().await?;
        let mut session = Session {
            client,
            copied: BTreeMap::new(),
            partitions: HashSet::new(),
            done: None,
        };
        if is_dry && !session.has_tables().await? {
            return Ok(session);
        }
        if !is_dry {
            session.migrate(store_id).await?;
        }
        session.load(store_id).await?;
        Ok(session)
    }

    async fn has_tables(&self) -> Result<bool> {
        let row = self
            .client
            .query_one("SELECT to_regclass('decklog_segments') IS NOT NULL", &[])
            .await;
        Ok(row.map_err(|e| failed("look at", "the tables", &e))?.get(0))
    }

    /// Creates the tables, and adds the columns of fields that are new. Other processes wait.
    async fn migrate(&mut self, store_id: Uuid) -> Result<()> {
        let migrating = |e: tokio_postgres::Error| failed("create", "the tables", &e);
        let transaction = self.client.transaction().await.map_err(migrating)?;
        let mut sql = "SELECT pg_advisory_xact_lock(hashtext('decklog'));\n".to_owned();
        sql.push_str(schema::OWN_TABLES);
        for kind in schema::KINDS {
            sql.push_str(&schema::create_table(kind));
        }
        sql.push_str(&schema::create_totals());
        transaction.batch_execute(&sql).await.map_err(migrating)?;
        let totals = schema::totals_columns();
        let tables = schema::KINDS.map(|kind| (kind.stem(), kind.columns()));
        for (table, columns) in tables.into_iter().chain([(schema::TOTALS, &*totals)]) {
            let rows = transaction
                .query(
                    "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
                    &[&table],
                )
                .await
                .map_err(migrating)?;
            let known: HashSet<String> = rows.iter().map(|row| row.get(0)).collect();
            for column in columns.iter().filter(|column| !known.contains(column.name)) {
                let sql_type = schema::sql_type(column.column_type);
                let name = schema::quoted(column.name);
                let sql = format!("ALTER TABLE {table} ADD COLUMN {name} {sql_type}");
                transaction.batch_execute(&sql).await.map_err(migrating)?;
            }
        }
        transaction
            .execute(
                "INSERT INTO decklog_stores (store_id) VALUES ($1) ON CONFLICT DO NOTHING",
                &[&store_id],
            )
            .await
            .map_err(migrating)?;
        transaction.commit().await.map_err(migrating)?;
        Ok(())
    }

    /// Reads how far each segment was copied.
    async fn load(&mut self, store_id: Uuid) -> Result<()> {
        let loading = |e: tokio_postgres::Error| failed("read", "decklog_segments", &e);
        let rows = self
            .client
            .query(
                "SELECT day::text, kind, number, bytes, tail_crc, seal, rewritten FROM decklog_segments WHERE store_id = $1",
                &[&store_id],
            )
            .await
            .map_err(loading)?;
        for row in rows {
            let (day, kind): (String, String) = (row.get(0), row.get(1));
            let (number, bytes, crc): (i32, i64, i64) = (row.get(2), row.get(3), row.get(4));
            let name = day.parse::<Day>().ok().zip(Kind::from_stem(&kind));
            let number = u32::try_from(number).ok();
            let (Some((day, kind)), Some(number)) = (name, number) else {
                let message =
                    format!("decklog_segments has the row {day} {kind}, which is no segment");
                return Err(Error::new(ErrorKind::Remote, message));
            };
            let copied = Copied {
                bytes: bytes.cast_unsigned(),
                tail_crc: u32::try_from(crc).unwrap_or_default(),
                seal: row.get(5),
                is_rewritten: row.get(6),
            };
            self.copied
                .insert(SegmentName { day, kind, number }, copied);
        }
        let rows = self
            .client
            .query(
                "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = ANY($1::text[]::regclass[])",
                &[&schema::KINDS.map(Kind::stem).to_vec()],
            )
            .await
            .map_err(loading)?;
        self.partitions = rows.iter().map(|row| row.get(0)).collect();
        Ok(())
    }

    /// Notes the seals of segments that were copied before they were sealed.
    async fn close_segments(&mut self, store_id: Uuid, point: &Point) -> Result<()> {
        for segment in &point.segments {
            let Some(seal) = &segment.seal else { continue };
            let sha256 = seal.sha256.to_string();
            let Some(copied) = self.copied.get_mut(&segment.name) else {
                continue;
            };
            if copied.bytes != segment.bytes || copied.seal.as_ref() == Some(&sha256) {
                continue;
            }
            let name = segment.name;
            self.client
                .execute(
                    "UPDATE decklog_segments SET seal = $1 WHERE store_id = $2 AND day = $3::text::date AND kind = $4 AND number = $5 AND bytes = $6",
                    &[
                        &sha256,
                        &store_id,
                        &name.day.to_string(),
                        &name.kind.stem(),
                        &i32::try_from(name.number).unwrap_or(i32::MAX),
                        &segment.bytes.cast_signed(),
                    ],
                )
                .await
                .map_err(|e| failed("write", "decklog_segments", &e))?;
            copied.seal = Some(sha256);
        }
        Ok(())
    }

    async fn end_run(&self, store_id: Uuid, last_seq: u64) -> Result<()> {
        let last_seq = last_seq.cast_signed();
        #[allow(clippy::cast_precision_loss)] // Milliseconds are exact.
        let seconds = now() as f64 / 1_000.0;
        self.client
            .execute(
                "UPDATE decklog_stores SET last_seq = $2, shipped_at = to_timestamp($3) WHERE store_id = $1",
                &[&store_id, &last_seq, &seconds],
            )
            .await
            .map_err(|e| failed("write", "decklog_stores", &e))?;
        Ok(())
    }
}

/// An error with what it comes from: a refused connection, an unknown certificate.
fn with_causes(e: &dyn std::error::Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        let more = e.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = e.source();
    }
    text
}

/// The error of a statement. A conflict with another shipper is tried again.
fn failed(doing: &str, what: &str, e: &tokio_postgres::Error) -> Error {
    use tokio_postgres::error::SqlState;
    let is_passing = e.code().is_some_and(|code| {
        *code == SqlState::T_R_SERIALIZATION_FAILURE
            || *code == SqlState::T_R_DEADLOCK_DETECTED
            || *code == SqlState::LOCK_NOT_AVAILABLE
    });
    let kind = if is_passing {
        ErrorKind::Conflict
    } else {
        ErrorKind::Remote
    };
    let reason = match e.as_db_error() {
        Some(error) => error.to_string(),
        None => with_causes(e),
    };
    Error::new(
        kind,
        format!("cannot {doing} {what} in PostgreSQL: {reason}"),
    )
}
