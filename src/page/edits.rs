//! Edits of files: the proposals with their diffs, and the edits that tools made.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::content::{Budget, Edit, edits_of, shown_edits};
use super::layout::{Page, choice, pager};
use super::lines::of_call;
use super::params::Params;
use super::text::time;
use super::{Answer, Site};
use crate::collections::{CallQuery, Cursor, ProposalQuery};
use crate::error::Result;
use crate::human::{count, one_line, percent};
use crate::record::{CodeEditProposal, Kind, ProposalStatus, ToolCall, ToolStatus};

const PATH: &str = "/ui/edits";
const PROPOSALS: usize = 20;
/// Number of the latest calls of each tool that are searched for edits.
const CALLS: usize = 100;
/// Number of edits in the feed.
const FEED: usize = 40;
/// Tools that edit files.
const TOOLS: [&str; 9] = [
    "Edit",
    "Write",
    "MultiEdit",
    "NotebookEdit",
    "apply_patch",
    "str_replace_editor",
    "str_replace_based_edit_tool",
    "edit_file",
    "write_file",
];

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let query = ProposalQuery {
        status: params.read::<ProposalStatus>("status")?,
        limit: PROPOSALS,
        after: params.read::<Cursor>("after")?,
        ..ProposalQuery::default()
    };
    let proposals = site.store.proposals(&query)?;
    let next = params.next(PATH, proposals.next.as_ref());
    let file = params.get("file");
    let feed = feed(site)?;
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, edits) in &feed {
        for edit in edits {
            *files.entry(&edit.file).or_default() += 1;
        }
    }
    let is_of_file =
        |edits: &[Edit]| file.is_none_or(|file| edits.iter().any(|it| it.file == file));
    let budget = Budget::of_page();
    let main = html! {
        h1 { "Edits" }
        h2 { "Proposals" }
        (choice("Status", params, PATH, "status", &[
            (None, "all"), (Some("pending"), "pending"), (Some("approved"), "approved"),
            (Some("denied"), "denied"), (Some("applied"), "applied"), (Some("reverted"), "reverted"),
        ]))
        div data-part="proposals" {
            @if proposals.items.is_empty() { p.empty { "No proposals." } }
            @for it in &proposals.items { (proposal(it, &budget)) }
            @if !proposals.items.is_empty() { (pager(proposals.items.len(), "proposal", next)) }
        }
        h2 { "Edits by tools" }
        @if !files.is_empty() {
            nav.choice aria-label="File" {
                span.label { "File" }
                a href=(params.link(PATH, "file", None)) aria-current=[file.is_none().then_some("true")] { "all" }
                @for (name, edits) in &files {
                    a href=(params.link(PATH, "file", Some(name))) aria-current=[(file == Some(name)).then_some("true")] {
                        (shown_file(name)) " " small { (count(*edits as u64)) }
                    }
                }
            }
        }
        div data-part="feed" {
            @if feed.is_empty() { p.empty { "No edits by tools." } }
            @for (call, edits) in feed.iter().filter(|(_, edits)| is_of_file(edits)).take(FEED) {
                (by_tool(call, edits, &budget))
            }
        }
    };
    Ok(Page::new("Edits", PATH, main).live(&[Kind::CodeEditProposals, Kind::ToolCalls]))
}

fn shown_file(name: &str) -> &str {
    // The end of a path tells files apart.
    let start = name.len().saturating_sub(60);
    name.get(name.ceil_char_boundary(start)..).unwrap_or(name)
}

fn proposal(proposal: &CodeEditProposal, budget: &Budget) -> Markup {
    let edits = edits_of(&proposal.diffs_json);
    let denied = matches!(
        proposal.status,
        ProposalStatus::Denied | ProposalStatus::Reverted
    );
    html! {
        section.card data-item {
            h3 {
                span.tag.failed[denied] { (proposal.status.as_str()) } " "
                (time(proposal.created_at.at))
            }
            p.soft {
                "Request " code { (proposal.request_id) }
                @if let Some(confidence) = proposal.confidence { " · confidence " (percent(confidence)) }
                @if let Some(at) = proposal.decided_at { " · decided " (time(at)) }
                @if let Some(at) = proposal.applied_at { " · applied " (time(at)) }
                @if let Some(commit) = &proposal.commit_hash { " · commit " code { (one_line(commit, 40)) } }
                " · " a href={ "/ui/lines/proposals/" (proposal.request_id) } { "JSONL" }
            }
            @if edits.is_empty() {
                (super::content::json(&proposal.diffs_json, budget))
            } @else {
                (shown_edits(&edits, budget))
            }
        }
    }
}

fn by_tool((request, done): &ToolCall, edits: &[Edit], budget: &Budget) -> Markup {
    let is_failed = done
        .as_ref()
        .is_some_and(|done| done.status == ToolStatus::Failed);
    let lines = of_call(&request.request_id.to_string(), &request.call_id);
    html! {
        section.card data-item data-failed[is_failed] {
            p.soft {
                code { (one_line(&request.tool_name, 60)) } " " (time(request.started_at.at)) " "
                @if is_failed { span.tag.failed { "failed" } " " }
                a href=(lines) { "JSONL" }
            }
            (shown_edits(edits, budget))
        }
    }
}

/// The latest calls that edit files, with their edits.
fn feed(site: &Site<'_>) -> Result<Vec<(ToolCall, Vec<Edit>)>> {
    let mut feed = Vec::new();
    for tool in TOOLS {
        let query = CallQuery {
            tool_name: Some(tool.to_owned()),
            limit: CALLS,
            ..CallQuery::default()
        };
        for call in site.store.tool_calls(&query)?.items {
            let edits = edits_of(call.0.arguments_json.as_deref().unwrap_or_default());
            if !edits.is_empty() {
                feed.push((call, edits));
            }
        }
    }
    feed.sort_by_key(|((request, _), _)| std::cmp::Reverse(request.started_at.at));
    Ok(feed)
}
