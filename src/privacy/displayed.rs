//! A text as a person sees it: without the control sequences of terminals and what has no width,
//! overstruck characters once, and with escapes decoded, whether those of terminals, programming
//! languages, addresses, HTML or mail. Where each of its characters stands in the raw text is kept,
//! so that what is found is removed from there, with the control sequences within it.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::scan::placeholder_len;

/// A text that is not displayed as it stands.
pub(super) struct Displayed {
    pub text: String,
    pieces: Vec<Piece>,
    /// Where the next character begins in the raw text, if it overstrikes another one.
    struck: Option<usize>,
}

/// A part of the displayed text, which ends where the next one begins.
#[derive(Clone, Copy)]
struct Piece {
    /// Where it begins in the displayed text.
    start: usize,
    /// Where it begins in the raw text.
    raw: usize,
    /// Where it ends there, if it stands for one character; else, it stands there as it is.
    raw_end: Option<usize>,
}

/// What is displayed for some bytes of the raw text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// A character of ASCII.
    Byte(u8),
    /// What follows stands over the character before it.
    Backspace,
    /// NUL: nothing in a text of 16-bit characters, else a separator.
    Nul,
    /// The escape character: what it does depends on what follows.
    Escape,
    /// The same with the bracket that parameters follow.
    Introducer,
}

/// Bytes of the raw text that are not displayed as they stand.
#[derive(Clone, Copy)]
struct Unit {
    end: usize,
    shown: Shown,
}

/// The text as it is displayed; `None` if that is as it stands.
pub(super) fn displayed(text: &str) -> Option<Displayed> {
    if !differs(text.as_bytes()) {
        return None;
    }
    let bytes = text.as_bytes();
    let is_mail = MAIL.find(bytes).is_some();
    let mut displayed = Displayed {
        text: String::with_capacity(text.len()),
        pieces: Vec::new(),
        struck: None,
    };
    let (mut at, mut kept, mut nul_end) = (0, 0, None);
    while let Some(byte) = bytes.get(at) {
        let unit = begins_unit(*byte)
            .then(|| unit_at(bytes, at, is_mail))
            .flatten();
        let Some(unit) = unit else {
            at += 1;
            continue;
        };
        displayed.push(text, kept, at);
        match unit.shown {
            Shown::Byte(byte) => displayed.push_one(char::from(byte), at, unit.end),
            Shown::Backspace => displayed.pop(),
            Shown::Nul => {
                // Between two of these is one byte of each character.
                let is_wide = nul_end.is_some_and(|end| end + 1 == at)
                    || bytes
                        .get(unit.end + 1)
                        .is_some_and(|byte| begins_unit(*byte))
                        && unit_at(bytes, unit.end + 1, false)
                            .is_some_and(|next| next.shown == Shown::Nul);
                if !is_wide {
                    displayed.push_one(' ', at, unit.end);
                }
                nul_end = Some(unit.end);
            }
            Shown::Nothing | Shown::Escape | Shown::Introducer => {}
        }
        at = unit.end;
        kept = at;
    }
    displayed.push(text, kept, bytes.len());
    Some(displayed)
}

impl Displayed {
    /// Where in the raw text a part of the displayed one begins and ends, which is not empty.
    pub(super) fn raw(&self, start: usize, end: usize) -> (usize, usize) {
        let piece = |at: usize| {
            let next = self.pieces.partition_point(|piece| piece.start <= at);
            self.pieces[next - 1]
        };
        let (first, last) = (piece(start), piece(end - 1));
        let raw_start = match first.raw_end {
            Some(_) => first.raw,
            None => first.raw + (start - first.start),
        };
        let raw_end = last.raw_end.unwrap_or(last.raw + (end - last.start));
        (raw_start, raw_end)
    }

    /// Some of the raw text as it stands.
    fn push(&mut self, text: &str, from: usize, to: usize) {
        let mut from = from;
        if let Some(one) = text[from..to].chars().next()
            && self.struck.is_some()
        {
            self.push_one(one, from, from + one.len_utf8());
            from += one.len_utf8();
        }
        if from < to {
            self.pieces.push(Piece {
                start: self.text.len(),
                raw: from,
                raw_end: None,
            });
            self.text.push_str(&text[from..to]);
        }
    }

    /// A character that some of the raw text stands for.
    fn push_one(&mut self, one: char, from: usize, to: usize) {
        self.pieces.push(Piece {
            start: self.text.len(),
            raw: self.struck.take().unwrap_or(from),
            raw_end: Some(to),
        });
        self.text.push(one);
    }

    /// Takes the last character of the line back.
    fn pop(&mut self) {
        if self.text.ends_with('\n') || self.text.pop().is_none() {
            return;
        }
        let len = self.text.len();
        let Some(last) = self.pieces.last().copied() else {
            return;
        };
        let raw = match last.raw_end {
            Some(_) => last.raw,
            None => last.raw + (len - last.start),
        };
        self.struck = Some(raw);
        if last.start >= len {
            self.pieces.pop();
        }
    }
}

/// Whether a text is not displayed as it stands. Most have next to nothing that could be such:
/// that is seen many bytes at a time.
pub(super) fn differs(text: &[u8]) -> bool {
    let is_control = |byte: u8| {
        u8::from(byte < b' ')
            & u8::from(byte != b'\n')
            & u8::from(byte != b'\t')
            & u8::from(byte != b'\r')
    };
    let has_control = || text.iter().fold(0, |any, byte| any | is_control(*byte)) != 0;
    let has_escape = |first: usize| {
        let pairs = text[first..].iter().zip(text[first..].iter().skip(1));
        pairs.fold(0, |any, (one, two)| {
            let letter = u8::from(*two == b'x') | u8::from(*two == b'u') | u8::from(*two == b'0');
            let letter = letter | u8::from(*two == b'e') | u8::from(*two == b'E');
            any | u8::from(*one == b'\\') & letter
        }) != 0
    };
    let is_unit = |at: usize| unit_at(text, at, false).is_some();
    has_control()
        || memchr::memchr(b'\\', text).is_some_and(has_escape)
            && memchr::memchr_iter(b'\\', text).any(is_unit)
        || memchr::memchr2_iter(b'%', b'&', text).any(is_unit)
        || memchr::memchr3_iter(0xE2, 0xC2, 0xEF, text).any(is_unit)
        || memchr::memchr_iter(b'^', text).any(is_unit)
        || MAIL.find(text).is_some()
}

/// How mail has what stands between a name and its value.
static MAIL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"=3D"));

fn begins_unit(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\n' | b'\t' | b'\r')
        || matches!(byte, b'\\' | b'%' | b'&' | b'=' | b'^' | 0xE2 | 0xC2 | 0xEF)
}

/// What is displayed for the bytes from `at` on, if that is not as they stand.
fn unit_at(text: &[u8], at: usize, is_mail: bool) -> Option<Unit> {
    let rest = text.get(at..)?;
    let unit = |len: usize, shown: Shown| {
        Some(Unit {
            end: at + len,
            shown,
        })
    };
    let unit = match rest {
        [b'\\', ..] => escape(text, at),
        [b'%', ..] => percent(rest).and_then(|(len, code)| unit(len, shown(code)?)),
        [b'&', ..] => entity(rest).and_then(|(len, code)| unit(len, shown(code)?)),
        [b'=', b'3', b'D', ..] => unit(3, Shown::Byte(b'=')),
        // A line of mail that goes on.
        [b'=', b'\n', ..] if is_mail => unit(2, Shown::Nothing),
        [b'=', b'\r', b'\n', ..] if is_mail => unit(3, Shown::Nothing),
        // Only where a terminal's sequence is sure: `^` and `[` stand in patterns, too.
        [b'^', b'[', b'[', b'0'..=b'9' | b'?' | b'm' | b'K', ..] => unit(2, Shown::Escape),
        // Of no width, and the direction of what follows.
        [0xE2, 0x80, 0x8B..=0x8F | 0xAA..=0xAE, ..]
        | [0xE2, 0x81, 0xA0..=0xAF, ..]
        | [0xEF, 0xBB, 0xBF, ..] => unit(3, Shown::Nothing),
        [0xC2, 0xAD, ..] => unit(2, Shown::Nothing),
        [0xC2, 0x9B, ..] => unit(2, Shown::Introducer),
        [control @ 0..=0x1F, ..] => unit(1, shown(u32::from(*control))?),
        _ => None,
    }?;
    let ended = match unit.shown {
        Shown::Escape => sequence(text, unit.end),
        Shown::Introducer => control_sequence(text, unit.end),
        _ => return Some(unit),
    };
    let (end, shown) = ended.unwrap_or((unit.end, Shown::Nothing));
    Some(Unit { end, shown })
}

/// What is displayed for a character that an escape stands for; `None` if the escape may stay.
fn shown(code: u32) -> Option<Shown> {
    match code {
        0 => Some(Shown::Nul),
        0x08 => Some(Shown::Backspace),
        0x1B => Some(Shown::Escape),
        0x9B => Some(Shown::Introducer),
        0x0B | 0x0C => None,
        0x09 | 0x0A | 0x0D | 0x20..=0x7E => u8::try_from(code).ok().map(Shown::Byte),
        0x01..=0x1F
        | 0x7F
        | 0xAD
        | 0x200B..=0x200F
        | 0x202A..=0x202E
        | 0x2060..=0x206F
        | 0xFEFF => Some(Shown::Nothing),
        _ => None,
    }
}

/// An escape as languages write it: `\x1b`, `\u001b`, `\u{1b}`, `\033`, `\e`, `\0`, also with its
/// backslash escaped again.
fn escape(text: &[u8], at: usize) -> Option<Unit> {
    const BACKSLASHES_MAX: usize = 8;
    let run = text[at..].iter().take(BACKSLASHES_MAX);
    let start = at + run.take_while(|byte| **byte == b'\\').count();
    let digits = |from: usize, radix: u32, most: usize| {
        let digits = text.get(from..).unwrap_or_default().iter().take(most);
        let value = |byte: &u8| char::from(*byte).to_digit(radix);
        let digits = digits.map_while(value);
        digits.fold((0, 0), |(len, code), digit| (len + 1, code * radix + digit))
    };
    let (end, code) = match text.get(start..)? {
        [b'x', ..] => match digits(start + 1, 16, 2) {
            (2, code) => (start + 3, code),
            _ => return None,
        },
        [b'u', b'{', ..] => match digits(start + 2, 16, 6) {
            (len, code) if len > 0 && text.get(start + 2 + len) == Some(&b'}') => {
                (start + 3 + len, code)
            }
            _ => return None,
        },
        [b'u', ..] => match digits(start + 1, 16, 4) {
            (4, code) => (start + 5, code),
            _ => return None,
        },
        [b'0', ..] => {
            let (len, code) = digits(start, 8, 3);
            (start + len, code)
        }
        [b'e' | b'E', b'[' | b'(' | b']', ..] => (start + 1, 0x1B),
        _ => return None,
    };
    let shown = shown(code)?;
    Some(Unit { end, shown })
}

/// A byte as addresses have it: `%3D`, also escaped again: `%253D`.
fn percent(rest: &[u8]) -> Option<(usize, u32)> {
    const AGAIN_MAX: usize = 4;
    let mut at = 1;
    let again = |at: usize| matches!(rest.get(at..at + 4), Some([b'2', b'5', b'0'..=b'7', _]));
    while at < 2 * AGAIN_MAX && again(at) {
        at += 2;
    }
    let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
    let code = digit(at)? * 16 + digit(at + 1)?;
    Some((at + 2, code))
}

/// A character as HTML has it: `&quot;`, `&#39;`, `&#x3d;`, also escaped again: `&amp;quot;`.
fn entity(rest: &[u8]) -> Option<(usize, u32)> {
    const AGAIN_MAX: usize = 4;
    const NAMES: [(&[u8], u8); 5] = [
        (b"quot;", b'"'),
        (b"apos;", b'\''),
        (b"lt;", b'<'),
        (b"gt;", b'>'),
        (b"amp;", b'&'),
    ];
    let mut at = 1;
    while at < 4 * AGAIN_MAX
        && rest[at..].starts_with(b"amp;")
        && matches!(rest.get(at + 4), Some(b'#' | b'q' | b'a' | b'l' | b'g'))
    {
        at += 4;
    }
    let name = NAMES.iter().find(|(name, _)| rest[at..].starts_with(name));
    if let Some((name, byte)) = name {
        return Some((at + name.len(), u32::from(*byte)));
    }
    let (from, radix) = match rest.get(at..)? {
        [b'#', b'x' | b'X', ..] => (at + 2, 16),
        [b'#', ..] => (at + 1, 10),
        _ => return None,
    };
    let digits = rest[from..].iter().take(5);
    let digits = digits.map_while(|byte| char::from(*byte).to_digit(radix));
    let (len, code) = digits.fold((0, 0), |(len, code), digit| (len + 1, code * radix + digit));
    (len > 0 && rest.get(from + len) == Some(&b';')).then_some((from + len + 1, code))
}

/// Where a terminal's sequence ends that begins before `at` with the escape character.
fn sequence(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    let rest = text.get(at..)?;
    match rest {
        // What was redacted after an escape character.
        [b'[', ..] if placeholder_len(rest).is_some() => None,
        [b'[', ..] => control_sequence(text, at + 1),
        [b']' | b'P' | b'X' | b'^' | b'_', ..] => control_string(text, at + 1),
        // Character sets, and how bytes stand for characters.
        [
            b'(' | b')' | b'*' | b'+' | b'-' | b'.' | b'/' | b'#' | b'%',
            b'0'..=b'~',
            ..,
        ] => Some((at + 2, Shown::Nothing)),
        [
            b'7' | b'8' | b'=' | b'>' | b'c' | b'n' | b'o' | b'|' | b'}' | b'~',
            ..,
        ] => Some((at + 1, Shown::Nothing)),
        // Moves of the cursor.
        [b'D' | b'E' | b'H' | b'M', ..] => Some((at + 1, Shown::Byte(b' '))),
        _ => None,
    }
}

/// Parameters, and a letter that says what is to be done. Where the cursor moves, another word
/// begins.
fn control_sequence(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    const PARAMETERS_MAX: usize = 64;
    let rest = text.get(at..)?.iter().take(PARAMETERS_MAX);
    let end = at + rest.take_while(|byte| matches!(byte, b' '..=b'?')).count();
    let shown = match text.get(end)? {
        b'[' if placeholder_len(&text[end..]).is_some() => return None,
        b'A'..=b'I' | b'Z' | b'`' | b'a' | b'd'..=b'f' => Shown::Byte(b' '),
        b'@'..=b'~' => Shown::Nothing,
        _ => return None,
    };
    Some((end + 1, shown))
}

/// A string for the terminal itself, such as its title, up to its terminator, also where that is
/// escaped.
fn control_string(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    const ENDS: [&[u8]; 10] = [
        b"\x07",
        b"\x1b\\",
        b"\\x07",
        b"\\u0007",
        b"\\007",
        b"\\a",
        b"\\x1b\\\\",
        b"\\u001b\\\\",
        b"\\033\\\\",
        b"\\e\\\\",
    ];
    let rest = text.get(at..)?;
    let is_other = |byte: &u8| *byte < b' ' || *byte == b'\\';
    let len = rest.iter().position(is_other)?;
    let end = ENDS.iter().find(|end| rest[len..].starts_with(end))?;
    Some((at + len + end.len(), Shown::Nothing))
}
