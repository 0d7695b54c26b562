//! Resources: the log's records by uri.

mod complete;
mod list;
mod read;

use rmcp::model::ResourceTemplate;

pub(super) use self::complete::complete;
pub(super) use self::list::list;
pub(super) use self::read::read;
use super::reach::Reach;
use super::uri::{CONVERSATION, RUN, THOUGHTS};
use crate::record::Kind;

const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

/// The templates of resources.
pub(super) fn templates(reach: Reach) -> Vec<ResourceTemplate> {
    let kinds: Vec<&str> = reach.kinds().map(Kind::stem).collect();
    let day = format!(
        "The lines of a UTC day (2026-07-28) and a kind of record ({}), as in the files. If they exceed one answer, a second content names the uri of the next part.",
        kinds.join(", ")
    );
    let template = |is_covered: bool, uri, name, title, description: &str, mime_type| {
        let template = ResourceTemplate::new(uri, name)
            .with_title(title)
            .with_description(description)
            .with_mime_type(mime_type);
        is_covered.then_some(template)
    };
    let covered = [
        template(
            reach.covers(CONVERSATION),
            "decklog://conversations/{id}{?after}",
            "conversation",
            "A conversation",
            "A conversation with its totals, and its messages in order. If it exceeds one answer, `next` is the uri of the next part.",
            JSON,
        ),
        template(
            !kinds.is_empty(),
            "decklog://days/{day}/{kind}{?after}",
            "day",
            "A day of one kind of record",
            &day,
            NDJSON,
        ),
        template(
            reach.covers(RUN),
            "decklog://events/{id}/tree{?after}",
            "run",
            "A run",
            "An event with all events under it, in order, with depth, outcome and duration. If it exceeds one answer, `next` is the uri of the next part.",
            JSON,
        ),
        template(
            reach.covers(THOUGHTS),
            "decklog://thoughts/{task_id}{?after}",
            "thoughts",
            "The thoughts of a task",
            "The plans, analyses, decisions and reflections of a task, in order, each chained to the one before it. The task's id is percent-encoded. If they exceed one answer, `next` is the uri of the next part.",
            JSON,
        ),
    ];
    covered.into_iter().flatten().collect()
}
