//! Diffs of two texts, and patches.

use std::time::Duration;

use maud::{Markup, html};
use similar::{ChangeTag, TextDiff};

use super::Budget;

/// Time for one diff. Beyond it, the diff is right, but may not be the shortest.
const TIME_MAX: Duration = Duration::from_millis(20);
const CONTEXT_LINES: usize = 3;

/// The lines in which two texts differ, with some lines around them.
pub(in crate::page) fn texts(before: &str, after: &str, budget: &Budget) -> Markup {
    let ((before, note), (after, note_after)) = (budget.cut(before), budget.cut(after));
    let diff = TextDiff::configure()
        .timeout(TIME_MAX)
        .diff_lines(before, after);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    html! {
        pre.diff tabindex="0" {
            @for (nth, group) in groups.iter().enumerate() {
                @if nth > 0 {
                    span.hunk { "⋯\n" }
                }
                @for op in group {
                    @for change in diff.iter_changes(op) {
                        @match change.tag() {
                            ChangeTag::Delete => del { "-" (line(change.value())) "\n" },
                            ChangeTag::Insert => ins { "+" (line(change.value())) "\n" },
                            ChangeTag::Equal => { " " (line(change.value())) "\n" },
                        }
                    }
                }
            }
            @if groups.is_empty() {
                span.hunk { "No difference\n" }
            }
        }
        (note) (note_after)
    }
}

fn line(text: &str) -> &str {
    let text = text.strip_suffix('\n').unwrap_or(text);
    text.strip_suffix('\r').unwrap_or(text)
}

/// Whether a text is a patch: in the form of `diff -u`, or of Codex.
pub(super) fn is_patch(text: &str) -> bool {
    let text = text.trim_start();
    let is_unified = || {
        let mut lines = text.lines().take(20);
        lines.any(|line| line.starts_with("--- "))
            && text.contains("\n+++ ")
            && text.contains("\n@@ ")
    };
    text.starts_with("*** Begin Patch") || text.starts_with("@@ -") || is_unified()
}

/// The first file that a patch names.
pub(super) fn file_of(patch: &str) -> Option<&str> {
    let starts = [
        "*** Add File: ",
        "*** Update File: ",
        "*** Delete File: ",
        "+++ ",
    ];
    let file = |line: &'_ str| {
        starts
            .iter()
            .find_map(|start| line.strip_prefix(start).map(str::len))
    };
    let line = patch.lines().find(|line| file(line).is_some())?;
    let name = &line[line.len() - file(line)?..];
    let name = name.split('\t').next()?.trim();
    Some(name.strip_prefix("b/").unwrap_or(name))
}

/// A patch, with its added and removed lines marked.
pub(super) fn patch(text: &str) -> Markup {
    html! {
        pre.diff tabindex="0" {
            @for line in text.lines() {
                @if line.starts_with("+++") || line.starts_with("---") || line.starts_with("***") || line.starts_with("@@") {
                    span.hunk { (line) "\n" }
                } @else if line.starts_with('+') {
                    ins { (line) "\n" }
                } @else if line.starts_with('-') {
                    del { (line) "\n" }
                } @else {
                    (line) "\n"
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_marks_lines_and_escapes_them() {
        let html = texts("a\n<b>\nc\n", "a\n<i>\nc\n", &Budget::of_page()).into_string();
        let expected = "<pre class=\"diff\" tabindex=\"0\"> a\n<del>-&lt;b&gt;\n</del><ins>+&lt;i&gt;\n</ins> c\n</pre>";
        assert_eq!(html, expected);
        let same = texts("a", "a", &Budget::of_page()).into_string();
        assert!(same.contains("No difference"));
    }
}
