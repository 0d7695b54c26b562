//! JSON is kept to the byte but for the strings that hold something.

use serde::de::IgnoredAny;

use crate::record::push_quoted;

/// An object or array that is open.
struct Open {
    is_object: bool,
    /// The name of the member that comes next, and before that the string before it.
    name: Option<String>,
    before: Option<String>,
}

/// Whether a text may be JSON that has strings.
pub(super) fn may_be_json(text: &str) -> bool {
    matches!(
        text.trim_ascii_start().as_bytes().first(),
        Some(b'{' | b'[' | b'"')
    )
}

/// Rewrites the strings of a JSON text: `change` gets each one decoded, with the name that it is
/// assigned to, and says what it becomes, if another. `None` if nothing changes.
///
/// # Errors
/// The text is no JSON.
pub(super) fn rewrite(
    json: &str,
    change: &mut dyn FnMut(Option<&str>, &str) -> Option<String>,
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
            }),
            b'}' | b']' => {
                open.pop();
            }
            b'"' => {
                let end = at + string_len(&bytes[at..]);
                let text: String = serde_json::from_str(&json[at..end])?;
                let is_name = is_name(&bytes[end..], open.last());
                let name = open.last().and_then(|open| assigned_to(open, is_name));
                if let Some(changed) = change(name, &text) {
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

/// What a string is the value of: a member of this name; `"value"`, of what the member before it
/// says; an argument, of the flag before it.
fn assigned_to(open: &Open, is_name: bool) -> Option<&str> {
    let before = open.before.as_deref();
    match open.name.as_deref().filter(|_| !is_name) {
        Some("value") => before,
        None => before.filter(|before| !open.is_object && before.starts_with("--")),
        name => name,
    }
}
