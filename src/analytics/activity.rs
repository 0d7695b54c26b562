//! Activity by hour.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Analytics;
use crate::collections::times_of;
use crate::error::{Error, Result};
use crate::record::Kind;

const HOUR_MS: i64 = 3_600_000;
/// Longest period of a report, in hours: about ten years.
const HOURS_MAX: i64 = 87_600;

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
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if `until` is before `since`, or more than
    /// 87,600 hours after it.
    pub fn activity(&self, since: i64, until: i64) -> Result<Vec<HourActivity>> {
        let length = until.saturating_sub(since);
        if !(0..=HOURS_MAX * HOUR_MS).contains(&length) {
            return Err(Error::invalid(format!(
                "the period is {} hours: give one from 0 to {HOURS_MAX}",
                length.div_euclid(HOUR_MS)
            )));
        }
        let mut hours: BTreeMap<i64, HourActivity> = BTreeMap::new();
        for kind in [Kind::Messages, Kind::ToolCalls] {
            times_of(&self.store, kind, since, until, |at| {
                let start = at.div_euclid(HOUR_MS) * HOUR_MS;
                let hour = hours.entry(start).or_default();
                hour.at = start;
                match kind {
                    Kind::Messages => hour.messages += 1,
                    _ => hour.tool_calls += 1,
                }
            })?;
        }
        Ok(hours.into_values().collect())
    }
}

#[cfg(test)]
mod tests {
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
        assert!(store.analytics().activity(day, day - 1).is_err());
        assert!(store.analytics().activity(i64::MIN, i64::MAX).is_err());
    }
}
