//! Phone numbers: with a country code, in the notation of some countries, and any number after a
//! label such as `tel`. Formats that dates, ids, amounts or tables also use are not redacted.

use super::Found;
use super::bytes::{run, run_before};
use super::pii::{Number, is_said_to_be, number, stands_alone};
use super::text::starts_word;

/// Maximum number of digits, including the country code.
const DIGITS_MAX: usize = 15;

fn found(start: usize, end: usize) -> Found {
    Found::new("phone", start, end)
}

/// `+`, the country code and the number.
pub(super) fn international(text: &[u8], at: usize) -> Option<Found> {
    let starts = at == 0
        || !text[at - 1].is_ascii_alphanumeric()
            && !matches!(text[at - 1], b'+' | b'.' | b')' | b']' | b'_')
        || starts_word(text, at) && text[at - 1].is_ascii_alphanumeric();
    if !starts || !matches!(text.get(at + 1), Some(b'1'..=b'9')) {
        return None;
    }
    let (mut digits, mut separators, mut end, mut open) = (0, 0, at + 1, false);
    while let Some(byte) = text.get(end) {
        match byte {
            b'0'..=b'9' => digits += 1,
            b' ' | b'-' | b'.' | b'(' | b')' | b'/' => {
                let next = text.get(end + 1);
                let goes_on = next.is_some_and(u8::is_ascii_digit)
                    || matches!((byte, next), (b' ', Some(b'(')) | (b')', Some(b' ' | b'-')));
                let is_bracket_wrong = (*byte == b'(') == open && matches!(byte, b'(' | b')');
                if !goes_on || is_bracket_wrong || digits >= DIGITS_MAX {
                    break;
                }
                open ^= matches!(byte, b'(' | b')');
                separators += 1;
            }
            _ => break,
        }
        end += 1;
    }
    let is_north_american = text[at + 1] == b'1';
    let fits = if is_north_american {
        digits == 11
    } else {
        // Added lines of a diff also begin with `+`.
        let begins_line = at == 0 || text[at - 1] == b'\n' || text[..at].ends_with(b"\\n");
        (9..=DIGITS_MAX).contains(&digits) && !(begins_line && separators == 0 && digits > 13)
    };
    let ends = text
        .get(end)
        .is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    let said = &text[at + 1..end];
    let is_other = is_year(said) || separators == 1 && is_amount(said);
    (fits && ends && separators <= 6 && !is_other).then(|| found(at, end))
}

/// `+10000-09-09`: an ISO 8601 date with a year of more than four digits.
fn is_year(said: &[u8]) -> bool {
    let mut parts = said.split(|byte| *byte == b'-').map(<[u8]>::len);
    parts.next().is_some_and(|year| year >= 5) && parts.next() == Some(2)
}

/// `+35236450.60`
fn is_amount(said: &[u8]) -> bool {
    memchr::memrchr(b'.', said).is_some_and(|stop| said.len() - stop <= 3)
}

/// A number without country code whose first digit is at `at`, or a number after a phone label.
pub(super) fn national(text: &[u8], at: usize) -> Option<Found> {
    let is_open = text[..at].ends_with(b"(");
    if let Some(found) = is_open.then(|| bracketed(text, at)).flatten() {
        return Some(found);
    }
    let separated = number(text, at, b" -.", DIGITS_MAX);
    // `0171/1234567`
    let by_stroke = number(text, at, b"/", DIGITS_MAX);
    let is_stroke = by_stroke.end > separated.end && text[at] == b'0';
    let (said, separator) = if is_stroke {
        (by_stroke, b'/')
    } else {
        let separator = text.get(at + separated.groups()[0]).copied();
        (separated, separator.unwrap_or_default())
    };
    let is_phone = is_north_american(&said, separator)
        || is_of_trunk(&said, separator) && stands_apart(text, at, said.end)
        || (8..=13).contains(&said.digits().len()) && is_said(&text[..at], &said);
    (is_phone && stands_alone(text, at, said.end)).then(|| found(at, said.end))
}

/// `555-123-4567`, `555.123.4567`, `1-800-555-0199`. Blanks do not count as separators, because the
/// numbers of a table are also separated by blanks.
fn is_north_american(said: &Number, separator: u8) -> bool {
    let (digits, groups) = (said.digits(), said.groups());
    match groups {
        [3, 3, 4] => matches!(separator, b'-' | b'.') && digits[0] >= 2 && digits[3] >= 1,
        [1, 3, 3, 4] => separator == b'-' && digits[0] == 1 && digits[1] >= 2 && digits[4] >= 1,
        _ => false,
    }
}

/// National numbers with the trunk prefix 0: German and UK mobile phones and large cities, all
/// German numbers that contain a slash, and French numbers.
fn is_of_trunk(said: &Number, separator: u8) -> bool {
    let (digits, groups) = (said.digits(), said.groups());
    let [0, one @ 1..=9, two, three, ..] = *digits else {
        return false;
    };
    match (separator, groups) {
        (b'/', [3..=5, 5..=8]) => digits.len() >= 9,
        (b' ', [3, 7..=8]) => {
            // The second group may be a date.
            let is_date = groups[1] == 8 && matches!(digits[3..5], [1, 9] | [2, 0]);
            matches!((one, two), (3 | 4, 0) | (6 | 8, 9)) && !is_date
        }
        (b' ', [4, 7..=8]) => one == 1 && (5..=7).contains(&two),
        (b' ' | b'-', [3, 4, 4]) => one == 2,
        (b' ', [4, 3, 4]) => one == 1 && (two == 1 || three == 1),
        (b' ', [5, 6]) => one == 7,
        (b' ', [2, 2, 2, 2, 2]) => one != 8 && !is_count(digits),
        (b'.', [2, 2, 2, 2, 2]) => matches!(one, 6 | 7) && !is_count(digits),
        _ => false,
    }
}

/// Whether pairs of digits are consecutive hours, minutes or days.
fn is_count(digits: &[u8]) -> bool {
    let (pairs, _) = digits.as_chunks::<2>();
    pairs.is_sorted() && pairs.last().is_some_and(|last| last[0] <= 6)
}

/// Whether no other number is next to it, as in tables and dumps.
fn stands_apart(text: &[u8], start: usize, end: usize) -> bool {
    const BLANKS_MAX: usize = 8;
    let is_blank = |byte| matches!(byte, b' ' | b'\t' | b'|');
    let is_number = |word: [Option<&u8>; 3]| match word {
        [Some(one), _, _] if one.is_ascii_digit() => true,
        [Some(one), Some(two), next] => {
            one.is_ascii_hexdigit()
                && two.is_ascii_hexdigit()
                && next.is_none_or(|byte| !byte.is_ascii_alphanumeric())
        }
        _ => false,
    };
    let start = start - run_before(text, start, BLANKS_MAX, is_blank);
    let mut before = text[..start].iter().rev();
    let mut after = text[end + run(text, end, BLANKS_MAX, is_blank)..].iter();
    !is_number([before.next(), before.next(), before.next()])
        && !is_number([after.next(), after.next(), after.next()])
}

/// `(555) 123-4567`, `(030) 1234567`: the number whose area code is in brackets.
fn bracketed(text: &[u8], at: usize) -> Option<Found> {
    let area = number(text, at, b"", 5);
    if text.get(area.end) != Some(&b')') {
        return None;
    }
    let after = area.end + 1;
    let rest_at = after + usize::from(matches!(text.get(after), Some(b' ' | b'-' | b'/')));
    let rest = number(text, rest_at, b" -.", 9);
    let (digits, groups) = (rest.digits(), rest.groups());
    let is_phone = match *area.digits() {
        [2..=9, _, _] => groups == [3, 4] && digits[0] >= 1,
        [0, 1..=9, ..] => {
            let is_long = (6..=8).contains(&digits.len()) && rest_at > after;
            area.end - at >= 3 && is_long && groups.iter().all(|group| *group >= 2)
        }
        _ => false,
    };
    (is_phone && stands_alone(text, at - 1, rest.end)).then(|| found(at - 1, rest.end))
}

/// Whether the words before a number are a phone label.
fn is_said(before: &[u8], said: &Number) -> bool {
    const LABELS: [&str; 14] = [
        "phone",
        "mobile",
        "mobil",
        "handy",
        "tel",
        "telefon",
        "t\u{E9}l",
        "portable",
        "phone number",
        "phone_number",
        "phonenumber",
        "cell",
        "fax",
        "whatsapp",
    ];
    const OTHERS: [&str; 2] = ["microphone", "headphone"];
    const WORDS: [&str; 4] = ["call me at", "call me on", "reach me at", "text me at"];
    let lower = before[before.len().saturating_sub(24)..].to_ascii_lowercase();
    let label = lower.trim_ascii_end();
    // `call` also names function calls.
    let is_written_so = || match (said.digits(), said.groups()) {
        ([0, 1..=9, ..], groups) => groups.len() > 1 && (9..=12).contains(&said.digits().len()),
        (_, groups) => groups == [3, 3, 4],
    };
    let is_phone = is_said_to_be(before, &LABELS) && !is_said_to_be(before, &OTHERS);
    is_phone
        || WORDS.iter().any(|words| label.ends_with(words.as_bytes()))
        || is_said_to_be(before, &["call"]) && is_written_so()
}
