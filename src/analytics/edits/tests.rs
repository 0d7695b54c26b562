use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The changes of a call, each as `path +added -removed`.
fn shown(tool: &str, arguments: &str) -> Vec<String> {
    let lines = |count: Option<u64>| count.map_or("?".to_owned(), |count| count.to_string());
    let edits = edits_of(tool, arguments).unwrap_or_else(|| panic!("{tool} {arguments}"));
    let edits = edits.iter().map(|edit| {
        let (added, removed) = (lines(edit.added), lines(edit.removed));
        format!("{} {} +{added} -{removed}", edit.edit, edit.path)
    });
    edits.collect()
}

#[allow(clippy::too_many_lines)] // A table.
#[test]
fn every_agent_has_its_names() {
    let (old, new) = ("a\nb\nc\n", "a\nB\nBB\nc\n");
    let diff = "<<<<<<< SEARCH\n:start_line:1\n-------\na\nb\n=======\na\n>>>>>>> REPLACE\n";
    for (tool, arguments, expected) in [
        (
            "Edit",
            json!({"file_path": "/w/a", "old_string": old, "new_string": new}),
            "edit /w/a +2 -1",
        ),
        (
            "Edit",
            json!({"file_path": "a", "old_string": old, "new_string": new, "replace_all": true}),
            "edit a +? -?",
        ),
        (
            "MultiEdit",
            json!({"file_path": "a", "edits": [{"old_string": "x", "new_string": ""}, {"old_string": old, "new_string": new}]}),
            "edit a +2 -2",
        ),
        (
            "Write",
            json!({"file_path": "a", "content": "1\n2\n"}),
            "write a +2 -0",
        ),
        (
            "NotebookEdit",
            json!({"notebook_path": "n.ipynb", "new_source": "x"}),
            "edit n.ipynb +? -?",
        ),
        (
            "write_file",
            json!({"file_path": "a", "content": ""}),
            "write a +0 -0",
        ),
        (
            "replace",
            json!({"file_path": "a", "old_string": old, "new_string": new}),
            "edit a +2 -1",
        ),
        (
            "create",
            json!({"path": "a", "file_text": "1"}),
            "write a +1 -0",
        ),
        (
            "edit",
            json!({"path": "a", "old_str": "x", "new_str": "y"}),
            "edit a +1 -1",
        ),
        (
            "edit",
            json!({"filePath": "a", "oldString": "x", "newString": "y"}),
            "edit a +1 -1",
        ),
        (
            "edit",
            json!({"path": "a", "oldText": "x", "newText": "y"}),
            "edit a +1 -1",
        ),
        (
            "edit",
            json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]}),
            "edit a +1 -1",
        ),
        (
            "write",
            json!({"filePath": "a", "content": "1\n2"}),
            "write a +2 -0",
        ),
        (
            "write_to_file",
            json!({"path": "a", "content": "1", "line_count": 1}),
            "write a +1 -0",
        ),
        (
            "replace_in_file",
            json!({"path": "a", "diff": "------- SEARCH\nx\n=======\ny\nz\n+++++++ REPLACE"}),
            "edit a +2 -1",
        ),
        (
            "apply_diff",
            json!({"path": "a", "diff": diff}),
            "edit a +0 -1",
        ),
        (
            "apply_diff",
            json!({"args": {"file": [{"path": "a"}]}}),
            "edit a +? -?",
        ),
        (
            "insert_content",
            json!({"path": "a", "line": 3, "content": "1\n2"}),
            "edit a +2 -0",
        ),
        (
            "developer__text_editor",
            json!({"command": "str_replace", "path": "a", "old_str": "x", "new_str": "y"}),
            "edit a +1 -1",
        ),
        (
            "developer__text_editor",
            json!({"command": "insert", "path": "a", "insert_line": 1, "new_str": "y"}),
            "edit a +1 -0",
        ),
        (
            "text_editor",
            json!({"command": "write", "path": "a", "file_text": "x"}),
            "write a +1 -0",
        ),
        (
            "edit_file",
            json!({"path": "a", "mode": "edit", "display_description": "x"}),
            "edit a +? -?",
        ),
        (
            "edit_file",
            json!({"path": "a", "mode": "overwrite", "content": "x"}),
            "write a +1 -0",
        ),
        ("delete_path", json!({"path": "a"}), "delete a +? -?"),
    ] {
        assert_eq!(shown(tool, &arguments.to_string()), [expected], "{tool}");
    }
    let many = json!({"replacements": [
        {"filePath": "a", "oldString": "x", "newString": "y"},
        {"filePath": "b", "oldString": "x", "newString": ""},
    ]});
    let expected = ["edit a +1 -1", "edit b +0 -1"];
    assert_eq!(
        shown("multi_replace_string_in_file", &many.to_string()),
        expected
    );
}

const PATCH: &str = "*** Begin Patch\n*** Add File: new.rs\n+one\n+two\n*** Update File: src/a.rs\n*** Move to: src/b.rs\n@@ fn x\n-old\n+new\n context\n*** Delete File: gone.rs\n*** End Patch";

#[test]
fn patches_are_read_wherever_they_are() {
    let expected = [
        "write new.rs +2 -0",
        "delete src/a.rs +? -?",
        "edit src/b.rs +1 -1",
        "delete gone.rs +? -?",
    ];
    assert_eq!(shown("apply_patch", PATCH), expected);
    assert_eq!(
        shown("apply_patch", &json!({ "input": PATCH }).to_string()),
        expected
    );
    assert_eq!(
        shown("patch", &json!({ "patchText": PATCH }).to_string()),
        expected
    );
    let words = json!({ "command": ["apply_patch", PATCH] });
    assert_eq!(shown("shell", &words.to_string()), expected);
    let script = format!("cd sub && apply_patch <<'EOF'\n{PATCH}\nEOF");
    let of = |command: serde_json::Value| {
        shown(
            "shell",
            &json!({ "command": command, "workdir": "/w" }).to_string(),
        )[0]
        .clone()
    };
    assert_eq!(of(json!(script)), "write /w/sub/new.rs +2 -0");
    assert_eq!(
        of(json!(["bash", "-lc", script])),
        "write /w/sub/new.rs +2 -0"
    );
}

#[test]
fn what_changes_no_file_or_is_not_understood_is_told_apart() {
    for (tool, arguments) in [
        ("Read", r#"{"file_path":"a"}"#),
        ("Bash", r#"{"command":"ls"}"#),
        ("Bash", r#"{"command":"cat <<EOF\n*** Begin Patch\nEOF"}"#),
        ("text_editor", r#"{"command":"view","path":"a"}"#),
    ] {
        assert_eq!(edits_of(tool, arguments), None, "{tool}");
    }
    for (tool, arguments) in [
        ("Edit", "{}"),
        ("Edit", "not JSON"),
        ("Edit", r#"{"file_path":7}"#),
        ("Edit", r#"{"file_path":" "}"#),
        ("apply_patch", "no patch"),
        ("text_editor", r#"{"command":"rename","path":"a"}"#),
    ] {
        assert_eq!(
            edits_of(tool, arguments),
            Some(Vec::new()),
            "{tool} {arguments}"
        );
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        "[a-z_]{0,8}",
        proptest::sample::select([PATHS, OLD, NEW, CONTENTS, LISTS, PATCHES].concat())
            .prop_map(str::to_owned),
    ];
    let text = prop_oneof![
        "(?s).{0,20}",
        Just(PATCH.to_owned()),
        "(\\*\\*\\* (Begin Patch|Add File: |Move to: |End Patch)|[-+<>=]{1,9}|SEARCH|REPLACE|\n){0,9}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((name.clone(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_are_read(json in any_json(), text in "(?s).{0,60}") {
        for tool in tools() {
            for arguments in [&json.to_string(), &text] {
                for edit in edits_of(tool, arguments).into_iter().flatten() {
                    prop_assert!(!edit.path.trim().is_empty());
                    prop_assert_eq!(edit.added.is_some(), edit.removed.is_some());
                }
            }
        }
    }
}
