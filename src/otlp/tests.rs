//! What instrumentations send, compared with what was sent to the model.

use std::path::{Path, PathBuf};

use super::receive::{Outcome, Receiver};
use super::request::{Encoding, Signal};
use crate::query::{ConversationQuery, TurnQuery};
use crate::record::ConversationMessage;
use crate::store::Store;

fn fixtures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/otlp");
    let mut found: Vec<PathBuf> = std::fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

struct Sent {
    signal: Signal,
    encoding: Encoding,
    body: Vec<u8>,
}

fn bodies(fixture: &Path) -> Vec<Sent> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(fixture)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        let signal = match name.split('.').nth(1).unwrap() {
            "traces" => Signal::Traces,
            "logs" => Signal::Logs,
            "metrics" => Signal::Metrics,
            _ => continue,
        };
        let encoding = if name.contains(".pb") {
            Encoding::Protobuf
        } else {
            Encoding::Json
        };
        let mut body = std::fs::read(&path).unwrap();
        if name.ends_with(".gz") {
            let out = std::process::Command::new("gzip")
                .arg("-dc")
                .arg(&path)
                .output()
                .unwrap();
            body = out.stdout;
        }
        found.push(Sent {
            signal,
            encoding,
            body,
        });
    }
    found
}

fn receive(receiver: &Receiver, sent: &Sent) -> Outcome {
    receiver
        .receive(sent.encoding, sent.signal, &sent.body)
        .unwrap()
}

#[test]
fn dump() {
    for fixture in fixtures() {
        let name = fixture.file_name().unwrap().to_str().unwrap();
        if std::env::var("ONLY").is_ok_and(|only| only != name) {
            continue;
        }
        println!("=== {name}");
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().join("log")).unwrap();
        let receiver = Receiver::new(store.clone());
        for sent in bodies(&fixture) {
            let outcome = receive(&receiver, &sent);
            println!("{:?} {outcome:?}", sent.signal);
        }
        let all = ConversationQuery {
            limit: 100,
            ..Default::default()
        };
        for (conversation, stats) in store.conversations(&all).unwrap().items {
            println!(
                "-- {} session {:?} agent {:?} tokens {}/{} messages {}",
                conversation.id,
                conversation.session_id,
                conversation.agent,
                stats.total_tokens_in,
                stats.total_tokens_out,
                stats.message_count
            );
            let messages: Vec<ConversationMessage> = store
                .messages(conversation.id, &Default::default())
                .unwrap()
                .items;
            for message in messages {
                println!(
                    "   {:?} {:?} {:.60?} tool {:?} {:?} {:.60?} model {:?} tokens {:?}/{:?} r{:?} w{:?} t{:?} err {:?} {:.60?} part {:?} reasoning {:?} lat {:?}",
                    message.sequence,
                    message.role,
                    message.content,
                    message.tool_name,
                    message.tool_args,
                    message.tool_result,
                    message.model_used,
                    message.tokens_in,
                    message.tokens_out,
                    message.tokens_cache_read,
                    message.tokens_cache_write,
                    message.tokens_reasoning,
                    message.error_type,
                    message.error,
                    message.part_of.is_some(),
                    message.reasoning,
                    message.latency_ms
                );
            }
        }
        for (req, done) in store.tool_calls(&Default::default()).unwrap().items {
            println!(
                "   call {} {} {:?} {:?}",
                req.call_id,
                req.tool_name,
                req.arguments_json,
                done.map(|done| (
                    done.status,
                    done.latency_ms,
                    done.outcome_json,
                    done.error_kind,
                    done.error_msg
                ))
            );
        }
        let all = TurnQuery {
            limit: 1000,
            ..Default::default()
        };
        for turn in store.turns(&all).unwrap().items {
            println!(
                "   turn {:?} {:.200}",
                turn.kind,
                turn.content.replace('\n', " ")
            );
        }
        store.close().unwrap();
    }
}
