//! Sessions that contain lines of another session: tokens are counted once, in any order of import.

use serde_json::{Value, json};
use uuid::Uuid;

use super::codex::{A, B, message, tokens};
use super::import;
use super::log::MemoryLog;
use super::messages::{answer, call, run, session, text, user};
use crate::import::Report;
use crate::import::ids::foreign_id;

fn requested(mut line: Value, request: &str) -> Value {
    line["requestId"] = json!(request);
    line
}

fn usage(report: &Report) -> (u64, u64, u64) {
    (report.tokens_in, report.tokens_out, report.api_responses)
}

#[test]
fn a_response_is_told_by_its_message_and_its_request() {
    let lines = [
        requested(answer("a1", "r1", text("one"), 10, 1), "q1"),
        requested(answer("a2", "r1", text("two"), 20, 2), "q2"),
        requested(answer("a3", "r1", text("more"), 20, 5), "q2"),
        answer("a4", "r1", text("three"), 40, 4),
    ];
    let log = MemoryLog::default();
    let report = run(&log, &lines);
    assert_eq!(usage(&report), (70, 10, 3));
    assert_eq!(log.usage(), (70, 10, 3));
    assert_eq!(run(&log, &lines).added, 0);
}

/// A gateway that names no requests may restart its message ids in each session.
#[test]
fn a_message_of_no_request_is_that_of_its_session() {
    let mut other = answer("b1", "r1", text("other"), 40, 4);
    other["sessionId"] = json!("s2");
    other["timestamp"] = json!("2025-12-09T20:00:00.000Z");
    let mut more = answer("a2", "r1", text("more"), 10, 5);
    more["timestamp"] = json!("2025-12-09T19:47:09.000Z");
    let one = vec![answer("a1", "r1", text("one"), 10, 1), more];
    let two = vec![other];
    for files in [[&one, &two], [&two, &one]] {
        let log = MemoryLog::default();
        for lines in files {
            run(&log, lines);
        }
        assert_eq!(log.usage(), (50, 9, 2));
        for lines in files {
            assert_eq!(run(&log, lines).added, 0);
        }
    }
}

/// A side question begins with the messages of its session, as answers to requests of its own. The
/// lines have the same ids or new ones.
#[test]
fn what_a_sub_agent_repeats_of_its_session_is_counted_once() {
    let (first, second) = (
        "msg_01AbCdEfGhIjKlMnOpQrStUv",
        "msg_01BbCdEfGhIjKlMnOpQrStUv",
    );
    let session = vec![
        user("u1", "please"),
        requested(answer("a1", first, text("one"), 10, 1), "q1"),
    ];
    for line_ids in ["a1", "b1"] {
        let mut agent = vec![
            requested(answer(line_ids, first, text("one"), 10, 1), "q7"),
            requested(answer("b2", second, text("two"), 20, 2), "q8"),
        ];
        for line in &mut agent {
            line["isSidechain"] = json!(true);
            line["agentId"] = json!("aside");
        }
        for files in [[&session, &agent], [&agent, &session]] {
            let log = MemoryLog::default();
            for lines in files {
                run(&log, lines);
            }
            assert_eq!(log.usage(), (30, 3, 2), "{line_ids}");
            for lines in files {
                assert_eq!(run(&log, lines).added, 0, "{line_ids}");
            }
        }
    }
}

/// A session and a session resumed from it. Its lines have the same ids or new ones.
fn resumed(line_ids: &str) -> [Vec<Value>; 2] {
    let whole = vec![
        user("u1", "please"),
        answer("a1", "r1", text("hm"), 10, 1),
        answer("a2", "r1", call("c1", "Read"), 10, 7),
        answer("a3", "r2", text("so"), 20, 2),
    ];
    let copy = |line: &Value| {
        let mut line = line.clone();
        line["sessionId"] = json!("s2");
        line["uuid"] = json!(format!("{line_ids}{}", line["uuid"].as_str().unwrap()));
        line
    };
    let mut resumed: Vec<Value> = whole.iter().map(copy).collect();
    let mut own = answer("b1", "r3", text("and"), 40, 4);
    own["sessionId"] = json!("s2");
    resumed.push(own);
    [whole, resumed]
}

#[test]
fn a_session_resumed_under_another_id_is_counted_once() {
    let second = foreign_id("claude-code:session", "s2");
    for line_ids in ["", "new-"] {
        let [whole, resumed] = resumed(line_ids);
        let log = MemoryLog::default();
        assert_eq!(usage(&run(&log, &whole)), (30, 9, 2));
        assert_eq!(usage(&run(&log, &resumed)), (40, 4, 1), "{line_ids}");
        assert_eq!(log.usage(), (70, 13, 3));
        assert_eq!(log.sums(session()), (30, 9, 4));
        let messages = if line_ids.is_empty() { 1 } else { 5 };
        assert_eq!(log.sums(second), (40, 4, messages));
        for lines in [&whole, &resumed] {
            assert_eq!(run(&log, lines).added, 0);
        }

        let log = MemoryLog::default();
        run(&log, &resumed);
        run(&log, &whole);
        assert_eq!(log.usage(), (70, 13, 3), "{line_ids}");

        let dir = tempfile::tempdir().unwrap();
        for (name, lines) in [("b.jsonl", &whole), ("a.jsonl", &resumed)] {
            let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
            std::fs::write(dir.path().join(name), lines.join("\n")).unwrap();
        }
        let log = MemoryLog::default();
        let report = super::import_path(&log, dir.path());
        assert_eq!(usage(&report), (70, 13, 3), "{line_ids}");
        assert_eq!(log.usage(), (70, 13, 3));
        assert_eq!(super::import_path(&log, dir.path()).added, 0);
    }
}

#[test]
fn a_part_of_a_response_that_another_file_has_more_of_is_counted_once() {
    let [whole, _] = resumed("");
    // From the second line of the response.
    let later = &whole[2..];
    for files in [[&whole[..], later], [later, &whole[..]]] {
        let log = MemoryLog::default();
        for lines in files {
            run(&log, lines);
        }
        assert_eq!(log.usage(), (30, 9, 2));
    }
}

/// A fork at any position, also inside a response, that later contains more of its session: each
/// line is one message and each response counts once, in any order of import.
#[test]
fn a_fork_within_a_response_is_counted_once() {
    let whole = vec![
        user("u1", "please"),
        answer("a1", "r1", text("hm"), 10, 1),
        answer("a2", "r1", text("well"), 10, 4),
        answer("a3", "r1", call("c1", "Read"), 10, 9),
        answer("a4", "r2", text("so"), 20, 2),
    ];
    let fork = |until: usize| {
        let mut lines = whole[..until].to_vec();
        lines.push(answer("b1", "r3", text("and"), 40, 4));
        for line in &mut lines {
            line["sessionId"] = json!("s2");
        }
        lines
    };
    for until in 1..=whole.len() {
        let (begun, fork, grown) = (&whole[..until], &fork(until), &fork(whole.len()));
        let orders: [&[&[Value]]; 6] = [
            &[&whole, fork],
            &[fork, &whole],
            &[begun, fork, &whole],
            &[fork, begun, &whole],
            &[begun, grown, &whole],
            &[fork, &whole, grown],
        ];
        for (order, files) in orders.into_iter().enumerate() {
            let case = format!("until {until}, order {order}");
            let log = MemoryLog::default();
            for lines in files {
                run(&log, lines);
            }
            assert_eq!(log.usage(), (70, 15, 3), "{case}");
            assert_eq!(log.messages().len(), 6, "{case}");
            for lines in files {
                let again = run(&log, lines);
                assert_eq!(again.added, 0, "{case}");
            }
            // Also if turns have a shorter retention than messages. One case is not solved: a file
            // ended before a response, and another file contained the response. Then no message
            // shows that the response's first line is the same in both. It is stored twice and
            // counted once.
            let forgetful = MemoryLog::default();
            for lines in files.iter().chain(files) {
                run(&forgetful, lines);
                forgetful.forget_turns();
            }
            let is_open = [1, 4].contains(&until) && [4, 5].contains(&order);
            assert_eq!(forgetful.usage(), (70, 15, 3), "{case}");
            let messages = forgetful.messages().len();
            assert_eq!(messages, 6 + usize::from(is_open), "{case}");
            // All in one import.
            let dir = tempfile::tempdir().unwrap();
            for (place, lines) in files.iter().enumerate() {
                let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
                let path = dir.path().join(format!("{place}.jsonl"));
                std::fs::write(path, lines.join("\n")).unwrap();
            }
            let empty = MemoryLog::default();
            for log in [&empty, &log] {
                let report = super::import_path(log, dir.path());
                assert_eq!(usage(&report), (70, 15, 3), "{case}");
                assert_eq!(log.usage(), (70, 15, 3), "{case}");
                assert_eq!(log.messages().len(), 6, "{case}");
            }
        }
    }
}

const MADE_AT: &str = "2026-06-08T11:39:04.000Z";

/// A line of a rollout with this time.
fn at(time: &str, line: String) -> String {
    line.replace("2025-12-09T19:55:16.336Z", time)
}

fn meta(id: &str, more: Value) -> String {
    let mut payload = json!({"id": id, "timestamp": MADE_AT});
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    at(MADE_AT, super::codex::line("session_meta", &payload))
}

fn event(kind: &str, item: &str, time: &str, more: Value) -> String {
    let mut payload = json!({"type": item});
    payload
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().cloned().unwrap_or_default());
    at(time, super::codex::line(kind, &payload))
}

fn began(time: &str, turn: Value) -> String {
    event("event_msg", "task_started", time, turn)
}

fn imported(log: &MemoryLog, lines: &[String]) -> Report {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let report = import(log, &lines);
    assert_eq!(report.broken, []);
    report
}

fn id(session: &str) -> Uuid {
    session.parse().unwrap()
}

/// Forks in all known forms. Each has two copied responses of 100 tokens in total and one own
/// response of 30 tokens.
pub(super) fn forks() -> Vec<(&'static str, Vec<String>)> {
    let parent = || meta(A, json!({}));
    let fork = |more: Value| meta(B, more);
    let marked = || fork(json!({"forked_from_id": A}));
    let copies = |times: [&str; 4]| {
        vec![
            at(times[0], message("user", "please")),
            at(times[1], tokens(60, 6)),
            at(times[2], message("assistant", "so")),
            at(times[3], tokens(100, 10)),
        ]
    };
    let stamped = [
        "2026-06-08T11:39:04.001Z",
        "2026-06-08T11:39:04.900Z",
        "2026-06-08T11:39:05.200Z",
        "2026-06-08T11:39:06.100Z",
    ];
    let kept = ["2026-06-08T09:00:00.000Z"; 4];
    let own = |time: &str| {
        vec![
            at(time, message("assistant", "own")),
            at(time, tokens(130, 13)),
        ]
    };
    let v7 = |ms: u128| json!({"turn_id": Uuid::from_u128(ms << 80 | 7 << 76 | 2 << 62)});
    let (then, now) = (1_780_900_000_000, 1_780_918_745_000);
    let close = "2026-06-08T11:39:06.400Z";
    let late = "2026-06-08T11:39:08.300Z";
    let context = |time: &str, turn: Value| event("turn_context", "", time, turn);
    let numbered = |lines: Vec<String>| -> Vec<String> {
        let line = |(n, line): (usize, String)| {
            let mut line: Value = serde_json::from_str(&line).unwrap();
            line["ordinal"] = json!(n + 1);
            line.to_string()
        };
        lines.into_iter().enumerate().map(line).collect()
    };
    vec![
        (
            "by the ids of turns",
            [
                vec![marked(), parent(), began(stamped[0], v7(then))],
                copies(stamped),
                vec![began(close, v7(now))],
                own(close),
            ]
            .concat(),
        ),
        (
            "by the contexts of turns, of several ancestors",
            [
                vec![marked(), parent(), meta(&A.replace('c', "d"), json!({}))],
                vec![context(stamped[0], v7(then))],
                copies(stamped),
                vec![context(close, v7(now))],
                own(close),
            ]
            .concat(),
        ),
        (
            "by the times of turns",
            [
                vec![marked(), parent()],
                vec![began(
                    stamped[0],
                    json!({"turn_id": "x", "started_at": then / 1000}),
                )],
                copies(stamped),
                vec![began(
                    close,
                    json!({"turn_id": "y", "started_at": now / 1000}),
                )],
                own(close),
            ]
            .concat(),
        ),
        (
            "by the pause",
            [vec![marked()], copies(stamped), own(late)].concat(),
        ),
        (
            "without a mark, by the parent's own line",
            [vec![fork(json!({})), parent()], copies(stamped), own(late)].concat(),
        ),
        (
            "by the number of its first line",
            numbered(
                [
                    vec![fork(json!({"subagent_history_start_ordinal": 6}))],
                    copies(stamped),
                    own(stamped[3]),
                ]
                .concat(),
            ),
        ),
        (
            "by the times that copies kept",
            [vec![fork(json!({}))], copies(kept), own(stamped[0])].concat(),
        ),
    ]
}

/// A fork that keeps its parent's times except on its first line.
fn fork_with_its_parents_times() -> Vec<String> {
    let parents = json!({"forked_from_id": A, "timestamp": "2026-06-08T08:59:00.000Z"});
    let time = "2026-06-08T11:39:04.001Z";
    vec![
        meta(B, parents),
        at("2026-06-08T09:00:00.000Z", message("user", "please")),
        at("2026-06-08T09:10:00.000Z", tokens(60, 6)),
        at("2026-06-08T09:20:00.000Z", message("assistant", "so")),
        at("2026-06-08T09:30:00.000Z", tokens(100, 10)),
        at(time, message("assistant", "own")),
        at(time, tokens(130, 13)),
    ]
}

#[test]
fn a_forked_rollout_has_its_own_part_alone() {
    let by_its_first_line = (
        "by the time of its first line",
        fork_with_its_parents_times(),
    );
    for (form, lines) in forks().into_iter().chain([by_its_first_line]) {
        let log = MemoryLog::default();
        let report = imported(&log, &lines);
        assert_eq!(usage(&report), (30, 3, 1), "{form}");
        assert_eq!(log.sums(id(B)), (30, 3, 2), "{form}");
        assert_eq!(log.conversations().len(), 1, "{form}");
        assert!(report.repeated >= 4, "{form}");
        // For every position of the cut.
        for until in 1..lines.len() {
            let cut = MemoryLog::default();
            imported(&cut, &lines[..until]);
            imported(&cut, &lines);
            assert_eq!(cut.content(), log.content(), "{form}, cut at {until}");
        }
    }
}

#[test]
fn a_rollout_with_a_parent_and_no_copies_loses_nothing() {
    let spawned = json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": A}}}});
    let begun = json!({"turn_id": "fresh", "started_at": 1_780_918_744});
    let soon = "2026-06-08T11:39:04.300Z";
    for (form, lines) in [
        ("a sub-agent", vec![meta(B, spawned)]),
        (
            "a fork that begins at once",
            vec![meta(B, json!({"forked_from_id": A})), began(soon, begun)],
        ),
    ] {
        let own = [message("user", "please"), tokens(60, 6), tokens(100, 10)];
        let lines = [lines, own.map(|line| at(soon, line)).into()].concat();
        let log = MemoryLog::default();
        let report = imported(&log, &lines);
        assert_eq!(usage(&report), (100, 10, 2), "{form}");
        assert_eq!((report.repeated, log.messages().len()), (0, 3), "{form}");
    }
}

#[test]
fn a_rollout_again_under_another_id_is_counted_once() {
    let own = |session: &str, more: &[String]| {
        let lines = [
            super::codex::session(session),
            message("user", "please"),
            message("assistant", "so"),
            tokens(60, 6),
            message("assistant", "well"),
            tokens(100, 10),
        ];
        [&lines[..], more].concat()
    };
    let whole = own(A, &[]);
    let again = own(B, &[message("assistant", "own"), tokens(130, 13)]);
    for files in [[&whole, &again], [&again, &whole]] {
        let log = MemoryLog::default();
        for lines in files {
            imported(&log, lines);
        }
        assert_eq!(log.usage(), (130, 13, 3));
        for lines in files {
            assert_eq!(imported(&log, lines).added, 0);
        }
    }
}
