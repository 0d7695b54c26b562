//! Import of the session files of Claude Code, in a process of its own, so that nothing but the
//! import is counted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use decklog::Store;
use decklog::import::Importer;
use uuid::Uuid;

use super::{Group, directory};
use crate::child::{Child, Work};
use crate::settings::Settings;
use crate::table::{Row, Table, median};
use crate::work::{key, text};

const NAME: &str = "import of Claude Code files";
/// The role of the child.
pub const ROLE: &str = "import";
const SESSION_BYTES: usize = 1 << 20;

pub const GROUP: Group = (&[NAME], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let sessions = dir.path().join("sessions");
    std::fs::create_dir(&sessions).expect("a directory");
    let wanted = settings.import_mb * 1_000_000;
    let mut bytes = 0;
    let mut sets = 0;
    for number in 0.. {
        if bytes >= wanted {
            break;
        }
        bytes += write_session(&sessions.join(format!("{number}.jsonl")), number, &mut sets);
    }
    let rate = |round: usize| {
        let store = dir.path().join(format!("store-{round}"));
        let paths = [&store, &sessions].map(|path| path.to_str().expect("a path in UTF-8"));
        let mut child = Child::start(ROLE, &paths);
        child.go();
        let seconds = child.figure();
        child.end();
        std::fs::remove_dir_all(store).expect("removed");
        bytes as f64 / 1e6 / seconds
    };
    table.row(&Row {
        name: NAME,
        ours: median((0..settings.rounds).map(rate).collect()),
        peer_name: "limit, a core",
        peer: 150.0,
        target: Some(1.0),
        unit: "MB/s",
    });
}

/// In the child: imports a folder into a store and tells how many seconds of a core it took.
pub fn import(args: &[&str]) -> Work {
    let store = Store::open(args[0]).expect("a store");
    let sessions = args[1].to_owned();
    Box::new(move || {
        let before = cpu_seconds();
        let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
        importer.path(Path::new(&sessions)).expect("imported");
        let report = importer.finish().expect("a report");
        let taken = cpu_seconds() - before;
        assert!(report.broken.is_empty(), "{:?}", report.broken.first());
        assert!(report.tool_calls > 0 && report.tool_calls == report.tool_results);
        taken
    })
}

/// What this process took of all cores, in the system and outside; not a number where the system
/// does not tell. Linux counts in hundredths of a second.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name stands in parentheses and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    match (ticks.next(), ticks.next()) {
        (Some(Ok(user)), Some(Ok(system))) => (user + system) / 100.0,
        _ => f64::NAN,
    }
}

/// A session of about 1 MiB; returns its bytes.
fn write_session(path: &Path, number: usize, sets: &mut usize) -> usize {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    let mut session = Session {
        id: uuid(number, 0),
        last: None,
        lines: 0,
    };
    let mut bytes = 0;
    while bytes < SESSION_BYTES {
        for line in session.next_set(*sets) {
            bytes += line.len() + 1;
            writeln!(file, "{line}").expect("written");
        }
        *sets += 1;
    }
    file.flush().expect("written");
    bytes
}

fn uuid(i: usize, salt: usize) -> Uuid {
    key(i * 16 + salt).0
}

/// A session as it is written: lines in the shapes and about the lengths that Claude Code's have.
struct Session {
    id: Uuid,
    last: Option<Uuid>,
    lines: usize,
}

impl Session {
    /// A question, and one answer in three lines: a thought, a text, a tool that is called; then
    /// what the tool returned.
    fn next_set(&mut self, i: usize) -> Vec<String> {
        let long = if i.is_multiple_of(4) { 3_000 } else { 500 };
        let tool = format!("toolu_{i:024}");
        let words = text(i, long.min(1_000));
        let thinking = format!(
            r#"{{"type":"thinking","thinking":"{words}\n\nLet me look.","signature":"{}"}}"#,
            signature(i, long / 2)
        );
        let said = format!(r#"{{"type":"text","text":"{}"}}"#, text(i + 1, 120));
        let called = format!(
            r#"{{"type":"tool_use","id":"{tool}","name":"Bash","input":{{"command":"cat src/module_{i}.rs","description":"{}"}}}}"#,
            text(i + 2, 40)
        );
        let output = text(i + 3, long).replace("some", "\\n\\t\\\"some\\\"");
        let result = format!(
            r#""type":"user","message":{{"role":"user","content":[{{"tool_use_id":"{tool}","type":"tool_result","content":"{output}","is_error":false}}]}}"#
        );
        let returned = format!(
            r#","toolUseResult":{{"stdout":"{output}","stderr":"","interrupted":false,"isImage":false}}"#
        );
        let question = format!(
            r#""type":"user","message":{{"role":"user","content":"{}"}}"#,
            text(i + 4, 80)
        );
        let mut lines = vec![self.line(
            &question,
            r#","thinkingMetadata":{"level":"high","disabled":false,"triggers":[]}"#,
        )];
        for (part, tokens_out) in [(thinking, 8), (said, 8), (called, 436)] {
            let message = format!(
                r#""message":{{"model":"claude-sonnet-4-5-20250929","id":"msg_{i:024}","type":"message","role":"assistant","content":[{part}],"stop_reason":null,"stop_sequence":null,"usage":{{"input_tokens":10,"cache_creation_input_tokens":3893,"cache_read_input_tokens":12135,"cache_creation":{{"ephemeral_5m_input_tokens":3893,"ephemeral_1h_input_tokens":0}},"output_tokens":{tokens_out},"service_tier":"standard"}}}},"requestId":"req_{i:024}","type":"assistant""#
            );
            lines.push(self.line(&message, ""));
        }
        lines.push(self.line(&result, &returned));
        lines
    }

    /// A line with what all of them have.
    fn line(&mut self, middle: &str, end: &str) -> String {
        let id = Uuid::from_u64_pair(self.id.as_u64_pair().0, self.lines as u64);
        let parent = self.last.replace(id);
        let parent = parent.map_or("null".to_owned(), |parent| format!("\"{parent}\""));
        let (minute, second) = (self.lines / 60 % 60, self.lines % 60);
        let hour = 8 + self.lines / 3_600;
        self.lines += 1;
        format!(
            r#"{{"parentUuid":{parent},"isSidechain":false,"userType":"external","cwd":"/home/user/project","sessionId":"{}","version":"2.0.28","gitBranch":"main",{middle},"uuid":"{id}","timestamp":"2025-12-09T{hour:02}:{minute:02}:{second:02}.930Z"{end}}}"#,
            self.id
        )
    }
}

/// What vouches for a thought: base64 of what only the vendor reads.
fn signature(i: usize, len: usize) -> String {
    let digits = (0..len.div_ceil(32)).map(|part| uuid(i, part % 16).simple().to_string());
    digits.collect()
}
