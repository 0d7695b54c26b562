//! Event files of Copilot CLI: `events.jsonl` in the folder of a session, or a file with the
//! session's id as its name.
//!
//! An event has an id and a kind, and its data. Messages state their output tokens. All other
//! tokens are stated when the client ends. A sub-agent's events are in the file of its session,
//! under the call that started it.

mod agent;
mod events;
mod shape;
mod tokens;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128;

use super::facts::Facts;
use super::heading::{Heading, Of, Origin};
use super::ids::{foreign_id, named};
use super::json;
use super::step::{Step, Thread};
pub(super) use agent::CopilotCli;
use shape::{Data, Line};
use tokens::Meter;

const FORMAT: &str = "copilot-cli";
/// Maximum size of the file with the name of the session.
const WORKSPACE_BYTES_MAX: u64 = 1 << 20;

/// State that is kept from line to line.
#[derive(Default, Serialize, Deserialize)]
struct Session {
    thread: Thread,
    /// The sub-agents' threads by the calls that started them.
    agents: BTreeMap<String, Thread>,
    /// The calls that started the sub-agents, by the ids of the agents.
    calls_of_agents: BTreeMap<String, String>,
    /// The calls so far, each with the sub-agent that made it.
    calls: BTreeMap<String, Option<String>>,
    /// The responses so far, each with its first message and its output tokens.
    responses: BTreeMap<String, (Uuid, u64)>,
    /// The first message of the latest response.
    response: Option<Uuid>,
    /// Hash of the latest reasoning, which may be both an event and part of a message.
    reasoning: Option<u128>,
    meter: Meter,
    /// The title in the file beside, until it is reported.
    #[serde(skip)]
    title: Option<(Origin, String)>,
}

/// The line being read.
#[derive(Clone, Copy)]
struct Here {
    id: Uuid,
    at: i64,
}

impl Session {
    /// The state for a session with this id, if its file does not name another.
    fn new(session: &str) -> Session {
        Session {
            thread: Thread::new(FORMAT, session),
            ..Session::default()
        }
    }

    /// Reads the name of the session in the file beside.
    fn read_workspace(&mut self, path: &Path) {
        let is_small =
            fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() <= WORKSPACE_BYTES_MAX);
        let text = is_small.then(|| fs::read_to_string(path).ok()).flatten();
        let text = text.unwrap_or_default();
        let value = |key: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.map(|value| value.trim().trim_matches(['"', '\'']).to_owned())
        };
        let origin = match value("user_named").as_deref() {
            Some("true") => Origin::User,
            _ => Origin::Model,
        };
        let name = value("name").filter(|name| !name.is_empty() && name != "null");
        self.title = name.map(|name| (origin, name));
    }

    /// Parses a line. An `Err` is the reason why the line is broken.
    fn read(&mut self, text: &str) -> Result<Vec<Facts<'static>>, String> {
        let Some(line) = json::object::<Line<'_>>(text)? else {
            return Ok(vec![Facts::not_understood("(not an object)")]);
        };
        let kind = json::type_name(line.kind)?;
        let data = json::member::<Data<'_>>(line.data)?;
        let (Some(data), Some(at)) = (data, json::timestamp(line.timestamp)?) else {
            return Ok(vec![Facts::not_understood(kind)]);
        };
        let id = match json::text(line.id)? {
            Some(id) => foreign_id("copilot-cli:event", &id),
            // Early versions gave their events no ids.
            None => named(
                "copilot-cli:event",
                &format!("{:032x}", xxh3_128(text.as_bytes())),
            ),
        };
        let here = Here { id, at };
        let agent = self.agent(&line, &data)?;
        let mut facts = self.event(here, &kind, &data, agent.as_deref())?;
        if kind != "session.start"
            && let Some((origin, title)) = self.title.take()
        {
            facts.push(self.titled(origin, &title));
        }
        Ok(facts)
    }

    fn titled(&self, origin: Origin, title: &str) -> Facts<'static> {
        Facts {
            headings: self.thread.titled(origin, title).into_iter().collect(),
            ..Facts::default()
        }
    }

    /// The sub-agent of a line, by the call that started it.
    fn agent(&mut self, line: &Line<'_>, data: &Data<'_>) -> Result<Option<String>, String> {
        let agent = json::owned_text(line.agent_id)?;
        let call = json::owned_text(data.parent_call)?;
        Ok(match (agent, call) {
            (Some(agent), Some(call)) => {
                self.calls_of_agents.insert(agent, call.clone());
                Some(call)
            }
            (None, call) => call,
            (Some(agent), None) => Some(match self.calls_of_agents.get(&agent) {
                Some(call) => call.clone(),
                None => agent,
            }),
        })
    }

    /// The thread of a sub-agent, or of the session.
    fn thread(&mut self, agent: Option<&str>) -> &mut Thread {
        let Some(call) = agent else {
            return &mut self.thread;
        };
        let main = &self.thread;
        let parent = match self.calls.get(call) {
            Some(Some(by)) if by != call => agent_id(main.id, by),
            _ => main.id,
        };
        let begin = || main.agent(agent_id(main.id, call), parent);
        self.agents.entry(call.to_owned()).or_insert_with(begin)
    }

    /// The facts of a step of a sub-agent or of the session.
    fn step(&mut self, agent: Option<&str>, step: Step) -> Result<Vec<Facts<'static>>, String> {
        Ok(vec![self.thread(agent).facts(FORMAT, step)?])
    }

    /// A sub-agent was started by a call.
    fn started(&mut self, line_agent: Option<&str>, call: &str, title: &str) -> Facts<'static> {
        if let Some(agent) = line_agent.filter(|agent| *agent != call) {
            self.calls_of_agents
                .insert(agent.to_owned(), call.to_owned());
        }
        let thread = self.thread(Some(call));
        let of = Of::ConversationRef(thread.id);
        let mut facts = Facts::default();
        facts.headings.push(Heading {
            of,
            title: None,
            parent: thread.parent,
            call: Some(call.to_owned()),
        });
        facts
            .headings
            .extend(Heading::titled(of, Origin::Summary, title));
        facts
    }
}

/// The conversation of a sub-agent.
fn agent_id(session: Uuid, call: &str) -> Uuid {
    named("copilot-cli:agent", &format!("{session}:{call}"))
}
