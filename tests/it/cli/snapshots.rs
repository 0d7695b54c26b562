//! What people read on a terminal, at three widths, with and without colours, compared byte for
//! byte with the files in `tests/it/cli/snapshots`. `UPDATE_SNAPSHOTS=1` writes them anew.

use std::fs;

use super::*;

const WIDTHS: [usize; 3] = [60, 80, 140];

/// Checks the output of a command at all widths. No line is wider than the terminal, and nothing
/// but colours reaches it as a control character.
pub fn check(log: &Log, name: &str, args: &[&str]) {
    check_command(name, || log.command(args));
}

pub fn check_command(name: &str, command: impl Fn() -> Command) {
    for width in WIDTHS {
        let columns = width.to_string();
        let mut command = command();
        command.args(["--utc", "--color", "always"]);
        let output = command.env("COLUMNS", &columns).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        let coloured = String::from_utf8(output.stdout).unwrap();
        let plain = without_colours(&coloured);
        for line in plain.lines() {
            let used: usize = unicode_width::UnicodeWidthStr::width(line);
            assert!(used <= width, "{name} at {width}: {used} columns: {line}");
            assert!(!line.chars().any(char::is_control), "{name}: {line:?}");
        }
        compare(&format!("{name}-{width}.txt"), &plain);
        if width == 80 {
            compare(&format!("{name}-{width}-colour.txt"), &coloured);
        }
    }
}

/// The text without the sequences that change colours.
fn without_colours(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split("\u{1b}[");
    plain.push_str(parts.next().unwrap());
    for part in parts {
        let (code, rest) = part.split_once('m').expect("a colour");
        assert!(code.bytes().all(|byte| byte.is_ascii_digit()), "{code:?}");
        plain.push_str(rest);
    }
    plain
}

fn compare(file: &str, shown: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/snapshots");
    let path = path.join(file);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, shown).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        shown, expected,
        "{file} differs: if the new output is right, write it with UPDATE_SNAPSHOTS=1"
    );
}

#[test]
fn sessions_read_the_same_at_every_width() {
    let log = Log::imported();
    check(&log, "conversations", &["conversations"]);
    check(&log, "show-codex", &["show", "019b04ae", "--no-pager"]);
    let tools = ["show", "7f2abd2d", "--tools", "--last", "12"];
    check(&log, "show-claude-tools", &tools);
    check(&log, "calls", &["calls"]);
    check(&log, "messages", &["messages", "7f2abd2d", "--limit", "12"]);
    check(&log, "tree", &["tree", "7f2abd2d"]);
}

/// Content that would change a terminal, its text's direction or the columns of a table.
#[test]
fn hostile_content_stays_in_its_place() {
    let log = Log::keeping_all();
    let evil = "\\u001b[2J\\u001b]0;title\\u0007\\u202e\\u200b\\r\\b日本語の長い文章です 👩‍👩‍👧 é ﷽";
    let conversation = id(7);
    let long = "日本".repeat(60);
    let lines = vec![
        format!(
            r#"{{"kind":"conversations","id":"{conversation}","client":"cli","project":"{evil}","title":"{evil} {long}","created_at":"2025-12-27T08:00:00Z","updated_at":"2025-12-27T09:04:31Z"}}"#
        ),
        format!(
            r#"{{"kind":"messages","id":"{}","conversation_id":"{conversation}","sequence":1,"timestamp":"2025-12-27T08:00:01Z","role":"user","source":"user","content":"{evil}\n#2  assistant  08:00:02\n\tx{long}"}}"#,
            id(8)
        ),
        format!(
            r#"{{"kind":"messages","id":"{}","conversation_id":"{conversation}","sequence":2,"timestamp":"2025-12-28T08:00:01Z","role":"assistant","source":"model","model_used":"{evil}","reasoning":"{evil} {long}","tool_name":"{evil}","tool_args":{{"command":"{evil}{long}"}},"error_type":"{evil}","error":"{evil}","content":"","tokens_in":12000,"tokens_cache_read":11000,"tokens_out":7,"cost_usd":0.0123,"latency_ms":271000}}"#,
            id(9)
        ),
        format!(
            r#"{{"kind":"messages","id":"{}","conversation_id":"{conversation}","sequence":3,"timestamp":"2025-12-28T08:00:02Z","role":"tool","source":"tool","tool_name":"{evil}","content":"","tool_result":"1\n2\n3\n4\n5\n6\n{evil}\n"}}"#,
            id(10)
        ),
    ];
    log.record(&lines);
    check(&log, "hostile-conversations", &["conversations"]);
    check(&log, "hostile-show", &["show", "latest"]);
    check(&log, "hostile-show-tools", &["show", "latest", "--tools"]);
    check(&log, "hostile-messages", &["messages", "latest"]);
    check(&log, "hostile-tree", &["tree", "latest"]);
}
