//! The commands of the other kinds: proposals, conversations, messages, events, tasks, chats and
//! thoughts, as lists and as a person reads them.

use super::*;

impl Log {
    /// Records lines, all of which must be taken.
    fn record(&self, lines: &[String]) {
        let output = self.run_with(&["record"], lines.join("\n").as_bytes());
        assert_eq!((code(&output), err(&output)), (OK, String::new()));
    }

    fn column(&self, args: &[&str], name: &str) -> Vec<Value> {
        let records = self.json(args).into_iter();
        records.map(|record| record[name].clone()).collect()
    }
}

#[test]
fn proposals_are_found_by_status_and_time_and_as_they_stood() {
    let log = Log::new();
    let proposal = |n: u32, at: i64| {
        let id = id(n);
        format!(
            r#"{{"kind":"code_edit_proposals","request_id":"{id}","created_at":{at},"confidence":0.5,"diffs_json":[{n}]}}"#
        )
    };
    let approved = format!(
        r#"{{"kind":"code_edit_proposals","op":"approved","request_id":"{}","decided_at":5000}}"#,
        id(2)
    );
    log.record(&[
        proposal(1, 1000),
        proposal(2, 2000),
        proposal(3, 3000),
        approved,
    ]);
    let ids = |args: &[&str]| log.column(args, "request_id");
    assert_eq!(ids(&["proposals"]), [id(3), id(2), id(1)]);
    assert_eq!(
        ids(&["proposals", "--order", "oldest", "--until", "3000"]),
        [id(1), id(2)]
    );
    assert_eq!(ids(&["proposals", "--status", "approved"]), [id(2)]);
    assert_eq!(
        ids(&["proposals", "--status", "pending", "--since", "2000"]),
        [id(3)]
    );
    let then = log.json(&["proposals", "--as-of", "2500"]);
    assert_eq!((&then[0]["status"], then.len()), (&"pending".into(), 2));
    assert_eq!(
        log.json(&["get", "proposals", &id(2), "--as-of", "2500"]),
        then[..1]
    );

    let text = log.ok(&["proposals", "--status", "approved"]);
    let row = "1970-01-01 00:00:02.000  approved         0.5  -           [2]";
    assert_eq!(text.lines().nth(1), Some(row));
    let text = log.ok(&["proposals", "--status", "approved", "--long"]);
    assert!(
        text.starts_with(&format!("proposal {}\n  status    approved\n", id(2))),
        "{text}"
    );
    let output = log.run(&["proposals", "--limit", "2"]);
    let (_, rest) = err(&output)
        .split_once("go on with ")
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .unwrap();
    let (options, _) = rest.split_once(',').unwrap();
    let args: Vec<&str> = ["proposals"]
        .into_iter()
        .chain(options.split(' '))
        .collect();
    assert_eq!(ids(&args), [id(1)]);
}

#[test]
fn conversations_are_found_and_counted() {
    let log = Log::new();
    let lines: Vec<String> = (1..=600)
        .map(|n| {
            let project = if n % 2 == 0 { "even" } else { "odd" };
            let day = n / 60 + 1;
            let (hour, minute) = (n % 60 / 3, n % 3);
            conversation(n)
                .replace("27T08:00", &format!("{day:02}T{hour:02}:{minute:02}"))
                .replace(r#""cli""#, if n % 3 == 0 { r#""web""# } else { r#""cli""# })
                .replace(
                    '}',
                    &format!(r#","project":"{project}","user_id":"u{}"}}"#, n % 5),
                )
        })
        .collect();
    log.record(&lines);
    let ids = |args: &[&str]| log.column(args, "id");
    let expected: Vec<Value> = (1..=600).map(|n| id(n).into()).collect();
    assert_eq!(ids(&["conversations", "--order", "oldest"]), expected);
    assert!(ids(&["conversations"]).iter().eq(expected.iter().rev()));
    let filtered = [
        "conversations",
        "--order",
        "oldest",
        "--project",
        "even",
        "--client",
        "web",
        "--user",
        "u0",
    ];
    let numbers = (1..=600).filter(|n| n % 30 == 0);
    assert_eq!(ids(&filtered), numbers.map(id).collect::<Vec<_>>());
    let day = [
        "conversations",
        "--since",
        "2025-12-02",
        "--until",
        "2025-12-03",
    ];
    assert_eq!(ids(&day).len(), 60);
    assert_eq!(
        ids(&["conversations", "--workspace", "w"]),
        [] as [Value; 0]
    );

    let output = log.run(&[
        "conversations",
        "--project",
        "odd",
        "--limit",
        "3",
        "--offset",
        "290",
        "--json",
    ]);
    assert_eq!(code(&output), OK);
    assert_eq!(objects(&out(&output)).len(), 3);
    let told = "decklog: 3 of 300 conversations shown: go on with --offset 293, or set --limit\n";
    assert_eq!(err(&output), told);
    let output = log.run(&["conversations", "--offset", "598"]);
    assert_eq!(
        (out(&output).lines().count(), err(&output)),
        (3, String::new())
    );
}

#[test]
fn a_conversation_reads_as_a_transcript() {
    let log = Log::new();
    let mut lines = vec![conversation(1)];
    lines.push(message(2, 1, "What is\n\tin it?"));
    lines.push(
        message(3, 1, "").replace(
            r#""role":"user""#,
            r#""role":"assistant","model_used":"small-1","tokens_in":1200,"tokens_out":1,"latency_ms":37,"tool_name":"ls","tool_args":{"path":"."}"#,
        ),
    );
    lines.push(message(4, 1, "").replace(
        r#""role":"user""#,
        r#""role":"tool","tool_result":"a\nb","error":"half of it","error_type":"timeout""#,
    ));
    log.record(&lines);
    let expected = format!(
        "\
conversation {}
  client    cli
  status    error
  error     half of it
  created   2025-12-27T08:00:00Z
  updated   2025-12-27T08:00:01.000Z
  totals    3 messages, 1,200 tokens in, 1 token out, 37 ms
  models    small-1

#1  user  2025-12-27 08:00:01.000 UTC
    What is
    \tin it?

#2  assistant  2025-12-27 08:00:01.000 UTC  small-1  1,200 tokens in  1 token out  37 ms
  → call    ls {{\"path\":\".\"}}

#3  tool  2025-12-27 08:00:01.000 UTC
  ! error   timeout: half of it
  ← result  a
            b
",
        id(1)
    );
    assert_eq!(log.ok(&["show", &id(1)]), expected);

    let rows = log.ok(&["messages", &id(1), "--from", "2", "--until", "3"]);
    let row = "2025-12-27 08:00:01.000      2  assistant  small-1         ls {\"path\":\".\"}";
    assert_eq!(rows.lines().collect::<Vec<_>>()[1..], [row]);
    let stats = &log.json(&["get", "conversations", &id(1)])[0];
    assert_eq!(
        (&stats["total_tokens_in"], &stats["models_used"][0]),
        (&1200.into(), &"small-1".into())
    );
    for command in [&["show"][..], &["messages"], &["get", "conversations"]] {
        let missing = id(9);
        let args: Vec<&str> = command.iter().copied().chain([&*missing]).collect();
        let output = log.run(&args);
        assert_eq!((code(&output), out(&output)), (FINDINGS, String::new()));
        assert_eq!(
            err(&output),
            format!("decklog: there is no conversation {missing}\n")
        );
    }
}

#[test]
fn a_long_conversation_is_shown_whole_and_listed_in_parts() {
    let log = Log::new();
    let mut lines = vec![conversation(1)];
    lines.extend((1..=1000).map(|n| message(n + 1, 1, &format!("say {n}"))));
    log.record(&lines);
    let text = log.ok(&["show", &id(1)]);
    let said: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("    say "))
        .collect();
    assert_eq!(said, (1..=1000).map(|n| n.to_string()).collect::<Vec<_>>());
    for order in ["oldest", "newest"] {
        let conversation = id(1);
        let (mut found, mut options) = (Vec::new(), vec!["--order".to_owned(), order.to_owned()]);
        loop {
            let mut args = vec!["messages", &conversation, "--json", "--limit", "300"];
            args.extend(options.iter().map(String::as_str));
            let output = log.run(&args);
            found.extend(objects(&out(&output)));
            let told = err(&output);
            let Some((_, rest)) = told.split_once("go on with ") else {
                break;
            };
            options = rest
                .split_once(',')
                .unwrap()
                .0
                .split(' ')
                .map(str::to_owned)
                .collect();
        }
        let mut sequences: Vec<u64> = found
            .iter()
            .map(|found| found["sequence"].as_u64().unwrap())
            .collect();
        if order == "newest" {
            sequences.reverse();
        }
        assert_eq!(sequences, (1..=1000).collect::<Vec<u64>>());
    }
}

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
        ids(&["events", "--order", "newest"]),
        [8, 7, 6, 5, 4, 3, 2, 1]
    );
    // Text is as a log, and --limit counts from its end.
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
└─ #6 turn.started  completed 2,500 ms
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
    assert_eq!(text.lines().count() as i64, DEPTH + 1);
}

#[test]
fn tasks_are_listed_where_they_stand() {
    let log = Log::new();
    let mut lines: Vec<String> = (1..=5)
        .map(|n| {
            format!(
                r#"{{"kind":"inbox","update_id":{},"created_at":{n}000,"payload":{{"n":{n}}}}}"#,
                n * 100
            )
        })
        .collect();
    lines.push(r#"{"kind":"inbox","op":"in_progress","id":1,"at":9000}"#.to_owned());
    lines.push(r#"{"kind":"inbox","op":"in_progress","id":2,"at":9000}"#.to_owned());
    lines.push(
        r#"{"kind":"inbox","op":"failed","id":2,"at":9100,"error":"no such host"}"#.to_owned(),
    );
    log.record(&lines);
    let ids = |args: &[&str]| log.column(args, "id");
    assert_eq!(ids(&["inbox"]), [1, 2, 3, 4, 5]);
    assert_eq!(
        ids(&["inbox", "--order", "newest", "--status", "queued"]),
        [5, 4, 3]
    );
    let text = log.ok(&["inbox", "--status", "failed"]);
    let row = "1970-01-01 00:00:02.000       2         200  failed              1  ! no such host  {\"n\":2}";
    assert_eq!(text.lines().nth(1), Some(row));
    let counts = "queued               3\nin_progress          1\ndone                 0\nfailed               1\n";
    assert_eq!(log.ok(&["inbox", "--counts"]), counts);
    assert_eq!(log.json(&["inbox", "--counts"])[0]["queued"], 3);
    assert_eq!(
        code(&log.run(&["inbox", "--counts", "--status", "done"])),
        USAGE
    );
    assert_eq!(code(&log.run(&["get", "inbox", "6"])), FINDINGS);
}

#[test]
fn a_chat_is_read_from_its_end() {
    let log = Log::new();
    let lines: Vec<String> = (1..=60)
        .map(|n| {
            let chat = if n % 2 == 0 { -1_001_234 } else { 7 };
            format!(r#"{{"kind":"history","chat_id":{chat},"role":"user","created_at":{n}000,"content":"say {n}"}}"#)
        })
        .collect();
    log.record(&lines);
    let text = log.ok(&["history", "-1001234"]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 21);
    assert_eq!(rows[1], "1970-01-01 00:00:22.000  user       say 22");
    assert_eq!(rows[20], "1970-01-01 00:01:00.000  user       say 60");
    let last = log.column(&["history", "7", "--limit", "2"], "content");
    assert_eq!(last, ["say 57", "say 59"]);
    assert_eq!(log.json(&["history", "7", "--limit", "1000"]).len(), 30);
    let output = log.run(&["history", "-7"]);
    assert_eq!((code(&output), out(&output)), (OK, String::new()));
    assert_eq!(err(&output), "decklog: chat -7 has no entries\n");
}

#[test]
fn thoughts_are_listed_in_the_order_of_their_chains() {
    let log = Log::new();
    log.record(&[
        thought("build", "one"),
        thought("docs", "two"),
        thought("build", "three"),
    ]);
    assert_eq!(
        log.column(&["thoughts"], "content"),
        ["one", "two", "three"]
    );
    assert_eq!(
        log.column(&["thoughts", "--task", "build"], "content"),
        ["one", "three"]
    );
    let output = log.run(&["thoughts", "--limit", "2"]);
    let row = "2025-12-27 08:00:00.000  plan        docs              two";
    assert_eq!(out(&output).lines().last(), Some(row));
    assert_eq!(err(&output), "decklog: there are more: set --limit\n");
    let first = &log.json(&["thoughts"])[0];
    let found = log.json(&["get", "thoughts", first["id"].as_str().unwrap()]);
    assert_eq!(found[0], *first);
}

#[test]
fn a_day_of_every_kind_is_told_line_by_line_and_replayed() {
    let log = Log::new();
    let at = 1_766_822_400_000;
    log.record(&[
        conversation(1),
        message(2, 1, "hello"),
        event(None, "agent.started", at),
        event(Some(1), "turn.started", at),
        thought("build", "read"),
        format!(r#"{{"kind":"history","chat_id":7,"role":"user","created_at":{at},"content":"hi"}}"#),
        format!(r#"{{"kind":"inbox","update_id":7,"created_at":{at}}}"#),
        format!(r#"{{"kind":"inbox","op":"in_progress","id":1,"at":{at}}}"#),
        format!(r#"{{"kind":"code_edit_proposals","request_id":"{}","created_at":{at},"diffs_json":[]}}"#, id(3)),
    ]);
    let text = log.ok(&["tail", "-n", "20"]);
    let rows: Vec<&str> = text
        .lines()
        .map(|line| &line["     1  2025-12-27 08:00:00.000  ".len()..])
        .collect();
    let proposal = format!("proposal      pending  {}  []", id(3));
    let expected = [
        "conversation  active  cli",
        "message       user: hello",
        "event         agent.started  #1",
        "event         turn.started  #2  under #1",
        "thought       plan build: read",
        "history       user: hi",
        "inbox         queued  #1",
        "inbox         in_progress  #1  attempt 1",
        &proposal,
    ];
    assert_eq!(rows, expected);
    assert_eq!(log.ok(&["replay", "2025-12-27"]), text);

    let other = Log::new();
    let day = log.file("2025-12-27");
    let into = other.path();
    let replay = [
        "replay",
        day.to_str().unwrap(),
        "--into",
        into.to_str().unwrap(),
    ];
    assert_eq!(log.json(&replay)[0]["added"], 9);
    for args in [
        &["proposals"][..],
        &["conversations"],
        &["messages", &id(1)],
        &["events"],
        &["inbox"],
        &["history", "7"],
        &["thoughts"],
    ] {
        let listed = log.json(args);
        assert!(!listed.is_empty(), "{args:?}");
        assert_eq!(other.json(args), listed, "{args:?}");
    }
    assert_eq!(log.json(&replay)[0]["unchanged"], 9);
}
