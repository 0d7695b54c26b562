//! What agents did in a period: the sessions of each project, the files that they changed, the
//! calls that failed, tokens and cost.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use serde::Serialize;
use uuid::Uuid;

use super::files::{edits_of_call, file_of};
use super::{
    CallEnd, LineSums, PAGE, Talk, Talks, WorkQuery, each_call, moment, pages, why_failed,
};
use crate::analytics::spending::Spent;
use crate::analytics::{Analytics, SpendSums, shell};
use crate::collections::{MessageQuery, Order, priced};
use crate::error::Result;
use crate::record::{Timestamp, ToolCall};

/// The sums of a project or a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct WorkSums {
    /// The messages of the period, with their tokens and cost. Sub-agents have conversations of
    /// their own.
    #[serde(flatten)]
    pub spent: SpendSums,
    /// Number of tool calls that started in the period.
    pub calls: u64,
    /// Number of these that failed or were denied.
    pub failed_calls: u64,
    /// Number of files that were changed.
    pub files: u64,
    /// Number of changes of files, without those that failed.
    pub edits: u64,
    /// The lines of these changes.
    #[serde(flatten)]
    pub lines: LineSums,
}

/// A session in the period, with its sub-agents.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct SessionWork {
    /// The conversation.
    pub conversation_id: Uuid,
    /// Its title, else the start of its first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The agent, such as `claude-code`, else the client, such as `cli`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The first message or call of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began_at: Option<Timestamp>,
    /// The last message or call of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// Number of sub-agents with a message or call in the period.
    pub sub_agents: u64,
    /// The sums of the session.
    #[serde(flatten)]
    pub sums: WorkSums,
}

impl SessionWork {
    /// The time from its first to its last message or call of the period, in milliseconds.
    pub fn lasted_ms(&self) -> i64 {
        let (Some(from), Some(to)) = (&self.began_at, &self.ended_at) else {
            return 0;
        };
        to.at().saturating_sub(from.at()).max(0)
    }
}

/// A file that was changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct FileWork {
    /// The path, relative to the workspace if the file is inside it.
    pub path: String,
    /// Number of changes.
    pub changes: u64,
    /// The lines of these changes.
    #[serde(flatten)]
    pub lines: LineSums,
}

/// Tool calls that failed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct FailureWork {
    /// The tool.
    pub tool_name: String,
    /// The program and subcommand, if the tool is a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Number of calls that failed or were denied.
    pub failures: u64,
    /// The error of the last of them, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A project in the period.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct ProjectWork {
    /// The project. Absent for records without one, such as calls without a conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The sums of its sessions.
    #[serde(flatten)]
    pub sums: WorkSums,
    /// Its sessions, sorted by their first message or call of the period.
    pub sessions: Vec<SessionWork>,
    /// The files that were changed, most changes first.
    pub changed_files: Vec<FileWork>,
    /// The calls that failed, by tool and command, most failures first.
    pub failures: Vec<FailureWork>,
}

/// What agents did in a period.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct WorkReport {
    /// Start of the period.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// End of the period, exclusive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The projects, by name.
    pub projects: Vec<ProjectWork>,
    /// The sums of all projects.
    pub total: WorkSums,
}

/// What a conversation did, as it is collected.
#[derive(Default)]
struct Done {
    spent: Spent,
    conversations: u64,
    sub_agents: u64,
    calls: u64,
    failed_calls: u64,
    from: Option<i64>,
    to: Option<i64>,
    files: BTreeMap<String, FileWork>,
    failures: BTreeMap<(String, Option<String>), FailureWork>,
}

impl Done {
    fn at(&mut self, at: i64) {
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
        self.to = self.to.max(Some(at));
    }

    fn call(&mut self, call: &ToolCall, talk: Option<&Rc<Talk>>) {
        let (request, done) = call;
        self.at(request.started_at.at);
        self.calls += 1;
        let is_shell = shell::TOOLS.contains(&&*request.tool_name);
        let end = CallEnd::of(done.as_ref(), is_shell);
        if end.is_failure() {
            self.failed_calls += 1;
            let arguments = request.arguments_json.as_deref().filter(|_| is_shell);
            let command = arguments.and_then(shell::Command::of).map(|it| it.name());
            let key = (request.tool_name.clone(), command);
            let failure = self.failures.entry(key).or_default();
            failure.failures += 1;
            let error = done.as_ref().and_then(why_failed);
            failure.error = error.or(failure.error.take());
            return;
        }
        for edit in edits_of_call(call).into_iter().flatten() {
            let file = file_of(&edit, talk);
            let work = self.files.entry(file.whole).or_default();
            work.path = file.shown;
            work.changes += 1;
            work.lines.add(edit.added, edit.removed);
        }
    }

    /// Adds what another conversation of the session did, or another session of the project.
    fn merge(&mut self, other: &Done) {
        self.spent.add(&other.spent);
        self.conversations += other.conversations;
        self.sub_agents += other.sub_agents;
        self.calls += other.calls;
        self.failed_calls += other.failed_calls;
        other
            .from
            .into_iter()
            .chain(other.to)
            .for_each(|at| self.at(at));
        for (path, more) in &other.files {
            let file = self.files.entry(path.clone()).or_default();
            file.path.clone_from(&more.path);
            file.changes += more.changes;
            file.lines
                .add(Some(more.lines.added), Some(more.lines.removed));
        }
        for (key, more) in &other.failures {
            let failure = self.failures.entry(key.clone()).or_default();
            failure.failures += more.failures;
            failure.error = more.error.clone().or(failure.error.take());
        }
    }

    fn sums(&self) -> WorkSums {
        let mut lines = LineSums::default();
        for file in self.files.values() {
            lines.add(Some(file.lines.added), Some(file.lines.removed));
        }
        WorkSums {
            spent: self.spent.sums(self.conversations),
            calls: self.calls,
            failed_calls: self.failed_calls,
            files: self.files.len() as u64,
            edits: self.files.values().map(|file| file.changes).sum(),
            lines,
        }
    }
}

impl Analytics {
    /// What agents did in a period: for each project its sessions, the changed files, the failed
    /// calls, tokens and cost. Sub-agents count with the session that started them. Only messages
    /// and calls within the period count. The limit is not used.
    ///
    /// ```
    /// # use decklog::{Client, Conversation, ConversationMessage, Role, Store};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::WorkQuery;
    /// use decklog::record::epoch_ms;
    ///
    /// let conversation = Conversation::new(uuid::Uuid::new_v4(), Client::Cli);
    /// store.record(conversation.clone())?;
    /// store.record(ConversationMessage::new(conversation.id, Role::User, "Fix the build"))?;
    /// let today = WorkQuery { since: Some(epoch_ms("today")?), ..WorkQuery::default() };
    /// let report = store.analytics().work(&today)?;
    /// assert_eq!(report.projects[0].sessions[0].title.as_deref(), Some("Fix the build"));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`commands`](Self::commands).
    pub fn work(&self, query: &WorkQuery) -> Result<WorkReport> {
        let mut talks = Talks::new(&self.store);
        let mut done: HashMap<Option<Uuid>, Done> = HashMap::new();
        // First, as it checks the query.
        each_call(&mut talks, query, None, |call, talk| {
            let id = talk.map(|talk| talk.conversation.id);
            done.entry(id).or_default().call(call, talk);
        })?;
        self.each_message(query, &mut talks, &mut done)?;
        let mut sessions: HashMap<Option<Uuid>, Done> = HashMap::new();
        for (id, mut part) in in_order(done) {
            let talk = id.map_or(Ok(None), |id| talks.get(id))?;
            let root = talk.map(|talk| talk.root);
            part.sub_agents = u64::from(root != id);
            sessions.entry(root).or_default().merge(&part);
        }
        let mut projects: BTreeMap<Option<String>, (Done, Vec<SessionWork>)> = BTreeMap::new();
        for (id, work) in in_order(sessions) {
            let talk = id.map_or(Ok(None), |id| talks.get(id))?;
            let project = talk.as_ref().and_then(|it| it.conversation.project.clone());
            let (sums, list) = projects.entry(project).or_default();
            sums.merge(&work);
            if let Some(talk) = talk {
                list.push(self.session(&talk, &work)?);
            }
        }
        let mut total = Done::default();
        for (sums, _) in projects.values() {
            total.merge(sums);
        }
        // Those without a project come last.
        let (named, unnamed): (Vec<_>, Vec<_>) =
            projects.into_iter().partition(|(name, _)| name.is_some());
        let all = named.into_iter().chain(unnamed);
        Ok(WorkReport {
            since: query.since.and_then(moment),
            until: query.until.and_then(moment),
            projects: all
                .map(|(name, (sums, list))| project(name, sums, list))
                .collect(),
            total: total.sums(),
        })
    }

    fn each_message(
        &self,
        query: &WorkQuery,
        talks: &mut Talks<'_>,
        done: &mut HashMap<Option<Uuid>, Done>,
    ) -> Result<()> {
        let mut messages = MessageQuery {
            since: query.since,
            until: query.until,
            order: Order::OldestFirst,
            limit: PAGE,
            ..MessageQuery::default()
        };
        let prices = self.store.inner().prices()?;
        pages(|after| {
            messages.after = after;
            let page = self.store.messages(None, &messages)?;
            for message in page.items {
                let id = message.conversation_id;
                if let Some(wanted) = &query.project {
                    let talk = talks.get(id)?;
                    if talk.is_none_or(|it| it.conversation.project.as_ref() != Some(wanted)) {
                        continue;
                    }
                }
                let done = done.entry(Some(id)).or_default();
                done.at(message.timestamp.at());
                done.conversations = 1;
                let (_, counted) = priced(&prices, message.timestamp.at(), message);
                done.spent.add(&Spent::of(&counted));
            }
            Ok(page.next)
        })
    }

    fn session(&self, talk: &Talk, work: &Done) -> Result<SessionWork> {
        Ok(SessionWork {
            conversation_id: talk.conversation.id,
            title: self.store.conversation_title(&talk.conversation)?,
            agent: Some(talk.agent().to_owned()),
            began_at: work.from.and_then(moment),
            ended_at: work.to.and_then(moment),
            sub_agents: work.sub_agents,
            sums: work.sums(),
        })
    }
}

/// What was done, by the time of its end.
fn in_order(done: HashMap<Option<Uuid>, Done>) -> Vec<(Option<Uuid>, Done)> {
    let mut done: Vec<_> = done.into_iter().collect();
    done.sort_by_key(|(id, work)| (work.to, *id));
    done
}

fn project(project: Option<String>, work: Done, mut sessions: Vec<SessionWork>) -> ProjectWork {
    sessions.sort_by_key(|it| (it.began_at.as_ref().map(Timestamp::at), it.conversation_id));
    let sums = work.sums();
    let mut changed_files: Vec<FileWork> = work.files.into_values().collect();
    changed_files.sort_by_key(|file| Reverse(file.changes));
    let failures = work.failures.into_iter();
    let failures = failures.map(|((tool_name, command), failure)| FailureWork {
        tool_name,
        command,
        ..failure
    });
    let mut failures: Vec<FailureWork> = failures.collect();
    failures.sort_by_key(|failure| Reverse(failure.failures));
    ProjectWork {
        project,
        sums,
        sessions,
        changed_files,
        failures,
    }
}
