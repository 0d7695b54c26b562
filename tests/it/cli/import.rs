//! `decklog import`.

use super::*;

#[test]
fn an_import_counts_and_a_second_one_adds_nothing() {
    let log = Log::new();
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
