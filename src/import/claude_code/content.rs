//! The content blocks of a line of Claude Code: texts, tool calls and their results.

use std::borrow::Cow;

use uuid::Uuid;

use super::shape::{Block, Line, Spoken};
use crate::import::facts::{Facts, Others, Text, joined};
use crate::import::ids::named;
use crate::import::json::{self, Raw};
use crate::record::{
    ConversationMessage, ToolCallDone, ToolCallReq, ToolStatus, TurnKind, Validity, args_sha256,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Words,
    Call,
    Result,
}

/// The contents of a line's blocks, collected.
pub(super) struct Content<'a> {
    line: Uuid,
    at: i64,
    texts: Vec<(Sort, Cow<'a, str>)>,
    thoughts: Vec<Cow<'a, str>>,
    /// The raw content of each result.
    outcomes: Vec<Raw<'a>>,
    pub(super) others: Others,
    said: bool,
    pub(super) facts: Facts<'a>,
}

impl<'a> Content<'a> {
    pub(super) fn new(line: Uuid, at: i64) -> Content<'a> {
        Content {
            line,
            at,
            texts: Vec::new(),
            thoughts: Vec::new(),
            outcomes: Vec::new(),
            others: Others::default(),
            said: false,
            facts: Facts::default(),
        }
    }

    pub(super) fn system(&mut self, line: &Line<'a>) -> Result<bool, String> {
        let text = match json::text(line.content)? {
            Some(text) => Some(text),
            None => json::text(line.subtype)?,
        };
        self.words(text);
        Ok(true)
    }

    pub(super) fn message(&mut self, role: &str, spoken: &Spoken<'a>) -> Result<bool, String> {
        if let Some(blocks) = &spoken.blocks {
            for block in blocks {
                self.block(role, block)?;
            }
            return Ok(true);
        }
        self.parts(role, spoken.message.content)
    }

    /// A content that was not read with its message: a text, or blocks.
    pub(super) fn parts(&mut self, role: &str, content: Raw<'a>) -> Result<bool, String> {
        if let Some(text) = json::text(content)? {
            self.said = true;
            self.words(Some(text));
            return Ok(true);
        }
        let Some(blocks) = json::array(content)? else {
            return Ok(false);
        };
        for raw in blocks {
            match json::object::<Block<'_>>(raw)? {
                Some(block) => self.block(role, &block)?,
                None => self.others.count("(not an object)"),
            }
        }
        Ok(true)
    }

    fn block(&mut self, role: &str, block: &Block<'a>) -> Result<(), String> {
        let kind = json::type_name(block.kind)?;
        let understood = match (role, &*kind) {
            (_, "text") => self.text(block)?,
            ("assistant", "thinking") => self.thinking(block)?,
            ("assistant", "tool_use") => self.tool_use(block)?,
            ("user", "tool_result") => self.result(block)?,
            _ => false,
        };
        if !understood {
            self.others.count(kind);
        }
        Ok(())
    }

    fn text(&mut self, block: &Block<'a>) -> Result<bool, String> {
        let text = json::text(block.text)?;
        self.said |= text.is_some();
        let understood = text.is_some();
        self.words(text);
        Ok(understood)
    }

    fn thinking(&mut self, block: &Block<'a>) -> Result<bool, String> {
        let thought = json::text(block.thinking)?;
        let understood = thought.is_some();
        self.thoughts.extend(thought);
        Ok(understood)
    }

    fn tool_use(&mut self, block: &Block<'a>) -> Result<bool, String> {
        let (Some(call_id), Some(tool_name)) =
            (json::owned_text(block.id)?, json::owned_text(block.name)?)
        else {
            return Ok(false);
        };
        // A call without arguments gets an empty object.
        let arguments = block.input.get().unwrap_or("{}");
        let shown = ["[tool_use ", &tool_name, " ", &call_id, "]"].concat();
        self.texts.push((Sort::Call, Cow::Owned(shown)));
        self.facts.calls.push(ToolCallReq {
            request_id: request_id(&call_id),
            call_id,
            parent_id: self.line,
            vendor: "anthropic".to_owned(),
            tool_name,
            args_sha256: args_sha256(arguments),
            arguments_json: Some(arguments.to_owned()),
            started_at: Validity::at(self.at),
        });
        Ok(true)
    }

    fn result(&mut self, block: &Block<'a>) -> Result<bool, String> {
        let Some(call_id) = json::owned_text(block.tool_use_id)? else {
            return Ok(false);
        };
        let text = self.result_text(block.content)?;
        let failed = json::is_true(block.is_error);
        self.facts.results.push(ToolCallDone {
            request_id: request_id(&call_id),
            call_id,
            ended_at: Validity::at(self.at),
            latency_ms: 0,
            outcome_json: None,
            error_kind: failed.then(|| "tool_error".to_owned()),
            error_msg: failed.then(|| text.to_string()),
            status: if failed {
                ToolStatus::Failed
            } else {
                ToolStatus::Completed
            },
        });
        self.outcomes.push(block.content);
        self.texts.push((Sort::Result, text));
        Ok(true)
    }

    /// Sets the outcomes of the results: the content that the model saw or, if there is a single
    /// result, the client's own account, which has more detail. With several results it would be
    /// unclear which one the account belongs to.
    pub(super) fn outcomes(&mut self, account: Raw<'a>) {
        let account = account.get().filter(|raw| raw.starts_with(['{', '[']));
        if let ([done], Some(account)) = (self.facts.results.as_mut_slice(), account) {
            done.outcome_json = Some(account.to_owned());
            return;
        }
        let texts = self.texts.iter().filter(|(sort, _)| *sort == Sort::Result);
        let seen = self.outcomes.iter().zip(texts);
        for (done, (raw, (_, text))) in self.facts.results.iter_mut().zip(seen) {
            done.outcome_json = match raw.get() {
                Some(raw) if raw.starts_with('"') => Some(text.to_string()),
                raw => raw.map(str::to_owned),
            };
        }
    }

    fn words(&mut self, words: Option<Cow<'a, str>>) {
        self.texts.extend(words.map(|words| (Sort::Words, words)));
    }

    fn result_text(&mut self, content: Raw<'a>) -> Result<Cow<'a, str>, String> {
        if let Some(text) = json::text(content)? {
            return Ok(text);
        }
        let mut texts = Vec::new();
        for raw in json::array(content)?.unwrap_or_default() {
            let block = json::object::<Block<'_>>(raw)?;
            let kind = match &block {
                Some(block) => json::type_name(block.kind)?,
                None => Cow::Borrowed("(not an object)"),
            };
            match block.map(|block| json::text(block.text)).transpose()? {
                Some(Some(text)) if kind == "text" => texts.push(text),
                _ => self
                    .facts
                    .count_not_understood(format!("tool_result.{kind}")),
            }
        }
        Ok(Cow::Owned(texts.join("\n\n")))
    }

    pub(super) fn turn_kind(&self, role: &str, harness: bool) -> TurnKind {
        match role {
            "system" => TurnKind::System,
            "assistant" if self.is_only_thought() => TurnKind::SysInfo,
            "assistant" => TurnKind::Assistant,
            _ if !self.said && !self.facts.results.is_empty() => TurnKind::Tool,
            _ if harness => TurnKind::SysInfo,
            _ => TurnKind::User,
        }
    }

    /// Whether the line contains only reasoning.
    fn is_only_thought(&self) -> bool {
        !self.thoughts.is_empty() && !self.said && self.facts.calls.is_empty()
    }

    /// The content of the line's turn, without reasoning. A line that contains nothing else still
    /// gets a turn, because it is part of the parent chain.
    pub(super) fn turn_content(&self) -> String {
        if self.is_only_thought() && self.others.is_empty() {
            return "[thinking]".to_owned();
        }
        joined(self.texts.iter().map(|(_, text)| &**text), &self.others)
    }

    /// The model's reasoning.
    pub(super) fn reasoning(&self) -> Option<String> {
        let thoughts = self.thoughts.iter().map(|text| &**text);
        let thoughts = joined(thoughts, &Others::default());
        Some(thoughts).filter(|thoughts| !thoughts.is_empty())
    }

    /// Adds the tool results of the line to its message. If there are several, each is labelled
    /// with the id of its call.
    pub(super) fn results_into(&self, message: &mut ConversationMessage) {
        let results = &self.facts.results;
        let texts = self.texts.iter().filter(|(sort, _)| *sort == Sort::Result);
        let texts = texts.map(|(_, text)| &**text);
        message.tool_result = match results.as_slice() {
            [] => return,
            [done] => {
                message.tool_call_id = Some(done.call_id.clone());
                Some(joined(texts, &self.others))
            }
            [..] => {
                let headings: Vec<String> = results
                    .iter()
                    .map(|done| format!("[tool_result {}]", done.call_id))
                    .collect();
                let texts = headings.iter().zip(texts);
                let texts = texts.flat_map(|(heading, text)| [heading.as_str(), text]);
                Some(joined(texts, &self.others))
            }
        };
        let failed = results.iter().find_map(|done| done.error_kind.clone());
        message.error_type = failed;
    }

    /// The texts that the line adds to a message, without those of results. Moves them out.
    pub(super) fn message_texts(&mut self) -> Vec<Text<'a>> {
        if self.texts.is_empty() {
            let others = joined(std::iter::empty(), &self.others);
            return vec![Text::Words(Cow::Owned(others))];
        }
        let mut calls = self.facts.calls.iter();
        let text = |(sort, text)| match sort {
            Sort::Words => Some(Text::Words(text)),
            Sort::Call => calls.next().map(|call| Text::Call {
                id: call.call_id.clone(),
                name: call.tool_name.clone(),
                args: call.arguments_json.clone(),
            }),
            Sort::Result => None,
        };
        self.texts.drain(..).filter_map(text).collect()
    }
}

/// Derived from the call's id alone, because a result contains nothing else about its call.
fn request_id(call_id: &str) -> Uuid {
    named("claude-code:tool_use", call_id)
}
