//! A full disk: no free blocks, no free inodes, or a limit on the size of files. The error names
//! the path and what to do, all acknowledged records stay readable, no process dies, and once there
//! is space again a reopened store works.
//!
//! `DECKLOG_FULL_STEP` sets the distance between the tested limits on file sizes; 1 tests every
//! byte. If `DECKLOG_FULL_DISKS` is set, the tests on small disks must run: they need `unshare`,
//! and those on ext4 also need root, loop devices and `mkfs.ext4`.

mod agents;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use decklog::health::DamageClass;
use decklog::import::{Expired, Importer};
use decklog::storage::Disk;
use decklog::{AckStatus, Durability, ErrorKind, Options, Record, Store, verify};
use uuid::Uuid;

use super::support::{DAY_1, DAY_1_NAME, DAY_MS, all_lines, count, turn};

const ENV_DIR: &str = "DECKLOG_FULL_DIR";
const ENV_STORY: &str = "DECKLOG_FULL_STORY";
const SIGXFSZ: i32 = 25;

const FEW_INODES: &str = "tmpfs with few inodes";
/// Shell commands that mount a small disk in a private mount namespace and run the rest on it. It
/// disappears with the process.
const DISKS: [(&str, &str); 4] = [
    (
        "tmpfs",
        "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"",
    ),
    (
        FEW_INODES,
        "mount -t tmpfs -o size=2m,nr_inodes=60 tmpfs \"$0\" && exec \"$@\"",
    ),
    (
        "ext4",
        "truncate -s 4m \"$0.img\" && mkfs.ext4 -q -F -m 0 \"$0.img\" && mount -o loop \"$0.img\" \"$0\" && exec \"$@\"",
    ),
    (
        "ext4 with blocks of 1 KiB",
        "truncate -s 4m \"$0.img\" && mkfs.ext4 -q -F -m 0 -b 1024 \"$0.img\" && mount -o loop \"$0.img\" \"$0\" && exec \"$@\"",
    ),
];

/// Runs the test with this name on every available small disk.
fn on_small_disks(story: &str) {
    for (name, shell) in DISKS {
        // Skip disks where inodes run out before space, or never do.
        if matches!(
            (story, name),
            ("new day", "tmpfs")
                | (
                    "writes" | "opens" | "captures" | "imports" | "watches" | "hooks" | "mends",
                    FEW_INODES
                )
        ) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("disk");
        fs::create_dir(&path).unwrap();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]);
        if !is_root() {
            command.arg("--map-root-user");
        }
        command
            .args(["sh", "-c", shell])
            .arg(&path)
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "full::process_on_a_small_disk", "--nocapture"])
            .env(ENV_DIR, &path)
            .env(ENV_STORY, story)
            .stdin(Stdio::null());
        let output = command.output();
        let has_begun = |output: &Output| said(output).contains("story begins");
        match output {
            Ok(output) if has_begun(&output) => {
                assert!(
                    output.status.success() && said(&output).contains("story ends"),
                    "{story} on {name}: {:?}\n{}",
                    output.status,
                    said(&output)
                );
            }
            other => {
                assert!(
                    std::env::var_os("DECKLOG_FULL_DISKS").is_none(),
                    "{story} on {name} is asked for: {other:?}"
                );
                println!("{story} on {name} did not run: such a disk cannot be had here");
            }
        }
    }
}

fn said(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&both).into_owned()
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout == b"0\n")
}

/// Does nothing unless one of the tests below started it.
#[test]
fn process_on_a_small_disk() {
    let (Ok(dir), Ok(story)) = (std::env::var(ENV_DIR), std::env::var(ENV_STORY)) else {
        return;
    };
    println!("story begins");
    let disk = SmallDisk {
        root: PathBuf::from(dir),
    };
    match &*story {
        "writes" => writes_until_it_is_full(&disk),
        "opens" => opens_while_it_is_full(&disk),
        "captures" => captures_until_it_is_full(&disk),
        "imports" => imports_until_it_is_full(&disk),
        "watches" => agents::watches_while_it_is_full(&disk),
        "hooks" => agents::hooks_on_a_disk_that_takes_nothing(&disk),
        "mends" => mends_while_it_is_full(&disk),
        "new day" => a_new_day_on_a_disk_without_inodes(&disk),
        _ => panic!("{story}"),
    }
    println!("story ends");
}

struct SmallDisk {
    root: PathBuf,
}

impl SmallDisk {
    fn log(&self) -> PathBuf {
        self.root.join("log")
    }

    /// Fills the disk up to this many free bytes, or a little fewer.
    fn fill(&self, but: usize) {
        let path = self.root.join("filler");
        let mut filler = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        for size in [64 << 10, 4 << 10, 512, 1] {
            while filler.write_all(&vec![b'x'; size]).is_ok() {}
        }
        // Delayed allocation may turn out to have no space.
        let _ = filler.sync_all();
        if but > 0 {
            let len = filler.metadata().unwrap().len();
            filler.set_len(len.saturating_sub(but as u64)).unwrap();
            filler.sync_all().unwrap();
        }
    }

    /// Uses all inodes.
    fn fill_inodes(&self) {
        let dir = self.root.join("names");
        fs::create_dir(&dir).unwrap();
        for number in 0..1_000_000 {
            if File::create(dir.join(number.to_string())).is_err() {
                return;
            }
        }
        panic!("there is no end of inodes");
    }

    fn empty(&self) {
        let _ = fs::remove_file(self.root.join("filler"));
        let _ = fs::remove_dir_all(self.root.join("names"));
    }

    /// Files that belong to nothing.
    fn leftovers(&self) -> Vec<PathBuf> {
        let mut dirs = vec![self.log()];
        let mut found = Vec::new();
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.extension().is_some_and(|extension| extension == "tmp") {
                    found.push(path);
                }
            }
        }
        found
    }
}

fn small() -> Options {
    Store::options()
        .segment_bytes_max(100_000)
        .sidecar_bytes_min(0)
}

fn text(id: u128) -> String {
    "x".repeat(200 + (id * 37 % 900) as usize)
}

/// The expected state of acknowledged records.
fn check(store: &Store, acked: &[(u64, Record)]) {
    let lines = all_lines(store);
    let mut seen = BTreeSet::new();
    for (seq, line) in &lines {
        assert!(seen.insert(format!("{line:?}")), "{seq} is there twice");
    }
    for acked in acked {
        assert_eq!(lines.get(acked.0 as usize - 1), Some(acked));
    }
}

/// Checks that an error says that the disk is full, where, and what to do.
fn check_full(e: &decklog::Error) {
    let text = e.to_string();
    assert_eq!(e.kind(), ErrorKind::Io, "{text}");
    let source = std::error::Error::source(e).unwrap();
    let source = source.downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::StorageFull, "{text}");
    assert!(e.path().is_some(), "{text}");
    assert!(text.contains("make room"), "{text}");
}

/// Writes until there is no more space; returns the acknowledged records.
fn write_until_full(store: &Store, from: u128) -> Vec<(u64, Record)> {
    let mut acked = Vec::new();
    for id in from.. {
        let one = turn(id, &text(id), DAY_1 + (id % 3) as i64 * DAY_MS);
        match store.record(one.clone()) {
            Ok(ack) => acked.push((ack.seq, one.into())),
            Err(e) => {
                check_full(&e);
                break;
            }
        }
        assert!(id < from + 100_000, "the disk is never full");
    }
    acked
}

fn writes_until_it_is_full(disk: &SmallDisk) {
    for (round, durability) in [Durability::Process, Durability::Disk]
        .into_iter()
        .enumerate()
    {
        let path = disk.log();
        let options = || small().durability(durability);
        let store = options().open(&path).unwrap();
        let mut acked: Vec<(u64, Record)> = all_lines(&store);
        disk.fill(40_000);
        acked.extend(write_until_full(&store, 1 + round as u128 * 1_000_000));
        assert!(!acked.is_empty());
        disk.fill(0);

        // This handle writes no more, but reads. So do all others.
        let late = turn(5_000_000, "late", DAY_1);
        for _ in 0..3 {
            let e = store.record(late.clone()).unwrap_err();
            assert!(
                matches!(e.kind(), ErrorKind::Poisoned | ErrorKind::Io),
                "{e}"
            );
            assert!(e.to_string().contains("make room"), "{e}");
        }
        check(&store, &acked);
        let reader = Store::options().read_only(true).open(&path).unwrap();
        check(&reader, &acked);
        let is_torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
        let damage = verify(&Disk::new(&path)).unwrap().damage;
        assert!(damage.iter().all(|one| is_torn(one.class)), "{damage:?}");
        // No incomplete sidecar is left behind either.
        drop((store, reader));
        assert!(disk.leftovers().is_empty(), "{:?}", disk.leftovers());

        let store = options().open(&path).unwrap();
        check(&store, &acked);
        disk.empty();
        // Unacknowledged records may be there too.
        let known = all_lines(&store).len() as u64;
        let ack = match store.record(late.clone()) {
            Ok(ack) => ack,
            // It must not fail, although the store was opened while the disk was full.
            Err(e) => panic!("{e}"),
        };
        let expected = if round == 0 { known + 1 } else { ack.seq };
        assert_eq!(ack.seq, expected);
        check(&store, &acked);
        drop(store);
        assert!(disk.leftovers().is_empty(), "{:?}", disk.leftovers());
    }
    let found = verify(&Disk::new(disk.log())).unwrap();
    assert_eq!((found.gaps, found.repeats), (vec![], vec![]));
    let is_torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
    assert!(found.damage.iter().all(|one| is_torn(one.class)));
}

/// A `HEAD` that was extended or copied with holes maps blocks that the disk has no space for.
fn opens_while_it_is_full(disk: &SmallDisk) {
    let path = disk.log();
    let store = small().open(&path).unwrap();
    let mut acked = Vec::new();
    for id in 1..=20 {
        let one = turn(id, &text(id), DAY_1);
        acked.push((store.record(one.clone()).unwrap().seq, one.into()));
    }
    disk.fill(0);

    // A new store.
    let new = disk.root.join("new");
    match Store::open(&new) {
        // A small file may fit into its inode.
        Err(e) => check_full(&e),
        Ok(other) => match other.record(turn(1, &text(1), DAY_1)) {
            Err(e) => check_full(&e),
            Ok(_) => panic!("there was room"),
        },
    }
    let head = path.join("HEAD");
    let good = fs::read(&head).unwrap();
    for (number, harm) in [
        "none",
        "deleted",
        "empty",
        "holes",
        "longer",
        "tail of holes",
    ]
    .into_iter()
    .enumerate()
    {
        let live = small().open(&path).unwrap();
        check(&live, &acked);
        match harm {
            "deleted" => fs::remove_file(&head).unwrap(),
            "empty" | "holes" | "tail of holes" => {
                // As a new file, since the old one is in use.
                fs::remove_file(&head).unwrap();
                let mut file = File::create(&head).unwrap();
                if harm == "tail of holes" {
                    // There may be too little space for all of it.
                    let _ = file.write_all(&good[..1000]);
                }
                if harm != "empty" {
                    file.set_len(10_000).unwrap();
                }
            }
            "longer" => {
                let file = File::options().write(true).open(&head).unwrap();
                file.set_len(100_000).unwrap();
            }
            _ => {}
        }
        let others = [
            small().open(&path).unwrap(),
            Store::options().read_only(true).open(&path).unwrap(),
        ];
        for store in others.iter().chain([&live, &store]) {
            check(store, &acked);
            store.refresh().unwrap();
            let id = 1_000 + number as u128;
            // The file is small, and may fit into a partly used block.
            for content in ["", &"y".repeat(30_000)] {
                let one = turn(id, content, DAY_1);
                match store.record(one.clone()) {
                    Ok(ack) if ack.status == AckStatus::Added => acked.push((ack.seq, one.into())),
                    Ok(_) => {}
                    Err(e) if e.kind() == ErrorKind::ReadOnly => {}
                    Err(e) => assert!(
                        matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned),
                        "{harm}: {e}"
                    ),
                }
            }
            check(store, &acked);
        }
    }
    disk.empty();
    let store = small().open(&path).unwrap();
    check(&store, &acked);
    store.record(turn(2_000, &text(1), DAY_1)).unwrap();
    assert_eq!(verify(&Disk::new(&path)).unwrap().repeats, []);
    assert!(
        Store::open(&new)
            .unwrap()
            .record(turn(1, "", DAY_1))
            .is_ok()
    );
}

fn captures_until_it_is_full(disk: &SmallDisk) {
    let path = disk.log();
    let store = small().open(&path).unwrap();
    store.record(turn(0, "", DAY_1)).unwrap();
    disk.fill(40_000);
    let lost: Arc<Mutex<Vec<Record>>> = Arc::default();
    let hears = Arc::clone(&lost);
    let options = store.capture_options().on_error(move |e, record| {
        assert!(
            matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned),
            "{e}"
        );
        hears.lock().unwrap().push(record.clone());
    });
    let capture = options.start().unwrap();
    let all: Vec<Record> = (1..=300)
        .map(|id| turn(id, &text(id), DAY_1 + (id % 2) as i64 * DAY_MS).into())
        .collect();
    for (number, record) in all.iter().enumerate() {
        capture.record(record.clone()).unwrap();
        if number % 10 == 0 {
            // Batch by batch, so that some succeed.
            let _ = capture.flush();
        }
    }
    let e = capture.flush().unwrap_err();
    assert!(e.to_string().contains("make room"), "{e}");
    let stats = capture.stats();
    let lost = lost.lock().unwrap().clone();
    assert_eq!((stats.accepted, stats.queued, stats.rejected), (300, 0, 0));
    assert_eq!(stats.failed, lost.len() as u64);
    assert_eq!(stats.written + stats.failed, 300);
    assert!(stats.written > 0 && stats.failed > 0, "{stats:?}");
    drop((capture, store));
    assert!(disk.leftovers().is_empty(), "{:?}", disk.leftovers());

    disk.empty();
    let store = small().open(&path).unwrap();
    let there = |store: &Store, record: &Record| {
        let lines = all_lines(store);
        lines.iter().filter(|(_, line)| line == record).count()
    };
    for record in &all {
        let is_lost = lost.contains(record);
        assert!(there(&store, record) == 1 || is_lost, "{record:?}");
    }
    // The reported records are all that must be recorded again.
    for record in lost {
        store.record(record).unwrap();
    }
    assert_eq!(all_lines(&store).len(), all.len() + 1);
}

fn imports_until_it_is_full(disk: &SmallDisk) {
    let path = disk.log();
    let store = small().open(&path).unwrap();
    store.record(turn(0, "", DAY_1)).unwrap();
    let sessions = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let import = |store: &Store| {
        let mut importer = Importer::new(store).expired(Expired::Expire);
        importer.path(&sessions).and_then(|()| importer.finish())
    };
    drop(store);
    for room in [0, 8_000, 20_000, 60_000] {
        disk.empty();
        disk.fill(room);
        let store = small().open(&path).unwrap();
        if let Err(e) = import(&store) {
            check_full(&e);
        }
        check(&store, &[]);
    }
    disk.empty();
    let store = small().open(&path).unwrap();
    let report = import(&store).unwrap();
    assert_eq!(report.broken, []);
    assert_eq!(import(&store).unwrap().added, 0);
    // The same records in the same order as in a store with space.
    let whole = small().open(disk.root.join("whole")).unwrap();
    import(&whole).unwrap();
    let said = |store: &Store| -> BTreeSet<String> {
        let lines = all_lines(store).into_iter();
        lines.map(|(_, line)| format!("{line:?}")).collect()
    };
    let mut expected = said(&whole);
    expected.insert(format!("{:?}", Record::from(turn(0, "", DAY_1))));
    assert_eq!(said(&store), expected);
}

fn mends_while_it_is_full(disk: &SmallDisk) {
    let path = disk.log();
    let store = small().open(&path).unwrap();
    let mut acked = Vec::new();
    for id in 1..=40 {
        let one = turn(id, &text(id), DAY_1);
        acked.push((store.record(one.clone()).unwrap().seq, one.into()));
    }
    drop(store);
    let name = path.join(DAY_1_NAME).join("conversation_turns.0001.jsonl");
    let mut segment = File::options().append(true).open(&name).unwrap();
    segment.write_all(b"garbage\n").unwrap();
    let before = fs::read(&name).unwrap();
    for room in [0, 6_000, 12_000] {
        disk.empty();
        disk.fill(room);
        let store = small().open(&path).unwrap();
        match store.repair() {
            Err(e) => {
                check_full(&e);
                assert_eq!(fs::read(&name).unwrap(), before);
            }
            Ok(_) => panic!("there was room"),
        }
        check(&store, &acked);
        assert!(disk.leftovers().is_empty(), "{:?}", disk.leftovers());
    }
    disk.empty();
    let store = small().open(&path).unwrap();
    assert_eq!(store.repair().unwrap().len(), 1);
    check(&store, &acked);
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
    // Failed attempts left no copies.
    assert_eq!(fs::read_dir(path.join("quarantine")).unwrap().count(), 1);
}

fn a_new_day_on_a_disk_without_inodes(disk: &SmallDisk) {
    let path = disk.log();
    let store = small().open(&path).unwrap();
    store.record(turn(1, "one", DAY_1)).unwrap();
    disk.fill_inodes();
    let tomorrow = turn(2, "two", DAY_1 + DAY_MS);
    check_full(&store.record(tomorrow.clone()).unwrap_err());
    // Nothing was written, so nothing needs recovery: existing days still accept records.
    assert_eq!(store.record(turn(3, "three", DAY_1)).unwrap().seq, 2);
    let batch = [
        turn(4, "four", DAY_1),
        tomorrow.clone(),
        turn(5, "five", DAY_1),
    ];
    let answers = store.record_batch(batch.map(Record::from)).unwrap();
    let answers: Vec<_> = answers
        .into_iter()
        .map(|one| one.map(|ack| ack.seq))
        .collect();
    assert_eq!(answers[0].as_ref().ok(), Some(&3));
    check_full(answers[1].as_ref().unwrap_err());
    assert_eq!(answers[2].as_ref().ok(), Some(&4));
    disk.empty();
    assert_eq!(store.record(tomorrow).unwrap().seq, 5);
    assert!(store.get_turn(Uuid::from_u128(2)).unwrap().is_some());
    drop(store);
    assert!(verify(&Disk::new(&path)).unwrap().is_clean());
}

#[test]
fn a_full_disk_is_told_read_and_gone_on_with_when_there_is_room() {
    on_small_disks("writes");
}

/// Bug: a `HEAD` with holes was mapped, and the kernel killed the process that stored into a hole
/// on a full disk.
#[test]
fn no_process_dies_of_a_full_disk() {
    on_small_disks("opens");
}

#[test]
fn what_is_captured_on_a_full_disk_is_accounted_for() {
    on_small_disks("captures");
}

#[test]
fn an_import_goes_on_where_a_full_disk_ended_it() {
    on_small_disks("imports");
}

#[test]
fn a_watcher_waits_until_a_full_disk_has_room() {
    on_small_disks("watches");
}

#[test]
fn a_hook_on_a_full_or_read_only_disk_stops_no_agent() {
    on_small_disks("hooks");
}

#[test]
fn a_repair_on_a_full_disk_changes_nothing() {
    on_small_disks("mends");
}

#[test]
fn a_day_that_cannot_be_made_stops_no_other() {
    on_small_disks("new day");
}

/// The output of a process with a limit: sequence numbers and ids.
const ENV_LIMITED: &str = "DECKLOG_FULL_LIMITED";

/// Does nothing unless one of the tests below started it, with a limit on file sizes.
#[test]
fn process_under_a_limit() {
    let Ok(dir) = std::env::var(ENV_LIMITED) else {
        return;
    };
    let tell = |line: String| io::stdout().lock().write_all(line.as_bytes()).unwrap();
    let expect = |e: decklog::Error| {
        assert!(
            matches!(e.kind(), ErrorKind::Io | ErrorKind::Poisoned),
            "{e}"
        );
        assert!(e.to_string().contains("too large"), "{e}");
        assert!(e.path().is_some() || e.kind() == ErrorKind::Poisoned, "{e}");
    };
    for round in 0..2 {
        // The second run finds an existing store with a torn line.
        let store = match small().open(&dir) {
            Ok(store) => store,
            Err(e) => {
                expect(e);
                continue;
            }
        };
        for id in 1..=9 {
            let id = id + 100 * round;
            match store.record(turn(id, &text(id % 3), DAY_1)) {
                Ok(ack) => tell(format!("\nacked {} {id}\n", ack.seq)),
                Err(e) => expect(e),
            }
        }
        let _ = all_lines(&store);
    }
    tell("\nended\n".to_owned());
}

/// Runs the process with a limit in bytes, whose signal it ignores or is killed by.
fn run_limited(path: &Path, bytes: u64, ignores: bool) -> Output {
    let trap = if ignores { "trap '' XFSZ; " } else { "" };
    let output = Command::new("sh")
        .args([
            "-c",
            &format!("{trap}exec prlimit --fsize={bytes} --core=0 \"$@\""),
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "full::process_under_a_limit", "--nocapture"])
        .env(ENV_LIMITED, path)
        .stdin(Stdio::null())
        .output();
    output.unwrap()
}

/// A limit on file sizes is reached in every file of a store in turn, and at every byte of a line.
/// The system writes the part that fits, and then returns an error or kills the process.
#[test]
fn a_file_that_may_get_no_longer_loses_nothing() {
    let step = count("DECKLOG_FULL_STEP", 487) as usize;
    let (mut failed, mut killed, mut whole) = (0, 0, 0);
    for bytes in (0..10_000).step_by(step) {
        for ignores in [true, false] {
            let case = format!("{bytes} bytes, ignored {ignores}");
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("log");
            let output = run_limited(&path, bytes, ignores);
            let text = said(&output);
            let has_ended = text.contains("\nended\n");
            if output.status.signal() == Some(SIGXFSZ) {
                assert!(!ignores, "{case}");
                killed += 1;
            } else {
                assert!(
                    output.status.success() && has_ended,
                    "{case}: {:?} {text}",
                    output.status
                );
            }
            let acked: Vec<(u64, u128)> = text
                .lines()
                .filter_map(|line| {
                    let (seq, id) = line.strip_prefix("acked ")?.split_once(' ')?;
                    Some((seq.parse().unwrap(), id.parse().unwrap()))
                })
                .collect();
            if acked.len() < 18 {
                failed += 1;
            } else {
                whole += 1;
            }
            let store = small().open(&path).unwrap();
            store.record_batch([]).unwrap();
            let lines = all_lines(&store);
            let at = |seq: u64| match &lines[seq as usize - 1] {
                (found, Record::Turn(turn)) if *found == seq => turn.id.as_u128(),
                other => panic!("{case}: {other:?}"),
            };
            for (seq, id) in &acked {
                assert_eq!(at(*seq), *id, "{case}");
            }
            let ids: BTreeSet<u128> = (1..=lines.len() as u64).map(at).collect();
            assert_eq!(ids.len(), lines.len(), "{case}");
            let ack = store.record(turn(1_000, "", DAY_1)).unwrap();
            assert_eq!(ack.seq, lines.len() as u64 + 1, "{case}");
            drop(store);
            let found = verify(&Disk::new(&path)).unwrap();
            assert_eq!((found.gaps, found.repeats), (vec![], vec![]), "{case}");
            assert!(found.damage.len() <= 2, "{case}: {:?}", found.damage);
        }
    }
    println!("{failed} limited, of which {killed} killed; {whole} with room");
    assert!(failed > 0 && killed > 0 && whole > 0);
}
