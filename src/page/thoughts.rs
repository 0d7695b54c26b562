//! Hash-chained thoughts, with the verification of their chains.

use maud::{Markup, html};

use super::content::{Budget, markdown};
use super::layout::{Page, pager};
use super::params::{Params, href};
use super::text::time;
use super::{Answer, Site};
use crate::collections::{ChainCheck, Cursor, ThoughtQuery};
use crate::human::{count, one_line};
use crate::record::{Kind, ThoughtRecord};

const PATH: &str = "/ui/thoughts";
const THOUGHTS: usize = 100;
/// Number of chains in the list.
const CHAINS_MAX: usize = 500;

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let main = match params.get("task") {
        Some(task) => chain(site, task, params)?,
        None => chains(site)?,
    };
    Ok(Page::new("Thoughts", PATH, main).live(&[Kind::ThoughtRecords]))
}

fn chains(site: &Site<'_>) -> Result<Markup, super::Refusal> {
    let mut checks = site.store.thoughts().verify_chains()?;
    // Broken chains first.
    checks.sort_by_key(ChainCheck::is_intact);
    let broken = checks.iter().filter(|check| !check.is_intact()).count();
    Ok(html! {
        h1 { "Thoughts" }
        div data-part="chains" {
            @if checks.is_empty() {
                p.empty { "No thoughts were recorded." }
            } @else {
                p {
                    "All hashes were computed again just now. "
                    @if broken == 0 { span.ok { "All " (count(checks.len() as u64)) " chains are intact." } }
                    @else { strong.failed { (count(broken as u64)) " of " (count(checks.len() as u64)) " chains are broken." } }
                }
                div.scroll {
                    table {
                        thead { tr {
                            th scope="col" { "Task" } th scope="col" { "Chain" } th.num scope="col" { "Thoughts" } th.wide scope="col" { "Last hash" }
                        } }
                        tbody {
                            @for check in checks.iter().take(CHAINS_MAX) {
                                tr data-item data-failed[!check.is_intact()] {
                                    th.title scope="row" { a href=(href(PATH, &[("task", &check.task_id)])) { (one_line(&check.task_id, 100)) } }
                                    td { (state(check)) }
                                    td.num { (count(check.records)) }
                                    td.wide { code { (one_line(check.head.as_deref().unwrap_or_default(), 16)) } }
                                }
                            }
                        }
                    }
                }
                @if checks.len() > CHAINS_MAX {
                    p.note { (count((checks.len() - CHAINS_MAX) as u64)) " more chains." }
                }
            }
        }
    })
}

fn state(check: &ChainCheck) -> Markup {
    html! {
        @if check.is_intact() {
            span.ok { "intact" }
        } @else if let Some(broken) = &check.broken {
            span.tag.failed { "broken at thought " (broken.position) }
        } @else {
            span.tag.failed { "its files are damaged" }
        }
    }
}

fn chain(site: &Site<'_>, task: &str, params: &Params) -> Result<Markup, super::Refusal> {
    let query = ThoughtQuery {
        task_id: Some(task.to_owned()),
        limit: THOUGHTS,
        after: params.read::<Cursor>("after")?,
        ..ThoughtQuery::default()
    };
    let thoughts = site.store.thoughts();
    let check = thoughts.verify_chain(task)?;
    let page = thoughts.page(&query)?;
    let next = params.next(PATH, page.next.as_ref());
    let broken = check.broken.as_ref();
    let budget = Budget::of_page();
    Ok(html! {
        h1 { "Thoughts of " (task) }
        div data-part="chain" {
            p { (state(&check)) " · " (count(check.records)) " thoughts · last hash " code { (check.head.as_deref().unwrap_or("none")) } }
            @if let Some(broken) = broken {
                p.error { "Thought " (broken.position) ": " (broken.reason) " (" (broken.file) ", byte " (count(broken.offset)) ")" }
            }
            div.messages {
                @for thought in &page.items {
                    (shown(thought, broken.is_some_and(|it| it.id.as_ref() == Some(&thought.id)), &budget))
                }
            }
            (pager(page.items.len(), "thought", next))
        }
    })
}

fn shown(thought: &ThoughtRecord, is_broken: bool, budget: &Budget) -> Markup {
    html! {
        article class={ "message assistant" @if is_broken { " failed" } } data-item data-failed[is_broken] {
            header {
                strong { (thought.thought_type.as_str()) }
                span { (one_line(&thought.agent_id, 60)) }
                @if is_broken { span.tag.failed { "the chain is broken here" } }
                code title=(thought.hash) { (one_line(&thought.hash, 12)) }
                span.far { (time(thought.timestamp.at())) }
                a href=(href("/ui/lines/thoughts", &[("id", &thought.id)])) { "JSONL" }
            }
            (markdown(&thought.content, budget))
        }
    }
}
