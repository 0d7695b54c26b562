//! Repeated power cuts under processes that write at level `Disk`: a separate file system (ext4,
//! XFS), mounted from a file, is shut down without flushing its log, so that everything not synced
//! is lost, and is mounted again. Records acknowledged at level `Disk` are there once, under the
//! acknowledged sequence number, in files and directories new or old. Records acknowledged at level
//! `Process` shortly before may be lost, but are never there in part or twice. The store opens and
//! accepts records.
//!
//! `DECKLOG_POWER_CUTS` sets the number of cuts for each file system. Without it, nothing is run,
//! because the test needs root, loop devices, `mkfs.ext4`, `mkfs.xfs` and `xfs_io`. `DECKLOG_SEED`
//! repeats the choices of a run.

#![allow(clippy::unwrap_used)]

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use decklog::health::{DamageClass, Verification};
use decklog::storage::Disk;
use decklog::{Durability, ErrorKind, Store, verify};
use tempfile::TempDir;

use super::crash::{
    Heard, Levels, Tally, Task, WRITERS, Worker, assert_seen, compare, fact, was_killed,
};
use super::support::{Rng, all_lines, count};

/// XFS requires at least 300 MB. The file is sparse.
const IMAGE_BYTES: u64 = 512 << 20;
/// Number of cuts per file system, so that it never fills up.
const CUTS_PER_IMAGE: u64 = 50;
/// The writer of the records after each cut.
const SURVIVOR: u64 = u64::MAX >> 40;

fn run<const N: usize>(program: &str, arguments: [&OsStr; N]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|e| panic!("{program}: {e}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// A file system in a file, mounted while this value lives.
#[derive(Debug)]
pub struct Machine {
    dir: TempDir,
    is_mounted: bool,
}

impl Machine {
    pub fn new(file_system: &str) -> Machine {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine {
            dir,
            is_mounted: false,
        };
        let image = machine.image();
        File::create(&image).unwrap().set_len(IMAGE_BYTES).unwrap();
        std::fs::create_dir(machine.root()).unwrap();
        let force = if file_system == "xfs" { "-f" } else { "-F" };
        let program = format!("mkfs.{file_system}");
        run(&program, ["-q".as_ref(), force.as_ref(), image.as_ref()]);
        machine.mounted()
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("image")
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().join("mnt")
    }

    fn mounted(mut self) -> Machine {
        self.mount();
        self
    }

    fn mount(&mut self) {
        let (image, root) = (self.image(), self.root());
        let options = ["-o".as_ref(), "loop".as_ref()];
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            run(
                "mount",
                [options[0], options[1], image.as_ref(), root.as_ref()],
            );
            self.is_mounted = true;
            let probe = root.join("probe");
            if File::create(&probe).is_ok() {
                std::fs::remove_file(&probe).unwrap();
                return;
            }
            // A process with a mount namespace created a moment ago still has the shut-down file
            // system mounted.
            assert!(Instant::now() < deadline, "the file system stays shut down");
            self.unmount();
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn unmount(&mut self) {
        run("umount", [self.root().as_ref()]);
        self.is_mounted = false;
    }

    /// No process may use the file system meanwhile.
    pub fn cut_power(&mut self) {
        let root = self.root();
        // Without -f, the log is not flushed.
        let shut_down = [
            "-x".as_ref(),
            "-c".as_ref(),
            "shutdown".as_ref(),
            root.as_ref(),
        ];
        run("xfs_io", shut_down);
        let is_down = File::create(root.join("after the cut")).is_err();
        assert!(is_down, "the file system was not shut down");
        self.unmount();
        self.mount();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let root = self.root();
        let umount = |flag: &str| {
            Command::new("umount")
                .args([OsStr::new(flag), root.as_ref()])
                .status()
        };
        // A killed process may hold it a moment longer.
        for _ in 0..100 {
            if !self.is_mounted {
                return;
            }
            self.is_mounted = !umount("-q").is_ok_and(|status| status.success());
            std::thread::sleep(Duration::from_millis(self.is_mounted.into()) * 10);
        }
        let _ = umount("-l");
    }
}

#[derive(Debug, Default)]
struct Sums {
    cuts: u64,
    /// Cuts before any acknowledgement.
    unheard: u64,
    new_stores: u64,
    acknowledged_at_disk: u64,
    lost: u64,
    doubled: u64,
    acknowledged_at_process: u64,
    lost_at_process: u64,
    torn: u64,
    /// Sequence numbers of lost lines, none of them acknowledged at `Disk`.
    gaps: u64,
    lines: u64,
}

/// A store and its known contents.
struct Log {
    path: PathBuf,
    tally: Tally,
    next_writer: u64,
    again: Option<(u64, u64)>,
    survivors: u64,
    gaps: u64,
    torn: u64,
}

impl Log {
    /// A store that does not exist yet, nor do the directories above it.
    fn new(root: &Path, number: u64) -> Log {
        Log {
            path: root.join(format!("{number}/some/where/log")),
            tally: Tally::default(),
            next_writer: 1,
            again: None,
            survivors: 0,
            gaps: 0,
            torn: 0,
        }
    }

    /// Lets processes write for a while, then kills them.
    fn work(&mut self, rng: &mut Rng) -> Vec<Heard> {
        let levels = *rng.pick(&[Levels::Disk, Levels::Disk, Levels::Both, Levels::Process]);
        let mut workers: Vec<Worker> = Vec::new();
        let (sender, receiver) = channel();
        let mut heard = Vec::new();
        let is_over = AtomicBool::new(false);
        let (path, outside) = (self.path.clone(), rng.one_in(2).then(|| Rng(rng.next())));
        std::thread::scope(|scope| {
            if let Some(rng) = outside {
                scope.spawn(|| sync_now_and_then(&path, rng, &is_over));
            }
            for _ in 0..=rng.below(4) {
                let mut worker = Worker::start(
                    &self.path,
                    Task {
                        writer: self.next_writer,
                        levels,
                        seed: rng.next(),
                        may_end: true,
                        again: self.again.take(),
                    },
                );
                self.next_writer += WRITERS;
                let (acks, sender) = (worker.acks(), sender.clone());
                scope.spawn(move || acks.for_each(|heard| _ = sender.send(heard)));
                workers.push(worker);
            }
            drop(sender);
            // Often just after the first ones, when all files are new.
            let until = *rng.pick(&[0, 1, 1, 10, 100, 400]);
            let until = if until > 1 { rng.below(until) } else { until };
            while heard.len() < until {
                match receiver.recv_timeout(Duration::from_secs(60)) {
                    Ok(one) => heard.push(one),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(e) => panic!("the processes do not get to write: {e}"),
                }
            }
            let wait_us = if until == 0 { 60_000 } else { 8_000 };
            std::thread::sleep(Duration::from_micros(rng.below(wait_us) as u64));
            for worker in &mut workers {
                was_killed(worker.kill());
            }
            is_over.store(true, Ordering::Relaxed);
            heard.extend(receiver);
        });
        heard
    }

    /// The contents of the disk after a cut, before the next write.
    fn look(&mut self) -> Option<Verification> {
        let found = match verify(&Disk::new(&self.path)) {
            Ok(found) => found,
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::NotAStore, "{e}");
                let heard = &self.tally.heard;
                let is_needed = |level: &Durability| *level == Durability::Disk;
                assert!(!heard.values().any(|(_, level)| is_needed(level)), "{e}");
                return None;
            }
        };
        let is_torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
        assert!(
            found.damage.iter().all(|damage| is_torn(damage.class)) && found.repeats.is_empty(),
            "{found:?}"
        );
        assert!(
            self.tally.heard.is_empty() || self.path.join("decklog.json").is_file(),
            "the manifest is gone"
        );
        Some(found)
    }

    /// Compares the contents after a cut with what is known, and continues to write.
    fn recover(&mut self, heard: &[Heard], sums: &mut Sums) {
        let found = self.look();
        let read = found.is_some().then(|| {
            let store = Store::options().read_only(true).open(&self.path).unwrap();
            all_lines(&store)
        });
        let options = Store::options().durability(Durability::Disk);
        let store = options.sidecar_bytes_min(0).open(&self.path).unwrap();
        // A last line without its LF gets it.
        store.record_batch([]).unwrap();
        let lines = all_lines(&store);
        let read = read.unwrap_or_default();
        assert!(read.iter().all(|line| lines.contains(line)));

        let findings = compare(&lines, &self.tally);
        let (lost, gone): (Vec<Heard>, Vec<Heard>) = findings
            .lost
            .into_iter()
            .partition(|heard| heard.level == Durability::Disk);
        assert_eq!(lost, [], "acknowledged, and lost");
        assert_eq!(findings.doubled, [], "there twice");
        // Also the records that it depends on.
        for one in heard.iter().filter(|one| one.level == Durability::Disk) {
            assert_seen(&store, one.writer, one.number);
        }
        sums.lost += lost.len() as u64;
        sums.doubled += findings.doubled.len() as u64;
        sums.lost_at_process += gone.len() as u64;
        // All of it was read from the disk, so from now on it must stay.
        self.tally = Tally::default();
        for ((writer, number), seq) in findings.found {
            self.hear(writer, number, seq);
        }
        let ack = store.record(fact(SURVIVOR, self.survivors)).unwrap();
        self.hear(SURVIVOR, self.survivors, ack.seq);
        self.survivors += 1;
        let known = all_lines(&store);
        drop(store);
        assert_eq!(all_lines(&Store::open(&self.path).unwrap()), known);
        let found = self.look().unwrap();
        let gaps = found.gaps.iter().map(|gap| gap.last - gap.first + 1).sum();
        let torn = found.damage.len() as u64;
        sums.gaps += gaps - std::mem::replace(&mut self.gaps, gaps);
        sums.torn += torn.saturating_sub(std::mem::replace(&mut self.torn, torn));
        sums.lines += known.len() as u64;
    }

    fn hear(&mut self, writer: u64, number: u64, seq: u64) {
        self.tally.hear(Heard {
            writer,
            number,
            seq,
            level: Durability::Disk,
        });
    }
}

/// Another process syncs random files, so that after a cut the files are in states of different
/// times.
fn sync_now_and_then(store: &Path, mut rng: Rng, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let days = std::fs::read_dir(store).into_iter().flatten().flatten();
        let files = days.flat_map(|day| std::fs::read_dir(day.path()).into_iter().flatten());
        let files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        if !files.is_empty() {
            let file = File::open(rng.pick(&files));
            let _ = file.map(|file| file.sync_all());
        }
        std::thread::sleep(Duration::from_micros(rng.below(4_000) as u64));
    }
}

fn cut_again_and_again(file_system: &str, cuts: u64, rng: &mut Rng) -> Sums {
    let mut sums = Sums::default();
    while sums.cuts < cuts {
        let mut machine = Machine::new(file_system);
        let mut log = None;
        for nth in 0..CUTS_PER_IMAGE.min(cuts - sums.cuts) {
            let mut now = log
                .take()
                .filter(|_| !rng.one_in(4))
                .unwrap_or_else(|| Log::new(&machine.root(), nth));
            sums.new_stores += u64::from(now.tally.heard.is_empty());
            let heard = now.work(rng);
            sums.unheard += u64::from(heard.is_empty());
            for one in &heard {
                now.tally.hear(*one);
                now.again = Some((one.writer, one.number));
                let is_disk = u64::from(one.level == Durability::Disk);
                sums.acknowledged_at_disk += is_disk;
                sums.acknowledged_at_process += 1 - is_disk;
            }
            machine.cut_power();
            now.recover(&heard, &mut sums);
            log = Some(now);
            sums.cuts += 1;
        }
    }
    sums
}

#[test]
fn what_was_acknowledged_at_disk_level_survives_power_cuts() {
    if std::env::var_os("DECKLOG_POWER_CUTS").is_none() {
        println!(
            "not run: DECKLOG_POWER_CUTS is not set; power cuts take root, loop devices, mkfs.ext4, mkfs.xfs and xfs_io"
        );
        return;
    }
    let cuts = count("DECKLOG_POWER_CUTS", 0);
    let mut rng = Rng::seeded("power");
    for file_system in ["ext4", "xfs"] {
        let started = Instant::now();
        let sums = cut_again_and_again(file_system, cuts, &mut rng);
        // Otherwise no power cut took effect.
        assert!(cuts < 50 || sums.lost_at_process > 0, "{sums:?}");
        println!(
            "{file_system}: {sums:?} in {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
}
