//! What is known of persons: e-mail addresses, card numbers, IBANs, phone numbers, and social
//! security numbers of the US. Their IP addresses are in `ip`.

use super::text::starts_word;
use super::{Found, ip};

/// The fewest digits of a number that no `(` begins.
const PHONE_DIGITS_MIN: usize = 8;

/// Everything of this sort in a text.
pub(super) fn find(text: &[u8], found: &mut Vec<Found>) {
    found.extend(memchr::memchr_iter(b'@', text).filter_map(|at| email(text, at)));
    found.extend(memchr::memchr_iter(b'+', text).filter_map(|at| international(text, at)));
    found.extend(memchr::memchr_iter(b':', text).filter_map(|at| ip::v6(text, at)));
    let mut at = 0;
    while let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
        at += digit;
        let is_long = number(text, at, b" -.", PHONE_DIGITS_MIN).digits().len() >= PHONE_DIGITS_MIN;
        let number = if is_long || at > 0 && text[at - 1] == b'(' {
            card(text, at)
                .or_else(|| iban(text, at))
                .or_else(|| social_security(text, at))
                .or_else(|| phone(text, at))
        } else {
            iban(text, at)
        };
        let run = text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let has_stop = run <= 3 && text.get(at + run) == Some(&b'.');
        let number = number.or_else(|| has_stop.then(|| ip::v4(text, at))?);
        at = number
            .as_ref()
            .map_or(at + run, |number| number.end.max(at + run));
        found.extend(number);
    }
}

fn run_before(text: &[u8], until: usize, most: usize, class: fn(u8) -> bool) -> usize {
    let before = text[..until].iter().rev().take(most);
    before.take_while(|byte| class(**byte)).count()
}

fn email(text: &[u8], at: usize) -> Option<Found> {
    /// Ends of file names, as in `icon@2x.png`.
    const FILES: [&[u8]; 14] = [
        b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"js", b"ts", b"css", b"json", b"html",
        b"md", b"git", b"local",
    ];
    let local = run_before(text, at, 64, |b| {
        b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-')
    });
    let mut start = at - local;
    // The letter of an escape that is still in the text.
    if start > 0 && text[start - 1] == b'\\' && local > 1 && starts_word(text, start + 1) {
        start += 1;
    }
    while text
        .get(start)
        .is_some_and(|byte| matches!(byte, b'.' | b'-' | b'%' | b'+'))
    {
        start += 1;
    }
    let rest = text[at + 1..].iter().take(253);
    let domain = rest
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'))
        .count();
    let domain = text[at + 1..at + 1 + domain].trim_ascii_end();
    let kept = domain.iter().rposition(u8::is_ascii_alphanumeric)? + 1;
    let domain = &domain[..kept];
    let top_at = memchr::memrchr(b'.', domain)? + 1;
    let top = domain[top_at..].to_ascii_lowercase();
    let has_top = (2..=24).contains(&top.len()) && top.iter().all(u8::is_ascii_alphabetic);
    let has_labels = domain
        .split(|byte| *byte == b'.')
        .all(|label| !label.is_empty());
    let name = &text[start..at];
    // `git@host` is no person, and `https://user@host` an address of another sort.
    let is_other =
        name == b"git" || text[..start].ends_with(b"://") || text[..start].ends_with(b"\\/\\/");
    let is_email =
        !name.is_empty() && has_top && has_labels && !is_other && !FILES.contains(&&top[..]);
    is_email.then_some(Found {
        name: "email",
        start,
        end: at + 1 + kept,
    })
}

/// The most digits that a number of ours has, and one more.
const DIGITS_MAX: usize = 20;

/// A number with what separates its digits.
struct Number {
    /// The digits' values.
    digits: [u8; DIGITS_MAX],
    len: usize,
    /// How many digits are between separators.
    groups: [usize; DIGITS_MAX],
    group: usize,
    end: usize,
}

impl Number {
    fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    fn groups(&self) -> &[usize] {
        &self.groups[..=self.group]
    }
}

/// The digits from `at` on, up to one more than `most`, with one separator between groups of them,
/// always the same.
fn number(text: &[u8], at: usize, separators: &[u8], most: usize) -> Number {
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

/// Whether nothing around says that the digits are part of something longer.
fn stands_alone(text: &[u8], start: usize, end: usize) -> bool {
    let joins = |byte: &u8| {
        byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'_' | b'-' | b'.' | b'/' | b'+' | b':' | b'#' | b'=' | b'@'
            )
    };
    let after = text.get(end).is_none_or(|byte| {
        // A full stop may end a sentence.
        let goes_on = *byte == b'.' && text.get(end + 1).is_some_and(u8::is_ascii_alphanumeric);
        !(goes_on || byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'/' | b'@'))
    });
    let before = start == 0 || {
        let label = matches!(text[start - 1], b':' | b'=');
        label
            || !joins(&text[start - 1])
            || starts_word(text, start) && text[start - 1].is_ascii_alphanumeric()
    };
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
        // Without groups, the lengths that ids often have are not enough.
        [_] => matches!(len, 15 | 16),
        [4, 6, 4 | 5] => true,
        [rest @ .., last] => rest.iter().all(|group| *group == 4) && (1..=4).contains(last),
        [] => false,
    };
    let is_card = is_known && is_grouped && luhn(digits) && stands_alone(text, at, end);
    is_card.then_some(Found {
        name: "card_number",
        start: at,
        end,
    })
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

/// A social security number of the US: `123-45-6789`. With other separators, or without, only what
/// says that it is one tells it from other numbers.
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
    // Never given out.
    let is_none = is_zero(&digits[..3])
        || is_zero(&digits[3..5])
        || is_zero(&digits[5..])
        || digits[0] == 9
        || digits[..3] == [6, 6, 6];
    let is_number = !is_none && (is_dashed || is_said()) && stands_alone(text, at, end);
    is_number.then_some(Found {
        name: "ssn",
        start: at,
        end,
    })
}

/// Countries and the length of their IBANs.
const IBANS: &[(&[u8; 2], usize)] = &[
    (b"AD", 24),
    (b"AE", 23),
    (b"AL", 28),
    (b"AT", 20),
    (b"AZ", 28),
    (b"BA", 20),
    (b"BE", 16),
    (b"BG", 22),
    (b"BH", 22),
    (b"BR", 29),
    (b"BY", 28),
    (b"CH", 21),
    (b"CR", 22),
    (b"CY", 28),
    (b"CZ", 24),
    (b"DE", 22),
    (b"DK", 18),
    (b"DO", 28),
    (b"EE", 20),
    (b"EG", 29),
    (b"ES", 24),
    (b"FI", 18),
    (b"FO", 18),
    (b"FR", 27),
    (b"GB", 22),
    (b"GE", 22),
    (b"GI", 23),
    (b"GL", 18),
    (b"GR", 27),
    (b"GT", 28),
    (b"HR", 21),
    (b"HU", 28),
    (b"IE", 22),
    (b"IL", 23),
    (b"IQ", 23),
    (b"IS", 26),
    (b"IT", 27),
    (b"JO", 30),
    (b"KW", 30),
    (b"KZ", 20),
    (b"LB", 28),
    (b"LC", 32),
    (b"LI", 21),
    (b"LT", 20),
    (b"LU", 20),
    (b"LV", 21),
    (b"LY", 25),
    (b"MC", 27),
    (b"MD", 24),
    (b"ME", 22),
    (b"MK", 19),
    (b"MR", 27),
    (b"MT", 31),
    (b"MU", 30),
    (b"NL", 18),
    (b"NO", 15),
    (b"PK", 24),
    (b"PL", 28),
    (b"PS", 29),
    (b"PT", 25),
    (b"QA", 29),
    (b"RO", 24),
    (b"RS", 22),
    (b"SA", 24),
    (b"SC", 31),
    (b"SE", 24),
    (b"SI", 19),
    (b"SK", 24),
    (b"SM", 27),
    (b"ST", 25),
    (b"SV", 28),
    (b"TL", 23),
    (b"TN", 24),
    (b"TR", 26),
    (b"UA", 29),
    (b"VA", 22),
    (b"VG", 24),
    (b"XK", 20),
];

/// An IBAN whose check digits are at `at`.
fn iban(text: &[u8], at: usize) -> Option<Found> {
    let start = at.checked_sub(2)?;
    let country = text.get(start..at)?;
    let (_, len) = IBANS
        .iter()
        .find(|(known, _)| known.as_slice() == country)?;
    let (mut account, mut end) = (Vec::with_capacity(*len), start);
    while account.len() < *len {
        match text.get(end)? {
            byte if byte.is_ascii_digit() || byte.is_ascii_uppercase() => account.push(*byte),
            b' ' if account.len() % 4 == 0 => {}
            _ => return None,
        }
        end += 1;
    }
    // The check: the first four go last, letters are 10 to 35, and all is 1 modulo 97.
    let rest = account[4..].iter().chain(&account[..4]);
    let remainder = rest.fold(0u32, |sum, byte| match byte {
        b'0'..=b'9' => (sum * 10 + u32::from(byte - b'0')) % 97,
        _ => (sum * 100 + u32::from(byte - b'A' + 10)) % 97,
    });
    let is_iban = remainder == 1 && stands_alone(text, start, end);
    is_iban.then_some(Found {
        name: "iban",
        start,
        end,
    })
}

/// `+` and the digits of a number with its country.
fn international(text: &[u8], at: usize) -> Option<Found> {
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
                if !goes_on || is_bracket_wrong || digits >= 15 {
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
        // Added lines of a diff begin with the same sign.
        let begins_line = at == 0 || text[at - 1] == b'\n' || text[..at].ends_with(b"\\n");
        (9..=15).contains(&digits) && !(begins_line && separators == 0 && digits > 13)
    };
    let ends = text
        .get(end)
        .is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
    (fits && ends && separators <= 6).then_some(Found {
        name: "phone",
        start: at,
        end,
    })
}

/// A number as it is written in North America, or one that is said to be a phone's.
fn phone(text: &[u8], at: usize) -> Option<Found> {
    let said = number(text, at, b" -.", 15);
    let (digits, groups, end) = (said.digits(), said.groups(), said.end);
    let start = if at > 0 && text[at - 1] == b'(' {
        at - 1
    } else {
        at
    };
    let is_exchange = |digit: Option<&u8>| digit.is_some_and(|digit| *digit >= 2);
    if start < at && groups == [3] && text.get(end) == Some(&b')') {
        let rest_at = end + 1 + usize::from(matches!(text.get(end + 1), Some(b' ' | b'-')));
        let rest = number(text, rest_at, b" -.", 7);
        let is_phone = rest.groups() == [3, 4]
            && is_exchange(digits.first())
            && is_exchange(rest.digits().first())
            && stands_alone(text, start, rest.end);
        return is_phone.then_some(Found {
            name: "phone",
            start,
            end: rest.end,
        });
    }
    // Blanks alone also stand between the numbers of tables.
    let is_separated = text
        .get(at + 3)
        .is_some_and(|byte| matches!(byte, b'-' | b'.'));
    let is_grouped = groups == [3, 3, 4]
        && is_separated
        && is_exchange(digits.first())
        && is_exchange(digits.get(3));
    let is_said = (8..=13).contains(&digits.len()) && is_said_to_be_phone(&text[..start]);
    let is_phone = (is_grouped || is_said) && stands_alone(text, at, end);
    is_phone.then_some(Found {
        name: "phone",
        start: at,
        end,
    })
}

fn is_said_to_be_phone(before: &[u8]) -> bool {
    const LABELS: [&str; 10] = [
        "phone",
        "mobile",
        "tel",
        "telephone",
        "phone number",
        "phone_number",
        "phonenumber",
        "cell",
        "fax",
        "whatsapp",
    ];
    const WORDS: [&str; 4] = ["call me at", "call me on", "reach me at", "text me at"];
    let lower = before[before.len().saturating_sub(24)..].to_ascii_lowercase();
    let label = lower.trim_ascii_end();
    is_said_to_be(before, &LABELS) || WORDS.iter().any(|words| label.ends_with(words.as_bytes()))
}

/// Whether one of these labels is before a number.
fn is_said_to_be(before: &[u8], labels: &[&str]) -> bool {
    let before = &before[before.len().saturating_sub(32)..];
    let lower = before.to_ascii_lowercase();
    let label = lower.trim_ascii_end();
    let is_sign = |byte: &u8| {
        matches!(
            byte,
            b':' | b'=' | b'"' | b'\'' | b' ' | b'\\' | b'(' | b'.'
        )
    };
    let signs = lower.iter().rev().take_while(|byte| is_sign(byte)).count();
    let label = &label[..(lower.len() - signs).min(label.len())];
    signs > 0 && labels.iter().any(|word| label.ends_with(word.as_bytes()))
}
