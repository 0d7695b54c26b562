//! The objects in a session file. Their members may have any type.
//!
//! The fast reader parses a line in one pass, including the blocks of its message. If it finds
//! anything unusual, the objects are parsed one by one.

use crate::import::json::{self, Cursor, Shape, shapes};

shapes! {
    Line {
        parent_uuid: "parentUuid",
        is_sidechain: "isSidechain",
        cwd: "cwd",
        git_branch: "gitBranch",
        session_id: "sessionId",
        agent_id: "agentId",
        kind: "type",
        message: "message",
        is_api_error_message: "isApiErrorMessage",
        is_meta: "isMeta",
        is_compact_summary: "isCompactSummary",
        subtype: "subtype",
        content: "content",
        uuid: "uuid",
        timestamp: "timestamp",
        tool_use_result: "toolUseResult",
        request_id: "requestId",
        forked_from: "forkedFrom",
        attachment: "attachment",
        cost: "costUSD",
    }

    /// What the client adds to the conversation beside the messages.
    Attachment {
        kind: "type",
        prompt: "prompt",
        mode: "commandMode",
        is_meta: "isMeta",
    }

    Fork {
        session_id: "sessionId",
        message_uuid: "messageUuid",
    }

    Message {
        role: "role",
        model: "model",
        id: "id",
        content: "content",
        usage: "usage",
    }

    Block {
        tool_use_id: "tool_use_id",
        kind: "type",
        text: "text",
        thinking: "thinking",
        id: "id",
        name: "name",
        input: "input",
        content: "content",
        is_error: "is_error",
    }

    UsageObject {
        input: "input_tokens",
        cache_creation: "cache_creation_input_tokens",
        cache_creation_parts: "cache_creation",
        cache_read: "cache_read_input_tokens",
        output: "output_tokens",
        output_details: "output_tokens_details",
        iterations: "iterations",
    }

    /// A part of a request's usage.
    Iteration {
        kind: "type",
        model: "model",
    }

    /// A line with a title.
    Titled {
        session_id: "sessionId",
        leaf_uuid: "leafUuid",
        summary: "summary",
        ai_title: "aiTitle",
        custom_title: "customTitle",
    }

    /// The input of a call that starts an agent.
    Task {
        description: "description",
        prompt: "prompt",
    }

    /// The client's account of the result of such a call.
    Account {
        agent_id: "agentId",
    }

    /// The metadata file next to an agent's file.
    Meta {
        call: "toolUseId",
        description: "description",
    }

    CacheCreation {
        minutes: "ephemeral_5m_input_tokens",
        hour: "ephemeral_1h_input_tokens",
    }

    OutputDetails {
        thinking: "thinking_tokens",
    }
}

/// Maximum number of blocks that the fast reader parses, so that memory use stays proportional to
/// the line. Further blocks are parsed one by one.
const BLOCKS_MAX: usize = 1000;

/// A line with its message and blocks, if they were parsed with it.
#[derive(Default)]
pub(super) struct Whole<'a> {
    pub(super) line: Line<'a>,
    spoken: Option<Spoken<'a>>,
}

/// A message with its blocks and its usage, if they were parsed with it.
#[derive(Default)]
pub(super) struct Spoken<'a> {
    pub(super) message: Message<'a>,
    usage: Option<UsageObject<'a>>,
    pub(super) blocks: Option<Vec<Block<'a>>>,
}

impl<'a> Whole<'a> {
    /// Parses a line; `None` if the text is JSON other than an object.
    pub(super) fn read(text: &'a str) -> Result<Option<Whole<'a>>, String> {
        if let Some(whole) = json::quick(text) {
            return Ok(Some(whole));
        }
        let line = json::parsed(text)?;
        Ok(line.map(|line| Whole { line, spoken: None }))
    }

    /// The line's message; `None` if it is missing or not an object.
    pub(super) fn spoken(&mut self) -> Result<Option<Spoken<'a>>, String> {
        if let Some(spoken) = self.spoken.take() {
            return Ok(Some(spoken));
        }
        let message = json::member(self.line.message)?;
        Ok(message.map(|message| Spoken {
            message,
            ..Spoken::default()
        }))
    }
}

impl<'a> Spoken<'a> {
    /// The usage of the message; `None` if it is missing or malformed.
    pub(super) fn usage(&self) -> Option<UsageObject<'a>> {
        self.usage
            .or_else(|| json::member(self.message.usage).ok().flatten())
    }
}

impl<'a> Shape<'a> for Whole<'a> {
    const NAMES: &'static [&'static str] = Line::NAMES;

    fn take(&mut self, name: usize, cursor: &mut Cursor<'a>) -> Option<()> {
        if Self::NAMES[name] == "message" {
            self.spoken = cursor.attempt(Cursor::object);
            if self.spoken.is_some() {
                return Some(());
            }
        }
        self.line.take(name, cursor)
    }
}

impl<'a> Shape<'a> for Spoken<'a> {
    const NAMES: &'static [&'static str] = Message::NAMES;

    fn take(&mut self, name: usize, cursor: &mut Cursor<'a>) -> Option<()> {
        if Self::NAMES[name] == "content" {
            self.blocks = cursor.attempt(blocks);
            if self.blocks.is_some() {
                return Some(());
            }
        }
        if Self::NAMES[name] == "usage"
            && let Some((usage, raw)) = cursor.attempt(Cursor::object_and_raw)
        {
            self.usage = Some(usage);
            self.message.usage = raw;
            return Some(());
        }
        self.message.take(name, cursor)
    }
}

fn blocks<'a>(cursor: &mut Cursor<'a>) -> Option<Vec<Block<'a>>> {
    let mut blocks = Vec::new();
    cursor.items(|cursor| {
        blocks.push(cursor.object()?);
        (blocks.len() <= BLOCKS_MAX).then_some(())
    })?;
    Some(blocks)
}
