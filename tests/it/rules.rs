//! The rules of turns and tool calls, tested through the trait that agents use: allowed orders,
//! repetitions, refusals, and that every byte is returned unchanged.

#![allow(clippy::unwrap_used, clippy::case_sensitive_file_extension_comparisons)]

use std::fs;

use decklog::query::{CallQuery, Order, TurnQuery};
use decklog::record::{JSON_DEPTH_MAX, NAME_BYTES_MAX};
use decklog::storage::Disk;
use decklog::{
    AckStatus, CallStatus, ConversationTurn, ErrorKind, ObservabilityStore, Store, ToolCallDone,
    ToolCallReq, ToolStatus, Validity, args_sha256, verify,
};
use proptest::prelude::*;
use uuid::Uuid;

use super::support::{DAY_1, DAY_MS, count, done, failed, request, turn};

struct Log {
    store: Store,
    dir: tempfile::TempDir,
}

impl Log {
    fn new() -> Log {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        Log { store, dir }
    }

    /// Number of lines. All of them are valid.
    fn lines(&self) -> u64 {
        let found = verify(&Disk::new(self.dir.path().join("log"))).unwrap();
        assert!(found.is_clean(), "{found:?}");
        found.good_lines
    }

    fn call(&self, req: &ToolCallReq) -> Option<(ToolCallReq, Option<ToolCallDone>)> {
        self.store
            .get_tool_call(req.request_id, &req.call_id)
            .unwrap()
    }
}

#[test]
fn requested_twice_is_one_call() {
    let log = Log::new();
    let req = request(1, "call_1", DAY_1);
    for _ in 0..3 {
        log.store.record_tool_call_requested(req.clone()).unwrap();
    }
    assert_eq!(log.lines(), 1);
    let changed = ToolCallReq {
        tool_name: "write_file".into(),
        ..req.clone()
    };
    log.store
        .record_tool_call_requested(changed.clone())
        .unwrap();
    assert_eq!(log.lines(), 2);
    assert_eq!(log.call(&req), Some((changed.clone(), None)));
    let listed = log
        .store
        .list_tool_calls_by_parent(req.parent_id, 10)
        .unwrap();
    assert_eq!(listed, [(changed, None)]);
}

#[test]
fn the_same_outcome_again_changes_nothing_and_another_one_is_refused() {
    let log = Log::new();
    let req = request(1, "call_1", DAY_1);
    log.store.record_tool_call_requested(req.clone()).unwrap();
    for _ in 0..3 {
        log.store.record_tool_call_done(done(&req)).unwrap();
    }
    assert_eq!(log.lines(), 2);
    let others = [
        failed(&req),
        ToolCallDone {
            latency_ms: 13,
            ..done(&req)
        },
        ToolCallDone {
            ended_at: Validity::at(DAY_1 + 13),
            ..done(&req)
        },
        ToolCallDone {
            outcome_json: None,
            ..done(&req)
        },
    ];
    for other in others {
        let err = log.store.record_tool_call_done(other.clone()).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Conflict);
        let words = format!("{} ", other.status.as_str());
        assert!(
            err.to_string().contains("completed ") && err.to_string().contains(&words),
            "{err}"
        );
        assert!(err.key().unwrap().contains("call_1"), "{err}");
    }
    assert_eq!(log.lines(), 2);
    assert_eq!(log.call(&req), Some((req.clone(), Some(done(&req)))));
    // And the other way round.
    let req = request(2, "call_2", DAY_1);
    log.store.record_tool_call_requested(req.clone()).unwrap();
    log.store.record_tool_call_done(failed(&req)).unwrap();
    let err = log.store.record_tool_call_done(done(&req)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Conflict);
    assert_eq!(
        log.call(&req).unwrap().1.unwrap().status,
        ToolStatus::Failed
    );
}

#[test]
fn an_outcome_needs_its_request() {
    let log = Log::new();
    let req = request(1, "call_1", DAY_1);
    let err = log.store.record_tool_call_done(done(&req)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    assert_eq!(log.lines(), 0);
    assert_eq!(log.call(&req), None);
    // The same call id in another request is another call.
    log.store
        .record_tool_call_requested(request(2, "call_1", DAY_1))
        .unwrap();
    let err = log.store.record_tool_call_done(done(&req)).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
}

#[test]
fn a_changed_request_keeps_the_outcome() {
    let log = Log::new();
    let req = request(1, "call_1", DAY_1);
    log.store.record_tool_call_requested(req.clone()).unwrap();
    log.store.record_tool_call_done(done(&req)).unwrap();
    let changed = ToolCallReq {
        vendor: "openai".into(),
        parent_id: Uuid::from_u128(77),
        ..req.clone()
    };
    log.store
        .record_tool_call_requested(changed.clone())
        .unwrap();
    assert_eq!(log.call(&req), Some((changed.clone(), Some(done(&req)))));
    let completed = CallQuery {
        status: Some(CallStatus::Completed),
        ..CallQuery::default()
    };
    assert_eq!(log.store.tool_calls(&completed).unwrap().items.len(), 1);
    assert_eq!(
        log.store
            .list_tool_calls_by_parent(req.parent_id, 10)
            .unwrap(),
        []
    );
    assert_eq!(
        log.store
            .list_tool_calls_by_parent(changed.parent_id, 10)
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn a_retracted_record_is_gone_from_then_on_and_there_before() {
    let log = Log::new();
    let said = turn(1, "one", DAY_1);
    let req = request(1, "call_1", DAY_1);
    log.store.upsert_conversation_turn(said.clone()).unwrap();
    log.store.record_tool_call_requested(req.clone()).unwrap();
    log.store.record_tool_call_done(done(&req)).unwrap();
    let later = DAY_1 + DAY_MS;
    let unsaid = ConversationTurn {
        created_at: Validity::retracted(later),
        ..said.clone()
    };
    let withdrawn = ToolCallReq {
        started_at: Validity::retracted(later),
        ..req.clone()
    };
    for _ in 0..2 {
        log.store.upsert_conversation_turn(unsaid.clone()).unwrap();
        log.store
            .record_tool_call_requested(withdrawn.clone())
            .unwrap();
    }
    assert_eq!(log.lines(), 5);
    assert_eq!(log.store.get_turn(said.id).unwrap(), None);
    assert_eq!(log.store.list_conversation_since(0, 10).unwrap(), []);
    assert_eq!(log.call(&req), None);
    assert_eq!(
        log.store
            .list_tool_calls_by_parent(req.parent_id, 10)
            .unwrap(),
        []
    );
    // Repeating the existing outcome changes nothing; another outcome has no call to belong to.
    log.store.record_tool_call_done(done(&req)).unwrap();
    let other = ToolCallDone {
        latency_ms: 99,
        ..done(&req)
    };
    let err = log.store.record_tool_call_done(other).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::NotFound);
    for (at, stood) in [
        (DAY_1 - 1, false),
        (DAY_1, true),
        (later - 1, true),
        (later, false),
    ] {
        let view = log.store.as_of(at);
        assert_eq!(view.get_turn(said.id).unwrap().is_some(), stood, "{at}");
        assert_eq!(
            view.turns(&TurnQuery::default()).unwrap().items.len(),
            usize::from(stood),
            "{at}"
        );
        let call = view.get_tool_call(req.request_id, &req.call_id).unwrap();
        assert_eq!(call.is_some(), stood, "{at}");
        // The outcome was recorded 12 ms after the request.
        assert_eq!(
            call.is_some_and(|(_, done)| done.is_some()),
            at == later - 1,
            "{at}"
        );
    }
    // Recorded again, it is no longer retracted.
    let again = ConversationTurn {
        created_at: Validity::at(later + 1),
        ..said.clone()
    };
    log.store.upsert_conversation_turn(again.clone()).unwrap();
    assert_eq!(log.store.get_turn(said.id).unwrap(), Some(again));
    assert_eq!(log.store.as_of(later).get_turn(said.id).unwrap(), None);

    let never = ConversationTurn {
        created_at: Validity::retracted(DAY_1),
        ..turn(9, "", DAY_1)
    };
    assert_eq!(
        log.store
            .upsert_conversation_turn(never)
            .unwrap_err()
            .kind(),
        ErrorKind::Lifecycle
    );
    let never = ToolCallReq {
        started_at: Validity::retracted(DAY_1),
        ..request(9, "x", DAY_1)
    };
    assert_eq!(
        log.store
            .record_tool_call_requested(never)
            .unwrap_err()
            .kind(),
        ErrorKind::Lifecycle
    );
}

#[test]
fn the_same_is_what_means_the_same() {
    let log = Log::new();
    let with = |arguments: &str| ToolCallReq {
        args_sha256: decklog::args_sha256(arguments),
        arguments_json: Some(arguments.into()),
        ..request(1, "call_1", DAY_1)
    };
    let record = |arguments: &str| log.store.record(with(arguments)).unwrap().status;
    assert_eq!(record(r#"{"a":1,"b":"\u00e9"}"#), AckStatus::Added);
    for same in [
        r#"{"b":"é","a":1}"#,
        "{ \"a\" : 1.0 ,\n\"b\" : \"\\u00E9\" }",
        r#"{"a":1e0,"b":"é"}"#,
    ] {
        assert_eq!(record(same), AckStatus::Unchanged, "{same}");
    }
    // Digits that a double would lose, repeated members, reordered arrays, invalid JSON.
    let others = [
        r#"{"a":2,"b":"é"}"#,
        "[1,2]",
        "[2,1]",
        "[9007199254740993]",
        "[9007199254740992]",
        r#"{"a":1,"a":2}"#,
        r#"{"a":2}"#,
        "[1e400]",
        "[1e401]",
        "[1E400]",
        "text",
        "text ",
        "",
    ];
    for other in others {
        assert_eq!(record(other), AckStatus::Added, "{other}");
        assert_eq!(record(other), AckStatus::Unchanged, "{other}");
        assert_eq!(
            log.call(&with("")).unwrap().0.arguments_json.as_deref(),
            Some(other)
        );
    }
    let without = ToolCallReq {
        arguments_json: None,
        ..with("")
    };
    assert_eq!(log.store.record(without).unwrap().status, AckStatus::Added);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ \\t\\r\\n]{0,2}[{\\[][\\x00-\\x7f]{0,30}[}\\]][ \\t\\r\\n]{0,2}",
        prop::collection::vec(any::<char>(), 0..20).prop_map(|chars| chars.into_iter().collect()),
        any_json(),
    ]
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?",
        any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(r#""\ud83d\ude00\/\u0000""#.to_owned()),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(" , "))),
            prop::collection::vec(("[a-c\"\\\\]", inner), 0..4).prop_map(|members| {
                let member = |(name, value): (String, String)| {
                    format!("{}:{value}", serde_json::to_string(&name).unwrap())
                };
                let members: Vec<String> = members.into_iter().map(member).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

#[test]
fn every_byte_comes_back() {
    let log = Log::new();
    let config = ProptestConfig {
        cases: count("DECKLOG_ROUND_TRIPS", 300) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let next_id = std::cell::Cell::new(1);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let texts = (any_text(), any_text(), any_text());
    runner
        .run(&texts, |(content, arguments, outcome)| {
            let id = next_id.get();
            next_id.set(id + 1);
            let said = turn(id, &content, DAY_1);
            let req = ToolCallReq {
                args_sha256: decklog::args_sha256(&arguments),
                arguments_json: Some(arguments),
                ..request(id, &format!("c{content:.200}"), DAY_1)
            };
            let end = ToolCallDone {
                outcome_json: Some(outcome),
                error_kind: Some(content.clone()),
                error_msg: Some(content),
                ..failed(&req)
            };
            log.store.record(said.clone()).unwrap();
            // A call id may be too long.
            prop_assume!(req.call_id.len() <= NAME_BYTES_MAX);
            log.store.record(req.clone()).unwrap();
            log.store.record(end.clone()).unwrap();
            prop_assert_eq!(log.store.get_turn(said.id).unwrap(), Some(said));
            prop_assert_eq!(log.call(&req), Some((req, Some(end))));
            Ok(())
        })
        .unwrap();
    log.lines();
}

#[test]
fn the_awkward_payloads_come_back() {
    let log = Log::new();
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let deep_text = "[".repeat(5_000);
    let digits = format!("[1{}]", "0".repeat(400));
    let deepest = nested(JSON_DEPTH_MAX - 1);
    let texts = [
        "",
        " ",
        "null",
        "true",
        "\"text\"",
        "\"",
        "{",
        "}",
        "{}",
        "[]",
        " {}",
        "{} ",
        "{}\n",
        "\r",
        "a\rb",
        "{\"a\":\r1}",
        "{\"a\":\n1}",
        "\u{0}",
        "{\"a\":\"\\u0000\"}",
        "\u{2028}\u{2029}",
        "{\"a\":\"\u{2028}\"}",
        "\u{FEFF}{}",
        "1e400",
        "[1e400]",
        &digits,
        "{\"a\":1,\"a\":2}",
        "[0.1e-7, -0]",
        "\\",
        "{\"\\\\\":\"\\\"\"}",
        "{\"crc\":\"00000000\"}",
        ",\"crc\":\"00000000\"}",
        "{\"seq\":1,\"at\":2,\"op\":\"requested\"}",
        &deepest,
        &deep_text,
        "{a}",
        "[1,]",
        "{\"a\":1}}",
        "\u{10FFFF}\u{E000}",
        "[\"\\ud83d\\ude00\"]",
        "[\"\\\\ud800\"]",
        "\\ud800",
    ];
    for (id, text) in (1..).zip(texts) {
        let req = ToolCallReq {
            args_sha256: decklog::args_sha256(text),
            arguments_json: Some(text.into()),
            ..request(id, "c", DAY_1)
        };
        let end = ToolCallDone {
            outcome_json: Some(text.into()),
            ..done(&req)
        };
        let said = turn(id, text, DAY_1);
        log.store.record(req.clone()).unwrap();
        log.store.record(end.clone()).unwrap();
        log.store.record(said.clone()).unwrap();
        assert_eq!(log.call(&req), Some((req, Some(end))), "{text:?}");
        assert_eq!(log.store.get_turn(said.id).unwrap(), Some(said), "{text:?}");
    }
    let lines = log.lines();
    let deep = nested(JSON_DEPTH_MAX);
    let very_deep = nested(100_000);
    for (text, word) in [
        (&*deep, "64"),
        (&very_deep, "100000"),
        ("[\"\\ud800\"]", "surrogate"),
        ("{\"a\":\"\\udc00\\ud800\"}", "surrogate"),
    ] {
        let req = ToolCallReq {
            args_sha256: decklog::args_sha256(text),
            arguments_json: Some(text.into()),
            ..request(999, "c", DAY_1)
        };
        let err = log.store.record(req).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(
            err.to_string().contains("arguments_json") && err.to_string().contains(word),
            "{err}"
        );
    }
    assert_eq!(log.lines(), lines);
}

#[test]
fn lists_have_their_order_and_their_limits() {
    let log = Log::new();
    for id in [5u128, 3, 4, 1, 2] {
        let at = DAY_1 + [0, 0, 0, 1, 1, 2][id as usize];
        log.store
            .upsert_conversation_turn(turn(id, "", at))
            .unwrap();
        log.store
            .record_tool_call_requested(request(id, "c", at))
            .unwrap();
    }
    let ids = |turns: Vec<ConversationTurn>| {
        turns
            .iter()
            .map(|turn| turn.id.as_u128())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        ids(log.store.list_conversation_since(DAY_1, 10).unwrap()),
        [1, 2, 3, 4, 5]
    );
    assert_eq!(
        ids(log.store.list_conversation_since(DAY_1 + 1, 2).unwrap()),
        [3, 4]
    );
    assert_eq!(log.store.list_conversation_since(0, 0).unwrap(), []);
    assert_eq!(log.store.list_conversation_since(i64::MAX, 10).unwrap(), []);
    assert_eq!(
        log.store
            .list_conversation_since(i64::MIN, usize::MAX)
            .unwrap()
            .len(),
        5
    );
    let parent = request(1, "", 0).parent_id;
    let calls = |limit| -> Vec<u128> {
        let calls = log.store.list_tool_calls_by_parent(parent, limit).unwrap();
        calls
            .iter()
            .map(|(req, _)| req.request_id.as_u128())
            .collect()
    };
    assert_eq!(calls(10), [5, 3, 4, 1, 2]);
    assert_eq!(calls(3), [5, 3, 4]);
    assert_eq!(calls(0), []);
    assert_eq!(
        log.store
            .list_tool_calls_by_parent(Uuid::nil(), 10)
            .unwrap(),
        []
    );
}

#[test]
fn a_cursor_walks_every_record_once_while_others_come() {
    for order in [Order::OldestFirst, Order::NewestFirst] {
        let log = Log::new();
        let at = |id: u128| DAY_1 + (id as i64 * 7) % 5;
        for id in 1..=50 {
            log.store
                .upsert_conversation_turn(turn(id, "", at(id)))
                .unwrap();
        }
        let mut seen = Vec::new();
        let mut query = TurnQuery {
            order,
            limit: 3,
            ..TurnQuery::default()
        };
        let mut next_id = 51;
        loop {
            let page = log.store.turns(&query).unwrap();
            seen.extend(page.items.iter().map(|turn| turn.id.as_u128()));
            let Some(next) = page.next else { break };
            // Passed as text, as to another process, and parsed back.
            query.after = Some(next.to_string().parse().unwrap());
            if next_id < 80 {
                log.store
                    .upsert_conversation_turn(turn(next_id, "", at(next_id)))
                    .unwrap();
                next_id += 1;
            }
        }
        for id in 1..=50 {
            assert_eq!(
                seen.iter().filter(|known| **known == id).count(),
                1,
                "{order:?}: {id}"
            );
        }
        let distinct: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(distinct.len(), seen.len(), "{order:?}");
    }
}

#[test]
fn the_hash_of_the_arguments_is_taken_in_any_spelling_and_no_other() {
    let log = Log::new();
    let hash = args_sha256("{}");
    let given = |args_sha256: String| ToolCallReq {
        args_sha256,
        arguments_json: None,
        ..request(1, "c", DAY_1)
    };
    for spelling in [
        hash.clone(),
        format!("sha256:{hash}"),
        hash.to_uppercase(),
        format!("sha256:{}", hash.to_uppercase()),
    ] {
        log.store
            .record_tool_call_requested(given(spelling))
            .unwrap();
        assert_eq!(log.call(&given(String::new())).unwrap().0.args_sha256, hash);
    }
    assert_eq!(log.lines(), 1);
    let wrong = [
        String::new(),
        "sha256:".into(),
        hash[1..].into(),
        format!("{hash}0"),
        hash.replace(|_| true, "g"),
        format!("SHA256:{hash}"),
        "é".repeat(32),
    ];
    for wrong in wrong {
        let err = log
            .store
            .record_tool_call_requested(given(wrong.clone()))
            .unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput, "{wrong}");
        assert!(err.to_string().contains("args_sha256"), "{err}");
    }
}

#[test]
fn what_cannot_be_is_refused_and_nothing_written() {
    let log = Log::new();
    let req = request(1, "c", DAY_1);
    log.store.record_tool_call_requested(req.clone()).unwrap();
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let requests = [
        (
            ToolCallReq {
                call_id: String::new(),
                ..req.clone()
            },
            "call_id",
        ),
        (
            ToolCallReq {
                call_id: long.clone(),
                ..req.clone()
            },
            "call_id",
        ),
        (
            ToolCallReq {
                vendor: long.clone(),
                ..req.clone()
            },
            "vendor",
        ),
        (
            ToolCallReq {
                tool_name: long.clone(),
                ..req.clone()
            },
            "tool_name",
        ),
    ];
    for (bad, word) in requests {
        let err = log.store.record_tool_call_requested(bad).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(err.to_string().contains(word), "{err}");
    }
    let outcomes = [
        (
            ToolCallDone {
                call_id: String::new(),
                ..done(&req)
            },
            "call_id",
        ),
        (
            ToolCallDone {
                latency_ms: -1,
                ..done(&req)
            },
            "latency_ms",
        ),
        (
            ToolCallDone {
                ended_at: Validity::retracted(DAY_1),
                ..done(&req)
            },
            "ended_at",
        ),
    ];
    for (bad, word) in outcomes {
        let err = log.store.record_tool_call_done(bad).unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        assert!(err.to_string().contains(word), "{err}");
    }
    for at in [-1, i64::MIN, i64::MAX, 253_402_300_800_000] {
        assert_eq!(
            log.store
                .upsert_conversation_turn(turn(1, "", at))
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
        assert_eq!(
            log.store
                .record_tool_call_requested(request(2, "c", at))
                .unwrap_err()
                .kind(),
            ErrorKind::InvalidInput
        );
        let late = ToolCallDone {
            ended_at: Validity::at(at),
            ..done(&req)
        };
        assert_eq!(
            log.store.record_tool_call_done(late).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
    }
    assert_eq!(log.lines(), 1);
    assert_eq!(log.call(&req), Some((req.clone(), None)));
    // The minimum and maximum time, and an empty vendor, are valid.
    for at in [0, 253_402_300_799_999] {
        log.store.upsert_conversation_turn(turn(3, "", at)).unwrap();
    }
    log.store
        .record_tool_call_requested(ToolCallReq {
            vendor: String::new(),
            ..request(3, &long[1..], DAY_1)
        })
        .unwrap();
    assert_eq!(log.lines(), 4);
}

#[test]
fn a_field_of_a_hundred_megabytes_is_refused_by_name_and_size() {
    let log = Log::new();
    let len = 100_000_000;
    let huge = "x".repeat(len);
    let req = ToolCallReq {
        args_sha256: args_sha256(&huge),
        arguments_json: Some(huge.clone()),
        ..request(1, "c", DAY_1)
    };
    let errors = [
        (log.store.record_tool_call_requested(req), "arguments_json"),
        (
            log.store.upsert_conversation_turn(ConversationTurn {
                content: huge,
                ..turn(1, "", DAY_1)
            }),
            "content",
        ),
    ];
    for (answer, field) in errors {
        let err = answer.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::InvalidInput);
        let text = err.to_string();
        assert!(text.contains(field) && text.contains("100000000"), "{text}");
        assert!(text.len() < 1_000);
    }
    assert_eq!(log.lines(), 0);
    assert!(!log.dir.path().join("log/2025-12-27").exists());
    // The limit is on the length of the line: escapes make it longer.
    let err = log
        .store
        .upsert_conversation_turn(turn(1, &"\u{1}".repeat(5 << 20), DAY_1))
        .unwrap_err();
    assert_eq!(err.kind(), ErrorKind::InvalidInput);
    assert_eq!(log.lines(), 0);
}

#[test]
fn no_id_becomes_a_path() {
    let log = Log::new();
    let long = "i".repeat(NAME_BYTES_MAX);
    let ids = [
        "../../x",
        "/etc/passwd",
        "..",
        "a\"b\\c",
        "\u{0}\u{1}\n\r\t",
        "CON",
        "2025-12-27/tool_calls.0001.jsonl",
        "é\u{202E}",
        &long,
    ];
    for (number, id) in (1..).zip(ids) {
        let req = ToolCallReq {
            tool_name: id.into(),
            vendor: id.into(),
            ..request(number, id, DAY_1)
        };
        log.store.record_tool_call_requested(req.clone()).unwrap();
        log.store.record_tool_call_done(done(&req)).unwrap();
        assert_eq!(
            log.call(&req),
            Some((req.clone(), Some(done(&req)))),
            "{id:?}"
        );
        let by_name = CallQuery {
            tool_name: Some(id.into()),
            ..CallQuery::default()
        };
        assert_eq!(
            log.store.tool_calls(&by_name).unwrap().items,
            [(req.clone(), Some(done(&req)))]
        );
    }
    let names = |path: &std::path::Path| -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(log.dir.path()), ["log"]);
    assert_eq!(
        names(&log.dir.path().join("log")),
        ["2025-12-27", "HEAD", "LOCK", "decklog.json"]
    );
    assert_eq!(
        names(&log.dir.path().join("log/2025-12-27")),
        ["tool_calls.0001.jsonl"]
    );
    // And the same after reopening the store.
    let store = Store::open(log.dir.path().join("log")).unwrap();
    for (number, id) in (1u128..).zip(ids) {
        assert!(
            store
                .get_tool_call(Uuid::from_u128(number), id)
                .unwrap()
                .is_some(),
            "{id:?}"
        );
    }
}
