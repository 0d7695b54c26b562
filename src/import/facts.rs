//! What one line of a session file says, whatever the tool that wrote it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use uuid::Uuid;

use super::heading::Heading;
use crate::record::{
    ConversationMessage, ConversationTurn, Role, Source, Timestamp, ToolCallDone, ToolCallReq,
};

/// What a line says. The parsers make it of the line alone and what they remember of the file;
/// whether it was said before is not theirs to know.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts<'a> {
    pub(super) turn: Option<ConversationTurn>,
    pub(super) calls: Vec<ToolCallReq>,
    /// A `latency_ms` of 0 is still to be told from the call.
    pub(super) results: Vec<ToolCallDone>,
    pub(super) said: Option<Said<'a>>,
    /// What other models took part in the answer that the line is of.
    pub(super) advice: Vec<Said<'a>>,
    /// The call that the line answers, where its result was told before.
    pub(super) answered: Option<Uuid>,
    /// What the line says of whole conversations.
    pub(super) headings: Vec<Heading>,
    /// Whether it is a line of another session that stands here once more: it is taken from there.
    pub(super) is_repeated: bool,
    /// What the line holds besides: types, and how often.
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

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tokens {
    /// All of the prompt.
    pub(super) input: u64,
    /// A part of the prompt, as is the next one.
    pub(super) cache_write: u64,
    pub(super) cache_read: u64,
    pub(super) output: u64,
    /// A part of the output.
    pub(super) reasoning: u64,
}

impl Tokens {
    /// What these are more than others; never less than nothing.
    pub(super) fn beyond(self, others: Tokens) -> Tokens {
        self.with(others, u64::saturating_sub)
    }

    /// The greater of each count.
    pub(super) fn or_more(self, others: Tokens) -> Tokens {
        self.with(others, u64::max)
    }

    /// The lesser of each count.
    pub(super) fn or_less(self, others: Tokens) -> Tokens {
        self.with(others, u64::min)
    }

    fn with(self, others: Tokens, of: fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            input: of(self.input, others.input),
            cache_write: of(self.cache_write, others.cache_write),
            cache_read: of(self.cache_read, others.cache_read),
            output: of(self.output, others.output),
            reasoning: of(self.reasoning, others.reasoning),
        }
    }
}

/// The message that a line is in a conversation. It is made of the line and of those before it in
/// its file, and of nothing else: what the log holds in the end is the same wherever a growing
/// file was cut.
#[derive(Debug, PartialEq)]
pub(super) struct Said<'a> {
    pub(super) talk: ConversationRef<'a>,
    pub(super) message: Box<ConversationMessage>,
    pub(super) counted: Option<Counted>,
}

/// The API response that a message has tokens of, so that they are counted in one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counted {
    /// The id of the message that stands for the request.
    pub(super) response: Uuid,
    /// The line, if the message says more than tokens.
    pub(super) line: Option<Uuid>,
}

/// A conversation, as a line of it names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ConversationRef<'a> {
    pub(super) id: Uuid,
    /// The tool's session, as the tool writes it.
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) cwd: Option<Cow<'a, str>>,
    /// The conversation that it is a part of.
    pub(super) parent: Option<Uuid>,
}

/// A text of a message, or what stands for one.
#[derive(Debug, PartialEq)]
pub(super) enum Text<'a> {
    Words(Cow<'a, str>),
    Call {
        id: String,
        name: String,
        args: Option<String>,
    },
}

/// A message with nothing in it yet.
pub(super) fn blank_message(
    id: Uuid,
    talk: Uuid,
    role: Role,
    at: i64,
) -> Result<Box<ConversationMessage>, String> {
    // Made once: what is new has an id and a time of its own, which cost more than the rest.
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

/// Gives a message its texts. The first call stands in the fields that are made for it, any other
/// by its name and id among the texts: its arguments are in its own record, and no content.
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

/// Gives a message the tokens that are its own. A part of them that is 0 is left out, and what a part
/// has beyond its sum: not each line of a source tells all parts.
pub(super) fn count(message: &mut ConversationMessage, tokens: Tokens) {
    let of = |tokens| i64::try_from(tokens).unwrap_or(i64::MAX);
    let part = |tokens, most: i64| Some(of(tokens).min(most)).filter(|tokens| *tokens > 0);
    let (tokens_in, tokens_out) = (of(tokens.input), of(tokens.output));
    message.tokens_in = Some(tokens_in);
    message.tokens_out = Some(tokens_out);
    let cache_write = part(tokens.cache_write, tokens_in);
    message.tokens_cache_write = cache_write;
    message.tokens_cache_read = part(tokens.cache_read, tokens_in - cache_write.unwrap_or(0));
    message.tokens_reasoning = part(tokens.reasoning, tokens_out);
}

/// Takes a message's tokens away, as another message has them.
pub(super) fn uncount(message: &mut ConversationMessage) {
    message.tokens_in = None;
    message.tokens_out = None;
    message.tokens_cache_write = None;
    message.tokens_cache_read = None;
    message.tokens_reasoning = None;
}

/// The provider's usage object, whole, as the metadata of its message.
pub(super) fn metadata(usage: &str) -> String {
    ["{\"usage\":", usage, "}"].concat()
}

/// Types of the blocks of a line that were not understood, and how often each is there.
#[derive(Debug, Default)]
pub(super) struct Others(BTreeMap<String, u64>);

impl Others {
    pub(super) fn count(&mut self, kind: impl Into<String>) {
        *self.0.entry(kind.into()).or_default() += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same counts, as a report names them.
    pub(super) fn under(&self, prefix: &str) -> impl Iterator<Item = (String, u64)> {
        let counts = self.0.iter();
        counts.map(move |(kind, n)| (format!("{prefix}.{kind}"), *n))
    }
}

/// Maximum number of types that stand in the place of a content without texts.
const OTHERS_SHOWN_MAX: usize = 8;

/// The texts of a turn as its one content.
pub(super) fn joined<'a>(texts: impl Iterator<Item = &'a str> + Clone, others: &Others) -> String {
    let bytes = texts.clone().map(|text| text.len() + 2).sum();
    if bytes == 0 {
        // The turn stays in the chain of parents, so it says at least what it stands for.
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
