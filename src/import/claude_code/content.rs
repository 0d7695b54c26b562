//! The blocks of a line of Claude Code: texts, tool calls and their results.

use serde_json::value::RawValue;
use uuid::Uuid;

use super::shape::{Block, Line, Message};
use crate::import::facts::{Facts, Others, Text, joined};
use crate::import::ids::named;
use crate::import::json::{self, Raw};
use crate::record::{ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Words,
    Call,
    Result,
}

/// What the blocks of a line add up to.
pub(super) struct Content {
    line: Uuid,
    at: i64,
    texts: Vec<(Sort, String)>,
    pub(super) others: Others,
    said: bool,
    thought: bool,
    pub(super) facts: Facts,
}

impl Content {
    pub(super) fn new(line: Uuid, at: i64) -> Content {
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

    pub(super) fn system(&mut self, line: &Line<'_>) -> Result<bool, String> {
        let text = match json::text(line.content)? {
            Some(text) => Some(text),
            None => json::text(line.subtype)?,
        };
        self.words(text);
        Ok(true)
    }

    pub(super) fn message(&mut self, role: &str, message: &Message<'_>) -> Result<bool, String> {
        if let Some(text) = json::text(message.content)? {
            self.said = true;
            self.words(Some(text));
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
                ("user", "tool_result") => self.result(&block)?,
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
        self.words(text);
        Ok(understood)
    }

    fn thinking(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let thought = json::text(block.thinking)?;
        self.thought |= thought.is_some();
        let understood = thought.is_some();
        self.words(thought);
        Ok(understood)
    }

    fn tool_use(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let (Some(call_id), Some(tool_name)) = (json::text(block.id)?, json::text(block.name)?)
        else {
            return Ok(false);
        };
        let arguments = block.input.map(RawValue::get);
        let shown = format!("[tool_use {tool_name} {call_id}]");
        self.texts.push((Sort::Call, shown));
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

    fn result(&mut self, block: &Block<'_>) -> Result<bool, String> {
        let Some(call_id) = json::text(block.tool_use_id)? else {
            return Ok(false);
        };
        let text = self.result_text(block.content)?;
        self.texts.push((Sort::Result, text.clone()));
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

    fn words(&mut self, words: Option<String>) {
        self.texts.extend(words.map(|words| (Sort::Words, words)));
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

    pub(super) fn turn_kind(&self, role: &str, harness: bool) -> TurnKind {
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

    /// The content of the line's turn.
    pub(super) fn turn_content(&self) -> String {
        let texts: Vec<&str> = self.texts.iter().map(|(_, text)| text.as_str()).collect();
        joined(&texts, &self.others)
    }

    /// What the line adds to a message, without what it holds of results.
    pub(super) fn message_texts(&self) -> Vec<Text> {
        if self.texts.is_empty() {
            return vec![Text::Words(joined::<&str>(&[], &self.others))];
        }
        let mut calls = self.facts.calls.iter();
        let text = |(sort, text): &(Sort, String)| match sort {
            Sort::Words => Some(Text::Words(text.clone())),
            Sort::Call => calls.next().map(|call| Text::Call {
                name: call.tool_name.clone(),
                args: call.arguments_json.clone(),
            }),
            Sort::Result => None,
        };
        self.texts.iter().filter_map(text).collect()
    }

    /// What tools returned, if the line says so.
    pub(super) fn tool_result(&self) -> Option<String> {
        let results = self.texts.iter().filter(|(sort, _)| *sort == Sort::Result);
        let results: Vec<&str> = results.map(|(_, text)| text.as_str()).collect();
        (!results.is_empty()).then(|| joined(&results, &self.others))
    }
}

/// From the call's id alone: a result names no more of its call than that.
fn request_id(call_id: &str) -> Uuid {
    named("claude-code:tool_use", call_id)
}
