//! How long a caller is held up by the log: each call timed by itself, with messages of 1 KB, at
//! level `Disk`, so that the thread that writes is inside fdatasync nearly all the time.
//!
//! `cargo bench --bench capture_latency`

mod tiny;

use std::hint::black_box;
use std::time::{Duration, Instant};

use decklog::capture::WhenFull;
use decklog::record::TokenCount;
use decklog::{
    Client, Conversation, ConversationMessage, Durability, InferenceMetadata, Role, Store,
};
use uuid::Uuid;

const CALLS: usize = 100_000;
const BLOCKING_CALLS: usize = 500;

fn main() -> decklog::Result<()> {
    let dir = std::env::temp_dir().join(format!("decklog-capture-{}", Uuid::new_v4()));
    let measured = measure(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

fn measure(dir: &std::path::Path) -> decklog::Result<()> {
    let calls_max = tiny::size(CALLS, 200);
    let store = Store::options().durability(Durability::Disk).open(dir)?;
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    store.record(conversation)?;
    let content = "x".repeat(1024);
    let message = || ConversationMessage::new(id, Role::Assistant, content.clone());
    let tokens = TokenCount {
        tokens_in: 1200,
        tokens_out: 256,
    };
    let metadata = InferenceMetadata {
        models_used: vec!["small-1".to_owned()],
        tokens_by_model: [("small-1".to_owned(), tokens)].into(),
        ..InferenceMetadata::default()
    };
    println!(
        "{:<44} {:>9} {:>9} {:>9} {:>9}",
        "µs a call", "median", "p99", "p99.9", "max"
    );

    // Nothing, timed: what the clock itself costs.
    report(
        "the clock alone",
        calls_max,
        Duration::from_micros(20),
        || (),
        |()| (),
    );
    for (name, pause) in [
        ("50,000 a second", Duration::from_micros(20)),
        ("500 a second", Duration::from_millis(2)),
    ] {
        let calls = if pause > Duration::from_millis(1) {
            calls_max.min(2_000)
        } else {
            calls_max
        };
        // No call is refused, and none has to wait.
        let options = store.capture_options().queue_records_max(2 * calls);
        let options = options.queue_bytes_max(1 << 30).when_full(WhenFull::Refuse);
        let capture = options.start()?;
        report(
            &format!("record, {name}"),
            calls,
            pause,
            message,
            |message| black_box(capture.record(message)).is_ok(),
        );
        capture.flush()?;
        report(
            &format!("capture_response, {name}"),
            calls,
            pause,
            || content.clone(),
            |content| black_box(capture.capture_response(id, content, &metadata)).is_ok(),
        );
        capture.flush()?;
        let stats = capture.stats();
        assert_eq!((stats.written, stats.refused), (2 * calls as u64, 0));
    }
    report(
        "Store::record, which waits for the disk",
        calls_max.min(BLOCKING_CALLS),
        Duration::ZERO,
        message,
        |message| black_box(store.record(message)).is_ok(),
    );
    Ok(())
}

/// Times each call with what `prepare` makes for it, one every `pause`.
fn report<T, R>(
    name: &str,
    calls: usize,
    pause: Duration,
    prepare: impl Fn() -> T,
    call: impl Fn(T) -> R,
) {
    let mut nanos = Vec::with_capacity(calls);
    let mut due = Instant::now();
    for _ in 0..calls {
        let prepared = prepare();
        due += pause;
        // Short pauses are spun away: a sleep takes longer.
        while Instant::now() < due {
            if pause > Duration::from_millis(1) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
            }
        }
        let started = Instant::now();
        black_box(call(prepared));
        nanos.push(started.elapsed().as_nanos());
    }
    nanos.sort_unstable();
    let micros = |of_1000: usize| {
        let nanos = nanos[(nanos.len() - 1) * of_1000 / 1000];
        format!("{}.{:02}", nanos / 1000, nanos % 1000 / 10)
    };
    println!(
        "{name:<44} {:>9} {:>9} {:>9} {:>9}",
        micros(500),
        micros(990),
        micros(999),
        micros(1000)
    );
}
