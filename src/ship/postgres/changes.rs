//! Finds what to copy and what to remove.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use uuid::Uuid;

use super::keys::Stage;
use super::rows::copy_in;
use super::schema::{self, quoted};
use super::{Copied, Session, failed};
use crate::error::Result;
use crate::record::{Day, Kind};
use crate::segment::SegmentName;
use crate::storage::Storage;
use crate::store::{Point, PointSegment, Store};

/// What differs between the log and the database.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Where to go on in each segment that has more.
    from: BTreeMap<SegmentName, u64>,
    /// The days of kinds with segments that were rewritten or removed.
    pub rewritten: BTreeSet<(Kind, Day)>,
}

/// Compares the log with what was copied. A segment was rewritten if it is shorter, does not match
/// its seal any more, or ends otherwise where the copy ended.
pub(super) fn work(
    storage: &dyn Storage,
    point: &Point,
    copied: &BTreeMap<SegmentName, Copied>,
) -> Result<Work> {
    let mut work = Work::default();
    let segments = point.segments.iter().filter(|it| is_copied(it.name.kind));
    let present: BTreeMap<SegmentName, &PointSegment> =
        segments.map(|segment| (segment.name, segment)).collect();
    for (name, copied) in copied {
        let is_same = match present.get(name) {
            None => false,
            Some(segment) => is_continued(storage, segment, copied)?,
        };
        if !is_same {
            work.rewritten.insert((name.kind, name.day));
        }
    }
    for (name, segment) in present {
        let known = copied.get(&name).map_or(0, |copied| copied.bytes);
        if work.rewritten.contains(&(name.kind, name.day)) {
            work.from.insert(name, 0);
        } else if known < segment.bytes {
            work.from.insert(name, known);
        }
    }
    Ok(work)
}

fn is_copied(kind: Kind) -> bool {
    schema::KINDS.contains(&kind)
}

fn is_continued(storage: &dyn Storage, segment: &PointSegment, copied: &Copied) -> Result<bool> {
    if copied.bytes > segment.bytes || copied.is_rewritten {
        return Ok(false);
    }
    if let (Some(sha256), Some(seal)) = (&copied.seal, &segment.seal) {
        return Ok(*sha256 == seal.sha256.to_string());
    }
    Ok(segment.tail_crc(storage, copied.bytes)? == copied.tail_crc)
}

impl Work {
    pub(super) fn is_none(&self) -> bool {
        self.from.is_empty() && self.rewritten.is_empty()
    }

    /// Size of what is to be copied, in bytes of lines.
    pub(super) fn bytes(&self, point: &Point) -> u64 {
        let ranges = self.ranges(point).into_iter();
        ranges.map(|(segment, from)| segment.bytes - from).sum()
    }

    /// The segments to copy, each from an offset, in the order of days.
    pub(super) fn ranges(&self, point: &Point) -> Vec<(PointSegment, u64)> {
        let segments = point.segments.iter();
        let mut ranges: Vec<(PointSegment, u64)> = segments
            .filter_map(|segment| Some((segment.clone(), *self.from.get(&segment.name)?)))
            .collect();
        let place = |kind| schema::KINDS.iter().position(|it| *it == kind);
        ranges
            .sort_by_key(|(segment, _)| (segment.name.day, place(segment.name.kind), segment.name));
        ranges
    }
}

impl Session {
    /// Deletes the rows of a day and kind that the log does not have any more, and notes that the
    /// day's segments are to be copied again. Returns the number of rows deleted.
    pub(super) async fn reconcile(
        &mut self,
        store: &Store,
        point: &Point,
        kind: Kind,
        day: Day,
    ) -> Result<u64> {
        let removing = |e: tokio_postgres::Error| failed("remove", kind.stem(), &e);
        let segments = point.segments.iter();
        let segments: Vec<&PointSegment> = segments
            .filter(|segment| (segment.name.kind, segment.name.day) == (kind, day))
            .collect();
        let (table, text) = (quoted(kind.stem()), day.to_string());
        let time = quoted(kind.time_column());
        let store_id = point.store_id;
        let transaction = self.client.transaction().await.map_err(removing)?;
        lock_store(&transaction, store_id).await.map_err(removing)?;
        let of_day = format!(
            "t.store_id = $1 AND t.{time} >= $2::text::date::timestamp AT TIME ZONE 'UTC' AND t.{time} < ($2::text::date + 1)::timestamp AT TIME ZONE 'UTC'"
        );
        let deleted = if segments.is_empty() {
            let sql = format!("DELETE FROM {table} t WHERE {of_day}");
            transaction.execute(&sql, &[&store_id, &text]).await
        } else {
            let stage = Stage::of_keys(kind);
            let create = transaction.batch_execute(&stage.create).await;
            create.map_err(removing)?;
            for segment in &segments {
                let keys = store.keys_of_range(segment, 0, segment.bytes)?;
                let lines = keys.times.iter().filter_map(|(place, at)| {
                    let key = keys.texts.get(*place)?;
                    Some((key, Some(*at)))
                });
                let rows = stage.rows(lines).into_bytes();
                let copied = copy_in(&transaction, &stage.copy, rows).await;
                copied.map_err(removing)?;
            }
            let mut is_same = stage.is_same();
            if schema::may_move(kind) {
                // Writing to a String cannot fail.
                let _ = write!(is_same, " AND k.at = t.{time}");
            }
            let sql = format!(
                "DELETE FROM {table} t WHERE {of_day} AND NOT EXISTS (SELECT FROM decklog_keys k WHERE {is_same})"
            );
            transaction.execute(&sql, &[&store_id, &text]).await
        };
        let deleted = deleted.map_err(removing)?;
        transaction
            .execute(
                "DELETE FROM decklog_segments WHERE store_id = $1 AND day = $2::text::date AND kind = $3",
                &[&store_id, &text, &kind.stem()],
            )
            .await
            .map_err(removing)?;
        let numbers: Vec<i32> = segments
            .iter()
            .map(|segment| i32::try_from(segment.name.number).unwrap_or(i32::MAX))
            .collect();
        transaction
            .execute(
                "INSERT INTO decklog_segments (store_id, day, kind, number, bytes, tail_crc, rewritten) SELECT $1, $2::text::date, $3, number, 0, 0, true FROM unnest($4::integer[]) number",
                &[&store_id, &text, &kind.stem(), &numbers],
            )
            .await
            .map_err(removing)?;
        transaction.commit().await.map_err(removing)?;
        self.copied
            .retain(|name, _| (name.kind, name.day) != (kind, day));
        for segment in &segments {
            let copied = Copied {
                bytes: 0,
                tail_crc: 0,
                seal: None,
                is_rewritten: true,
            };
            self.copied.insert(segment.name, copied);
        }
        if segments.is_empty() {
            self.drop_if_empty(kind, &text).await?;
        }
        Ok(deleted)
    }

    /// Drops the partition of a day if no store has rows in it.
    async fn drop_if_empty(&mut self, kind: Kind, day: &str) -> Result<()> {
        let partition = schema::partition(kind, day);
        if !self.partitions.contains(&partition) {
            return Ok(());
        }
        let dropping = |e: tokio_postgres::Error| failed("drop", &partition, &e);
        let name = quoted(&partition);
        let transaction = self.client.transaction().await.map_err(dropping)?;
        // Another store may be about to write to it. The lock waits for that, but not for long.
        let locked =
            format!("SET LOCAL lock_timeout = '2s'; LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE");
        if transaction.batch_execute(&locked).await.is_err() {
            // An empty partition does no harm. The next removal of the day drops it.
            return transaction.rollback().await.map_err(dropping);
        }
        let row = transaction
            .query_one(&format!("SELECT EXISTS (SELECT FROM {name})"), &[])
            .await
            .map_err(dropping)?;
        if row.get(0) {
            return transaction.rollback().await.map_err(dropping);
        }
        transaction
            .batch_execute(&format!("DROP TABLE {name}"))
            .await
            .map_err(dropping)?;
        transaction.commit().await.map_err(dropping)?;
        self.partitions.remove(&partition);
        Ok(())
    }
}

/// Waits until no other transaction copies this store.
pub(super) async fn lock_store(
    transaction: &tokio_postgres::Transaction<'_>,
    store_id: Uuid,
) -> Result<(), tokio_postgres::Error> {
    transaction
        .execute(
            "SELECT FROM decklog_stores WHERE store_id = $1 FOR UPDATE",
            &[&store_id],
        )
        .await
        .map(drop)
}
