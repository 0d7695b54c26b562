//! Session files of Claude Code.
//!
//! A `user`, `assistant` or `system` line with its base fields (`uuid`, `sessionId`, `timestamp`)
//! is one turn, so that the chain of parents stays whole. Its blocks may besides be tool calls
//! and results. Any other line is not understood.

mod content;
mod shape;

use uuid::Uuid;

use super::facts::{Facts, Piece, Said, Talk, Tokens, Usage, blank_message, metadata};
use super::ids::foreign_id;
use super::json;
use crate::record::{ConversationTurn, Role, Source, TurnKind, Validity};
use content::Content;
use shape::{Line, Message, UsageObject};

/// The model named in what the client itself wrote in the model's place.
const SYNTHETIC: &str = "<synthetic>";
/// The class of the errors that stand where an answer was to come.
const API_ERROR: &str = "api_error";

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
    let from_model = message.as_ref().filter(|_| kind == "assistant");
    if let Some(message) = from_model {
        if let Some(id) = json::text(message.id)? {
            message_id = foreign_id("claude-code:message", &id);
        }
        usage(&mut content.facts, message_id, message)?;
    }
    let harness = json::is_true(line.is_meta) || json::is_true(line.is_compact_summary);
    let parent = json::text(line.parent_uuid)?;
    let turn = ConversationTurn {
        id,
        parent_id: parent.map(|parent| foreign_id("claude-code:line", &parent)),
        message_id,
        kind: content.turn_kind(&kind, harness),
        content: content.turn_content(),
        created_at: Validity::at(at),
        thread_id: Some(foreign_id("claude-code:session", &session)),
    };
    let talk = talk(&line, session)?;
    content.facts.said = Some(said(&line, from_model, &turn, talk, &content)?);
    content.facts.turn = Some(turn);
    let others = content.others.under(&kind);
    content.facts.not_understood.extend(others);
    Ok(content.facts)
}

/// The conversation of a line: its session's, or the one that a sub-agent has of its own.
fn talk(line: &Line<'_>, session: String) -> Result<Talk, String> {
    let id = if json::is_true(line.is_sidechain) {
        let agent = json::text(line.agent_id)?;
        let agent = agent.as_deref().unwrap_or("sidechain");
        foreign_id("claude-code:agent", &format!("{session}:{agent}"))
    } else {
        foreign_id("claude-code:session", &session)
    };
    Ok(Talk {
        id,
        session: Some(session),
        cwd: json::text(line.cwd)?,
    })
}

/// What a line adds to the messages, `from_model` if it is a part of a response.
fn said(
    line: &Line<'_>,
    from_model: Option<&Message<'_>>,
    turn: &ConversationTurn,
    talk: Talk,
    content: &Content,
) -> Result<Said, String> {
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
        message.model_used = json::text(from.model)?;
        message.inference_metadata = from.usage.map(metadata);
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
