//! Documents that decklog wrote.

use uuid::Uuid;

use super::Items;
use crate::atif::model::{Content, ObservationResult, Step, ToolCall, Trajectory, own};
use crate::atif::own::{self, Own};
use crate::import::facts::{ConversationRef, Facts, Said};
use crate::record::{ConversationMessage, ConversationTurn};

/// The facts of a conversation, each with the position of its message.
struct Restored {
    talk: Uuid,
    parent: Option<Uuid>,
    facts: Vec<(i64, Facts<'static>)>,
    position: i64,
}

impl Items<'_, '_, '_> {
    /// Restores the records of a conversation.
    pub(super) fn restore(&mut self, document: &Trajectory, of: &Own) -> Result<(), String> {
        let id = document.trajectory_id.as_deref();
        let id = id.and_then(|id| Uuid::try_parse(id).ok());
        let talk = id.ok_or("trajectory_id is not a UUID, but extra.decklog has a conversation")?;
        let conversation = own::conversation(of.clone(), talk)?;
        let mut restored = Restored {
            talk,
            parent: conversation.parent_id,
            facts: Vec::new(),
            position: 0,
        };
        let first = self.number + 1;
        for step in &document.steps {
            let number = self.next();
            if let Err(reason) = restored.step(step) {
                self.whole.broken(number, reason);
            }
        }
        let conversation = Facts {
            conversation: Some(Box::new(conversation)),
            ..Facts::default()
        };
        // The message with a result is in the step of its call, which may have come long before.
        restored.facts.sort_by_key(|(position, _)| *position);
        let facts = restored.facts.into_iter().map(|(_, facts)| facts);
        let facts = std::iter::once(conversation).chain(facts).collect();
        self.take(first, Ok(facts));
        Ok(())
    }
}

impl Restored {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        let of_step = own(&step.extra);
        let text = text(&step.message);
        let results = step.observation.iter().flat_map(|it| &it.results);
        let mut calls = Vec::new();
        for call in step.tool_calls.iter().flatten() {
            if let Some(of_call) = own(&call.extra) {
                let (id, name) = (&call.tool_call_id, &call.function_name);
                calls.push(own::call(of_call.clone(), id, name, call.arguments.get())?);
            }
        }
        let messages = of_step.and_then(|own| own.get("messages")?.as_array());
        let mut first = true;
        for of in messages.into_iter().flatten() {
            let of = of.as_object().ok_or("a message is not an object")?;
            let from_step = |name: &str| match name {
                "content" => Some(text.to_owned()),
                "reasoning" => step.reasoning_content.clone(),
                "tool_args" => arguments(step.tool_calls.as_deref(), of),
                "tool_result" => results.clone().next().map(|it| said(it).to_owned()),
                _ => None,
            };
            let message = own::message(of.clone(), self.talk, from_step)?;
            self.position = message.sequence.unwrap_or(self.position);
            if std::mem::take(&mut first) {
                let calls = std::mem::take(&mut calls);
                self.message(message, of, |facts| facts.calls = calls)?;
            } else {
                self.message(message, of, |_| {})?;
            }
        }
        let mut facts = Facts {
            calls,
            ..Facts::default()
        };
        if let Some(turn) = of_step.and_then(|own| own.get("turn")?.as_object()) {
            facts.turn = Some(own::turn(turn.clone(), self.talk, text)?);
        }
        self.facts.push((self.position, facts));
        let position = self.position;
        for result in results {
            self.result(result)?;
        }
        self.position = position;
        Ok(())
    }

    fn result(&mut self, result: &ObservationResult) -> Result<(), String> {
        let Some(of) = own(&result.extra) else {
            return Ok(());
        };
        let said = said(result);
        let message = of.get("message").and_then(|it| it.as_object());
        let message = message.map(|of_message| {
            let from_step = |_: &str| Some(said.to_owned());
            let message = own::message(of_message.clone(), self.talk, from_step)?;
            Ok::<_, String>((message, of_message))
        });
        let message = message.transpose()?;
        if let Some((message, _)) = &message {
            self.position = message.sequence.unwrap_or(self.position);
        }
        if let Some(outcome) = of.get("outcome").and_then(|it| it.as_object()) {
            // By itself, because the tool of a message is recorded as it was.
            let facts = Facts {
                results: vec![own::result(outcome.clone(), said)?],
                ..Facts::default()
            };
            self.facts.push((self.position, facts));
        }
        if let Some((message, of_message)) = message {
            self.message(message, of_message, |_| {})?;
        }
        Ok(())
    }

    /// Adds a message with its turns.
    fn message(
        &mut self,
        message: ConversationMessage,
        of: &Own,
        and: impl FnOnce(&mut Facts<'static>),
    ) -> Result<(), String> {
        let mut turns = self.turns(&message, of)?.into_iter();
        let mut facts = Facts {
            turn: turns.next(),
            said: Some(Said {
                talk: ConversationRef {
                    id: self.talk,
                    session: None,
                    cwd: None,
                    branch: None,
                    agent: None,
                    parent: self.parent,
                },
                message: Box::new(message),
                counted: None,
            }),
            ..Facts::default()
        };
        and(&mut facts);
        self.facts.push((self.position, facts));
        for turn in turns {
            let facts = Facts {
                turn: Some(turn),
                ..Facts::default()
            };
            self.facts.push((self.position, facts));
        }
        Ok(())
    }

    fn turns(
        &self,
        message: &ConversationMessage,
        of: &Own,
    ) -> Result<Vec<ConversationTurn>, String> {
        let turns = of.get(own::TURNS).and_then(|turns| turns.as_array());
        let turns = turns.into_iter().flatten();
        let turns = turns.map(|of| {
            let of = of.as_object().ok_or("a turn is not an object")?;
            own::turn(of.clone(), self.talk, own::said(message))
        });
        turns.collect()
    }
}

fn text(content: &Content) -> &str {
    match content {
        Content::Text(text) => text,
        Content::Parts(_) => "",
    }
}

fn said(result: &ObservationResult) -> &str {
    result.content.as_ref().map_or("", text)
}

/// The arguments of the call that a message makes.
fn arguments(calls: Option<&[ToolCall]>, message: &Own) -> Option<String> {
    let id = message.get("tool_call_id")?.as_str()?;
    let call = calls?.iter().find(|call| call.tool_call_id == id)?;
    own::arguments(own(&call.extra), call.arguments.get())
}
