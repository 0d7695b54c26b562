//! Records by value are the same as by JSON.

use proptest::prelude::*;

use super::*;

const ID: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// A value, often one that a field with this name takes.
fn value(name: &'static str) -> BoxedStrategy<Dynamic<'static>> {
    let text = |text: &'static str| Dynamic::Text(text.into());
    let usual = match name {
        "kind" => prop::sample::select(vec![
            "user",
            "tool_calls",
            "messages",
            "events",
            "history",
            "thought_records",
            "inbox",
            "conversation_turns",
            "assistant",
            "poems",
        ])
        .prop_map(text)
        .boxed(),
        "op" => prop::sample::select(vec![
            "requested",
            "completed",
            "failed",
            "retracted",
            "asserted",
            "added",
            "logged",
            "queued",
            "recorded",
            "sung",
        ])
        .prop_map(text)
        .boxed(),
        "turn_kind" | "role" => prop::sample::select(vec!["user", "assistant", "tool", "bot"])
            .prop_map(text)
            .boxed(),
        "source" => prop::sample::select(vec!["user", "model", "x"])
            .prop_map(text)
            .boxed(),
        "type" => prop::sample::select(vec!["plan", "analysis"])
            .prop_map(text)
            .boxed(),
        "content_type" => Just(text("json")).boxed(),
        "timestamp" => Just(text("2026-07-28T12:00:00Z")).boxed(),
        name if name.ends_with("_at") => Just(Dynamic::Int(1_766_832_000_123)).boxed(),
        "id" | "parent_id" | "chat_id" => {
            prop_oneof![Just(text(ID)), (1..9_i64).prop_map(Dynamic::Int)].boxed()
        }
        name if name.ends_with("_id") => Just(text(ID)).boxed(),
        "event_type" => Just(text("worker.spawned")).boxed(),
        "tokens_in" | "latency_ms" | "sequence" => (0..9_i64).prop_map(Dynamic::Int).boxed(),
        "models_in_chain" => Just(Dynamic::Json(r#"["a","b"]"#.into())).boxed(),
        _ => Just(text("a \"text\"\n")).boxed(),
    };
    let odd = prop_oneof![
        Just(Dynamic::Null),
        any::<bool>().prop_map(Dynamic::Bool),
        any::<i64>().prop_map(Dynamic::Int),
        any::<f64>().prop_map(Dynamic::Float),
        prop::sample::select(vec![
            "",
            "5",
            "true",
            "\"5\"",
            "{\"a\":1}",
            "2026-07-28",
            ID
        ])
        .prop_map(text),
        prop::sample::select(vec![
            "{\"a\": [1, 2]}",
            "[\"a\"]",
            "{}",
            "18446744073709551615"
        ])
        .prop_map(|json| Dynamic::Json(json.into())),
    ];
    prop_oneof![8 => usual, 1 => odd].boxed()
}

const NAMES: &[&str] = &[
    "kind",
    "op",
    "turn_kind",
    "id",
    "message_id",
    "parent_id",
    "thread_id",
    "content",
    "created_at",
    "request_id",
    "call_id",
    "vendor",
    "tool_name",
    "started_at",
    "args_sha256",
    "arguments_json",
    "ended_at",
    "latency_ms",
    "error_kind",
    "error_msg",
    "outcome_json",
    "conversation_id",
    "sequence",
    "timestamp",
    "role",
    "source",
    "content_type",
    "tokens_in",
    "context_utilization",
    "compression_applied",
    "models_in_chain",
    "inference_metadata",
    "event_type",
    "payload",
    "chat_id",
    "text",
    "task_id",
    "agent_id",
    "type",
    "prev_hash",
    "hash",
    "at",
    "seq",
    "status",
    "unknown",
];

fn members() -> impl Strategy<Value = Vec<Named<'static>>> {
    let of_kind: Vec<Vec<&'static str>> = vec![
        vec!["kind", "content", "created_at", "id"],
        vec!["turn_kind", "content", "thread_id"],
        vec![
            "op",
            "call_id",
            "request_id",
            "ended_at",
            "outcome_json",
            "kind",
        ],
        vec![
            "op",
            "call_id",
            "request_id",
            "parent_id",
            "vendor",
            "tool_name",
            "arguments_json",
        ],
        vec![
            "conversation_id",
            "role",
            "content",
            "tokens_in",
            "source",
            "models_in_chain",
        ],
        vec!["event_type", "payload", "parent_id"],
        vec!["chat_id", "role", "text"],
        vec!["kind", "task_id", "agent_id", "type", "content"],
    ];
    let more = prop::collection::vec(prop::sample::select(NAMES), 0..3);
    (prop::sample::select(of_kind), more).prop_flat_map(|(mut names, more)| {
        names.extend(more);
        let members = names.into_iter().map(|name| (Just(name), value(name)));
        members.collect::<Vec<_>>()
    })
}

/// Without what is made anew each time.
fn shown(given: Result<GivenRecord>) -> std::result::Result<(String, bool), String> {
    let mut given = given.map_err(|e| e.to_string())?;
    let times = |at: &mut i64| *at = 0;
    if !given.has_time {
        match &mut given.record {
            Record::Turn(turn) => times(&mut turn.created_at.at),
            Record::CallRequested(call) => times(&mut call.started_at.at),
            Record::CallDone(done) => times(&mut done.ended_at.at),
            Record::Event(event) => times(&mut event.created_at),
            Record::History(entry) => times(&mut entry.created_at),
            Record::Message(message) => message.timestamp = Timestamp::from_ms(0).unwrap(),
            Record::Thought(thought) => thought.timestamp = Timestamp::from_ms(0).unwrap(),
            _ => {}
        }
    }
    let text = format!("{:?}", given.record);
    let new_id = uuid_pattern();
    let text = new_id.replace_all(&text, |found: &regex::Captures<'_>| {
        if &found[0] == ID {
            ID.to_owned()
        } else {
            "new".to_owned()
        }
    });
    Ok((text.into_owned(), given.has_time))
}

fn uuid_pattern() -> regex::Regex {
    regex::Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn values_and_their_json_are_the_same_record(
        kind in prop::option::weighted(0.5, prop::sample::select(&Kind::ALL[..])),
        members in members(),
    ) {
        let by_json = json(kind, &members).and_then(|json| Record::from_line(&json));
        // Steps of other kinds have times that are not compared here.
        let is_compared = by_json.as_ref().is_ok_and(|given| {
            !matches!(given.record, Record::InboxTask(_) | Record::InboxStep(_)
                | Record::Proposal(_) | Record::ProposalStep(_) | Record::Conversation(_)
                | Record::ConversationUpdated(_))
        });
        if is_compared || by_json.is_err() {
            let by_values = Record::from_dynamic(kind, &members);
            prop_assert_eq!(shown(by_values), shown(by_json));
        }
    }
}

#[test]
fn usual_records_are_read_without_json() {
    let text = |text: &'static str| Dynamic::Text(text.into());
    let usual: [&[Named<'_>]; 5] = [
        &[("kind", text("user")), ("content", text("hi"))],
        &[("kind", text("events")), ("event_type", text("a.b"))],
        &[
            ("kind", text("tool_calls")),
            ("op", text("requested")),
            ("request_id", text(ID)),
            ("call_id", text("c")),
            ("parent_id", text(ID)),
            ("vendor", text("v")),
            ("tool_name", text("t")),
            ("arguments_json", Dynamic::Json("{}".into())),
        ],
        &[
            ("kind", text("messages")),
            ("conversation_id", text(ID)),
            ("role", text("user")),
            ("content", text("hi")),
        ],
        &[
            ("kind", text("thought_records")),
            ("task_id", text("t")),
            ("agent_id", text("a")),
            ("type", text("plan")),
            ("content", text("c")),
        ],
    ];
    for members in usual {
        assert!(read(None, members).is_some(), "{members:?}");
    }
}
