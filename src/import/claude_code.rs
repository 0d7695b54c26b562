//! Session files of Claude Code.
//!
//! A `user`, `assistant` or `system` line with its base fields (`uuid`, `sessionId`, `timestamp`)
//! is one turn, so that the chain of parents stays whole. Its blocks may besides be tool calls
//! and results. Any other line is not understood.

mod content;
mod shape;

use std::borrow::Cow;

use uuid::Uuid;

use super::facts::{Facts, Piece, Said, Talk, Tokens, Usage, blank_message, metadata};
use super::ids::foreign_id;
use super::json::{self, Raw};
use crate::record::{ConversationTurn, Role, Source, TurnKind, Validity};
use content::Content;
use shape::{Line, Message, Spoken, UsageObject, Whole};

/// The model named in what the client itself wrote in the model's place.
const SYNTHETIC: &str = "<synthetic>";
/// The class of the errors that stand where an answer was to come.
const API_ERROR: &str = "api_error";

/// What is remembered from line to line.
#[derive(Default)]
pub(super) struct Session {
    /// The id of a response, which mostly is the next line's too, and what it is here.
    response: (String, Uuid),
}

impl Session {
    fn response(&mut self, id: &str) -> Uuid {
        if self.response.0 != id || id.is_empty() {
            self.response = (id.to_owned(), foreign_id("claude-code:message", id));
        }
        self.response.1
    }
}

/// What a line says; an `Err` is the reason for which it is broken.
pub(super) fn read<'a>(session: &mut Session, text: &'a str) -> Result<Facts<'a>, String> {
    let Some(mut whole) = Whole::read(text)? else {
        return Ok(Facts::not_understood("(not an object)"));
    };
    let line = &whole.line;
    let kind = json::type_name(line.kind)?;
    let (Some(uuid), Some(name)) = (json::text(line.uuid)?, json::text(line.session_id)?) else {
        return Ok(Facts::not_understood(kind));
    };
    if !matches!(&*kind, "user" | "assistant" | "system") {
        return Ok(Facts::not_understood(kind));
    }
    let Some(at) = json::timestamp(line.timestamp)? else {
        return Ok(Facts::not_understood(kind));
    };
    let id = foreign_id("claude-code:line", &uuid);
    let mut content = Content::new(id, at);
    let spoken = whole.spoken()?;
    let line = &whole.line;
    let understood = match (&spoken, &*kind) {
        (_, "system") => content.system(line)?,
        (Some(spoken), role) => content.message(role, spoken)?,
        (None, _) => false,
    };
    if !understood {
        return Ok(Facts::not_understood(kind));
    }
    content.outcomes(line.tool_use_result);
    let mut message_id = id;
    let from_model = spoken.as_ref().filter(|_| kind == "assistant");
    if let Some(spoken) = from_model {
        if let Some(id) = json::text(spoken.message.id)? {
            message_id = session.response(&id);
        }
        usage(&mut content.facts, message_id, spoken)?;
    }
    let from_model = from_model.map(|spoken| &spoken.message);
    let harness = json::is_true(line.is_meta) || json::is_true(line.is_compact_summary);
    let parent = json::text(line.parent_uuid)?;
    let thread = foreign_id("claude-code:session", &name);
    let turn = ConversationTurn {
        id,
        parent_id: parent.map(|parent| foreign_id("claude-code:line", &parent)),
        message_id,
        kind: content.turn_kind(&kind, harness),
        content: content.turn_content(),
        created_at: Validity::at(at),
        thread_id: Some(thread),
    };
    let talk = talk(line, thread, name)?;
    let said = said(line, from_model, &turn, talk, &mut content)?;
    content.facts.said = Some(said);
    content.facts.turn = Some(turn);
    let others = content.others.under(&kind);
    content.facts.not_understood.extend(others);
    Ok(content.facts)
}

/// The conversation of a line: its session's, or the one that a sub-agent has of its own.
fn talk<'a>(line: &Line<'a>, thread: Uuid, session: Cow<'a, str>) -> Result<Talk<'a>, String> {
    let id = if json::is_true(line.is_sidechain) {
        let agent = json::text(line.agent_id)?;
        let agent = agent.as_deref().unwrap_or("sidechain");
        foreign_id("claude-code:agent", &format!("{session}:{agent}"))
    } else {
        thread
    };
    Ok(Talk {
        id,
        session: Some(session),
        cwd: json::text(line.cwd)?,
    })
}

/// What a line adds to the messages, `from_model` if it is a part of a response.
fn said<'a>(
    line: &Line<'a>,
    from_model: Option<&Message<'a>>,
    turn: &ConversationTurn,
    talk: Talk<'a>,
    content: &mut Content<'a>,
) -> Result<Said<'a>, String> {
    let role = match (from_model, turn.kind) {
        (Some(_), _) => Role::Assistant,
        (None, TurnKind::User) => Role::User,
        (None, TurnKind::Tool) => Role::Tool,
        (None, _) => Role::System,
    };
    let at = turn.created_at.at;
    let mut message = blank_message(turn.id, talk.id, role, at)?;
    message.tool_result = content.tool_result();
    let mut piece = Piece::Whole;
    let mut tokens = None;
    if let Some(from) = from_model {
        piece = Piece::Of(turn.message_id);
        message.model_used = json::owned_text(from.model)?;
        message.inference_metadata = from.usage.get().map(metadata);
        if let Some(Usage::Of { tokens: known, .. }) = content.facts.usage {
            tokens = Some(known);
        }
        if message
            .model_used
            .take_if(|name| name == SYNTHETIC)
            .is_some()
        {
            message.source = Source::System;
            if tokens.is_none() {
                message.inference_metadata = None;
            }
        }
        if json::is_true(line.is_api_error_message) {
            message.error = Some(turn.content.clone());
            message.error_type = Some(API_ERROR.to_owned());
        }
    }
    Ok(Said {
        talk,
        piece,
        message,
        texts: content.message_texts(),
        tokens,
    })
}

/// Here, and only here, the usage that the provider reported is known with its response.
fn usage(facts: &mut Facts<'_>, response: Uuid, spoken: &Spoken<'_>) -> Result<(), String> {
    let message = &spoken.message;
    if message.usage.get().is_none() {
        return Ok(());
    }
    let Some(tokens) = spoken.usage().and_then(tokens) else {
        facts.count_not_understood("assistant.usage");
        return Ok(());
    };
    // No API has answered where the client spoke in the model's place.
    let synthetic = json::text(message.model)?.is_some_and(|model| model == SYNTHETIC);
    if !(synthetic && tokens == Tokens::default()) {
        facts.usage = Some(Usage::Of { response, tokens });
    }
    Ok(())
}

fn tokens(usage: UsageObject<'_>) -> Option<Tokens> {
    let of = |count: Raw<'_>| match count.get() {
        Some(_) => json::number(count),
        None => Some(0),
    };
    Some(Tokens {
        input: of(usage.input)?
            .saturating_add(of(usage.cache_creation)?)
            .saturating_add(of(usage.cache_read)?),
        output: of(usage.output)?,
    })
}
