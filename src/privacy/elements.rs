//! Values separated from their names by brackets: XML elements, forms, shell expansions.

use super::Found;
use super::assignment::quote_at;
use super::bytes::{is_blank, is_of_name, is_space, run, run_before, skip, trim_end};
use super::context::Place;
use super::names::holds;
use super::runs::Class;
use super::values::{VALUE_BYTES_MAX, Written, secret_at};

/// The content of `<password>…</password>` or `<property name="password">…</property>`.
pub(super) fn element(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    let text = place.text;
    let is_of_prefix = |byte| is_of_name(byte) || byte == b':';
    let prefix = run_before(text, name.0, TAG_BYTES_MAX, is_of_prefix);
    let (end, written) = if text[..name.0].ends_with(b"<key>") {
        (key_end(text, name.1)?, Some(Written::Quoted))
    } else if text[..name.0 - prefix].ends_with(b"<") {
        (tag_end(text, name.1)?, Some(Written::Quoted))
    } else {
        (quote_at(text, name.1)?.0, None)
    };
    let mut inside = (text.get(end) == Some(&b'>')).then_some(end + 1)?;
    let written = written.or_else(|| tag_of_name(text, name.0))?;
    let is_data = text[inside..].starts_with(DATA);
    let stop = if is_data { b']' } else { b'<' };
    inside += if is_data { DATA.len() } else { 0 };
    let end = inside + run(text, inside, VALUE_BYTES_MAX, |byte| byte != stop);
    let rest = &text[end..];
    let ends = if is_data { &b"]]>"[..] } else { b"</" };
    let closes = rest.starts_with(ends) || place.is_raw && rest.starts_with(b"<\\/");
    let holds = holds(&text[name.0..name.1]).filter(|_| closes)?;
    secret_at(holds, text, inside..end, written)
}

/// Start of a CDATA section, in which `<` is text.
const DATA: &[u8] = b"<![CDATA[";
/// Maximum length of a tag that is considered.
const TAG_BYTES_MAX: usize = 128;

/// The end of the tag whose name ends at `at`, after its attributes.
fn tag_end(text: &[u8], at: usize) -> Option<usize> {
    let is_inside = |byte| !matches!(byte, b'<' | b'>');
    let end = at + run(text, at, TAG_BYTES_MAX, is_inside);
    let is_tag = end == at || text[at].is_ascii_whitespace() && text[end - 1] != b'/';
    is_tag.then_some(end)
}

/// Start of the value after a key in a property list: `<key>password</key><string>…`.
fn key_end(text: &[u8], at: usize) -> Option<usize> {
    let rest = text[at..].strip_prefix(b"</key>")?;
    let rest = rest.trim_ascii_start().strip_prefix(b"<string")?;
    Some(text.len() - rest.len())
}

/// Whether the name at `at` is the value of `name:` or `key:` in a list of name and value pairs.
pub(super) fn is_name_of_value(text: &[u8], at: usize) -> bool {
    before_label(text, at).is_some()
}

/// End of the text before `name:`, if the name at `at` is its value.
fn before_label(text: &[u8], at: usize) -> Option<usize> {
    const BEFORE_BYTES_MAX: usize = 32;
    let is_quote = |byte: u8| matches!(byte, b'"' | b'\'' | b'\\');
    let first = at.saturating_sub(BEFORE_BYTES_MAX);
    let back = |at: usize, class: fn(u8) -> bool| {
        at - run_before(text, at, at.saturating_sub(first), class)
    };
    let colon = back(back(at, is_quote), |byte| byte == b' ');
    let label = back(text[..colon].strip_suffix(b":")?.len(), is_quote);
    let start = back(label, |byte| byte.is_ascii_alphabetic());
    let is_label = |known: &[u8]| text[start..label].eq_ignore_ascii_case(known);
    (is_label(b"name") || is_label(b"key")).then(|| back(start, is_quote))
}

/// A value that precedes its name in a list: `value: …`, `name: API_TOKEN`.
pub(super) fn value_before(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    const VALUE: &[u8] = b"value";
    let text = place.text;
    let end = before_label(text, name.0)?;
    let first = end.saturating_sub(VALUE_BYTES_MAX);
    let before = text[first..end].trim_ascii_end();
    let before = before.strip_suffix(b",").unwrap_or(before).trim_ascii_end();
    let line = memchr::memmem::rfind(before, VALUE)?;
    let sign = quote_at(before, line + VALUE.len()).map_or(line + VALUE.len(), |(end, _)| end);
    let colon = skip(before, sign, is_blank);
    let at = (before.get(colon) == Some(&b':')).then(|| skip(before, colon + 1, is_blank))?;
    let quoted = quote_at(before, at);
    let start = quoted.map_or(at, |(start, _)| start);
    let value = &before[start..];
    let stops = |byte| is_space(byte) || matches!(byte, b'"' | b'\'' | b'\\');
    let len = run(value, 0, usize::MAX, |byte| !stops(byte));
    let end = quoted.and_then(|_| quote_at(value, len));
    let is_whole = end.map_or(len, |(end, _)| end) == value.len();
    let written = quoted.map_or(Written::Bare, |_| Written::Quoted);
    let holds = holds(&text[name.0..name.1])?;
    let start = first + start;
    secret_at(holds, text, start..start + len, written).filter(|_| is_whole)
}

/// How the value is written in an element whose `name` or `key` ends with the name at `at`. Only
/// some elements hold settings; others hold text for people.
fn tag_of_name(text: &[u8], at: usize) -> Option<Written> {
    let before = &text[at.saturating_sub(TAG_BYTES_MAX)..at];
    let before = trim_end(before, |byte| Class::Dotted.has(byte));
    let (quote, before) = before.split_last()?;
    let before = trim_end(before, |byte| byte == b'\\').strip_suffix(b"=")?;
    let is_name = before.ends_with(b" name") || before.ends_with(b" key");
    let tag = &before[memchr::memrchr(b'<', before)? + 1..];
    let tag = tag.split(u8::is_ascii_whitespace).next()?;
    // In a schema, the next attribute is a type.
    let is_name = is_name && matches!(quote, b'"' | b'\'') && !tag.ends_with(b"element");
    is_name.then_some(match tag {
        b"property" | b"entry" | b"prop" | b"param" | b"setting" | b"constant" | b"Parameter" => {
            Written::Quoted
        }
        _ => Written::Listed,
    })
}

/// The value of a form part, `Content-Disposition: form-data; name="password"`, after the empty
/// line.
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
    let is_of_line = |byte| !matches!(byte, b'\r' | b'\n');
    let end = start + run(text, start, VALUE_BYTES_MAX, is_of_line);
    let holds = holds(&text[name.0..name.1])?;
    secret_at(holds, text, start..end, Written::Quoted)
}

/// Whether the name is a shell variable that is expanded with a default: `${DB_PASSWORD:-…}`.
pub(super) fn is_expansion(text: &[u8], name: (usize, usize)) -> bool {
    let is_sign = |byte: &u8| matches!(byte, b':' | b'-' | b'=' | b'?' | b'+');
    text[..name.0].ends_with(b"${") && text.get(variable_end(text, name)).is_some_and(is_sign)
}

/// End of the variable's name, which contains no dash.
fn variable_end(text: &[u8], name: (usize, usize)) -> usize {
    let dash = memchr::memchr(b'-', &text[name.0..name.1]);
    dash.map_or(name.1, |len| name.0 + len)
}

/// The default of an unset variable. The error message (`?`) and the alternative for a set variable
/// (`+`) are not values.
pub(super) fn expansion(text: &[u8], name: (usize, usize)) -> Option<Found> {
    let name_end = variable_end(text, name);
    let colon = usize::from(text.get(name_end) == Some(&b':'));
    let start = match text.get(name_end + colon)? {
        b'-' | b'=' => name_end + colon + 1,
        b'?' | b'+' => return None,
        // The notation of Spring's configuration files.
        _ => name_end + colon,
    };
    let is_quote = |byte| matches!(byte, b'"' | b'\'' | b'\\');
    let is_inside = |byte| !matches!(byte, b'}' | b'\n');
    let value = &text[..start + run(text, start, VALUE_BYTES_MAX, is_inside)];
    let start = skip(value, start, is_quote);
    let end = start + trim_end(&value[start..], is_quote).len();
    let holds = holds(&text[name.0..name_end])?;
    secret_at(holds, text, start..end, Written::Literal)
}
