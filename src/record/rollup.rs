//! Rollups: what the messages of a day add up to, kept when the messages are gone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::sketch::Sketch;
use super::strings::push_quoted;
use super::time::Day;
use super::{ConversationMessage, Role, check_name};
use crate::error::{Error, Result};

/// The most types of errors that a rollup tells apart.
const ERROR_TYPES_MAX: usize = 1_000;

/// What the messages of one day add up to, of those that have the same model, configuration,
/// orchestration mode and task type, or none. Key: the day and these four.
///
/// Sums stop at the greatest number there is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rollup {
    /// The UTC day, by the messages' own time.
    pub day: Day,
    /// The model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_used: Option<String>,
    /// The gateway's configuration that it was answered under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_used: Option<String>,
    /// How models were put together to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orchestration_mode: Option<String>,
    /// The sort of task that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// The group's messages of that day up to this sequence number are counted here.
    pub through_seq: u64,
    /// How many messages, in any role.
    pub messages: u64,
    /// How many of them are answers, in the role `assistant`.
    pub requests: u64,
    /// The sum of their `tokens_in`.
    pub tokens_in: u64,
    /// The sum of their `tokens_out`.
    pub tokens_out: u64,
    /// The sum of their `latency_ms`.
    pub latency_ms_sum: u64,
    /// How many say a latency.
    pub latency_count: u64,
    /// How these latencies are spread, in milliseconds.
    pub latency_sketch: Sketch,
    /// The sum of their `context_utilization`.
    pub context_utilization_sum: f64,
    /// How many say a context utilization.
    pub context_utilization_count: u64,
    /// How many had their context compressed.
    pub compressed: u64,
    /// How many have an `error`.
    pub errors: u64,
    /// How many of these are of each `error_type`. The first 1000 types are told apart, by the
    /// messages' sequence numbers; errors of others, as those of none, count in `errors` alone.
    #[serde(default)]
    pub errors_by_type: BTreeMap<String, u64>,
    /// How many conversations the messages are of.
    pub conversations: u64,
    /// How many conversations have a message of the day in any group; the same in all rollups of
    /// a day.
    pub active_conversations: u64,
}

/// The four by which messages of a day are told apart.
pub(crate) type Group = [Option<String>; 4];

impl Rollup {
    /// A rollup of no messages.
    pub(crate) fn of_none(day: Day, group: Group) -> Rollup {
        let [model_used, config_used, orchestration_mode, task_type] = group;
        Rollup {
            day,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            through_seq: 0,
            messages: 0,
            requests: 0,
            tokens_in: 0,
            tokens_out: 0,
            latency_ms_sum: 0,
            latency_count: 0,
            latency_sketch: Sketch::default(),
            context_utilization_sum: 0.0,
            context_utilization_count: 0,
            compressed: 0,
            errors: 0,
            errors_by_type: BTreeMap::new(),
            conversations: 0,
            active_conversations: 0,
        }
    }

    pub(crate) fn group(&self) -> Group {
        self.group_names().map(|name| name.map(str::to_owned))
    }

    fn group_names(&self) -> [Option<&str>; 4] {
        [
            self.model_used.as_deref(),
            self.config_used.as_deref(),
            self.orchestration_mode.as_deref(),
            self.task_type.as_deref(),
        ]
    }

    /// The part of its key that is not the day.
    pub(crate) fn group_key(&self) -> String {
        group_key(self.group_names())
    }

    /// How long the messages took on average, in milliseconds, of those that say.
    #[allow(clippy::cast_precision_loss)] // An average is not to the last digit.
    pub fn latency_ms_avg(&self) -> Option<f64> {
        (self.latency_count > 0).then(|| self.latency_ms_sum as f64 / self.latency_count as f64)
    }

    /// How much of the context window was used on average, from 0 to 1, of those that say.
    #[allow(clippy::cast_precision_loss)]
    pub fn context_utilization_avg(&self) -> Option<f64> {
        let count = self.context_utilization_count;
        (count > 0).then(|| self.context_utilization_sum / count as f64)
    }

    /// Counts a message of the group, but not its conversation.
    pub(crate) fn count(&mut self, message: &Counted) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.messages, 1);
        add(&mut self.requests, u64::from(message.is_request));
        add(&mut self.tokens_in, message.tokens_in);
        add(&mut self.tokens_out, message.tokens_out);
        if let Some(ms) = message.latency_ms {
            add(&mut self.latency_ms_sum, ms);
            add(&mut self.latency_count, 1);
            self.latency_sketch.add(ms);
        }
        if let Some(part) = message.context_utilization {
            self.context_utilization_sum += part;
            add(&mut self.context_utilization_count, 1);
        }
        add(&mut self.compressed, u64::from(message.is_compressed));
        if !message.is_error {
            return;
        }
        add(&mut self.errors, 1);
        let Some(error_type) = &message.error_type else {
            return;
        };
        let types = &mut self.errors_by_type;
        if let Some(count) = types.get_mut(error_type) {
            add(count, 1);
        } else if types.len() < ERROR_TYPES_MAX {
            types.insert(error_type.clone(), 1);
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let names = [
            "model_used",
            "config_used",
            "orchestration_mode",
            "task_type",
        ];
        for (field, name) in names.into_iter().zip(self.group_names()) {
            check_name(field, name.unwrap_or_default(), true)?;
        }
        for error_type in self.errors_by_type.keys() {
            check_name("errors_by_type", error_type, true)?;
        }
        let sketched = self.latency_sketch.count();
        if sketched != self.latency_count {
            let count = self.latency_count;
            return Err(Error::invalid(format!(
                "latency_count is {count}, and latency_sketch counts {sketched}: give all latencies in both"
            )));
        }
        let sum = self.context_utilization_sum;
        if !(0.0..=f64::MAX).contains(&sum) {
            return Err(Error::invalid(format!(
                "context_utilization_sum is {sum}: give a number from 0 up"
            )));
        }
        Ok(())
    }
}

/// What of a message goes into a rollup.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    is_request: bool,
    tokens_in: u64,
    tokens_out: u64,
    latency_ms: Option<u64>,
    context_utilization: Option<f64>,
    is_compressed: bool,
    is_error: bool,
    error_type: Option<String>,
}

impl Counted {
    /// The group of a message, and what it adds to its rollup.
    pub(crate) fn of(message: ConversationMessage) -> (Group, Counted) {
        // A line that someone rewrote may say less than nothing.
        let number = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let is_part = |part: &f64| (0.0..=1.0).contains(part);
        let counted = Counted {
            is_request: message.role == Role::Assistant,
            tokens_in: number(message.tokens_in).unwrap_or(0),
            tokens_out: number(message.tokens_out).unwrap_or(0),
            latency_ms: number(message.latency_ms),
            context_utilization: message.context_utilization.filter(is_part),
            is_compressed: message.compression_applied == Some(true),
            is_error: message.error.is_some(),
            error_type: message.error_type,
        };
        let group = [
            message.model_used,
            message.config_used,
            message.orchestration_mode,
            message.task_type,
        ];
        (group, counted)
    }
}

/// A group as a JSON array, which no other group has.
pub(crate) fn group_key(names: [Option<&str>; 4]) -> String {
    let mut key = Vec::with_capacity(64);
    for (place, name) in names.into_iter().enumerate() {
        key.push(if place == 0 { b'[' } else { b',' });
        match name {
            Some(name) => push_quoted(&mut key, name),
            None => key.extend_from_slice(b"null"),
        }
    }
    key.push(b']');
    // Texts, quoted, are text.
    String::from_utf8(key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_keys_of_their_own() {
        let (a, quote, none) = (Some("a"), Some("a\",\"a"), None);
        let groups = [
            [a, none, none, none],
            [none, a, none, none],
            [a, a, none, none],
            [quote, none, none, none],
            [Some("null"), none, none, none],
            [Some(""), none, none, none],
            [none; 4],
        ];
        let keys: std::collections::BTreeSet<_> = groups.into_iter().map(group_key).collect();
        assert_eq!(keys.len(), groups.len());
        assert_eq!(
            group_key([a, none, quote, none]),
            r#"["a",null,"a\",\"a",null]"#
        );
    }

    #[test]
    fn types_of_errors_without_end_stay_few() {
        let day = Day::of(0).unwrap();
        let mut rollup = Rollup::of_none(day, [const { None }; 4]);
        for nth in (0..2_000).chain(0..2_000) {
            let message = ConversationMessage {
                error: Some("no".into()),
                error_type: Some(format!("type {nth}")),
                ..ConversationMessage::new(uuid::Uuid::nil(), Role::Assistant, "")
            };
            let (_, counted) = Counted::of(message);
            rollup.count(&counted);
        }
        assert_eq!((rollup.errors, rollup.requests), (4_000, 4_000));
        assert_eq!(rollup.errors_by_type.len(), ERROR_TYPES_MAX);
        assert_eq!(rollup.errors_by_type.get("type 999"), Some(&2));
        rollup.check().unwrap();
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let sound = Rollup::of_none(Day::of(0).unwrap(), [const { None }; 4]);
        sound.check().unwrap();
        let cases = [
            Rollup {
                latency_count: 1,
                ..sound.clone()
            },
            Rollup {
                context_utilization_sum: -0.5,
                ..sound.clone()
            },
            Rollup {
                context_utilization_sum: f64::INFINITY,
                ..sound.clone()
            },
            Rollup {
                model_used: Some("m".repeat(1_025)),
                ..sound.clone()
            },
        ];
        for rollup in cases {
            assert!(rollup.check().is_err(), "{rollup:?}");
        }
    }
}
