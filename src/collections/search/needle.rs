//! The search text, matched against raw lines and against the string values in them.

use std::borrow::Cow;
use std::fmt::Write;

use regex::{Regex, RegexBuilder};

use super::raw::RawText;
use crate::error::{Error, Result};
use crate::record::tokens;

/// Maximum length of the search text, in bytes.
const TEXT_BYTES_MAX: usize = 1024;
/// Memory limit of a compiled expression; that of the longest text needs less.
pub(super) const COMPILED_BYTES_MAX: usize = 64 << 20;
/// Maximum length of the snippet around a match, in characters.
const SNIPPET_CHARS: usize = 160;
/// Maximum length of the snippet before the match, in characters.
const BEFORE_CHARS: usize = 60;
/// JSON pointers longer than this are cut.
const FIELD_BYTES_MAX: usize = 512;
/// Maximum nesting depth. Lines that decklog writes are not nested deeper.
const DEPTH_MAX: usize = 256;
/// Members that belong to the line and not to the record.
const ENVELOPE: [&[u8]; 4] = [b"\"seq\"", b"\"at\"", b"\"op\"", b"\"crc\""];

/// A search text, matched without regard to case.
#[derive(Debug)]
pub(super) struct Needle {
    /// Matches a string value.
    text: Regex,
    /// Finds raw lines that may contain the text.
    pub(super) lines: RawText,
}

impl Needle {
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the text is empty or too long.
    pub(super) fn new(text: &str) -> Result<Needle> {
        let invalid = |message: String| Error::invalid(message).with_field("text");
        if text.is_empty() {
            return Err(invalid("text is empty: give what to look for".to_owned()));
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(invalid(format!(
                "text has {} bytes: at most {TEXT_BYTES_MAX} are allowed",
                text.len()
            )));
        }
        let too_large = |e: regex::Error| invalid(format!("text cannot be looked for: {e}"));
        let mut of_texts = RegexBuilder::new(&regex::escape(text));
        let of_texts = of_texts.case_insensitive(true);
        let of_texts = of_texts.size_limit(COMPILED_BYTES_MAX).build();
        Ok(Needle {
            text: of_texts.map_err(too_large)?,
            lines: RawText::new(text).map_err(too_large)?,
        })
    }

    /// The first string value of a line that contains the text: its JSON pointer and a snippet
    /// around the match. Member names are not searched, and a line that is not valid JSON has no
    /// match.
    pub(super) fn find(&self, line: &[u8]) -> Option<(String, String)> {
        let mut places: Vec<Place<'_>> = Vec::new();
        for token in tokens(line) {
            match line[token.start] {
                b'{' | b'[' if places.len() == DEPTH_MAX => return None,
                b'{' => places.push(Place::Name(None)),
                b'[' => places.push(Place::Nth(0)),
                b'}' | b']' => {
                    places.pop();
                }
                b',' => match places.last_mut()? {
                    Place::Name(name) => *name = None,
                    Place::Nth(nth) => *nth += 1,
                },
                b'"' => {
                    let quoted = &line[token];
                    let is_of_record = !is_envelope(&places);
                    match places.last_mut()? {
                        Place::Name(name @ None) => *name = Some(quoted),
                        _ if is_of_record => {
                            if let Some(snippet) = self.look(quoted) {
                                return Some((pointer(&places), snippet));
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Searches one string value of a line.
    fn look(&self, quoted: &[u8]) -> Option<String> {
        let text = text_of(quoted)?;
        let found = self.text.find(&text)?;
        Some(snippet(&text, found.start(), found.end()))
    }
}

/// The position of a value in its parent.
#[derive(Debug, Clone, Copy)]
enum Place<'a> {
    /// In an object, under this name in its JSON form, once the name was read.
    Name(Option<&'a [u8]>),
    Nth(usize),
}

/// Whether the value at these places is an envelope member, which belongs to the line.
fn is_envelope(places: &[Place<'_>]) -> bool {
    matches!(places, [Place::Name(Some(name))] if ENVELOPE.contains(name))
}

/// Decodes a JSON string of a line; `None` if it is not valid.
fn text_of(quoted: &[u8]) -> Option<Cow<'_, str>> {
    if memchr::memchr(b'\\', quoted).is_none() {
        let text = quoted.get(1..quoted.len() - 1)?;
        return std::str::from_utf8(text).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice(quoted).ok().map(Cow::Owned)
}

/// The JSON pointer to a value.
fn pointer(places: &[Place<'_>]) -> String {
    let mut pointer = String::new();
    for place in places {
        pointer.push('/');
        match place {
            Place::Name(name) => {
                let name = name.and_then(text_of).unwrap_or_default();
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
            }
            Place::Nth(nth) => {
                // Writing to a `String` cannot fail.
                let _ = write!(pointer, "{nth}");
            }
        }
        if pointer.len() > FIELD_BYTES_MAX {
            return clipped(pointer, FIELD_BYTES_MAX);
        }
    }
    pointer
}

/// Cuts a text to a maximum length, with a sign that it was cut.
pub(crate) fn clipped(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max));
        text.push('…');
    }
    text
}

/// The part of a text around the match.
fn snippet(text: &str, start: usize, end: usize) -> String {
    let found = text[start..end].chars().take(SNIPPET_CHARS).count();
    let before = BEFORE_CHARS.min((SNIPPET_CHARS - found) / 2);
    let back = |from: usize, chars: usize| {
        let before = text[..from].char_indices().rev().take(chars);
        before.last().map_or(from, |(at, _)| at)
    };
    let from = back(start, before);
    let mut after = text[from..].char_indices().skip(SNIPPET_CHARS);
    let (from, to) = match after.next() {
        Some((len, _)) => (from, from + len),
        None => (back(text.len(), SNIPPET_CHARS).min(from), text.len()),
    };
    let cut = |is_cut| if is_cut { "…" } else { "" };
    format!(
        "{}{}{}",
        cut(from > 0),
        &text[from..to],
        cut(to < text.len())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Sought;

    fn found(text: &str, line: &str) -> Option<(String, String)> {
        let needle = Needle::new(text).unwrap();
        let found = needle.find(line.as_bytes());
        let may_be_there = needle.lines.find(line.as_bytes()).is_some();
        assert!(may_be_there || found.is_none(), "{text:?} in {line}");
        found
    }

    fn field(text: &str, line: &str) -> Option<String> {
        found(text, line).map(|(field, _)| field)
    }

    #[test]
    fn texts_are_found_where_they_stand() {
        let line = r#"{"seq":1,"at":2,"op":"said","id":"x","a":{"said":[1e999,null,{"b/c~":"He SAID \"so\""}]},"z":"said","crc":"said"}"#;
        assert_eq!(field("said", line).as_deref(), Some("/a/said/2/b~1c~0"));
        assert_eq!(
            field("said \"SO\"", line).as_deref(),
            Some("/a/said/2/b~1c~0")
        );
        let line = r#"{"op":"said","crc":"said","said":1,"a":{"op":"said"}}"#;
        assert_eq!(field("said", line).as_deref(), Some("/a/op"));
        assert_eq!(
            field("said", r#"{"op":"said","said":[],"crc":"said"}"#),
            None
        );
    }

    #[test]
    fn escapes_and_folded_letters_are_the_text_that_they_say() {
        for (text, value) in [
            ("/usr/bin", r"in \/usr\/bin"),
            ("/usr/bin", "in /usr/bin"),
            ("a\nb", r"xa\nbx"),
            ("a\nb", r"xa\u000Abx"),
            ("\u{1b}[0m", r"\u001b[0M"),
            ("😀", r"\ud83d\uDE00"),
            ("😀", "😀"),
            ("C:\\new", r"c:\\NEW"),
            ("\u{8}\u{c}\r\t", r"\b\f\r\t"),
            ("ΟΔΟΣ", "οδος"),
            ("σ", "ς"),
            ("k", "\u{212a}"),
            ("STRASSE", "ſtraſſe"),
            ("ẞ", "ß"),
            ("a.c*", "A.C*"),
        ] {
            let line = format!(r#"{{"x":"{value}"}}"#);
            assert_eq!(
                field(text, &line).as_deref(),
                Some("/x"),
                "{text} in {value}"
            );
        }
        for (text, value) in [
            ("ss", "ß"),
            ("i", "İ"),
            ("a.c", "abc"),
            ("\n", r"\\n"),
            ("n", r"\n"),
        ] {
            let line = format!(r#"{{"x":"{value}"}}"#);
            assert_eq!(field(text, &line), None, "{text} in {value}");
        }
    }

    #[test]
    fn what_is_no_json_holds_nothing() {
        for line in [
            "",
            "x",
            "\"x",
            "\"x\"",
            "{\"x",
            "{\"a\":\"x",
            "{\"a\":\"x\\",
            "]x]",
            ",\"x\"",
        ] {
            assert_eq!(field("x", line), None, "{line}");
        }
        let deep = format!("{}\"x\"", "[".repeat(1 << 20));
        assert_eq!(field("x", &deep), None);
        assert_eq!(Needle::new("x").unwrap().find(b"{\"a\":\"\xffx\"}"), None);
        assert_eq!(
            field("x", r#"{"a":"\ud800x","b":"x"}"#).as_deref(),
            Some("/b")
        );
    }

    #[test]
    fn snippets_are_around_what_was_found() {
        let of = |text: &str, value: &str| {
            let line = serde_json::json!({ "a": value }).to_string();
            found(text, &line).unwrap().1
        };
        assert_eq!(of("needle", "a needle"), "a needle");
        let long = format!("{}needle{}", "ä".repeat(300), "ö".repeat(300));
        let shown = of("NEEDLE", &long);
        assert_eq!(
            shown,
            format!("…{}needle{}…", "ä".repeat(60), "ö".repeat(94))
        );
        let at_end = format!("{}needle", "ä".repeat(300));
        assert_eq!(of("needle", &at_end), format!("…{}needle", "ä".repeat(154)));
        let all = "é".repeat(400);
        assert_eq!(
            of(&all, &format!("x{all}")),
            format!("…{}…", "é".repeat(160))
        );
        assert_eq!(of(&all, &all), format!("{}…", "é".repeat(160)));
    }

    #[test]
    fn texts_have_a_length() {
        for text in [String::new(), "x".repeat(TEXT_BYTES_MAX + 1)] {
            let err = Needle::new(&text).unwrap_err();
            assert_eq!(err.field(), Some("text"));
        }
        for long in ["k", "ſ", "\u{1}", "\"", "Σ"] {
            assert!(Needle::new(&long.repeat(TEXT_BYTES_MAX / long.len())).is_ok());
        }
    }
}
