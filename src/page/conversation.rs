//! A conversation as a transcript: a window of its messages.

use std::collections::HashMap;

use maud::{Markup, html};
use uuid::Uuid;

use super::content::Budget;
use super::conversations::{Whole, href, lasted, status, title_of, tokens};
use super::layout::{Page, figure};
use super::message::article;
use super::params::Params;
use super::text::time;
use super::{Answer, Refusal, Reported, Site, run};
use crate::collections::{CallQuery, ConversationQuery, MessageQuery, Order};
use crate::error::Result;
use crate::human::{count, counted, dollars, duration, one_line};
use crate::record::{Conversation, ConversationMessage, Kind, ToolCall};
use crate::store::Store;

/// Number of messages of a window.
const WINDOW: usize = 100;
/// Number of messages of a window before the one that is asked for.
const BEFORE: usize = 20;
/// A window ends with the message that reaches this number of bytes of HTML.
const WINDOW_BYTES: usize = 600 << 10;
/// Number of messages of a report, and the bytes of their HTML.
const REPORTED_MESSAGES: usize = 5_000;
const REPORT_BYTES: usize = 64 << 20;
/// Number of messages of a sub-agent that are shown within its parent.
const AGENT_MESSAGES: usize = 20;
/// Number of sub-agents that are shown.
const AGENTS_MAX: usize = 100;
/// Number of calls with the same id that are looked at.
const CALLS_WITH_AN_ID: usize = 20;
/// Number of messages that are read at a time to find a failure.
const FAILURE_PAGE: usize = 500;

/// A window of messages, earliest first.
#[derive(Default)]
pub(super) struct Window {
    pub messages: Vec<ConversationMessage>,
    pub has_earlier: bool,
    pub has_later: bool,
}

/// Where a window begins or ends.
enum Place {
    Latest,
    From(i64),
    Until(i64),
    Around(i64),
}

pub(super) fn page(site: &Site<'_>, id: Uuid, params: &Params) -> Answer {
    let Some(whole) = site.store.get_conversation(id)? else {
        // Agents also record threads of turns without a conversation.
        return run::of_session(site, id, params);
    };
    let place = place(site.store, id, params)?;
    let window = window(site.store, id, &place)?;
    let title = title_of(site.store, &whole.0)?;
    let transcript = Transcript::new(site.store, id, window)?;
    let main = html! {
        h1 { (title) }
        (about(&whole.0))
        (totals(&whole))
        (transcript.links())
        (transcript.others(site.store)?)
        (transcript.show(site.store, WINDOW_BYTES)?)
    };
    let page = Page {
        appends: Some(id.to_string()),
        ..Page::new(&title, "/ui/conversations", main)
    };
    Ok(page.live(&[Kind::Messages]))
}

/// A conversation with all its messages and its waterfall, for a report.
pub(super) fn report(site: &Site<'_>, id: Uuid) -> Reported {
    let Some(whole) = site.store.get_conversation(id)? else {
        return Err(Refusal::Missing(format!("there is no conversation {id}")));
    };
    let query = MessageQuery {
        order: Order::NewestFirst,
        limit: REPORTED_MESSAGES,
        ..MessageQuery::default()
    };
    let page = site.store.messages(id, &query)?;
    let mut messages = page.items;
    messages.reverse();
    let shown = messages.len() as u64;
    let window = Window {
        messages,
        ..Window::default()
    };
    let title = title_of(site.store, &whole.0)?;
    let transcript = Transcript::new(site.store, id, window)?;
    let run = run::of_session(site, id, &Params::default())?;
    let main = html! {
        h1 { (title) }
        (about(&whole.0))
        (totals(&whole))
        (transcript.others(site.store)?)
        @if page.next.is_some() { p.banner { "The latest " (count(shown)) " messages." } }
        (transcript.show(site.store, REPORT_BYTES)?)
        (run.main)
    };
    Ok((title, main))
}

fn place(store: &Store, id: Uuid, params: &Params) -> Result<Place, Refusal> {
    let (from, until) = (params.read("from")?, params.read("until_sequence")?);
    let failure = [("failure_before", true), ("failure_after", false)];
    for (name, is_before) in failure {
        let Some(sequence) = params.read(name)? else {
            continue;
        };
        let found = failure_near(store, id, sequence, is_before)?;
        return found.map(Place::Around).ok_or_else(|| {
            let where_ = if is_before { "before" } else { "after" };
            Refusal::Missing(format!("There is no failure {where_} message {sequence}."))
        });
    }
    let named = match params.read::<Uuid>("message")? {
        Some(message) => store.get_message(message)?.and_then(|it| it.sequence),
        None => None,
    };
    Ok(match (named.or(params.read("at")?), from, until) {
        (Some(at), ..) => Place::Around(at),
        (_, Some(from), _) => Place::From(from),
        (.., Some(until)) => Place::Until(until),
        _ => Place::Latest,
    })
}

/// The sequence number of the next failure in a direction.
fn failure_near(store: &Store, id: Uuid, from: i64, is_before: bool) -> Result<Option<i64>> {
    let mut query = MessageQuery {
        order: if is_before {
            Order::NewestFirst
        } else {
            Order::OldestFirst
        },
        from_sequence: (!is_before).then(|| from.saturating_add(1)),
        until_sequence: is_before.then_some(from),
        limit: FAILURE_PAGE,
        ..MessageQuery::default()
    };
    loop {
        let page = store.messages(id, &query)?;
        let found = page.items.iter().find(|message| message.is_failure());
        match (found, page.next) {
            (Some(found), _) => return Ok(found.sequence),
            (None, Some(next)) => query.after = Some(next),
            (None, None) => return Ok(None),
        }
    }
}

fn window(store: &Store, id: Uuid, place: &Place) -> Result<Window> {
    let read = |order, from: Option<i64>, until: Option<i64>, limit: usize| {
        let query = MessageQuery {
            order,
            from_sequence: from,
            until_sequence: until,
            limit,
            ..MessageQuery::default()
        };
        store.messages(id, &query).map(|page| page.items)
    };
    let backwards = |until, limit| {
        let mut messages = read(Order::NewestFirst, None, until, limit)?;
        messages.reverse();
        Result::Ok(messages)
    };
    let messages = match *place {
        Place::Latest => backwards(None, WINDOW)?,
        Place::Until(until) => backwards(Some(until), WINDOW)?,
        Place::From(from) => read(Order::OldestFirst, Some(from), None, WINDOW)?,
        Place::Around(at) => {
            let mut messages = backwards(Some(at), BEFORE)?;
            let left = WINDOW.saturating_sub(messages.len());
            messages.extend(read(Order::OldestFirst, Some(at), None, left)?);
            messages
        }
    };
    let ends = |message: Option<&ConversationMessage>| message.and_then(|it| it.sequence);
    let (first, last) = (ends(messages.first()), ends(messages.last()));
    let has_any = |order, from, until| Ok(!read(order, from, until, 1)?.is_empty());
    Ok(Window {
        has_earlier: match first {
            Some(first) => has_any(Order::NewestFirst, None, Some(first))?,
            None => false,
        },
        has_later: match last.filter(|_| !matches!(place, Place::Latest)) {
            Some(last) => has_any(Order::OldestFirst, Some(last.saturating_add(1)), None)?,
            None => false,
        },
        messages,
    })
}

fn about(conversation: &Conversation) -> Markup {
    html! {
        p.soft {
            (status(conversation.status)) " "
            (conversation.client)
            @if let Some(project) = &conversation.project {
                " · " a href=(super::params::href("/ui/conversations", &[("project", project)])) { (project) }
            }
            @if let Some(workspace) = &conversation.workspace { " · " code { (workspace) } }
            " · " (time(conversation.created_at.at()))
            " · " code { (conversation.id) }
            " · " a href={ "/ui/lines/conversations/" (conversation.id) } { "JSONL" }
            @if let Some(parent) = conversation.parent_id {
                " · " a href=(href(parent)) { "Parent conversation" }
            }
        }
        @if let Some(error) = &conversation.last_error {
            p.error { (super::text::cut(error, 2_000).0) }
        }
    }
}

fn totals((conversation, stats): &Whole) -> Markup {
    html! {
        dl.figures data-part="totals" {
            (figure("Messages", count(stats.message_count), None))
            (figure("Duration", lasted(conversation), None))
            (figure("Tokens in", tokens(stats.total_tokens_in), None))
            (figure("Tokens out", tokens(stats.total_tokens_out), None))
            @if let Some(cost) = stats.total_cost_usd { (figure("Cost", dollars(cost), None)) }
            @if stats.failure_count > 0 { (figure("Failures", count(stats.failure_count), None)) }
            @if stats.total_latency_ms > 0 {
                (figure("Model latency", duration(i64::try_from(stats.total_latency_ms).unwrap_or(i64::MAX)), Some("sum of answers".into())))
            }
            (figure("Models", stats.models_used.len().to_string(), Some(one_line(&stats.models_used.join(", "), 60))))
        }
    }
}

/// The messages of a window, with the calls and the sub-agents that belong to them.
struct Transcript {
    id: Uuid,
    window: Window,
    calls: HashMap<String, ToolCall>,
    agents: Vec<Whole>,
}

impl Transcript {
    fn new(store: &Store, id: Uuid, window: Window) -> Result<Transcript> {
        let agents = ConversationQuery {
            parent_id: Some(id),
            order: Order::OldestFirst,
            limit: AGENTS_MAX,
            ..ConversationQuery::default()
        };
        Ok(Transcript {
            id,
            calls: calls_of(store, &window.messages)?,
            agents: store.conversations(&agents)?.items,
            window,
        })
    }

    fn ends(&self) -> (i64, i64) {
        let of = |message: Option<&ConversationMessage>| message.and_then(|it| it.sequence);
        let messages = &self.window.messages;
        (
            of(messages.first()).unwrap_or(0),
            of(messages.last()).unwrap_or(0),
        )
    }

    /// Links to other views of the conversation.
    fn links(&self) -> Markup {
        let (first, last) = self.ends();
        let failed = self.window.messages.iter().find(|it| it.is_failure());
        html! {
            nav.choice aria-label="Views" {
                a href={ (href(self.id)) "/run" } { "Waterfall" }
                a href={ (href(self.id)) "/requests" } { "Requests and context" }
                a href={ "/ui/compare?a=" (self.id) } { "Compare with another run" }
                @if let Some(failed) = failed {
                    a href={ "#m-" (failed.id) } { "First failure here" }
                }
                @if self.window.has_earlier {
                    a href={ "?failure_before=" (first) } rel="nofollow" { "Earlier failure" }
                }
                @if self.window.has_later {
                    a href={ "?failure_after=" (last) } rel="nofollow" { "Later failure" }
                }
            }
        }
    }

    fn is_placed(&self, agent: &Whole) -> bool {
        let mut messages = self.window.messages.iter();
        messages.any(|message| starts(message, agent))
    }

    /// The sub-agents that were not started by a message of this window.
    fn others(&self, store: &Store) -> Result<Markup> {
        let others: Vec<&Whole> = self
            .agents
            .iter()
            .filter(|it| !self.is_placed(it))
            .collect();
        if others.is_empty() {
            return Ok(html! {});
        }
        let mut shown = Vec::with_capacity(others.len());
        for agent in &others {
            shown.push((title_of(store, &agent.0)?, agent));
        }
        Ok(html! {
            details.card {
                summary { (counted(others.len() as u64, "sub-agent")) ", started outside of these messages" }
                ul.lines {
                    @for (title, (agent, stats)) in &shown {
                        li {
                            a href=(href(agent.id)) { (title) }
                            " " small { (counted(stats.message_count, "message")) ", " (lasted(agent)) }
                        }
                    }
                }
            }
        })
    }

    /// The messages, of which the latest take at most about this number of bytes.
    fn show(&self, store: &Store, bytes_max: usize) -> Result<Markup> {
        let budget = Budget::of_page();
        let messages = &self.window.messages;
        let mut shown: Vec<(&ConversationMessage, Markup)> = Vec::with_capacity(messages.len());
        let mut bytes = 0;
        // The latest ones are shown first: earlier ones may not fit.
        for message in messages.iter().rev() {
            if bytes > bytes_max {
                break;
            }
            let call = message.tool_call_id.as_ref();
            let call = call.and_then(|id| self.calls.get(id));
            let below = self.below(store, message, &budget)?;
            let article = article(message, call, &below, &budget);
            bytes += article.0.len();
            shown.push((message, article));
        }
        shown.reverse();
        let is_cut = shown.len() < messages.len();
        let first = shown.first().and_then(|(message, _)| message.sequence);
        let (_, last) = self.ends();
        let earlier = (self.window.has_earlier || is_cut)
            .then_some(first)
            .flatten();
        Ok(html! {
            @if let Some(first) = earlier {
                p.pager {
                    a href={ "?until_sequence=" (first) } data-earlier { "Earlier messages" }
                    a href="?from=0" { "First messages" }
                }
            }
            div.messages data-messages data-end[!self.window.has_later] {
                @for (_, article) in &shown { (article) }
            }
            @if messages.is_empty() { p.empty { "No messages." } }
            @if self.window.has_later {
                p.pager {
                    a href={ "?from=" (last.saturating_add(1)) } data-later { "Later messages" }
                    a href=(href(self.id)) { "Latest messages" }
                }
            }
        })
    }

    /// The sub-agents that a message started, each with its first messages.
    fn below(
        &self,
        store: &Store,
        message: &ConversationMessage,
        budget: &Budget,
    ) -> Result<Markup> {
        let its = self.agents.iter().filter(|agent| starts(message, agent));
        let mut shown = Vec::new();
        for (agent, stats) in its {
            let query = MessageQuery {
                limit: AGENT_MESSAGES,
                ..MessageQuery::default()
            };
            let messages = store.messages(agent.id, &query)?.items;
            let title = title_of(store, agent)?;
            shown.push((agent, stats, title, messages));
        }
        Ok(html! {
            @for (agent, stats, title, messages) in &shown {
                details.agent id={ "agent-" (agent.id) } {
                    summary {
                        "Sub-agent: " (title) " "
                        small { (counted(stats.message_count, "message")) ", " (lasted(agent)) }
                    }
                    p { a href=(href(agent.id)) { "Open the sub-agent's conversation" } }
                    div.messages {
                        @for message in messages { (article(message, None, &html! {}, budget)) }
                    }
                    @if stats.message_count > messages.len() as u64 {
                        p.note { (count(stats.message_count - messages.len() as u64)) " more messages." }
                    }
                }
            }
        })
    }
}

/// Whether a message is the call that started an agent.
fn starts(message: &ConversationMessage, (agent, _): &Whole) -> bool {
    let is_call = message.role == crate::record::Role::Assistant;
    is_call && message.tool_call_id.is_some() && message.tool_call_id == agent.parent_call_id
}

/// The recorded calls of messages, by their ids. Different vendors may use an id again: of several
/// calls, the one at about the time of the message is its own.
fn calls_of(store: &Store, messages: &[ConversationMessage]) -> Result<HashMap<String, ToolCall>> {
    let mut calls = HashMap::new();
    for message in messages {
        let Some(id) = message
            .tool_call_id
            .as_ref()
            .filter(|id| !calls.contains_key(*id))
        else {
            continue;
        };
        let query = CallQuery {
            call_id: Some(id.clone()),
            limit: CALLS_WITH_AN_ID,
            ..CallQuery::default()
        };
        let at = message.timestamp.at();
        let known = store.tool_calls(&query)?.items.into_iter();
        if let Some(call) = known.min_by_key(|(request, _)| request.started_at.at.abs_diff(at)) {
            calls.insert(id.clone(), call);
        }
    }
    Ok(calls)
}
