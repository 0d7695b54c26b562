//! A search finds a text in any kind of record: in any case and any JSON escaping, in retracted,
//! sealed, compacted or rewritten records, but not in member names or the fields of the envelope.
//! The expected result is a plain scan of every line.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use decklog::lines::LogLine;
use decklog::query::{Found, SearchCursor, SearchMatch, SearchProgress, SearchQuery};
use decklog::retention::CompactOptions;
use decklog::{
    Client, Conversation, ConversationMessage, ErrorKind, Event, Kind, Record, Role, Store,
    Timestamp, ToolCallReq, Validity, args_sha256,
};
use serde_json::Value;
use uuid::Uuid;

use super::support::{DAY_1, DAY_1_NAME, DAY_MS, Rng, count, done, request, still, turn};

const DAYS: usize = 4;
const LATER: i64 = DAY_1 + 100 * DAY_MS;

const WORDS: &[&str] = &[
    "needle",
    "NEEDLE",
    "Straße",
    "STRASSE",
    "straẞe",
    "İstanbul",
    "istanbul",
    "ISTANBUL",
    "ıstanbul",
    "ΟΔΥΣΣΕΥΣ",
    "οδυσσευς",
    "😀👩‍👧",
    "say \"hi\"",
    "line\nbreak",
    "C:\\temp\\u",
    "usr/bin",
    "\u{1b}[0m",
    "\u{212a}elvin",
    "\u{17f}top",
    "a.c",
    "abc",
    "~/x",
    "null",
];

fn fold(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212a}' => 'k',
        'ς' => 'σ',
        'ẞ' => 'ß',
        _ => {
            let mut lower = letter.to_lowercase();
            match (lower.next(), lower.next()) {
                (Some(lower), None) => match lower {
                    'ς' => 'σ',
                    lower => lower,
                },
                _ => letter,
            }
        }
    }
}

fn holds(text: &str, sought: &str) -> bool {
    let text: String = text.chars().map(fold).collect();
    let sought: String = sought.chars().map(fold).collect();
    text.contains(&sought)
}

/// The texts of a value.
fn texts<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => found.push(text),
        Value::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Value::Object(members) => members.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

fn members(line: &str) -> Value {
    let mut value: Value = serde_json::from_str(line).unwrap();
    for name in ["seq", "at", "op", "crc"] {
        value.as_object_mut().unwrap().remove(name);
    }
    value
}

fn line_holds(line: &LogLine, sought: &str) -> bool {
    let value = members(&line.text);
    let mut found = Vec::new();
    texts(&value, &mut found);
    found.iter().any(|text| holds(text, sought))
}

fn at_of(line: &LogLine) -> i64 {
    let value: Value = serde_json::from_str(&line.text).unwrap();
    value["at"].as_i64().unwrap()
}

/// The lines that a search must find, in order.
fn plain(store: &Store, query: &SearchQuery) -> Vec<LogLine> {
    let mut lines = store.last_lines(usize::MAX).unwrap();
    let times = query.since.unwrap_or(i64::MIN)..query.until.unwrap_or(i64::MAX);
    lines.retain(|line| {
        query.kind.is_none_or(|kind| kind == line.kind)
            && times.contains(&at_of(line))
            && line_holds(line, &query.text)
    });
    lines.sort_by_key(|line| (line.file[..DAY_1_NAME.len()].to_owned(), line.seq));
    lines.reverse();
    lines
}

fn check_match(found: &SearchMatch, line: &LogLine, sought: &str) {
    assert_eq!((found.seq, found.kind), (line.seq, line.kind));
    assert_eq!(found.at, at_of(line));
    let value = members(&line.text);
    let text = value.pointer(&found.field).and_then(Value::as_str);
    let text = text.unwrap_or_else(|| panic!("{} of {}", found.field, line.text));
    assert!(holds(text, sought), "{sought:?} in {text:?}");
    assert!(holds(&found.snippet, sought), "{sought:?} in {found:?}");
    assert!(found.snippet.chars().count() <= 162);
    let shown = found.snippet.strip_prefix('…').unwrap_or(&found.snippet);
    let shown = shown.strip_suffix('…').unwrap_or(shown);
    assert!(text.contains(shown), "{shown:?} in {text:?}");
    let id = |name: &str| match &value[name] {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let key = match found.kind {
        Kind::ToolCalls => format!("{} {}", id("request_id"), id("call_id")),
        _ => id("id"),
    };
    assert_eq!(found.key, key);
    let talk = match found.kind {
        Kind::Messages => Some(id("conversation_id")),
        Kind::Conversations => Some(id("id")),
        _ => None,
    };
    assert_eq!(found.conversation_id.map(|id| id.to_string()), talk);
}

fn check(store: &Store, query: &SearchQuery) -> Vec<SearchMatch> {
    let expected = plain(store, query);
    let found = store.search(query).unwrap();
    let seqs = |lines: &[LogLine]| lines.iter().map(|line| line.seq).collect::<Vec<_>>();
    let found_seqs: Vec<u64> = found.matches.iter().map(|found| found.seq).collect();
    assert_eq!(found_seqs, seqs(&expected), "{query:?}");
    for (found, line) in found.matches.iter().zip(&expected) {
        check_match(found, line, &query.text);
    }
    assert_eq!((found.next, found.is_whole), (None, true));
    found.matches
}

fn all_of(text: &str) -> SearchQuery {
    SearchQuery {
        text: text.into(),
        limit: usize::MAX,
        ..SearchQuery::default()
    }
}

/// All pages of a search, of random lengths.
fn pages(store: &Store, query: &SearchQuery, rng: &mut Rng, limit_max: usize) -> Vec<SearchMatch> {
    let (mut matches, mut after) = (Vec::new(), None);
    loop {
        let limit = 1 + rng.below(limit_max);
        let query = SearchQuery {
            limit,
            after,
            ..query.clone()
        };
        let Found {
            matches: page,
            next,
            is_whole,
        } = store.search(&query).unwrap();
        assert!(is_whole && page.len() <= limit);
        assert!(page.len() == limit || next.is_none());
        matches.extend(page);
        let Some(next) = next else {
            return matches;
        };
        let read: SearchCursor = next.to_string().parse().unwrap();
        assert_eq!(read, next);
        after = Some(read);
    }
}

/// A text as JSON, in one of its many escapings.
fn json_string(rng: &mut Rng, text: &str) -> String {
    let mut json = String::from("\"");
    for letter in text.chars() {
        if rng.one_in(6) {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                let escape = format!("{unit:04x}");
                json += "\\u";
                json += &if rng.one_in(2) {
                    escape.to_uppercase()
                } else {
                    escape
                };
            }
        } else if letter == '/' && rng.one_in(2) {
            json += "\\/";
        } else {
            let plain = serde_json::to_string(&letter).unwrap();
            json += &plain[1..plain.len() - 1];
        }
    }
    json + "\""
}

fn sentence(rng: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(6) {
        let word = if rng.one_in(3) {
            *rng.pick(WORDS)
        } else {
            *rng.pick(&["hay", "stack", "Heu", "сено", "\t", "œ"])
        };
        text += word;
        text += *rng.pick(&[" ", "", "-", " "]);
    }
    if rng.one_in(12) {
        text.insert_str(0, &"wörd ".repeat(rng.below(600)));
    }
    text
}

fn json(rng: &mut Rng, depth: usize) -> String {
    match rng.below(if depth == 0 { 3 } else { 6 }) {
        0 => "[1e999,-0.5,true]".into(),
        1 | 2 => {
            let text = sentence(rng);
            json_string(rng, &text)
        }
        3 => format!("[{},{}]", json(rng, depth - 1), json(rng, depth - 1)),
        _ => {
            // Names are not searched.
            let name = format!("{}{}", rng.pick(WORDS), rng.next());
            let (name, other) = (json_string(rng, &name), rng.pick(&["seq", "op", "crc"]));
            format!(
                "{{{name}:{},\"{other}\":{}}}",
                json(rng, depth - 1),
                json(rng, depth - 1)
            )
        }
    }
}

/// A random time on one of the days, out of `in_day` times per day.
fn moment(rng: &mut Rng, in_day: usize) -> i64 {
    let nth = i64::try_from(rng.below(DAYS * in_day)).unwrap();
    DAY_1 + nth * (DAY_MS / i64::try_from(in_day).unwrap()) + 7
}

fn record(rng: &mut Rng, n: u128) -> Record {
    let at = moment(rng, 20);
    let text = sentence(rng);
    match rng.below(6) {
        0 => {
            let mut event = Event::new(None, "test.said");
            event.created_at = at;
            event.payload = Some(json(rng, 3));
            event.into()
        }
        1 => {
            let arguments = format!("{{\"a\":{}}}", json(rng, 3));
            ToolCallReq {
                args_sha256: args_sha256(&arguments),
                arguments_json: Some(arguments),
                ..request(n, &format!("call {}", rng.pick(WORDS)), at)
            }
            .into()
        }
        2 => {
            let mut talk = Conversation::new(Uuid::from_u128(n), Client::Api);
            talk.created_at = Timestamp::from_ms(at).unwrap();
            talk.updated_at = talk.created_at.clone();
            talk.project = Some(text).filter(|text| !text.is_empty() && text.len() < 1000);
            talk.into()
        }
        3 => {
            let mut message = ConversationMessage::new(Uuid::from_u128(9), Role::User, text);
            message.timestamp = Timestamp::from_ms(at).unwrap();
            message.into()
        }
        // Some of them are new versions of others.
        _ => turn(n % 50, &text, at).into(),
    }
}

fn fill(store: &Store, rng: &mut Rng, from: u128, count: u128) {
    let mut talk = Conversation::new(Uuid::from_u128(9), Client::Api);
    talk.created_at = Timestamp::from_ms(DAY_1).unwrap();
    talk.updated_at = talk.created_at.clone();
    if from == 0 {
        store.record(talk).unwrap();
    }
    let records: Vec<Record> = (from..from + count)
        .map(|n| record(rng, 1_000 + n))
        .collect();
    for answer in store.record_batch(records).unwrap() {
        answer.unwrap();
    }
}

fn open(path: &Path) -> Store {
    still().segment_bytes_max(400 << 10).open(path).unwrap()
}

fn random_query(rng: &mut Rng) -> SearchQuery {
    let word = *rng.pick(WORDS);
    let text = match rng.below(4) {
        0 => word.to_lowercase(),
        1 => word.to_uppercase(),
        2 => word.chars().take(1 + rng.below(3)).collect(),
        _ => word.into(),
    };
    let time = |rng: &mut Rng| Some(moment(rng, 40)).filter(|_| rng.one_in(3));
    SearchQuery {
        kind: Some(*rng.pick(&Kind::ALL)).filter(|_| rng.one_in(3)),
        since: time(rng),
        until: time(rng),
        ..all_of(&text)
    }
}

#[test]
fn what_is_found_is_what_a_plain_search_finds() {
    let mut rng = Rng::seeded("search");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    fill(&store, &mut rng, 0, 700);
    for n in 0..120 {
        let text = format!("{} {}", rng.pick(WORDS), "hay ".repeat(800));
        store.record(turn(5_000 + n, &text, DAY_1 + 9)).unwrap();
    }
    let long = fs::read_dir(path.join(DAY_1_NAME)).unwrap();
    let long = long.map(|file| file.unwrap().metadata().unwrap().len());
    assert!(long.max() > Some(256 << 10), "no segment takes two reads");
    let (mut found, mut words) = (0, 0);
    for _ in 0..count("DECKLOG_SEARCH_QUERIES", 10) {
        let query = random_query(&mut rng);
        let matches = check(&store, &query);
        found += matches.len();
        words += usize::from(!matches.is_empty());
        assert_eq!(pages(&store, &query, &mut rng, 300), matches, "{query:?}");
    }
    assert!(found > 20 && words > 2, "{found} {words}");

    // The same results after sealing and after compaction, from open handles and new ones.
    store.seal_at(LATER).unwrap();
    let query = all_of("needle");
    let before = check(&store, &query);
    let other = Store::options().read_only(true).open(&path).unwrap();
    let compacted = other_handle(&path).compact(CompactOptions {
        now: LATER,
        keep_days: 0,
        ..CompactOptions::default()
    });
    assert!(!compacted.unwrap().parts.is_empty());
    let after = check(&store, &query);
    assert!(!after.is_empty() && after.len() < before.len());
    assert_eq!(check(&other, &query), after);
    assert_eq!(pages(&other, &query, &mut rng, 7), after);
}

fn other_handle(path: &Path) -> Store {
    open(path)
}

#[test]
fn pages_are_one_search_while_records_come() {
    let mut rng = Rng::seeded("search pages");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let (store, other) = (open(&path), open(&path));
    fill(&store, &mut rng, 0, 250);
    let query = all_of("e");
    let all = check(&store, &query);
    let last = all.iter().map(|found| found.seq).max().unwrap();
    assert!(all.len() > 50);
    let (mut matches, mut after, mut n) = (Vec::new(), None, 250);
    loop {
        let limit = 1 + rng.below(9);
        let query = SearchQuery {
            limit,
            after,
            ..query.clone()
        };
        let found = store.search(&query).unwrap();
        matches.extend(found.matches);
        after = found.next;
        if after.is_none() {
            break;
        }
        fill(&other, &mut rng, n, 3);
        n += 3;
    }
    let seqs: Vec<u64> = matches.iter().map(|found| found.seq).collect();
    let mut once = seqs.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seqs.len(), "a match came twice");
    // Records that were added to days not searched yet may be found too.
    matches.retain(|found| found.seq <= last);
    assert_eq!(matches, all);
    check(&store, &query);
}

#[test]
fn a_search_that_is_broken_off_goes_on() {
    let mut rng = Rng::seeded("search breaks");
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("log"));
    fill(&store, &mut rng, 0, 300);
    for text in ["needle", "nowhere at all", "e"] {
        let query = all_of(text);
        let all = check(&store, &query);
        let (mut matches, mut after, mut breaks) = (Vec::new(), None, 0);
        loop {
            let mut left = rng.below(3);
            let mut last = 0;
            let mut go_on = |SearchProgress {
                                 bytes_read,
                                 bytes_all,
                                 ..
                             }: SearchProgress| {
                assert!(bytes_read >= last && bytes_read <= bytes_all);
                last = bytes_read;
                left = left.saturating_sub(1);
                if left == 0 {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let query = SearchQuery {
                after,
                ..query.clone()
            };
            let found = store.search_with(&query, &mut go_on).unwrap();
            matches.extend(found.matches);
            after = found.next;
            if found.is_whole {
                assert_eq!(after, None);
                break;
            }
            breaks += 1;
            assert!(breaks < 1_000, "it never ends");
        }
        assert_eq!(matches, all, "{text}");
        assert!(breaks > 4, "{breaks}");
    }
}

#[test]
fn what_was_retracted_or_changed_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("log"));
    let said = turn(1, "an old Needle", DAY_1);
    store.record(said.clone()).unwrap();
    store.record(turn(1, "another needle", DAY_1 + 5)).unwrap();
    let mut retracted = said;
    retracted.created_at = Validity::retracted(DAY_1 + 9);
    store.record(retracted).unwrap();
    let call = request(2, "needle", DAY_1);
    store.record(call.clone()).unwrap();
    store.record(done(&call)).unwrap();
    let matches = check(&store, &all_of("NEEDLE"));
    let seqs: Vec<u64> = matches.iter().map(|found| found.seq).collect();
    assert_eq!(seqs, [5, 4, 3, 2, 1]);
    assert_eq!(matches[0].field, "/call_id");
    assert_eq!(matches[0].key, format!("{} needle", call.request_id));
    // Envelope fields and names are not searched.
    for text in [
        "asserted",
        "retracted",
        "completed",
        "call_id",
        "outcome_json",
        "lines",
    ] {
        assert_eq!(check(&store, &all_of(text)), []);
    }
    let crc = store.last_lines(1).unwrap()[0].text.clone();
    let crc = &crc[crc.len() - 10..crc.len() - 2];
    assert_eq!(check(&store, &all_of(crc)), []);
}

#[test]
fn nothing_and_too_much_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("log"));
    assert_eq!(check(&store, &all_of("x")), []);
    for text in [String::new(), "x".repeat(1025)] {
        let err = store.search(&all_of(&text)).unwrap_err();
        assert_eq!(
            (err.kind(), err.field()),
            (ErrorKind::InvalidInput, Some("text"))
        );
    }
    store.record(turn(1, "x", DAY_1)).unwrap();
    assert_eq!(check(&store, &all_of("x")).len(), 1);
    let none = SearchQuery {
        limit: 0,
        ..all_of("x")
    };
    let found = store.search(&none).unwrap();
    assert_eq!(
        (found.matches, found.next, found.is_whole),
        (vec![], None, true)
    );
    for text in [
        "",
        "x",
        "1-1",
        "2025-12-27",
        "2025-12-27-1",
        "2025-12-27--1",
        "2025-13-01-1-1",
    ] {
        let err = text.parse::<SearchCursor>().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{text}");
    }
    // A cursor that claims more matches than exist hides none of the others.
    let dir = tempfile::tempdir().unwrap();
    let two = open(&dir.path().join("log"));
    for n in 1..4 {
        two.record(turn(n, "x", DAY_1)).unwrap();
    }
    let mut after = Some("2025-12-27-3-7".parse().unwrap());
    for seq in [2, 1] {
        let query = SearchQuery {
            limit: 1,
            after,
            ..all_of("x")
        };
        let found = two.search(&query).unwrap();
        assert_eq!(found.matches[0].seq, seq);
        after = found.next;
    }
    // Cursors that no search returned.
    for (cursor, expected) in [
        ("2025-12-27-0-0", 0),
        ("2025-12-27-1-0", 1),
        ("2025-12-27-1-1", 0),
        ("2025-12-27-1-18446744073709551615", 0),
        ("2025-12-27-18446744073709551615-9", 1),
        ("9999-12-31-7-7", 1),
        ("1970-01-01-7-7", 0),
    ] {
        for limit in [1, usize::MAX] {
            let query = SearchQuery {
                limit,
                after: Some(cursor.parse().unwrap()),
                ..all_of("x")
            };
            let found = store.search(&query).unwrap();
            assert_eq!(found.matches.len(), expected, "{cursor}");
        }
    }
}

/// Rewrites a file of the store.
fn edit(store: &Store, file: &str, change: impl FnOnce(Vec<String>) -> Vec<String>) {
    let path = store.path().join(file);
    let text = fs::read_to_string(&path).unwrap();
    let lines = change(text.lines().map(str::to_owned).collect());
    fs::write(&path, lines.join("\n") + "\n").unwrap();
}

#[test]
fn damaged_lines_are_passed_over_and_rewritten_ones_found() {
    let mut rng = Rng::seeded("search damage");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    for n in 0..400 {
        let at = DAY_1 + (n as i64 % 2) * DAY_MS;
        store.record(turn(n, &format!("needle {n}"), at)).unwrap();
    }
    let file = store.last_lines(1).unwrap()[0].file.clone();
    let is_open = open(&path);
    assert_eq!(check(&is_open, &all_of("needle")).len(), 400);
    edit(&store, &file, |mut lines| {
        // No checksum, and a sequence number from elsewhere.
        for nth in [3, 4, 50] {
            let end = lines[nth].rfind(",\"crc\"").unwrap();
            lines[nth].truncate(end);
            lines[nth] += "}";
        }
        let comma = lines[4].find(',').unwrap();
        lines[4].replace_range(7..comma, "999999");
        // Changed bytes, so that the line is not JSON; and one more byte of text.
        lines[10].replace_range(0..1, "x");
        lines[11] = lines[11].replace("needle", "neeedle");
        // Two more lines with the same sequence number.
        for text in ["needle, too: ", "needle, also: "] {
            lines.insert(100, lines[50].replace("needle ", text));
        }
        // Two lines without the LF between them.
        let glued = lines[20].clone() + &lines[21];
        lines[20] = glued;
        lines.remove(21);
        lines
    });
    let twice = format!("{}0009.jsonl", &file[..file.len() - "0001.jsonl".len()]);
    fs::copy(store.path().join(&file), store.path().join(twice)).unwrap();
    drop(store);
    let store = open(&path);
    let seqs =
        |matches: &[SearchMatch]| -> Vec<u64> { matches.iter().map(|found| found.seq).collect() };
    let mut expected: Vec<u64> = Vec::new();
    for line in store.last_lines(usize::MAX).unwrap() {
        if line_holds(&line, "needle") {
            expected.push(line.seq);
        }
    }
    let found = store.search(&all_of("needle")).unwrap();
    let mut sorted = seqs(&found.matches);
    sorted.sort_unstable();
    // Copies of a line are one match.
    expected.dedup();
    sorted.dedup();
    assert_eq!(sorted, expected);
    assert!((395..400).contains(&sorted.len()), "{}", sorted.len());
    assert_eq!(
        is_open.search(&all_of("needle")).unwrap().matches,
        found.matches
    );
    // A page may end between two matches with equal sequence numbers.
    let same = |pair: &[SearchMatch]| pair[0].seq == pair[1].seq;
    let nth = found.matches.windows(2).position(same).unwrap();
    let mut in_parts = Vec::new();
    let mut after = None;
    for limit in [nth + 1, 1, usize::MAX] {
        let query = SearchQuery {
            limit,
            after,
            ..all_of("needle")
        };
        let part = store.search(&query).unwrap();
        in_parts.extend(part.matches);
        after = part.next;
    }
    assert_eq!(in_parts, found.matches);
    for _ in 0..3 {
        let in_pages = pages(&store, &all_of("needle"), &mut rng, 90);
        assert_eq!(in_pages, found.matches);
    }
}

/// An open handle searches lines that have changed since it read them.
#[test]
fn lines_that_are_changed_under_a_handle_do_not_stop_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = open(&path);
    for n in 0..40 {
        store
            .record(turn(n, &format!("needle {n}"), DAY_1))
            .unwrap();
    }
    assert_eq!(check(&store, &all_of("needle")).len(), 40);
    let file = store.last_lines(1).unwrap()[0].file.clone();
    edit(&store, &file, |mut lines| {
        lines[7] = lines[7].replace("needle", "Needle");
        lines[9] = "x".repeat(lines[9].len());
        lines
    });
    let found = store.search(&all_of("needle")).unwrap();
    assert_eq!(found.matches.len(), 39);
    assert!(
        found
            .matches
            .iter()
            .any(|found| found.snippet == "Needle 7")
    );
    // Truncated, and extended again.
    edit(&store, &file, |lines| lines[..20].to_vec());
    assert_eq!(store.search(&all_of("needle")).unwrap().matches.len(), 19);
    store.record(turn(100, "needle", DAY_1)).unwrap();
    assert_eq!(store.search(&all_of("needle")).unwrap().matches.len(), 20);
    // A line longer than the limit.
    edit(&store, &file, |mut lines| {
        lines.insert(3, "x".repeat(17 << 20));
        lines
    });
    store.refresh().unwrap();
    assert_eq!(store.search(&all_of("needle")).unwrap().matches.len(), 20);
    fs::remove_file(path.join(&file)).unwrap();
    store.refresh().unwrap();
    assert_eq!(store.search(&all_of("needle")).unwrap().matches, []);
}

/// Segments are merged, and others added, during a search.
#[test]
fn a_search_goes_on_over_what_is_rewritten_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().segment_bytes_max(4 << 10).open(&path).unwrap();
    for n in 0..300 {
        let at = DAY_1 + (n as i64 % 3) * DAY_MS;
        store.record(turn(n, &format!("needle {n}"), at)).unwrap();
    }
    store.seal_at(LATER).unwrap();
    let all = check(&store, &all_of("needle"));
    assert_eq!(all.len(), 300);
    let other = open(&path);
    let (mut steps, mut joined) = (0, 0);
    let mut go_on = |_: SearchProgress| {
        steps += 1;
        if steps == 5 {
            let done = other.compact(CompactOptions {
                now: LATER,
                keep_days: 0,
                ..CompactOptions::default()
            });
            joined = done.unwrap().parts.iter().map(|part| part.joined).sum();
        }
        ControlFlow::Continue(())
    };
    let found = store.search_with(&all_of("needle"), &mut go_on).unwrap();
    assert!(joined > 10, "{joined}");
    assert_eq!(found.matches, all);
    check(&store, &all_of("needle"));
}
