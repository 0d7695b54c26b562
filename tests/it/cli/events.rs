//! `decklog events` and `tree`.

use super::*;

#[test]
fn events_are_found_and_drawn_as_trees() {
    let log = Log::new();
    let with =
        |line: String, payload: &str| line.replace('}', &format!(r#","payload":{payload}}}"#));
    log.record(&[
        event(None, "agent.started", 1000),
        event(Some(1), "turn.started", 1010),
        with(
            event(Some(2), "tool_call.started", 1020),
            r#"{"call_id":"a"}"#,
        ),
        with(
            event(Some(2), "tool_call.started", 1030),
            r#"{"call_id":"b"}"#,
        ),
        with(
            event(Some(2), "tool_call.failed", 1090),
            r#"{"call_id":"b"}"#,
        ),
        event(Some(1), "turn.started", 2000),
        event(Some(6), "turn.completed", 4500),
        event(None, "process.started", 5000),
    ]);
    let ids = |args: &[&str]| log.column(args, "id");
    assert_eq!(ids(&["events", "--roots"]), [1, 8]);
    assert_eq!(ids(&["events", "--parent", "2"]), [3, 4, 5]);
    assert_eq!(ids(&["events", "--type", "turn.started"]), [2, 6]);
    assert_eq!(
        ids(&["events", "--since", "1030", "--until", "4500"]),
        [4, 5, 6]
    );
    assert_eq!(
        ids(&["events", "--order", "desc"]),
        [8, 7, 6, 5, 4, 3, 2, 1]
    );
    // Text output is a log: --limit counts from the end.
    let text = out(&log.run(&["events", "--limit", "2"]));
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(
        rows[1],
        "1970-01-01 00:00:04.500       7       6  turn.completed"
    );
    assert_eq!(
        rows[2],
        "1970-01-01 00:00:05.000       8       -  process.started"
    );

    let expected = r#"#1 agent.started  running
├─ #2 turn.started  running
│  ├─ #3 tool_call.started  running  {"call_id":"a"}
│  ├─ #4 tool_call.started  failed 60 ms  {"call_id":"b"}
│  └─ #5 tool_call.failed  {"call_id":"b"}
└─ #6 turn.started  completed 2.5 s
   └─ #7 turn.completed
"#;
    assert_eq!(log.ok(&["tree", "1"]), expected);
    let nodes = log.json(&["tree", "1"]);
    let brief = |name: &str| {
        nodes
            .iter()
            .map(|node| node[name].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(brief("depth"), [0, 1, 2, 2, 2, 1, 2]);
    assert_eq!(
        (&nodes[3]["status"], &nodes[3]["duration_ms"]),
        (&"failed".into(), &60.into())
    );
    let output = log.run(&["tree", "99"]);
    assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
    assert_eq!(err(&output), "decklog: there is no event 99\n");
    assert_eq!(
        code(&log.run(&["get", "events", "1", "--as-of", "2000"])),
        USAGE
    );
}

#[test]
fn a_tree_may_be_of_any_depth() {
    const DEPTH: i64 = 100_000;
    let log = Log::new();
    let lines: Vec<String> = (0..=DEPTH)
        .map(|n| event((n > 0).then_some(n), "a.b", 1000))
        .collect();
    log.record(&lines);
    let text = log.ok(&["tree", "1"]);
    let last = text.lines().last().unwrap();
    assert_eq!(last, format!("{}[100,000] #100001 a.b", " ".repeat(120)));
    assert_eq!(i64::try_from(text.lines().count()).unwrap(), DEPTH + 1);
}
