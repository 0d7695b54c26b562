//! Private keys of several lines: PEM, PGP armour and `PuTTY` files. Also recognized: escaped line
//! breaks, blocks cut off at either end, and listings that put a prefix before each line, such as
//! `    12→`, `> ` or `k.pem:3:`.

use super::Found;
use super::bytes::{contains, is_blank, is_digit, run, run_before, skip};
use super::context::{Place, from_base64};
use super::runs::Class;
use super::text::{distinct, is_random, starts_word};

/// Name in the placeholder.
pub(super) const PRIVATE_KEY: &str = "private_key";
/// Maximum distance between the start of a label and `PRIVATE KEY`, as in `-----BEGIN ENCRYPTED `.
const LABEL_BYTES: usize = 48;
/// Minimum length of a block's text that counts as a key.
const BLOCK_BYTES_MIN: usize = 40;
/// Maximum length of the prefix that a listing puts before a line.
const GUTTER_BYTES_MAX: usize = 160;
/// Maximum length of a line that is scanned backwards from its end.
const LINE_BYTES_MAX: usize = 512;

/// A private key block. Its start or its end may be cut off.
pub(super) fn private_key(place: &Place<'_>) -> Option<Found> {
    let (text, at, after) = (place.text, place.at, place.after);
    let label = &text[at.saturating_sub(LABEL_BYTES)..at];
    let begins = |word: &[u8]| {
        let found = memchr::memmem::rfind(label, word)?;
        let is_label = |byte: &u8| byte.is_ascii_uppercase() || matches!(byte, b' ' | b'0'..=b'9');
        let is_one = label[found + word.len()..].iter().all(is_label);
        let dashes = run_before(label, found, LABEL_BYTES, |byte| {
            matches!(byte, b'-' | b' ')
        });
        (is_one && dashes >= 4).then_some(at - (label.len() - found) - dashes)
    };
    let is_of_label = |byte: u8| matches!(byte, b'-' | b' ') || byte.is_ascii_uppercase();
    let line_end = after + run(text, after, LABEL_BYTES, is_of_label);
    if let Some(start) = begins(b"BEGIN") {
        if place.is_raw {
            return Some(found(start, after));
        }
        let end = block_end(text, start, line_end);
        let key = &text[line_end..end];
        let is_key = key.iter().filter(|b| b.is_ascii_alphanumeric()).count() >= BLOCK_BYTES_MIN
            && distinct(key) >= 12;
        return is_key.then(|| found(start, end_line(text, end)));
    }
    let end_label = begins(b"END")?;
    if place.is_raw {
        return Some(found(end_label, after));
    }
    let start = block_start(text, end_label);
    let key = &text[start..end_label];
    let is_key = key.len() >= BLOCK_BYTES_MIN / 2 && is_random(key);
    is_key.then(|| found(start, line_end))
}

/// A private key block encoded in base64 again, as in Kubernetes secrets, on one or more lines.
pub(super) fn encoded_key(place: &Place<'_>) -> Option<Found> {
    const HEAD_BYTES: usize = 64;
    let (text, at, after) = (place.text, place.at, place.after);
    if place.is_raw {
        return Some(found(at, after));
    }
    if !starts_word(text, at) {
        return None;
    }
    let mut end = place.runs.end(Class::Base64, at);
    let width = end - at;
    let head = from_base64(&text[at..at + width.min(HEAD_BYTES) / 4 * 4])?;
    let is_key =
        head.starts_with(b"-----BEGIN ") && contains(&head, b"PRIVATE") && width >= BLOCK_BYTES_MIN;
    if !is_key {
        return None;
    }
    let before = line_start(text, at, GUTTER_BYTES_MAX).unwrap_or(at);
    let known = signs(&text[before..at]);
    let near = |at: usize| &text[..text.len().min(at + LINE_BYTES_MAX)];
    loop {
        let (line_end, next) = line_after(near(end), end);
        if next == line_end || !text[end..line_end].trim_ascii().is_empty() {
            break;
        }
        let (line_end, _) = line_after(near(next), next);
        let start = next + skipped(&text[next..line_end], &known);
        let line = &text[start..line_end];
        let len = run(line, 0, usize::MAX, |byte| Class::Base64.has(byte));
        let rest = line[len..].trim_ascii();
        let ends = rest.is_empty() || matches!(rest[0], b'"' | b'\'' | b'`');
        // Another key is found by its own beginning.
        if len == 0 || len > width || !ends || line.starts_with(&text[at..after]) {
            break;
        }
        end = start + len;
        if len < width {
            break;
        }
    }
    Some(found(at, end))
}

fn found(start: usize, end: usize) -> Found {
    Found::new(PRIVATE_KEY, start, end)
}

fn in_block(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r' | b'\\')
}

/// Headers such as `Proc-Type: 4,ENCRYPTED` use bytes that a key does not, and lists use quotes.
fn is_part(byte: u8) -> bool {
    in_block(byte) || b" \t:,-.\"'()@<>".contains(&byte)
}

/// The end of the line that contains `at` and the start of the next line. An escaped line break
/// counts.
fn line_after(text: &[u8], at: usize) -> (usize, usize) {
    let mut from = at;
    while let Some(len) = memchr::memchr2(b'\n', b'\\', text.get(from..).unwrap_or_default()) {
        let end = from + len;
        match text[end..] {
            [b'\n', ..] => return (end, end + 1),
            // `\n`, or `\\n` in text that was escaped twice.
            [b'\\', b'n', ..] => return (end, end + 2),
            _ => from = end + 1,
        }
    }
    (text.len(), text.len())
}

/// The start of the line that contains `at`, if it is within `most` bytes.
fn line_start(text: &[u8], at: usize, most: usize) -> Option<usize> {
    let first = at.saturating_sub(most);
    let before = &text[first..at];
    let line = memchr::memrchr(b'\n', before).map(|line| line + 1);
    let escape = memchr::memmem::rfind(before, b"\\n").map(|escape| escape + 2);
    let start = line.max(escape).or((first == 0).then_some(0))?;
    Some(first + start)
}

/// The prefix that a listing puts before a line, without blanks and digits, which vary between
/// lines.
fn signs(gutter: &[u8]) -> Vec<u8> {
    let signs = gutter.iter().copied().filter(|byte| !is_number(*byte));
    signs.map(same).collect()
}

fn is_number(byte: u8) -> bool {
    is_digit(byte) || is_blank(byte)
}

/// `grep` writes `:` on matching lines and `-` on context lines.
fn same(sign: u8) -> u8 {
    if sign == b'-' { b':' } else { sign }
}

/// Length of the listing prefix of a line, if its other characters equal `signs`.
fn gutter(line: &[u8], signs: &[u8]) -> Option<usize> {
    let run = |at: usize, class: fn(u8) -> bool| run(line, at, GUTTER_BYTES_MAX, class);
    let mut at = 0;
    for sign in signs {
        at += run(at, is_number);
        if same(*line.get(at)?) != *sign {
            return None;
        }
        at += 1;
    }
    let blanks = run(at, is_blank);
    if !signs.is_empty() {
        return Some(at + blanks);
    }
    // A line number alone: a blank separates it from the key.
    let number = blanks + run(blanks, is_digit);
    let after = run(number, is_blank);
    Some(if after > 0 { number + after } else { blanks })
}

/// Length of the listing prefix of a line, in any listing format.
fn any_gutter(line: &[u8]) -> usize {
    const MARKS: [&str; 12] = ["", "\\u", "→", "│", "//", "|", "#", ">", ":", "*", "+", ";"];
    let all = MARKS
        .iter()
        .filter_map(|mark| gutter(line, mark.as_bytes()));
    all.max().unwrap_or(0)
}

/// A line without the frame that ends it.
fn unframed(line: &[u8]) -> &[u8] {
    let line_end = line.trim_ascii_end();
    let mut marks = ["│", "║", "|"].iter();
    let unframed = marks.find_map(|mark| line_end.strip_suffix(mark.as_bytes()));
    unframed.map_or(line, <[u8]>::trim_ascii_end)
}

/// Number of bytes at the start of a line that belong to the listing, not to the block.
fn skipped(line: &[u8], known: &[u8]) -> usize {
    match gutter(line, known) {
        Some(len) if len > 0 => len,
        _ if line.iter().all(|byte| in_block(*byte)) => 0,
        _ => any_gutter(line),
    }
}

/// The end of the text of a block whose label is `label..start`.
fn block_end(text: &[u8], label: usize, start: usize) -> usize {
    // The next block is found by its own label.
    let next_label = memchr::memmem::find(&text[start..], b"BEGIN");
    let text = &text[..next_label.map_or(text.len(), |next| start + next)];
    let before = line_start(text, label, GUTTER_BYTES_MAX).unwrap_or(label);
    let known = signs(&text[before..label]);
    // The end of the block if its end line is missing.
    let (mut cut, mut is_cut) = (start, false);
    let (mut at, mut gutter) = (start, 0);
    while at < text.len() {
        let (line_end, next) = line_after(text, at);
        let line_at = at + gutter;
        let line = unframed(&text[line_at..line_end]);
        let parts = run(line, 0, usize::MAX, is_part);
        if let Some(end) = memchr::memmem::find(&line[..parts], b"-----END") {
            return line_at + end;
        }
        let is_whole = parts == line.len();
        if !is_cut {
            let is_of_header = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
            let header = memchr::memmem::find(line, b": ");
            let is_header = header.is_some_and(|len| line[..len].iter().all(is_of_header));
            let words = line.split(|byte| parts_words(*byte));
            if is_whole && (is_header || words.filter(|word| !word.is_empty()).count() <= 1) {
                cut = line_end;
            } else {
                cut = cut.max(line_at + key_words(line, cut > start, line_end == text.len()));
                is_cut = true;
            }
        }
        if !is_whole {
            return cut;
        }
        at = next;
        let (line_end, _) = line_after(text, at);
        gutter = skipped(&text[at..line_end], &known);
    }
    cut
}

fn parts_words(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b',' | b'"' | b'\'')
}

/// The end of a key in a line that also contains other words, such as the strings of a list. The
/// last line of a key may be short if it follows another one.
fn key_words(line: &[u8], mut is_within: bool, is_last: bool) -> usize {
    let (mut end, mut at) = (0, 0);
    for word in line.split(|byte| parts_words(*byte)) {
        let key = run(word, 0, usize::MAX, in_block);
        let next = line.get(at + key);
        let ends = matches!(next, Some(b'"' | b'\'' | b'`')) || next.is_none() && is_last;
        let is_long = key >= BLOCK_BYTES_MIN;
        if is_long || key > 0 && is_within && ends {
            end = at + key;
        }
        if !(word.is_empty() || is_long && key == word.len()) {
            break;
        }
        is_within |= is_long;
        at += word.len() + 1;
    }
    end
}

/// The end of the line `-----END … -----`, if it is at `at`.
fn end_line(text: &[u8], at: usize) -> usize {
    const END: &[u8] = b"-----END";
    if !text[at..].starts_with(END) {
        return at;
    }
    let is_of_label = |byte: u8| byte.is_ascii_uppercase() || is_digit(byte) || byte == b' ';
    let end = skip(text, at + END.len(), is_of_label);
    end + run(text, end, 5, |byte| byte == b'-')
}

/// The start of the text of a block that ends with the label at `end` and whose own label is cut
/// off.
fn block_start(text: &[u8], end: usize) -> usize {
    let mut start = end - run_before(text, end, usize::MAX, in_block);
    let Some(label_line) = line_start(text, end, GUTTER_BYTES_MAX) else {
        return start;
    };
    let known = signs(&text[label_line..end]);
    let mut next = label_line;
    // The line break is one byte or two.
    while let Some(line_end) = next.checked_sub(1) {
        let line_end = line_end - usize::from(text[..line_end].ends_with(b"\\"));
        let Some(line_start) = line_start(text, line_end, LINE_BYTES_MAX) else {
            break;
        };
        let line = &text[line_start..line_end];
        let key = line_start + gutter(line, &known).unwrap_or(0);
        let is_key = key < line_end && text[key..line_end].iter().all(|byte| in_block(*byte));
        if !is_key {
            break;
        }
        start = start.min(key);
        next = line_start;
    }
    start
}

/// The lines of a key after `Private-Lines: 14` in a `PuTTY` file. The anchor is at the start of
/// the file.
pub(super) fn putty_key(place: &Place<'_>) -> Option<Found> {
    const FILE_BYTES_MAX: usize = 8 << 10;
    const LINES_MAX: usize = 1024;
    let (text, at, after) = (place.text, place.at, place.after);
    if !text[..at].ends_with(b"PuTTY-User-") || !text[after..].starts_with(b"-File-") {
        return None;
    }
    if place.is_raw {
        return Some(found(at, after));
    }
    let file = &text[after..text.len().min(after + FILE_BYTES_MAX)];
    let label = after + memchr::memmem::find(file, PUTTY)?;
    let after = label + PUTTY.len();
    let near = |at: usize| &text[..text.len().min(at + LINE_BYTES_MAX)];
    let digits = run(text, after, 4, is_digit);
    let count = std::str::from_utf8(&text[after..after + digits]).ok()?;
    let count: usize = count.parse().ok()?;
    let before = line_start(text, label, GUTTER_BYTES_MAX).unwrap_or(label);
    let known = signs(&text[before..label]);
    let (_, first) = line_after(near(after), after);
    let (mut next, mut end) = (first, first);
    for _ in 0..count.min(LINES_MAX) {
        let (line_end, after_line) = line_after(near(next), next);
        let line = &text[next..line_end];
        let line = &line[skipped(line, &known)..];
        if line.is_empty() || !line.iter().all(|byte| in_block(*byte)) {
            break;
        }
        (end, next) = (line_end, after_line);
    }
    let key = &text[first..end];
    (key.len() >= BLOCK_BYTES_MIN && is_random(key)).then(|| found(first, end))
}

/// The text before the number of lines.
const PUTTY: &[u8] = b"Private-Lines: ";

/// State while scanning an array whose strings are the lines of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lines {
    /// Outside a key.
    #[default]
    None,
    /// After the label of a key.
    Begun,
    /// After a line of a key.
    Within,
}

impl Lines {
    /// The state of the next string. `Within`: that string is a line of the key.
    pub(super) fn next(self, line: &str) -> Lines {
        let line = line.trim().as_bytes();
        let has = |word: &str| contains(line, word);
        if has("-----END") {
            return Lines::None;
        }
        if has("PRIVATE KEY") && has("--BEGIN ") || line.starts_with(PUTTY) {
            return Lines::Begun;
        }
        if self == Lines::None {
            return Lines::None;
        }
        let line = &line[skipped(line, b"")..];
        let is_key = !line.is_empty() && line.iter().all(|byte| in_block(*byte));
        let begins = line.len() >= BLOCK_BYTES_MIN && is_random(line);
        match self {
            Lines::Within if is_key => Lines::Within,
            Lines::Begun if is_key && begins => Lines::Within,
            // Headers and the separator between headers and key.
            Lines::Begun if line.is_empty() || has(": ") => Lines::Begun,
            _ => Lines::None,
        }
    }
}
