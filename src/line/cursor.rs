//! Reads a canonical line from its start, member by member, without general JSON parsing.

// Whether a member comes next, and what its value is, is tested inline: most names are constants.
#![allow(clippy::inline_always)]

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{LINE_START, Op, Value};
use crate::record::{
    Kind, Scanner, Timestamp, ascii_name, escaped, escaped_len, instant_ms, is_plain_id, is_scalar,
    payload_of_string, plain_len,
};

/// The rest of a line. Its methods return `None` if the input is not, or not certainly, in the form
/// that decklog writes. The caller falls back to the parser.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    /// The whole line, if it was checked to be UTF-8, as the source of strings; else empty.
    checked: &'a str,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(rest: &'a [u8]) -> Cursor<'a> {
        Cursor { rest, checked: "" }
    }

    /// For a line whose strings are to be read: one UTF-8 check of the line costs less than one per
    /// string.
    pub(super) fn of_texts(line: &'a [u8]) -> Option<Cursor<'a>> {
        let checked = std::str::from_utf8(line).ok()?;
        Some(Cursor {
            rest: line,
            checked,
        })
    }

    /// The first bytes of `rest`, which is the end of a line that was checked.
    fn text_of(&self, rest: &[u8], len: usize) -> Option<&'a str> {
        let start = self.checked.len().checked_sub(rest.len())?;
        self.checked.get(start..start + len)
    }

    /// Skips `text` if it comes next.
    #[inline(always)]
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text.as_bytes());
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    #[inline(always)]
    pub(super) fn expect(&mut self, text: &str) -> Option<()> {
        self.skip(text).then_some(())
    }

    /// The bytes up to the end of the line.
    #[cfg(feature = "http")]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The three members that every canonical line begins with.
    pub(super) fn head(&mut self, kind: Kind) -> Option<(u64, i64, Op)> {
        self.expect(LINE_START)?;
        let seq = self.digits()?;
        self.expect(",\"at\":")?;
        let at = self.integer()?;
        self.expect(",\"op\":\"")?;
        let op = kind.op_of_bytes(self.plain()?)?;
        (seq > 0).then_some((seq, at, op))
    }

    /// As [`head`](Self::head), but returns only the last of the three.
    #[inline(always)]
    pub(super) fn op(&mut self, kind: Kind) -> Option<Op> {
        // Any number with this many digits fits 64 bits; `at` may also have a sign.
        const SEQ_DIGITS_MAX: usize = 19;
        const AT_DIGITS_MAX: usize = 18;
        self.expect(LINE_START)?;
        self.skip_digits(1, SEQ_DIGITS_MAX)?;
        self.expect(",\"at\":")?;
        let least = i64::from(self.skip("-"));
        self.skip_digits(least, AT_DIGITS_MAX)?;
        self.expect(",\"op\":\"")?;
        kind.op_of_bytes(self.plain()?)
    }

    /// Skips a number in its shortest form that is at least `least`, which is 0 or 1.
    #[inline(always)]
    fn skip_digits(&mut self, least: i64, len_max: usize) -> Option<()> {
        let len = digits_len(self.rest);
        let is_right = match self.rest.first()? {
            b'0' => least == 0 && len == 1,
            _ => (1..=len_max).contains(&len),
        };
        self.rest = self.rest.get(len..)?;
        is_right.then_some(())
    }

    /// The value of a required member.
    #[inline(always)]
    pub(super) fn need<T>(
        &mut self,
        member: &'static str,
        value: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<T> {
        self.expect(member)?;
        value(self)
    }

    /// The value of an optional member; `Some(None)` if it is absent.
    #[inline(always)]
    #[allow(clippy::option_option)] // The outer one says whether it could be read.
    pub(super) fn may<T>(
        &mut self,
        member: &'static str,
        value: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.skip(member) {
            value(self).map(Some)
        } else {
            Some(None)
        }
    }

    pub(super) fn end(&self) -> Option<()> {
        self.rest.is_empty().then_some(())
    }

    /// Skips `len` bytes and returns them.
    #[inline(always)]
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, after) = self.rest.split_at_checked(len)?;
        self.rest = after;
        Some(taken)
    }

    /// The rest of a string that has no escapes.
    fn plain(&mut self) -> Option<&'a [u8]> {
        let text = self.take(plain_len(self.rest))?;
        self.expect("\"")?;
        Some(text)
    }

    /// A string or an integer, in its form in the line.
    pub(super) fn value(&mut self) -> Option<Value<'a>> {
        if self.rest.first() != Some(&b'"') {
            let start = self.rest;
            self.integer()?;
            let len = start.len() - self.rest.len();
            return Some(Value::Text(start.get(..len)?));
        }
        // Most values are UUIDs and names.
        if let Some((quoted, after)) = self.rest.split_first_chunk::<38>()
            && let [b'"', id @ .., b'"'] = quoted
            && is_plain_id(id)
        {
            self.rest = after;
            return Some(Value::Text(id));
        }
        if let Some(name) = self.rest.get(1..).and_then(ascii_name) {
            self.rest = self.rest.get(name.len() + 2..)?;
            return Some(Value::Text(name));
        }
        Some(match self.string()? {
            Cow::Borrowed(text) => Value::Text(text.as_bytes()),
            Cow::Owned(text) => Value::Unescaped(text),
        })
    }

    /// A string, copied only if it has escapes.
    pub(super) fn string(&mut self) -> Option<Cow<'a, str>> {
        let mut inner = Cursor::new(self.rest.strip_prefix(b"\"")?);
        if let Some(text) = inner.plain() {
            self.rest = inner.rest;
            return std::str::from_utf8(text).ok().map(Cow::Borrowed);
        }
        // A string with an escape is left to the general parser.
        let mut values = serde_json::Deserializer::from_slice(self.rest).into_iter::<String>();
        let value = values.next()?.ok()?;
        self.rest = self.rest.get(values.byte_offset()..)?;
        Some(Cow::Owned(value))
    }

    /// The next member, if its value is a string, a number or a literal.
    pub(super) fn scalar(&mut self) -> Option<(&'a [u8], &'a [u8])> {
        let mut ahead = Cursor::new(self.rest.strip_prefix(b",\"")?);
        let name = ahead.plain()?;
        ahead.expect(":")?;
        let len = match ahead.rest.first()? {
            b'"' => {
                let mut scanner = Scanner::new(ahead.rest);
                scanner.string()?;
                scanner.at
            }
            b'[' | b'{' => return None,
            _ => memchr::memchr(b',', ahead.rest)?,
        };
        let value = ahead.take(len)?;
        self.rest = ahead.rest;
        Some((name, value))
    }

    // Inlined, because a result that is returned through memory in two halves is slow to load as
    // one.
    #[inline(always)]
    pub(super) fn uuid(&mut self) -> Option<Uuid> {
        let (quoted, after) = self.rest.split_first_chunk::<38>()?;
        let [b'"', id @ .., b'"'] = quoted else {
            return None;
        };
        self.rest = after;
        uuid(id)
    }

    #[inline(always)]
    pub(super) fn text(&mut self) -> Option<String> {
        let inner = self.rest.strip_prefix(b"\"")?;
        let plain = plain_len(inner);
        if inner.get(plain) == Some(&b'"') {
            self.rest = inner.get(plain + 1..)?;
            return self.text_of(inner, plain).map(str::to_owned);
        }
        let (text, len) = escaped(inner, plain)?;
        self.rest = inner.get(len..)?;
        Some(text)
    }

    /// A string that is one of a few words.
    pub(super) fn word<T: FromStr>(&mut self) -> Option<T> {
        self.expect("\"")?;
        let start = self.rest;
        let len = self.plain()?.len();
        self.text_of(start, len)?.parse().ok()
    }

    pub(super) fn texts(&mut self) -> Option<Vec<String>> {
        let mut texts = Vec::new();
        self.items(|line| line.text().map(|text| texts.push(text)))?;
        Some(texts)
    }

    /// Reads the items of an array.
    fn items(&mut self, mut item: impl FnMut(&mut Cursor<'a>) -> Option<()>) -> Option<()> {
        self.expect("[")?;
        if self.skip("]") {
            return Some(());
        }
        loop {
            item(self)?;
            if self.skip("]") {
                return Some(());
            }
            self.expect(",")?;
        }
    }

    /// The text of a payload.
    pub(super) fn payload(&mut self) -> Option<String> {
        if self.rest.first() == Some(&b'"') {
            return self.text().map(payload_of_string);
        }
        let start = self.rest;
        self.pass_payload()?;
        self.text_of(start, start.len() - self.rest.len())
            .map(str::to_owned)
    }

    /// Skips an object or an array and returns its JSON.
    fn container(&mut self) -> Option<&'a [u8]> {
        let mut scanner = Scanner::new(self.rest);
        let is_container = matches!(self.rest.first()?, b'{' | b'[');
        (is_container && scanner.value().is_some() && !scanner.has_lone_surrogate)
            .then(|| self.take(scanner.at))?
    }

    /// Parses an object or an array.
    pub(super) fn parsed<T: DeserializeOwned>(&mut self) -> Option<T> {
        serde_json::from_slice(self.container()?).ok()
    }

    /// Skips a string in the form that decklog writes.
    #[inline(always)]
    pub(super) fn pass_text(&mut self) -> Option<()> {
        let inner = self.rest.strip_prefix(b"\"")?;
        self.rest = inner.get(escaped_len(inner)?..)?;
        Some(())
    }

    pub(super) fn pass_texts(&mut self) -> Option<()> {
        self.items(Cursor::pass_text)
    }

    pub(super) fn pass_payload(&mut self) -> Option<()> {
        if self.rest.first() == Some(&b'"') {
            return self.pass_text();
        }
        if self.container().is_some() {
            return Some(());
        }
        // A number, `true` or `false`.
        let len = memchr::memchr2(b',', b'}', self.rest)?;
        let scalar = std::str::from_utf8(self.take(len)?).ok()?;
        is_scalar(scalar).then_some(())
    }

    /// Skips a number, if it equals `wanted`.
    pub(super) fn pass_integer(&mut self, wanted: i64) -> Option<()> {
        (self.integer()? == wanted).then_some(())
    }

    /// Skips an id that the store assigned.
    pub(super) fn pass_id(&mut self) -> Option<()> {
        (self.integer()? != 0).then_some(())
    }

    /// Skips an RFC 3339 string, if it is the instant `wanted`.
    pub(super) fn pass_instant(&mut self, wanted: i64) -> Option<()> {
        let mut ahead = *self;
        ahead.expect("\"")?;
        let text = ahead.plain()?;
        if instant_ms(text) == Some(wanted) {
            *self = ahead;
            return Some(());
        }
        (self.word::<Timestamp>()?.at() == wanted).then_some(())
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        if self.skip("true") {
            return Some(true);
        }
        self.expect("false").map(|()| false)
    }

    pub(super) fn fraction(&mut self) -> Option<f64> {
        let is_of_number =
            |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
        let len = self.rest.iter().take_while(|b| is_of_number(b)).count();
        serde_json::from_slice(self.take(len)?).ok()
    }

    /// A number in its shortest form.
    pub(super) fn integer(&mut self) -> Option<i64> {
        let is_negative = self.skip("-");
        let magnitude = self.digits()?;
        if !is_negative {
            return i64::try_from(magnitude).ok();
        }
        // There is no negative zero.
        0i64.checked_sub_unsigned(magnitude)
            .filter(|value| *value < 0)
    }

    pub(super) fn digits(&mut self) -> Option<u64> {
        const DIGITS_THAT_FIT: usize = 19;
        let start = self.rest;
        let (mut value, mut len) = (0, 0);
        // Whole words first; the last digits of a line may not fill one.
        while let Some(word) = start.get(len..).and_then(<[u8]>::first_chunk) {
            let (part, count) = leading_digits(u64::from_le_bytes(*word));
            if len + count > DIGITS_THAT_FIT {
                break;
            }
            value = value * TENS[count] + part;
            len += count;
            if count < 8 {
                return self.past_digits(value, len);
            }
        }
        while let Some(digit @ b'0'..=b'9') = start.get(len) {
            value = u64::checked_mul(value, 10)?.checked_add(u64::from(digit - b'0'))?;
            len += 1;
        }
        self.past_digits(value, len)
    }

    /// Skips `len` digits and returns `value`, if the number is in its shortest form.
    fn past_digits(&mut self, value: u64, len: usize) -> Option<u64> {
        let is_shortest = len == 1 || (len > 1 && self.rest.first() != Some(&b'0'));
        self.rest = self.rest.get(len..)?;
        is_shortest.then_some(value)
    }
}

const TENS: [u64; 9] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
];

/// The number of leading digits, as far as they are within whole words.
#[inline(always)]
fn digits_len(bytes: &[u8]) -> usize {
    let mut len = 0;
    while let Some(word) = bytes.get(len..).and_then(<[u8]>::first_chunk) {
        let count = past_digits(u64::from_le_bytes(*word)).trailing_zeros() as usize / 8;
        len += count;
        if count < 8 {
            break;
        }
    }
    len
}

/// Sets a bit in the high half of the first byte that is not a digit. Bits of later bytes may be
/// set wrongly.
fn past_digits(word: u64) -> u64 {
    // After the XOR, a byte that is not a digit is greater than 9: its high half is not 0, or
    // becomes so when 6 is added.
    let digits = word ^ ZEROS;
    (digits | digits.wrapping_add(0x0606_0606_0606_0606)) & 0xF0F0_F0F0_F0F0_F0F0
}

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The value and the number of the digits at the start of eight bytes.
fn leading_digits(word: u64) -> (u64, usize) {
    let count = past_digits(word).trailing_zeros() / 8;
    let digits = word ^ ZEROS;
    // Shift in zeros before the digits. Without any digits the result is 0.
    let digits = digits.checked_shl(64 - 8 * count).unwrap_or(0);
    // Add up pairs, then pairs of pairs.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00FF_00FF_00FF_00FF;
    let quads = (pairs * 100 + (pairs >> 16)) & 0x0000_FFFF_0000_FFFF;
    (
        (quads * 10_000 + (quads >> 32)) & 0xFFFF_FFFF,
        count as usize,
    )
}

/// A UUID in lower case with hyphens.
#[inline(always)]
fn uuid(text: &[u8; 36]) -> Option<Uuid> {
    let four = |at: usize| {
        let digits = text.get(at..).and_then(<[u8]>::first_chunk);
        digits.map_or(0, |digits| u64::from(u32::from_le_bytes(*digits)))
    };
    let eight = |one, two| eight_hex_digits(four(one) | four(two) << 32);
    if [8, 13, 18, 23].iter().any(|at| text[*at] != b'-') {
        return None;
    }
    let first = eight(0, 4)? | eight(9, 14)? << 32;
    let last = eight(19, 24)? | eight(28, 32)? << 32;
    let bytes = u128::from(first) | u128::from(last) << 64;
    Some(Uuid::from_bytes(bytes.to_le_bytes()))
}

/// The four bytes that eight lower-case hex digits encode, the first one lowest.
#[inline(always)]
pub(super) fn eight_hex_digits(digits: u64) -> Option<u64> {
    const EACH: u64 = u64::MAX / 0xFF;
    let letters = digits >> 6 & EACH;
    // Each sum is at most 15 + 9, so there is no carry between bytes.
    let nibbles = (digits & (EACH * 0x0F)) + letters * 9;
    let past_nine = (nibbles + EACH * 6) >> 4 & EACH;
    let spelled = nibbles + EACH * u64::from(b'0') + past_nine * u64::from(b'a' - b'9' - 1);
    if spelled != digits || nibbles & (EACH * 0xF0) != 0 {
        return None;
    }
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00FF_00FF_00FF_00FF;
    let quads = (pairs | pairs >> 8) & 0x0000_FFFF_0000_FFFF;
    Some((quads | quads >> 16) & 0xFFFF_FFFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn ids_are_read_as_they_are_written(id in any::<u128>(), at in 0..36usize, byte in any::<u8>()) {
            let id = Uuid::from_u128(id);
            let mut text: [u8; 36] = id.to_string().as_bytes().try_into().unwrap();
            prop_assert_eq!(uuid(&text), Some(id));
            text[at] = byte;
            if let Some(read) = uuid(&text) {
                let again = read.to_string();
                prop_assert_eq!(again.as_bytes(), text);
            }
        }

        #[test]
        fn numbers_are_read_as_they_are_written(number in any::<i64>(), bits in 0..64u32, after in "[^0-9]{0,9}", zeros in 0..3usize) {
            let number = number >> bits;
            let text = format!("{number}{after}");
            let mut line = Cursor::new(text.as_bytes());
            prop_assert_eq!(line.integer(), Some(number));
            prop_assert_eq!(line.rest, after.as_bytes());
            let longer = format!("{}{}", "0".repeat(zeros), number.unsigned_abs());
            let read = Cursor::new(longer.as_bytes()).digits();
            prop_assert_eq!(read, (zeros == 0).then_some(number.unsigned_abs()));
        }
    }

    #[test]
    fn numbers_past_the_end_are_none() {
        for text in [
            "",
            "-",
            "-0",
            "9223372036854775808",
            "-9223372036854775809",
            "18446744073709551616",
        ] {
            assert!(Cursor::new(text.as_bytes()).integer().is_none(), "{text}");
        }
        let most = u64::MAX.to_string();
        assert_eq!(Cursor::new(most.as_bytes()).digits(), Some(u64::MAX));
    }
}
