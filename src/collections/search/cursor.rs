//! The position at which a search continues.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::error::{Error, Result};
use crate::record::Day;

/// A position in the matches of a search. It stays valid while records are added, and in every
/// process.
///
/// ```
/// let cursor: decklog::query::SearchCursor = "2025-12-27-1042-1".parse()?;
/// assert_eq!(cursor.to_string(), "2025-12-27-1042-1");
/// # Ok::<(), decklog::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchCursor {
    /// The day to continue with.
    pub(super) day: Day,
    /// Lines with greater sequence numbers are skipped.
    pub(super) seq: u64,
    /// Number of matches with that sequence number that were already returned. Two lines have the
    /// same number only if the log was edited.
    pub(super) given: usize,
}

impl SearchCursor {
    /// Just before the first line of a day, at the end of the day before; `None` if there is no day
    /// before it.
    pub(super) fn before(day: Day) -> Option<SearchCursor> {
        let before = day.minus(1);
        (before < day).then_some(SearchCursor {
            day: before,
            seq: u64::MAX,
            given: 0,
        })
    }
}

impl fmt::Display for SearchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.day, self.seq, self.given)
    }
}

impl FromStr for SearchCursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<SearchCursor> {
        let read = || {
            let (rest, given) = text.rsplit_once('-')?;
            let (day, seq) = rest.rsplit_once('-')?;
            Some(SearchCursor {
                day: day.parse().ok()?,
                seq: seq.parse().ok()?,
                given: given.parse().ok()?,
            })
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(80).collect();
            Error::invalid(format!(
                "{shown:?} is not a cursor of a search: give one that a search returned"
            ))
        })
    }
}

impl Serialize for SearchCursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
