//! The hot functions by themselves, in memory where that is possible.
//!
//! `cargo bench --bench functions`

#![allow(clippy::expect_used, missing_docs)]

mod tiny;

use std::sync::Arc;

use decklog::record::payload_json;
use decklog::storage::Memory;
use decklog::{
    ObservabilityStore, Record, Store, ToolCallDone, ToolCallReq, ToolStatus, Validity,
    args_sha256, verify,
};
use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use uuid::Uuid;

const CALLS: u128 = 2_000;
const ARGUMENTS: &str = r#"{"path":"src/main.rs","limit":200,"offset":0,"note":"what the tool is to look at, in some words"}"#;

fn main() {
    let benches = divan::Divan::from_args();
    if tiny::size(false, true) {
        // Each once.
        benches.test_benches();
    } else {
        benches.main();
    }
}

fn parent(call: u128) -> Uuid {
    Uuid::from_u128(u128::MAX - call / 20)
}

fn request(call: u128) -> ToolCallReq {
    ToolCallReq {
        request_id: Uuid::from_u128(call << 64 | call),
        call_id: "call_1".into(),
        parent_id: parent(call),
        vendor: "anthropic".into(),
        tool_name: "Read".into(),
        args_sha256: args_sha256(ARGUMENTS),
        arguments_json: Some(ARGUMENTS.into()),
        started_at: Validity::at(1_766_832_000_000),
    }
}

fn outcome(call: u128) -> ToolCallDone {
    ToolCallDone {
        request_id: Uuid::from_u128(call << 64 | call),
        call_id: "call_1".into(),
        ended_at: Validity::at(1_766_832_000_005),
        latency_ms: 5,
        outcome_json: Some(outcome_json()),
        error_kind: None,
        error_msg: None,
        status: ToolStatus::Completed,
    }
}

fn outcome_json() -> String {
    format!(r#"{{"stdout":"{}"}}"#, "a line of text\\n".repeat(50))
}

fn empty() -> (Memory, Store) {
    let memory = Memory::new();
    let options = Store::options().storage(Arc::new(memory.clone()));
    let store = options.open("in memory").expect("a store");
    (memory, store)
}

fn filled() -> (Memory, Store) {
    let (memory, store) = empty();
    let records = (0..CALLS).flat_map(|i| [Record::from(request(i)), outcome(i).into()]);
    for ack in store.record_batch(records).expect("a batch") {
        ack.expect("taken");
    }
    (memory, store)
}

/// A request and its outcome, one record a call.
#[divan::bench]
fn record_a_call(bencher: Bencher) {
    let (_, store) = empty();
    let mut next = 0;
    bencher
        .counter(ItemsCount::new(2_usize))
        .with_inputs(|| {
            next += 1;
            (request(next), outcome(next))
        })
        .bench_local_values(|(request, outcome)| {
            store.record(request).expect("taken");
            store.record(outcome).expect("taken")
        });
}

#[divan::bench]
fn get_a_call(bencher: Bencher) {
    let (_memory, store) = filled();
    let mut i = 0;
    bencher.bench_local(|| {
        i = (i + 997) % CALLS;
        let call = store.get_tool_call(Uuid::from_u128(i << 64 | i), "call_1");
        black_box(call.expect("read").expect("there"))
    });
}

#[divan::bench]
fn list_20_calls(bencher: Bencher) {
    let (_memory, store) = filled();
    let mut i = 0;
    bencher.counter(ItemsCount::new(20_usize)).bench_local(|| {
        i = (i + 997) % CALLS;
        black_box(store.list_tool_calls_by_parent(parent(i), 20)).expect("read")
    });
}

#[divan::bench(sample_count = 20)]
fn verify_a_store(bencher: Bencher) {
    let (memory, _store) = filled();
    let bytes = verify(&memory).expect("a store").bytes;
    bencher
        .counter(BytesCount::new(bytes))
        .bench_local(|| verify(black_box(&memory)).expect("a store"));
}

#[divan::bench(sample_count = 20)]
fn open_a_store(bencher: Bencher) {
    let (memory, store) = filled();
    let bytes = verify(&memory).expect("a store").bytes;
    drop(store);
    bencher.counter(BytesCount::new(bytes)).bench_local(|| {
        let options = Store::options().storage(Arc::new(memory.clone()));
        options.open("in memory").expect("a store")
    });
}

#[divan::bench]
fn hash_arguments(bencher: Bencher) {
    bencher
        .counter(BytesCount::of_str(ARGUMENTS))
        .bench_local(|| args_sha256(black_box(ARGUMENTS)));
}

/// How a nested payload is shown.
#[divan::bench]
fn show_a_payload(bencher: Bencher) {
    let payload = outcome_json();
    bencher
        .counter(BytesCount::of_str(&payload))
        .bench_local(|| payload_json(black_box(&payload)));
}
