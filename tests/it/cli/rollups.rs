//! `decklog rollups`: totals of messages by day.

use super::*;

fn answer(n: u32, at: &str, more: &str) -> String {
    let (own, conversation) = (id(100 + n), id(1));
    format!(
        r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","timestamp":"{at}"{more}}}"#
    )
}

#[test]
fn days_are_added_up() {
    let log = Log::new();
    let small = r#","model_used":"small-1","config_used":"fast","orchestration_mode":"cascade","task_type":"a task of a long name","tokens_in":1200,"tokens_out":34"#;
    log.record(&[
        conversation(1),
        answer(
            1,
            "2025-12-27T08:00:00Z",
            &format!(r#"{small},"latency_ms":100,"context_utilization":0.25"#),
        ),
        answer(
            2,
            "2025-12-27T09:00:00Z",
            &format!(r#"{small},"latency_ms":2000,"context_utilization":0.75"#),
        ),
        answer(
            3,
            "2025-12-27T23:59:59.999Z",
            r#","error":"gone","error_type":"timeout""#,
        ),
        answer(
            4,
            "2025-12-28T00:00:00Z",
            r#","model_used":"big-2","compression_applied":true"#,
        ),
    ]);
    let text = log.ok(&["rollups"]);
    let expected = "\
DAY         MODEL           CONFIG      MODE        TASK        REQUESTS      TOKENS IN/OUT   AVG MS   P95 MS  ERRORS  CONTEXT
2025-12-27  -               -           -           -                  1                0/0        -        -       1        -
2025-12-27  small-1         fast        cascade     a task of…         2           2,400/68    1,050    1,987       0     50 %
2025-12-28  big-2           -           -           -                  1                0/0        -        -       0        -
";
    assert_eq!(text, expected);
    let long = log.ok(&["rollups", "--long", "--until", "2025-12-28"]);
    let expected = "\
rollup 2025-12-27
  messages  1 message, 1 conversation of 1 that day, 1 request
  tokens    0 in, 0 out
  latency   avg -, p50 -, p95 -, p99 -
  context   - used on average, 0 compressed
  errors    1, timeout 1

rollup 2025-12-27
  model     small-1
  config    fast
  mode      cascade
  task      a task of a long name
  messages  2 messages, 1 conversation of 1 that day, 2 requests
  tokens    2,400 in, 68 out
  latency   avg 1.1 s, p50 100 ms, p95 2.0 s, p99 2.0 s
  context   50 % used on average, 0 compressed
  errors    0
";
    assert_eq!(long, expected);
    let days = log.column(&["rollups"], "day");
    assert_eq!(days, ["2025-12-27", "2025-12-27", "2025-12-28"]);
    assert_eq!(
        log.column(&["rollups", "--since", "2025-12-28"], "compressed"),
        [1]
    );
    let output = log.run(&["rollups", "--since", "2026-01-01"]);
    assert_eq!((code(&output), out(&output)), (OK, String::new()));
    assert_eq!(err(&output), "decklog: there are no messages\n");
    assert_eq!(code(&log.run(&["rollups", "--since", "noon"])), USAGE);
}

#[test]
fn rollups_are_recorded_in_another_log() {
    let log = Log::new();
    log.record(&[
        conversation(1),
        answer(
            1,
            "2025-12-27T08:00:00Z",
            r#","latency_ms":7,"error":"\u001b[31m","error_type":"\u001b""#,
        ),
        answer(
            2,
            "2025-12-28T08:00:00Z",
            r#","model_used":"\"\u009b2J","context_utilization":0.1"#,
        ),
    ]);
    let told = log.ok(&["rollups", "--json"]);
    let table = log.ok(&["rollups"]);
    assert!(
        !table.contains(|c: char| c.is_control() && c != '\n'),
        "{table:?}"
    );
    assert!(
        log.ok(&["rollups", "--long"])
            .contains("errors    1, \\u{1b} 1\n")
    );
    let other = Log::new();
    let output = other.run_with(&["record"], told.as_bytes());
    let expected = "2 records added, 0 unchanged, 0 rejected\n";
    assert_eq!(
        (err(&output), out(&output)),
        (String::new(), expected.to_owned())
    );
    assert_eq!(other.ok(&["rollups", "--json"]), told);
    let again = other.run_with(&["record"], told.as_bytes());
    assert_eq!(out(&again), "0 records added, 2 unchanged, 0 rejected\n");
}
