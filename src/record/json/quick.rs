//! Canonical form of JSON that is almost canonical: only blanks must be removed and members sorted.
//! Returns nothing for any other text; the canonicalizer must then be used.

use std::ops::Range;

const DEPTH_MAX: u32 = 32;
/// Maximum number of digits of an integer that is certainly exact in a double.
const DIGITS_MAX: usize = 15;

/// The canonical form of a text.
pub(super) fn canonical(text: &str) -> Option<Vec<u8>> {
    let mut writer = Writer {
        text: text.as_bytes(),
        at: 0,
        canonical: Vec::with_capacity(text.len()),
        depth: 0,
    };
    writer.value()?;
    (writer.peek().is_none()).then_some(writer.canonical)
}

struct Writer<'a> {
    text: &'a [u8],
    at: usize,
    canonical: Vec<u8>,
    depth: u32,
}

impl Writer<'_> {
    /// The next byte that is not a blank.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn value(&mut self) -> Option<()> {
        match self.peek()? {
            b'{' => self.nested(b'}', Writer::members),
            b'[' => self.nested(b']', Writer::items),
            b'"' => self.string().map(|_| ()),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            _ => self.integer(),
        }
    }

    fn nested(&mut self, close: u8, inner: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        self.canonical.push(*self.text.get(self.at)?);
        self.at += 1;
        if self.peek()? != close {
            inner(self)?;
        }
        self.take(close)?;
        self.canonical.push(close);
        self.depth -= 1;
        Some(())
    }

    fn items(&mut self) -> Option<()> {
        loop {
            self.value()?;
            if self.peek()? != b',' {
                return Some(());
            }
            self.at += 1;
            self.canonical.push(b',');
        }
    }

    fn members(&mut self) -> Option<()> {
        let start = self.canonical.len();
        // For each member, the position of its name in the text and of the member in the output.
        let mut members: Vec<(Range<usize>, Range<usize>)> = Vec::new();
        loop {
            let from = self.canonical.len();
            self.peek()?;
            let name = self.string()?;
            // Non-ASCII names may have another order in UTF-16, and escaped names must be decoded.
            let is_plain = |byte: &u8| byte.is_ascii() && *byte != b'\\';
            self.text
                .get(name.clone())?
                .iter()
                .all(is_plain)
                .then_some(())?;
            self.take(b':')?;
            self.canonical.push(b':');
            self.value()?;
            members.push((name, from..self.canonical.len()));
            if self.peek()? != b',' {
                break;
            }
            self.at += 1;
            self.canonical.push(b',');
        }
        let text = self.text;
        let name = |member: &(Range<usize>, Range<usize>)| text.get(member.0.clone());
        if members.is_sorted_by(|a, b| name(a) < name(b)) {
            return Some(());
        }
        members.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
        // Duplicate members are not accepted.
        members
            .is_sorted_by(|a, b| name(a) < name(b))
            .then_some(())?;
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

    /// The range between the quotes.
    fn string(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        (*self.text.get(start)? == b'"').then(|| self.at += 1)?;
        loop {
            let rest = self.text.get(self.at..)?;
            self.at += memchr::memchr2(b'"', b'\\', rest)?;
            if self.text.get(self.at) == Some(&b'"') {
                break;
            }
            match self.text.get(self.at + 1)? {
                b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 2,
                // Canonical form does not escape a slash, and rarely other characters.
                _ => return None,
            }
        }
        self.at += 1;
        let string = self.text.get(start..self.at)?;
        let least = string.iter().copied().fold(u8::MAX, u8::min);
        (least >= b' ').then(|| self.canonical.extend_from_slice(string))?;
        Some(start + 1..self.at - 1)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.text.get(self.at..)?.starts_with(word).then_some(())?;
        self.at += word.len();
        self.canonical.extend_from_slice(word);
        Some(())
    }

    fn integer(&mut self) -> Option<()> {
        let number = self.text.get(self.at..)?;
        let digits = number.strip_prefix(b"-").unwrap_or(number);
        let len = digits
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let is_short = (1..=DIGITS_MAX).contains(&len);
        let is_plain = digits.first() != Some(&b'0') || (len == 1 && digits.len() == number.len());
        // The canonical form of a number with a fraction or an exponent must be computed.
        let ends = !matches!(digits.get(len), Some(b'.' | b'e' | b'E'));
        (is_short && is_plain && ends).then_some(())?;
        let end = self.at + len + (number.len() - digits.len());
        self.canonical
            .extend_from_slice(self.text.get(self.at..end)?);
        self.at = end;
        Some(())
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
