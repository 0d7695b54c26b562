//! The tasks of the inbox, by state.

use maud::{Markup, html};

use super::content::{Budget, json, plain};
use super::layout::{Page, choice, figure, pager};
use super::params::Params;
use super::text::time;
use super::{Answer, Site};
use crate::collections::{Cursor, Order, TaskQuery};
use crate::human::count;
use crate::record::{InboxTask, Kind, TaskStatus};

const PATH: &str = "/ui/inbox";
const TASKS: usize = 50;

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let inbox = site.store.inbox();
    let counts = inbox.counts()?;
    let query = TaskQuery {
        status: params.read::<TaskStatus>("status")?,
        order: Order::NewestFirst,
        limit: TASKS,
        after: params.read::<Cursor>("after")?,
        ..TaskQuery::default()
    };
    let tasks = inbox.list(&query)?;
    let next = params.next(PATH, tasks.next.as_ref());
    let budget = Budget::of_page();
    let number = |count_: usize| count(count_ as u64);
    let main = html! {
        h1 { "Inbox" }
        div data-part="inbox" {
            dl.figures {
                (figure("Queued", number(counts.queued), None))
                (figure("In progress", number(counts.in_progress), None))
                (figure("Done", number(counts.done), None))
                (figure("Failed", number(counts.failed), None))
            }
            (choice("Status", params, PATH, "status", &[
                (None, "all"), (Some("queued"), "queued"), (Some("in_progress"), "in progress"),
                (Some("done"), "done"), (Some("failed"), "failed"),
            ]))
            @if tasks.items.is_empty() { p.empty { "No tasks." } }
            @for it in &tasks.items { (task(it, &budget)) }
            @if !tasks.items.is_empty() { (pager(tasks.items.len(), "task", next)) }
        }
    };
    Ok(Page::new("Inbox", PATH, main).live(&[Kind::Inbox]))
}

fn task(task: &InboxTask, budget: &Budget) -> Markup {
    let is_failed = task.status == TaskStatus::Failed;
    html! {
        section.card data-item data-failed[is_failed] {
            h3 { "Task " (task.id) " " span.tag.failed[is_failed] { (task.status.as_str()) } }
            p.soft {
                "Queued " (time(task.created_at))
                " · changed " (time(task.updated_at))
                " · " (task.attempts) " attempts"
                @if let Some(at) = task.locked_at { " · claimed " (time(at)) }
                @if let Some(chat) = task.chat_id { " · chat " (chat) }
                " · " a href={ "/ui/lines/inbox/" (task.id) } { "JSONL" }
            }
            @if let Some(error) = &task.error { p.error { (super::text::cut(error, 4_000).0) } }
            @if let Some(text) = &task.text { (plain(text, budget)) }
            @if let Some(payload) = &task.payload { (json(payload, budget)) }
        }
    }
}
