//! Session files of Claude Code.
//!
//! A `user`, `assistant` or `system` line with its base fields (`uuid`, `sessionId`, `timestamp`)
//! is one turn, so that the chain of parents stays whole. Its blocks may besides be tool calls
//! and results. Any other line is not understood.

mod shape;

use serde_json::value::RawValue;
use uuid::Uuid;

use super::facts::{Facts, Others, Tokens, Usage, joined};
use super::ids::{foreign_id, named};
use super::json::{self, Raw};
use crate::record::{
    ConversationTurn, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};
use shape::{Block, Line, Message, UsageObject};

/// The model named in what the client itself wrote in the model's place.
const SYNTHETIC: &str = "<synthetic>";

/// What a line says; an `Err` is the reason for which it is broken.
pub(super) fn read(text: &str) -> Result<Facts, String> {
    let Some(line) = json::object::<Line<'_>>(text)? else {
        return Ok(Facts::not_understood("(not an object)"));
    };
    let kind = json::type_name(line.kind)?;
    let (Some(uuid), Some(session)) = (json::text(line.uuid)?, json::text(line.session_id)?) else {
        return Ok(Facts::not_understood(kind));
    };
    if !matches!(kind.as_str(), "user" | "assistant" | "system") {
        return Ok(Facts::not_understood(kind));
    }
    let Some(at) = json::timestamp(line.timestamp)? else {
        return Ok(Facts::not_understood(kind));
    };
    let id = foreign_id("claude-code:line", &uuid);
    let mut content = Content::new(id, at);
    let message = json::member::<Message<'_>>(line.message)?;
    let understood = match (&message, kind.as_str()) {
        (_, "system") => content.system(&line)?,
        (Some(message), role) => content.message(role, message)?,
        (None, _) => false,
    };
    if !understood {
        return Ok(Facts::not_understood(kind));
    }
    if let ([done], Some(raw)) = (content.facts.results.as_mut_slice(), line.tool_use_result)
        && raw.get().starts_with(['{', '['])
    {
        // The client's own account of the result holds more than what the model saw of it. With
        // several results in a line it would be unclear whose it is.
        done.outcome_json = Some(raw.get().to_owned());
    }
    let mut message_id = id;
    if let (Some(message), "assistant") = (&message, kind.as_str()) {
        if let Some(id) = json::text(message.id)? {
            message_id = foreign_id("claude-code:message", &id);
        }
        usage(&mut content.facts, message_id, message)?;
    }
    let harness = json::is_true(line.is_meta) || json::is_true(line.is_compact_summary);
    let parent = json::text(line.parent_uuid)?;
    content.facts.turn = Some(ConversationTurn {
        id,
        parent_id: parent.map(|parent| foreign_id("claude-code:line", &parent)),
        message_id,
        kind: content.turn_kind(&kind, harness),
        content: joined(&content.texts, &content.others),
        created_at: Validity::at(at),
        thread_id: Some(foreign_id("claude-code:session", &session)),
    });
    let others = content.others.under(&kind);
    content.facts.not_understood.extend(others);
    Ok(content.facts)
}

/// Here, and only here, the usage that the provider reported is known with its response.
fn usage(facts: &mut Facts, response: Uuid, message: &Message<'_>) -> Result<(), String> {
    let Some(raw) = message.usage else {
        return Ok(());
    };
    let Ok(Some(usage)) = json::object::<UsageObject>(raw.get()) else {
        facts.count_not_understood("assistant.usage");
        return Ok(());
    };
    let of = |tokens: Option<u64>| tokens.unwrap_or(0);
    let tokens = Tokens {
        input: of(usage.input)
            .saturating_add(of(usage.cache_creation))
            .saturating_add(of(usage.cache_read)),
        output: of(usage.output),
    };
    // No API has answered where the client spoke in the model's place.
    let synthetic = json::text(message.model)?.is_some_and(|model| model == SYNTHETIC);
    if !(synthetic && tokens == Tokens::default()) {
        facts.usage = Some(Usage::Of { response, tokens });
    }
    Ok(())
}

/// What the blocks of a line add up to.
struct Content {
    line: Uuid,
    at: i64,
    texts: Vec<String>,
    others: Others,
    said: bool,
    thought: bool,
    facts: Facts,
}

impl Content {
    fn new(line: Uuid, at: i64) -> Content {
        Content {
            line,
            at,
            texts: Vec::new(),
            others: Others::default(),
            said: false,
            thought: false,
            facts: Facts::default(),
        }
    }

    fn system(&mut self, line: &Line<'_>) -> Result<bool, String> {
        let text = match json::text(line.content)? {
            Some(text) => Some(text),
            None => json::text(line.subtype)?,
        };
        self.texts.extend(text);
        Ok(true)
    }

    fn message(&mut self, role: &str, message: &Message<'_>) -> Result<bool, String> {
        if let Some(text) = json::text(message.content)? {
            self.said = true;
            self.texts.push(text);
            return Ok(true);
        }
        let Some(blocks) = json::array(message.content)? else {
            return Ok(false);
        };
        for raw in blocks {
            let Some(block) = json::object::<Block<'_>>(raw.get())? else {
                self.others.count("(not an object)".to_owned());
                continue;
            };
            let kind = json::type_name(block.kind)?;
            let understood = match (role, kind.as_str()) {
                (_, "text") => self.text(&block)?,
                ("assistant", "thinking") => self.thinking(&block)?,
                ("assistant", "tool_use") => self.tool_use(&block)?,
                ("user", "tool_result") => self.tool_result(&block)?,
                _ => false,
            };
            if !understood {
                self.others.count(kind);
            }
        }
        Ok(true)
    }

    fn text(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let text = json::text(block.text)?;
        self.said |= text.is_some();
        let understood = text.is_some();
        self.texts.extend(text);
        Ok(understood)
    }

    fn thinking(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let thought = json::text(block.thinking)?;
        self.thought |= thought.is_some();
        let understood = thought.is_some();
        self.texts.extend(thought);
        Ok(understood)
    }

    fn tool_use(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let (Some(call_id), Some(tool_name)) = (json::text(block.id)?, json::text(block.name)?)
        else {
            return Ok(false);
        };
        let arguments = block.input.map(RawValue::get);
        self.texts.push(format!("[tool_use {tool_name} {call_id}]"));
        self.facts.calls.push(ToolCallReq {
            request_id: request_id(&call_id),
            call_id,
            parent_id: self.line,
            vendor: "anthropic".to_owned(),
            tool_name,
            args_sha256: args_sha256(arguments.unwrap_or_default()),
            arguments_json: arguments.map(str::to_owned),
            started_at: Validity::at(self.at),
        });
        Ok(true)
    }

    fn tool_result(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let Some(call_id) = json::text(block.tool_use_id)? else {
            return Ok(false);
        };
        let text = self.result_text(block.content)?;
        self.texts.push(text.clone());
        let failed = json::is_true(block.is_error);
        self.facts.results.push(ToolCallDone {
            request_id: request_id(&call_id),
            call_id,
            ended_at: Validity::at(self.at),
            latency_ms: 0,
            outcome_json: json::text_or_bytes(block.content)?,
            error_kind: failed.then(|| "tool_error".to_owned()),
            error_msg: failed.then_some(text),
            status: if failed {
                ToolStatus::Failed
            } else {
                ToolStatus::Completed
            },
        });
        Ok(true)
    }

    fn result_text(&mut self, content: Raw<'_>) -> Result<String, String> {
        let mut texts = Vec::new();
        for raw in json::array(content)?.unwrap_or_default() {
            let block = json::object::<Block<'_>>(raw.get())?;
            let kind = match &block {
                Some(block) => json::type_name(block.kind)?,
                None => "(not an object)".to_owned(),
            };
            match block.map(|block| json::text(block.text)).transpose()? {
                Some(Some(text)) if kind == "text" => texts.push(text),
                _ => self
                    .facts
                    .count_not_understood(format!("tool_result.{kind}")),
            }
        }
        texts.extend(json::text(content)?);
        Ok(texts.join("\n\n"))
    }

    fn turn_kind(&self, role: &str, harness: bool) -> TurnKind {
        match role {
            "system" => TurnKind::System,
            "assistant" if self.thought && !self.said && self.facts.calls.is_empty() => {
                TurnKind::SysInfo
            }
            "assistant" => TurnKind::Assistant,
            _ if !self.said && !self.facts.results.is_empty() => TurnKind::Tool,
            _ if harness => TurnKind::SysInfo,
            _ => TurnKind::User,
        }
    }
}

/// From the call's id alone: a result names no more of its call than that.
fn request_id(call_id: &str) -> Uuid {
    named("claude-code:tool_use", call_id)
}
