//! Escapes untrusted text of agents and tools: on a terminal it must not move the cursor, change
//! colours or the direction of the text, or contain hidden characters.

use std::borrow::Cow;
use std::fmt::Write;

use unicode_width::UnicodeWidthChar;

/// Whether a terminal would interpret or hide the character.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            // Directions and their overrides.
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}'
            // No width: two different texts would look the same.
            | '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
            | '\u{2060}'..='\u{2065}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            // Line ends in some programs.
            | '\u{2028}' | '\u{2029}'
            // Tags and variation selectors can carry a hidden text.
            | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: line breaks and tabs as signs, the rest of [`is_unsafe`] by number.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c, shown| match c {
        '\n' => shown.push('↵'),
        '\t' => shown.push('⇥'),
        _ => by_number(c, shown),
    })
}

/// The text, with its line breaks kept.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c, shown| match c {
        '\n' | '\t' => shown.push(c),
        _ => by_number(c, shown),
    })
}

/// Equivalent JSON that is safe to show: such characters occur only in strings, where they can be
/// escaped.
pub fn json(text: &str) -> Cow<'_, str> {
    escaped(text, |c, shown| match c {
        // Between the tokens of reformatted JSON.
        '\t' | '\n' => shown.push(c),
        '\r' => shown.push(' '),
        _ => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    })
}

fn by_number(c: char, shown: &mut String) {
    // Writing to a String cannot fail, here and above.
    let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
}

/// The text, with each unsafe character as `escape` writes it.
fn escaped(text: &str, escape: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The start of an escaped text that fits into `columns`.
pub fn clipped(text: &str, columns: usize) -> Cow<'_, str> {
    let width = |c: char| c.width().unwrap_or(0);
    let mut used = 0;
    let mut keep = 0;
    for (at, c) in text.char_indices() {
        used += width(c);
        if used > columns {
            return Cow::Owned(format!("{}…", &text[..keep]));
        }
        // A column for the sign of a cut.
        if used < columns {
            keep = at + c.len_utf8();
        }
    }
    Cow::Borrowed(text)
}

/// The columns of an escaped text.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The text with spaces after it up to a width.
pub fn padded(text: &str, columns: usize) -> String {
    format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
}

/// A word for a shell, which reads it as exactly these bytes.
pub fn shell_word(word: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,".contains(byte);
    if !word.is_empty() && word.iter().all(is_plain) {
        return word.to_vec();
    }
    // A shell finds nothing else in double quotes, even where it recalls commands by `!`.
    let is_special = |byte: &u8| b"$`\\!".contains(byte);
    let (mark, escaped) = if word.contains(&b'\'') && !word.iter().any(is_special) {
        (b'"', &br#"\""#[..])
    } else {
        (b'\'', &br"'\''"[..])
    };
    let mut quoted = vec![mark];
    for byte in word {
        if *byte == mark {
            quoted.extend(escaped);
        } else {
            quoted.push(*byte);
        }
    }
    quoted.push(mark);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        let evil = "a\u{1b}[31mb\u{9b}2J\u{202e}c\u{7}\u{7f}\u{200b}\u{e0041}\r";
        for shown in [one_line(evil), lines(evil), json(evil)] {
            assert!(!shown.chars().any(is_unsafe), "{shown}");
        }
        assert_eq!(one_line("a\n\tb\u{1b}"), "a↵⇥b\\u{1b}");
        assert_eq!(lines("a\n\tb"), "a\n\tb");
        assert_eq!(one_line("héllo 日本 🙂"), "héllo 日本 🙂");
    }

    #[test]
    fn escaped_json_says_the_same() {
        let text = serde_json::to_string("\u{9b}\u{202e}\u{e0041}é").unwrap();
        assert_ne!(json(&text), text);
        let back: String = serde_json::from_str(&json(&text)).unwrap();
        assert_eq!(back, "\u{9b}\u{202e}\u{e0041}é");
    }

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        for (word, quoted) in [
            ("/a/b-c.1", "/a/b-c.1"),
            ("", "''"),
            ("a b", "'a b'"),
            ("$HOME", "'$HOME'"),
            ("it's", "\"it's\""),
            ("it's \"x\"", r#""it's \"x\"""#),
            ("it's $1", r"'it'\''s $1'"),
            ("~", "'~'"),
        ] {
            assert_eq!(shell_word(word.as_bytes()), quoted.as_bytes(), "{word}");
        }
    }

    #[test]
    fn a_clipped_text_fits() {
        assert_eq!(clipped("hello", 5), "hello");
        assert_eq!(clipped("hello!", 5), "hell…");
        assert_eq!(clipped("日本語", 5), "日本…");
        assert_eq!(clipped("日本語", 4), "日…");
        assert_eq!(clipped("ab", 0), "…");
        assert_eq!(padded("日", 4), "日  ");
    }
}
