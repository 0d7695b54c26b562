//! Resources: the log's records by uri.

mod complete;
mod list;
mod read;

use rmcp::model::{CompleteRequestParams, CompletionInfo};
use rmcp::model::{ListResourcesResult, ReadResourceResult, ResourceTemplate};

use super::answer::Fault;
use super::reach::Reach;
use super::uri::{CONVERSATION, RUN, THOUGHTS, Uri};
use crate::record::Kind;
use crate::store::Store;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// The templates of resources.
pub(super) fn templates(reach: Reach) -> Vec<ResourceTemplate> {
    let kinds: Vec<&str> = reach.kinds().map(Kind::stem).collect();
    let day = format!(
        "The lines of a UTC day (2026-07-28) and a kind of record ({}), as in the files. If they exceed one answer, a second content names the uri of the next part.",
        kinds.join(", ")
    );
    let template = |uri, name, title, description: &str, mime_type| {
        ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(mime_type)
    };
    let all = [
        template(
            "decklog://conversations/{id}{?after}",
            "conversation",
            "A conversation",
            "A conversation with its totals, and its messages in order. If it exceeds one answer, `next` is the uri of the next part.",
            JSON,
        ),
        template(
            "decklog://days/{day}/{kind}{?after}",
            "day",
            "A day of one kind of record",
            &day,
            NDJSON,
        ),
        template(
            "decklog://events/{id}/tree{?after}",
            "run",
            "A run",
            "An event with all events under it, in order, with depth, outcome and duration. If it exceeds one answer, `next` is the uri of the next part.",
            JSON,
        ),
        template(
            "decklog://thoughts/{task_id}{?after}",
            "thoughts",
            "The thoughts of a task",
            "The plans, analyses, decisions and reflections of a task, in order, each chained to the one before it. The task's id is percent-encoded. If they exceed one answer, `next` is the uri of the next part.",
            JSON,
        ),
    ];
    let is_covered = [
        reach.covers(CONVERSATION),
        !kinds.is_empty(),
        reach.covers(RUN),
        reach.covers(THOUGHTS),
    ];
    let all = all.into_iter().zip(is_covered);
    all.filter_map(|(template, is_covered)| is_covered.then_some(template))
        .collect()
}

/// A page of the list of resources.
pub(super) fn list(
    store: &Store,
    reach: Reach,
    cursor: Option<&str>,
) -> Result<ListResourcesResult, Fault> {
    list::list(store, reach, cursor)
}

/// The content of a resource, or a part of it.
pub(super) fn read(store: &Store, reach: Reach, uri: &str) -> Result<ReadResourceResult, Fault> {
    let read = || {
        let parsed = Uri::parse(uri)?;
        reach.check(parsed.subject.kinds())?;
        read::read(store, uri, &parsed)
    };
    read().map_err(|fault| fault.with_uri(uri))
}

/// The completions of an argument.
pub(super) fn complete(
    store: &Store,
    reach: Reach,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, Fault> {
    complete::complete(store, reach, request)
}
