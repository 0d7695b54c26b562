//! The document of a thread: of version 0.3.0, and of the versions before it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::FORMAT;
use crate::import::agent::Whole;
use crate::import::facts::{Facts, Tokens};
use crate::import::heading::Heading;
use crate::import::json::compact;
use crate::import::step::{Call, Outcome, Step, Thread};
use crate::record::{Role, now};

/// After this time without a change, the agent has ended its turn.
const QUIET_MS: i64 = 600_000;
/// After this time, a thread counts as left.
const LEFT_MS: i64 = 86_400_000;

#[derive(Deserialize)]
pub(super) struct Saved {
    /// `summary` of older versions.
    #[serde(alias = "summary")]
    title: Option<String>,
    #[serde(default)]
    messages: Vec<Box<RawValue>>,
    model: Option<Model>,
    initial_project_snapshot: Option<Value>,
    #[serde(default)]
    cumulative_token_usage: Usage,
    /// By prompts. Of older versions, a list.
    request_token_usage: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Model {
    provider: Option<String>,
    model: Option<String>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_field_names)] // As in the document.
struct Usage {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

impl Usage {
    fn tokens(self) -> Tokens {
        let cached = self
            .cache_creation_input_tokens
            .saturating_add(self.cache_read_input_tokens);
        Tokens {
            input: self.input_tokens.saturating_add(cached),
            cache_write: self.cache_creation_input_tokens,
            cache_read: self.cache_read_input_tokens,
            output: self.output_tokens,
            ..Tokens::default()
        }
    }
}

/// A message of version 0.3.0.
#[derive(Deserialize)]
enum Message {
    User(User),
    Agent(Agent),
}

#[derive(Deserialize)]
struct User {
    id: String,
    content: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Agent {
    content: Vec<Box<RawValue>>,
    #[serde(default)]
    tool_results: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
struct ToolUse {
    id: String,
    name: String,
    input: Option<Box<RawValue>>,
    is_input_complete: Option<bool>,
}

#[derive(Deserialize)]
struct ToolResult {
    tool_use_id: Option<String>,
    #[serde(default)]
    is_error: bool,
    #[serde(default)]
    content: Value,
    output: Option<Value>,
}

/// A message of older versions.
#[derive(Deserialize)]
struct Legacy {
    id: u64,
    role: String,
    #[serde(default)]
    segments: Vec<Value>,
    /// Of the first version, instead of segments.
    text: Option<String>,
    #[serde(default)]
    tool_uses: Vec<ToolUse>,
    #[serde(default)]
    tool_results: Vec<ToolResult>,
}

impl Saved {
    pub(super) fn read(json: &[u8]) -> Result<Saved, String> {
        serde_json::from_slice(json).map_err(|e| format!("not readable as JSON: {e}"))
    }

    pub(super) fn title(&self) -> Option<String> {
        self.title.clone().filter(|title| !title.is_empty())
    }

    pub(super) fn first_snapshot(&self) -> Option<&str> {
        self.initial_project_snapshot
            .as_ref()?
            .get("timestamp")?
            .as_str()
    }

    pub(super) fn folder(&self) -> Option<String> {
        let snapshot = self.initial_project_snapshot.as_ref()?;
        let folder = snapshot.pointer("/worktree_snapshots/0/worktree_path")?;
        folder.as_str().map(str::to_owned)
    }
}

pub(super) struct Reader<'r, 'a, 'log> {
    whole: &'r mut Whole<'a, 'log>,
    line: &'r mut u64,
    thread: Thread,
    /// Epoch milliseconds of all messages.
    at: i64,
    /// Milliseconds since the thread was updated.
    age: Option<i64>,
    /// The prompt before, and the number of messages after it.
    prompt: (String, u64),
}

impl<'r, 'a, 'log> Reader<'r, 'a, 'log> {
    pub(super) fn new(
        whole: &'r mut Whole<'a, 'log>,
        line: &'r mut u64,
        thread: Thread,
        at: i64,
        updated: Option<i64>,
    ) -> Self {
        Reader {
            whole,
            line,
            thread,
            at,
            age: updated.map(|updated| now().saturating_sub(updated)),
            prompt: (String::new(), 0),
        }
    }

    fn is_older_than(&self, ms: i64) -> bool {
        self.age.is_some_and(|age| age > ms)
    }

    pub(super) fn head(&mut self, heading: Option<Heading>) {
        *self.line += 1;
        let facts = Facts {
            headings: heading.into_iter().collect(),
            ..Facts::default()
        };
        self.whole.take(*self.line, vec![facts]);
    }

    /// Hands over what no longer changes. Returns whether that was all.
    pub(super) fn read(&mut self, saved: Saved) -> bool {
        if let Some(model) = saved.model {
            self.thread.vendor = model.provider;
            self.thread.model = model.model;
        }
        let usages = saved.request_token_usage.as_deref().map(RawValue::get);
        let usages: BTreeMap<String, Usage> = usages
            .and_then(|json| serde_json::from_str(json).ok())
            .unwrap_or_default();
        let count = saved.messages.len();
        let mut counted = Tokens::default();
        for (n, json) in saved.messages.iter().enumerate() {
            *self.line += 1;
            let is_last = n + 1 == count;
            let read = if json.get().starts_with('"') {
                // `Resume`: the user lets the agent go on.
                let kind: String = serde_json::from_str(json.get()).unwrap_or_default();
                if kind != "Resume" {
                    let facts = Facts::not_understood(format!("message.{kind}"));
                    self.whole.take(*self.line, vec![facts]);
                }
                self.prompt.1 += 1;
                Ok(true)
            } else if let Ok(legacy) = serde_json::from_str::<Legacy>(json.get()) {
                self.legacy(legacy)
            } else {
                match serde_json::from_str::<Message>(json.get()) {
                    Ok(Message::User(user)) => {
                        self.usage(&usages, &mut counted);
                        self.user(user)
                    }
                    Ok(Message::Agent(agent)) => self.agent(agent, is_last),
                    Err(error) => self.unknown(json.get(), &error),
                }
            };
            match read {
                Ok(true) => {}
                Ok(false) => return false,
                Err(reason) => {
                    let reason = format!("message {}: {reason}", n + 1);
                    self.whole.broken(*self.line, reason);
                }
            }
        }
        let sum = saved.cumulative_token_usage.tokens();
        let has_sum = sum != Tokens::default() || !usages.is_empty();
        if has_sum && !self.is_older_than(LEFT_MS) {
            return false;
        }
        self.usage(&usages, &mut counted);
        self.tokens("sum", sum.beyond(counted));
        true
    }

    /// A message of another kind than those known.
    fn unknown(&mut self, json: &str, error: &serde_json::Error) -> Result<bool, String> {
        let message: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        let kind = kind(&message);
        if matches!(kind.as_str(), "User" | "Agent") {
            return Err(error.to_string());
        }
        let facts = Facts::not_understood(format!("message.{kind}"));
        self.whole.take(*self.line, vec![facts]);
        self.prompt.1 += 1;
        Ok(true)
    }

    /// The tokens of the last request after the prompt before.
    fn usage(&mut self, usages: &BTreeMap<String, Usage>, counted: &mut Tokens) {
        let Some(usage) = usages.get(&self.prompt.0) else {
            return;
        };
        let tokens = usage.tokens();
        counted.input = counted.input.saturating_add(tokens.input);
        counted.output = counted.output.saturating_add(tokens.output);
        counted.cache_read = counted.cache_read.saturating_add(tokens.cache_read);
        counted.cache_write = counted.cache_write.saturating_add(tokens.cache_write);
        let key = format!("{}:usage", self.prompt.0);
        self.tokens(&key, tokens);
    }

    fn tokens(&mut self, key: &str, tokens: Tokens) {
        if tokens == Tokens::default() {
            return;
        }
        let mut step = self.step(key, Role::Assistant);
        step.tokens = Some(tokens);
        self.take(step);
    }

    fn step(&self, key: &str, role: Role) -> Step {
        Step::new(self.thread.key(FORMAT, key), self.at, role)
    }

    fn take(&mut self, step: Step) {
        match self.thread.facts(FORMAT, step) {
            Ok(facts) => self.whole.take(*self.line, vec![facts]),
            Err(reason) => self.whole.broken(*self.line, reason),
        }
    }

    fn user(&mut self, user: User) -> Result<bool, String> {
        let mut step = self.step(&user.id, Role::User);
        self.prompt = (user.id, 0);
        for block in user.content {
            let block: Value = serde_json::from_str(block.get()).map_err(|e| e.to_string())?;
            let text = block.get("Text").and_then(Value::as_str);
            let mention = || block.pointer("/Mention/content")?.as_str();
            match text.or_else(mention) {
                Some(text) => step.texts.push(text.to_owned()),
                None => step.others.count(kind(&block)),
            }
        }
        self.take(step);
        Ok(true)
    }

    fn agent(&mut self, agent: Agent, is_last: bool) -> Result<bool, String> {
        self.prompt.1 += 1;
        let key = format!("{}:{}", self.prompt.0, self.prompt.1);
        let mut step = self.step(&key, Role::Assistant);
        let mut is_whole = true;
        for json in agent.content {
            let block: Value = serde_json::from_str(json.get()).map_err(|e| e.to_string())?;
            let text = block.get("Text").and_then(Value::as_str);
            let thinking = block.pointer("/Thinking/text").and_then(Value::as_str);
            if let Some(text) = text {
                step.texts.push(text.to_owned());
            } else if let Some(thinking) = thinking {
                step.reasoning.push(thinking.to_owned());
            } else if block.get("ToolUse").is_some() {
                let used: BTreeMap<String, ToolUse> =
                    serde_json::from_str(json.get()).map_err(|e| e.to_string())?;
                for used in used.into_values() {
                    is_whole &= used.is_input_complete != Some(false)
                        && agent.tool_results.contains_key(&used.id);
                    step.calls.push(used.call());
                }
            } else {
                step.others.count(kind(&block));
            }
        }
        let is_over =
            !is_last || self.is_older_than(LEFT_MS) || is_whole && self.is_older_than(QUIET_MS);
        if !is_over {
            return Ok(false);
        }
        self.take(step);
        for (id, json) in agent.tool_results {
            let result: ToolResult = serde_json::from_str(json.get()).map_err(|e| e.to_string())?;
            self.result(&key, id, &result);
        }
        Ok(true)
    }

    fn result(&mut self, key: &str, id: String, result: &ToolResult) {
        let mut step = self.step(&format!("{key}:{id}"), Role::Tool);
        let mut texts = Vec::new();
        words(&result.content, &mut texts);
        if texts.is_empty() {
            texts.extend(result.output.as_ref().map(|output| match output {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            }));
        }
        let text = texts.join("\n");
        step.result = Some(Outcome {
            call_id: id,
            error: result.is_error.then(|| text.clone()),
            text,
            ..Outcome::default()
        });
        self.take(step);
    }

    /// A message of older versions, which no program writes any more.
    fn legacy(&mut self, message: Legacy) -> Result<bool, String> {
        let key = message.id.to_string();
        let role = match message.role.as_str() {
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "system" => Role::System,
            role => return Err(format!("unknown role {role:?}")),
        };
        let mut step = self.step(&key, role);
        step.texts.extend(message.text);
        for segment in message.segments {
            let text = segment.get("text").and_then(Value::as_str);
            match (segment.get("type").and_then(Value::as_str), text) {
                (Some("text"), Some(text)) => step.texts.push(text.to_owned()),
                (Some("thinking"), Some(text)) => step.reasoning.push(text.to_owned()),
                (kind, _) => step.others.count(kind.unwrap_or("(no type)")),
            }
        }
        for used in &message.tool_uses {
            step.calls.push(used.call());
        }
        let is_empty = step.texts.is_empty() && step.reasoning.is_empty() && step.calls.is_empty();
        if !is_empty || !step.others.is_empty() || message.tool_results.is_empty() {
            self.take(step);
        }
        for result in message.tool_results {
            let id = result.tool_use_id.clone().unwrap_or_default();
            self.result(&key, id, &result);
        }
        Ok(true)
    }
}

impl ToolUse {
    fn call(&self) -> Call {
        let input = self.input.as_deref().map(|input| compact(input.get()));
        Call {
            id: self.id.clone(),
            name: self.name.clone(),
            args: input.unwrap_or_default(),
        }
    }
}

/// The type of a block: the name of its only member.
fn kind(block: &Value) -> String {
    let name = block.as_object().and_then(|block| block.keys().next());
    name.cloned().unwrap_or_else(|| "(no type)".to_owned())
}

/// The texts of a result: a text, `{"Text":…}`, `{"type":"text","text":…}`, or a list of them.
fn words(content: &Value, texts: &mut Vec<String>) {
    match content {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(blocks) => blocks.iter().for_each(|block| words(block, texts)),
        Value::Object(block) => match block.get("Text").or_else(|| block.get("text")) {
            Some(text) => words(text, texts),
            None => texts.push(format!("[{}]", kind(content))),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
