//! Edits of files in the arguments of tools and in proposals, in the forms that agents use.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::{Budget, diff};

/// Names of members, by what they hold.
const FILES: [&str; 6] = [
    "file",
    "file_path",
    "path",
    "filename",
    "notebook_path",
    "target",
];
const PATCHES: [&str; 4] = ["diff", "patch", "unified_diff", "input"];
const BEFORE: [&str; 7] = [
    "old_string",
    "old_str",
    "old",
    "before",
    "original",
    "search",
    "-",
];
const AFTER: [&str; 10] = [
    "new_string",
    "new_str",
    "new",
    "after",
    "updated",
    "replace",
    "+",
    "content",
    "new_source",
    "file_text",
];
const LISTS: [&str; 4] = ["edits", "changes", "diffs", "files"];
/// Depth of lists within lists.
const DEPTH_MAX: usize = 4;

/// An edit of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::page) struct Edit {
    /// The file; empty if the edit does not name one.
    pub file: String,
    pub change: Change,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::page) enum Change {
    /// A patch in the form of `diff -u` or of Codex.
    Patch(String),
    /// The text before, and the text after.
    Texts(String, String),
}

/// The edits that a JSON text describes; none if it describes something else.
pub(in crate::page) fn edits_of(text: &str) -> Vec<Edit> {
    if let Some(patch) = patch_in(text) {
        return vec![patch];
    }
    let mut edits = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        collect(&value, "", 0, &mut edits);
    }
    edits
}

/// Whether an argument with this name is part of what [`shown`] shows.
pub(super) fn is_shown(name: &str) -> bool {
    [&FILES[..], &PATCHES, &BEFORE, &AFTER, &LISTS]
        .iter()
        .any(|names| names.contains(&name))
}

fn patch_in(text: &str) -> Option<Edit> {
    diff::is_patch(text).then(|| Edit {
        file: diff::file_of(text).unwrap_or_default().to_owned(),
        change: Change::Patch(text.to_owned()),
    })
}

fn collect(value: &Value, file: &str, depth: usize, edits: &mut Vec<Edit>) {
    match value {
        _ if depth > DEPTH_MAX => {}
        Value::Array(values) => {
            for value in values {
                collect(value, file, depth + 1, edits);
            }
        }
        Value::String(text) => edits.extend(patch_in(text)),
        Value::Object(members) => {
            let file = first(members, &FILES).unwrap_or(file);
            if let Some(patch) = first(members, &PATCHES).and_then(patch_in) {
                let file = if file.is_empty() {
                    patch.file
                } else {
                    file.to_owned()
                };
                edits.push(Edit { file, ..patch });
                return;
            }
            let (before, after) = (first(members, &BEFORE), first(members, &AFTER));
            // A text alone may be anything, such as a message to send.
            if before.is_some() || after.is_some() && !file.is_empty() {
                let [before, after] = [before, after].map(|it| it.unwrap_or_default().to_owned());
                edits.push(Edit {
                    file: file.to_owned(),
                    change: Change::Texts(before, after),
                });
                return;
            }
            for name in LISTS {
                if let Some(list) = members.get(name) {
                    collect(list, file, depth + 1, edits);
                }
            }
        }
        _ => {}
    }
}

fn first<'v>(members: &'v Map<String, Value>, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

pub(in crate::page) fn shown(edits: &[Edit], budget: &Budget) -> Markup {
    html! {
        @for edit in edits {
            figure.edit {
                @if !edit.file.is_empty() {
                    figcaption { code { (edit.file) } }
                }
                @match &edit.change {
                    Change::Patch(patch) => {
                        @let (patch, note) = budget.cut(patch);
                        (diff::patch(patch)) (note)
                    },
                    Change::Texts(before, after) => (diff::texts(before, after, budget)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forms_of_edits_are_known() {
        let texts = |before: &str, after: &str| Change::Texts(before.into(), after.into());
        for (json, file, change) in [
            (r#"[{"file":"a.rs","+":"x"}]"#, "a.rs", texts("", "x")),
            (
                r#"{"file_path":"a","old_string":"1","new_string":"2","replace_all":false}"#,
                "a",
                texts("1", "2"),
            ),
            (
                r#"{"file_path":"a","edits":[{"old_string":"1","new_string":"2"}]}"#,
                "a",
                texts("1", "2"),
            ),
            (r#"{"path":"b","content":"new"}"#, "b", texts("", "new")),
        ] {
            let edit = Edit {
                file: file.into(),
                change,
            };
            assert_eq!(edits_of(json), [edit], "{json}");
        }
        let codex = "*** Begin Patch\n*** Add File: myapp/hoge.py\n+print(1 + 1)\n*** End Patch";
        assert_eq!(edits_of(codex)[0].file, "myapp/hoge.py");
        let unified = r#"{"diff":"--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n"}"#;
        assert_eq!(edits_of(unified)[0].file, "x.rs");
        for other in [
            "",
            "{}",
            "1",
            r#"{"content":"hi","to":"me"}"#,
            r#"{"command":"ls"}"#,
        ] {
            assert_eq!(edits_of(other), [], "{other}");
        }
    }
}
