//! The uris of resources, such as `decklog://conversations/{id}`. Each has one spelling, apart from
//! percent-encoding.

use std::fmt::{self, Write as _};

use uuid::Uuid;

use super::answer::Fault;
use super::reach::Reach;
use crate::record::{Day, Kind};

/// Maximum length: an id has at most 1,024 bytes, each of which may take three.
const URI_BYTES_MAX: usize = 4 << 10;
const SCHEME: &str = "decklog://";
/// The URIs that can be read, for error messages.
const ALL: &str = "decklog://conversations/{id}, decklog://days/{day}/{kind}, decklog://events/{id}/tree and decklog://thoughts/{task_id}";

// The kinds of records of each type of resource.
pub(super) const CONVERSATION: &[Kind] = &[Kind::Conversations, Kind::Messages];
pub(super) const RUN: &[Kind] = &[Kind::Events];
pub(super) const THOUGHTS: &[Kind] = &[Kind::ThoughtRecords];

/// The content of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    /// A conversation with its messages.
    Conversation(Uuid),
    /// The lines of a day and kind.
    Day(Day, Kind),
    /// An event with all events under it.
    Tree(i64),
    /// The thoughts of a task.
    Thoughts(String),
}

impl Subject {
    /// The kinds of its records.
    pub(super) fn kinds(&self) -> &[Kind] {
        match self {
            Subject::Conversation(_) => CONVERSATION,
            Subject::Day(_, kind) => std::slice::from_ref(kind),
            Subject::Tree(_) => RUN,
            Subject::Thoughts(_) => THOUGHTS,
        }
    }
}

/// The uri of a resource or of a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Uri {
    pub(super) subject: Subject,
    /// The start of the part, from the `next` of the one before it.
    pub(super) after: Option<String>,
}

impl Uri {
    pub(super) fn parse(text: &str) -> Result<Uri, Fault> {
        let read = || {
            if text.len() > URI_BYTES_MAX {
                let message =
                    format!("the uri has more than {URI_BYTES_MAX} bytes: use one of {ALL}");
                return Err(Fault::invalid(message));
            }
            let Some(rest) = text.strip_prefix(SCHEME) else {
                let message = format!("there is no such resource: use one of {ALL}");
                return Err(Fault::not_found(message));
            };
            let mut parts = rest.splitn(2, '?');
            Ok(Uri {
                subject: subject(parts.next().unwrap_or_default())?,
                after: parts.next().map(after).transpose()?,
            })
        };
        read().map_err(|fault| fault.with_uri(text))
    }

    /// Refuses resources out of reach, too.
    pub(super) fn parse_within(text: &str, reach: Reach) -> Result<Uri, Fault> {
        let uri = Uri::parse(text)?;
        reach
            .check(uri.subject.kinds())
            .map_err(|fault| fault.with_uri(text))?;
        Ok(uri)
    }

    /// The part after a position.
    pub(super) fn part(subject: &Subject, after: impl fmt::Display) -> Uri {
        Uri {
            subject: subject.clone(),
            after: Some(after.to_string()),
        }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.subject)?;
        match &self.after {
            Some(after) => write!(f, "?after={}", Encoded(after)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        match self {
            Subject::Conversation(id) => write!(f, "conversations/{id}"),
            Subject::Day(day, kind) => write!(f, "days/{day}/{}", kind.stem()),
            Subject::Tree(id) => write!(f, "events/{id}/tree"),
            Subject::Thoughts(task_id) => write!(f, "thoughts/{}", Encoded(task_id)),
        }
    }
}

fn subject(path: &str) -> Result<Subject, Fault> {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["conversations", id] => {
            let id = decoded(id)?;
            // Only the spelling of tools, though others are valid UUIDs.
            let read = Uuid::try_parse(&id).ok().filter(|_| id.len() == 36);
            let message =
                "the id of a conversation is a UUID, such as 6e0f4a1c-5d2b-4c3e-9f10-2b7a8c9d0e1f";
            read.map(Subject::Conversation)
                .ok_or_else(|| Fault::invalid(message))
        }
        ["days", day, kind] => {
            let day = decoded(day)?;
            let day = day
                .parse()
                .map_err(|_| Fault::invalid("a day is a UTC day, such as 2026-07-28"))?;
            let kind = Kind::from_stem(&decoded(kind)?).ok_or_else(|| {
                let all = Kind::ALL.map(Kind::stem).join(", ");
                Fault::invalid(format!("unknown kind of record: use one of {all}"))
            })?;
            Ok(Subject::Day(day, kind))
        }
        ["events", id, "tree"] => {
            let id = decoded(id)?;
            let read = id.parse::<i64>().ok();
            let read = read.filter(|read| read.to_string() == id);
            read.map(Subject::Tree)
                .ok_or_else(|| Fault::invalid("the id of an event is a whole number"))
        }
        ["thoughts", task_id] => {
            let task_id = decoded(task_id)?;
            if task_id.is_empty() {
                return Err(Fault::invalid("the task's id is empty"));
            }
            Ok(Subject::Thoughts(task_id))
        }
        _ => {
            let message = format!("there is no such resource: use one of {ALL}");
            Err(Fault::invalid(message))
        }
    }
}

fn after(query: &str) -> Result<String, Fault> {
    let value = query
        .strip_prefix("after=")
        .filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| {
        Fault::invalid("the only allowed query is ?after= with a value from the `next` of a part")
    })?;
    decoded(value)
}

/// Whether a character is never encoded.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Decodes a segment of a path, or a value.
fn decoded(text: &str) -> Result<String, Fault> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => match (digit(rest.next()), digit(rest.next())) {
                (Some(high), Some(low)) => high << 4 | low,
                _ => {
                    return Err(Fault::invalid(
                        "a % in a uri must be followed by two hexadecimal digits",
                    ));
                }
            },
            _ if is_unreserved(byte) || b"!$&'()*+,;=:@".contains(&byte) => byte,
            _ => {
                let message = "characters other than letters, digits and -._~ must be percent-encoded in a uri, as UTF-8";
                return Err(Fault::invalid(message));
            }
        };
        bytes.push(byte);
    }
    let message = "percent-encoded bytes in a uri must be UTF-8";
    String::from_utf8(bytes).map_err(|_| Fault::invalid(message))
}

/// Encodes a text as a segment of a path, or a value.
pub(super) struct Encoded<'a>(pub(super) &'a str);

impl fmt::Display for Encoded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            if is_unreserved(byte) {
                f.write_char(char::from(byte))?;
            } else {
                write!(f, "%{byte:02X}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6e0f4a1c-5d2b-4c3e-9f10-2b7a8c9d0e1f";

    fn code(text: &str) -> i32 {
        let fault = Uri::parse(text).expect_err(text);
        rmcp::model::ErrorData::from(fault).code.0
    }

    #[test]
    fn what_is_written_is_read() {
        let tasks = [
            "t1",
            "../..",
            "a b/c?d#e%f",
            "é€😀",
            "\0",
            "%2e",
            "+&=;",
            "~",
        ];
        let tasks = tasks.map(|task| Subject::Thoughts(task.to_owned()));
        let others = [
            Subject::Conversation(ID.parse().unwrap()),
            Subject::Day("2026-07-28".parse().unwrap(), Kind::ThoughtRecords),
            Subject::Tree(7),
            Subject::Tree(i64::MIN),
        ];
        for subject in tasks.into_iter().chain(others) {
            for after in [
                None,
                Some("1766832000123-42".to_owned()),
                Some("é%".to_owned()),
            ] {
                let subject = subject.clone();
                let uri = Uri { subject, after };
                let text = uri.to_string();
                assert!(text.is_ascii() && !text.contains(' '), "{text}");
                assert_eq!(Uri::parse(&text).expect("as written"), uri, "{text}");
            }
        }
    }

    #[test]
    fn what_is_encoded_without_need_means_the_same() {
        let plain = Uri::parse("decklog://thoughts/fix-1").unwrap();
        assert_eq!(Uri::parse("decklog://thoughts/%66ix%2d1").unwrap(), plain);
        let upper = format!("decklog://conversations/{}", ID.to_uppercase());
        let lower = format!("decklog://conversations/{ID}");
        assert_eq!(Uri::parse(&upper).unwrap(), Uri::parse(&lower).unwrap());
        assert_eq!(
            Uri::parse("decklog://events/%37/tree").unwrap().subject,
            Subject::Tree(7)
        );
    }

    #[test]
    fn what_names_nothing_is_refused() {
        for text in [
            "",
            "file:///etc/passwd",
            "DECKLOG://thoughts/t",
            "decklog:thoughts/t",
        ] {
            assert_eq!(code(text), -32002, "{text}");
        }
        let long = format!("decklog://thoughts/{}", "x".repeat(5_000));
        for text in [
            "decklog://",
            "decklog:///thoughts/t",
            "decklog://thoughts",
            "decklog://thoughts/",
            "decklog://thoughts/a/b",
            "decklog://thoughts/a#b",
            "decklog://thoughts/a b",
            "decklog://thoughts/é",
            "decklog://thoughts/%",
            "decklog://thoughts/%4",
            "decklog://thoughts/%zz",
            "decklog://thoughts/%+1",
            "decklog://thoughts/%ff",
            "decklog://thoughts/t?",
            "decklog://thoughts/t?after",
            "decklog://thoughts/t?after=",
            "decklog://thoughts/t?after=1?after=2",
            "decklog://thoughts/t?before=1",
            "decklog://events/7",
            "decklog://events/07/tree",
            "decklog://events/+7/tree",
            "decklog://events/7.0/tree",
            "decklog://events/99999999999999999999/tree",
            "decklog://days/2026-07-28",
            "decklog://days/2026-7-28/messages",
            "decklog://days/2026-07-28/seals",
            "decklog://days/../messages",
            "decklog://days/2026-07-28%00/messages",
            "decklog://conversations/6e0f4a1c5d2b4c3e9f102b7a8c9d0e1f",
            "decklog://conversations/..",
            &long,
        ] {
            assert_eq!(code(text), -32602, "{text}");
        }
    }
}
