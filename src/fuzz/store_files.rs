//! Invariants for arbitrary bytes in the files of a store, for fuzzers.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::collections::{
    AckStatus, CallQuery, ConversationQuery, EventQuery, MessageQuery, ProposalQuery, RollupQuery,
    TaskQuery, TurnQuery,
};
use crate::error::{ErrorKind, Result};
use crate::line::fuzz_check::with_checksums;
use crate::record::{
    ConversationMessage, ConversationTurn, Day, Event, HistoryEntry, Kind, Record, Role, Timestamp,
    ToolCallReq, TurnKind, Validity,
};
use crate::segment::{DamageClass, SegmentName, list};
use crate::storage::{Access, Memory, Storage, read_full};
use crate::store::check::{read_manifest, sealed_sidecar};
use crate::store::{Store, Verification, verify};

/// The separator between the files of an input.
const BETWEEN_FILES: &[u8] = b"\x1e%";
const STORE_ID: Uuid = Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
const DAY_1_MS: i64 = 1_766_832_000_000;
const DAY_MS: i64 = 86_400_000;
const DAYS: u8 = 3;
const NUMBERS: u8 = 2;

/// Checks the invariants with these bytes as the manifest.
///
/// # Panics
/// If an invariant does not hold.
pub(super) fn any_manifest(bytes: &[u8]) {
    let memory = Memory::new();
    memory.create_dir("").unwrap();
    memory.put_bytes("decklog.json", bytes.to_vec());
    let verified = verify(&memory);
    let read_only = Store::options()
        .storage(Arc::new(memory.clone()))
        .read_only(true);
    let opened = read_only.open("in memory").map(drop);
    match read_manifest(&memory) {
        Ok(Some(manifest)) => {
            assert!(verified.unwrap().is_clean());
            opened.unwrap();
            manifest.write(&memory).unwrap();
            let again = memory.bytes("decklog.json").unwrap();
            let manifest = read_manifest(&memory).unwrap().unwrap();
            manifest.write(&memory).unwrap();
            assert_eq!(memory.bytes("decklog.json").unwrap(), again);
            let store = Store::options()
                .storage(Arc::new(memory.clone()))
                .open("in memory");
            assert_eq!(store.unwrap().record(turn(1)).unwrap().seq, 1);
            assert_eq!(memory.bytes("decklog.json").unwrap(), again);
        }
        Ok(None) => panic!("the manifest is there"),
        Err(e) => {
            let kinds = [ErrorKind::Damaged, ErrorKind::NewerFormat];
            assert!(kinds.contains(&e.kind()), "{e}");
            assert_eq!(verified.unwrap_err().kind(), e.kind());
            assert_eq!(opened.unwrap_err().kind(), e.kind());
            let store = Store::options()
                .storage(Arc::new(memory.clone()))
                .open("in memory");
            assert_eq!(store.unwrap_err().kind(), e.kind());
            // The damaged manifest is not changed, so that it can be restored.
            assert_eq!(memory.bytes("decklog.json").unwrap(), bytes);
        }
    }
}

/// Checks the invariants with these bytes as the files of a store: reading, writing, reopening and
/// repair. The first byte selects the mode. The files follow, each after a byte that selects its
/// name.
///
/// # Panics
/// If an invariant does not hold.
pub(super) fn any_store(data: &[u8]) {
    let Some((mode, files)) = data.split_first() else {
        return;
    };
    let is_set = |bit: u32| mode >> bit & 1 == 1;
    let memory = Memory::new();
    memory.create_dir("").unwrap();
    let manifest = format!("{{\"format\":1,\"store_id\":\"{STORE_ID}\"}}\n");
    memory.put_bytes("decklog.json", manifest.into_bytes());
    // Set if the sidecar has a valid checksum. It is trusted then, whatever it contains.
    let mut is_believed = false;
    let mut rest = Some(files);
    while let Some(from) = rest {
        let between = memchr::memmem::find(from, BETWEEN_FILES);
        let file = between.map_or(from, |at| &from[..at]);
        rest = between.map(|at| &from[at + BETWEEN_FILES.len()..]);
        let Some((name, bytes)) = file.split_first() else {
            continue;
        };
        match name {
            0xFF => memory.put_bytes("HEAD", bytes.to_vec()),
            0xFE => {
                memory.create_dir("cache").unwrap();
                memory.put_bytes("cache/index", bytes.to_vec());
            }
            0xFD => {
                is_believed = true;
                memory.create_dir("cache").unwrap();
                memory.put_bytes("cache/index", sealed_sidecar(STORE_ID, bytes));
            }
            name => {
                let name = segment_name(*name);
                memory.create_dir(&name.day.to_string()).unwrap();
                let bytes = bytes.to_vec();
                let bytes = if is_set(0) {
                    bytes
                } else {
                    with_checksums(bytes)
                };
                memory.put_bytes(&name.path(), bytes);
            }
        }
    }

    let found = verify(&memory).unwrap();
    let before = segments(&memory);
    let told = read_only(&memory, (!is_believed).then_some(&found));
    assert_eq!(segments(&memory), before);
    if is_believed {
        // Answers may be wrong, but nothing fails.
        written(&memory, *mode, None);
        return;
    }
    written(&memory, *mode, Some((&found, &told)));
    repaired(&memory, is_set(1));
}

fn segment_name(byte: u8) -> SegmentName {
    let kinds = Kind::ALL.len() as u8;
    let (day, number) = (byte / kinds % DAYS, byte / kinds / DAYS % NUMBERS);
    SegmentName {
        day: Day::of(DAY_1_MS + i64::from(day) * DAY_MS).unwrap(),
        kind: Kind::ALL[usize::from(byte % kinds)],
        number: u32::from(number) + 1,
    }
}

/// The bytes of every segment.
fn segments(memory: &Memory) -> BTreeMap<String, Vec<u8>> {
    let names = list(memory).unwrap().segments;
    let paths = names.into_iter().map(SegmentName::path);
    paths
        .map(|path| (path.clone(), memory.bytes(&path).unwrap()))
        .collect()
}

fn open(memory: &Memory, sidecar_bytes_min: u64) -> Store {
    let options = Store::options()
        .storage(Arc::new(memory.clone()))
        .sidecar_bytes_min(sidecar_bytes_min);
    options.open("in memory").unwrap()
}

/// A read-only handle reads all records and reports all damage.
fn read_only(memory: &Memory, found: Option<&Verification>) -> Vec<String> {
    let options = Store::options()
        .storage(Arc::new(memory.clone()))
        .read_only(true);
    let store = options.open("in memory").unwrap();
    let told = everything(&store);
    let damage = store.damage().unwrap();
    let refused = store.record(turn(1)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let Some(found) = found else {
        return told;
    };
    // Verification also decodes records, so for some lines it reports more.
    for one in &damage {
        let is_found = found.damage.iter().any(|other| {
            let range = one.offset..=one.offset + one.length;
            other.file == one.file && range.contains(&other.offset)
        });
        assert!(is_found, "{one:?} {found:?}");
    }
    for one in &found.damage {
        let is_told = damage.contains(one);
        // A line with a valid checksum has the bytes that were written.
        assert!(
            is_told || is_intact_at(memory, &one.file, one.offset),
            "{one:?} {damage:?}"
        );
    }
    told
}

fn is_intact_at(memory: &Memory, file: &str, offset: u64) -> bool {
    let file = memory.open(file, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.stat().unwrap().len - offset).unwrap()];
    read_full(&*file, &mut bytes, offset).unwrap();
    crate::line::piece_at(&bytes).is_some()
}

/// The highest sequence number that verification accepts.
fn seq_max(memory: &Memory) -> u64 {
    let store = open(memory, u64::MAX);
    let lines = store.last_lines(usize::MAX).unwrap();
    lines.iter().map(|line| line.seq).max().unwrap_or(0)
}

/// Records are appended after the existing bytes, can be read afterwards, and change none of the
/// existing bytes.
fn written(memory: &Memory, mode: u8, sound: Option<(&Verification, &[String])>) {
    let before = segments(memory);
    let sidecar_bytes_min = if mode >> 2 & 1 == 1 { 0 } else { u64::MAX };
    let store = open(memory, sidecar_bytes_min);
    if let Some((_, told)) = sound {
        assert_eq!(everything(&store), told);
    }
    let last = if sound.is_some() { seq_max(memory) } else { 0 };
    // Acts as another process that alternates with this one.
    let other = open(memory, u64::MAX);
    let mut acknowledged = Vec::new();
    let mut previous = last;
    for (turn, record) in records().into_iter().enumerate() {
        let writer = if turn % 2 == 0 { &store } else { &other };
        match writer.record(record.clone()) {
            Ok(ack) => {
                if ack.status == AckStatus::Added && sound.is_some() {
                    assert!(ack.seq > previous, "{} after {previous}", ack.seq);
                    previous = ack.seq;
                }
                acknowledged.push((record, ack.seq));
            }
            Err(e) => {
                let kinds = [
                    ErrorKind::Conflict,
                    ErrorKind::Lifecycle,
                    ErrorKind::NotFound,
                    ErrorKind::Damaged,
                ];
                assert!(sound.is_none() || kinds.contains(&e.kind()), "{e}");
            }
        }
    }
    if let Err(error) = further(&store) {
        let kinds = [
            ErrorKind::Conflict,
            ErrorKind::Lifecycle,
            ErrorKind::NotFound,
            ErrorKind::Damaged,
        ];
        assert!(sound.is_none() || kinds.contains(&error.kind()), "{error}");
    }
    for (path, bytes) in &before {
        assert!(memory.bytes(path).unwrap().starts_with(bytes), "{path}");
    }
    let told = everything(&store);
    if sound.is_none() {
        return;
    }
    assert_eq!(everything(&other), told);
    drop(other);
    drop(store);
    // Other handles read the same, with the sidecar of the last writer and without one.
    let store = open(memory, u64::MAX);
    assert_eq!(everything(&store), told);
    let lines = store.last_lines(usize::MAX).unwrap();
    for (record, seq) in acknowledged {
        assert!(lines.iter().any(|line| line.seq == seq), "{seq}");
        if !matches!(record, Record::Event(_) | Record::History(_)) {
            let again = store.record(record).unwrap();
            assert_eq!((again.seq, again.status), (seq, AckStatus::Unchanged));
        }
    }
    drop(store);
    let _ = memory.remove_file("cache/index");
    assert_eq!(everything(&open(memory, u64::MAX)), told);
}

/// Writes records that depend on existing ones.
fn further(store: &Store) -> Result<()> {
    let query = ConversationQuery {
        limit: 3,
        ..ConversationQuery::default()
    };
    for (conversation, _) in store.conversations(&query)?.items {
        let message = ConversationMessage {
            id: Uuid::from_u128(conversation.id.as_u128() ^ 1),
            timestamp: Timestamp::from_ms(DAY_1_MS)?,
            ..ConversationMessage::new(conversation.id, Role::User, "more")
        };
        let ack = store.record(message)?;
        assert!(ack.assigned.is_some());
    }
    if let Some(task) = store.inbox().claim()? {
        assert_eq!(store.inbox().get(task.id)?.as_ref(), Some(&task));
        store.inbox().done(&task)?;
    }
    Ok(())
}

/// A repaired store has no damage except unaccepted edits, and a second repair changes nothing.
fn repaired(memory: &Memory, accept_edits: bool) {
    let store = open(memory, u64::MAX);
    let repair = || {
        if accept_edits {
            store.repair_and_accept_edits().unwrap()
        } else {
            store.repair().unwrap()
        }
    };
    let mut told = everything(&store);
    let altered = |class| matches!(class, DamageClass::Altered);
    let damage = store.damage().unwrap();
    let is_edited = damage.iter().any(|one| altered(one.class));
    // Forged lines have a valid checksum but hold no record. Until they are removed, queries may
    // fail because of them, or may read them as the record that they start with.
    let found = verify(memory).unwrap();
    let is_forged = found.damage.iter().any(|one| !damage.contains(one));
    repair();
    let found = verify(memory).unwrap();
    // Misplaced and repeated lines are left for a person to move.
    let is_left = |class| {
        let moved = [DamageClass::Repeated, DamageClass::Misplaced];
        altered(class) || moved.contains(&class)
    };
    assert!(
        found.damage.iter().all(|one| is_left(one.class)),
        "{found:?}"
    );
    let after = segments(memory);
    repair();
    assert_eq!(segments(memory), after);
    let told_after = everything(&store);
    let is_refused = |told: &[String]| told.iter().any(|answer| answer.starts_with("Err"));
    assert!(!is_refused(&told_after), "{told_after:?}");
    drop(store);
    assert_eq!(everything(&open(memory, u64::MAX)), told_after);
    // The sequence number attributed to an edited line depends on the damage next to it.
    if !accept_edits && !is_edited && !is_forged {
        told.truncate(told.len() - DAMAGE_TOLD);
        assert!(told_after.starts_with(&told), "{told_after:?} {told:?}");
    }
}

/// Number of answers at the end of [`everything`] that report damage.
const DAMAGE_TOLD: usize = 2;

/// Adds an answer, or the kind of its error.
fn note<T: std::fmt::Debug>(answers: &mut Vec<String>, answer: crate::Result<T>) {
    answers.push(format!("{:?}", answer.map_err(|e| e.kind())));
}

/// All answers of a store, for every kind of record.
pub(super) fn everything(store: &Store) -> Vec<String> {
    let limit = usize::MAX;
    let mut answers = Vec::new();
    let turns = store.turns(&TurnQuery {
        limit,
        ..TurnQuery::default()
    });
    note(&mut answers, turns);
    let calls = store.tool_calls(&CallQuery {
        limit,
        ..CallQuery::default()
    });
    note(&mut answers, calls);
    let proposals = store.proposals(&ProposalQuery {
        limit,
        ..ProposalQuery::default()
    });
    note(&mut answers, proposals);
    let query = ConversationQuery {
        limit,
        ..ConversationQuery::default()
    };
    let conversations = store.conversations(&query);
    if let Ok(list) = &conversations {
        for (conversation, _) in &list.items {
            let query = MessageQuery {
                limit,
                ..MessageQuery::default()
            };
            let messages = store.messages(conversation.id, &query);
            note(&mut answers, messages);
            let tree = store.session_tree(conversation.id);
            note(&mut answers, tree);
        }
    }
    note(&mut answers, conversations);
    let events = store.events(&EventQuery {
        limit,
        ..EventQuery::default()
    });
    if let Ok(page) = &events {
        for event in &page.items {
            let tree = store.event_tree(event.id);
            note(&mut answers, tree);
        }
    }
    note(&mut answers, events);
    note(&mut answers, store.current_revision());
    let tasks = store.inbox().list(&TaskQuery {
        limit,
        ..TaskQuery::default()
    });
    note(&mut answers, tasks);
    note(&mut answers, store.inbox().counts());
    note(&mut answers, store.telegram_offset());
    note(&mut answers, store.history(-42, limit));
    let thoughts = store.thoughts().list(None, None);
    note(&mut answers, thoughts);
    let rollups = store.rollups(&RollupQuery::default());
    note(&mut answers, rollups);
    let chains = store.thoughts().verify_chains();
    note(&mut answers, chains);
    let damage = store.damage().map(|mut damage| {
        damage.sort_by(|a, b| (&a.file, a.offset).cmp(&(&b.file, b.offset)));
        damage
    });
    note(&mut answers, damage);
    answers
}

fn turn(n: u128) -> ConversationTurn {
    ConversationTurn {
        id: Uuid::from_u128(n),
        parent_id: None,
        message_id: Uuid::from_u128(n),
        kind: TurnKind::User,
        content: "hello".to_owned(),
        created_at: Validity::at(DAY_1_MS),
        thread_id: None,
    }
}

/// Records of several kinds and days.
fn records() -> Vec<Record> {
    let request = ToolCallReq {
        request_id: Uuid::from_u128(2),
        call_id: "call".to_owned(),
        parent_id: Uuid::from_u128(1),
        vendor: "vendor".to_owned(),
        tool_name: "tool".to_owned(),
        args_sha256: "0".repeat(64),
        arguments_json: None,
        started_at: Validity::at(DAY_1_MS + DAY_MS),
    };
    let event = Event {
        id: 0,
        parent_id: None,
        event_type: "agent.started".to_owned(),
        created_at: DAY_1_MS,
        payload: None,
    };
    let entry = HistoryEntry {
        created_at: DAY_1_MS + 9 * DAY_MS,
        ..HistoryEntry::new(-42, Role::User, "hello")
    };
    vec![turn(1).into(), request.into(), event.into(), entry.into()]
}
