//! Two servers and a process that embeds the log, on one store at the same time.

use std::collections::BTreeMap;

use decklog::Store;
use decklog::record::ThoughtType;
use decklog::thoughts::NewThought;
use serde_json::json;

use super::client::Client;
use crate::support::count;

const TASKS: [&str; 2] = ["shared", "other"];

#[test]
fn chains_stay_linear_and_all_see_all() {
    let rounds = count("DECKLOG_MCP_ROUNDS", 60);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let store = Store::open(&path).unwrap();
    std::thread::scope(|scope| {
        for server in 0..2 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::legacy(path);
                let ids: Vec<u64> = (0..rounds)
                    .map(|n| {
                        let given = json!({
                            "name": "thought_record",
                            "arguments": {
                                "type": "plan",
                                "task_id": TASKS[n as usize % 2],
                                "agent_id": format!("server {server}"),
                                "content": n.to_string(),
                            },
                        });
                        client.begin("tools/call", given)
                    })
                    .collect();
                for id in ids {
                    let answer = client.answer(id);
                    assert_eq!(
                        answer["result"]["structuredContent"]["ok"], true,
                        "{answer}"
                    );
                }
                client.end();
            });
        }
        for n in 0..rounds {
            let thought = NewThought {
                thought_type: ThoughtType::Analysis,
                task_id: TASKS[n as usize % 2].into(),
                agent_id: "embedding".into(),
                content: n.to_string(),
            };
            store.thoughts().create(thought).unwrap();
        }
    });
    let mut by_agent: BTreeMap<String, u64> = BTreeMap::new();
    for task in TASKS {
        let check = store.thoughts().verify_chain(task).unwrap();
        assert!(check.is_intact(), "{check:?}");
        for record in store.thoughts().list(Some(task), None).unwrap() {
            *by_agent.entry(record.agent_id).or_default() += 1;
        }
    }
    let expected = ["embedding", "server 0", "server 1"].map(|agent| (agent.to_owned(), rounds));
    assert_eq!(by_agent, BTreeMap::from(expected));
    // A server started later sees everything too.
    let mut client = Client::legacy(&path);
    let found = client.call("audit_verify_chain", json!({ "task_id": "shared" }));
    assert_eq!(found["data"]["records"], rounds.div_ceil(2) * 3);
    client.end();
}
