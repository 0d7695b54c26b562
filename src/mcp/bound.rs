//! Keeps answers short: a model reads them whole, and has room for little.

use serde_json::{Value, json};

/// An answer is not longer than this, in bytes of JSON; about 12,000 tokens.
pub(super) const ANSWER_BYTES_MAX: usize = 48 << 10;
/// Items past this, in bytes of JSON, end a page.
pub(super) const PAGE_BYTES_MAX: usize = 24 << 10;
/// Texts are not cut shorter than this.
const TEXT_BYTES_MIN: usize = 64;
/// Items of an array that are shown where it is too long.
const ITEMS_MAX: usize = 64;
/// Members that hold whatever JSON an agent gave.
const PAYLOADS: [&str; 6] = [
    "arguments_json",
    "outcome_json",
    "payload",
    "diffs_json",
    "tool_args",
    "inference_metadata",
];

/// What is not shown whole.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    path: String,
    length: usize,
    shown: (usize, usize),
}

impl From<Cut> for Value {
    fn from(cut: Cut) -> Value {
        let (from, to) = cut.shown;
        json!({ "path": cut.path, "length": cut.length, "shown": [from, to] })
    }
}

/// Cuts what is too long for an answer; texts that are cut are shown from a character on.
pub(super) fn shorten(data: &mut Value, from_char: usize) -> Vec<Cut> {
    let mut cuts = Vec::new();
    let mut bytes = length(data);
    if bytes <= ANSWER_BYTES_MAX {
        return cuts;
    }
    payloads_as_text(data);
    let mut text_bytes_max = ANSWER_BYTES_MAX / 2;
    while bytes > ANSWER_BYTES_MAX && text_bytes_max >= TEXT_BYTES_MIN {
        let kept = length_with(data, text_bytes_max);
        if kept <= ANSWER_BYTES_MAX || text_bytes_max / 2 < TEXT_BYTES_MIN {
            let texts = Texts {
                bytes_max: text_bytes_max,
                from_char,
            };
            texts.cut(data, "/data", &mut cuts);
            bytes = length(data);
        }
        text_bytes_max /= 2;
    }
    if bytes > ANSWER_BYTES_MAX {
        cut_arrays(data, "/data", 0, &mut cuts);
    }
    cuts
}

/// How long a value is as JSON.
fn length(value: &Value) -> usize {
    length_with(value, usize::MAX)
}

/// As [`length`], with texts that are no longer than so many bytes, roughly.
fn length_with(value: &Value, text_bytes_max: usize) -> usize {
    match value {
        Value::Null => 4,
        Value::Bool(_) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text_length(&text[..floor(text, text_bytes_max)]),
        Value::Array(items) => items
            .iter()
            .map(|item| length_with(item, text_bytes_max) + 1)
            .sum::<usize>()
            .saturating_add(2),
        Value::Object(members) => members
            .iter()
            .map(|(name, member)| text_length(name) + 2 + length_with(member, text_bytes_max))
            .sum::<usize>()
            .saturating_add(2),
    }
}

fn text_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 2
}

/// The last place up to `at` where a character begins or the text ends.
pub(super) fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    let last = (0..=at).rev().find(|at| text.is_char_boundary(*at));
    last.unwrap_or(0)
}

/// Has payloads that are JSON of their own be texts, which can be cut anywhere.
fn payloads_as_text(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let is_container = member.is_object() || member.is_array();
                if PAYLOADS.contains(&&**name) && is_container {
                    if length(member) > TEXT_BYTES_MIN {
                        *member = member.to_string().into();
                    }
                } else {
                    payloads_as_text(member);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(payloads_as_text),
        _ => {}
    }
}

struct Texts {
    bytes_max: usize,
    from_char: usize,
}

impl Texts {
    fn cut(&self, value: &mut Value, path: &str, cuts: &mut Vec<Cut>) {
        match value {
            Value::String(text) if text.len() > self.bytes_max => {
                let start = text.char_indices().nth(self.from_char);
                let start = start.map_or(text.len(), |(start, _)| start);
                let rest = &text[start..];
                let shown = &rest[..floor(rest, self.bytes_max)];
                let from = self.from_char.min(text.chars().count());
                cuts.push(Cut {
                    path: path.to_owned(),
                    length: text.chars().count(),
                    shown: (from, from + shown.chars().count()),
                });
                *text = shown.to_owned();
            }
            Value::Array(items) => {
                for (place, item) in items.iter_mut().enumerate() {
                    self.cut(item, &format!("{path}/{place}"), cuts);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    self.cut(member, &step(path, name), cuts);
                }
            }
            _ => {}
        }
    }
}

fn step(path: &str, name: &str) -> String {
    let name = name.replace('~', "~0").replace('/', "~1");
    format!("{path}/{name}")
}

/// Cuts arrays of things that are short but many, where nothing else is left to cut: those of a
/// record, and rows of a report. What a list holds is bounded by its pages, and a cursor leads past
/// all of it.
fn cut_arrays(value: &mut Value, path: &str, depth: usize, cuts: &mut Vec<Cut>) {
    match value {
        Value::Array(items) => {
            let is_list = depth == 1 && path != "/data/rows";
            if items.len() > ITEMS_MAX && !is_list {
                cuts.push(Cut {
                    path: path.to_owned(),
                    length: items.len(),
                    shown: (0, ITEMS_MAX),
                });
                items.truncate(ITEMS_MAX);
            }
            for (place, item) in items.iter_mut().enumerate() {
                cut_arrays(item, &format!("{path}/{place}"), depth + 1, cuts);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                cut_arrays(member, &step(path, name), depth + 1, cuts);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened(mut data: Value, from_char: usize) -> (Value, Vec<Cut>) {
        let cuts = shorten(&mut data, from_char);
        assert!(data.to_string().len() <= ANSWER_BYTES_MAX, "{cuts:?}");
        (data, cuts)
    }

    #[test]
    fn the_length_is_that_of_the_json() {
        let odd = "a\"b\\c\n\t\u{1}é€😀\u{8}\u{c}\u{7f}";
        let value = json!({ "a\"": [1, -2.5, true, null, odd], "b": {}, "c": [] });
        let exact = value.to_string().len();
        let found = length(&value);
        assert!((exact..exact + 16).contains(&found), "{found} {exact}");
    }

    #[test]
    fn what_is_short_stays_whole() {
        let data = json!({ "content": "x".repeat(1000), "payload": { "a": 1 } });
        assert_eq!(shortened(data.clone(), 500), (data, Vec::new()));
    }

    #[test]
    fn a_long_text_is_read_part_by_part() {
        let text: String = ('a'..='z')
            .chain(['é', '€', '😀', '\n'])
            .cycle()
            .take(200_000)
            .collect();
        let (mut from, mut read) = (0, String::new());
        loop {
            let (data, cuts) = shortened(json!({ "id": "t", "content": text }), from);
            assert_eq!(data["id"], "t");
            let [cut] = &cuts[..] else { panic!("{cuts:?}") };
            assert_eq!((&*cut.path, cut.length), ("/data/content", 200_000));
            assert_eq!(cut.shown.0, from);
            read.push_str(data["content"].as_str().unwrap());
            from = cut.shown.1;
            if from == 200_000 {
                break;
            }
        }
        assert_eq!(read, text);
        let (data, cuts) = shortened(json!({ "content": text }), 1_000_000);
        assert_eq!(
            (&data["content"], cuts[0].shown),
            (&json!(""), (200_000, 200_000))
        );
    }

    #[test]
    fn whatever_is_long_is_cut() {
        let many: Vec<Value> = (0..100)
            .map(|n| json!({ "content": "\n".repeat(9_000), "n": n }))
            .collect();
        let (data, cuts) = shortened(json!({ "records": many }), 0);
        assert_eq!(data["records"].as_array().unwrap().len(), 100);
        assert_eq!(cuts.len(), 100);
        let numbers: Vec<u64> = (0..100_000).collect();
        let (data, cuts) = shortened(json!({ "arguments_json": { "n": numbers } }), 0);
        assert!(
            data["arguments_json"]
                .as_str()
                .unwrap()
                .starts_with("{\"n\":[0,1,2,")
        );
        assert_eq!(cuts[0].path, "/data/arguments_json");
        let (data, cuts) = shortened(json!({ "of": { "models/used": numbers } }), 0);
        assert_eq!(
            data["of"]["models/used"].as_array().unwrap().len(),
            ITEMS_MAX
        );
        assert_eq!(
            (&*cuts[0].path, cuts[0].shown),
            ("/data/of/models~1used", (0, ITEMS_MAX))
        );
    }
}
