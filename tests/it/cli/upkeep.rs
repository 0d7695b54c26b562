//! `decklog retain`, `compact` and `erase`: what is removed, what is reported, and what is kept.

use std::fs;

use serde_json::json;

use super::*;

use super::super::erase::holding;

const WORD: &str = "the pear tree";

/// A log with expired and current records.
fn log() -> Log {
    let log = Log::keeping_all();
    let now = decklog::Timestamp::now().at();
    log.record(&[
        conversation(1),
        message(101, 1, WORD),
        message(102, 1, "two"),
        turn(1, 1_766_822_400_000, "first"),
        turn(1, 1_766_822_400_000, "second"),
        turn(2, 1_766_822_400_000, "other"),
        turn(3, now, "new"),
    ]);
    log
}

fn files(log: &Log) -> Vec<(PathBuf, Vec<u8>)> {
    let all = holding(&log.path(), "\n").into_iter();
    let segments =
        all.filter(|path| !path.starts_with(log.file("cache")) && !path.ends_with("HEAD"));
    let mut files: Vec<_> = segments
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn clean(log: &Log) -> String {
    let told = log.ok(&["verify", "--deep"]);
    assert!(told.contains("clean: "), "{told}");
    told
}

#[test]
fn retain_tells_what_goes_and_removes_it() {
    let log = log();
    let before = files(&log);
    let would = log.ok(&["retain", "--dry-run"]);
    assert_eq!(files(&log), before);
    assert!(
        would.ends_with("6 lines would go, ") || would.contains("6 lines would go"),
        "{would}"
    );
    let parts = log.json(&["retain", "--dry-run"]);
    let summed: Vec<_> = parts
        .iter()
        .map(|part| (&part["day"], &part["kind"], &part["reason"], &part["lines"]))
        .map(|(day, kind, reason, lines)| format!("{day} {kind} {reason} {lines}"))
        .collect();
    let expected = ["conversations", "messages", "conversation_turns"]
        .iter()
        .zip([1, 2, 3])
        .map(|(kind, lines)| format!(r#""2025-12-27" "{kind}" "retention" {lines}"#));
    assert_eq!(summed, expected.collect::<Vec<_>>());
    assert_eq!(files(&log), before);

    assert_eq!(log.json(&["retain"]), parts);
    assert_eq!(log.ok(&["retain"]), "nothing removed\n");
    assert_eq!(holding(&log.path(), WORD), Vec::<PathBuf>::new());
    assert_eq!(log.column(&["turns"], "content"), ["new"]);
    // The totals of its messages are kept.
    assert_eq!(log.column(&["rollups"], "messages"), [2]);
    assert!(clean(&log).contains("removed, as removals.jsonl says: 6 lines by retention"));
    let removals = objects(&fs::read_to_string(log.file("removals.jsonl")).unwrap());
    let lines = removals
        .iter()
        .map(|removal| removal["lines"].as_u64().unwrap());
    assert_eq!(lines.sum::<u64>(), 6);
    assert!(
        removals
            .iter()
            .all(|removal| removal["reason"] == "retention")
    );
}

/// Bug: without `decklog.json`, some commands reported that there is no store, and others worked.
#[test]
fn a_store_that_lost_its_manifest_is_a_store_to_every_command_and_keeps_everything() {
    let talk = id(1);
    let writers: [&[&str]; 6] = [
        &["seal"],
        &["compact"],
        &["retain"],
        &["repair"],
        &["erase", "--request", &id(77)],
        &["config", "unset", "privacy.redact_pii"],
    ];
    let readers: [&[&str]; 6] = [
        &["calls"],
        &["turns"],
        &["messages", &talk],
        &["verify"],
        &["doctor"],
        &["config", "get"],
    ];
    let log = log();
    let contents = || log.column(&["turns"], "content");
    let before = (contents(), log.column(&["messages", &talk], "content"));
    for args in readers {
        lose_if_there(&log);
        let output = log.run(args);
        let expected = match args[0] {
            "verify" | "doctor" => FINDINGS,
            "config" => STORE,
            _ => OK,
        };
        assert_eq!(code(&output), expected, "{args:?}: {}", err(&output));
        let said = [out(&output), err(&output)].concat();
        assert!(said.contains("missing"), "{args:?}: {said}");
        assert!(!said.contains("goes next"), "{args:?}: {said}");
        assert!(!log.file("decklog.json").exists(), "{args:?}");
    }
    for args in writers {
        lose_if_there(&log);
        let output = log.run(args);
        // The log does not contain the request to erase.
        let expected = if args[0] == "erase" { FINDINGS } else { OK };
        assert_eq!(code(&output), expected, "{args:?}: {}", err(&output));
        let told = err(&output);
        assert!(
            told.contains("made anew") && told.contains("nothing is removed"),
            "{args:?}: {told}"
        );
        // Reported only once.
        let output = log.run(args);
        assert!(!err(&output).contains("made anew"), "{args:?}");
        assert_eq!(log.ok(&["retain"]), "nothing removed\n");
        assert_eq!(
            log.column(&["messages", &talk], "content"),
            before.1,
            "{args:?}"
        );
    }
    // Until a user sets a retention period again.
    lose_if_there(&log);
    let output = log.run(&["config", "set", "retention.messages", "90"]);
    assert_eq!(code(&output), OK, "{}", err(&output));
    assert!(err(&output).contains("made anew"), "{}", err(&output));
    assert!(!err(&output).contains("damaged"), "{}", err(&output));
    assert_ne!(log.ok(&["retain"]), "nothing removed\n");
    assert_eq!(contents(), before.0);
}

fn lose_if_there(log: &Log) {
    let _ = fs::remove_file(log.file("decklog.json"));
}

#[test]
fn a_cap_that_cannot_be_kept_is_told() {
    let log = log();
    let now = decklog::Timestamp::now().at();
    log.record(&[turn(4, now, &"long ".repeat(20_000))]);
    log.ok(&["config", "set", "retention.messages", "forever"]);
    log.ok(&["config", "set", "retention.max_bytes", "65536"]);
    for args in [
        &["retain", "--dry-run"][..],
        &["retain", "--json"],
        &["retain"],
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), FINDINGS, "{args:?}");
        assert!(
            err(&output).contains("exceed retention.max_bytes"),
            "{args:?}"
        );
    }
    // Records that are kept forever, and today's records.
    assert_eq!(log.column(&["messages", &id(1)], "content"), [WORD, "two"]);
    assert_eq!(log.column(&["turns"], "content").len(), 2);
}

#[test]
fn compact_drops_what_was_superseded() {
    let log = log();
    let before = files(&log);
    let would = log.ok(&["compact", "--dry-run"]);
    assert!(would.contains("1 line would go"), "{would}");
    assert_eq!(files(&log), before);
    let done = log.ok(&["compact"]);
    assert!(done.contains("1 line dropped"), "{done}");
    assert_eq!(log.ok(&["compact"]), "nothing dropped\n");
    assert_eq!(holding(&log.path(), "\"first\""), Vec::<PathBuf>::new());
    let mut turns = log.column(&["turns"], "content");
    turns.sort_by_key(Value::to_string);
    assert_eq!(turns, ["new", "other", "second"]);
    assert!(clean(&log).contains("1 line by compaction"));
}

#[test]
fn erase_leaves_no_trace_but_that_it_took_place() {
    let log = log();
    let key = id(1);
    for args in [
        &["erase"][..],
        &["erase", "--conversation", &key, "--user", "ann"],
    ] {
        assert_eq!(code(&log.run(args)), USAGE, "{args:?}");
    }
    assert_eq!(code(&log.run(&["erase", "--conversation", "one"])), USAGE);
    assert_eq!(
        code(&log.run(&["erase", "--conversation", &id(9)])),
        FINDINGS
    );

    let before = files(&log);
    let would = log.ok(&["erase", "--conversation", &key, "--dry-run"]);
    assert!(would.contains("3 lines would go"), "{would}");
    assert_eq!(files(&log), before);
    // Also the quarantine of a repair, and the leftovers of a killed program.
    fs::create_dir_all(log.file("quarantine")).unwrap();
    let day = log.file("2025-12-27");
    let held = fs::read(day.join("messages.0001.jsonl")).unwrap();
    fs::write(log.file("quarantine/messages.0001.jsonl"), &held).unwrap();
    fs::write(day.join("messages.0001.jsonl.tmp"), &held).unwrap();
    let done = log.json(&["erase", "--conversation", &key]);
    assert_eq!(done[0], json!({ "conversation": key, "title": WORD }));
    let named = done[1..].iter().map(|part| part["file"].as_str().unwrap());
    assert!(
        named
            .clone()
            .any(|file| file.ends_with("messages.0001.jsonl")),
        "{done:?}"
    );
    assert_eq!(holding(&log.path(), WORD), Vec::<PathBuf>::new());
    assert!(clean(&log).contains("by erasure"));
    assert_eq!(code(&log.run(&["conversations", &key])), USAGE);
    assert_eq!(code(&log.run(&["get", "conversations", &key])), FINDINGS);
    let output = log.run(&["erase", "--conversation", &key]);
    assert_eq!(
        (code(&output), out(&output)),
        (FINDINGS, format!("conversation {key}\nnothing erased\n"))
    );
    let mut turns = log.column(&["turns"], "content");
    turns.sort_by_key(Value::to_string);
    assert_eq!(turns, ["new", "other", "second"]);
}

/// Bug: it did not say which conversation `latest` or the start of an id stood for.
#[test]
fn erase_names_what_it_found_before_it_erases() {
    let log = Log::new();
    let titled = conversation(1).replacen('{', r#"{"title":"Sum\u001b[31m of it","#, 1);
    let call = request(2, 1_766_832_000_000, "shell", r#"{"command":"ls"}"#);
    log.record(&[titled, message(101, 1, "said"), call]);
    let full = id(1);
    let first = |args: &[&str]| out(&log.run(args)).lines().next().unwrap().to_owned();
    for shortened in ["latest", &full[..8], &full] {
        let args = ["erase", "--conversation", shortened, "--dry-run"];
        let named = first(&args);
        assert!(
            named.starts_with(&format!("conversation {full}  Sum")),
            "{named}"
        );
        assert!(!named.contains('\u{1b}'), "{named}");
        let would = log.json(&args);
        let expected = json!({ "conversation": full, "title": "Sum\u{1b}[31m of it" });
        assert_eq!(would[0], expected);
        assert!(would[1]["file"].is_string(), "{would:?}");
    }
    let request = first(&["erase", "--request", "latest", "--dry-run"]);
    assert_eq!(request, format!("request {}", id(2)));
    let done = log.ok(&["erase", "--conversation", "latest"]);
    assert!(
        done.starts_with(&format!("conversation {full}  Sum")),
        "{done}"
    );
    assert!(
        done.ends_with("bytes\n") && done.contains("2 lines erased"),
        "{done}"
    );
}

#[test]
fn erase_says_what_is_to_be_repaired_first() {
    let log = log();
    let messages = log.file("2025-12-27/messages.0001.jsonl");
    let glued = fs::read_to_string(&messages).unwrap();
    log.record(&[conversation(2), message(201, 2, "of another")]);
    let all = fs::read_to_string(&messages).unwrap();
    let other = all.strip_prefix(&glued).unwrap();
    fs::write(&messages, format!("{}{other}", glued.trim_end())).unwrap();
    for args in [
        &["erase", "--conversation", &id(1), "--dry-run"][..],
        &["erase", "--conversation", &id(1)],
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), STORE, "{args:?}");
        let said = err(&output);
        let told = ["messages.0001.jsonl at byte ", "'decklog repair' first"];
        assert!(told.iter().all(|told| said.contains(told)), "{said}");
        assert_eq!(out(&output), format!("conversation {}  {WORD}\n", id(1)));
        assert!(fs::read_to_string(&messages).unwrap().contains(WORD));
        let conversations = log.file("2025-12-27/conversations.0001.jsonl");
        assert!(fs::read_to_string(conversations).unwrap().contains(&id(1)));
    }
    log.run(&["repair"]);
    log.ok(&["erase", "--conversation", &id(1)]);
    assert_eq!(holding(&log.path(), WORD), Vec::<PathBuf>::new());
    assert_eq!(log.column(&["messages", &id(2)], "content"), ["of another"]);
}

#[test]
fn erase_says_what_it_cannot_find() {
    let log = log();
    let help = log.ok(&["erase", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for told in [
        "The conversations of its sub-agents, at any depth, are erased too",
        "Only conversations have a user",
        "in the store's directory and the directories of its days are only named",
        "Other pieces cannot be recognized",
    ] {
        assert!(help.contains(told), "{help}");
    }
}

#[test]
fn a_proof_outlasts_what_it_is_of() {
    let log = log();
    log.ok(&["seal"]);
    let proof = log.ok(&["prove", "messages", &id(101)]);
    let head = log.ok(&["seal", "--head"]);
    let at = |name: &str| log.dir.path().join(name).to_str().unwrap().to_owned();
    fs::write(at("proof"), proof).unwrap();
    fs::write(at("head"), head).unwrap();
    log.ok(&["erase", "--conversation", &id(1)]);
    let told = log.ok(&["check-proof", &at("proof")]);
    assert!(
        told.starts_with("valid: seal 3 covers line 1 of 2025-12-27/messages"),
        "{told}"
    );
    assert_eq!(code(&log.run(&["prove", "messages", &id(101)])), FINDINGS);
    // Earlier seals are still in the chain.
    log.ok(&["verify", "--deep", "--head", &at("head")]);
}

/// Bug: such files were read until memory ran out.
#[cfg(unix)]
#[test]
fn what_is_longer_than_any_proof_or_head_is_refused() {
    let log = log();
    log.ok(&["seal"]);
    let proof = log.dir.path().join("proof");
    fs::write(&proof, log.ok(&["prove", "messages", &id(101)])).unwrap();
    let proof = proof.to_str().unwrap();
    for args in [
        &["check-proof", "/dev/zero"][..],
        &["check-proof", proof, "--seal", "/dev/zero"],
        &["verify", "--head", "/dev/zero"],
    ] {
        // Without a limit, it would run out of memory.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 1000000; exec \"$0\" \"$@\""]);
        command.arg(env!("CARGO_BIN_EXE_decklog")).args(args);
        command.arg("--store").arg(log.path());
        let output = command.output().unwrap();
        assert_eq!(code(&output), USAGE, "{args:?}: {}", err(&output));
        let told = err(&output);
        assert!(
            told.contains("/dev/zero") && told.contains("longer than"),
            "{told}"
        );
    }
}

/// Records are added again between the rounds of the erasure.
#[test]
fn an_erasure_that_gives_up_says_so_by_its_exit_code_and_soon() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let log = Log::new();
    let id = "67e55044-10b1-426f-9247-bb680e5fe005";
    let conversation = format!(
        r#"{{"kind":"conversations","id":"{id}","client":"api","created_at":"2026-01-01T00:00:00Z"}}"#
    );
    log.record(std::slice::from_ref(&conversation));
    let attempt = || {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let recording = scope.spawn(|| {
                let store = decklog::Store::open(log.path()).unwrap();
                let conversation =
                    decklog::Conversation::new(id.parse().unwrap(), decklog::Client::Api);
                while !is_over.load(Ordering::Relaxed) {
                    // It is refused for a moment during the erasure.
                    let _ = store.record(conversation.clone());
                    let message = decklog::ConversationMessage::new(
                        conversation.id,
                        decklog::Role::User,
                        "once more",
                    );
                    let _ = store.record(message);
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
            std::thread::sleep(Duration::from_millis(200));
            let started = std::time::Instant::now();
            let output = log.run(&["erase", "--conversation", id]);
            let took = started.elapsed();
            is_over.store(true, Ordering::Relaxed);
            recording.join().unwrap();
            (output, took)
        })
    };
    // A writer that is not scheduled for a while lets an erasure complete.
    let mut attempts = (0..3).map(|_| attempt());
    let gave_up = |(output, _): &(std::process::Output, Duration)| code(output) != OK;
    let (output, took) = attempts.find(gave_up).expect("no erasure gave up");
    assert_eq!(code(&output), 5, "{}", err(&output));
    assert!(
        err(&output).contains("recorded repeatedly"),
        "{}",
        err(&output)
    );
    assert!(took < Duration::from_secs(30), "{took:?}");
    // After that has ended, the erasure completes.
    assert_eq!(code(&log.run(&["erase", "--conversation", id])), OK);
}

/// The arguments of a call may also be in the text of the message that requested it.
#[test]
fn erasing_a_request_says_that_messages_stay() {
    let log = Log::new();
    let lines = [
        request(1, 1_766_832_000_000, "shell", r#"{"command":"ls secret"}"#),
        conversation(2),
        message(3, 2, "ran ls secret"),
    ];
    log.record(&lines);
    let help = out(&decklog(&["erase", "--help"]).output().unwrap());
    assert!(help.contains("messages of its conversation stay"), "{help}");
    let output = log.run(&["erase", "--request", &id(1)]);
    assert_eq!(code(&output), OK, "{}", err(&output));
    let told = err(&output);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(
        told.contains("messages of the conversation are kept"),
        "{told}"
    );
    assert_eq!(
        log.column(&["messages", &id(2)], "content"),
        ["ran ls secret"]
    );
}

/// Bug: no warning was given about a key that is copied with the store.
#[test]
fn a_key_inside_the_store_is_warned_of() {
    let log = Log::new();
    log.record(&[conversation(1)]);
    let with_key = |key: &Path, args: &[&str]| {
        let mut command = log.command(args);
        command.env("DECKLOG_USER_ID_KEY", key).output().unwrap()
    };
    let outside = log.dir.path().join("user_id.key");
    for (key, is_inside) in [
        (log.file("user_id.key"), true),
        (log.file("../log/user_id.key"), true),
        (outside, false),
    ] {
        let output = with_key(&key, &["conversations"]);
        let is_told = err(&output).contains("anyone who copies the store also has the key");
        assert_eq!(is_told, is_inside, "{key:?}: {}", err(&output));
    }
}
