//! Sessions of all agents come back from the log as documents of ATIF, without their sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use decklog::import::{Expired, Importer, Report};
use decklog::query::{CallQuery, ConversationQuery, MessageQuery, TurnQuery};
use decklog::{Client, Conversation, ConversationMessage, Role, Store};
use serde_json::Value;
use uuid::Uuid;

fn import(store: &Store, path: &Path) -> Report {
    let mut importer = Importer::new(store).expired(Expired::Expire);
    importer.path(path).unwrap();
    importer.finish().unwrap()
}

fn export(store: &Store) -> String {
    let mut documents = String::new();
    let query = ConversationQuery::default();
    let mut each = |document: String| -> decklog::Result<()> {
        documents.push_str(&document);
        documents.push('\n');
        Ok(())
    };
    store.each_atif(&query, &mut each).unwrap();
    documents
}

/// All records that an import makes, as sorted JSON.
fn records(store: &Store) -> BTreeSet<String> {
    let json = |record: &dyn erased::Json| record.json();
    let mut all = BTreeSet::new();
    let query = ConversationQuery {
        limit: usize::MAX,
        ..ConversationQuery::default()
    };
    for (conversation, _) in store.conversations(&query).unwrap().items {
        let query = MessageQuery {
            limit: usize::MAX,
            ..MessageQuery::default()
        };
        for message in store.messages(conversation.id, &query).unwrap().items {
            all.insert(json(&message));
        }
        all.insert(json(&conversation));
    }
    let query = TurnQuery {
        limit: usize::MAX,
        ..TurnQuery::default()
    };
    all.extend(store.turns(&query).unwrap().items.iter().map(|it| json(it)));
    let query = CallQuery {
        limit: usize::MAX,
        ..CallQuery::default()
    };
    for (req, done) in store.tool_calls(&query).unwrap().items {
        all.insert(json(&req));
        all.extend(done.map(|done| json(&done)));
    }
    all
}

mod erased {
    /// A record as JSON.
    pub trait Json {
        fn json(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn json(&self) -> String {
            serde_json::to_string(self).unwrap()
        }
    }
}

/// Copies the files of a folder whose agents are known.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, to).unwrap();
        }
    }
}

/// All strings of a document, and the arguments of calls as they are.
fn strings(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            into.insert(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| strings(item, into)),
        Value::Object(members) => members.values().for_each(|item| strings(item, into)),
        _ => {}
    }
}

/// The steps of a document and of those in it.
fn steps<'a>(document: &'a Value, into: &mut Vec<&'a Value>) {
    into.extend(document["steps"].as_array().unwrap());
    for agent in document["subagent_trajectories"]
        .as_array()
        .into_iter()
        .flatten()
    {
        steps(agent, into);
    }
}

/// Checks that the documents have everything that the log has, at the places of ATIF.
fn check_places(store: &Store, documents: &[Value]) {
    let mut all = Vec::new();
    for document in documents {
        steps(document, &mut all);
    }
    let mut texts = BTreeSet::new();
    let mut calls = BTreeSet::new();
    let mut results = BTreeSet::new();
    let mut sums = [0; 3];
    for step in all {
        texts.insert(step["message"].as_str().unwrap().to_owned());
        texts.extend(step["reasoning_content"].as_str().map(str::to_owned));
        for call in step["tool_calls"].as_array().into_iter().flatten() {
            let [id, name] = ["tool_call_id", "function_name"].map(|it| call[it].to_string());
            calls.insert((id, name));
        }
        for result in step["observation"]["results"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let text = result["content"].as_str();
            results.extend(text.map(str::to_owned));
        }
        let names = ["prompt_tokens", "completion_tokens", "cached_tokens"];
        for (sum, name) in sums.iter_mut().zip(names) {
            *sum += step["metrics"][name].as_i64().unwrap_or(0);
        }
    }
    let query = ConversationQuery {
        limit: usize::MAX,
        ..ConversationQuery::default()
    };
    let mut expected = [0; 3];
    for (conversation, _) in store.conversations(&query).unwrap().items {
        let query = MessageQuery {
            limit: usize::MAX,
            ..MessageQuery::default()
        };
        for message in store.messages(conversation.id, &query).unwrap().items {
            let has = |text: &str| texts.iter().any(|it| it.contains(text));
            if message.role != Role::Tool {
                assert!(has(&message.content), "{}", message.content);
            }
            let reasoning = message.reasoning.as_deref().unwrap_or_default();
            assert!(has(reasoning), "{reasoning}");
            if let Some(result) = &message.tool_result {
                assert!(results.contains(result), "{result}");
            }
            let counts = [
                message.tokens_in,
                message.tokens_out,
                message.tokens_cache_read,
            ];
            for (sum, count) in expected.iter_mut().zip(counts) {
                *sum += count.unwrap_or(0);
            }
        }
    }
    assert_eq!(sums, expected);
    let query = CallQuery {
        limit: usize::MAX,
        ..CallQuery::default()
    };
    for (req, _) in store.tool_calls(&query).unwrap().items {
        let [id, name] =
            [&req.call_id, &req.tool_name].map(|it| Value::from(it.as_str()).to_string());
        assert!(calls.contains(&(id, name)), "{req:?}");
    }
}

#[test]
fn every_session_comes_back_after_its_source_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let sources = dir.path().join("sources");
    copy(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"),
        &sources,
    );
    let store = Store::open(dir.path().join("log")).unwrap();
    let report = import(&store, &sources);
    let (tokens_in, tokens_out) = (report.tokens_in, report.tokens_out);
    assert!(report.conversations >= 3);
    fs::remove_dir_all(&sources).unwrap();

    let text = export(&store);
    let documents: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    check_places(&store, &documents);
    let sum = |name: &str| {
        let mut all = Vec::new();
        for document in &documents {
            steps(document, &mut all);
        }
        let counts = all.iter().filter_map(|step| step["metrics"][name].as_u64());
        counts.sum::<u64>()
    };
    assert_eq!(sum("prompt_tokens"), tokens_in);
    assert_eq!(sum("completion_tokens"), tokens_out);

    let other = Store::open(dir.path().join("other")).unwrap();
    let file = dir.path().join("all.atif.jsonl");
    fs::write(&file, &text).unwrap();
    let restored = import(&other, &file);
    assert_eq!(restored.broken, []);
    assert_eq!(restored.not_understood.len(), 0);
    assert_eq!(records(&other), records(&store));
    assert_eq!(export(&other), text);
    // Into the log that has them, they bring nothing.
    assert_eq!(import(&store, &file).added, 0);
}

/// The texts of the blocks, and of the results, in the lines of Claude Code and Codex.
fn texts_of_source(line: &Value) -> Vec<String> {
    let mut texts = Vec::new();
    let mut add = |value: &Value| texts.extend(value.as_str().map(str::to_owned));
    let blocks = |value: &Value| value.as_array().cloned().unwrap_or_default();
    match line["type"].as_str() {
        Some("user" | "assistant") => {
            add(&line["message"]["content"]);
            for block in blocks(&line["message"]["content"]) {
                for name in ["text", "thinking", "content", "id", "name"] {
                    add(&block[name]);
                }
            }
        }
        Some("response_item") => {
            let item = &line["payload"];
            for name in ["arguments", "input", "output", "call_id", "name"] {
                add(&item[name]);
            }
            for part in blocks(&item["content"])
                .iter()
                .chain(&blocks(&item["summary"]))
            {
                add(&part["text"]);
            }
        }
        _ => {}
    }
    texts
}

#[test]
fn each_text_call_and_result_of_a_source_is_in_the_document() {
    for name in ["claude-code-session.jsonl", "codex-rollout.jsonl"] {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data")
            .join(name);
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        import(&store, &source);
        let document: Value = serde_json::from_str(export(&store).trim()).unwrap();
        let mut all = BTreeSet::new();
        strings(&document, &mut all);
        // Arguments that are objects stand as objects.
        let arguments: Vec<Value> = {
            let mut list = Vec::new();
            steps(&document, &mut list);
            let calls = list.iter().filter_map(|step| step["tool_calls"].as_array());
            calls
                .flatten()
                .map(|call| call["arguments"].clone())
                .collect()
        };
        let mut found = 0;
        for line in fs::read_to_string(&source).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            for text in texts_of_source(&line) {
                let is_text = all.iter().any(|it| it.contains(text.as_str()));
                let parsed = serde_json::from_str::<Value>(&text).ok();
                assert!(
                    is_text || parsed.is_some_and(|it| arguments.contains(&it)),
                    "{name}: {text}"
                );
                found += 1;
            }
        }
        assert!(found > 20, "{name}: {found}");
    }
}

#[test]
fn what_gateways_recorded_comes_back_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("log")).unwrap();
    let id = Uuid::from_u128(7);
    let mut conversation = Conversation::new(id, Client::Api);
    conversation.session_id = Some("s".to_owned());
    conversation.user_id = Some("u".to_owned());
    store.record(conversation).unwrap();
    let empty = Conversation::new(Uuid::from_u128(8), Client::Web);
    store.record(empty).unwrap();
    let message = |role, text: &str| ConversationMessage::new(id, role, text);
    let mut call = message(Role::Assistant, "");
    call.tool_call_id = Some("c".to_owned());
    call.tool_name = Some("sh".to_owned());
    call.tool_args = Some("[1,\t2]".to_owned());
    call.inference_metadata = Some(r#"{"b":1.50,"a":[]}"#.to_owned());
    let mut result = message(Role::Tool, "not the result");
    result.tool_call_id = Some("c".to_owned());
    result.tool_result = Some("out".to_owned());
    let mut failed = message(Role::Assistant, "Error: too long");
    failed.error = Some("too long".to_owned());
    failed.error_type = Some("context".to_owned());
    failed.cost_usd = Some(0.125);
    for message in [
        message(Role::User, "hello"),
        call,
        result,
        message(Role::Tool, "of no call"),
        failed,
    ] {
        store.record(message).unwrap();
    }
    let text = export(&store);
    let file: PathBuf = dir.path().join("two.atif.jsonl");
    fs::write(&file, &text).unwrap();
    let other = Store::open(dir.path().join("other")).unwrap();
    assert_eq!(import(&other, &file).broken, []);
    assert_eq!(records(&other), records(&store));
    assert_eq!(export(&other), text);
    let document: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        document["steps"][1]["tool_calls"][0]["arguments"]["input"],
        "[1,\t2]"
    );
    assert_eq!(
        document["steps"][1]["observation"]["results"][0]["content"],
        "out"
    );
    assert_eq!(document["final_metrics"]["total_cost_usd"], 0.125);
    assert!(store.atif(Uuid::from_u128(9)).unwrap().is_none());
}
