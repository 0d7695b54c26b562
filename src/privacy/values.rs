//! Decides which values are secrets: not code, ids or the examples of manuals.

use std::ops::Range;

use super::Found;
use super::bytes::{contains, is_alnum, is_of_name, is_token68, run, trim_end};
use super::code::{is_code, is_identifier, is_path_of_code, is_type, is_variable};
use super::context::is_pair;
use super::names::Holds;
use super::text::{distinct, is_base64_at_random, is_id, is_placeholder, is_uuid};

/// Maximum length of a value that is considered.
pub(super) const VALUE_BYTES_MAX: usize = 1024;

/// How a value is written where it is assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Quoted, or the whole value of a document's member.
    Quoted,
    /// Quoted, after a comma: it may be the next element of a list of names.
    Listed,
    /// Unquoted, where only text is possible: in a settings file, a URL or an option.
    Literal,
    /// Unquoted, where it may also be code or prose.
    Bare,
}

/// The range of the secret in a value, if the value looks like one.
pub(super) fn secret_in(holds: Holds, value: &[u8], written: Written) -> Option<(usize, usize)> {
    match holds {
        Holds::Authorization => return credentials(value),
        Holds::Pair => return is_pair(value).then_some((0, value.len())),
        _ => {}
    }
    let end = match written {
        Written::Bare => without_stops(value).len(),
        Written::Quoted | Written::Listed | Written::Literal => value.len(),
    };
    let (value, rest) = value.split_at(end);
    let is_secret = (6..=VALUE_BYTES_MAX).contains(&value.len())
        && !is_code(value, written)
        && !is_type(holds, value)
        && (!is_id(value) || is_uuid(value) && uuid_is_secret(holds))
        && !is_placeholder(value)
        && match holds {
            Holds::Password => is_password(value, written),
            _ => is_key(holds, value, written),
        };
    // A trailing `!` may be the last character of a password.
    let signs = run(rest, 0, usize::MAX, |byte| byte == b'!');
    is_secret.then_some((0, end + signs))
}

/// Like `secret_in`, for the value in a range of a text.
pub(super) fn secret_at(
    holds: Holds,
    text: &[u8],
    value: Range<usize>,
    written: Written,
) -> Option<Found> {
    let (start, end) = secret_in(holds, &text[value.clone()], written)?;
    Some(Found::new(
        holds.name(),
        value.start + start,
        value.start + end,
    ))
}

/// Whether a UUID under this name is a secret rather than an id. Some services issue UUIDs as keys.
fn uuid_is_secret(holds: Holds) -> bool {
    matches!(
        holds,
        Holds::Password | Holds::Secret | Holds::Key { is_access: true }
    )
}

/// A value without trailing punctuation.
fn without_stops(value: &[u8]) -> &[u8] {
    trim_end(value, |byte| matches!(byte, b'.' | b':' | b'!' | b'?'))
}

/// The credentials of an `Authorization` header, after the scheme.
fn credentials(value: &[u8]) -> Option<(usize, usize)> {
    let scheme = run(value, 0, usize::MAX, is_of_name);
    let is_scheme = value.get(scheme) == Some(&b' ');
    let start = if is_scheme { scheme + 1 } else { 0 };
    let rest = &value[start..];
    let len = run(rest, 0, usize::MAX, is_token68);
    let text = &rest[..len];
    let has = |class: fn(&u8) -> bool| text.iter().any(class);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
        || len >= 16 && has(u8::is_ascii_lowercase) && has(u8::is_ascii_uppercase);
    // The name of a type or of a variable.
    let is_name = start == 0 && is_identifier(text);
    let is_secret = len == rest.len()
        && len >= 8
        && !is_name
        && is_mixed
        && !is_placeholder(text)
        && !is_id(text)
        && !is_path_of_code(text);
    is_secret.then_some((start, start + len))
}

/// Whether the text is an example password as manuals write it.
pub(super) fn stands_for_password(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    // A password's own brackets are escaped in URLs. Our placeholders also have brackets.
    let has_bracket = [b"{}", b"[]", b"()"]
        .iter()
        .any(|[open, close]| text.contains(open) && text.contains(close));
    let is_masked = text.iter().all(|byte| *byte == b'*');
    let is_template =
        has_bracket || is_masked || is_variable(text, true) || matches!(text, [b'%', _]);
    match &lower[..] {
        b"password" | b"passwd" | b"pass" | b"pwd" | b"pw" | b"secret" | b"token" | b"p"
        | b"key" | b"port" | b"my_password" | b"mypassword" => true,
        _ => is_template || is_placeholder(text),
    }
}

/// A word with a special character that a sentence calls a password.
pub(super) fn signed_word(value: &[u8]) -> Option<(usize, usize)> {
    const BYTES_MIN: usize = 7;
    let is_sign = |byte: &u8| matches!(byte, b'!' | b'@' | b'#' | b'$' | b'%' | b'^');
    let (word, rest) = value.split_at(without_stops(value).len());
    let signs = run(rest, 0, usize::MAX, |byte| byte == b'!');
    let is_word = (BYTES_MIN..=VALUE_BYTES_MAX).contains(&word.len())
        && word.iter().all(|byte| is_alnum(*byte) || is_sign(byte))
        && word[0].is_ascii_alphanumeric()
        && word.iter().any(is_sign)
        && !is_placeholder(word);
    is_word.then_some((0, word.len() + signs))
}

/// Number of digits, lower-case letters, capital letters and symbols.
fn mix(value: &[u8]) -> [usize; 4] {
    let classes: [fn(&u8) -> bool; 4] = [
        u8::is_ascii_digit,
        u8::is_ascii_lowercase,
        u8::is_ascii_uppercase,
        |byte| is_symbol(*byte),
    ];
    classes.map(|class| value.iter().filter(|byte| class(byte)).count())
}

fn is_symbol(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'@' | b'#' | b'$' | b'%' | b'^' | b'&' | b'*' | b'?' | b'+' | b'~' | b'='
    )
}

/// A password: letters with digits or special characters, and more than a word with a number. Where
/// only text is possible, letters alone or digits alone also count.
fn is_password(value: &[u8], written: Written) -> bool {
    const WEAK: [&str; 20] = [
        "password", "pass", "passwd", "pwd", "secret", "token", "test", "admin", "user", "foo",
        "bar", "key", "value", "input", "field", "param", "arg", "step", "var", "sha",
    ];
    let [digits, lower, upper, symbols] = mix(value);
    let mut letters = value.to_ascii_lowercase();
    letters.retain(u8::is_ascii_alphabetic);
    let is_weak = symbols == 0 && WEAK.iter().any(|word| word.as_bytes() == letters);
    let is_mixed = digits > 0 && lower + upper > 0
        || symbols > 0 && lower + upper > 0 && (upper > 0 && lower > 0 || symbols > 1)
        || is_at_random(value);
    let is_text = matches!(written, Written::Quoted | Written::Literal);
    let is_plain = is_text && (digits == value.len() || is_phrase(value));
    let is_long = written != Written::Bare || value.len() >= 7;
    let is_alone = is_mixed && !is_named(value) || is_plain;
    is_alone && is_long && !is_weak && distinct(value) >= 4
}

/// A word that is used only as a password, or at least four words.
fn is_phrase(value: &[u8]) -> bool {
    const WORDS_MIN: usize = 4;
    let is_separator = |byte: &u8| matches!(byte, b'-' | b'_' | b'.');
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii();
    let parts = value.split(is_separator).filter(|part| !part.is_empty());
    let is_known = |part: &[u8]| is_ordinary(&part.to_ascii_lowercase());
    let is_words = value
        .iter()
        .all(|byte| is_letter(byte) || is_separator(byte));
    let count = parts.clone().count();
    // Messages begin with a capital letter, and constants are in capitals.
    let is_said = value[0].is_ascii_uppercase() && value[1..].iter().all(u8::is_ascii_lowercase)
        || value
            .iter()
            .all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    is_words && !parts.clone().any(is_known) && (count == 1 && !is_said || count >= WORDS_MIN)
}

/// Whether a word in lower case describes a value and is not one.
fn is_ordinary(word: &[u8]) -> bool {
    match word {
        b"string" | b"number" | b"boolean" | b"object" | b"integer" | b"varchar" | b"buffer"
        | b"binary" | b"symbol" | b"undefined" | b"nullable" | b"optional" | b"required"
        | b"erforderlich" | b"disabled" | b"enabled" | b"hidden" | b"masked" | b"hashed"
        | b"encrypted" | b"plaintext" | b"invalid" | b"incorrect" | b"missing" | b"unknown"
        | b"unchanged" | b"changed" | b"updated" | b"deleted" | b"expired" | b"forgot"
        | b"forgotten" | b"default" | b"generated" | b"random" | b"system" | b"prompt"
        | b"simple" | b"complex" | b"strong" | b"visible" | b"column" | b"element"
        | b"attribute" | b"property" | b"parameter" | b"argument" | b"variable" | b"control"
        | b"header" | b"cookie" | b"bearer" | b"digest" | b"public" | b"private" | b"protected"
        | b"internal" | b"external" | b"static" | b"nothing" | b"anything" | b"something"
        | b"whatever" | b"ignored" | b"unused" | b"unset" | b"inherit" | b"manual" | b"blocked"
        | b"locked" | b"accepted" | b"rejected" | b"denied" | b"allowed" | b"failed"
        | b"success" | b"pending" | b"bcrypt" | b"scrypt" | b"argon" | b"sha" | b"validator"
        | b"confirm" | b"confirmation" | b"repeat" | b"reset" | b"current" | b"account"
        | b"database" | b"postgres" | b"mongodb" | b"localhost" | b"keyring" | b"keychain"
        | b"vault" | b"environment" | b"config" | b"settings" | b"managed" => true,
        _ => NAMES.iter().any(|name| contains(word, name)),
    }
}

/// Words that occur in names of values and in examples.
const NAMES: &[&str] = &[
    "pass",
    "pwd",
    "secret",
    "token",
    "credential",
    "user",
    "login",
    "admin",
    "field",
    "input",
    "value",
    "type",
    "string",
    "test",
    "wort",
    "wacht",
    "sena",
    "senha",
    "contrase",
    "clave",
    "parola",
    "geheim",
    "null",
];

/// A generated key or token.
fn is_key(holds: Holds, value: &[u8], written: Written) -> bool {
    let [digits, lower, upper, symbols] = mix(value);
    let is_hex = value.iter().all(u8::is_ascii_hexdigit);
    if is_hex && value.len() >= 32 {
        // A digest, unless the name denotes a token.
        return !matches!(holds, Holds::Token { is_qualified } if !is_qualified)
            && distinct(value) >= 6;
    }
    let is_quoted = matches!(written, Written::Quoted | Written::Listed);
    let least = if is_quoted { 10 } else { 12 };
    // `%3D` in a URL is not evidence of a key.
    let is_escape = |at: &[u8]| at[0] == b'%' && at[1..].iter().all(u8::is_ascii_hexdigit);
    let signs = symbols - value.windows(3).filter(|at| is_escape(at)).count();
    let is_mixed = digits >= 2 && lower + upper > 0
        || signs > 0 && digits + signs >= 2 && lower > 0 && upper > 0
        || is_at_random(value);
    value.len() >= least && is_mixed && distinct(value) >= 7 && !is_named(value)
}

fn is_at_random(value: &[u8]) -> bool {
    is_letters_at_random(value) || is_base64_at_random(value)
}

/// Letters that do not look like words: mixed case, or without vowels.
fn is_letters_at_random(value: &[u8]) -> bool {
    const BYTES_MIN: usize = 10;
    const CONSONANTS_MIN: usize = 5;
    let is_change = |pair: &&[u8]| pair[0].is_ascii_lowercase() != pair[1].is_ascii_lowercase();
    let changes = value.windows(2).filter(is_change).count();
    let is_vowel = |byte: &u8| matches!(byte | 0x20, b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    let mut parts = value.split(is_vowel);
    let vowels = value.iter().filter(|byte| is_vowel(byte)).count();
    let is_unspoken = value.len() >= BYTES_MIN
        && value.iter().all(u8::is_ascii_lowercase)
        && vowels * 4 <= value.len()
        && parts.any(|consonants| consonants.len() >= CONSONANTS_MIN);
    is_unspoken
        || value.len() >= 16
            && value
                .iter()
                .all(|byte| is_of_name(*byte) || is_symbol(*byte))
            && changes * 3 > value.len()
}

/// `prod-db-credentials-7`: joined words that form a name.
pub(super) fn is_named(value: &[u8]) -> bool {
    let is_word = |part: &&[u8]| {
        part.len() >= 3
            && (part.iter().all(u8::is_ascii_lowercase) || part.iter().all(u8::is_ascii_uppercase))
    };
    let is_plain = value
        .iter()
        .all(|byte| is_alnum(*byte) || matches!(byte, b'-' | b'_' | b'.' | b'/' | b':'));
    let parts = value.split(|byte| !is_alnum(*byte));
    is_plain && parts.filter(is_word).count() >= 2
}
