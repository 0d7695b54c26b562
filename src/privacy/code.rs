//! Values that are code rather than text: variables, templates, calls, types, paths and references.

use super::bytes::{contains, is_digit, is_of_name, is_word, run, trim_end};
use super::names::{Holds, words};
use super::scan::placeholder_len;
use super::text::is_base64_at_random;
use super::values::Written;

/// Whether a value is a template, variable, call, path or URL.
pub(super) fn is_code(value: &[u8], written: Written) -> bool {
    const MARKS: [&[u8]; 15] = [
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
    let has_mark = MARKS.iter().any(|mark| contains(value, mark));
    let has_placeholder = memchr::memmem::find_iter(value, super::PLACEHOLDER)
        .any(|at| placeholder_len(&value[at..]).is_some());
    let is_path = value.starts_with(b"/")
        && memchr::memchr_iter(b'/', value).count() > 1
        && !is_base64_at_random(value);
    let is_text = matches!(written, Written::Quoted | Written::Listed);
    let starts = is_path
        || opens_bracket(value, is_text)
        || matches!(value, [b'.' | b'~', b'/', ..] | [b'%', .., b'%'])
        // Part of a regular expression.
        || matches!(value, [b'.', b'*' | b'+', ..])
        || is_variable(value, is_text)
        || value.starts_with(b"~") && written == Written::Bare
        || !is_text && is_reference(value, written);
    let has_blank = value
        .iter()
        .any(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control());
    has_mark
        || has_placeholder
        || starts
        || has_blank
        || is_path_of_code(value)
        || written == Written::Bare && is_expression(value)
        || !is_text && is_numbered_type(value)
        || written == Written::Literal && is_call(value)
}

/// Whether a value begins with a bracket. In quotes, the bracket must also be closed.
fn opens_bracket(value: &[u8], is_text: bool) -> bool {
    let pair = [b"<>", b"{}", b"[]", b"()"].into_iter();
    let mut pair = pair.filter(|[open, _]| value.first() == Some(open));
    pair.any(|[_, close]| !is_text || value.contains(close))
}

/// Unquoted code: a name, a number with a type suffix, names joined by `&`, or the next name of a
/// list, `user= password= `.
fn is_expression(value: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        !name.is_empty()
            && name
                .iter()
                .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'))
    };
    let is_next = value.strip_suffix(b"=").is_some_and(is_name);
    let mut parts = value.split(|byte| *byte == b'&');
    let is_joined = value.contains(&b'&') && parts.all(|part| part.is_empty() || is_plain(part));
    is_identifier(value) || is_typed_number(value) || is_next || is_joined
}

/// Whether the text is a typical variable name: words with few digits. Random text has more digits
/// and shorter words.
fn is_plain(name: &[u8]) -> bool {
    const SHORT_BYTES: usize = 3;
    let is_of_name = name.iter().all(|byte| is_word(*byte));
    let words = words(name);
    let is_number = |word: &&String| word.as_bytes()[0].is_ascii_digit();
    let numbers = words.iter().filter(is_number).count();
    let letters = words.iter().filter(|word| !is_number(word));
    let (count, len) = letters.fold((0, 0), |(count, len), word| (count + 1, len + word.len()));
    is_of_name && (name.len() <= SHORT_BYTES || numbers <= 1 && len >= SHORT_BYTES * count)
}

/// `$DB_PASSWORD`, `$row[0]`, `$2`, and password hashes such as `$2b$12$…`. In quotes, another
/// variable may directly follow the name.
pub(super) fn is_variable(value: &[u8], is_text: bool) -> bool {
    let Some(rest) = value.strip_prefix(b"$") else {
        return false;
    };
    let id = &rest[..run(rest, 0, usize::MAX, is_of_name)];
    if rest.get(id.len()) == Some(&b'$') && is_hash_id(id) {
        return true;
    }
    let (name, rest) = rest.split_at(run(rest, 0, usize::MAX, is_word));
    let ends = match rest.first() {
        Some(b'!' | b'@' | b'#' | b'%' | b'^' | b'&' | b'*' | b'=' | b'+') => false,
        Some(b'$') if is_text => is_variable(rest, true),
        None | Some(_) => true,
    };
    is_plain(name) && ends
}

/// Identifiers of password hash formats, as `crypt` and others put them first.
fn is_hash_id(id: &[u8]) -> bool {
    const SHORT: [&[u8]; 13] = [
        b"1", b"2", b"2a", b"2b", b"2x", b"2y", b"5", b"6", b"7", b"y", b"gy", b"P", b"H",
    ];
    const LONG: [&[u8]; 6] = [b"apr1", b"argon2", b"pbkdf2", b"bcrypt", b"scrypt", b"sha"];
    SHORT.contains(&id) || LONG.iter().any(|known| id.starts_with(known))
}

/// A YAML anchor or alias, or an address-of expression.
fn is_reference(value: &[u8], written: Written) -> bool {
    let [b'*' | b'&', rest @ ..] = value else {
        return false;
    };
    let name = &rest[..run(rest, 0, usize::MAX, is_word)];
    is_plain(name) && (written == Written::Bare || name.len() == rest.len())
}

/// `get(1)`, `a.b[2]`: a name and its arguments.
fn is_call(value: &[u8]) -> bool {
    let len = run(value, 0, usize::MAX, |byte| is_word(byte) || byte == b'.');
    let last = value.trim_ascii_end().last();
    len > 0
        && matches!(value.get(len), Some(b'(' | b'['))
        && matches!(last, Some(b')' | b']' | b';' | b'('))
}

/// `config.auth.token2`: names joined by dots.
pub(super) fn is_path_of_code(value: &[u8]) -> bool {
    let is_name = |part: &[u8]| {
        part.first()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
            && part.iter().all(|byte| is_word(*byte))
    };
    value.contains(&b'.')
        && value.split(|byte| *byte == b'.').all(is_name)
        && value.iter().filter(|byte| byte.is_ascii_digit()).count() <= 2
}

/// `user_password_2`, `userPassword2`, `API_KEY_2`: an identifier.
pub(super) fn is_identifier(value: &[u8]) -> bool {
    let value = value.trim_ascii_end();
    let letters = trim_end(value, is_digit);
    let digits = value.len() - letters.len();
    let is_plain = letters
        .iter()
        .all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'-'));
    let words = words(letters);
    is_plain && digits <= 2 && words.len() >= 2 && words.iter().all(|word| word.len() >= 2)
}

/// `uint256`, `bytes32`: a type with its size.
fn is_numbered_type(value: &[u8]) -> bool {
    const TYPES: [&[u8]; 8] = [
        b"int", b"uint", b"float", b"byte", b"bytes", b"char", b"varchar", b"fixed",
    ];
    let name = trim_end(value, is_digit);
    (1..=3).contains(&(value.len() - name.len())) && TYPES.contains(&&name.to_ascii_lowercase()[..])
}

/// `Uint8Array`, `ed25519.Ed25519PrivateKey`: a declared type. Its last word identifies it.
pub(super) fn is_type(holds: Holds, value: &[u8]) -> bool {
    const TYPES: [&str; 8] = [
        "array", "str", "string", "bytes", "buffer", "hash", "sha", "hmac",
    ];
    const KEYS: [&str; 4] = ["key", "token", "secret", "credentials"];
    let name = value.rsplit(|byte| *byte == b'.').next().unwrap_or(value);
    let words = words(name);
    let is_number = |word: &&String| word.as_bytes()[0].is_ascii_digit();
    let last = words.iter().rev().find(|word| !is_number(word));
    name.first().is_some_and(u8::is_ascii_uppercase)
        && value.iter().all(|byte| is_word(*byte) || *byte == b'.')
        && last.is_some_and(|last| {
            TYPES.contains(&last.as_str())
                || holds != Holds::Password && KEYS.contains(&last.as_str())
        })
}

/// `4097u32`, `0x1001UL`: a number with a type suffix.
fn is_typed_number(value: &[u8]) -> bool {
    const TYPES: [&[u8]; 20] = [
        b"u8", b"u16", b"u32", b"u64", b"u128", b"usize", b"i8", b"i16", b"i32", b"i64", b"i128",
        b"isize", b"f32", b"f64", b"u", b"l", b"ul", b"ull", b"ll", b"n",
    ];
    let value = value.strip_prefix(b"-").unwrap_or(value);
    let lower = value.to_ascii_lowercase();
    let is_number = |digits: &[u8]| {
        let (digits, is_digit): (_, fn(&u8) -> bool) = match digits.strip_prefix(b"0x") {
            Some(digits) => (digits, u8::is_ascii_hexdigit),
            None => (digits, u8::is_ascii_digit),
        };
        !digits.is_empty() && digits.iter().all(|byte| is_digit(byte) || *byte == b'_')
    };
    let has_type = |of: &&[u8]| lower.strip_suffix(*of).is_some_and(is_number);
    lower.starts_with(b"0x") && is_number(&lower) || TYPES.iter().any(has_type)
}
