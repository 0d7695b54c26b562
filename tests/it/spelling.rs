//! Lines with a valid checksum in a form that decklog would not write, as another program may write
//! them. Each line counts everywhere by its content, or is reported and left out everywhere. No
//! such line makes a query fail, and erasure removes it like any other.
//!
//! `DECKLOG_SPELLINGS` sets the number of lines that are tried.

use std::fs;
use std::path::Path;

use decklog::analytics::AnalyticsQuery;
use decklog::health::DamageClass;
use decklog::query::{
    CallQuery, ConversationQuery, EventQuery, MessageQuery, ProposalQuery, RollupQuery,
    SearchQuery, TaskQuery, TurnQuery,
};
use decklog::retention::Erasure;
use decklog::storage::Disk;
use decklog::{
    Client, Conversation, ConversationMessage, Record, Role, Store, Timestamp, ToolCallReq, verify,
};
use uuid::Uuid;

use super::erase::{conversation, each_file, erase, holding};
use super::layout::write_example;
use super::support::{DAY_1, Rng, count, request, still};

const TALK: u128 = 0x7A1C;
/// In all texts of the conversation that is erased.
const WORD: &str = "pomegranate";

/// The members of a line, in order: the name with its colon, and the value.
type Members = Vec<(String, String)>;

/// Records of every kind, and a conversation with everything that belongs to it.
fn write_store(path: &Path) {
    let store = still().open(path).unwrap();
    write_example(&store);
    let mut records = conversation(TALK, "ann", WORD);
    let id = Uuid::from_u128(TALK);
    records.push(
        with!(ConversationMessage::new(id, Role::Assistant, format!("a {WORD}\nis a fruit")),
            id: Uuid::from_u128(0x7A1D),
            timestamp: Timestamp::from_ms(DAY_1 + 5).unwrap(),
            model_used: Some("small-1".into()),
            config_used: Some("fast".into()),
            orchestration_mode: Some("single".into()),
            task_type: Some("code".into()),
            tokens_in: Some(1_000),
            tokens_out: Some(70),
            latency_ms: Some(250),
            context_utilization: Some(0.5),
            compression_applied: Some(true),
            error_type: Some("timeout".into()),
            error: Some(format!("{WORD}: timed out")),
            models_in_chain: Some(vec!["small-1".into(), "big-2".into()]),
            part_of: Some(Uuid::from_u128(0x7A1F)),
            tool_args: Some(format!("{{\"a\":[\"{WORD}\"]}}")),
        )
        .into(),
    );
    records.push(
        ToolCallReq {
            parent_id: id,
            args_sha256: decklog::args_sha256(&format!("{{\"of\":\"{WORD}\"}}")),
            arguments_json: Some(format!("{{\"of\":\"{WORD}\"}}")),
            ..request(0x7A1E, "call", DAY_1)
        }
        .into(),
    );
    for answer in store.record_batch(records).unwrap() {
        answer.unwrap();
    }
}

/// The segments of a store, by their paths.
fn segments(path: &Path) -> Vec<String> {
    let mut found = Vec::new();
    each_file(path, &mut |file, bytes| {
        let name = file.strip_prefix(path).unwrap().to_str().unwrap();
        let is_segment = name.contains('/') && name.split('.').nth(2) == Some("jsonl");
        if is_segment && !bytes.is_empty() {
            found.push(name.to_owned());
        }
    });
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in segments(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(from.join(&file), target).unwrap();
    }
    fs::copy(from.join("decklog.json"), to.join("decklog.json")).unwrap();
}

fn members(line: &str) -> Members {
    let inner = line.strip_prefix('{').unwrap();
    let inner = &inner[..inner.rfind(",\"crc\":\"").unwrap()];
    let (mut depth, mut in_string, mut escaped, mut from) = (0, false, false, 0);
    let mut parts = Vec::new();
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&inner[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inner[from..]);
    let split = |part: &str| {
        let (name, value) = part.split_once("\":").unwrap();
        (format!("{name}\":"), value.to_owned())
    };
    parts.into_iter().map(split).collect()
}

/// The line of these members, with LF and a valid checksum.
fn sealed(members: &Members, between: &str) -> Vec<u8> {
    let members: Vec<String> = members
        .iter()
        .map(|(name, value)| format!("{name}{value}"))
        .collect();
    let covered = format!("{{{}", members.join(&format!(",{between}")));
    let crc = crc32fast::hash(covered.as_bytes());
    format!("{covered},\"crc\":\"{crc:08x}\"}}\n").into_bytes()
}

/// Another spelling of a line, and whether it means the same.
fn respelled(rng: &mut Rng, line: &str) -> (Vec<u8>, bool) {
    let mut members = members(line);
    let len = members.len();
    let any = rng.below(len);
    let mut between = "";
    let is_same = match rng.below(11) {
        // In any order.
        0 => {
            for place in 0..len - 1 {
                let other = place + rng.below(len - place);
                members.swap(place, other);
            }
            true
        }
        // In any order after the envelope.
        1 => {
            for place in 3..len - 1 {
                let other = place + rng.below(len - place);
                members.swap(place, other);
            }
            true
        }
        // Two neighbours.
        2 | 3 => {
            let place = rng.below(len - 1);
            members.swap(place, place + 1);
            true
        }
        // Repeated, with the same value or another one.
        4 => {
            let (name, mut value) = members[any].clone();
            if rng.one_in(2) {
                value = "\"00000000-0000-4000-8000-000000000001\"".into();
            }
            members.insert(rng.below(len + 1), (name, value));
            false
        }
        // Unknown fields.
        5 => {
            for _ in 0..=rng.below(3) {
                let value = *rng.pick(&[
                    "1",
                    "\"x\"",
                    "null",
                    "[1,{}]",
                    "{\"content\":\"y\",\"id\":[]}",
                ]);
                let name = format!("\"later_{}\":", rng.below(1_000_000));
                members.insert(rng.below(members.len() + 1), (name, value.into()));
            }
            true
        }
        6 => {
            between = *rng.pick(&[" ", "\t", "  "]);
            true
        }
        // A name with an escape.
        7 => {
            let (name, _) = &mut members[any];
            let first = name.as_bytes()[1];
            name.replace_range(1..2, &format!("\\u{first:04x}"));
            true
        }
        8 => {
            members.remove(any);
            false
        }
        // A text with unnecessary escapes.
        9 => {
            let texts: Vec<usize> = (0..len)
                .filter(|at| members[*at].1.starts_with('"'))
                .collect();
            let (_, value) = &mut members[*rng.pick(&texts)];
            if value.len() > 2 && value.as_bytes()[1].is_ascii_alphanumeric() {
                let first = value.as_bytes()[1];
                value.replace_range(1..2, &format!("\\u{first:04x}"));
            }
            true
        }
        // An invalid value.
        _ => {
            let values = [
                "9223372036854775808",
                "-5",
                "1.5",
                "true",
                "\"robot\"",
                "[]",
                "null",
                "\"\"",
            ];
            members[any].1 = (*rng.pick(&values)).into();
            false
        }
    };
    (sealed(&members, between), is_same)
}

/// Replaces one line of a segment, or removes it.
fn replace_line(path: &Path, nth: usize, with: &[u8]) {
    let bytes = fs::read(path).unwrap();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let lines = lines.map(|(at, line)| if at == nth { with } else { line });
    let bytes = lines.collect::<Vec<_>>().concat();
    fs::write(path, bytes).unwrap();
}

fn all<T: Default>(set: impl Fn(&mut T)) -> T {
    let mut query = T::default();
    set(&mut query);
    query
}

/// All answers of a store, except hashes of thoughts and damage. Fails if any query fails.
fn told(store: &Store) -> Vec<String> {
    let max = usize::MAX;
    let mut told: Vec<String> = Vec::new();
    let mut tell = |what: String| told.push(what);
    let turns = all(|query: &mut TurnQuery| query.limit = max);
    for turn in store.turns(&turns).unwrap().items {
        let again = store.get_turn(turn.id).unwrap();
        assert_eq!(again.as_ref(), Some(&turn));
        let of_thread = all(|query: &mut TurnQuery| query.thread_id = turn.thread_id);
        let of_thread = store.turns(&of_thread).unwrap().items;
        assert!(turn.thread_id.is_none() || of_thread.contains(&turn));
        tell(format!("{turn:?}"));
    }
    let calls = all(|query: &mut CallQuery| query.limit = max);
    for call in store.tool_calls(&calls).unwrap().items {
        let (request_id, call_id) = (call.0.request_id, call.0.call_id.clone());
        assert!(store.get_tool_call(request_id, &call_id).unwrap().is_some());
        let parent_id = call.0.parent_id;
        let of_parent = all(|query: &mut CallQuery| query.parent_id = Some(parent_id));
        assert!(store.tool_calls(&of_parent).unwrap().items.contains(&call));
        tell(format!("{call:?}"));
    }
    let proposals = all(|query: &mut ProposalQuery| query.limit = max);
    tell(format!("{:?}", store.proposals(&proposals).unwrap().items));
    let talks = all(|query: &mut ConversationQuery| query.limit = max);
    let (mut messages, mut tokens) = (0, 0);
    for (talk, stats) in store.conversations(&talks).unwrap().items {
        let query = all(|query: &mut MessageQuery| query.limit = max);
        let of_talk = store.messages(talk.id, &query).unwrap().items;
        let sum = |of: fn(&ConversationMessage) -> Option<i64>| {
            of_talk
                .iter()
                .filter_map(of)
                .filter(|n| *n > 0)
                .sum::<i64>()
        };
        let total = sum(|message| message.tokens_in);
        assert_eq!(stats.message_count, of_talk.len() as u64, "{talk:?}");
        assert_eq!(stats.total_tokens_in, total.cast_unsigned(), "{talk:?}");
        messages += of_talk.len() as u64;
        tokens += total.cast_unsigned();
        let of_user = all(|query: &mut ConversationQuery| query.user_id.clone_from(&talk.user_id));
        let of_user = store.conversations(&of_user).unwrap().items;
        assert!(of_user.iter().any(|(found, _)| found.id == talk.id));
        tell(format!("{talk:?} {stats:?} {of_talk:?}"));
        tell(format!("{:?}", store.session_tree(talk.id).unwrap()));
    }
    let analytics = store.analytics();
    let usage = analytics.usage(&AnalyticsQuery::default()).unwrap();
    // There may be messages whose conversation is not listed.
    assert!(usage.total.messages >= messages && usage.total.tokens_in >= tokens);
    tell(format!("{usage:?}"));
    let events = all(|query: &mut EventQuery| query.limit = max);
    for event in store.events(&events).unwrap().items {
        assert_eq!(store.get_event(event.id).unwrap().as_ref(), Some(&event));
        tell(format!(
            "{event:?} {:?}",
            store.event_tree(event.id).unwrap()
        ));
    }
    let tasks = all(|query: &mut TaskQuery| query.limit = max);
    tell(format!("{:?}", store.inbox().list(&tasks).unwrap().items));
    tell(format!("{:?}", store.inbox().counts().unwrap()));
    tell(format!("{:?}", store.telegram_offset().unwrap()));
    tell(format!("{:?}", store.history(-42, max).unwrap()));
    tell(format!("{:?}", store.thoughts().list(None, None).unwrap()));
    tell(format!(
        "{:?}",
        store.rollups(&RollupQuery::default()).unwrap()
    ));
    for text in [WORD, "deploy", "hello", "small-1"] {
        let query = all(|query: &mut SearchQuery| {
            query.text = text.into();
            query.limit = 1_000;
        });
        let found = store.search(&query).unwrap().matches;
        let found: Vec<_> = found.iter().map(|it| (it.seq, &it.key, it.at)).collect();
        tell(format!("{found:?}"));
    }
    told
}

fn read_only(path: &Path) -> Store {
    Store::options().read_only(true).open(path).unwrap()
}

/// A line of any kind, in any spelling with a valid checksum, is treated the same everywhere.
#[test]
fn a_line_with_a_right_checksum_counts_by_what_it_says_or_is_left_out() {
    let mut rng = Rng::seeded("spelling");
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    write_store(&whole);
    let files = segments(&whole);
    let expected = told(&read_only(&whole));
    let (mut altered, mut damaged, mut good) = (0, 0, 0);
    for round in 0..count("DECKLOG_SPELLINGS", 40) {
        let file = rng.pick(&files);
        let bytes = fs::read_to_string(whole.join(file)).unwrap();
        let lines: Vec<&str> = bytes.lines().collect();
        let nth = rng.below(lines.len());
        let (line, is_same) = respelled(&mut rng, lines[nth]);
        let shown = format!("{file} {}", String::from_utf8_lossy(&line));
        let path = dir.path().join(format!("store-{round}"));
        copy(&whole, &path);
        replace_line(&path.join(file), nth, &line);

        let found = verify(&Disk::new(&path)).unwrap();
        let store = read_only(&path);
        let now = told(&store);
        let of_file = |damage: &&decklog::health::Damage| damage.file == *file;
        let classes: Vec<DamageClass> = found
            .damage
            .iter()
            .filter(of_file)
            .map(|it| it.class)
            .collect();
        let known: Vec<DamageClass> = store.damage().unwrap().iter().map(|it| it.class).collect();
        // Findings of verify alone, such as rules on values, are not damage to a reader.
        assert!(
            known.iter().all(|class| classes.contains(class)),
            "{shown}: {known:?} {classes:?}"
        );
        assert_eq!(
            store.health().unwrap().is_good(),
            known.is_empty(),
            "{shown}"
        );
        drop(store);
        // As if the line did not exist.
        let spelled = fs::read(path.join(file)).unwrap();
        replace_line(&path.join(file), nth, b"");
        let is_left_out = !is_same && now == told(&read_only(&path));
        fs::write(path.join(file), spelled).unwrap();
        if known.contains(&DamageClass::Damaged) {
            damaged += 1;
            assert!(is_left_out, "{shown}");
        } else {
            altered += u64::from(known.contains(&DamageClass::Altered));
            good += u64::from(known.is_empty());
        }
        if is_same {
            assert_eq!(now, expected, "{shown}");
        }

        let talk = Uuid::from_u128(TALK).to_string();
        // A call refers to its turn, and a turn to its thread.
        let parent = members(lines[nth])
            .into_iter()
            .find_map(|(name, value)| (name == "\"parent_id\":").then_some(value));
        let is_lost = |link: &str| {
            lines[nth].contains(link) && !String::from_utf8_lossy(&line).contains(link)
        };
        if !is_same && (is_lost(&talk) || parent.is_some_and(|parent| is_lost(&parent))) {
            // Nothing refers to it any more.
            fs::remove_dir_all(&path).unwrap();
            continue;
        }
        erase(
            &still().open(&path).unwrap(),
            &Erasure::Conversation(Uuid::from_u128(TALK)),
        );
        for text in [WORD, &*talk] {
            let mut left = holding(&path, text);
            // Records that were connected only by a line without a valid record are not known to
            // belong to it.
            left.retain(|left| !is_left_out || *left == path.join(file));
            assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{shown}");
        }
        fs::remove_dir_all(&path).unwrap();
    }
    println!("good {good}, altered {altered}, damaged {damaged}");
}

/// Bug: a message with `sequence` before its `conversation_id` was found by id, but was in no list.
#[test]
fn fields_that_a_line_is_found_by_count_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let id = Uuid::from_u128(1);
    let store = still().open(&path).unwrap();
    store.record(Conversation::new(id, Client::Cli)).unwrap();
    let message = with!(ConversationMessage::new(id, Role::User, WORD),
        tokens_in: Some(7),
        timestamp: Timestamp::from_ms(DAY_1).unwrap(),
    );
    store.record(message.clone()).unwrap();
    drop(store);
    let file = path.join("2025-12-27/messages.0001.jsonl");
    let line = fs::read_to_string(&file).unwrap();
    let order = |swap: fn(&mut Members)| {
        let mut members = members(line.trim_end());
        swap(&mut members);
        sealed(&members, "")
    };
    let moved_tokens = |members: &mut Members| {
        let at = members
            .iter()
            .position(|(name, _)| name == "\"tokens_in\":")
            .unwrap();
        let tokens = members.remove(at);
        members.push(tokens);
    };
    for other in [order(|members| members.swap(4, 5)), order(moved_tokens)] {
        fs::write(&file, &other).unwrap();
        let found = verify(&Disk::new(&path)).unwrap();
        assert_eq!(found.damage[0].class, DamageClass::Altered, "{found:?}");
        let store = still().open(&path).unwrap();
        assert_eq!(store.damage().unwrap(), found.damage);
        let (_, stats) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!((stats.message_count, stats.total_tokens_in), (1, 7));
        let read = store.messages(id, &MessageQuery::default()).unwrap().items;
        assert_eq!(read[0].content, message.content);
    }
    let store = still().open(&path).unwrap();
    // After acceptance, it is in canonical form.
    drop(store);
    let store = still().open(&path).unwrap();
    store.repair_and_accept_edits().unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), line);
    fs::write(&file, order(|members| members.swap(4, 5))).unwrap();
    drop(store);
    let store = still().open(&path).unwrap();
    erase(&store, &Erasure::Conversation(id));
    assert_eq!(holding(&path, WORD), Vec::<std::path::PathBuf>::new());
}

/// Bug: one line with a valid checksum and an invalid value was counted, and made every list with
/// it fail.
#[test]
fn a_line_that_holds_no_record_is_left_out_and_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let id = Uuid::from_u128(1);
    let store = still().open(&path).unwrap();
    let records: Vec<Record> = vec![
        Conversation::new(id, Client::Cli).into(),
        with!(ConversationMessage::new(id, Role::User, "stays"),
            timestamp: Timestamp::from_ms(DAY_1).unwrap(),
        )
        .into(),
        with!(ConversationMessage::new(id, Role::User, "goes"),
            tokens_in: Some(1_000),
            timestamp: Timestamp::from_ms(DAY_1).unwrap(),
        )
        .into(),
    ];
    for answer in store.record_batch(records).unwrap() {
        answer.unwrap();
    }
    drop(store);
    let file = path.join("2025-12-27/messages.0001.jsonl");
    let lines = fs::read_to_string(&file).unwrap();
    let good = lines.lines().nth(1).unwrap();
    let changes: [(&str, &str); 5] = [
        ("\"role\":\"user\"", "\"role\":\"robot\""),
        (",\"content\":\"goes\"", ""),
        ("\"tokens_in\":1000", "\"tokens_in\":9223372036854775808"),
        (
            ",\"content\":\"goes\"",
            ",\"content\":\"goes\",\"content\":\"goes\"",
        ),
        (
            ",\"content\":\"goes\"",
            ",\"content\":\"goes\",\"sequence\":2",
        ),
    ];
    for (from, to) in changes {
        assert!(good.contains(from));
        let line = sealed(&members(&good.replace(from, to)), "");
        replace_line(&file, 1, &line);
        let found = verify(&Disk::new(&path)).unwrap();
        assert_eq!(found.damage.len(), 1, "{to}: {found:?}");
        assert_eq!(found.damage[0].class, DamageClass::Damaged);
        // Also for a handle that is open when the line is added.
        let store = still().open(&path).unwrap();
        assert_eq!(store.damage().unwrap(), found.damage, "{to}");
        assert!(!store.health().unwrap().is_good());
        let list = store.messages(id, &MessageQuery::default()).unwrap().items;
        assert_eq!(list.len(), 1);
        let (_, stats) = store.get_conversation(id).unwrap().unwrap();
        assert_eq!((stats.message_count, stats.total_tokens_in), (1, 0));
        let usage = store.analytics().usage(&AnalyticsQuery::default()).unwrap();
        assert_eq!((usage.total.messages, usage.total.tokens_in), (1, 0));
        drop(store);
    }
    let store = still().open(&path).unwrap();
    store.repair().unwrap();
    assert!(verify(&Disk::new(&path)).unwrap().damage.is_empty());
}

/// The rules on values and uniqueness in the document are verified, though lines that violate them
/// count.
#[test]
fn verify_names_lines_that_no_writer_may_write() {
    let dir = tempfile::tempdir().unwrap();
    let whole = dir.path().join("whole");
    write_store(&whole);
    let clean = verify(&Disk::new(&whole)).unwrap();
    assert!(clean.is_clean(), "{clean:?}");
    let changes = [
        (
            "messages",
            "\"tokens_in\":12",
            "\"tokens_in\":-12",
            "tokens_in is -12",
        ),
        (
            "messages",
            "\"context_utilization\":0.25",
            "\"context_utilization\":2",
            "context_utilization is 2",
        ),
        (
            "messages",
            "\"sequence\":2",
            "\"sequence\":1",
            "has sequence 1 of",
        ),
        (
            "code_edit_proposals",
            "\"confidence\":0.9",
            "\"confidence\":1.5",
            "confidence is 1.5",
        ),
        (
            "tool_calls",
            "\"latency_ms\":37",
            "\"latency_ms\":-1",
            "latency_ms is -1",
        ),
    ];
    for (kind, from, to, said) in changes {
        let path = dir.path().join("changed");
        copy(&whole, &path);
        let file = path.join(format!("2025-12-27/{kind}.0001.jsonl"));
        let text = fs::read_to_string(&file).unwrap();
        let (nth, line) = text
            .lines()
            .enumerate()
            .find(|(_, line)| line.contains(from))
            .unwrap();
        replace_line(
            &file,
            nth,
            &sealed(&members(&line.replacen(from, to, 1)), ""),
        );
        let found = verify(&Disk::new(&path)).unwrap();
        assert!(
            !found.is_clean() && found.damage.is_empty(),
            "{to}: {found:?}"
        );
        assert_eq!(found.violations.len(), 1, "{to}: {found:?}");
        assert!(found.violations[0].reason.contains(said), "{found:?}");
        fs::remove_dir_all(&path).unwrap();
    }
    // If the record's time differs from the line's own, the line is reported as altered, and counts
    // by the record's time.
    let path = dir.path().join("changed");
    copy(&whole, &path);
    let file = path.join("2025-12-27/history.0001.jsonl");
    let line = fs::read_to_string(&file).unwrap();
    let line = line.replace(
        "\"created_at\":1766832000000",
        "\"created_at\":1766832000001",
    );
    fs::write(&file, sealed(&members(line.trim_end()), "")).unwrap();
    let found = verify(&Disk::new(&path)).unwrap();
    assert_eq!(found.damage[0].class, DamageClass::Altered, "{found:?}");
    assert_eq!(read_only(&path).damage().unwrap(), found.damage);
}

/// Two tasks with the same `update_id`, and two thoughts with the same hash: both lines are
/// reported.
#[test]
fn verify_names_both_lines_that_share_what_is_unique() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    write_store(&path);
    for (file, id, other) in [
        ("2025-12-27/inbox.0001.jsonl", "\"id\":1", "\"id\":2"),
        (
            "2026-04-17/thought_records.0001.jsonl",
            "\"id\":\"r1\"",
            "\"id\":\"r2\"",
        ),
    ] {
        let file = path.join(file);
        let mut bytes = fs::read(&file).unwrap();
        let first = String::from_utf8(bytes.clone()).unwrap();
        let mut again = members(&first.lines().next().unwrap().replace(id, other));
        again[0].1 = "900".into();
        bytes.extend(sealed(&again, ""));
        fs::write(&file, bytes).unwrap();
    }
    let found = verify(&Disk::new(&path)).unwrap();
    let said: Vec<&str> = found.violations.iter().map(|it| &*it.reason).collect();
    assert!(
        said.iter()
            .any(|it| it.contains("update_id 7001") && it.contains("at byte 0")),
        "{said:?}"
    );
    assert!(
        said.iter()
            .any(|it| it.contains("hash 6a2f") && it.contains("at byte 0")),
        "{said:?}"
    );
}
