//! `decklog conversations`, `messages` and `show`.

use super::*;

#[test]
fn conversations_are_found_and_counted() {
    let log = Log::with_plain_users();
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
    assert_eq!(ids(&["conversations", "--order", "asc"]), expected);
    assert!(ids(&["conversations"]).iter().eq(expected.iter().rev()));
    let filtered = [
        "conversations",
        "--order",
        "asc",
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
    let told =
        "decklog: 3 of 300 conversations shown: continue with --offset 293, or set --limit\n";
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
What is in it?
  {} · cli
  2025-12-27 08:00 · lasted 1.0 s · error · 3 messages · 1.2 k tokens in, 1 out
  small-1
  ! error   half of it

#1  user  2025-12-27  08:00:01
    What is
        in it?

#2  assistant  08:00:01  small-1  1,200 tokens in  1 out  37 ms
  → call    ls  .

#3  tool  08:00:01
  ! error   timeout: half of it
  ← result  a
            b
",
        id(1)
    );
    assert_eq!(log.ok(&["show", &id(1), "--utc"]), expected);
    // In another zone, and with the arguments as they are.
    let mut zoned = log.command(&["show", "latest", "--tools", "--last", "2"]);
    let zoned = out(&zoned.env("TZ", "America/New_York").output().unwrap());
    let parts = [
        "  2025-12-27 03:00 · ",
        "\n#2  assistant  2025-12-27  03:00:01",
        "ls {\"path\":\".\"}\n",
    ];
    assert!(parts.iter().all(|part| zoned.contains(part)), "{zoned}");
    assert!(!zoned.contains("#1 "), "{zoned}");
    let mut since = log.command(&["messages", "--since", "2025-12-27 03:00:02", "--json"]);
    let since = since.env("TZ", "America/New_York").output().unwrap();
    assert_eq!((code(&since), out(&since)), (OK, String::new()));

    let rows = log.ok(&[
        "messages",
        &id(1),
        "--from-sequence",
        "2",
        "--until-sequence",
        "3",
    ]);
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
    let sequences = |args: &[&str]| -> Vec<u64> {
        let found = log.in_parts(args, "300").into_iter();
        found
            .map(|found| found["sequence"].as_u64().unwrap())
            .collect()
    };
    let expected: Vec<u64> = (1..=1000).collect();
    assert_eq!(sequences(&["messages", &id(1)]), expected);
    // The suggested command for the next page includes the order.
    let newest = log.run(&["messages", &id(1), "--order", "desc", "--limit", "1"]);
    assert!(err(&newest).contains("continue with --order desc --after 1000-1001, or"));
    let backwards = log.column(&["messages", &id(1), "--order", "desc"], "sequence");
    assert!(backwards.iter().eq(expected.iter().rev()));
}
