//! What one line of a session file says, whatever the tool that wrote it.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::record::{ConversationTurn, ToolCallDone, ToolCallReq};

/// What a line says. The parsers make it of the line alone and what they remember of the file;
/// whether it was said before is not theirs to know.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Facts {
    pub(super) turn: Option<ConversationTurn>,
    pub(super) calls: Vec<ToolCallReq>,
    /// Their `latency_ms` is still to be told from the call.
    pub(super) results: Vec<ToolCallDone>,
    pub(super) usage: Option<Usage>,
    /// What the line holds besides: types, and how often.
    pub(super) not_understood: BTreeMap<String, u64>,
}

impl Facts {
    pub(super) fn not_understood(what: impl Into<String>) -> Facts {
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

/// Tokens that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Usage {
    /// By this API response, as far as is known by now: a later one of the same response
    /// replaces it.
    Of { response: Uuid, tokens: Tokens },
    /// Since the time before; `once` names the line that says so.
    More { once: Uuid, tokens: Tokens },
}

/// Types of the blocks of a line that were not understood, and how often each is there.
#[derive(Debug, Default)]
pub(super) struct Others(BTreeMap<String, u64>);

impl Others {
    pub(super) fn count(&mut self, kind: String) {
        *self.0.entry(kind).or_default() += 1;
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
pub(super) fn joined(texts: &[String], others: &Others) -> String {
    if texts.is_empty() {
        // The turn stays in the chain of parents, so it says at least what it stands for.
        let shown = others.0.keys().take(OTHERS_SHOWN_MAX);
        let shown: Vec<String> = shown.map(|kind| format!("[{kind}]")).collect();
        return shown.join("\n\n");
    }
    let texts: Vec<&str> = texts
        .iter()
        .map(String::as_str)
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n\n")
}
