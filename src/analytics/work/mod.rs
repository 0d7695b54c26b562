//! What agents did in a period: their sessions, the files that they changed and the commands that
//! they ran. These reports read the records of the period and keep no sums.

mod commands;
mod day;
mod files;

use std::collections::HashMap;
use std::rc::Rc;

use serde::Serialize;
use uuid::Uuid;

pub use commands::{CommandFailure, CommandLatencyMs, CommandRow, CommandSums, CommandsReport};
pub use day::{FailureWork, FileWork, ProjectWork, SessionWork, WorkReport, WorkSums};
pub use files::{FileChange, FileRow, FilesReport};

use super::shell;
use crate::collections::{CallQuery, Order, Places};
use crate::error::{Error, Result};
use crate::record::{
    CallStatus, Conversation, Timestamp, ToolCall, ToolCallDone, ToolStatus, words,
};
use crate::store::Store;

/// Number of records that are read at a time.
const PAGE: usize = 1_000;
/// Default number of rows of a report.
const ROWS_DEFAULT: usize = super::ROWS_DEFAULT;
/// Maximum number of characters of a text in a report.
const TEXT_CHARS_MAX: usize = 200;

/// Selects the calls of a report on what agents did.
///
/// `since` and `until` are in epoch milliseconds.
#[derive(Debug, Clone, Default)]
pub struct WorkQuery {
    /// Only calls started at this time or later.
    pub since: Option<i64>,
    /// Only calls started before this time.
    pub until: Option<i64>,
    /// Only calls of conversations of this project.
    pub project: Option<String>,
    /// Maximum number of rows. Default: 1000.
    pub limit: Option<usize>,
}

words! {
    /// The outcome of a call.
    CallEnd("status") {
        /// It has no outcome yet.
        Requested = "requested",
        /// The tool ran and returned.
        Completed = "completed",
        /// The tool failed.
        Failed = "failed",
        /// The user or the client denied it.
        Denied = "denied",
    }
}

impl CallEnd {
    /// The end of a call. `is_shell`: its tool runs commands, so an exit code other than 0 is a
    /// failure too.
    fn of(done: Option<&ToolCallDone>, is_shell: bool) -> CallEnd {
        let Some(done) = done else {
            return CallEnd::Requested;
        };
        match (CallStatus::of(Some(done)), done.status) {
            (_, ToolStatus::Failed) if is_denied(done) => CallEnd::Denied,
            (_, ToolStatus::Failed) => CallEnd::Failed,
            (_, ToolStatus::Completed) if is_shell && has_failed(done) => CallEnd::Failed,
            _ => CallEnd::Completed,
        }
    }

    fn is_failure(self) -> bool {
        matches!(self, CallEnd::Failed | CallEnd::Denied)
    }
}

fn has_failed(done: &ToolCallDone) -> bool {
    let outcome = done.outcome_json.as_deref();
    outcome
        .and_then(shell::exit_code)
        .is_some_and(|code| code != 0)
}

/// Whether a failed call did not run because it was denied, according to the error texts of agents.
fn is_denied(done: &ToolCallDone) -> bool {
    const WORDS: [&str; 6] = [
        "doesn't want to proceed with this tool use",
        "rejected by user",
        "rejected by the user",
        "The user denied",
        "user rejected",
        "Permission to use ",
    ];
    let kind = done.error_kind.as_deref().unwrap_or_default();
    let words = done.error_msg.as_deref().unwrap_or_default();
    ["denied", "rejected"].contains(&kind) || WORDS.iter().any(|start| words.contains(start))
}

/// The error of a call, in one line.
fn why_failed(done: &ToolCallDone) -> Option<String> {
    let words = [&done.error_msg, &done.outcome_json, &done.error_kind];
    let line = words
        .into_iter()
        .flatten()
        .find_map(|words| shell::first_line(words))?;
    Some(crate::human::one_line(line, TEXT_CHARS_MAX))
}

/// A conversation, and the one at the top of its chain of parents.
#[derive(Debug)]
struct Talk {
    conversation: Conversation,
    root: Uuid,
}

impl Talk {
    /// The agent, else the client.
    fn agent(&self) -> &str {
        let client = self.conversation.client.as_str();
        self.conversation.agent.as_deref().unwrap_or(client)
    }
}

/// The conversations of calls, each read once.
struct Talks<'s> {
    store: &'s Store,
    places: Places,
    known: HashMap<Uuid, Option<Rc<Talk>>>,
}

impl<'s> Talks<'s> {
    fn new(store: &'s Store) -> Talks<'s> {
        Talks {
            store,
            places: Places::default(),
            known: HashMap::new(),
        }
    }

    /// The conversation of each of these calls.
    fn of_calls(&mut self, calls: &[ToolCall]) -> Result<Vec<Option<Rc<Talk>>>> {
        let turns: Vec<Uuid> = calls.iter().map(|(req, _)| req.parent_id).collect();
        let found = self.places.of_turns(self.store.inner(), &turns)?;
        let talk = |id: Option<Uuid>| id.map_or(Ok(None), |id| self.get(id));
        found.into_iter().map(talk).collect()
    }

    fn get(&mut self, id: Uuid) -> Result<Option<Rc<Talk>>> {
        if let Some(known) = self.known.get(&id) {
            return Ok(known.clone());
        }
        // Until it is known, for a chain of parents that is a cycle.
        self.known.insert(id, None);
        let talk = match self.store.get_conversation(id)? {
            None => None,
            Some((conversation, _)) => {
                let parent = conversation.parent_id.map(|parent| self.get(parent));
                let parent = parent.transpose()?.flatten();
                let root = parent.map_or(id, |parent| parent.root);
                Some(Rc::new(Talk { conversation, root }))
            }
        };
        self.known.insert(id, talk.clone());
        Ok(talk)
    }
}

/// Calls `take` with the calls of a period, each with its conversation: of the tools with these
/// names, or of all. Those of shells get it only if the query names a project.
fn each_call(
    talks: &mut Talks<'_>,
    query: &WorkQuery,
    tools: Option<&[&str]>,
    mut take: impl FnMut(&ToolCall, Option<&Rc<Talk>>),
) -> Result<()> {
    if let (Some(since), Some(until)) = (query.since, query.until)
        && until < since
    {
        return Err(Error::invalid("until is before since: until must be later"));
    }
    let names = tools.map(|tools| tools.iter().map(|name| Some((*name).to_owned())).collect());
    let names: Vec<Option<String>> = names.unwrap_or_else(|| vec![None]);
    for tool_name in names {
        let mut calls = CallQuery {
            tool_name,
            since: query.since,
            until: query.until,
            order: Order::OldestFirst,
            limit: PAGE,
            ..CallQuery::default()
        };
        pages(|after| {
            calls.after = after;
            let page = talks.store.tool_calls(&calls)?;
            // Commands are the same in any conversation.
            let is_placed = tools != Some(shell::TOOLS) || query.project.is_some();
            let found = if is_placed {
                talks.of_calls(&page.items)?
            } else {
                vec![None; page.items.len()]
            };
            for (call, talk) in page.items.iter().zip(&found) {
                let project = talk
                    .as_ref()
                    .and_then(|it| it.conversation.project.as_ref());
                if query.project.is_none() || query.project.as_ref() == project {
                    take(call, talk.as_ref());
                }
            }
            Ok(page.next)
        })?;
    }
    Ok(())
}

/// Calls `page` with the cursor of each page of a list; it returns that of the next one.
fn pages<C>(mut page: impl FnMut(Option<C>) -> Result<Option<C>>) -> Result<()> {
    let mut next = page(None)?;
    while let Some(after) = next {
        next = page(Some(after))?;
    }
    Ok(())
}

/// A time of a record. A forged line may have a time outside the calendar.
fn moment(at: i64) -> Option<Timestamp> {
    Timestamp::from_ms(at).ok()
}

/// The sums of added and removed lines. Unknown numbers count as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct LineSums {
    /// Number of added lines, as far as it is known from the arguments.
    pub added: u64,
    /// Number of removed lines, as far as it is known from the arguments.
    pub removed: u64,
}

impl LineSums {
    fn add(&mut self, added: Option<u64>, removed: Option<u64>) {
        self.added = self.added.saturating_add(added.unwrap_or(0));
        self.removed = self.removed.saturating_add(removed.unwrap_or(0));
    }
}
