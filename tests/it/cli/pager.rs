//! The pager of `decklog show`.

use std::process::Command;

use super::pty::Pty;
use super::*;

/// A log with a conversation, and the command that shows it with this pager.
fn show(pager: &str) -> (Log, Command) {
    let log = Log::keeping_all();
    let (own, conversation) = (id(9), id(8));
    log.record(&[
        format!(r#"{{"kind":"conversations","id":"{conversation}","client":"cli"}}"#),
        format!(
            r#"{{"kind":"messages","id":"{own}","conversation_id":"{conversation}","role":"user","content":"a quince"}}"#
        ),
    ]);
    let mut command = log.command(&["show", "latest"]);
    command.env("DECKLOG_PAGER", pager);
    (log, command)
}

#[test]
fn keys_that_end_programs_are_the_pagers() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let lines = "trap 'echo interrupted' INT\n\
        while read -r line; do echo \"paged $line\"; done\n\
        echo all read\n\
        read -r key </dev/tty || read -r key </dev/tty\n\
        echo \"left with $key\"\n";
    std::fs::write(&script, lines).unwrap();
    let (_log, command) = show(&format!("sh {}", script.path().display()));
    let mut pty = Pty::start(&command, 80, 24);
    pty.wait_for("all read", 0);
    assert!(pty.shown().contains("paged "), "{}", pty.shown());
    pty.send(b"\x03");
    pty.wait_for("interrupted", 0);
    pty.send(b"q\n");
    assert_eq!(pty.wait_for_end().code(), Some(OK));
    pty.wait_for("left with q", 0);
}

#[test]
fn without_the_pager_the_text_is_shown() {
    for pager in ["/nowhere/pager", "", " ", "cat", "LESS= cat", "sed -n p"] {
        let (_log, command) = show(pager);
        let mut pty = Pty::start(&command, 80, 24);
        assert_eq!(pty.wait_for_end().code(), Some(OK), "{pager}");
        pty.wait_for("a quince", 0);
        let is_told = pty.shown().contains("cannot start the pager");
        assert_eq!(is_told, pager == "/nowhere/pager", "{}", pty.shown());
    }
    // A shell has to find it.
    let (_log, command) = show("/nowhere/pager | cat; exit 127");
    let mut pty = Pty::start(&command, 80, 24);
    pty.wait_for_end();
    pty.wait_for("the pager could not be run: correct $DECKLOG_PAGER", 0);
}
