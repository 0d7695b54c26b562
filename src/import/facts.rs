//! What one line of a session file says, whatever the tool that wrote it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use uuid::Uuid;

use crate::record::{
    ConversationMessage, ConversationTurn, Role, Source, Timestamp, ToolCallDone, ToolCallReq,
};

/// What a line says. The parsers make it of the line alone and what they remember of the file;
/// whether it was said before is not theirs to know.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts<'a> {
    pub(super) turn: Option<ConversationTurn>,
    pub(super) calls: Vec<ToolCallReq>,
    /// Their `latency_ms` is still to be told from the call.
    pub(super) results: Vec<ToolCallDone>,
    pub(super) usage: Option<Usage>,
    pub(super) said: Option<Said<'a>>,
    /// What the line holds besides: types, and how often.
    pub(super) not_understood: BTreeMap<String, u64>,
}

impl Facts<'_> {
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
    pub(super) input: u64,
    pub(super) output: u64,
}

impl Tokens {
    pub(super) fn plus(self, more: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_add(more.input),
            output: self.output.saturating_add(more.output),
        }
    }

    /// What these are more than others; never less than nothing.
    pub(super) fn beyond(self, others: Tokens) -> Tokens {
        Tokens {
            input: self.input.saturating_sub(others.input),
            output: self.output.saturating_sub(others.output),
        }
    }

    /// The greater of each count.
    pub(super) fn or_more(self, others: Tokens) -> Tokens {
        Tokens {
            input: self.input.max(others.input),
            output: self.output.max(others.output),
        }
    }
}

/// Tokens that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// By this API response, as far as is known by now: a later one of the same response
    /// replaces it.
    Of { response: Uuid, tokens: Tokens },
    /// Since the time before; `once` names the line that says so.
    More { once: Uuid, tokens: Tokens },
}

/// What a line adds to the messages of a conversation.
#[derive(Debug, PartialEq)]
pub(super) struct Said<'a> {
    pub(super) talk: Talk<'a>,
    pub(super) piece: Piece,
    /// Under the line's own id, its content still empty.
    pub(super) message: Box<ConversationMessage>,
    pub(super) texts: Vec<Text<'a>>,
    pub(super) tokens: Option<Tokens>,
}

/// A conversation, as a line of it names it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Talk<'a> {
    pub(super) id: Uuid,
    /// The tool's session, as the tool writes it.
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) cwd: Option<Cow<'a, str>>,
}

/// What of a message a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// All of it.
    Whole,
    /// A part of this API response, whose lines that follow each other make one message. The
    /// tokens are those of the response so far.
    Of(Uuid),
    /// All but the tokens, which a line after it may tell.
    WithoutUsage,
    /// The tokens of the message before, or of none that is known.
    Usage,
}

/// A text of a message, or what stands for one.
#[derive(Debug, PartialEq)]
pub(super) enum Text<'a> {
    Words(Cow<'a, str>),
    Call { name: String, args: Option<String> },
}

impl Text<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Text::Words(words) => words.len(),
            Text::Call { name, args } => name.len() + args.as_ref().map_or(0, String::len),
        }
    }
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

    /// The same counts, as a report names them.
    pub(super) fn under(&self, prefix: &str) -> impl Iterator<Item = (String, u64)> {
        let counts = self.0.iter();
        counts.map(move |(kind, n)| (format!("{prefix}.{kind}"), *n))
    }
}

/// The most types that stand in the place of a content without texts.
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
