//! Full-text search over all records.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use maud::{Markup, html};

use super::layout::{Page, choice, pager};
use super::lines::of_call;
use super::params::{Invalid, Params, href};
use super::text::time;
use super::{Answer, Site};
use crate::collections::{SearchCursor, SearchMatch, SearchQuery};
use crate::error::Result;
use crate::record::Kind;
use crate::store::Store;

const PATH: &str = "/ui/search";
const MATCHES: usize = 50;
/// Time after which a search shows what it has found so far.
const TIME_MAX: Duration = Duration::from_secs(3);

pub(super) fn page(site: &Site<'_>, params: &Params) -> Answer {
    let found = match params.get("text") {
        Some(text) => {
            let query = SearchQuery {
                text: text.to_owned(),
                kind: kind_of(params)?,
                since: params.days()?.0,
                until: params.days()?.1,
                limit: MATCHES,
                after: params.read::<SearchCursor>("after")?,
            };
            let end = Instant::now() + TIME_MAX;
            let mut found = site.store.search_until(&query, end)?;
            found.matches = once(site.store, found.matches)?;
            Some((text, found))
        }
        None => None,
    };
    let kinds = Kind::ALL
        .iter()
        .map(|kind| (Some(kind.stem()), kind.stem()));
    let kinds: Vec<_> = std::iter::once((None, "all")).chain(kinds).collect();
    let main = html! {
        h1 { "Search" }
        form.filters role="search" action=(PATH) {
            @for (name, value) in params.others(&["text", "since", "until"]) {
                input type="hidden" name=(name) value=(value);
            }
            label { span { "Text" } input type="search" name="text" value=(params.get("text").unwrap_or_default()) maxlength="1024" data-search; }
            label { span { "From day (UTC)" } input type="date" name="since" value=(params.get("since").unwrap_or_default()); }
            label { span { "To day (UTC)" } input type="date" name="until" value=(params.get("until").unwrap_or_default()); }
            button { "Search" }
        }
        (choice("Kind", params, PATH, "kind", &kinds))
        @if let Some((text, found)) = &found {
            @if found.matches.is_empty() { p.empty { "Nothing found." } }
            div.messages {
                @for it in &found.matches { (hit(it, text)) }
            }
            @if !found.is_whole { p.banner { "The search was ended early. The next page continues it." } }
            (pager(found.matches.len(), "match", params.next(PATH, found.next.as_ref())))
        } @else {
            p.soft { "Finds a text in all records, latest first. Upper and lower case are the same." }
        }
    };
    Ok(Page::new("Search", PATH, main))
}

fn kind_of(params: &Params) -> Result<Option<Kind>, Invalid> {
    let Some(name) = params.get("kind") else {
        return Ok(None);
    };
    let unknown = || Invalid {
        name: "kind",
        reason: format!("{name:?} is not a kind of record"),
    };
    Kind::from_stem(name).map(Some).ok_or_else(unknown)
}

/// The matches without the turns and tool calls whose messages are among them: importers record
/// both, at the same time.
fn once(store: &Store, matches: Vec<SearchMatch>) -> Result<Vec<SearchMatch>> {
    let (mut ids, mut calls) = (HashSet::new(), HashSet::new());
    for hit in matches.iter().filter(|hit| hit.kind == Kind::Messages) {
        let id = hit.key.parse().ok();
        let message = id.map(|id| store.get_message(id)).transpose()?.flatten();
        ids.insert(hit.key.clone());
        calls.extend(message.and_then(|message| Some((hit.at, message.tool_call_id?))));
    }
    let is_again = |hit: &SearchMatch| match hit.kind {
        Kind::ConversationTurns => ids.contains(&hit.key),
        Kind::ToolCalls => {
            let call = hit.key.split_once(' ').map(|(_, call)| call);
            call.is_some_and(|call| calls.contains(&(hit.at, call.to_owned())))
        }
        _ => false,
    };
    Ok(matches.into_iter().filter(|hit| !is_again(hit)).collect())
}

fn hit(hit: &SearchMatch, text: &str) -> Markup {
    html! {
        article.message data-item {
            header {
                strong { (hit.kind.stem()) }
                code { (hit.field) }
                span.far { (time(hit.at)) }
                @if let Some(href) = place(hit) { a href=(href) { "Open" } }
            }
            (marked(&hit.snippet, text))
        }
    }
}

/// The page with a record.
fn place(hit: &SearchMatch) -> Option<String> {
    let key = hit.key.as_str();
    Some(match (hit.kind, hit.conversation_id) {
        (Kind::Messages, Some(conversation)) => {
            format!("/ui/conversations/{conversation}?message={key}#m-{key}")
        }
        (Kind::Conversations, Some(conversation)) => format!("/ui/conversations/{conversation}"),
        (Kind::ToolCalls, _) => {
            let (request, call) = key.split_once(' ')?;
            of_call(request, call)
        }
        (Kind::ConversationTurns, _) => format!("/ui/lines/turns/{key}"),
        (Kind::CodeEditProposals, _) => format!("/ui/lines/proposals/{key}"),
        (Kind::Events, _) => format!("/ui/lines/events/{key}"),
        (Kind::Inbox, _) => format!("/ui/lines/inbox/{key}"),
        (Kind::ThoughtRecords, _) => href("/ui/lines/thoughts", &[("id", key)]),
        _ => return None,
    })
}

/// A snippet with the matches of the text marked.
fn marked(snippet: &str, text: &str) -> Markup {
    let parts = parts(snippet, text);
    html! {
        p.plain {
            @for (part, is_match) in parts {
                @if is_match { mark { (part) } } @else { (part) }
            }
        }
    }
}

fn parts<'s>(snippet: &'s str, text: &str) -> Vec<(&'s str, bool)> {
    let mut parts = Vec::new();
    let mut rest = snippet;
    while let Some((from, to)) = find(rest, text) {
        let (before, others) = rest.split_at(from);
        let (hit, after) = others.split_at(to - from);
        parts.push((before, false));
        parts.push((hit, true));
        rest = after;
    }
    parts.push((rest, false));
    parts
}

/// The first place of a text, without regard to case.
fn find(within: &str, text: &str) -> Option<(usize, usize)> {
    let wanted: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
    if wanted.is_empty() {
        return None;
    }
    within.char_indices().find_map(|(from, _)| {
        let mut wanted = wanted.iter();
        let mut left = wanted.len();
        for (at, c) in within[from..].char_indices() {
            for lower in c.to_lowercase() {
                if wanted.next() != Some(&lower) {
                    return None;
                }
                left -= 1;
            }
            if left == 0 {
                return Some((from, from + at + c.len_utf8()));
            }
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_are_marked_without_regard_to_case() {
        let text = "Ärger, ÄRGER und <b>ärger";
        let found: Vec<_> = parts(text, "ärger")
            .into_iter()
            .filter(|(_, is)| *is)
            .collect();
        let expected = [("Ärger", true), ("ÄRGER", true), ("ärger", true)];
        assert_eq!(found, expected);
        let html = marked(text, "ärger").into_string();
        assert!(html.contains("&lt;b&gt;<mark>ärger</mark>"), "{html}");
        assert_eq!(parts("abc", ""), [("abc", false)]);
        assert_eq!(parts("İ", "i"), [("İ", false)]);
    }
}
