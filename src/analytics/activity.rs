//! Activity by hour.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use super::{Analytics, lock};
use crate::collections::times_of;
use crate::error::{Error, Result};
use crate::record::{Day, Kind};

const HOUR_MS: i64 = 3_600_000;

/// The activity of an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct HourActivity {
    /// The start of the hour, in epoch milliseconds.
    pub at: i64,
    /// Number of messages.
    pub messages: u64,
    /// Number of tool calls that were started.
    pub tool_calls: u64,
}

impl Analytics {
    /// The number of messages and tool calls in each hour, by their own times, from `since` to
    /// before `until`, both in epoch milliseconds. Hours without any are left out. Removed records
    /// are not counted.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// # let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// # store.record(conversation.clone())?;
    /// let message = ConversationMessage::new(conversation.id, Role::User, "hi");
    /// let at = message.timestamp.at();
    /// store.record(message)?;
    /// let hours = store.analytics().activity(at - 86_400_000, at + 1)?;
    /// assert_eq!((hours.len(), hours[0].messages), (1, 1));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `until` is before `since`.
    pub fn activity(&self, since: i64, until: i64) -> Result<Vec<HourActivity>> {
        if until < since {
            let message = "the period ends before it begins: give a later end";
            return Err(Error::invalid(message));
        }
        let mut hours: BTreeMap<i64, HourActivity> = BTreeMap::new();
        for kind in [Kind::Messages, Kind::ToolCalls] {
            let mut add = |start: i64, count: u64| {
                let hour = hours.entry(start).or_default();
                hour.at = start;
                match kind {
                    Kind::Messages => hour.messages += count,
                    _ => hour.tool_calls += count,
                }
            };
            let whole = whole_days(since, until);
            let counted = whole.clone().map(|days| self.counted(kind, days));
            let counted = counted.transpose()?.flatten();
            let rest = match (whole, &counted) {
                (Some(days), Some(_)) => {
                    let [first, end] = [days.start, days.end].map(|day| day.bounds_ms().0);
                    [since..first, end..until]
                }
                _ => [since..until, until..until],
            };
            for (day, counts) in counted.into_iter().flatten() {
                let start = day.bounds_ms().0;
                for (nth, count) in (0..).zip(counts).filter(|(_, count)| *count > 0) {
                    add(start + nth * HOUR_MS, count.into());
                }
            }
            for part in rest {
                times_of(&self.store, kind, part.start, part.end, |at| {
                    add(at.div_euclid(HOUR_MS) * HOUR_MS, 1);
                })?;
            }
        }
        Ok(hours.into_values().collect())
    }

    /// The numbers of records of these days by hour, if an earlier report counted them: else it
    /// takes less time to look up their times.
    fn counted(&self, kind: Kind, days: Range<Day>) -> Result<Option<BTreeMap<Day, Hours>>> {
        if kind == Kind::ToolCalls {
            let mut calls = lock(&self.calls);
            if !calls.is_read() {
                return Ok(None);
            }
            calls.catch_up(&self.store)?;
            return Ok(Some(calls.hours(days)));
        }
        if lock(&self.kept).watermark.is_none() {
            return Ok(None);
        }
        let kept = self.caught_up()?;
        let of_days = kept.days.range(days);
        Ok(Some(
            of_days.map(|(day, kept)| (*day, kept.hours)).collect(),
        ))
    }
}

/// Numbers of records by hour of a UTC day.
pub(super) type Hours = [u32; 24];

/// The hour of the day of a time, which is in the range of [`Day`].
pub(super) fn hour_of(at: i64) -> usize {
    let hour = at.div_euclid(HOUR_MS).rem_euclid(24);
    usize::try_from(hour).unwrap_or(0)
}

/// The whole days of a period: the first, and the one after the last.
fn whole_days(since: i64, until: i64) -> Option<Range<Day>> {
    let first = Day::of(since).ok()?;
    let is_whole = first.bounds_ms().0 == since;
    let first = if is_whole { first } else { first.next()? };
    let end = Day::of(until).ok()?;
    (first < end).then_some(first..end)
}

#[cfg(test)]
mod tests {
    use crate::analytics::AnalyticsQuery;
    use crate::record::{Client, Conversation, ConversationMessage, Role, Timestamp, ToolCallReq};
    use crate::store::Store;

    #[test]
    fn records_count_in_the_hours_of_their_own_times() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
        store.record(conversation.clone()).unwrap();
        let day = 1_766_793_600_000;
        for minutes in [0, 59, 60, 150, 24 * 60 - 1, 24 * 60] {
            let message = ConversationMessage {
                timestamp: Timestamp::from_ms(day + minutes * 60_000).unwrap(),
                ..ConversationMessage::new(conversation.id, Role::User, "")
            };
            store.record(message).unwrap();
        }
        let call = ToolCallReq {
            started_at: crate::record::Validity::at(day + 61 * 60_000),
            arguments_json: Some("{}".into()),
            ..ToolCallReq::new(uuid::Uuid::new_v4(), "c", "v", "t")
        };
        store.record(call).unwrap();
        let hours = store.analytics().activity(day, day + 86_400_000).unwrap();
        let found: Vec<_> = hours
            .iter()
            .map(|hour| ((hour.at - day) / 3_600_000, hour.messages, hour.tool_calls))
            .collect();
        assert_eq!(found, [(0, 2, 0), (1, 1, 1), (2, 1, 0), (23, 1, 0)]);
        // A handle that counted the records for a report says the same of any period.
        let analytics = store.analytics();
        analytics.catch_up().unwrap();
        analytics.tools(&AnalyticsQuery::default()).unwrap();
        let minute = 60_000;
        for since in [day - 1, day, day + minute, day + 90 * minute] {
            for until in [
                day + 100 * minute,
                day + 86_400_000,
                day + 2 * 86_400_000 + 1,
            ] {
                let counted = analytics.activity(since, until).unwrap();
                let looked_up = store.analytics().activity(since, until).unwrap();
                assert_eq!(counted, looked_up, "{since} {until}");
            }
        }
        assert!(store.analytics().activity(day, day - 1).is_err());
        let all = store.analytics().activity(i64::MIN, i64::MAX).unwrap();
        assert!(hours.iter().all(|hour| all.contains(hour)), "{all:?}");
    }
}
