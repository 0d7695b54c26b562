//! The list of conversations.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use uuid::Uuid;

use super::layout::{Page, choice, filters};
use super::params::Params;
use super::text::time;
use super::{Answer, Site};
use crate::collections::{ConversationList, ConversationQuery, ConversationSort, SearchQuery};
use crate::error::Result;
use crate::human::{count, counted, dollars, duration, short};
use crate::record::{Client, Conversation, ConversationStats, ConversationStatus, Kind};
use crate::store::Store;

const PATH: &str = "/ui/conversations";
/// Number of conversations of a page.
const ROWS: usize = 50;
/// Maximum number of matching lines of a text search.
const MATCHES: usize = 500;
/// Time after which a search shows what it has found so far.
const SEARCH_TIME: Duration = Duration::from_secs(2);

pub(super) type Whole = (Conversation, ConversationStats);

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let offset = params.read("offset")?.unwrap_or(0);
    let query = ConversationQuery {
        workspace: params.text("workspace"),
        project: params.text("project"),
        client: params.read::<Client>("client")?,
        user_id: params.text("user"),
        session_id: params.text("session"),
        parent_id: params.read("parent")?,
        agent: params.text("agent"),
        status: params.read::<ConversationStatus>("status")?,
        sort: params.read::<ConversationSort>("sort")?,
        since: params.days()?.0,
        until: params.days()?.1,
        limit: ROWS,
        offset,
        ..ConversationQuery::default()
    };
    let (list, is_whole) = match params.get("text") {
        Some(text) => with_text(site, text, query)?,
        None => (site.store.conversations(&query)?, true),
    };
    let next = offset.saturating_add(list.items.len());
    let main = html! {
        h1 { "Conversations" }
        (filters(params, PATH, &[
            ("text", "search", "Text in messages"),
            ("project", "text", "Project"),
            ("since", "date", "From day (UTC)"),
            ("until", "date", "To day (UTC)"),
        ]))
        (choice("Status", params, PATH, "status", &[
            (None, "all"),
            (Some("active"), "active"),
            (Some("completed"), "completed"),
            (Some("error"), "error"),
        ]))
        (choice("Sort", params, PATH, "sort", &[
            (None, "newest"),
            (Some("cost"), "cost"),
            (Some("tokens"), "tokens"),
            (Some("duration"), "duration"),
            (Some("failures"), "failures"),
        ]))
        @if !is_whole {
            p.banner { "The search was ended early. Narrow the period to search the rest." }
        }
        div data-part="list" {
            @if list.items.is_empty() {
                p.empty { "No conversations match." }
            } @else {
                (table(site, &list.items)?)
            }
            p.pager {
                span {
                    @if next < list.total || offset > 0 {
                        (count((offset as u64).saturating_add(1))) "–" (count(next as u64)) " of "
                    }
                    (counted(list.total as u64, "conversation"))
                }
                @if offset > 0 {
                    a rel="prev" href=(at(params, offset.saturating_sub(ROWS))) { "Previous page" }
                }
                @if next < list.total {
                    a rel="next" href=(at(params, next)) { "Next page" }
                }
            }
        }
    };
    Ok(Page::new("Conversations", PATH, main).live(&[Kind::Conversations, Kind::Messages]))
}

fn at(params: &Params, offset: usize) -> String {
    let offset = (offset > 0).then(|| offset.to_string());
    params.link(PATH, "offset", offset.as_deref())
}

/// The conversations with a text in their messages or their own fields, and whether the whole log
/// was searched.
fn with_text(
    site: &Site<'_>,
    text: &str,
    query: ConversationQuery,
) -> Result<(ConversationList, bool)> {
    let end = Instant::now() + SEARCH_TIME;
    let mut ids: BTreeSet<Uuid> = BTreeSet::new();
    let mut is_whole = true;
    for kind in [Kind::Messages, Kind::Conversations] {
        let search = SearchQuery {
            text: text.to_owned(),
            kind: Some(kind),
            limit: MATCHES,
            ..SearchQuery::default()
        };
        let found = site.store.search_until(&search, end)?;
        is_whole &= found.is_whole && found.matches.len() < MATCHES;
        ids.extend(found.matches.iter().filter_map(|it| it.conversation_id));
    }
    let (offset, limit) = (query.offset, query.limit);
    let all = ConversationQuery {
        limit: usize::MAX,
        offset: 0,
        ..query
    };
    let mut items = site.store.conversations(&all)?.items;
    items.retain(|(conversation, _)| ids.contains(&conversation.id));
    let total = items.len();
    let items = items.into_iter().skip(offset).take(limit).collect();
    Ok((ConversationList { items, total }, is_whole))
}

/// A table of conversations with their totals.
pub(super) fn table(site: &Site<'_>, items: &[Whole]) -> Result<Markup> {
    let mut rows = Vec::with_capacity(items.len());
    for whole in items {
        rows.push((title_of(site.store, &whole.0)?, whole));
    }
    let has_cost = items
        .iter()
        .any(|(_, stats)| stats.total_cost_usd.is_some());
    Ok(html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th scope="col" { "Conversation" }
                        th.wide scope="col" { "Model" }
                        th scope="col" { "Status" }
                        th.num.wide scope="col" { "Duration" }
                        th.num scope="col" { "Messages" }
                        th.num scope="col" { "Tokens in" }
                        th.num scope="col" { "Tokens out" }
                        @if has_cost { th.num scope="col" { "Cost" } }
                        th.num.wide scope="col" { "Failures" }
                    }
                }
                tbody {
                    @for (title, (conversation, stats)) in &rows {
                        tr data-item data-failed[conversation.status == ConversationStatus::Error] {
                            th.title scope="row" {
                                a href=(href(conversation.id)) { (title) }
                                small { (about(conversation)) }
                            }
                            td.wide { (stats.models_used.join(", ")) }
                            td { (status(conversation.status)) }
                            td.num.wide { (lasted(conversation)) }
                            td.num { (count(stats.message_count)) }
                            td.num { (tokens(stats.total_tokens_in)) }
                            td.num { (tokens(stats.total_tokens_out)) }
                            @if has_cost { td.num { @if let Some(cost) = stats.total_cost_usd { (dollars(cost)) } @else { "–" } } }
                            td.num.wide { (count(stats.failure_count)) }
                        }
                    }
                }
            }
        }
    })
}

/// The time and the place of a conversation.
fn about(conversation: &Conversation) -> Markup {
    let project = conversation.project.as_deref();
    html! {
        (time(conversation.created_at.at()))
        " · " (conversation.client)
        @if let Some(project) = project { " · " (project) }
        @if conversation.parent_id.is_some() { " · sub-agent" }
    }
}

pub(super) fn href(id: Uuid) -> String {
    format!("{PATH}/{id}")
}

/// The title of a conversation as it is shown.
pub(super) fn title_of(store: &Store, conversation: &Conversation) -> Result<String> {
    let title = store.conversation_title(conversation)?;
    Ok(title.unwrap_or_else(|| "(no title)".to_owned()))
}

pub(super) fn status(status: ConversationStatus) -> Markup {
    let is_error = status == ConversationStatus::Error;
    html! { span.tag.failed[is_error] { (status.as_str()) } }
}

/// The time from the creation of a conversation to its last change.
pub(super) fn lasted(conversation: &Conversation) -> String {
    duration(conversation.lasted_ms())
}

#[allow(clippy::cast_precision_loss)] // It is rounded anyway.
pub(super) fn tokens(number: u64) -> String {
    short(number as f64)
}
