//! `decklog open`: the commands that it prints, run by a shell.

use super::*;

/// Whether a program can be run here; says so if not.
pub fn has(program: &str, argument: &str) -> bool {
    let found = Command::new(program).arg(argument).output().is_ok();
    if !found {
        println!("without {program}, it is not tried");
    }
    found
}

/// A log with the samples, at a path that shells and SQL would take apart.
fn awkward() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("it's a $log [x] *");
    let store = path.to_str().unwrap();
    let samples = samples();
    let args = ["import", samples.to_str().unwrap(), "--store", store];
    let output = decklog(&args).output().unwrap();
    assert_eq!(code(&output), OK, "{}", err(&output));
    (dir, path)
}

/// Runs the command that `decklog open` prints; returns what it prints.
fn opened(store: &Path, args: &[&str]) -> String {
    let (own, rest) = args.split_at(args.iter().position(|it| *it == "--").unwrap_or(args.len()));
    let mut command = decklog(&["open"]);
    command
        .args(own)
        .args(["--store", store.to_str().unwrap()])
        .args(rest);
    let cache = store.parent().unwrap().join("cache");
    let output = command
        .env("XDG_CACHE_HOME", &cache)
        .env("HOME", &cache)
        .output()
        .unwrap();
    // It warns of damage.
    let told = err(&output);
    assert_eq!(code(&output), OK, "{args:?}: {told}");
    assert!(told.is_empty() || told.contains("damaged"), "{told}");
    let line = out(&output);
    let output = Command::new("sh")
        .args(["-c", &line])
        .env("HOME", &cache)
        .env("TERM", "dumb")
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {}", err(&output));
    out(&output)
}

#[test]
fn jq_gets_the_files_of_a_kind() {
    if !has("jq", "--version") {
        return;
    }
    let (_dir, store) = awkward();
    let failed = opened(
        &store,
        &[
            "jq",
            "tool_calls",
            "--",
            "-r",
            r#"select(.op == "failed").error_kind"#,
        ],
    );
    assert_eq!(
        failed.lines().collect::<Vec<_>>(),
        ["tool_error", "exit_code", "exit_code"]
    );
    assert_eq!(
        opened(&store, &["jq", "--", "-c", "."]).lines().count(),
        108
    );
}

#[test]
fn duckdb_gets_a_view_of_each_kind() {
    if !has("duckdb", "--version") {
        return;
    }
    let (_dir, store) = awkward();
    // The line of a torn write is left out.
    let path = store.join("2025-12-09/messages.0001.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"seq\":1,").unwrap();
    let run = |store: &Path, sql: &str| opened(store, &["duckdb", "--", "-csv", "-c", sql]);
    let sql = "select count(*), count(timestamp), min(time) from messages";
    let rows = run(&store, sql);
    assert_eq!(
        rows.lines().nth(1),
        Some("52,52,2025-12-09 19:45:21.709"),
        "{rows}"
    );
    let sql = "select typeof(id), typeof(tokens_in), typeof(cost_usd), typeof(inference_metadata) from messages limit 1";
    assert_eq!(
        run(&store, sql).lines().nth(1),
        Some("UUID,BIGINT,DOUBLE,JSON")
    );
    let sql = "select arguments_json->>'path', typeof(started_at) from tool_calls where op = 'requested' limit 1";
    assert!(run(&store, sql).contains("TIMESTAMP"));
    // Every kind is a view.
    let all = Log::new();
    crate::layout::write_example(&crate::support::still().open(all.path()).unwrap());
    for kind in decklog::Kind::ALL {
        let rows = run(
            &all.path(),
            &format!("select count(*) > 0 from {}", kind.stem()),
        );
        assert_eq!(rows.lines().nth(1), Some("true"), "{kind}");
    }
}

#[test]
fn lnav_knows_the_lines_of_each_kind() {
    if !has("lnav", "-V") {
        return;
    }
    let log = Log::new();
    crate::layout::write_example(&crate::support::still().open(log.path()).unwrap());
    for kind in decklog::Kind::ALL {
        let stem = kind.stem();
        let sql = format!(";select count(*) as lines from decklog_{stem}");
        let rows = opened(&log.path(), &["lnav", stem, "--", "-n", "-c", &sql]);
        let lines: usize = rows.trim().lines().last().unwrap().trim().parse().unwrap();
        assert!(lines > 0, "{stem}: {rows}");
    }
    let (_dir, store) = awkward();
    let sql = ";select count(*) as failed from decklog_tool_calls where log_level = 'error'";
    let rows = opened(&store, &["lnav", "tool_calls", "--", "-n", "-c", sql]);
    assert_eq!(
        rows.trim().lines().last().map(str::trim),
        Some("3"),
        "{rows}"
    );
}

#[test]
fn a_program_that_is_missing_is_told_with_how_to_get_it() {
    let log = Log::imported();
    for (program, words) in [
        ("duckdb", "duckdb-cli"),
        ("lnav", "apt install lnav"),
        ("jq", "apt install jq"),
    ] {
        let mut command = log.command(&["open", program, "--color", "always"]);
        let output = command
            .env("PATH", log.dir.path())
            .env("XDG_CACHE_HOME", log.dir.path())
            .output()
            .unwrap();
        assert_eq!((code(&output), out(&output)), (STORE, String::new()));
        let told = err(&output);
        assert!(
            told.contains(&format!("{program} is not installed")) && told.contains(words),
            "{told}"
        );
    }
    let output = log.run(&["open", "jq", "inbox"]);
    assert_eq!(
        (code(&output), err(&output)),
        (FINDINGS, "decklog: the log has no inbox\n".into())
    );
    // Bug: jq without a file waited for standard input.
    let empty = Log::new();
    empty.record(&[]);
    for program in ["jq", "duckdb", "lnav"] {
        for options in [&["--print"][..], &["--color", "always"]] {
            let args = [&["open", program], options].concat();
            let output = empty.run(&args);
            let told = "decklog: the log has no records\n".to_owned();
            let found = (code(&output), out(&output), err(&output));
            assert_eq!(found, (FINDINGS, String::new(), told), "{args:?}");
        }
    }
    let output = decklog(&["open", "jq", "--store", "/nonexistent/log"])
        .output()
        .unwrap();
    assert_eq!(code(&output), STORE, "{}", err(&output));
}
