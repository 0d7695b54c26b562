//! Processes compact, retain and erase while others append and read. They are killed at random
//! moments, or lose power. Readers see all required records, once, at any time, without errors.
//! Acknowledged records stay until they expire. Data whose erasure was acknowledged is in no file.
//! Upkeep that runs to its end completes.
//!
//! `DECKLOG_REWRITE_KILLS` sets the number of kills, `DECKLOG_REWRITE_READ_SECONDS` the duration of
//! reading, `DECKLOG_REWRITE_POWER_CUTS` the number of power cuts: by default none, because they
//! have the requirements of `power.rs`. `DECKLOG_SEED` repeats the choices of a run.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use decklog::health::{Damage, DamageClass};
use decklog::storage::Disk;
use decklog::{Durability, verify};

use memchr::memmem;

use super::erase::each_file;
use super::parties::{
    FIRST, FIRST_FACTS, NOW, Party, SECRET, Tally, assert_listed, assert_there, end_of, is_due,
    keep_up, look, open, records,
};
use super::power::Machine;
use super::support::{Rng, count};
use super::upkeep::{compact, retain};

fn first_facts(path: &Path, durability: Durability) -> Arc<Mutex<Tally>> {
    let store = open(path, 3_000, durability);
    for number in 0..FIRST_FACTS {
        super::erase::record(&store, records(FIRST, number));
    }
    Arc::new(Mutex::new(Tally::from([(FIRST, FIRST_FACTS - 1)])))
}

/// No file contains a word whose erasure was acknowledged.
fn assert_forgotten(path: &Path, words: &[String]) {
    let words: HashSet<&[u8]> = words.iter().map(String::as_bytes).collect();
    each_file(path, &mut |path, bytes| {
        for start in memmem::find_iter(bytes, SECRET) {
            let len = memchr::memchr(b'.', &bytes[start..]).map_or(0, |dot| dot + 1);
            let word = &bytes[start..start + len];
            let text = String::from_utf8_lossy(word);
            assert!(!words.contains(word), "{text} is in {}", path.display());
        }
    });
}

/// Checks the store after the rewriting process died, and that another one completes its work.
fn check(path: &Path, tally: &Tally, erased: &[String]) -> u64 {
    let store = open(path, 20_000, Durability::Process);
    assert_there(&store, tally);
    let is_sound = || {
        let found = verify(&Disk::new(path)).unwrap();
        // A torn line without an acknowledgement, and one to which the next writer added an LF.
        let is_torn =
            |damage: &Damage| matches!(damage.class, DamageClass::Torn | DamageClass::Damaged);
        assert!(
            found.damage.iter().all(is_torn) && found.repeats.is_empty(),
            "{found:#?}"
        );
        found.interrupted.len() as u64
    };
    let interrupted = is_sound();
    assert_forgotten(path, erased);
    compact(&store, NOW);
    retain(&store, NOW);
    for store in [&store, &open(path, 3_000, Durability::Process)] {
        assert_there(store, tally);
        for (writer, last) in tally {
            assert_listed(store, *writer, *last);
            for number in (0..=*last).filter(|number| is_due(*number)) {
                assert!(
                    !look(store, *writer, number),
                    "{number} of {writer} is left"
                );
            }
        }
    }
    is_sound();
    interrupted
}

fn erased(said: Vec<String>) -> impl Iterator<Item = String> {
    let words = said.into_iter();
    words.filter_map(|line| Some(line.strip_prefix("erased ")?.to_owned()))
}

/// Stops the readers; returns their numbers of reads and followed lines.
fn end_readers(path: &Path, readers: Vec<Party>, tally: &Tally) -> Vec<String> {
    let ends: Vec<String> = tally
        .iter()
        .map(|(writer, last)| format!("{writer} {last}"))
        .collect();
    let ready = path.with_extension("ready");
    std::fs::write(&ready, ends.join("\n")).unwrap();
    std::fs::rename(ready, end_of(path)).unwrap();
    let said = readers.into_iter().map(Party::end);
    let mut looked = said.map(|said| {
        let mut said = said.into_iter();
        said.find(|line| line.starts_with("looked")).unwrap()
    });
    looked.by_ref().collect()
}

#[test]
fn rewriters_that_are_killed_leave_old_or_new() {
    const KILLS_PER_STORE: u64 = 40;
    let kills = count("DECKLOG_REWRITE_KILLS", 2);
    let mut rng = Rng::seeded("rewriters");
    let started = Instant::now();
    let (mut killed, mut erasures, mut interrupted, mut acked) = (0, 0, 0, 0);
    while killed < kills {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let tally = first_facts(&path, Durability::Process);
        let mut next_writer = FIRST + 1;
        let start = |role, seed| Party::start(role, &path, seed, false, &tally);
        let mut readers = vec![start("read", rng.next())];
        let mut appenders = Vec::new();
        let mut words = Vec::new();
        for _ in 0..KILLS_PER_STORE.min(kills - killed) {
            while appenders.len() < 2 {
                appenders.push(start("append", next_writer));
                next_writer += 1;
            }
            let rewriter = start("keep up", rng.next());
            // Some in the first steps of a pass, some after an erasure or two.
            let up_to = if rng.one_in(3) { 500_000 } else { 100_000 };
            let wait_us = 15_000 + rng.below(up_to) as u64;
            std::thread::sleep(Duration::from_micros(wait_us));
            words.extend(erased(rewriter.kill()));
            if rng.one_in(3) {
                appenders.swap_remove(rng.below(2)).kill();
            }
            let known = tally.lock().unwrap().clone();
            interrupted += check(&path, &known, &words);
            readers.iter_mut().for_each(Party::assert_running);
            killed += 1;
        }
        for appender in appenders {
            appender.kill();
        }
        let known = tally.lock().unwrap().clone();
        println!("{:?}", end_readers(&path, readers, &known));
        check(&path, &known, &words);
        erasures += words.len();
        acked += known.values().map(|last| last + 1).sum::<u64>();
    }
    println!(
        "{killed} kills, {acked} facts, {erasures} erasures, {interrupted} rewrites interrupted, in {:.1} s",
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn readers_go_on_undisturbed_while_the_log_is_rewritten() {
    let seconds = count("DECKLOG_REWRITE_READ_SECONDS", 4);
    let mut rng = Rng::seeded("rewriters, read");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let tally = first_facts(&path, Durability::Process);
    let start = |role, seed| Party::start(role, &path, seed, false, &tally);
    let mut readers: Vec<Party> = (0..4).map(|_| start("read", rng.next())).collect();
    let mut appender = start("append", FIRST + 1);
    let store = open(&path, 20_000, Durability::Process);
    let started = Instant::now();
    let (mut passes, mut words) = (0, Vec::new());
    while started.elapsed() < Duration::from_secs(seconds) {
        words.extend(keep_up(&store, &mut rng, (1, passes)));
        passes += 1;
        let parties = readers.iter_mut().chain([&mut appender]);
        parties.for_each(Party::assert_running);
    }
    appender.kill();
    let known = tally.lock().unwrap().clone();
    let looked = end_readers(&path, readers, &known);
    check(&path, &known, &words);
    println!(
        "{passes} passes, {} erasures, {known:?}, {looked:?}, in {:.1} s",
        words.len(),
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn rewriters_survive_power_cuts() {
    const CUTS_PER_STORE: u64 = 40;
    let cuts = count("DECKLOG_REWRITE_POWER_CUTS", 0);
    if cuts == 0 {
        println!("not run: DECKLOG_REWRITE_POWER_CUTS is not set");
        return;
    }
    let mut rng = Rng::seeded("rewriters, power");
    let started = Instant::now();
    let (mut done, mut erasures, mut interrupted, mut acked) = (0, 0, 0, 0);
    while done < cuts {
        let mut machine = Machine::new(["ext4", "xfs"][rng.below(2)]);
        let path = machine.root().join("log");
        let tally = first_facts(&path, Durability::Disk);
        let mut words = Vec::new();
        for cut in 0..CUTS_PER_STORE.min(cuts - done) {
            let start = |role, seed| Party::start(role, &path, seed, true, &tally);
            let appender = start("append", FIRST + 1 + cut);
            let rewriter = start("keep up", rng.next());
            let wait_us = 30_000 + rng.below(400_000) as u64;
            std::thread::sleep(Duration::from_micros(wait_us));
            words.extend(erased(rewriter.kill()));
            appender.kill();
            machine.cut_power();
            let known = tally.lock().unwrap().clone();
            interrupted += check(&path, &known, &words);
            done += 1;
        }
        erasures += words.len();
        let known = tally.lock().unwrap().clone();
        acked += known.values().map(|last| last + 1).sum::<u64>();
    }
    println!(
        "{cuts} power cuts, {acked} facts, {erasures} erasures, {interrupted} rewrites interrupted, in {:.1} s",
        started.elapsed().as_secs_f64()
    );
}
