//! A line of the log as readable text.

use std::borrow::Cow;

use decklog::Kind;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::escape::{one_line, padded};
use super::show::{count, grouped};
use super::time;

const SEQ_COLUMNS: usize = 6;
const WHAT_COLUMNS: usize = 12;

/// The fields that are shown, for all kinds.
#[derive(Deserialize)]
struct Shown<'a> {
    at: Option<i64>,
    op: Option<Cow<'a, str>>,
    kind: Option<Cow<'a, str>>,
    #[serde(default)]
    content: Cow<'a, str>,
    text: Option<Cow<'a, str>>,
    call_id: Option<Cow<'a, str>>,
    tool_name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments_json: Option<&'a RawValue>,
    latency_ms: Option<i64>,
    error_msg: Option<Cow<'a, str>>,
    #[serde(borrow)]
    outcome_json: Option<&'a RawValue>,
    request_id: Option<Cow<'a, str>>,
    commit_hash: Option<Cow<'a, str>>,
    #[serde(borrow)]
    diffs_json: Option<&'a RawValue>,
    status: Option<Cow<'a, str>>,
    client: Option<Cow<'a, str>>,
    project: Option<Cow<'a, str>>,
    last_error: Option<Cow<'a, str>>,
    role: Option<Cow<'a, str>>,
    error: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_args: Option<&'a RawValue>,
    event_type: Option<Cow<'a, str>>,
    /// A number or a text, depending on the kind; also the next field.
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    parent_id: Option<&'a RawValue>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
    attempts: Option<i64>,
    #[serde(rename = "type")]
    thought_type: Option<Cow<'a, str>>,
    task_id: Option<Cow<'a, str>>,
    day: Option<Cow<'a, str>>,
    model_used: Option<Cow<'a, str>>,
    messages: Option<u64>,
    through_seq: Option<u64>,
}

/// The row of a table for a line of the log.
pub fn row(kind: Kind, seq: u64, text: &str) -> String {
    // A rewritten line may have other types in its fields: it is shown unchanged.
    let Ok(line) = serde_json::from_str::<Shown<'_>>(text) else {
        return format!("{seq:>SEQ_COLUMNS$}  {}", one_line(text));
    };
    let (what, says) = match kind {
        Kind::ConversationTurns => line.turn(),
        Kind::ToolCalls => line.call(),
        Kind::CodeEditProposals => ("proposal".to_owned(), line.proposal()),
        Kind::Conversations => ("conversation".to_owned(), line.conversation()),
        Kind::Messages => ("message".to_owned(), line.message()),
        Kind::Events => ("event".to_owned(), line.event()),
        Kind::Inbox => ("inbox".to_owned(), line.task()),
        Kind::History => ("history".to_owned(), line.entry()),
        Kind::ThoughtRecords => ("thought".to_owned(), line.thought()),
        Kind::Rollups => ("rollup".to_owned(), line.rollup()),
        // The raw line, so that an unknown kind is shown too.
        _ => (kind.to_string(), text.to_owned()),
    };
    let at = line.at.map(time::shown).unwrap_or_default();
    format!(
        "{seq:>SEQ_COLUMNS$}  {at}  {}  {}",
        padded(&one_line(&what), WHAT_COLUMNS),
        one_line(says.trim())
    )
}

/// The non-empty parts of a row.
fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("  ")
}

fn text(value: Option<&Cow<'_, str>>) -> Option<String> {
    value.map(|value| value.clone().into_owned())
}

/// A payload stored as a string is shown as its text.
fn payload(value: Option<&RawValue>) -> Option<String> {
    let value = value?.get();
    Some(serde_json::from_str(value).unwrap_or_else(|_| value.to_owned()))
}

fn failed(why: Option<&Cow<'_, str>>) -> Option<String> {
    why.map(|why| format!("! {why}"))
}

impl Shown<'_> {
    fn op(&self) -> &str {
        self.op.as_deref().unwrap_or_default()
    }

    fn number(&self) -> String {
        format!("#{}", payload(self.id).unwrap_or_default())
    }

    fn turn(&self) -> (String, String) {
        let kind = self.kind.as_deref().unwrap_or_default();
        if self.op() == "retracted" {
            return ("retracted".to_owned(), format!("{kind}: {}", self.content));
        }
        (kind.to_owned(), self.content.clone().into_owned())
    }

    fn call(&self) -> (String, String) {
        // An outcome does not repeat the tool's name.
        let name = text(self.tool_name.as_ref().or(self.call_id.as_ref()));
        let latency = self.latency_ms;
        let latency = latency.map(|ms| format!("{} ms", grouped(ms.unsigned_abs())));
        let given = || payload(self.arguments_json.or(self.outcome_json));
        let rest = failed(self.error_msg.as_ref()).or_else(given);
        (self.op().to_owned(), joined([name, latency, rest]))
    }

    fn proposal(&self) -> String {
        joined([
            Some(self.op().to_owned()),
            text(self.request_id.as_ref()),
            text(self.commit_hash.as_ref()),
            payload(self.diffs_json),
        ])
    }

    fn conversation(&self) -> String {
        joined([
            text(self.status.as_ref()),
            text(self.client.as_ref()),
            text(self.project.as_ref()),
            failed(self.last_error.as_ref()),
        ])
    }

    fn message(&self) -> String {
        // A message that only calls a tool has no text.
        let call = || joined([text(self.tool_name.as_ref()), payload(self.tool_args)]);
        let call = self.content.is_empty().then(call);
        joined([Some(self.said()), failed(self.error.as_ref()), call])
    }

    /// The role and the text.
    fn said(&self) -> String {
        let role = self.role.as_deref().unwrap_or_default();
        format!("{role}: {}", self.content)
    }

    fn entry(&self) -> String {
        let role = self.role.as_deref().unwrap_or_default();
        format!("{role}: {}", self.text.as_deref().unwrap_or_default())
    }

    fn event(&self) -> String {
        let under = payload(self.parent_id).map(|parent| format!("under #{parent}"));
        joined([
            text(self.event_type.as_ref()),
            Some(self.number()),
            under,
            payload(self.payload),
        ])
    }

    fn task(&self) -> String {
        let attempt = self.attempts.filter(|attempts| *attempts > 0);
        joined([
            Some(self.op().to_owned()),
            Some(self.number()),
            attempt.map(|attempt| format!("attempt {attempt}")),
            failed(self.error.as_ref()),
            text(self.text.as_ref()),
            payload(self.payload),
        ])
    }

    fn thought(&self) -> String {
        let sort = self.thought_type.as_deref().unwrap_or_default();
        let task = self.task_id.as_deref().unwrap_or_default();
        format!("{sort} {task}: {}", self.content)
    }

    fn rollup(&self) -> String {
        let through = |seq| format!("through seq {seq}");
        joined([
            text(self.day.as_ref()),
            text(self.model_used.as_ref()),
            self.messages.map(|messages| count(messages, "message")),
            self.through_seq.map(through),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_each_kind_says_what_it_is() {
        let cases = [
            (
                Kind::CodeEditProposals,
                r#"{"op":"pending","request_id":"r","diffs_json":[1]}"#,
                "proposal      pending  r  [1]",
            ),
            (
                Kind::Conversations,
                r#"{"op":"updated","id":"c","client":"web","project":"p","status":"error","last_error":"no"}"#,
                "conversation  error  web  p  ! no",
            ),
            (
                Kind::Messages,
                r#"{"id":"m","role":"assistant","content":"","tool_name":"ls","tool_args":"a\nb"}"#,
                "message       assistant:   ls  a↵b",
            ),
            (
                Kind::Events,
                r#"{"id":3,"parent_id":1,"event_type":"a.b","payload":{"x":1}}"#,
                "event         a.b  #3  under #1  {\"x\":1}",
            ),
            (
                Kind::Inbox,
                r#"{"op":"failed","id":7,"attempts":2,"error":"gone"}"#,
                "inbox         failed  #7  attempt 2  ! gone",
            ),
            (
                Kind::History,
                r#"{"id":7,"chat_id":-1,"role":"user","text":"hi"}"#,
                "history       user: hi",
            ),
            (
                Kind::ThoughtRecords,
                r#"{"id":"t","type":"plan","task_id":"build","content":"read"}"#,
                "thought       plan build: read",
            ),
            (
                Kind::Rollups,
                r#"{"day":"2025-12-27","model_used":"small-1","messages":1200,"through_seq":7}"#,
                "rollup        2025-12-27  small-1  1,200 messages  through seq 7",
            ),
        ];
        for (kind, text, expected) in cases {
            assert_eq!(row(kind, 1, text), format!("     1    {expected}"));
        }
        assert_eq!(
            row(Kind::Events, 1, r#"{"at":"noon"}"#),
            r#"     1  {"at":"noon"}"#
        );
    }
}
