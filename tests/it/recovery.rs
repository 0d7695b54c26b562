//! Recovery after the files were damaged or edited: the store opens, reads all intact lines,
//! reports the rest with their positions, accepts new records, and never joins a new line to old
//! bytes. Only `repair` changes existing bytes, and it keeps what it removes.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use decklog::health::{Damage, DamageClass};
use decklog::import::Importer;
use decklog::query::TurnQuery;
use decklog::storage::{Access, Disk, Entry, FileStat, FileTimes, Memory, Storage, StorageFile};
use decklog::{AckStatus, Durability, ErrorKind, Kind, ObservabilityStore, Record, Store, verify};
use uuid::Uuid;

use super::anything::Mirror;
use super::support::{
    DAY_1, DAY_1_NAME, DAY_MS, Rng, Spy, all_lines, count, done, in_memory, request, still, turn,
};

const CALLS: &str = "2025-12-27/tool_calls.0001.jsonl";
const TURNS: &str = "2025-12-27/conversation_turns.0001.jsonl";

/// Three turns, two calls, on one day; sequence numbers 1 to 7.
fn records() -> Vec<Record> {
    let calls = [
        request(1, "call \"1\"", DAY_1),
        request(2, "call_2", DAY_1 + 1),
    ];
    vec![
        turn(1, "one", DAY_1).into(),
        calls[0].clone().into(),
        done(&calls[0]).into(),
        turn(2, "two \u{1F600}\n", DAY_1 + 1).into(),
        calls[1].clone().into(),
        turn(3, "three", DAY_1 + 2).into(),
        done(&calls[1]).into(),
    ]
}

fn sample() -> Memory {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    for record in records() {
        store.record(record).unwrap();
    }
    drop(store);
    memory
}

/// A copy of the files in new memory.
fn copy(memory: &Memory) -> Memory {
    let other = Memory::new();
    other.create_dir("").unwrap();
    other.create_dir(DAY_1_NAME).unwrap();
    for name in ["decklog.json", "HEAD", "LOCK", CALLS, TURNS] {
        if let Some(bytes) = memory.bytes(name) {
            other.put_bytes(name, bytes);
        }
    }
    other
}

fn to_disk(memory: &Memory, path: &Path) {
    fs::create_dir_all(path.join(DAY_1_NAME)).unwrap();
    for name in ["decklog.json", "HEAD", "LOCK", CALLS, TURNS] {
        if let Some(bytes) = memory.bytes(name) {
            fs::write(path.join(name), bytes).unwrap();
        }
    }
}

fn seqs(store: &Store) -> Vec<u64> {
    all_lines(store).into_iter().map(|(seq, _)| seq).collect()
}

fn line_bounds(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut start = 0;
    let mut bounds = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == b'\n' {
            bounds.push((start, at + 1));
            start = at + 1;
        }
    }
    bounds
}

fn classes(damage: &[Damage]) -> Vec<DamageClass> {
    damage.iter().map(|damage| damage.class).collect()
}

fn check_cut(storage: Arc<dyn Storage>, name: &str, cut: usize, case: &str) {
    let kind = if name == CALLS {
        Kind::ToolCalls
    } else {
        Kind::ConversationTurns
    };
    let whole = sample();
    let bounds = line_bounds(&whole.bytes(name).unwrap());
    let is_of = |record: &Record| record.kind() == kind;
    let of_kind: Vec<(u64, Record)> = (1..)
        .zip(records())
        .filter(|(_, record)| is_of(record))
        .collect();
    // A line that lacks only its LF is complete.
    let kept = bounds.iter().filter(|(_, end)| end - 1 <= cut).count();
    let torn_from = bounds
        .iter()
        .map(|(_, end)| *end)
        .filter(|end| *end <= cut)
        .max()
        .unwrap_or(0);
    let mut expected: Vec<(u64, Record)> = (1..)
        .zip(records())
        .filter(|(_, record)| !is_of(record))
        .collect();
    expected.extend(of_kind.iter().take(kept).cloned());
    expected.sort_by_key(|(seq, _)| *seq);

    let found = verify(&*storage).unwrap();
    let torn: Vec<_> = found
        .damage
        .iter()
        .map(|d| (d.class, d.offset, d.length))
        .collect();
    if torn_from == cut {
        assert_eq!(torn, [], "{case}");
    } else {
        let length = (cut - torn_from) as u64;
        assert_eq!(
            torn,
            [(DamageClass::Torn, torn_from as u64, length)],
            "{case}"
        );
    }

    let store = Store::options()
        .storage(Arc::clone(&storage))
        .open("")
        .unwrap();
    let next: Record = match kind {
        Kind::ToolCalls => request(9, "next", DAY_1).into(),
        _ => turn(9, "next", DAY_1).into(),
    };
    let last = expected.last().unwrap().0;
    let ack = store.record(next.clone()).unwrap();
    assert_eq!(ack.seq, last + 1, "{case}");
    expected.push((ack.seq, next));
    assert_eq!(all_lines(&store), expected, "{case}");
    drop(store);
    let store = Store::options()
        .storage(Arc::clone(&storage))
        .open("")
        .unwrap();
    assert_eq!(all_lines(&store), expected, "{case}, opened again");
    let found = verify(&*storage).unwrap();
    let left: Vec<_> = found
        .damage
        .iter()
        .map(|d| (d.class, d.offset, d.length))
        .collect();
    let is_whole = bounds.iter().any(|(_, end)| end - 1 == cut);
    if torn_from == cut || is_whole {
        assert_eq!(left, [], "{case}");
    } else {
        // The torn line was ended by an LF. It remains, on a line of its own.
        let length = (cut - torn_from) as u64;
        assert_eq!(
            left,
            [(DamageClass::Damaged, torn_from as u64, length)],
            "{case}"
        );
    }
    assert_eq!(found.good_lines, expected.len() as u64, "{case}");
}

#[test]
fn a_segment_cut_at_any_byte_keeps_every_line_before() {
    let step = count("DECKLOG_CUT_STEP", 5) as usize;
    let disk_step = count("DECKLOG_CUT_DISK_STEP", 29) as usize;
    let dir = tempfile::tempdir().unwrap();
    for name in [CALLS, TURNS] {
        let whole = sample();
        let bytes = whole.bytes(name).unwrap();
        let bounds = line_bounds(&bytes);
        for with_head in [true, false] {
            for cut in bounds[bounds.len() - 2].0..=bytes.len() {
                // At the end of a line, every byte is tried.
                if cut % step != 0 && !bounds.iter().any(|(_, end)| end.abs_diff(cut) < 3) {
                    continue;
                }
                let case = format!("{name} cut at {cut}, HEAD {with_head}");
                let memory = copy(&whole);
                memory.put_bytes(name, bytes[..cut].to_vec());
                if !with_head {
                    memory.remove_file("HEAD").unwrap();
                }
                if cut % disk_step == 0 {
                    let path = dir.path().join(case.replace('/', " "));
                    to_disk(&memory, &path);
                    check_cut(Arc::new(Disk::new(path)), name, cut, &case);
                }
                check_cut(Arc::new(memory), name, cut, &case);
            }
        }
    }
}

#[test]
fn every_flipped_bit_is_reported_and_the_other_lines_are_read() {
    let whole = sample();
    let step = count("DECKLOG_FLIP_STEP", 13) as usize;
    for name in [CALLS, TURNS] {
        let bytes = whole.bytes(name).unwrap();
        // The first line, with its LF. A wrong reading of it would affect all later lines.
        let (start, end) = line_bounds(&bytes)[0];
        let first_seq = if name == CALLS { 2 } else { 1 };
        for bit in (start * 8..end * 8).step_by(step) {
            let case = format!("{name}, bit {bit}");
            let memory = copy(&whole);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            memory.put_bytes(name, flipped);
            let found = verify(&memory).unwrap();
            assert!(!found.damage.is_empty(), "{case}");
            assert!(
                found.damage.iter().all(|damage| damage.file == name),
                "{case}"
            );
            assert!(found.damage[0].offset < end as u64, "{case}");

            let store = in_memory(&memory, Durability::Process);
            assert_eq!(store.damage().unwrap(), found.damage, "{case}");
            // Compared by key, because a flip in the sequence number changes the number.
            let is_lf = bit / 8 == end - 1;
            for (seq, record) in (1u64..).zip(records()) {
                if seq == first_seq && !is_lf {
                    continue;
                }
                let is_found = match &record {
                    Record::Turn(turn) => store.get_turn(turn.id).unwrap().as_ref() == Some(turn),
                    Record::CallRequested(req) => {
                        let call = store.get_tool_call(req.request_id, &req.call_id).unwrap();
                        call.is_some_and(|(known, _)| known == *req)
                    }
                    Record::CallDone(done) => {
                        let call = store.get_tool_call(done.request_id, &done.call_id).unwrap();
                        // If the request's line is the damaged one, its outcome is not listed.
                        call.map_or(first_seq == 2, |(_, known)| known.as_ref() == Some(done))
                    }
                    _ => unreachable!(),
                };
                assert!(is_found, "{case}: {record:?}");
            }
            let ack = store.record(turn(9, "next", DAY_1)).unwrap();
            assert!(ack.seq >= 8, "{case}: {ack:?}");
            drop(store);
            let store = in_memory(&memory, Durability::Process);
            assert!(
                store.get_turn(Uuid::from_u128(9)).unwrap().is_some(),
                "{case}"
            );
        }
    }
}

/// Bug: a line with the sequence number 0 made the whole store read as empty, and the next record
/// got number 1 again.
#[test]
fn a_line_that_claims_number_zero_hides_nothing() {
    let memory = sample();
    let text = String::from_utf8(memory.bytes(TURNS).unwrap()).unwrap();
    memory.put_bytes(
        TURNS,
        text.replacen("{\"seq\":1,", "{\"seq\":0,", 1).into_bytes(),
    );
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.list_conversation_since(0, 10).unwrap().len(), 2);
    assert_eq!(store.record(turn(9, "next", DAY_1)).unwrap().seq, 8);
    assert_eq!(store.list_conversation_since(0, 10).unwrap().len(), 3);
    drop(store);
    let found = verify(&memory).unwrap();
    assert_eq!(classes(&found.damage), [DamageClass::Altered]);
    assert_eq!(found.repeats, []);
}

/// The file as `jq -c -S` or a manual edit would rewrite it.
fn rewritten(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // serde_json sorts members by name.
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        out.extend(serde_json::to_vec(&value).unwrap());
        out.push(b'\n');
    }
    out
}

#[test]
fn rewritten_lines_are_read_reported_and_mended_when_accepted() {
    let memory = sample();
    for name in [CALLS, TURNS] {
        let bytes = rewritten(&memory.bytes(name).unwrap());
        memory.put_bytes(name, bytes);
    }
    let found = verify(&memory).unwrap();
    assert_eq!(classes(&found.damage), [DamageClass::Altered; 7]);
    assert_eq!((found.gaps, found.repeats), (vec![], vec![]));
    let store = in_memory(&memory, Durability::Process);
    let expected: Vec<_> = (1..).zip(records()).collect();
    assert_eq!(all_lines(&store), expected);
    let left = store.repair().unwrap();
    assert_eq!(
        left.iter().map(|one| one.altered_lines_left).sum::<u64>(),
        7
    );
    assert_eq!(
        classes(&verify(&memory).unwrap().damage),
        [DamageClass::Altered; 7]
    );
    let mended = store.repair_and_accept_edits().unwrap();
    assert_eq!(mended.iter().map(|one| one.restamped_lines).sum::<u64>(), 7);
    assert!(mended.iter().all(|one| one.quarantine.is_none()));
    assert!(verify(&memory).unwrap().is_clean());
    assert_eq!(all_lines(&store), expected);
    assert_eq!(store.record(turn(9, "next", DAY_1)).unwrap().seq, 8);
    assert!(verify(&memory).unwrap().is_clean());
}

#[test]
fn a_file_that_is_rewritten_under_an_open_store_is_read_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    to_disk(&sample(), &path);
    let stores = [Store::open(&path).unwrap(), Store::open(&path).unwrap()];
    stores[1].record(turn(4, "four", DAY_1)).unwrap();
    // As an editor saves: a new file, then a rename. The text of one turn is changed.
    let text = fs::read_to_string(path.join(TURNS)).unwrap();
    fs::write(
        path.join("edited"),
        text.replace("\"content\":\"one\"", "\"content\":\"EDITED!\""),
    )
    .unwrap();
    fs::rename(path.join("edited"), path.join(TURNS)).unwrap();
    for store in &stores {
        store.refresh().unwrap();
        let found = store.get_turn(Uuid::from_u128(1)).unwrap().unwrap();
        assert_eq!(found.content, "EDITED!");
        assert_eq!(classes(&store.damage().unwrap()), [DamageClass::Altered]);
    }
    assert_eq!(stores[0].record(turn(5, "five", DAY_1)).unwrap().seq, 9);
    assert!(stores[1].get_turn(Uuid::from_u128(5)).unwrap().is_some());
}

/// Bug: if an edit removed the last LF while the store was open, the next append ended the line but
/// did not index it. The record was missing until the store was opened again.
#[test]
fn an_lf_that_an_edit_took_is_given_back() {
    let memory = sample();
    let stores = [(), ()].map(|()| in_memory(&memory, Durability::Process));
    stores[0].record_batch([]).unwrap();
    let mut bytes = memory.bytes(TURNS).unwrap();
    assert_eq!(bytes.pop(), Some(b'\n'));
    memory.put_bytes(TURNS, bytes);
    assert_eq!(stores[0].record(turn(4, "four", DAY_1)).unwrap().seq, 8);
    for store in &stores {
        assert_eq!(store.list_conversation_since(0, 10).unwrap().len(), 4);
    }
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: a last line without LF that decklog had not written in this form, but that is valid once it
/// has its LF, was ended without being indexed. Its sequence number was assigned again, and its
/// record was missing until the store was reopened.
#[test]
fn an_edited_padded_or_glued_last_line_without_lf_counts_before_a_number_is_given() {
    let sample = sample();
    let calls = sample.bytes(CALLS).unwrap();
    let (last, end) = line_bounds(&calls)[3];
    let (before, last) = (&calls[..last], &calls[last..end - 1]);
    let edited = String::from_utf8_lossy(last).replace("latency_ms\":", "latency_ms\":   ");
    assert_ne!(edited.as_bytes(), last);
    let (second, second_end) = line_bounds(&calls)[2];
    let glued = [&before[..second], &calls[second..second_end - 1], last].concat();
    let cases = [
        ("edited", [before, edited.as_bytes()].concat()),
        ("padded", [before, last, &[0; 4096]].concat()),
        ("glued", glued),
    ];
    for (case, bytes) in cases {
        for is_open in [false, true] {
            let memory = copy(&sample);
            let open = || in_memory(&memory, Durability::Process);
            let stores = is_open.then(|| [open(), open()]);
            memory.put_bytes(CALLS, bytes.clone());
            let stores = stores.unwrap_or_else(|| [open(), open()]);
            for store in &stores {
                store.refresh().unwrap();
            }
            let next = request(3, "call_3", DAY_1);
            assert_eq!(stores[0].record(next).unwrap().seq, 8, "{case} {is_open}");
            for store in stores.iter().chain([&open()]) {
                assert_eq!(seqs(store), [1, 2, 3, 4, 5, 6, 7, 8], "{case} {is_open}");
                let outcome = store.get_tool_call(Uuid::from_u128(2), "call_2").unwrap();
                assert!(outcome.unwrap().1.is_some(), "{case} {is_open}");
                assert_eq!(
                    store.damage().unwrap(),
                    open().damage().unwrap(),
                    "{case} {is_open}"
                );
            }
            let found = verify(&memory).unwrap();
            assert_eq!(
                (found.gaps, found.repeats),
                (vec![], vec![]),
                "{case} {is_open}"
            );
        }
    }
}

/// The state after an edit while a store is open that has already written.
#[test]
fn a_glued_last_line_without_lf_is_repaired_to_the_byte() {
    let memory = sample();
    let store = in_memory(&memory, Durability::Process);
    store.record_batch([]).unwrap();
    let mut bytes = memory.bytes(CALLS).unwrap();
    let lines = line_bounds(&bytes);
    bytes.truncate(lines[3].1 - 1);
    bytes.remove(lines[2].1 - 1);
    memory.put_bytes(CALLS, bytes.clone());
    let repaired = store.repair().unwrap();
    assert_eq!(repaired.len(), 1);
    let taken_out = memory.bytes(repaired[0].quarantine.as_deref().unwrap());
    assert_eq!(taken_out.as_deref(), bytes.get(lines[2].0..));
    let len = (bytes.len() - lines[2].0) as u64;
    assert_eq!(
        (repaired[0].quarantined_lines, repaired[0].quarantined_bytes),
        (1, len)
    );
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: the handle that ended a torn line no longer reported it.
#[test]
fn a_torn_line_is_reported_also_by_who_ended_it() {
    let memory = sample();
    let mut bytes = memory.bytes(TURNS).unwrap();
    bytes.truncate(bytes.len() - 9);
    memory.put_bytes(TURNS, bytes);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(classes(&store.damage().unwrap()), [DamageClass::Torn]);
    store.record(turn(4, "four", DAY_1)).unwrap();
    assert_eq!(classes(&store.damage().unwrap()), [DamageClass::Damaged]);
}

/// Bug: after the highest possible sequence number came 0, which no reader accepts.
#[test]
fn after_the_greatest_sequence_number_nothing_is_written() {
    let memory = sample();
    let mut bytes = memory.bytes(TURNS).unwrap();
    let (start, end) = line_bounds(&bytes)[2];
    let text = String::from_utf8_lossy(&bytes[start..end - 19]).into_owned();
    let covered = text.replace("\"seq\":6", &format!("\"seq\":{}", u64::MAX));
    let crc = crc32fast::hash(covered.as_bytes());
    bytes.truncate(start);
    bytes.extend_from_slice(format!("{covered},\"crc\":\"{crc:08x}\"}}\n").as_bytes());
    memory.put_bytes(TURNS, bytes.clone());
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store).last(), Some(&u64::MAX));
    let refused = store.record(turn(4, "four", DAY_1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Damaged);
    assert_eq!(memory.bytes(TURNS).unwrap(), bytes);
}

/// Bug: a fragment of a damaged line with a valid checksum but without a record was put back by
/// each repair and removed again by the next.
#[test]
fn a_second_repair_finds_nothing_to_do() {
    let memory = sample();
    let mut bytes = memory.bytes(CALLS).unwrap();
    let covered = "{\"seq\":8,\"at\":1,\"op\":\"completed\",\"call_id\":\"a\":2";
    let crc = crc32fast::hash(covered.as_bytes());
    let no_record = format!("{covered},\"crc\":\"{crc:08x}\"}}");
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bytes.splice(first..first, no_record.into_bytes());
    memory.put_bytes(CALLS, bytes);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(store.repair().unwrap().len(), 1);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert!(verify(&memory).unwrap().is_clean());
    assert_eq!(store.repair().unwrap(), []);
}

/// Inserts `filler` between the second and the third turn. The lines around it must still be read.
fn between(filler: &[u8]) -> (Memory, Store) {
    let memory = sample();
    let bytes = memory.bytes(TURNS).unwrap();
    let at = line_bounds(&bytes)[1].1;
    memory.put_bytes(TURNS, [&bytes[..at], filler, &bytes[at..]].concat());
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(store.record(turn(9, "next", DAY_1)).unwrap().seq, 8);
    assert_eq!(store.list_conversation_since(0, 10).unwrap().len(), 4);
    (memory, store)
}

#[test]
fn foreign_bytes_between_lines_are_reported_and_put_in_quarantine() {
    let long = [vec![b'x'; 20 << 20], b"\n".to_vec()].concat();
    let fillers: [(&[u8], DamageClass); 9] = [
        (b"\n", DamageClass::Damaged),
        (b"\r\n", DamageClass::Damaged),
        (b"garbage\n", DamageClass::Damaged),
        (b"\xff\xfe\x00\n", DamageClass::Damaged),
        (b"\0\0\0\0", DamageClass::Damaged),
        (b"\xEF\xBB\xBF", DamageClass::Damaged),
        (b"{\"seq\":4,\"at\":17668\n", DamageClass::Damaged),
        (b"{\"a\":1}\n", DamageClass::Altered),
        (&long, DamageClass::TooLong),
    ];
    for (filler, class) in fillers {
        let shown = String::from_utf8_lossy(&filler[..filler.len().min(20)]).into_owned();
        let (memory, store) = between(filler);
        let before = memory.bytes(TURNS).unwrap();
        let found = verify(&memory).unwrap();
        assert_eq!(classes(&found.damage), [class], "{shown:?}");
        assert_eq!(store.damage().unwrap(), found.damage, "{shown:?}");
        assert_eq!(
            (&found.gaps, &found.repeats),
            (&vec![], &vec![]),
            "{shown:?}"
        );
        let repaired = store.repair().unwrap();
        assert_eq!(repaired.len(), 1, "{shown:?}");
        assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8], "{shown:?}");
        let found = verify(&memory).unwrap();
        if class == DamageClass::Altered {
            assert_eq!(repaired[0].altered_lines_left, 1);
            assert_eq!(classes(&found.damage), [class]);
        } else {
            assert!(found.is_clean(), "{shown:?}: {found:?}");
            let quarantine = memory
                .bytes(repaired[0].quarantine.as_ref().unwrap())
                .unwrap();
            assert_eq!(
                quarantine.len() as u64,
                repaired[0].quarantined_bytes,
                "{shown:?}"
            );
            let is_there = before
                .windows(quarantine.len())
                .any(|window| window == quarantine);
            assert!(class == DamageClass::TooLong || is_there, "{shown:?}");
        }
        assert_eq!(
            store.record(turn(10, "on", DAY_1)).unwrap().seq,
            9,
            "{shown:?}"
        );
    }
}

#[test]
fn lines_with_a_carriage_return_are_read_and_reported() {
    let memory = sample();
    let text = String::from_utf8(memory.bytes(TURNS).unwrap()).unwrap();
    memory.put_bytes(TURNS, text.replace('\n', "\r\n").into_bytes());
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(verify(&memory).unwrap().damage.len(), 3);
    store.repair_and_accept_edits().unwrap();
    assert!(verify(&memory).unwrap().is_clean());
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn a_tail_of_nul_bytes_stays_by_itself() {
    let memory = sample();
    let mut bytes = memory.bytes(TURNS).unwrap();
    bytes.resize(bytes.len() + 4096, 0);
    memory.put_bytes(TURNS, bytes);
    assert_eq!(
        classes(&verify(&memory).unwrap().damage),
        [DamageClass::Torn]
    );
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.record(turn(9, "next", DAY_1)).unwrap().seq, 8);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8]);
    let found = verify(&memory).unwrap();
    assert_eq!(classes(&found.damage), [DamageClass::Damaged]);
    assert_eq!(found.damage[0].length, 4096);
    let repaired = store.repair().unwrap();
    assert_eq!(repaired[0].quarantined_lines, 1);
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: if a complete last line was followed by bytes other than its LF, because the LF was in a
/// lost block or another program rewrote the line, the next append ended it. It then counted under
/// the number that was assigned to that append.
#[test]
fn a_last_line_that_is_not_ended_keeps_its_number() {
    let lost = [&b"\0"[..], &[0; 4096], b"garbage", b"J{\"seq\":8,"];
    let white = [&b"\r"[..], b" \t"];
    let pairs = |all: &[&[u8]], class| -> Vec<(Vec<u8>, DamageClass)> {
        all.iter().map(|after| (after.to_vec(), class)).collect()
    };
    let mut cases = pairs(&lost, DamageClass::Damaged);
    cases.extend(pairs(&white, DamageClass::Altered));
    for (after, class) in cases {
        check_unended(|line| [line, &after[..]].concat(), class);
        check_unended(
            |line| [b"\0\0", line, &after[..]].concat(),
            DamageClass::Damaged,
        );
    }
    check_unended(
        |line| {
            let mut edited = rewritten(line);
            edited.pop();
            edited
        },
        DamageClass::Altered,
    );
}

/// Replaces the last line of all, leaving it without an LF.
fn check_unended(harm: impl Fn(&[u8]) -> Vec<u8>, class: DamageClass) {
    let memory = sample();
    // The last turn is the second to last of all lines.
    let mut calls = memory.bytes(CALLS).unwrap();
    calls.truncate(line_bounds(&calls)[2].1);
    memory.put_bytes(CALLS, calls);
    let bytes = memory.bytes(TURNS).unwrap();
    let (start, end) = line_bounds(&bytes)[2];
    let harmed = harm(&bytes[start..end - 1]);
    memory.put_bytes(TURNS, [&bytes[..start], &harmed].concat());
    let case = String::from_utf8_lossy(&harmed).into_owned();
    let found = verify(&memory).unwrap();
    assert_eq!(classes(&found.damage), [DamageClass::Torn], "{case}");

    let store = in_memory(&memory, Durability::Process);
    let ack = store.record(turn(9, "next", DAY_1)).unwrap();
    assert_eq!(ack.seq, 7, "{case}");
    for store in [&store, &in_memory(&memory, Durability::Process)] {
        assert_eq!(seqs(store), [1, 2, 3, 4, 5, 6, 7], "{case}");
    }
    let found = verify(&memory).unwrap();
    assert_eq!((found.repeats, found.gaps), (vec![], vec![]), "{case}");
    assert_eq!(classes(&found.damage), [class], "{case}");
    store.repair_and_accept_edits().unwrap();
    assert!(verify(&memory).unwrap().is_clean(), "{case}");
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7], "{case}");
}

#[test]
fn a_segment_of_garbage_and_foreign_files_do_no_harm() {
    let memory = sample();
    let garbage: Vec<u8> = (0..100_000u32).map(|n| (n * 7 % 251) as u8).collect();
    memory.put_bytes("2025-12-27/tool_calls.0002.jsonl", garbage);
    for name in [
        "notes.txt",
        "tool_calls.jsonl",
        "tool_calls.0001.jsonl.bak",
        ".DS_Store",
    ] {
        memory.put_bytes(&format!("{DAY_1_NAME}/{name}"), b"{\"seq\":1}\n".to_vec());
    }
    memory.create_dir("not-a-day").unwrap();
    memory.put_bytes("not-a-day/tool_calls.0001.jsonl", b"x\n".to_vec());
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(store.record(request(9, "next", DAY_1)).unwrap().seq, 8);
    drop(store);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8]);
    let found = verify(&memory).unwrap();
    assert_eq!(found.foreign.len(), 4);
    assert!(!found.damage.is_empty());
    store.repair().unwrap();
    assert!(verify(&memory).unwrap().is_clean());
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8]);
}

/// Bug: after the highest possible segment number, numbering restarted at 0, a name that no reader
/// accepts. Records written there were lost when the store was reopened.
#[test]
fn the_last_number_for_a_segment_is_the_last() {
    let memory = sample();
    let bytes = memory.bytes(CALLS).unwrap();
    memory.remove_file(CALLS).unwrap();
    memory.put_bytes("2025-12-27/tool_calls.4294967295.jsonl", bytes);
    let options = Store::options().segment_bytes_max(1);
    let store = options
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap();
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    match store.record(request(9, "next", DAY_1)) {
        Ok(ack) => assert_eq!(ack.seq, 8),
        Err(e) => panic!("{e}"),
    }
    drop(store);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn two_days_in_one_file_and_a_file_past_the_limit_are_read() {
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    for (id, at) in (1..).zip([DAY_1, DAY_1 + DAY_MS, DAY_1 + 1, DAY_1 + DAY_MS + 1]) {
        store.record(turn(id, "", at)).unwrap();
    }
    drop(store);
    let other = "2025-12-28/conversation_turns.0001.jsonl";
    let glued = [memory.bytes(TURNS).unwrap(), memory.bytes(other).unwrap()].concat();
    memory.remove_file(other).unwrap();
    memory.put_bytes(TURNS, glued);
    let options = Store::options().segment_bytes_max(100);
    let store = options
        .storage(Arc::new(memory.clone()))
        .open("memory")
        .unwrap();
    let turns = store.turns(&TurnQuery::default()).unwrap().items;
    let ids: Vec<u128> = turns.iter().map(|turn| turn.id.as_u128()).collect();
    assert_eq!(ids, [1, 3, 2, 4]);
    assert_eq!(store.record(turn(5, "", DAY_1)).unwrap().seq, 5);
    assert!(
        memory
            .bytes("2025-12-27/conversation_turns.0002.jsonl")
            .is_some()
    );
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5]);
    // All records are present, but not as they were written.
    let found = verify(&memory).unwrap();
    assert_eq!((found.gaps.len(), found.repeats.len()), (0, 0));
    let classes: Vec<DamageClass> = found.damage.iter().map(|damage| damage.class).collect();
    let expected = [DamageClass::Altered, DamageClass::Misplaced];
    assert_eq!(classes, expected, "{:?}", found.damage);
}

#[test]
fn what_is_missing_beside_the_segments_is_made_again() {
    let contents: [Option<&[u8]>; 5] = [
        None,
        Some(b""),
        Some(b"garbage that is no HEAD"),
        Some(&[0; 10_000]),
        Some(b"{\"commits\":5,\"last_seq\":1,\"holder\":0}\n"),
    ];
    for name in ["HEAD", "LOCK"] {
        for content in contents {
            let memory = sample();
            memory.remove_file(name).unwrap();
            if let Some(content) = content {
                memory.put_bytes(name, content.to_vec());
            }
            let stores = [(), ()].map(|()| in_memory(&memory, Durability::Process));
            assert_eq!(seqs(&stores[0]), [1, 2, 3, 4, 5, 6, 7]);
            for id in 8..20u64 {
                let (one, two) = (&stores[id as usize % 2], &stores[(id as usize + 1) % 2]);
                assert_eq!(
                    one.record(turn(id.into(), "", DAY_1)).unwrap().seq,
                    id,
                    "{name} {content:?}"
                );
                assert!(two.get_turn(Uuid::from_u128(id.into())).unwrap().is_some());
            }
            assert!(verify(&memory).unwrap().is_clean());
        }
    }
    // The manifest is missing. The segments show that the directory is a store.
    let memory = sample();
    memory.remove_file("decklog.json").unwrap();
    let store = Store::options()
        .read_only(true)
        .storage(Arc::new(memory.clone()))
        .open("")
        .unwrap();
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    let store = in_memory(&memory, Durability::Process);
    assert_eq!(store.record(turn(9, "next", DAY_1)).unwrap().seq, 8);
    assert!(memory.bytes("decklog.json").is_some());
    assert!(verify(&memory).unwrap().is_clean());
}

/// HEAD is removed or damaged while handles are open.
#[test]
fn a_head_that_breaks_while_stores_are_open_hides_nothing() {
    let memory = sample();
    let stores = [(), (), ()].map(|()| in_memory(&memory, Durability::Process));
    let mut seq = 7;
    for round in 0..120u64 {
        match round % 4 {
            0 => memory.remove_file("HEAD").unwrap(),
            1 => memory.put_bytes("HEAD", Vec::new()),
            2 => memory.put_bytes("HEAD", vec![b'{'; 200]),
            _ => {}
        }
        for write in 0..round % 5 {
            seq += 1;
            let store = &stores[(round + write) as usize % 2];
            assert_eq!(store.record(turn(seq.into(), "", DAY_1)).unwrap().seq, seq);
        }
        // The third handle is read-only, and does not read each time.
        if round % 3 == 0 {
            assert_eq!(
                stores[2].last_lines(1).unwrap()[0].seq,
                seq,
                "round {round}"
            );
        }
    }
    assert!(verify(&memory).unwrap().is_clean());
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "hello").unwrap();
    assert_eq!(Store::open(&file).unwrap_err().kind(), ErrorKind::NotAStore);
    assert_eq!(
        Store::open(file.join("below")).unwrap_err().kind(),
        ErrorKind::NotAStore
    );
    assert_eq!(fs::read(&file).unwrap(), b"hello");

    let home = dir.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("letter.txt"), "dear").unwrap();
    let err = Store::open(&home).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotAStore);
    assert!(err.to_string().contains("letter.txt"), "{err}");
    assert_eq!(fs::read_dir(&home).unwrap().count(), 1);

    let nothing = dir.path().join("nothing");
    for options in [
        Store::options().create(false),
        Store::options().read_only(true),
    ] {
        assert_eq!(
            options.open(&nothing).unwrap_err().kind(),
            ErrorKind::NotAStore
        );
    }
    assert!(!nothing.exists());

    let newer = dir.path().join("newer");
    to_disk(&sample(), &newer);
    let id = Uuid::from_u128(1);
    fs::write(
        newer.join("decklog.json"),
        format!("{{\"format\":2,\"store_id\":\"{id}\",\"new\":[1]}}"),
    )
    .unwrap();
    let err = Store::open(&newer).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NewerFormat);
    assert!(err.to_string().contains("format 2"), "{err}");
    fs::write(newer.join("decklog.json"), "{}").unwrap();
    assert_eq!(Store::open(&newer).unwrap_err().kind(), ErrorKind::Damaged);
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const ENV: &str = "DECKLOG_UMASK_DIR";

    /// Does nothing unless the test below started it, with another umask or user.
    #[test]
    fn process_of_the_permission_tests() {
        let Ok(path) = std::env::var(ENV) else {
            return;
        };
        if std::env::var_os("DECKLOG_READ_ONLY").is_some() {
            let store = Store::options().read_only(true).open(&path).unwrap();
            assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
            let err = store.record(turn(9, "next", DAY_1)).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::ReadOnly);
            assert!(verify(&Disk::new(&path)).unwrap().is_clean());
            // Opening for writing fails.
            let err = Store::open(&path).unwrap_err();
            assert_eq!(err.kind(), ErrorKind::Io);
            return;
        }
        let store = Store::open(&path).unwrap();
        for record in records() {
            store.record(record).unwrap();
        }
        let name = Path::new(&path).join(TURNS);
        let mut bytes = fs::read(&name).unwrap();
        bytes.extend(b"garbage\n");
        fs::write(&name, bytes).unwrap();
        assert_eq!(store.repair().unwrap().len(), 1);
    }

    fn command(path: &Path, shell: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", shell])
            .arg("sh")
            .arg(std::env::current_exe().unwrap());
        command.args(["--exact", "recovery::unix::process_of_the_permission_tests"]);
        command.env(ENV, path).stdout(std::process::Stdio::null());
        command
    }

    fn modes(dir: &Path, found: &mut Vec<(PathBuf, u32)>) {
        found.push((
            dir.to_owned(),
            fs::metadata(dir).unwrap().permissions().mode() & 0o7777,
        ));
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                modes(&path, found);
            } else {
                let mode = fs::metadata(&path).unwrap().permissions().mode();
                found.push((path, mode & 0o7777));
            }
        }
    }

    #[test]
    fn files_are_private_whatever_the_umask() {
        for umask in ["0", "022", "0777"] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let shell = format!("umask {umask}; exec \"$@\"");
            assert!(
                command(&path, &shell).status().unwrap().success(),
                "{umask}"
            );
            let mut found = Vec::new();
            modes(&path, &mut found);
            assert!(found.len() >= 8, "{found:?}");
            for (path, mode) in found {
                let expected = if path.is_dir() { 0o700 } else { 0o600 };
                assert_eq!(mode, expected, "{} under umask {umask}", path.display());
            }
        }
    }

    #[test]
    fn a_directory_without_write_permission_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        to_disk(&sample(), &path);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for (name, mode) in [
            ("decklog.json", 0o444),
            ("HEAD", 0o444),
            ("LOCK", 0o444),
            (CALLS, 0o444),
            (TURNS, 0o444),
            (DAY_1_NAME, 0o555),
            ("", 0o555),
        ] {
            fs::set_permissions(path.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        // Root may write despite the permissions, so another user must try.
        let probe = fs::File::options()
            .append(true)
            .open(path.join(TURNS))
            .is_ok();
        let shell = if probe {
            "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$@\""
        } else {
            "exec \"$@\""
        };
        let can_run = !probe
            || Command::new("setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(std::env::current_exe().unwrap())
                .arg("--list")
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status()
                .is_ok_and(|status| status.success());
        if can_run {
            let status = command(&path, shell)
                .env("DECKLOG_READ_ONLY", "1")
                .status()
                .unwrap();
            assert!(status.success());
        } else {
            println!("skipped: no other user can run this binary");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(path.join(DAY_1_NAME), fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn read_only_writes_nothing() {
    let memory = sample();
    let before: Vec<_> = ["decklog.json", "HEAD", "LOCK", CALLS, TURNS]
        .map(|name| memory.bytes(name))
        .into();
    let store = Store::options()
        .read_only(true)
        .storage(Arc::new(memory.clone()))
        .open("")
        .unwrap();
    let writer = in_memory(&memory, Durability::Process);
    assert_eq!(
        store.record(turn(9, "", DAY_1)).unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(
        store.repair_and_accept_edits().unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7]);
    let after: Vec<_> = ["decklog.json", "HEAD", "LOCK", CALLS, TURNS]
        .map(|name| memory.bytes(name))
        .into();
    assert_eq!(before, after);
    // It sees the writes of other handles.
    writer.record(turn(9, "", DAY_1)).unwrap();
    assert_eq!(seqs(&store), [1, 2, 3, 4, 5, 6, 7, 8]);
    let _ = memory.open(TURNS, Access::Read).unwrap();
}

/// Bug: a newly created HEAD shows for a moment that no line was acknowledged. A handle that opened
/// or refreshed the store during that moment believed it, and read the store as empty.
#[test]
fn a_head_that_is_just_being_made_hides_nothing() {
    let memory = sample();
    memory.remove_file("HEAD").unwrap();
    // HEAD as the next writer sees it.
    let spy = Spy::new(memory.clone());
    let writer = Store::options()
        .storage(Arc::new(spy.clone()))
        .open("")
        .unwrap();
    let seen = Arc::new(Mutex::new(None));
    spy.hook({
        let (seen, memory) = (Arc::clone(&seen), memory.clone());
        move |operation, _| {
            if operation == "read_dir" {
                *seen.lock().unwrap() = memory.bytes("HEAD");
            }
            Ok(())
        }
    });
    writer.record_batch([]).unwrap();
    let interim = seen.lock().unwrap().take().unwrap();
    let settled = memory.bytes("HEAD").unwrap();
    assert_ne!(interim, settled);

    // HEAD changes during every read of this reader, as with many concurrent writers.
    let spy = Spy::new(memory.clone());
    memory.put_bytes("HEAD", interim.clone());
    spy.hook({
        let memory = memory.clone();
        move |operation, path| {
            if operation == "read_dir" && path.is_empty() {
                let is_interim = memory.bytes("HEAD").as_ref() == Some(&interim);
                let other = if is_interim { &settled } else { &interim };
                memory.put_bytes("HEAD", other.clone());
            }
            Ok(())
        }
    });
    let storage = Arc::new(spy.clone());
    let reader = Store::options().storage(storage).open("").unwrap();
    spy.unhook();
    assert_eq!(reader.list_conversation_since(0, 10).unwrap().len(), 3);
}

/// Bug: a recreated HEAD continued the commit count of the handle that created it. A handle that
/// had seen a higher count later found its own count in it, and took that to mean that nothing had
/// changed.
#[test]
fn a_head_that_was_made_anew_is_never_taken_for_the_one_before() {
    let memory = Memory::new();
    let stores = [(), ()].map(|()| in_memory(&memory, Durability::Process));
    let commits = || -> u64 {
        let head = memory.bytes("HEAD").unwrap();
        u64::from_le_bytes(head[8..16].try_into().unwrap())
    };
    stores[0].record(turn(1, "", DAY_1)).unwrap();
    let mut count = 1;
    for _ in 0..40 {
        count += 1;
        stores[1].record(turn(count, "", DAY_1)).unwrap();
    }
    let before = commits();
    memory.remove_file("HEAD").unwrap();
    for _ in 0..200 {
        count += 1;
        stores[0].record(turn(count, "", DAY_1)).unwrap();
        if commits() == before {
            break;
        }
    }
    let found = stores[1].list_conversation_since(0, 1_000).unwrap();
    assert_eq!(found.len() as u128, count);
}

/// Bug: a handle that had LOCK open when it was deleted kept locking the deleted file, while others
/// locked the new one. Two handles wrote at the same time.
#[test]
fn a_lock_file_that_was_deleted_locks_no_one_out_of_sight() {
    let memory = sample();
    let spy = Spy::new(memory.clone());
    let one = Store::options()
        .storage(Arc::new(spy.clone()))
        .open("")
        .unwrap();
    one.record(turn(8, "", DAY_1)).unwrap();
    memory.remove_file("LOCK").unwrap();
    let two = Store::options()
        .lock_timeout(Duration::from_millis(10))
        .storage(Arc::new(memory.clone()))
        .open("")
        .unwrap();
    two.record(turn(9, "", DAY_1)).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    spy.hook({
        let told = Arc::clone(&told);
        move |operation, _| {
            if operation == "append" {
                let answer = two.record(turn(10, "", DAY_1));
                told.lock().unwrap().push(answer.map_err(|e| e.kind()));
            }
            Ok(())
        }
    });
    assert_eq!(one.record(turn(11, "", DAY_1)).unwrap().seq, 10);
    assert_eq!(*told.lock().unwrap(), [Err(ErrorKind::Locked)]);
    assert!(verify(&memory).unwrap().is_clean());
}

/// Bug: after a segment was replaced, as `repair` does, a reader used offsets of the old file. It
/// returned errors, or wrong records in a list.
#[test]
fn a_segment_that_was_replaced_is_not_read_by_the_old_places() {
    let memory = Memory::new();
    let writer = in_memory(&memory, Durability::Process);
    for id in 1..=3 {
        writer.record(turn(id, "same", DAY_1 + id as i64)).unwrap();
    }
    let readers = [(), ()].map(|()| in_memory(&memory, Durability::Process));
    let bytes = memory.bytes(TURNS).unwrap();
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    lines.reverse();
    memory.remove_file(TURNS).unwrap();
    memory.put_bytes(TURNS, lines.concat());
    let listed = readers[0].list_conversation_since(0, 10).unwrap();
    let ids: Vec<u128> = listed.iter().map(|turn| turn.id.as_u128()).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert!(readers[1].get_turn(Uuid::from_u128(1)).unwrap().is_some());
}

/// A storage whose files report an old modification time, as after bit rot.
#[derive(Debug)]
struct Settled(Memory);

impl Storage for Settled {
    fn root(&self) -> &Path {
        self.0.root()
    }
    fn read_dir(&self, dir: &str) -> io::Result<Vec<Entry>> {
        self.0.read_dir(dir)
    }
    fn open(&self, path: &str, access: Access) -> io::Result<Arc<dyn StorageFile>> {
        self.0.open(path, access)
    }
    fn stat(&self, path: &str) -> io::Result<FileStat> {
        self.0.stat(path)
    }
    fn times(&self, _: &str) -> io::Result<Option<FileTimes>> {
        Ok(Some(FileTimes {
            modified_ns: 1,
            changed_ns: 1,
        }))
    }
    fn create_dir(&self, dir: &str) -> io::Result<bool> {
        self.0.create_dir(dir)
    }
    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.0.sync_dir(dir)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn set_read_only(&self, path: &str) -> io::Result<()> {
        self.0.set_read_only(path)
    }
    fn remove_file(&self, path: &str) -> io::Result<()> {
        self.0.remove_file(path)
    }
}

/// All ten kinds with every step of each, and the imported sample sessions: several days, and
/// several segments of the same day and kind. Closed with a sidecar.
fn everything() -> Memory {
    let memory = Memory::new();
    let options = still().sidecar_bytes_min(0).segment_bytes_max(8_000);
    let storage = Arc::new(Settled(memory.clone()));
    let store = options.storage(storage).open("memory").unwrap();
    let (mut mirror, mut rng) = (Mirror::default(), Rng(11));
    for nth in 0..90 {
        let record = mirror.any(&mut rng, Kind::ALL[nth % Kind::ALL.len()]);
        let ack = store.record(record.clone()).unwrap();
        if ack.status == AckStatus::Added {
            mirror.take(record, ack);
        }
    }
    let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    importer.path(&data).unwrap();
    importer.finish().unwrap();
    drop(store);
    assert!(memory.bytes("cache/index").is_some());
    memory
}

/// The paths of a store's segments.
fn segments(memory: &Memory) -> Vec<String> {
    let mut found = Vec::new();
    for dir in memory.read_dir("").unwrap() {
        if dir.is_dir && dir.name.starts_with(|c: char| c.is_ascii_digit()) {
            let names = memory.read_dir(&dir.name).unwrap().into_iter();
            found.extend(names.map(|file| format!("{}/{}", dir.name, file.name)));
        }
    }
    found
}

/// A store with only the segment at this path.
fn alone(memory: &Memory, path: &str) -> Memory {
    let other = Memory::new();
    other.create_dir("").unwrap();
    other.create_dir(path.split('/').next().unwrap()).unwrap();
    for name in ["decklog.json", path] {
        other.put_bytes(name, memory.bytes(name).unwrap());
    }
    other
}

fn read_only(storage: impl Storage + 'static) -> Store {
    let options = Store::options().read_only(true);
    options.storage(Arc::new(storage)).open("memory").unwrap()
}

fn texts(store: &Store) -> Vec<String> {
    let lines = store.last_lines(usize::MAX).unwrap().into_iter();
    lines.map(|line| line.text).collect()
}

/// Flips every bit of every line of every kind. The damage is reported by verify, by opening the
/// store, and by reading the line if a sidecar made opening skip it. All other lines are unchanged.
#[test]
fn every_flipped_bit_of_a_store_is_told() {
    let step = count("DECKLOG_BITS_STEP", 7_001) as usize;
    let whole = everything();
    let paths = segments(&whole);
    let kinds: BTreeSet<String> = paths
        .iter()
        .map(|path| path.split(['/', '.']).nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(kinds.len(), Kind::ALL.len());
    assert!(paths.iter().any(|path| path.contains(".0002.")));
    let (mut nth, mut bits, mut bytes_all) = (0, 0, 0);
    for path in &paths {
        let memory = alone(&whole, path);
        // With a sidecar that covers the segment.
        let options = still().sidecar_bytes_min(0);
        let settled = Arc::new(Settled(memory.clone()));
        drop(options.storage(settled).open("memory").unwrap());
        let sidecar = memory.bytes("cache/index").unwrap();
        let bytes = memory.bytes(path).unwrap();
        bytes_all += bytes.len();
        for (start, end) in line_bounds(&bytes) {
            let line = std::str::from_utf8(&bytes[start..end - 1]).unwrap();
            let others: Vec<&str> = std::str::from_utf8(&bytes)
                .unwrap()
                .lines()
                .filter(|other| *other != line)
                .collect();
            for bit in start * 8..end * 8 {
                nth += 1;
                if nth % step != 0 {
                    continue;
                }
                bits += 1;
                let case = format!("{path}, bit {bit}");
                let mut flipped = bytes.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                memory.put_bytes(path, flipped);

                let found = verify(&memory).unwrap().damage;
                let is_there = |damage: &Damage| {
                    let range = damage.offset..=damage.offset + damage.length;
                    damage.file == *path && range.contains(&(bit as u64 / 8))
                };
                assert!(found.iter().any(is_there), "{case}: {found:?}");

                memory.remove_file("cache/index").unwrap();
                let opened = read_only(memory.clone());
                let told = opened.damage().unwrap();
                assert!(told.iter().any(is_there), "{case}: {told:?}");
                memory.put_bytes("cache/index", sidecar.clone());

                let covered = read_only(Settled(memory.clone()));
                assert_eq!(covered.damage().unwrap(), [], "{case}");
                for store in [&covered, &opened] {
                    let texts = texts(store);
                    let is_kept = |other: &&&str| texts.iter().any(|text| text == **other);
                    let kept = others.iter().filter(is_kept).count();
                    assert_eq!(kept, others.len(), "{case}");
                }
                let told = covered.damage().unwrap();
                assert!(told.iter().any(is_there), "{case}: {told:?}");
            }
        }
        memory.put_bytes(path, bytes);
    }
    println!(
        "{bits} of {} bits in {} segments, of {} kinds",
        bytes_all * 8,
        paths.len(),
        kinds.len()
    );
}

/// Cuts every segment of this store at every byte.
#[test]
fn every_cut_of_a_store_leaves_what_was_before() {
    let step = count("DECKLOG_CUTS_STEP", 997) as usize;
    let whole = everything();
    let (mut nth, mut cuts) = (0, 0);
    for path in segments(&whole) {
        let memory = alone(&whole, &path);
        let bytes = memory.bytes(&path).unwrap();
        let bounds = line_bounds(&bytes);
        for cut in 0..bytes.len() {
            nth += 1;
            if nth % step != 0 {
                continue;
            }
            cuts += 1;
            let case = format!("{path}, cut at {cut}");
            memory.put_bytes(&path, bytes[..cut].to_vec());
            let kept: Vec<(usize, usize)> = bounds
                .iter()
                .copied()
                .filter(|(_, end)| *end <= cut)
                .collect();
            let end = kept.last().map_or(0, |(_, end)| *end);
            let expected: Vec<&[u8]> = kept
                .iter()
                .map(|(start, end)| &bytes[*start..end - 1])
                .collect();
            let found = verify(&memory).unwrap();
            let torn: Vec<_> = found
                .damage
                .iter()
                .map(|one| (one.class, one.offset))
                .collect();
            let tail = (cut > end).then_some((DamageClass::Torn, end as u64));
            assert_eq!(torn, Vec::from_iter(tail), "{case}");
            let store = read_only(memory.clone());
            assert_eq!(store.damage().unwrap(), found.damage, "{case}");
            let texts = texts(&store);
            let texts: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            assert_eq!(texts, expected, "{case}");
        }
    }
    println!("{cuts} of {nth} cuts");
}

/// Flips every bit of `HEAD` and of the manifest, and cuts them at every length. The result is a
/// clear error, or the same store.
#[test]
fn a_head_or_manifest_that_is_harmed_hides_nothing() {
    let step = count("DECKLOG_FLIP_STEP", 61) as usize;
    let whole = sample();
    let expected: Vec<_> = (1..).zip(records()).collect();
    let mut cases = [0, 0];
    for name in ["HEAD", "decklog.json"] {
        let bytes = whole.bytes(name).unwrap();
        let flips = (0..bytes.len() * 8).step_by(step).map(|bit| {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            (format!("{name}, bit {bit}"), flipped)
        });
        let cuts = (0..bytes.len()).step_by(step.div_ceil(4));
        let cuts = cuts.map(|cut| (format!("{name}, cut at {cut}"), bytes[..cut].to_vec()));
        for (case, harmed) in flips.chain(cuts) {
            let memory = copy(&whole);
            let before = in_memory(&memory, Durability::Process);
            before.record_batch([]).unwrap();
            memory.put_bytes(name, harmed);
            let open = |read_only| {
                let options = Store::options().read_only(read_only);
                options.storage(Arc::new(memory.clone())).open("memory")
            };
            let store = match open(false) {
                Ok(store) => store,
                Err(e) => {
                    assert_eq!(name, "decklog.json", "{case}: {e}");
                    let kinds = [ErrorKind::Damaged, ErrorKind::NewerFormat];
                    assert!(kinds.contains(&e.kind()), "{case}: {e}");
                    assert!(e.path().unwrap().ends_with(name), "{case}: {e}");
                    // A read-only handle reports the damage, and continues to read if that is safe.
                    match verify(&memory) {
                        Ok(found) => {
                            assert_eq!(e.kind(), ErrorKind::Damaged, "{case}");
                            assert_eq!(found.damage[0].file, name, "{case}");
                            assert!(open(true).is_ok(), "{case}");
                        }
                        Err(found) => assert_eq!(
                            (found.kind(), e.kind()),
                            (ErrorKind::NewerFormat, ErrorKind::NewerFormat),
                            "{case}"
                        ),
                    }
                    cases[1] += 1;
                    continue;
                }
            };
            cases[0] += 1;
            let reader = open(true).unwrap();
            for store in [&reader, &store, &before] {
                assert_eq!(all_lines(store), expected, "{case}");
            }
            for (store, id) in [(&store, 8), (&before, 9), (&store, 10)] {
                let ack = store.record(turn(id, "next", DAY_1)).unwrap();
                assert_eq!(u128::from(ack.seq), id, "{case}");
                for other in [&reader, store, &before] {
                    let found = other.get_turn(Uuid::from_u128(id)).unwrap();
                    assert!(found.is_some(), "{case}");
                }
            }
            drop((before, store));
            assert!(verify(&memory).unwrap().is_clean(), "{case}");
        }
    }
    println!("{} the same, {} refused", cases[0], cases[1]);
    assert!(cases[0] > 0 && cases[1] > 0);
}

/// Sets the flag when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Files are truncated again and again while stores are open, which is not allowed. Segments are
/// read with calls that can fail, never mapped, so a truncation does not kill the process. Only
/// `HEAD` is mapped, and must not be truncated.
#[test]
fn no_process_dies_of_files_that_are_cut_under_it() {
    let rounds = count("DECKLOG_TRUNCATE_ROUNDS", 300);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let options = || still().sidecar_bytes_min(0).segment_bytes_max(3_000);
    let manifest = {
        let store = options().open(&path).unwrap();
        for record in records() {
            store.record(record).unwrap();
        }
        drop(store);
        fs::read(path.join("decklog.json")).unwrap()
    };
    let stores = [(), ()].map(|()| options().open(&path).unwrap());
    let (is_over, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    // Set to slow the writer down. A reader never finishes a store that grows at full speed.
    let is_long = AtomicBool::new(false);
    let mut rng = Rng::seeded("files that are cut");
    let check = |e: decklog::Error| {
        let kinds = [ErrorKind::Io, ErrorKind::Damaged];
        assert!(kinds.contains(&e.kind()), "{e}");
    };
    let counts = std::thread::scope(|scope| {
        // The other threads must also end if this one fails.
        let _end = End(&is_over);
        let writer = scope.spawn(|| {
            let mut written = 0;
            for id in 100.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                if is_long.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let at = DAY_1 + (id % 2) as i64 * DAY_MS;
                match stores[0].record(turn(id, "more", at)) {
                    Ok(_) => written += 1,
                    Err(e) => check(e),
                }
            }
            written
        });
        let reader = scope.spawn(|| {
            let mut read = 0;
            while !is_over.load(Ordering::Relaxed) {
                for store in &stores {
                    let answers = [
                        store.turns(&TurnQuery::default()).map(|_| ()),
                        store.last_lines(50).map(|_| ()),
                        store.get_turn(Uuid::from_u128(1)).map(|_| ()),
                        store.damage().map(|_| ()),
                        store.refresh(),
                        verify(&Disk::new(&path)).map(|_| ()),
                    ];
                    for answer in answers {
                        match answer {
                            Ok(()) => {
                                read += 1;
                                reads.store(read, Ordering::Relaxed);
                            }
                            Err(e) => check(e),
                        }
                    }
                }
            }
            read
        });
        let mut cuts = 0;
        while cuts < rounds || reads.load(Ordering::Relaxed) < rounds / 4 {
            cuts += 1;
            // Fail if no read finishes. Otherwise the files would grow without limit.
            assert!(cuts < rounds * 100, "there is no time to read");
            if cuts > rounds {
                is_long.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
            let storage = Disk::new(&path);
            let mut files = vec!["LOCK".to_owned(), "decklog.json".to_owned()];
            files.push("cache/index".to_owned());
            for dir in storage
                .read_dir("")
                .unwrap()
                .iter()
                .filter(|dir| dir.is_dir)
            {
                let names = storage.read_dir(&dir.name).unwrap().into_iter();
                files.extend(names.map(|file| format!("{}/{}", dir.name, file.name)));
            }
            let name = rng.pick(&files);
            if let Ok(file) = fs::File::options().write(true).open(path.join(name)) {
                let len = file.metadata().unwrap().len() as usize;
                file.set_len(rng.below(len + 1) as u64).unwrap();
            }
            if name == "decklog.json" {
                fs::write(path.join(name), &manifest).unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        [cuts, writer.join().unwrap(), reader.join().unwrap()]
    });
    println!(
        "{} cuts, {} records written, {} reads",
        counts[0], counts[1], counts[2]
    );
    drop(stores);
    let store = options().open(&path).unwrap();
    store.repair_and_accept_edits().unwrap();
    store.record(turn(50, "on", DAY_1)).unwrap();
    assert!(store.get_turn(Uuid::from_u128(50)).unwrap().is_some());
    assert_eq!(verify(&Disk::new(&path)).unwrap().damage, []);
}

/// One process leaves a torn line, cut at any byte and possibly followed by other leftovers.
/// Another process appends. Its line is intact, and the torn line stays separate and is reported.
#[test]
fn what_one_process_left_torn_is_never_glued_to_what_another_writes() {
    let step = count("DECKLOG_TORN_STEP", 37) as usize;
    let whole = sample();
    let bytes = whole.bytes(TURNS).unwrap();
    let bounds = line_bounds(&bytes);
    // The line with a four-byte character.
    let (start, end) = bounds[1];
    let (kept, line) = (&bytes[..start], &bytes[start..end - 1]);
    assert!(!line.is_ascii());
    let next = format!(
        "{{\"kind\":\"conversation_turns\",\"id\":\"{}\",\"message_id\":\"{}\",\"turn_kind\":\"user\",\"content\":\"next\",\"created_at\":{DAY_1}}}\n",
        Uuid::from_u128(9),
        Uuid::from_u128(10),
    );
    let (mut nth, mut cases) = (0, 0);
    let tails: [&[u8]; 4] = [b"", b"\r", b"\xf0\x9f", b"\0\0\0"];
    for after in tails {
        for cut in 0..=line.len() {
            nth += 1;
            // Near the end of the line, every byte is tried.
            if nth % step != 0 && cut < line.len() {
                continue;
            }
            cases += 1;
            let case = format!("cut at {cut}, then {after:?}");
            let torn = [&line[..cut], after].concat();
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            to_disk(&whole, &path);
            let calls = whole.bytes(CALLS).unwrap();
            let first_two = line_bounds(&calls)[1].1;
            fs::write(path.join(CALLS), &calls[..first_two]).unwrap();
            fs::write(path.join(TURNS), kept).unwrap();
            // Written by a process that has exited by then.
            let left = Command::new("sh")
                .args(["-c", "cat >> \"$0\""])
                .arg(path.join(TURNS))
                .stdin(std::process::Stdio::piped())
                .spawn();
            feed(left.unwrap(), &torn);

            let found = verify(&Disk::new(&path)).unwrap();
            let told: Vec<_> = found
                .damage
                .iter()
                .map(|one| (one.class, one.offset, one.length))
                .collect();
            let expected = (DamageClass::Torn, start as u64, torn.len() as u64);
            assert_eq!(
                told,
                if torn.is_empty() {
                    vec![]
                } else {
                    vec![expected]
                },
                "{case}"
            );

            let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
            command.arg("--store").arg(&path).args(["record", "--ack"]);
            command
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped());
            command.stderr(std::process::Stdio::null());
            let answer = feed(command.spawn().unwrap(), next.as_bytes());
            assert!(answer.contains("\"status\":\"added\""), "{case}: {answer}");

            let now = fs::read(path.join(TURNS)).unwrap();
            let lf: &[u8] = if torn.is_empty() { b"" } else { b"\n" };
            let before = [kept, &torn, lf].concat();
            assert!(now.starts_with(&before), "{case}");
            let added = std::str::from_utf8(&now[before.len()..]).unwrap();
            assert_eq!(added.lines().count(), 1, "{case}");
            assert!(
                added.ends_with("\"}\n") && added.contains("\"content\":\"next\""),
                "{case}"
            );

            // The torn line counts if it was complete.
            let is_whole = cut == line.len();
            let expected: Vec<u64> = (1..=4 + u64::from(is_whole)).collect();
            assert_eq!(seqs(&Store::open(&path).unwrap()), expected, "{case}");
            let found = verify(&Disk::new(&path)).unwrap();
            let is_clean = torn.is_empty() || is_whole && after.is_empty();
            assert_eq!(
                found.damage.len(),
                usize::from(!is_clean),
                "{case}: {found:?}"
            );
            if let Some(damage) = found.damage.first() {
                assert_eq!(
                    (damage.offset, damage.length),
                    (start as u64, torn.len() as u64),
                    "{case}"
                );
            }
            assert_eq!(found.repeats, [], "{case}");
        }
    }
    println!("{cases} of {nth} torn lines");
}

/// Writes the input to a process, waits for its end, and returns its output.
fn feed(mut child: std::process::Child, input: &[u8]) -> String {
    use std::io::Write as _;
    // First, before anything that can fail, so that the process ends.
    let mut stdin = child.stdin.take().unwrap();
    let is_written = stdin.write_all(input);
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    is_written.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// `HEAD` is memory shared by processes, and must not be truncated while they use it. Between uses,
/// each process checks the file before it accesses the mapping, and recreates it if it was
/// truncated.
#[test]
fn a_head_that_is_cut_while_no_one_uses_it_ends_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let stores = [(), ()].map(|()| Store::open(&path).unwrap());
    let reader = Store::options().read_only(true).open(&path).unwrap();
    let mut id = 0;
    for len in [0, 8, 100, 1_599] {
        for store in &stores {
            id += 1;
            assert_eq!(
                u128::from(store.record(turn(id, "", DAY_1)).unwrap().seq),
                id
            );
        }
        assert_eq!(reader.last_lines(1).unwrap().len(), 1);
        // Wait until no process holds the lock.
        let holder = || fs::read(path.join("HEAD")).unwrap()[24..32].to_vec();
        let started = Instant::now();
        while holder() != [0; 8] {
            assert!(
                started.elapsed() < Duration::from_secs(30),
                "the lock is kept"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(1));
        let head = fs::File::options()
            .write(true)
            .open(path.join("HEAD"))
            .unwrap();
        head.set_len(len).unwrap();
        let seqs: Vec<u64> = (1..=id as u64).collect();
        for store in [&reader, &stores[0], &stores[1]] {
            assert_eq!(self::seqs(store), seqs, "cut at {len}");
        }
    }
    drop(stores);
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}

/// Bug: all segments that had to be read stayed open until the last one was read. A store of a few
/// months with several kinds of records could not be opened under the usual limit of 1,024 files.
#[cfg(unix)]
#[test]
fn more_segments_than_files_can_be_open_are_read() {
    const SEGMENTS: u128 = 700;
    let memory = Memory::new();
    let store = in_memory(&memory, Durability::Process);
    let turns = (0..SEGMENTS).map(|id| turn(id + 1, "", DAY_1 + id as i64 * DAY_MS).into());
    store.record_batch(turns).unwrap();
    drop(store);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    for name in segments(&memory)
        .iter()
        .map(String::as_str)
        .chain(["decklog.json"])
    {
        let file = path.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, memory.bytes(name).unwrap()).unwrap();
    }
    for args in [&["turns", "--limit", "1000", "--json"][..], &["verify"]] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -n 400; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_decklog"))
            .arg("--store")
            .arg(&path)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        if args[0] == "turns" {
            let lines = output.stdout.split(|byte| *byte == b'\n').count() as u128;
            assert_eq!(lines, SEGMENTS + 1);
        }
    }
}
