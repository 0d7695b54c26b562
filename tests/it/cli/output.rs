//! Output is safe to display, and may be closed early.

use super::*;

/// Hostile characters in a tool's output.
const EVIL: &str = "red \u{1b}[31m \u{9b}2J \u{202e}turned \u{7} \u{7f} \u{200b} \u{e0041}\r\nnext";

#[test]
fn no_escape_from_content_comes_through() {
    let log = Log::new();
    let input = [
        turn(1, 1000, EVIL),
        request(2, 1000, EVIL, &Value::from(EVIL).to_string()),
        failed(2, 1001, EVIL),
        // Rejected, with a reason that quotes it.
        turn(3, 1000, "x").replace("user", "\\u009b\\u001b[31m"),
    ]
    .join("\n");
    let output = log.run_with(&["record"], input.as_bytes());
    assert_eq!(code(&output), FINDINGS);
    let mut shown = vec![err(&output)];
    for args in [
        &["turns"][..],
        &["turns", "--long"],
        &["calls"],
        &["calls", "--long"],
        &["tail"],
        &["search", "turned"],
        &["search", "turned", "--long"],
        &["replay", "1970-01-01"],
        &["get", "turns", &id(1)],
        &["get", "calls", &id(2), "call_2"],
    ] {
        let text = log.ok(args);
        assert!(
            text.contains("\\u{1b}[31m") && text.contains("\\u{202e}turned"),
            "{text}"
        );
        shown.push(text);
    }
    shown.push(err(&log.run(&["get", "calls", &id(2), EVIL])));
    for text in shown {
        let evil = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(!text.contains(evil), "{text:?}");
    }
    // For programs, the text is unchanged.
    assert_eq!(log.json(&["turns"])[0]["content"], EVIL);
}

#[test]
fn no_escape_comes_through_in_records_of_any_kind() {
    let log = Log::with_plain_users();
    let evil = Value::from(EVIL);
    let step = |op: &str| format!(r#"{{"kind":"inbox","op":"{op}","id":1,"error":{evil}}}"#);
    let lines = [
        conversation(1).replace(
            '}',
            &format!(r#","project":{evil},"workspace":{evil},"user_id":{evil},"session_id":{evil},"last_error":{evil}}}"#),
        ),
        message(2, 1, EVIL).replace(
            '}',
            &format!(r#","model_used":{evil},"config_used":{evil},"error":{evil},"error_type":{evil},"tool_name":{evil},"tool_args":{evil},"tool_result":{evil},"inference_metadata":{evil},"models_in_chain":[{evil}]}}"#),
        ),
        event(None, "agent.started", 1000).replace('}', &format!(r#","payload":{evil}}}"#)),
        format!(r#"{{"kind":"inbox","update_id":1,"payload":{evil}}}"#),
        step("in_progress").replace(&format!(r#","error":{evil}"#), ""),
        step("failed"),
        format!(r#"{{"kind":"history","chat_id":1,"role":"user","text":{evil}}}"#),
        thought(EVIL, EVIL).replace('}', &format!(r#","id":{evil}}}"#)),
        format!(
            r#"{{"kind":"code_edit_proposals","request_id":"{}","created_at":1000,"diffs_json":{evil}}}"#,
            id(3)
        ),
        // Rejected, with reasons that quote it.
        thought("t", "x").replace("plan", "\\u009b\\u001b[31m"),
        event(None, "\\u001b[31m\\u202e.x", 1000),
    ];
    // Braces in the text are not replaced; it contains none.
    let output = log.run_with(&["record"], lines.join("\n").as_bytes());
    assert_eq!(
        out(&output),
        "9 records added, 0 unchanged, 2 rejected\n",
        "{}",
        err(&output)
    );
    let mut shown = vec![err(&output)];
    for args in [
        &["conversations"][..],
        &["conversations", "--long"],
        &["messages", &id(1)],
        &["messages", &id(1), "--long"],
        &["show", &id(1)],
        &["events"],
        &["events", "--long"],
        &["tree", "1"],
        &["inbox"],
        &["inbox", "--long"],
        &["history", "1"],
        &["history", "1", "--long"],
        &["thoughts"],
        &["thoughts", "--long"],
        &["rollups", "--long"],
        &["thoughts", "verify"],
        &["proposals"],
        &["proposals", "--long"],
        &["tail", "-n", "100"],
        &["replay", "1970-01-01"],
        &["get", "thoughts", EVIL],
        &["get", "messages", &id(2)],
    ] {
        let text = log.ok(args);
        assert!(
            text.contains("\\u{1b}[31m") && text.contains("\\u{202e}turned"),
            "{args:?}: {text}"
        );
        shown.push(text);
    }
    shown.push(err(&log.run(&["thoughts", "verify", "--task", &EVIL[1..]])));
    for text in shown {
        let evil = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(!text.contains(evil), "{text:?}");
    }
    assert_eq!(log.json(&["messages", &id(1)])[0]["tool_args"], EVIL);
}

#[test]
fn a_reader_that_leaves_early_is_no_trouble() {
    let log = Log::new();
    let input: String = (1..=3000)
        .map(|n| turn(n, 1000, &"x".repeat(200)) + "\n")
        .collect();
    log.run_with(&["record"], input.as_bytes());
    for args in [
        &["turns"][..],
        &["turns", "--json"],
        &["export", "csv", "turns"],
        &["export", "markdown", "turns"],
        &["tail", "-n", "3000"],
        &["tail", "-n", "3000", "-f"],
        &["replay", "1970-01-01"],
    ] {
        let mut child = spawn(&mut log.command(args));
        let mut one_line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut one_line).unwrap();
        assert!(!one_line.is_empty());
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), err(&output)),
            (OK, String::new()),
            "{args:?}"
        );
    }
}
