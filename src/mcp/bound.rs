//! Limits the size of answers: they go into a model's context.

use std::cmp::Reverse;

use serde::Serialize;
use serde_json::{Value, json};

/// Maximum size of an answer, in bytes of JSON; about 12,000 tokens.
pub(super) const ANSWER_BYTES_MAX: usize = 48 << 10;
/// Size at which a page ends, in bytes of JSON.
pub(super) const PAGE_BYTES_MAX: usize = 24 << 10;
/// Size of the rest of an answer, without data and list of cuts.
const AROUND_BYTES: usize = 128;
/// Maximum size of the list of cuts.
const CUTS_BYTES_MAX: usize = 8 << 10;
/// Maximum size of data with cuts.
const DATA_BYTES_MAX: usize = ANSWER_BYTES_MAX - CUTS_BYTES_MAX - AROUND_BYTES;
/// Minimum length of a cut text.
const TEXT_BYTES_MIN: usize = 64;
/// Items kept of an array that is too long.
const ITEMS_MAX: usize = 64;
/// Maximum size of an array of texts, such as a conversation's models.
const NAMES_BYTES_MAX: usize = 4 << 10;
/// Members with arbitrary JSON of an agent.
const PAYLOADS: [&str; 6] = [
    "arguments_json",
    "outcome_json",
    "payload",
    "diffs_json",
    "tool_args",
    "inference_metadata",
];

/// A cut value.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Cut {
    path: String,
    length: usize,
    shown: (usize, usize),
}

impl Cut {
    /// The size of the omitted part.
    fn missing(&self) -> usize {
        let (from, to) = self.shown;
        self.length.saturating_sub(to.saturating_sub(from))
    }
}

/// All cuts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Cuts {
    named: Vec<Cut>,
    /// Number of cuts that are not listed.
    more: usize,
}

impl Cuts {
    /// Lists the largest cuts, in the order of the data.
    fn of(all: Vec<Cut>) -> Cuts {
        let count = all.len();
        let mut named: Vec<(usize, Cut)> = all.into_iter().enumerate().collect();
        named.sort_by_key(|(_, cut)| Reverse(cut.missing()));
        let mut room = CUTS_BYTES_MAX;
        named.retain(|(_, cut)| {
            let left = room.checked_sub(length(&json!(cut)) + 1);
            room = left.unwrap_or(room);
            left.is_some()
        });
        named.sort_by_key(|(place, _)| *place);
        let more = count - named.len();
        let named = named.into_iter().map(|(_, cut)| cut).collect();
        Cuts { named, more }
    }

    /// Adds them to an answer.
    pub(super) fn note_in(&self, answer: &mut Value) {
        if !self.named.is_empty() {
            answer["truncated"] = json!(self.named);
        }
        if self.more > 0 {
            answer["truncated_more"] = self.more.into();
        }
    }
}

/// Cuts data that is too long for an answer; cut texts start at a given character.
pub(super) fn shorten(data: &mut Value, from_char: usize) -> Cuts {
    if length(data) + AROUND_BYTES <= ANSWER_BYTES_MAX {
        return Cuts::default();
    }
    payloads_as_text(data);
    let bounds = loop {
        match Bounds::fitting(data, from_char) {
            Some(bounds) => break bounds,
            // Too many members, or too long names. No record has these.
            None => *data = data.to_string().into(),
        }
    };
    let mut cuts = Vec::new();
    bounds.cut(data, Place::Data, "/data", &mut cuts);
    Cuts::of(cuts)
}

/// The length of a value as JSON, or slightly more.
fn length(value: &Value) -> usize {
    let all = Bounds {
        text_bytes_max: usize::MAX,
        from_char: 0,
        names_bytes_max: usize::MAX,
        items_max: usize::MAX,
    };
    all.length(value, Place::Data)
}

fn text_length(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(escaped).sum::<usize>() + 2
}

/// Turns JSON payloads into texts, which can be cut anywhere.
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

/// The position of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The whole data.
    Data,
    /// A direct member. It may be a list, which is limited by its pages; a cursor continues after
    /// all of it.
    InData,
    Deeper,
}

impl Place {
    fn of_member(self, name: &str) -> Place {
        match self {
            // Reports have no pages.
            Place::Data if name != "rows" => Place::InData,
            _ => Place::Deeper,
        }
    }
}

/// The limits.
#[derive(Debug)]
struct Bounds {
    /// Length of a text.
    text_bytes_max: usize,
    /// Start of a text that is cut.
    from_char: usize,
    /// Size of an array of texts.
    names_bytes_max: usize,
    /// Items of other arrays.
    items_max: usize,
}

impl Bounds {
    /// The limits by which data and the list of cuts fit an answer. Texts are cut first, then arrays.
    fn fitting(data: &Value, from_char: usize) -> Option<Bounds> {
        let halves = |most: usize, least: usize| {
            let all = std::iter::successors(Some(most), |last| Some(last / 2));
            all.take_while(move |it| *it >= least)
        };
        let items_max = std::iter::once(usize::MAX).chain(halves(ITEMS_MAX, 1));
        let mut all = items_max.flat_map(|items_max| {
            let texts = halves(ANSWER_BYTES_MAX / 2, TEXT_BYTES_MIN);
            texts.map(move |text_bytes_max| Bounds {
                text_bytes_max,
                from_char,
                names_bytes_max: NAMES_BYTES_MAX,
                items_max,
            })
        });
        all.find(|bounds| bounds.length(data, Place::Data) <= DATA_BYTES_MAX)
    }

    /// The length of a value after the cut.
    fn length(&self, value: &Value, place: Place) -> usize {
        match value {
            Value::Null => 4,
            Value::Bool(_) => 5,
            Value::Number(number) => number.to_string().len(),
            Value::String(text) => text_length(self.part(text)),
            Value::Array(items) => {
                let items = items[..self.count(items, place)].iter();
                let lengths = items.map(|item| self.length(item, Place::Deeper) + 1);
                lengths.sum::<usize>() + 2
            }
            Value::Object(members) => {
                let lengths = members.iter().map(|(name, member)| {
                    text_length(name) + 2 + self.length(member, place.of_member(name))
                });
                lengths.sum::<usize>() + 2
            }
        }
    }

    /// The visible range of a text.
    fn part<'a>(&self, text: &'a str) -> &'a str {
        if text.len() <= self.text_bytes_max {
            return text;
        }
        let start = text.char_indices().nth(self.from_char);
        let rest = start.map_or("", |(start, _)| &text[start..]);
        &rest[..rest.floor_char_boundary(self.text_bytes_max)]
    }

    /// The number of visible items of an array.
    fn count(&self, items: &[Value], place: Place) -> usize {
        if !items.is_empty() && items.iter().all(Value::is_string) {
            let mut bytes = 0;
            let fits = |item: &&Value| {
                bytes += item.as_str().map_or(0, text_length) + 1;
                bytes <= self.names_bytes_max
            };
            return items.iter().take_while(fits).count().max(1);
        }
        match place {
            Place::InData => items.len(),
            Place::Data | Place::Deeper => items.len().min(self.items_max),
        }
    }

    fn cut(&self, value: &mut Value, place: Place, path: &str, cuts: &mut Vec<Cut>) {
        match value {
            Value::String(text) if text.len() > self.text_bytes_max => {
                let shown = self.part(text).to_owned();
                let length = text.chars().count();
                let from = self.from_char.min(length);
                cuts.push(Cut {
                    path: path.to_owned(),
                    length,
                    shown: (from, from + shown.chars().count()),
                });
                *text = shown;
            }
            Value::Array(items) => {
                let count = self.count(items, place);
                if count < items.len() {
                    cuts.push(Cut {
                        path: path.to_owned(),
                        length: items.len(),
                        shown: (0, count),
                    });
                    items.truncate(count);
                }
                for (number, item) in items.iter_mut().enumerate() {
                    self.cut(item, Place::Deeper, &format!("{path}/{number}"), cuts);
                }
            }
            Value::Object(members) => {
                for (name, member) in members {
                    let path = step(path, name);
                    self.cut(member, place.of_member(name), &path, cuts);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::answer::whole;
    use super::*;

    fn shortened(mut data: Value, from_char: usize) -> (Value, Vec<Cut>) {
        let cuts = shorten(&mut data, from_char);
        let bytes = whole(data.clone(), &cuts).to_string().len();
        assert!(bytes <= ANSWER_BYTES_MAX, "{bytes}");
        for Cut { path, shown, .. } in &cuts.named {
            let path = path.strip_prefix("/data").unwrap();
            let count = match data.pointer(path) {
                Some(Value::String(text)) => text.chars().count(),
                Some(Value::Array(items)) => items.len(),
                other => panic!("{path}: {other:?}"),
            };
            assert_eq!(shown.1 - shown.0, count, "{path}");
        }
        (data, cuts.named)
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

    /// Bug: the list of cuts named each of a conversation's 3,000 models, so that an answer had
    /// 278,672 bytes, and a text next to them was returned in pages of 200 characters.
    #[test]
    fn many_names_take_little_room() {
        let names: Vec<String> = (0..3_000)
            .map(|n| format!("{n:04}{}", "m".repeat(900)))
            .collect();
        let data = json!({
            "conversation": { "models_used": names, "configs_used": names },
            "messages": [{ "content": "x".repeat(100_000) }],
        });
        let (data, cuts) = shortened(data, 0);
        assert_eq!(data["conversation"]["models_used"], json!(names[..4]));
        let paths: Vec<&str> = cuts.iter().map(|cut| &*cut.path).collect();
        let wanted = [
            "/data/conversation/configs_used",
            "/data/conversation/models_used",
            "/data/messages/0/content",
        ];
        assert_eq!(paths, wanted);
        assert_eq!((cuts[1].length, cuts[1].shown), (3_000, (0, 4)));
        assert_eq!(cuts[2].shown, (0, ANSWER_BYTES_MAX / 2));
    }

    /// The largest cuts are listed, the others are counted.
    #[test]
    fn as_many_cuts_are_named_as_there_is_room_for() {
        let row = |n: usize| json!({ "model_used": "m".repeat(900), "requests": n });
        let mut rows: Vec<Value> = (0..200).map(row).collect();
        rows[170]["model_used"] = "m".repeat(2_000).into();
        let mut data = json!({ "rows": rows });
        let cuts = shorten(&mut data, 0);
        let answer = whole(data, &cuts);
        assert!(answer.to_string().len() <= ANSWER_BYTES_MAX);
        let named = answer["truncated"].as_array().unwrap();
        assert_eq!(answer["truncated_more"], 200 - named.len());
        assert!(named.len() > 100, "{}", named.len());
        assert_eq!(named.last().unwrap()["path"], "/data/rows/170/model_used");
    }

    /// Bug: the length of a text shown from a later character was measured as if it were shown from
    /// the first.
    #[test]
    fn a_part_is_measured_as_it_is_shown() {
        let text = format!("{}{}", "a".repeat(30_000), "\u{1}".repeat(200_000));
        let (data, cuts) = shortened(json!({ "content": text }), 30_000);
        let shown = data["content"].as_str().unwrap();
        assert!(shown.bytes().all(|byte| byte == 1));
        assert_eq!(cuts[0].shown, (30_000, 30_000 + shown.len()));
        assert_eq!(cuts[0].length, 230_000);
    }

    #[test]
    fn what_no_record_is_like_is_cut_as_a_text() {
        let members = (0..5_000).map(|n| (format!("member {n}"), json!(n)));
        let data = Value::Object(members.collect());
        let text = data.to_string();
        let (data, cuts) = shortened(data, 0);
        assert!(text.starts_with(data.as_str().unwrap()));
        assert_eq!((&*cuts[0].path, cuts[0].length), ("/data", text.len()));
    }

    fn any_text() -> impl Strategy<Value = String> {
        let pattern = prop::sample::select(vec!["x", "\"", "\u{1}", "é€😀", "a\\/~b"]);
        let count = prop_oneof![4 => 0..40_usize, 2 => 0..2_000_usize, 1 => 0..20_000_usize];
        (pattern, count).prop_map(|(pattern, count)| pattern.repeat(count))
    }

    fn any_name() -> impl Strategy<Value = String> {
        let known = vec!["rows", "payload", "models_used", "content", "a/b~c", "é"];
        prop_oneof![
            8 => (prop::sample::select(known), 0..9_u8).prop_map(|(name, n)| match n {
                0..5 => name.to_owned(),
                _ => format!("{name}{n}"),
            }),
            1 => any_text(),
        ]
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            4 => any_text().prop_map(Value::from),
            1 => any::<i64>().prop_map(Value::from),
            // Many equal texts, which may be long.
            2 => (any_text(), 0..100_usize).prop_map(|(text, count)| json!(vec![text; count])),
            2 => (any_text(), 0..100_usize)
                .prop_map(|(text, count)| json!(vec![json!({ "content": text, "n": 1 }); count])),
            1 => (0..5_000_usize).prop_map(|count| json!(vec![7; count])),
        ];
        leaf.prop_recursive(4, 24, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any_name(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// An answer is within its size limit, and every listed cut was made.
        #[test]
        fn no_answer_is_longer_than_it_may_be(
            data in any_value(),
            from_char in prop_oneof![Just(0), 0..50_000_usize],
        ) {
            shortened(data, from_char);
        }
    }
}
