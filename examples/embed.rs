//! The loop of an agent that keeps its log with the library. The model and its tools are made up;
//! the log is real, in a temporary directory that is removed at the end.
//!
//! `cargo run --example embed`

use decklog::{ConversationTurn, ObservabilityStore, Store, ToolCallDone, ToolCallReq};
use decklog::{ToolStatus, TurnKind, Validity};
use uuid::Uuid;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("decklog-embed-{}", Uuid::new_v4()));
    let store = Store::open(&dir)?;
    let asked = say(&store, None, TurnKind::User, "How long is main.rs?")?;
    call(&store, asked, "list_files", r#"{"path":"src"}"#)?;
    call(&store, asked, "read_file", r#"{"path":"src/mian.rs"}"#)?;
    call(&store, asked, "read_file", r#"{"path":"src/main.rs"}"#)?;
    say(&store, Some(asked), TurnKind::Assistant, "40 lines.")?;

    for turn in store.list_conversation_since(0, 10)? {
        println!("{}: {}", turn.kind, turn.content);
    }
    for (call, outcome) in store.list_tool_calls_by_parent(asked, 10)? {
        let status = outcome.as_ref().map_or("open", |done| done.status.as_str());
        let error = outcome.and_then(|done| done.error_msg).unwrap_or_default();
        println!("  {} {status} {error}", call.tool_name);
    }
    store.close()?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

fn say(store: &Store, parent: Option<Uuid>, kind: TurnKind, said: &str) -> decklog::Result<Uuid> {
    let id = Uuid::new_v4();
    store.upsert_conversation_turn(ConversationTurn {
        id,
        parent_id: parent,
        message_id: Uuid::new_v4(),
        kind,
        content: said.to_owned(),
        created_at: Validity::now(),
        thread_id: None,
    })?;
    Ok(id)
}

/// Runs a tool. The request is in the log before the tool starts, so a crash leaves a trace.
fn call(store: &Store, turn: Uuid, tool: &str, arguments: &str) -> decklog::Result<()> {
    let request = ToolCallReq {
        request_id: Uuid::new_v4(),
        call_id: "call_1".to_owned(),
        parent_id: turn,
        vendor: "example".to_owned(),
        tool_name: tool.to_owned(),
        args_sha256: decklog::args_sha256(arguments),
        arguments_json: Some(arguments.to_owned()),
        started_at: Validity::now(),
    };
    store.record_tool_call_requested(request.clone())?;
    let error = arguments
        .contains("mian")
        .then(|| "no such file".to_owned());
    let ended_at = Validity::now();
    store.record_tool_call_done(ToolCallDone {
        request_id: request.request_id,
        call_id: request.call_id,
        ended_at,
        latency_ms: (ended_at.at - request.started_at.at).max(0),
        outcome_json: error.is_none().then(|| r#"{"lines":40}"#.to_owned()),
        error_kind: error.is_some().then(|| "not_found".to_owned()),
        status: error
            .as_ref()
            .map_or(ToolStatus::Completed, |_| ToolStatus::Failed),
        error_msg: error,
    })
}
