//! What is sent follows the conventions, and comes back equal.

#![allow(clippy::unwrap_used, clippy::too_many_lines)]

mod chunks;
mod conventions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use uuid::Uuid;

use crate::collections::{CallQuery, ConversationQuery, EventQuery, MessageQuery, TurnQuery};
use crate::import::{Expired, Importer};
use crate::otlp::own;
use crate::otlp::proto::{LogRecord, Span};
use crate::otlp::request::{Encoding, Request, Signal};
use crate::record::{
    Client, Conversation, ConversationMessage, Event, Record, Role, ToolCallDone, ToolCallReq,
    ToolStatus, TurnKind,
};
use crate::store::Store;

fn data(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

pub(crate) fn open(dir: &tempfile::TempDir, name: &str) -> Store {
    Store::options()
        .upkeep(false)
        .open(dir.path().join(name))
        .unwrap()
}

/// A log with everything that is sent.
pub(crate) fn fill(store: &Store) {
    let mut importer = Importer::new(store).expired(Expired::Keep);
    for name in [
        "claude-code-session.jsonl",
        "claude-code-subagent.jsonl",
        "codex-rollout.jsonl",
    ] {
        importer.path(&data(name)).unwrap();
    }
    importer.path(&data("codex/review-parent.ndjson")).unwrap();
    importer.finish().unwrap();
    run(store);
    gateway(store);
    for (parent, event_type, payload) in [
        (
            None,
            "process.started",
            Some(r#"{"pid":1,"of":[1,2.50,{"a":null}]}"#),
        ),
        (Some(1), "agent.started", None),
        (Some(2), "agent.failed", Some("\"no more tokens\"")),
        (None, "agent.started", Some("{}")),
    ] {
        store.log_event(parent, event_type, payload).unwrap();
    }
}

/// A run without a conversation, with a failed call and one that did not end.
fn run(store: &Store) {
    let run = store.run("anthropic");
    run.turn(TurnKind::System, "Be short.").unwrap();
    run.user("How long is main.rs? This prompt is long enough to be sent once only.")
        .unwrap();
    let turn = run.assistant("I will look.").unwrap();
    let arguments = serde_json::json!({ "path": "src/main.rs", "why": "because a person asked for it, at length" });
    let call = turn.call("toolu_1", "count_lines", &arguments).unwrap();
    call.run(|| Ok::<_, std::io::Error>(12)).unwrap().unwrap();
    let call = turn.call("toolu_2", "count_lines", &arguments).unwrap();
    let failed = call
        .run(|| Err::<i32, _>(std::io::Error::other("no such file")))
        .unwrap();
    failed.unwrap_err();
    // A call that is dropped has an outcome.
    std::mem::forget(turn.call("toolu_3", "count_lines", &arguments).unwrap());
    run.turn(TurnKind::SysInfo, "2 GB left").unwrap();
    run.assistant("12 lines.").unwrap();
    run.user("Thanks.").unwrap();
}

/// A conversation of a gateway, its sub-agent, an answer in parts, an error and an update.
fn gateway(store: &Store) {
    let talk = Conversation::new(Uuid::from_u128(1), Client::Api)
        .user_id("me")
        .title("sums");
    let mut agent = Conversation::new(Uuid::from_u128(2), Client::Api).agent("codex");
    agent.parent_id = Some(talk.id);
    agent.parent_call_id = Some("call_1".to_owned());
    let (id, agent_id) = (talk.id, agent.id);
    let say = |id: Uuid, role: Role, text: &str| ConversationMessage::new(id, role, text);
    let answer = say(id, Role::Assistant, "Let me ask.")
        .model_used("gpt-5")
        .tokens_in(100)
        .tokens_out(20)
        .tokens_cache_read(50)
        .tokens_reasoning(7)
        .latency_ms(850)
        .cost_usd(0.25)
        .reasoning("I do not know it.");
    let part = say(id, Role::Assistant, "")
        .part_of(answer.id)
        .tool_name("ask")
        .tool_call_id("call_1")
        .tool_args(r#"{ "of" : 1.50 }"#);
    let call = ToolCallReq {
        arguments_json: Some(r#"{ "of" : 1.50 }"#.to_owned()),
        ..ToolCallReq::new(part.id, "call_1", "openai", "ask")
    };
    let done = ToolCallDone {
        error_kind: Some("timeout".to_owned()),
        error_msg: Some("no answer".to_owned()),
        ..ToolCallDone::new(part.id, "call_1", ToolStatus::Failed)
    };
    let result = say(id, Role::Tool, "")
        .tool_call_id("call_1")
        .tool_result("no answer")
        .error_type("timeout");
    let failed = say(id, Role::Assistant, "")
        .error("overloaded")
        .error_type("http_529");
    let records: Vec<Record> = vec![
        talk.into(),
        say(
            id,
            Role::System,
            "You are a calculator. You answer with numbers and nothing else.",
        )
        .into(),
        say(
            id,
            Role::User,
            "What is 1 + 1? \u{1f600} \"quoted\" \\ and some more text to be long",
        )
        .into(),
        answer.into(),
        part.into(),
        call.into(),
        agent.into(),
        say(agent_id, Role::User, "1 + 1").into(),
        say(agent_id, Role::Assistant, "2").into(),
        done.into(),
        result.into(),
        failed.into(),
        say(id, Role::User, "Hello?").into(),
    ];
    for ack in store.record_batch(records).unwrap() {
        ack.unwrap();
    }
    let change = Conversation::new(id, Client::Api).title("other");
    let (known, _) = store.get_conversation(id).unwrap().unwrap();
    store
        .record(Conversation {
            title: change.title,
            ..known
        })
        .unwrap();
}

/// The current state of all records that are sent.
pub(crate) fn records(store: &Store) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let limit = usize::MAX;
    let query = ConversationQuery {
        limit,
        ..ConversationQuery::default()
    };
    for (conversation, stats) in store.conversations(&query).unwrap().items {
        let query = MessageQuery {
            limit,
            ..MessageQuery::default()
        };
        for message in store.messages(conversation.id, &query).unwrap().items {
            all.insert(format!("{message:?}"));
        }
        all.insert(format!("{conversation:?} {stats:?}"));
    }
    let query = TurnQuery {
        limit,
        ..TurnQuery::default()
    };
    all.extend(
        store
            .turns(&query)
            .unwrap()
            .items
            .iter()
            .map(|it| format!("{it:?}")),
    );
    let query = CallQuery {
        limit,
        ..CallQuery::default()
    };
    all.extend(
        store
            .tool_calls(&query)
            .unwrap()
            .items
            .iter()
            .map(|it| format!("{it:?}")),
    );
    let query = EventQuery {
        limit,
        ..EventQuery::default()
    };
    all.extend(
        store
            .events(&query)
            .unwrap()
            .items
            .iter()
            .map(|it| format!("{it:?}")),
    );
    all
}

/// The items of lines of OTLP.
pub(crate) fn items(lines: &[String]) -> (Vec<Span>, Vec<LogRecord>) {
    let (mut spans, mut logs) = (Vec::new(), Vec::new());
    for line in lines {
        let signal = if line.starts_with("{\"resourceSpans\"") {
            Signal::Traces
        } else {
            Signal::Logs
        };
        let request = Request::read(Encoding::Json, signal, line.as_bytes()).unwrap();
        match signal {
            Signal::Traces => {
                for group in request.groups::<Span>() {
                    let group = group.unwrap();
                    assert!(own::is_own(&group.scope));
                    spans.extend(group.map(Result::unwrap));
                }
            }
            _ => {
                for group in request.groups::<LogRecord>() {
                    let group = group.unwrap();
                    logs.extend(group.map(Result::unwrap));
                }
            }
        }
    }
    (spans, logs)
}

pub(crate) fn all_lines(store: &Store) -> Vec<String> {
    let mut lines = Vec::new();
    let each = |line| -> crate::Result<()> {
        lines.push(line);
        Ok(())
    };
    store.each_otlp_line(each).unwrap();
    lines
}

/// Restores the records of lines in another log.
fn restore(lines: &[String], to: &Store) {
    for line in lines {
        let (spans, logs) = items(std::slice::from_ref(line));
        let of_spans = spans.iter().flat_map(|span| own::records_of(span).unwrap());
        let of_logs = logs
            .iter()
            .flat_map(|log| own::records_of_log(log).unwrap());
        let all: Vec<Record> = of_spans.chain(of_logs).collect();
        for (ack, record) in to.record_batch(all.clone()).unwrap().into_iter().zip(all) {
            ack.unwrap_or_else(|e| panic!("{e}: {record:?}"));
        }
    }
}

#[test]
fn all_records_come_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let lines = all_lines(&store);
    let (spans, logs) = items(&lines);
    let other = open(&dir, "other");
    restore(&lines, &other);
    let (here, there) = (records(&store), records(&other));
    let lost: Vec<_> = here.difference(&there).collect();
    let changed: Vec<_> = there.difference(&here).collect();
    assert!(
        lost.is_empty() && changed.is_empty(),
        "{lost:#?} {changed:#?}"
    );
    // Twice is the same.
    restore(&lines, &other);
    assert_eq!(records(&other), here);
    let operations = count(
        spans
            .iter()
            .map(|span| text(&span.attributes, "gen_ai.operation.name")),
    );
    let bytes: usize = lines.iter().map(String::len).sum();
    println!(
        "{} records, {operations:?}, {} logs, {bytes} bytes",
        here.len(),
        logs.len()
    );
    let ids: BTreeSet<_> = spans.iter().map(|span| span.span_id.clone()).collect();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn one_conversation_comes_back_with_its_agents() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let limit = usize::MAX;
    let query = ConversationQuery {
        limit,
        ..ConversationQuery::default()
    };
    let other = open(&dir, "other");
    for (talk, _) in store.conversations(&query).unwrap().items {
        let mut lines = Vec::new();
        let each = |line| -> crate::Result<()> {
            lines.push(line);
            Ok(())
        };
        assert!(store.each_otlp_of(talk.id, each).unwrap());
        restore(&lines, &other);
        assert_eq!(
            other.get_conversation(talk.id).unwrap(),
            store.get_conversation(talk.id).unwrap()
        );
    }
    let mut lost = records(&store);
    for known in records(&other) {
        assert!(lost.remove(&known), "{known}");
    }
    // Runs and events have no conversation.
    assert!(
        lost.iter().all(|it| !it.contains("ConversationMessage {")),
        "{lost:#?}"
    );
    let none = store.each_otlp_of(Uuid::from_u128(99), |_| -> crate::Result<()> { Ok(()) });
    assert!(!none.unwrap());
}

#[test]
fn calls_are_under_their_answers_and_agents_link_to_calls() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let (spans, _) = items(&all_lines(&store));
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (&span.span_id, span)).collect();
    for span in &spans {
        let operation = text(&span.attributes, "gen_ai.operation.name");
        let parent = by_id.get(&span.parent_span_id);
        let of_parent = parent.map(|it| text(&it.attributes, "gen_ai.operation.name"));
        match &*operation {
            "invoke_agent" => assert!(span.parent_span_id.is_empty()),
            "chat" => assert_eq!(of_parent.as_deref(), Some("invoke_agent")),
            _ => assert_eq!(of_parent.as_deref(), Some("chat"), "{span:?}"),
        }
        assert!(parent.is_none_or(|it| it.trace_id == span.trace_id));
    }
    let agent = super::ids::root(Uuid::from_u128(2)).to_vec();
    let link = &by_id[&agent].links[0];
    assert_eq!(link.trace_id, Uuid::from_u128(1).as_bytes());
    assert_eq!(by_id[&link.span_id].name, "execute_tool ask");
    let answer = spans.iter().find(|span| span.name == "chat gpt-5").unwrap();
    let start = answer.start_time_unix_nano / 1_000_000 * 1_000_000;
    assert!(answer.end_time_unix_nano - start >= 850_000_000);
    let said = text(&answer.attributes, "gen_ai.output.messages");
    for wanted in [
        "I do not know it.",
        "Let me ask.",
        "\"finish_reason\":\"tool_call\"",
        "call_1",
    ] {
        assert!(said.contains(wanted), "{said}");
    }
    assert!(text(&answer.attributes, "gen_ai.system_instructions").contains("calculator"));
    assert!(text(&answer.attributes, "gen_ai.input.messages").contains("1 + 1"));
}

/// Texts are sent once, not in the records again.
#[test]
fn a_changed_text_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    let run = store.run("anthropic");
    let prompt = "a text that is long enough to be in the span only once, as it should be";
    run.user(prompt).unwrap();
    run.assistant("yes").unwrap();
    let (spans, _) = items(&all_lines(&store));
    let mut chat = spans.into_iter().find(|span| span.name == "chat").unwrap();
    let own = text(&chat.attributes, own::RECORDS);
    assert!(!own.contains(prompt), "{own}");
    assert_eq!(own::records_of(&chat).unwrap().len(), 2);
    chat.attributes
        .retain(|it| it.key != "gen_ai.input.messages");
    assert_eq!(own::records_of(&chat), None);
}

/// What came from OTLP goes out as the same trace.
#[test]
fn received_messages_keep_their_trace() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    let talk = Conversation::new(Uuid::from_u128(5), Client::Api);
    let id = talk.id;
    store.record(talk).unwrap();
    let mut answer = ConversationMessage::new(id, Role::Assistant, "2");
    answer.inference_metadata = Some(
        r#"{"otel":{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}}"#
            .to_owned(),
    );
    let header = super::traceparent(&answer);
    assert_eq!(
        header,
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    );
    store.record(answer).unwrap();
    let (spans, _) = items(&all_lines(&store));
    assert_eq!(spans.len(), 2);
    for span in &spans {
        assert_eq!(
            crate::record::hex(&span.trace_id),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
    }
    assert_eq!(crate::record::hex(&spans[1].span_id), "00f067aa0ba902b7");
}

pub(crate) fn text(attributes: &[crate::otlp::proto::KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|it| it.key == key);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(crate::otlp::proto::Value::String(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn count(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

/// Events are log records under their own names.
#[test]
fn events_of_a_tree_have_one_trace() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    let one = store.log_event(None, "agent.started", None).unwrap();
    let two = store
        .log_event(Some(one), "agent.failed", Some("{\"why\":[1]}"))
        .unwrap();
    store.log_event(None, "agent.started", None).unwrap();
    let mut event = Event::new(Some(two), "agent.noted");
    event.created_at = 1_766_832_000_123;
    store.record(event).unwrap();
    let (_, logs) = items(&all_lines(&store));
    assert_eq!(logs[0].trace_id, logs[1].trace_id);
    assert_eq!(logs[0].trace_id, logs[3].trace_id);
    assert_ne!(logs[0].trace_id, logs[2].trace_id);
    assert_eq!(
        (&*logs[1].event_name, logs[1].severity_number),
        ("agent.failed", 17)
    );
    assert_eq!(logs[3].time_unix_nano, 1_766_832_000_123_000_000);
}
