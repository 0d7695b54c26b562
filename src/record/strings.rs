//! JSON strings in the form that `serde_json` writes: scanned, decoded and written many bytes at a
//! time.

const WORD: usize = 8;
const BLOCK: usize = 64;

/// Appends `text` as a JSON string.
pub(crate) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, from_special) = rest.split_at(plain_len(rest));
        out.extend_from_slice(plain);
        let Some((special, after)) = from_special.split_first() else {
            break;
        };
        match *special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0C => out.extend_from_slice(b"\\f"),
            control => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex_digit(control >> 4), hex_digit(control & 0xF)]);
            }
        }
        rest = after;
    }
    out.push(b'"');
}

fn hex_digit(value: u8) -> u8 {
    match value {
        0..=9 => b'0' + value,
        _ => b'a' + value - 10,
    }
}

/// The text between the quotes of a JSON string, and its length up to and including the closing
/// quote. `bytes` begins after the opening quote. `None` if it is not a string or contains an
/// escape that [`push_quoted`] does not write. The first `plain` bytes are known to contain no
/// escape.
pub(crate) fn escaped(bytes: &[u8], plain: usize) -> Option<(String, usize)> {
    let end = plain + closing_quote(bytes.get(plain..)?)?;
    Some((unescaped(bytes.get(..end)?)?, end + 1))
}

/// The length of a JSON string up to and including its closing quote, for the same input as
/// [`escaped`]. `Some` only if [`escaped`] would accept it, provided that it is UTF-8.
#[inline(always)]
#[allow(clippy::inline_always)]
pub(crate) fn escaped_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..)?;
        at += plain_len(rest);
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += escape(bytes.get(at + 1..)?)?.1,
            _ => return None,
        }
    }
}

/// The position of the first unescaped quote.
fn closing_quote(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'"', bytes).find(|at| {
        let before = bytes[..*at].iter().rev();
        before.take_while(|b| **b == b'\\').count() % 2 == 0
    })
}

fn unescaped(escaped: &[u8]) -> Option<String> {
    // Whole words are copied, also at the end of a run, so the last write may exceed the length by
    // one word.
    let mut out = vec![0; escaped.len() + WORD];
    let (mut read, mut written) = (0, 0);
    loop {
        while let Some(word) = chunk::<WORD>(escaped, read) {
            let special = specials(u64::from_le_bytes(*word));
            *out.get_mut(written..)?.first_chunk_mut()? = *word;
            // In a separate branch, so that the next word does not have to wait for the end of this
            // one.
            if special != 0 {
                let plain = special.trailing_zeros() as usize / 8;
                read += plain;
                written += plain;
                break;
            }
            read += WORD;
            written += WORD;
        }
        let Some(byte) = escaped.get(read) else { break };
        let (byte, len) = match byte {
            b'\\' => escape(escaped.get(read + 1..)?)?,
            byte if is_special(*byte) => return None,
            byte => (*byte, 1),
        };
        *out.get_mut(written)? = byte;
        read += len;
        written += 1;
    }
    out.truncate(written);
    String::from_utf8(out).ok()
}

/// Decodes an escape from the bytes after its backslash. Returns the byte and the length.
fn escape(rest: &[u8]) -> Option<(u8, usize)> {
    let byte = match rest.first()? {
        b'"' => b'"',
        b'\\' => b'\\',
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'f' => 0x0C,
        b'u' => {
            let hex = rest.get(..5)?.strip_prefix(b"u00")?;
            let digit = |at: usize| char::from(hex[at]).to_digit(16);
            let byte = (digit(0)? << 4 | digit(1)?) as u8;
            return (byte < b' ').then_some((byte, 6));
        }
        _ => return None,
    };
    Some((byte, 2))
}

/// The number of bytes at the start that need no escape in a JSON string: those before the first
/// quote, backslash or control character.
#[inline(always)]
#[allow(clippy::inline_always)] // It is in the innermost loop of all who use it.
pub(crate) fn plain_len(bytes: &[u8]) -> usize {
    // Most strings are names, or runs between escapes.
    const SHORT: usize = 6 * WORD;
    let mut at = 0;
    while at < SHORT
        && let Some(word) = chunk::<WORD>(bytes, at)
    {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += WORD;
    }
    at + plain_len_of_long(bytes.get(at..).unwrap_or_default())
}

/// The rest of a string without its closing quote, if it is ASCII without escapes. May return
/// `None` for other strings of that kind.
pub(crate) fn ascii_name(bytes: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while let Some(word) = chunk::<WORD>(bytes, at) {
        let stops = ascii_stops(u64::from_le_bytes(*word));
        if stops != 0 {
            let end = at + stops.trailing_zeros() as usize / 8;
            return bytes.get(..end).filter(|_| bytes.get(end) == Some(&b'"'));
        }
        at += WORD;
    }
    None
}

/// Whether all bytes are ASCII and need no escape in a JSON string.
pub(crate) fn is_plain_id(id: &[u8; 36]) -> bool {
    let stops = |at: usize| {
        let word = chunk::<WORD>(id, at).map_or(0, |word| u64::from_le_bytes(*word));
        ascii_stops(word)
    };
    // The last word overlaps the one before it.
    stops(0) | stops(8) | stops(16) | stops(24) | stops(28) == 0
}

#[inline(never)]
fn plain_len_of_long(bytes: &[u8]) -> usize {
    let mut at = 0;
    while chunk::<BLOCK>(bytes, at).is_some_and(is_plain) {
        at += BLOCK;
    }
    while let Some(word) = chunk::<WORD>(bytes, at) {
        let special = specials(u64::from_le_bytes(*word));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += WORD;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| !is_special(**b)).count()
}

fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Option<&[u8; N]> {
    bytes.get(at..)?.first_chunk()
}

fn is_special(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

/// Uses arithmetic on 16 bytes at a time, without branches and comparisons, so that it compiles to
/// few vector instructions.
fn is_plain(block: &[u8; BLOCK]) -> bool {
    const PLACES: usize = 16;
    // 0 for a special byte.
    let mark = |b: u8| (b ^ b'"').min(b ^ b'\\').min(b.saturating_sub(b' ' - 1));
    let mut marks = [0; PLACES];
    for (place, least) in marks.iter_mut().enumerate() {
        *least = mark(block[place])
            .min(mark(block[place + PLACES]))
            .min(mark(block[place + 2 * PLACES]))
            .min(mark(block[place + 3 * PLACES]));
    }
    let marks = u128::from_le_bytes(marks);
    (zeros(marks as u64) | zeros((marks >> 64) as u64)) & HIGH == 0
}

const EACH: u64 = u64::MAX / 0xFF;
const HIGH: u64 = EACH * 0x80;

/// Sets the high bit of the first zero byte, counted from the lowest. The bits of later bytes may
/// be wrong, because a borrow propagates upwards.
fn zeros(bytes: u64) -> u64 {
    bytes.wrapping_sub(EACH) & !bytes
}

/// Sets the high bit of the first special byte, with the same limitation as [`zeros`].
fn specials(word: u64) -> u64 {
    let is_control = word.wrapping_sub(EACH * u64::from(b' ')) & !word;
    let is_quote = zeros(word ^ (EACH * u64::from(b'"')));
    let is_backslash = zeros(word ^ (EACH * u64::from(b'\\')));
    (is_control | is_quote | is_backslash) & HIGH
}

/// Like [`specials`], also for non-ASCII bytes.
fn ascii_stops(word: u64) -> u64 {
    specials(word) | (word & HIGH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unquoted(bytes: &[u8]) -> Option<(String, usize)> {
        escaped(bytes, plain_len(bytes))
    }

    /// Texts with special characters close together, near both ends and far apart.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            "[ -~é\u{1F600}]{0,40}",
            "[ !#-\\[\\]-~]{0,200}",
            r#"["\\\x00-\x20]{0,4}"#,
        ];
        proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn strings_are_those_of_serde_json(text in texts(), after in "[,\"\\\\a]{0,12}") {
            let expected = serde_json::to_string(&text).unwrap();
            let mut quoted = Vec::new();
            push_quoted(&mut quoted, &text);
            prop_assert_eq!(&quoted, expected.as_bytes());
            quoted.extend_from_slice(after.as_bytes());
            prop_assert_eq!(unquoted(&quoted[1..]), Some((text, expected.len() - 1)));
        }

        #[test]
        fn what_is_read_reads_the_same_in_serde_json(json in r#"([a-z\x00-\x20]|\\["\\/bfnrtu]|\\u00[01a-f][0-9a-fA-F]|é){0,40}""#) {
            if let Some((text, len)) = unquoted(json.as_bytes()) {
                let json = format!("\"{}", &json[..len]);
                prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            }
        }

        #[test]
        fn plain_bytes_end_at_the_first_special(text in texts()) {
            let first = text.bytes().position(is_special);
            prop_assert_eq!(plain_len(text.as_bytes()), first.unwrap_or(text.len()));
        }
    }
}
