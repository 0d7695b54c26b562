//! Full-text search over the log, latest records first.

mod blocks;
mod cursor;
mod needle;
mod raw;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
#[cfg(any(feature = "http", feature = "page"))]
use std::time::Instant;

use serde::Serialize;
use uuid::Uuid;

pub use self::cursor::SearchCursor;
use self::needle::Needle;
pub(crate) use self::needle::clipped;
use crate::error::Result;
use crate::line::{Envelope, Value};
use crate::record::{Day, Kind};
use crate::store::{Hit, Scope, Step, Store};

/// Keys longer than this are cut. Keys that decklog wrote are shorter.
const KEY_BYTES_MAX: usize = 2048;

/// A search of the log.
#[derive(Debug, Clone)]
pub struct SearchQuery {
    /// The literal text, without wildcards. Case is ignored. Maximum: 1024 bytes.
    pub text: String,
    /// Only records of this kind.
    pub kind: Option<Kind>,
    /// Only records of this time or later, in epoch milliseconds, by the record's own time.
    pub since: Option<i64>,
    /// Only records before this time, in epoch milliseconds.
    pub until: Option<i64>,
    /// Maximum number of matches; 0 gives none. Default: 100.
    pub limit: usize,
    /// Start of the search: the `next` of an earlier search.
    pub after: Option<SearchCursor>,
}

impl Default for SearchQuery {
    fn default() -> SearchQuery {
        SearchQuery {
            text: String::new(),
            kind: None,
            since: None,
            until: None,
            limit: super::page::PAGE_LIMIT,
            after: None,
        }
    }
}

/// A line of the log that contains the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct SearchMatch {
    /// The sequence number of the line.
    pub seq: u64,
    /// The kind of the record.
    #[cfg_attr(feature = "wire", schema(value_type = String))]
    pub kind: Kind,
    /// The record's key: its id, or the ids of the request and the call with a space between.
    pub key: String,
    /// The record's own time, in epoch milliseconds.
    pub at: i64,
    /// The field with the match, as a JSON pointer: `/content`, `/arguments_json/path`. The first
    /// one if there are several.
    pub field: String,
    /// About 160 characters of that field, around the match; `…` marks a cut. It is untrusted text:
    /// escape it before you show it.
    pub snippet: String,
    /// The conversation of a message, or the conversation itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Found {
    /// The matches, latest day first; within a day, latest recorded first.
    pub matches: Vec<SearchMatch>,
    /// Where to continue the search. Absent if everything was searched. There may be no more
    /// matches.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "wire", schema(value_type = Option<String>))]
    pub next: Option<SearchCursor>,
    /// Whether the search reached its limit or the end of the log. `false`: it was ended early.
    pub is_whole: bool,
}

/// The progress of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SearchProgress {
    /// Number of bytes read or skipped.
    pub bytes_read: u64,
    /// Maximum number of bytes to read.
    pub bytes_all: u64,
}

impl Store {
    /// Searches the log for a text, latest records first.
    ///
    /// Searches the texts of all lines, including texts in logged JSON, but not member names and
    /// numbers. Case is ignored, by Unicode's simple case folding. Retracted records and superseded
    /// versions are found too; removed records are not. Damaged lines are skipped.
    ///
    /// Days are searched from the latest to the earliest, by the records' own time; within a day,
    /// the latest recorded line comes first. A line in the directory of another day is found with
    /// that day. The log is read until there are enough matches, on all cores while there are none;
    /// nothing is cached.
    ///
    /// ```
    /// # use decklog::{Store, event_type};
    /// # use decklog::query::SearchQuery;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let payload = r#"{"reason":"Disk is FULL"}"#;
    /// store.log_event(None, event_type::AGENT_FAILED, Some(payload))?;
    /// let query = SearchQuery { text: "disk is full".into(), limit: 20, ..SearchQuery::default() };
    /// let found = store.search(&query)?;
    /// assert_eq!(found.matches[0].field, "/payload/reason");
    /// assert_eq!(found.matches[0].snippet, "Disk is FULL");
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the text is empty or longer than 1024
    /// bytes; [`Io`](crate::ErrorKind::Io) if the log cannot be read.
    pub fn search(&self, query: &SearchQuery) -> Result<Found> {
        self.search_with(query, &mut |_| ControlFlow::Continue(()))
    }

    /// Like [`search`](Store::search), but returns the matches found so far when `end` has come.
    #[cfg(any(feature = "http", feature = "page"))]
    pub(crate) fn search_until(&self, query: &SearchQuery, end: Instant) -> Result<Found> {
        self.search_with(query, &mut |_| {
            if Instant::now() < end {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })
    }

    /// Like [`search`](Store::search), but calls `go_on` after every 256 KiB, or after every
    /// segment with damage, or after at most 32 MiB without a match, which are read on all cores.
    /// If it breaks, returns the matches found so far, and where to continue.
    ///
    /// # Errors
    /// As [`search`](Store::search).
    pub fn search_with(
        &self,
        query: &SearchQuery,
        go_on: &mut dyn FnMut(SearchProgress) -> ControlFlow<()>,
    ) -> Result<Found> {
        let needle = Needle::new(&query.text)?;
        let mut finding = Finding::new(query, &needle);
        if query.limit == 0 {
            return Ok(finding.found(None, true));
        }
        let from = query.after.map(|after| (after.day, after.seq));
        let mut lines = self
            .inner()
            .reverse_scan(finding.scope, &needle.lines, from)?;
        loop {
            let step = lines.step(&mut |hit| finding.look(&hit))?;
            if let Step::Again(rest) = step {
                finding.keep_after(rest);
            }
            if lines.day() != finding.day {
                finding.turn_to(lines.day());
            }
            match step {
                Step::End => return Ok(finding.found(None, true)),
                Step::Read => {}
                Step::Day(_) | Step::Again(_) => continue,
            }
            let rest = lines.rest();
            if finding.is_full(rest) {
                return Ok(finding.full());
            }
            // The cursor must move forward, or the next search would begin where this one began.
            if rest.is_some() && lines.day().zip(rest) == from {
                continue;
            }
            let (bytes_read, bytes_all) = lines.bytes();
            let progress = SearchProgress {
                bytes_read,
                bytes_all,
            };
            if go_on(progress).is_break() {
                return Ok(finding.broken_off(rest));
            }
        }
    }
}

/// The state of a search in progress.
struct Finding<'a> {
    query: &'a SearchQuery,
    needle: &'a Needle,
    scope: Scope,
    /// The day that is being searched.
    day: Option<Day>,
    /// The matches of this day, at most as many as are needed.
    of_day: BTreeSet<Ranked>,
    /// The matches of later days.
    matches: Vec<SearchMatch>,
}

/// A match, ordered within its day. Identical matches from copies of a line are equal.
#[derive(Debug, PartialEq, Eq)]
struct Ranked(SearchMatch);

impl Ranked {
    /// Sequence numbers differ, unless the log was edited; the rest only makes the order stable.
    fn rank(&self) -> impl Ord + '_ {
        let Ranked(found) = self;
        let place = (Reverse(found.seq), found.kind, found.at);
        let texts = (&found.key, &found.field, &found.snippet);
        (place, texts, found.conversation_id)
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Finding<'_> {
    fn new<'a>(query: &'a SearchQuery, needle: &'a Needle) -> Finding<'a> {
        Finding {
            query,
            needle,
            scope: Scope {
                kind: query.kind,
                since: query.since.unwrap_or(i64::MIN),
                until: query.until.unwrap_or(i64::MAX),
            },
            day: None,
            of_day: BTreeSet::new(),
            matches: Vec::new(),
        }
    }

    /// Number of matches on the cursor's line that were already returned, if the cursor is on this
    /// day.
    fn given_at(&self, seq: u64) -> usize {
        let after = self.query.after;
        let after = after.filter(|after| Some(after.day) == self.day && after.seq == seq);
        after.map_or(0, |after| after.given)
    }

    /// Number of matches of this day that were found again but were already returned.
    fn given(&self) -> usize {
        let Some(SearchCursor { seq, .. }) = self.query.after else {
            return 0;
        };
        let given = self.given_at(seq);
        let first = self.of_day.iter().take(given);
        first.take_while(|Ranked(found)| found.seq == seq).count()
    }

    /// Number of matches of this day that are still needed.
    fn needed(&self) -> usize {
        let left = self.query.limit - self.matches.len();
        left.saturating_add(self.given())
    }

    fn look(&mut self, hit: &Hit<'_>) {
        let is_enough = self.of_day.len() >= self.needed();
        let last = self.of_day.last().filter(|_| is_enough);
        let is_late = last.is_some_and(|Ranked(last)| hit.seq < last.seq);
        let Scope { since, until, .. } = self.scope;
        if is_late || !(since..until).contains(&hit.envelope.at) {
            return;
        }
        if let Some((field, snippet)) = self.needle.find(hit.bytes) {
            self.of_day.insert(Ranked(SearchMatch {
                seq: hit.seq,
                kind: hit.kind,
                key: clipped(key_of(hit.envelope), KEY_BYTES_MAX),
                at: hit.envelope.at,
                field,
                snippet,
                conversation_id: conversation_of(hit.kind, hit.envelope),
            }));
            // The new match may be one that was already returned; then one more is needed.
            if self.of_day.len() > self.needed() {
                self.of_day.pop_last();
            }
        }
    }

    /// Keeps the matches of the day with greater sequence numbers than this.
    fn keep_after(&mut self, rest: u64) {
        self.of_day.retain(|Ranked(found)| found.seq > rest);
    }

    /// Whether there are enough matches, and no line up to `rest` can come before them.
    fn is_full(&self, rest: Option<u64>) -> bool {
        let last = self.of_day.last();
        self.of_day.len() >= self.needed() && last.is_some_and(|Ranked(last)| Some(last.seq) > rest)
    }

    /// Adds the matches of the finished day to the result; returns their number.
    fn take_day(&mut self) -> usize {
        let given = self.given();
        let of_day = std::mem::take(&mut self.of_day).into_iter().skip(given);
        let before = self.matches.len();
        self.matches.extend(of_day.map(|Ranked(found)| found));
        self.matches.truncate(self.query.limit);
        self.matches.len() - before
    }

    fn turn_to(&mut self, day: Option<Day>) {
        self.take_day();
        self.day = day;
    }

    fn found(&mut self, next: Option<SearchCursor>, is_whole: bool) -> Found {
        Found {
            matches: std::mem::take(&mut self.matches),
            next,
            is_whole,
        }
    }

    /// The result of a search that found enough matches.
    fn full(&mut self) -> Found {
        let of_day = self.take_day();
        let last = self.matches.last().map(|last| last.seq);
        let next = self.day.zip(last).map(|(day, seq)| {
            let of_day = self.matches.iter().rev().take(of_day);
            let same = of_day.take_while(|found| found.seq == seq).count();
            let given = self.given_at(seq).saturating_add(same);
            SearchCursor { day, seq, given }
        });
        self.found(next, true)
    }

    /// The result of a search that ends while the lines of the day up to sequence number `rest`
    /// have not been searched.
    fn broken_off(&mut self, rest: Option<u64>) -> Found {
        let next = match (self.day, rest) {
            (Some(day), Some(seq)) => {
                self.keep_after(seq);
                let given = self.given_at(seq);
                Some(SearchCursor { day, seq, given })
            }
            (Some(day), None) => SearchCursor::before(day),
            (None, _) => None,
        };
        self.take_day();
        self.found(next, false)
    }
}

/// A record's key in readable form.
fn key_of(envelope: &Envelope<'_>) -> String {
    let [one, other] = envelope.key.each_ref().map(text_of);
    if other.is_empty() {
        return one;
    }
    format!("{one} {other}")
}

fn text_of(value: &Value<'_>) -> String {
    let mut buffer = [0; Value::BYTES];
    String::from_utf8_lossy(value.text(&mut buffer)).into_owned()
}

/// The conversation that a record is or belongs to.
fn conversation_of(kind: Kind, envelope: &Envelope<'_>) -> Option<Uuid> {
    let id = match kind {
        Kind::Conversations => Some(&envelope.key[0]),
        Kind::Messages => envelope.lookups[0].as_ref(),
        _ => None,
    };
    id.and_then(|id| text_of(id).parse().ok())
}

#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
