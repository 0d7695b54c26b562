//! People have their hands in a store while agents write it: they delete `LOCK` because it looks
//! stale, run `sed -i`, move a day to an archive. Every handle that is open meanwhile notices at
//! its next append or read, loses nothing, and overwrites nothing.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use decklog::storage::{Disk, Fault, Memory, Storage};
use decklog::{ConversationTurn, ObservabilityStore, Store, TurnKind, Validity, verify};
use uuid::Uuid;

const NOON: i64 = 1_766_836_800_000;
const DAY: &str = "2025-12-27";

fn turn(n: u128) -> ConversationTurn {
    ConversationTurn {
        id: Uuid::from_u128(n),
        parent_id: None,
        message_id: Uuid::from_u128(n),
        kind: TurnKind::User,
        content: format!("turn {n}"),
        created_at: Validity::at(NOON + i64::try_from(n).unwrap()),
        thread_id: None,
    }
}

fn record(store: &Store, n: u128) {
    store.upsert_conversation_turn(turn(n)).unwrap();
}

fn ids(store: &Store) -> Vec<u128> {
    let turns = store.list_conversation_since(0, 1_000).unwrap();
    turns.iter().map(|turn| turn.id.as_u128()).collect()
}

fn assert_clean(path: &Path) {
    let found = verify(&Disk::new(path)).unwrap();
    assert!(found.is_clean(), "{found:?}");
}

#[test]
fn a_deleted_head_is_made_anew_and_no_one_misses_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        Store::open(dir.path()).unwrap(),
        Store::open(dir.path()).unwrap(),
    );
    record(&a, 1);
    record(&b, 2);
    fs::remove_file(dir.path().join("HEAD")).unwrap();
    a.refresh().unwrap();
    assert_eq!(ids(&a), [1, 2]);
    record(&b, 3);
    assert_eq!(ids(&a), [1, 2, 3]);
    fs::remove_file(dir.path().join("HEAD")).unwrap();
    record(&a, 4);
    record(&b, 5);
    assert_eq!(ids(&a), [1, 2, 3, 4, 5]);
    assert_eq!(ids(&b), [1, 2, 3, 4, 5]);
    assert_clean(dir.path());
}

#[test]
fn a_deleted_lock_still_excludes() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        Store::open(dir.path()).unwrap(),
        Store::open(dir.path()).unwrap(),
    );
    record(&a, 1);
    record(&b, 2);
    fs::remove_file(dir.path().join("LOCK")).unwrap();
    record(&a, 3);
    // Both now know the new file: while one has it, the other waits.
    let held = fs::OpenOptions::new()
        .write(true)
        .open(dir.path().join("LOCK"))
        .unwrap();
    held.lock().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| record(&b, 4));
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!waiting.is_finished(), "b wrote past the lock");
        held.unlock().unwrap();
    });
    assert_eq!(ids(&a), [1, 2, 3, 4]);
    assert_clean(dir.path());
}

#[test]
fn a_segment_that_was_replaced_is_read_again_and_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store, 1);
    record(&store, 2);
    // As `sed -i` does it: another file under the same name.
    let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
    let edited = fs::read_to_string(&segment)
        .unwrap()
        .replace("turn 1", "turn I");
    fs::write(segment.with_extension("new"), edited).unwrap();
    fs::rename(segment.with_extension("new"), &segment).unwrap();
    record(&store, 3);
    assert_eq!(ids(&store), [1, 2, 3]);
    assert_eq!(
        store.get_turn(Uuid::from_u128(1)).unwrap().unwrap().content,
        "turn I"
    );
    let found = verify(&Disk::new(dir.path())).unwrap();
    assert_eq!(found.damage.len(), 1, "the edit, and only it: {found:?}");
    assert_eq!(
        (found.good_lines, found.gaps.len(), found.repeats.len()),
        (2, 0, 0)
    );
}

#[test]
fn a_day_that_was_moved_away_gets_no_more_lines() {
    let dir = tempfile::tempdir().unwrap();
    let archive = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    record(&store, 1);
    fs::rename(path.join(DAY), archive.path().join(DAY)).unwrap();
    record(&store, 2);
    assert_eq!(ids(&store), [2]);
    let archived = archive
        .path()
        .join(DAY)
        .join("conversation_turns.0001.jsonl");
    assert_eq!(fs::read_to_string(archived).unwrap().lines().count(), 1);
    assert_eq!(ids(&Store::open(&path).unwrap()), [2]);
}

#[test]
fn a_day_that_was_copied_in_is_found() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(from.path()).unwrap();
    record(&store, 1);
    record(&store, 2);
    let other = Store::open(to.path()).unwrap();
    let next_day = ConversationTurn {
        created_at: Validity::at(NOON + 86_400_000),
        ..turn(3)
    };
    other.upsert_conversation_turn(next_day).unwrap();
    fs::create_dir(to.path().join(DAY)).unwrap();
    let name = format!("{DAY}/conversation_turns.0001.jsonl");
    fs::copy(from.path().join(&name), to.path().join(&name)).unwrap();
    other.refresh().unwrap();
    assert_eq!(ids(&other), [1, 2, 3]);
    record(&other, 4);
    assert_eq!(ids(&other), [1, 2, 4, 3]);
    // Both stores counted from 1.
    assert_eq!(verify(&Disk::new(to.path())).unwrap().repeats.len(), 1);
}

#[test]
fn a_truncated_segment_is_noticed_and_its_rest_kept() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=3 {
        record(&store, n);
    }
    let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
    let whole = fs::read(&segment).unwrap();
    let second = whole.iter().position(|b| *b == b'\n').unwrap() + 1;
    fs::OpenOptions::new()
        .write(true)
        .open(&segment)
        .unwrap()
        .set_len(second as u64)
        .unwrap();
    record(&store, 4);
    assert_eq!(ids(&store), [1, 4]);
    assert_eq!(fs::read(&segment).unwrap()[..second], whole[..second]);
}

#[test]
fn a_renamed_lock_still_excludes() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (
        Store::open(dir.path()).unwrap(),
        Store::open(dir.path()).unwrap(),
    );
    record(&a, 1);
    record(&b, 2);
    fs::rename(dir.path().join("LOCK"), dir.path().join("LOCK.bak")).unwrap();
    fs::rename(dir.path().join("HEAD"), dir.path().join("HEAD.bak")).unwrap();
    for n in 2..60 {
        record(&a, 2 * n);
        record(&b, 2 * n + 1);
    }
    assert_eq!(ids(&a), ids(&b));
    assert_clean(dir.path());
}

#[test]
fn a_segment_rewritten_in_place_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for n in 1..=3 {
        record(&store, n);
    }
    let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
    // Longer than before, under the same inode.
    let noted = fs::read_to_string(&segment)
        .unwrap()
        .replace(",\"crc\"", ",\"note\":\"by hand\",\"crc\"");
    fs::write(&segment, noted).unwrap();
    assert!(store.get_turn(Uuid::from_u128(2)).unwrap().is_some());
    record(&store, 4);
    assert_eq!(ids(&store), [1, 2, 3, 4]);
}

#[test]
fn a_flipped_number_neither_hides_what_came_later_nor_uses_numbers_up() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store, 1);
    record(&store, 2);
    drop(store);
    let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("\"seq\":1,", "\"seq\":9,", 1)).unwrap();
    let corrected = ConversationTurn {
        content: "corrected".into(),
        ..turn(1)
    };
    for opening in 0..3 {
        let store = Store::open(dir.path()).unwrap();
        let ack = store.record(corrected.clone()).unwrap();
        assert_eq!(ack.seq, 3, "at opening {opening}");
        assert_eq!(
            store.get_turn(Uuid::from_u128(1)).unwrap().unwrap().content,
            "corrected"
        );
        let seqs: Vec<u64> = store
            .last_lines(9)
            .unwrap()
            .iter()
            .map(|line| line.seq)
            .collect();
        assert_eq!(seqs, [1, 2, 3]);
    }
}

#[test]
fn a_line_that_holds_no_record_is_taken_out_whatever_its_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    record(&store, 1);
    record(&store, 2);
    let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
    let mut lines: Vec<String> = fs::read_to_string(&segment)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    let (covered, _) = lines[0].rsplit_once(",\"crc\"").unwrap();
    let covered = covered.replace("\"kind\":\"user\"", "\"kind\":\"poet\"");
    lines[0] = format!("{covered},\"crc\":\"{:08x}\"}}", crc32(covered.as_bytes()));
    fs::write(&segment, lines.join("\n") + "\n").unwrap();
    let found = verify(&Disk::new(dir.path())).unwrap();
    assert_eq!(found.damage.len(), 1, "{found:?}");
    let store = Store::open(dir.path()).unwrap();
    assert_eq!(store.repair(false).unwrap()[0].quarantined_lines, 1);
    assert_eq!(ids(&store), [2]);
    assert!(verify(&Disk::new(dir.path())).unwrap().damage.is_empty());
}

#[test]
fn a_repair_that_fails_anywhere_leaves_the_damaged_bytes_somewhere() {
    for failing in 0.. {
        let memory = Memory::new();
        let store = Store::options()
            .storage(Arc::new(memory.clone()))
            .open("")
            .unwrap();
        record(&store, 1);
        record(&store, 2);
        let segment = format!("{DAY}/conversation_turns.0001.jsonl");
        let bytes = memory.bytes(&segment).unwrap();
        memory.put_bytes(&segment, [b"damaged!\n", &bytes[..]].concat());
        let store = Store::options()
            .storage(Arc::new(memory.clone()))
            .open("")
            .unwrap();
        let fault = Fault::Error(std::io::ErrorKind::Other);
        memory.fail_at(memory.operations() + failing, fault);
        let repaired = store.repair(false);
        memory.heal();
        let quarantined = memory.read_dir("quarantine").unwrap_or_default();
        let copies = quarantined
            .iter()
            .map(|entry| format!("quarantine/{}", entry.name));
        let holds = |file: String| memory.bytes(&file).unwrap().starts_with(b"damaged!");
        assert!(
            copies.chain([segment]).any(holds),
            "operation {failing}: {repaired:?}"
        );
        if failing > 200 {
            return;
        }
    }
}

/// CRC-32 of ISO-HDLC, bit by bit: another way to the same number.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
