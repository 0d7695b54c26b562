//! The demonstration, and the help.

use super::*;

#[test]
fn the_demo_ends_with_commands_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("demo");
    let output = decklog(&["demo", place.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!((code(&output), err(&output)), (OK, String::new()));
    let text = out(&output);
    for words in [
        "108 records added",
        "failed         4.6 s",
        "clean: 4 segments",
    ] {
        assert!(text.to_lowercase().contains(words), "{words}: {text}");
    }
    assert!(!text.contains("Unknown lines"), "{text}");
    let (_, commands) = text.split_once("== Now you").unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        // The others need jq, which may not be installed, or the user's own log.
        .filter(|command| command.contains("/log") && !command.starts_with("jq "))
        .collect();
    assert!(commands.len() > 6, "{text}");
    assert!(text.trim_end().ends_with("decklog calls"), "{text}");
    for command in commands {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        assert_eq!(
            (code(&output), err(&output)),
            (OK, String::new()),
            "{command}"
        );
        assert!(!output.stdout.is_empty(), "{command}");
    }

    let again = decklog(&["demo", place.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(code(&again), USAGE);
    assert!(err(&again).contains("is not empty"));
}

#[test]
fn help_tells_the_exit_codes_and_gives_examples() {
    let help = out(&decklog(&["--help"]).output().unwrap());
    for code in [OK, FINDINGS, USAGE, STORE, LOCKED] {
        assert!(help.contains(&format!("\n  {code}  ")), "{help}");
    }
    for command in [
        "demo",
        "import",
        "record",
        "turns",
        "calls",
        "proposals",
        "conversations",
        "messages",
        "show",
        "events",
        "tree",
        "inbox",
        "history",
        "thoughts",
        "rollups",
        "get",
        "tail",
        "search",
        "replay",
        "seal",
        "prove",
        "check-proof",
        "verify",
        "repair",
    ] {
        let output = decklog(&[command, "--help"]).output().unwrap();
        assert_eq!(code(&output), OK);
        assert!(out(&output).contains("Example"), "{command}");
    }
    let output = decklog(&["no-such-command"]).output().unwrap();
    assert_eq!(code(&output), USAGE);
}
