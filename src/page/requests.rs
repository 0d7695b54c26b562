//! The requests of a conversation, and what changed between two of them.

use maud::{Markup, html};
use uuid::Uuid;

use super::content::{Budget, diff_of_texts};
use super::conversations::{href, title_of};
use super::layout::Page;
use super::message::article;
use super::params::Params;
use super::text::time;
use super::{Answer, Refusal, Site};
use crate::collections::{MessageQuery, Order};
use crate::human::count;
use crate::record::{ConversationMessage, Kind};

/// Number of messages that are read, from the latest back.
const MESSAGES_MAX: usize = 2_000;
/// Number of requests in the list.
const REQUESTS_MAX: usize = 300;
/// Number of added messages that are shown.
const ADDED_MAX: usize = 60;

/// A request to a model: the messages of its answer, of which one has the totals.
struct Request<'m> {
    /// The place of its first message.
    place: usize,
    totals: &'m ConversationMessage,
}

impl Request<'_> {
    fn tokens_in(&self) -> i64 {
        self.totals.tokens_in.unwrap_or(0)
    }

    fn sequence(&self, messages: &[ConversationMessage]) -> i64 {
        let first = messages.get(self.place);
        first.and_then(|message| message.sequence).unwrap_or(0)
    }

    /// What became of the context since the request before it.
    fn change(&self, before: &Request<'_>) -> Change {
        let grown = self.tokens_in().saturating_sub(before.tokens_in());
        if self.totals.compression_applied == Some(true) {
            Change::Compacted
        } else if self.totals.tokens_in.is_none() || before.totals.tokens_in.is_none() {
            Change::Unknown
        } else if grown < 0 {
            Change::Dropped(grown.unsigned_abs())
        } else {
            Change::Grown(grown.unsigned_abs())
        }
    }
}

/// The change of a context from one request to the next.
enum Change {
    Grown(u64),
    /// The context is shorter: earlier messages were left out or replaced by a summary.
    Dropped(u64),
    /// The gateway says that it compressed the context.
    Compacted,
    Unknown,
}

fn requests_in(messages: &[ConversationMessage]) -> Vec<Request<'_>> {
    let mut requests: Vec<Request<'_>> = Vec::new();
    let id_of = |message: &ConversationMessage| message.part_of.unwrap_or(message.id);
    for (place, message) in messages.iter().enumerate() {
        if message.role != crate::record::Role::Assistant {
            continue;
        }
        let is_of_last = |last: &&mut Request<'_>| id_of(last.totals) == id_of(message);
        match requests.last_mut().filter(is_of_last) {
            Some(last) => {
                // The totals are in the message that is no part of another.
                if message.part_of.is_none() {
                    last.totals = message;
                }
            }
            None => requests.push(Request {
                place,
                totals: message,
            }),
        }
    }
    requests
}

/// The requests of a conversation with their contexts, and the difference of two of them.
pub(super) fn page(site: &Site<'_>, id: Uuid, params: &Params) -> Answer {
    let Some(whole) = site.store.get_conversation(id)? else {
        return Err(Refusal::Missing(format!("There is no conversation {id}.")));
    };
    let query = MessageQuery {
        order: Order::NewestFirst,
        limit: MESSAGES_MAX,
        ..MessageQuery::default()
    };
    let mut messages = site.store.messages(id, &query)?.items;
    messages.reverse();
    let requests = requests_in(&messages);
    let path = format!("{}/requests", href(id));
    let title = title_of(site.store, &whole.0)?;
    let (a, b) = (params.read::<i64>("a")?, params.read::<i64>("b")?);
    let find = |sequence: i64| {
        let mut found = requests.iter();
        found.find(|request| request.sequence(&messages) == sequence)
    };
    let unknown =
        |sequence| Refusal::Missing(format!("No request begins with message {sequence}."));
    let chosen = match (a, b) {
        (Some(a), Some(b)) => {
            let (a, b) = (
                find(a).ok_or_else(|| unknown(a))?,
                find(b).ok_or_else(|| unknown(b))?,
            );
            Some(if a.place <= b.place { (a, b) } else { (b, a) })
        }
        _ => None,
    };
    let main = html! {
        h1 { "Requests of " a href=(href(id)) { (title) } }
        @if let Some((a, b)) = chosen {
            (context_diff(a, b, &messages))
            p { a href=(path) { "All requests" } }
        } @else {
            (list(&requests, &messages, &path))
        }
    };
    Ok(Page::new("Requests", "/ui/conversations", main).live(&[Kind::Messages]))
}

fn list(requests: &[Request<'_>], messages: &[ConversationMessage], path: &str) -> Markup {
    let pairs = requests.iter().enumerate().rev().take(REQUESTS_MAX);
    let max = requests.iter().map(Request::tokens_in).max().unwrap_or(0);
    html! {
        p.soft { "Each row is one request to the model. The link shows what its context has that the request before it had not." }
        @if requests.is_empty() { p.empty { "No requests." } }
        div.scroll data-part="requests" {
            table {
                thead { tr {
                    th scope="col" { "Request" }
                    th.wide scope="col" { "Model" }
                    th.num scope="col" { "Context" }
                    th.wide scope="col" { span.soft { "of the largest" } }
                    th.num.wide scope="col" { "Cached" }
                    th.num scope="col" { "Answer" }
                    th scope="col" { "Change" }
                } }
                tbody {
                    @for (nth, request) in pairs {
                        @let sequence = request.sequence(messages);
                        tr data-item data-failed[request.totals.is_failure()] {
                            th.title scope="row" {
                                @if let Some(before) = nth.checked_sub(1).and_then(|nth| requests.get(nth)) {
                                    a href=(super::params::href(path, &[("a", &before.sequence(messages).to_string()), ("b", &sequence.to_string())])) { "Message " (sequence) }
                                } @else {
                                    "Message " (sequence)
                                }
                                small { (time(request.totals.timestamp.at())) }
                            }
                            td.wide { (request.totals.model_used.as_deref().unwrap_or_default()) }
                            td.num { (number(request.totals.tokens_in)) }
                            td.wide { (super::chart::bar(float(request.tokens_in()), float(max))) }
                            td.num.wide { (number(request.totals.tokens_cache_read)) }
                            td.num { (number(request.totals.tokens_out)) }
                            td {
                                @if let Some(before) = nth.checked_sub(1).and_then(|nth| requests.get(nth)) {
                                    (change(&request.change(before)))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[allow(clippy::cast_precision_loss)] // Lengths of bars.
fn float(number: i64) -> f64 {
    number as f64
}

fn number(number: Option<i64>) -> String {
    number.map_or(String::new(), |number| count(number.unsigned_abs()))
}

fn change(change: &Change) -> Markup {
    match change {
        Change::Grown(tokens) => html! { "+" (count(*tokens)) },
        Change::Dropped(tokens) => html! { span.tag.failed { "−" (count(*tokens)) " dropped" } },
        Change::Compacted => html! { span.tag { "compacted" } },
        Change::Unknown => html! {},
    }
}

/// What the context of the second request has that that of the first had not, and what it lost.
fn context_diff(a: &Request<'_>, b: &Request<'_>, messages: &[ConversationMessage]) -> Markup {
    let added = messages.get(a.place..b.place).unwrap_or_default();
    let shown = added.get(..added.len().min(ADDED_MAX)).unwrap_or_default();
    let budget = Budget::of_page();
    let [from, to] = [a, b].map(|it| it.sequence(messages));
    let fields = |it: &Request<'_>| settings(it.totals);
    let (before, after) = (fields(a), fields(b));
    html! {
        h2 { "From the request at message " (from) " to the one at message " (to) }
        div.scroll {
            table {
                thead { tr { th scope="col" { "" } th.num scope="col" { "Message " (from) } th.num scope="col" { "Message " (to) } } }
                tbody {
                    @for (name, of) in FIGURES {
                        @let (a, b) = (of(a.totals), of(b.totals));
                        @if a.is_some() || b.is_some() {
                            tr { th scope="row" { (name) } td.num { (number(a)) } td.num { (number(b)) } }
                        }
                    }
                }
            }
        }
        p {
            @match b.change(a) {
                Change::Grown(tokens) => { "The context grew by " (count(tokens)) " tokens." },
                Change::Dropped(tokens) => {
                    "The context lost at least " (count(tokens)) " tokens: the client left out earlier messages, or replaced them by a summary."
                },
                Change::Compacted => "The gateway compressed the context before the later request.",
                Change::Unknown => "The size of the contexts was not recorded.",
            }
        }
        @if before != after {
            h2 { "Settings" }
            (diff_of_texts(&before, &after, &budget))
        }
        h2 { "Added" }
        @if added.is_empty() { p.empty { "Nothing." } }
        div.messages { @for message in shown { (article(message, None, &html! {}, &budget)) } }
        @if shown.len() < added.len() {
            p.note { (count((added.len() - shown.len()) as u64)) " more messages." }
        }
    }
}

type Figure = (&'static str, fn(&ConversationMessage) -> Option<i64>);

const FIGURES: [Figure; 7] = [
    ("Context, tokens", |it| it.tokens_in),
    ("Read from the cache", |it| it.tokens_cache_read),
    ("Written to the cache", |it| it.tokens_cache_write),
    ("Of these, for one hour", |it| it.tokens_cache_write_1h),
    ("Answer, tokens", |it| it.tokens_out),
    ("Reasoning, tokens", |it| it.tokens_reasoning),
    ("Latency, ms", |it| it.latency_ms),
];

/// The settings of a request, one per line.
fn settings(message: &ConversationMessage) -> String {
    let fields = [
        ("model", message.model_used.as_deref()),
        ("config", message.config_used.as_deref()),
        ("mode", message.orchestration_mode.as_deref()),
        ("task type", message.task_type.as_deref()),
    ];
    let mut lines = String::new();
    for (name, value) in fields {
        if let Some(value) = value {
            lines.extend([name, ": ", value, "\n"]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Role;

    fn message(role: Role, text: &str) -> ConversationMessage {
        ConversationMessage::new(Uuid::nil(), role, text)
    }

    #[test]
    fn the_parts_of_an_answer_are_one_request() {
        let first = message(Role::Assistant, "thinking").tokens_in(100);
        let part = ConversationMessage {
            part_of: Some(first.id),
            ..message(Role::Assistant, "answer")
        };
        let second = message(Role::Assistant, "again").tokens_in(40);
        let messages = [
            message(Role::User, "q"),
            first,
            part,
            message(Role::Tool, "r"),
            second,
        ];
        let requests = requests_in(&messages);
        let places: Vec<_> = requests
            .iter()
            .map(|it| (it.place, it.tokens_in()))
            .collect();
        assert_eq!(places, [(1, 100), (4, 40)]);
        assert!(matches!(
            requests[1].change(&requests[0]),
            Change::Dropped(60)
        ));
    }
}
