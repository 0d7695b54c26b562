//! `decklog turns`, `calls` and `get`.

use super::*;

#[test]
fn turns_are_found() {
    let log = Log::new();
    let input: String = (1..=9)
        .map(|n| turn(n, i64::from(n) * 1000, &format!("turn {n}")) + "\n")
        .collect();
    log.run_with(&["record"], input.as_bytes());
    let contents = |args: &[&str]| -> Vec<String> {
        let turns = log.json(args);
        let content = |turn: &Value| turn["content"].as_str().unwrap()["turn ".len()..].to_owned();
        turns.iter().map(content).collect()
    };
    assert_eq!(contents(&["turns", "--since", "8000"]), ["8", "9"]);
    assert_eq!(
        contents(&["turns", "--until", "1970-01-01T00:00:03Z"]),
        ["1", "2"]
    );
    assert_eq!(contents(&["turns", "--since", "1970-01-02"]), [""; 0]);
    assert_eq!(contents(&["turns", "--message", &id(4)]), ["4"]);
    assert_eq!(contents(&["turns", "--kind", "assistant"]), [""; 0]);
    assert_eq!(contents(&["turns", "--limit", "0"]), [""; 0]);
    assert_eq!(contents(&["turns", "--as-of", "2500"]), ["1", "2"]);

    let text = log.run(&["turns", "--limit", "2"]);
    let rows: Vec<String> = out(&text).lines().map(str::to_owned).collect();
    assert_eq!(rows[1], "1970-01-01 00:00:08.000  user       turn 8");
    assert_eq!(rows[2], "1970-01-01 00:00:09.000  user       turn 9");
}

#[test]
fn a_list_goes_on_where_its_limit_cut_it() {
    let log = Log::new();
    let input: String = (1..=600).map(|n| turn(n, 1000, "x") + "\n").collect();
    log.run_with(&["record"], input.as_bytes());
    assert_eq!(log.json(&["turns"]).len(), 600);
    let found = log.in_parts(&["turns"], "250");
    let ids: Vec<&str> = found
        .iter()
        .map(|turn| turn["id"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (1..=600).map(id).collect();
    assert_eq!(ids, expected);
}

#[test]
fn calls_are_found_and_merged_with_their_outcomes() {
    let log = Log::imported();
    let failed = log.json(&["calls", "--status", "failed"]);
    // One of Claude Code, and two Codex commands with exit code 1.
    assert_eq!(failed.len(), 3);
    let is_it = |call: &&Value| call["call_id"] == "toolu_01GLEN5BsyXUTQaQV2fdQ9ea";
    let call = failed.iter().find(is_it).unwrap();
    assert_eq!(
        call["arguments_json"]["command"],
        "cd myapp && python hoge.py"
    );
    assert_eq!(call["error_msg"], "error: target shim binary not found");
    assert_eq!(call["latency_ms"], 4584);
    assert!(call.get("crc").is_none());

    let patches = log.json(&["calls", "--tool", "apply_patch"]);
    assert!(
        patches[0]["arguments_json"]
            .as_str()
            .unwrap()
            .starts_with("*** Begin Patch\n")
    );
    assert_eq!(patches[0]["outcome_json"]["metadata"]["exit_code"], 0);
    assert!(patches[0].get("error_msg").is_none());
    let names: Vec<&String> = patches[0].as_object().unwrap().keys().collect();
    assert!(names.iter().all(|name| !name.is_empty()));

    assert_eq!(log.json(&["calls", "--vendor", "anthropic"]).len(), 4);
    assert_eq!(
        log.json(&["calls", "--vendor", "anthropic", "--tool", "Bash"])
            .len(),
        3
    );
    assert_eq!(log.json(&["calls", "--until", "2025-12-09"]).len(), 0);
    assert_eq!(log.json(&["calls", "--since", "2025-12-09"]).len(), 9);
    let parent = call["parent_id"].as_str().unwrap();
    assert_eq!(log.json(&["calls", "--parent", parent]).len(), 1);

    // Before its outcome, it was a request.
    let then = (call["started_at"].as_i64().unwrap() + 1).to_string();
    let before = log.json(&["calls", "--as-of", &then, "--status", "requested"]);
    assert_eq!(before.len(), 1);
    assert_eq!(before[0]["call_id"], call["call_id"]);
    assert!(before[0].get("latency_ms").is_none());
}

#[test]
fn one_record_is_found_by_its_key() {
    let log = Log::imported();
    let listed = &log.json(&["calls", "--status", "failed", "--tool", "Bash"])[0];
    let request_id = listed["request_id"].as_str().unwrap();
    let call_id = listed["call_id"].as_str().unwrap();
    let found = log.json(&["get", "calls", request_id, call_id]);
    assert_eq!(&found[0], listed);
    let turn = listed["parent_id"].as_str().unwrap();
    assert_eq!(log.json(&["get", "turns", turn])[0]["id"], turn);
    let text = log.ok(&["get", "calls", request_id, call_id]);
    assert!(
        text.contains("error     tool_error: error: target shim"),
        "{text}"
    );

    let output = log.run(&["get", "calls", request_id, "other"]);
    assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
    assert!(err(&output).starts_with("decklog: there is no tool call "));
    let output = log.run(&["get", "calls", request_id, call_id, "--as-of", "1000"]);
    assert_eq!(code(&output), FINDINGS);
    assert_eq!(code(&log.run(&["get", "turns", "no-uuid"])), USAGE);

    // By the start of an id, and without the call's id where it is the only one.
    let start = &request_id[..8];
    assert_eq!(&log.json(&["get", "calls", start])[0], listed);
    assert_eq!(&log.json(&["calls", "--request", start])[0], listed);
    assert_eq!(log.json(&["get", "turns", &turn[..13]])[0]["id"], turn);
    let output = log.run(&["get", "turns", "0000"]);
    assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
    assert!(
        err(&output).contains("none of the conversation_turns begins with"),
        "{}",
        err(&output)
    );
    let latest = log.json(&["get", "conversations", "latest"]);
    assert_eq!(latest[0]["id"], log.json(&["conversations"])[0]["id"]);
}

#[test]
fn a_list_without_records_says_what_to_change() {
    let log = Log::imported();
    for (args, expected) in [
        (&["calls", "--since", "2030-01-01"][..], "no calls found\n"),
        (
            &["calls", "--tool", "BASH"][..],
            "no calls found; names are case-sensitive\n",
        ),
        (
            &["conversations", "--offset", "9"][..],
            "3 conversations found: give an --offset below that\n",
        ),
        (
            &["conversations", "--limit", "0"][..],
            "3 conversations found: set --limit to show them\n",
        ),
        (
            &["conversations", "--project", "none"][..],
            "no conversations found; names are case-sensitive\n",
        ),
        (
            &["export", "csv", "histroy"][..],
            "\"histroy\" names none of the conversations: give the id, or at least its first 4 characters, or 'latest'; or the name of a list: turns, calls, proposals, conversations, messages, events, inbox, history, thoughts, rollups\n",
        ),
    ] {
        let output = log.run(args);
        assert_eq!(err(&output), format!("decklog: {expected}"), "{args:?}");
        assert_eq!(out(&output), "", "{args:?}");
    }
}

#[test]
fn the_start_of_an_id_may_have_digits_alone() {
    let log = Log::keeping_all();
    let conversation = "66031234-0000-4000-8000-000000000001";
    log.record(&[format!(
        r#"{{"kind":"conversations","id":"{conversation}","client":"cli","title":"a quince"}}"#
    )]);
    let tree = log.ok(&["tree", "6603"]);
    assert!(tree.contains(conversation), "{tree}");
    #[cfg(feature = "page")]
    {
        let page = log.ok(&["export", "html", "6603"]);
        assert!(page.contains("a quince"), "{page}");
        let missing = log.run(&["export", "html", "6604"]);
        assert!(err(&missing).contains("event 6604"), "{}", err(&missing));
    }
}

/// The texts of the filters are those of HTTP too, which does not take all forms of times.
#[test]
fn the_help_says_how_times_are_given() {
    let words = |args: &[&str]| {
        let help = out(&decklog(args).output().unwrap());
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for args in [
        &["conversations", "--help"][..],
        &["calls", "-h"],
        &["messages", "--help"],
        &["turns", "--help"],
        &["proposals", "--help"],
        &["events", "--help"],
        &["search", "--help"],
        &["get", "calls", "--help"],
        &["export", "csv", "history", "--help"],
    ] {
        let help = words(args);
        for form in ["today, yesterday", "7d", "2025-12-09 14:30", "local time"] {
            assert!(help.contains(form), "{args:?}: {help}");
        }
        // Once is enough.
        assert_eq!(help.matches("TIME is").count(), 1, "{args:?}: {help}");
    }
    let page = out(&decklog(&["man"]).output().unwrap());
    assert!(page.contains("decklog\\-calls"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let output = decklog(&["man", dir.path().to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(code(&output), OK);
    let page = std::fs::read_to_string(dir.path().join("decklog-calls.1")).unwrap();
    assert!(page.contains("yesterday"), "{page}");
}
