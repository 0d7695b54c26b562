//! A line of the log as readable text.

use std::collections::HashMap;

use decklog::Kind;
use decklog::human::{counted, duration};
use serde::de::DeserializeOwned;
use serde_json::Result;
use serde_json::value::RawValue;

use super::escape::{one_line, padded};
use super::time;

const SEQ_COLUMNS: usize = 6;
const WHAT_COLUMNS: usize = 12;

/// The row of a table for a line of the log.
pub fn row(kind: Kind, seq: u64, text: &str) -> String {
    // A rewritten line may have other types in its fields: it is shown unchanged.
    let Ok([at, what, says]) = cells(kind, text) else {
        return format!("{seq:>SEQ_COLUMNS$}  {}", one_line(text));
    };
    format!(
        "{seq:>SEQ_COLUMNS$}  {at}  {}  {}",
        padded(&one_line(&what), WHAT_COLUMNS),
        one_line(says.trim())
    )
}

/// The time of a line, what it is, and what it says.
fn cells(kind: Kind, text: &str) -> Result<[String; 3]> {
    let line = Line(serde_json::from_str(text)?);
    let (what, says) = match kind {
        Kind::ConversationTurns => line.turn()?,
        Kind::ToolCalls => line.call()?,
        Kind::CodeEditProposals => ("proposal".to_owned(), line.proposal()?),
        Kind::Conversations => ("conversation".to_owned(), line.conversation()?),
        Kind::Messages => ("message".to_owned(), line.message()?),
        Kind::Events => ("event".to_owned(), line.event()?),
        Kind::Inbox => ("inbox".to_owned(), line.task()?),
        Kind::History => ("history".to_owned(), line.said("text")?),
        Kind::ThoughtRecords => ("thought".to_owned(), line.thought()?),
        Kind::Rollups => ("rollup".to_owned(), line.rollup()?),
        // The raw line, so that an unknown kind is shown too.
        _ => (kind.to_string(), text.to_owned()),
    };
    let at = line.get("at")?.map(time::shown);
    Ok([at.unwrap_or_default(), what, says])
}

/// The non-empty parts of a row.
fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("  ")
}

/// The fields of a line.
struct Line<'a>(HashMap<String, &'a RawValue>);

impl Line<'_> {
    fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let value = self.0.get(name);
        value.map_or(Ok(None), |value| serde_json::from_str(value.get()))
    }

    fn text(&self, name: &str) -> Result<String> {
        Ok(self.get(name)?.unwrap_or_default())
    }

    /// Any value. A payload stored as a string is shown as its text.
    fn payload(&self, name: &str) -> Option<String> {
        let value = self.0.get(name)?.get();
        let text = || serde_json::from_str(value).unwrap_or_else(|_| value.to_owned());
        (value != "null").then(text)
    }

    fn failed(&self, name: &str) -> Result<Option<String>> {
        let why: Option<String> = self.get(name)?;
        Ok(why.map(|why| format!("! {why}")))
    }

    fn number(&self) -> String {
        format!("#{}", self.payload("id").unwrap_or_default())
    }

    /// The role and the text.
    fn said(&self, text: &str) -> Result<String> {
        Ok(format!("{}: {}", self.text("role")?, self.text(text)?))
    }

    fn turn(&self) -> Result<(String, String)> {
        let (kind, content) = (self.text("kind")?, self.text("content")?);
        Ok(match self.text("op")? {
            op if op == "retracted" => (op, format!("{kind}: {content}")),
            _ => (kind, content),
        })
    }

    fn call(&self) -> Result<(String, String)> {
        // An outcome does not repeat the tool's name.
        let name = self.get("tool_name")?.or(self.get("call_id")?);
        let latency: Option<i64> = self.get("latency_ms")?;
        let latency = latency.map(duration);
        let given = || {
            self.payload("arguments_json")
                .or(self.payload("outcome_json"))
        };
        let rest = self.failed("error_msg")?.or_else(given);
        Ok((self.text("op")?, joined([name, latency, rest])))
    }

    fn proposal(&self) -> Result<String> {
        Ok(joined([
            Some(self.text("op")?),
            self.get("request_id")?,
            self.get("commit_hash")?,
            self.payload("diffs_json"),
        ]))
    }

    fn conversation(&self) -> Result<String> {
        Ok(joined([
            self.get("status")?,
            self.get("client")?,
            self.get("project")?,
            self.failed("last_error")?,
        ]))
    }

    fn message(&self) -> Result<String> {
        let said = self.said("content")?;
        let error = self.failed("error")?;
        // A message that only calls a tool has no text.
        let call = joined([self.get("tool_name")?, self.payload("tool_args")]);
        let call = self.text("content")?.is_empty().then_some(call);
        Ok(joined([Some(said), error, call]))
    }

    fn event(&self) -> Result<String> {
        let parent = self.payload("parent_id");
        Ok(joined([
            self.get("event_type")?,
            Some(self.number()),
            parent.map(|parent| format!("under #{parent}")),
            self.payload("payload"),
        ]))
    }

    fn task(&self) -> Result<String> {
        let attempt: Option<i64> = self.get("attempts")?;
        let attempt = attempt.filter(|attempts| *attempts > 0);
        Ok(joined([
            Some(self.text("op")?),
            Some(self.number()),
            attempt.map(|attempt| format!("attempt {attempt}")),
            self.failed("error")?,
            self.get("text")?,
            self.payload("payload"),
        ]))
    }

    fn thought(&self) -> Result<String> {
        let (sort, task) = (self.text("type")?, self.text("task_id")?);
        Ok(format!("{sort} {task}: {}", self.text("content")?))
    }

    fn rollup(&self) -> Result<String> {
        let messages: Option<u64> = self.get("messages")?;
        let through: Option<u64> = self.get("through_seq")?;
        Ok(joined([
            self.get("day")?,
            self.get("model_used")?,
            messages.map(|messages| counted(messages, "message")),
            through.map(|seq| format!("through seq {seq}")),
        ]))
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
