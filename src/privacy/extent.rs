//! The extent of the value of an assignment: quoted, in calls that only wrap it, in a YAML block,
//! or unquoted.

use super::assignment::{after_gutter, quote_at};
use super::bytes::{is_blank, is_of_name, is_space, run, skip};
use super::names::words;
use super::operators::Operator;
use super::runs::{Class, Runs};
use super::values::VALUE_BYTES_MAX;

/// The value of an assignment.
pub(super) struct Value {
    pub start: usize,
    pub end: usize,
    pub is_quoted: bool,
    /// It is the fallback of another value: `getenv("P") or "…"`.
    pub is_fallback: bool,
    /// The end of the block whose first line is this value.
    pub lines_end: Option<usize>,
}

impl Value {
    fn new(start: usize, end: usize, is_quoted: bool) -> Value {
        Value {
            start,
            end,
            is_quoted,
            is_fallback: false,
            lines_end: None,
        }
    }
}

pub(super) fn value_at(text: &[u8], runs: &Runs<'_>, operator: Operator) -> Option<Value> {
    let mut at = skip(text, operator.end, is_blank);
    // `**Password:** …`
    let stress = skip(text, at, |byte| matches!(byte, b'*' | b'_'));
    if stress > at && text.get(stress).is_some_and(|byte| is_blank(*byte)) {
        at = skip(text, stress, is_blank);
    }
    if let Some(block) = block_at(text, runs, at) {
        return Some(block);
    }
    let inner = within_calls(text, at);
    if inner > at {
        at = inner;
        quote_at(text, at)?;
    }
    // `password: &anchor …`
    if text[..operator.end].ends_with(b":") && text.get(at) == Some(&b'&') {
        let end = skip(text, at + 1, is_of_name);
        let next = skip(text, end, is_blank);
        if next > end && !matches!(text.get(next), Some(b'\n' | b'\r')) {
            at = next;
        }
    }
    let first = skip(text, at, is_space);
    let fallback = fallback_at(text, first);
    at = fallback.unwrap_or(at);
    if operator.needs_quote || matches!(text.get(at), Some(b'\n' | b'\r')) {
        // A value on its own line belongs to a document.
        at = skip(text, at, is_space);
        quote_at(text, at)?;
    }
    // Byte strings, raw strings and shell strings.
    if matches!(text.get(at), Some(b'b' | b'r' | b'f' | b'$' | b'@'))
        && quote_at(text, at + 1).is_some()
    {
        at += 1;
    }
    let Some((mut start, quote)) = quote_at(text, at) else {
        let end = unquoted_end(text, runs, at);
        return (end - at <= VALUE_BYTES_MAX).then(|| Value::new(at, end, false));
    };
    // `"""…"""`
    if quote.1 == 0 && text[start..].starts_with(&[quote.0; 2]) {
        start += 2;
    }
    let mut backslashes = 0;
    let inside = text[start..].iter().take(VALUE_BYTES_MAX + 1);
    let len = inside.enumerate().find_map(|(len, byte)| {
        let is_as_escaped = match quote.1 {
            0 => backslashes % 2 == 0,
            most => backslashes == most,
        };
        let is_end = *byte == quote.0 && is_as_escaped;
        let escapes = backslashes;
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        is_end.then(|| len - escapes.min(quote.1))
    });
    let is_cut = text.len() - start <= VALUE_BYTES_MAX;
    let end = match len {
        Some(len) => start + len,
        // The text was cut off before the closing quote.
        None if is_cut => runs.end(Class::Unquoted, start),
        None => return None,
    };
    Some(Value {
        is_fallback: fallback.is_some(),
        ..Value::new(start, end, true)
    })
}

/// Start of the quoted fallback for the expression at `at`: after `||`, `??`, `?:` or `or`, or the
/// second argument of a function that reads a setting.
fn fallback_at(text: &[u8], at: usize) -> Option<usize> {
    const NEAR_BYTES: usize = 160;
    const OPERATORS: [&[u8]; 4] = [b"||", b"??", b"?:", b" or "];
    const READS: [&str; 6] = ["get", "getenv", "env", "fetch", "config", "default"];
    let near = &text[..text.len().min(at + NEAR_BYTES)];
    let first = near.get(at)?;
    if !(first.is_ascii_alphabetic() || matches!(first, b'$' | b'_')) {
        return None;
    }
    let quote_after = |at: usize| {
        let at = skip(near, at, is_space);
        quote_at(near, at).map(|_| at)
    };
    let (mut next, mut calls) = (at, Vec::new());
    while let Some(byte) = near.get(next) {
        let rest = &near[next..];
        if let Some(operator) = OPERATORS.iter().find(|known| rest.starts_with(known)) {
            return quote_after(next + operator.len());
        }
        match byte {
            b'(' | b'[' => calls.push(next),
            b')' | b']' => {
                calls.pop()?;
            }
            b',' => {
                let callee = &near[at..*calls.last()?];
                let last = words(callee).pop()?;
                return READS.contains(&&*last).then(|| quote_after(next + 1))?;
            }
            b'"' | b'\'' => {
                let len = memchr::memchr(*byte, &rest[1..])?;
                next += len + 1;
            }
            b';' | b'{' | b'}' | b'=' => return None,
            b'\n' => {
                let line = &near[skip(near, next, is_space)..];
                let goes_on = OPERATORS[..3].iter().any(|known| line.starts_with(known));
                (goes_on || !calls.is_empty()).then_some(())?;
            }
            _ => {}
        }
        next += 1;
    }
    None
}

/// The text in the braces of `;PWD={…};`, as in database connection strings.
pub(super) fn braced_at(text: &[u8], name: usize, at: usize) -> Option<Value> {
    let inside = text[at..].strip_prefix(b"{")?;
    let inside = &inside[..inside.len().min(VALUE_BYTES_MAX)];
    let len = memchr::memchr(b'}', inside)?;
    let is_setting = text[..name].ends_with(b";") && text[..at].ends_with(b"=");
    is_setting.then(|| Value::new(at + 1, at + 1 + len, true))
}

/// The end of an unquoted value. `&` is part of it, unless it begins another parameter, a command
/// or an HTML entity.
pub(super) fn unquoted_end(text: &[u8], runs: &Runs<'_>, at: usize) -> usize {
    const NAME_BYTES_MAX: usize = 64;
    const ENTITIES: [&[u8]; 6] = [b"amp", b"quot", b"lt", b"gt", b"apos", b"nbsp"];
    let mut end = runs.end(Class::Unquoted, at);
    while text.get(end) == Some(&b'&') && end - at <= VALUE_BYTES_MAX {
        let rest = &text[end + 1..];
        let is_of_next = |byte| is_of_name(byte) || matches!(byte, b'.' | b'#');
        let (name, after) = rest.split_at(run(rest, 0, NAME_BYTES_MAX, is_of_next));
        let is_next = match after.first() {
            Some(b'=' | b'[') => true,
            Some(b';') => ENTITIES.contains(&name) || name.starts_with(b"#"),
            _ => false,
        };
        let word = rest.strip_prefix(b"&").unwrap_or(rest);
        let is_last = match word.first() {
            Some(b'&') => false,
            next => next.is_none_or(|byte| !Class::Unquoted.has(*byte)),
        };
        if is_next || is_last {
            break;
        }
        end = runs.end(Class::Unquoted, end + 1);
    }
    end
}

/// The first line of the YAML block whose `|` or `>` is at `at`.
fn block_at(text: &[u8], runs: &Runs<'_>, at: usize) -> Option<Value> {
    if !matches!(text.get(at), Some(b'|' | b'>')) {
        return None;
    }
    let is_mark = |byte: u8| matches!(byte, b'+' | b'-' | b'0'..=b'9');
    let indent_at = |at: usize| {
        let at = skip(text, at, is_blank);
        let line = at + usize::from(text.get(at) == Some(&b'\r'));
        (text.get(line) == Some(&b'\n')).then(|| after_gutter(text, line + 1))
    };
    let line = indent_at(skip(text, at + 1, is_mark))?;
    let start = skip(text, line, is_blank);
    let indent = &text[line..start];
    let end = runs.end(Class::Unquoted, start);
    let is_line = !indent.is_empty() && end > start && end - start <= VALUE_BYTES_MAX;
    let mut lines_end = end;
    while let Some(next) = indent_at(lines_end).filter(|_| lines_end - start < VALUE_BYTES_MAX) {
        let is_indented = text[next..].starts_with(indent);
        let next = next + if is_indented { indent.len() } else { 0 };
        let end = runs.end(Class::Unquoted, next);
        let is_more = text[..next].ends_with(indent)
            && end > next
            && (end == text.len() || indent_at(end).is_some());
        if !is_more {
            break;
        }
        lines_end = end;
    }
    is_line.then(|| Value {
        lines_end: (lines_end > end).then_some(lines_end),
        ..Value::new(start, end, false)
    })
}

/// The start of a value inside calls that only wrap it: `Some("…")`, `SecretString::from("…")`.
fn within_calls(text: &[u8], mut at: usize) -> usize {
    const CALLS_MAX: usize = 4;
    const CALLS: [&[u8]; 20] = [
        b"Some(",
        b".some(",
        b"Ok(",
        b"Just(",
        b"String::from(",
        b"std::string::String::from(",
        b"SecretString::from(",
        b"SecretString::new(",
        b"SecretString(",
        b"SecretStr(",
        b"Secret::new(",
        b"Secret(",
        b"Password(",
        b"Box::from(",
        b"Arc::from(",
        b"Cow::from(",
        b"Cow::Borrowed(",
        b"new String(",
        b"Optional.of(",
        b"str(",
    ];
    for _ in 0..CALLS_MAX {
        let rest = &text[at..];
        let Some(call) = CALLS.iter().find(|call| rest.starts_with(call)) else {
            break;
        };
        at = skip(text, at + call.len(), is_space);
    }
    at
}
