//! Rollout files of Codex CLI.
//!
//! A line names neither itself nor its session. The state therefore keeps the session, the latest
//! turn and the tokens used so far.
//!
//! Each item of an API response has its own line, and the tokens of the response are on a later
//! line. Each line becomes a message. The message of the token line represents the request, and the
//! items are parts of it.

mod agent;
mod calls;
mod compressed;
mod fork;
mod hosted;
mod items;
mod messages;
mod others;
mod shape;
mod tokens;

use std::borrow::Cow;
use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use super::facts::{ConversationRef, Facts, Others, Said, Text, Tokens, blank_message, fill};
use super::heading::{Heading, Of, Origin};
use super::ids::{IdSet, foreign_id, named};
use super::json::{self, Raw};
use crate::record::{ConversationTurn, Role, TurnKind, Validity};
pub(super) use agent::Codex;
use fork::Start;
use items::CallProgress;
use messages::parts;
use shape::{Git, Line, Payload, Source, Spawn, Subagent};

/// The state of reading one file from its first line.
#[derive(Serialize, Deserialize)]
struct Rollout {
    /// With the line number, the seed of the ids of the file's turns: the first session that the
    /// file names. A resumed or forked session starts with its own id and then repeats lines of
    /// another session. The session of a line would therefore not distinguish the files.
    seed: Uuid,
    seeded: bool,
    session: Uuid,
    /// The session as written in the file; `None` if the start of the file is missing.
    session_name: Option<String>,
    /// The parent session, if this is a sub-agent.
    parent: Option<Uuid>,
    /// The conversations whose first prompt was read.
    prompted: IdSet,
    /// The calls by their ids, and their progress.
    calls: HashMap<String, CallProgress>,
    /// The file has a usage line for each response. Totals that repeat those tokens are ignored.
    has_usage_records: bool,
    cwd: Option<String>,
    branch: Option<String>,
    model: Option<String>,
    vendor: String,
    latest: Option<Uuid>,
    totals: HashMap<Uuid, Tokens>,
    /// The tokens of the previous response, for files without totals.
    last: Option<Tokens>,
    /// Set while lines may be copies of another session's lines.
    start: Option<Start>,
    /// Hash of all lines so far except those that name a session.
    history: u128,
    /// The API response whose items are being read.
    response: Option<Uuid>,
    /// Hashes of the reasoning that was reported before the item that repeats it.
    #[serde(default)]
    raw: Vec<u64>,
}

impl Rollout {
    fn new() -> Rollout {
        Rollout {
            seed: Uuid::nil(),
            seeded: false,
            session: Uuid::nil(),
            session_name: None,
            parent: None,
            prompted: IdSet::default(),
            calls: HashMap::new(),
            has_usage_records: false,
            cwd: None,
            branch: None,
            model: None,
            vendor: "openai".to_owned(),
            latest: None,
            totals: HashMap::new(),
            last: None,
            start: None,
            history: 0,
            response: None,
            raw: Vec::new(),
        }
    }

    /// Parses a line. An `Err` is the reason why the line is broken.
    fn read(&mut self, number: u64, text: &str) -> Result<Facts<'static>, String> {
        let Some(line) = json::object::<Line<'_>>(text)? else {
            return Ok(Facts::not_understood("(not an object)"));
        };
        let kind = json::type_name(line.kind)?;
        let at = json::timestamp(line.timestamp)?;
        let payload = json::member::<Payload<'_>>(line.payload)?;
        let (Some(at), Some(payload)) = (at, payload) else {
            return Ok(Facts::not_understood(kind));
        };
        let here = Here { number, at };
        if self.session.is_nil() {
            // Only for a file whose start is missing: its first line distinguishes it from other
            // files, even after the file was moved or has grown.
            self.session = named("codex:rollout", text);
            self.seed = self.session;
        }
        if kind != "session_meta" {
            let is_copy = |start: &mut Start| start.is_copy(&line, &payload, at);
            if self.start.as_mut().is_some_and(is_copy) {
                return self.copy(&kind, &payload);
            }
            self.start = None;
            self.remember(&line);
        }
        let facts = match &*kind {
            "session_meta" => self.session_meta(&payload, at)?,
            "turn_context" => {
                self.model = json::owned_text(payload.model)?.or(self.model.take());
                self.cwd = json::owned_text(payload.cwd)?.or(self.cwd.take());
                Some(Facts::default())
            }
            "compacted" => json::owned_text(payload.message)?
                .map(|text| self.turn_unless_empty(here, TurnKind::SysInfo, Role::System, text))
                .transpose()?,
            // The state of the client and its agents. It is neither a message nor an action.
            "world_state"
            | "inter_agent_communication_metadata"
            | "dynamic_tools_updated"
            | "security_risk_score"
            | "id_allocation" => Some(Facts::default()),
            "inter_agent_communication" => self.agent_said(here, &payload)?,
            "realtime_item" => return self.realtime(here, &payload),
            "token_usage_record" => self.usage_record(here, &payload)?,
            "response_item" | "event_msg" => {
                let item = json::type_name(payload.kind)?;
                let facts = if kind == "event_msg" {
                    self.event(here, &item, &payload, line.payload)?
                } else {
                    self.item(here, &item, &payload)?
                };
                let unknown = || Facts::not_understood(format!("{kind}.{item}"));
                return Ok(facts.unwrap_or_else(unknown));
            }
            _ => None,
        };
        Ok(facts.unwrap_or_else(|| Facts::not_understood(kind)))
    }

    fn session_meta(
        &mut self,
        payload: &Payload<'_>,
        at: i64,
    ) -> Result<Option<Facts<'static>>, String> {
        let Some(id) = json::owned_text(payload.id)? else {
            return Ok(None);
        };
        let session = foreign_id("codex:session", &id);
        if self.session != session
            && let Some(start) = &mut self.start
        {
            start.has_parent();
            return Ok(Some(Facts::repeated()));
        }
        if !self.seeded {
            self.seed = session;
            self.seeded = true;
            self.start = Some(Start::of(payload, at));
        }
        if self.session != session {
            self.session = session;
            self.latest = None;
            self.response = None;
        }
        let facts = self.agent(payload)?;
        let root = match self.parent {
            Some(parent) => {
                Some(json::owned_text(payload.session_id)?.unwrap_or(parent.to_string()))
            }
            None => None,
        };
        self.session_name = Some(root.unwrap_or(id));
        self.cwd = json::owned_text(payload.cwd)?.or(self.cwd.take());
        if let Some(git) = json::member::<Git<'_>>(payload.git).ok().flatten() {
            self.branch = json::owned_text(git.branch)?.or(self.branch.take());
        }
        if let Some(vendor) = json::owned_text(payload.model_provider)? {
            self.vendor = vendor;
        }
        Ok(Some(facts))
    }

    /// Reads the `session_meta` of a sub-agent.
    fn agent(&mut self, payload: &Payload<'_>) -> Result<Facts<'static>, String> {
        let source = json::member::<Source<'_>>(payload.source).ok().flatten();
        let subagent = source.and_then(|it| json::member::<Subagent<'_>>(it.subagent).ok()?);
        let spawn = subagent.and_then(|it| json::member::<Spawn<'_>>(it.thread_spawn).ok()?);
        let spawn = spawn.unwrap_or_default();
        let parent = json::text(payload.parent_thread_id.or(spawn.parent_thread_id))?;
        self.parent = parent.map(|parent| foreign_id("codex:session", &parent));
        let mut facts = Facts::default();
        if self.parent.is_some() {
            let names = (payload.agent_nickname.or(spawn.agent_nickname))
                .or(payload.agent_path.or(spawn.agent_path));
            let name = json::text(names)?.unwrap_or_default();
            let of = Of::ConversationRef(self.session);
            facts
                .headings
                .extend(Heading::titled(of, Origin::Summary, &name));
        }
        Ok(facts)
    }

    /// The conversation of an agent that a call of this session started.
    fn started(&self, agent: Raw<'_>, call: Raw<'_>) -> Result<Facts<'static>, String> {
        let mut facts = Facts::default();
        if let (Some(agent), Some(call)) = (json::text(agent)?, json::owned_text(call)?) {
            facts.headings.push(Heading {
                of: Of::ConversationRef(foreign_id("codex:session", &agent)),
                title: None,
                parent: Some(self.session),
                call: Some(call),
            });
        }
        Ok(facts)
    }

    /// Skips a line copied from the parent of this fork. Only the token total and the model are
    /// carried over.
    fn copy(&mut self, kind: &str, payload: &Payload<'_>) -> Result<Facts<'static>, String> {
        match kind {
            "turn_context" => self.model = json::owned_text(payload.model)?.or(self.model.take()),
            "event_msg" => {
                self.growth(payload.info)?;
            }
            _ => {}
        }
        Ok(Facts::repeated())
    }

    fn remember(&mut self, line: &Line<'_>) {
        let mut history = Xxh3::new();
        history.update(&self.history.to_le_bytes());
        for part in [line.timestamp, line.kind, line.payload] {
            let part = part.get().unwrap_or_default();
            history.update(&(part.len() as u64).to_le_bytes());
            history.update(part.as_bytes());
        }
        self.history = history.digest128();
    }

    fn item(
        &mut self,
        here: Here,
        item: &str,
        payload: &Payload<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        Ok(match item {
            "message" => self.message(here, payload)?,
            // Early versions did not write the type of a message.
            "(no type)" if payload.role.get().is_some() => self.message(here, payload)?,
            "reasoning" => {
                let mut texts = Vec::new();
                let mut others = Others::default();
                for part in [payload.summary, payload.content] {
                    if !parts(part, &mut texts, &mut others)? {
                        return Ok(None);
                    }
                }
                self.without_raw(&mut texts);
                let mut facts = self.reasoning(here, texts.join("\n\n"))?;
                facts
                    .not_understood
                    .extend(others.under("response_item.reasoning"));
                Some(facts)
            }
            // A message from another agent. It has the role of a user.
            "agent_message" => {
                let mut texts = Vec::new();
                let mut others = Others::default();
                if !parts(payload.content, &mut texts, &mut others)? {
                    return Ok(None);
                }
                let text = texts.join("\n\n");
                let mut facts = self.turn_unless_empty(here, TurnKind::User, Role::User, text)?;
                let others = others.under("response_item.agent_message");
                facts.not_understood.extend(others);
                Some(facts)
            }
            "function_call" | "custom_tool_call" | "local_shell_call" | "tool_search_call" => {
                calls::call(self, here, item, payload)?
            }
            "function_call_output" | "custom_tool_call_output" | "tool_search_output" => {
                calls::result(self, here, payload)?
            }
            "web_search_call" | "image_generation_call" => {
                Some(self.hosted_call(here, item, payload)?)
            }
            // Summaries that only the provider can read. A `compacted` line has the text, if any.
            "compaction" | "context_compaction" | "compaction_trigger" => Some(Facts::default()),
            // The state of the files, to restore them, and what the model may use.
            "ghost_snapshot" | "configuration_update" | "additional_tools" => {
                Some(Facts::default())
            }
            _ => None,
        })
    }

    fn event(
        &mut self,
        here: Here,
        item: &str,
        payload: &Payload<'_>,
        raw: Raw<'_>,
    ) -> Result<Option<Facts<'static>>, String> {
        Ok(match item {
            // Each of these texts and calls is also in a `response_item`, and so is what a review
            // found. The text of a summary is in a `compacted` line.
            "user_message"
            | "agent_message"
            | "agent_reasoning"
            | "task_started"
            | "web_search_begin"
            | "web_search_end"
            | "image_generation_begin"
            | "image_generation_end"
            | "exited_review_mode"
            | "context_compacted"
            // The state of the client and its goals.
            | "task_complete"
            | "turn_aborted"
            | "thread_settings_applied"
            | "thread_goal_updated" => Some(Facts::default()),
            "agent_reasoning_raw_content" => self.raw_reasoning(here, payload)?,
            "entered_review_mode" => self.review(here, payload)?,
            "thread_rolled_back" => self.rolled_back(here, payload)?,
            "thread_name_updated" => self.named(payload)?,
            "sub_agent_activity" => Some(self.activity(
                payload.activity,
                payload.agent_thread_id,
                payload.event_id.or(payload.call_id),
            )?),
            "item_completed" => self.completed(here, payload)?,
            "exec_command_begin" | "patch_apply_begin" | "mcp_tool_call_begin" => {
                self.begun(here, item, raw)?
            }
            "exec_command_end" | "patch_apply_end" | "mcp_tool_call_end" => {
                self.ended(here, item, raw)?
            }
            "collab_agent_spawn_end" => Some(self.started(payload.new_thread_id, payload.call_id)?),
            "token_count" => match payload.info.get() {
                None => Some(Facts::default()),
                Some(_) if self.has_usage_records => Some(Facts::default()),
                Some(_) => self.token_count(here, payload.info)?,
            },
            _ => None,
        })
    }

    fn turn(
        &mut self,
        here: Here,
        kind: TurnKind,
        role: Role,
        content: String,
    ) -> Result<Facts<'static>, String> {
        let id = self.id("codex:turn", here);
        let said = self.said(here, id, role, Text::Words((&content).into()))?;
        Ok(Facts {
            turn: Some(ConversationTurn {
                id,
                parent_id: self.latest.replace(id),
                message_id: id,
                kind,
                content,
                created_at: Validity::at(here.at),
                thread_id: Some(self.session),
            }),
            said: Some(said),
            ..Facts::default()
        })
    }

    fn turn_unless_empty(
        &mut self,
        here: Here,
        kind: TurnKind,
        role: Role,
        content: String,
    ) -> Result<Facts<'static>, String> {
        if content.is_empty() {
            return Ok(Facts::default());
        }
        self.turn(here, kind, role, content)
    }

    /// The text becomes the reasoning of the message. The turn only records that there was
    /// reasoning, because it is part of the parent chain.
    fn reasoning(&mut self, here: Here, text: String) -> Result<Facts<'static>, String> {
        if text.is_empty() {
            return Ok(Facts::default());
        }
        let content = "[reasoning]".to_owned();
        let mut facts = self.turn(here, TurnKind::SysInfo, Role::Assistant, content)?;
        if let Some(said) = &mut facts.said {
            said.message.content.clear();
            said.message.reasoning = Some(text);
        }
        Ok(facts)
    }

    fn id(&self, scope: &str, here: Here) -> Uuid {
        named(scope, &format!("{}:{}", self.seed, here.number))
    }

    /// Adds the message of an item.
    fn said(
        &mut self,
        here: Here,
        id: Uuid,
        role: Role,
        text: Text<'_>,
    ) -> Result<Said<'static>, String> {
        let mut message = blank_message(id, self.session, role, here.at)?;
        match role {
            Role::Assistant => {
                message.model_used.clone_from(&self.model);
                message.part_of = Some(self.response());
            }
            // A user message ends the current response.
            Role::User => self.response = None,
            Role::System | Role::Tool => {}
        }
        fill(&mut message, vec![text]);
        Ok(Said {
            talk: self.talk(),
            message,
            counted: None,
        })
    }

    fn talk(&self) -> ConversationRef<'static> {
        ConversationRef {
            id: self.session,
            session: self.session_name.clone().map(Cow::Owned),
            cwd: self.cwd.clone().map(Cow::Owned),
            branch: self.branch.clone().map(Cow::Owned),
            agent: None,
            parent: self.parent,
        }
    }

    /// The id of the response that is being read. It is derived from all lines so far except those
    /// that name a session, because a session resumed under another id may repeat the lines without
    /// marking them.
    fn response(&mut self) -> Uuid {
        let name = || named("codex:response", &format!("{:032x}", self.history));
        *self.response.get_or_insert_with(name)
    }
}

/// The line being read: its number and time.
#[derive(Clone, Copy)]
struct Here {
    number: u64,
    at: i64,
}
