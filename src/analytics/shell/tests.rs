use proptest::prelude::*;
use serde_json::json;

use super::*;

fn name(script: &str) -> String {
    Command::of(&json!({ "command": script }).to_string())
        .unwrap()
        .name()
}

#[test]
fn commands_are_named_by_program_and_subcommand() {
    for (script, expected) in [
        ("cargo test --lib", "cargo test"),
        (
            "cd app && cargo +nightly --color always clippy -- -D warnings",
            "cargo clippy",
        ),
        (
            "cd 'my app'; RUST_LOG=debug FOO=\"a b\" ./target/debug/app --x",
            "app",
        ),
        ("git -C ../x push origin main", "git push"),
        ("git --no-pager log -3 | head", "git log"),
        ("git stash pop", "git stash pop"),
        ("npm run build", "npm run build"),
        ("npm --prefix web run test -- --watch", "npm run test"),
        ("pnpm --filter web test", "pnpm test"),
        (
            "sudo -u postgres timeout -k 5 60 psql -c 'select 1'",
            "psql",
        ),
        ("timeout 580 cargo build 2>&1 | tail -5", "cargo build"),
        ("time env A=1 nice -n 5 make -C sub check", "make check"),
        ("bash -lc 'cd x && go mod tidy'", "go mod tidy"),
        ("bash script.sh", "bash"),
        ("/usr/bin/python3 -m pytest -q", "python3 -m pytest"),
        ("python3 hoge.py", "python3"),
        ("ls -la src", "ls"),
        ("cd somewhere", "cd"),
        (
            "set -euo pipefail\nexport X=1\n# build\ndocker compose up -d",
            "docker compose up",
        ),
        ("cat > a.txt <<'EOF'\nrm -rf /\nEOF", "cat"),
        ("echo hi > x; sleep 1; curl -s localhost", "curl"),
        ("(cd a && uv run pytest)", "uv run pytest"),
        ("2>/dev/null ls", "ls"),
        ("FOO=bar", "FOO=bar"),
        ("if true; then grep x y; fi", "grep"),
        ("C:\\tools\\node.exe app.js", "node"),
        ("&& ||", "&& ||"),
    ] {
        assert_eq!(name(script), expected, "{script}");
    }
    let words = |words: &[&str]| {
        Command::of(&json!({ "command": words, "workdir": "/w" }).to_string()).unwrap()
    };
    let command = words(&["bash", "-lc", "cd x && npm ci"]);
    assert_eq!(
        (&*command.name(), &*command.script()),
        ("npm ci", "cd x && npm ci")
    );
    assert_eq!(command.directory.as_deref(), Some("/w"));
    assert_eq!(words(&["rg", "a && b"]).name(), "rg");
    for none in [
        "",
        "{}",
        "[]",
        r#"{"command":" "}"#,
        r#"{"command":[1]}"#,
        r#"{"command":[]}"#,
    ] {
        assert_eq!(Command::of(none), None, "{none}");
    }
}

#[test]
fn exit_codes_are_read_where_tools_tell_them() {
    for (outcome, expected) in [
        (r#"{"exit_code":2}"#, Some(2)),
        (
            r#"{"output":"x","metadata":{"exit_code":1,"duration_seconds":0.1}}"#,
            Some(1),
        ),
        (r#"{"metadata":{"exit":127}}"#, Some(127)),
        (r#"{"stdout":"","stderr":""}"#, None),
        (
            "Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code 3\nOutput:\nx",
            Some(3),
        ),
        (
            "Command: x\nOutput: y\nError: (none)\nExit Code: 1\nSignal: (none)",
            Some(1),
        ),
        ("\"FAILED\\n\\nCommand exited with code 4\"", Some(4)),
        ("Exit code 0\nok", Some(0)),
        ("1\n2\n3\n4\n5\n6\nExit code 1\n1\n2\n3\n4\n5\n6", None),
        ("Exit code: many", None),
        ("{", None),
    ] {
        assert_eq!(exit_code(outcome), expected, "{outcome}");
    }
    assert_eq!(first_line("Exit code 1\n\n  boom\nmore"), Some("boom"));
    assert_eq!(first_line("Exit code 1"), Some("Exit code 1"));
    assert_eq!(first_line(" \n"), None);
}

proptest! {
    #[test]
    fn any_command_has_a_name(script in "(?s).{0,200}", words in proptest::collection::vec("[-a-z'\"$&|;<> ]{0,12}", 0..6)) {
        for command in [json!(script), json!(words)] {
            if let Some(command) = Command::of(&json!({ "command": command }).to_string()) {
                let name = command.name();
                prop_assert!(!name.is_empty() && name.chars().count() <= NAME_CHARS_MAX + 1);
                let _ = command.script();
            }
        }
        let _ = (exit_code(&script), first_line(&script));
    }
}
