//! Reads a resource: all of it, or one part and the start of the next.

use rmcp::model::{MetaObject, ReadResourceResult, ResourceContents};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::answer::Fault;
use super::super::reach::Reach;
use super::super::uri::{Subject, Uri};
use super::{JSON, NDJSON};
use crate::collections::{Cursor, MessageQuery, Page, ThoughtQuery};
use crate::record::{Day, Kind};
use crate::store::Store;
use crate::wire::conversation::Whole;

/// Maximum size of contents, in bytes, unless one record is longer. As text within JSON they are up
/// to twice as long, and some clients refuse an event of 1 MiB.
const CONTENTS_BYTES_MAX: usize = 256 << 10;
/// Number of records that are read at once, before their length is known.
const READ_AT_ONCE: usize = 8;

/// Some records, each as JSON.
type Records = Vec<Box<RawValue>>;

/// The content of a resource, or a part of it.
pub(in crate::mcp) fn read(
    store: &Store,
    reach: Reach,
    uri: &str,
) -> Result<ReadResourceResult, Fault> {
    let parsed = Uri::parse_within(uri, reach)?;
    contents(store, uri, &parsed).map_err(|fault| fault.with_uri(uri))
}

fn contents(store: &Store, name: &str, uri: &Uri) -> Result<ReadResourceResult, Fault> {
    let after = uri.after.as_deref();
    let (body, next) = match &uri.subject {
        Subject::Conversation(id) => conversation(store, *id, after),
        Subject::Tree(id) => tree(store, *id, after),
        Subject::Thoughts(task_id) => thoughts(store, task_id, after),
        Subject::Day(day, kind) => return lines(store, name, (*day, *kind), after),
    }?;
    let next = next.map(|after| Uri::part(&uri.subject, after).to_string());
    let next = next.as_deref();
    let text = serde_json::to_string(&Part { body, next });
    let text = text.map_err(|error| broken(&error))?;
    let contents = part(text, name, JSON, next);
    Ok(ReadResourceResult::new(vec![contents]))
}

/// A part of a resource that is JSON.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    body: Body<'a>,
    /// The uri of the next part.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Body<'a> {
    Conversation {
        conversation: Box<Whole>,
        messages: Records,
    },
    Tree {
        nodes: Records,
        total: usize,
    },
    Thoughts {
        task_id: &'a str,
        records: Records,
    },
}

/// The records of a part, and the position after which the next one begins.
type Found<'a> = Result<(Body<'a>, Option<String>), Fault>;

fn part(text: String, name: &str, mime_type: &str, next: Option<&str>) -> ResourceContents {
    let contents = ResourceContents::text(text, name).with_mime_type(mime_type);
    match next {
        Some(next) => {
            let mut meta = MetaObject::new();
            meta.insert("decklog/next".to_owned(), next.into());
            contents.with_meta(meta)
        }
        None => contents,
    }
}

fn broken(error: &serde_json::Error) -> Fault {
    tracing::error!(%error, "a resource cannot be encoded as JSON");
    Fault::internal()
}

fn no_part() -> Fault {
    Fault::invalid("after: use the uri in `next` of a part, unchanged")
}

fn cursor(after: Option<&str>) -> Result<Option<Cursor>, Fault> {
    after.map(str::parse).transpose().map_err(|_| no_part())
}

/// The records that fit an answer, and the position of the last one if there are more.
fn records<T: Serialize>(
    mut after: Option<Cursor>,
    mut read: impl FnMut(usize, Option<Cursor>) -> crate::Result<Page<T>>,
) -> Result<(Records, Option<String>), Fault> {
    let (mut records, mut bytes) = (Records::new(), 0);
    let mut at_once = READ_AT_ONCE;
    loop {
        let page = read(at_once, after)?;
        let some: Result<Records, _> = page.items.iter().map(to_raw_value).collect();
        let some = some.map_err(|error| broken(&error))?;
        let some_bytes: usize = some.iter().map(|record| record.get().len()).sum();
        let is_room = bytes + some_bytes <= CONTENTS_BYTES_MAX;
        if is_room || (records.is_empty() && some.len() <= 1) {
            bytes += some_bytes;
            records.extend(some);
            after = page.next;
            if after.is_none() {
                return Ok((records, None));
            }
        } else if some.len() <= 1 {
            return Ok((records, after.map(|after| after.to_string())));
        } else {
            at_once = some.len() / 2;
        }
    }
}

fn conversation<'a>(store: &Store, id: uuid::Uuid, after: Option<&str>) -> Found<'a> {
    let after = cursor(after)?;
    let found = store.get_conversation(id)?;
    let found = found.ok_or_else(|| Fault::not_found("there is no such conversation"))?;
    let (messages, next) = records(after, |limit, after| {
        let query = MessageQuery {
            limit,
            after,
            ..MessageQuery::default()
        };
        store.messages(id, &query)
    })?;
    let conversation = Box::new(Whole::of(found));
    let body = Body::Conversation {
        conversation,
        messages,
    };
    Ok((body, next))
}

/// A part of a tree begins after an event, at its current position.
fn tree<'a>(store: &Store, id: i64, after: Option<&str>) -> Found<'a> {
    let after = after.map(str::parse::<i64>).transpose();
    let after = after.map_err(|_| no_part())?;
    let tree = store.event_tree(id)?;
    let tree = tree.ok_or_else(|| Fault::not_found("there is no such event"))?;
    let total = tree.nodes.len();
    let place = |after| {
        let found = tree.nodes.iter().position(|node| node.event.id == after);
        found.map(|place| place + 1).ok_or_else(no_part)
    };
    let start = after.map_or(Ok(0), place)?;
    let (mut nodes, mut bytes) = (Records::new(), 0);
    for node in &tree.nodes[start..] {
        let record = to_raw_value(node).map_err(|error| broken(&error))?;
        bytes += record.get().len();
        if bytes > CONTENTS_BYTES_MAX && !nodes.is_empty() {
            break;
        }
        nodes.push(record);
    }
    let end = start + nodes.len();
    let last = tree.nodes.get(end.wrapping_sub(1));
    let next = last.filter(|_| end < total);
    let next = next.map(|last| last.event.id.to_string());
    Ok((Body::Tree { nodes, total }, next))
}

fn thoughts<'a>(store: &Store, task_id: &'a str, after: Option<&str>) -> Found<'a> {
    let after = cursor(after)?;
    let thoughts = store.thoughts();
    let read = |limit, after| {
        thoughts.page(&ThoughtQuery {
            task_id: Some(task_id.to_owned()),
            limit,
            after,
            ..ThoughtQuery::default()
        })
    };
    let (records, next) = records(after, read)?;
    if records.is_empty() && (after.is_none() || read(1, None)?.items.is_empty()) {
        return Err(Fault::not_found("this task has no thoughts"));
    }
    Ok((Body::Thoughts { task_id, records }, next))
}

/// The last line of a part: its sequence number, and its offset in its file.
fn line_cursor(after: Option<&str>) -> Result<(u64, Option<u64>), Fault> {
    let Some(after) = after else {
        return Ok((0, None));
    };
    let parts = after.split_once('-');
    let numbers = parts.and_then(|(seq, began)| Some((seq.parse().ok()?, began.parse().ok()?)));
    let (seq, began) = numbers.ok_or_else(no_part)?;
    Ok((seq, Some(began)))
}

fn lines(
    store: &Store,
    name: &str,
    (day, kind): (Day, Kind),
    after: Option<&str>,
) -> Result<ReadResourceResult, Fault> {
    let (seq, began) = line_cursor(after)?;
    let mut reader = store.lines_since(seq).only(day, kind, began);
    let mut text = String::new();
    let (mut last, mut next) = (None, None);
    loop {
        let page = reader.page()?;
        let bytes: usize = page.iter().map(|line| line.text.len() + 1).sum();
        let Some(new_last) = page.last().map(|line| (line.seq, line.offset)) else {
            break;
        };
        if text.len() + bytes > CONTENTS_BYTES_MAX && !text.is_empty() {
            next = last;
            break;
        }
        last = Some(new_last);
        for line in page {
            text.push_str(&line.text);
            text.push('\n');
        }
    }
    if last.is_none() && (after.is_none() || is_empty(store, day, kind)?) {
        return Err(Fault::not_found("this day has no lines of this kind"));
    }
    let subject = Subject::Day(day, kind);
    let next = next.map(|(seq, began)| Uri::part(&subject, format_args!("{seq}-{began}")));
    let next = next.map(|next| next.to_string());
    let mut contents = vec![part(text, name, NDJSON, next.as_deref())];
    if let Some(next) = next {
        // Lines are not changed, and not every client shows metadata.
        let more = "There are more lines: read this uri for the next part.";
        contents.push(ResourceContents::text(more, next));
    }
    Ok(ReadResourceResult::new(contents))
}

fn is_empty(store: &Store, day: Day, kind: Kind) -> Result<bool, Fault> {
    let page = store.lines_since(0).only(day, kind, None).page()?;
    Ok(page.is_empty())
}
