//! What happened while a sample ran: requests to models, calls of tools, and the spans of both.

use std::collections::{BTreeMap, HashMap};

use super::shape;
use crate::import::facts::Tokens;
use crate::import::json::{self, Raw};

/// Kinds of events that have nothing of their own: frames around others, states of the client, and
/// what the sample repeats (its input, its scores, its error and its limit).
const SILENT: [&str; 11] = [
    "anchor",
    "checkpoint",
    "error",
    "sample_init",
    "sample_limit",
    "score",
    "score_edit",
    "span_end",
    "state",
    "step",
    "store",
];
/// Maximum depth of spans that is looked at.
const DEPTH_MAX: usize = 100;

/// A request to a model.
pub(super) struct Request<'a> {
    pub(super) at: Option<i64>,
    pub(super) model: Option<String>,
    /// The model as `model_usage` names it.
    pub(super) billed: String,
    pub(super) output: shape::Output<'a>,
    pub(super) answer: Option<shape::Message<'a>>,
    /// The number of further answers to the same request.
    pub(super) others: u64,
    pub(super) tokens: Option<Tokens>,
    pub(super) cost_usd: Option<f64>,
    pub(super) error: Option<String>,
    /// The agent or scorer that sent it.
    pub(super) owner: Option<String>,
    input: Raw<'a>,
    refs: Raw<'a>,
}

impl<'a> Request<'a> {
    fn of(event: &shape::Event<'a>) -> Result<Request<'a>, String> {
        let output: shape::Output<'_> = json::member(event.output)?.unwrap_or_default();
        let choices = json::array(output.choices)?.unwrap_or_default();
        let first: Option<shape::Choice<'_>> = match choices.first() {
            Some(choice) => json::object(choice)?,
            None => None,
        };
        let usage: Option<shape::Usage<'_>> = json::member(output.usage)?;
        // An answer that Inspect had kept was not asked for again.
        let is_kept = json::text(event.cache)?.as_deref() == Some("read");
        let usage = usage.filter(|_| !is_kept);
        let billed = json::owned_text(event.model)?.unwrap_or_default();
        let model = json::owned_text(output.model)?.filter(|model| !model.is_empty());
        Ok(Request {
            at: time(event.completed).or_else(|| time(event.at)),
            model: model.or_else(|| Some(billed.clone()).filter(|model| !model.is_empty())),
            billed,
            output,
            answer: json::member(first.unwrap_or_default().message)?,
            others: choices.len().saturating_sub(1) as u64,
            tokens: usage.and_then(|usage| tokens(&usage)),
            cost_usd: usage.and_then(|usage| json::float(usage.cost)),
            error: json::owned_text(event.error.or(output.error))?,
            owner: None,
            input: event.input,
            refs: event.refs,
        })
    }

    /// The messages that were sent. Those of `pool` are named by their places.
    pub(super) fn input<'b>(&'b self, pool: &'b [&'a str]) -> Result<Vec<&'a str>, String> {
        let mut input = json::array(self.input)?.unwrap_or_default();
        for range in json::array(self.refs)?.into_iter().flatten() {
            let range: Option<(usize, usize)> = serde_json::from_str(range).ok();
            let part = range.and_then(|(start, end)| pool.get(start..end.min(pool.len())));
            input.extend(part.unwrap_or_default());
        }
        Ok(input)
    }
}

/// A call of a tool that ended.
#[derive(Clone, Copy)]
pub(super) struct Ran {
    pub(super) at: i64,
    pub(super) latency_ms: Option<i64>,
}

/// A part of the run.
pub(super) struct Span {
    pub(super) name: String,
    parent: Option<String>,
    is_owner: bool,
}

/// The events of a sample.
#[derive(Default)]
pub(super) struct Events<'a> {
    pub(super) requests: Vec<Request<'a>>,
    pub(super) spans: HashMap<String, Span>,
    /// The call that started an agent, by the span of the agent.
    pub(super) started: HashMap<String, String>,
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
    /// Events that are not read, with their counts.
    pub(super) others: BTreeMap<String, u64>,
    /// Calls by the ids of their messages, and by their own ids.
    by_message: HashMap<String, Ran>,
    by_call: HashMap<String, Ran>,
}

impl<'a> Events<'a> {
    pub(super) fn of(raw: Raw<'a>) -> Result<Events<'a>, String> {
        let mut events = Events::default();
        let mut spans = Vec::new();
        for text in json::array(raw)?.into_iter().flatten() {
            let Some(event) = json::object::<shape::Event<'_>>(text)? else {
                events.count("(no object)");
                continue;
            };
            let at = time(event.at);
            events.first = events.first.or(at);
            events.last = at.or(events.last);
            let kind = json::text(event.what)?.unwrap_or_default();
            match &*kind {
                "model" => {
                    events.requests.push(Request::of(&event)?);
                    spans.push(json::owned_text(event.span)?);
                }
                "tool" => events.tool(&event)?,
                "span_begin" => events.span(&event)?,
                kind if SILENT.contains(&kind) => {}
                kind => events.count(kind),
            }
        }
        for (n, span) in spans.into_iter().enumerate() {
            let owner = events.owner(span.as_deref());
            if let Some(request) = events.requests.get_mut(n) {
                request.owner = owner;
            }
        }
        Ok(events)
    }

    fn count(&mut self, kind: &str) {
        let kind: String = kind.chars().take(80).collect();
        *self.others.entry(format!("event.{kind}")).or_default() += 1;
    }

    fn tool(&mut self, event: &shape::Event<'_>) -> Result<(), String> {
        let id = json::owned_text(event.id)?;
        if let (Some(span), Some(id)) = (json::owned_text(event.agent_span)?, &id) {
            self.started.insert(span, id.clone());
        }
        let (start, end) = (time(event.at), time(event.completed));
        let Some(at) = end.or(start) else {
            return Ok(());
        };
        let ran = Ran {
            at,
            latency_ms: start
                .zip(end)
                .map(|(start, end)| end.saturating_sub(start).max(0)),
        };
        if let Some(message) = json::owned_text(event.message)? {
            self.by_message.insert(message, ran);
        } else if let Some(id) = id {
            self.by_call.insert(id, ran);
        }
        Ok(())
    }

    fn span(&mut self, event: &shape::Event<'_>) -> Result<(), String> {
        let kind = json::text(event.kind)?;
        if let Some(id) = json::owned_text(event.id)? {
            let span = Span {
                name: json::owned_text(event.name)?.unwrap_or_default(),
                parent: json::owned_text(event.parent)?,
                is_owner: matches!(kind.as_deref(), Some("agent" | "scorer" | "subtask")),
            };
            self.spans.insert(id, span);
        }
        Ok(())
    }

    /// The innermost agent or scorer around a span.
    fn owner(&self, span: Option<&str>) -> Option<String> {
        let mut id = span?;
        for _ in 0..DEPTH_MAX {
            let found = self.spans.get(id)?;
            if found.is_owner {
                return Some(id.to_owned());
            }
            id = found.parent.as_deref()?;
        }
        None
    }

    /// The call of which a message is the result.
    pub(super) fn ran(&self, message: Option<&str>, call: Option<&str>) -> Option<Ran> {
        let by_message = message.and_then(|id| self.by_message.get(id));
        let by_call = || call.and_then(|id| self.by_call.get(id));
        by_message.or_else(by_call).copied()
    }
}

/// Epoch milliseconds. A time without a zone is in UTC, as Inspect reads it.
pub(super) fn time(raw: Raw<'_>) -> Option<i64> {
    if let Ok(at) = json::timestamp(raw) {
        return at;
    }
    let text = json::text(raw).ok()??;
    let time = text.parse::<chrono::NaiveDateTime>().ok()?;
    Some(time.and_utc().timestamp_millis())
}

/// The tokens of a response. Those of the cache are beside the input, and those of reasoning within
/// the output, unless the total says otherwise, as it does in logs of early versions.
pub(super) fn tokens(usage: &shape::Usage<'_>) -> Option<Tokens> {
    let of = |raw| json::number(raw).unwrap_or(0);
    let mut tokens = Tokens {
        input: of(usage.input),
        cache_write: of(usage.cache_write),
        cache_read: of(usage.cache_read),
        output: of(usage.output),
        reasoning: of(usage.reasoning),
        ..Tokens::default()
    };
    let total = Some(of(usage.total)).filter(|total| *total > 0);
    let cached = tokens.cache_read.saturating_add(tokens.cache_write);
    let all = |tokens: &Tokens| tokens.input.saturating_add(tokens.output);
    let is_within = total.is_some_and(|total| total < all(&tokens).saturating_add(cached));
    if !is_within || tokens.input < cached {
        tokens.input = tokens.input.saturating_add(cached);
    }
    let with_reasoning = all(&tokens).saturating_add(tokens.reasoning);
    if total.is_some_and(|total| total >= with_reasoning) {
        tokens.output = tokens.output.saturating_add(tokens.reasoning);
    }
    (tokens != Tokens::default()).then_some(tokens)
}

/// The sums of tokens.
pub(super) fn add(sum: &mut Tokens, tokens: Tokens) {
    sum.input = sum.input.saturating_add(tokens.input);
    sum.cache_write = sum.cache_write.saturating_add(tokens.cache_write);
    sum.cache_read = sum.cache_read.saturating_add(tokens.cache_read);
    sum.output = sum.output.saturating_add(tokens.output);
    sum.reasoning = sum.reasoning.saturating_add(tokens.reasoning);
}
