//! Budgets and the status line.

use super::*;

/// A log with 0.5 US dollars spent now.
fn spent_now() -> Log {
    let log = Log::keeping_all();
    let now = Timestamp::now();
    log.record(&[
        conversation(1),
        answer(
            11,
            "own-1",
            &now.to_string(),
            r#""tokens_in":9,"cost_usd":0.3"#,
        ),
        answer(12, "gpt-5", &now.to_string(), r#""tokens_in":160000"#),
    ]);
    log
}

#[test]
fn budgets_are_told_of() {
    let log = spent_now();
    let set = |name: &str, value: &str| drop(log.ok(&["config", "set", name, value]));
    let without = log.ok(&["stats"]);
    set("budget.month", "1000");
    assert!(log.ok(&["doctor"]).ends_with("\nall is well\n"));
    let line = "$0.50 of $1000.00 spent this month (0.1 %)\n";
    assert_eq!(log.ok(&["stats"]), format!("{without}{line}"));
    assert!(log.ok(&["stats", "cost"]).ends_with(line));
    // Programs get them from doctor.
    assert_eq!(log.ok(&["stats", "cost", "--csv"]).lines().count(), 2);
    let report = &log.json(&["doctor"])[0];
    assert_eq!(report["budgets"][0]["period"], "month");
    assert_eq!(report["budgets"][0]["spent_usd"], 0.5);

    // A note, and no problem.
    set("budget.week", "0.6");
    let text = log.ok(&["doctor"]);
    assert!(
        text.contains("budget      $0.50 of $0.60 spent this week (83.3 %)\n"),
        "{text}"
    );
    set("budget.week", "0.5");
    assert!(log.ok(&["doctor"]).contains("this week (100.0 %)"));
    set("budget.day", "0.4");
    let output = log.run(&["doctor"]);
    assert_eq!(code(&output), FINDINGS);
    let text = out(&output);
    assert!(
        text.contains("budget      $0.50 of $0.40 spent today (125.0 %)\n"),
        "{text}"
    );
    let report = &objects(&out(&log.run(&["doctor", "--json"])))[0];
    assert_eq!(report["good"], false);
    let periods = ["day", "week", "month"];
    for (budget, period) in report["budgets"].as_array().unwrap().iter().zip(periods) {
        assert_eq!(budget["period"], period, "{report}");
    }
    for name in ["budget.day", "budget.week", "budget.month"] {
        log.ok(&["config", "unset", name]);
    }
    assert_eq!(log.ok(&["stats"]), without);
    assert!(log.ok(&["doctor"]).ends_with("\nall is well\n"));
}

/// As Claude Code passes it.
const STATUS: &str = r#"{"hook_event_name":"Status","session_id":"abc123","transcript_path":"/t.jsonl",
    "cwd":"/w","model":{"id":"claude-opus-4-1","display_name":"Opus\u001b[2J"},
    "workspace":{"current_dir":"/w","project_dir":"/w"},"version":"1.0.80",
    "output_style":{"name":"default"},"cost":{"total_cost_usd":0.01234,"total_duration_ms":45000,
    "total_api_duration_ms":2300,"total_lines_added":156,"total_lines_removed":23}}"#;

#[test]
fn the_status_line_never_fails() {
    let log = spent_now();
    let line = |log: &Log, input: &[u8]| {
        let mut child = spawn(&mut log.command(&["statusline"]));
        // It may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
        out(&output)
    };
    let today = "$0.50 today | $0.50/h\n";
    // As in a store with an index; otherwise a reader makes no files.
    std::fs::create_dir(log.file("cache")).unwrap();
    // Twice: the second one has the figures of the first one.
    for _ in 0..2 {
        let found = line(&log, STATUS.as_bytes());
        assert_eq!(
            found,
            format!("Opus\\u{{1b}}[2J | $0.0123 session | {today}")
        );
    }
    assert!(log.file("cache/spending").exists());
    std::fs::write(log.file("cache/spending"), "damaged").unwrap();
    for input in [
        &b""[..],
        b"{",
        b"null",
        b"[1]",
        b"\xff\xfe\0",
        br#"{"model":7,"cost":{"total_cost_usd":"x"}}"#,
    ] {
        assert_eq!(line(&log, input), today, "{input:?}");
    }
    let huge = format!(
        r#"{{"model":{{"id":"m"}},"more":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    assert_eq!(line(&log, huge.as_bytes()), today);
    log.ok(&["config", "set", "budget.day", "2"]);
    assert_eq!(line(&log, b""), "$0.50 today | $0.50/h | 25.0 % of $2.00\n");
    log.ok(&["config", "set", "budget.day", "0.25"]);
    assert_eq!(
        line(&log, b""),
        "$0.50 today | $0.50/h | 200.0 % of $0.25, over\n"
    );
    // What was added since counts.
    let now = Timestamp::now().to_string();
    log.record(&[answer(13, "x", &now, r#""tokens_in":9,"cost_usd":1"#)]);
    assert!(line(&log, b"").starts_with("$1.50 today | $1.50/h"));
    // Own prices count at once.
    std::fs::write(log.file("prices.json"), prices_of_gpt_5()).unwrap();
    assert!(line(&log, b"").starts_with("$1.62 today"));

    // Without a store, none is made.
    let none = Log::new();
    assert_eq!(
        line(&none, STATUS.as_bytes()),
        "Opus\\u{1b}[2J | $0.0123 session\n"
    );
    assert_eq!(line(&none, b""), "\n");
    assert!(!none.path().exists());
}

#[cfg(unix)]
#[test]
fn the_status_line_reads_a_store_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;

    let log = spent_now();
    let mode = |mode| {
        for dir in [log.path(), log.file("cache")] {
            if dir.exists() {
                std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    };
    mode(0o555);
    for _ in 0..2 {
        let output = log.run_with(&["statusline"], b"");
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
        assert_eq!(out(&output), "$0.50 today | $0.50/h\n");
    }
    mode(0o755);
}
