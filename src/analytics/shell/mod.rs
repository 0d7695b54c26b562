//! Shell commands that agents ran: which program a call runs, and with which exit code.

mod name;
#[cfg(test)]
mod tests;
mod words;

use serde::Deserialize;
use serde_json::Value;

use self::name::{name_of_script, name_of_words, script_of};
use crate::human::one_line;

/// The tools that run shell commands, by the names that agents give them.
pub(super) const TOOLS: &[&str] = &[
    // Claude Code, Codex.
    "Bash",
    "PowerShell",
    "shell",
    "shell_command",
    "local_shell",
    "exec_command",
    "container.exec",
    // Gemini CLI and Qwen Code, Copilot CLI, opencode, pi.
    "run_shell_command",
    "bash",
    "powershell",
    // Cline and Roo, Goose, Zed, Cursor, VS Code, others.
    "execute_command",
    "developer__shell",
    "terminal",
    "run_terminal_cmd",
    "run_terminal_command",
    "run_in_terminal",
    "run_command",
    "Shell",
];

/// Maximum number of characters of the name of a command.
const NAME_CHARS_MAX: usize = 60;

/// A command, as the arguments of a call give it.
#[derive(Debug, PartialEq)]
pub(super) struct Command {
    /// One word if it is a script, else the program and its arguments.
    pub words: Vec<String>,
    /// The directory in which it runs, if the arguments name one.
    pub directory: Option<String>,
}

impl Command {
    /// The command of a call with these arguments. `None` if they have none.
    pub(super) fn of(arguments: &str) -> Option<Command> {
        let members: Value = serde_json::from_str(arguments).ok()?;
        let member = |names: &[&str]| names.iter().find_map(|name| members.get(*name));
        let words = match member(&["command", "cmd", "script"])? {
            Value::String(script) => vec![script.clone()],
            Value::Array(words) => {
                let words = words.iter().map(|word| word.as_str().map(str::to_owned));
                words.collect::<Option<Vec<String>>>()?
            }
            _ => return None,
        };
        let names = ["workdir", "cwd", "directory", "dir", "working_directory"];
        let directory = member(&names).and_then(Value::as_str);
        let is_blank = words.iter().all(|word| word.trim().is_empty());
        (!is_blank).then(|| Command {
            words,
            directory: directory.map(str::to_owned),
        })
    }

    /// The script that a shell runs, else the words in one line.
    pub(super) fn script(&self) -> String {
        match &self.words[..] {
            [script] => script.clone(),
            words => script_of(words).map_or_else(|| words.join(" "), str::to_owned),
        }
    }

    /// The program and, for programs that have subcommands, the subcommand: `cargo test`, `git
    /// push`, `npm run build`. For a script, this is the first command that does more than prepare
    /// for the next one. A prefix such as `sudo` is left out.
    pub(super) fn name(&self) -> String {
        let name = match &self.words[..] {
            [script] => name_of_script(script, 0),
            words => name_of_words(words, 0),
        };
        let name = name.filter(|name| !name.trim().is_empty());
        let name = name.unwrap_or_else(|| self.words.join(" "));
        one_line(&name, NAME_CHARS_MAX)
    }
}

/// Number of lines at the start and at the end of an outcome in which an exit code may stand.
const LINES_READ: usize = 6;

/// The exit code in an outcome: a member of its JSON object, or a line at its start or its end.
pub(super) fn exit_code(outcome: &str) -> Option<i64> {
    #[derive(Deserialize)]
    struct Outcome {
        #[serde(alias = "exitCode", alias = "code")]
        exit_code: Option<Value>,
        metadata: Option<Value>,
        output: Option<Value>,
    }
    let outcome = outcome.trim();
    if outcome.starts_with('{') {
        let said: Outcome = serde_json::from_str(outcome).ok()?;
        let metadata = said.metadata.as_ref();
        let of_metadata = ["exit_code", "exitCode", "exit"]
            .iter()
            .find_map(|name| metadata?.get(*name));
        let code = said
            .exit_code
            .as_ref()
            .or(of_metadata)
            .and_then(Value::as_i64);
        return code.or_else(|| code_of_text(said.output.as_ref()?.as_str()?));
    }
    if outcome.starts_with('"') {
        let text: String = serde_json::from_str(outcome).ok()?;
        return code_of_text(&text);
    }
    code_of_text(outcome)
}

fn code_of_text(text: &str) -> Option<i64> {
    let head = text
        .lines()
        .take(LINES_READ)
        .take_while(|line| line.trim() != "Output:");
    let tail = text.lines().rev().take(LINES_READ);
    head.chain(tail).find_map(code_of_line)
}

fn code_of_line(line: &str) -> Option<i64> {
    const STARTS: [&str; 6] = [
        "Process exited with code ",
        "Command exited with code ",
        "Exit code: ",
        "Exit Code: ",
        "Exit code ",
        "<exited with exit code ",
    ];
    let code = STARTS
        .iter()
        .find_map(|start| line.trim().strip_prefix(start))?;
    code.trim_end_matches(['>', '.']).trim().parse().ok()
}

/// The first line of an error that says what went wrong: neither the exit code nor a heading.
pub(super) fn first_line(error: &str) -> Option<&str> {
    let starts = [
        "Chunk ID: ",
        "Wall time: ",
        "Original token count: ",
        "Total output lines: ",
    ];
    let is_heading = |line: &&str| {
        code_of_line(line).is_some()
            || *line == "Output:"
            || starts.iter().any(|start| line.starts_with(start))
    };
    let mut lines = error.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().next();
    lines.find(|line| !is_heading(line)).or(first)
}
