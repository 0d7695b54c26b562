//! Random histories of session files: they grow at any byte, are replaced, truncated and written
//! again, and moved, while a watcher follows them and is stopped or killed. In the end, the log is
//! that of one import of the final files.
//!
//! `DECKLOG_WATCH_ROUNDS` sets the number of rounds, `DECKLOG_SEED` repeats those of a run.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use decklog::Store;
use decklog::import::Watcher;
use decklog::storage::{Fault, Memory, Storage};

use super::sessions::{Session, sessions};
use super::{Child, imported, records};
use crate::support::{Rng, count, still};

/// A round in this many has a process that is killed.
const CHILD_ONE_IN: u64 = 25;
/// A round in this many waits for the notices of the system, and looks at no other file.
const EVENTS_ONE_IN: u64 = 10;

/// Files that grow.
struct Files {
    dir: tempfile::TempDir,
    sessions: Vec<Session>,
    /// Where each file is, and how much of it.
    are: Vec<(PathBuf, usize)>,
    moves: u32,
}

impl Files {
    fn new(rng: &mut Rng) -> Files {
        let dir = tempfile::tempdir().unwrap();
        let sessions = sessions(rng);
        let are = sessions.iter().map(|(name, _)| (dir.path().join(name), 0));
        Files {
            are: are.collect(),
            sessions,
            dir,
            moves: 0,
        }
    }

    fn parent(path: &Path) -> &Path {
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        parent
    }

    fn append(&mut self, file: usize, until: usize) {
        let (path, len) = &mut self.are[file];
        Files::parent(path);
        let mut to = fs::File::options()
            .append(true)
            .create(true)
            .open(path)
            .unwrap();
        to.write_all(&self.sessions[file].1[*len..until.max(*len)])
            .unwrap();
        *len = until.max(*len);
    }

    /// One change of a file.
    fn change(&mut self, rng: &mut Rng) {
        let file = rng.below(self.sessions.len());
        let all = self.sessions[file].1.len();
        let (path, len) = self.are[file].clone();
        let until = (len + rng.below(all - len + 1)).min(all);
        match rng.below(10) {
            0 if len > 0 => {
                // As editors and agents save: a new file takes the name.
                let new = Files::parent(&path).join("new.tmp");
                fs::write(&new, &self.sessions[file].1[..until]).unwrap();
                fs::rename(new, &path).unwrap();
                self.are[file].1 = until;
            }
            1 if len > 0 => {
                fs::write(&path, b"").unwrap();
                self.are[file].1 = 0;
                if rng.one_in(2) {
                    self.append(file, until);
                }
            }
            2 if len > 0 => {
                self.moves += 1;
                let name = path.file_name().unwrap();
                let agent = self.sessions[file].0.starts_with("p/s1/");
                let folder = if agent { "p/s1" } else { "moved" };
                let to = self
                    .dir
                    .path()
                    .join(format!("m{}", self.moves))
                    .join(folder)
                    .join(name);
                Files::parent(&to);
                fs::rename(&path, &to).unwrap();
                self.are[file].0 = to;
            }
            3 if len > 0 => {
                fs::remove_file(&path).unwrap();
                self.are[file].1 = 0;
            }
            _ => self.append(file, until),
        }
    }

    fn complete(&mut self) {
        for file in 0..self.sessions.len() {
            self.append(file, self.sessions[file].1.len());
        }
    }
}

fn store(memory: &Memory) -> Option<Store> {
    let storage: Arc<dyn Storage> = Arc::new(memory.clone());
    let settings = decklog::Settings {
        retention: decklog::retention::RetentionSettings::forever(),
        ..decklog::Settings::default()
    };
    still()
        .settings(settings)
        .storage(storage)
        .open("memory")
        .ok()
}

/// Does what is due, until nothing is.
fn follow(watcher: &mut Watcher, wait: Duration) {
    while let Ok(Some(_)) = watcher.next(wait) {}
}

/// A watcher in this process. It is stopped between any two operations on its storage.
fn in_process(rng: &mut Rng, files: &mut Files) -> Vec<String> {
    let mut memory = Memory::new();
    for _ in 0..=rng.below(4) {
        memory.heal();
        let begun = memory.operations();
        if rng.one_in(2) {
            memory.fail_at(begun + rng.below(400) as u64, Fault::Gone);
        }
        let Some(store) = store(&memory) else {
            continue;
        };
        let watcher = Watcher::new(store, [files.dir.path()]);
        let mut watcher = watcher.rescan_every(Duration::ZERO);
        for _ in 0..rng.below(6) {
            files.change(rng);
            if rng.one_in(4) {
                let _ = watcher.catch_up();
            } else {
                let _ = watcher.next(Duration::ZERO);
            }
        }
        if rng.one_in(2) {
            watcher.finish();
        } else {
            drop(watcher);
        }
        if rng.one_in(4) {
            memory = memory.after_power_cut(|n| rng.below(n + 1));
        }
    }
    memory.heal();
    files.complete();
    let opened = store(&memory).unwrap();
    let mut watcher = Watcher::new(opened, [files.dir.path()]);
    watcher.catch_up().unwrap();
    watcher.catch_up().unwrap();
    watcher.finish();
    records(&store(&memory).unwrap())
}

/// A watcher that looks at other files only once, at its start.
fn by_events(rng: &mut Rng, files: &mut Files) -> Vec<String> {
    let memory = Memory::new();
    let mut watcher = Watcher::new(store(&memory).unwrap(), [files.dir.path()]);
    watcher.catch_up().unwrap();
    for _ in 0..rng.below(12) {
        files.change(rng);
        if rng.one_in(2) {
            follow(&mut watcher, Duration::from_millis(rng.below(150) as u64));
        }
    }
    files.complete();
    let expected = imported(files.dir.path());
    let began = Instant::now();
    loop {
        follow(&mut watcher, Duration::from_millis(120));
        let found = records(&store(&memory).unwrap());
        if found == expected || began.elapsed() > Duration::from_secs(5) {
            return found;
        }
    }
}

/// A process that is killed and started again.
fn in_child(rng: &mut Rng, files: &mut Files) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    for _ in 0..=rng.below(3) {
        let child = Child::watch(&log, files.dir.path());
        for _ in 0..rng.below(6) {
            files.change(rng);
            std::thread::sleep(Duration::from_millis(rng.below(120) as u64));
        }
        child.kill();
    }
    let child = Child::watch(&log, files.dir.path());
    files.complete();
    let expected = imported(files.dir.path());
    let began = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let opened = Store::options().read_only(true).open(&log);
        let found = opened.map(|store| records(&store)).unwrap_or_default();
        if found == expected || began.elapsed() > Duration::from_secs(10) {
            assert!(child.end().success());
            return found;
        }
    }
}

#[test]
fn whatever_happens_to_files_and_watchers_the_log_is_one_import_of_the_final_files() {
    let mut rng = Rng::seeded("watch");
    let rounds = count("DECKLOG_WATCH_ROUNDS", 40);
    let mut of_kind = [0_u64; 3];
    for round in 0..rounds {
        let seed = rng.next();
        let mut rng = Rng(seed);
        let mut files = Files::new(&mut rng);
        let kind = if round % CHILD_ONE_IN == CHILD_ONE_IN - 1 {
            2
        } else {
            usize::from(round % EVENTS_ONE_IN == 0)
        };
        let found = [in_process, by_events, in_child][kind](&mut rng, &mut files);
        of_kind[kind] += 1;
        let expected = imported(files.dir.path());
        if found != expected {
            let lacks: Vec<_> = expected.iter().filter(|it| !found.contains(it)).collect();
            let extra: Vec<_> = found.iter().filter(|it| !expected.contains(it)).collect();
            panic!("round {round}, kind {kind}, seed {seed}: lacks {lacks:#?}, has {extra:#?}");
        }
    }
    let [inside, events, children] = of_kind;
    println!("{inside} rounds in process, {events} by events, {children} with killed processes");
}
