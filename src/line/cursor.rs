//! Reads a canonical line from its start, member by member, without general JSON parsing.

use std::borrow::Cow;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::{LINE_START, Op, Value};
use crate::record::{
    Kind, Timestamp, ascii_name, container, escaped, escaped_len, instant_ms, is_plain_id,
    is_scalar, payload_of_string, plain_len,
};

/// The input is not, or not certainly, in the form that decklog writes. The caller falls back to
/// the parser.
#[derive(Debug)]
pub(crate) struct NotCanonical;

pub(crate) type Read<T> = Result<T, NotCanonical>;

/// The rest of a line.
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
    pub(super) fn of_texts(line: &'a [u8]) -> Read<Cursor<'a>> {
        let checked = std::str::from_utf8(line).map_err(|_| NotCanonical)?;
        Ok(Cursor {
            rest: line,
            checked,
        })
    }

    /// The first bytes of `rest`, which is the end of a line that was checked.
    fn text_of(&self, rest: &[u8], len: usize) -> Read<&'a str> {
        let start = self
            .checked
            .len()
            .checked_sub(rest.len())
            .ok_or(NotCanonical)?;
        self.checked.get(start..start + len).ok_or(NotCanonical)
    }

    /// Skips `text` if it comes next.
    #[inline(always)]
    #[allow(clippy::inline_always)] // Most callers give a constant, which is then compared inline.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let after = self.rest.strip_prefix(text.as_bytes());
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    /// Whether `text` comes next.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn is_at(&self, text: &str) -> bool {
        self.rest.starts_with(text.as_bytes())
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn expect(&mut self, text: &str) -> Read<()> {
        if self.skip(text) {
            Ok(())
        } else {
            Err(NotCanonical)
        }
    }

    /// The bytes up to the end of the line.
    #[cfg(feature = "http")]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The three members that every canonical line begins with.
    pub(super) fn head(&mut self, kind: Kind) -> Read<(u64, i64, Op)> {
        self.expect(LINE_START)?;
        let seq = self.digits()?;
        self.expect(",\"at\":")?;
        let at = self.integer()?;
        self.expect(",\"op\":\"")?;
        let op = kind.op_of_bytes(self.plain()?).ok_or(NotCanonical)?;
        if seq == 0 {
            Err(NotCanonical)
        } else {
            Ok((seq, at, op))
        }
    }

    /// As [`head`](Self::head), but returns only the last of the three.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn op(&mut self, kind: Kind) -> Read<Op> {
        // Any number with this many digits fits 64 bits; `at` may also have a sign.
        const SEQ_DIGITS_MAX: usize = 19;
        const AT_DIGITS_MAX: usize = 18;
        self.expect(LINE_START)?;
        self.skip_digits(1, SEQ_DIGITS_MAX)?;
        self.expect(",\"at\":")?;
        let least = i64::from(self.skip("-"));
        self.skip_digits(least, AT_DIGITS_MAX)?;
        self.expect(",\"op\":\"")?;
        kind.op_of_bytes(self.plain()?).ok_or(NotCanonical)
    }

    /// Skips a number in its shortest form that is at least `least`, which is 0 or 1.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    fn skip_digits(&mut self, least: i64, len_max: usize) -> Read<()> {
        let len = digits_len(self.rest);
        let is_zero = self.rest.first() == Some(&b'0');
        let is_right = if is_zero {
            least == 0 && len == 1
        } else {
            (1..=len_max).contains(&len)
        };
        self.rest = self.rest.get(len..).ok_or(NotCanonical)?;
        if is_right { Ok(()) } else { Err(NotCanonical) }
    }

    /// The value of a required member.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn need<T>(
        &mut self,
        member: &'static str,
        value: impl FnOnce(&mut Cursor<'a>) -> Read<T>,
    ) -> Read<T> {
        self.expect(member)?;
        value(self)
    }

    /// The value of an optional member.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn may<T>(
        &mut self,
        member: &'static str,
        value: impl FnOnce(&mut Cursor<'a>) -> Read<T>,
    ) -> Read<Option<T>> {
        if self.skip(member) {
            value(self).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn end(&self) -> Read<()> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(NotCanonical)
        }
    }

    /// The rest of a string that has no escapes.
    fn plain(&mut self) -> Read<&'a [u8]> {
        let len = plain_len(self.rest);
        let (text, after) = self.rest.split_at_checked(len).ok_or(NotCanonical)?;
        self.rest = after.strip_prefix(b"\"").ok_or(NotCanonical)?;
        Ok(text)
    }

    /// A string or an integer, in its form in the line.
    pub(super) fn value(&mut self) -> Read<Value<'a>> {
        if self.rest.first() != Some(&b'"') {
            let start = self.rest;
            self.integer()?;
            let len = start.len() - self.rest.len();
            return Ok(Value::Text(start.get(..len).ok_or(NotCanonical)?));
        }
        // Most values are UUIDs and names.
        if let Some((quoted, after)) = self.rest.split_first_chunk::<38>()
            && let [b'"', id @ .., b'"'] = quoted
            && is_plain_id(id)
        {
            self.rest = after;
            return Ok(Value::Text(id));
        }
        if let Some(name) = self.rest.get(1..).and_then(ascii_name) {
            self.rest = self.rest.get(name.len() + 2..).ok_or(NotCanonical)?;
            return Ok(Value::Text(name));
        }
        Ok(match self.string().ok_or(NotCanonical)? {
            Cow::Borrowed(text) => Value::Text(text.as_bytes()),
            Cow::Owned(text) => Value::Unescaped(text),
        })
    }

    /// A string, copied only if it has escapes.
    pub(super) fn string(&mut self) -> Option<Cow<'a, str>> {
        let mut inner = Cursor::new(self.rest.strip_prefix(b"\"")?);
        if let Ok(text) = inner.plain() {
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
        let name = ahead.plain().ok()?;
        let value = ahead.rest.strip_prefix(b":")?;
        let len = match value.first()? {
            b'"' => {
                let mut from = 1;
                loop {
                    let stop = from + plain_len(value.get(from..)?);
                    match value.get(stop)? {
                        b'"' => break stop + 1,
                        b'\\' => from = stop + 2,
                        _ => return None,
                    }
                }
            }
            b'[' | b'{' => return None,
            _ => memchr::memchr(b',', value)?,
        };
        let (value, after) = value.split_at_checked(len)?;
        self.rest = after;
        Some((name, value))
    }

    // Inlined, because a result that is returned through memory in two halves is slow to load as
    // one.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn need_uuid(&mut self, member: &'static str) -> Read<Uuid> {
        self.expect(member)?;
        let (quoted, after) = self.rest.split_first_chunk::<38>().ok_or(NotCanonical)?;
        let [b'"', id @ .., b'"'] = quoted else {
            return Err(NotCanonical);
        };
        self.rest = after;
        uuid(id).ok_or(NotCanonical)
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn may_uuid(&mut self, member: &'static str) -> Read<Option<Uuid>> {
        if self.is_at(member) {
            self.need_uuid(member).map(Some)
        } else {
            Ok(None)
        }
    }

    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn text(&mut self) -> Read<String> {
        let inner = self.rest.strip_prefix(b"\"").ok_or(NotCanonical)?;
        let plain = plain_len(inner);
        if inner.get(plain) == Some(&b'"') {
            self.rest = inner.get(plain + 1..).ok_or(NotCanonical)?;
            return self.text_of(inner, plain).map(str::to_owned);
        }
        let (text, len) = escaped(inner, plain).ok_or(NotCanonical)?;
        self.rest = inner.get(len..).ok_or(NotCanonical)?;
        Ok(text)
    }

    /// A string that is one of a few words.
    pub(super) fn word<T: FromStr>(&mut self) -> Read<T> {
        self.expect("\"")?;
        let start = self.rest;
        let len = self.plain()?.len();
        self.text_of(start, len)?.parse().map_err(|_| NotCanonical)
    }

    pub(super) fn texts(&mut self) -> Read<Vec<String>> {
        self.expect("[")?;
        let mut texts = Vec::new();
        if self.skip("]") {
            return Ok(texts);
        }
        loop {
            texts.push(self.text()?);
            if self.skip("]") {
                return Ok(texts);
            }
            self.expect(",")?;
        }
    }

    /// The text of a payload.
    pub(super) fn payload(&mut self) -> Read<String> {
        if self.rest.first() == Some(&b'"') {
            return self.text().map(payload_of_string);
        }
        let start = self.rest;
        self.pass_payload()?;
        self.text_of(start, start.len() - self.rest.len())
            .map(str::to_owned)
    }

    /// Parses an object or an array.
    pub(super) fn parsed<T: DeserializeOwned>(&mut self) -> Read<T> {
        let found = container(self.rest).ok_or(NotCanonical)?;
        let (json, after) = self.rest.split_at_checked(found.len).ok_or(NotCanonical)?;
        self.rest = after;
        serde_json::from_slice(json).map_err(|_| NotCanonical)
    }

    /// Skips a string in the form that decklog writes.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub(super) fn pass_text(&mut self) -> Read<()> {
        let inner = self.rest.strip_prefix(b"\"").ok_or(NotCanonical)?;
        let len = escaped_len(inner).ok_or(NotCanonical)?;
        self.rest = inner.get(len..).ok_or(NotCanonical)?;
        Ok(())
    }

    pub(super) fn pass_texts(&mut self) -> Read<()> {
        self.expect("[")?;
        if self.skip("]") {
            return Ok(());
        }
        loop {
            self.pass_text()?;
            if self.skip("]") {
                return Ok(());
            }
            self.expect(",")?;
        }
    }

    pub(super) fn pass_payload(&mut self) -> Read<()> {
        if self.rest.first() == Some(&b'"') {
            return self.pass_text();
        }
        let len = match container(self.rest) {
            Some(found) => found.len,
            None => self.scalar_len()?,
        };
        self.rest = self.rest.get(len..).ok_or(NotCanonical)?;
        Ok(())
    }

    /// The length of the number, `true` or `false` that comes next.
    fn scalar_len(&self) -> Read<usize> {
        let len = memchr::memchr2(b',', b'}', self.rest).ok_or(NotCanonical)?;
        let text = std::str::from_utf8(&self.rest[..len]).map_err(|_| NotCanonical)?;
        if is_scalar(text) {
            Ok(len)
        } else {
            Err(NotCanonical)
        }
    }

    /// Skips a number, if it equals `wanted`.
    pub(super) fn pass_integer(&mut self, wanted: i64) -> Read<()> {
        if self.integer()? == wanted {
            Ok(())
        } else {
            Err(NotCanonical)
        }
    }

    /// Skips an id that the store assigned.
    pub(super) fn pass_id(&mut self) -> Read<()> {
        if self.integer()? == 0 {
            Err(NotCanonical)
        } else {
            Ok(())
        }
    }

    /// Skips an RFC 3339 string, if it is the instant `wanted`.
    pub(super) fn pass_instant(&mut self, wanted: i64) -> Read<()> {
        let mut ahead = *self;
        ahead.expect("\"")?;
        let text = ahead.plain()?;
        if instant_ms(text) == Some(wanted) {
            *self = ahead;
            return Ok(());
        }
        let at = self.word::<Timestamp>()?.at();
        if at == wanted {
            Ok(())
        } else {
            Err(NotCanonical)
        }
    }

    pub(super) fn flag(&mut self) -> Read<bool> {
        if self.skip("true") {
            return Ok(true);
        }
        self.expect("false").map(|()| false)
    }

    pub(super) fn fraction(&mut self) -> Read<f64> {
        let is_of_number =
            |b: &u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
        let len = self.rest.iter().take_while(|b| is_of_number(b)).count();
        let (number, after) = self.rest.split_at_checked(len).ok_or(NotCanonical)?;
        self.rest = after;
        serde_json::from_slice(number).map_err(|_| NotCanonical)
    }

    /// A number in its shortest form.
    pub(super) fn integer(&mut self) -> Read<i64> {
        let is_negative = self.skip("-");
        let magnitude = self.digits()?;
        let value = if is_negative && magnitude > 0 {
            0i64.checked_sub_unsigned(magnitude)
        } else if is_negative {
            None
        } else {
            i64::try_from(magnitude).ok()
        };
        value.ok_or(NotCanonical)
    }

    pub(super) fn digits(&mut self) -> Read<u64> {
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
            let tens = u64::checked_mul(value, 10).ok_or(NotCanonical)?;
            value = tens
                .checked_add(u64::from(digit - b'0'))
                .ok_or(NotCanonical)?;
            len += 1;
        }
        self.past_digits(value, len)
    }

    /// Skips `len` digits and returns `value`, if the number is in its shortest form.
    fn past_digits(&mut self, value: u64, len: usize) -> Read<u64> {
        let is_shortest = len == 1 || (len > 1 && self.rest.first() != Some(&b'0'));
        self.rest = self.rest.get(len..).ok_or(NotCanonical)?;
        if is_shortest {
            Ok(value)
        } else {
            Err(NotCanonical)
        }
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
#[allow(clippy::inline_always)]
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
#[allow(clippy::inline_always)]
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
#[allow(clippy::inline_always)]
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
            prop_assert_eq!(line.integer().ok(), Some(number));
            prop_assert_eq!(line.rest, after.as_bytes());
            let longer = format!("{}{}", "0".repeat(zeros), number.unsigned_abs());
            let read = Cursor::new(longer.as_bytes()).digits();
            prop_assert_eq!(read.ok(), (zeros == 0).then_some(number.unsigned_abs()));
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
            assert!(Cursor::new(text.as_bytes()).integer().is_err(), "{text}");
        }
        let most = u64::MAX.to_string();
        assert_eq!(Cursor::new(most.as_bytes()).digits().ok(), Some(u64::MAX));
    }
}
