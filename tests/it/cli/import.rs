//! `decklog import`.

use super::*;

#[test]
fn an_import_counts_and_a_second_one_adds_nothing() {
    let log = Log::keeping_all();
    let session = samples().join("claude-code-session.jsonl");
    let first = log.json(&["import", session.to_str().unwrap()]);
    assert_eq!(first.len(), 2);
    assert!(
        first[0]["file"]
            .as_str()
            .unwrap()
            .ends_with("claude-code-session.jsonl")
    );
    let sum = &first[1];
    assert_eq!(sum["files"], 1);
    assert_eq!(sum["lines"], 26);
    assert_eq!(sum["api_responses"], 6);
    assert_eq!(sum["tokens_in"], 98785);
    assert_eq!(sum["tokens_out"], 844);
    assert_eq!(sum["not_understood"], serde_json::json!({}));

    let all = log.json(&["import", "--reread", samples().to_str().unwrap()]);
    assert_eq!(all.len(), 4);
    let sum = &all[3];
    assert_eq!(sum["tokens_in"], 126_012);
    assert_eq!(sum["tokens_out"], 1382);
    assert_eq!(sum["tool_calls"], 9);
    assert_eq!(sum["tool_results"], 9);
    assert_eq!(sum["conversations"], 3);
    assert_eq!(sum["messages"], 52);
    assert_eq!(sum["broken"], Value::Array(Vec::new()));

    let again = log.json(&["import", "--reread", samples().to_str().unwrap()]);
    assert_eq!(again[3]["added"], 0);
    assert_eq!(again[3]["turns"], sum["turns"]);
    assert_eq!(again[3]["messages"], sum["messages"]);
    let text = log.run(&["import", "--reread", samples().to_str().unwrap()]);
    assert!(
        out(&text).contains("\n  3 conversations with 52 messages\n"),
        "{}",
        out(&text)
    );

    // Nothing changed: no file is read.
    let unchanged = log.json(&["import", samples().to_str().unwrap()]);
    assert_eq!(unchanged.len(), 1);
    assert_eq!(unchanged[0]["unchanged"], 3);
    assert_eq!(unchanged[0]["files"], 0);
    let text = log.run(&["import", samples().to_str().unwrap()]);
    assert_eq!(code(&text), OK);
    let words = "\n  3 files unchanged since an earlier import, not read again\n";
    assert!(out(&text).contains(words), "{}", out(&text));
}

#[test]
fn an_import_names_what_is_broken() {
    let log = Log::new();
    let dir = tempfile::tempdir().unwrap();
    let session = std::fs::read_to_string(samples().join("claude-code-session.jsonl")).unwrap();
    let broken = dir.path().join("broken.jsonl");
    std::fs::write(&broken, format!("{session}{{\"type\":\"user\",\n")).unwrap();
    let unknown = dir.path().join("unknown.jsonl");
    std::fs::write(&unknown, "{\"a\":1}\n").unwrap();

    let paths = [broken.to_str().unwrap(), unknown.to_str().unwrap()];
    let output = log.run(&["import", paths[1], paths[0], "--json"]);
    assert_eq!(code(&output), FINDINGS);
    let found = objects(&out(&output));
    let sum = found.last().unwrap();
    assert_eq!(sum["broken"].as_array().unwrap().len(), 2);
    assert_eq!(sum["broken"][0]["line"], 27);
    assert_eq!(sum["broken"][0]["file"], paths[0]);
    assert_eq!(sum["broken"][1]["line"], 0);
    assert!(
        sum["broken"][1]["reason"]
            .as_str()
            .unwrap()
            .contains("--format")
    );
    assert_eq!(sum["tool_calls"], 4);

    let text = log.run(&["import", paths[0]]);
    assert_eq!(code(&text), FINDINGS);
    assert!(out(&text).contains("broken.jsonl:27: "), "{}", out(&text));

    let output = Log::new().run(&["import", paths[1]]);
    assert_eq!(code(&output), USAGE);
}

#[test]
fn what_cannot_be_read_makes_no_store() {
    let log = Log::new();
    let output = log.run(&["import", "/nonexistent/sessions"]);
    assert_eq!(code(&output), USAGE);
    assert!(err(&output).starts_with("decklog: cannot read /nonexistent/sessions"));
    assert!(!log.path().exists());
}

/// An existing store with a retention period.
fn keeping_for_a_time() -> Log {
    let log = Log::new();
    log.ok(&["config", "set", "retention.inbox", "forever"]);
    log
}

#[test]
fn a_new_store_keeps_what_is_imported() {
    let log = Log::new();
    let told = log.ok(&["import", samples().to_str().unwrap()]);
    assert!(told.contains("The new store keeps everything"), "{told}");
    for kind in [
        "conversation_turns",
        "tool_calls",
        "messages",
        "errors",
        "events",
        "rollups",
    ] {
        let name = format!("retention.{kind}");
        assert_eq!(log.ok(&["config", "get", &name]), "forever\n", "{kind}");
    }
    assert_eq!(log.ok(&["retain"]), "nothing removed\n");
    let again = log.ok(&["import", samples().to_str().unwrap()]);
    assert!(!again.contains("keeps everything"), "{again}");
    let doctor = log.ok(&["doctor"]);
    assert!(!doctor.contains("goes next"), "{doctor}");
}

#[test]
fn an_import_that_would_expire_is_refused_until_it_is_told_what_to_do() {
    let log = keeping_for_a_time();
    let samples = samples();
    let samples = samples.to_str().unwrap();
    let output = log.run(&["import", samples]);
    assert_eq!(code(&output), USAGE);
    let told = err(&output);
    for words in [
        "nothing was imported",
        "3 conversations with ",
        " before 20",
        "privacy.retention_days is 90 days",
        "--keep",
        "--expire",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    assert_eq!(log.ok(&["tail"]), "");
    let both = log.run(&["import", samples, "--keep", "--expire"]);
    assert_eq!(code(&both), USAGE);

    // A later retention removes them. The reports count them once, whatever was imported again.
    log.ok(&["import", samples, "--expire"]);
    log.ok(&["import", samples]);
    let usage = || log.json(&["stats", "usage", "--since", "2025-01-01"]);
    let once = usage();
    for _ in 0..2 {
        log.ok(&["retain"]);
        assert_eq!(code(&log.run(&["import", samples])), USAGE);
        assert_eq!(usage(), once);
        log.ok(&["import", samples, "--expire"]);
        assert_eq!(usage(), once);
    }
    let told = log.ok(&["doctor"]);
    assert!(told.contains("goes next   "), "{told}");
    assert!(
        told.contains("at the next daily upkeep (privacy.retention_days)"),
        "{told}"
    );
    let next = &log.json(&["doctor"])[0]["next_removals"];
    assert_eq!(next[0]["setting"], "privacy.retention_days", "{next}");

    let told = log.ok(&["import", samples, "--keep"]);
    assert!(told.contains("are now forever"), "{told}");
    assert_eq!(
        log.ok(&["config", "get", "retention.messages"]),
        "forever\n"
    );
    assert_eq!(log.ok(&["retain"]), "nothing removed\n");
    let told = log.ok(&["import", samples, "--keep"]);
    assert!(!told.contains("are now forever"), "{told}");
}

#[test]
fn an_erased_session_stays_erased_until_it_is_asked_for() {
    let log = Log::new();
    let samples = samples();
    let samples = samples.to_str().unwrap();
    log.ok(&["import", samples]);
    let talk = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
    log.ok(&["erase", "--conversation", talk]);
    let told = log.ok(&["import", samples]);
    assert!(
        told.contains("skipped, as they were erased: --restore-erased"),
        "{told}"
    );
    assert_eq!(code(&log.run(&["get", "conversations", talk])), FINDINGS);
    let sum = log.json(&["import", samples]).pop().unwrap();
    // The session and its sub-agent. The third file is unchanged.
    assert_eq!((&sum["added"], &sum["files"]), (&0.into(), &2.into()));
    assert!(sum["left_out"].as_u64().unwrap() > 0);
    let told = log.ok(&["import", samples, "--restore-erased"]);
    assert!(!told.contains("as they were erased"), "{told}");
    log.ok(&["get", "conversations", talk]);
    let sum = log.json(&["import", samples]).pop().unwrap();
    assert_eq!(
        (&sum["left_out"], &sum["unchanged"]),
        (&0.into(), &3.into())
    );
    let sum = log.json(&["import", "--reread", samples]);
    assert_eq!(
        (&sum[3]["left_out"], &sum[3]["added"]),
        (&0.into(), &0.into())
    );
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_and_standard_input_is_read() {
    let log = Log::keeping_all();
    let fifo = log.dir.path().join("named.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let dir = log.dir.path().join("linked");
    std::fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.join("zero.jsonl")).unwrap();
    for path in [fifo.to_str().unwrap(), "/dev/zero", "/dev/null"] {
        let output = log.run(&["import", path]);
        assert_eq!(code(&output), USAGE, "{path}: {}", err(&output));
        let text = out(&output);
        assert!(text.contains("not a regular file"), "{path}: {text}");
        assert!(text.contains(path), "{path}: {text}");
    }
    let output = log.run(&["import", dir.to_str().unwrap()]);
    assert!(
        out(&output).contains("not a regular file"),
        "{}",
        out(&output)
    );

    // Like 'zcat old.jsonl.gz | decklog import /dev/stdin'.
    let session = std::fs::read(samples().join("claude-code-session.jsonl")).unwrap();
    let output = log.run_with(&["import", "-", "--json"], &session);
    assert_eq!(code(&output), OK, "{}", err(&output));
    let sum = objects(&out(&output)).pop().unwrap();
    assert_eq!(
        (&sum["lines"], &sum["tokens_in"]),
        (&26.into(), &98785.into())
    );
    let file = samples().join("claude-code-session.jsonl");
    let again = log.json(&["import", file.to_str().unwrap()]);
    assert_eq!(again[1]["added"], 0);
    let named = ["import", "/dev/stdin", "--format", "claude-code", "--json"];
    let output = log.run_with(&named, &session);
    assert_eq!(objects(&out(&output)).pop().unwrap()["lines"], 26);
    // A pipe without any line end is rejected, without holding all of its bytes.
    let endless = vec![b'x'; 80 << 20];
    let mut child = spawn(&mut log.command(&["import", "/dev/stdin"]));
    // It may stop reading before everything is written.
    let _ = child.stdin.take().unwrap().write_all(&endless);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), USAGE);
    assert!(out(&output).contains("give --format"), "{}", out(&output));
}

#[test]
fn a_folder_without_sessions_is_told_of() {
    let log = Log::new();
    let folder = log.dir.path().join("empty");
    std::fs::create_dir(&folder).unwrap();
    let output = log.run(&["import", folder.to_str().unwrap()]);
    assert_eq!(code(&output), FINDINGS);
    assert!(
        err(&output).contains("no session files found"),
        "{}",
        err(&output)
    );
}
