//! A gateway in front of language models that logs what passes through it and never waits for the
//! log. The requests and the models are made up; the log is real, and goes away at the end.
//!
//! `cargo run --example gateway`

use std::thread;

use decklog::query::{ConversationQuery, MessageQuery};
use decklog::record::TokenCount;
use decklog::{Client, Conversation, ConversationMessage, InferenceMetadata, Role, Store};
use uuid::Uuid;

const WORKERS: usize = 4;
const REQUESTS: usize = 25;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = std::env::temp_dir().join(format!("decklog-gateway-{}", Uuid::new_v4()));
    let logged = serve_and_show(&Store::open(&dir)?);
    std::fs::remove_dir_all(&dir)?;
    Ok(logged?)
}

fn serve_and_show(store: &Store) -> decklog::Result<()> {
    // A record that the log does not take is told here, long after the request was served.
    let capture = store
        .capture_options()
        .on_error(|error, record| eprintln!("not logged: {}: {error}", record.kind()))
        .start()?;

    thread::scope(|scope| {
        for worker in 0..WORKERS {
            let capture = &capture;
            scope.spawn(move || {
                let conversation = Conversation::new(Uuid::new_v4(), Client::Api)
                    .user_id(format!("user-{worker}"));
                for request in 0..REQUESTS {
                    if let Err(error) = serve(capture, &conversation, request) {
                        // Full or broken, the log is no reason not to serve.
                        eprintln!("not logged: {error}");
                    }
                }
            });
        }
    });

    // Everything is in the log from here on; the drop of `capture` would see to it, too.
    capture.flush()?;
    let stats = capture.stats();
    println!(
        "captured: {} accepted, {} written, {} known already, {} refused, {} lost",
        stats.accepted,
        stats.written,
        stats.unchanged,
        stats.refused,
        stats.rejected + stats.failed
    );
    for (conversation, totals) in store.conversations(&ConversationQuery::default())?.items {
        println!(
            "{}: {}, {} messages, {} tokens in, {} out, {} ms, models {}; last error: {}",
            conversation.user_id.as_deref().unwrap_or("?"),
            conversation.status,
            totals.message_count,
            totals.total_tokens_in,
            totals.total_tokens_out,
            totals.total_latency_ms,
            totals.models_used.join(", "),
            conversation.last_error.as_deref().unwrap_or("none"),
        );
        let query = MessageQuery {
            limit: 2,
            ..MessageQuery::default()
        };
        for message in store.messages(conversation.id, &query)?.items {
            println!("  {}: {:?}", message.role, message.content);
        }
    }
    Ok(())
}

/// One request: no call of `capture` waits for a lock or a disk.
fn serve(
    capture: &decklog::Capture,
    conversation: &Conversation,
    request: usize,
) -> decklog::Result<()> {
    let question = format!("What is {request} + 1?");
    let message = ConversationMessage::new(conversation.id, Role::User, question);
    // The conversation is created by its first request.
    capture.capture_request(conversation.clone(), [message])?;

    // The model's answer comes in chunks, each of which would go to the client at once.
    let mut response = capture.response(conversation.id);
    for chunk in ["That is ", &(request + 1).to_string(), "."] {
        response.push(chunk);
        if request == REQUESTS - 1 {
            response.fail("overloaded", "the provider hung up")?;
            return Ok(());
        }
    }
    let model = if request.is_multiple_of(5) {
        "big-2"
    } else {
        "small-1"
    };
    let tokens = TokenCount {
        tokens_in: 12,
        tokens_out: 5,
    };
    let metadata = InferenceMetadata {
        models_used: vec![model.to_owned()],
        total_latency_ms: Some(20),
        tokens_by_model: [(model.to_owned(), tokens)].into(),
        ..InferenceMetadata::default()
    };
    response.finish(&metadata)?;
    Ok(())
}
