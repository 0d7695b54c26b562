//! Rewrites strings inside JSON. All other bytes are kept unchanged.

use serde::de::IgnoredAny;

use super::blocks::Lines;
use super::names::{Holds, holds};
use crate::record::{push_quoted, string_len, tokens};

/// An open object or array.
struct Open {
    is_object: bool,
    /// The name of the next member; `before` is the string before it.
    name: Option<String>,
    before: Option<String>,
    /// The name of the member whose value this object or array is, if the name denotes a secret.
    of: Option<String>,
    /// Number of values of the array so far.
    values: usize,
    /// Position in a private key that the array holds line by line.
    lines: Lines,
}

impl Open {
    fn new(is_object: bool, within: Option<&Open>) -> Open {
        Open {
            is_object,
            name: None,
            before: None,
            of: within.and_then(secret_of),
            values: 0,
            lines: Lines::None,
        }
    }
}

/// The role of a string in JSON.
#[derive(Debug, Clone, Copy)]
pub(super) enum Said<'a> {
    Text,
    /// The value of this name.
    Value(&'a str),
    /// One of several values of this name.
    Listed(&'a str),
    /// A line of a private key.
    KeyLine,
}

/// Whether a text may be JSON that contains strings.
pub(super) fn may_be_json(text: &str) -> bool {
    matches!(
        text.trim_ascii_start().as_bytes().first(),
        Some(b'{' | b'[' | b'"')
    )
}

/// Rewrites the strings of a JSON text. `change` receives each string decoded, with its role, and
/// returns its replacement, if any. Returns `None` if nothing changes.
///
/// # Errors
/// The text is not valid JSON.
pub(super) fn rewrite(
    json: &str,
    change: &mut dyn FnMut(Said<'_>, &str) -> Option<String>,
) -> Result<Option<String>, serde_json::Error> {
    serde_json::from_str::<IgnoredAny>(json)?;
    let bytes = json.as_bytes();
    let (mut out, mut kept) = (Vec::new(), 0);
    let mut open: Vec<Open> = Vec::new();
    for token in tokens(bytes) {
        let end = token.end;
        let changed = match bytes[token.start] {
            byte @ (b'{' | b'[') => {
                open.push(Open::new(byte == b'{', open.last()));
                None
            }
            b'}' | b']' => {
                open.pop();
                None
            }
            b'"' => {
                let text: String = serde_json::from_str(&json[token.clone()])?;
                let is_name = is_name(&bytes[end..], open.last());
                if let Some(open) = open.last_mut().filter(|open| !open.is_object) {
                    open.lines = open.lines.next(&text);
                }
                let is_pair = is_pair(&bytes[end..], &open);
                let next = open.last().and_then(|open| name_after(&json[end..], open));
                let said = match (open.last(), &next) {
                    (Some(open), _) if open.lines == Lines::Within => Said::KeyLine,
                    (Some(_), Some(next)) if !is_name => Said::Value(next),
                    (Some(open), _) => assigned_to(open, is_name, is_pair),
                    (None, _) => Said::Text,
                };
                let changed = change(said, &text);
                if let Some(open) = open.last_mut() {
                    if is_name {
                        open.name = Some(text);
                    } else {
                        open.before = Some(text);
                    }
                }
                changed
            }
            b'0'..=b'9' if is_password(&bytes[token.clone()]) => {
                let name = open.last().and_then(password_name);
                name.and_then(|name| change(Said::Value(name), &json[token.clone()]))
            }
            b',' => {
                if let Some(open) = open.last_mut() {
                    open.values += 1;
                }
                None
            }
            _ => None,
        };
        if let Some(changed) = changed {
            out.extend_from_slice(&bytes[kept..token.start]);
            push_quoted(&mut out, &changed);
            kept = end;
        }
    }
    if kept == 0 {
        return Ok(None);
    }
    out.extend_from_slice(&bytes[kept..]);
    // Only whole strings were replaced, by strings, so the result is UTF-8.
    Ok(String::from_utf8(out).ok())
}

fn is_name(rest: &[u8], open: Option<&Open>) -> bool {
    open.is_some_and(|open| open.is_object) && rest.trim_ascii_start().starts_with(b":")
}

/// Whether a string ends an array of strings that is inside another array, as in `[["name",
/// "value"]]`.
fn is_pair(rest: &[u8], open: &[Open]) -> bool {
    let arrays = open.iter().rev().take(2).filter(|open| !open.is_object);
    arrays.count() == 2 && rest.trim_ascii_start().starts_with(b"]")
}

/// Members that hold a value whose name is in another member.
const VALUES: [&str; 4] = ["value", "parameterValue", "optionValue", "stringValue"];

/// The name that a string is the value of:
/// - the member's own name;
/// - for `"value"`: the name in the member before it, or the object's name;
/// - for an argument: the flag before it;
/// - for the second element of a pair: the first element;
/// - for an element of a list: the list's name.
fn assigned_to(open: &Open, is_name: bool, is_pair: bool) -> Said<'_> {
    let (before, of) = (open.before.as_deref(), open.of.as_deref());
    let said = match open.name.as_deref().filter(|_| !is_name) {
        Some(name) if is_value(name) => of.or(before),
        None => before.filter(|before| {
            !open.is_object && (before.starts_with('-') || is_pair && open.values == 1)
        }),
        name => name,
    };
    let listed = of.filter(|_| !open.is_object).map(Said::Listed);
    said.map(Said::Value).or(listed).unwrap_or(Said::Text)
}

fn is_value(name: &str) -> bool {
    VALUES.iter().any(|value| name.eq_ignore_ascii_case(value))
}

/// The name of the member that begins in an object, if it denotes secrets, or headers that hold
/// them.
fn secret_of(open: &Open) -> Option<String> {
    let name = open.name.as_deref().filter(|_| open.is_object)?;
    let is_many = name.to_ascii_lowercase().ends_with("passwords");
    let name = &name[..name.len() - usize::from(is_many)];
    (is_cookies(name) || holds(name.as_bytes()).is_some()).then(|| name.to_owned())
}

/// Whether a header with this name holds cookies.
pub(super) fn is_cookies(name: &str) -> bool {
    name.eq_ignore_ascii_case("cookie") || name.eq_ignore_ascii_case("set-cookie")
}

/// The name of the member, if it denotes a password.
fn password_name(open: &Open) -> Option<&str> {
    let name = open.name.as_deref().filter(|_| open.is_object)?;
    (holds(name.as_bytes()) == Some(Holds::Password)).then_some(name)
}

/// Whether a number may be a numeric password.
fn is_password(number: &[u8]) -> bool {
    const DIGITS_MIN: usize = 8;
    number.len() >= DIGITS_MIN && number.iter().all(u8::is_ascii_digit)
}

/// The name in the next member, for a value that comes first: `{"value": …, "name": …}`.
fn name_after(rest: &str, open: &Open) -> Option<String> {
    const NAME_BYTES_MAX: usize = 64;
    /// The string after a sign, and the rest.
    fn string_after(sign: char, rest: &str) -> Option<(String, &str)> {
        let rest = rest.trim_ascii_start().strip_prefix(sign)?;
        let rest = rest.trim_ascii_start();
        let len = rest
            .starts_with('"')
            .then(|| string_len(rest.as_bytes()))??;
        let (text, rest) = rest.split_at(len);
        let is_short = text.len() <= NAME_BYTES_MAX;
        Some((is_short.then(|| serde_json::from_str(text).ok())??, rest))
    }
    let own = open.name.as_deref().filter(|_| open.is_object)?;
    if !is_value(own) {
        return None;
    }
    let (label, rest) = string_after(',', rest)?;
    let (name, _) = string_after(':', rest)?;
    let is_name = label.eq_ignore_ascii_case("name") || label.eq_ignore_ascii_case("key");
    (is_name && holds(name.as_bytes()).is_some()).then_some(name)
}
