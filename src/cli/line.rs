//! A line of the log as a person reads it.

use std::borrow::Cow;

use decklog::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::escape::{one_line, padded};
use super::show::grouped;
use super::time;

const SEQ_COLUMNS: usize = 6;
const WHAT_COLUMNS: usize = 9;

/// What is shown of a line, of whatever kind.
#[derive(Deserialize)]
struct Shown<'a> {
    at: Option<i64>,
    op: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    content: Cow<'a, str>,
    call_id: Option<Cow<'a, str>>,
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments_json: Option<&'a RawValue>,
    latency_ms: Option<i64>,
    error_msg: Option<Cow<'a, str>>,
    #[serde(borrow)]
    outcome_json: Option<&'a RawValue>,
}

/// The row of a table for a line of the log.
pub fn row(kind: Kind, seq: u64, text: &str) -> String {
    // A line that someone rewrote may hold its fields otherwise: it is shown as it stands.
    let Ok(line) = serde_json::from_str::<Shown<'_>>(text) else {
        return format!("{seq:>SEQ_COLUMNS$}  {}", one_line(text));
    };
    let (what, says) = match kind {
        Kind::ConversationTurns => line.turn(),
        _ => line.call(),
    };
    let at = line.at.map(time::shown).unwrap_or_default();
    format!(
        "{seq:>SEQ_COLUMNS$}  {at}  {}  {}",
        padded(&one_line(&what), WHAT_COLUMNS),
        one_line(says.trim())
    )
}

impl Shown<'_> {
    fn op(&self) -> &str {
        self.op.as_deref().unwrap_or_default()
    }

    fn turn(&self) -> (String, String) {
        let kind = self.kind.as_deref().unwrap_or_default();
        if self.op() == "retracted" {
            return ("retracted".to_owned(), format!("{kind}: {}", self.content));
        }
        (kind.to_owned(), self.content.clone().into_owned())
    }

    fn call(&self) -> (String, String) {
        let mut parts = Vec::new();
        match &self.tool_name {
            Some(tool) => parts.push(tool.clone().into_owned()),
            // An outcome does not repeat the tool's name.
            None => parts.extend(self.call_id.as_deref().map(str::to_owned)),
        }
        if let Some(ms) = self.latency_ms {
            parts.push(format!("{} ms", grouped(ms.unsigned_abs())));
        }
        if let Some(error) = &self.error_msg {
            parts.push(format!("! {error}"));
        } else if let Some(payload) = self.arguments_json.or(self.outcome_json) {
            // A payload stored as a string is shown as what it says.
            let text = serde_json::from_str::<String>(payload.get());
            parts.push(text.unwrap_or_else(|_| payload.get().to_owned()));
        }
        (self.op().to_owned(), parts.join("  "))
    }
}
