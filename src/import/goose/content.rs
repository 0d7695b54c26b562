//! The content of a message: a JSON array of blocks.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::import::json::compact;
use crate::import::step::{Call, Outcome, Step};

#[derive(Deserialize)]
struct Block {
    r#type: String,
    id: Option<String>,
    text: Option<String>,
    thinking: Option<String>,
    /// Of notices and questions.
    msg: Option<String>,
    prompt: Option<String>,
    #[serde(rename = "toolCall")]
    call: Option<Envelope>,
    #[serde(rename = "toolResult")]
    result: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Envelope {
    status: Option<String>,
    value: Option<Requested>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Requested {
    name: String,
    arguments: Option<Box<RawValue>>,
}

/// Fills a step with the blocks. Returns the results in them.
pub(super) fn fill(step: &mut Step, json: &str) -> Result<Vec<Outcome>, String> {
    let blocks: Vec<Box<RawValue>> = serde_json::from_str(json).map_err(|e| e.to_string())?;
    let mut results = Vec::new();
    for json in blocks {
        let block: Block = serde_json::from_str(json.get()).map_err(|e| e.to_string())?;
        match block.r#type.as_str() {
            "text" => step.texts.extend(block.text),
            "thinking" => step.reasoning.extend(block.thinking),
            "toolRequest" | "frontendToolRequest" => request(step, &mut results, block),
            "toolResponse" => results.push(response(block)),
            "systemNotification" | "toolConfirmationRequest" => {
                match block.msg.or(block.prompt).or(block.text) {
                    Some(text) => step.texts.push(text),
                    None => step.others.count(block.r#type),
                }
            }
            _ => step.others.count(block.r#type),
        }
    }
    Ok(results)
}

/// A call. One that the model wrote wrongly has an error in its place.
fn request(step: &mut Step, results: &mut Vec<Outcome>, block: Block) {
    let id = block.id.unwrap_or_default();
    let Some(envelope) = block.call else {
        step.others.count("toolRequest without call");
        return;
    };
    let (name, args) = match envelope.value {
        Some(value) => (value.name, value.arguments),
        None => ("invalid".to_owned(), None),
    };
    if envelope.status.as_deref() == Some("error") {
        let error = envelope.error.unwrap_or_else(|| "error".to_owned());
        results.push(Outcome {
            call_id: id.clone(),
            text: error.clone(),
            error: Some(error),
            ..Outcome::default()
        });
    }
    step.calls.push(Call {
        id,
        name,
        args: args.map(|args| compact(args.get())).unwrap_or_default(),
    });
}

fn response(block: Block) -> Outcome {
    let json = block.result.as_deref().map_or("null", RawValue::get);
    let result: Value = serde_json::from_str(json).unwrap_or_default();
    let error = match result.get("status").and_then(Value::as_str) {
        Some("error") => {
            let error = result.get("error").and_then(Value::as_str);
            Some(error.unwrap_or("error").to_owned())
        }
        _ => None,
    };
    let value = result.get("value");
    let content = value.and_then(|value| value.get("content")).or(value);
    let blocks = content.and_then(Value::as_array).map(Vec::as_slice);
    let texts = blocks.unwrap_or_default().iter().map(|block| {
        let text = block.get("text").and_then(Value::as_str);
        let resource = || block.pointer("/resource/text")?.as_str();
        let kind = || block.get("type").and_then(Value::as_str);
        text.or_else(resource)
            .map_or_else(|| format!("[{}]", kind().unwrap_or("block")), str::to_owned)
    });
    let texts: Vec<String> = texts.collect();
    let text = error.clone().unwrap_or_else(|| texts.join("\n"));
    let is_error = value.and_then(|value| value.get("isError")) == Some(&Value::Bool(true));
    Outcome {
        call_id: block.id.unwrap_or_default(),
        error: error.or_else(|| is_error.then(|| text.clone())),
        text,
        ..Outcome::default()
    }
}
