//! What follows agents, on a full disk: `decklog watch` and `decklog hook`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use decklog::Store;
use decklog::import::{Expired, Importer, News, Watcher};

use super::{SmallDisk, all_lines, small, text};

/// Waits for news of a kind.
fn news(watcher: &mut Watcher, is_wanted: impl Fn(&News) -> bool) -> News {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "no such news");
        match watcher.next(Duration::from_secs(1)).unwrap() {
            Some(news) if is_wanted(&news) => return news,
            _ => {}
        }
    }
}

/// A watcher waits until there is room, and misses nothing.
pub fn watches_while_it_is_full(disk: &SmallDisk) {
    let path = disk.log();
    let session =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/claude-code-session.jsonl");
    let lines = fs::read_to_string(session).unwrap();
    let lines: Vec<&str> = lines.split_inclusive('\n').collect();
    let sessions = tempfile::tempdir().unwrap();
    let file = sessions.path().join("s.jsonl");
    fs::write(&file, lines[..3].concat()).unwrap();
    let store = small().open(&path).unwrap();
    let mut watcher = Watcher::new(store, [sessions.path()])
        .expired(Expired::Expire)
        .close_when_idle({
            let path = path.clone();
            move || small().open(&path)
        });
    watcher.catch_up().unwrap();
    disk.fill(0);
    // Longer than what fits into the rest of a block.
    let mut content = lines.concat();
    for n in 0..200 {
        let line = format!(
            "{{\"type\":\"user\",\"uuid\":\"u{n}\",\"sessionId\":\"s\",\"timestamp\":\
             \"2025-12-09T19:47:01.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{}\"}}}}\n",
            text(n)
        );
        content += &line;
    }
    fs::write(&file, content).unwrap();
    let News::Waiting(reason) = news(&mut watcher, |news| matches!(news, News::Waiting(_))) else {
        unreachable!()
    };
    assert!(reason.to_string().contains("make room"), "{reason}");
    disk.empty();
    news(&mut watcher, |news| matches!(news, News::Resumed));
    let whole = small().open(disk.root.join("whole")).unwrap();
    let mut importer = Importer::new(&whole).expired(Expired::Expire);
    importer.path(sessions.path()).unwrap();
    importer.finish().unwrap();
    let said = |store: &Store| -> BTreeSet<String> {
        let lines = all_lines(store).into_iter();
        lines.map(|(_, line)| format!("{line:?}")).collect()
    };
    let expected = said(&whole);
    let began = Instant::now();
    loop {
        let store = Store::options().read_only(true).open(&path).unwrap();
        let lines = all_lines(&store).len();
        // A conversation may have been written more than once as it grew.
        if said(&store).is_superset(&expected) {
            assert_eq!(said(&store).len(), lines);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60));
        watcher.next(Duration::from_millis(100)).unwrap();
    }
    watcher.finish();
}

/// A hook that cannot log ends as if it had: the agent goes on.
pub fn hooks_on_a_disk_that_takes_nothing(disk: &SmallDisk) {
    let hook = |name: &str| {
        let input = format!(
            "{{\"hook_event_name\":\"PostToolUse\",\"session_id\":\"s\",\"tool_response\":\"{}\"}}",
            "x".repeat(20_000)
        );
        let child = Command::new(env!("CARGO_BIN_EXE_decklog"))
            .arg("--store")
            .arg(disk.root.join(name))
            .arg("hook")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        assert!(
            output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(hook("log"), "");
    disk.fill(0);
    for name in ["log", "new"] {
        let said = hook(name);
        assert!(said.starts_with("decklog: not logged: "), "{said}");
    }
    let mounted = |options: &str| {
        let status = Command::new("mount")
            .args(["-o", options])
            .arg(&disk.root)
            .status();
        assert!(status.unwrap().success());
    };
    mounted("remount,ro");
    for name in ["log", "new"] {
        let said = hook(name);
        assert!(said.starts_with("decklog: not logged: "), "{said}");
    }
    mounted("remount,rw");
    disk.empty();
    assert_eq!(hook("log"), "");
    let store = Store::options().read_only(true).open(disk.log()).unwrap();
    assert_eq!(all_lines(&store).len(), 2);
}
