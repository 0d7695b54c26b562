//! Sessions of other agents are imported once, and can be read unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use decklog::analytics::AnalyticsQuery;
use decklog::import::{Importer, Report, foreign_id, named};
use decklog::query::{CallQuery, ConversationQuery, MessageQuery, TurnQuery};
use decklog::record::ConversationStatus;
use decklog::storage::Memory;
use decklog::tree::{SessionItem, SpanStatus};
use decklog::{ErrorKind, Role, Store, ToolStatus};
use uuid::Uuid;

use super::support::{Rng, Spy, still};

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn import(store: &Store, path: &Path) -> Report {
    import_with(Importer::new(store), path)
}

/// Imports also what did not change since an earlier import.
fn import_all(store: &Store, path: &Path) -> Report {
    import_with(Importer::new(store).reread(true), path)
}

fn import_with(importer: Importer<'_>, path: &Path) -> Report {
    let mut importer = importer.expired(decklog::import::Expired::Expire);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

fn held(report: &Report) -> Report {
    Report {
        added: 0,
        per_file: Vec::new(),
        ..report.clone()
    }
}

#[test]
fn the_samples_come_in_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    the_samples_come_into_a_new_store(&path);
    let store = Store::open(&path).unwrap();
    for name in [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ] {
        assert_eq!(import(&store, &sample(name)).added, 0, "{name}");
    }
}

fn the_samples_come_into_a_new_store(path: &Path) {
    let store = Store::open(path).unwrap();
    let first = import(&store, &sample(""));
    assert_eq!(first.broken, []);
    assert_eq!((first.files, first.lines), (3, 83));
    assert_eq!(
        (first.turns, first.tool_calls, first.tool_results),
        (35, 9, 9)
    );
    assert_eq!(first.api_responses, 6 + 1 + 7);
    assert_eq!(first.tokens_in, 98785 + 487 + 26740);
    assert_eq!(first.tokens_out, 844 + 130 + 408);
    assert_eq!((first.conversations, first.messages), (3, 22 + 2 + 28));
    assert_eq!(first.added, 35 + 9 + 9 + 3 + 52);
    assert_eq!(first.not_understood.len(), 0);

    let second = import_all(&store, &sample(""));
    assert_eq!(second.added, 0);
    assert_eq!(held(&second), held(&first));
    let third = import(&store, &sample(""));
    assert_eq!((third.unchanged, third.files, third.added), (3, 0, 0));
    assert_eq!(third.per_file, []);
}

#[test]
fn imported_calls_are_found_by_what_the_other_tool_called_them() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    import(&store, &sample(""));

    let call_id = "call_pBXH93fl6ZXH2svDOFIlr8GA";
    let found = store.get_tool_call(named("codex:call", call_id), call_id);
    let (req, done) = found.unwrap().unwrap();
    assert_eq!(req.tool_name, "apply_patch");
    assert_eq!(
        req.arguments_json.as_deref(),
        Some("*** Begin Patch\n*** Add File: myapp/hoge.py\n+print(1 + 1)\n*** End Patch")
    );
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Completed);
    assert_eq!(done.latency_ms, 1057);
    assert_eq!(
        done.outcome_json.as_deref(),
        Some(
            "{\"output\":\"Success. Updated the following files:\\nA myapp/hoge.py\\n\",\
             \"metadata\":{\"exit_code\":0,\"duration_seconds\":1.0}}"
        )
    );

    let call_id = "toolu_01GLEN5BsyXUTQaQV2fdQ9ea";
    let found = store.get_tool_call(named("claude-code:tool_use", call_id), call_id);
    let (req, done) = found.unwrap().unwrap();
    assert_eq!(
        req.arguments_json.as_deref(),
        Some(
            "{\"command\":\"cd myapp && python hoge.py\",\
             \"description\":\"Change to myapp directory and run hoge.py\"}"
        )
    );
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Failed);
    let words = "error: target shim binary not found";
    assert_eq!(done.error_msg.as_deref(), Some(words));
    assert_eq!(done.outcome_json.as_deref(), Some(words));
}

#[test]
fn a_later_import_finds_the_call_of_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let whole = std::fs::read_to_string(sample("codex-rollout.jsonl")).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let at = lines
        .iter()
        .position(|line| line.contains("custom_tool_call_output"))
        .unwrap();
    // The session was still running at the first import.
    let path = dir.path().join("rollout.jsonl");
    std::fs::write(&path, lines[..at].join("\n")).unwrap();
    let first = import(&store, &path);
    assert_eq!((first.tool_calls, first.tool_results), (2, 1));
    std::fs::write(&path, &whole).unwrap();
    let second = import(&store, &path);
    assert_eq!(second.broken, []);
    assert_eq!((first.messages, second.messages), (9, 28));
    assert_eq!(first.added + second.added, 11 + 5 + 5 + 1 + 28);
}

#[test]
fn what_a_person_took_back_stays_so_when_the_session_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let import = || {
        let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
        importer.path(&samples).unwrap();
        importer.finish().unwrap()
    };
    import();
    let turns = store
        .turns(&decklog::query::TurnQuery::default())
        .unwrap()
        .items;
    let mut wrong = turns[3].clone();
    wrong.created_at = decklog::Validity::retracted(wrong.created_at.at);
    store.record(wrong).unwrap();
    assert_eq!(import().added, 0);
    assert_eq!(
        store
            .turns(&decklog::query::TurnQuery::default())
            .unwrap()
            .items
            .len(),
        turns.len() - 1
    );
}

const SAMPLES: [&str; 3] = [
    "claude-code-session.jsonl",
    "claude-code-subagent.jsonl",
    "codex-rollout.jsonl",
];

/// The conversations of the samples, with the tokens stated in their README.
fn conversations() -> [(Uuid, u64, u64); 3] {
    let session = "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9";
    [
        (session.parse().unwrap(), 98785, 844),
        (
            foreign_id("claude-code:agent", &format!("{session}:0c4c3cf8")),
            487,
            130,
        ),
        (
            "019b04ae-b1c6-7c72-a134-a4c2de66058c".parse().unwrap(),
            26740,
            408,
        ),
    ]
}

fn tokens(store: &Store, conversation: Uuid) -> (u64, u64) {
    let (_, stats) = store.get_conversation(conversation).unwrap().unwrap();
    (stats.total_tokens_in, stats.total_tokens_out)
}

#[test]
fn conversations_have_the_tokens_of_their_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    import(&store, &sample(""));
    for (id, tokens_in, tokens_out) in conversations() {
        assert_eq!(tokens(&store, id), (tokens_in, tokens_out), "{id}");
    }

    let [(session, ..), (agent, ..), (rollout, ..)] = conversations();
    let (conversation, stats) = store.get_conversation(session).unwrap().unwrap();
    assert_eq!(conversation.status, ConversationStatus::Completed);
    assert_eq!(
        conversation.workspace.as_deref(),
        Some("/Users/test_user/agent-sample")
    );
    assert_eq!(conversation.project.as_deref(), Some("agent-sample"));
    assert_eq!(conversation.created_at.as_str(), "2025-12-09T19:47:42.930Z");
    assert_eq!(stats.message_count, 22);
    assert_eq!(stats.models_used, ["claude-sonnet-4-5-20250929"]);
    let (_, stats) = store.get_conversation(rollout).unwrap().unwrap();
    assert_eq!(stats.message_count, 28);
    assert_eq!(stats.models_used, ["gpt-5.1-codex-max"]);

    // The sub-agent is found by its session.
    let query = ConversationQuery {
        session_id: Some(session.to_string()),
        ..ConversationQuery::default()
    };
    let found = store.conversations(&query).unwrap().items;
    let ids: Vec<Uuid> = found.iter().map(|(found, _)| found.id).collect();
    assert_eq!(ids, [session, agent]);
}

/// A sub-agent shares its session's thread, but has its own tree.
#[test]
fn a_session_and_its_sub_agent_are_drawn_apart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    import(&store, &sample(""));
    let prompts = |id: Uuid| -> Vec<String> {
        let nodes = store.session_tree(id).unwrap().unwrap().nodes;
        let prompts = nodes.into_iter().filter(|node| node.depth == 1);
        let said = prompts.map(|node| match node.item {
            SessionItem::Turn(turn) => turn.content,
            SessionItem::Message(message) => message.content,
            SessionItem::Conversation(it) => format!("{} of {:?}", it.0.id, it.0.parent_id),
            other @ SessionItem::Call(_) => panic!("{other:?}"),
        });
        said.collect()
    };
    let [(session, ..), (agent, ..), _] = conversations();
    let said = prompts(session);
    assert_eq!(said.len(), 5, "{said:?}");
    // The call of the session that started it is unknown.
    assert_eq!(said[4], format!("{agent} of {:?}", Some(session)));
    assert_eq!(said[1], "cd to myapp and run python hoge.py");
    assert_eq!(prompts(agent), ["Warmup"]);

    let nodes = store.session_tree(session).unwrap().unwrap().nodes;
    let failed: Vec<_> = nodes
        .iter()
        .filter(|node| node.status == Some(SpanStatus::Failed))
        .map(|node| (node.depth, node.duration_ms))
        .collect();
    assert_eq!(failed, [(3, Some(4584))]);
}

#[test]
fn messages_keep_the_usage_object_and_what_tools_returned() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    import(&store, &sample(""));
    let [(session, ..), _, (rollout, ..)] = conversations();

    let messages = store
        .messages(session, &MessageQuery::default())
        .unwrap()
        .items;
    let asked = &messages[1];
    assert_eq!((asked.role, asked.sequence), (Role::Assistant, Some(2)));
    let thought = asked.reasoning.as_ref().unwrap();
    assert!(thought.starts_with("The user wants me to:\n1. Add"));
    assert_eq!(asked.content, "");
    assert_eq!((asked.tokens_out, asked.part_of), (Some(8), None));
    // The response continues with text and a call, whose line reports 428 more tokens.
    let part = (&messages[2].content, messages[2].part_of);
    assert_eq!((part.1, part.0.is_empty()), (Some(asked.id), false));
    let asked = &messages[3];
    assert_eq!(
        (asked.tokens_out, asked.part_of),
        (Some(428), messages[2].part_of)
    );
    assert_eq!(asked.tool_name.as_deref(), Some("Bash"));
    assert_eq!(
        asked.tool_args.as_deref(),
        Some(r#"{"command":"mkdir -p myapp","description":"Create myapp directory"}"#)
    );
    assert_eq!(
        asked.inference_metadata.as_deref(),
        Some(
            r#"{"usage":{"input_tokens":10,"cache_creation_input_tokens":3893,"cache_read_input_tokens":12135,"cache_creation":{"ephemeral_5m_input_tokens":3893,"ephemeral_1h_input_tokens":0},"output_tokens":436,"service_tier":"standard"}}"#
        )
    );
    assert_eq!(messages[4].role, Role::Tool);
    assert_eq!(messages[4].tool_name.as_deref(), Some("Bash"));
    assert_eq!(messages[4].tool_result.as_deref(), Some(""));

    let messages = store
        .messages(rollout, &MessageQuery::default())
        .unwrap()
        .items;
    let [.., said, last] = &messages[..] else {
        panic!("{}", messages.len())
    };
    assert!(said.content.starts_with("Ran the script with `python3`"));
    assert_eq!((said.part_of, last.part_of), (Some(last.id), None));
    assert_eq!((last.tokens_in, last.tokens_out), (Some(4139), Some(38)));
    let metadata = last.inference_metadata.as_deref().unwrap();
    let head = r#"{"usage":{"total_token_usage":{"input_tokens":26740,"#;
    assert!(metadata.starts_with(head), "{metadata}");
    assert!(
        metadata.ends_with(r#""model_context_window":258400}}"#),
        "{metadata}"
    );
}

/// All answers of a store, without the order of unordered results.
fn answers(store: &Store) -> Vec<String> {
    let all = usize::MAX;
    let conversations = ConversationQuery {
        limit: all,
        ..ConversationQuery::default()
    };
    let mut answers = Vec::new();
    for (conversation, stats) in store.conversations(&conversations).unwrap().items {
        let query = MessageQuery {
            limit: all,
            ..MessageQuery::default()
        };
        let messages = store.messages(conversation.id, &query).unwrap().items;
        answers.push(format!("{conversation:?} {stats:?} {messages:#?}"));
    }
    let turns = TurnQuery {
        limit: all,
        ..TurnQuery::default()
    };
    let turns = store.turns(&turns).unwrap().items;
    answers.extend(turns.iter().map(|turn| format!("{turn:?}")));
    let calls = CallQuery {
        limit: all,
        ..CallQuery::default()
    };
    let calls = store.tool_calls(&calls).unwrap().items;
    answers.extend(calls.iter().map(|call| format!("{call:?}")));
    answers.sort_unstable();
    let analytics = store.analytics();
    let usage = analytics.usage(&AnalyticsQuery::default()).unwrap();
    answers.push(format!("{:?} {:?}", usage.rows, usage.total));
    let models = analytics.models(&of_all_days()).unwrap();
    answers.push(format!("{:?} {:?}", models.rows, models.total));
    answers
}

fn of_all_days() -> AnalyticsQuery {
    AnalyticsQuery {
        since: Some("1970-01-01".parse().unwrap()),
        ..AnalyticsQuery::default()
    }
}

#[test]
fn a_session_that_grows_comes_to_what_it_is_whole() {
    let mut rng = Rng::seeded("a_session_that_grows_comes_to_what_it_is_whole");
    let dir = tempfile::tempdir().unwrap();
    let whole = Store::open(dir.path().join("whole")).unwrap();
    import(&whole, &sample(""));
    let expected = answers(&whole);
    let sessions = SAMPLES.map(|name| (name, std::fs::read(sample(name)).unwrap()));
    for round in 0..8 {
        let store = Store::open(dir.path().join(format!("grown{round}"))).unwrap();
        let folder = dir.path().join(format!("sessions{round}"));
        std::fs::create_dir(&folder).unwrap();
        let mut left: Vec<_> = sessions
            .iter()
            .map(|(name, bytes)| (name, bytes, 0))
            .collect();
        while !left.is_empty() {
            let at = rng.below(left.len());
            let (name, bytes, len) = &mut left[at];
            // In bytes, so that a line may be cut too.
            *len += rng.below(bytes.len() - *len + 1).max(1);
            let path = folder.join(*name);
            std::fs::write(&path, &bytes[..*len]).unwrap();
            let report = import(&store, &path);
            assert_eq!(report.broken, [], "{name} cut at {len}");
            assert_eq!(import(&store, &path).added, 0, "{name} cut at {len}");
            if *len == bytes.len() {
                left.remove(at);
            }
        }
        assert_eq!(answers(&store), expected);
    }
}

/// The sample sessions when resumed, forked and repeated.
fn others(folder: &Path) {
    let read = |name: &str| std::fs::read_to_string(sample(name)).unwrap();
    let session = read("claude-code-session.jsonl");
    let (id, of) = (
        "7f2abd2d-7cfc-4447-9ddd-3ca8d14e02e9",
        "7f2abd2d-0000-4447-9ddd-3ca8d14e02e9",
    );
    let marked = format!(r#""sessionId":"{of}","forkedFrom":{{"sessionId":"{id}"}}"#);
    let forked = session.replace(&format!(r#""sessionId":"{id}""#), &marked);
    std::fs::write(folder.join("forked.jsonl"), forked).unwrap();
    std::fs::write(folder.join("resumed.jsonl"), session.replace(id, of)).unwrap();
    let rollout = read("codex-rollout.jsonl");
    let (id, of) = (
        "019b04ae-b1c6-7c72-a134-a4c2de66058c",
        "019b04af-0000-7c72-a134-a4c2de66058c",
    );
    let again = rollout.replace(id, of);
    std::fs::write(folder.join("rollout-again.jsonl"), &again).unwrap();
    let own = r#"{"timestamp":"2025-12-09T20:01:00.000Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":26840,"output_tokens":418}}}}"#;
    let fork = format!(
        r#"{{"timestamp":"2025-12-09T20:00:00.000Z","type":"session_meta","payload":{{"id":"{}","forked_from_id":"{id}","timestamp":"2025-12-09T20:00:00.000Z"}}}}"#,
        of.replace("04af", "04b0")
    );
    let copies: Vec<String> = rollout
        .lines()
        .map(|line| {
            let (_, rest) = line.split_at(r#"{"timestamp":"2025-12-09T19:55:16.336Z"#.len());
            format!(r#"{{"timestamp":"2025-12-09T20:00:00.010Z{rest}"#)
        })
        .collect();
    let lines = format!("{fork}\n{}\n{own}\n", copies.join("\n"));
    std::fs::write(folder.join("rollout-fork.jsonl"), lines).unwrap();
}

#[test]
fn what_an_import_says_of_usage_is_what_the_store_says() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("sessions");
    std::fs::create_dir(&folder).unwrap();
    others(&folder);
    for name in SAMPLES {
        std::fs::copy(sample(name), folder.join(name)).unwrap();
    }
    let check = |store: &Store, report: &Report| {
        let usage = store.analytics().usage(&AnalyticsQuery::default()).unwrap();
        let models = store.analytics().models(&of_all_days()).unwrap();
        let told = (report.api_responses, report.tokens_in, report.tokens_out);
        let usage = usage.total;
        assert_eq!((usage.requests, usage.tokens_in, usage.tokens_out), told);
        let models = models.total;
        assert_eq!((models.requests, models.tokens_in, models.tokens_out), told);
        // The samples, and the fork's own part.
        assert_eq!(told, (14 + 1, 126_012 + 100, 1382 + 10));
    };
    let store = Store::open(dir.path().join("at-once")).unwrap();
    let report = import(&store, &folder);
    assert_eq!(report.broken, []);
    assert!(report.repeated > 50);
    check(&store, &report);
    check(&store, &import_all(&store, &folder));

    // File by file, in any order, and in parts.
    let mut rng = Rng::seeded("what_an_import_says_of_usage_is_what_the_store_says");
    for round in 0..4 {
        let store = Store::open(dir.path().join(format!("log{round}"))).unwrap();
        let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort_unstable();
        while !files.is_empty() {
            let path = files.swap_remove(rng.below(files.len()));
            let bytes = std::fs::read(&path).unwrap();
            let part = dir.path().join(path.file_name().unwrap());
            std::fs::write(&part, &bytes[..rng.below(bytes.len())]).unwrap();
            import(&store, &part);
            import(&store, &path);
        }
        check(&store, &import_all(&store, &folder));
    }
}

/// Bug: a message that could not be written because the creation of its segment failed was left
/// out, but the later ones of the batch were not. After another import it came after them.
#[test]
fn what_failed_once_is_imported_in_its_order() {
    let spy = Spy::new(Memory::new());
    let storage = Arc::new(spy.clone());
    let store = still().storage(storage).open("memory").unwrap();
    let once = AtomicBool::new(false);
    spy.hook(move |operation, path| match operation {
        "open" if path.contains("messages") && !once.swap(true, Ordering::Relaxed) => {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        _ => Ok(()),
    });
    let path = sample("claude-code-subagent.jsonl");
    let mut importer = Importer::new(&store).expired(decklog::import::Expired::Expire);
    let failed = importer.path(&path).and_then(|()| importer.finish());
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Io);
    assert!(import(&store, &path).added > 0);
    let of = store.conversations(&ConversationQuery::default()).unwrap();
    let of = of.items[0].0.id;
    let roles = store.messages(of, &MessageQuery::default()).unwrap();
    let roles = roles.items;
    let roles: Vec<Role> = roles.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant]);
}
