//! How a conversation is continued in the agent that ran it.

use serde::Serialize;
use uuid::Uuid;

use super::{MessageQuery, Order, not_found, of_prompt};
use crate::error::Result;
use crate::human::one_line;
use crate::record::{Client, Conversation, Role};
use crate::store::Store;

/// Maximum number of characters of a prompt or an answer.
const TEXT_CHARS_MAX: usize = 200;
/// Number of messages, from the last on, that are searched for a prompt or an answer.
const MESSAGES_READ: usize = 20;
/// Maximum number of parents of a conversation.
const PARENTS_MAX: usize = 100;

/// How a conversation is continued in the agent that ran it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Resume {
    /// The conversation. For a sub-agent, the one that started it.
    pub conversation_id: Uuid,
    /// The agent, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The agent's id of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The directory in which to run the command: the absolute path of the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The agent's own command, as a program and its arguments. Absent if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    /// Why there is no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The title of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The start of the last prompt, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_prompt: Option<String>,
    /// The start of the last answer, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
}

impl Store {
    /// How a conversation is continued in the agent that ran it: the agent's own command, by the
    /// session id of the conversation. `agent` replaces the conversation's agent.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// let mut conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// conversation.agent = Some("codex".into());
    /// conversation.session_id = Some("019b04ae-b1c6".into());
    /// store.record(conversation.clone())?;
    /// let command = store.resume(conversation.id, None)?.command.unwrap();
    /// assert_eq!(command, ["codex", "resume", "019b04ae-b1c6"]);
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](crate::ErrorKind::NotFound) if the conversation is not in the log.
    pub fn resume(&self, id: Uuid, agent: Option<&str>) -> Result<Resume> {
        let mut conversation = self.conversation_known(id)?;
        for _ in 0..PARENTS_MAX {
            let parent = conversation.parent_id.map(|id| self.get_conversation(id));
            let Some((parent, _)) = parent.transpose()?.flatten() else {
                break;
            };
            conversation = parent;
        }
        let agent = agent.or(conversation.agent.as_deref());
        let (command, reason) = match command(agent, &conversation) {
            Ok(command) => (Some(command), None),
            Err(reason) => (None, Some(reason)),
        };
        let directory = conversation.workspace.clone();
        Ok(Resume {
            conversation_id: conversation.id,
            agent: agent.map(str::to_owned),
            session_id: conversation.session_id.clone(),
            directory: directory.filter(|it| is_absolute(it)),
            command,
            reason,
            title: self.conversation_title(&conversation)?,
            last_prompt: self.last(conversation.id, Role::User, of_prompt)?,
            last_answer: self.last(conversation.id, Role::Assistant, |text| {
                let line = one_line(text, TEXT_CHARS_MAX);
                (!line.is_empty()).then_some(line)
            })?,
        })
    }

    fn conversation_known(&self, id: Uuid) -> Result<Conversation> {
        let found = self
            .get_conversation(id)?
            .map(|(conversation, _)| conversation);
        found.ok_or_else(|| not_found(format!("conversation {id} is not in the log")))
    }

    /// The result of `of` for the last message in a role for which it returns one.
    fn last(
        &self,
        conversation: Uuid,
        role: Role,
        of: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<String>> {
        let query = MessageQuery {
            role: Some(role),
            order: Order::NewestFirst,
            limit: MESSAGES_READ,
            ..MessageQuery::default()
        };
        let messages = self.messages(conversation, &query)?.items;
        Ok(messages.iter().find_map(|message| of(&message.content)))
    }
}

/// The command of an agent that continues a session, or why there is none.
fn command(
    agent: Option<&str>,
    conversation: &Conversation,
) -> std::result::Result<Vec<String>, String> {
    let agent = agent.ok_or("the log does not record which agent ran this conversation")?;
    let is_in_editor = conversation.client == Client::Vscode;
    let before: &[&str] = match agent {
        "claude-code" => &["claude", "--resume"],
        "codex" => &["codex", "resume"],
        "copilot-cli" | "copilot" => &["copilot"],
        "gemini-cli" | "gemini" => &["gemini", "--resume"],
        "qwen-code" | "qwen" => &["qwen", "--resume"],
        "opencode" => &["opencode", "--session"],
        "pi" => &["pi", "--session"],
        "goose" => &["goose", "session", "--resume", "--session-id"],
        "cline" if !is_in_editor => &["cline", "--tui", "--id"],
        // Aider has no sessions: it continues the chat of its directory.
        "aider" => {
            return Ok(vec![
                "aider".to_owned(),
                "--restore-chat-history".to_owned(),
            ]);
        }
        "cline" | "roo" | "roo-code" | "kilo-code" | "zed" => {
            return Err(format!(
                "{agent} has no command that continues a session: open it from the history in the editor"
            ));
        }
        other => {
            return Err(format!(
                "no command is known that continues a session of {other}"
            ));
        }
    };
    let session = conversation.session_id.as_deref();
    let session = session.ok_or("the conversation has no session id")?;
    // Text that a program could read as an option, or a shell as something else, is refused.
    let is_id = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/@+=-".contains(&byte);
    if session.is_empty() || session.starts_with('-') || !session.bytes().all(is_id) {
        return Err("the session id of the conversation is not valid".to_owned());
    }
    let mut words: Vec<String> = before.iter().map(|word| (*word).to_owned()).collect();
    words.push(if words == ["copilot"] {
        format!("--resume={session}")
    } else {
        session.to_owned()
    });
    Ok(words)
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    matches!(bytes, [b'/', ..] | [_, b':', b'/' | b'\\', ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_has_its_command() {
        let of = |agent: &str, session: &str, client: Client| {
            let mut conversation = Conversation::new(Uuid::nil(), client);
            conversation.session_id = Some(session.to_owned());
            command(Some(agent), &conversation).map(|words| words.join(" "))
        };
        for (agent, expected) in [
            ("claude-code", "claude --resume s1"),
            ("codex", "codex resume s1"),
            ("copilot-cli", "copilot --resume=s1"),
            ("gemini-cli", "gemini --resume s1"),
            ("qwen-code", "qwen --resume s1"),
            ("opencode", "opencode --session s1"),
            ("pi", "pi --session s1"),
            ("goose", "goose session --resume --session-id s1"),
            ("cline", "cline --tui --id s1"),
            ("aider", "aider --restore-chat-history"),
        ] {
            assert_eq!(of(agent, "s1", Client::Cli).as_deref(), Ok(expected));
        }
        for (agent, session, client) in [
            ("zed", "s1", Client::Cli),
            ("cline", "s1", Client::Vscode),
            ("other", "s1", Client::Cli),
            ("claude-code", "--dangerously-skip-permissions", Client::Cli),
            ("claude-code", "a b", Client::Cli),
            ("claude-code", "a;b", Client::Cli),
            ("claude-code", "", Client::Cli),
        ] {
            assert!(of(agent, session, client).is_err(), "{agent} {session}");
        }
    }
}
