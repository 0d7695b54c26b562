//! The drawing of `decklog top`, and the terminal after a panic.

use std::path::Path;
use std::time::Duration;

use decklog::{
    Client, Conversation, ConversationMessage, Role, Store, Timestamp, ToolCallDone, ToolCallReq,
    ToolStatus, Validity,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::{Now, lines};
use super::screen::draw;
use super::watch::Watch;

const EVIL: &str = "日本語の \u{1b}[2J\u{202e}title\u{7}\nof a conversation that is long";

fn log(dir: &Path) -> Store {
    let store = Store::open(dir.join("log")).unwrap();
    let mut conversation = Conversation::new(uuid(1), Client::Cli);
    conversation.title = Some(EVIL.to_owned());
    store.record(conversation).unwrap();
    for nth in 0..40 {
        let mut message = ConversationMessage::new(uuid(1), Role::Assistant, "words")
            .model_used("small-1")
            .tokens_in(30_000)
            .tokens_cache_read(25_000)
            .tokens_out(500);
        message.cost_usd = Some(0.03);
        message.error = (nth == 7).then(|| format!("overloaded {EVIL}"));
        store.record(message).unwrap();
    }
    for nth in 0..12 {
        let mut call = ToolCallReq::new(uuid(2), format!("c{nth}"), "mcp", "run_\u{1b}[31mtests");
        call.started_at = Validity::at(Timestamp::now().at() - 1_000 + nth);
        call.arguments_json = Some(format!(r#"{{"nth":{nth},"command":"cargo test --all"}}"#));
        store.record(call).unwrap();
    }
    let mut failed = ToolCallDone::new(uuid(2), "c3", ToolStatus::Failed);
    failed.error_msg = Some("exit code 101\nthread panicked".to_owned());
    store.record(failed).unwrap();
    store
}

fn uuid(n: u128) -> decklog::uuid::Uuid {
    decklog::uuid::Uuid::from_u128(n)
}

/// The screen at a size, without colours, and with times that are always the same.
fn screen(watch: &mut Watch, columns: u16, rows: u16) -> String {
    let mut view = watch.look(Duration::ZERO).unwrap().clone();
    let now = Now {
        at: 1_766_832_000_000,
        clock: "10:40:00".to_owned(),
    };
    view.store = "/home/user/.local/share/decklog".to_owned();
    view.records = (0..60).map(|nth| nth % 9).collect();
    view.records_per_second = 4.25;
    let mut errors = 0;
    for error in &mut view.errors {
        errors += 1;
        error.at = now.at - errors * 61_000;
    }
    for (nth, call) in view.running.iter_mut().enumerate() {
        call.started_at = now.at - 271_000 * i64::try_from(nth).unwrap();
    }
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    draw(&mut terminal, true, |columns, rows| {
        lines(Some(&view), &now, columns, Some(rows))
    })
    .unwrap();
    terminal.backend().to_string()
}

#[test]
fn the_screen_is_drawn_at_any_size() {
    let dir = tempfile::tempdir().unwrap();
    let mut watch = Watch::new(&log(dir.path())).unwrap();
    for (columns, rows) in [(40, 30), (60, 30), (80, 24), (140, 30)] {
        let shown = screen(&mut watch, columns, rows);
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
        let file = format!("top-{columns}.txt");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/snapshots");
        let path = path.join(&file);
        if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &shown).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(shown, expected, "{file}: write it with UPDATE_SNAPSHOTS=1");
    }
    for (columns, rows) in [(1, 1), (5, 3), (40, 8), (300, 2)] {
        screen(&mut watch, columns, rows);
    }
}

#[test]
fn the_view_follows_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = log(dir.path());
    let mut watch = Watch::new(&store).unwrap();
    let view = watch.look(Duration::ZERO).unwrap();
    assert_eq!((view.running.len(), view.errors.len()), (11, 2));
    assert_eq!(
        (view.busiest[0].messages, view.busiest[0].tokens),
        (40, 40 * 30_500)
    );
    assert_eq!(view.tokens_per_minute, 40 * 30_500);
    assert_eq!(view.records.iter().sum::<u64>(), 54);
    assert_eq!(view.report.today.usage.messages, 40);
    let message = ConversationMessage::new(uuid(1), Role::User, "more").tokens_in(1);
    store.record(message).unwrap();
    store
        .record(ToolCallDone::new(uuid(2), "c4", ToolStatus::Completed))
        .unwrap();
    let started = std::time::Instant::now();
    loop {
        let view = watch.look(Duration::from_millis(100)).unwrap();
        if view.report.today.usage.messages == 41 && view.running.len() == 10 {
            assert_eq!(view.busiest[0].messages, 41);
            assert_eq!(view.tokens_per_minute, 40 * 30_500 + 1);
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "{view:?}");
    }
    // A message of yesterday that comes now counts in the rates.
    let mut late = ConversationMessage::new(uuid(1), Role::User, "late").tokens_in(1);
    late.timestamp = Timestamp::from_ms(Timestamp::now().at() - 86_400_000).unwrap();
    store.record(late).unwrap();
    let view = watch.look(Duration::from_secs(10)).unwrap();
    assert_eq!(view.tokens_per_minute, 40 * 30_500 + 2);
}

/// Run by [`the_terminal_is_restored_after_a_panic`] in a terminal.
#[test]
#[ignore = "it panics, and needs a terminal"]
#[allow(clippy::panic)]
fn panics() {
    let mut screen = super::screen::Screen::open().unwrap();
    screen.draw(|_, _| Vec::new()).unwrap();
    panic!("on purpose");
}

#[cfg(target_os = "linux")]
#[test]
fn the_terminal_is_restored_after_a_panic() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "cli::top::tests::panics",
        "--ignored",
        "--nocapture",
    ]);
    let pty = super::pty::Pty::start(&command, 80, 24);
    pty.wait_for("on purpose", 0);
    let (status, shown) = pty.end();
    assert!(!status.success());
    // The message is seen on the screen as it was before.
    let (_, after) = shown.rsplit_once("\u{1b}[?1049l").unwrap();
    assert!(after.contains("on purpose"), "{shown:?}");
}
