//! Event files of Copilot CLI.

use std::fs;

use super::agents::{bytes, lines_that_grow, sizes, tokens};
use super::log::MemoryLog;
use super::{broken, counts, import_path};
use crate::import::{foreign_id, named};
use crate::record::Role;

const SESSION: &str = "0f9d3c52-6a41-4d0e-8f1b-2f6a1c0e7b11";

#[test]
fn the_tokens_are_those_that_the_client_states_when_it_ends() {
    let (log, report) = lines_that_grow("x.jsonl", &bytes("copilot-cli/usage.ndjson"));
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [5, 2, 2, 1, 7, 2]);
    assert_eq!(tokens(&report), [7_000_000, 41_400, 0, 6_800_000, 0]);
    assert_eq!(counts(&report), []);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(talk.session_id.as_deref(), Some("cli-session-usage"));
    assert_eq!(talk.workspace.as_deref(), Some("/home/user/project"));
    assert_eq!(
        talk.title.as_deref(),
        Some("Improve the Copilot CLI parser")
    );
    let of = |model: &str| -> i64 {
        let messages = log.messages().into_iter();
        let of = messages.filter(|it| it.model_used.as_deref() == Some(model));
        of.filter_map(|it| it.tokens_in).sum()
    };
    assert_eq!(of("gpt-5.4"), 4_700_000);
    assert_eq!(of("claude-sonnet-4.5"), 2_300_000);
}

#[test]
fn a_sub_agent_has_its_own_conversation() {
    let (log, report) = lines_that_grow("x/events.jsonl", &bytes("copilot-cli/subagent.ndjson"));
    assert_eq!(report.broken, []);
    assert_eq!(sizes(&report), [16, 3, 3, 2, 19, 6]);
    assert_eq!(tokens(&report), [7200, 313, 1000, 3500, 20]);
    assert_eq!(
        counts(&report),
        [("session.future_event", 1), ("user.attachment.file", 1)]
    );
    assert_eq!(log.failed_calls(), ["toolu_02BashBashBashBashBash"]);
    let main = foreign_id("copilot-cli:session", SESSION);
    let call = "toolu_01ExploreExploreExplore";
    let agent = named("copilot-cli:agent", &format!("{main}:{call}"));
    let talks = log.conversations();
    assert_eq!([talks[0].id, talks[1].id], [main, agent]);
    assert_eq!(
        talks[0].title.as_deref(),
        Some("Why is the cart total wrong?")
    );
    assert_eq!(talks[1].title.as_deref(), Some("Explore agent"));
    assert_eq!(talks[1].parent_id, Some(main));
    assert_eq!(talks[1].parent_call_id.as_deref(), Some(call));
    assert_eq!(talks[1].session_id.as_deref(), Some(SESSION));
    for talk in &talks {
        assert_eq!(talk.agent.as_deref(), Some("copilot-cli"));
    }
    let branches = log.messages().into_iter().map(|it| it.git_branch);
    assert!(branches.eq(vec![Some("fix-cart".to_owned()); 19]));
    assert_eq!(log.sums(agent), (1500, 55, 6));
    let messages = log.messages();
    let split: Vec<_> = messages
        .iter()
        .filter(|it| it.content == "See line 1.")
        .collect();
    assert_eq!(split[0].part_of.is_some(), split[0].tokens_out.is_none());
    let reasoned = messages.iter().filter(|it| it.reasoning.is_some());
    assert_eq!(reasoned.count(), 1);
    let cost: Vec<f64> = messages.iter().filter_map(|it| it.cost_usd).collect();
    assert_eq!(cost, [0.025, 0.005]);
    let failed = messages.iter().find(|it| it.error.is_some()).unwrap();
    assert_eq!(failed.error.as_deref(), Some("Too many requests"));
    assert_eq!(failed.role, Role::Assistant);
}

#[test]
fn the_name_of_a_session_is_in_the_file_beside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s1/events.jsonl");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // The start of the file is missing: the folder has the name of the session.
    let line =
        r#"{"type":"user.message","data":{"content":"hi"},"timestamp":"2026-02-09T09:28:31Z"}"#;
    fs::write(&path, line).unwrap();
    let log = MemoryLog::default();
    assert_eq!(import_path(&log, &path).conversations, 1);
    fs::write(
        path.with_file_name("workspace.yaml"),
        "id: s1\nname: \"Fix the login\"\nuser_named: true\n",
    )
    .unwrap();
    assert_eq!(import_path(&log, &path).added, 1);
    assert_eq!(import_path(&log, &path).added, 0);
    let [talk] = &log.conversations()[..] else {
        panic!("one conversation");
    };
    assert_eq!(talk.title.as_deref(), Some("Fix the login"));
    assert_eq!(talk.session_id.as_deref(), Some("s1"));
}

#[test]
fn an_event_that_cannot_be_read_is_counted_or_broken() {
    let lines = [
        r#"{"type":"session.start","data":{"sessionId":"s"},"timestamp":"2026-02-09T09:28:31Z"}"#,
        r#"{"type":"user.message","data":7,"timestamp":"2026-02-09T09:28:31Z"}"#,
        r#"{"type":"user.message","data":{"content":"x"},"timestamp":"yesterday"}"#,
        r#"{"type":"tool.execution_complete","data":{"success":true},"timestamp":"2026-02-09T09:28:31Z"}"#,
        "[]",
    ];
    let report = super::import(&MemoryLog::default(), &lines);
    let [(3, reason)] = &broken(&report)[..] else {
        panic!("{:?}", report.broken);
    };
    assert!(reason.contains("RFC 3339"), "{reason}");
    assert_eq!(
        counts(&report),
        [
            ("(not an object)", 1),
            ("tool.execution_complete", 1),
            ("user.message", 1)
        ]
    );
}
