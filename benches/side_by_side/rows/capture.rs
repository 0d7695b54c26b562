//! How long a caller of `capture` is held up, while the thread that writes is inside `fdatasync`
//! nearly all the time. `benches/capture_latency.rs` tells more of it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use decklog::capture::WhenFull;
use decklog::{Capture, Client, Conversation, ConversationMessage, Durability, Role, Store};
use uuid::Uuid;

use super::{Group, directory};
use crate::settings::Settings;
use crate::table::{Row, Table, median};
use crate::work::text;

const MEDIAN: &str = "capture of 1 KB, median";
const P99: &str = "capture of 1 KB, p99";
/// Between two calls: 50,000 a second.
const PAUSE: Duration = Duration::from_micros(20);

pub const GROUP: Group = (&[MEDIAN, P99], measure);

fn measure(settings: &Settings, table: &mut Table) {
    let dir = directory();
    let options = Store::options().durability(Durability::Disk);
    let store = options.open(dir.path()).expect("a store");
    let conversation = Conversation::new(Uuid::new_v4(), Client::Api);
    let id = conversation.id;
    store.record(conversation).expect("taken");
    // No call is refused, and none has to wait.
    let calls = settings.captured;
    let options = store.capture_options().queue_records_max(2 * calls);
    let options = options.queue_bytes_max(1 << 30).when_full(WhenFull::Refuse);
    let capture = options.start().expect("a thread");

    let (mut medians, mut p99s) = (Vec::new(), Vec::new());
    for round in 0..=settings.rounds {
        let micros = round_of_calls(&capture, id, calls);
        if round > 0 {
            medians.push(micros[micros.len() / 2]);
            p99s.push(micros[(micros.len() - 1) * 99 / 100]);
        }
    }
    let mut row = |name, figures, limit| {
        table.row(&Row {
            name,
            ours: median(figures),
            peer_name: "limit",
            peer: limit,
            target: Some(1.0),
            unit: "us",
        });
    };
    row(MEDIAN, medians, 1.0);
    row(P99, p99s, 10.0);
}

/// What each call took, in microseconds, sorted.
fn round_of_calls(capture: &Capture, conversation: Uuid, calls: usize) -> Vec<f64> {
    let message = |i| ConversationMessage::new(conversation, Role::Assistant, text(i, 1024));
    let messages: Vec<_> = (0..calls).map(message).collect();
    let mut micros = Vec::with_capacity(calls);
    let mut due = Instant::now();
    for message in messages {
        due += PAUSE;
        while Instant::now() < due {
            std::hint::spin_loop();
        }
        let started = Instant::now();
        let captured = black_box(capture.record(message));
        micros.push(started.elapsed().as_secs_f64() * 1e6);
        captured.expect("queued");
    }
    capture.flush().expect("all written");
    micros.sort_by(f64::total_cmp);
    micros
}
