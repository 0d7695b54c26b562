//! Engines with tables of current records.

use std::fmt::Write as _;

use super::fields::listed;
use super::kinds;
use super::location::{absolute, quoted};
use crate::error::{Error, Result};
use crate::record::Kind;

/// The columns of a kind. A rollup's own day is that of its row.
fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    let names = kind.columns().iter().map(|column| column.name);
    names.filter(|name| *name != "day")
}

/// The views over files of `decklog export sqlite`.
pub(super) fn sqlite<'a>(files: impl Iterator<Item = &'a str>) -> Result<String> {
    let files = files.map(absolute).collect::<Result<Vec<_>>>()?;
    if files.is_empty() {
        return Err(Error::invalid("give the files of 'decklog export sqlite'"));
    }
    let mut script = "\
-- Views for SQLite, tried with 3.40.1, over files of `decklog export sqlite`, one a store. The tables
-- of a file have the names and the columns of the views: for one file this is not needed. SQLite
-- attaches 10 files at most, unless it was built for more.
"
    .to_owned();
    // Writing to a String cannot fail, here and below.
    for (nth, file) in files.iter().enumerate() {
        let _ = writeln!(script, "\nATTACH {} AS store_{nth};", quoted(file));
    }
    for kind in kinds() {
        let columns = listed(["store_id", "seq", "day"].into_iter().chain(names(kind)), 4);
        let selects =
            (0..files.len()).map(|nth| format!("SELECT\n{columns}\nFROM store_{nth}.{kind}"));
        let selects = selects.collect::<Vec<_>>().join("\nUNION ALL\n");
        let _ = writeln!(script, "\nCREATE TEMP VIEW {kind} AS\n{selects};");
    }
    Ok(script)
}

/// The views over the tables that are shipped to PostgreSQL.
pub(super) fn postgresql<'a>(mut locations: impl Iterator<Item = &'a str>) -> Result<String> {
    let is_url = |it: &str| it.starts_with("postgres://") || it.starts_with("postgresql://");
    if locations.next().is_some_and(|first| !is_url(first)) || locations.next().is_some() {
        return Err(Error::invalid(
            "the views of postgresql are over the tables of one database: give its URL, or nothing",
        ));
    }
    let mut script = "\
-- Views for PostgreSQL, tried with 15.18, over the tables of `decklog ship postgres://…`. A table has
-- the columns of its view except the day. The views hide the tables from this session. A condition
-- on the time of the records (timestamp, started_at or created_at) reads only the partitions of
-- these days; one on day reads all.
SET TimeZone = 'UTC';
"
    .to_owned();
    // The sums of days are in daily_totals.
    for kind in kinds().filter(|kind| *kind != Kind::Rollups) {
        let day = format!(
            "CAST({} AT TIME ZONE 'UTC' AS date) AS day",
            kind.time_column()
        );
        let names = names(kind).map(str::to_owned);
        let own = ["store_id".to_owned(), "seq".to_owned(), day];
        let columns = listed(own.into_iter().chain(names), 4);
        let _ = writeln!(
            script,
            "\nCREATE OR REPLACE TEMP VIEW {kind} AS\nSELECT\n{columns}\nFROM public.{kind};"
        );
    }
    Ok(script)
}
