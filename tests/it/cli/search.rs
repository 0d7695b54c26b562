//! `decklog search`.

use super::*;

fn filled() -> Log {
    let log = Log::keeping_all();
    let mut lines = vec![
        conversation(1),
        message(2, 1, "the Needle in a message"),
        request(
            3,
            1_766_832_000_000,
            "grep",
            r#"{"pattern":"nee\u0064le","needle":1}"#,
        ),
        failed(3, 1_766_832_000_005, "no hay"),
        thought("hay", "where is the NEEDLE?"),
    ];
    lines.extend((10..18).map(|n| turn(n, 86_400_000 * i64::from(n), &format!("needle {n}"))));
    log.record(&lines);
    log
}

#[test]
fn a_text_is_found_in_all_kinds() {
    let log = filled();
    let found = log.json(&["search", "needle"]);
    assert_eq!(found.len(), 11);
    let thought = &found[0];
    assert_eq!(thought["kind"], "thought_records");
    assert_eq!(thought["field"], "/content");
    assert_eq!(thought["snippet"], "where is the NEEDLE?");
    assert_eq!(thought.get("conversation_id"), None);
    let call = &found[1];
    assert_eq!(
        (&call["kind"], &call["field"]),
        (&"tool_calls".into(), &"/arguments_json/pattern".into())
    );
    assert_eq!(call["key"], format!("{} call_3", id(3)));
    assert_eq!(
        (&call["seq"], &call["at"]),
        (&3.into(), &1_766_832_000_000_i64.into())
    );
    assert_eq!(found[2]["conversation_id"], id(1));
    assert_eq!(found[10]["key"], id(10));

    let keys = |args: &[&str]| log.column(&[&["search", "needle"], args].concat(), "key");
    assert_eq!(keys(&["--kind", "messages"]), [id(2)]);
    assert_eq!(
        keys(&["--until", "1970-01-14", "--since", "1970-01-12"]),
        [id(12), id(11)]
    );
    assert_eq!(keys(&["--kind", "events"]), [""; 0]);
    for limit in ["1", "4", "100"] {
        assert_eq!(log.in_parts(&["search", "Needle"], limit), found);
    }

    let text = log.ok(&["search", "needle", "--kind", "tool_calls"]);
    let row = text.lines().nth(1).unwrap();
    assert_eq!(
        row,
        "2025-12-27 10:40:00.000       3  tool_calls           needle"
    );
    let text = log.ok(&["search", "needle", "--kind", "messages", "--long"]);
    for part in [&*id(1), &id(2), "/content", "the Needle in a message"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_is_not_there_is_said_and_what_makes_no_sense_refused() {
    let log = filled();
    let output = log.run(&["search", "no such text"]);
    assert_eq!((code(&output), out(&output)), (OK, String::new()));
    assert_eq!(err(&output), "decklog: no record contains this text\n");
    let output = log.run(&["search", "needle", "--limit", "2"]);
    assert_eq!(out(&output).lines().count(), 3);
    assert!(
        err(&output).contains("--after 2025-12-27-3-1,"),
        "{}",
        err(&output)
    );
    let long = "x".repeat(1025);
    for args in [
        &["search"][..],
        &["search", ""],
        &["search", &long],
        &["search", "x", "--kind", "needles"],
        &["search", "x", "--after", "5"],
        &["search", "x", "--since", "soon"],
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), USAGE, "{args:?}");
        assert!(!err(&output).is_empty());
    }
}
