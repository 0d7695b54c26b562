//! A text as a person sees it: without terminal control sequences and zero-width characters, with
//! overstruck characters only once, and with escapes decoded (escapes of terminals, programming
//! languages, URLs, HTML and mail). The position of each character in the raw text is kept. A
//! finding is therefore removed from the raw text together with the control sequences inside it.
//!
//! A cursor movement can separate two words or hide inside one word, and so can a line break. A
//! text that contains them is scanned twice: once with them as separators, once without them.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::breaks::{self, Halves, break_at};
use super::bytes::{is_blank, run};
use super::scan::placeholder_len;

/// A text whose displayed form differs from its raw form.
pub(super) struct Displayed {
    pub text: String,
    pieces: Vec<Piece>,
    /// Offset of the next character in the raw text, if it overstrikes another one.
    struck: Option<usize>,
    /// Offsets in the displayed text at which cursor movements were, in ascending order.
    pub joints: Vec<usize>,
}

/// How cursor movements are treated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// They separate words.
    Apart,
    /// They are removed.
    Together,
}

/// A piece of the displayed text. It ends where the next piece begins.
#[derive(Clone, Copy)]
struct Piece {
    /// Its start in the displayed text.
    start: usize,
    /// Its start in the raw text.
    raw: usize,
    /// Its end in the raw text, if it is one decoded character. `None`: the piece is raw text
    /// unchanged.
    raw_end: Option<usize>,
}

impl Piece {
    /// Offset in the raw text of what is displayed at `at`.
    fn raw_at(&self, at: usize) -> usize {
        match self.raw_end {
            Some(_) => self.raw,
            None => self.raw + (at - self.start),
        }
    }
}

/// What is displayed for a unit of the raw text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    /// An ASCII character.
    Byte(u8),
    /// Backspace: the next character is printed over the previous one.
    Backspace,
    /// NUL: ignored in UTF-16 text, otherwise treated as a cursor movement.
    Nul,
    /// A cursor movement: separates words like a blank, or hides inside a word.
    Move,
    /// Like `Move`, for a character that separates words in the raw text too.
    Break,
    /// The escape character. Its effect depends on what follows.
    Escape,
    /// The escape character and the bracket that introduces parameters (CSI).
    Introducer,
}

/// The text as it is displayed; `None` if that equals the raw text.
pub(super) fn displayed(text: &str, view: View) -> Option<Displayed> {
    if !differs(text.as_bytes()) {
        return None;
    }
    let bytes = text.as_bytes();
    let is_mail = MAIL.find(bytes).is_some();
    let mut displayed = Displayed {
        text: String::with_capacity(text.len()),
        pieces: Vec::new(),
        struck: None,
        joints: Vec::new(),
    };
    let (mut at, mut kept, mut nul_end) = (0, 0, None);
    while let Some(byte) = bytes.get(at) {
        let unit = begins_unit(*byte).then(|| unit_at(bytes, at, is_mail));
        let Some((end, mut shown)) = unit.flatten() else {
            at += 1;
            continue;
        };
        if shown == Shown::Nul {
            // In UTF-16, one byte of each ASCII character is between two NULs.
            let next = unit_at(bytes, end + 1, false);
            let is_wide = nul_end.is_some_and(|end| end + 1 == at)
                || next.is_some_and(|(_, next)| next == Shown::Nul);
            nul_end = Some(end);
            shown = if is_wide { Shown::Nothing } else { Shown::Move };
        }
        if shown == Shown::Break && view == View::Apart {
            displayed.joints.push(displayed.text.len() + at - kept);
            at = end;
            continue;
        }
        displayed.push(text, kept, at);
        match shown {
            Shown::Byte(byte) => displayed.push_one(char::from(byte), at, end),
            Shown::Backspace => displayed.pop(),
            Shown::Move | Shown::Break => {
                displayed.joints.push(displayed.text.len());
                if view == View::Apart {
                    displayed.push_one(' ', at, end);
                }
            }
            Shown::Nothing | Shown::Nul | Shown::Escape | Shown::Introducer => {}
        }
        at = end;
        kept = at;
    }
    displayed.push(text, kept, bytes.len());
    Some(displayed)
}

/// The form in which secrets are compared: without invisible characters.
pub(super) fn spelled(secret: &str) -> Cow<'_, str> {
    let shown = displayed(secret, View::Together).map(|shown| shown.text);
    let spelled = shown.map_or(Cow::Borrowed(secret), Cow::Owned);
    if spelled.contains(['\n', '\r']) {
        return Cow::Owned(spelled.replace(['\n', '\r'], ""));
    }
    spelled
}

impl Displayed {
    /// Maps a non-empty range of the displayed text to a range of the raw text.
    pub(super) fn raw(&self, start: usize, end: usize) -> (usize, usize) {
        let piece = |at: usize| {
            let next = self.pieces.partition_point(|piece| piece.start <= at);
            self.pieces[next - 1]
        };
        let last = piece(end - 1);
        let raw_end = last.raw_end.unwrap_or(last.raw + (end - last.start));
        (piece(start).raw_at(start), raw_end)
    }

    /// Appends part of the raw text unchanged.
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

    /// Appends a character that was decoded from part of the raw text.
    fn push_one(&mut self, one: char, from: usize, to: usize) {
        self.pieces.push(Piece {
            start: self.text.len(),
            raw: self.struck.take().unwrap_or(from),
            raw_end: Some(to),
        });
        self.text.push(one);
    }

    /// Removes the last character of the line.
    fn pop(&mut self) {
        if self.text.ends_with('\n') || self.text.pop().is_none() {
            return;
        }
        let len = self.text.len();
        let Some(last) = self.pieces.last().copied() else {
            return;
        };
        self.struck = Some(last.raw_at(len));
        if last.start >= len {
            self.pieces.pop();
        }
    }
}

/// Whether the displayed form of a text differs from the raw text. Most texts contain few candidate
/// bytes, so the first test looks at many bytes at a time.
pub(super) fn differs(text: &[u8]) -> bool {
    let is_control = |byte: u8| {
        u8::from(byte < b' ')
            & u8::from(byte != b'\n')
            & u8::from(byte != b'\t')
            & u8::from(byte != b'\r')
            | u8::from(byte == 0x7F)
    };
    let has_control = || text.iter().fold(0, |any, byte| any | is_control(*byte)) != 0;
    let has_escape = |first: usize| {
        let pairs = text[first..].iter().zip(text[first..].iter().skip(1));
        pairs.fold(0, |any, (one, two)| {
            let letter = u8::from(*two == b'x') | u8::from(*two == b'u');
            let letter = letter | u8::from(b'0' <= *two) & u8::from(*two <= b'3');
            let letter = letter | u8::from(*two == b'e') | u8::from(*two == b'E');
            let letter = letter | u8::from(*two == b'\n') | u8::from(*two == b'\r');
            any | u8::from(*one == b'\\') & letter
        }) != 0
    };
    let is_unit = |at: usize| unit_at(text, at, false).is_some();
    has_control()
        || memchr::memchr(b'\\', text).is_some_and(has_escape)
            && memchr::memchr_iter(b'\\', text).any(is_unit)
        || memchr::memchr2_iter(b'%', b'&', text).any(is_unit)
        || !text.is_ascii()
            && HIDDEN_STARTS
                .iter()
                .any(|[a, b, c]| memchr::memchr3_iter(*a, *b, *c, text).any(is_unit))
        || memchr::memchr_iter(b'^', text).any(is_unit)
        || breaks::has_any(text)
        || MAIL.find(text).is_some()
}

/// `=` in the quoted-printable encoding of mail.
static MAIL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"=3D"));

/// First bytes of the zero-width characters.
const HIDDEN_STARTS: [[u8; 3]; 3] = [[0xE2, 0xC2, 0xEF], [0xCD, 0xE1, 0xF3], [0xD8, 0xE3, 0xF0]];

fn begins_unit(byte: u8) -> bool {
    byte < b' ' && byte != b'\t'
        || matches!(byte, b'\\' | b'%' | b'&' | b'=' | b'^' | 0x7F)
        || HIDDEN_STARTS.as_flattened().contains(&byte)
}

/// The unit at `at`, if it is not displayed unchanged: its end, and what is displayed for it.
fn unit_at(text: &[u8], at: usize, is_mail: bool) -> Option<(usize, Shown)> {
    let rest = text.get(at..)?;
    let unit = |len: usize, shown: Shown| Some((at + len, shown));
    let (end, shown) = match rest {
        [b'\\', ..] => escape(text, at),
        [b'%', ..] => percent(rest).and_then(|(len, code)| unit(len, shown(code)?)),
        [b'&', ..] => entity(rest).and_then(|(len, code)| unit(len, shown(code)?)),
        [b'=', b'3', b'D', ..] => unit(3, Shown::Byte(b'=')),
        // A soft line break of quoted-printable.
        [b'=', b'\n', ..] if is_mail => unit(2, Shown::Nothing),
        [b'=', b'\r', b'\n', ..] if is_mail => unit(3, Shown::Nothing),
        // Only where it is certainly a terminal sequence: `^` and `[` also occur in patterns.
        [b'^', b'[', b'[', b'0'..=b'9' | b'?' | b'm' | b'K', ..] => unit(2, Shown::Escape),
        [b'^', b'@' | b'M', ..] => unit(2, Shown::Move),
        [b'=' | b'\n' | b'\r', ..] => break_at(text, at).and_then(|len| unit(len, Shown::Break)),
        [control @ (0..=0x1F | 0x7F), ..] => unit(1, shown(u32::from(*control))?),
        [0x80..=0xFF, ..] => {
            let one = char_at(rest)?;
            unit(one.len_utf8(), shown(u32::from(one))?)
        }
        _ => None,
    }?;
    let ended = match shown {
        Shown::Escape => sequence(text, end),
        Shown::Introducer => control_sequence(text, end),
        _ => return Some((end, shown)),
    };
    Some(ended.unwrap_or((end, Shown::Nothing)))
}

/// The multi-byte character at the start of a text.
pub(super) fn char_at(text: &[u8]) -> Option<char> {
    let near = &text[..text.len().min(4)];
    near.utf8_chunks().next()?.valid().chars().next()
}

/// What is displayed for a character, raw or decoded from an escape; `None` if it is displayed
/// unchanged.
fn shown(code: u32) -> Option<Shown> {
    match code {
        0 => Some(Shown::Nul),
        0x08 => Some(Shown::Backspace),
        0x1B => Some(Shown::Escape),
        0x9B => Some(Shown::Introducer),
        0x0B | 0x0C | 0x2028 | 0x2029 => Some(Shown::Break),
        0x84 | 0x85 | 0x8D => Some(Shown::Move),
        0x09 | 0x0A | 0x0D | 0x20..=0x7E => u8::try_from(code).ok().map(Shown::Byte),
        0x01..=0x1F | 0x7F..=0x9F => Some(Shown::Nothing),
        code => is_ignorable(code).then_some(Shown::Nothing),
    }
}

/// Whether a character has no width: Unicode's default-ignorable characters and bidirectional
/// controls.
fn is_ignorable(code: u32) -> bool {
    matches!(
        code,
        0xAD | 0x34F
            | 0x61C
            | 0x115F..=0x1160
            | 0x17B4..=0x17B5
            | 0x180B..=0x180F
            | 0x200B..=0x200F
            | 0x202A..=0x202E
            | 0x2060..=0x206F
            | 0x3164
            | 0xFE00..=0xFE0F
            | 0xFEFF
            | 0xFFA0
            | 0xFFF0..=0xFFF8
            | 0x1_BCA0..=0x1_BCA3
            | 0x1_D173..=0x1_D17A
            | 0xE_0000..=0xE_0FFF
    )
}

/// An escape in the notation of programming languages: `\x1b`, `\u001b`, `\u{1b}`, `\033`, `\e`,
/// `\0`. Its backslash may be escaped again.
fn escape(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    const BACKSLASHES_MAX: usize = 8;
    const BLANKS_MAX: usize = 64;
    let start = at + run(text, at, BACKSLASHES_MAX, |byte| byte == b'\\');
    let (end, code) = match text.get(start..)? {
        [b'x', ..] => match number(text, start + 1, 16, 2) {
            (2, code) => (start + 3, code),
            _ => return None,
        },
        [b'u', b'{', ..] => match number(text, start + 2, 16, 6) {
            (len, code) if len > 0 && text.get(start + 2 + len) == Some(&b'}') => {
                (start + 3 + len, code)
            }
            _ => return None,
        },
        [b'u', ..] => match number(text, start + 1, 16, 4) {
            (4, code) => (start + 5, code),
            _ => return None,
        },
        [b'0', ..] => {
            let (len, code) = number(text, start, 8, 3);
            (start + len, code)
        }
        [b'1'..=b'3', ..] => match number(text, start, 8, 3) {
            (3, code @ 0x20..=0x7E) => (start + 3, code),
            // The tabulator, line breaks and the escape character.
            (2, code @ (0x09 | 0x0A | 0x0D | 0x1B)) => (start + 2, code),
            _ => return None,
        },
        // A line continuation inside a word.
        [b'\n' | b'\r', ..] if at > 0 => {
            let line = start + usize::from(text[start] == b'\r');
            text.get(line..)?.strip_prefix(b"\n")?;
            let end = line + 1 + run(text, line + 1, BLANKS_MAX, is_blank);
            Halves::around(text, at, end)?;
            return Some((end, Shown::Break));
        }
        [b'e' | b'E', b'[' | b'(' | b']', ..] => (start + 1, 0x1B),
        _ => return None,
    };
    Some((end, shown(code)?))
}

/// Reads a number of at most `most` digits: the number of digits, and its value.
fn number(text: &[u8], at: usize, radix: u32, most: usize) -> (usize, u32) {
    let digits = text.get(at..).unwrap_or_default().iter().take(most);
    let digits = digits.map_while(|byte| char::from(*byte).to_digit(radix));
    digits.fold((0, 0), |(len, code), digit| (len + 1, code * radix + digit))
}

/// A percent-encoded byte: `%3D`, or encoded twice: `%253D`.
fn percent(rest: &[u8]) -> Option<(usize, u32)> {
    const AGAIN_MAX: usize = 4;
    let mut at = 1;
    let again = |at: usize| matches!(rest.get(at..at + 4), Some([b'2', b'5', b'0'..=b'7', _]));
    while at < 2 * AGAIN_MAX && again(at) {
        at += 2;
    }
    let (len, code) = number(rest, at, 16, 2);
    (len == 2).then_some((at + 2, code))
}

/// An HTML character reference: `&quot;`, `&#39;`, `&#x3d;`, or escaped twice: `&amp;quot;`.
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
    let (len, code) = number(rest, from, radix, 5);
    (len > 0 && rest.get(from + len) == Some(&b';')).then_some((from + len + 1, code))
}

/// The end of the terminal sequence whose escape character ends at `at`.
fn sequence(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    let rest = text.get(at..)?;
    match rest {
        // A placeholder after an escape character.
        [b'[', ..] if placeholder_len(rest).is_some() => None,
        [b'[', ..] => control_sequence(text, at + 1),
        [b']' | b'P' | b'X' | b'^' | b'_', ..] => control_string(text, at + 1),
        // Selection of character sets and encodings.
        [sign, b'0'..=b'~', ..] if b"()*+-./#%".contains(sign) => Some((at + 2, Shown::Nothing)),
        [sign, ..] if b"78=>cno|}~".contains(sign) => Some((at + 1, Shown::Nothing)),
        // Cursor movements.
        [b'D' | b'E' | b'H' | b'M', ..] => Some((at + 1, Shown::Move)),
        _ => None,
    }
}

/// A control sequence: parameters and a final letter.
fn control_sequence(text: &[u8], at: usize) -> Option<(usize, Shown)> {
    const PARAMETERS_MAX: usize = 64;
    let end = at + run(text, at, PARAMETERS_MAX, |byte| matches!(byte, b' '..=b'?'));
    let shown = match text.get(end)? {
        b'[' if placeholder_len(&text[end..]).is_some() => return None,
        b'A'..=b'I' | b'Z' | b'`' | b'a' | b'd'..=b'f' => Shown::Move,
        b'@'..=b'~' => Shown::Nothing,
        _ => return None,
    };
    Some((end + 1, shown))
}

/// A string for the terminal itself, such as its title, up to its terminator. The terminator may be
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
