//! Rollups: the sums of a day's messages.

use std::io;

use decklog::record::Rollup;

use super::{Shown, count, field, grouped, optional};
use crate::cli::escape::{clipped, one_line, padded};
use crate::cli::output::Output;

const MODEL_COLUMNS: usize = 14;
const NAME_COLUMNS: usize = 10;
const REQUESTS_COLUMNS: usize = 8;
const TOKENS_COLUMNS: usize = 17;
const MS_COLUMNS: usize = 7;
const ERRORS_COLUMNS: usize = 6;
const CONTEXT_COLUMNS: usize = 7;

impl Shown for Rollup {
    const HEADING: &'static str = "DAY         MODEL           CONFIG      MODE        TASK        REQUESTS      TOKENS IN/OUT   AVG MS   P95 MS  ERRORS  CONTEXT";

    fn row(&self) -> String {
        let name = |name: &Option<String>, columns| {
            let name = one_line(name.as_deref().unwrap_or("-"));
            padded(&clipped(&name, columns), columns)
        };
        let tokens = format!("{}/{}", grouped(self.tokens_in), grouped(self.tokens_out));
        format!(
            "{}  {}  {}  {}  {}  {:>REQUESTS_COLUMNS$}  {tokens:>TOKENS_COLUMNS$}  {:>MS_COLUMNS$}  {:>MS_COLUMNS$}  {:>ERRORS_COLUMNS$}  {:>CONTEXT_COLUMNS$}",
            self.day,
            name(&self.model_used, MODEL_COLUMNS),
            name(&self.config_used, NAME_COLUMNS),
            name(&self.orchestration_mode, NAME_COLUMNS),
            name(&self.task_type, NAME_COLUMNS),
            grouped(self.requests),
            whole(self.latency_ms_avg()),
            whole(self.latency_sketch.quantile(0.95)),
            grouped(self.errors),
            percent(self.context_utilization_avg()),
        )
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("rollup {}", self.day))?;
        for (label, name) in [
            ("model", &self.model_used),
            ("config", &self.config_used),
            ("mode", &self.orchestration_mode),
            ("task", &self.task_type),
        ] {
            optional(out, label, name.as_deref())?;
        }
        let messages = format!(
            "{}, {} of {} that day, {}",
            count(self.messages, "message"),
            count(self.conversations, "conversation"),
            grouped(self.active_conversations),
            count(self.requests, "request"),
        );
        field(out, "messages", &messages)?;
        let tokens = format!(
            "{} in, {} out",
            grouped(self.tokens_in),
            grouped(self.tokens_out)
        );
        field(out, "tokens", &tokens)?;
        let split = [
            (self.tokens_cache_write, "cache write"),
            (self.tokens_cache_read, "cache read"),
            (self.tokens_reasoning, "reasoning"),
        ];
        let split = split.into_iter().filter(|(sum, _)| *sum > 0);
        let split: Vec<String> = split
            .map(|(sum, of)| format!("{} {of}", grouped(sum)))
            .collect();
        if !split.is_empty() {
            field(out, "of them", &split.join(", "))?;
        }
        let quantile = |q| whole(self.latency_sketch.quantile(q));
        let latency = format!(
            "avg {} ms, p50 {} ms, p95 {} ms, p99 {} ms",
            whole(self.latency_ms_avg()),
            quantile(0.5),
            quantile(0.95),
            quantile(0.99)
        );
        field(out, "latency", &latency)?;
        let context = format!(
            "{} used on average, {} compressed",
            percent(self.context_utilization_avg()),
            grouped(self.compressed)
        );
        field(out, "context", &context)?;
        let mut errors = vec![grouped(self.errors)];
        let types = self.errors_by_type.iter();
        errors.extend(types.map(|(name, count)| format!("{name} {}", grouped(*count))));
        field(out, "errors", &errors.join(", "))
    }

    fn json(&self, out: &mut Output) -> io::Result<()> {
        out.json(self)
    }
}

/// A number without its fraction, or `-`.
fn whole(number: Option<f64>) -> String {
    // Never negative; saturates at 64 bits.
    #[allow(clippy::cast_sign_loss)]
    number.map_or("-".to_owned(), |number| grouped(number.round() as u64))
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0))
}
