//! Today beside the usual day.

use serde::Serialize;

use super::answers::{LatencyMs, UsageSums};
use super::cache::Cache;
use super::query::{Bucket, Scope};
use super::{Analytics, rows};
use crate::error::{Error, Result};
use crate::human::float;
use crate::record::{Day, now};

/// Number of days before today that make up the usual day.
const USUAL_DAYS: u32 = 28;

/// The figures of a day.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct DayFigures {
    /// Number of conversations with a message.
    pub conversations: u64,
    /// Messages and tokens.
    #[serde(flatten)]
    pub usage: UsageSums,
    /// Latency of answers, in milliseconds.
    pub latency_ms: LatencyMs,
    /// Number of messages with an error, in any role.
    pub errors: u64,
    /// Failed requests divided by requests, from 0 to 1. Absent if there were no requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_rate: Option<f64>,
}

/// Today beside the usual day.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct TodayReport {
    /// The current UTC day.
    #[cfg_attr(feature = "wire", schema(value_type = String, format = Date))]
    pub day: Day,
    /// The figures of that day up to now.
    pub today: DayFigures,
    /// Number of days that make up the usual day: those with messages among the 28 days before.
    pub usual_days: u64,
    /// The usual day: each number is the average of these days, rounded. Latencies and the error
    /// rate are those of all their messages together. Absent if there are no such days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual: Option<DayFigures>,
}

impl Analytics {
    /// The current UTC day beside the usual day, the average of the days with messages among the 28
    /// before.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
    /// store.record(conversation.clone())?;
    /// store.record(ConversationMessage::new(conversation.id, Role::User, "hello"))?;
    /// let report = store.analytics().today()?;
    /// assert_eq!((report.today.conversations, report.today.usage.messages), (1, 1));
    /// assert_eq!(report.usual, None);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up).
    pub fn today(&self) -> Result<TodayReport> {
        self.beside_usual(Day::of(now())?)
    }

    fn beside_usual(&self, day: Day) -> Result<TodayReport> {
        let mut kept = self.caught_up()?;
        let (_, today) = figures(&mut kept, Some(day), day.next())?;
        let (usual_days, before) = figures(&mut kept, Some(day.minus(USUAL_DAYS)), Some(day))?;
        let usual = (usual_days > 0).then(|| average(before, usual_days));
        Ok(TodayReport {
            day,
            today,
            usual_days,
            usual,
        })
    }
}

/// The number of days with messages in a period, and the sums of their figures. A conversation
/// counts once on each of its days.
fn figures(kept: &mut Cache, since: Option<Day>, until: Option<Day>) -> Result<(u64, DayFigures)> {
    let scope = Scope {
        since,
        until,
        group: Vec::new(),
        bucket: Bucket::Day,
    };
    let days = kept
        .conversations(&scope)
        .map_err(|day| Error::invalid(format!("the conversations of {day} are not known")))?;
    let days = days
        .into_iter()
        .filter(|(_, conversations)| *conversations > 0);
    let add = |(days, sum): (u64, u64), (_, more)| (days + 1, sum.saturating_add(more));
    let (days, conversations) = days.fold((0, 0), add);
    let errors = kept.total(&scope, rows::errors);
    let figures = DayFigures {
        conversations,
        usage: kept.total(&scope, rows::usage),
        latency_ms: kept.total(&scope, rows::latency).latency_ms,
        errors: errors.errors,
        error_rate: errors.error_rate,
    };
    Ok((days, figures))
}

/// The average of the sums of several days.
fn average(sums: DayFigures, days: u64) -> DayFigures {
    let of = |sum: u64| sum.saturating_add(days / 2) / days.max(1);
    DayFigures {
        conversations: of(sums.conversations),
        usage: UsageSums {
            messages: of(sums.usage.messages),
            requests: of(sums.usage.requests),
            tokens_in: of(sums.usage.tokens_in),
            tokens_out: of(sums.usage.tokens_out),
            tokens_input: of(sums.usage.tokens_input),
            tokens_cache_write: of(sums.usage.tokens_cache_write),
            tokens_cache_write_1h: of(sums.usage.tokens_cache_write_1h),
            tokens_cache_read: of(sums.usage.tokens_cache_read),
            tokens_reasoning: of(sums.usage.tokens_reasoning),
            cost_usd: sums.usage.cost_usd.map(|cost| cost / float(days)),
            cost_computed_usd: sums.usage.cost_computed_usd.map(|cost| cost / float(days)),
            unpriced: of(sums.usage.unpriced),
        },
        latency_ms: LatencyMs {
            count: of(sums.latency_ms.count),
            ..sums.latency_ms
        },
        errors: of(sums.errors),
        error_rate: sums.error_rate,
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{Client, Conversation, ConversationMessage, Day, Role, Timestamp};
    use crate::store::Store;

    #[test]
    fn the_usual_day_is_the_average_of_the_days_with_messages() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Api);
        store.record(conversation.clone()).unwrap();
        let today: Day = "2025-12-27".parse().unwrap();
        // Days before, messages, tokens of each, and whether the last one failed.
        for (days, messages, tokens, is_failed) in [
            (0, 2, 10, true),
            (1, 3, 100, false),
            (28, 4, 50, true),
            // Too long ago.
            (29, 1000, 1, true),
        ] {
            let at = today.minus(days).bounds_ms().0;
            for nth in 1..=messages {
                let mut message =
                    ConversationMessage::new(conversation.id, Role::Assistant, "words")
                        .tokens_out(tokens)
                        .latency_ms(100);
                message.timestamp = Timestamp::from_ms(at + nth).unwrap();
                message.error = (is_failed && nth == messages).then(|| "gone".to_owned());
                store.record(message).unwrap();
            }
        }
        let analytics = store.analytics();
        let report = analytics.beside_usual(today).unwrap();
        let numbers = |it: super::DayFigures| {
            let usage = it.usage;
            (
                it.conversations,
                usage.messages,
                usage.tokens_out,
                it.errors,
            )
        };
        assert_eq!(report.day, today);
        assert_eq!(numbers(report.today), (1, 2, 20, 1));
        assert_eq!(report.today.error_rate, Some(0.5));
        assert_eq!(report.usual_days, 2);
        let usual = report.usual.unwrap();
        // 3.5 messages, 250 tokens and half an error a day.
        assert_eq!(numbers(usual), (1, 4, 250, 1));
        assert_eq!(usual.error_rate, Some(1.0 / 7.0));
        assert_eq!(usual.latency_ms.avg, Some(100.0));

        let first = analytics.beside_usual(today.minus(29)).unwrap();
        assert_eq!((first.usual_days, first.usual), (0, None));
        let idle = analytics.beside_usual(today.next().unwrap()).unwrap();
        assert_eq!(numbers(idle.today), (0, 0, 0, 0));
        assert_eq!(idle.usual_days, 2);
    }
}
