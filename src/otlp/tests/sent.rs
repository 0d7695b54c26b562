//! The exchanges with a model, as they really were.

use serde_json::Value;

use super::{Role, Tokens, data};

/// An exchange with a model.
pub(super) struct Exchange {
    pub(super) path: String,
    pub(super) history: Vec<Said>,
    /// `None` if the request failed.
    pub(super) answer: Option<Said>,
    pub(super) usage: Tokens,
}

/// A message, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    /// The call and its result.
    pub(super) result: Option<(String, String)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    /// Some APIs have two.
    pub(super) ids: Vec<String>,
    pub(super) name: String,
    pub(super) args: Value,
}

/// The exchanges of a recording; none if no model was asked.
pub(super) fn exchanges(fixture: &str) -> Vec<Exchange> {
    let text = std::fs::read_to_string(data().join(fixture).join("sent.ndjson"));
    let text = text.unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.filter_map(|line: Value| exchange(&line)).collect()
}

fn exchange(line: &Value) -> Option<Exchange> {
    let path = line["path"].as_str()?.to_owned();
    let (request, response) = (&line["request"], &line["response"]);
    let is_good = line["status"] == 200;
    let (history, answer, usage) = match &*path {
        "/v1/embeddings" => (
            Vec::new(),
            said(Role::Assistant, ""),
            chat(&response["usage"]),
        ),
        "/v1/chat/completions" => {
            let message = &response["choices"][0]["message"];
            let answer = one(messages(std::slice::from_ref(message)));
            (
                messages(list(&request["messages"])),
                answer,
                chat(&response["usage"]),
            )
        }
        "/v1/messages" => {
            let mut history = Vec::new();
            if let Some(system) = request["system"].as_str() {
                history.push(said(Role::System, system));
            }
            history.extend(messages(list(&request["messages"])));
            let answer = one(messages(std::slice::from_ref(response)));
            (history, answer, anthropic(&response["usage"]))
        }
        "/v1/responses" => {
            let mut history = Vec::new();
            if let Some(system) = request["instructions"].as_str() {
                history.push(said(Role::System, system));
            }
            match request["input"].as_str() {
                Some(text) => history.push(said(Role::User, text)),
                None => history.extend(messages(list(&request["input"]))),
            }
            let answer = one(messages(list(&response["output"])));
            (history, answer, responses(&response["usage"]))
        }
        _ => return None,
    };
    Some(Exchange {
        path,
        history,
        answer: is_good.then_some(answer),
        usage: if is_good { usage } else { Tokens::default() },
    })
}

fn said(role: Role, text: &str) -> Said {
    Said {
        role,
        text: text.to_owned(),
        calls: Vec::new(),
        result: None,
    }
}

/// The items of an answer as one.
fn one(parts: Vec<Said>) -> Said {
    let mut all = said(Role::Assistant, "");
    for part in parts {
        all.text.push_str(&part.text);
        all.calls.extend(part.calls);
    }
    all
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Messages of any API. Each result is a message of its own.
fn messages(list_of: &[Value]) -> Vec<Said> {
    let mut found = Vec::new();
    for message in list_of {
        let role = match message["role"].as_str() {
            Some("system" | "developer") => Role::System,
            Some("user") => Role::User,
            Some("tool") => Role::Tool,
            _ => Role::Assistant,
        };
        let mut read = said(role, "");
        let mut texts = Vec::new();
        match &message["content"] {
            Value::String(content) => texts.push(content.clone()),
            content => {
                for block in list(content) {
                    part(block, &mut texts, &mut read, &mut found);
                }
            }
        }
        for call in list(&message["tool_calls"]) {
            read.calls.push(self::call(call, &call["function"]));
        }
        if message["type"] != "message" {
            part(message, &mut texts, &mut read, &mut found);
        }
        // What the CLIs add to messages, which is cut in the recording.
        texts.retain(|text| !text.starts_with('<'));
        read.text = texts.join("\n\n");
        if role == Role::Tool {
            let id = text(&message["tool_call_id"]);
            read.result = Some((id, std::mem::take(&mut read.text)));
        }
        if !read.text.is_empty() || !read.calls.is_empty() || read.result.is_some() {
            found.push(read);
        }
    }
    found
}

/// A block of a message, or an item of the Responses API.
fn part(block: &Value, texts: &mut Vec<String>, read: &mut Said, found: &mut Vec<Said>) {
    let result = |id: &Value, result: &Value| {
        let result = match result {
            Value::String(result) => result.clone(),
            blocks => list(blocks).iter().map(|it| text(&it["text"])).collect(),
        };
        Said {
            result: Some((text(id), result)),
            ..said(Role::Tool, "")
        }
    };
    match block["type"].as_str() {
        Some("text" | "input_text" | "output_text") => texts.push(text(&block["text"])),
        Some("tool_use" | "function_call") => read.calls.push(call(block, block)),
        Some("tool_result") => found.push(result(&block["tool_use_id"], &block["content"])),
        Some("function_call_output") => found.push(result(&block["call_id"], &block["output"])),
        _ => {}
    }
}

fn call(call: &Value, function: &Value) -> Call {
    let args = [&function["arguments"], &function["input"]];
    let args = args.into_iter().find(|it| !it.is_null()).unwrap();
    let ids = [&call["call_id"], &call["id"]].into_iter();
    Call {
        ids: ids.filter(|it| !it.is_null()).map(text).collect(),
        name: text(&function["name"]),
        args: match args {
            Value::String(json) => serde_json::from_str(json).unwrap(),
            args => args.clone(),
        },
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

fn chat(usage: &Value) -> Tokens {
    Tokens {
        input: number(&usage["prompt_tokens"]),
        output: number(&usage["completion_tokens"]),
        cache_read: number(&usage["prompt_tokens_details"]["cached_tokens"]),
        cache_write: 0,
        reasoning: number(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

fn responses(usage: &Value) -> Tokens {
    Tokens {
        input: number(&usage["input_tokens"]),
        output: number(&usage["output_tokens"]),
        cache_read: number(&usage["input_tokens_details"]["cached_tokens"]),
        cache_write: 0,
        reasoning: number(&usage["output_tokens_details"]["reasoning_tokens"]),
    }
}

/// The cached tokens are apart.
fn anthropic(usage: &Value) -> Tokens {
    let cache_read = number(&usage["cache_read_input_tokens"]);
    let cache_write = number(&usage["cache_creation_input_tokens"]);
    Tokens {
        input: number(&usage["input_tokens"]) + cache_read + cache_write,
        output: number(&usage["output_tokens"]),
        cache_read,
        cache_write,
        reasoning: 0,
    }
}
