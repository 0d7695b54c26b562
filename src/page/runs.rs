//! The list of runs: events without a parent, and threads that agents record as conversations.

use maud::html;

use super::layout::{Page, pager};
use super::params::Params;
use super::text::time;
use super::{Answer, Site, conversations};
use crate::collections::{ConversationQuery, Cursor, EventQuery, Order, SpanStatus};
use crate::human::{duration, one_line};
use crate::record::{Event, Kind};

const PATH: &str = "/ui/runs";
const ROWS: usize = 50;
const SESSIONS: usize = 20;
/// A run with more bytes of events is listed without its duration.
const TREE_BYTES: usize = 1 << 20;

/// What a run came to.
struct Outcome {
    status: Option<SpanStatus>,
    duration_ms: Option<i64>,
    steps: Option<usize>,
    failed: usize,
}

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let query = EventQuery {
        roots: true,
        order: Order::NewestFirst,
        limit: ROWS,
        after: params.read::<Cursor>("after")?,
        ..EventQuery::default()
    };
    let events = site.store.events(&query)?;
    let mut runs: Vec<(Event, Outcome)> = Vec::with_capacity(events.items.len());
    for event in events.items {
        let outcome = outcome(site, event.id)?;
        runs.push((event, outcome));
    }
    let sessions = ConversationQuery {
        limit: SESSIONS,
        ..ConversationQuery::default()
    };
    let sessions = site.store.conversations(&sessions)?.items;
    let next = params.next(PATH, events.next.as_ref());
    let main = html! {
        h1 { "Runs" }
        div data-part="runs" {
            @if runs.is_empty() {
                p.empty { "No runs were recorded as events." }
            } @else {
                div.scroll {
                    table {
                        thead { tr {
                            th scope="col" { "Run" }
                            th scope="col" { "Status" }
                            th.num scope="col" { "Duration" }
                            th.num scope="col" { "Events" }
                            th.num scope="col" { "Failed" }
                        } }
                        tbody {
                            @for (event, outcome) in &runs { (row(event, outcome)) }
                        }
                    }
                }
                (pager(runs.len(), "run", next))
            }
            h2 { "Latest conversations" }
            @if sessions.is_empty() {
                p.empty { "No conversations." }
            } @else {
                ul.lines.card {
                    @for (conversation, _) in &sessions {
                        @let title = conversations::title_of(site.store, conversation)?;
                        li data-item {
                            a href={ (conversations::href(conversation.id)) "/run" } { (title) }
                            " " small { (time(conversation.created_at.at())) }
                        }
                    }
                }
            }
        }
    };
    Ok(Page::new("Runs", PATH, main).live(&[Kind::Events]))
}

fn row(event: &Event, outcome: &Outcome) -> maud::Markup {
    let is_failed = outcome.status == Some(SpanStatus::Failed);
    html! {
        tr data-item data-failed[is_failed] {
            th.title scope="row" {
                a href={ (PATH) "/" (event.id) } { (event.event_type) " " (event.id) }
                small { (time(event.created_at)) " " (one_line(event.payload.as_deref().unwrap_or_default(), 100)) }
            }
            td { @if let Some(status) = outcome.status { span.tag.failed[is_failed] { (status.as_str()) } } }
            td.num { @if let Some(ms) = outcome.duration_ms { (duration(ms)) } }
            td.num { @match outcome.steps { Some(steps) => (steps), None => "many" } }
            td.num { (outcome.failed) }
        }
    }
}

fn outcome(site: &Site<'_>, id: i64) -> crate::error::Result<Outcome> {
    let unknown = Outcome {
        status: None,
        duration_ms: None,
        steps: None,
        failed: 0,
    };
    let tree = match site.store.event_tree_within(id, TREE_BYTES) {
        Ok(tree) => tree,
        // It has more events.
        Err(error) if error.kind() == crate::error::ErrorKind::InvalidInput => return Ok(unknown),
        Err(error) => return Err(error),
    };
    let Some(tree) = tree else {
        return Ok(unknown);
    };
    let failed = tree.nodes.iter().skip(1);
    let failed = failed.filter(|node| node.status == Some(SpanStatus::Failed));
    let root = tree.nodes.first();
    Ok(Outcome {
        status: root.and_then(|root| root.status),
        duration_ms: root.and_then(|root| root.duration_ms),
        steps: Some(tree.nodes.len()),
        failed: failed.count(),
    })
}
