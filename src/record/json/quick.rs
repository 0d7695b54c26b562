//! Canonical form of JSON that is almost canonical: only blanks must be removed and members sorted.
//! Returns nothing for any other text; the canonicalizer must then be used.

use std::ops::Range;

use crate::record::{Escapes, Scanner};

const DEPTH_MAX: u32 = 32;
/// Maximum number of digits of an integer that is certainly exact in a double.
const DIGITS_MAX: usize = 15;

/// The canonical form of a text.
pub(super) fn canonical(text: &str) -> Option<Vec<u8>> {
    let mut writer = Writer {
        text: text.as_bytes(),
        scanner: Scanner::new(text.as_bytes()),
        canonical: Vec::with_capacity(text.len()),
        depth: 0,
    };
    writer.value()?;
    writer.scanner.blanks();
    (writer.scanner.at == text.len()).then_some(writer.canonical)
}

struct Writer<'a> {
    text: &'a [u8],
    scanner: Scanner<'a>,
    canonical: Vec<u8>,
    depth: u32,
}

impl<'a> Writer<'a> {
    fn value(&mut self) -> Option<()> {
        self.scanner.blanks();
        match self.scanner.peek()? {
            b'{' => self.nested(b'}', Writer::members),
            b'[' => self.nested(b']', Writer::items),
            b'"' => self.string().map(|_| ()),
            _ => self.number_or_word(),
        }
    }

    fn nested(&mut self, close: u8, inner: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.canonical.push(self.scanner.token()?);
        self.scanner.blanks();
        if self.scanner.peek()? != close {
            inner(self)?;
        }
        self.scanner.expect(close)?;
        self.canonical.push(close);
        self.depth -= 1;
        Some(())
    }

    fn items(&mut self) -> Option<()> {
        loop {
            self.value()?;
            if !self.has_next() {
                return Some(());
            }
        }
    }

    /// Whether a comma follows, and so another item or member.
    fn has_next(&mut self) -> bool {
        self.scanner.blanks();
        let has_next = self.scanner.peek() == Some(b',');
        if has_next {
            self.scanner.at += 1;
            self.canonical.push(b',');
        }
        has_next
    }

    fn members(&mut self) -> Option<()> {
        let start = self.canonical.len();
        // The names of the members, and their ranges in the output.
        let mut members: Vec<(&[u8], Range<usize>)> = Vec::new();
        loop {
            let from = self.canonical.len();
            self.scanner.blanks();
            let name = self.string()?;
            // Non-ASCII names may have another order in UTF-16, and escaped names must be decoded.
            let is_plain = |byte: &u8| byte.is_ascii() && *byte != b'\\';
            name.iter().all(is_plain).then_some(())?;
            self.scanner.expect(b':')?;
            self.canonical.push(b':');
            self.value()?;
            members.push((name, from..self.canonical.len()));
            if !self.has_next() {
                break;
            }
        }
        if members.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Some(());
        }
        members.sort_unstable_by_key(|(name, _)| *name);
        // Duplicate members are not accepted.
        members.is_sorted_by(|(a, _), (b, _)| a < b).then_some(())?;
        let mut sorted = Vec::with_capacity(self.canonical.len() - start);
        for (_, member) in members {
            if !sorted.is_empty() {
                sorted.push(b',');
            }
            sorted.extend_from_slice(self.canonical.get(member)?);
        }
        self.canonical.truncate(start);
        self.canonical.append(&mut sorted);
        Some(())
    }

    /// Copies a string. Returns what is between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let start = self.scanner.at;
        // Canonical form does not escape a slash, and rarely other characters.
        (self.scanner.string()? != Escapes::Other).then_some(())?;
        let string = self.text.get(start..self.scanner.at)?;
        self.canonical.extend_from_slice(string);
        string.get(1..string.len() - 1)
    }

    fn number_or_word(&mut self) -> Option<()> {
        let start = self.scanner.at;
        self.scanner.value()?;
        let scalar = self.text.get(start..self.scanner.at)?;
        let digits = scalar.strip_prefix(b"-").unwrap_or(scalar);
        // The canonical form of a number with a fraction or an exponent must be computed.
        let is_integer = digits.len() <= DIGITS_MAX && digits.iter().all(u8::is_ascii_digit);
        let is_word = scalar[0].is_ascii_lowercase();
        (is_word || is_integer && scalar != b"-0").then(|| self.canonical.extend_from_slice(scalar))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::canonical;

    fn slowly(text: &str) -> Option<Vec<u8>> {
        super::super::by_value(text)
    }

    fn json() -> impl Strategy<Value = String> {
        let string = prop_oneof![
            "[ -~é\u{1f600}\n\t\u{1}]{0,8}"
                .prop_map(|text| serde_json::Value::from(text).to_string()),
            Just(r#""\u00e9""#.to_owned()),
            Just(r#""\/\b\f\r""#.to_owned()),
        ];
        let name = prop_oneof!["[a-c]{0,2}", "[ -~é]{0,3}"]
            .prop_map(|text| serde_json::Value::from(text).to_string());
        let scalar = prop_oneof![
            string,
            any::<i64>().prop_map(|n| n.to_string()),
            any::<f64>().prop_map(|n| format!("{n}")),
            (-20i32..20).prop_map(|n| n.to_string()),
            prop::sample::select(vec![
                "true",
                "false",
                "null",
                "-0",
                "00",
                "1.0",
                "1e3",
                "-",
                "tru",
                "0",
                "-7",
                "01",
                "999999999999999",
                "9007199254740993",
                "",
            ])
            .prop_map(str::to_owned),
        ];
        let blank = prop::sample::select(vec!["", "", "", " ", "\n", "\t "]);
        scalar.prop_recursive(4, 32, 4, move |inner| {
            let blank = blank.clone();
            prop_oneof![
                (prop::collection::vec(inner.clone(), 0..4), blank.clone()).prop_map(
                    |(items, blank)| format!("[{blank}{}]", items.join(&format!(",{blank}")))
                ),
                (prop::collection::vec((name.clone(), inner), 0..4), blank).prop_map(
                    |(members, blank)| {
                        let members: Vec<_> = members
                            .iter()
                            .map(|(name, value)| format!("{blank}{name}:{blank}{value}{blank}"))
                            .collect();
                        format!("{{{}}}", members.join(","))
                    }
                ),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_answered_is_what_the_canonicalizer_answers(text in json()) {
            if let Some(quick) = canonical(&text) {
                let quick = String::from_utf8(quick).unwrap();
                let slow = slowly(&text).map(|bytes| String::from_utf8(bytes).unwrap());
                prop_assert_eq!(Some(quick), slow);
            }
        }
    }

    #[test]
    fn what_agents_write_is_answered() {
        let edit = r#"{"file_path": "/a/b.rs", "old_string":"a\n\"b\"", "new_string":"é", "n": [1,{"b":-2,"a":null}]}"#;
        let expected = r#"{"file_path":"/a/b.rs","n":[1,{"a":null,"b":-2}],"new_string":"é","old_string":"a\n\"b\""}"#;
        assert_eq!(canonical(edit).as_deref(), Some(expected.as_bytes()));
        assert_eq!(slowly(edit).as_deref(), Some(expected.as_bytes()));
        for other in [
            r#"{"a":1,"a":1}"#,
            r#"{"é":1}"#,
            "[1.0]",
            "[-0]",
            "[1,]",
            "{}x",
            "*** Begin Patch",
        ] {
            assert_eq!(canonical(other), None, "{other}");
        }
    }
}
