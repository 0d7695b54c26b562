//! The log events of Claude Code and Codex: one table for each.

use super::item::{Failure, Item, Tool, Usage};
use super::log::Record;
use super::mapping::Operation;
use super::message::Message;
use super::proto::KeyValue;
use super::value::{to_count, to_name, to_number, to_text};
use crate::import::named;
use crate::record::Role;

/// What an event of an agent stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A prompt of the user.
    Prompt,
    /// The tokens of a request.
    Usage,
    /// The text of an answer.
    Answer,
    /// A request that failed.
    Failed,
    /// A tool call and its result.
    Tool,
}

/// The names of an agent's events and attributes. An attribute that an event lacks has no name.
struct Names {
    /// The start of the name of the scope.
    scope: &'static str,
    events: &'static [(&'static str, Event)],
    conversation: &'static str,
    prompt: &'static str,
    answer: &'static str,
    response: &'static str,
    tokens_in: &'static str,
    tokens_out: &'static str,
    tokens_cache_read: &'static str,
    tokens_cache_write: &'static str,
    tokens_reasoning: &'static str,
    /// Whether the tokens of a prompt leave out the cached ones.
    is_cache_apart: bool,
    cost: &'static str,
    call_id: &'static str,
    arguments: &'static [&'static str],
    result: &'static str,
    error: &'static [&'static str],
    error_type: &'static [&'static str],
    /// The turn of an answer that does not name its response.
    turn: &'static str,
}

/// Claude Code: code.claude.com/docs/en/monitoring-usage, and what 2.1.332 sends.
const CLAUDE_CODE: Names = Names {
    scope: "com.anthropic.claude_code",
    events: &[
        ("user_prompt", Event::Prompt),
        ("api_request", Event::Usage),
        ("assistant_response", Event::Answer),
        ("api_error", Event::Failed),
        ("tool_result", Event::Tool),
    ],
    conversation: "session.id",
    prompt: "prompt",
    answer: "response",
    response: "request_id",
    tokens_in: "input_tokens",
    tokens_out: "output_tokens",
    tokens_cache_read: "cache_read_tokens",
    tokens_cache_write: "cache_creation_tokens",
    tokens_reasoning: "",
    is_cache_apart: true,
    cost: "cost_usd",
    call_id: "tool_use_id",
    arguments: &["tool_input", "tool_parameters"],
    result: "",
    error: &["error"],
    error_type: &["error_type", "status_code"],
    turn: "",
};

/// Codex: developers.openai.com/codex/config-advanced, and what 0.171.0 sends.
const CODEX: Names = Names {
    scope: "codex_",
    events: &[
        ("codex.user_prompt", Event::Prompt),
        ("codex.sse_event", Event::Usage),
        ("codex.agent_response", Event::Answer),
        ("codex.api_request", Event::Failed),
        ("codex.tool_result", Event::Tool),
    ],
    conversation: "conversation.id",
    prompt: "prompt",
    answer: "response",
    response: "",
    tokens_in: "input_token_count",
    tokens_out: "output_token_count",
    tokens_cache_read: "cached_token_count",
    tokens_cache_write: "cache_write_token_count",
    tokens_reasoning: "reasoning_token_count",
    is_cache_apart: false,
    cost: "",
    call_id: "call_id",
    arguments: &["arguments"],
    result: "output",
    error: &["error.message"],
    error_type: &["error.type", "http.response.status_code"],
    turn: "turn.id",
};

/// The item of a log record.
pub(super) fn item(mut record: Record) -> Item {
    let scope = record.about.get("scope").and_then(|it| it.as_str());
    let scope = scope.unwrap_or_default();
    let agents = [&CLAUDE_CODE, &CODEX].into_iter();
    let Some(names) = agents.clone().find(|it| scope.starts_with(it.scope)) else {
        return record.item();
    };
    let event = names.events.iter().find(|(name, _)| *name == record.name);
    let mut taken = Taken(std::mem::take(&mut record.attributes));
    let conversation = taken.name(names.conversation);
    let reading = event.and_then(|(_, event)| Reading::of(*event, names, &mut taken));
    // The body of these is their name once more.
    record.body = serde_json::Value::Null;
    record.attributes = taken.0;
    let mut item = record.item();
    if let Some(id) = conversation {
        item.conversation = Some((named("otlp:conversation", &id), id));
    }
    if let Some(reading) = reading {
        reading.apply(&mut item);
    }
    item
}

/// Attributes that are taken out one by one.
struct Taken(Vec<KeyValue>);

impl Taken {
    fn take(&mut self, name: &str) -> Option<super::proto::AnyValue> {
        let at = self.0.iter().position(|it| it.key == name)?;
        self.0.remove(at).value
    }

    fn name(&mut self, name: &str) -> Option<String> {
        self.take(name).and_then(to_name)
    }

    fn first(&mut self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.name(name))
    }

    fn count(&mut self, name: &str) -> Option<u64> {
        self.take(name).and_then(|value| to_count(&value))
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.key == name)
    }
}

/// What was read of an event.
#[derive(Default)]
struct Reading {
    operation: Option<Operation>,
    input: Vec<Message>,
    output: Vec<Message>,
    model: Option<String>,
    response: Option<String>,
    usage: Usage,
    cost: Option<f64>,
    duration_ms: i64,
    tool: Tool,
    failure: Option<Failure>,
    part_of: Option<String>,
}

impl Reading {
    /// Reads an event; `None` if it has nothing of what it stands for.
    fn of(event: Event, names: &Names, taken: &mut Taken) -> Option<Reading> {
        let is_it = match event {
            Event::Prompt => taken.has(names.prompt),
            Event::Usage => taken.has(names.tokens_in),
            Event::Answer => taken.has(names.answer),
            Event::Failed => names.error.iter().any(|name| taken.has(name)),
            Event::Tool => taken.has(names.call_id),
        };
        if !is_it {
            return None;
        }
        let mut read = Reading {
            operation: Some(Operation::Inference),
            ..Reading::default()
        };
        if event == Event::Prompt {
            let prompt = taken.take(names.prompt).and_then(to_text)?;
            read.input.push(Message::text(Role::User, prompt));
            return Some(read);
        }
        let duration = taken.count("duration_ms").unwrap_or(0);
        read.duration_ms = i64::try_from(duration).unwrap_or(0);
        if event == Event::Tool {
            read.operation = Some(Operation::Tool);
            read.tool(names, taken);
            return Some(read);
        }
        read.model = taken.name("model");
        read.response = taken.name(names.response);
        match event {
            Event::Usage => {
                read.usage = Usage {
                    input: taken.count(names.tokens_in),
                    output: taken.count(names.tokens_out),
                    cache_read: taken.count(names.tokens_cache_read),
                    cache_write: taken.count(names.tokens_cache_write),
                    reasoning: taken.count(names.tokens_reasoning),
                    is_cache_apart: names.is_cache_apart,
                };
                read.cost = taken.take(names.cost).and_then(|it| to_number(&it));
            }
            Event::Answer => {
                let text = taken.take(names.answer).and_then(to_text)?;
                read.output.push(Message::text(Role::Assistant, text));
                read.part_of = taken.name(names.turn);
            }
            _ => read.failure = Some(failure(names, taken)),
        }
        Some(read)
    }

    fn tool(&mut self, names: &Names, taken: &mut Taken) {
        self.tool = Tool {
            name: taken.name("tool_name"),
            call_id: taken.name(names.call_id),
            args: taken.first(names.arguments),
            result: taken.name(names.result),
        };
        if taken.name("success").is_some_and(|it| it == "false") {
            let mut failure = failure(names, taken);
            failure.message = failure.message.or(self.tool.result.clone());
            self.failure = Some(failure);
        }
    }

    fn apply(self, item: &mut Item) {
        if let Some(operation) = self.operation {
            item.operation = operation;
        }
        item.is_in_parts = true;
        item.input = self.input;
        item.output = self.output;
        item.model = self.model.or(item.model.take());
        item.response = self.response;
        item.usage = self.usage;
        item.cost = self.cost;
        item.tool = self.tool;
        item.failure = self.failure;
        item.start = item.start.saturating_sub(self.duration_ms);
        item.part_of = self.part_of.map(|turn| named("otlp:response", &turn));
    }
}

fn failure(names: &Names, taken: &mut Taken) -> Failure {
    Failure {
        class: taken.first(names.error_type),
        message: taken.first(names.error),
    }
}
