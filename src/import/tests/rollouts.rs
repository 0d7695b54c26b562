//! Messages made of a rollout's lines, and which of them carry the tokens.

use serde_json::json;
use uuid::Uuid;

use super::codex::{A, B, call, line, message, output, run, session, tokens};
use super::log::MemoryLog;
use crate::record::{Role, Source};

fn id(session: &str) -> Uuid {
    session.parse().unwrap()
}

#[test]
fn tokens_stand_for_the_request_that_took_them() {
    let log = MemoryLog::default();
    let context = |model| {
        line(
            "turn_context",
            &json!({"model": model, "cwd": "C:\\work\\ship\\"}),
        )
    };
    let reasoning =
        json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]});
    let lines = [
        session(A),
        context("m1"),
        message("user", "<environment_context>\n</environment_context>"),
        message("user", "please"),
        line("response_item", &reasoning),
        call("c1", "f"),
        tokens(100, 10),
        output("c1", "out".into()),
        context("m2"),
        // Repeated: no growth.
        tokens(100, 10),
        message("assistant", "well"),
        tokens(100, 10),
        tokens(150, 15),
        // No answer was read to which these could belong.
        tokens(160, 17),
        message("assistant", "so"),
        message("user", "and?"),
        tokens(161, 18),
    ];
    let report = run(&log, &lines);
    assert_eq!((report.conversations, report.messages), (1, 12));
    assert_eq!(report.api_responses, 4);
    let rows: Vec<_> = log
        .messages()
        .into_iter()
        .map(|m| (m.role, m.content, m.tokens_in, m.tokens_out, m.model_used))
        .collect();
    let row = |role, content: &str, tokens: Option<(i64, i64)>, model: Option<&str>| {
        let (tokens_in, tokens_out) = tokens.unzip();
        (
            role,
            content.to_owned(),
            tokens_in,
            tokens_out,
            model.map(str::to_owned),
        )
    };
    assert_eq!(
        rows,
        [
            row(
                Role::System,
                "<environment_context>\n</environment_context>",
                None,
                None
            ),
            row(Role::User, "please", None, None),
            row(Role::Assistant, "", None, Some("m1")),
            row(Role::Assistant, "", None, Some("m1")),
            row(Role::Assistant, "", Some((100, 10)), Some("m1")),
            row(Role::Tool, "", None, None),
            row(Role::Assistant, "well", None, Some("m2")),
            row(Role::Assistant, "", Some((50, 5)), Some("m2")),
            row(Role::Assistant, "", Some((10, 2)), Some("m2")),
            row(Role::Assistant, "so", None, Some("m2")),
            row(Role::User, "and?", None, None),
            row(Role::Assistant, "", Some((1, 1)), Some("m2")),
        ]
    );
    let messages = log.messages();
    assert_eq!(messages[3].tool_name.as_deref(), Some("f"));
    assert_eq!(messages[3].tool_args.as_deref(), Some("{}"));
    assert_eq!(messages[5].tool_name.as_deref(), Some("f"));
    assert_eq!(messages[5].tool_result.as_deref(), Some("out"));
    assert_eq!(messages[5].source, Source::Tool);
    // An item is part of the response whose tokens follow, unless a user message comes first.
    let part_of = [2, 3, 6, 9].map(|item| messages[item].part_of);
    let request = [4, 7].map(|request| Some(messages[request].id));
    assert_eq!(part_of[..3], [request[0], request[0], request[1]]);
    assert!(
        messages
            .iter()
            .all(|message| Some(message.id) != part_of[3])
    );
    assert_eq!(messages[4].part_of, None);
    assert_eq!(messages[0].id, log.turns()[0].message_id);
    let conversation = &log.conversations()[0];
    assert_eq!(conversation.session_id.as_deref(), Some(A));
    assert_eq!(conversation.project.as_deref(), Some("ship"));
    assert_eq!(run(&log, &lines).added, 0);
}

#[test]
fn tokens_never_go_to_another_session_and_a_restart_counts_anew() {
    let log = MemoryLog::default();
    let lines = [
        session(A),
        message("assistant", "one"),
        session(B),
        tokens(10, 1),
        message("assistant", "two"),
        tokens(4, 2),
        session(A),
        message("assistant", "three"),
        tokens(7, 7),
    ];
    let report = run(&log, &lines);
    assert_eq!(report.conversations, 2);
    assert_eq!(log.sums(id(A)), (7, 7, 3));
    assert_eq!(log.sums(id(B)), (14, 3, 3));
    assert_eq!((report.tokens_in, report.tokens_out), (21, 10));
    assert_eq!(run(&log, &lines).added, 0);
}

#[test]
fn a_rollout_that_lost_its_start_has_a_conversation_without_a_session() {
    let log = MemoryLog::default();
    run(&log, &[message("user", "hi")]);
    let conversation = &log.conversations()[0];
    assert_eq!(conversation.session_id, None);
    assert_eq!(Some(conversation.id), log.turns()[0].thread_id);
}
