//! A run or a session as a waterfall and as a flame graph.

use maud::{Markup, html};
use serde::Deserialize;
use uuid::Uuid;

use super::chart::{fine, shade};
use super::conversations::{href, title_of, tokens};
use super::layout::{Page, choice, figure};
use super::lines::of_call;
use super::message::{address, message_of, sort, summary};
use super::params::Params;
use super::text::time;
use super::{Answer, Refusal, Reported, Site};
use crate::collections::{EventNode, SessionItem, SessionNode, SpanStatus};
use crate::error::Result;
use crate::human::{count, counted, dollars, duration, one_line, tool_arguments};
use crate::record::{ConversationMessage, ConversationTurn, Event, Kind, TurnKind, now};
use crate::store::Store;

/// Number of spans of a page.
const SPANS: usize = 500;
/// Deeper spans are indented like this one.
const DEPTH_MAX: usize = 6;
/// Deeper spans are left out of the flame graph.
const FLAME_DEPTH: usize = 24;
const NAME_CHARS: usize = 120;
/// Width of the charts, in their own units.
const WIDTH: f64 = 1_000.0;
const FLAME_ROW: f64 = 16.0;

/// A step of a run.
struct Span {
    depth: usize,
    name: String,
    href: Option<String>,
    at: i64,
    /// `None` for a moment.
    duration_ms: Option<i64>,
    status: Option<SpanStatus>,
    /// Its own tokens and cost and those of the spans below it.
    used: Used,
}

/// Tokens, both read and written, and the cost in US dollars.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Used {
    tokens: u64,
    cost: f64,
}

impl std::ops::AddAssign for Used {
    fn add_assign(&mut self, other: Used) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost += other.cost;
    }
}

impl Span {
    fn ends(&self) -> i64 {
        self.at.saturating_add(self.duration_ms.unwrap_or(0).max(0))
    }

    fn is_failed(&self) -> bool {
        self.status == Some(SpanStatus::Failed)
    }
}

/// The waterfall of a conversation or of a thread of turns.
pub(super) fn of_session(site: &Site<'_>, id: Uuid, params: &Params) -> Answer {
    let Some(tree) = site.store.session_tree(id)? else {
        return Err(Refusal::Missing(format!(
            "There is no conversation or thread {id}."
        )));
    };
    let mut spans = Vec::with_capacity(tree.nodes.len());
    for node in &tree.nodes {
        spans.push(of_node(site.store, node)?);
    }
    let conversation = site.store.get_conversation(id)?;
    let title = match &conversation {
        Some((conversation, _)) => title_of(site.store, conversation)?,
        None => format!("Thread {id}"),
    };
    let back = conversation.map(|_| href(id));
    let path = format!("{}/run", href(id));
    let main = shown(&title, back.as_deref(), &path, spans, params)?;
    let page = Page::new(format!("Run: {title}"), "/ui/runs", main);
    Ok(page.live(&[Kind::ToolCalls, Kind::Messages, Kind::ConversationTurns]))
}

/// The waterfall of an event and the events below it.
pub(super) fn of_event(site: &Site<'_>, id: i64, params: &Params) -> Answer {
    let Some(tree) = site.store.event_tree(id)? else {
        return Err(Refusal::Missing(format!("There is no event {id}.")));
    };
    let spans = tree
        .nodes
        .iter()
        .filter(|node| !is_end(node))
        .map(of_event_node);
    let title = tree.nodes.first().map(|node| node.event.event_type.clone());
    let title = format!("{} {id}", title.unwrap_or_default());
    let main = shown(
        &title,
        None,
        &format!("/ui/runs/{id}"),
        spans.collect(),
        params,
    )?;
    Ok(Page::new(format!("Run: {title}"), "/ui/runs", main).live(&[Kind::Events]))
}

/// The waterfall of an event, for a report.
pub(super) fn report(site: &Site<'_>, id: i64) -> Reported {
    let page = of_event(site, id, &Params::default())?;
    Ok((page.title, page.main))
}

fn of_node(store: &Store, node: &SessionNode) -> Result<Span> {
    let (name, href, used) = match &node.item {
        SessionItem::Conversation(whole) => {
            let title = title_of(store, &whole.0)?;
            let name = format!("Agent: {title}");
            (name, Some(href(whole.0.id)), Used::default())
        }
        SessionItem::Turn(turn) => {
            if let Some(message) = message_of(store, turn.id)? {
                named(&message)
            } else {
                let name = match &node.name {
                    Some(name) => name.clone(),
                    None => format!(
                        "{}: {}",
                        turn_name(turn),
                        one_line(&turn.content, NAME_CHARS)
                    ),
                };
                (name, None, Used::default())
            }
        }
        SessionItem::Message(message) => named(message),
        SessionItem::Call(call) => {
            let (request, _) = &**call;
            let arguments = request.arguments_json.as_deref().unwrap_or_default();
            let name = format!(
                "{} {}",
                request.tool_name,
                one_line(&tool_arguments(arguments), NAME_CHARS)
            );
            (
                name,
                Some(of_call(&request.request_id.to_string(), &request.call_id)),
                Used::default(),
            )
        }
    };
    Ok(Span {
        depth: node.depth,
        name: one_line(&name, NAME_CHARS),
        href,
        at: node.at,
        duration_ms: node.duration_ms,
        status: node.status,
        used,
    })
}

/// The name, the address and the tokens and cost of a message.
fn named(message: &ConversationMessage) -> (String, Option<String>, Used) {
    let name = format!("{}: {}", sort(message), summary(message, NAME_CHARS));
    let counts = [message.tokens_in, message.tokens_out]
        .into_iter()
        .flatten();
    let counts = counts.map(|tokens| u64::try_from(tokens).unwrap_or(0));
    let used = Used {
        tokens: counts.fold(0, u64::saturating_add),
        cost: message.cost_usd.unwrap_or(0.0),
    };
    (name, Some(address(message)), used)
}

fn turn_name(turn: &ConversationTurn) -> &'static str {
    match turn.kind {
        TurnKind::User => "Prompt",
        TurnKind::Assistant => "Answer",
        TurnKind::Tool => "Tool",
        TurnKind::System | TurnKind::SysInfo => "System",
    }
}

/// Whether an event only ends a span, which shows its end.
fn is_end(node: &EventNode) -> bool {
    let name = node.event.event_type.as_str();
    let ends = [".completed", ".failed", ".exited"];
    node.depth > 0 && name != "llm_call.completed" && ends.iter().any(|end| name.ends_with(end))
}

fn of_event_node(node: &EventNode) -> Span {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Known {
        cost_usd: Option<f64>,
        latency_ms: Option<i64>,
        tokens_in: serde_json::Value,
        tokens_out: serde_json::Value,
    }
    let Event {
        event_type,
        payload,
        ..
    } = &node.event;
    let payload = payload.as_deref().unwrap_or_default();
    // A payload may be of any form.
    let known: Known = serde_json::from_str(payload).unwrap_or_default();
    let count = |number: &serde_json::Value| number.as_u64().unwrap_or(0);
    Span {
        depth: node.depth,
        name: one_line(&format!("{event_type} {payload}"), NAME_CHARS),
        href: Some(format!("/ui/lines/events/{}", node.event.id)),
        at: node.event.created_at,
        duration_ms: node.duration_ms.or(known.latency_ms),
        status: node.status,
        used: Used {
            tokens: count(&known.tokens_in).saturating_add(count(&known.tokens_out)),
            cost: known
                .cost_usd
                .filter(|cost| cost.is_finite())
                .unwrap_or(0.0),
        },
    }
}

/// Adds to each span the tokens and cost of the spans below it.
fn add_up(spans: &mut [Span]) {
    let depth = spans.iter().map(|span| span.depth).max().unwrap_or(0);
    let mut sums = vec![Used::default(); depth + 2];
    for span in spans.iter_mut().rev() {
        if let Some(below) = sums.get_mut(span.depth + 1) {
            span.used += std::mem::take(below);
        }
        if let Some(sum) = sums.get_mut(span.depth) {
            *sum += span.used;
        }
    }
}

/// The period of a run.
struct Scale {
    from: i64,
    length: f64,
}

impl Scale {
    #[allow(clippy::cast_precision_loss)] // Positions in a chart.
    fn of(spans: &[Span]) -> Scale {
        let from = spans.iter().map(|span| span.at).min().unwrap_or(0);
        let to = spans.iter().map(Span::ends).max().unwrap_or(0);
        Scale {
            from,
            length: (to.saturating_sub(from)).max(1) as f64,
        }
    }

    #[allow(clippy::cast_precision_loss)]
    fn place(&self, span: &Span) -> (f64, f64) {
        let from = (span.at.saturating_sub(self.from)) as f64 / self.length * WIDTH;
        let width = (span.ends().saturating_sub(span.at)) as f64 / self.length * WIDTH;
        (fine(from.min(WIDTH - 1.0)), fine(width.max(1.5)))
    }
}

/// The class of a span's bar: red if it failed, else a shade for its time or cost.
fn class(span: &Span, by_cost: bool, max: u64) -> String {
    let open = if span.status == Some(SpanStatus::Running) {
        " open"
    } else {
        ""
    };
    if span.is_failed() {
        return format!("bad{open}");
    }
    format!("h{}{open}", shade(weight(span, by_cost), max).max(1))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Shades of a chart.
fn weight(span: &Span, by_cost: bool) -> u64 {
    if by_cost {
        (span.used.cost * 1e6) as u64
    } else {
        span.duration_ms.unwrap_or(0).max(0).unsigned_abs()
    }
}

fn shown(
    title: &str,
    back: Option<&str>,
    path: &str,
    mut spans: Vec<Span>,
    params: &Params,
) -> Result<Markup, Refusal> {
    add_up(&mut spans);
    let by_cost = params.get("colour") == Some("cost");
    let from: usize = params.read("offset")?.unwrap_or(0);
    let scale = Scale::of(&spans);
    let max = spans
        .iter()
        .map(|span| weight(span, by_cost))
        .max()
        .unwrap_or(0);
    let failed = spans.iter().filter(|span| span.is_failed()).count();
    let part: Vec<&Span> = spans.iter().skip(from).take(SPANS).collect();
    let next = from.saturating_add(part.len());
    let mut total = Used::default();
    for root in spans.iter().filter(|span| span.depth == 0) {
        total += root.used;
    }
    Ok(html! {
        h1 { (title) }
        p.soft {
            (time(scale.from))
            @if let Some(back) = back { " · " a href=(back) { "Transcript" } }
        }
        div data-part="run" {
            dl.figures {
                (figure("Steps", count(spans.len() as u64), None))
                (figure("Failed", count(failed as u64), None))
                (figure("Duration", duration(scale_ms(&scale)), None))
                @if total.tokens > 0 { (figure("Tokens", tokens(total.tokens), None)) }
                @if total.cost > 0.0 { (figure("Cost", dollars(total.cost), None)) }
            }
            (choice("Colour by", params, path, "colour", &[(None, "time"), (Some("cost"), "cost")]))
            h2 { "Flame graph" }
            (flame(&spans, &scale, by_cost, max))
            h2 { "Waterfall" }
            ol.spans.has-tokens[total.tokens > 0].has-cost[total.cost > 0.0] {
                @for span in &part { (row(span, &scale, by_cost, max, total)) }
            }
            p.pager {
                span { (counted(spans.len() as u64, "step")) }
                @if next < spans.len() {
                    a rel="next" href=(params.link(path, "offset", Some(&next.to_string()))) { "Next steps" }
                }
            }
        }
    })
}

#[allow(clippy::cast_possible_truncation)] // It was a number of milliseconds.
fn scale_ms(scale: &Scale) -> i64 {
    scale.length as i64
}

fn row(span: &Span, scale: &Scale, by_cost: bool, max: u64, total: Used) -> Markup {
    let (x, width) = scale.place(span);
    html! {
        li data-item data-failed[span.is_failed()] {
            span class={ "name d" (span.depth.min(DEPTH_MAX)) } title=(span.name) {
                @if span.is_failed() { span.tag.failed { "failed" } " " }
                @if span.status == Some(SpanStatus::Running) { span.tag { "running" } " " }
                @match &span.href {
                    Some(href) => a href=(href) { (span.name) },
                    None => (span.name),
                }
            }
            svg viewBox={ "0 0 " (WIDTH) " 14" } preserveAspectRatio="none" aria-hidden="true" {
                rect class=(class(span, by_cost, max)) x=(x) y="2" width=(width) height="10" {}
            }
            @if total.tokens > 0 {
                span.num.used { @if span.used.tokens > 0 { (tokens(span.used.tokens)) " tokens" } }
            }
            @if total.cost > 0.0 {
                span.num.used { @if span.used.cost > 0.0 { (dollars(span.used.cost)) } }
            }
            span.num {
                @if let Some(ms) = span.duration_ms { (duration(ms)) }
                @else if span.status == Some(SpanStatus::Running) { (duration(now().saturating_sub(span.at))) }
            }
        }
    }
}

fn flame(spans: &[Span], scale: &Scale, by_cost: bool, max: u64) -> Markup {
    let timed = spans
        .iter()
        .filter(|span| span.duration_ms.is_some() && span.depth <= FLAME_DEPTH);
    let timed: Vec<&Span> = timed.take(SPANS * 2).collect();
    if timed.is_empty() {
        return html! { p.empty { "No step has a duration." } };
    }
    let depth = timed.iter().map(|span| span.depth).max().unwrap_or(0);
    let y = |depth: usize| f64::from(u32::try_from(depth).unwrap_or(0)) * FLAME_ROW;
    html! {
        figure.chart.card {
            svg.flame viewBox={ "0 0 " (WIDTH) " " (y(depth + 1)) } role="img" aria-label="Steps by time and depth; the waterfall below has the same data" {
                @for span in timed {
                    @let (x, width) = scale.place(span);
                    g {
                        title { (span.name) "\n" (duration(span.duration_ms.unwrap_or(0))) @if span.used.cost > 0.0 { ", " (dollars(span.used.cost)) } }
                        rect class=(class(span, by_cost, max)) x=(x) y=(y(span.depth)) width=(width) height=(FLAME_ROW) {}
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(depth: usize, cost: f64) -> Span {
        Span {
            depth,
            name: String::new(),
            href: None,
            at: 0,
            duration_ms: None,
            status: None,
            used: Used { tokens: 0, cost },
        }
    }

    #[test]
    fn a_span_costs_what_the_spans_below_it_cost() {
        let mut spans = [
            span(0, 0.0),
            span(1, 1.0),
            span(2, 2.0),
            span(1, 4.0),
            span(0, 8.0),
        ];
        add_up(&mut spans);
        let costs = spans.map(|span| span.used.cost.to_string());
        assert_eq!(costs, ["7", "3", "2", "4", "8"]);
    }
}
