//! The formats of session files, and how the format of a file is detected.

use std::fmt;
use std::io::{self, BufRead};
use std::path::Path;
use std::str::FromStr;

use super::agent::Agent;
use super::lines::{self, Line, Lines};
use super::{
    aider, atif, claude_code, cline, codex, copilot_cli, gemini_cli, goose, inspect, opencode, pi,
    qwen_code, zed,
};
use crate::error::{Error, Result};

/// Maximum number of lines read before the format of a file counts as unknown.
const LINES_LOOKED_AT: u32 = 100;
/// Number of bytes from which the format of a file that does not consist of lines is detected.
pub(super) const HEAD_BYTES: usize = 64 << 10;

/// Declares the formats: the name on the command line, which is also the `agent` of the
/// conversations, and the importer.
macro_rules! formats {
    ($($(#[doc = $doc:literal])* $name:ident = $text:literal: $agent:expr,)+) => {
        /// A format of session files that can be imported.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[doc = $doc])* $name,)+
        }

        impl Format {
            /// Every format.
            pub const ALL: [Format; [$($text),+].len()] = [$(Format::$name),+];

            /// The name on the command line.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Format::$name => $text,)+
                }
            }

            pub(super) fn agent(self) -> &'static dyn Agent {
                match self {
                    $(Format::$name => &$agent,)+
                }
            }
        }
    };
}

formats! {
    /// `claude-code`: the session files of Claude Code, `~/.claude/projects/*/*.jsonl`.
    ClaudeCode = "claude-code": claude_code::ClaudeCode,
    /// `cline`: the tasks of Cline, `<editor>/User/globalStorage/saoudrizwan.claude-dev/tasks/*`
    /// and `~/.cline/data/tasks/*`.
    Cline = "cline": cline::Cline,
    /// `roo-code`: the tasks of Roo Code,
    /// `<editor>/User/globalStorage/rooveterinaryinc.roo-cline/tasks/*`.
    RooCode = "roo-code": cline::RooCode,
    /// `codex`: the rollout files of Codex CLI, `~/.codex/sessions/*/*/*/rollout-*.jsonl`.
    Codex = "codex": codex::Codex,
    /// `copilot-cli`: the event files of Copilot CLI, `~/.copilot/session-state/*/events.jsonl`.
    CopilotCli = "copilot-cli": copilot_cli::CopilotCli,
    /// `gemini-cli`: the chat files of Gemini CLI, `~/.gemini/tmp/*/chats/*`.
    GeminiCli = "gemini-cli": gemini_cli::GeminiCli,
    /// `pi`: the session files of pi, `~/.pi/agent/sessions/*/*.jsonl`.
    Pi = "pi": pi::Pi,
    /// `qwen-code`: the chat files of Qwen Code, `~/.qwen/projects/*/chats/*.jsonl`.
    QwenCode = "qwen-code": qwen_code::QwenCode,
    /// `opencode`: the database of opencode, `~/.local/share/opencode/opencode.db`, the files of
    /// earlier versions beside it, and what `opencode export` writes.
    OpenCode = "opencode": opencode::OpenCode,
    /// `goose`: the database of Goose, `~/.local/share/goose/sessions/sessions.db`.
    Goose = "goose": goose::Goose,
    /// `zed`: the threads of Zed's agent, `~/.local/share/zed/threads/threads.db`.
    Zed = "zed": zed::Zed,
    /// `aider`: the history that Aider keeps in a repository, `.aider.chat.history.md`.
    Aider = "aider": aider::Aider,
    /// `atif`: documents of Harbor's Agent Trajectory Interchange Format, `trajectory.json`.
    Atif = "atif": atif::Atif,
    /// `inspect`: the logs of Inspect AI, `logs/*.eval`; a `.json` log if its file is given.
    Inspect = "inspect": inspect::Inspect,
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
                    "{shown:?} is not a format that can be imported: use one of {}",
                    known()
                ))
            })
    }
}

/// The names of all formats.
fn known() -> String {
    Format::ALL.map(Format::as_str).join(", ")
}

/// The error about a file that no agent is known to write.
pub(super) fn unknown() -> Error {
    let known = known();
    Error::invalid(format!(
        "cannot tell which tool wrote this file: give --format with one of {known}"
    ))
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

/// Detects the format of a file that is not of lines, by its name and its first bytes.
pub(super) fn of_file(path: &Path, head: &[u8]) -> Option<Format> {
    let mut formats = Format::ALL.into_iter();
    formats.find(|format| format.agent().wrote_file(path, head))
}

/// Detects the format of a file of lines.
pub(super) fn of_lines<R: BufRead>(lines: &mut Lines<R>) -> io::Result<Detected> {
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

fn format_of(line: &[u8]) -> Option<Format> {
    let line = std::str::from_utf8(super::without_bom(line)).ok()?;
    let mut formats = Format::ALL.into_iter();
    formats.find(|format| format.agent().wrote_line(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(text: &str) -> Detected {
        of_lines(&mut Lines::new(text.as_bytes(), 1000)).unwrap()
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
