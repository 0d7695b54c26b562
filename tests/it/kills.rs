//! Processes are killed with SIGKILL at random moments: while they open, write, roll segments, sync
//! in the background, or close and write the sidecar; 1, 4 and 16 of them on one store, at both
//! durability levels. Acknowledged records are there once, under the acknowledged sequence number.
//! Unacknowledged ones are there complete or not at all. No writes of other processes are lost, and
//! readers see all acknowledged records. The only damage is torn lines.
//!
//! `DECKLOG_KILLS` sets the number of kills, `DECKLOG_SEED` repeats the choices of a run.

#![allow(clippy::unwrap_used)]

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use decklog::health::DamageClass;
use decklog::storage::Disk;
use decklog::{Durability, Store, verify};
use uuid::Uuid;

use super::crash::{
    Heard, Levels, Tally, Task, WRITERS, Worker, assert_seen, compare, fact, was_killed,
};
use super::support::{DAY_1, Rng, all_lines, count, turn};

/// Number of kills per store, so that opening it stays fast.
const KILLS_PER_STORE: u64 = 250;
/// The writer of the surviving process.
const SURVIVOR: u64 = u64::MAX >> 40;

#[derive(Debug, Default)]
struct Sums {
    kills: u64,
    /// Killed before the first acknowledgement.
    unheard: u64,
    acknowledged: u64,
    lost: u64,
    doubled: u64,
    /// In the log but not acknowledged, because the process died in between.
    unacknowledged: u64,
    torn: u64,
    lines: u64,
}

/// A slot of a process. Processes are started in it one after the other until enough were killed.
struct Slots<'a> {
    store: &'a Path,
    levels: Levels,
    kills: u64,
    /// Number of processes that are killed or about to be.
    begun: AtomicU64,
    killed: AtomicU64,
    unheard: AtomicU64,
    writers: &'a AtomicU64,
    tally: Mutex<Tally>,
}

impl Slots<'_> {
    fn run(&self, mut rng: Rng, seen: &SyncSender<Heard>) {
        // Time from the start of a process to its first acknowledgement.
        let mut start_us = 20_000;
        let mut again = None;
        let mut is_first = true;
        // At least one per slot, so that the intended number of processes runs.
        while self.begun.fetch_add(1, Ordering::Relaxed) < self.kills
            || std::mem::take(&mut is_first)
        {
            is_first = false;
            loop {
                let writer = self.writers.fetch_add(WRITERS, Ordering::Relaxed);
                let task = Task {
                    writer,
                    levels: self.levels,
                    seed: rng.next(),
                    may_end: true,
                    again,
                };
                let is_early = rng.one_in(3);
                let wait_us = rng.below(if is_early { start_us } else { 15_000 }) as u64;
                let (status, told, first_us) = self.one(task, is_early, wait_us, seen);
                again = told.map(|number| (writer, number));
                start_us = first_us.map_or(start_us, |us| (us + us / 2).clamp(1_000, 200_000));
                if was_killed(status) {
                    self.killed.fetch_add(1, Ordering::Relaxed);
                    self.unheard
                        .fetch_add(u64::from(first_us.is_none()), Ordering::Relaxed);
                    break;
                }
            }
        }
    }

    /// Runs a process, and kills it some time after its start or its first acknowledgement. Returns
    /// how it ended, how far its first writer came, and the time of the first acknowledgement.
    fn one(
        &self,
        task: Task,
        is_early: bool,
        wait_us: u64,
        seen: &SyncSender<Heard>,
    ) -> (std::process::ExitStatus, Option<u64>, Option<usize>) {
        let started = Instant::now();
        let mut worker = Worker::start(self.store, task);
        let acks = worker.acks();
        let (first, is_heard) = sync_channel::<()>(1);
        std::thread::scope(|scope| {
            let listener = scope.spawn(move || {
                let (mut told, mut first_us) = (None, None);
                for heard in acks {
                    first_us.get_or_insert_with(|| started.elapsed().as_micros() as usize);
                    let _ = first.try_send(());
                    self.tally
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .hear(heard);
                    if heard.writer == task.writer {
                        told = told.max(Some(heard.number));
                    }
                    // Sample them as time permits.
                    let _ = seen.try_send(heard);
                }
                (told, first_us)
            });
            if !is_early {
                let heard = is_heard.recv_timeout(Duration::from_secs(100));
                assert_ne!(
                    heard,
                    Err(std::sync::mpsc::RecvTimeoutError::Timeout),
                    "a process does not get to write"
                );
            }
            std::thread::sleep(Duration::from_micros(wait_us));
            let status = worker.kill();
            let (told, first_us) = listener.join().unwrap();
            (status, told, first_us)
        })
    }
}

/// A handle that outlives all kills. It sees all acknowledged records, and writes too.
fn survive(slots: &Slots<'_>, durability: Durability, seen: Receiver<Heard>) -> Store {
    let options = Store::options().durability(durability);
    let store = options
        .lock_timeout(Duration::from_secs(60))
        .segment_bytes_max(30_000)
        .open(slots.store)
        .unwrap();
    let mut number = 0;
    for (nth, heard) in seen.into_iter().enumerate() {
        assert_seen(&store, heard.writer, heard.number);
        if nth % 16 == 0 {
            let last = store.last_lines(1).unwrap();
            let last = last[0].seq;
            assert!(
                last >= heard.seq,
                "{heard:?} is not seen, the last is {last}"
            );
        }
        if nth % 64 == 0 {
            let ack = store.record(fact(SURVIVOR, number)).unwrap();
            let heard = Heard {
                writer: SURVIVOR,
                number,
                seq: ack.seq,
                level: durability,
            };
            slots.tally.lock().unwrap().hear(heard);
            number += 1;
        }
    }
    store
}

/// Kills this many processes, a number of them at the same time, on a new store.
fn one_store(processes: u64, levels: Levels, kills: u64, rng: &mut Rng, sums: &mut Sums) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let durability = if levels == Levels::Disk {
        Durability::Disk
    } else {
        Durability::Process
    };
    let writers = AtomicU64::new(1);
    let slots = Slots {
        store: &path,
        levels,
        kills,
        begun: AtomicU64::new(0),
        killed: AtomicU64::new(0),
        unheard: AtomicU64::new(0),
        writers: &writers,
        tally: Mutex::default(),
    };
    let (sender, receiver) = sync_channel(256);
    let survivor = std::thread::scope(|scope| {
        let slots = &slots;
        let survivor = scope.spawn(move || survive(slots, durability, receiver));
        for _ in 0..processes {
            let (rng, sender) = (Rng(rng.next()), sender.clone());
            scope.spawn(move || slots.run(rng, &sender));
        }
        drop(sender);
        survivor.join().unwrap()
    });
    let tally = slots.tally.into_inner().unwrap();

    // A last line without its LF gets it.
    survivor.record_batch([]).unwrap();
    let lines = all_lines(&survivor);
    let store = Store::open(&path).unwrap();
    assert_eq!(
        all_lines(&store),
        lines,
        "who opens anew sees something else"
    );
    let findings = compare(&lines, &tally);
    drop((store, survivor));
    assert_eq!(all_lines(&Store::open(&path).unwrap()), lines);

    let found = verify(&Disk::new(&path)).unwrap();
    let is_torn = |class| matches!(class, DamageClass::Torn | DamageClass::Damaged);
    assert!(
        found.damage.iter().all(|damage| is_torn(damage.class))
            && found.damage.len() as u64 <= slots.killed.load(Ordering::Relaxed)
            && found.gaps.is_empty()
            && found.repeats.is_empty(),
        "{found:?}"
    );
    assert_eq!(findings.lost, [], "acknowledged, and lost");
    assert_eq!(findings.doubled, [], "there twice");
    sums.kills += slots.killed.into_inner();
    sums.unheard += slots.unheard.into_inner();
    sums.acknowledged += tally.heard.len() as u64;
    sums.lost += findings.lost.len() as u64;
    sums.doubled += findings.doubled.len() as u64;
    sums.unacknowledged += (findings.found.len() - tally.heard.len()) as u64;
    sums.torn += found.damage.len() as u64;
    sums.lines += lines.len() as u64;
}

#[test]
fn processes_that_are_killed_lose_nothing_they_acknowledged() {
    let kills = count("DECKLOG_KILLS", 24);
    let mut rng = Rng::seeded("kills");
    let matrix =
        [1, 4, 16].map(|processes| [(processes, Levels::Process), (processes, Levels::Disk)]);
    let mut all = 0;
    for (nth, (processes, levels)) in matrix.into_iter().flatten().enumerate() {
        // The remainder goes to the first groups.
        let mut left = kills / 6 + u64::from((nth as u64) < kills % 6);
        let started = Instant::now();
        let mut sums = Sums::default();
        while left > 0 {
            let now = left.min(KILLS_PER_STORE);
            one_store(processes, levels, now, &mut rng, &mut sums);
            left -= now;
        }
        all += sums.kills;
        println!(
            "{processes} processes at level {levels:?}: {sums:?} in {:.1} s",
            started.elapsed().as_secs_f64()
        );
    }
    assert!(all >= kills);
}

/// Bug: a writer that dies while it publishes the ends of segments in HEAD may have published an
/// end beyond the published lines. A reader that caught up then indexed the published lines, but
/// took the segment to end before them, so that the last lines did not include them.
#[test]
fn a_writer_that_dies_while_it_publishes_hides_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let head = dir.path().join("HEAD");
    let writer = Store::open(dir.path()).unwrap();
    writer.record(turn(1, "", DAY_1)).unwrap();
    let reader = Store::open(dir.path()).unwrap();
    let last = || {
        // At least the interval between checks of HEAD.
        std::thread::sleep(Duration::from_millis(1));
        reader.last_lines(1).unwrap()[0].seq
    };
    assert_eq!(last(), 1);
    writer.record(turn(2, "", DAY_1)).unwrap();
    let published = std::fs::read(&head).unwrap();
    writer.record(turn(3, "", DAY_1)).unwrap();
    let mut file = std::fs::File::options().write(true).open(&head).unwrap();
    // The end of the segment is from the third record; everything else is from the second.
    file.write_all(&published[..64]).unwrap();
    assert_eq!(last(), 2);
    let seen = reader.get_turn(Uuid::from_u128(2)).unwrap();
    assert_eq!(seen, Some(turn(2, "", DAY_1)));
}
