//! Completes arguments of prompts and templates.

use rmcp::model::{CompleteRequestParams, CompletionInfo, Reference};

use super::super::answer::Fault;
use super::super::prompts;
use super::super::reach::Reach;
use super::super::uri::{CONVERSATION, RUN, THOUGHTS};
use super::list::runs;
use crate::collections::{Cursor, Page};
use crate::error::Result;
use crate::store::Store;

/// Maximum number of values in an answer.
const VALUES_MAX: usize = CompletionInfo::MAX_VALUES;
/// Number of records that are searched, newest first.
const LOOKED_AT_MAX: usize = 2_000;
const AT_ONCE: usize = 200;

/// The completions of an argument.
pub(in crate::mcp) fn complete(
    store: &Store,
    reach: Reach,
    request: &CompleteRequestParams,
) -> Result<CompletionInfo, Fault> {
    let begun = &*request.argument.value;
    let asked = match &request.r#ref {
        Reference::Resource(template) => {
            let path = template.uri.trim_start_matches("decklog://");
            path.split('/').next().unwrap_or_default()
        }
        Reference::Prompt(prompt) if prompts::has(reach, &prompt.name) => &*prompt.name,
        _ => "",
    };
    let mut values = match (asked, &*request.argument.name) {
        ("conversations", "id") if reach.covers(CONVERSATION) => {
            let read = |limit, after| store.conversation_page(limit, after);
            beginning(begun, read, |found| found.id.to_string())
        }
        ("days", "kind") => {
            let kinds = reach.kinds().map(|kind| kind.stem().to_owned());
            Ok(kinds.filter(|kind| kind.starts_with(begun)).collect())
        }
        ("days" | "daily_review", "day") => days(store, reach, begun),
        ("events", "id") | ("what_happened", "run") if reach.covers(RUN) => {
            let read = |limit, after| runs(store, limit, after);
            beginning(begun, read, |found| found.id.to_string())
        }
        ("thoughts", "task_id") if reach.covers(THOUGHTS) => {
            let thoughts = store.thoughts();
            let read = |limit, after| thoughts.tasks(limit, after);
            beginning(begun, read, |first| first.task_id.clone())
        }
        _ => Ok(Vec::new()),
    }?;
    let has_more = values.len() > VALUES_MAX;
    values.truncate(VALUES_MAX);
    CompletionInfo::with_pagination(values, None, has_more).map_err(|error| {
        tracing::error!(error, "too many completions");
        Fault::internal()
    })
}

/// The values with this prefix among the newest records.
fn beginning<T>(
    begun: &str,
    read: impl Fn(usize, Option<Cursor>) -> Result<Page<T>>,
    value: impl Fn(&T) -> String,
) -> Result<Vec<String>> {
    let (mut found, mut after) = (Vec::new(), None);
    for _ in 0..LOOKED_AT_MAX / AT_ONCE {
        let page = read(AT_ONCE, after)?;
        let values = page.items.iter().map(&value);
        found.extend(values.filter(|value| value.starts_with(begun)));
        after = page.next;
        if after.is_none() || found.len() > VALUES_MAX {
            break;
        }
    }
    Ok(found)
}

fn days(store: &Store, reach: Reach, begun: &str) -> Result<Vec<String>> {
    let kinds = store.kinds_of_days(LOOKED_AT_MAX, None)?;
    let kinds = kinds.iter().filter(|it| reach.covers(&[it.kind]));
    let mut days: Vec<String> = kinds.map(|it| it.day.to_string()).collect();
    days.dedup();
    days.retain(|day| day.starts_with(begun));
    Ok(days)
}
