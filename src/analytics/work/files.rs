//! Files that agents changed, and the changes of a file.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;

use serde::Serialize;
use uuid::Uuid;

use super::{CallEnd, LineSums, ROWS_DEFAULT, Talk, Talks, WorkQuery, each_call, moment};
use crate::analytics::Analytics;
use crate::analytics::edits::{Edit, edits_of, tools};
use crate::analytics::paths::FilePath;
use crate::collections::{MessageQuery, Order, of_prompt};
use crate::error::Result;
use crate::record::{Role, Timestamp, ToolCall};
use crate::store::Store;

/// A file that agents changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct FileRow {
    /// The path: relative to the workspace of the conversation of the latest change if the file is
    /// inside it, else as the agent gave it.
    pub path: String,
    /// The absolute path, if the agent gave it or the workspace is known; else as `path`.
    pub whole_path: String,
    /// The project of the conversation of the latest change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// The time of the latest change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// Number of changes, without those that failed.
    pub changes: u64,
    /// Number of changes that failed or were denied.
    pub failed: u64,
    /// Number of conversations, each with its sub-agents, that changed the file or tried to.
    pub conversations: u64,
    /// The agents or clients of these conversations, in alphabetical order.
    pub agents: Vec<String>,
    /// The lines of its changes.
    #[serde(flatten)]
    pub lines: LineSums,
}

/// A change of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct FileChange {
    /// When the call began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The tool.
    pub tool_name: String,
    /// The outcome of the call.
    pub status: CallEnd,
    /// What it changed.
    #[serde(flatten)]
    pub edit: Edit,
    /// The conversation of the call, if it is in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation_id: Option<Uuid>,
    /// The title of the conversation. For a sub-agent, the title of the conversation that started
    /// it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The last prompt before the call, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The request of the call.
    pub request_id: Uuid,
    /// The id of the call.
    pub call_id: String,
}

/// The files that agents changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct FilesReport {
    /// The files, latest change first.
    pub rows: Vec<FileRow>,
    /// Number of rows without the limit.
    pub row_count: usize,
    /// If the given path is that of one file: its changes, latest first, up to the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<FileChange>>,
    /// Number of calls of edit tools whose arguments were not understood, by tool.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_understood: BTreeMap<String, u64>,
}

/// The changes of a file, as they are collected.
#[derive(Default)]
struct Changed {
    row: FileRow,
    latest: Option<i64>,
    roots: HashSet<Option<Uuid>>,
    agents: BTreeSet<String>,
}

impl Changed {
    fn add(&mut self, at: i64, file: FilePath, edit: &Edit, end: CallEnd, talk: Option<&Rc<Talk>>) {
        let row = &mut self.row;
        if end.is_failure() {
            row.failed += 1;
        } else {
            row.changes += 1;
            row.lines.add(edit.added, edit.removed);
        }
        self.roots.insert(talk.map(|talk| talk.root));
        if let Some(talk) = talk {
            self.agents.insert(talk.agent().to_owned());
        }
        if self.latest.is_none_or(|latest| latest <= at) {
            self.latest = Some(at);
            row.path = file.shown;
            row.whole_path = file.whole;
            row.project = talk.and_then(|talk| talk.conversation.project.clone());
            row.changed_at = moment(at);
        }
    }

    fn row(self) -> FileRow {
        FileRow {
            conversations: self.roots.len() as u64,
            agents: self.agents.into_iter().collect(),
            ..self.row
        }
    }
}

/// A change of the file in question.
struct Found {
    at: i64,
    turn: Uuid,
    change: FileChange,
    talk: Option<Rc<Talk>>,
}

impl Analytics {
    /// The files that agents changed by calls of edit tools, latest change first. `path` is a
    /// directory, a pattern with `*`, `**` and `?`, or a file; for a file, its changes are listed
    /// too. `path` is compared with absolute paths and with paths relative to the workspaces.
    ///
    /// ```
    /// # use decklog::{Store, ToolCallReq, ToolCallDone, ToolStatus};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let store = Store::open(dir.path().join("log"))?;
    /// use decklog::analytics::WorkQuery;
    ///
    /// let id = uuid::Uuid::new_v4();
    /// let arguments = r#"{"file_path":"/work/src/a.rs","content":"fn main() {}\n"}"#;
    /// store.record(ToolCallReq {
    ///     arguments_json: Some(arguments.into()),
    ///     ..ToolCallReq::new(id, "c1", "anthropic", "Write")
    /// })?;
    /// store.record(ToolCallDone::new(id, "c1", ToolStatus::Completed))?;
    /// let report = store.analytics().files(&WorkQuery::default(), Some("/work/src"))?;
    /// assert_eq!((&*report.rows[0].path, report.rows[0].lines.added), ("/work/src/a.rs", 1));
    /// # Ok::<(), decklog::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`commands`](Self::commands).
    pub fn files(&self, query: &WorkQuery, path: Option<&str>) -> Result<FilesReport> {
        let tools: Vec<&str> = tools().collect();
        let mut files: HashMap<String, Changed> = HashMap::new();
        let mut not_understood: BTreeMap<String, u64> = BTreeMap::new();
        let mut changes: Option<Vec<Found>> = None;
        let mut talks = Talks::new(&self.store);
        each_call(&mut talks, query, Some(&tools), |call, talk| {
            let (request, done) = call;
            let edits = edits_of_call(call);
            if edits.as_ref().is_some_and(Vec::is_empty) {
                *not_understood.entry(request.tool_name.clone()).or_default() += 1;
            }
            let (at, end) = (request.started_at.at, CallEnd::of(done.as_ref(), false));
            for edit in edits.into_iter().flatten() {
                let file = file_of(&edit, talk);
                if path.is_some_and(|wanted| !file.is_selected_by(wanted)) {
                    continue;
                }
                if path.is_some_and(|wanted| file.is(wanted)) {
                    changes.get_or_insert_default().push(Found {
                        at,
                        turn: request.parent_id,
                        change: FileChange::new(call, end, edit.clone(), talk),
                        talk: talk.cloned(),
                    });
                }
                let of_file = files.entry(file.whole.clone()).or_default();
                of_file.add(at, file, &edit, end, talk);
            }
        })?;
        let limit = query.limit.unwrap_or(ROWS_DEFAULT);
        let changes = changes.map(|found| self.latest_changes(found, limit, &mut talks));
        let mut rows: Vec<Changed> = files.into_values().collect();
        rows.sort_by(|one, other| {
            let order = |it: &Changed| Reverse(it.latest);
            let by_path = || one.row.whole_path.cmp(&other.row.whole_path);
            order(one).cmp(&order(other)).then_with(by_path)
        });
        let row_count = rows.len();
        rows.truncate(limit);
        Ok(FilesReport {
            rows: rows.into_iter().map(Changed::row).collect(),
            row_count,
            changes: changes.transpose()?,
            not_understood,
        })
    }

    /// The latest changes of a file, with titles and prompts.
    fn latest_changes(
        &self,
        mut found: Vec<Found>,
        limit: usize,
        talks: &mut Talks<'_>,
    ) -> Result<Vec<FileChange>> {
        found.sort_by_key(|found| Reverse(found.at));
        found.truncate(limit);
        let told = found.into_iter().map(|found| {
            let Found {
                turn,
                mut change,
                talk,
                ..
            } = found;
            let Some(talk) = talk else {
                return Ok(change);
            };
            let root = talks.get(talk.root)?;
            let titled = root
                .as_ref()
                .map_or(&talk.conversation, |it| &it.conversation);
            change.title = self.store.conversation_title(titled)?;
            change.prompt = prompt_before(&self.store, turn)?;
            Ok(change)
        });
        told.collect()
    }
}

impl FileChange {
    fn new((request, _): &ToolCall, status: CallEnd, edit: Edit, talk: Option<&Rc<Talk>>) -> Self {
        FileChange {
            at: moment(request.started_at.at),
            tool_name: request.tool_name.clone(),
            status,
            edit,
            conversation_id: talk.map(|talk| talk.conversation.id),
            title: None,
            prompt: None,
            request_id: request.request_id,
            call_id: request.call_id.clone(),
        }
    }
}

/// The changes that a call makes.
pub(super) fn edits_of_call((request, _): &ToolCall) -> Option<Vec<Edit>> {
    edits_of(
        &request.tool_name,
        request.arguments_json.as_deref().unwrap_or_default(),
    )
}

/// The file of an edit, by the workspace of its conversation.
pub(super) fn file_of(edit: &Edit, talk: Option<&Rc<Talk>>) -> FilePath {
    let workspace = talk.and_then(|talk| talk.conversation.workspace.as_deref());
    FilePath::new(&edit.path, workspace)
}

/// The last prompt before a turn.
fn prompt_before(store: &Store, turn: Uuid) -> Result<Option<String>> {
    const PROMPTS_READ: usize = 3;
    let Some(message) = store.get_message(turn)? else {
        return Ok(None);
    };
    let query = MessageQuery {
        role: Some(Role::User),
        until_sequence: message.sequence.map(|it| it.saturating_add(1)),
        order: Order::NewestFirst,
        limit: PROMPTS_READ,
        ..MessageQuery::default()
    };
    let prompts = store.messages(message.conversation_id, &query)?.items;
    Ok(prompts.iter().find_map(|prompt| of_prompt(&prompt.content)))
}
