//! Lines of Claude Code that are no messages: states, prompts that waited, and plain usage.

use serde_json::{Value, json};

use super::agents::{bytes, folder, lines_that_grow, sizes, tokens};
use super::log::MemoryLog;
use super::{broken, counts, import};
use crate::record::{Role, TurnKind};

fn line(kind: &str, uuid: &str, parent: Option<&str>, more: &Value) -> String {
    let mut line = json!({
        "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s1",
        "timestamp": "2025-12-09T19:47:01.000Z",
    });
    let more = more.as_object().unwrap().clone();
    line.as_object_mut().unwrap().extend(more);
    line.to_string()
}

fn prompt(uuid: &str, parent: Option<&str>, text: &str) -> String {
    let message = json!({"message": {"role": "user", "content": text}});
    line("user", uuid, parent, &message)
}

fn attached(uuid: &str, parent: &str, attachment: &Value) -> String {
    line(
        "attachment",
        uuid,
        Some(parent),
        &json!({"attachment": attachment}),
    )
}

#[test]
fn a_prompt_that_waited_is_a_message_of_the_user() {
    let queued = |prompt: Value, mode: &str| json!({"type": "queued_command", "prompt": prompt, "commandMode": mode});
    let notice = "<task-notification>\n<task-id>a1</task-id>\n</task-notification>";
    let blocks = json!([{"type": "text", "text": "and this"}, {"type": "image", "source": {}}]);
    let lines = [
        prompt("u1", None, "first"),
        attached("a1", "u1", &json!({"type": "file", "content": "x"})),
        attached("a2", "a1", &queued(json!("also do X"), "prompt")),
        attached("a3", "a2", &queued(blocks, "prompt")),
        attached("a4", "a3", &queued(json!(notice), "prompt")),
        attached("a5", "a4", &queued(json!("done"), "task-notification")),
        attached("a6", "a5", &queued(json!(7), "prompt")),
        prompt("u2", Some("a6"), "last"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let report = import(&log, &lines);
    assert_eq!(broken(&report), []);
    let turns = log.turns();
    let said: Vec<(TurnKind, &str)> = turns.iter().map(|t| (t.kind, t.content.as_str())).collect();
    assert_eq!(
        said,
        [
            (TurnKind::User, "first"),
            (TurnKind::User, "also do X"),
            (TurnKind::User, "and this"),
            (TurnKind::SysInfo, notice),
            (TurnKind::SysInfo, "done"),
            (TurnKind::User, "last"),
        ]
    );
    // The chain of parents leads through them, and past the file.
    for pair in turns.windows(2) {
        assert_eq!(pair[1].parent_id, Some(pair[0].id));
    }
    let roles: Vec<Role> = log.messages().iter().map(|it| it.role).collect();
    let (user, system) = (Role::User, Role::System);
    assert_eq!(roles, [user, user, user, system, system, user]);
    assert_eq!(
        counts(&report),
        [("attachment", 2), ("attachment.image", 1)]
    );
    assert_eq!(import(&log, &lines).added, 0);
}

#[test]
fn the_state_of_the_client_is_nothing_and_what_is_not_known_is_counted() {
    let state = |kind: &str| json!({"type": kind, "sessionId": "s1"}).to_string();
    let lines = [
        state("permission-mode"),
        state("last-prompt"),
        json!({"type": "queue-operation", "operation": "enqueue", "content": "also do X",
            "sessionId": "s1", "timestamp": "2025-12-09T19:47:01.000Z"})
        .to_string(),
        prompt("u1", None, "first"),
        // A state in the chain of parents.
        line("worktree-state", "w1", Some("u1"), &json!({})),
        prompt("u2", Some("w1"), "last"),
        state("cost-state"),
        state("something-new"),
        json!({"type": "file-history-snapshot", "messageId": "u1"}).to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let report = import(&log, &lines);
    assert_eq!((report.turns, broken(&report)), (2, vec![]));
    assert_eq!(counts(&report), [("something-new", 1)]);
    let turns = log.turns();
    assert_eq!(turns[1].parent_id, Some(turns[0].id));
}

#[test]
fn lines_that_state_only_tokens_are_responses() {
    let alpha = bytes("claude-code/usage-alpha.ndjson");
    let (log, report) = lines_that_grow("chat.jsonl", &alpha);
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    assert_eq!(sizes(&report), [0, 0, 0, 1, 3, 3]);
    assert_eq!(tokens(&report), [745, 250, 75, 70, 0]);
    let messages = log.messages();
    let costs: Vec<Option<f64>> = messages.iter().map(|it| it.cost_usd).collect();
    assert_eq!(costs, [Some(0.12), Some(0.34), Some(0.56)]);
    let models: Vec<&str> = messages
        .iter()
        .filter_map(|it| it.model_used.as_deref())
        .collect();
    let (sonnet, opus) = ("claude-sonnet-4-20250514", "claude-opus-4-20250514");
    assert_eq!(models, [sonnet, opus, sonnet]);

    let beta = bytes("claude-code/usage-beta.ndjson");
    let log = MemoryLog::default();
    let files: [(&str, &[u8]); 3] = [
        ("a/alpha/chat.jsonl", &alpha),
        ("b/beta/chat.jsonl", &beta),
        ("c/copy/chat.jsonl", &beta),
    ];
    let report = folder(&log, &files);
    assert_eq!(sizes(&report), [0, 0, 0, 2, 5, 5]);
    assert_eq!(tokens(&report), [930, 310, 90, 110, 0]);
}

#[test]
fn the_cost_of_a_response_is_that_of_its_first_line() {
    let answer = |uuid: &str, output: u64, cost: Value| {
        let message = json!({"id": "m1", "model": "m", "role": "assistant", "content": uuid,
            "usage": {"input_tokens": 1, "output_tokens": output}});
        line(
            "assistant",
            uuid,
            None,
            &json!({"message": message, "costUSD": cost}),
        )
    };
    let lines = [
        answer("a1", 1, json!(0.25)),
        answer("a2", 5, json!(0.25)),
        // More of the same response, without an id.
        json!({"sessionId": "s1", "timestamp": "2025-12-09T19:47:01.000Z", "costUSD": 0.5,
            "message": {"id": "m1", "role": "assistant", "usage": {"input_tokens": 1, "output_tokens": 9}}})
        .to_string(),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let log = MemoryLog::default();
    let report = import(&log, &lines);
    assert_eq!((report.api_responses, report.tokens_out), (1, 9));
    let costs: Vec<f64> = log.messages().iter().filter_map(|it| it.cost_usd).collect();
    assert_eq!(costs, [0.25]);
}
