//! The search text in the bytes of lines that are not decoded.
//!
//! A text stands in a line as JSON writes it, in any case, or with escapes in place of some of its
//! characters. So a line may hold the text if it contains that literal, or a `\u` escape of a
//! character of the text. Both are looked for in the same pass: the literal by its three rarest
//! bytes, many positions at a time, and then by an expression. `memchr::memmem` would be of no use,
//! since case is ignored.
//!
//! Only characters of which all forms have the same length give such bytes. Letters other than
//! those of ASCII do not, nor do `k` and `s`, of which Unicode has a longer form each, nor does `/`,
//! which may be escaped. If no two neighbours of the text are left, the expression alone is used.

use std::cmp::Reverse;
use std::ops::Range;

use regex::bytes::{Regex, RegexBuilder};

use super::blocks;
use super::needle::COMPILED_BYTES_MAX;
use crate::store::Sought;

/// Length of `\u0000`.
const ESCAPE_LEN: usize = 6;
/// The bytes that most lines have, the most frequent first. Lower-case stands for both cases. Hex
/// digits are the most frequent, since ids and hashes are made of them.
const FREQUENT: &[u8] = b"\" e0123456789abcdftino:,-rls_uhmpgywv.k{}/\\[]()=x'<>;qjz";

/// The search text as raw lines have it.
#[derive(Debug)]
pub(super) struct RawText {
    /// Matches the text as JSON writes it. Without an anchor, also every `\u`.
    literal: Regex,
    /// Maximum length of its match.
    literal_bytes_max: usize,
    anchor: Option<Anchor>,
    escapes: Escapes,
}

/// Bytes that every match of the literal contains.
#[derive(Debug, Clone)]
struct Anchor {
    bytes: Vec<Masked>,
    /// The positions of the three rarest, the last one first. Of two bytes, one comes twice.
    rarest: [usize; 3],
}

/// A byte, without the bits in which its cases differ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masked {
    mask: u8,
    value: u8,
}

/// The start of a `\u` escape.
pub(super) const BACKSLASH: Masked = Masked {
    mask: 0,
    value: b'\\',
};
pub(super) const LETTER_U: Masked = Masked {
    mask: 0,
    value: b'u',
};

/// The characters whose `\u` escapes may be part of a match.
#[derive(Debug)]
struct Escapes {
    ascii: [bool; 128],
    kelvin_sign: bool,
    long_s: bool,
    /// All characters that are not ASCII.
    others: bool,
}

impl RawText {
    pub(super) fn new(text: &str) -> Result<RawText, regex::Error> {
        let anchor = Anchor::of(text);
        let mut pattern = String::from("(?i:");
        for letter in text.chars() {
            match letter {
                '/' => pattern.push_str(r"\\?/"),
                letter => pattern.push_str(&regex::escape(&json_of(letter))),
            }
        }
        pattern.push(')');
        if anchor.is_none() {
            pattern.push_str(r"|\\u");
        }
        let literal = RegexBuilder::new(&pattern)
            .size_limit(COMPILED_BYTES_MAX)
            .build()?;
        let literal_bytes_max = text.chars().map(|letter| match letter {
            'k' | 'K' | 's' | 'S' | '\u{80}'.. => 4,
            '/' => 2,
            letter => json_of(letter).len(),
        });
        Ok(RawText {
            literal,
            literal_bytes_max: literal_bytes_max.sum(),
            anchor,
            escapes: Escapes::of(text),
        })
    }

    /// A position in the first line that may match, which is one of those at which `candidate`
    /// finds something.
    fn find_anchored(&self, anchor: &Anchor, lines: &[u8]) -> Option<usize> {
        let mut from = 0;
        while let Some(at) = anchor.candidate(lines, from) {
            if self.escapes.may_be_at(lines, at) {
                return Some(at);
            }
            if anchor.is_at(lines, at) {
                let end = at.saturating_add(self.literal_bytes_max).min(lines.len());
                let near = at.saturating_sub(self.literal_bytes_max)..end;
                if let Some(found) = self.literal.find(&lines[near.clone()]) {
                    return Some(near.start + found.start());
                }
            }
            from = at + 1;
        }
        None
    }
}

impl Sought for RawText {
    fn find(&self, lines: &[u8]) -> Option<usize> {
        if let Some(anchor) = &self.anchor {
            return self.find_anchored(anchor, lines);
        }
        let mut from = 0;
        while let Some(found) = self.literal.find_at(lines, from) {
            let at = found.start();
            if found.as_bytes() != b"\\u" || self.escapes.may_be_at(lines, at) {
                return Some(at);
            }
            from = at + 1;
        }
        None
    }

    fn bytes_max(&self) -> usize {
        self.literal_bytes_max.max(ESCAPE_LEN)
    }
}

/// A character as it is in a JSON string.
fn json_of(letter: char) -> String {
    let json = serde_json::Value::from(letter.to_string()).to_string();
    json[1..json.len() - 1].to_owned()
}

/// Whether a character that is not ASCII has only one case.
pub(super) fn is_caseless(letter: char) -> bool {
    letter.to_lowercase().eq([letter]) && letter.to_uppercase().eq([letter])
}

impl Anchor {
    /// The run of characters with the rarest bytes.
    fn of(text: &str) -> Option<Anchor> {
        let mut runs: Vec<Vec<Masked>> = vec![Vec::new()];
        for letter in text.chars() {
            let is_fixed = match letter {
                'k' | 'K' | 's' | 'S' | '/' => false,
                letter => letter.is_ascii() || is_caseless(letter),
            };
            match runs.last_mut().filter(|_| is_fixed) {
                Some(run) => run.extend(Masked::all_of(letter)),
                None => runs.push(Vec::new()),
            }
        }
        let anchors = runs.into_iter().filter_map(Anchor::of_run);
        anchors.max_by_key(Anchor::rarity)
    }

    fn of_run(bytes: Vec<Masked>) -> Option<Anchor> {
        let mut places: Vec<usize> = (0..bytes.len()).collect();
        places.sort_by_key(|place| Reverse(bytes[*place].rarity()));
        let [one, other, ..] = places[..] else {
            return None;
        };
        let mut rarest = [one, other, places.get(2).copied().unwrap_or(other)];
        rarest.sort_unstable_by_key(|place| Reverse(*place));
        Some(Anchor { bytes, rarest })
    }

    fn rarity(&self) -> usize {
        let rarest = self.rarest.map(|place| self.bytes[place].rarity());
        rarest.into_iter().sum()
    }

    fn is_at(&self, lines: &[u8], at: usize) -> bool {
        let found = lines.get(at..at + self.bytes.len());
        found.is_some_and(|found| {
            let mut pairs = self.bytes.iter().zip(found);
            pairs.all(|(wanted, byte)| wanted.is(*byte))
        })
    }

    /// The first position from `from` on where the anchor or a `\u` may be. Compares the three
    /// rarest bytes alone.
    fn candidate(&self, lines: &[u8], from: usize) -> Option<usize> {
        let wanted = self.rarest.map(|place| self.bytes[place]);
        let at = from + blocks::skip(&lines[from..], self.rarest, wanted);
        let is = |at: usize, wanted: Masked| lines.get(at).is_some_and(|byte| wanted.is(*byte));
        (at..lines.len()).find(|at| {
            let mut places = self.rarest.iter().zip(wanted);
            let is_anchor = places.all(|(place, wanted)| is(at + place, wanted));
            is_anchor || is(*at, BACKSLASH) && is(*at + 1, LETTER_U)
        })
    }
}

impl Masked {
    /// The bytes of a character in a JSON string.
    pub(super) fn all_of(letter: char) -> Vec<Masked> {
        let json = json_of(letter);
        // The letters in an escape have one case, other than hex digits.
        let (exact, rest): (Range<usize>, Range<usize>) = match json.len() {
            2.. if letter.is_ascii() => (0..2, 2..json.len()),
            _ => (0..0, 0..json.len()),
        };
        let bytes = json.as_bytes();
        let exact = bytes[exact].iter().map(|byte| Masked {
            mask: 0,
            value: *byte,
        });
        let rest = bytes[rest].iter().map(|byte| {
            let mask = if byte.is_ascii_alphabetic() { 0x20 } else { 0 };
            Masked {
                mask,
                value: byte | mask,
            }
        });
        exact.chain(rest).collect()
    }

    #[inline(always)]
    #[allow(clippy::inline_always)] // In the loop over a block.
    pub(super) fn is(self, byte: u8) -> bool {
        (byte | self.mask) == self.value
    }

    fn rarity(self) -> usize {
        let place = FREQUENT.iter().position(|byte| *byte == self.value);
        place.unwrap_or(FREQUENT.len())
    }
}

impl Escapes {
    fn of(text: &str) -> Escapes {
        let has = |letters: &[char]| text.contains(letters);
        let mut escapes = Escapes {
            ascii: [false; 128],
            kelvin_sign: has(&['k', 'K']),
            long_s: has(&['s', 'S']),
            others: !text.is_ascii(),
        };
        let mut add = |letter: char| {
            // The escape of another control character is the literal itself.
            let is_other = json_of(letter).len() < ESCAPE_LEN;
            for letter in [letter.to_ascii_lowercase(), letter.to_ascii_uppercase()] {
                if let Some(known) = escapes.ascii.get_mut(letter as usize) {
                    *known |= is_other;
                }
            }
        };
        for letter in text.chars() {
            add(letter);
            match letter {
                '\u{212a}' => add('k'),
                '\u{17f}' => add('s'),
                _ => {}
            }
        }
        escapes
    }

    /// Whether an escape at this position may be part of a match.
    fn may_be_at(&self, lines: &[u8], at: usize) -> bool {
        let Some(digits) = lines[at..].strip_prefix(b"\\u") else {
            return false;
        };
        let digits = digits.first_chunk::<4>();
        let digits = digits.and_then(|digits| str::from_utf8(digits).ok());
        let unit = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        match unit.map(usize::from) {
            Some(unit @ ..0x80) => self.ascii[unit],
            Some(0x212A) if self.kelvin_sign => true,
            Some(0x17F) if self.long_s => true,
            Some(_) => self.others,
            None => true,
        }
    }
}
