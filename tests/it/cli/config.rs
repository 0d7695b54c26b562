//! `decklog config`: what a person sets, every process obeys.

use super::*;

#[test]
fn a_setting_is_shown_changed_and_given_its_default() {
    let log = Log::new();
    let missing = log.run(&["config", "get"]);
    assert_eq!(code(&missing), STORE);
    assert!(err(&missing).contains("there is no store here"));
    // Privacy can be seen to before anything is recorded.
    let set = |name, value| log.ok(&["config", "set", name, value]);
    assert_eq!(
        set("privacy.redact_pii", "true"),
        "privacy.redact_pii: true (was false)\n"
    );
    assert_eq!(
        set("privacy.redact_pii", "true"),
        "privacy.redact_pii is true already\n"
    );
    assert_eq!(
        set("retention.messages", "30"),
        "retention.messages: 30 (was not set)\n"
    );
    assert_eq!(
        set("retention.messages", "forever"),
        "retention.messages: forever (was 30)\n"
    );
    set("retention.max_bytes", "10GB");
    let pattern = r#"[{"name":"ticket","regex":"TICKET-[0-9]+"}]"#;
    set("privacy.patterns", pattern);

    let all = log.ok(&["config", "get"]);
    assert_eq!(all.lines().count(), 21, "{all}");
    for line in [
        "privacy.redact_pii             true\n",
        "retention.events               not set\n",
        "retention.max_bytes            10000000000\n",
    ] {
        assert!(all.contains(line), "{all}");
    }
    assert!(all.contains(pattern), "{all}");
    assert_eq!(
        log.ok(&["config", "get", "retention.messages"]),
        "forever\n"
    );
    for (name, value) in [
        ("retention.events", Value::Null),
        ("retention.messages", "forever".into()),
    ] {
        let expected = serde_json::json!({"name": name, "value": value});
        assert_eq!(log.json(&["config", "get", name]), [expected]);
    }
    let json = &log.json(&["config", "get"])[0];
    assert_eq!(json["privacy"]["patterns"][0]["name"], "ticket");
    assert_eq!(json["retention"]["messages"], "forever");

    log.record(&[turn(1, 1000, "see TICKET-4711")]);
    assert_eq!(
        log.column(&["turns"], "content"),
        ["see [REDACTED:ticket:1]"]
    );
    let change = &log.json(&["config", "unset", "privacy.patterns"])[0];
    assert_eq!(change["name"], "privacy.patterns");
    assert_eq!(change["now"], serde_json::json!([]));
    assert_eq!(change["before"][0]["name"], "ticket");
    log.record(&[turn(2, 2000, "see TICKET-4711")]);
    assert_eq!(log.column(&["turns"], "content")[1], "see TICKET-4711");
}

#[test]
fn what_does_not_fit_is_refused_and_makes_no_store() {
    let log = Log::new();
    for (args, told) in [
        (
            &["set", "privacy.redact_pi", "true"][..],
            "the nearest is privacy.redact_pii",
        ),
        (&["unset", "messages"], "the nearest is retention.messages"),
        (
            &["set", "privacy.redact_pii", "maybe"],
            "give true or false",
        ),
        (&["set", "retention.messages", "0"], "give 1 to 36525 days"),
        (&["set", "retention.messages", "-1"], "a number of days"),
        (&["set", "retention.max_bytes", "10"], "at least 65536"),
        (&["set", "privacy.patterns", "x"], "a JSON array"),
        (
            &["set", "privacy.patterns", r#"[{"name":"x","regex":"("}]"#],
            "x",
        ),
    ] {
        let args: Vec<&str> = std::iter::once("config")
            .chain(args.iter().copied())
            .collect();
        let output = log.run(&args);
        assert_eq!(code(&output), USAGE, "{args:?}: {}", err(&output));
        assert!(err(&output).contains(told), "{args:?}: {}", err(&output));
        assert!(!log.path().exists(), "{args:?}");
    }
    assert_eq!(
        code(&log.run(&["config", "unset", "retention.events"])),
        STORE
    );
    assert!(!log.path().exists());
}
