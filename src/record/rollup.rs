//! Rollups: sums over the messages of a day, kept after the messages were removed.

use std::collections::BTreeMap;

use super::declare::record;
use super::hashes::IdHashes;
use super::sketch::Sketch;
use super::strings::push_quoted;
use super::sums::{MessageSums, Tally, usd};
use super::time::Day;
use crate::error::{Error, Result};

record! {
    /// Totals of the messages of one UTC day with the same model, configuration, orchestration mode
    /// and task type; each can be absent. Key: the day, these four and the part.
    ///
    /// Sums saturate at the maximum value.
    pub struct Rollup {
        /// The UTC day, by the messages' own time.
        [day, key] day: Day,
        /// The model that answered.
        [name] model_used: Option<String>,
        /// The gateway configuration used for the answer.
        [name] config_used: Option<String>,
        /// The orchestration mode.
        [name] orchestration_mode: Option<String>,
        /// The task type.
        [name] task_type: Option<String>,
        /// Number of this part of the group and day, from 0. There are several if one line cannot
        /// hold the ids of all messages, or if several logs were merged. The group's totals are the
        /// sum of all parts.
        [sum_if_any, omitted] part: u64,
        /// Sequence number up to which the group's messages of the day were counted when this was
        /// written. If `message_hashes` is empty, this rollup counts exactly these.
        [sum] through_seq: u64,
        /// Number of messages, in any role.
        [sum] messages: u64,
        /// Number of messages in the role `assistant` that are no further part of an answer.
        [sum] requests: u64,
        /// Sum of `tokens_in`.
        [sum] tokens_in: u64,
        /// Sum of `tokens_out`.
        [sum] tokens_out: u64,
        /// Sum of `tokens_cache_write`.
        [sum_if_any, omitted] tokens_cache_write: u64,
        /// Sum of `tokens_cache_write_1h`.
        [sum_if_any, omitted] tokens_cache_write_1h: u64,
        /// Sum of `tokens_cache_read`.
        [sum_if_any, omitted] tokens_cache_read: u64,
        /// Sum of `tokens_reasoning`.
        [sum_if_any, omitted] tokens_reasoning: u64,
        /// Sum of `cost_usd`, each rounded to billionths of a US dollar.
        [sum_if_any, omitted] cost_nano_usd: u64,
        /// Number of messages with a cost.
        [sum_if_any, omitted] cost_count: u64,
        /// Sum of `latency_ms`.
        [sum] latency_ms_sum: u64,
        /// Number of messages with a latency.
        [sum] latency_count: u64,
        /// Distribution of the latencies, in milliseconds.
        [sketch] latency_sketch: Sketch,
        /// Sum of `context_utilization`.
        [amount] context_utilization_sum: f64,
        /// Number of messages with a context utilization.
        [sum] context_utilization_count: u64,
        /// Number of messages with a compressed context.
        [sum] compressed: u64,
        /// Number of messages with an `error`.
        [sum] errors: u64,
        /// Number of errors by `error_type`. Only the first 1000 types, by sequence number, are
        /// counted; errors of other types or without a type count in `errors` only.
        [counts, default] errors_by_type: BTreeMap<String, u64>,
        /// Number of distinct conversations of the messages.
        [sum] conversations: u64,
        /// Number of distinct conversations with a message of the day in any group; the same in all
        /// rollups of a day.
        [sum] active_conversations: u64,
        /// The part of these sums from messages in roles other than `assistant`. The rest is from
        /// the `requests`.
        [sums, omitted] others: MessageSums,
        /// Hashes of the ids of the counted messages. These are never counted again, whether they
        /// are in the log or not. [`Store::rollups`](crate::Store::rollups) leaves this empty.
        [hashes, omitted] message_hashes: IdHashes,
        /// The same for the ids of their conversations.
        [hashes, omitted] conversation_hashes: IdHashes,
    }
}

/// The four dimensions by which the messages of a day are grouped.
pub(crate) type Group = [Option<String>; 4];

impl Rollup {
    /// A rollup with the sums of a group.
    pub(crate) fn of(day: Day, group: Group, through_seq: u64, tally: Tally) -> Rollup {
        let [model_used, config_used, orchestration_mode, task_type] = group;
        let all = tally.all;
        Rollup {
            day,
            model_used,
            config_used,
            orchestration_mode,
            task_type,
            part: 0,
            through_seq,
            messages: tally.messages,
            requests: tally.requests,
            tokens_in: all.tokens_in,
            tokens_out: all.tokens_out,
            tokens_cache_write: all.tokens_cache_write,
            tokens_cache_write_1h: all.tokens_cache_write_1h,
            tokens_cache_read: all.tokens_cache_read,
            tokens_reasoning: all.tokens_reasoning,
            cost_nano_usd: all.cost_nano_usd,
            cost_count: all.cost_count,
            latency_ms_sum: all.latency_ms_sum,
            latency_count: all.latency_count,
            latency_sketch: all.latency_sketch,
            context_utilization_sum: all.context_utilization_sum,
            context_utilization_count: all.context_utilization_count,
            compressed: all.compressed,
            errors: all.errors,
            errors_by_type: all.errors_by_type,
            conversations: 0,
            active_conversations: 0,
            others: tally.others,
            message_hashes: IdHashes::default(),
            conversation_hashes: IdHashes::default(),
        }
    }

    /// The sums of its messages.
    pub(crate) fn tally(&self) -> Tally {
        Tally {
            messages: self.messages,
            requests: self.requests,
            all: MessageSums {
                tokens_in: self.tokens_in,
                tokens_out: self.tokens_out,
                tokens_cache_write: self.tokens_cache_write,
                tokens_cache_write_1h: self.tokens_cache_write_1h,
                tokens_cache_read: self.tokens_cache_read,
                tokens_reasoning: self.tokens_reasoning,
                cost_nano_usd: self.cost_nano_usd,
                cost_count: self.cost_count,
                latency_ms_sum: self.latency_ms_sum,
                latency_count: self.latency_count,
                latency_sketch: self.latency_sketch.clone(),
                context_utilization_sum: self.context_utilization_sum,
                context_utilization_count: self.context_utilization_count,
                compressed: self.compressed,
                errors: self.errors,
                errors_by_type: self.errors_by_type.clone(),
            },
            others: self.others.clone(),
            ..Tally::default()
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

    /// The key without the day.
    pub(crate) fn group_key(&self) -> String {
        self.key_of_part(self.part)
    }

    /// The key of another part of the same group and day.
    pub(crate) fn key_of_part(&self, part: u64) -> String {
        group_key(self.group_names(), part)
    }

    /// Cost of the messages that report one, in US dollars. `None` if none does.
    pub fn cost_usd(&self) -> Option<f64> {
        usd(self.cost_nano_usd, self.cost_count)
    }

    /// Average latency in milliseconds of the messages that report a latency.
    #[allow(clippy::cast_precision_loss)] // An average is not to the last digit.
    pub fn latency_ms_avg(&self) -> Option<f64> {
        (self.latency_count > 0).then(|| self.latency_ms_sum as f64 / self.latency_count as f64)
    }

    /// Average use of the context window, from 0 to 1, of the messages that report it.
    #[allow(clippy::cast_precision_loss)]
    pub fn context_utilization_avg(&self) -> Option<f64> {
        let count = self.context_utilization_count;
        (count > 0).then(|| self.context_utilization_sum / count as f64)
    }

    pub(super) fn check(&self) -> Result<()> {
        let Tally { all, others, .. } = self.tally();
        all.check("")?;
        others.check("others.")?;
        for ((field, all), (_, others)) in all.counts().into_iter().zip(others.counts()) {
            if others > all {
                return Err(Error::invalid(format!(
                    "others.{field} is {others}, and {field} is {all}: the others are some of all"
                )));
            }
        }
        let ids = [
            ("message_hashes", self.message_hashes.len(), self.messages),
            (
                "conversation_hashes",
                self.conversation_hashes.len(),
                self.conversations,
            ),
        ];
        for (field, len, count) in ids {
            if len as u64 > count {
                let of = field.trim_end_matches("_hashes");
                return Err(Error::invalid(format!(
                    "{field} has {len} hashes, and {of}s is {count}: give one hash of each {of} that is counted"
                )));
            }
        }
        Ok(())
    }
}

/// The unique key of a group's part: a JSON array.
pub(crate) fn group_key(names: [Option<&str>; 4], part: u64) -> String {
    let mut key = Vec::with_capacity(64);
    for (place, name) in names.into_iter().enumerate() {
        key.push(if place == 0 { b'[' } else { b',' });
        match name {
            Some(name) => push_quoted(&mut key, name),
            None => key.extend_from_slice(b"null"),
        }
    }
    if part > 0 {
        key.push(b',');
        key.extend_from_slice(itoa::Buffer::new().format(part).as_bytes());
    }
    key.push(b']');
    // The pieces are UTF-8, so the result is UTF-8.
    String::from_utf8(key).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

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
        let keys: std::collections::BTreeSet<_> = groups
            .into_iter()
            .flat_map(|group| [group_key(group, 0), group_key(group, 1)])
            .collect();
        assert_eq!(keys.len(), 2 * groups.len());
        assert_eq!(
            group_key([a, none, quote, none], 0),
            r#"["a",null,"a\",\"a",null]"#
        );
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let sound = Rollup::of(
            Day::of(0).unwrap(),
            [const { None }; 4],
            0,
            Tally::default(),
        );
        Record::from(sound.clone()).checked().unwrap();
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
                others: MessageSums {
                    tokens_in: 1,
                    ..MessageSums::default()
                },
                ..sound.clone()
            },
            Rollup {
                others: MessageSums {
                    latency_count: 1,
                    ..MessageSums::default()
                },
                latency_count: 1,
                latency_sketch: serde_json::from_str("[[7,1]]").unwrap(),
                ..sound.clone()
            },
            Rollup {
                message_hashes: IdHashes::of(vec![7]),
                ..sound.clone()
            },
            Rollup {
                model_used: Some("m".repeat(1_025)),
                ..sound.clone()
            },
        ];
        for rollup in cases {
            let checked = Record::from(rollup).checked();
            assert!(checked.is_err(), "{checked:?}");
        }
    }
}
