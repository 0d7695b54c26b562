//! A step of a document, from the messages, calls and results that belong to it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Draft, DraftCall, Steps};
use crate::atif::model::{Content, Metrics, Observation, ObservationResult, Step, ToolCall, extra};
use crate::atif::own::{self, Own};
use crate::record::{ConversationMessage, Timestamp};

impl Steps {
    pub(super) fn step(&self, step_id: u64, draft: Draft) -> Step {
        let is_agent = draft.source == "agent";
        let content = Shown::of(&draft.messages, |it| Some(&it.content));
        let reasoning = Shown::of(&draft.messages, |it| it.reasoning.as_ref());
        let mut messages = Vec::new();
        let mut results = draft.results;
        for message in &draft.messages {
            let mut from_step = Vec::new();
            if content.only == Some(message.id) {
                from_step.push("content");
            }
            if is_agent && reasoning.only == Some(message.id) {
                from_step.push("reasoning");
            }
            let mut calls = draft.calls.iter();
            let call = calls.find(|call| Some(&call.id) == message.tool_call_id.as_ref());
            if let (Some(call), Some(args)) = (call, &message.tool_args)
                && call.arguments.shown() == *args
            {
                from_step.push("tool_args");
            }
            if let Some(result) = &message.tool_result {
                let call = call.filter(|_| is_agent);
                results.push(ObservationResult {
                    source_call_id: call.map(|call| call.id.clone()),
                    content: Some(Content::Text(result.clone())),
                    ..ObservationResult::default()
                });
                if draft.messages.len() == 1 && results.len() == 1 {
                    from_step.push("tool_result");
                }
            }
            let mut own = own::of_message(message, &from_step);
            let turns = self.turns_own(message);
            if !turns.is_empty() {
                own.insert(own::TURNS.to_owned(), turns.into());
            }
            messages.push(Value::Object(own));
        }
        let mut own = Own::new();
        let mut message = content.text;
        if !messages.is_empty() {
            own.insert("messages".to_owned(), messages.into());
        }
        if let Some(turn) = &draft.turn {
            message.clone_from(&turn.content);
            let turn = own::of_turn(turn, self.talk, &turn.content);
            own.insert("turn".to_owned(), turn.into());
        }
        let is_response = draft.messages.iter().any(|it| it.part_of.is_none());
        let mut models = draft.messages.iter().filter_map(|it| it.model_used.clone());
        let calls: Vec<ToolCall> = draft.calls.into_iter().filter_map(tool_call).collect();
        let llm_call_count = match is_agent {
            true if draft.is_dispatch => Some(0),
            true if is_response && draft.turn.is_none() => Some(1),
            _ => None,
        };
        Step {
            step_id,
            timestamp: Timestamp::from_ms(draft.at).ok().map(|it| it.to_string()),
            source: draft.source.to_owned(),
            model_name: models.next().filter(|_| is_agent),
            message: Content::Text(message),
            reasoning_content: Some(reasoning.text).filter(|text| is_agent && !text.is_empty()),
            tool_calls: Some(calls).filter(|calls| !calls.is_empty()),
            observation: Some(Observation { results }).filter(|it| !it.results.is_empty()),
            metrics: metrics(&draft.messages).filter(|_| is_agent),
            llm_call_count,
            extra: Some(own).filter(|own| !own.is_empty()).map(extra),
            ..Step::default()
        }
    }
}

/// The texts of a step's messages, and the message that has the only one.
struct Shown {
    text: String,
    only: Option<Uuid>,
}

impl Shown {
    fn of<'a>(
        messages: &'a [ConversationMessage],
        field: impl Fn(&'a ConversationMessage) -> Option<&'a String>,
    ) -> Shown {
        let texts = messages.iter().filter_map(|it| Some((it.id, field(it)?)));
        let texts: Vec<_> = texts.filter(|(_, text)| !text.is_empty()).collect();
        let only = match texts.as_slice() {
            [(id, _)] => Some(*id),
            _ => None,
        };
        let texts: Vec<&str> = texts.into_iter().map(|(_, text)| text.as_str()).collect();
        Shown {
            text: texts.join("\n\n"),
            only,
        }
    }
}

fn tool_call(call: DraftCall) -> Option<ToolCall> {
    Some(ToolCall {
        tool_call_id: call.id,
        function_name: call.name,
        arguments: RawValue::from_string(call.arguments.shown()).ok()?,
        extra: call.own.map(extra),
    })
}

/// The sums of the tokens and costs of a step's messages.
fn metrics(messages: &[ConversationMessage]) -> Option<Metrics> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut cost_usd: Option<f64> = None;
    for message in messages {
        for (name, count) in own::of_message(message, &[]) {
            if let (true, Some(count)) = (name.starts_with("tokens_"), count.as_u64()) {
                let sum = sums.entry(name).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        if let Some(cost) = message.cost_usd {
            cost_usd = Some(cost_usd.unwrap_or(0.0) + cost);
        }
    }
    if sums.is_empty() && cost_usd.is_none() {
        return None;
    }
    let [prompt_tokens, completion_tokens, cached_tokens] =
        ["tokens_in", "tokens_out", "tokens_cache_read"].map(|name| sums.remove(name));
    let others = sums.into_iter().map(|(name, sum)| (name, sum.into()));
    let others: Map<String, Value> = others.collect();
    Some(Metrics {
        prompt_tokens,
        completion_tokens,
        cached_tokens,
        cost_usd,
        extra: Some(others).filter(|others| !others.is_empty()),
        others: Map::new(),
    })
}
