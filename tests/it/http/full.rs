//! A server whose store became unwritable, for instance on a full disk, continues once it can write
//! again.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use decklog::Store;
use decklog::http::{Options, Server};
use decklog::storage::{Memory, Storage};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::json;

use super::client::{Answer, Client};
use super::process::Process;
use crate::support::{Spy, still};

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_store_that_failed_is_opened_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mut command = Command::new("sh");
    // Files may have at most 100 KiB. Longer writes are an error, and do not kill the process.
    command
        .args(["-c", "trap '' XFSZ; ulimit -S -f 200; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_decklog"));
    let server = Process::start_by(command, &path, 0);
    let client = server.client();
    let begun = client.post("/conversations", &json!({"client": "api"}));
    let id = begun.expect(201)["id"].as_str().unwrap().to_owned();
    let messages = format!("/conversations/{id}/messages");
    let text = "long ".repeat(2_000);
    let post = |key: &str| {
        let body = json!({"role": "user", "content": text}).to_string();
        let client = client.with("Idempotency-Key", key);
        let client = client.with("Content-Type", "application/json");
        let head = client.head("POST", &messages, body.as_bytes());
        client.try_send(&[head.as_bytes(), body.as_bytes()].concat())
    };
    let mut acknowledged = 0;
    let failed = loop {
        let answer = post(&acknowledged.to_string()).unwrap();
        if answer.status != 201 {
            break answer;
        }
        acknowledged += 1;
    };
    failed.expect_problem(500, "io", None);
    assert!(acknowledged > 3, "{acknowledged}");

    let pid = i32::try_from(server.kid.0.id()).unwrap();
    let unlimited = Rlimit {
        current: None,
        maximum: None,
    };
    prlimit(Pid::from_raw(pid), Resource::Fsize, unlimited).unwrap();
    let started = Instant::now();
    // Also while the store is reopened and no one listens.
    while !post("again").is_ok_and(|answer| answer.status == 201 || answer.status == 200) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it stays as it is"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    server.end();
    let store = Store::options().read_only(true).open(&path).unwrap();
    let id = id.parse().unwrap();
    let (_, stats) = store.get_conversation(id).unwrap().unwrap();
    assert_eq!(stats.message_count, acknowledged + 1);
}

/// Bug: the server's log said that records were lost, but not how many.
#[test]
fn the_log_says_how_many_queued_records_were_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // As above.
    command
        .args(["-c", "trap '' XFSZ; ulimit -S -f 200; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_decklog"));
    let server = Process::start_by(command, &dir.path().join("log"), 0);
    // More than fits.
    let entry = json!({"chat_id": 1, "role": "user", "text": "long ".repeat(30_000)});
    let client = server.client();
    client.post("/history?wait=none", &entry).expect(202);
    // It reopens its store, and is then asked to stop.
    let started = Instant::now();
    while !server.said().contains("serving at") {
        assert!(started.elapsed() < PATIENCE, "{:.2000}", server.said());
        std::thread::sleep(Duration::from_millis(5));
    }
    let said = server.end();
    let told: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("queued records were rejected"))
        .collect();
    let [told] = told[..] else {
        panic!("{said:.2000}")
    };
    assert!(
        told.contains("count=1 ") && told.contains("reason=\"io\""),
        "{told}"
    );
}

/// A disk of 2 MB that only the server sees, and that the test reaches through the server's
/// process.
struct SmallDisk {
    server: Process,
    root: PathBuf,
}

impl SmallDisk {
    /// `None` if the system does not allow it.
    fn start(dir: &Path) -> Option<SmallDisk> {
        let shell = "mount -t tmpfs -o size=2m tmpfs \"$0\" && exec \"$@\"";
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(["--mount", "--propagation", "private", "sh", "-c", shell]);
            command.arg(dir);
            command
        };
        let can_mount = unshare().arg("true").output();
        if !can_mount.is_ok_and(|output| output.status.success()) {
            assert!(
                std::env::var_os("DECKLOG_FULL_DISKS").is_none(),
                "a small disk is asked for"
            );
            println!("not run: such a disk cannot be had here");
            return None;
        }
        let mut command = unshare();
        command.arg(env!("CARGO_BIN_EXE_decklog"));
        let server = Process::start_by(command, &dir.join("log"), 0);
        let seen = format!("/proc/{}/root", server.kid.0.id());
        let root = Path::new(&seen).join(dir.strip_prefix("/").unwrap());
        Some(SmallDisk { server, root })
    }

    fn fill(&self) {
        let mut options = File::options();
        let filler = options.create(true).append(true);
        let mut filler = filler.open(self.root.join("filler")).unwrap();
        while filler.write_all(&[b'x'; 4096]).is_ok() {}
        while filler.write_all(b"x").is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.root.join("filler")).unwrap();
    }

    /// Posts a message, also while the store is reopened and no one listens.
    fn post(&self, path: &str, key: &str) -> Answer {
        let body = json!({"role": "user", "content": "long ".repeat(2_000)}).to_string();
        let client = self.server.client().with("Idempotency-Key", key);
        let client = client.with("Content-Type", "application/json");
        let head = client.head("POST", path, body.as_bytes());
        self.send(&[head.as_bytes(), body.as_bytes()].concat())
    }

    fn ready(&self) -> Answer {
        let head = self.server.client().head("GET", "/readyz", b"");
        self.send(head.as_bytes())
    }

    fn send(&self, request: &[u8]) -> Answer {
        let started = Instant::now();
        loop {
            if let Ok(answer) = self.server.client().try_send(request) {
                return answer;
            }
            assert!(started.elapsed() < PATIENCE, "it does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// 202 is a promise: a server that knows that its store cannot write does not give it.
#[test]
fn a_full_disk_is_told_as_such_and_nothing_is_promised() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::start(dir.path()) else {
        return;
    };
    let client = disk.server.client();
    let begun = client.post("/conversations", &json!({"client": "api"}));
    let id = begun.expect(201)["id"].as_str().unwrap().to_owned();
    let waits = format!("/conversations/{id}/messages");
    let does_not = format!("{waits}?wait=none");
    let wait_for_messages = |count: u64| {
        let started = Instant::now();
        loop {
            let found = client.get(&format!("/conversations/{id}")).expect(200);
            if found["message_count"] == count {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{found}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    assert_eq!(disk.post(&does_not, "taken").status, 202);
    // If the disk fills up while a record is queued, that record is lost.
    wait_for_messages(1);
    assert_eq!(disk.ready().expect(200)["ready"], true);
    disk.fill();

    disk.post(&waits, "refused")
        .expect_problem(507, "disk_full", None);
    // Over several reopenings of the store.
    let started = Instant::now();
    let (mut full, mut n) = (0, 0);
    while started.elapsed() < Duration::from_secs(4) {
        n += 1;
        // Use up the space that the server frees when it reopens its store.
        disk.fill();
        let answer = disk.post(&does_not, &format!("refused-{n}"));
        assert!([503, 507].contains(&answer.status), "{}", answer.text());
        full += u32::from(answer.status == 507);
        let ready = disk.ready().expect(503);
        assert_eq!(ready["ready"], false);
    }
    assert!(full > 0);
    let is_told = || disk.ready().expect(503)["reason"] == "disk_full";
    assert!((0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        disk.fill();
        is_told()
    }));

    disk.make_room();
    let started = Instant::now();
    while disk.ready().status != 200 {
        assert!(started.elapsed() < PATIENCE, "it stays as it is");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The first one waits, and shows that the store accepts records again.
    let mut promised = 0;
    for n in 0..10 {
        let answer = disk.post(&does_not, &format!("again-{n}"));
        assert!([201, 202].contains(&answer.status), "{}", answer.text());
        promised += u64::from(answer.status == 202);
    }
    assert!(promised >= 8, "{promised}");
    // Promised records are there when the server has ended. Its disk disappears then.
    wait_for_messages(11);
    disk.server.end();
}

/// Bug: it was reported as ready for up to a second more.
#[test]
fn a_disk_that_has_just_filled_up_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::start(dir.path()) else {
        return;
    };
    for _ in 0..3 {
        let started = Instant::now();
        while disk.ready().status != 200 {
            assert!(started.elapsed() < PATIENCE, "it stays as it is");
            std::thread::sleep(Duration::from_millis(50));
        }
        disk.fill();
        let ready = disk.ready().expect(503);
        assert_eq!(
            (&ready["ready"], &ready["reason"]),
            (&json!(false), &json!("disk_full"))
        );
        disk.make_room();
    }
    disk.server.end();
}

/// Bug: the answer was an internal server error.
#[test]
fn a_store_whose_directory_is_moved_away_is_not_ready() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let server = Process::start(&path, 0);
    let client = server.client();
    client.get("/readyz").expect(200);
    let away = dir.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    for _ in 0..4 {
        let ready = client.get("/readyz").expect(503);
        assert_eq!(
            (&ready["ready"], &ready["reason"]),
            (&json!(false), &json!("io"))
        );
        std::thread::sleep(Duration::from_millis(400));
    }
    std::fs::rename(&away, &path).unwrap();
    let started = Instant::now();
    while client.get("/readyz").status != 200 {
        assert!(started.elapsed() < PATIENCE, "it stays as it is");
        std::thread::sleep(Duration::from_millis(50));
    }
    server.end();
}

/// Bug: the error suggested an option that the command does not have.
#[test]
fn a_read_only_mount_is_named_as_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    still().open(&path).unwrap();
    let script =
        "mount --bind \"$0\" \"$0\" && mount -o remount,ro,bind \"$0\" || exit 77; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script]);
    command.arg(dir.path()).arg(env!("CARGO_BIN_EXE_decklog"));
    command.args(["serve", "--port", "0", "--store"]).arg(&path);
    let output = command.output();
    let Some(output) = output.ok().filter(|output| output.status.code() == Some(3)) else {
        assert!(
            std::env::var_os("DECKLOG_FULL_DISKS").is_none(),
            "a read-only mount is asked for"
        );
        println!("not run: such a mount cannot be had here");
        return;
    };
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("must not be mounted read-only"), "{told}");
    assert!(!told.contains("open the store read-only"), "{told}");
}

/// As on a read-only mount, or in another user's directory.
#[test]
fn a_store_that_cannot_be_written_is_not_ready() {
    let spy = Spy::new(Memory::new());
    let storage: Arc<dyn Storage> = Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    spy.hook(|operation, path| match operation {
        "append" | "create_dir" => Err(std::io::ErrorKind::ReadOnlyFilesystem.into()),
        "open" if path.starts_with("cache/") => Err(std::io::ErrorKind::ReadOnlyFilesystem.into()),
        _ => Ok(()),
    });
    let server = Server::bind(store, "127.0.0.1:0".parse().unwrap(), &Options::default());
    let server = server.unwrap();
    let (client, stop) = (Client::new(server.local_addr()), server.stop_handle());
    let serving = std::thread::spawn(move || server.run());
    let ready = client.get("/readyz").expect(503);
    assert_eq!(
        (&ready["ready"], &ready["reason"]),
        (&json!(false), &json!("io"))
    );
    let answer = client.post(
        "/history?wait=none",
        &json!({"chat_id": 1, "role": "user", "text": "hi"}),
    );
    assert_eq!(answer.status, 500, "{}", answer.text());
    stop.stop();
    let _ = serving.join().unwrap();
}
