//! Records of kinds that no tool in `--tools` reads cannot be reached in any other way: not through
//! a resource, prompt, list, completion or subscription.

use std::collections::BTreeSet;

use decklog::record::ThoughtType;
use decklog::thoughts::NewThought;
use decklog::{
    Client as Where, Conversation, ConversationMessage, Event, HistoryEntry, Kind, Role, Store,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::client::Client;
use crate::support::{DAY_1, DAY_1_NAME, request, still, turn};

/// Tools, and the kinds of records that they read.
pub const CASES: &[(&[&str], &[Kind])] = &[
    (&["log_search"], &Kind::ALL),
    (
        &["conversation_get"],
        &[Kind::Conversations, Kind::Messages],
    ),
    (
        &["conversation_search", "event_tree"],
        &[Kind::Conversations, Kind::Messages, Kind::Events],
    ),
    (&["event_tree"], &[Kind::Events]),
    (&["thought_record_get"], &[Kind::ThoughtRecords]),
    (
        &["thought_record", "thought_record_list"],
        &[Kind::ThoughtRecords],
    ),
    (
        &["tool_call_get", "turns_since"],
        &[Kind::ToolCalls, Kind::ConversationTurns],
    ),
    (&["tool_calls_list"], &[Kind::ToolCalls]),
    (&["proposals_list"], &[Kind::CodeEditProposals]),
    (
        &[
            "tool_call_get",
            "conversation_get",
            "event_tree",
            "thought_record_get",
        ],
        &[
            Kind::ToolCalls,
            Kind::Conversations,
            Kind::Messages,
            Kind::Events,
            Kind::ThoughtRecords,
        ],
    ),
    (
        &["tool_call_get", "conversation_get", "event_tree"],
        &[
            Kind::ToolCalls,
            Kind::Conversations,
            Kind::Messages,
            Kind::Events,
        ],
    ),
    // Writing and aggregating tools give no access to records.
    (&["thought_record", "event_log", "inbox_claim"], &[]),
    (&["usage_report", "audit_verify_chain"], &[]),
];

/// Tools that write.
pub const WRITE: [&str; 3] = ["thought_record", "event_log", "inbox_claim"];

const CONVERSATION: &[Kind] = &[Kind::Conversations, Kind::Messages];
const RUN: &[Kind] = &[Kind::Events];
const THOUGHTS: &[Kind] = &[Kind::ThoughtRecords];
const FAILURES: &[Kind] = &[
    Kind::ToolCalls,
    Kind::Conversations,
    Kind::Messages,
    Kind::Events,
];
const REVIEW: &[Kind] = &[
    Kind::ToolCalls,
    Kind::Conversations,
    Kind::Messages,
    Kind::Events,
    Kind::ThoughtRecords,
];

/// The contents of a filled log.
pub struct Filled {
    /// Every resource, and the kinds of its records.
    uris: Vec<(String, Vec<Kind>)>,
    talk: Uuid,
    run: i64,
}

pub fn fill(store: &Store) -> Filled {
    let at = "2025-12-27T10:40:00Z".parse().unwrap();
    let mut talk = Conversation::new(Uuid::from_u128(77), Where::Api);
    talk.created_at = at;
    let mut message = ConversationMessage::new(talk.id, Role::User, "said");
    message.timestamp = talk.created_at.clone();
    let id = talk.id;
    store.record(talk).unwrap();
    store.record(message).unwrap();
    store.record(turn(1, "said", DAY_1)).unwrap();
    store.record(request(2, "call", DAY_1)).unwrap();
    let event = with!(Event::new(None, "agent.started"), created_at: DAY_1);
    let run = store.record(event).unwrap().assigned.unwrap();
    let entry = with!(HistoryEntry::new(1, Role::User, "said"), created_at: DAY_1);
    store.record(entry).unwrap();
    let thought = NewThought {
        thought_type: ThoughtType::Plan,
        task_id: "t".into(),
        agent_id: "a".into(),
        content: "to do".into(),
    };
    let today = store.thoughts().create(thought).unwrap().timestamp;
    let today = &today.to_string()[..10];
    let mut uris = vec![
        (
            format!("decklog://conversations/{id}"),
            CONVERSATION.to_vec(),
        ),
        (format!("decklog://events/{run}/tree"), RUN.to_vec()),
        ("decklog://thoughts/t".to_owned(), THOUGHTS.to_vec()),
    ];
    for (day, kind) in [
        (DAY_1_NAME, Kind::Conversations),
        (DAY_1_NAME, Kind::Messages),
        (DAY_1_NAME, Kind::ConversationTurns),
        (DAY_1_NAME, Kind::ToolCalls),
        (DAY_1_NAME, Kind::Events),
        (DAY_1_NAME, Kind::History),
        (today, Kind::ThoughtRecords),
    ] {
        uris.push((format!("decklog://days/{day}/{}", kind.stem()), vec![kind]));
    }
    Filled {
        uris,
        talk: id,
        run,
    }
}

/// Bug: resources, prompts and completions were announced even if no tool reads anything.
fn announces_what_there_is(capabilities: &Value, kinds: &[Kind]) {
    let covers = |needed: &[Kind]| needed.iter().all(|kind| kinds.contains(kind));
    let has_prompts = [RUN, REVIEW, FAILURES].into_iter().any(covers);
    let announced = |name: &str| capabilities.get(name).is_some();
    assert!(announced("tools"), "{capabilities}");
    assert_eq!(announced("resources"), !kinds.is_empty(), "{kinds:?}");
    assert_eq!(announced("prompts"), has_prompts, "{kinds:?}");
    assert_eq!(announced("completions"), !kinds.is_empty(), "{kinds:?}");
}

/// Requests everything that a server could show; `ask` returns the whole answer.
pub fn check(
    ask: &mut dyn FnMut(&str, Value) -> Value,
    filled: &Filled,
    tools: &[&str],
    kinds: &[Kind],
) {
    let covered = |needed: &[Kind]| needed.iter().all(|kind| kinds.contains(kind));
    let mut result = |method: &str, params: Value| {
        let mut answer = ask(method, params);
        assert!(
            answer.get("error").is_none(),
            "{tools:?} {method}: {answer}"
        );
        answer["result"].take()
    };
    let names = |list: &Value, member: &str| -> BTreeSet<String> {
        let list = list.as_array().unwrap();
        let names = list
            .iter()
            .map(|it| it[member].as_str().unwrap().to_owned());
        names.collect()
    };
    let expected = |all: &[(&str, &[Kind])]| -> BTreeSet<String> {
        let shown = all.iter().filter(|(_, needed)| covered(needed));
        shown.map(|(name, _)| (*name).to_owned()).collect()
    };

    let listed = names(&result("tools/list", json!({}))["tools"], "name");
    let offered: BTreeSet<String> = tools.iter().map(|it| (*it).to_owned()).collect();
    assert_eq!(listed, offered);
    let templates = result("resources/templates/list", json!({}));
    let mut wanted = expected(&[
        ("conversation", CONVERSATION),
        ("run", RUN),
        ("thoughts", THOUGHTS),
    ]);
    wanted.extend((!kinds.is_empty()).then(|| "day".to_owned()));
    assert_eq!(
        names(&templates["resourceTemplates"], "name"),
        wanted,
        "{tools:?}"
    );
    let resources = result("resources/list", json!({}));
    assert!(resources.get("nextCursor").is_none());
    let all: Vec<(&str, &[Kind])> = filled
        .uris
        .iter()
        .map(|(uri, it)| (&**uri, &**it))
        .collect();
    assert_eq!(
        names(&resources["resources"], "uri"),
        expected(&all),
        "{tools:?}"
    );
    let prompts = result("prompts/list", json!({}));
    let (talk, run) = (filled.talk, filled.run.to_string());
    let by_prompt = [
        ("what_happened", RUN, json!({ "run": run })),
        ("daily_review", REVIEW, json!({ "day": DAY_1_NAME })),
        ("find_failures", FAILURES, json!({ "since": DAY_1_NAME })),
    ];
    let wanted = by_prompt
        .each_ref()
        .map(|(name, needed, _)| (*name, *needed));
    assert_eq!(
        names(&prompts["prompts"], "name"),
        expected(&wanted),
        "{tools:?}"
    );

    let template = |uri: &str| json!({ "type": "ref/resource", "uri": uri });
    let prompt = |name: &str| json!({ "type": "ref/prompt", "name": name });
    for (of, name, needed, value) in [
        (
            template("decklog://conversations/{id}{?after}"),
            "id",
            CONVERSATION,
            talk.to_string(),
        ),
        (
            template("decklog://events/{id}/tree{?after}"),
            "id",
            RUN,
            run.clone(),
        ),
        (
            template("decklog://thoughts/{task_id}{?after}"),
            "task_id",
            THOUGHTS,
            "t".into(),
        ),
        (
            template("decklog://days/{day}/{kind}{?after}"),
            "kind",
            &[Kind::History],
            "history".into(),
        ),
        (
            template("decklog://days/{day}/{kind}{?after}"),
            "kind",
            &[Kind::Events],
            "events".into(),
        ),
        (prompt("what_happened"), "run", RUN, run.clone()),
        (prompt("daily_review"), "day", REVIEW, DAY_1_NAME.into()),
    ] {
        let params = json!({ "ref": of, "argument": { "name": name, "value": "" } });
        let completed = result("completion/complete", params);
        let values = completed["completion"]["values"].as_array().unwrap();
        assert_eq!(
            values.contains(&json!(value)),
            covered(needed),
            "{tools:?} {of} {name}"
        );
    }
    let params = json!({
        "ref": template("decklog://days/{day}/{kind}{?after}"),
        "argument": { "name": "day", "value": DAY_1_NAME },
    });
    let completed = result("completion/complete", params);
    let days = completed["completion"]["values"].as_array().unwrap();
    let is_any = all
        .iter()
        .any(|(uri, needed)| uri.contains(DAY_1_NAME) && covered(needed));
    assert_eq!(!days.is_empty(), is_any, "{tools:?}");

    for (uri, needed) in &all {
        for method in ["resources/read", "resources/subscribe"] {
            let answer = ask(method, json!({ "uri": uri }));
            let is_shown = answer.get("result").is_some();
            assert_eq!(
                is_shown,
                covered(needed),
                "{tools:?} {method} {uri}: {answer}"
            );
            if !is_shown {
                assert_eq!(answer["error"]["data"]["uri"], *uri, "{answer}");
            }
        }
    }
    for (name, needed, arguments) in by_prompt {
        let answer = ask(
            "prompts/get",
            json!({ "name": name, "arguments": arguments }),
        );
        let is_shown = answer.get("result").is_some();
        assert_eq!(is_shown, covered(needed), "{tools:?} {name}: {answer}");
    }
}

#[test]
fn no_resource_or_prompt_shows_what_no_tool_reads() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let filled = fill(&still().open(&path).unwrap());
    for (tools, kinds) in CASES {
        for is_read_only in [false, true] {
            let reading: Vec<&str> = tools.to_vec();
            let reading: Vec<&str> = reading
                .into_iter()
                .filter(|tool| !is_read_only || !WRITE.contains(tool))
                .collect();
            if reading.is_empty() {
                continue;
            }
            let named = reading.join(",");
            let mut args = vec!["--tools", &named];
            args.extend(is_read_only.then_some("--read-only"));
            let mut client = Client::start(&path, &args);
            let greeted = client.greet();
            announces_what_there_is(&greeted["capabilities"], kinds);
            let mut ask = |method: &str, params: Value| {
                let id = client.begin(method, params);
                client.answer(id)
            };
            check(&mut ask, &filled, &reading, kinds);
            client.end();
        }
    }
    // Without --tools, everything is shown.
    for args in [&[][..], &["--read-only"]] {
        let mut client = Client::start(&path, args);
        client.greet();
        let listed = client.ask("tools/list", json!({}));
        let listed = listed["tools"].as_array().unwrap().clone();
        let listed: Vec<&str> = listed
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        let mut ask = |method: &str, params: Value| {
            let id = client.begin(method, params);
            client.answer(id)
        };
        check(&mut ask, &filled, &listed, &Kind::ALL);
        client.end();
    }
}
