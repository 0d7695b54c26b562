//! The sums of each day's messages, in `daily_totals`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::binary::Rows;
use super::changes::lock_store;
use super::rows::copy_in;
use super::schema::{self, TOTALS, quoted};
use super::{Session, failed};
use crate::error::{Error, ErrorKind, Result};
use crate::query::RollupQuery;
use crate::record::columns::{Cell, Row};
use crate::record::declare::Fields as _;
use crate::record::{Day, Kind, Rollup};
use crate::segment::seal::Digest;
use crate::store::{Point, Store};

/// When to sum again. While a log is followed, it takes at most a tenth of the time.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    next: Option<Instant>,
}

impl Schedule {
    pub(super) fn due(&self, follows: bool) -> bool {
        !follows || self.next.is_none_or(|next| Instant::now() >= next)
    }

    pub(super) fn took(&mut self, time: Duration) {
        self.next = Some(Instant::now() + 10 * time);
    }
}

impl Session {
    /// Sums the days whose messages or rollups have changed since they were summed.
    pub(super) async fn sum_days(&mut self, store: &Store, point: &Point) -> Result<()> {
        let summing = |e: tokio_postgres::Error| failed("write", TOTALS, &e);
        let store_id = point.store_id;
        let rows = self
            .client
            .query(
                "SELECT day::text, summed FROM decklog_days WHERE store_id = $1",
                &[&store_id],
            )
            .await
            .map_err(summing)?;
        let summed: BTreeMap<String, String> =
            rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let now = states(point);
        let gone = summed.keys().filter(|day| !now.contains_key(*day));
        let changed = now
            .iter()
            .filter(|(day, state)| summed.get(*day) != Some(state));
        let days: Vec<String> = gone.chain(changed.map(|(day, _)| day)).cloned().collect();
        for day in days {
            let of_day: Day = day.parse()?;
            let query = RollupQuery {
                since: Some(of_day),
                until: of_day.next(),
            };
            let sums = {
                let store = store.clone();
                let summed = tokio::task::spawn_blocking(move || store.rollups(&query));
                summed
                    .await
                    .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))??
            };
            let transaction = self.client.transaction().await.map_err(summing)?;
            lock_store(&transaction, store_id).await.map_err(summing)?;
            let sql = format!("DELETE FROM {TOTALS} WHERE store_id = $1 AND day = $2::text::date");
            transaction
                .execute(&sql, &[&store_id, &day])
                .await
                .map_err(summing)?;
            let (copy, rows) = rows_of(store_id, &sums)?;
            copy_in(&transaction, &copy, rows.into_bytes())
                .await
                .map_err(summing)?;
            match now.get(&day) {
                Some(state) => transaction
                    .execute(
                        "INSERT INTO decklog_days (store_id, day, summed) VALUES ($1, $2::text::date, $3) ON CONFLICT (store_id, day) DO UPDATE SET summed = excluded.summed",
                        &[&store_id, &day, state],
                    )
                    .await,
                None => transaction
                    .execute(
                        "DELETE FROM decklog_days WHERE store_id = $1 AND day = $2::text::date",
                        &[&store_id, &day],
                    )
                    .await,
            }
            .map_err(summing)?;
            transaction.commit().await.map_err(summing)?;
        }
        Ok(())
    }
}

/// The lengths and seals of the segments that the sums of each day depend on.
fn states(point: &Point) -> BTreeMap<String, String> {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for segment in &point.segments {
        if !matches!(segment.name.kind, Kind::Messages | Kind::Rollups) {
            continue;
        }
        let text = texts.entry(segment.name.day.to_string()).or_default();
        let seal = segment.seal.as_ref().map(|seal| seal.sha256.to_string());
        let seal = seal.unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {} {seal}", segment.name, segment.bytes);
    }
    let states = texts.into_iter();
    states
        .map(|(day, text)| (day, Digest::of(text.as_bytes()).to_string()))
        .collect()
}

fn rows_of(store_id: uuid::Uuid, sums: &[Rollup]) -> Result<(String, Rows)> {
    let columns = schema::totals_columns();
    let all = Kind::Rollups.columns();
    let mut rows = Rows::new();
    for sum in sums {
        let mut row = Row::new(Kind::Rollups);
        sum.write(&mut row)?;
        let cells: Vec<Cell> = row.into_cells();
        rows.begin(columns.len() + 1);
        rows.uuid(store_id);
        for (column, cell) in all.iter().zip(&cells) {
            if columns.iter().any(|kept| kept.name == column.name) {
                rows.cell(cell);
            }
        }
    }
    let names: Vec<String> = columns.iter().map(|column| quoted(column.name)).collect();
    let copy = format!(
        "COPY {TOTALS} (store_id, {}) FROM STDIN (FORMAT binary)",
        names.join(", ")
    );
    Ok((copy, rows))
}
