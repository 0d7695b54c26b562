//! `decklog top`: in a terminal, which it leaves as it was, and once for scripts.

use std::os::unix::process::ExitStatusExt;

use rustix::process::{Pid, Signal, kill_process};

use super::pty::Pty;
use super::*;

fn now_ms() -> i64 {
    decklog::Timestamp::now().at()
}

/// A log with a running call that has a hostile name.
fn log() -> Log {
    let log = Log::keeping_all();
    let evil = r#"{"command":"\u001b]0;title\u0007\u202eevil"}"#;
    log.record(&[request(1, now_ms() - 61_000, "ba\u{1b}[31msh", evil)]);
    log
}

fn start(log: &Log, columns: u16) -> Pty {
    let pty = Pty::start(&log.command(&["top"]), columns, 24);
    pty.wait_for("Running calls (1)", 0);
    pty
}

fn signal(pty: &Pty, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pty.child.id()).unwrap());
    kill_process(pid.unwrap(), signal).unwrap();
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let log = log();
    for keys in [&b"q"[..], b"\x1b", b"\x03"] {
        let mut pty = start(&log, 80);
        pty.send(keys);
        let (status, shown) = pty.end();
        assert_eq!(status.code(), Some(OK), "{keys:?}: {shown:?}");
    }
    for number in [Signal::TERM, Signal::INT, Signal::HUP] {
        let pty = start(&log, 80);
        signal(&pty, number);
        let (status, shown) = pty.end();
        assert_eq!(status.signal(), Some(number.as_raw()), "{shown:?}");
    }
    // The store is moved away.
    let pty = start(&log, 80);
    std::fs::rename(log.path(), log.file("../elsewhere")).unwrap();
    let (status, shown) = pty.end();
    assert_eq!(status.code(), Some(STORE), "{shown:?}");
    let (_, after) = shown.rsplit_once("\u{1b}[?25h").unwrap();
    assert!(after.contains("decklog: "), "{after:?}");
}

#[test]
fn the_screen_follows_the_log_and_the_window() {
    let log = log();
    let mut pty = start(&log, 80);
    // Of hostile text, only its escaped form is drawn.
    pty.wait_for("ba\\u{1b}[31msh", 0);
    assert!(!pty.shown().contains("\u{1b}]0;"));
    assert!(!pty.shown().contains('\u{202e}'));
    log.record(&[request(2, now_ms(), "unheard_of", r#"{"n":1}"#)]);
    pty.wait_for("unheard_of", 0);
    let before = pty.shown().len();
    pty.resize(40, 20);
    pty.wait_for("Running calls (2)", before);
    pty.wait_for("q quit", before);
    pty.send(b"q");
    let (status, shown) = pty.end();
    assert_eq!(status.code(), Some(OK), "{shown:?}");
}

#[test]
fn without_a_terminal_it_is_refused_but_for_once() {
    let log = log();
    let output = log.run(&["top"]);
    assert_eq!((code(&output), out(&output)), (USAGE, String::new()));
    assert!(err(&output).contains("use --once"), "{}", err(&output));
    let output = log.run(&["top", "--json"]);
    assert_eq!(code(&output), USAGE);

    let at = decklog::Timestamp::now();
    let at = at.as_str();
    let (own, conversation) = (id(9), id(8));
    log.record(&[
        format!(
            r#"{{"kind":"conversations","id":"{conversation}","client":"cli","created_at":"{at}","title":"日本語 \u001b[2J"}}"#
        ),
        format!(
            r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"assistant","content":"2","timestamp":"{at}","tokens_in":1200,"tokens_out":34,"cost_usd":0.25,"error":"over\u0007loaded"}}"#
        ),
    ]);
    let text = log.ok(&["top", "--once"]);
    for expected in [
        "1.2 k tokens/min",
        "today  1 conversation  1 message  $0.25  1 error (100.0 %)",
        "tokens  1.2 k in  0 cache read  0 cache write  34 out",
        "Running calls (1)",
        "Errors, last 24 hours (1)",
        "over\\u{7}loaded",
        "1 message    1.2 k tokens  日本語 \\u{1b}[2J",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    let found = log.json(&["top", "--once"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["tokens_per_minute"], 1234);
    assert_eq!(found[0]["today"]["cost_usd"], 0.25);
    assert_eq!(found[0]["busiest"][0]["messages"], 1);
    assert_eq!(found[0]["errors"][0]["error"], "over\u{7}loaded");
}
