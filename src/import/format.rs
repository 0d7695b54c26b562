//! Detects which tool wrote a file.

use std::fmt;
use std::io::{self, BufRead};
use std::str::FromStr;

use super::json::{self, shapes};
use super::lines::{self, Line, Lines};
use crate::error::{Error, Result};

/// Maximum number of lines read before the format of a file counts as unknown.
const LINES_LOOKED_AT: u32 = 100;

/// A format of session files that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// `claude-code`: the session files of Claude Code, `~/.claude/projects/*/*.jsonl`.
    ClaudeCode,
    /// `codex`: the rollout files of Codex CLI, `~/.codex/sessions/*/*/*/rollout-*.jsonl`.
    Codex,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 2] = [Format::ClaudeCode, Format::Codex];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Format> {
        Format::ALL
            .into_iter()
            .find(|format| format.as_str() == text)
            .ok_or_else(|| {
                let shown: String = text.chars().take(80).collect();
                Error::invalid(format!(
                    "{shown:?} is no format that can be imported: use claude-code or codex"
                ))
            })
    }
}

/// The result of format detection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Detected {
    Known(Format),
    Unknown,
    /// The file has no lines.
    Empty,
    /// The file has only the start of a line.
    Unfinished,
}

pub(super) fn detect<R: BufRead>(lines: &mut Lines<R>) -> io::Result<Detected> {
    let mut looked_at = 0;
    while looked_at < LINES_LOOKED_AT {
        let Some(line) = lines.read_next()? else {
            break;
        };
        if let Line::Whole(bytes) | Line::Last(bytes) = line {
            if bytes.trim_ascii().is_empty() {
                continue;
            }
            if let Some(format) = format_of(bytes) {
                return Ok(Detected::Known(format));
            }
            let is_last = matches!(line, Line::Last(_));
            if looked_at == 0 && is_last && lines::is_unfinished(super::without_bom(bytes)) {
                return Ok(Detected::Unfinished);
            }
        }
        looked_at += 1;
    }
    Ok(if looked_at == 0 {
        Detected::Empty
    } else {
        Detected::Unknown
    })
}

shapes! {
    Marks {
        kind: "type",
        payload: "payload",
        timestamp: "timestamp",
        session_id: "sessionId",
        uuid: "uuid",
        leaf_uuid: "leafUuid",
    }
}

fn format_of(line: &[u8]) -> Option<Format> {
    let line = std::str::from_utf8(super::without_bom(line)).ok()?;
    let marks: Marks<'_> = json::object(line).ok()??;
    let kind = json::text(marks.kind).ok()??;
    match &*kind {
        "session_meta" | "turn_context" | "response_item" | "event_msg" | "compacted"
            if marks.payload.get().is_some() && marks.timestamp.get().is_some() =>
        {
            Some(Format::Codex)
        }
        "user" | "assistant" | "system" | "progress" | "attachment"
            if marks.uuid.get().is_some() || marks.session_id.get().is_some() =>
        {
            Some(Format::ClaudeCode)
        }
        "summary" if marks.leaf_uuid.get().is_some() => Some(Format::ClaudeCode),
        "queue-operation" | "custom-title" if marks.session_id.get().is_some() => {
            Some(Format::ClaudeCode)
        }
        "file-history-snapshot" => Some(Format::ClaudeCode),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(text: &str) -> Detected {
        detect(&mut Lines::new(text.as_bytes(), 1000)).unwrap()
    }

    #[test]
    fn the_first_line_that_tells_decides() {
        let claude = "5\nnot json\n{\"type\":\"summary\",\"summary\":\"s\",\"leafUuid\":\"x\"}";
        assert_eq!(detected(claude), Detected::Known(Format::ClaudeCode));
        let codex = "\u{feff}{\"timestamp\":\"t\",\"type\":\"event_msg\",\"payload\":{}}";
        assert_eq!(detected(codex), Detected::Known(Format::Codex));
        assert_eq!(detected("\n \r\n"), Detected::Empty);
        assert_eq!(
            detected("{\"type\":\"user\",\"seq\":1}\n"),
            Detected::Unknown
        );
        assert_eq!(detected("[\"user\"]\n{}"), Detected::Unknown);
    }

    #[test]
    fn a_format_is_read_as_it_is_written() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let err = "cursor".parse::<Format>().unwrap_err();
        assert!(err.to_string().contains("claude-code"), "{err}");
    }
}
