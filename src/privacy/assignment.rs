//! What is assigned to a name that says it is a secret: `password=`, `"api_key": "…"`,
//! `--token …`. Precision is all here: most of what stands beside such names is code.

use super::Found;
use super::blocks::putty_key;
use super::commands::piped_password;
use super::context::{Place, session_cookies};
use super::elements::{element, expansion, form_part, is_expansion};
use super::extent::value_at;
use super::literal::{literal_end, word_end};
use super::names::{Holds, holds, is_foreign, words};
use super::runs::{Class, Runs};
use super::text::starts_word;
use super::values::{Written, secret_in, signed_word};

/// The longest name that is looked at.
const NAME_BYTES_MAX: usize = 64;
/// How far before a name its machine may be, in JSON whose strings are not decoded.
const RAW_BYTES: usize = 512;

/// The secret that is assigned to the name in which the anchor is.
pub(super) fn assignment(place: &Place<'_>) -> Option<Found> {
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
        let may_be = is_command || may_be_assigned(text, name) && held(text, name).is_some();
        // In a `.netrc`, escapes part the words.
        let before = &text[name.0.saturating_sub(RAW_BYTES)..name.0];
        let is_netrc = text[name.0..name.1].ends_with(b"password")
            && memchr::memmem::find(before, b"machine").is_some();
        if may_be || is_netrc {
            return Some(found(Holds::Secret, name.0, name.1));
        }
    }
    let beside = element(place, name)
        .or_else(|| form_part(place, name))
        .or_else(|| command(place, name));
    if beside.is_some() {
        return beside;
    }
    let operator = operator_after(text, name).or_else(|| default_after(text, name))?;
    let holds = held(text, name)?;
    let mut value = value_at(text, place.runs, operator)?;
    if holds == Holds::Authorization && !value.is_quoted && text.get(value.end) == Some(&b' ') {
        // What was found is the scheme.
        value.end = place.runs.end(Class::Unquoted, value.end + 1);
    }
    if place.is_raw && !value.is_quoted {
        // Where its line begins and ends is not known yet.
        let may_be = |end: usize, written| secret_in(holds, &text[value.start..end], written);
        let signed = || signed_word(&text[value.start..value.end]).filter(|_| operator.is_said);
        may_be(value.end, Written::Literal)
            .or_else(|| may_be(word_end(text, &value), Written::Literal))
            .or_else(|| may_be(value.end, Written::Bare))
            .or_else(signed)?;
        return Some(found(holds, name.0, name.1));
    }
    let is_foreign = is_foreign(&text[name.0..name.1]) || is_french(text, name);
    let written = if value.is_quoted && (operator.needs_quote || is_foreign) {
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
    Some(found(holds, value.start + start, end))
}

/// What follows `sshpass -p`, and `password` in a `.netrc`.
fn command(place: &Place<'_>, name: (usize, usize)) -> Option<Found> {
    const BEFORE_BYTES_MAX: usize = 256;
    let Place { text, runs, .. } = *place;
    let blanks = skip(text, name.1, |byte| byte.is_ascii_whitespace());
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
    let quoted = quote_at(text, value);
    let start = quoted.map_or(value, |(start, _)| start);
    let end = runs.end(Class::Unquoted, start);
    let written = quoted.map_or(Written::Literal, |_| Written::Quoted);
    let (from, to) = secret_in(Holds::Password, text.get(start..end)?, written)?;
    Some(found(Holds::Password, start + from, start + to))
}

/// Whether the word that the anchor is in goes on after it, as `tokens` and `passed` do: then it is
/// another word. Said before all else, as texts are full of those.
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
    let is_french = next | 0x20 == b'e'
        && (place.follows(b"de") || {
            let before = place.at.saturating_sub(1);
            !at(before).is_ascii_alphanumeric()
                && Place {
                    at: before,
                    ..*place
                }
                .follows(b"de")
        });
    is_one_word && !is_pass && !is_french
}

/// Whether something may be assigned to a name in JSON whose strings are not decoded: what a
/// string or an escape says is not known yet.
fn may_be_assigned(text: &[u8], name: (usize, usize)) -> bool {
    let is_escape = |at: usize| text.get(at) == Some(&b'\\');
    let after = quote_at(text, name.1).map_or(name.1, |(end, _)| end);
    if is_escape(skip(text, after, is_blank)) {
        return true;
    }
    let operator = operator_after(text, name).or_else(|| default_after(text, name));
    let Some(operator) = operator else {
        return false;
    };
    // What wraps a value, or begins a block, has escapes soon.
    let near = &text[operator.end..text.len().min(operator.end + NAME_BYTES_MAX)];
    let at = skip(text, operator.end, |byte| byte.is_ascii_whitespace());
    near.contains(&b'\\') || quote_at(text, at).is_some() || quote_at(text, at + 1).is_some()
}

/// The secrets in the whole of a value that a document assigns to a name.
pub(super) fn member(name: &str, value: &str, all: &mut Vec<Found>) {
    let is_name = name
        .bytes()
        .all(|byte| is_of_name(byte) || matches!(byte, b'.' | b' ' | b'$') || !byte.is_ascii());
    if !is_name || name.len() > NAME_BYTES_MAX {
        return;
    }
    let (name, value) = (name.as_bytes(), value.as_bytes());
    if name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie") {
        return session_cookies(value, &Runs::new(value), 0, all);
    }
    let last = name
        .iter()
        .rposition(|byte| !is_of_name(*byte))
        .map_or(0, |at| at + 1);
    if is_foreign(name) {
        let secret = secret_in(Holds::Password, value, Written::Listed);
        all.extend(secret.map(|(start, end)| found(Holds::Password, start, end)));
    } else if let Some(holds) = holds(&name[last..])
        && let Some((start, end)) = secret_in(holds, value, Written::Quoted)
    {
        all.push(found(holds, start, end));
    }
}

pub(super) fn found(holds: Holds, start: usize, end: usize) -> Found {
    Found {
        name: holds.name(),
        start,
        end,
    }
}

pub(super) fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Where the name begins and ends that holds the byte at `at`.
fn name_around(text: &[u8], at: usize) -> (usize, usize) {
    let before = text[..at].iter().rev().take(NAME_BYTES_MAX);
    let mut start = at - before.take_while(|byte| is_of_name(**byte)).count();
    let rest = text[at..].iter().take(NAME_BYTES_MAX);
    let end = at + rest.take_while(|byte| is_of_name(**byte)).count();
    // The letter of an escape that is still in the text.
    if start < at && start > 0 && text[start - 1] == b'\\' && starts_word(text, start + 1) {
        start += 1;
    }
    (start, end)
}

/// What a name says it holds. In words, `API key` has a blank.
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
    const WORDS: &[u8] = b"mot de passe";
    let start = name.1.checked_sub(WORDS.len());
    start.is_some_and(|start| text[start..name.1].eq_ignore_ascii_case(WORDS))
}

/// An operator that stands after a name.
#[derive(Clone, Copy)]
pub(super) struct Operator {
    pub end: usize,
    /// Only a quoted value may follow.
    pub needs_quote: bool,
    /// It is a word: what follows is said in a sentence.
    pub is_said: bool,
}

impl Operator {
    fn new(end: usize) -> Operator {
        Operator {
            end,
            needs_quote: false,
            is_said: false,
        }
    }

    fn of_quoted(end: usize) -> Operator {
        Operator {
            needs_quote: true,
            ..Operator::new(end)
        }
    }
}

pub(super) fn skip(text: &[u8], mut at: usize, class: fn(u8) -> bool) -> usize {
    while text.get(at).is_some_and(|byte| class(*byte)) {
        at += 1;
    }
    at
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// A quote, also an escaped one: where it ends, and what it is.
pub(super) fn quote_at(text: &[u8], at: usize) -> Option<(usize, (u8, usize))> {
    let end = skip(text, at, |byte| byte == b'\\');
    let quote = *text.get(end).filter(|byte| is_quote(**byte))?;
    Some((end + 1, (quote, end - at)))
}

fn operator_after(text: &[u8], name: (usize, usize)) -> Option<Operator> {
    let name_end = name.1;
    // The tools of Java have one dash.
    let is_flag = [&b"--"[..], b"-storepass", b"-keypass"]
        .iter()
        .any(|flag| text[name.0..].starts_with(flag));
    let quoted = quote_at(text, name_end);
    let mut at = quoted.map_or(name_end, |(end, _)| end);
    if let Some(end) = after_value_name(text, at) {
        return Some(Operator::new(end));
    }
    if quoted.is_none() {
        // `**Password**:`
        at = skip(text, at, |byte| byte == b'*');
    }
    at = skip(text, at, |byte| byte == b']');
    at = match quoted {
        Some(_) => skip(text, at, |byte| byte.is_ascii_whitespace()),
        None => skip(text, at, is_blank),
    };
    let rest = &text[at..];
    let plain = |len| Some(Operator::new(at + len));
    if at > name_end
        && quoted.is_none()
        && let Some(len) = verb(rest)
    {
        return Some(Operator {
            is_said: true,
            ..Operator::new(at + len)
        });
    }
    match rest {
        [b':', b':', ..] => None,
        [b':', b'=', ..] | [b'=', b'>' | b'=', ..] => plain(2),
        [b'=', ..] => plain(1),
        [b':', ..] => Some(Operator::new(after_type(text, at + 1))),
        [b',', ..] if quoted.is_some() => Some(Operator::of_quoted(at + 1)),
        _ if let Some(sign) = FOREIGN_SIGNS
            .iter()
            .find(|sign| rest.starts_with(sign.as_bytes())) =>
        {
            plain(sign.len())
        }
        // `PASSWORD '…'` of SQL, `.password("…")`.
        [b'\'' | b'"', ..] if quoted.is_none() && at > name_end && is_password(text, name) => {
            plain(0)
        }
        [b'F' | b'f', b'O' | b'o', b'R' | b'r', b' ', ..] if is_password(text, name) => {
            let near = &rest[..rest.len().min(NAME_BYTES_MAX)];
            plain(memchr::memchr2(b'=', b'\n', near).filter(|len| near[*len] == b'=')? + 1)
        }
        [b'(', ..] if quoted.is_none() && is_password(text, name) => {
            Some(Operator::of_quoted(at + 1))
        }
        _ if quoted.is_none() && at > name_end && (is_flag || is_set_by_word(text, name.0)) => {
            plain(0)
        }
        _ => None,
    }
}

/// The colon of Chinese and Japanese, and what they say for `is`.
const FOREIGN_SIGNS: [&str; 4] = ["：", "は", "是", "为"];

/// The length of the words before what is said to be a password: `is `, `was changed to `.
fn verb(rest: &[u8]) -> Option<usize> {
    const VERBS: [&[u8]; 5] = [b"is ", b"was ", b"ist ", b"est ", b"es "];
    const MORE: [&[u8]; 5] = [b"now ", b"set to ", b"changed to ", b"reset to ", b"jetzt "];
    let len = |known: &[&[u8]], rest: &[u8]| {
        let known = known.iter().find(|word| rest.starts_with(word));
        known.map(|word| word.len())
    };
    let verb = len(&VERBS, rest)?;
    Some(verb + len(&MORE, &rest[verb..]).unwrap_or_default())
}

/// What follows a name of which the value may be missing: `|| "…"`, `?? "…"`, `?: "…"`, `or "…"`.
fn default_after(text: &[u8], name: (usize, usize)) -> Option<Operator> {
    const OPERATORS: [&[u8]; 5] = [b"||", b"??", b"?:", b"or ", b"{ "];
    let at = quote_at(text, name.1).map_or(name.1, |(end, _)| end);
    let at = skip(text, at, |byte| matches!(byte, b']' | b')'));
    let at = skip(text, at, |byte| byte.is_ascii_whitespace());
    let rest = &text[at..];
    let operator = OPERATORS
        .iter()
        .find(|operator| rest.starts_with(operator))?;
    Some(Operator::of_quoted(at + operator.len()))
}

/// Whether a name is `password`, or what sets one.
fn is_password(text: &[u8], name: (usize, usize)) -> bool {
    const BEFORE: [&str; 4] = ["set", "with", "user", "db"];
    let words = words(&text[name.0..name.1]);
    words.split_last().is_some_and(|(last, before)| {
        last == "password" && before.iter().all(|word| BEFORE.contains(&word.as_str()))
    })
}

/// Whether the name at `at` follows a word that sets it to what comes next: `ENV`, `setenv`,
/// `set -x`, `configure set`.
fn is_set_by_word(text: &[u8], at: usize) -> bool {
    const BEFORE_BYTES_MAX: usize = 32;
    const WORDS: [&[u8]; 6] = [
        b"ENV",
        b"setenv",
        b"SetEnv",
        b"setx",
        b"configure set",
        b"config set",
    ];
    let before = &text[at.saturating_sub(BEFORE_BYTES_MAX)..at];
    let kept = before.len()
        - before
            .iter()
            .rev()
            .take_while(|byte| is_blank(**byte))
            .count();
    let word = &before[..kept];
    let flag = word
        .iter()
        .rposition(|byte| *byte == b' ')
        .map(|blank| word.split_at(blank));
    let is_fish = flag.is_some_and(|(set, flag)| {
        set.trim_ascii_end().ends_with(b"set")
            && (flag.ends_with(b"x") || flag == b" --export")
            && flag.starts_with(b" -")
    });
    let ends = |known: &&[u8]| word.ends_with(known) && starts_word(word, word.len() - known.len());
    kept < before.len() && (is_fish || WORDS.iter().any(ends))
}

/// What follows `: Type =`, or `at` if there is none such.
fn after_type(text: &[u8], at: usize) -> usize {
    const TYPE_BYTES_MAX: usize = 40;
    let is_of_type = |byte: &u8| {
        is_of_name(*byte)
            || matches!(
                byte,
                b' ' | b'&' | b'<' | b'>' | b'[' | b']' | b'\'' | b'|' | b'.'
            )
    };
    let rest = &text[at..];
    let len = rest
        .iter()
        .take(TYPE_BYTES_MAX)
        .take_while(|byte| is_of_type(byte))
        .count();
    let has_value = rest.get(len) == Some(&b'=') && rest[..len].ends_with(b" ");
    if has_value { at + len + 1 } else { at }
}

/// What follows `value:` in another member, as lists of names and values have it.
fn after_value_name(text: &[u8], at: usize) -> Option<usize> {
    const SEPARATORS_BYTES_MAX: usize = 80;
    const VALUE: &[u8] = b"value";
    let near = &text[..text.len().min(at + SEPARATORS_BYTES_MAX)];
    let (mut next, mut commas) = (at, 0);
    while let Some(byte) = near.get(next) {
        match byte {
            b'\n' => next = after_gutter(near, next + 1),
            b',' => (next, commas) = (next + 1, commas + 1),
            byte if byte.is_ascii_whitespace() => next += 1,
            _ => break,
        }
    }
    if next == at || commas > 1 {
        return None;
    }
    let quoted = quote_at(text, next);
    let start = quoted.map_or(next, |(start, _)| start);
    let word = text[start..].iter().take(NAME_BYTES_MAX);
    let end = start + word.take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_value = end - start >= VALUE.len()
        && end - start <= "ParameterValue".len()
        && text[end - VALUE.len()..end].eq_ignore_ascii_case(VALUE);
    if !is_value {
        return None;
    }
    let closing = quoted.and_then(|_| quote_at(text, end));
    if quoted.map(|(_, quote)| quote) != closing.map(|(_, quote)| quote) {
        return None;
    }
    let colon = skip(text, closing.map_or(end, |(end, _)| end), is_blank);
    matches!(text.get(colon), Some(b':' | b'=')).then_some(colon + 1)
}

/// Where a line begins after the number that a listing puts before it: `    12→`.
pub(super) fn after_gutter(text: &[u8], line: usize) -> usize {
    let number = skip(text, line, is_blank);
    let end = skip(text, number, |byte| byte.is_ascii_digit());
    let rest = text.get(end..).unwrap_or_default();
    let marks = [&b"\xE2\x86\x92"[..], b"\t", b":", b" |", b" \xE2\x94\x82"];
    let mark = marks
        .iter()
        .find(|mark| end > number && rest.starts_with(mark));
    mark.map_or(line, |mark| end + mark.len())
}

/// Whether what follows a value without quotes lets it be more than a part of code.
fn ends_plainly(text: &[u8], end: usize) -> bool {
    !matches!(text.get(end), Some(b'(' | b'[' | b'{' | b'<'))
}
