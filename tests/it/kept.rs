//! Data that retention and compaction must keep: manually changed lines, records that lead to
//! others, and kinds with retention disabled.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use decklog::health::{DamageClass, VerifyOptions, verify_with};
use decklog::record::ConversationStatus;
use decklog::retention::Erasure;
use decklog::seal::SealHead;
use decklog::storage::{Disk, Memory, Storage};
use decklog::{Client, Conversation, ConversationTurn, ErrorKind, Timestamp, Validity, verify};
use uuid::Uuid;

use super::erase::{conversation, erase, record};
use super::support::{DAY_1, DAY_MS, crc32, done, plain_users, request, still, turn};
use super::upkeep::{compact, retain};

const LATER: i64 = DAY_1 + 40 * DAY_MS;

/// The line with another text and a matching checksum.
fn forged(line: &str, from: &str, to: &str) -> String {
    let (body, _) = line.rsplit_once(r#","crc":""#).unwrap();
    let body = body.replace(from, to);
    format!(r#"{body},"crc":"{:08x}"}}"#, crc32(body.as_bytes()))
}

/// Replaces the text of a sealed segment, which stays read-only.
fn replace_sealed(segment: &Path, text: &str) {
    let mode = fs::metadata(segment).unwrap().permissions();
    assert!(mode.readonly());
    fs::remove_file(segment).unwrap();
    fs::write(segment, text).unwrap();
    fs::set_permissions(segment, mode).unwrap();
}

#[test]
fn what_other_hands_changed_is_not_vouched_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().settings(plain_users()).open(&path).unwrap();
    record(&store, conversation(1_000, "ann", "pear"));
    // The first version is dropped by compaction, so that the segment is rewritten; the last turn
    // expires.
    record(&store, vec![turn(1, "first", DAY_1).into()]);
    record(&store, vec![turn(1, "second", DAY_1).into()]);
    record(&store, vec![turn(2, "as it was said", DAY_1 + 5).into()]);
    store.seal_at(LATER).unwrap();
    let head: SealHead = store.seal_head().unwrap().unwrap();
    let segment = path.join("2025-12-27/conversation_turns.0001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    let lines = text.lines().map(|line| {
        if line.contains("as it was said") {
            forged(line, "as it was said", "as it is told")
        } else {
            line.to_owned()
        }
    });
    let changed = lines.map(|line| line + "\n").collect::<String>();
    replace_sealed(&segment, &changed);

    let is_told = |case: &str| {
        let options = VerifyOptions {
            deep: true,
            head: Some(head),
        };
        let found = verify_with(&Disk::new(&path), &options).unwrap();
        let classes: Vec<DamageClass> = found.damage.iter().map(|damage| damage.class).collect();
        assert_eq!(classes, [DamageClass::Changed], "{case}: {found:#?}");
        assert_eq!(fs::read_to_string(&segment).unwrap(), changed, "{case}");
    };
    is_told("changed");
    compact(&store, LATER);
    is_told("compacted");
    retain(&store, DAY_1 + 200 * DAY_MS);
    is_told("retained");
}

#[test]
fn what_is_to_be_erased_from_a_changed_segment_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().settings(plain_users()).open(&path).unwrap();
    record(&store, conversation(1_000, "ann", "pear"));
    store.seal_at(LATER).unwrap();
    let segment = path.join("2025-12-27/messages.0001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    let line = text.lines().next().unwrap();
    let changed = text.replace(line, &forged(line, "pear", "plum"));
    assert_ne!(changed, text);
    replace_sealed(&segment, &changed);

    let what = Erasure::Conversation(Uuid::from_u128(1_000));
    let options = decklog::retention::EraseOptions::default();
    let err = store.erase(&what, options).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Damaged, "{err}");
    assert!(err.to_string().contains("messages.0001.jsonl"), "{err}");
    // A user who accepts the edit can erase it.
    store.repair_and_accept_edits().unwrap();
    erase(&store, &what);
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
    for word in ["pear", "plum"] {
        let left = super::erase::holding(&path, word);
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The calls of a retracted turn are found through the turn when their conversation is erased.
#[test]
fn a_turn_that_leads_to_calls_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = still().open(&path).unwrap();
    let talk = Uuid::from_u128(1_000);
    let conversation = with!(Conversation::new(talk, Client::Cli),
        created_at: Timestamp::from_ms(DAY_1).unwrap(),
        updated_at: Timestamp::from_ms(DAY_1).unwrap(),
    );
    let said = |id, valid| ConversationTurn {
        thread_id: Some(talk),
        created_at: valid,
        ..turn(id, "said", DAY_1)
    };
    let mut call = request(3, "call", DAY_1);
    call.parent_id = Uuid::from_u128(1);
    call.arguments_json = Some(r#"{"word":"pear"}"#.into());
    call.args_sha256 = decklog::args_sha256(r#"{"word":"pear"}"#);
    let outcome = done(&call);
    record(
        &store,
        vec![
            conversation.into(),
            said(1, Validity::at(DAY_1)).into(),
            said(2, Validity::at(DAY_1)).into(),
            call.into(),
            outcome.into(),
            said(1, Validity::retracted(DAY_1)).into(),
            said(2, Validity::retracted(DAY_1)).into(),
        ],
    );
    let lines: u64 = compact(&store, LATER)
        .parts
        .iter()
        .map(|part| part.lines)
        .sum();
    // The lines of the second turn, which has no calls.
    assert_eq!(lines, 2);
    assert_eq!(super::erase::holding(&path, "pear").len(), 1);
    erase(&store, &Erasure::Conversation(talk));
    let left = super::erase::holding(&path, "pear");
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn errors_are_kept_as_long_as_is_set() {
    for (setting, is_left) in [
        ("forever", true),
        ("120", true),
        ("90", false),
        ("30", false),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = plain_users();
        settings.set("retention.errors", setting).unwrap();
        let options = still().settings(settings);
        let store = options.open(dir.path().join("log")).unwrap();
        let at = || Timestamp::from_ms(DAY_1).unwrap();
        let talks = [ConversationStatus::Error, ConversationStatus::Completed];
        for (id, status) in (1..).zip(talks) {
            let talk = with!(Conversation::new(Uuid::from_u128(id), Client::Cli),
                created_at: at(),
                updated_at: at(),
                status,
            );
            record(&store, vec![talk.into()]);
        }
        retain(&store, DAY_1 + 100 * DAY_MS);
        let is_there = |id| {
            store
                .get_conversation(Uuid::from_u128(id))
                .unwrap()
                .is_some()
        };
        assert_eq!((is_there(1), is_there(2)), (is_left, false), "{setting}");
    }
}

/// A segment was closed, but the machine failed before it was sealed. A removed segment had the
/// same name and length before.
#[test]
fn a_later_segment_of_the_same_name_and_length_is_sealed() {
    let memory = Memory::new();
    let open = || still().storage(Arc::new(memory.clone())).open("memory");
    let store = open().unwrap();
    let segment = "2025-12-27/conversation_turns.0001.jsonl";
    record(&store, vec![turn(1, "said", DAY_1).into()]);
    retain(&store, DAY_1 + 200 * DAY_MS);
    assert!(memory.stat(segment).is_err());
    record(&store, vec![turn(2, "told", DAY_1).into()]);
    drop(store);
    memory.set_read_only(segment).unwrap();
    let store = open().unwrap();
    let seals = store.seal_at(LATER).unwrap();
    assert_eq!(seals.len(), 1);
    assert_eq!(seals[0].file, segment);
    let removed = String::from_utf8(memory.bytes("removals.jsonl").unwrap()).unwrap();
    let as_long = format!("\"bytes\":{}", seals[0].bytes);
    assert!(removed.contains(&as_long), "{removed}");
    retain(&store, DAY_1 + 200 * DAY_MS);
    assert!(memory.stat(segment).is_err());
    assert!(verify(&memory).unwrap().is_clean());
}
