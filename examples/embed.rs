//! The loop of an agent that keeps its log with the library. The model and its tools are made up;
//! the log is real, in a temporary directory that is removed at the end.
//!
//! `cargo run --example embed`

use decklog::query::TurnQuery;
use decklog::run::Run;
use decklog::uuid::Uuid;
use decklog::{ObservabilityStore, Store};
use serde_json::{Value, json};

/// The loop of an agent: it asks the model, runs the tools that the model calls, and ends when the
/// model calls none.
fn answer(run: &Run, model: &mut Model, question: &str) -> decklog::Result<String> {
    run.user(question)?;
    loop {
        let reply = model.reply();
        let turn = run.assistant(&reply.text)?;
        if reply.calls.is_empty() {
            return Ok(reply.text);
        }
        for (id, tool, arguments) in &reply.calls {
            // The request is in the log before the tool starts, so a crash leaves a trace.
            let call = turn.call(*id, *tool, arguments)?;
            let result = call.run(|| run_tool(tool, arguments))?;
            model.tell(id, result);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("decklog-embed-{}", Uuid::new_v4()));
    let store = Store::open(&dir)?;
    let run = store.run("example");
    answer(&run, &mut Model::default(), "How long is main.rs?")?;

    let query = TurnQuery {
        thread_id: Some(run.thread_id()),
        ..TurnQuery::default()
    };
    for turn in store.turns(&query)?.items {
        println!("{}: {}", turn.kind, turn.content);
        for (call, outcome) in store.list_tool_calls_by_parent(turn.id, 10)? {
            let status = outcome.as_ref().map_or("open", |done| done.status.as_str());
            let error = outcome.and_then(|done| done.error_msg).unwrap_or_default();
            println!("  {} {status} {error}", call.tool_name);
        }
    }
    store.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn run_tool(tool: &str, arguments: &Value) -> Result<Value, String> {
    match (tool, arguments["path"].as_str()) {
        ("list_files", Some(_)) => Ok(json!(["main.rs"])),
        ("count_lines", Some("src/main.rs")) => Ok(json!({ "lines": 40 })),
        (_, path) => Err(format!("no such file: {path:?}")),
    }
}

/// What a model says, and which tools it calls: an id, the tool and its arguments.
struct Reply {
    text: String,
    calls: Vec<(&'static str, &'static str, Value)>,
}

/// A model that plays a script.
#[derive(Default)]
struct Model {
    results: Vec<Result<Value, String>>,
}

impl Model {
    fn reply(&self) -> Reply {
        let (text, calls) = match self.results.len() {
            0 => {
                let list = ("call_1", "list_files", json!({ "path": "src" }));
                let wrong = ("call_2", "count_lines", json!({ "path": "src/mian.rs" }));
                ("I will look.", vec![list, wrong])
            }
            2 => {
                let right = ("call_3", "count_lines", json!({ "path": "src/main.rs" }));
                ("That was a typing error.", vec![right])
            }
            _ => ("40 lines.", vec![]),
        };
        let text = text.to_owned();
        Reply { text, calls }
    }

    fn tell(&mut self, _call_id: &str, result: Result<Value, String>) {
        self.results.push(result);
    }
}
