//! The changes made by calls of edit tools: the table of such tools, and the forms of their
//! arguments. Arguments are parsed leniently; what is not understood is never guessed.

mod patch;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::record::words;

words! {
    /// How a call changes a file.
    EditKind("edit") {
        /// It writes a whole file.
        Write = "write",
        /// It changes a part of a file.
        Edit = "edit",
        /// It deletes a file.
        Delete = "delete",
    }
}

/// A change of a file by a tool call, according to its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "wire", derive(utoipa::ToSchema))]
pub struct Edit {
    /// The path, as the agent gave it.
    pub path: String,
    /// How the file is changed.
    pub edit: EditKind,
    /// Number of lines that the call adds. A whole file counts with all its lines, whatever it
    /// replaces. Absent, like `removed`, if the arguments do not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Number of lines that the call removes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

impl Edit {
    fn new(path: &str, edit: EditKind, lines: Option<(u64, u64)>) -> Edit {
        Edit {
            path: path.to_owned(),
            edit,
            added: lines.map(|(added, _)| added),
            removed: lines.map(|(_, removed)| removed),
        }
    }
}

/// What a tool does with files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    /// Replaces parts of files.
    Edits,
    /// Writes whole files.
    Writes,
    Deletes,
    /// Has a patch of the format of `apply_patch`.
    Patches,
    /// Its argument `command` or `mode` selects the operation.
    DoesAsTold,
    /// Runs commands, which may be `apply_patch`.
    Shell,
}

/// The tools that change files, by the names that agents give them. Some agents share names.
const TOOLS: &[(&str, Tool)] = &[
    // Claude Code.
    ("Edit", Tool::Edits),
    ("MultiEdit", Tool::Edits),
    ("Write", Tool::Writes),
    ("NotebookEdit", Tool::Edits),
    // Codex.
    ("apply_patch", Tool::Patches),
    // Gemini CLI and Qwen Code.
    ("write_file", Tool::Writes),
    ("replace", Tool::Edits),
    // Copilot CLI; opencode, pi, Qwen Code and Goose have some of the same names.
    ("create", Tool::Writes),
    ("edit", Tool::Edits),
    ("str_replace", Tool::Edits),
    ("insert", Tool::Edits),
    ("write", Tool::Writes),
    ("multiedit", Tool::Edits),
    ("patch", Tool::Patches),
    // The editor of Anthropic's models, and Goose's.
    ("str_replace_editor", Tool::DoesAsTold),
    ("str_replace_based_edit_tool", Tool::DoesAsTold),
    ("text_editor", Tool::DoesAsTold),
    ("developer__text_editor", Tool::DoesAsTold),
    ("developer__write", Tool::Writes),
    ("developer__edit", Tool::Edits),
    // Cline and Roo, by the names of the calls and by those of their messages.
    ("write_to_file", Tool::Writes),
    ("replace_in_file", Tool::Edits),
    ("apply_diff", Tool::Edits),
    ("insert_content", Tool::Edits),
    ("search_and_replace", Tool::Edits),
    ("newFileCreated", Tool::Writes),
    ("editedExistingFile", Tool::Edits),
    ("appliedDiff", Tool::Edits),
    // Zed, Cursor and VS Code.
    ("edit_file", Tool::DoesAsTold),
    ("create_file", Tool::Writes),
    ("delete_path", Tool::Deletes),
    ("delete_file", Tool::Deletes),
    ("search_replace", Tool::Edits),
    ("replace_string_in_file", Tool::Edits),
    ("multi_replace_string_in_file", Tool::Edits),
    ("insert_edit_into_file", Tool::Edits),
];

/// The names of the tools whose calls may change files, those of shells included.
pub(super) fn tools() -> impl Iterator<Item = &'static str> {
    let tools = TOOLS.iter().map(|(name, _)| *name);
    tools.chain(super::shell::TOOLS.iter().copied())
}

const PATHS: &[&str] = &[
    "file_path",
    "path",
    "filePath",
    "notebook_path",
    "target_file",
];
const OLD: &[&str] = &[
    "old_string",
    "oldString",
    "old_str",
    "oldText",
    "old_text",
    "search",
    "before",
];
const NEW: &[&str] = &[
    "new_string",
    "newString",
    "new_str",
    "newText",
    "new_text",
    "replace",
    "after",
    "new_source",
];
const CONTENTS: &[&str] = &["content", "file_text", "contents"];
const LISTS: &[&str] = &["edits", "replacements", "files", "file"];
const PATCHES: &[&str] = &["input", "patch", "patchText", "diff"];

/// The changes that a call of this tool makes, according to its arguments. `None` if the call
/// changes no file: the tool is not an edit tool, the call only shows a file, or its command is not
/// `apply_patch`. An empty list if the tool changes files, but its arguments are not understood.
///
/// ```
/// use decklog::analytics::edits_of;
///
/// let arguments = r#"{"file_path":"src/a.rs","old_string":"one\n","new_string":"one\ntwo\n"}"#;
/// let edits = edits_of("Edit", arguments).unwrap();
/// assert_eq!((&*edits[0].path, edits[0].added, edits[0].removed), ("src/a.rs", Some(1), Some(0)));
/// assert_eq!(edits_of("Read", r#"{"file_path":"src/a.rs"}"#), None);
/// assert_eq!(edits_of("Edit", "{}"), Some(Vec::new()));
/// ```
pub fn edits_of(tool_name: &str, arguments: &str) -> Option<Vec<Edit>> {
    let tool = match TOOLS.iter().find(|(name, _)| *name == tool_name) {
        Some((_, tool)) => *tool,
        None if super::shell::TOOLS.contains(&tool_name) => Tool::Shell,
        None => return None,
    };
    // Codex passes the patch itself instead of arguments.
    if matches!(tool, Tool::Patches) && patch::is_patch(arguments) {
        return Some(patch::edits(arguments));
    }
    if tool == Tool::Shell {
        // Most commands are not.
        if !arguments.contains(patch::BEGIN) {
            return None;
        }
        let command = super::shell::Command::of(arguments)?;
        return patch::of_command(&command);
    }
    let Ok(Value::Object(members)) = serde_json::from_str(arguments) else {
        return Some(Vec::new());
    };
    match tool {
        Tool::Patches | Tool::Shell => {
            let patch = text(&members, PATCHES).filter(|patch| patch::is_patch(patch));
            Some(patch.map(patch::edits).unwrap_or_default())
        }
        Tool::Edits => Some(edits(&members, EditKind::Edit)),
        Tool::Writes => Some(edits(&members, EditKind::Write)),
        Tool::Deletes => Some(edits(&members, EditKind::Delete)),
        Tool::DoesAsTold => {
            let kind = match text(&members, &["command", "mode"]) {
                Some("view" | "undo_edit") => return None,
                Some("create" | "write" | "overwrite") => EditKind::Write,
                None if text(&members, CONTENTS).is_some() => EditKind::Write,
                None | Some("str_replace" | "insert" | "edit") => EditKind::Edit,
                // Another command, such as one of a later version.
                Some(_) => return Some(Vec::new()),
            };
            Some(edits(&members, kind))
        }
    }
}

fn text<'m>(members: &'m Map<String, Value>, names: &[&str]) -> Option<&'m str> {
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

/// The objects of a list of edits or files. Some models pass the list as text, or one object
/// instead of a list.
fn list(members: &Map<String, Value>) -> Vec<Map<String, Value>> {
    let object = |value: Value| match value {
        Value::Object(members) => Some(members),
        _ => None,
    };
    let found = LISTS.iter().find_map(|name| match members.get(*name)? {
        Value::String(text) => serde_json::from_str(text).ok(),
        value => Some(value.clone()),
    });
    match found {
        Some(Value::Array(items)) => items.into_iter().filter_map(object).collect(),
        Some(Value::Object(one)) => vec![one],
        _ => Vec::new(),
    }
}

/// The edits of an object with a path, with a list of edits, or of a list of such objects.
fn edits(members: &Map<String, Value>, kind: EditKind) -> Vec<Edit> {
    let parts = list(members);
    let Some(path) = text(members, PATHS).filter(|path| !path.trim().is_empty()) else {
        // Roo has its files in `args`.
        let args = members.get("args").and_then(Value::as_object);
        let files = args.map_or(parts, list);
        let of_file = |file: &Map<String, Value>| {
            let path = text(file, PATHS).filter(|path| !path.trim().is_empty())?;
            Some(Edit::new(path, kind, lines(file, &list(file), kind)))
        };
        return files.iter().filter_map(of_file).collect();
    };
    vec![Edit::new(path, kind, lines(members, &parts, kind))]
}

/// The numbers of lines that an edit adds and removes. `None` if its arguments do not contain them,
/// as for an edit that replaces all occurrences of a text.
fn lines(
    members: &Map<String, Value>,
    parts: &[Map<String, Value>],
    kind: EditKind,
) -> Option<(u64, u64)> {
    if kind == EditKind::Delete {
        return None;
    }
    if kind == EditKind::Edit && !parts.is_empty() {
        let parts = parts.iter().map(|part| lines(part, &[], kind));
        let add = |(added, removed): (u64, u64), (more, less)| (added + more, removed + less);
        return parts.sum_some(add);
    }
    let is_set = |name: &str| members.get(name).is_some_and(|it| *it == Value::Bool(true));
    if ["replace_all", "replaceAll", "allow_multiple"]
        .into_iter()
        .any(is_set)
    {
        return None;
    }
    if kind == EditKind::Write {
        return text(members, CONTENTS).map(|content| (count(content), 0));
    }
    if let Some(new) = text(members, NEW) {
        // An insertion, and a cell of a notebook, have no old text.
        return match text(members, OLD) {
            Some(old) => Some(changed(old, new)),
            None if members.contains_key("insert_line") => Some((count(new), 0)),
            None => None,
        };
    }
    if let Some(diff) = text(members, &["diff"]) {
        return patch::lines_of_diff(diff);
    }
    let is_insertion = members.contains_key("line") || members.contains_key("insert_line");
    let content = text(members, CONTENTS).filter(|_| is_insertion);
    content.map(|content| (count(content), 0))
}

/// Number of lines of a text.
fn count(text: &str) -> u64 {
    text.lines().count() as u64
}

/// The numbers of lines that are added and removed if one text replaces another: those without the
/// lines that both have at their start and at their end.
fn changed(old: &str, new: &str) -> (u64, u64) {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(one, other): &(&&str, &&str)| one == other;
    let start = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[start..], &new[start..]);
    let end = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take_while(same)
        .count();
    ((new.len() - end) as u64, (old.len() - end) as u64)
}

/// The sum of all items, if each is known.
trait SumSome<T>: Iterator<Item = Option<T>> + Sized {
    fn sum_some(mut self, add: impl Fn(T, T) -> T) -> Option<T> {
        let first = self.next()??;
        self.try_fold(first, |sum, item| Some(add(sum, item?)))
    }
}

impl<T, I: Iterator<Item = Option<T>>> SumSome<T> for I {}

#[cfg(test)]
mod tests;
