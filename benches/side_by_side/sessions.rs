//! Session files in the shape of those of Claude Code.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use uuid::Uuid;

use crate::work::{key, text};

const SESSION_BYTES: usize = 1 << 20;

/// Writes sessions of about 1 MiB each, `megabytes` or more in total. Returns their number of bytes.
pub fn write_sessions(dir: &Path, megabytes: usize) -> usize {
    let wanted = megabytes * 1_000_000;
    let mut bytes = 0;
    let mut sets = 0;
    for number in 0.. {
        if bytes >= wanted {
            break;
        }
        bytes += write_session(&dir.join(format!("{number}.jsonl")), number, &mut sets);
    }
    bytes
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
