//! Finds what is to be redacted in a text. A packed searcher looks for the anchors of all rules
//! at once, many bytes at a time; a rule is asked only where one of its anchors is.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, packed};
use regex::Regex;

use super::assignment::member;
use super::context::Place;
use super::rules::{CONTEXTS, Context, HEADS, TOKENS, Token};
use super::{Found, PLACEHOLDER, PrivacySettings, pii};
use crate::error::{Error, Result};

/// How a placeholder may go on: the rest of `[REDACTED:github_token:1]`.
const PLACEHOLDER_BYTES_MAX: usize = 2 * super::NAME_BYTES_MAX;

/// What is looked for.
#[derive(Debug)]
pub(super) struct Scanner {
    redact_secrets: bool,
    redact_pii: bool,
    patterns: Vec<(String, Regex)>,
}

/// Something to redact, by the name that its placeholder has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding<'a> {
    pub name: &'a str,
    pub start: usize,
    pub end: usize,
}

impl Scanner {
    /// # Errors
    /// A pattern of the settings that has no proper name, or is no regular expression.
    pub(super) fn new(settings: &PrivacySettings) -> Result<Scanner> {
        let patterns = settings.patterns.iter().map(|pattern| {
            let name = &pattern.name;
            let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            if name.is_empty() || name.len() > super::NAME_BYTES_MAX || !name.bytes().all(is_of_name) {
                return Err(Error::invalid(format!(
                    "the pattern name {name:?} does not do: give 1 to {} lower-case letters, digits and underscores",
                    super::NAME_BYTES_MAX
                )));
            }
            let regex = Regex::new(&pattern.regex).map_err(|e| {
                Error::invalid(format!("the pattern {name} is no regular expression: {e}"))
            })?;
            Ok((name.clone(), regex))
        });
        Ok(Scanner {
            redact_secrets: settings.redact_secrets,
            redact_pii: settings.redact_pii,
            patterns: patterns.collect::<Result<_>>()?,
        })
    }

    /// Whether patterns of the settings are looked for, of which nothing is known.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// The shortest text that can hold something.
    pub(super) fn bytes_min(&self) -> usize {
        match (self.has_patterns(), self.redact_pii, self.redact_secrets) {
            (true, ..) => 1,
            (_, true, _) => "a@b.co".len(),
            (_, _, true) => "pwd=abc123".len(),
            _ => usize::MAX,
        }
    }

    /// Whether JSON may hold something in its strings, without decoding them. It may say so
    /// where there is nothing.
    pub(super) fn may_find(&self, json: &str) -> bool {
        let text = json.as_bytes();
        let mut found = Vec::new();
        if self.redact_pii {
            pii::find(text, &mut found);
        }
        let is_hidden = || has_hiding_escape(text);
        self.has_patterns()
            || !found.is_empty()
            || self.redact_secrets && !secrets(text, true).is_empty()
            || (self.redact_secrets || self.redact_pii) && is_hidden()
    }

    /// What is to be redacted in a text, in order, without overlaps.
    /// A value that a document assigns to a name is given with it.
    pub(super) fn findings(&self, name: Option<&str>, text: &str) -> Vec<Finding<'_>> {
        let bytes = text.as_bytes();
        let mut found = Vec::new();
        if self.redact_secrets {
            found = secrets(bytes, false);
            found.extend(name.and_then(|name| member(name, text)));
        }
        if self.redact_pii {
            pii::find(bytes, &mut found);
        }
        let found = found.into_iter().map(|found| Finding {
            name: found.name,
            start: found.start,
            end: found.end,
        });
        let matches = self.patterns.iter().flat_map(|(name, regex)| {
            regex.find_iter(text).map(|found| Finding {
                name,
                start: found.start(),
                end: found.end(),
            })
        });
        let findings: Vec<Finding<'_>> = found.chain(matches).collect();
        if findings.is_empty() {
            return findings;
        }
        let placeholders: Vec<_> = placeholders(bytes).collect();
        let is_free = |finding: &Finding<'_>| {
            let mut known = placeholders.iter();
            finding.start < finding.end
                && !known.any(|(start, end)| finding.start < *end && *start < finding.end)
        };
        joined(findings.into_iter().filter(is_free).collect())
    }

    /// The keys and tokens with a provider's prefix.
    pub(super) fn tokens(&self, text: &str) -> Vec<Finding<'_>> {
        if !self.redact_secrets {
            return Vec::new();
        }
        let mut findings = Vec::new();
        candidates(text.as_bytes(), &mut |anchor, at, _| {
            let found = anchor
                .tokens
                .iter()
                .find_map(|token| token.found(text.as_bytes(), at));
            findings.extend(found.map(|found| Finding {
                name: found.name,
                start: found.start,
                end: found.end,
            }));
            true
        });
        joined(findings)
    }
}

/// Findings in order. Those that overlap become one: the first of them names it.
fn joined(findings: Vec<Finding<'_>>) -> Vec<Finding<'_>> {
    let mut ordered: Vec<(usize, Finding<'_>)> = findings.into_iter().enumerate().collect();
    ordered.sort_by_key(|(rank, finding)| (finding.start, *rank));
    let mut joined: Vec<(usize, Finding<'_>)> = Vec::with_capacity(ordered.len());
    for (rank, finding) in ordered {
        match joined
            .last_mut()
            .filter(|(_, last)| finding.start < last.end)
        {
            Some((known, last)) => {
                last.end = last.end.max(finding.end);
                if rank < *known {
                    (*known, last.name) = (rank, finding.name);
                }
            }
            None => joined.push((rank, finding)),
        }
    }
    joined.into_iter().map(|(_, finding)| finding).collect()
}

/// Where placeholders stand already.
fn placeholders(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    memchr::memmem::find_iter(text, PLACEHOLDER).filter_map(|start| {
        let rest = text[start..].iter().take(PLACEHOLDER_BYTES_MAX);
        let len = rest.take_while(|byte| **byte != b']').count();
        (text.get(start + len) == Some(&b']')).then_some((start, start + len + 1))
    })
}

/// Whether an escape in JSON stands for a character that an anchor may have. Those of control
/// characters, and of what is not ASCII, hide nothing.
fn has_hiding_escape(json: &[u8]) -> bool {
    static SLASH: LazyLock<memchr::memmem::Finder<'static>> =
        LazyLock::new(|| memchr::memmem::Finder::new(b"\\/"));
    static UNICODE: LazyLock<memchr::memmem::Finder<'static>> =
        LazyLock::new(|| memchr::memmem::Finder::new(b"\\u00"));
    let is_printable = |at: usize| matches!(json.get(at + 4), Some(b'2'..=b'7'));
    UNICODE.find_iter(json).any(is_printable) || SLASH.find(json).is_some()
}

/// The secrets in a text, each rule asked where its anchors are; in raw JSON, the first one.
fn secrets(text: &[u8], is_raw: bool) -> Vec<Found> {
    let mut found = Vec::new();
    candidates(text, &mut |anchor, at, after| {
        let place = Place {
            text,
            at,
            after,
            is_raw,
        };
        let mut tokens = anchor.tokens.iter();
        let mut contexts = anchor.contexts.iter();
        let token = tokens.find_map(|token| token.found(text, at));
        found.extend(token.or_else(|| contexts.find_map(|context| (context.found)(&place))));
        !is_raw || found.is_empty()
    });
    found
}

/// Calls `ask` for every anchor in a text until it says false.
fn candidates(text: &[u8], ask: &mut dyn FnMut(&Anchor, usize, usize) -> bool) {
    let _ = PREFILTERS.iter().all(|prefilter| prefilter.all(text, ask));
}

/// A text that is in everything that its rules match.
struct Anchor {
    text: &'static str,
    tokens: Vec<&'static Token>,
    contexts: Vec<&'static Context>,
}

/// The anchors that are searched for in one pass.
struct Prefilter {
    anchors: Vec<Anchor>,
    search: Search,
}

enum Search {
    Packed(packed::Searcher),
    /// Where the machine has no vector instructions for it.
    Automaton(AhoCorasick),
}

/// How many anchors a packed searcher takes well.
const ANCHORS_MAX: usize = 64;
/// How many bytes of an anchor it looks at.
const ANCHOR_BYTES: usize = 4;

static PREFILTERS: LazyLock<Vec<Prefilter>> = LazyLock::new(|| {
    let mut anchors: Vec<Anchor> = Vec::new();
    let prefixes = TOKENS.iter().map(|token| token.prefix);
    let mut prefixes: Vec<&str> = prefixes.chain(HEADS.iter().copied()).collect();
    prefixes.sort_by_key(|prefix| prefix.len());
    // A prefix that begins like a shorter one needs no anchor of its own.
    for prefix in prefixes {
        if !anchors.iter().any(|anchor| prefix.starts_with(anchor.text)) {
            let tokens = TOKENS
                .iter()
                .filter(|token| token.prefix.starts_with(prefix))
                .collect();
            anchors.push(Anchor {
                text: prefix,
                tokens,
                contexts: Vec::new(),
            });
        }
    }
    for context in CONTEXTS {
        anchors.extend(context.anchors.iter().map(|text| Anchor {
            text,
            tokens: Vec::new(),
            contexts: vec![context],
        }));
    }
    // Short ones by themselves: a searcher looks at no more bytes than its shortest text has, and
    // stops the more often in vain.
    let (long, short): (Vec<Anchor>, Vec<Anchor>) = anchors
        .into_iter()
        .partition(|anchor| anchor.text.len() >= ANCHOR_BYTES);
    let mut prefilters = Vec::new();
    for mut anchors in [long, short] {
        while !anchors.is_empty() {
            let rest = anchors.split_off(anchors.len().min(ANCHORS_MAX));
            prefilters.push(Prefilter::new(std::mem::replace(&mut anchors, rest)));
        }
    }
    prefilters
});

impl Prefilter {
    fn new(anchors: Vec<Anchor>) -> Prefilter {
        let texts = || anchors.iter().map(|anchor| anchor.text);
        let packed = packed::Config::new().builder().extend(texts()).build();
        let search = match packed {
            Some(searcher) => Search::Packed(searcher),
            None => match AhoCorasick::new(texts()) {
                Ok(automaton) => Search::Automaton(automaton),
                Err(_) => unreachable!("a few short literals"),
            },
        };
        Prefilter { anchors, search }
    }

    fn all(&self, text: &[u8], ask: &mut dyn FnMut(&Anchor, usize, usize) -> bool) -> bool {
        let mut at = 0;
        while let Some((pattern, start)) = self.next(text, at) {
            let anchor = &self.anchors[pattern];
            if !ask(anchor, start, start + anchor.text.len()) {
                return false;
            }
            at = start + 1;
        }
        true
    }

    /// The next anchor from `at` on.
    fn next(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        let span = aho_corasick::Span {
            start: at,
            end: text.len(),
        };
        let found = match &self.search {
            Search::Packed(searcher) => searcher.find_in(text, span),
            Search::Automaton(automaton) => {
                automaton.find(aho_corasick::Input::new(text).span(span))
            }
        }?;
        Some((found.pattern().as_usize(), found.start()))
    }
}
