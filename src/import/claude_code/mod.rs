//! Session files of Claude Code.
//!
//! A `user`, `assistant` or `system` line with its base fields (`uuid`, `sessionId`, `timestamp`)
//! is one turn, so that the parent chain is complete. Its blocks may also be tool calls and
//! results. So is an attachment with a prompt. Any other line is skipped in the parent chain, and
//! counted as not understood unless it is known to be the state of the client.

mod agent;
mod agents;
mod content;
mod other;
mod shape;

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::facts::{
    ConversationRef, Counted, Facts, Said, Tokens, blank_message, count, fill, metadata,
};
use super::heading::{Heading, Of, Origin};
use super::ids::{IdMap, IdSet, foreign_id, named};
use super::json::{self, Raw};
use crate::collections::of_prompt;
use crate::record::{ConversationTurn, Role, Source, TurnKind, Validity};
pub(super) use agent::ClaudeCode;
use agents::Agents;
use content::Content;
use other::Queued;
use shape::Line;
use shape::{CacheCreation, Fork, Iteration, OutputDetails, Spoken, Titled, UsageObject, Whole};

/// The model name in messages that the client wrote itself.
const SYNTHETIC: &str = "<synthetic>";
/// The error class of a message that reports a failed API request.
const API_ERROR: &str = "api_error";

/// Minimum number of bytes of a message id that was issued by the provider.
const RANDOM_BYTES_MIN: usize = 20;

/// State that is kept from line to line.
#[derive(Default, Serialize, Deserialize)]
struct Session {
    /// Cache for the latest response: its name in the file and its id.
    response: (String, Uuid),
    /// Start times of this file's responses that name no request.
    begun: HashMap<String, i64>,
    /// This file's responses with the tokens that their lines have reported so far.
    told: IdMap<Tokens>,
    /// For lines that are not turns, such as attachments, and for copied lines in a fork: the turn
    /// that replaces them in the parent chain.
    stand_ins: IdMap<Option<Uuid>>,
    agents: Agents,
    /// The conversations whose first prompt was read.
    prompted: IdSet,
}

impl Session {
    /// The initial state for the file at this path.
    fn of_file(path: &Path) -> Session {
        Session {
            agents: Agents::of_file(path),
            ..Session::default()
        }
    }

    /// The turn of the parent line, or the turn that replaces it.
    fn parent(&self, line: Option<Cow<'_, str>>) -> Option<Uuid> {
        let line = foreign_id("claude-code:line", &line?);
        self.stand_ins.get(&line).copied().unwrap_or(Some(line))
    }

    /// Replaces a line that is not a turn by its parent's turn, under both ids of the line.
    fn no_turn(&mut self, line: [Uuid; 2], parent: Option<Uuid>) {
        self.stand_ins.extend(line.map(|line| (line, parent)));
    }

    /// Adds what a line says about its conversation: the first prompt of a session, or the task for
    /// which a sub-agent was started.
    fn head(&mut self, talk: &ConversationRef<'_>, turn: &ConversationTurn, facts: &mut Facts<'_>) {
        if talk.parent.is_some() {
            facts
                .headings
                .extend(self.agents.first_line(talk.id, &turn.content));
        }
        if turn.kind == TurnKind::User
            && !self.prompted.contains(&talk.id)
            && let Some(prompt) = of_prompt(&turn.content)
        {
            self.prompted.insert(talk.id);
            let of = Of::ConversationRef(talk.id);
            let heading = Heading::titled(of, Origin::Prompt, &prompt);
            facts.headings.extend(heading);
        }
    }

    /// The id of the response that a line is part of. Message ids of the provider are unique, and
    /// sub-agents may repeat such messages under other request ids. Gateways may reuse an id for
    /// another request or, if they name no requests, in another session. Copies of a session keep
    /// their timestamps, so the time of the first line then distinguishes responses.
    fn response(&mut self, message: &str, request: Option<&str>, at: i64) -> Uuid {
        let name = match request {
            _ if is_of_provider(message) => message.to_owned(),
            Some(request) => [message, ":", request].concat(),
            None => {
                let begun = self.begun.entry(message.to_owned()).or_insert(at);
                format!("{message}@{begun}")
            }
        };
        if self.response.0 != name || name.is_empty() {
            let id = named("claude-code:message", &name);
            self.response = (name, id);
        }
        self.response.1
    }

    /// The tokens that a line adds to its response, and whether it is the first line of the
    /// response. Each line reports the total so far.
    fn growth(&mut self, response: Uuid, tokens: Tokens) -> (Tokens, bool) {
        match self.told.entry(response) {
            Entry::Vacant(entry) => {
                entry.insert(tokens);
                (tokens, true)
            }
            Entry::Occupied(mut entry) => {
                let before = *entry.get();
                entry.insert(tokens.or_more(before));
                (tokens.beyond(before), false)
            }
        }
    }
}

/// Parses a line. An `Err` is the reason why the line is broken.
fn read<'a>(session: &mut Session, text: &'a str) -> Result<Facts<'a>, String> {
    let Some(mut whole) = Whole::read(text)? else {
        return Ok(Facts::not_understood("(not an object)"));
    };
    let line = &whole.line;
    let kind = json::type_name(line.kind)?;
    let (Some(mut uuid), Some(mut name)) = (json::text(line.uuid)?, json::text(line.session_id)?)
    else {
        return without_id(session, &kind, whole, text);
    };
    let own_id = foreign_id("claude-code:line", &uuid);
    // A fork repeats lines of its session and names that session. These lines belong to that
    // session.
    if let Some(fork) = json::member::<Fork<'_>>(line.forked_from)? {
        name = json::text(fork.session_id)?.unwrap_or(name);
        uuid = json::text(fork.message_uuid)?.unwrap_or(uuid);
    }
    let id = foreign_id("claude-code:line", &uuid);
    let parent = session.parent(json::text(line.parent_uuid)?);
    let at = json::timestamp(line.timestamp)?;
    let queued = Queued::of(&kind, line)?;
    let is_message = matches!(&*kind, "user" | "assistant" | "system") || queued.is_some();
    let Some(at) = at.filter(|_| is_message) else {
        session.no_turn([own_id, id], parent);
        return Ok(no_message(&kind));
    };
    if own_id != id {
        session.stand_ins.insert(own_id, Some(id));
    }
    let mut content = Content::new(id, at);
    let spoken = whole.spoken()?;
    let line = &whole.line;
    let understood = match (&queued, &spoken, &*kind) {
        (Some(queued), _, _) => queued.read(&mut content)?,
        (_, _, "system") => content.system(line)?,
        (_, Some(spoken), role) => content.message(role, spoken)?,
        (_, None, _) => false,
    };
    if !understood {
        session.no_turn([own_id, id], parent);
        return Ok(Facts::not_understood(kind));
    }
    content.outcomes(line.tool_use_result);
    let from_model = spoken.as_ref().filter(|_| kind == "assistant");
    let message_id = message_id(session, line, from_model, (id, at))?;
    let is_notice = queued.is_some_and(|queued| queued.is_notice());
    let marks = [line.is_meta, line.is_compact_summary].map(json::is_true);
    let harness = is_notice || marks.contains(&true);
    let thread = foreign_id("claude-code:session", &name);
    let turn = ConversationTurn {
        id,
        parent_id: parent,
        message_id,
        kind: content.turn_kind(&kind, harness),
        content: content.turn_content(),
        created_at: Validity::at(at),
        thread_id: Some(thread),
    };
    session.agents.calls(&content.facts.calls);
    let results = &content.facts.results;
    let heading = session.agents.result(&name, results, line.tool_use_result);
    content.facts.headings.extend(heading);
    let agent = session.agents.talk(line, id, parent, &name)?;
    let talk = ConversationRef {
        id: agent.unwrap_or(thread),
        session: Some(name),
        cwd: json::text(line.cwd)?,
        branch: json::text(line.git_branch)?,
        agent: None,
        parent: agent.map(|_| thread),
    };
    session.head(&talk, &turn, &mut content.facts);
    let said = said(session, line, from_model, &turn, talk, &mut content)?;
    content.facts.said = Some(said);
    content.facts.turn = Some(turn);
    let others = content.others.under(&kind);
    content.facts.not_understood.extend(others);
    Ok(content.facts)
}

/// A line without the ids of a message: a title, or the tokens of a response.
fn without_id<'a>(
    session: &mut Session,
    kind: &str,
    mut whole: Whole<'a>,
    text: &'a str,
) -> Result<Facts<'a>, String> {
    if let Some(heading) = title(kind, text)? {
        return Ok(Facts {
            headings: vec![heading],
            ..Facts::default()
        });
    }
    if whole.line.kind.get().is_none()
        && let Some(spoken) = whole.spoken()?
        && let Some(facts) = other::usage(session, &whole.line, &spoken)?
    {
        return Ok(facts);
    }
    Ok(no_message(kind))
}

/// A line that is no message: nothing, if it is the state of the client.
fn no_message(kind: &str) -> Facts<'static> {
    if other::is_state(kind) {
        return Facts::default();
    }
    Facts::not_understood(kind)
}

/// The id of the response that a line is part of, or the line's own id if it names none.
fn message_id(
    session: &mut Session,
    line: &Line<'_>,
    from_model: Option<&Spoken<'_>>,
    (id, at): (Uuid, i64),
) -> Result<Uuid, String> {
    let Some(message) = from_model.map(|spoken| json::text(spoken.message.id)) else {
        return Ok(id);
    };
    let Some(message) = message? else {
        return Ok(id);
    };
    let request = json::text(line.request_id)?;
    Ok(session.response(&message, request.as_deref(), at))
}

/// The title that a line gives to a session, if it is a title line.
fn title(kind: &str, text: &str) -> Result<Option<Heading>, String> {
    let origin = match kind {
        "summary" => Origin::Summary,
        "ai-title" => Origin::Model,
        "custom-title" => Origin::User,
        _ => return Ok(None),
    };
    let line = json::object::<Titled<'_>>(text)?.unwrap_or_default();
    let words = json::text(line.summary.or(line.ai_title).or(line.custom_title))?;
    let of = match (json::text(line.session_id)?, json::text(line.leaf_uuid)?) {
        (Some(session), _) => Of::ConversationRef(foreign_id("claude-code:session", &session)),
        (None, Some(leaf)) => Of::Turn(foreign_id("claude-code:line", &leaf)),
        (None, None) => return Ok(None),
    };
    Ok(words.and_then(|words| Heading::titled(of, origin, &words)))
}

/// The message of a line. `from_model`: the line is part of a response.
fn said<'a>(
    session: &mut Session,
    line: &Line<'a>,
    from_model: Option<&Spoken<'a>>,
    turn: &ConversationTurn,
    talk: ConversationRef<'a>,
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
    content.results_into(&mut message);
    let mut counted = None;
    if let Some(spoken) = from_model {
        let from = &spoken.message;
        message.reasoning = content.reasoning();
        message.model_used = json::owned_text(from.model)?;
        message.inference_metadata = from.usage.get().map(metadata);
        let tokens = spoken.usage().and_then(tokens);
        if tokens.is_none() && from.usage.get().is_some() {
            content.facts.count_not_understood("assistant.usage");
        }
        let tokens = tokens.unwrap_or_default();
        let failed = json::is_true(line.is_api_error_message);
        if failed {
            message.error = Some(turn.content.clone());
            message.error_type = Some(API_ERROR.to_owned());
        }
        let synthetic = message.model_used.take_if(|name| name == SYNTHETIC);
        if synthetic.is_some() {
            message.source = Source::System;
        }
        if synthetic.is_some() && tokens == Tokens::default() {
            message.inference_metadata = None;
            // The client wrote this in place of the model, without an API request.
            if !failed {
                message.role = Role::System;
            }
        } else {
            let response = turn.message_id;
            let (growth, is_first) = session.growth(response, tokens);
            if is_first {
                message.id = response;
                message.cost_usd = other::cost(line);
            } else {
                message.part_of = Some(response);
            }
            if is_first && from.usage.get().is_some() || growth != Tokens::default() {
                count(&mut message, growth);
            }
            counted = Some(Counted {
                response,
                line: Some(turn.id),
            });
            if let Some(usage) = spoken.usage() {
                content.facts.advice = advice(session, response, usage, &talk, at)?;
            }
        }
    }
    fill(&mut message, content.message_texts());
    Ok(Said {
        talk,
        message,
        counted,
    })
}

/// The tokens of advisor models. The usage of the answering model does not include them.
fn advice<'a>(
    session: &mut Session,
    response: Uuid,
    usage: UsageObject<'a>,
    talk: &ConversationRef<'a>,
    at: i64,
) -> Result<Vec<Said<'a>>, String> {
    let mut advice = Vec::new();
    let iterations = json::array(usage.iterations).ok().flatten();
    for (n, raw) in iterations.unwrap_or_default().into_iter().enumerate() {
        let iteration: Iteration<'_> = json::object(raw).ok().flatten().unwrap_or_default();
        let kind = json::text(iteration.kind).ok().flatten();
        let tokens = json::object(raw).ok().flatten().and_then(tokens);
        let tokens = tokens.filter(|tokens| *tokens != Tokens::default());
        let (Some("advisor_message"), Some(tokens)) = (kind.as_deref(), tokens) else {
            continue;
        };
        let id = named("claude-code:advice", &format!("{response}:{n}"));
        let (_, is_first) = session.growth(id, tokens);
        if !is_first {
            continue;
        }
        let mut message = blank_message(id, talk.id, Role::Assistant, at)?;
        message.part_of = Some(response);
        message.model_used = json::owned_text(iteration.model)?;
        message.inference_metadata = Some(metadata(raw));
        count(&mut message, tokens);
        advice.push(Said {
            talk: talk.clone(),
            message,
            counted: Some(Counted {
                response: id,
                line: None,
            }),
        });
    }
    Ok(advice)
}

/// Whether a message id has Anthropic's format. Such ids are never reused.
fn is_of_provider(message: &str) -> bool {
    let random = message.strip_prefix("msg_");
    random.is_some_and(|random| random.len() >= RANDOM_BYTES_MIN)
}

/// The tokens written to the cache for five minutes and for an hour.
fn cache_writes(parts: Raw<'_>) -> Option<(u64, u64)> {
    let parts: CacheCreation<'_> = json::member(parts).ok()??;
    let of = |count| json::number(count).unwrap_or(0);
    Some((of(parts.minutes), of(parts.hour)))
}

fn tokens(usage: UsageObject<'_>) -> Option<Tokens> {
    let of = |count: Raw<'_>| match count.get() {
        Some(_) => json::number(count),
        None => Some(0),
    };
    let output = of(usage.output)?;
    let details = json::member::<OutputDetails<'_>>(usage.output_details);
    let reasoning = details
        .ok()
        .flatten()
        .and_then(|it| json::number(it.thinking));
    let (minutes, hour) = cache_writes(usage.cache_creation_parts).unwrap_or_default();
    let cache_write = match usage.cache_creation.get() {
        Some(_) => json::number(usage.cache_creation)?,
        None => minutes.saturating_add(hour),
    };
    let cache_read = of(usage.cache_read)?;
    let cached = cache_write.saturating_add(cache_read);
    Some(Tokens {
        input: of(usage.input)?.saturating_add(cached),
        cache_write,
        cache_write_1h: hour.min(cache_write),
        cache_read,
        output,
        reasoning: reasoning.unwrap_or(0).min(output),
    })
}
