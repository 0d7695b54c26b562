//! Finds the ranges of a text that must be redacted. A rule runs only where one of its anchors
//! occurs.

use regex::Regex;

use super::anchors::{self, Rule};
use super::assignment::member;
use super::breaks::has_break;
use super::bytes::{is_digit, is_mixed, run};
use super::context::Place;
use super::displayed::{Displayed, View, differs, displayed};
use super::json::Said;
use super::runs::Runs;
use super::values::Written;
use super::{
    Finding, Found, HASH_DIGITS, NAME_BYTES_MAX, PLACEHOLDER, PrivacySettings, is_hex_digit, pii,
};
use crate::error::{Error, Result};

/// The rules that are active.
#[derive(Debug)]
pub(super) struct Scanner {
    redact_secrets: bool,
    redact_pii: bool,
    patterns: Vec<(String, Regex)>,
}

impl Scanner {
    /// # Errors
    /// A pattern of the settings has an invalid name or is not a valid regular expression.
    pub(super) fn new(settings: &PrivacySettings) -> Result<Scanner> {
        let patterns = settings.patterns.iter().map(|pattern| {
            let name = &pattern.name;
            let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
            if !(is_short && name.bytes().all(is_of_pattern_name)) {
                return Err(Error::invalid(format!(
                    "the pattern name {name:?} is not valid: use 1 to {NAME_BYTES_MAX} lower-case letters, digits and underscores"
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

    /// Whether the settings define patterns. Nothing is known about what those match.
    pub(super) fn has_patterns(&self) -> bool {
        !self.patterns.is_empty()
    }

    /// Minimum length of a text that can contain a finding.
    pub(super) fn bytes_min(&self) -> usize {
        match (self.has_patterns(), self.redact_pii, self.redact_secrets) {
            (true, ..) => 1,
            (_, true, _) => "a@b.co".len(),
            (_, _, true) => "pwd=abc123".len(),
            _ => usize::MAX,
        }
    }

    /// Whether the strings of a JSON text may contain a finding. They are not decoded. May return a
    /// false positive.
    pub(super) fn may_find(&self, json: &str) -> bool {
        let text = json.as_bytes();
        let mut found = Vec::new();
        if self.redact_pii {
            pii::find(text, &mut found);
        }
        let is_hidden = || has_hiding_escape(text) || has_break(text) || differs(text);
        self.has_patterns()
            || !found.is_empty()
            || self.redact_secrets && !secrets(text, true).is_empty()
            || (self.redact_secrets || self.redact_pii) && is_hidden()
    }

    /// The ranges of a text to redact, in order and without overlaps. The raw and the displayed
    /// form are scanned. `said` describes the string's place in its document.
    pub(super) fn findings(&self, said: Said<'_>, text: &str) -> Vec<Finding<'_>> {
        as_displayed(text, |text| self.plain(said, text))
    }

    fn plain(&self, said: Said<'_>, text: &str) -> Vec<Finding<'_>> {
        let bytes = text.as_bytes();
        let (name, written) = match said {
            Said::Value(name) => (Some(name), Written::Quoted),
            Said::Listed(name) => (Some(name), Written::Listed),
            Said::Text | Said::KeyLine => (None, Written::Quoted),
        };
        let mut found = Vec::new();
        if self.redact_secrets {
            found = secrets(bytes, false);
            if let Some(name) = name {
                member(name, text, written, &mut found);
            }
        }
        if self.redact_pii {
            pii::find(bytes, &mut found);
            if let Some(name) = name {
                pii::member(name, text, &mut found);
            }
        }
        // A rule may stop in the middle of a character.
        let is_whole = |at: &usize| text.is_char_boundary(*at);
        let found = found.into_iter().map(|Finding { name, start, end }| {
            let start = (0..=start).rfind(is_whole).unwrap_or_default();
            let end = (end..=text.len()).find(is_whole).unwrap_or(text.len());
            Finding { name, start, end }
        });
        let matches = self.patterns.iter().flat_map(|(name, regex)| {
            let all = regex.find_iter(text);
            all.map(|found| Finding::new(name, found.start(), found.end()))
        });
        let findings: Vec<Finding<'_>> = found.chain(matches).collect();
        if findings.is_empty() {
            return findings;
        }
        let is_own = |placeholder: &(usize, usize)| {
            let name = &text[placeholder.0 + PLACEHOLDER.len()..placeholder.1];
            self.plain_tokens(name).is_empty()
        };
        let placeholders: Vec<_> = placeholders(bytes).filter(is_own).collect();
        let is_free = |finding: &Finding<'_>| {
            let next = placeholders.partition_point(|(_, end)| *end <= finding.start);
            let next = placeholders.get(next);
            finding.start < finding.end && next.is_none_or(|(start, _)| finding.end <= *start)
        };
        joined(findings.into_iter().filter(is_free).collect())
    }

    /// Keys and tokens with a provider's prefix.
    pub(super) fn tokens(&self, text: &str) -> Vec<Finding<'_>> {
        as_displayed(text, |text| self.plain_tokens(text))
    }

    fn plain_tokens(&self, text: &str) -> Vec<Finding<'_>> {
        if !self.redact_secrets {
            return Vec::new();
        }
        let (text, mut findings) = (text.as_bytes(), Vec::new());
        let runs = Runs::new(text);
        anchors::in_runs(text, &mut |rule, at, _| {
            if let Rule::Token(token) = rule
                && let Some(found) = token.found(text, &runs, at)
            {
                findings.push(found);
            }
            true
        });
        joined(findings)
    }
}

/// Findings in the raw text and in its displayed form.
fn as_displayed<'a>(text: &str, find: impl Fn(&str) -> Vec<Finding<'a>>) -> Vec<Finding<'a>> {
    let mut findings = find(text);
    let Some(shown) = displayed(text, View::Apart) else {
        return findings;
    };
    let raw = |shown: &Displayed, finding: Finding<'a>| {
        let (start, end) = shown.raw(finding.start, finding.end);
        Finding::new(finding.name, start, end)
    };
    if shown.text != text {
        let hidden = find(&shown.text).into_iter();
        findings.extend(hidden.map(|finding| raw(&shown, finding)));
        findings = joined(findings);
    }
    if shown.joints.is_empty() {
        return findings;
    }
    let Some(shown) = displayed(text, View::Together) else {
        return findings;
    };
    let whole = find(&shown.text).into_iter().filter_map(|finding| {
        let first = shown.joints.partition_point(|at| *at <= finding.start);
        let joint = *shown.joints.get(first).filter(|at| **at < finding.end)?;
        let rest = shown.text.as_bytes();
        let tail = &rest[joint..finding.end];
        let ends = tail.iter().rev().skip_while(|byte| **byte == b'=');
        // Another name and the value assigned to it.
        let has_name = ends.clone().any(|byte| *byte == b'=')
            || matches!(rest.get(finding.end), Some(b'=' | b':'));
        let finding = raw(&shown, finding);
        let stands_apart = findings
            .iter()
            .any(|known| known.start < finding.end && finding.start < known.end);
        (!has_name && (!stands_apart || is_mixed(tail))).then_some(finding)
    });
    let whole: Vec<_> = whole.collect();
    findings.extend(whole);
    joined(findings)
}

/// Sorts findings and merges those that overlap. A merged finding takes the name of the one that
/// comes first in the input.
fn joined(findings: Vec<Finding<'_>>) -> Vec<Finding<'_>> {
    let mut ordered: Vec<(usize, Finding<'_>)> = findings.into_iter().enumerate().collect();
    ordered.sort_by_key(|(rank, finding)| (finding.start, *rank));
    let mut joined: Vec<(usize, Finding<'_>)> = Vec::with_capacity(ordered.len());
    for (rank, finding) in ordered {
        match joined.last_mut() {
            Some((known, last)) if finding.start < last.end => {
                last.end = last.end.max(finding.end);
                if rank < *known {
                    (*known, last.name) = (rank, finding.name);
                }
            }
            _ => joined.push((rank, finding)),
        }
    }
    joined.into_iter().map(|(_, finding)| finding).collect()
}

/// Ranges of existing placeholders.
fn placeholders(text: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    memchr::memmem::find_iter(text, PLACEHOLDER)
        .filter_map(|start| Some((start, start + placeholder_len(&text[start..])?)))
}

/// Whether part of a text was redacted.
pub(crate) fn is_redacted(text: &str) -> bool {
    placeholders(text.as_bytes()).next().is_some()
}

/// Length of the placeholder at the start of a text. Only our exact format counts, because anything
/// similar may contain a secret.
pub(super) fn placeholder_len(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(PLACEHOLDER.as_bytes())?;
    let name = run(rest, 0, NAME_BYTES_MAX, is_of_pattern_name);
    let number = rest[name..].strip_prefix(b":")?;
    let len = run(number, 0, HASH_DIGITS, is_hex_digit);
    let is_number = len > 0 && number[..len].iter().all(u8::is_ascii_digit);
    let is_placeholder =
        name > 0 && (is_number || len == HASH_DIGITS) && number.get(len) == Some(&b']');
    is_placeholder.then(|| text.len() - number.len() + len + 1)
}

/// Names of patterns, and of the secrets that rules find.
fn is_of_pattern_name(byte: u8) -> bool {
    byte.is_ascii_lowercase() || is_digit(byte) || byte == b'_'
}

/// Whether the JSON contains an escape that only JSON has and that can hide part of a finding or of
/// an anchor: `\/`, `\b`, `\f`, and escapes of non-ASCII characters.
fn has_hiding_escape(json: &[u8]) -> bool {
    // Looks at many bytes at a time.
    let pairs = json.iter().zip(json.iter().skip(1));
    let any = pairs.fold(0, |any, (one, two)| {
        let letter = u8::from(*two == b'/') | u8::from(*two == b'b') | u8::from(*two == b'f');
        let letter = letter | u8::from(*two == b'u');
        any | u8::from(*one == b'\\') & letter
    });
    any != 0
}

/// Whether the whole text is one secret.
#[cfg(feature = "http")]
pub(crate) fn is_secret(text: &str) -> bool {
    matches!(&*secrets(text.as_bytes(), false), [found] if found.start == 0 && found.end == text.len())
}

/// The secrets in a text. Each rule runs at its anchors. In raw JSON, only the first secret is
/// returned.
fn secrets(text: &[u8], is_raw: bool) -> Vec<Found> {
    let mut found = Vec::new();
    let (runs, mut token_at) = (Runs::new(text), None);
    anchors::all(text, &mut |rule, at, after| {
        match rule {
            // If several prefixes match at one position, the first token that matches wins.
            Rule::Token(_) if token_at == Some(at) => {}
            Rule::Token(token) => {
                if let Some(token) = token.found(text, &runs, at) {
                    token_at = Some(at);
                    found.push(token);
                }
            }
            Rule::Context(context) => {
                let place = Place {
                    text,
                    runs: &runs,
                    at,
                    after,
                    is_raw,
                };
                context.found(&place, &mut found);
            }
        }
        !is_raw || found.is_empty()
    });
    found
}
