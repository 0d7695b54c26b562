//! The examples in docs/http.md work.

use std::process::{Command, Output};

use super::Service;

/// The first code block of the guide with this fence and this text.
fn block(fence: &str, text: &str) -> String {
    let guide = include_str!("../../../docs/http.md");
    let mut blocks = guide
        .split("\n```")
        .filter_map(|block| block.strip_prefix(fence));
    let found = blocks.find(|block| block.contains(text));
    found.expect("the guide has the block").to_owned()
}

/// `None` if the program is not installed.
fn run(program: &str, script: &str) -> Option<Output> {
    match Command::new(program).args(["-c", script]).output() {
        Ok(output) => Some(output),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            println!("not run: there is no {program} here");
            None
        }
        Err(e) => panic!("{program}: {e}"),
    }
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn its_python_runs_with_nothing_but_the_standard_library() {
    let service = Service::start();
    let script = block("python", "urllib").replace("127.0.0.1:8084", &service.addr.to_string());
    let Some(output) = run("python3", &script) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{why}");
    assert!(said.contains("[{'model_used': 'small-1'"), "{said}");
    assert!(said.contains("'op': 'created'"), "{said}");
    let all = service
        .store
        .conversations(&decklog::query::ConversationQuery::default());
    assert_eq!(all.unwrap().total, 0);
}

#[test]
fn its_curl_runs() {
    if !["bash", "curl", "jq", "gzip"].into_iter().all(is_there) {
        println!("not run: it takes bash, curl, jq and gzip");
        return;
    }
    let service = Service::start();
    let block = block("console", "decklog serve &");
    let lines = block
        .lines()
        .map(|line| line.strip_prefix("$ ").unwrap_or(line));
    let lines = lines.filter(|line| !line.starts_with("decklog serve"));
    let lines: Vec<&str> = lines.collect();
    let script = lines
        .join("\n")
        .replace("127.0.0.1:8084", &service.addr.to_string());
    // Failures are reported; leaving a stream after some seconds is not a failure.
    let script = script
        .replace("curl -s ", "curl -sf ")
        .replace("curl -sN ", "curl -sfN ");
    let script = script.replace("kind=messages\"", "kind=messages\" || test $? = 28");
    let output = run("bash", &format!("set -euo pipefail\n{script}")).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let why = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{why}\n{script}");
    for text in [
        r#""status":"queued""#,
        r#""total":1"#,
        r#""model_used":"small-1","requests":1"#,
        "event: messages\n",
    ] {
        assert!(said.contains(text), "{text}: {said}");
    }
}
