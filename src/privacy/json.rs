//! JSON is kept to the byte but for the strings that hold something.

use serde::de::IgnoredAny;

use super::blocks::Lines;
use crate::record::push_quoted;

/// An object or array that is open.
struct Open {
    is_object: bool,
    /// The name of the member that comes next, and before that the string before it.
    name: Option<String>,
    before: Option<String>,
    /// How many values an array has before the next.
    values: usize,
    /// Where in a private key its strings are.
    lines: Lines,
}

/// What a string in JSON is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said<'a> {
    Text,
    /// The value of what has this name.
    Value(&'a str),
    /// A line of a private key.
    KeyLine,
}

/// Whether a text may be JSON that has strings.
pub(super) fn may_be_json(text: &str) -> bool {
    matches!(
        text.trim_ascii_start().as_bytes().first(),
        Some(b'{' | b'[' | b'"')
    )
}

/// Rewrites the strings of a JSON text: `change` gets each one decoded, with what it is there,
/// and says what it becomes, if another. `None` if nothing changes.
///
/// # Errors
/// The text is no JSON.
pub(super) fn rewrite(
    json: &str,
    change: &mut dyn FnMut(Said<'_>, &str) -> Option<String>,
) -> Result<Option<String>, serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(json)?;
    let bytes = json.as_bytes();
    let (mut out, mut kept, mut at) = (Vec::new(), 0, 0);
    let mut open: Vec<Open> = Vec::new();
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' | b'[' => open.push(Open {
                is_object: *byte == b'{',
                name: None,
                before: None,
                values: 0,
                lines: Lines::None,
            }),
            b'}' | b']' => {
                open.pop();
            }
            b'"' => {
                let end = at + string_len(&bytes[at..]);
                let text: String = serde_json::from_str(&json[at..end])?;
                let is_name = is_name(&bytes[end..], open.last());
                if let Some(open) = open.last_mut().filter(|open| !open.is_object) {
                    open.lines = open.lines.next(&text);
                }
                let is_pair = is_pair(&bytes[end..], &open);
                let said = match open.last() {
                    Some(open) if open.lines == Lines::Within => Said::KeyLine,
                    Some(open) => {
                        assigned_to(open, is_name, is_pair).map_or(Said::Text, Said::Value)
                    }
                    None => Said::Text,
                };
                if let Some(changed) = change(said, &text) {
                    out.extend_from_slice(&bytes[kept..at]);
                    push_quoted(&mut out, &changed);
                    kept = end;
                }
                if let Some(open) = open.last_mut() {
                    if is_name {
                        open.name = Some(text);
                    } else {
                        open.before = Some(text);
                    }
                }
                at = end;
                continue;
            }
            b',' => {
                if let Some(open) = open.last_mut() {
                    open.values += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if kept == 0 {
        return Ok(None);
    }
    out.extend_from_slice(&bytes[kept..]);
    // Whole strings were replaced by strings.
    Ok(String::from_utf8(out).ok())
}

/// The length of the string that text begins with, its quotes counted.
fn string_len(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(special) = json
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += special;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

fn is_name(rest: &[u8], open: Option<&Open>) -> bool {
    open.is_some_and(|open| open.is_object) && rest.trim_ascii_start().starts_with(b":")
}

/// Whether a string ends an array of strings that is itself in one, as in `[["name", "value"]]`.
fn is_pair(rest: &[u8], open: &[Open]) -> bool {
    let arrays = open.iter().rev().take(2).filter(|open| !open.is_object);
    arrays.count() == 2 && rest.trim_ascii_start().starts_with(b"]")
}

/// The names of members that hold the value of what another member names.
const VALUES: [&str; 4] = ["value", "parameterValue", "optionValue", "stringValue"];

/// What a string is the value of: a member of this name; `"value"`, of what the member before it
/// says; an argument, of the flag before it; the second of a pair, of the first.
fn assigned_to(open: &Open, is_name: bool, is_pair: bool) -> Option<&str> {
    let before = open.before.as_deref();
    match open.name.as_deref().filter(|_| !is_name) {
        Some(name) if VALUES.iter().any(|value| name.eq_ignore_ascii_case(value)) => before,
        None => before.filter(|before| {
            !open.is_object && (before.starts_with("--") || is_pair && open.values == 1)
        }),
        name => name,
    }
}
