//! `decklog record`: lines from standard input are recorded and answered.

use super::*;

#[test]
fn good_lines_are_kept_and_bad_ones_told() {
    let log = Log::new();
    let input = [
        turn(1, 1000, "one").as_bytes(),
        b"\r\n\n",
        b"not json\n",
        b"\xff\xfe\n",
        failed(9, 1000, "never requested").as_bytes(),
        b"\n",
        request(2, 2000, "read", r#"{"path":"a"}"#).as_bytes(),
        b"\n",
        turn(1, 1000, "one").as_bytes(),
    ]
    .concat();
    let output = log.run_with(&["record", "--ack"], &input);
    assert_eq!(code(&output), FINDINGS);
    let acks = objects(&out(&output));
    let brief: Vec<(u64, &str, Option<u64>)> = acks
        .iter()
        .map(|ack| {
            let line = ack["line"].as_u64().unwrap();
            (line, ack["status"].as_str().unwrap(), ack["seq"].as_u64())
        })
        .collect();
    let expected = [
        (1, "added", Some(1)),
        (3, "rejected", None),
        (4, "rejected", None),
        (5, "rejected", None),
        (6, "added", Some(2)),
        (7, "unchanged", Some(1)),
    ];
    assert_eq!(brief, expected);
    assert!(
        acks[3]["reason"]
            .as_str()
            .unwrap()
            .contains("never requested")
    );
    let told = err(&output);
    assert_eq!(told.lines().count(), 3, "{told}");
    assert!(
        told.contains("decklog: line 4: not UTF-8 at byte 0\n"),
        "{told}"
    );

    let output = log.run_with(&["record"], turn(3, 1000, "three").as_bytes());
    assert_eq!(out(&output), "1 record added, 0 unchanged, 0 rejected\n");
    assert_eq!(code(&output), OK);
    assert_eq!(log.json(&["turns"]).len(), 2);
}

#[test]
fn a_program_that_waits_for_its_ack_gets_it() {
    let log = Log::new();
    let mut child = spawn(&mut log.command(&["record", "--ack", "--durability", "disk"]));
    let mut input = child.stdin.take().unwrap();
    let next_ack = lines_of(child.stdout.take().unwrap());
    for n in 1..=20 {
        writeln!(input, "{}", turn(n, 1000, "hello")).unwrap();
        let ack: Value = serde_json::from_str(&next_ack()).unwrap();
        assert_eq!((&ack["line"], &ack["seq"]), (&n.into(), &n.into()));
        // Acknowledged records are visible to other processes.
        assert_eq!(log.json(&["turns"]).len() as u32, n);
    }
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(OK));
}

#[test]
fn records_are_kept_when_no_one_reads_the_acks() {
    let log = Log::new();
    let mut child = spawn(&mut log.command(&["record", "--ack"]));
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    for n in 1..=5000 {
        writeln!(input, "{}", turn(n, 1000, "hello")).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output)), (OK, String::new()));
    assert_eq!(log.json(&["turns"]).len(), 5000);
}

#[test]
fn another_process_with_the_lock_has_its_own_exit_code() {
    let log = Log::new();
    log.run_with(&["record"], turn(1, 1000, "one").as_bytes());
    let file = std::fs::File::options()
        .write(true)
        .open(log.file("LOCK"))
        .unwrap();
    file.lock().unwrap();
    let output = log.run_with(&["record"], turn(2, 1000, "two").as_bytes());
    assert_eq!(code(&output), LOCKED);
    let told = err(&output);
    assert!(
        told.starts_with("decklog: lines 1 to 1 are not acknowledged: "),
        "{told}"
    );
    // Reading needs no lock.
    assert_eq!(log.json(&["turns"]).len(), 1);
}

#[test]
fn a_record_that_makes_no_sense_is_told_with_what_is_wrong() {
    let log = Log::new();
    let known = [conversation(1), message(2, 1, "here")].join("\n");
    log.run_with(&["record"], known.as_bytes());
    let before = log.json(&["tail", "-n", "100"]);
    let with = |line: String, member: &str| line.replacen('{', &format!("{{{member},"), 1);
    let cases = [
        (
            conversation(9).replace(r#""cli""#, r#""a fax""#),
            "client is \"a fax\"",
        ),
        (
            with(message(9, 1, "x"), r#""context_utilization":1.5"#),
            "context_utilization is 1.5: give a number from 0 to 1",
        ),
        (
            with(message(9, 1, "x"), r#""tokens_in":-1"#),
            "tokens_in is -1",
        ),
        (with(message(9, 1, "x"), r#""sequence":1"#), "sequence 1"),
        (
            message(9, 1, "x").replace(r#""role":"user""#, r#""role":"bot""#),
            "role is \"bot\"",
        ),
        (
            message(9, 8, "x"),
            "there is no conversation 00000000-0000-4000-8000-000000000008",
        ),
        (message(2, 1, "another"), "which says something else"),
        (thought("", "x"), "task_id is empty"),
        (
            thought("t", "x").replace("plan", "dream"),
            "type is \"dream\"",
        ),
        (event(Some(77), "a.b", 1000), "there is no event 77"),
        (
            event(None, "spawned", 1000),
            "event_type \"spawned\" is no dotted name",
        ),
        (
            r#"{"kind":"inbox","op":"done","id":5}"#.to_owned(),
            "there is no such task",
        ),
        (
            r#"{"kind":"history","chat_id":"x","role":"user","text":""}"#.to_owned(),
            "chat_id is \"x\"",
        ),
        (
            format!(
                r#"{{"kind":"code_edit_proposals","request_id":"{}","created_at":1,"confidence":-0.5,"diffs_json":[]}}"#,
                id(9)
            ),
            "confidence is -0.5",
        ),
        (
            format!(
                r#"{{"kind":"code_edit_proposals","op":"applied","request_id":"{}","applied_at":1}}"#,
                id(9)
            ),
            "no proposal of this request",
        ),
    ];
    let input: Vec<&str> = cases.iter().map(|(line, _)| line.as_str()).collect();
    let output = log.run_with(&["record", "--ack"], input.join("\n").as_bytes());
    assert_eq!(code(&output), FINDINGS);
    let acks = objects(&out(&output));
    assert_eq!(acks.len(), cases.len());
    for (ack, (line, expected)) in acks.iter().zip(&cases) {
        let reason = ack["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(expected), "{line} is answered with {ack}");
        assert_eq!(ack["status"], "rejected");
    }
    assert_eq!(log.json(&["tail", "-n", "100"]), before);
}

#[test]
fn what_the_log_gives_is_told_in_the_ack() {
    let log = Log::new();
    let lines = [
        turn(1, 1000, "one"),
        conversation(2),
        message(3, 2, "first"),
        message(4, 2, "second"),
        event(None, "a.b", 1000),
        event(Some(1), "a.c", 1000),
        r#"{"kind":"inbox","update_id":70,"created_at":1}"#.to_owned(),
        r#"{"kind":"history","chat_id":7,"role":"user","created_at":1,"text":""}"#.to_owned(),
        // Identified by its update_id.
        r#"{"kind":"inbox","update_id":70,"created_at":1}"#.to_owned(),
    ];
    let output = log.run_with(&["record", "--ack"], lines.join("\n").as_bytes());
    let acks = objects(&out(&output));
    let assigned: Vec<Option<i64>> = acks.iter().map(|ack| ack["assigned"].as_i64()).collect();
    let expected = [
        None,
        None,
        Some(1),
        Some(2),
        Some(1),
        Some(2),
        Some(1),
        Some(1),
        Some(1),
    ];
    assert_eq!(assigned, expected);
    assert_eq!(acks[8]["status"], "unchanged");
    assert!(acks[0].get("assigned").is_none());
}

#[test]
fn the_lines_of_the_help_are_records() {
    let help = out(&decklog(&["record", "--help"]).output().unwrap());
    let (_, folded) = help.split_once("folded here:\n").unwrap();
    let lines = folded
        .trim_end()
        .replace("\n   ", "")
        .replace("f0e1…64 hex digits", &"f0e1".repeat(16));
    let kinds = decklog::Kind::ALL.into_iter();
    for kind in kinds.map(decklog::Kind::stem) {
        assert!(lines.contains(&format!(r#""kind":"{kind}""#)), "{kind}");
    }
    let log = Log::new();
    let output = log.run_with(&["record"], lines.as_bytes());
    let expected = format!(
        "{} records added, 0 unchanged, 0 rejected\n",
        lines.lines().count()
    );
    assert_eq!((err(&output), out(&output)), (String::new(), expected));
}

/// A time in seconds reads as a time before 1980 in milliseconds. It is accepted with a warning.
#[test]
fn a_time_in_seconds_is_told_of() {
    let log = Log::keeping_all();
    let event = |at: i64| format!(r#"{{"kind":"events","event_type":"a.b","created_at":{at}}}"#);
    let lines = [
        event(1_766_832_000),
        event(1_766_832_000_000),
        event(315_532_799_999),
    ];
    let answered = log.run_with(&["record", "--ack"], lines.join("\n").as_bytes());
    assert_eq!((code(&answered), err(&answered)), (OK, String::new()));
    let acks = objects(&out(&answered));
    for (ack, is_early) in acks.iter().zip([true, false, true]) {
        assert_eq!(ack["status"], "added");
        let warning = ack["warning"].as_str();
        assert_eq!(
            warning.is_some_and(|it| it.contains("in seconds")),
            is_early,
            "{ack}"
        );
    }
}
