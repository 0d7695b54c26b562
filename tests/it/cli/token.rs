//! `decklog token`: a token for the HTTP service is shown once, and revoked by its id.

use super::*;

/// Standard error without the warnings about settings.
fn said(output: &Output) -> String {
    assert_eq!(code(output), OK, "{}", err(output));
    err(output)
}

#[test]
fn a_token_is_shown_once_listed_and_revoked() {
    let log = Log::new();
    let added = log.run(&[
        "token",
        "add",
        "gateway",
        "--role",
        "developer",
        "--expires-days",
        "90",
    ]);
    let told = said(&added);
    // It can be assigned to a shell variable as it is.
    let token = out(&added);
    let token = token.strip_suffix('\n').unwrap();
    assert!(
        token.starts_with("dl_") && token.len() == 67,
        "{}",
        token.len()
    );
    assert!(
        told.contains("not shown again") && told.contains("gateway"),
        "{told}"
    );
    assert!(told.contains("privacy.require_auth true"), "{told}");
    assert!(!told.contains(token));

    let listed = &log.json(&["token", "list"])[0];
    assert_eq!(listed["name"], "gateway");
    assert_eq!(listed["role"], "developer");
    assert_eq!(listed["kind"], "token");
    let (made, expires) = (&listed["created_at"], &listed["expires_at"]);
    let days = (expires.as_i64().unwrap() - made.as_i64().unwrap()) / 86_400_000;
    assert!((89..=90).contains(&days), "{listed}");
    let id = listed["id"].as_str().unwrap();
    let text = log.ok(&["token", "list"]);
    assert!(text.starts_with(id) && text.contains("gateway"), "{text}");
    assert!(text.contains(", made 20"), "{text}");
    // Names of tokens are unique.
    let twice = log.run(&["token", "add", "gateway", "--role", "admin"]);
    assert_ne!(code(&twice), OK);
    assert!(
        err(&twice).contains(id) && out(&twice).is_empty(),
        "{}",
        err(&twice)
    );

    let all = std::fs::read_to_string(log.file("access.json")).unwrap();
    assert!(all.contains(id) && !all.contains(&token[3..]), "{all}");

    let revoked = log.ok(&["token", "revoke", id]);
    assert!(
        revoked.contains(id) && revoked.contains("gateway"),
        "{revoked}"
    );
    let renewed = log.run(&["token", "add", "gateway", "--role", "admin"]);
    assert_eq!(code(&renewed), OK, "{}", err(&renewed));
    let id_of_other = log.json(&["token", "list"])[0]["id"].clone();
    log.ok(&["token", "revoke", id_of_other.as_str().unwrap()]);
    let again = log.run(&["token", "revoke", id]);
    assert_eq!(code(&again), FINDINGS);
    assert!(err(&again).contains(&format!("there is no token {id}")));
    let none = log.run(&["token", "list"]);
    assert!(out(&none).is_empty() && said(&none).contains("there are no tokens"));
    assert!(log.json(&["token", "list"]).is_empty());
}

#[test]
fn a_browser_gets_an_address() {
    let log = Log::new();
    let login = log.run(&["token", "login"]);
    let url = out(&login);
    assert!(
        url.starts_with("http://127.0.0.1:8084/login?code=dl_"),
        "{url}"
    );
    assert!(said(&login).contains("within ten minutes; it works once"));
    let listed = log.json(&["token", "list"]);
    assert_eq!(listed[0]["kind"], "code");
    let (made, expires) = (&listed[0]["created_at"], &listed[0]["expires_at"]);
    let lives_ms = expires.as_i64().unwrap() - made.as_i64().unwrap();
    assert_eq!(lives_ms, 600_000);

    let args = [
        "token",
        "login",
        "--role",
        "read-only",
        "--url",
        "https://log.example/",
        "--json",
    ];
    let login = log.run(&args);
    let made = &objects(&out(&login))[0];
    let url = made["url"].as_str().unwrap();
    assert!(
        url.starts_with("https://log.example/login?code=dl_"),
        "{url}"
    );
    assert_eq!(made["role"], "read-only");
    // The current settings would not allow its use.
    let told = said(&login);
    assert!(
        told.contains("privacy.allowed_roles admin,developer,read-only"),
        "{told}"
    );
    log.ok(&[
        "config",
        "set",
        "privacy.allowed_roles",
        "admin,developer,read-only",
    ]);
    log.ok(&["config", "set", "privacy.require_auth", "true"]);
    assert_eq!(said(&log.run(&args)), "");
}

#[test]
fn what_cannot_be_meant_makes_no_token() {
    let log = Log::new();
    let long = "x".repeat(101);
    for args in [
        &["add", "gateway"][..],
        &["add", "gateway", "--role", "root"],
        &["add", "gateway", "--role", "admin", "--expires-days", "0"],
        &["add", "gateway", "--role", "admin", "--expires-days", "-1"],
        &["add", "", "--role", "admin"],
        &["add", "  ", "--role", "admin"],
        &["add", "a\nb", "--role", "admin"],
        &["add", &long, "--role", "admin"],
        &["login", "--url", "127.0.0.1:8084"],
        &["login", "--url", "http://"],
        &["login", "--url", "http:///"],
        &["login", "--url", "http://a/?b"],
        &["login", "--url", "javascript:alert(1)"],
        &[],
    ] {
        let args: Vec<&str> = ["token"].iter().chain(args).copied().collect();
        let output = log.run(&args);
        assert_eq!(code(&output), USAGE, "{args:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{args:?}");
        assert!(!log.file("access.json").exists(), "{args:?}");
    }
    let elsewhere = Log::new();
    for args in [&["token", "list"][..], &["token", "revoke", "12345678"]] {
        assert_eq!(code(&elsewhere.run(args)), STORE, "{args:?}");
        assert!(!elsewhere.path().exists());
    }
}

#[test]
fn a_damaged_file_is_told_and_left_as_it_is() {
    let log = Log::new();
    said(&log.run(&["token", "add", "gateway", "--role", "admin"]));
    std::fs::write(log.file("access.json"), "{\"entries\":[").unwrap();
    for args in [
        &["token", "list"][..],
        &["token", "add", "other", "--role", "admin"],
        &["token", "login"],
        &["token", "revoke", "12345678"],
    ] {
        let output = log.run(args);
        assert_eq!(code(&output), STORE, "{args:?}");
        assert_eq!(out(&output), "", "{args:?}");
        assert!(err(&output).contains("access.json"), "{}", err(&output));
        assert!(
            err(&output).contains("restore the file"),
            "{}",
            err(&output)
        );
    }
    assert_eq!(
        std::fs::read(log.file("access.json")).unwrap(),
        b"{\"entries\":["
    );
    // Recorded data is not affected.
    log.record(&[turn(1, 1000, "hello")]);
    log.ok(&["verify"]);
}

/// Escape sequences in a name do not reach the terminal.
#[test]
fn a_name_is_shown_harmless() {
    let log = Log::new();
    said(&log.run(&["token", "add", "\u{202e}evil \"x\"", "--role", "admin"]));
    let text = log.ok(&["token", "list"]);
    assert!(
        !text.contains('\u{202e}') && text.contains("evil"),
        "{text}"
    );
}

#[test]
fn others_are_not_served_without_a_token() {
    let log = Log::new();
    let output = log.run(&["serve", "--host", "0.0.0.0", "--port", "0"]);
    assert_eq!(code(&output), USAGE, "{}", err(&output));
    assert!(
        err(&output).contains("privacy.require_auth"),
        "{}",
        err(&output)
    );
    for args in [&["--allow-host", "a/b"][..], &["--allow-origin", "*"]] {
        let args: Vec<&str> = ["serve", "--port", "0"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        assert_eq!(code(&log.run(&args)), USAGE, "{args:?}");
    }
}
