//! What is assigned to a name that says it is a secret: `password=`, `"api_key": "…"`,
//! `--token …`. Precision is all here: most of what stands beside such names is code.

use super::Found;
use super::context::Place;
use super::text::{distinct, is_placeholder, starts_word};

/// What a name says of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Password,
    Secret,
    Key,
    /// A token; whether the name says of what.
    Token {
        is_qualified: bool,
    },
    Authorization,
}

impl Holds {
    fn name(self) -> &'static str {
        match self {
            Holds::Password => "password",
            Holds::Secret => "secret",
            Holds::Key => "api_key",
            Holds::Token { .. } => "token",
            Holds::Authorization => "authorization",
        }
    }
}

/// The longest name, and the longest value, that are looked at.
const NAME_BYTES_MAX: usize = 64;
const VALUE_BYTES_MAX: usize = 1024;

/// The secret that is assigned to the name in which the anchor is.
pub(super) fn assignment(place: &Place<'_>) -> Option<Found> {
    let text = place.text;
    let name = name_around(text, place.at);
    if place.is_raw {
        let may_be = may_be_assigned(text, name) && holds(&text[name.0..name.1]).is_some();
        if may_be {
            return Some(found(Holds::Secret, name.0, name.1));
        }
    }
    let operator = operator_after(text, name.1, text[name.0..].starts_with(b"--"))?;
    let holds = holds(&text[name.0..name.1])?;
    let mut value = value_at(text, operator)?;
    if holds == Holds::Authorization && !value.is_quoted && text.get(value.end) == Some(&b' ') {
        // What was found is the scheme.
        value.end = skip(text, value.end + 1, is_unquoted);
    }
    let (start, end) = secret_in(holds, &text[value.start..value.end], value.is_quoted)?;
    if !value.is_quoted && !ends_plainly(text, value.start + end) {
        return None;
    }
    Some(found(holds, value.start + start, value.start + end))
}

/// Whether something may be assigned to a name in JSON whose strings are not decoded: what a
/// string or an escape says is not known yet.
fn may_be_assigned(text: &[u8], name: (usize, usize)) -> bool {
    let is_escape = |at: usize| text.get(at) == Some(&b'\\');
    let after = quote_at(text, name.1).map_or(name.1, |(end, _)| end);
    if is_escape(skip(text, after, is_blank)) {
        return true;
    }
    let Some(operator) = operator_after(text, name.1, text[name.0..].starts_with(b"--")) else {
        return false;
    };
    let at = skip(text, operator.end, |byte| byte.is_ascii_whitespace());
    is_escape(at) || quote_at(text, at).is_some() || quote_at(text, at + 1).is_some()
}

/// The secret in the whole of a value that a document assigns to a name.
pub(super) fn member(name: &str, value: &str) -> Option<Found> {
    let is_name = name
        .bytes()
        .all(|byte| is_of_name(byte) || matches!(byte, b'.' | b' ' | b'$'));
    if !is_name || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.as_bytes();
    let last = name
        .iter()
        .rposition(|byte| !is_of_name(*byte))
        .map_or(0, |at| at + 1);
    let holds = holds(&name[last..])?;
    let (start, end) = secret_in(holds, value.as_bytes(), true)?;
    Some(found(holds, start, end))
}

fn found(holds: Holds, start: usize, end: usize) -> Found {
    Found {
        name: holds.name(),
        start,
        end,
    }
}

fn is_of_name(byte: u8) -> bool {
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

/// An operator that stands after a name.
#[derive(Clone, Copy)]
struct Operator {
    end: usize,
    /// Only a quoted value may follow.
    needs_quote: bool,
}

fn skip(text: &[u8], mut at: usize, class: fn(u8) -> bool) -> usize {
    while text.get(at).is_some_and(|byte| class(*byte)) {
        at += 1;
    }
    at
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}

/// A quote, also an escaped one: where it ends, and what it is.
fn quote_at(text: &[u8], at: usize) -> Option<(usize, (u8, usize))> {
    let end = skip(text, at, |byte| byte == b'\\');
    let quote = *text.get(end).filter(|byte| is_quote(**byte))?;
    Some((end + 1, (quote, end - at)))
}

fn operator_after(text: &[u8], name_end: usize, is_flag: bool) -> Option<Operator> {
    let quoted = quote_at(text, name_end);
    let mut at = quoted.map_or(name_end, |(end, _)| end);
    at = skip(text, at, |byte| byte == b']');
    at = match quoted {
        Some(_) => skip(text, at, |byte| byte.is_ascii_whitespace()),
        None => skip(text, at, is_blank),
    };
    let rest = &text[at..];
    let plain = |len| {
        Some(Operator {
            end: at + len,
            needs_quote: false,
        })
    };
    match rest {
        [b':', b':', ..] => None,
        [b':', b'=', ..] | [b'=', b'>' | b'=', ..] => plain(2),
        [b'=', ..] => plain(1),
        [b':', ..] => Some(Operator {
            end: after_type(text, at + 1),
            needs_quote: false,
        }),
        [b',', ..] if quoted.is_some() => Some(Operator {
            end: after_value_name(text, at + 1),
            needs_quote: true,
        }),
        [b'i', b's', b' ', ..] if at > name_end => plain(3),
        _ if is_flag && quoted.is_none() && at > name_end => plain(0),
        _ => None,
    }
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

/// What follows `"value":`, as in lists of names and values, or `at` if there is none such.
fn after_value_name(text: &[u8], at: usize) -> usize {
    let spaced = |at| skip(text, at, |byte: u8| byte.is_ascii_whitespace());
    let quoted = || {
        let (start, quote) = quote_at(text, spaced(at))?;
        let name = text.get(start..)?.strip_prefix(b"value")?;
        let (end, closing) = quote_at(text, text.len() - name.len())?;
        let colon = spaced(end);
        (quote == closing && text.get(colon) == Some(&b':')).then_some(colon + 1)
    };
    quoted().unwrap_or(at)
}

struct Value {
    start: usize,
    end: usize,
    is_quoted: bool,
}

fn value_at(text: &[u8], operator: Operator) -> Option<Value> {
    let mut at = skip(text, operator.end, is_blank);
    if operator.needs_quote || matches!(text.get(at), Some(b'\n' | b'\r')) {
        // A value on a line of its own is one of a document.
        at = skip(text, at, |byte| byte.is_ascii_whitespace());
        quote_at(text, at)?;
    }
    // Strings of bytes, raw ones, and those of shells.
    if matches!(text.get(at), Some(b'b' | b'r' | b'f' | b'$' | b'@'))
        && quote_at(text, at + 1).is_some()
    {
        at += 1;
    }
    let rest = text.get(at..).unwrap_or_default();
    let Some((start, quote)) = quote_at(text, at) else {
        let len = rest
            .iter()
            .take(VALUE_BYTES_MAX + 1)
            .take_while(|byte| is_unquoted(**byte))
            .count();
        return (len <= VALUE_BYTES_MAX).then_some(Value {
            start: at,
            end: at + len,
            is_quoted: false,
        });
    };
    let mut backslashes = 0;
    let inside = text[start..].iter().take(VALUE_BYTES_MAX + 1);
    let len = inside.enumerate().find_map(|(len, byte)| {
        let is_end = *byte == quote.0
            && if quote.1 == 0 {
                backslashes % 2 == 0
            } else {
                backslashes == quote.1
            };
        let escapes = backslashes;
        backslashes = if *byte == b'\\' { backslashes + 1 } else { 0 };
        is_end.then(|| len - escapes.min(quote.1))
    });
    let is_cut = text.len() - start <= VALUE_BYTES_MAX;
    let end = match len {
        Some(len) => start + len,
        // The closing quote was cut off with the end of the text.
        None if is_cut => {
            start
                + text[start..]
                    .iter()
                    .take_while(|byte| is_unquoted(**byte))
                    .count()
        }
        None => return None,
    };
    Some(Value {
        start,
        end,
        is_quoted: true,
    })
}

fn is_unquoted(byte: u8) -> bool {
    !byte.is_ascii_whitespace()
        && !byte.is_ascii_control()
        && !matches!(
            byte,
            b'"' | b'\''
                | b'`'
                | b'<'
                | b'>'
                | b','
                | b';'
                | b'('
                | b')'
                | b'['
                | b']'
                | b'{'
                | b'}'
                | b'|'
                | b'\\'
                | b'&'
        )
}

/// Whether what follows a value without quotes lets it be more than a part of code.
fn ends_plainly(text: &[u8], end: usize) -> bool {
    !matches!(text.get(end), Some(b'(' | b'[' | b'{' | b'<'))
}

/// Words that follow the word in a name, and leave it what it is.
const QUALIFIERS: &[&str] = &[
    "prod",
    "production",
    "dev",
    "development",
    "staging",
    "stage",
    "test",
    "live",
    "sandbox",
    "value",
    "plain",
    "plaintext",
    "text",
    "raw",
    "base64",
    "b64",
    "env",
    "new",
    "old",
    "current",
    "default",
    "main",
    "master",
    "primary",
    "secondary",
    "root",
    "admin",
    "user",
    "db",
    "str",
    "string",
];

/// Words before `token` or `secret` that make it no secret.
const INNOCENT: &[&str] = &[
    "page",
    "next",
    "previous",
    "prev",
    "continuation",
    "cursor",
    "sync",
    "special",
    "eos",
    "bos",
    "pad",
    "max",
    "min",
    "num",
    "total",
    "public",
    "cancellation",
    "cancel",
    "sep",
    "mask",
    "unk",
    "stop",
    "design",
    "syntax",
    "first",
    "last",
    "idempotency",
    "no",
    "invalid",
    "missing",
    "wrong",
    "encrypted",
    "hashed",
    "sealed",
    "change",
    "pagination",
    "resume",
    "ident",
    "lookahead",
];

/// What makes a key one of secrets.
const KEY_OF: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "auth",
    "encryption",
    "signing",
    "account",
    "master",
    "service",
    "admin",
    "subscription",
    "storage",
    "license",
    "deploy",
    "webhook",
    "shared",
    "hmac",
    "jwt",
    "session",
    "cookie",
    "encrypt",
    "sign",
    "app",
    "consumer",
    "client",
    "ingestion",
];

/// What a name says it holds; `None` for a name that says no such thing.
pub(super) fn holds(name: &[u8]) -> Option<Holds> {
    let words = words(name);
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let trailing = words
        .iter()
        .rev()
        .take_while(|word| is_number(word) || QUALIFIERS.contains(&word.as_str()));
    let kept = &words[..words.len() - trailing.count()];
    let (last, before) = kept.split_last()?;
    if before.iter().any(|word| INNOCENT.contains(&word.as_str())) {
        return None;
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| last.ends_with(end));
    let is_qualified = !before.is_empty() || last.len() > "token".len();
    match last.as_str() {
        "authorization" => Some(Holds::Authorization),
        "pass" | "pwd" => Some(Holds::Password),
        "key"
            if before
                .last()
                .is_some_and(|word| KEY_OF.contains(&word.as_str())) =>
        {
            Some(Holds::Key)
        }
        "token" => Some(Holds::Token { is_qualified }),
        _ if ends(&[
            "password",
            "passwd",
            "passphrase",
            "passcode",
            "userpwd",
            "dbpwd",
            "dbpass",
        ]) =>
        {
            Some(Holds::Password)
        }
        _ if ends(&[
            "apikey",
            "accesskey",
            "secretkey",
            "authkey",
            "privatekey",
            "signingkey",
            "encryptionkey",
            "accountkey",
        ]) =>
        {
            Some(Holds::Key)
        }
        _ if ends(&["secret"]) => Some(Holds::Secret),
        _ if ends(&[
            "authtoken",
            "accesstoken",
            "refreshtoken",
            "apitoken",
            "bottoken",
            "sessiontoken",
            "bearertoken",
            "idtoken",
        ]) =>
        {
            Some(Holds::Token { is_qualified: true })
        }
        _ => None,
    }
}

/// The words of a name, in lower case: `dbPassword_2` is `db`, `password` and `2`.
fn words(name: &[u8]) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = b'_';
    for (at, byte) in name.iter().copied().enumerate() {
        let next_is_lower = name.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let is_hump = byte.is_ascii_uppercase()
            && (!before.is_ascii_uppercase() || next_is_lower && before.is_ascii_uppercase());
        let is_digits = byte.is_ascii_digit() != before.is_ascii_digit();
        let starts = !is_of_word(before) || is_hump || is_digits;
        if is_of_word(byte) {
            match words.last_mut().filter(|_| !starts) {
                Some(word) => word.push(char::from(byte.to_ascii_lowercase())),
                None => words.push(char::from(byte.to_ascii_lowercase()).to_string()),
            }
        }
        before = byte;
    }
    words
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

/// Where in a value the secret is, if it looks like one.
fn secret_in(holds: Holds, value: &[u8], is_quoted: bool) -> Option<(usize, usize)> {
    if holds == Holds::Authorization {
        return credentials(value);
    }
    let value_end = if is_quoted {
        value.len()
    } else {
        trimmed(value)
    };
    let value = &value[..value_end];
    let is_secret = (6..=VALUE_BYTES_MAX).contains(&value.len())
        && !is_code(value, is_quoted)
        && !is_id(value)
        && !is_placeholder(value)
        && match holds {
            Holds::Password => is_password(value, is_quoted),
            Holds::Secret | Holds::Key | Holds::Token { .. } | Holds::Authorization => {
                is_key(holds, value, is_quoted)
            }
        };
    is_secret.then_some((0, value.len()))
}

/// A value without the marks that end a sentence around it.
fn trimmed(value: &[u8]) -> usize {
    value.len()
        - value
            .iter()
            .rev()
            .take_while(|byte| matches!(byte, b'.' | b':' | b'!' | b'?'))
            .count()
}

/// The credentials of an `Authorization`, after its scheme.
fn credentials(value: &[u8]) -> Option<(usize, usize)> {
    let scheme = value.iter().take_while(|byte| is_of_name(**byte)).count();
    let is_scheme = value.get(scheme) == Some(&b' ');
    let start = if is_scheme { scheme + 1 } else { 0 };
    let rest = &value[start..];
    let len = rest
        .iter()
        .take_while(|b| is_of_name(**b) || matches!(b, b'.' | b'~' | b'+' | b'/' | b'=' | b':'))
        .count();
    let text = &rest[..len];
    let has = |class: fn(&u8) -> bool| text.iter().any(class);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || len >= 16 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    let is_secret = len == rest.len()
        && len >= 8
        && is_mixed
        && !is_placeholder(text)
        && !is_id(text)
        && !is_path_of_code(text);
    is_secret.then_some((start, start + len))
}

/// Templates, variables, calls, paths and addresses.
fn is_code(value: &[u8], is_quoted: bool) -> bool {
    const MARKS: [&[u8]; 16] = [
        b"[REDACTED:",
        b"[CONTENT:",
        b"${",
        b"{{",
        b"}}",
        b"%(",
        b"$(",
        b"://",
        b"...",
        b"\xE2\x80\xA6",
        b"process.env",
        b"environ",
        b"secrets.",
        b"=>",
        b"->",
        b"::",
    ];
    let has_mark = MARKS
        .iter()
        .any(|mark| memchr::memmem::find(value, mark).is_some());
    let is_path = value.starts_with(b"/") && memchr::memchr_iter(b'/', value).count() > 1;
    let starts = is_path
        || matches!(
            value,
            [b'$' | b'<' | b'{' | b'~' | b'[' | b'(', ..] | [b'.', b'/', ..]
        );
    let has_blank = value
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control());
    has_mark || starts || has_blank || is_path_of_code(value) || !is_quoted && is_identifier(value)
}

/// `config.auth.token2`: names, joined by dots.
fn is_path_of_code(value: &[u8]) -> bool {
    let is_name = |part: &[u8]| {
        part.first()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(|byte| is_of_word(*byte) || *byte == b'_')
    };
    value.contains(&b'.')
        && value.split(|byte| *byte == b'.').all(is_name)
        && value.iter().filter(|byte| byte.is_ascii_digit()).count() <= 2
}

/// `user_password_2`, `userPassword2`, `API_KEY_2`: a name, as code has it.
fn is_identifier(value: &[u8]) -> bool {
    let letters = value.trim_ascii_end();
    let digits = letters
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let letters = &letters[..letters.len() - digits];
    let is_plain = letters
        .iter()
        .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
    let words = words(letters);
    is_plain && digits <= 2 && words.len() >= 2 && words.iter().all(|word| word.len() >= 2)
}

/// Ids that are no secrets: UUIDs, ULIDs, those of calls, hashes that say so.
fn is_id(value: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 14] = [
        b"call_",
        b"toolu_",
        b"chatcmpl-",
        b"msg_",
        b"req_",
        b"resp_",
        b"run_",
        b"thread_",
        b"sha256",
        b"sha512",
        b"sha1",
        b"arn:",
        b"op:",
        b"data:",
    ];
    let is_uuid = value.len() == 36
        && value.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        });
    let is_sortable_id = value.len() == 26
        && matches!(value[0], b'0'..=b'7')
        && value
            .iter()
            .all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase());
    is_uuid || is_sortable_id || PREFIXES.iter().any(|prefix| value.starts_with(prefix))
}

/// How many bytes of a value are of which sort.
struct Mix {
    digits: usize,
    lower: usize,
    upper: usize,
    symbols: usize,
}

fn mix(value: &[u8]) -> Mix {
    let count = |class: fn(&u8) -> bool| value.iter().filter(|byte| class(byte)).count();
    let (digits, lower, upper) = (
        count(u8::is_ascii_digit),
        count(u8::is_ascii_lowercase),
        count(u8::is_ascii_uppercase),
    );
    let symbols = count(|byte| {
        matches!(
            byte,
            b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'+' | b'~' | b'='
        )
    });
    Mix {
        digits,
        lower,
        upper,
        symbols,
    }
}

/// A password: letters with digits or with other signs, and not only a word with a number.
fn is_password(value: &[u8], is_quoted: bool) -> bool {
    const WEAK: [&str; 20] = [
        "password", "pass", "passwd", "pwd", "secret", "token", "test", "admin", "user", "foo",
        "bar", "key", "value", "input", "field", "param", "arg", "step", "var", "sha",
    ];
    let Mix {
        digits,
        lower,
        upper,
        symbols,
    } = mix(value);
    let letters: Vec<u8> = value
        .iter()
        .filter(|b| b.is_ascii_alphabetic())
        .map(u8::to_ascii_lowercase)
        .collect();
    let is_weak = symbols == 0 && WEAK.iter().any(|word| word.as_bytes() == letters);
    let is_mixed = digits > 0 && lower + upper > 0
        || symbols > 0 && lower + upper > 0 && (upper > 0 && lower > 0 || symbols > 1)
        || is_letters_at_random(value);
    let is_long = is_quoted || value.len() >= 7;
    is_mixed && is_long && !is_weak && distinct(value) >= 4 && !is_named(value)
}

/// A key or a token, which no person made up.
fn is_key(holds: Holds, value: &[u8], is_quoted: bool) -> bool {
    let Mix {
        digits,
        lower,
        upper,
        symbols: _,
    } = mix(value);
    let is_hex = value.iter().all(u8::is_ascii_hexdigit);
    if is_hex && value.len() >= 32 {
        // A digest, unless the name says more.
        return holds
            != Holds::Token {
                is_qualified: false,
            }
            && distinct(value) >= 6;
    }
    let least = if is_quoted { 10 } else { 12 };
    let is_mixed = digits >= 2 && lower + upper > 0 || is_letters_at_random(value);
    value.len() >= least && is_mixed && distinct(value) >= 7 && !is_named(value)
}

/// Letters of both cases in no order that words have.
fn is_letters_at_random(value: &[u8]) -> bool {
    let is_change = |pair: &&[u8]| pair[0].is_ascii_lowercase() != pair[1].is_ascii_lowercase();
    let changes = value.windows(2).filter(is_change).count();
    value.len() >= 16 && value.iter().all(|byte| is_of_name(*byte)) && changes * 3 > value.len()
}

/// `prod-db-credentials-7`: words that name something, joined.
fn is_named(value: &[u8]) -> bool {
    let is_word = |part: &&[u8]| {
        part.len() >= 3
            && (part.iter().all(u8::is_ascii_lowercase) || part.iter().all(u8::is_ascii_uppercase))
    };
    let is_plain = value
        .iter()
        .all(|byte| is_of_word(*byte) || matches!(byte, b'-' | b'_' | b'.' | b'/' | b':'));
    is_plain
        && value
            .split(|byte| !is_of_word(*byte))
            .filter(is_word)
            .count()
            >= 2
}
