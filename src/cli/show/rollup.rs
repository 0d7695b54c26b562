//! Rollups: the sums of a day's messages.

use std::io;

use decklog::human::{average, count, counted, dollars};
use decklog::record::Rollup;

use super::{Shown, field, name, optional, parts_of, whole};
use crate::cli::output::Output;

impl Shown for Rollup {
    const COLUMNS: &'static str = "DAY       |MODEL         |84:CONFIG    |118:MODE      |106:TASK      |>REQUESTS|56:>    TOKENS IN/OUT|72:> AVG MS|94:> P95 MS|64:>ERRORS|128:>CONTEXT";

    fn cells(&self) -> Vec<String> {
        vec![
            self.day.to_string(),
            name(self.model_used.as_deref(), 14),
            name(self.config_used.as_deref(), 10),
            name(self.orchestration_mode.as_deref(), 10),
            name(self.task_type.as_deref(), 10),
            count(self.requests),
            [self.tokens_in, self.tokens_out].map(count).join("/"),
            whole(self.latency_ms_avg()),
            whole(self.latency_sketch.quantile(0.95)),
            count(self.errors),
            percent(self.context_utilization_avg()),
        ]
    }

    fn in_full(&self, out: &mut Output) -> io::Result<()> {
        out.line(&format!("rollup {}", self.day))?;
        optional(out, "model", self.model_used.as_ref())?;
        optional(out, "config", self.config_used.as_ref())?;
        optional(out, "mode", self.orchestration_mode.as_ref())?;
        optional(out, "task", self.task_type.as_ref())?;
        let messages = format!(
            "{}, {} of {} that day, {}",
            counted(self.messages, "message"),
            counted(self.conversations, "conversation"),
            count(self.active_conversations),
            counted(self.requests, "request"),
        );
        field(out, "messages", messages)?;
        let [tokens_in, tokens_out] = [self.tokens_in, self.tokens_out].map(count);
        field(out, "tokens", format!("{tokens_in} in, {tokens_out} out"))?;
        let split = parts_of([
            (self.tokens_cache_write, "cache write"),
            (self.tokens_cache_write_1h, "cache write for 1 hour"),
            (self.tokens_cache_read, "cache read"),
            (self.tokens_reasoning, "reasoning"),
        ]);
        optional(out, "of them", split)?;
        optional(out, "cost", self.cost_usd().map(dollars))?;
        let shown = |ms: Option<f64>| ms.map_or("-".to_owned(), average);
        let avg = shown(self.latency_ms_avg());
        let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|q| shown(self.latency_sketch.quantile(q)));
        let latency = format!("avg {avg}, p50 {p50}, p95 {p95}, p99 {p99}");
        field(out, "latency", latency)?;
        let context = percent(self.context_utilization_avg());
        let compressed = count(self.compressed);
        let context = format!("{context} used on average, {compressed} compressed");
        field(out, "context", context)?;
        let mut errors = vec![count(self.errors)];
        let types = self.errors_by_type.iter();
        errors.extend(types.map(|(name, messages)| format!("{name} {}", count(*messages))));
        field(out, "errors", errors.join(", "))
    }
}

fn percent(part: Option<f64>) -> String {
    part.map_or("-".to_owned(), |part| format!("{:.0} %", part * 100.0))
}
