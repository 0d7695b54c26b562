//! Following session files: `import::Watcher` and `decklog watch`.

#![cfg(unix)]
#![allow(clippy::unwrap_used)]

mod command;
mod rounds;
mod sessions;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use decklog::import::{Expired, Importer, News, Watcher};
use decklog::storage::{Memory, Storage};
use decklog::{Kind, Settings, Store, retention::RetentionSettings};
use serde_json::Value;

use super::support::still;

/// The records of a log, without what depends on their order. A conversation has a line for each
/// change; its last line stands.
fn records(store: &Store) -> Vec<String> {
    let mut conversations = BTreeMap::new();
    let mut records = Vec::new();
    for line in store.last_lines(usize::MAX).unwrap() {
        let mut record: Value = serde_json::from_str(&line.text).unwrap();
        let fields = record.as_object_mut().unwrap();
        fields.remove("seq");
        fields.remove("crc");
        if line.kind == Kind::Conversations {
            fields.remove("op");
            conversations.insert(record["id"].to_string(), record.to_string());
        } else {
            records.push(record.to_string());
        }
    }
    records.extend(conversations.into_values());
    records.sort();
    records
}

fn in_memory() -> Store {
    let storage: Arc<dyn Storage> = Arc::new(Memory::new());
    let settings = Settings {
        retention: RetentionSettings::forever(),
        ..Settings::default()
    };
    still()
        .settings(settings)
        .storage(storage)
        .open("memory")
        .unwrap()
}

/// The records of one import into an empty log.
fn imported(path: &Path) -> Vec<String> {
    let store = in_memory();
    let mut importer = Importer::new(&store).expired(Expired::Expire);
    importer.path(path).unwrap();
    importer.finish().unwrap();
    records(&store)
}

/// A process that watches.
struct Child(std::process::Child);

impl Child {
    fn watch(log: &Path, path: &Path) -> Child {
        let child = Command::new(env!("CARGO_BIN_EXE_decklog"))
            .arg("--store")
            .arg(log)
            .args(["watch", "--quiet"])
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Child(child.unwrap())
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it as systemd does.
    fn end(mut self) -> ExitStatus {
        let id = i32::try_from(self.0.id()).unwrap();
        let id = rustix::process::Pid::from_raw(id).unwrap();
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap()
    }
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The lines of a real session.
fn session() -> Vec<String> {
    let text = fs::read_to_string(sample("claude-code-session.jsonl")).unwrap();
    text.lines().map(|line| format!("{line}\n")).collect()
}

/// Waits until the log has what the files have, and tells how long it took.
fn await_all(watcher: &mut Watcher, store: &Store, path: &Path) -> Duration {
    let expected = imported(path);
    let began = Instant::now();
    while records(store) != expected {
        assert!(
            began.elapsed() < Duration::from_secs(10),
            "{}",
            path.display()
        );
        watcher.next(Duration::from_millis(50)).unwrap();
    }
    began.elapsed()
}

#[test]
fn whatever_happens_to_a_file_its_lines_are_imported_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("later/p/s.jsonl");
    let store = in_memory();
    let mut watcher = Watcher::new(store.clone(), [dir.path().join("later")]);
    assert_eq!(watcher.catch_up().unwrap().files, 0);
    let lines = session();
    let until = |n: usize| lines[..n].concat();
    // The folder comes later than the watcher.
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, until(4)).unwrap();
    await_all(&mut watcher, &store, dir.path());
    // A line that is not complete waits.
    let cut = until(8);
    fs::write(&path, &cut[..cut.len() - 9]).unwrap();
    await_all(&mut watcher, &store, dir.path());
    fs::write(&path, until(8)).unwrap();
    await_all(&mut watcher, &store, dir.path());
    // Another file takes the name.
    let new = dir.path().join("later/new");
    fs::write(&new, until(12)).unwrap();
    fs::rename(&new, &path).unwrap();
    await_all(&mut watcher, &store, dir.path());
    let known = records(&store);
    // Truncated, and written again.
    fs::write(&path, "").unwrap();
    while watcher.next(Duration::from_millis(200)).unwrap().is_some() {}
    assert_eq!(records(&store), known);
    fs::write(&path, until(16)).unwrap();
    await_all(&mut watcher, &store, dir.path());
    // Moved, with its folder.
    fs::rename(dir.path().join("later/p"), dir.path().join("later/q")).unwrap();
    let path = dir.path().join("later/q/s.jsonl");
    fs::write(&path, until(20)).unwrap();
    await_all(&mut watcher, &store, dir.path());
    // The folder is removed, and comes back.
    fs::remove_dir_all(dir.path().join("later")).unwrap();
    while watcher.next(Duration::from_millis(200)).unwrap().is_some() {}
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, lines.concat()).unwrap();
    await_all(&mut watcher, &store, dir.path());
    watcher.finish();
}

#[test]
fn news_tell_the_project_and_what_is_broken_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let store = in_memory();
    let mut watcher = Watcher::new(store, [&path]);
    watcher.catch_up().unwrap();
    let wait = Duration::from_secs(5);
    fs::write(&path, session().concat() + "{\"type\":5,}\n").unwrap();
    let Some(News::Imported { report, additions }) = watcher.next(wait).unwrap() else {
        panic!("no news");
    };
    assert_eq!(report.broken.len(), 1, "{:?}", report.broken);
    let [addition] = &additions[..] else {
        panic!("{additions:?}")
    };
    assert_eq!(
        (addition.format, addition.added),
        (Some("claude-code"), report.added)
    );
    assert!(addition.project.is_some() && addition.title.is_some());
    fs::write(&path, session().concat() + "{\"type\":5,}\n\n").unwrap();
    assert!(watcher.next(Duration::from_millis(500)).unwrap().is_none());
}

#[test]
fn a_long_session_is_read_on_from_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let line = |n: usize| {
        let text = "word ".repeat(2000);
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u{n}\",\"sessionId\":\"s\",\"timestamp\":\
             \"2025-12-09T19:47:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{n} {text}\"}}}}\n"
        )
    };
    let mut text: String = (0..500).map(line).collect();
    fs::write(&path, &text).unwrap();
    let store = in_memory();
    let mut watcher = Watcher::new(store.clone(), [dir.path()]);
    assert_eq!(watcher.catch_up().unwrap().lines, 500);
    for n in 500..503 {
        text += &line(n);
        fs::write(&path, &text).unwrap();
        let Some(News::Imported { report, .. }) = watcher.next(Duration::from_secs(5)).unwrap()
        else {
            panic!("no news");
        };
        assert_eq!((report.lines, report.turns), (1, 1));
    }
    assert_eq!(records(&store), imported(dir.path()));
}

#[test]
fn links_and_files_that_may_not_be_read_are_followed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (real, shown) = (dir.path().join("real"), dir.path().join("shown"));
    fs::create_dir_all(real.join("deep")).unwrap();
    fs::create_dir_all(&shown).unwrap();
    symlink(real.join("deep"), shown.join("link")).unwrap();
    symlink(real.join("s.jsonl"), shown.join("s.jsonl")).unwrap();
    let store = in_memory();
    let watcher = Watcher::new(store.clone(), [&shown]);
    let mut watcher = watcher.rescan_every(Duration::from_secs(1));
    watcher.catch_up().unwrap();
    let lines = session();
    fs::write(real.join("deep/t.jsonl"), lines[..6].concat()).unwrap();
    fs::write(real.join("s.jsonl"), lines[..9].concat()).unwrap();
    await_all(&mut watcher, &store, &shown);
    fs::write(real.join("s.jsonl"), lines.concat()).unwrap();
    await_all(&mut watcher, &store, &shown);
    let path = shown.join("u.jsonl");
    fs::copy(sample("codex-rollout.jsonl"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    watcher.next(Duration::from_millis(300)).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    await_all(&mut watcher, &store, &shown);
}

#[test]
fn two_watchers_add_each_record_once() {
    let dir = tempfile::tempdir().unwrap();
    let (log, path) = (dir.path().join("log"), dir.path().join("p"));
    fs::create_dir_all(&path).unwrap();
    let children = [(); 2].map(|()| Child::watch(&log, &path));
    let lines = session();
    for n in 1..=lines.len() {
        fs::write(path.join("s.jsonl"), lines[..n].concat()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
    }
    let expected = imported(&path);
    let began = Instant::now();
    loop {
        let store = Store::options().read_only(true).open(&log).unwrap();
        if records(&store) == expected {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(50));
    }
    for child in children {
        assert!(child.end().success());
    }
}
