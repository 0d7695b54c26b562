//! The commands of proposals, tasks, chats and thoughts, and behaviour shared by all kinds.

use super::*;

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
        ids(&["proposals", "--order", "asc", "--until", "3000"]),
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
        .split_once("continue with ")
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
        ids(&["inbox", "--order", "desc", "--status", "queued"]),
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
            format!(r#"{{"kind":"history","chat_id":{chat},"role":"user","created_at":{n}000,"text":"say {n}"}}"#)
        })
        .collect();
    log.record(&lines);
    let text = log.ok(&["history", "-1001234"]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows.len(), 21);
    assert_eq!(rows[1], "1970-01-01 00:00:22.000  user       say 22");
    assert_eq!(rows[20], "1970-01-01 00:01:00.000  user       say 60");
    let last = log.column(&["history", "7", "--limit", "2"], "text");
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
    let told = err(&output);
    let words = "decklog: there are more: continue with --order asc --after ";
    assert!(told.starts_with(words), "{told}");
    let parts = log.in_parts(&["thoughts"], "2");
    assert_eq!(parts, log.json(&["thoughts"]));
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
        format!(r#"{{"kind":"history","chat_id":7,"role":"user","created_at":{at},"text":"hi"}}"#),
        format!(r#"{{"kind":"inbox","update_id":7,"created_at":{at}}}"#),
        format!(r#"{{"kind":"inbox","op":"in_progress","id":1,"at":{at}}}"#),
        format!(r#"{{"kind":"code_edit_proposals","request_id":"{}","created_at":{at},"diffs_json":[]}}"#, id(3)),
        r#"{"kind":"rollups","day":"2025-12-27","model_used":"small-1","through_seq":900,"messages":4,"requests":2,"tokens_in":0,"tokens_out":0,"latency_ms_sum":0,"latency_count":0,"latency_sketch":[],"context_utilization_sum":0,"context_utilization_count":0,"compressed":0,"errors":0,"conversations":2,"active_conversations":2}"#.to_owned(),
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
        "rollup        2025-12-27  small-1  4 messages  through seq 900",
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
    assert_eq!(log.json(&replay)[0]["added"], 10);
    for args in [
        &["proposals"][..],
        &["conversations"],
        &["messages", &id(1)],
        &["events"],
        &["inbox"],
        &["history", "7"],
        &["thoughts"],
        &["rollups"],
    ] {
        let listed = log.json(args);
        assert!(!listed.is_empty(), "{args:?}");
        assert_eq!(other.json(args), listed, "{args:?}");
    }
    assert_eq!(log.json(&replay)[0]["unchanged"], 10);
}

#[test]
fn every_list_goes_on_where_its_limit_cut_it() {
    let log = Log::new();
    let mut lines = Vec::new();
    for n in 1..=300 {
        // Many records with equal times, and clocks that go back.
        let at = 1_000_000 - n / 7 * 10;
        lines.push(event(None, "a.b", at));
        lines.push(format!(
            r#"{{"kind":"inbox","update_id":{n},"created_at":{at}}}"#
        ));
        let id = id(u32::try_from(n).unwrap());
        lines.push(format!(
            r#"{{"kind":"code_edit_proposals","request_id":"{id}","created_at":{at},"diffs_json":[]}}"#
        ));
    }
    log.record(&lines);
    let claims: Vec<String> = (1..=150)
        .map(|n| format!(r#"{{"kind":"inbox","op":"in_progress","id":{}}}"#, n * 2))
        .collect();
    log.record(&claims);
    let cases: [(&[&str], usize); 7] = [
        (&["events"], 300),
        (&["events", "--roots"], 300),
        (&["events", "--type", "a.b", "--until", "1000000"], 294),
        (&["inbox"], 300),
        (&["inbox", "--status", "queued"], 150),
        (&["inbox", "--status", "in_progress"], 150),
        (&["proposals"], 300),
    ];
    for (args, count) in cases {
        let whole = log.json(args);
        assert_eq!(whole.len(), count, "{args:?}");
        assert_eq!(log.in_parts(args, "37"), whole, "{args:?}");
    }
    for args in [
        &["events"][..],
        &["inbox"],
        &["inbox", "--status", "queued"],
    ] {
        let newest = [args, &["--order", "desc"]].concat();
        let mut whole = log.json(&newest);
        let output = log.run(&[&newest[..], &["--json", "--limit", "100"]].concat());
        let mut parts = objects(&out(&output));
        let told = err(&output);
        let (_, rest) = told.split_once("continue with ").unwrap();
        let options: Vec<&str> = rest.split_once(',').unwrap().0.split(' ').collect();
        parts.extend(log.json(&[args, &options[..]].concat()));
        assert_eq!(parts, whole, "{args:?}");
        whole.reverse();
        assert_eq!(log.json(args), whole, "{args:?}");
    }
}
