//! `decklog doctor`: the state of a store, and the suggested actions.

use super::*;

#[test]
fn a_store_that_is_well_needs_nothing() {
    let log = Log::imported();
    let text = log.ok(&["doctor"]);
    assert!(text.ends_with("\nall is well\n"), "{text}");
    assert!(text.contains("\nlock        free\n"), "{text}");
    let calls = text.lines().find(|line| line.starts_with("tool_calls "));
    assert!(calls.unwrap().contains("2025-12-"), "{text}");

    let report = &log.json(&["doctor"])[0];
    assert_eq!(report["good"], true);
    assert_eq!(report["findings"], serde_json::json!([]));
    let usage = report["usage"].as_array().unwrap();
    let sum: u64 = usage.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
    assert!(sum > 0 && report["bytes"] == sum, "{report}");
}

#[test]
fn what_is_wrong_comes_with_what_to_do() {
    let log = Log::imported();
    let name = "2025-12-09/tool_calls.0001.jsonl";
    let mut bytes = std::fs::read(log.file(name)).unwrap();
    // A change in the first line's checksum, so that the line is still a record; then an invalid
    // line and a torn one.
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    bytes[end - 3] = if bytes[end - 3] == b'0' { b'1' } else { b'0' };
    bytes.extend_from_slice(b"\x1b[31mnot JSON\n{\"seq\":1");
    std::fs::write(log.file(name), bytes).unwrap();
    std::fs::write(log.file("2025-12-09/\u{1b}[2Jmine"), "").unwrap();

    let output = log.run(&["doctor"]);
    assert_eq!((code(&output), err(&output)), (FINDINGS, String::new()));
    let text = out(&output);
    for (about, to_do) in [
        ("damaged", "decklog repair"),
        ("altered", "--accept-edits"),
        ("torn", "quarantine/"),
        ("foreign", "left alone"),
    ] {
        let found = text.lines().position(|line| line.starts_with(about));
        let found = found.unwrap_or_else(|| panic!("{about}: {text}"));
        let told: Vec<&str> = text.lines().skip(found).take(2).collect();
        assert!(told.concat().contains(to_do), "{about}: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");

    let output = log.run(&["doctor", "--json"]);
    assert_eq!(code(&output), FINDINGS);
    let report = &objects(&out(&output))[0];
    assert_eq!(report["good"], false);
    assert_eq!(report["damage"]["altered"], 1);
    assert_eq!(report["findings"].as_array().unwrap().len(), 3);

    // The suggested action repairs it.
    assert_eq!(code(&log.run(&["repair", "--accept-edits"])), OK);
    let text = log.ok(&["doctor"]);
    assert!(text.contains("\nquarantine  1 file, "), "{text}");
    assert!(text.ends_with("\nall is well\n"), "{text}");
}

#[test]
fn a_store_that_cannot_be_opened_says_why() {
    let log = Log::new();
    let output = log.run(&["doctor"]);
    assert_eq!(code(&output), STORE);
    assert!(err(&output).contains("there is no store here"));
    assert!(!log.path().exists());

    let log = Log::imported();
    std::fs::write(log.file("decklog.json"), "{\"format\":7}").unwrap();
    let output = log.run(&["doctor"]);
    assert_eq!(code(&output), STORE);
    assert!(err(&output).contains("use a newer one"), "{}", err(&output));
    // An unreadable manifest does not prevent reading the lines.
    std::fs::write(log.file("decklog.json"), "{\"form").unwrap();
    let output = log.run(&["doctor"]);
    assert_eq!(code(&output), FINDINGS);
    assert!(
        out(&output).contains("restore a copy of decklog.json"),
        "{}",
        out(&output)
    );
    assert!(!log.run(&["calls"]).stdout.is_empty());
    // A repair does not fix it, and it is not counted as such damage.
    let report = objects(&out(&log.run(&["doctor", "--json"]))).remove(0);
    let about: Vec<_> = report["findings"].as_array().unwrap().iter().collect();
    assert_eq!(about.len(), 1, "{about:?}");
    assert_eq!(about[0]["about"], "manifest");
}

/// Both report the leftovers of a killed writer in the same way: a torn line is a finding, an
/// abandoned lock is not.
#[cfg(unix)]
#[test]
fn doctor_and_verify_agree_on_a_killed_writer() {
    let log = Log::imported();
    let agree = |expected: i32| {
        let verify = log.run(&["verify"]);
        let doctor = log.run(&["doctor"]);
        let strict = log.run(&["doctor", "--strict"]);
        for output in [&verify, &doctor, &strict] {
            assert_eq!(code(output), expected, "{}", out(output));
        }
        out(&strict)
    };
    agree(OK);
    let mut child = spawn(&mut log.command(&["record", "--ack"]));
    let mut acks = BufReader::new(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let mut ack = String::new();
    for _ in 0..3 {
        writeln!(
            input,
            r#"{{"kind":"events","event_type":"agent.started","created_at":1766832000000}}"#
        )
        .unwrap();
        ack.clear();
        acks.read_line(&mut ack).unwrap();
        assert!(ack.contains("added"), "{ack}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have died while it held the lock for its next record.
    let text = agree(OK);
    assert!(text.ends_with("\nall is well\n"), "{text}");
    let name = "2025-12-27/events.0001.jsonl";
    let mut bytes = std::fs::read(log.file(name)).unwrap();
    bytes.extend_from_slice(br#"{"seq":99,"at":17668"#);
    std::fs::write(log.file(name), bytes).unwrap();
    agree(FINDINGS);
}

/// A sealed segment replaced by another one of the same length is detected by checking it against
/// its seal, which opening the log does not do.
#[test]
fn a_strict_doctor_checks_every_byte() {
    let log = Log::imported();
    log.ok(&["seal"]);
    let segment = log.file("2025-12-09/conversation_turns.0001.jsonl");
    let text = std::fs::read_to_string(&segment).unwrap();
    let (rest, last) = text.trim_end().rsplit_once('\n').unwrap();
    std::fs::remove_file(&segment).unwrap();
    // The same lines in another order.
    std::fs::write(&segment, format!("{last}\n{rest}\n")).unwrap();
    assert_eq!(code(&log.run(&["doctor"])), OK);
    assert_eq!(code(&log.run(&["verify"])), FINDINGS);
    let strict = log.run(&["doctor", "--strict"]);
    assert_eq!(code(&strict), FINDINGS);
    assert!(
        out(&strict).contains("see 'decklog verify'"),
        "{}",
        out(&strict)
    );
    let report = objects(&out(&log.run(&["doctor", "--strict", "--json"]))).remove(0);
    assert_eq!(report["findings"][0]["about"], "verify");
}
