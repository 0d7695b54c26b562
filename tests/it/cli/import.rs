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
    assert_eq!(sum["not_understood"]["file-history-snapshot"], 4);

    let all = log.json(&["import", samples().to_str().unwrap()]);
    assert_eq!(all.len(), 4);
    let sum = &all[3];
    assert_eq!(sum["tokens_in"], 126_012);
    assert_eq!(sum["tokens_out"], 1382);
    assert_eq!(sum["tool_calls"], 9);
    assert_eq!(sum["tool_results"], 9);
    assert_eq!(sum["conversations"], 3);
    assert_eq!(sum["messages"], 38);
    assert_eq!(sum["broken"], Value::Array(Vec::new()));

    let again = log.json(&["import", samples().to_str().unwrap()]);
    assert_eq!(again[3]["added"], 0);
    assert_eq!(again[3]["turns"], sum["turns"]);
    assert_eq!(again[3]["messages"], sum["messages"]);
    let text = log.run(&["import", samples().to_str().unwrap()]);
    assert!(
        out(&text).contains("\n  3 conversations with 38 messages\n"),
        "{}",
        out(&text)
    );
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

#[test]
fn an_import_says_what_will_be_removed_and_how_to_keep_it() {
    let log = Log::new();
    let session = samples().join("claude-code-session.jsonl");
    let import = || {
        let output = log.run(&["import", session.to_str().unwrap()]);
        assert_eq!(code(&output), OK, "{}", err(&output));
        err(&output)
    };
    let told = import();
    // Not one byte is removed by saying so, and it is what a removal would remove.
    let would_go = log.json(&["retain", "--dry-run"]);
    let of = |kinds: &[&str]| {
        let parts = would_go.iter();
        let parts = parts.filter(|part| kinds.contains(&part["kind"].as_str().unwrap()));
        parts
            .map(|part| part["lines"].as_u64().unwrap())
            .sum::<u64>()
    };
    let all = [
        "conversation_turns",
        "tool_calls",
        "conversations",
        "messages",
    ];
    assert!(all.iter().all(|kind| of(&[kind]) > 0), "{would_go:?}");
    let sum = of(&all);
    assert!(
        told.starts_with(&format!("decklog: {sum} lines of the log are older than")),
        "{told}"
    );
    for kind in all {
        let counted = format!("{} of {kind}", of(&[kind]));
        assert!(told.contains(&counted), "{counted}: {told}");
    }
    assert!(!told.contains("retention.conversations"), "{told}");
    assert_eq!(
        log.json(&["messages", &talk(&log)]).len() as u64,
        of(&["messages"])
    );

    // Each does what it says.
    for setting in ["messages", "conversation_turns"] {
        let name = format!("retention.{setting}");
        assert!(
            told.contains(&format!("'decklog config set {name} forever'")),
            "{told}"
        );
        log.ok(&["config", "set", &name, "forever"]);
    }
    let told = import();
    assert!(
        told.starts_with(&format!("decklog: {} lines", of(&["tool_calls"]))),
        "{told}"
    );
    assert!(!told.contains("messages"), "{told}");
    log.ok(&["config", "set", "privacy.auto_delete", "false"]);
    assert_eq!(import(), "");
}

fn talk(log: &Log) -> String {
    log.column(&["conversations"], "id")[0]
        .as_str()
        .unwrap()
        .to_owned()
}
