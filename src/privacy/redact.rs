//! Replaces secrets by placeholders.

use std::collections::HashMap;

use super::blocks::PRIVATE_KEY;
use super::displayed::spelled;
use super::json::{Said, may_be_json, rewrite};
use super::scan::Scanner;
use super::{Finding, HASH_DIGITS, PLACEHOLDER};

/// Maximum nesting depth of JSON inside the strings of JSON.
const NESTED_MAX: usize = 4;
/// Maximum number of scans of a text. A text is scanned again after a replacement.
const ROUNDS_MAX: usize = 8;

/// Numbers of the secrets of one record, by name and secret.
#[derive(Debug, Default)]
pub(super) struct Numbers(HashMap<String, HashMap<String, usize>>);

impl Numbers {
    /// The number of a secret: equal secrets have equal numbers, counted from 1 for each name.
    fn of(&mut self, name: &str, secret: &str) -> usize {
        let secret = spelled(secret);
        let known = self.0.entry(name.to_owned()).or_default();
        let next = known.len() + 1;
        *known.entry(secret.into_owned()).or_insert(next)
    }
}

impl Scanner {
    /// The text with its secrets replaced; `None` if it has none.
    pub(super) fn redacted(&self, text: &str, numbers: &mut Numbers) -> Option<String> {
        self.redacted_value(Said::Text, text, numbers, 0)
    }

    /// Like `redacted`, for a key. Only tokens with a provider's prefix are replaced; the number in
    /// the placeholder is the same in every record.
    pub(super) fn redacted_key(&self, key: &str) -> Option<String> {
        let findings = self.tokens(key);
        let number =
            |_: &str, secret: &str| super::sha256(&spelled(secret))[..HASH_DIGITS].to_owned();
        replaced(key, &findings, number)
    }

    /// Like `redacted`, for a string in the role `said` of a document.
    fn redacted_value(
        &self,
        said: Said<'_>,
        text: &str,
        numbers: &mut Numbers,
        depth: usize,
    ) -> Option<String> {
        if matches!(said, Said::Text) && text.len() < self.bytes_min() {
            return None;
        }
        let mut changed: Option<String> = None;
        // Text next to a placeholder may match another rule once the secret is replaced.
        for _ in 0..ROUNDS_MAX {
            let now = changed.as_deref().unwrap_or(text);
            if depth < NESTED_MAX && may_be_json(now) {
                if !self.may_find(now) {
                    break;
                }
                let mut change = |said: Said<'_>, text: &str| match said {
                    Said::KeyLine => {
                        let number = numbers.of(PRIVATE_KEY, text);
                        Some(placeholder(PRIVATE_KEY, &number.to_string()))
                    }
                    said => self.redacted_value(said, text, numbers, depth + 1),
                };
                // `change` already scanned each string until nothing was found.
                if let Ok(rewritten) = rewrite(now, &mut change) {
                    return rewritten.or(changed);
                }
            }
            let findings = self.findings(said, now);
            let next = replaced(now, &findings, |name, secret| {
                numbers.of(name, secret).to_string()
            });
            match next {
                Some(next) => changed = Some(next),
                None => break,
            }
        }
        changed
    }
}

fn placeholder(name: &str, number: &str) -> String {
    [PLACEHOLDER, name, ":", number, "]"].concat()
}

/// The text with a placeholder for each finding; `None` if there are no findings.
fn replaced(
    text: &str,
    findings: &[Finding<'_>],
    mut number: impl FnMut(&str, &str) -> String,
) -> Option<String> {
    if findings.is_empty() {
        return None;
    }
    let (mut out, mut kept) = (String::with_capacity(text.len()), 0);
    for finding in findings {
        out.push_str(text.get(kept..finding.start)?);
        let secret = text.get(finding.start..finding.end)?;
        let number = number(finding.name, secret);
        out.push_str(&placeholder(finding.name, &number));
        kept = finding.end;
    }
    out.push_str(text.get(kept..)?);
    Some(out)
}
