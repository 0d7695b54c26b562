//! Values assigned to a name that identifies a secret: `password=`, `"api_key": "…"`, `--token …`.
//! The rules favour precision, because most text next to such names is code.

use super::Found;
use super::blocks::putty_key;
use super::bytes::{
    contains, ends_in, is_blank, is_digit, is_of_name, is_space, run, run_before, skip,
};
use super::commands::{given, piped_password};
use super::context::{Place, session_cookies};
use super::elements::{
    element, expansion, form_part, is_expansion, is_name_of_value, value_before,
};
use super::extent::{braced_at, value_at};
use super::json::is_cookies;
use super::literal::{literal_end, word_end};
use super::names::{Holds, holds, is_foreign};
use super::operators::{Operator, default_after, operator_after};
use super::runs::{Class, Runs};
use super::text::starts_word;
use super::values::{Written, secret_at, secret_in, signed_word};

/// Maximum length of a name that is considered.
pub(super) const NAME_BYTES_MAX: usize = 64;
/// Maximum distance between the `password` of a `.netrc` and its `machine`, in JSON whose strings
/// are not decoded.
const RAW_BYTES: usize = 512;

/// The secrets assigned to the name that contains the anchor.
pub(super) fn assignments(place: &Place<'_>, all: &mut Vec<Found>) {
    match assignment(place) {
        Some(found) => all.push(found),
        None => list(place, all),
    }
}

/// The strings of a list: `passwords = ["…", "…"]`.
fn list(place: &Place<'_>, all: &mut Vec<Found>) {
    const BYTES_MAX: usize = 4096;
    let text = place.text;
    let name = name_around(text, place.at);
    let near = &text[name.1..text.len().min(name.1 + 8)];
    let Some(bracket) = memchr::memchr(b'[', near).map(|at| name.1 + at) else {
        return;
    };
    let said = &text[name.0..name.1];
    let is_many = said.to_ascii_lowercase().ends_with(b"passwords");
    let operator = operator_after(text, name).filter(|it| skip(text, it.end, is_blank) == bracket);
    let holds = holds(&said[..said.len() - usize::from(is_many)]);
    // The values of an `Authorization` are recognized by their scheme.
    let holds = holds.filter(|holds| *holds != Holds::Authorization);
    let (Some(holds), Some(_)) = (holds, operator) else {
        return;
    };
    let mut at = bracket;
    while matches!(text.get(at), Some(b'[' | b',')) && at - bracket < BYTES_MAX {
        let Some(value) = value_at(text, place.runs, Operator::of_quoted(at + 1)) else {
            return;
        };
        all.extend(secret_at(
            holds,
            text,
            value.start..value.end,
            Written::Listed,
        ));
        let end = quote_at(text, value.end).map_or(value.end, |(end, _)| end);
        at = skip(text, end, is_space);
    }
}

/// The secret assigned to the name that contains the anchor.
fn assignment(place: &Place<'_>) -> Option<Found> {
    let text = place.text;
    if goes_on(place) {
        return None;
    }
    if let Some(found) = putty_key(place) {
        return Some(found);
    }
    let mut name = name_around(text, place.at + usize::from(text[place.at] == b'"'));
    if !text[place.at..place.after].is_ascii() {
        name.1 = place.after;
    }
    if is_expansion(text, name) {
        return expansion(text, name);
    }
    if place.is_raw {
        let is_command = text[name.0..name.1].ends_with(b"sshpass");
        let may_be = is_command
            || may_be_assigned(text, name) && held(text, name).is_some()
            || text[..name.0].ends_with(b"<key>");
        // In raw JSON, the words of a `.netrc` may be separated by escapes.
        let before = &text[name.0.saturating_sub(RAW_BYTES)..name.0];
        let is_netrc = text[name.0..name.1].ends_with(b"password") && contains(before, b"machine");
        if may_be || is_netrc {
            return Some(Found::new(Holds::Secret.name(), name.0, name.1));
        }
    }
    let beside = element(place, name)
        .or_else(|| form_part(place, name))
        .or_else(|| value_before(place, name))
        .or_else(|| command(place, name));
    if beside.is_some() {
        return beside;
    }
    if is_in_resource(text, name.0) {
        return None;
    }
    let operator = operator_after(text, name).or_else(|| default_after(text, name))?;
    let holds = held(text, name)?;
    let mut value =
        braced_at(text, name.0, operator.end).or_else(|| value_at(text, place.runs, operator))?;
    if holds == Holds::Authorization && !value.is_quoted && text.get(value.end) == Some(&b' ') {
        // The value found so far is the scheme.
        value.end = place.runs.end(Class::Unquoted, value.end + 1);
    }
    if place.is_raw && !value.is_quoted {
        // The start and end of the line are not known yet in raw JSON.
        let may_be = |end: usize, written| secret_in(holds, &text[value.start..end], written);
        let signed = || signed_word(&text[value.start..value.end]).filter(|_| operator.is_said);
        may_be(value.end, Written::Literal)
            .or_else(|| may_be(word_end(text, &value), Written::Literal))
            .or_else(|| may_be(value.end, Written::Bare))
            .or_else(signed)?;
        return Some(Found::new(holds.name(), name.0, name.1));
    }
    let is_foreign = is_foreign(&text[name.0..name.1]) || is_french(text, name);
    let is_listed = operator.needs_quote || value.is_fallback || is_foreign;
    let written = if value.is_quoted && is_listed {
        Written::Listed
    } else if value.is_quoted {
        Written::Quoted
    } else if is_foreign && !text[name.1..].starts_with(b"=") {
        Written::Bare
    } else {
        literal_end(text, name, &value).map_or(Written::Bare, |end| {
            value.end = end;
            Written::Literal
        })
    };
    let said = &text[value.start..value.end];
    let signed = || signed_word(said).filter(|_| operator.is_said && written == Written::Bare);
    let (start, end) = secret_in(holds, said, written).or_else(signed)?;
    if written == Written::Bare && !ends_plainly(text, value.start + end) {
        return None;
    }
    let end = value.lines_end.unwrap_or(value.start + end);
    Some(Found::new(holds.name(), value.start + start, end))
}

/// Whether the name at `at` is part of a resource name: `arn:aws:secretsmanager:…:secret:…`.
fn is_in_resource(text: &[u8], at: usize) -> bool {
    const BEFORE_BYTES_MAX: usize = 128;
    let is_of_path = |byte| is_of_name(byte) || matches!(byte, b':' | b'/');
    let start = at - run_before(text, at, BEFORE_BYTES_MAX, is_of_path);
    text[..at].ends_with(b":") && text[start..at].starts_with(b"arn:")
}

/// The password after `sshpass -p`, or after `password` in a `.netrc`.
fn command(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    const BEFORE_BYTES_MAX: usize = 256;
    let text = place.text;
    let blanks = skip(text, name.1, is_space);
    let value = match &text[name.0..name.1] {
        b"sshpass" => {
            let flag = text[blanks..].strip_prefix(b"-p")?;
            skip(text, text.len() - flag.len(), is_blank)
        }
        b"--password-stdin" => return piped_password(place, name.0, false),
        b"chpasswd" => return piped_password(place, name.0, true),
        b"password" if blanks > name.1 => {
            let before = &text[name.0.saturating_sub(BEFORE_BYTES_MAX)..name.0];
            let mut words = before
                .rsplit(u8::is_ascii_whitespace)
                .filter(|word| !word.is_empty());
            let (_, login, _, machine) = (words.next(), words.next(), words.next(), words.next());
            (login == Some(b"login") && machine == Some(b"machine")).then_some(blanks)?
        }
        _ => return None,
    };
    given(place, value, Written::Literal)
}

/// Whether the word continues after the anchor, as in `tokens` or `passed`, and is therefore
/// another word. Checked first, because such words are frequent.
fn goes_on(place: &Place<'_>) -> bool {
    let at = |at: usize| place.text.get(at).copied().unwrap_or_default();
    let (last, next) = (at(place.after - 1), at(place.after));
    // `password`, `passphrase`, `passcode`.
    let is_pass = last.eq_ignore_ascii_case(&b's') && matches!(next | 0x20, b'w' | b'p' | b'c');
    let is_one_word = if last.is_ascii_lowercase() {
        next.is_ascii_lowercase()
    } else {
        next.is_ascii_uppercase() && !at(place.after + 1).is_ascii_lowercase()
    };
    // `mot de passe`
    let before = &place.text[..place.at];
    let is_apart = before
        .last()
        .is_some_and(|byte| !byte.is_ascii_alphanumeric());
    let before = &before[..before.len() - usize::from(is_apart)];
    let is_french = next | 0x20 == b'e' && ends_in(before, b"de");
    is_one_word && !is_pass && !is_french
}

/// Whether a value may be assigned to a name in JSON whose strings are not decoded. The contents of
/// strings and escapes are not known yet.
fn may_be_assigned(text: &[u8], name: (usize, usize)) -> bool {
    const NEAR_BYTES: usize = 160;
    let is_escape = |at: usize| text.get(at) == Some(&b'\\');
    // The next column of a table.
    if is_name_of_value(text, name.0) || text[name.1..].starts_with(b"  ") {
        return true;
    }
    let after = quote_at(text, name.1).map_or(name.1, |(end, _)| end);
    if is_escape(skip(text, after, is_blank)) {
        return true;
    }
    let operator = operator_after(text, name).or_else(|| default_after(text, name));
    let Some(operator) = operator else {
        return false;
    };
    // A wrapper around a value, or the start of a block, has an escape nearby.
    let near = &text[operator.end..text.len().min(operator.end + NEAR_BYTES)];
    let at = skip(text, operator.end, is_space);
    near.contains(&b'\\')
        || quote_at(text, at).is_some()
        || matches!(text.get(at), Some(b'[' | b'{'))
}

/// The secrets in the whole value that a document assigns to a name.
pub(super) fn member(name: &str, value: &str, written: Written, all: &mut Vec<Found>) {
    let is_name = name
        .bytes()
        .all(|byte| is_of_name(byte) || matches!(byte, b'.' | b' ' | b'$') || !byte.is_ascii());
    if !is_name || name.len() > NAME_BYTES_MAX {
        return;
    }
    let value = value.as_bytes();
    if is_cookies(name) {
        return session_cookies(value, &Runs::new(value), 0, all);
    }
    let name = name.as_bytes();
    let last = name.len() - run_before(name, name.len(), usize::MAX, is_of_name);
    if is_foreign(name) {
        let (holds, written) = (Holds::Password, Written::Listed);
        all.extend(secret_at(holds, value, 0..value.len(), written));
    } else if let Some(holds) = holds(&name[last..]) {
        all.extend(secret_at(holds, value, 0..value.len(), written));
    }
}

/// The range of the name that contains the byte at `at`.
fn name_around(text: &[u8], at: usize) -> (usize, usize) {
    let mut start = at - run_before(text, at, NAME_BYTES_MAX, is_of_name);
    let end = at + run(text, at, NAME_BYTES_MAX, is_of_name);
    // The letter of an undecoded escape.
    if start < at && start > 0 && text[start - 1] == b'\\' && starts_word(text, start + 1) {
        start += 1;
    }
    (start, end)
}

/// The kind of secret that a name denotes. In prose, `API key` contains a blank.
fn held(text: &[u8], name: (usize, usize)) -> Option<Holds> {
    let said = &text[name.0..name.1];
    if is_french(text, name) {
        return Some(Holds::Password);
    }
    holds(said).or_else(|| {
        let is_key = said.eq_ignore_ascii_case(b"key");
        let before = name.0.checked_sub(1).filter(|_| is_key)?;
        let (start, end) = name_around(text, before);
        (text[before] == b' ' && start < end).then(|| holds(&text[start..name.1]))?
    })
}

/// `mot de passe`
fn is_french(text: &[u8], name: (usize, usize)) -> bool {
    ends_in(&text[..name.1], b"mot de passe")
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// A quote, possibly escaped: its end, and its byte with the number of backslashes.
pub(super) fn quote_at(text: &[u8], at: usize) -> Option<(usize, (u8, usize))> {
    let end = skip(text, at, |byte| byte == b'\\');
    let quote = *text.get(end).filter(|byte| is_quote(**byte))?;
    Some((end + 1, (quote, end - at)))
}

/// The start of a line's text after the line number of a listing: `    12→`.
pub(super) fn after_gutter(text: &[u8], line: usize) -> usize {
    let number = skip(text, line, is_blank);
    let end = skip(text, number, is_digit);
    let rest = text.get(end..).unwrap_or_default();
    let mut marks = ["→", "\t", ":", " |", " │"].iter();
    let mark = marks.find(|mark| end > number && rest.starts_with(mark.as_bytes()));
    mark.map_or(line, |mark| end + mark.len())
}

/// Whether the text after an unquoted value allows it to be more than code.
fn ends_plainly(text: &[u8], end: usize) -> bool {
    !matches!(text.get(end), Some(b'(' | b'[' | b'{' | b'<'))
}
