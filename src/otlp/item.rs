//! A span or a log record with the meaning of its attributes.

use prost::Message as _;
use serde_json::{Map, Value as Json, json};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::attributes::{Meant, absorbed, apart, operation};
use super::batch::Talk;
use super::mapping::{Field, Operation, span_kind_name};
use super::message::{self, Message};
use super::proto::{Resource, Scope, Span, SpanEvent};
use super::value::{object_of, parsed, to_name, to_number, to_text};
use crate::import::named;
use crate::record::{Role, hex, now};

/// Nanoseconds in a millisecond.
const NANOS: u64 = 1_000_000;

/// A span, by its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SpanRef {
    pub(super) trace: Uuid,
    pub(super) span: u64,
    /// The id of its turn.
    pub(super) turn: Uuid,
}

impl SpanRef {
    /// `None` if an id is missing, has another length or consists of zeros.
    pub(super) fn new(trace: &[u8], span: &[u8]) -> Option<SpanRef> {
        let trace = trace_of(trace)?;
        let span = u64::from_be_bytes(span.try_into().ok()?);
        let turn = || named("otlp:span", &format!("{}:{span:016x}", trace.simple()));
        (span != 0).then(|| SpanRef {
            trace,
            span,
            turn: turn(),
        })
    }
}

pub(super) fn trace_of(trace: &[u8]) -> Option<Uuid> {
    let trace = Uuid::from_slice(trace).ok()?;
    (!trace.is_nil()).then_some(trace)
}

/// Token counts as they are reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) input: Option<u64>,
    pub(super) output: Option<u64>,
    pub(super) cache_read: Option<u64>,
    pub(super) cache_write: Option<u64>,
    pub(super) reasoning: Option<u64>,
    /// Whether `input` leaves out the cached tokens.
    pub(super) is_cache_apart: bool,
}

impl Usage {
    pub(super) fn is_any(self) -> bool {
        self.input.is_some() || self.output.is_some()
    }
}

/// A tool call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tool {
    pub(super) name: Option<String>,
    pub(super) call_id: Option<String>,
    pub(super) args: Option<String>,
    pub(super) result: Option<String>,
}

impl Tool {
    /// Takes the arguments and the result out of what LangChain's callbacks get.
    fn unwrap(&mut self) {
        let object = |text: &Option<String>| {
            let text = text.as_deref().filter(|text| text.starts_with('{'))?;
            serde_json::from_str::<Map<String, Json>>(text).ok()
        };
        let text = |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
        if let Some(args) = object(&self.args)
            && let (Some(Json::Object(inputs)), Some(Json::Object(kwargs))) =
                (args.get("inputs"), args.get("kwargs"))
        {
            self.call_id = self.call_id.take().or(text(kwargs.get("tool_call_id")));
            self.args = Some(Json::Object(inputs.clone()).to_string());
        }
        let Some(result) = object(&self.result) else {
            return;
        };
        let message = match (result.get("output"), result.get("data"), result.get("type")) {
            (Some(output), ..) => output.get("kwargs"),
            (None, Some(data), Some(kind)) if kind == "tool" => Some(data),
            _ => None,
        };
        if let Some(message) = message
            && let Some(content) = text(message.get("content"))
        {
            self.call_id = self.call_id.take().or(text(message.get("tool_call_id")));
            self.result = Some(content);
        }
    }
}

/// An error: its class and its message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) class: Option<String>,
    pub(super) message: Option<String>,
}

/// A span or a log record.
#[derive(Debug, Clone)]
pub(super) struct Item {
    /// The id of its turn.
    pub(super) key: Uuid,
    pub(super) operation: Operation,
    /// The span; of a log record, the span in which it was written.
    pub(super) span: Option<SpanRef>,
    pub(super) parent: Option<SpanRef>,
    pub(super) trace: Option<Uuid>,
    /// The conversation that the item itself names.
    pub(super) conversation: Option<(Uuid, String)>,
    /// Epoch milliseconds.
    pub(super) start: i64,
    /// `None` if it has not ended.
    pub(super) end: Option<i64>,
    /// Whether the item is a request to another service.
    pub(super) is_client: bool,
    /// Whether the item is a log record.
    pub(super) is_event: bool,
    pub(super) provider: Option<String>,
    pub(super) user: Option<String>,
    pub(super) agent: Option<String>,
    /// The name of the service.
    pub(super) program: Option<String>,
    pub(super) model: Option<String>,
    /// The provider's id of the response.
    pub(super) response: Option<String>,
    /// Whether several items describe one response, so that its message has the id of the response.
    pub(super) is_in_parts: bool,
    /// The answer of which the item is a part.
    pub(super) part_of: Option<Uuid>,
    pub(super) input: Vec<Message>,
    pub(super) output: Vec<Message>,
    /// The ids of the messages, in the order in which they follow each other.
    pub(super) ids: Vec<Uuid>,
    pub(super) usage: Usage,
    pub(super) cost: Option<f64>,
    pub(super) tool: Tool,
    pub(super) failure: Option<Failure>,
    /// The rest, which has no place of its own.
    pub(super) rest: Map<String, Json>,
}

/// What a group of items has in common.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// The scope as `name@version`.
    pub(super) scope: String,
    /// The turn that has the attributes of the resource.
    pub(super) resource: Option<Uuid>,
    /// The name of the service.
    pub(super) program: Option<String>,
}

impl Origin {
    pub(super) fn new(resource: &Resource, scope: &Scope) -> Origin {
        let program = resource
            .attributes
            .iter()
            .find(|it| it.key == "service.name");
        let program = program.and_then(|it| it.value.clone()).and_then(to_name);
        let is_any = !resource.attributes.is_empty() || !scope.attributes.is_empty();
        let id = is_any.then(|| {
            let mut said = resource.encode_to_vec();
            said.extend(scope.encode_to_vec());
            named("otlp:resource", &format!("{:032x}", xxh3_128(&said)))
        });
        let scope = match (scope.name.as_str(), scope.version.as_str()) {
            (name, "") => name.to_owned(),
            (name, version) => format!("{name}@{version}"),
        };
        Origin {
            scope,
            resource: id,
            program: program.filter(|name| !name.starts_with("unknown_service")),
        }
    }
}

impl Item {
    /// The item of a span.
    pub(super) fn of_span(span: Span, origin: &Origin) -> Result<Item, String> {
        let of_span = SpanRef::new(&span.trace_id, &span.span_id);
        let of_span =
            of_span.ok_or("its trace id must be 16 bytes and its span id 8 bytes, not all zero")?;
        let parent = SpanRef::new(&span.trace_id, &span.parent_span_id);
        let mut events = Vec::new();
        let mut meant = Meant::of(span.attributes);
        for event in span.events {
            if let Some(event) = absorbed(event, &mut meant) {
                events.push(event);
            }
        }
        let mut about = about(of_span, parent, &span.name, origin);
        about.insert("kind".to_owned(), span_kind_name(span.kind).into());
        about.insert("start_ns".to_owned(), span.start_time_unix_nano.into());
        if span.end_time_unix_nano != 0 {
            about.insert("end_ns".to_owned(), span.end_time_unix_nano.into());
        }
        let mut add = |name: &str, value: Json| about.insert(name.to_owned(), value);
        if !span.trace_state.is_empty() {
            add("trace_state", span.trace_state.into());
        }
        let status = span.status.unwrap_or_default();
        let exception = (status.code == 2).then(|| exception(&events));
        if !events.is_empty() {
            add("events", events.into_iter().map(event_json).collect());
        }
        if !span.links.is_empty() {
            let links = span.links.into_iter().map(|link| {
                json!({
                    "trace_id": hex(&link.trace_id),
                    "span_id": hex(&link.span_id),
                    "attributes": object_of(link.attributes),
                })
            });
            add("links", links.collect());
        }
        for (name, dropped) in [
            ("dropped_attributes", span.dropped_attributes_count),
            ("dropped_events", span.dropped_events_count),
            ("dropped_links", span.dropped_links_count),
        ] {
            if dropped > 0 {
                add(name, dropped.into());
            }
        }
        let mut item = Item::new(meant, about);
        item.program.clone_from(&origin.program);
        item.key = of_span.turn;
        item.span = Some(of_span);
        item.parent = parent;
        item.trace = Some(of_span.trace);
        item.is_client = span.kind == 3;
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        item.start = millis(if start == 0 { end } else { start });
        item.end = (end != 0).then(|| millis(end).max(item.start));
        if status.code == 2 || item.failure.is_some() {
            let failure = item.failure.get_or_insert_default();
            let exception = exception.unwrap_or_default();
            let message = Some(status.message).filter(|text| !text.is_empty());
            failure.message = message.or(failure.message.take()).or(exception.message);
            failure.class = failure.class.take().or(exception.class);
        }
        Ok(item)
    }

    /// The item of attributes and what else is known about their span or log record.
    pub(super) fn new(meant: Meant, about: Map<String, Json>) -> Item {
        let operation = operation(&meant, &about);
        Item::of_operation(operation, meant, about)
    }

    /// As [`new`](Item::new), if the operation is known.
    pub(super) fn of_operation(
        operation: Operation,
        mut meant: Meant,
        mut about: Map<String, Json>,
    ) -> Item {
        let has_messages = matches!(operation, Operation::Inference | Operation::Agent);
        let (mut input, mut output) = (Vec::new(), Vec::new());
        if has_messages {
            if let Some(system) = meant.take(Field::System) {
                input = message::of_parts(parsed(system), Role::System);
            }
            input.extend(meant.messages(Field::Input, Role::User));
            output = meant.messages(Field::Output, Role::Assistant);
            output.extend(apart(&mut meant));
            message::join_reasoning(&mut input);
            message::join_reasoning(&mut output);
        }
        let mut tool = Tool::default();
        if operation == Operation::Tool {
            tool = Tool {
                name: meant.name(Field::ToolName),
                call_id: meant.name(Field::ToolCallId),
                args: meant.take(Field::ToolArguments).and_then(to_text),
                result: meant.take(Field::ToolResult).and_then(to_text),
            };
            tool.unwrap();
        }
        let requested = meant.name(Field::RequestModel);
        let model = meant.name(Field::ResponseModel);
        if let Some(requested) = &requested
            && model.as_ref().is_some_and(|model| model != requested)
        {
            about.insert("request_model".to_owned(), requested.clone().into());
        }
        let usage = Usage {
            input: meant.count(Field::TokensIn),
            output: meant.count(Field::TokensOut),
            cache_read: meant.count(Field::TokensCacheRead),
            cache_write: meant.count(Field::TokensCacheWrite),
            reasoning: meant.count(Field::TokensReasoning),
            is_cache_apart: false,
        };
        let cost = meant.take(Field::Cost).and_then(|cost| to_number(&cost));
        let class = meant.name(Field::ErrorType);
        let message = meant.name(Field::ErrorMessage);
        let failure = (class.is_some() || message.is_some()).then_some(Failure { class, message });
        let response = meant.name(Field::ResponseId);
        let conversation = meant.name(Field::Conversation);
        let conversation = conversation.map(|id| (named("otlp:conversation", &id), id));
        let (provider, user) = (meant.name(Field::Provider), meant.name(Field::User));
        let agent = meant.name(Field::Agent);
        meant.give_back();
        if !meant.rest.is_empty() {
            about.insert("attributes".to_owned(), Json::Object(meant.rest));
        }
        Item {
            key: Uuid::nil(),
            operation,
            span: None,
            parent: None,
            trace: None,
            conversation,
            start: 0,
            end: None,
            is_client: false,
            is_event: false,
            provider,
            user,
            agent,
            program: None,
            model: model.or(requested),
            response,
            is_in_parts: false,
            part_of: None,
            input,
            output,
            ids: Vec::new(),
            usage,
            cost,
            tool,
            failure,
            rest: about,
        }
    }

    /// The thread of its turns: the conversation that it names, otherwise its trace.
    pub(super) fn thread(&self) -> Option<Uuid> {
        let named = self.conversation.as_ref().map(|(id, _)| *id);
        named.or(self.trace)
    }

    /// The id of its conversation.
    pub(super) fn talk_id(&self) -> Uuid {
        self.thread().unwrap_or(self.key)
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.input.is_empty() || !self.output.is_empty()
    }

    /// Whether the item is a span that has begun and has nothing of its result.
    pub(super) fn has_only_begun(&self) -> bool {
        let has_result = !self.output.is_empty() || self.usage.is_any() || self.failure.is_some();
        self.end.is_none() && !has_result
    }

    /// The turn of the span above it; of a log record, the turn of the span in which it was
    /// written.
    pub(super) fn parent_turn(&self) -> Option<Uuid> {
        let above = if self.is_event && self.span.is_some_and(|span| span.turn != self.key) {
            self.span
        } else {
            self.parent
        };
        above.map(|span| span.turn)
    }

    /// What the item says about its conversation.
    pub(super) fn talk(&self) -> Talk {
        Talk {
            session: self.conversation.as_ref().map(|(_, name)| name.clone()),
            user: self.user.clone(),
            agent: self.program.clone().or_else(|| self.agent.clone()),
        }
    }

    /// Keeps a text that has no place of its own.
    pub(super) fn keep(&mut self, name: &str, text: Option<String>) {
        if let Some(text) = text {
            self.rest.insert(name.to_owned(), text.into());
        }
    }

    /// Keeps what has a place only in a message.
    pub(super) fn keep_unused(&mut self) {
        let (agent, provider, model) = (self.agent.take(), self.provider.take(), self.model.take());
        let response = self.response.take();
        self.keep("response_id", response);
        self.keep("agent", agent);
        self.keep("provider", provider);
        self.keep("model", model);
        let conversation = self.conversation.as_ref().map(|(_, name)| name.clone());
        self.keep("conversation", conversation);
        if let Some(failure) = self.failure.take() {
            // Otherwise nothing says that it failed.
            let nothing = failure.class.is_none().then(String::new);
            self.keep("error_type", failure.class);
            self.keep("error", failure.message.or(nothing));
        }
        for (name, count) in [
            ("tokens_in", self.usage.input),
            ("tokens_out", self.usage.output),
            ("tokens_cache_read", self.usage.cache_read),
            ("tokens_cache_write", self.usage.cache_write),
            ("tokens_reasoning", self.usage.reasoning),
        ] {
            if let Some(count) = count {
                self.rest.insert(name.to_owned(), count.into());
            }
        }
        if let Some(cost) = self.cost {
            self.rest.insert("cost_usd".to_owned(), cost.into());
        }
        for (name, messages) in [("input", &mut self.input), ("output", &mut self.output)] {
            if !messages.is_empty() {
                let messages = std::mem::take(messages).into_iter();
                let messages = messages.map(Message::into_json).collect();
                self.rest.insert(name.to_owned(), messages);
            }
        }
    }

    /// What has no place of its own, as JSON.
    pub(super) fn kept(&mut self) -> String {
        let rest = std::mem::take(&mut self.rest);
        // `to_string` of a value is much slower.
        let rest = serde_json::to_string(&rest).unwrap_or_default();
        format!(r#"{{"otel":{rest}}}"#)
    }
}

/// What a span or its event says besides attributes.
fn about(span: SpanRef, parent: Option<SpanRef>, name: &str, origin: &Origin) -> Map<String, Json> {
    let mut about = Map::new();
    let mut add = |name: &str, value: String| about.insert(name.to_owned(), value.into());
    add("trace_id", span.trace.simple().to_string());
    add("span_id", format!("{:016x}", span.span));
    if let Some(parent) = parent {
        add("parent_span_id", format!("{:016x}", parent.span));
    }
    add("name", name.to_owned());
    if !origin.scope.is_empty() {
        add("scope", origin.scope.clone());
    }
    if let Some(resource) = origin.resource {
        add("resource", resource.to_string());
    }
    about
}

pub(super) fn millis(nanos: u64) -> i64 {
    if nanos == 0 {
        return now();
    }
    i64::try_from(nanos / NANOS).unwrap_or(i64::MAX)
}

/// The last exception among events.
fn exception(events: &[SpanEvent]) -> Failure {
    let Some(event) = events.iter().rfind(|event| event.name == "exception") else {
        return Failure::default();
    };
    let get = |name: &str| {
        let found = event.attributes.iter().find(|it| it.key == name);
        found.and_then(|it| it.value.clone()).and_then(to_name)
    };
    Failure {
        class: get("exception.type"),
        message: get("exception.message"),
    }
}

fn event_json(event: SpanEvent) -> Json {
    json!({
        "name": event.name,
        "time_ns": event.time_unix_nano,
        "attributes": object_of(event.attributes),
    })
}
