//! Rules by which a table names models and providers.

use std::borrow::Cow;

use regex::Regex;
use serde::Deserialize;

/// A rule. Texts are compared case-insensitively, except in a pattern.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Rule {
    And(Vec<Rule>),
    Or(Vec<Rule>),
    Contains(String),
    EndsWith(String),
    Equals(String),
    Regex(String),
    StartsWith(String),
}

impl Rule {
    pub(super) fn matches(&self, name: &Name<'_>) -> bool {
        let same = |text: &str, rule: &str| text.eq_ignore_ascii_case(rule);
        let folded = &*name.folded;
        match self {
            Rule::And(rules) => rules.iter().all(|rule| rule.matches(name)),
            Rule::Or(rules) => rules.iter().any(|rule| rule.matches(name)),
            Rule::Contains(text) => folded.contains(&*fold(text)),
            Rule::EndsWith(text) => folded.ends_with(&*fold(text)),
            Rule::Equals(text) => same(name.raw, text) || folded == &*fold(text),
            Rule::Regex(pattern) => Pattern::of(pattern).is_ok_and(|it| it.matches(name.raw)),
            Rule::StartsWith(text) => folded.starts_with(&*fold(text)),
        }
    }

    /// The first pattern that cannot be compiled.
    pub(super) fn check(&self) -> Result<(), String> {
        match self {
            Rule::And(rules) | Rule::Or(rules) => rules.iter().try_for_each(Rule::check),
            Rule::Regex(pattern) => Pattern::of(pattern)
                .and_then(|it| it.compile().map(drop))
                .map_err(|error| format!("the pattern {pattern:?}: {error}")),
            _ => Ok(()),
        }
    }
}

/// A name to compare.
pub(super) struct Name<'a> {
    raw: &'a str,
    folded: Cow<'a, str>,
}

impl<'a> Name<'a> {
    pub(super) fn new(raw: &'a str) -> Name<'a> {
        let folded = fold(raw);
        Name { raw, folded }
    }
}

fn fold(text: &str) -> Cow<'_, str> {
    if text
        .bytes()
        .any(|byte| !byte.is_ascii() || byte.is_ascii_uppercase())
    {
        Cow::Owned(text.to_lowercase())
    } else {
        Cow::Borrowed(text)
    }
}

/// A pattern. Those of the table begin with `^`, and some then exclude names with `(?!…)`, which
/// the crate `regex` does not have.
struct Pattern<'a> {
    without: Option<&'a str>,
    with: Cow<'a, str>,
}

impl<'a> Pattern<'a> {
    fn of(pattern: &'a str) -> Result<Pattern<'a>, String> {
        let Some(rest) = pattern.strip_prefix("^(?!") else {
            return Ok(Pattern {
                without: None,
                with: Cow::Borrowed(pattern),
            });
        };
        let mut depth = 1_usize;
        let mut bytes = rest.bytes().enumerate();
        while let Some((at, byte)) = bytes.next() {
            match byte {
                b'\\' => drop(bytes.next()),
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(Pattern {
                    without: rest.get(..at),
                    with: Cow::Owned(format!("^{}", rest.get(at + 1..).unwrap_or_default())),
                });
            }
        }
        Err("a parenthesis is not closed".to_owned())
    }

    fn compile(&self) -> Result<(Option<Regex>, Regex), String> {
        let new = |text: &str| Regex::new(text).map_err(|error| error.to_string());
        let without = self.without.map(|text| new(&format!("^(?:{text})")));
        Ok((without.transpose()?, new(&self.with)?))
    }

    fn matches(&self, text: &str) -> bool {
        // Compiling takes longer than anything else here, and most names begin otherwise.
        self.may_match(text)
            && self.compile().is_ok_and(|(without, with)| {
                without.is_none_or(|it| !it.is_match(text)) && with.is_match(text)
            })
    }

    /// Whether a name begins with the plain letters at the start of the pattern.
    fn may_match(&self, text: &str) -> bool {
        let Some(pattern) = self.with.strip_prefix('^') else {
            return true;
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '_');
        let plain = pattern.len() - pattern.trim_start_matches(is_plain).len();
        let (plain, rest) = pattern.split_at(plain);
        // The last letter may be optional or repeated, and an alternative may begin otherwise.
        let plain = if rest.starts_with(['?', '*', '{']) {
            plain.get(..plain.len().saturating_sub(1))
        } else {
            Some(plain)
        };
        pattern.contains('|') || plain.is_none_or(|plain| text.starts_with(plain))
    }
}

/// Writes compact dates as `-2025-12-11`: `-20251211` at the end of the name or before `-` or `:`.
pub(super) fn with_long_dates(name: &str) -> Option<String> {
    let mut long = String::with_capacity(name.len() + 2);
    let mut rest = name;
    while let Some(at) = rest.find("-20") {
        let (before, from) = rest.split_at(at);
        long.push_str(before);
        let digits = from
            .get(1..9)
            .filter(|it| it.bytes().all(|b| b.is_ascii_digit()));
        let after = from.as_bytes().get(9);
        let is_end = matches!(after, None | Some(b'-' | b':'));
        if let Some(date) = digits.filter(|_| is_end) {
            let (year, month, day) = (&date[..4], &date[4..6], &date[6..]);
            long.extend(["-", year, "-", month, "-", day]);
            rest = &from[9..];
        } else {
            long.push_str(&from[..3]);
            rest = &from[3..];
        }
    }
    long.push_str(rest);
    (long != name).then_some(long)
}
