//! A search finds what a plain model finds that decodes every line, in lines of any spelling, some
//! of them edited by hand. Segments are read a few hundred bytes at a time, on all cores.

use std::fs;

use proptest::prelude::*;
use serde_json::Value;

use super::needle::Needle;
use super::*;
use crate::record::{ConversationTurn, Event, Record, TurnKind, Validity};
use crate::store::{LogLine, Sought};

const DAY_1: i64 = 1_766_793_600_000;
const DAY_MS: i64 = 86_400_000;

const PIECES: &[&str] = &[
    "needle",
    "NEEDLE",
    "hay",
    "k",
    "\u{212a}",
    "s",
    "\u{17f}",
    "/",
    "\\",
    "\"",
    "\n",
    "\u{1b}",
    "\u{7f}",
    "\u{e9}",
    "\u{c9}",
    "\u{df}",
    "\u{1e9e}",
    "\u{3c2}",
    "\u{3a3}",
    "\u{130}",
    "\u{6f22}\u{5b57}",
    "\u{1f600}",
    "u",
    "\\u0041",
    "xq",
    "7",
    " ",
];

/// `SplitMix64`.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn text(&mut self) -> String {
        let hay = "hay ".repeat([0, 0, 1, 9, 60, 200][self.below(6)]);
        let pieces: String = (0..self.below(7)).map(|_| self.piece()).collect();
        hay + &pieces
    }

    fn piece(&mut self) -> &'static str {
        PIECES[self.below(PIECES.len())]
    }

    /// A text to look for.
    fn sought(&mut self) -> String {
        let mut sought = String::new();
        while sought.is_empty() {
            sought = (0..=self.below(3)).map(|_| self.piece()).collect();
            let skipped = self.below(3);
            sought = sought.chars().skip(skipped).collect();
        }
        match self.below(3) {
            0 => sought.to_uppercase(),
            1 => sought.to_lowercase(),
            _ => sought,
        }
    }

    /// A text as JSON, in one of its many spellings.
    fn json(&mut self, text: &str) -> String {
        let mut json = String::from("\"");
        let is_plain = !self.one_in(3);
        for letter in text.chars() {
            if !is_plain && self.one_in(4) {
                for unit in letter.encode_utf16(&mut [0; 2]) {
                    let digits = format!("{unit:04x}");
                    let is_upper = self.one_in(2);
                    json += "\\u";
                    json += &if is_upper {
                        digits.to_uppercase()
                    } else {
                        digits
                    };
                }
            } else if letter == '/' && self.one_in(2) {
                json += "\\/";
            } else {
                let plain = Value::from(letter.to_string()).to_string();
                json += &plain[1..plain.len() - 1];
            }
        }
        json + "\""
    }

    fn record(&mut self, n: u128) -> Record {
        let at = DAY_1 + [0, 1, 2, 3][self.below(4)] * DAY_MS;
        let text = self.text();
        if self.one_in(2) {
            let mut event = Event::new(None, "test.said");
            event.created_at = at;
            event.payload = Some(format!("[{}]", self.json(&text)));
            return event.into();
        }
        let turn = ConversationTurn {
            id: Uuid::from_u128(n),
            parent_id: None,
            message_id: Uuid::from_u128(n),
            kind: TurnKind::User,
            content: text,
            created_at: Validity::at(at),
            thread_id: None,
        };
        turn.into()
    }

    /// Lines of a file as another program may leave them.
    fn edited(&mut self, lines: &[&str]) -> Vec<String> {
        let mut edited: Vec<String> = Vec::new();
        for line in lines {
            let mut line = (*line).to_owned();
            match self.below(30) {
                // No checksum, and a text in another spelling.
                0 => {
                    line.truncate(line.rfind(",\"crc\"").unwrap());
                    if let Some(at) = line.find("\"content\":\"") {
                        let text = self.text();
                        line.truncate(at);
                        line += "\"content\":";
                        line += &self.json(&text);
                    }
                    line += "}";
                }
                1 => line.replace_range(0..1, "x"),
                2 => line = line.replace("hay", "needle"),
                3 => edited.push(line.clone()),
                4 => {
                    if let Some(before) = edited.pop() {
                        line.insert_str(0, &before);
                    }
                }
                _ => {}
            }
            edited.push(line);
        }
        edited
    }
}

fn folded(text: &str) -> String {
    let fold = |letter| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        '\u{3c2}' => '\u{3c3}',
        '\u{1e9e}' => '\u{df}',
        letter => {
            let mut lower = char::to_lowercase(letter);
            let first = lower.next().filter(|_| lower.next().is_none());
            first.map_or(
                letter,
                |lower| if lower == '\u{3c2}' { '\u{3c3}' } else { lower },
            )
        }
    };
    text.chars().map(fold).collect()
}

fn holds(value: &Value, sought: &str) -> bool {
    match value {
        Value::String(text) => folded(text).contains(sought),
        Value::Array(values) => values.iter().any(|value| holds(value, sought)),
        Value::Object(members) => members.values().any(|value| holds(value, sought)),
        _ => false,
    }
}

/// Whether a line holds a text, by decoding all of it.
fn line_holds(line: &str, sought: &str) -> bool {
    let mut value: Value = serde_json::from_str(line).unwrap();
    for name in ["seq", "at", "op", "crc"] {
        value.as_object_mut().unwrap().remove(name);
    }
    holds(&value, &folded(sought))
}

/// The numbers of the lines that hold a text, in the order of a search.
fn plain(lines: &[LogLine], sought: &str) -> Vec<u64> {
    let found = lines.iter().filter(|line| line_holds(&line.text, sought));
    let mut found: Vec<_> = found
        .map(|line| Reverse((line.file[..10].to_owned(), line.seq)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|Reverse((_, seq))| seq).collect()
}

/// All matches of a search, in pages.
fn searched(store: &Store, text: &str, limit: usize) -> Vec<u64> {
    let (mut seqs, mut after) = (Vec::new(), None);
    loop {
        let query = SearchQuery {
            text: text.into(),
            limit,
            after,
            ..SearchQuery::default()
        };
        let found = store.search(&query).unwrap();
        seqs.extend(found.matches.iter().map(|found| found.seq));
        after = found.next;
        if after.is_none() {
            // Lines with the same number that differ are several matches.
            seqs.dedup();
            return seqs;
        }
    }
}

fn open(dir: &tempfile::TempDir) -> Store {
    let options = Store::options().segment_bytes_max(20 << 10).upkeep(false);
    options.open(dir.path().join("log")).unwrap()
}

fn edit(store: &Store, dice: &mut Dice) {
    let lines = store.last_lines(usize::MAX).unwrap();
    let files: BTreeSet<&str> = lines.iter().map(|line| &*line.file).collect();
    for file in files {
        if dice.one_in(2) {
            let path = store.path().join(file);
            let text = fs::read_to_string(&path).unwrap();
            let lines: Vec<&str> = text.lines().collect();
            fs::write(&path, dice.edited(&lines).join("\n") + "\n").unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases / 32 + 1,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_found_is_what_decoding_every_line_finds(seed: u64) {
        let dice = &mut Dice(seed);
        let dir = tempfile::tempdir().unwrap();
        let store = open(&dir);
        let records: Vec<_> = (0..150).map(|n| dice.record(n)).collect();
        for ack in store.record_batch(records).unwrap() {
            ack.unwrap();
        }
        let is_edited = dice.one_in(2);
        if is_edited {
            edit(&store, dice);
        }
        drop(store);
        let store = open(&dir);
        let lines = store.last_lines(usize::MAX).unwrap();
        for nth in 0..6 {
            let sought = if nth == 0 { "nowhere".into() } else { dice.sought() };
            let limit = if nth == 1 { 20 + dice.below(60) } else { usize::MAX };
            let found = searched(&store, &sought, limit);
            prop_assert_eq!(&found, &plain(&lines, &sought), "{:?}", sought);
        }
    }
}

proptest! {
    /// In a block of lines, no line that holds the text is passed over.
    #[test]
    fn raw_lines_that_hold_a_text_are_found(seed: u64) {
        let dice = &mut Dice(seed);
        let lines: Vec<String> = (0..dice.below(40))
            .map(|_| {
                let text = dice.text();
                format!("{{\"x\":{}}}", dice.json(&text))
            })
            .collect();
        let block = lines.join("\n") + "\n";
        for _ in 0..10 {
            let sought = dice.sought();
            let needle = Needle::new(&sought).unwrap();
            let mut from = 0;
            let mut found: Vec<&str> = Vec::new();
            while let Some(at) = needle.lines.find(&block.as_bytes()[from..]) {
                let at = from + at;
                let start = block.as_bytes()[..at].iter().rposition(|byte| *byte == b'\n');
                let line = block[start.map_or(0, |lf| lf + 1)..].lines().next().unwrap();
                if line_holds(line, &sought) {
                    found.push(line);
                }
                let rest = &block.as_bytes()[at..];
                from = at + rest.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            }
            let held = lines.iter().filter(|line| line_holds(line, &sought));
            prop_assert_eq!(found, held.map(String::as_str).collect::<Vec<_>>(), "{:?}", sought);
        }
    }
}

/// The bytes of letters that are taken to have one case are the same in every match.
#[test]
fn caseless_letters_have_one_form() {
    let all = || ('\u{80}'..=char::MAX).filter(|letter| !super::raw::is_caseless(*letter));
    let class: String = all()
        .map(|letter| regex::escape(letter.encode_utf8(&mut [0; 4])))
        .collect();
    let cased = regex::Regex::new(&format!("(?i:[{class}a-z])")).unwrap();
    for letter in '\u{80}'..=char::MAX {
        if super::raw::is_caseless(letter) {
            assert!(
                !cased.is_match(letter.encode_utf8(&mut [0; 4])),
                "{letter:?}"
            );
        }
    }
    // Of ASCII, two letters have a form that is not.
    let mut buffer = [0; 4];
    let ascii = regex::Regex::new("(?i:[a-jl-rt-z])").unwrap();
    assert!(!all().any(|letter| ascii.is_match(letter.encode_utf8(&mut buffer))));
}
