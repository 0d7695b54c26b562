//! Manual changes to a live store while agents write to it: someone deletes `LOCK` because it looks
//! stale, runs `sed -i`, or moves a day to an archive. Every open handle notices at its next append
//! or read, loses nothing and overwrites nothing.
//!
//! `DECKLOG_HANDS` sets in how many of four ways each change in the list below is tried: in the
//! older or the newer day, with handles open or not. `DECKLOG_HANDS_RECORDS` sets the number of
//! records per writer while others delete the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use decklog::health::{Damage, DamageClass};
use decklog::lines::LogLine;
use decklog::storage::{Disk, Fault, Memory, Storage};
use decklog::{ConversationTurn, ErrorKind, ObservabilityStore, Store, TurnKind, Validity, verify};
use uuid::Uuid;

use super::support::{DAY_MS, Spy, count, crc32, renumbered, still};

const NOON: i64 = 1_766_836_800_000;
const DAY: &str = "2025-12-27";
/// Enough for the slowest machine. It only elapses if a test fails.
const PATIENCE: Duration = Duration::from_secs(60);

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
    // Both now use the new file: while one holds its lock, the other waits.
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
    // As `sed -i` does: a new file under the same name.
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

/// Another program appends a line to a day that this handle does not write next, without the lock
/// and without a word in `HEAD`.
#[test]
fn a_line_that_was_added_to_another_day_keeps_its_number() {
    const DAYS: u128 = 20;
    // The day, counted from the last one, and the time after which the next append must notice:
    // once the lock is not kept any more, and once all segments are looked at again.
    for (back, pause) in [(1, 30), (DAYS - 1, 1_050)] {
        let dir = tempfile::tempdir().unwrap();
        let at_noon = |day: u128, n: u128| ConversationTurn {
            created_at: Validity::at(NOON + DAY_MS * i64::try_from(day).unwrap()),
            ..turn(n)
        };
        let store = still().open(dir.path()).unwrap();
        for day in 0..DAYS {
            store.record(at_noon(day, day + 1)).unwrap();
        }
        store.record(at_noon(DAYS - 1, DAYS + 1)).unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        let mut days: Vec<PathBuf> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_str().unwrap().contains("/20"))
            .collect();
        days.sort();
        let day = &days[usize::try_from(DAYS - 1 - back).unwrap()];
        let segment = day.join("conversation_turns.0001.jsonl");
        let line = fs::read_to_string(&segment).unwrap();
        let id = |n: u128| Uuid::from_u128(n).to_string();
        let line = line.replace(&id(DAYS - back), &id(DAYS + 2));
        let mut file = fs::OpenOptions::new().append(true).open(segment).unwrap();
        let added = renumbered(&line, u64::try_from(DAYS).unwrap() + 2);
        file.write_all(added.as_bytes()).unwrap();

        store.record(at_noon(DAYS - 1, DAYS + 3)).unwrap();
        let found = verify(&Disk::new(dir.path())).unwrap();
        assert!(found.is_clean(), "{back} days back: {found:?}");
        assert_eq!(found.good_lines, u64::try_from(DAYS).unwrap() + 3);
    }
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
    // Both stores numbered their lines from 1.
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
    // Longer than before, with the same inode.
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
    assert_eq!(store.repair().unwrap()[0].quarantined_lines, 1);
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
        let repaired = store.repair();
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

// --- The matrix: each change, to each file, with each kind of handle. ---

/// A manual change, and the expected state of the store after it.
struct Hand {
    /// The script, run in the store's directory: `$F` is the segment, `$D` its day, `$T` a
    /// directory elsewhere.
    script: &'static str,
    /// The lost turns, numbered from 1 within the segment.
    lost: &'static [u128],
    /// The files reported as damaged, if known. `F` and `D` are replaced by the segment and its
    /// day.
    named: &'static [&'static str],
    /// Other findings of `verify`: `gap`, `repeat`, `note`.
    told: &'static [&'static str],
    /// The next record for the segment's day is refused, and the error names the cause.
    is_refused: bool,
}

const NOTHING: Hand = Hand {
    script: "",
    lost: &[],
    named: &[],
    told: &[],
    is_refused: false,
};

/// Three turns on each of these days.
const DAYS: [&str; 2] = ["2025-12-26", "2025-12-27"];

#[rustfmt::skip]
const HANDS: &[Hand] = &[
    // Editors, and tools that rewrite lines.
    Hand { script: "sed -i 's/turn 2/turn II/; s/turn 5/turn V/' $F", named: &["F"], ..NOTHING },
    Hand { script: "sed -i.bak 's/turn/TURN/' $F", named: &["F"], told: &["note"], ..NOTHING },
    Hand { script: "jq -c -S . $F > $T/new && mv $T/new $F", named: &["F"], ..NOTHING },
    Hand { script: "jq -c -S . $F > $T/new && cat $T/new > $F", named: &["F"], ..NOTHING },
    Hand { script: "jq . $F > $T/new && mv $T/new $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "sed -i 2d $F", lost: &[2], told: &["gap"], ..NOTHING },
    Hand { script: "sed -i 3d $F", lost: &[3], told: &["gap"], ..NOTHING },
    Hand { script: "cat $F > $T/new && sed 1d $T/new > $F", lost: &[1], told: &["gap"], ..NOTHING },
    Hand { script: "sed -i 's/$/\\r/' $F", named: &["F"], ..NOTHING },
    Hand { script: "sed -i '1s/^/\\xef\\xbb\\xbf/' $F", named: &["F"], ..NOTHING },
    Hand { script: "sed -i 'N;s/\\n//' $F", named: &["F"], ..NOTHING },
    Hand { script: "sed -i '2s/^/\\x00\\x00\\x00\\x00/' $F", named: &["F"], ..NOTHING },
    Hand { script: "tac $F > $T/new && cat $T/new > $F", named: &["F?"], ..NOTHING },
    // Truncated, overwritten, appended to.
    Hand { script: "cp $F $F.1 && truncate -s 0 $F", lost: &[1, 2, 3], told: &["gap", "note"], ..NOTHING },
    Hand { script: "truncate -s -20 $F", lost: &[3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "truncate -s -1 $F", ..NOTHING },
    Hand { script: "truncate -s +100000 $F", named: &["F"], ..NOTHING },
    Hand { script: "truncate -s +40000000 $F", named: &["F"], ..NOTHING },
    Hand { script: "echo hello >> $F", named: &["F"], ..NOTHING },
    Hand { script: "printf 'half a line' >> $F", named: &["F"], ..NOTHING },
    Hand { script: "echo '{\"hello\":1}' >> $F", named: &["F"], ..NOTHING },
    Hand { script: "head -1 $F > $T/new && cat $T/new >> $F", named: &["F"], told: &["repeat"], ..NOTHING },
    // Removed, or replaced by something else under its name.
    Hand { script: "rm $F", lost: &[1, 2, 3], told: &["gap"], ..NOTHING },
    Hand { script: "mv $F $T/", lost: &[1, 2, 3], told: &["gap"], ..NOTHING },
    Hand { script: "mv $F $T/x && ln -s $T/x $F", ..NOTHING },
    Hand { script: "ln $F $T/x", ..NOTHING },
    Hand { script: "rm $F && mkdir $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "rm $F && mkfifo $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "rm $F && ln -s $F $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "rm $F && ln -s $T/nowhere $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "rm $F && ln -s /dev/zero $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "rm $F && ln -s /dev/null $F", lost: &[1, 2, 3], named: &["F"], told: &["gap"], ..NOTHING },
    Hand { script: "mkdir $D/conversation_turns.0002.jsonl", named: &["D/conversation_turns.0002.jsonl"], ..NOTHING },
    Hand { script: "mkfifo $D/conversation_turns.0002.jsonl", named: &["D/conversation_turns.0002.jsonl"], ..NOTHING },
    // Copies.
    Hand { script: "cp $F $D/conversation_turns.0002.jsonl", named: &["D/conversation_turns.0002.jsonl"], told: &["repeat"], ..NOTHING },
    Hand { script: "cp -r $D 2025-11-11", named: &["F?", "2025-11-11/conversation_turns.0001.jsonl"], told: &["repeat"], ..NOTHING },
    Hand { script: "mv $D 2025-11-11", named: &["2025-11-11/conversation_turns.0001.jsonl"], ..NOTHING },
    // Days.
    Hand { script: "mv $D $T/", lost: &[1, 2, 3], told: &["gap"], ..NOTHING },
    Hand { script: "rm -r $D && touch $D", lost: &[1, 2, 3], told: &["gap", "note"], is_refused: true, ..NOTHING },
    Hand { script: "rm -r $D && mkfifo $D", lost: &[1, 2, 3], told: &["gap", "note"], is_refused: true, ..NOTHING },
    Hand { script: "rm -r $D && ln -s $D $D", lost: &[1, 2, 3], told: &["gap", "note"], is_refused: true, ..NOTHING },
    Hand { script: "mv $D $T/ && ln -s $T/$D $D", ..NOTHING },
    Hand { script: "ln -s . 2025-11-11 && ln -s ../.. $D/up", told: &["note"], ..NOTHING },
    // Files that do not belong to the store.
    Hand { script: "cp $F $F.bak && touch $D/.x.swp \"$D/a b\" $D/\u{e4}\u{1F600} \"$D/a\nb\"", told: &["note"], ..NOTHING },
    Hand { script: "truncate -s 20G $D/huge huge.0001.jsonl", told: &["note"], ..NOTHING },
    Hand { script: "mkfifo pipe $D/pipe && ln -s /dev/zero zero && mkdir -p 2025-13-01 other", told: &["note"], ..NOTHING },
    // Files other than segments.
    Hand { script: "rm HEAD", ..NOTHING },
    Hand { script: "cp HEAD $T/ && mv $T/HEAD HEAD", ..NOTHING },
    Hand { script: "rm HEAD && echo garbage > HEAD", ..NOTHING },
    Hand { script: "rm LOCK", ..NOTHING },
    Hand { script: "mv LOCK LOCK.old && mv HEAD HEAD.old", ..NOTHING },
    Hand { script: "rm decklog.json", named: &["decklog.json?"], ..NOTHING },
    Hand { script: "rm -rf cache && mkfifo cache", ..NOTHING },
    Hand { script: "rm -rf cache && mkdir -p cache/index", ..NOTHING },
    Hand { script: "mkdir -p cache && rm -f cache/index && mkfifo cache/index", ..NOTHING },
    Hand { script: "touch quarantine", ..NOTHING },
    // The whole store.
    Hand { script: "cp -a . $T/backup && rm -r ./* && cp -a $T/backup/. .", ..NOTHING },
    Hand { script: "rm -r ./*", lost: &[1, 2, 3, 4, 5, 6], named: &["decklog.json?"], ..NOTHING },
];

/// A change applied to the older or the newer day, with handles open or not.
#[derive(Clone, Copy)]
struct Case {
    hand: &'static Hand,
    newer: bool,
    is_live: bool,
}

impl Case {
    fn day(self) -> &'static str {
        DAYS[usize::from(self.newer)]
    }

    fn segment(self) -> String {
        format!("{}/conversation_turns.0001.jsonl", self.day())
    }

    fn at(self, is_its_day: bool) -> i64 {
        if self.newer == is_its_day {
            NOON
        } else {
            NOON - DAY_MS
        }
    }

    /// The turns that must remain.
    fn left(self) -> Vec<u128> {
        let is_left = |id: &u128| {
            let is_newer = *id > 3;
            let nth = (id - 1) % 3 + 1;
            let nth = if is_newer == self.newer { nth } else { nth + 3 };
            !self.hand.lost.contains(&nth)
        };
        (1..=6).filter(is_left).collect()
    }

    /// The files that may be reported as damaged, or those that must be.
    fn named(self, is_sure: bool) -> BTreeSet<String> {
        let names = self.hand.named.iter();
        let names = names.filter(|name| !is_sure || !name.ends_with('?'));
        names
            .map(|name| match name.trim_end_matches('?') {
                "F" => self.segment(),
                name => name.replacen("D/", &format!("{}/", self.day()), 1),
            })
            .collect()
    }

    fn says(self, name: &str) -> bool {
        // Sequence numbers at the end of the log that no open handle knows are assigned again.
        let is_end = self.newer && !self.is_live && self.hand.lost.contains(&3);
        self.hand.told.contains(&name) && !(name == "gap" && is_end && !self.hand.lost.is_empty())
    }
}

fn said(id: u128, at: i64) -> ConversationTurn {
    ConversationTurn {
        created_at: Validity::at(at + i64::try_from(id).unwrap()),
        ..turn(id)
    }
}

/// Runs a script; `None` if a tool for it is not installed.
fn sh(script: &str, dir: &Path, variables: &[(&str, &str)]) -> Option<()> {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(dir);
    let status = command.envs(variables.iter().copied()).status().unwrap();
    if status.code() == Some(127) {
        println!("not run, as a tool is missing: {script}");
        return None;
    }
    assert!(status.success(), "{script}");
    Some(())
}

/// The contents of the files in the store's directories, except huge files.
fn contents(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for dir in fs::read_dir(path).unwrap() {
        let dir = dir.unwrap();
        let is_day = dir.file_name().to_string_lossy().starts_with("20");
        // Do not follow a link that leads back.
        if !is_day || fs::read_link(dir.path()).is_ok_and(|to| to == Path::new(".")) {
            continue;
        }
        for file in fs::read_dir(dir.path()).into_iter().flatten() {
            let file = file.unwrap().path();
            let is_read = |found: fs::Metadata| found.is_file() && found.len() < 1 << 26;
            if fs::metadata(&file).is_ok_and(is_read) {
                found.insert(file.clone(), fs::read(&file).unwrap());
            }
        }
    }
    found
}

fn named_by(damage: &[Damage]) -> BTreeSet<String> {
    damage.iter().map(|damage| damage.file.clone()).collect()
}

fn play(case: Case) {
    let Case { hand, is_live, .. } = case;
    let what = format!(
        "{} in {}, {}",
        hand.script,
        case.day(),
        if is_live { "live" } else { "closed" }
    );
    let dir = tempfile::tempdir().unwrap();
    let (path, elsewhere) = (dir.path().join("log"), dir.path().join("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    let open = || Store::options().sidecar_bytes_min(0).open(&path).unwrap();
    let store = open();
    for id in 1..=6 {
        let at = if id > 3 { NOON } else { NOON - DAY_MS };
        store.upsert_conversation_turn(said(id, at)).unwrap();
    }
    let mut handles = Vec::new();
    if is_live {
        handles.extend([store, open()]);
        assert!(handles.iter().all(|store| ids(store) == [1, 2, 3, 4, 5, 6]));
    } else {
        drop(store);
        assert!(path.join("cache/index").exists());
    }
    let mut follow = handles.last().map(|reader| reader.follow(6).unwrap());

    let segment = case.segment();
    let elsewhere = elsewhere.to_str().unwrap();
    let variables = [("F", &*segment), ("D", case.day()), ("T", elsewhere)];
    if sh(hand.script, &path, &variables).is_none() {
        return;
    }
    let before = contents(&path);
    if !is_live {
        handles.extend([open(), open()]);
    }

    // The next append, to that day and to the other.
    let (writer, reader) = (&handles[0], &handles[1]);
    let mut expected: BTreeSet<u128> = case.left().into_iter().collect();
    for (id, is_its_day) in [(7, true), (8, false)] {
        let recorded = writer.upsert_conversation_turn(said(id, case.at(is_its_day)));
        if hand.is_refused && is_its_day {
            let told = recorded.expect_err(&what).to_string();
            assert!(told.contains(case.day()), "{what}: {told}");
        } else {
            recorded.unwrap_or_else(|e| panic!("{what}: {e}"));
            expected.insert(id);
        }
    }
    // It is intact, in one file, of its own day.
    let after = contents(&path);
    for id in expected.iter().filter(|id| **id > 6) {
        let line = format!("\"content\":\"turn {id}\",\"crc\":\"");
        let is_there = |bytes: &Vec<u8>| {
            let text = String::from_utf8_lossy(bytes);
            let mut lines = text.lines();
            lines.any(|found| found.starts_with("{\"seq\":") && found.contains(&line))
        };
        let files: Vec<_> = after.iter().filter(|(_, bytes)| is_there(bytes)).collect();
        assert_eq!(files.len(), 1, "{what}: turn {id}");
        let is_its_day = *id == 7;
        let day = DAYS[usize::from(case.newer == is_its_day)];
        assert_eq!(files[0].0.parent().unwrap(), path.join(day), "{what}");
    }

    // The writer, the other handle after a refresh, and two new handles.
    reader.refresh().unwrap();
    // The writer need not have checked files that it did not use.
    writer.refresh().unwrap();
    let new = open();
    let only_reads = Store::options().read_only(true).open(&path).unwrap();
    let sure = case.named(true);
    for (who, store) in [
        ("writer", writer),
        ("reader", reader),
        ("new", &new),
        ("read-only", &only_reads),
    ] {
        let found: Vec<u128> = ids(store);
        assert_eq!(found.len(), expected.len(), "{what}, {who}: {found:?}");
        assert_eq!(
            found.into_iter().collect::<BTreeSet<_>>(),
            expected,
            "{what}, {who}"
        );
        let named = named_by(&store.damage().unwrap());
        assert!(named.is_superset(&sure), "{what}, {who}: {named:?}");
        assert!(
            named.is_subset(&case.named(false)),
            "{what}, {who}: {named:?}"
        );
    }
    if let Some(follow) = &mut follow {
        let mut seen = Vec::new();
        let new: Vec<String> = expected
            .iter()
            .filter(|id| **id > 6)
            .map(|id| format!("turn {id}\""))
            .collect();
        let started = Instant::now();
        while started.elapsed() < PATIENCE / 3
            && !new
                .iter()
                .all(|text| seen.iter().any(|line: &LogLine| line.text.contains(text)))
        {
            seen.extend(follow.next_lines(Duration::from_millis(100)).unwrap());
        }
        for text in new {
            let times = seen.iter().filter(|line| line.text.contains(&text)).count();
            assert_eq!(times, 1, "{what}: {text} in {seen:?}");
        }
    }

    // A new process without any state.
    let mut command = Command::new(env!("CARGO_BIN_EXE_decklog"));
    let output = command
        .arg("--store")
        .arg(&path)
        .arg("verify")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let is_clean = sure.is_empty() && !case.says("gap") && !case.says("repeat");
    let is_as_told = output.status.code() == Some(i32::from(!is_clean));
    assert!(
        is_as_told || hand.named.iter().any(|name| name.ends_with('?')),
        "{what}: {told}"
    );
    for name in case.named(true) {
        assert!(told.contains(&name), "{what}: {told}");
    }
    for finding in ["gap", "repeat", "note"] {
        let is_told = told
            .lines()
            .any(|line| line.split(' ').next() == Some(finding));
        assert!(
            is_told || !case.says(finding),
            "{what}: no {finding}: {told}"
        );
        assert!(!is_told || hand.told.contains(&finding), "{what}: {told}");
    }

    // No bytes of others were overwritten.
    drop(handles);
    drop(new);
    let after = contents(&path);
    for (file, bytes) in before {
        let now = after
            .get(&file)
            .unwrap_or_else(|| panic!("{what}: {} is gone", file.display()));
        assert!(
            now.starts_with(&bytes),
            "{what}: {} was changed",
            file.display()
        );
    }
}

#[cfg(unix)]
#[test]
fn whatever_hands_do_it_is_noticed_and_nothing_else_suffers() {
    let combinations = count("DECKLOG_HANDS", 1).min(4);
    let cases: Vec<Case> = (0..combinations as usize)
        .flat_map(|nth| {
            HANDS.iter().enumerate().map(move |(place, hand)| {
                let nth = (nth + place) % 4;
                let (newer, is_live) = (nth % 2 == 0, nth < 2);
                Case {
                    hand,
                    newer,
                    is_live,
                }
            })
        })
        .collect();
    let next = AtomicUsize::new(0);
    let played: Vec<AtomicBool> = cases.iter().map(|_| AtomicBool::new(false)).collect();
    let (sender, over) = channel();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (next, cases, played) = (&next, &cases, &played);
            let sender = sender.clone();
            scope.spawn(move || {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(place) else {
                        return;
                    };
                    play(*case);
                    played[place].store(true, Ordering::Relaxed);
                    let _ = sender.send(());
                }
            });
        }
        drop(sender);
        for _ in &cases {
            // If a handle waits for a FIFO, the test times out here.
            match over.recv_timeout(PATIENCE) {
                Ok(()) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let begun = cases.iter().zip(&played).take(next.load(Ordering::Relaxed));
                    for (case, _) in begun.filter(|(_, is_over)| !is_over.load(Ordering::Relaxed)) {
                        let (script, day) = (case.hand.script, case.day());
                        println!(
                            "does not come to an end: {script} in {day}, {}",
                            case.is_live
                        );
                    }
                    std::process::abort();
                }
            }
        }
    });
    println!("{} cases", cases.len());
}

#[test]
fn hands_that_delete_the_lock_all_the_time_let_two_write_at_once_never() {
    let records = count("DECKLOG_HANDS_RECORDS", 300);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    Store::open(&path).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let store = Store::open(&path).unwrap();
                scope.spawn(move || {
                    for nth in 0..records {
                        record(&store, u128::from(nth * 3 + writer + 1));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for round in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let name = ["LOCK", "HEAD", "LOCK"][round % 3];
                let _ = if round % 2 == 0 {
                    fs::remove_file(path.join(name))
                } else {
                    fs::rename(path.join(name), path.join("old"))
                };
                std::thread::sleep(Duration::from_millis(40));
            }
        });
        let ended: Vec<_> = writers
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok));
    });
    assert_clean(&path);
    let store = Store::open(&path).unwrap();
    assert_eq!(
        store.last_lines(usize::MAX).unwrap().len() as u64,
        records * 3
    );
}

/// The directory is moved away under open handles, replaced by another store for a while, and moved
/// back.
#[test]
fn another_store_under_the_same_path_is_another_store() {
    let dir = tempfile::tempdir().unwrap();
    let (path, one, two) = (
        dir.path().join("log"),
        dir.path().join("one"),
        dir.path().join("two"),
    );
    let other = Store::options().sidecar_bytes_min(0).open(&two).unwrap();
    record(&other, 100);
    drop(other);
    let sidecar = fs::read(two.join("cache/index")).unwrap();
    let stores = [(), ()].map(|()| Store::options().sidecar_bytes_min(0).open(&path).unwrap());
    record(&stores[0], 1);
    assert_eq!(ids(&stores[1]), [1]);

    // Longer than a handle keeps the lock without checking the file.
    std::thread::sleep(Duration::from_millis(40));
    fs::rename(&path, &one).unwrap();
    for store in &stores {
        let err = store.upsert_conversation_turn(turn(2)).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Io);
        assert!(err.path().unwrap().starts_with(&path), "{err:?}");
        assert!(store.refresh().is_err());
    }
    assert!(!path.exists(), "no one makes it anew");
    fs::rename(&one, &path).unwrap();
    record(&stores[0], 2);
    std::thread::sleep(Duration::from_millis(40));
    fs::rename(&path, &one).unwrap();

    fs::rename(&two, &path).unwrap();
    for store in &stores {
        let err = store.upsert_conversation_turn(turn(101)).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Poisoned);
        assert!(store.refresh().is_err());
        assert!(store.health().is_err());
    }
    let other = Store::open(&path).unwrap();
    record(&other, 101);
    assert_eq!(ids(&other), [100, 101]);
    assert_clean(&path);
    assert_clean(&one);
    assert_eq!(ids(&Store::open(&one).unwrap()), [1, 2]);
    // A handle that closes now does not leave a sidecar of the wrong store.
    drop(stores);
    assert_eq!(fs::read(path.join("cache/index")).unwrap(), sidecar);
    assert_eq!(ids(&Store::open(&path).unwrap()), [100, 101]);
}

/// Bug: after another implementation took the lock and appended without updating `HEAD`, the
/// sequence number of its line was assigned again.
#[test]
fn a_writer_that_does_not_know_head_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    record(&store, 1);
    let event = || with!(decklog::Event::new(None, "a.b"), created_at: NOON);
    store.record(event()).unwrap();
    // Twice: a line that was noticed is not counted as new again.
    for seq in [3, 5] {
        let lock = fs::OpenOptions::new().write(true).open(path.join("LOCK"));
        let lock = lock.unwrap();
        lock.lock().unwrap();
        let line = format!(
            r#"{{"seq":{seq},"at":{NOON},"op":"logged","id":{seq},"event_type":"a.c","created_at":{NOON}"#
        );
        let line = format!("{line},\"crc\":\"{:08x}\"}}\n", crc32(line.as_bytes()));
        let segment = path.join(DAY).join("events.0001.jsonl");
        let mut file = fs::OpenOptions::new().append(true).open(segment).unwrap();
        std::io::Write::write_all(&mut file, line.as_bytes()).unwrap();
        drop(lock);
        let ack = store.record(turn(u128::from(seq))).unwrap();
        assert_eq!(ack.seq, seq + 1);
    }
    assert_eq!(store.record(event()).unwrap().seq, 7);
    assert_clean(&path);
    let reader = Store::options().read_only(true).open(&path).unwrap();
    assert_eq!(reader.last_lines(9).unwrap().len(), 7);
}

/// FIFOs, directories and devices in place of files other than segments, and a socket in place of a
/// segment. No handle blocks on them, failed operations name the file, and once they are moved away
/// all records are there.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_never_waited_for() {
    use std::os::unix::net::UnixListener;

    let play = || {
        for name in ["LOCK", "HEAD", "decklog.json", "cache"] {
            for script in ["mkdir $N", "mkfifo $N", "ln -s /dev/zero $N", "ln -s $N $N"] {
                let dir = tempfile::tempdir().unwrap();
                let path = dir.path().join("log");
                let live = Store::open(&path).unwrap();
                record(&live, 1);
                let make = format!("mv $N $T/x 2> /dev/null || true; {script}");
                let variables = [("N", name), ("T", dir.path().to_str().unwrap())];
                if sh(&make, &path, &variables).is_none() {
                    continue;
                }
                let is_named = |e: decklog::Error| {
                    assert!(e.to_string().contains(name), "{script} {name}: {e}");
                };
                let mut last = 1;
                for _ in 0..2 {
                    match live.upsert_conversation_turn(turn(last + 1)) {
                        Ok(()) => last += 1,
                        Err(e) => is_named(e),
                    }
                    let opened = Store::open(&path).map(|store| {
                        let recorded = store.upsert_conversation_turn(turn(last + 1));
                        last += u128::from(recorded.is_ok());
                        recorded
                    });
                    let _ = opened.and_then(|recorded| recorded).map_err(is_named);
                    let _ = live.refresh().map_err(is_named);
                    let _ = verify(&Disk::new(&path)).map_err(is_named);
                }
                sh(
                    "mv $N $T/y; mv $T/x $N 2> /dev/null || true",
                    &path,
                    &variables,
                )
                .unwrap();
                let opened = Store::open(&path).unwrap();
                record(&opened, last + 1);
                live.refresh().unwrap();
                for store in [&live, &opened] {
                    assert_eq!(
                        ids(store),
                        (1..=last + 1).collect::<Vec<_>>(),
                        "{script} {name}"
                    );
                }
                assert_clean(&path);
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let live = Store::open(dir.path()).unwrap();
        record(&live, 1);
        let segment = dir.path().join(DAY).join("conversation_turns.0001.jsonl");
        fs::remove_file(&segment).unwrap();
        let _socket = UnixListener::bind(&segment).unwrap();
        record(&live, 2);
        for store in [&live, &Store::open(dir.path()).unwrap()] {
            assert_eq!(ids(store), [2]);
            assert_eq!(store.damage().unwrap()[0].class, DamageClass::NoFile);
        }
    };
    let (sender, over) = channel();
    let played = std::thread::spawn(move || {
        play();
        let _ = sender.send(());
    });
    assert_ne!(over.recv_timeout(PATIENCE), Err(RecvTimeoutError::Timeout));
    played.join().unwrap();
}

/// Bugs: if a day was moved away before its directory was synced, the handle treated it as a
/// failing disk and stopped writing. If a FIFO had the day's name, closing the store blocked
/// forever.
#[cfg(unix)]
#[test]
fn a_day_that_is_moved_away_before_it_is_synced_ends_nothing() {
    for script in ["mv $D $T", "mv $D $T && mkfifo $D", "mv $D $T && touch $D"] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let store = Store::options().flush_interval(Duration::from_secs(3600));
        let store = store.open(&path).unwrap();
        record(&store, 1);
        let away = dir.path().join("away");
        let variables = [("D", DAY), ("T", away.to_str().unwrap())];
        if sh(script, &path, &variables).is_none() {
            continue;
        }
        store.sync().unwrap();
        store
            .upsert_conversation_turn(said(2, NOON - DAY_MS))
            .unwrap();
        store.sync().unwrap();
        store.refresh().unwrap();
        assert_eq!(ids(&store), [2], "{script}");
    }
}

/// Bug: each write refused because of an unreadable segment read all other segments again, under
/// the lock.
#[test]
fn what_cannot_be_read_does_not_have_the_rest_read_again_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut other = turn(2);
    other.created_at = Validity::at(NOON + DAY_MS);
    let first = Store::open(&path).unwrap();
    record(&first, 1);
    first.record(other).unwrap();
    drop(first);
    let spy = Spy::new(Disk::new(&path));
    spy.hook(|operation, path| {
        let is_bad = operation == "open" && path.starts_with("2025-12-28");
        if is_bad {
            Err(std::io::Error::from_raw_os_error(5))
        } else {
            Ok(())
        }
    });
    let store = Store::options()
        .storage(Arc::new(spy.clone()))
        .open(&path)
        .unwrap();
    let known = spy.events().len();
    for _ in 0..2 {
        let refused = store.record(turn(3)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Io);
        assert_eq!(store.health().unwrap().damage.unreadable, 1);
    }
    let events = spy.events();
    let is_read = |event: &&super::support::Event| {
        event.operation == "read_at" && event.path.starts_with(DAY)
    };
    assert_eq!(events[known..].iter().find(is_read), None);
    spy.unhook();
    record(&store, 3);
    assert_eq!(ids(&store), [1, 3, 2]);
}

/// Bug: a segment that was moved away was never synced if lines went to a new file with its name
/// before the sync.
#[test]
fn a_segment_that_is_moved_away_is_synced_with_the_one_that_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let spy = Spy::new(Disk::new(&path));
    let options = Store::options().flush_interval(PATIENCE);
    let store = options.storage(Arc::new(spy.clone())).open(&path).unwrap();
    record(&store, 1);
    let segment = path.join(DAY).join("conversation_turns.0001.jsonl");
    fs::rename(&segment, dir.path().join("away")).unwrap();
    record(&store, 2);
    store.sync().unwrap();
    let handles = |operation| -> BTreeSet<usize> {
        let events = spy.events().into_iter();
        let of_it = events.filter(|event| event.operation == operation);
        of_it
            .filter(|event| event.path.contains(".jsonl"))
            .map(|event| event.handle)
            .collect()
    };
    assert_eq!(handles("append").len(), 2);
    assert_eq!(handles("sync"), handles("append"));
}

/// Bug: the numbers of removed lines were assigned again if the files were checked before the next
/// record, for instance by a follower.
#[test]
fn numbers_of_lines_that_were_taken_away_are_not_given_again_by_a_live_handle() {
    for has_looked in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let stores = [(), ()].map(|()| Store::open(&path).unwrap());
        record(&stores[0], 1);
        let mut next = turn(2);
        next.created_at = Validity::at(NOON + DAY_MS);
        stores[0].record(next.clone()).unwrap();
        assert_eq!(ids(&stores[1]), [1, 2]);
        let last = stores[0].last_lines(1).unwrap();
        fs::remove_file(path.join(&last[0].file)).unwrap();
        if has_looked {
            stores[0].refresh().unwrap();
            stores[1].refresh().unwrap();
        }
        next.id = Uuid::from_u128(3);
        assert_eq!(stores[1].record(next).unwrap().seq, 3);
        assert_eq!(ids(&stores[0]), [1, 3]);
    }
}

/// Lines missing from the copy are lost, and that is reported. Later records are kept.
#[cfg(unix)]
#[test]
fn an_older_copy_put_over_a_live_store_is_noticed() {
    for script in [
        "cp -a --remove-destination $T/. .",
        "tar -C $T -cf - . | tar -xf -",
        // As rsync does.
        "for f in */*.jsonl HEAD; do cp -a $T/$f $f.tmp; mv $f.tmp $f; done",
        // In place, except for the mapped file.
        "for f in */*.jsonl; do cat $T/$f > $f; done",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (path, copy) = (dir.path().join("log"), dir.path().join("copy"));
        let stores = [(), ()].map(|()| Store::open(&path).unwrap());
        for id in 1..=3 {
            record(&stores[0], id);
        }
        let variables = [("T", copy.to_str().unwrap())];
        if sh("cp -a . $T", &path, &variables).is_none() {
            continue;
        }
        for id in 4..=6 {
            record(&stores[1], id);
        }
        assert_eq!(ids(&stores[0]), [1, 2, 3, 4, 5, 6]);
        if sh(script, &path, &variables).is_none() {
            continue;
        }
        record(&stores[0], 7);
        record(&stores[1], 8);
        let fresh = Store::open(&path).unwrap();
        for store in stores.iter().chain([&fresh]) {
            store.refresh().unwrap();
            assert_eq!(ids(store), [1, 2, 3, 7, 8], "{script}");
        }
        let found = verify(&Disk::new(&path)).unwrap();
        assert!(
            found.damage.is_empty() && found.repeats.is_empty(),
            "{script}: {found:?}"
        );
    }
}

#[cfg(unix)]
mod permissions {
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    const ENV: &str = "DECKLOG_HANDS_DIR";
    const NOBODY: u32 = 65_534;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Does nothing unless the test below started it, as a user subject to file permissions.
    #[test]
    fn process_of_the_test_below() {
        let Ok(path) = std::env::var(ENV) else {
            return;
        };
        let path = Path::new(&path).join("log");
        let stores = [(), ()].map(|()| Store::open(&path).unwrap());
        record(&stores[0], 1);
        assert_eq!(ids(&stores[1]), [1]);
        let segment = path.join(DAY).join("conversation_turns.0001.jsonl");
        let mut last = 1;
        for (file, allowed) in [
            (segment, 0o600),
            (path.join(DAY), 0o700),
            (path.clone(), 0o700),
        ] {
            mode(&file, 0);
            let name = file.file_name().unwrap().to_str().unwrap();
            // A handle that has the file open may continue to use it. Otherwise the error names the
            // file.
            match stores[0].upsert_conversation_turn(turn(last + 1)) {
                Ok(()) => last += 1,
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::Io);
                    assert!(e.to_string().contains(name), "{e}");
                }
            }
            // Reads report it as an error or as damage. Writers need to read every segment, so they
            // fail.
            let told = |damage: decklog::Result<Vec<Damage>>| {
                damage.map_or_else(|e| e.to_string(), |damage| format!("{damage:?}"))
            };
            let opened = told(
                Store::options()
                    .read_only(true)
                    .open(&path)
                    .and_then(|store| store.damage()),
            );
            assert!(opened.contains(name), "{opened}");
            let found = told(verify(&Disk::new(&path)).map(|found| found.damage));
            assert!(found.contains(name), "{found}");
            let written = Store::open(&path).and_then(|store| store.record(turn(99)));
            assert!(written.unwrap_err().to_string().contains(name));
            mode(&file, allowed);
            last += 1;
            record(&stores[1], last);
            record(&stores[0], last + 1);
            last += 1;
            for store in &stores {
                assert_eq!(ids(store), (1..=last).collect::<Vec<_>>());
            }
        }
        assert_clean(&path);
    }

    #[test]
    fn permissions_that_are_taken_away_are_told_and_given_back_all_is_there() {
        let dir = tempfile::tempdir().unwrap();
        mode(dir.path(), 0o755);
        let is_root = chown(dir.path(), Some(NOBODY), Some(NOBODY)).is_ok();
        let mut command = if is_root {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(std::env::current_exe().unwrap());
            command
        } else {
            Command::new(std::env::current_exe().unwrap())
        };
        let output = command
            .args(["--exact", "live::permissions::process_of_the_test_below"])
            .env(ENV, dir.path())
            .output();
        match output {
            Ok(output) if output.status.code() == Some(101) => {
                panic!("{}", String::from_utf8_lossy(&output.stdout));
            }
            Ok(output) if output.status.success() => {
                let told = String::from_utf8_lossy(&output.stdout);
                assert!(told.contains("1 passed"), "{told}");
            }
            other => println!("not run, as no other user can run this: {other:?}"),
        }
    }
}
