//! `decklog config`: settings apply to every process.

use super::*;

#[test]
fn a_setting_is_shown_changed_and_given_its_default() {
    let log = Log::new();
    let missing = log.run(&["config", "get"]);
    assert_eq!(code(&missing), STORE);
    assert!(err(&missing).contains("there is no store here"));
    // Privacy can be configured before anything is recorded.
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
        "retention.messages: 30 (was 90)\n"
    );
    assert_eq!(
        set("retention.messages", "forever"),
        "retention.messages: forever (was 30)\n"
    );
    set("retention.max_bytes", "10GB");
    let pattern = r#"[{"name":"ticket","regex":"TICKET-[0-9]+"}]"#;
    set("privacy.patterns", pattern);

    let all = log.ok(&["config", "get"]);
    assert_eq!(all.lines().count(), 24, "{all}");
    for line in [
        "privacy.redact_pii             true\n",
        "retention.events               forever (default)\n",
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
        ("retention.events", "forever"),
        ("retention.messages", "forever"),
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

/// Files other than the log are read without reading the log.
#[test]
fn settings_and_tokens_are_shown_without_reading_the_log() {
    let log = Log::imported();
    let name = "2025-12-09/tool_calls.0001.jsonl";
    let mut bytes = std::fs::read(log.file(name)).unwrap();
    bytes[40] ^= 1;
    std::fs::write(log.file(name), &bytes).unwrap();
    assert!(err(&log.run(&["calls"])).contains("damaged"));
    assert_eq!(log.ok(&["config", "get", "privacy.auto_delete"]), "false\n");
    assert!(!log.ok(&["config", "get"]).is_empty());
    if cfg!(feature = "http") {
        let listed = log.run(&["token", "list"]);
        assert_eq!(code(&listed), OK);
        assert!(!err(&listed).contains("damaged"), "{}", err(&listed));
        std::fs::remove_dir_all(log.path()).unwrap();
        let missing = log.run(&["token", "list"]);
        assert_eq!(code(&missing), STORE);
        assert!(err(&missing).contains("there is no store here"));
    }
}

fn of_ann(id: u32) -> Vec<u8> {
    let id = format!("00000000-0000-4000-8000-{id:012}");
    format!(r#"{{"kind":"conversations","id":"{id}","client":"cli","user_id":"ann"}}"#).into_bytes()
}

#[test]
#[cfg(unix)]
fn a_lost_key_is_told_of_and_replaced_knowingly() {
    let log = Log {
        has_own_key: true,
        ..Log::new()
    };
    let key = log.dir.path().join("home/decklog/user_id.key");
    log.ok(&["config", "set", "privacy.redact_pii", "true"]);
    let told = log.ok(&["config", "user-id-key"]);
    assert!(
        told.contains("no such file") && told.contains("expects  any"),
        "{told}"
    );
    assert!(!key.exists());
    assert_eq!(code(&log.run_with(&["record"], &of_ann(1))), OK);
    let shown = log.json(&["config", "user-id-key"]).remove(0);
    assert_eq!(shown["found"], shown["expected"]);
    assert_eq!(shown["path"], key.to_str().unwrap());

    std::fs::remove_file(&key).unwrap();
    let expected = shown["expected"].as_str().unwrap();
    for (args, input) in [
        (&["record"][..], of_ann(2)),
        (&["conversations", "--user", "ann"], Vec::new()),
        (&["erase", "--user", "ann"], Vec::new()),
    ] {
        let refused = log.run_with(args, &input);
        assert!(!refused.status.success(), "{args:?}");
        let told = err(&refused);
        for word in [
            expected,
            key.to_str().unwrap(),
            "DECKLOG_USER_ID_KEY",
            "user-id-key --replace",
        ] {
            assert!(told.contains(word), "{args:?}: {word}: {told}");
        }
    }
    let shown = log.run(&["config", "user-id-key"]);
    assert_eq!(code(&shown), FINDINGS);
    let asked = log.run(&["config", "user-id-key", "--replace"]);
    assert_eq!(code(&asked), FINDINGS);
    assert!(
        out(&asked).contains("No one can find these conversations by user"),
        "{}",
        out(&asked)
    );
    assert!(!key.exists());
    assert_eq!(code(&log.run(&["config", "user-id-key", "--yes"])), USAGE);
    let replaced = log.ok(&["config", "user-id-key", "--replace", "--yes"]);
    assert!(replaced.contains("by user"), "{replaced}");
    assert_eq!(code(&log.run_with(&["record"], &of_ann(2))), OK);
    assert_eq!(log.json(&["conversations", "--user", "ann"]).len(), 1);
    assert_eq!(log.json(&["conversations"]).len(), 2);
}
