//! Sub-agents of a session: the conversation of each line of a sub-agent, and the call that started
//! it.
//!
//! A sub-agent has its own file, or marked lines in the file of its session. The lines name the
//! agent. If they do not, each chain of lines is one agent. The call that started the agent is
//! named in the metadata file next to the agent's file, or in the result of the call. Otherwise it
//! is the call whose prompt equals the agent's first prompt.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64;

use super::shape::{Account, Line, Meta, Task};
use crate::collections::in_one_line;
use crate::import::heading::{Heading, Of, Origin};
use crate::import::ids::{IdMap, IdSet, foreign_id};
use crate::import::json::{self, Raw};
use crate::record::{ToolCallDone, ToolCallReq};

/// Names of the tool that starts an agent, in different versions.
const TOOLS: [&str; 2] = ["Task", "Agent"];
/// Maximum size of a metadata file. The client does not write larger ones.
const META_BYTES_MAX: u64 = 64 << 10;

/// The sub-agents of a file.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Agents {
    started: Vec<Started>,
    /// The conversation of each line of an agent without a name.
    chains: IdMap<Uuid>,
    begun: IdSet,
    /// The agent whose file this is, from its metadata file.
    beside: Option<Started>,
}

/// An agent as described by the call that started it.
#[derive(Default, Serialize, Deserialize)]
struct Started {
    call: Option<String>,
    title: Option<String>,
    /// Hash of the prompt.
    prompt: Option<u64>,
    is_known: bool,
}

fn id_of(session: &str, agent: &str) -> Uuid {
    foreign_id("claude-code:agent", &format!("{session}:{agent}"))
}

impl Agents {
    /// Reads the metadata file next to a session file: the call that started the agent.
    pub(super) fn of_file(path: &Path) -> Agents {
        let beside = || -> Option<Started> {
            let name = path.file_name()?.to_str()?;
            if !name.starts_with("agent-") {
                return None;
            }
            let file = File::open(path.with_extension("meta.json")).ok()?;
            let mut text = String::new();
            file.take(META_BYTES_MAX).read_to_string(&mut text).ok()?;
            let meta: Meta<'_> = json::object(&text).ok()??;
            let text = |raw| json::owned_text(raw).ok().flatten();
            Some(Started {
                call: text(meta.call),
                title: text(meta.description),
                ..Started::default()
            })
        };
        Agents {
            beside: beside(),
            ..Agents::default()
        }
    }

    /// The conversation of a line, if the line belongs to an agent.
    pub(super) fn talk(
        &mut self,
        line: &Line<'_>,
        id: Uuid,
        parent: Option<Uuid>,
        session: &str,
    ) -> Result<Option<Uuid>, String> {
        if !json::is_true(line.is_sidechain) {
            return Ok(None);
        }
        if let Some(agent) = json::text(line.agent_id)? {
            return Ok(Some(id_of(session, &agent)));
        }
        let talk = match parent {
            None => id_of(session, &id.to_string()),
            Some(parent) => {
                let known = self.chains.get(&parent).copied();
                known.unwrap_or_else(|| id_of(session, "sidechain"))
            }
        };
        self.chains.insert(id, talk);
        Ok(Some(talk))
    }

    /// Records the calls that start agents.
    pub(super) fn calls(&mut self, calls: &[ToolCallReq]) {
        for call in calls {
            if !TOOLS.contains(&&*call.tool_name) {
                continue;
            }
            let arguments = call.arguments_json.as_deref().unwrap_or_default();
            let task = json::object::<Task<'_>>(arguments).ok().flatten();
            let task = task.unwrap_or_default();
            let text = |raw| json::text(raw).ok().flatten();
            self.started.push(Started {
                call: Some(call.call_id.clone()),
                title: text(task.description).map(Cow::into_owned),
                prompt: text(task.prompt).map(|text| xxh3_64(text.as_bytes())),
                is_known: false,
            });
        }
    }

    /// Records what the `toolUseResult` of a call contains about the agent that the call started.
    pub(super) fn result(
        &mut self,
        session: &str,
        results: &[ToolCallDone],
        account: Raw<'_>,
    ) -> Option<Heading> {
        let [done] = results else { return None };
        let is_it = |started: &&mut Started| started.call.as_ref() == Some(&done.call_id);
        let started = self.started.iter_mut().find(is_it)?;
        let account = json::member::<Account<'_>>(account).ok()??;
        let agent = json::text(account.agent_id).ok()??;
        started.is_known = true;
        Some(started.heading(id_of(session, &agent)))
    }

    /// The heading of an agent at its first line, if its call is known.
    pub(super) fn first_line(&mut self, talk: Uuid, prompt: &str) -> Option<Heading> {
        if !self.begun.insert(talk) {
            return None;
        }
        if let Some(beside) = self.beside.take() {
            return Some(beside.heading(talk));
        }
        let prompt = Some(xxh3_64(prompt.as_bytes()));
        let is_it = |started: &&mut Started| !started.is_known && started.prompt == prompt;
        let started = self.started.iter_mut().find(is_it)?;
        started.is_known = true;
        Some(started.heading(talk))
    }
}

impl Started {
    fn heading(&self, talk: Uuid) -> Heading {
        let text = self.title.as_deref().and_then(in_one_line);
        Heading {
            of: Of::ConversationRef(talk),
            title: text.map(|text| (Origin::Summary, text)),
            parent: None,
            call: self.call.clone(),
        }
    }
}
