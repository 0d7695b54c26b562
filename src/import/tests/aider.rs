//! Aider's history.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::log::MemoryLog;
use super::{counts, held, import_path, sample};
use crate::import::Report;

fn import(log: &MemoryLog, root: &Path, text: &[u8], ago: u64) -> Report {
    let path = root.join(".aider.chat.history.md");
    fs::write(&path, text).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(ago))
        .unwrap();
    import_path(log, root)
}

#[test]
fn a_chat_becomes_a_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let text = fs::read(sample("aider/tokens.md")).unwrap();
    let report = import(&log, dir.path(), &text, 100);
    assert_eq!((report.broken.as_slice(), report.unfinished), (&[][..], 0));
    assert_eq!(counts(&report), []);
    assert_eq!((report.files, report.conversations), (1, 2));
    assert_eq!(
        (report.tokens_in, report.tokens_out),
        (5100 + 14000, 1200 + 310)
    );
    assert_eq!(
        (report.tokens_cache_read, report.tokens_cache_write),
        (9900, 2000)
    );
    let messages = log.messages();
    let costs: Vec<f64> = messages.iter().filter_map(|m| m.cost_usd).collect();
    assert_eq!(costs, [0.03, 0.0045]);
    let prompts: Vec<&str> = (messages
        .iter()
        .filter(|m| m.role == crate::record::Role::User))
    .map(|m| m.content.as_str())
    .collect();
    assert_eq!(
        prompts,
        [
            "/add cart.py",
            "why is the total\nrounded twice?",
            "fix it",
            "/exit"
        ]
    );
    let answer = messages
        .iter()
        .find(|m| m.content.starts_with("It is rounded"))
        .unwrap();
    assert!(answer.content.contains("#### First\n`cart.py` line 12"));
    assert_eq!(
        answer.model_used.as_deref(),
        Some("anthropic/claude-sonnet-4-20250514")
    );
    assert_eq!(answer.timestamp.to_string(), "2026-02-10T09:30:05.000Z");
    let of_answer = messages
        .iter()
        .find(|m| m.tokens_in == Some(14000))
        .unwrap();
    let edit = messages
        .iter()
        .find(|m| m.content.starts_with("cart.py\n```"))
        .unwrap();
    assert_eq!(of_answer.part_of, Some(edit.id));
    let titles: Vec<_> = log.conversations().into_iter().map(|it| it.title).collect();
    assert_eq!(titles[0].as_deref(), Some("/add cart.py"));
    let second = import(&log, dir.path(), &text, 100);
    assert_eq!(second.added, 0);
    assert_eq!(held(&second), held(&report));
}

#[test]
fn a_history_without_breaks_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let text = fs::read(sample("aider/agentsview.md")).unwrap();
    let report = import(&log, dir.path(), &text, 100);
    assert_eq!((report.broken.len(), report.conversations), (0, 2));
    assert_eq!((report.turns, report.messages), (12, 12));
}

#[test]
fn a_history_cut_anywhere_becomes_what_it_is_at_once() {
    let text = fs::read(sample("aider/tokens.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let whole = MemoryLog::default();
    import(&whole, dir.path(), &text, 100);
    let grown = MemoryLog::default();
    for end in 0..=text.len() {
        let report = import(&grown, dir.path(), &text[..end], 0);
        assert_eq!(report.broken, []);
    }
    import(&grown, dir.path(), &text, 100);
    assert_eq!(grown.content(), whole.content());
}

#[test]
fn any_bytes_are_read_without_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let log = MemoryLog::default();
    let text = fs::read(sample("aider/tokens.md")).unwrap();
    for at in (0..text.len()).step_by(7) {
        let mut other = text.clone();
        other[at] = [b'\n', b'#', b'>', 0xff, b' '][at % 5];
        import(&log, dir.path(), &other, 100);
    }
}
