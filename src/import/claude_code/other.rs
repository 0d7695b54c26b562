//! Lines that are no messages: the state of the client, prompts that waited, and lines that state
//! only the tokens of a response.

use uuid::Uuid;

use super::content::Content;
use super::shape::{Attachment, Line, Message, Spoken, UsageObject};
use super::{Session, tokens};
use crate::import::facts::{
    ConversationRef, Counted, Facts, Said, Tokens, blank_message, count, metadata,
};
use crate::import::ids::{foreign_id, named};
use crate::import::json::{self, Raw};
use crate::record::Role;

/// Lines that hold the state of the client, and nothing that was said or done.
const STATES: &[&str] = &[
    // States of files, to restore them, and who wrote which of their lines.
    "file-history-snapshot",
    "file-history-delta",
    "attribution-snapshot",
    // Links between sessions and their files. Each session has its lines in its own file.
    "continued-in",
    "derived-from",
    "relocated",
    "resume-head-vouch",
    "fork-context-ref",
    "frame-link",
    "bridge-session",
    "observer-ref",
    "session-owner",
    // What is shown of a session in lists: the last prompt again, names, colours, links, tags.
    "last-prompt",
    "agent-name",
    "agent-color",
    "agent-setting",
    "tag",
    "pr-link",
    // Settings and modes.
    "mode",
    "permission-mode",
    "memory-mode",
    "isolation-latch",
    "atis-latch",
    "dev-mods",
    "worktree-state",
    "history-suppression",
    "ended-by-model",
    // What a request contained, which is the messages again, and sums of what the responses state.
    "api-request",
    "api-request-shape",
    "api-request-blob",
    "api-request-resumed",
    "content-replacement",
    "data-flow-records",
    "data-flow-incomplete",
    "tools-used",
    "cost-state",
    "artifact-comment-monitor",
    "artifact-autoreact-ledger",
    // Prompts that wait. One that reaches the model comes as a message or as an attachment.
    "queue-operation",
];

/// The client's own messages in place of a prompt.
const NOTICE: &str = "<task-notification>";

/// Whether lines of this type are the state of the client.
pub(super) fn is_state(kind: &str) -> bool {
    STATES.contains(&kind)
}

/// A prompt that waited while the model worked, and was then given to it as an attachment.
pub(super) struct Queued<'a>(Attachment<'a>);

impl<'a> Queued<'a> {
    pub(super) fn of(kind: &str, line: &Line<'a>) -> Result<Option<Queued<'a>>, String> {
        if kind != "attachment" {
            return Ok(None);
        }
        let Some(attachment) = json::member::<Attachment<'_>>(line.attachment)? else {
            return Ok(None);
        };
        let is_queued = json::text(attachment.kind)?.as_deref() == Some("queued_command");
        Ok(is_queued.then_some(Queued(attachment)))
    }

    pub(super) fn read(&self, content: &mut Content<'a>) -> Result<bool, String> {
        content.parts("user", self.0.prompt)
    }

    /// Whether the client wrote it, and not the user.
    pub(super) fn is_notice(&self) -> bool {
        let text = |raw| json::text(raw).ok().flatten();
        json::is_true(self.0.is_meta)
            || text(self.0.mode).as_deref() == Some("task-notification")
            || text(self.0.prompt).is_some_and(|text| text.trim_start().starts_with(NOTICE))
    }
}

/// Whether this is the message of a line that states only the tokens of a response.
pub(super) fn is_usage(message: Raw<'_>) -> bool {
    let is = || -> Option<bool> {
        let message: Message<'_> = json::member(message).ok()??;
        let usage: UsageObject<'_> = json::member(message.usage).ok()??;
        let is_said = json::text(message.role).ok()?.as_deref() == Some("assistant");
        Some(is_said && message.id.get().is_some() && usage.input.get().is_some())
    };
    is().unwrap_or(false)
}

/// A line without a type and an id, as other programs write it: the tokens of a response.
pub(super) fn usage<'a>(
    session: &mut Session,
    line: &Line<'a>,
    spoken: &Spoken<'a>,
) -> Result<Option<Facts<'a>>, String> {
    let from = &spoken.message;
    let (Some(name), Some(message), Some(at)) = (
        json::text(line.session_id)?,
        json::text(from.id)?,
        json::timestamp(line.timestamp)?,
    ) else {
        return Ok(None);
    };
    let is_said = json::text(from.role)?.as_deref() == Some("assistant");
    let (true, Some(usage), Some(raw)) =
        (is_said, spoken.usage().and_then(tokens), from.usage.get())
    else {
        return Ok(None);
    };
    let request = json::text(line.request_id)?;
    let response = session.response(&message, request.as_deref(), at);
    let (growth, is_first) = session.growth(response, usage);
    let mut facts = Facts::default();
    if !is_first && growth == Tokens::default() {
        return Ok(Some(facts));
    }
    let talk: Uuid = foreign_id("claude-code:session", &name);
    let mut message = blank_message(response, talk, Role::Assistant, at)?;
    if is_first {
        message.cost_usd = cost(line);
    } else {
        message.id = named("claude-code:growth", &format!("{response}:{at}"));
        message.part_of = Some(response);
    }
    message.model_used = json::owned_text(from.model)?;
    message.inference_metadata = Some(metadata(raw));
    count(&mut message, growth);
    facts.said = Some(Said {
        talk: ConversationRef {
            id: talk,
            session: Some(name),
            cwd: json::text(line.cwd)?,
            branch: json::text(line.git_branch)?,
            agent: None,
            parent: None,
        },
        message,
        counted: Some(Counted {
            response,
            line: None,
        }),
    });
    Ok(Some(facts))
}

/// What a response cost, as early versions of the client wrote.
pub(super) fn cost(line: &Line<'_>) -> Option<f64> {
    json::float(line.cost).filter(|cost| *cost > 0.0)
}
