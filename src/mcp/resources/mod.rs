//! Resources: what the log has, to be read by name.

mod complete;
mod list;
mod read;

use rmcp::model::{CompleteRequestParams, CompletionInfo};
use rmcp::model::{ListResourcesResult, ReadResourceResult, ResourceTemplate};

use super::answer::Fault;
use super::uri::Uri;
use crate::store::Store;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// Which resources there are, by the form of their names.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |uri, name, title, description, mime_type| {
        ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(mime_type)
    };
    vec![
        template(
            "decklog://conversations/{id}{?after}",
            "conversation",
            "A conversation",
            "A conversation, what its messages add up to, and its messages in order. What is too long for one answer ends with `next`, the uri of the part that follows.",
            JSON,
        ),
        template(
            "decklog://days/{day}/{kind}{?after}",
            "day",
            "A day of one kind of record",
            "The lines of a UTC day (2026-07-28) and a kind of record (conversation_turns, tool_calls, code_edit_proposals, conversations, messages, events, inbox, history, thought_records or rollups), as they stand in the files. Where there are more than one answer holds, a second content names the uri of the part that follows.",
            NDJSON,
        ),
        template(
            "decklog://events/{id}/tree{?after}",
            "run",
            "A run",
            "An event and all that is under it, in order: how deep each stands, how what it began ended, and how long that took. What is too long for one answer ends with `next`.",
            JSON,
        ),
        template(
            "decklog://thoughts/{task_id}{?after}",
            "thoughts",
            "The thoughts of a task",
            "What was planned, found and decided in a task, in order, each record chained to the one before it. The task's id is percent-encoded. What is too long for one answer ends with `next`.",
            JSON,
        ),
    ]
}

/// A page of the resources that there are.
pub(super) fn list(store: &Store, cursor: Option<&str>) -> Result<ListResourcesResult, Fault> {
    list::list(store, cursor)
}

/// What a resource holds, or a part of it.
pub(super) fn read(store: &Store, uri: &str) -> Result<ReadResourceResult, Fault> {
    let read = Uri::parse(uri).and_then(|parsed| read::read(store, uri, &parsed));
    read.map_err(|fault| fault.with_uri(uri))
}

/// How what a person began to write may go on.
pub(super) fn complete(
    store: &Store,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, Fault> {
    complete::complete(store, request)
}
