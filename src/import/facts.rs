//! The content of one line of a session file, in the same form for every tool.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::heading::Heading;
use crate::record::{
    Conversation, ConversationMessage, ConversationTurn, Role, Source, Timestamp, ToolCallDone,
    ToolCallReq,
};

/// The content of a line. Parsers derive it only from the line and their state for the file.
/// Whether the line was imported before is decided elsewhere.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Facts<'a> {
    pub(crate) turn: Option<ConversationTurn>,
    pub(crate) calls: Vec<ToolCallReq>,
    /// A `latency_ms` of 0 is set later from the start of the call.
    pub(crate) results: Vec<ToolCallDone>,
    pub(crate) said: Option<Said<'a>>,
    /// The messages of other models that contributed to the answer.
    pub(super) advice: Vec<Said<'a>>,
    /// The call that the line answers, if its result was reported before.
    pub(super) answered: Option<Uuid>,
    /// The conversation of what follows, as a log recorded it.
    pub(super) conversation: Option<Box<Conversation>>,
    /// Data about whole conversations.
    pub(super) headings: Vec<Heading>,
    /// The line is a copy from another session. It is imported from that session's file.
    pub(super) is_repeated: bool,
    /// Types that were not understood, with their counts.
    pub(super) not_understood: BTreeMap<String, u64>,
}

impl Facts<'_> {
    pub(super) fn repeated() -> Self {
        Facts {
            is_repeated: true,
            ..Facts::default()
        }
    }

    pub(super) fn not_understood(what: impl Into<String>) -> Self {
        Facts {
            not_understood: BTreeMap::from([(what.into(), 1)]),
            ..Facts::default()
        }
    }

    pub(super) fn count_not_understood(&mut self, what: impl Into<String>) {
        *self.not_understood.entry(what.into()).or_default() += 1;
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    /// All prompt tokens.
    pub(crate) input: u64,
    /// Part of `input`, like `cache_read`.
    pub(crate) cache_write: u64,
    /// Part of `cache_write`: what is kept for an hour.
    pub(crate) cache_write_1h: u64,
    pub(crate) cache_read: u64,
    pub(crate) output: u64,
    /// Part of the output tokens.
    pub(crate) reasoning: u64,
}

impl Tokens {
    /// A count of tokens as JSON holds it. 0 if it is missing or negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // The cast ends at the limits.
    pub(super) fn counted(count: Option<f64>) -> u64 {
        count.map_or(0, |count| count.round() as u64)
    }

    /// The difference of each count, at least 0.
    pub(super) fn beyond(self, others: Tokens) -> Tokens {
        self.with(others, u64::saturating_sub)
    }

    /// The maximum of each count.
    pub(super) fn or_more(self, others: Tokens) -> Tokens {
        self.with(others, u64::max)
    }

    /// The minimum of each count.
    pub(super) fn or_less(self, others: Tokens) -> Tokens {
        self.with(others, u64::min)
    }

    fn with(self, others: Tokens, of: fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            input: of(self.input, others.input),
            cache_write: of(self.cache_write, others.cache_write),
            cache_write_1h: of(self.cache_write_1h, others.cache_write_1h),
            cache_read: of(self.cache_read, others.cache_read),
            output: of(self.output, others.output),
            reasoning: of(self.reasoning, others.reasoning),
        }
    }
}

/// The message of a line. It is derived only from the line and the lines before it in its file, so
/// the final log is the same no matter where a growing file was cut.
#[derive(Debug, PartialEq)]
pub(crate) struct Said<'a> {
    pub(super) talk: ConversationRef<'a>,
    pub(crate) message: Box<ConversationMessage>,
    pub(super) counted: Option<Counted>,
}

/// The API response whose tokens a message carries, so that they are counted only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The id of the message that represents the request.
    pub(super) response: Uuid,
    /// The line, if the message contains more than tokens.
    pub(super) line: Option<Uuid>,
}

/// A conversation as a line refers to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConversationRef<'a> {
    pub(super) id: Uuid,
    /// The tool's session id, as the tool writes it.
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) cwd: Option<Cow<'a, str>>,
    /// The branch of the repository at the time of the line.
    pub(super) branch: Option<Cow<'a, str>>,
    /// The agent, if it is not the one of the file's format.
    pub(super) agent: Option<Cow<'a, str>>,
    /// The parent conversation.
    pub(super) parent: Option<Uuid>,
}

/// A text of a message, or a substitute for one.
#[derive(Debug, PartialEq)]
pub(super) enum Text<'a> {
    Words(Cow<'a, str>),
    Call {
        id: String,
        name: String,
        args: Option<String>,
    },
}

/// A message without content.
pub(super) fn blank_message(
    id: Uuid,
    talk: Uuid,
    role: Role,
    at: i64,
) -> Result<Box<ConversationMessage>, String> {
    // Created once: a new message gets an id and a timestamp, which cost more than the clone.
    static BLANK: LazyLock<ConversationMessage> =
        LazyLock::new(|| ConversationMessage::new(Uuid::nil(), Role::User, ""));
    let timestamp = Timestamp::from_ms(at).map_err(|e| e.to_string())?;
    Ok(Box::new(ConversationMessage {
        id,
        conversation_id: talk,
        timestamp,
        role,
        source: Source::of(role),
        ..BLANK.clone()
    }))
}

/// Sets the texts of a message. The first call fills the tool fields. Any other call is listed
/// among the texts with its name and id; its arguments are in its own record and are not content.
pub(super) fn fill(message: &mut ConversationMessage, texts: Vec<Text<'_>>) {
    for text in texts {
        let words = match text {
            Text::Words(words) => words,
            Text::Call { id, name, args } if message.tool_name.is_none() => {
                message.tool_call_id = Some(id);
                message.tool_name = Some(name);
                message.tool_args = args;
                continue;
            }
            Text::Call { id, name, .. } => Cow::Owned(format!("[tool_use {name} {id}]")),
        };
        if message.content.is_empty() {
            message.content = words.into_owned();
        } else if !words.is_empty() {
            message.content.push_str("\n\n");
            message.content.push_str(&words);
        }
    }
}

/// Sets the tokens of a message. A part that is 0 is omitted, and a part larger than its sum is
/// reduced to it, because not every line of a source reports all parts.
pub(super) fn count(message: &mut ConversationMessage, tokens: Tokens) {
    let of = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
    let part = |tokens, most: i64| Some(of(tokens).min(most)).filter(|tokens| *tokens > 0);
    let (tokens_in, tokens_out) = (of(tokens.input), of(tokens.output));
    message.tokens_in = Some(tokens_in);
    message.tokens_out = Some(tokens_out);
    let cache_write = part(tokens.cache_write, tokens_in);
    message.tokens_cache_write = cache_write;
    message.tokens_cache_write_1h = part(tokens.cache_write_1h, cache_write.unwrap_or(0));
    message.tokens_cache_read = part(tokens.cache_read, tokens_in - cache_write.unwrap_or(0));
    message.tokens_reasoning = part(tokens.reasoning, tokens_out);
}

/// Removes the tokens and the cost of a message, because another message carries them.
pub(super) fn uncount(message: &mut ConversationMessage) {
    message.cost_usd = None;
    message.tokens_in = None;
    message.tokens_out = None;
    message.tokens_cache_write = None;
    message.tokens_cache_write_1h = None;
    message.tokens_cache_read = None;
    message.tokens_reasoning = None;
}

/// The provider's complete usage object, as metadata of its message.
pub(super) fn metadata(usage: &str) -> String {
    ["{\"usage\":", usage, "}"].concat()
}

/// The types of a line's blocks that were not understood, with their counts.
#[derive(Debug, Default)]
pub(crate) struct Others(BTreeMap<String, u64>);

impl Others {
    pub(crate) fn count(&mut self, kind: impl Into<String>) {
        *self.0.entry(kind.into()).or_default() += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same counts with the prefix used in reports.
    pub(super) fn under(&self, prefix: &str) -> impl Iterator<Item = (String, u64)> {
        let counts = self.0.iter();
        counts.map(move |(kind, n)| (format!("{prefix}.{kind}"), *n))
    }
}

/// Maximum number of types listed as the content of a turn without texts.
const OTHERS_SHOWN_MAX: usize = 8;

/// Joins the texts of a turn into its content.
pub(super) fn joined<'a>(texts: impl Iterator<Item = &'a str> + Clone, others: &Others) -> String {
    let bytes = texts.clone().map(|text| text.len() + 2).sum();
    if bytes == 0 {
        // The turn is part of the parent chain, so its content at least lists the block types.
        let shown = others.0.keys().take(OTHERS_SHOWN_MAX);
        let shown: Vec<String> = shown.map(|kind| format!("[{kind}]")).collect();
        return shown.join("\n\n");
    }
    let mut content = String::with_capacity(bytes);
    for text in texts.filter(|text| !text.is_empty()) {
        if !content.is_empty() {
            content.push_str("\n\n");
        }
        content.push_str(text);
    }
    content
}
