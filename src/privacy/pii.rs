//! Personal data: e-mail addresses, card numbers, IBANs and US social security numbers. Phone
//! numbers are in `phone`, IP addresses in `ip`.

use super::bytes::{is_digit, is_of_name, run, run_before, skip};
use super::displayed::char_at;
use super::text::starts_word;
use super::{Found, ip, phone};

/// Minimum number of digits of a phone number that does not begin with `(` or 0.
const PHONE_DIGITS_MIN: usize = 8;

/// Finds all personal data in a text.
pub(super) fn find(text: &[u8], found: &mut Vec<Found>) {
    found.extend(memchr::memchr_iter(b'@', text).filter_map(|at| email(text, at)));
    found.extend(memchr::memchr_iter(b'+', text).filter_map(|at| phone::international(text, at)));
    found.extend(memchr::memchr_iter(b':', text).filter_map(|at| ip::v6(text, at)));
    let mut at = 0;
    while let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
        at += digit;
        let is_long = number(text, at, b" -.", PHONE_DIGITS_MIN).digits().len() >= PHONE_DIGITS_MIN;
        let may_be_short = text[at] == b'0' || at > 0 && text[at - 1] == b'(';
        let number = if is_long || may_be_short {
            card(text, at)
                .or_else(|| iban(text, at))
                .or_else(|| social_security(text, at))
                .or_else(|| phone::national(text, at))
        } else {
            iban(text, at)
        };
        let run = run(text, at, usize::MAX, is_digit);
        let has_stop = run <= 3 && text.get(at + run) == Some(&b'.');
        let number = number.or_else(|| has_stop.then(|| ip::v4(text, at))?);
        at = number
            .as_ref()
            .map_or(at + run, |number| number.end.max(at + run));
        found.extend(number);
    }
}

/// Finds personal data in a value that a document assigns to a name. The name may identify it.
pub(super) fn member(name: &str, value: &str, found: &mut Vec<Found>) {
    const BYTES_MAX: usize = 64;
    if name.len() > BYTES_MAX || value.len() > BYTES_MAX {
        return;
    }
    let mut all = Vec::new();
    find([name, ": ", value].concat().as_bytes(), &mut all);
    let from = name.len() + 2;
    let in_value = all.into_iter().filter(|one| one.start >= from);
    found.extend(in_value.map(|one| Found::new(one.name, one.start - from, one.end - from)));
}

/// Length of the address letter at the start of a text. Outside ASCII, only letters of scripts that
/// put blanks between words count.
fn letter(text: &[u8]) -> Option<usize> {
    match text {
        [byte, ..] if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-') => Some(1),
        [0x80..=0xFF, ..] => {
            let one = char_at(text)?;
            let is_letter =
                matches!(one, '\u{300}'..='\u{36F}') || one < '\u{2000}' && one.is_alphanumeric();
            is_letter.then_some(one.len_utf8())
        }
        _ => None,
    }
}

/// The start of the local part that ends before the `@` at `at`.
fn local_start(text: &[u8], at: usize) -> usize {
    const BYTES_MAX: usize = 64;
    let mut start = at;
    while let Some(last) = start.checked_sub(1).filter(|_| at - start < BYTES_MAX) {
        let is_first = |byte: &u8| *byte & 0xC0 != 0x80;
        let near = last.saturating_sub(3);
        let first = text[near..=last].iter().rposition(is_first);
        let first = first.map_or(last, |first| near + first);
        let fits = matches!(text[first], b'_' | b'%' | b'+')
            || letter(&text[first..]) == Some(start - first);
        if !fits {
            break;
        }
        start = first;
    }
    start
}

fn email(text: &[u8], at: usize) -> Option<Found> {
    /// Endings of file names, as in `icon@2x.png`, and of decorators, as in `decorator@app.route`.
    const FILES: [&[u8]; 18] = [
        b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"js", b"ts", b"css", b"json", b"html",
        b"md", b"git", b"local", b"route", b"fixture", b"command", b"wraps",
    ];
    const DOMAIN_BYTES_MAX: usize = 253;
    let mut start = local_start(text, at);
    let local = at - start;
    // The letter of an undecoded escape.
    if start > 0 && text[start - 1] == b'\\' && local > 1 && starts_word(text, start + 1) {
        start += 1;
    }
    start = skip(text, start, |byte| {
        matches!(byte, b'.' | b'-' | b'%' | b'+')
    });
    let (mut len, mut kept) = (0, 0);
    while let Some(one) = letter(&text[at + 1 + len..]).filter(|_| len < DOMAIN_BYTES_MAX) {
        len += one;
        if !matches!(text[at + len], b'.' | b'-') {
            kept = len;
        }
    }
    let domain = &text[at + 1..at + 1 + kept];
    let top_at = memchr::memrchr(b'.', domain)? + 1;
    let top = domain[top_at..].to_ascii_lowercase();
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii();
    let has_top =
        (2..=24).contains(&top.len()) && (top.iter().all(is_letter) || top.starts_with(b"xn--"));
    // `foo@bar.baz()` is a function call.
    let has_top = has_top && text.get(at + 1 + kept) != Some(&b'(');
    let has_labels = !domain.split(|byte| *byte == b'.').any(<[u8]>::is_empty);
    let name = &text[start..at];
    // `git@host` is not a person, and `https://user@host` is a URL.
    let is_other =
        name == b"git" || text[..start].ends_with(b"://") || text[..start].ends_with(b"\\/\\/");
    let is_email =
        !name.is_empty() && has_top && has_labels && !is_other && !FILES.contains(&&top[..]);
    is_email.then(|| Found::new("email", start, at + 1 + kept))
}

/// Maximum number of digits of a recognized number, plus one.
const DIGITS_MAX: usize = 20;

/// A number with separators between its digits.
pub(super) struct Number {
    /// Values of the digits.
    digits: [u8; DIGITS_MAX],
    len: usize,
    /// Number of digits in each group between separators.
    groups: [usize; DIGITS_MAX],
    group: usize,
    pub end: usize,
}

impl Number {
    pub(super) fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    pub(super) fn groups(&self) -> &[usize] {
        &self.groups[..=self.group]
    }
}

/// Reads digits from `at` on, at most `most + 1`. Groups may be separated by one separator, the
/// same throughout.
pub(super) fn number(text: &[u8], at: usize, separators: &[u8], most: usize) -> Number {
    let mut number = Number {
        digits: [0; DIGITS_MAX],
        len: 0,
        groups: [0; DIGITS_MAX],
        group: 0,
        end: at,
    };
    let mut separator = None;
    while let Some(byte) = text.get(number.end) {
        if byte.is_ascii_digit() {
            number.digits[number.len] = byte - b'0';
            number.len += 1;
            number.groups[number.group] += 1;
        } else if separators.contains(byte)
            && separator.is_none_or(|known| known == *byte)
            && text.get(number.end + 1).is_some_and(u8::is_ascii_digit)
            && number.len > 0
        {
            separator = Some(*byte);
            number.group += 1;
        } else {
            break;
        }
        number.end += 1;
        if number.len > most.min(DIGITS_MAX - 1) {
            break;
        }
    }
    number
}

/// Whether the bytes around a number show that it is not part of something longer.
pub(super) fn stands_alone(text: &[u8], start: usize, end: usize) -> bool {
    let after = text.get(end).is_none_or(|byte| {
        // A full stop may end a sentence.
        let goes_on = *byte == b'.' && text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        !(goes_on || is_of_name(*byte) || matches!(byte, b'/' | b'@'))
    });
    let before = start
        .checked_sub(1)
        .is_none_or(|before| match text[before] {
            b'_' | b'-' | b'.' | b'/' | b'+' | b'#' | b'@' => false,
            byte => !byte.is_ascii_alphanumeric() || starts_word(text, start),
        });
    before && after
}

fn card(text: &[u8], at: usize) -> Option<Found> {
    let number = number(text, at, b" -", DIGITS_MAX - 1);
    let (digits, end) = (number.digits(), number.end);
    let prefix = |len: usize| {
        digits
            .iter()
            .take(len)
            .fold(0u32, |all, digit| all * 10 + u32::from(*digit))
    };
    let len = digits.len();
    let is_known = match (prefix(1), prefix(2), prefix(4)) {
        (4, ..) => matches!(len, 13 | 16 | 19),
        (_, 51..=55, _) | (_, _, 2221..=2720) => len == 16,
        (_, 34 | 37, _) => len == 15,
        (_, 36 | 38, _) | (_, _, 3000..=3059) => len == 14,
        (_, 65 | 62, _) | (_, _, 6011 | 6440..=6499 | 3528..=3589) => (16..=19).contains(&len),
        _ => false,
    };
    let is_grouped = match number.groups() {
        // Without groups, the lengths that are common for ids do not count.
        [_] => matches!(len, 15 | 16),
        [4, 6, 4 | 5] => true,
        [rest @ .., last] => rest.iter().all(|group| *group == 4) && (1..=4).contains(last),
        [] => false,
    };
    let is_card = is_known && is_grouped && luhn(digits) && stands_alone(text, at, end);
    is_card.then(|| Found::new("card_number", at, end))
}

fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let twice = u32::from(*digit) * (1 + place as u32 % 2);
            twice / 10 + twice % 10
        })
        .sum();
    sum.is_multiple_of(10) && digits.iter().any(|digit| *digit != digits[0])
}

/// A US social security number: `123-45-6789`. With other separators, or none, it is recognized
/// only after a label.
fn social_security(text: &[u8], at: usize) -> Option<Found> {
    const LABELS: [&str; 4] = ["ssn", "social security", "social security number", "ss#"];
    let said = number(text, at, b" -", 9);
    let (digits, end) = (said.digits(), said.end);
    if digits.len() != 9 {
        return None;
    }
    let is_dashed = said.groups() == [3, 2, 4] && text[at + 3] == b'-';
    let is_said =
        || matches!(said.groups(), [9] | [3, 2, 4]) && is_said_to_be(&text[..at], &LABELS);
    let is_zero = |digits: &[u8]| digits.iter().all(|digit| *digit == 0);
    // Never issued.
    let is_none = is_zero(&digits[..3])
        || is_zero(&digits[3..5])
        || is_zero(&digits[5..])
        || digits[0] == 9
        || digits[..3] == [6, 6, 6];
    let is_number = !is_none && (is_dashed || is_said()) && stands_alone(text, at, end);
    is_number.then(|| Found::new("ssn", at, end))
}

/// Length of a country's IBANs.
fn iban_len(country: &[u8]) -> Option<usize> {
    let len = match country {
        b"NO" => 15,
        b"BE" => 16,
        b"DK" | b"FI" | b"FO" | b"GL" | b"NL" => 18,
        b"MK" | b"SI" => 19,
        b"AT" | b"BA" | b"EE" | b"KZ" | b"LT" | b"LU" | b"XK" => 20,
        b"CH" | b"HR" | b"LI" | b"LV" => 21,
        b"BG" | b"BH" | b"CR" | b"DE" | b"GB" | b"GE" | b"IE" | b"ME" | b"RS" | b"VA" => 22,
        b"AE" | b"GI" | b"IL" | b"IQ" | b"TL" => 23,
        b"AD" | b"CZ" | b"ES" | b"MD" | b"PK" | b"RO" | b"SA" | b"SE" | b"SK" | b"TN" | b"VG" => 24,
        b"LY" | b"PT" | b"ST" => 25,
        b"IS" | b"TR" => 26,
        b"FR" | b"GR" | b"IT" | b"MC" | b"MR" | b"SM" => 27,
        b"AL" | b"AZ" | b"BY" | b"CY" | b"DO" | b"GT" | b"HU" | b"LB" | b"PL" | b"SV" => 28,
        b"BR" | b"EG" | b"PS" | b"QA" | b"UA" => 29,
        b"JO" | b"KW" | b"MU" => 30,
        b"MT" | b"SC" => 31,
        b"LC" => 32,
        _ => return None,
    };
    Some(len)
}

/// The IBAN whose check digits are at `at`.
fn iban(text: &[u8], at: usize) -> Option<Found> {
    let start = at.checked_sub(2)?;
    let country = text.get(start..at)?.to_ascii_uppercase();
    let len = iban_len(&country)?;
    let is_lower = text[start].is_ascii_lowercase();
    let is_of_case =
        |byte: &u8| byte.is_ascii_alphabetic() && byte.is_ascii_lowercase() == is_lower;
    if !is_of_case(&text[start + 1]) {
        return None;
    }
    let (mut account, mut end) = (Vec::with_capacity(len), start);
    while account.len() < len {
        match text.get(end)? {
            byte if byte.is_ascii_digit() || is_of_case(byte) => {
                account.push(byte.to_ascii_uppercase());
            }
            b' ' if account.len() % 4 == 0 => {}
            _ => return None,
        }
        end += 1;
    }
    // Checksum: move the first four characters to the end, map letters to 10..=35; the number
    // modulo 97 must be 1.
    let rest = account[4..].iter().chain(&account[..4]);
    let remainder = rest.fold(0u32, |sum, byte| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        _ => (sum * 100 + u32::from(byte - b'A' + 10)) % 97,
    });
    // In lower case it may be a hash.
    let is_hash = is_lower
        && account.iter().all(u8::is_ascii_hexdigit)
        && !account[4..].iter().all(u8::is_ascii_digit);
    let is_iban = remainder == 1 && !is_hash && stands_alone(text, start, end);
    is_iban.then(|| Found::new("iban", start, end))
}

/// Whether one of these labels is directly before a number.
pub(super) fn is_said_to_be(before: &[u8], labels: &[&str]) -> bool {
    /// Other words end the same way: `hotel`, `excel`, `syscall`.
    const ENDS: [&str; 4] = ["tel", "cell", "call", "fax"];
    let before = &before[before.len().saturating_sub(32)..];
    let lower = before.to_ascii_lowercase();
    let label = lower.trim_ascii_end();
    let is_sign = |byte| b":=\"' \\(.".contains(&byte);
    let signs = run_before(&lower, lower.len(), usize::MAX, is_sign);
    let label = &label[..(lower.len() - signs).min(label.len())];
    let is_word = |word: &str| {
        let start = label.len() - word.len();
        let is_hump = before[start].is_ascii_uppercase();
        is_hump || start == 0 || !label[start - 1].is_ascii_alphabetic()
    };
    let ends =
        |word: &&str| label.ends_with(word.as_bytes()) && (!ENDS.contains(word) || is_word(word));
    signs > 0 && labels.iter().any(ends)
}
