//! What redaction costs: records of 1 KB, one by one and in batches of 100, with nothing looked
//! for, with secrets, and with what is known of persons, too. The three take turns, so that
//! whatever else the machine does falls on all of them.
//!
//! `cargo bench --bench redaction`

mod tiny;

use std::path::Path;
use std::time::Instant;

use decklog::privacy::PrivacySettings;
use decklog::{
    ConversationTurn, Record, Settings, Store, ToolCallReq, TurnKind, Validity, args_sha256,
};
use uuid::Uuid;

/// How often each way takes its turn, and how many records it then writes: few, so that most turns
/// are over before another process gets theirs.
const ROUNDS: usize = 401;
const RECORDS: u32 = 200;
const BATCH: usize = 100;
const AT: i64 = 1_766_832_000_000;

const PROSE: &str = "The agent read the configuration and found that the tokens in the response did not match what the gateway had counted. It then asked for the next page of results, and compared them with the policy of the team. Nothing was wrong with the files themselves; the problem was a stale cache. ";
/// A file of this project.
const CODE: &str = include_str!("../src/line/classify.rs");
const JSON: &str = r#"{"path":"src/main.rs","line":12,"text":"fn main() {\n    println!(\"hi\");\n}","sha":"9ae0daaf77b1","id":"67e55044-10b1-426f-9247-bb680e5fe0c8"}"#;

fn main() -> decklog::Result<()> {
    let dir = std::env::temp_dir().join(format!("decklog-redaction-{}", Uuid::new_v4()));
    let measured = measure(&dir);
    let _ = std::fs::remove_dir_all(&dir);
    measured
}

/// A text of 1 KB that begins with its number, as no two records are the same.
fn texts(kind: &str, number: u128) -> String {
    let mut text = match kind {
        "prose turns" => format!("{number}. {}", PROSE.repeat(4)),
        // Another part of it each time.
        "code turns" => {
            let lines = CODE.lines().cycle().skip(number as usize % 100);
            format!(
                "// {number}\n{}",
                lines.take(60).collect::<Vec<_>>().join("\n")
            )
        }
        _ => return format!(r#"{{"number":{number},"files":[{}]}}"#, [JSON; 7].join(",")),
    };
    text.truncate(1024);
    text
}

fn record(kind: &str, number: u128) -> Record {
    let text = texts(kind, number);
    let id = Uuid::from_u128(number << 64 | number);
    if kind == "JSON calls" {
        let request = ToolCallReq {
            request_id: id,
            call_id: "call_1".into(),
            parent_id: Uuid::from_u128(1),
            vendor: "anthropic".into(),
            tool_name: "Edit".into(),
            args_sha256: args_sha256(&text),
            arguments_json: Some(text),
            started_at: Validity::at(AT),
        };
        return request.into();
    }
    let turn = ConversationTurn {
        id,
        parent_id: None,
        message_id: id,
        kind: TurnKind::Assistant,
        content: text,
        created_at: Validity::at(AT),
        thread_id: None,
    };
    turn.into()
}

fn store(dir: &Path, redact_secrets: bool, redact_pii: bool) -> decklog::Result<Store> {
    let privacy = PrivacySettings {
        redact_secrets,
        redact_pii,
        hash_user_id: false,
        auto_delete: false,
        ..PrivacySettings::default()
    };
    let settings = Settings {
        privacy,
        ..Settings::default()
    };
    Store::options().settings(settings).open(dir)
}

fn measure(dir: &Path) -> decklog::Result<()> {
    println!(
        "{:<26} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "µs a record, medians", "off", "secrets", "and PII", "kept", "kept, PII"
    );
    let mut number = 0;
    for kind in ["prose turns", "code turns", "JSON calls"] {
        for batch in [1, BATCH] {
            let of = |name: &str| dir.join(format!("{kind}-{batch}-{name}"));
            let stores = [
                store(&of("off"), false, false)?,
                store(&of("on"), true, false)?,
                store(&of("pii"), true, true)?,
            ];
            let mut micros = [const { Vec::new() }; 3];
            for round in 0..tiny::size(ROUNDS, 3) {
                for turn in 0..stores.len() {
                    // Each goes first as often as the others do.
                    let way = (round + turn) % stores.len();
                    let took = append(&stores[way], kind, batch, &mut number)?;
                    // The first time, all is still to be made ready.
                    if round > 0 {
                        micros[way].push(took);
                    }
                }
            }
            let [off, secrets, pii] = micros.map(median);
            let name = match batch {
                1 => format!("{kind}, one by one"),
                _ => format!("{kind}, {batch} each"),
            };
            println!(
                "{name:<26} {off:>9.2} {secrets:>9.2} {pii:>9.2} {:>8.0}% {:>8.0}%",
                100.0 * off / secrets,
                100.0 * off / pii
            );
        }
    }
    println!("kept: how much of the throughput without redaction is left with it");
    Ok(())
}

/// Microseconds a record.
fn append(store: &Store, kind: &str, batch: usize, number: &mut u128) -> decklog::Result<f64> {
    let records = (0..RECORDS).map(|_| {
        *number += 1;
        record(kind, *number)
    });
    let mut records: Vec<Record> = records.collect();
    let mut batches = Vec::new();
    while batch > 1 && !records.is_empty() {
        batches.push(records.split_off(records.len() - batch));
    }
    let started = Instant::now();
    for record in records {
        store.record(record)?;
    }
    for batch in batches {
        for answer in store.record_batch(batch)? {
            answer?;
        }
    }
    Ok(started.elapsed().as_secs_f64() * 1e6 / f64::from(RECORDS))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
