//! Sums over messages. Rollups and reports use the same sums.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::declare::is_default;
use super::rollup::Group;
use super::sketch::Sketch;
use super::{ConversationMessage, Role, check_name};
use crate::error::{Error, Result};

/// Maximum number of error types that are counted separately.
pub(super) const ERROR_TYPES_MAX: usize = 1_000;

/// Sums over a set of messages. Additions saturate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MessageSums {
    /// The sum of their `tokens_in`.
    pub tokens_in: u64,
    /// The sum of their `tokens_out`.
    pub tokens_out: u64,
    /// The sum of their `tokens_cache_write`.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens_cache_write: u64,
    /// The sum of their `tokens_cache_write_1h`.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens_cache_write_1h: u64,
    /// The sum of their `tokens_cache_read`.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens_cache_read: u64,
    /// The sum of their `tokens_reasoning`.
    #[serde(skip_serializing_if = "is_default")]
    pub tokens_reasoning: u64,
    /// The sum of their `cost_usd`, each rounded to billionths of a US dollar.
    #[serde(skip_serializing_if = "is_default")]
    pub cost_nano_usd: u64,
    /// Number of messages that report a cost.
    #[serde(skip_serializing_if = "is_default")]
    pub cost_count: u64,
    /// The sum of their `latency_ms`.
    pub latency_ms_sum: u64,
    /// Number of messages that report a latency.
    pub latency_count: u64,
    /// Distribution of these latencies, in milliseconds.
    pub latency_sketch: Sketch,
    /// The sum of their `context_utilization`.
    pub context_utilization_sum: f64,
    /// Number of messages that report a context utilization.
    pub context_utilization_count: u64,
    /// Number of messages whose context was compressed.
    pub compressed: u64,
    /// Number of messages with an `error`.
    pub errors: u64,
    /// Number of errors by `error_type`. The first 1000 types are counted. Errors of further types
    /// and errors without a type only count in `errors`.
    pub errors_by_type: BTreeMap<String, u64>,
}

impl MessageSums {
    /// The integers that are added up, by their names.
    pub(super) fn counts(&self) -> [(&'static str, u64); 12] {
        [
            ("tokens_in", self.tokens_in),
            ("tokens_out", self.tokens_out),
            ("tokens_cache_write", self.tokens_cache_write),
            ("tokens_cache_write_1h", self.tokens_cache_write_1h),
            ("tokens_cache_read", self.tokens_cache_read),
            ("tokens_reasoning", self.tokens_reasoning),
            ("cost_nano_usd", self.cost_nano_usd),
            ("cost_count", self.cost_count),
            ("latency_ms_sum", self.latency_ms_sum),
            ("latency_count", self.latency_count),
            ("compressed", self.compressed),
            ("errors", self.errors),
        ]
    }

    /// As [`counts`](Self::counts), in the same order, to change them.
    fn counts_mut(&mut self) -> [&mut u64; 12] {
        [
            &mut self.tokens_in,
            &mut self.tokens_out,
            &mut self.tokens_cache_write,
            &mut self.tokens_cache_write_1h,
            &mut self.tokens_cache_read,
            &mut self.tokens_reasoning,
            &mut self.cost_nano_usd,
            &mut self.cost_count,
            &mut self.latency_ms_sum,
            &mut self.latency_count,
            &mut self.compressed,
            &mut self.errors,
        ]
    }

    fn count(&mut self, message: &Counted) {
        add(&mut self.tokens_in, message.tokens_in);
        add(&mut self.tokens_out, message.tokens_out);
        add(&mut self.tokens_cache_write, message.tokens_cache_write);
        let hour = message.tokens_cache_write_1h;
        add(&mut self.tokens_cache_write_1h, hour);
        add(&mut self.tokens_cache_read, message.tokens_cache_read);
        add(&mut self.tokens_reasoning, message.tokens_reasoning);
        if let Some(cost) = message.cost_nano_usd {
            add(&mut self.cost_nano_usd, cost);
            add(&mut self.cost_count, 1);
        }
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
        if message.is_error {
            add(&mut self.errors, 1);
            if let Some(error_type) = &message.error_type {
                self.add_errors(error_type, 1);
            }
        }
    }

    fn add_errors(&mut self, error_type: &str, more: u64) {
        let types = &mut self.errors_by_type;
        if let Some(count) = types.get_mut(error_type) {
            add(count, more);
        } else if types.len() < ERROR_TYPES_MAX {
            types.insert(error_type.to_owned(), more);
        }
    }

    fn merge(&mut self, other: &MessageSums) {
        for (sum, (_, more)) in self.counts_mut().into_iter().zip(other.counts()) {
            add(sum, more);
        }
        self.latency_sketch.merge(&other.latency_sketch);
        self.context_utilization_sum += other.context_utilization_sum;
        let count = &mut self.context_utilization_count;
        add(count, other.context_utilization_count);
        for (error_type, count) in &other.errors_by_type {
            self.add_errors(error_type, *count);
        }
    }

    /// The difference from `those`, which must be a part of these sums.
    fn without(&self, those: &MessageSums) -> MessageSums {
        let mut left = self.clone();
        for (sum, (_, less)) in left.counts_mut().into_iter().zip(those.counts()) {
            *sum = sum.saturating_sub(less);
        }
        left.latency_sketch = self.latency_sketch.without(&those.latency_sketch);
        let context = self.context_utilization_sum - those.context_utilization_sum;
        left.context_utilization_sum = context.max(0.0);
        let count = &mut left.context_utilization_count;
        *count = count.saturating_sub(those.context_utilization_count);
        for (error_type, less) in &those.errors_by_type {
            if let Some(count) = left.errors_by_type.get_mut(error_type) {
                *count = count.saturating_sub(*less);
            }
        }
        left.errors_by_type.retain(|_, count| *count > 0);
        left
    }

    /// Checks the sums of a record, whose field names begin with `prefix`.
    pub(super) fn check(&self, prefix: &str) -> Result<()> {
        for error_type in self.errors_by_type.keys() {
            check_name(&format!("{prefix}errors_by_type"), error_type, true)?;
        }
        let sketched = self.latency_sketch.count();
        if sketched != self.latency_count {
            let count = self.latency_count;
            return Err(Error::invalid(format!(
                "{prefix}latency_count is {count}, and {prefix}latency_sketch counts {sketched}: give all latencies in both"
            )));
        }
        let sum = self.context_utilization_sum;
        if !(0.0..=f64::MAX).contains(&sum) {
            return Err(Error::invalid(format!(
                "{prefix}context_utilization_sum is {sum}: give a number from 0 up"
            )));
        }
        Ok(())
    }
}

/// A cost in billionths of a US dollar, rounded. `None` if it is negative or no number, as in a line
/// edited by hand. Larger costs count as the maximum.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The conversion saturates.
pub(crate) fn nano_usd(cost_usd: f64) -> Option<u64> {
    (cost_usd >= 0.0).then(|| (cost_usd * NANOS).round() as u64)
}

/// The cost of messages in US dollars, from a sum of billionths and the number of messages that
/// report a cost. `None` if none does.
#[allow(clippy::cast_precision_loss)] // 16 digits are exact.
pub(crate) fn usd(cost_nano_usd: u64, cost_count: u64) -> Option<f64> {
    (cost_count > 0).then(|| cost_nano_usd as f64 / NANOS)
}

const NANOS: f64 = 1e9;

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Costs that were computed from tokens, since the messages report none. They are not recorded, as
/// prices may be corrected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Computed {
    pub nano_usd: u64,
    /// Number of messages with such a cost.
    pub count: u64,
    /// Number of messages with tokens whose model has no price.
    pub unpriced: u64,
}

impl Computed {
    pub(crate) fn add(&mut self, other: &Computed) {
        add(&mut self.nano_usd, other.nano_usd);
        add(&mut self.count, other.count);
        add(&mut self.unpriced, other.unpriced);
    }

    fn without(&self, those: &Computed) -> Computed {
        Computed {
            nano_usd: self.nano_usd.saturating_sub(those.nano_usd),
            count: self.count.saturating_sub(those.count),
            unpriced: self.unpriced.saturating_sub(those.unpriced),
        }
    }
}

/// The sums of a group, in all roles and in roles other than `assistant`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tally {
    pub messages: u64,
    pub requests: u64,
    pub all: MessageSums,
    pub others: MessageSums,
    pub computed: Computed,
    pub computed_of_others: Computed,
}

impl Tally {
    /// Adds a message. Sums of fractions depend on the order.
    pub(crate) fn count(&mut self, message: &Counted) {
        add(&mut self.messages, 1);
        add(&mut self.requests, u64::from(message.of == Of::Request));
        self.all.count(message);
        self.computed.add(&message.computed);
        if message.of == Of::Other {
            self.others.count(message);
            self.computed_of_others.add(&message.computed);
        }
    }

    /// Adds another tally.
    pub(crate) fn merge(&mut self, other: &Tally) {
        add(&mut self.messages, other.messages);
        add(&mut self.requests, other.requests);
        self.all.merge(&other.all);
        self.others.merge(&other.others);
        self.computed.add(&other.computed);
        self.computed_of_others.add(&other.computed_of_others);
    }

    /// The sums of answers only: the messages in the role `assistant`.
    pub(crate) fn answers(&self) -> MessageSums {
        self.all.without(&self.others)
    }

    /// The computed costs of answers only.
    pub(crate) fn computed_of_answers(&self) -> Computed {
        self.computed.without(&self.computed_of_others)
    }
}

/// What the tokens and latency of a message belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// A request. The message represents it.
    Request,
    /// A request that another message represents.
    Part,
    /// No request.
    Other,
}

/// The data of a message that is summed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Counted {
    of: Of,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub tokens_cache_write: u64,
    pub tokens_cache_write_1h: u64,
    pub tokens_cache_read: u64,
    pub tokens_reasoning: u64,
    pub cost_nano_usd: Option<u64>,
    /// What is known of its cost if it reports none; set by whoever knows prices.
    pub computed: Computed,
    latency_ms: Option<u64>,
    context_utilization: Option<f64>,
    is_compressed: bool,
    pub is_error: bool,
    error_type: Option<String>,
}

impl Counted {
    /// Whether it is a call without a cost, so that one is computed.
    pub(crate) fn wants_cost(&self) -> bool {
        let has_tokens = self.tokens_in > 0 || self.tokens_out > 0;
        has_tokens && self.cost_nano_usd.is_none()
    }

    /// Whether it is an answer of a model, or a part of one.
    pub(crate) fn is_of_answer(&self) -> bool {
        self.of != Of::Other
    }

    /// The group of a message and its data.
    pub(crate) fn of(message: ConversationMessage) -> (Group, Counted) {
        // A line edited by hand may contain negative numbers.
        let number = |number: Option<i64>| number.and_then(|number| u64::try_from(number).ok());
        let is_part = |part: &f64| (0.0..=1.0).contains(part);
        let of = match (message.role, message.part_of) {
            (Role::Assistant, None) => Of::Request,
            (Role::Assistant, Some(_)) => Of::Part,
            _ => Of::Other,
        };
        let counted = Counted {
            of,
            tokens_in: number(message.tokens_in).unwrap_or(0),
            tokens_out: number(message.tokens_out).unwrap_or(0),
            tokens_cache_write: number(message.tokens_cache_write).unwrap_or(0),
            tokens_cache_write_1h: number(message.tokens_cache_write_1h).unwrap_or(0),
            tokens_cache_read: number(message.tokens_cache_read).unwrap_or(0),
            tokens_reasoning: number(message.tokens_reasoning).unwrap_or(0),
            cost_nano_usd: message.cost_usd.and_then(nano_usd),
            computed: Computed::default(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_errors_without_end_stay_few() {
        let mut tally = Tally::default();
        for nth in (0..2_000).chain(0..2_000) {
            let message = ConversationMessage {
                error: Some("no".into()),
                error_type: Some(format!("type {nth}")),
                ..ConversationMessage::new(uuid::Uuid::nil(), Role::Assistant, "")
            };
            tally.count(&Counted::of(message).1);
        }
        assert_eq!((tally.all.errors, tally.requests), (4_000, 4_000));
        assert_eq!(tally.all.errors_by_type.len(), ERROR_TYPES_MAX);
        assert_eq!(tally.all.errors_by_type.get("type 999"), Some(&2));
        tally.all.check("").unwrap();
    }

    #[test]
    fn costs_are_exact_in_any_order_and_saturate() {
        let cost = |cost| ConversationMessage {
            cost_usd: Some(cost),
            ..ConversationMessage::new(uuid::Uuid::nil(), Role::Assistant, "")
        };
        let sum = |costs: &[f64]| {
            let mut tally = Tally::default();
            for one in costs {
                tally.count(&Counted::of(cost(*one)).1);
            }
            (tally.all.cost_nano_usd, tally.all.cost_count)
        };
        assert_eq!(sum(&[0.1, 0.2, 1e-9, 0.3]), (600_000_001, 4));
        assert_eq!(sum(&[0.3, 1e-9, 0.2, 0.1]), (600_000_001, 4));
        assert_eq!(sum(&[0.0, -0.5, f64::NAN]), (0, 1));
        assert_eq!(sum(&[f64::MAX, f64::INFINITY, 1.0]), (u64::MAX, 3));
        assert_eq!(usd(600_000_001, 4), Some(0.600_000_001));
        assert_eq!((usd(0, 0), usd(0, 1)), (None, Some(0.0)));
    }

    #[test]
    fn a_further_part_of_an_answer_adds_to_it_and_is_no_request() {
        let request = ConversationMessage {
            tokens_out: Some(1),
            ..ConversationMessage::new(uuid::Uuid::nil(), Role::Assistant, "")
        };
        let part = ConversationMessage {
            id: uuid::Uuid::nil(),
            part_of: Some(request.id),
            tokens_out: Some(7),
            ..request.clone()
        };
        let mut tally = Tally::default();
        for message in [request, part] {
            tally.count(&Counted::of(message).1);
        }
        assert_eq!((tally.messages, tally.requests), (2, 1));
        assert_eq!(tally.answers().tokens_out, 8);
    }

    #[test]
    fn answers_are_what_is_not_in_other_roles() {
        let said = |role, nth: i32| {
            let message = ConversationMessage {
                tokens_in: Some(nth.into()),
                tokens_out: Some(i64::from(2 * nth)),
                tokens_cache_write: (nth % 4 == 0).then_some(1),
                tokens_cache_write_1h: (nth % 8 == 0).then_some(1),
                tokens_cache_read: Some(i64::from(nth / 2)),
                tokens_reasoning: Some(i64::from(nth)),
                cost_usd: (nth % 5 > 0).then(|| f64::from(nth) / 10.0),
                latency_ms: Some(i64::from(nth * nth)),
                context_utilization: Some(1.0 / f64::from(nth)),
                compression_applied: Some(nth % 2 == 0),
                error: (nth % 7 == 0).then(|| "no".into()),
                error_type: Some(format!("type {}", nth % 5)),
                ..ConversationMessage::new(uuid::Uuid::nil(), role, "")
            };
            Counted::of(message).1
        };
        let [mut both, mut answers] = [Tally::default(), Tally::default()];
        for nth in 1..200 {
            let role = match nth % 3 {
                0 => Role::Assistant,
                1 => Role::User,
                _ => Role::Tool,
            };
            both.count(&said(role, nth));
            if role == Role::Assistant {
                answers.count(&said(role, nth));
            }
        }
        let found = both.answers();
        let sum = found.context_utilization_sum;
        assert!((sum - answers.all.context_utilization_sum).abs() < 1e-9);
        let found = MessageSums {
            context_utilization_sum: answers.all.context_utilization_sum,
            ..found
        };
        assert_eq!(found, answers.all);
        assert!(is_default(&answers.others) && !is_default(&both.others));
    }
}
