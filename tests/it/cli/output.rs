//! What is printed is safe to show, and may go unread.

use super::*;

/// What a hostile tool may put into its output.
const EVIL: &str = "red \u{1b}[31m \u{9b}2J \u{202e}turned \u{7} \u{7f} \u{200b} \u{e0041}\r\nnext";

#[test]
fn no_escape_from_content_comes_through() {
    let log = Log::new();
    let input = [
        turn(1, 1000, EVIL),
        request(2, 1000, EVIL, &Value::from(EVIL).to_string()),
        failed(2, 1001, EVIL),
        // Rejected, with a reason that quotes it.
        turn(3, 1000, "x").replace("user", "\\u009b\\u001b[31m"),
    ]
    .join("\n");
    let output = log.run_with(&["record"], input.as_bytes());
    assert_eq!(code(&output), FINDINGS);
    let mut shown = vec![err(&output)];
    for args in [
        &["turns"][..],
        &["turns", "--long"],
        &["calls"],
        &["calls", "--long"],
        &["tail"],
        &["replay", "1970-01-01"],
        &["get", "turns", &id(1)],
        &["get", "calls", &id(2), "call_2"],
    ] {
        let text = log.ok(args);
        assert!(
            text.contains("\\u{1b}[31m") && text.contains("\\u{202e}turned"),
            "{text}"
        );
        shown.push(text);
    }
    shown.push(err(&log.run(&["get", "calls", &id(2), EVIL])));
    for text in shown {
        let evil = |c: char| c.is_control() && c != '\n' || "\u{202e}\u{200b}\u{e0041}".contains(c);
        assert!(!text.contains(evil), "{text:?}");
    }
    // Where a program reads, the text is what it was.
    assert_eq!(log.json(&["turns"])[0]["content"], EVIL);
}

#[test]
fn a_reader_that_leaves_early_is_no_trouble() {
    let log = Log::new();
    let input: String = (1..=3000)
        .map(|n| turn(n, 1000, &"x".repeat(200)) + "\n")
        .collect();
    log.run_with(&["record"], input.as_bytes());
    for args in [
        &["turns"][..],
        &["turns", "--json"],
        &["tail", "-n", "3000"],
        &["tail", "-n", "3000", "-f"],
        &["replay", "1970-01-01"],
    ] {
        let mut child = spawn(&mut log.command(args));
        let mut one_line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut one_line).unwrap();
        assert!(!one_line.is_empty());
        drop(stdout);
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (code(&output), err(&output)),
            (OK, String::new()),
            "{args:?}"
        );
    }
}
