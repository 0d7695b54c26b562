//! `decklog statusline`

use std::io::Read;
use std::time::Duration;

use decklog::human::{dollars, percent};
use serde_json::Value;

use super::context::Context;
use super::escape::one_line;
use super::exit::{Exit, Failure};

/// Time limit for reading messages. The whole process may take 10 ms.
const TIME: Duration = Duration::from_millis(3);
/// Maximum length of the input, in bytes.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// Print a status line for Claude Code: model, session, today, burn rate
///
/// Reads the JSON object that Claude Code passes to its status line. Prints the model, the cost of
/// the session, the cost of the current UTC day in all sessions of the log, the cost of the last 60
/// minutes and, if budget.day is set, the spent part of it. Unknown values are left out. A + after
/// the day's cost means that there was no time to read all messages of the day; the next run
/// continues. The exit code is always 0.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example, in ~/.claude/settings.json:\n  \"statusLine\": {\"type\": \"command\", \"command\": \"decklog statusline\"}"
)]
pub struct Args {}

#[allow(clippy::unnecessary_wraps)] // As the other commands.
pub fn run(_: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let mut input = Vec::new();
    // Input that cannot be read is treated as empty.
    let _ = std::io::stdin()
        .take(INPUT_BYTES_MAX)
        .read_to_end(&mut input);
    let input: Value = serde_json::from_slice(&input).unwrap_or_default();
    let mut parts = Vec::new();
    let model = ["display_name", "id"].map(|name| input["model"][name].as_str());
    if let Some(model) = model.into_iter().flatten().find(|it| !it.is_empty()) {
        parts.push(one_line(model).into_owned());
    }
    if let Some(cost) = input["cost"]["total_cost_usd"].as_f64() {
        parts.push(format!("{} session", dollars(cost.max(0.0))));
    }
    if let Some(spending) = spending(context) {
        let more = if spending.is_whole { "" } else { "+" };
        let today = spending.today_usd.map(dollars);
        parts.extend(today.map(|today| format!("{today}{more} today")));
        let hour = spending.last_hour_usd.filter(|usd| *usd > 0.0);
        parts.extend(hour.map(|hour| format!("{}/h", dollars(hour))));
        if let Some(budget) = spending.budget {
            let used = percent(budget.used());
            let over = if budget.is_over() { ", over" } else { "" };
            let amount = dollars(budget.budget_usd);
            parts.push(format!("{used} of {amount}{over}"));
        }
    }
    // A closed output is not an error.
    let _ = context.out.line(&parts.join(" | "));
    Ok(Exit::Ok)
}

/// What was spent; `None` if the log cannot be read.
fn spending(context: &mut Context) -> Option<decklog::analytics::SpendingNow> {
    let store = context.open_in_silence().ok()?;
    store.spending_now(TIME).ok()
}
