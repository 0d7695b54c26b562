//! `decklog resume`

use decklog::human::one_line;
use decklog::{Key, Kind};
use uuid::Uuid;

use super::context::Context;
use super::escape::shell_word;
use super::exit::{Exit, Failure};
use super::output;

/// Print the agent's own command that continues a session
///
/// Prints only the command to standard output, such as "cd /work/app && claude --resume ID", so
/// that a shell can run it. Prints the title of the session, its last prompt and the start of its
/// last answer to standard error. For a sub-agent, the command continues the session that started
/// it. If the agent has no such command, the exit code is 1. Supported agents: Claude Code, Codex,
/// Copilot CLI, Gemini CLI, Qwen Code, opencode, pi, Goose, Cline's CLI and Aider.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  decklog resume\n  decklog resume 7f2abd2d\n  eval \"$(decklog resume latest)\"\n  decklog resume 7f2abd2d --json | jq -r .session_id"
)]
pub struct Args {
    /// The conversation: its id, the start of its id, or 'latest'. Default: latest
    conversation: Option<Uuid>,
    /// The agent, such as claude-code or codex. Default: the agent recorded with the conversation
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Print only the command
    #[arg(long, short)]
    quiet: bool,
}

pub fn run(args: &Args, context: &mut Context) -> Result<Exit, Failure> {
    let store = context.open_to_read()?;
    let id = match args.conversation {
        Some(id) => id,
        None => match store.find_key(Kind::Conversations, "latest")? {
            Key::Conversation(id) => id,
            other => return Err(Failure::usage(format!("{other} is not a conversation"))),
        },
    };
    let resume = store.resume(id, args.agent.as_deref())?;
    let exit = if resume.command.is_some() {
        Exit::Ok
    } else {
        Exit::Findings
    };
    if context.json {
        context.out.json(&resume)?;
        return Ok(exit);
    }
    if !args.quiet {
        let last = [
            ("prompt", &resume.last_prompt),
            ("answer", &resume.last_answer),
        ];
        let columns = output::terminal_columns().saturating_sub("decklog: last prompt  ".len());
        output::say(resume.title.as_deref().unwrap_or("(no title)"));
        for (what, text) in last {
            if let Some(text) = text {
                output::say(&format!("last {what}  {}", one_line(text, columns)));
            }
        }
    }
    let Some(words) = &resume.command else {
        output::say(resume.reason.as_deref().unwrap_or("there is no command"));
        return Ok(exit);
    };
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let command = words.join(" ");
    let directory = resume.directory.as_deref().map(quoted);
    let cd = directory.map_or(String::new(), |directory| format!("cd {directory} && "));
    context.out.raw_line(&format!("{cd}{command}"))?;
    Ok(exit)
}

fn quoted(word: &str) -> String {
    String::from_utf8_lossy(&shell_word(word.as_bytes())).into_owned()
}
