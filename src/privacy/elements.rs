//! Values that brackets part from their names: elements of XML, parts of forms, expansions of shells.

use super::Found;
use super::assignment::{found, is_of_name, quote_at};
use super::context::Place;
use super::names::holds;
use super::values::{VALUE_BYTES_MAX, Written, secret_in};

/// What `<password>…</password>` holds, or `<property name="password">…</property>`.
pub(super) fn element(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    let text = place.text;
    let is_tag = text[..name.0].ends_with(b"<");
    let end = if is_tag {
        name.1
    } else {
        quote_at(text, name.1)?.0
    };
    let inside = (text.get(end) == Some(&b'>')).then_some(end + 1)?;
    let written = if is_tag {
        Written::Quoted
    } else {
        tag_of_name(text, name.0)?
    };
    let value = text[inside..].iter().take(VALUE_BYTES_MAX);
    let len = value.take_while(|byte| **byte != b'<').count();
    let (value, rest) = text[inside..].split_at(len);
    let closes = rest.starts_with(b"</") || place.is_raw && rest.starts_with(b"<\\/");
    let holds = holds(&text[name.0..name.1])?;
    let (start, end) = secret_in(holds, value, written)?;
    closes.then(|| found(holds, inside + start, inside + end))
}

/// How the value is written in an element whose `name` or `key` ends with the name at `at`: only
/// some hold settings, others what is shown to a person.
fn tag_of_name(text: &[u8], at: usize) -> Option<Written> {
    const TAG_BYTES_MAX: usize = 128;
    const SETTINGS: [&[u8]; 7] = [
        b"property",
        b"entry",
        b"prop",
        b"param",
        b"setting",
        b"constant",
        b"Parameter",
    ];
    let before = &text[at.saturating_sub(TAG_BYTES_MAX)..at];
    let path = before.iter().rev();
    let path = path.take_while(|byte| is_of_name(**byte) || **byte == b'.');
    let before = &before[..before.len() - path.count()];
    let (quote, before) = before.split_last()?;
    let escapes = before.iter().rev().take_while(|byte| **byte == b'\\');
    let before = before[..before.len() - escapes.count()].strip_suffix(b"=")?;
    let is_name = matches!(quote, b'"' | b'\'')
        && [&b" name"[..], b" key"]
            .iter()
            .any(|name| before.ends_with(name));
    let tag = before[memchr::memrchr(b'<', before)? + 1..]
        .split(u8::is_ascii_whitespace)
        .next()?;
    let is_setting = SETTINGS.contains(&tag);
    // In a schema, what follows is a type.
    let is_name = is_name && !tag.ends_with(b"element");
    is_name.then_some(if is_setting {
        Written::Quoted
    } else {
        Written::Listed
    })
}

/// The value of a part of a form, `Content-Disposition: form-data; name="password"`: it follows an
/// empty line.
pub(super) fn form_part(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    const BEFORE_BYTES_MAX: usize = 96;
    const HEADERS_MAX: usize = 4;
    const HEADER_BYTES_MAX: usize = 256;
    let text = place.text;
    let line_end = |at: usize| {
        let end = at + usize::from(text.get(at) == Some(&b'\r'));
        (text.get(end) == Some(&b'\n')).then_some(end + 1)
    };
    let mut line = line_end(quote_at(text, name.1)?.0)?;
    let before = &text[name.0.saturating_sub(BEFORE_BYTES_MAX)..name.0];
    memchr::memmem::find(before, b"form-data")?;
    let mut headers = 0;
    let start = loop {
        if let Some(start) = line_end(line) {
            break start;
        }
        let near = &text[line..text.len().min(line + HEADER_BYTES_MAX)];
        line += memchr::memchr(b'\n', near).filter(|_| headers < HEADERS_MAX)? + 1;
        headers += 1;
    };
    let value = text[start..].iter().take(VALUE_BYTES_MAX);
    let len = value
        .take_while(|byte| !matches!(byte, b'\r' | b'\n'))
        .count();
    let holds = holds(&text[name.0..name.1])?;
    let (from, to) = secret_in(holds, &text[start..start + len], Written::Quoted)?;
    Some(found(holds, start + from, start + to))
}

/// Whether the name at `name` is one of a shell's variable, with what it is if that is not set:
/// `${DB_PASSWORD:-…}`.
pub(super) fn is_expansion(text: &[u8], name: (usize, usize)) -> bool {
    let is_sign = |byte: &u8| matches!(byte, b':' | b'-' | b'=' | b'?' | b'+');
    text[..name.0].ends_with(b"${") && text.get(variable_end(text, name)).is_some_and(is_sign)
}

/// Where the name of a variable ends, which has no dash.
fn variable_end(text: &[u8], name: (usize, usize)) -> usize {
    let dash = memchr::memchr(b'-', &text[name.0..name.1]);
    dash.map_or(name.1, |len| name.0 + len)
}

/// What a variable is if it is not set; not what is said then, or what it is if it is set.
pub(super) fn expansion(text: &[u8], name: (usize, usize)) -> Option<Found> {
    let name_end = variable_end(text, name);
    let colon = usize::from(text.get(name_end) == Some(&b':'));
    let start = match text.get(name_end + colon)? {
        b'-' | b'=' => name_end + colon + 1,
        b'?' | b'+' => return None,
        // As files of Spring have it.
        _ => name_end + colon,
    };
    let is_quote = |byte: &&u8| matches!(**byte, b'"' | b'\'' | b'\\');
    let rest = text[start..].iter().take(VALUE_BYTES_MAX);
    let len = rest.take_while(|byte| !matches!(byte, b'}' | b'\n'));
    let value = &text[start..start + len.count()];
    let before = value.iter().take_while(is_quote).count();
    let value = &value[before..];
    let value = &value[..value.len() - value.iter().rev().take_while(is_quote).count()];
    let holds = holds(&text[name.0..name_end])?;
    let (from, to) = secret_in(holds, value, Written::Literal)?;
    let start = start + before;
    Some(found(holds, start + from, start + to))
}
