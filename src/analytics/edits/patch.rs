//! Patches of the format of Codex's `apply_patch`, and diffs.

use super::{Edit, EditKind};
use crate::analytics::shell::Command;

pub(super) const BEGIN: &str = "*** Begin Patch";

pub(super) fn is_patch(text: &str) -> bool {
    text.trim_start().starts_with(BEGIN)
}

/// The changes of a patch, one for each of its files, in its order.
pub(super) fn edits(patch: &str) -> Vec<Edit> {
    const FILES: [(&str, EditKind); 3] = [
        ("*** Add File: ", EditKind::Write),
        ("*** Update File: ", EditKind::Edit),
        ("*** Delete File: ", EditKind::Delete),
    ];
    let mut edits: Vec<Edit> = Vec::new();
    for line in patch.lines() {
        let file = FILES
            .iter()
            .find_map(|(start, kind)| Some((line.strip_prefix(start)?, *kind)));
        if let Some((path, kind)) = file {
            let lines = (kind != EditKind::Delete).then_some((0, 0));
            edits.push(Edit::new(path.trim(), kind, lines));
        } else if line.starts_with("*** End Patch") {
            break;
        } else if let Some(edit) = edits.last_mut() {
            if let Some(path) = line.strip_prefix("*** Move to: ") {
                let old = std::mem::replace(&mut edit.path, path.trim().to_owned());
                let moved = Edit::new(&old, EditKind::Delete, None);
                let place = edits.len() - 1;
                edits.insert(place, moved);
                continue;
            }
            let count = match line.as_bytes().first() {
                Some(b'+') => &mut edit.added,
                Some(b'-') => &mut edit.removed,
                _ => continue,
            };
            *count = count.map(|lines| lines + 1);
        }
    }
    edits.retain(|edit| !edit.path.is_empty());
    edits
}

/// The changes of a command that applies a patch: `apply_patch` with the patch as its argument or
/// as a here-document. `None` for another command, such as one that shows a patch.
pub(super) fn of_command(command: &Command) -> Option<Vec<Edit>> {
    let script = command.script();
    let (patch, directory) = match &command.words[..] {
        [program, patch] if is_program(program) => (patch.as_str(), None),
        _ => {
            let (before, _) = script.split_once(BEGIN)?;
            let start = before.lines().last().unwrap_or(before);
            let mut words = start.split_whitespace();
            words.find(|word| is_program(word))?;
            let directory = start.trim_start().strip_prefix("cd ");
            let directory = directory.and_then(|rest| rest.split("&&").next());
            let directory = directory.map(|it| it.trim().trim_matches(['"', '\'']).to_owned());
            (script.get(before.len()..)?, directory)
        }
    };
    let mut edits = edits(patch);
    let directories = [directory, command.directory.clone()];
    for edit in &mut edits {
        for directory in directories.iter().flatten() {
            edit.path = joined(directory, &edit.path);
        }
    }
    Some(edits)
}

fn is_program(word: &str) -> bool {
    matches!(word, "apply_patch" | "applypatch")
}

/// A path below a directory, unless it is absolute.
fn joined(directory: &str, path: &str) -> String {
    if super::super::paths::is_absolute(path) {
        return path.to_owned();
    }
    format!("{}/{path}", directory.trim_end_matches('/'))
}

/// The numbers of lines that a diff adds and removes: a diff with search and replace blocks, as of
/// Cline and Roo Code, or a unified diff. `None` for other texts.
pub(super) fn lines_of_diff(diff: &str) -> Option<(u64, u64)> {
    if diff.lines().any(|line| line.starts_with("@@ ")) {
        let mut counts = (0, 0);
        for line in diff.lines() {
            match line.as_bytes() {
                [b'+', rest @ ..] if !rest.starts_with(b"++ ") => counts.0 += 1,
                [b'-', rest @ ..] if !rest.starts_with(b"-- ") => counts.1 += 1,
                _ => {}
            }
        }
        return Some(counts);
    }
    let (mut old, mut new) = (String::new(), String::new());
    // `None` outside of blocks.
    let mut part: Option<bool> = None;
    let (mut counts, mut blocks) = ((0, 0), 0);
    for line in diff.lines() {
        let is_sign =
            |sign: char, count: usize| line.chars().take_while(|c| *c == sign).count() >= count;
        match part {
            None if is_sign('<', 5) || (is_sign('-', 5) && line.ends_with("SEARCH")) => {
                part = Some(false);
                old.clear();
                new.clear();
            }
            Some(false) if line.trim_end() == "=======" => part = Some(true),
            Some(false) if line.starts_with(":start_line:") || line.starts_with(":end_line:") => {}
            // Roo Code ends the head of a block in this way.
            Some(false) if line == "-------" => old.clear(),
            Some(true) if is_sign('>', 5) || (is_sign('+', 5) && line.ends_with("REPLACE")) => {
                let (added, removed) = super::changed(&old, &new);
                counts = (counts.0 + added, counts.1 + removed);
                blocks += 1;
                part = None;
            }
            Some(is_new) => {
                let text = if is_new { &mut new } else { &mut old };
                text.push_str(line);
                text.push('\n');
            }
            None => {}
        }
    }
    (blocks > 0 && part.is_none()).then_some(counts)
}
