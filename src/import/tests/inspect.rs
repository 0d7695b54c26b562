//! Logs of Inspect AI: archives of several versions, unfinished and damaged ones, and documents.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::agents::{bytes, sizes, tokens, versions_that_grow};
use super::log::MemoryLog;
use super::{altered, broken, counts, held, import_path};
use crate::import::{Format, Importer, Report};
use crate::record::{Role, ToolStatus, TurnKind};

/// Imports bytes as a file of this name.
fn import(log: &MemoryLog, name: &str, bytes: &[u8]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    import_path(log, &path)
}

/// An archive of these entries, not compressed.
fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::STORE);
    for (name, text) in entries {
        archive.start_file(*name, options).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

const HEADER: &str = r#"{"version":2,"status":"success","eval":{"run_id":"r","task_id":"t",
    "task":"sums","created":"2026-01-02T03:04:05+00:00","model":"openai/gpt-5"}}"#;

/// An archive with a header and this sample.
fn log_of(sample: &Value) -> Vec<u8> {
    let sample = sample.to_string();
    archive(&[("samples/1_epoch_1.json", &sample), ("header.json", HEADER)])
}

/// The sample in `helpers.eval.bin`, with null for what is not a number.
fn helpers() -> Value {
    let mut archive = ZipArchive::new(Cursor::new(bytes("inspect/helpers.eval.bin"))).unwrap();
    let mut packed = Vec::new();
    let name = "samples/six-by-seven_epoch_1.json";
    let index = archive.index_for_name(name).unwrap();
    let mut entry = archive.by_index_raw(index).unwrap();
    entry.read_to_end(&mut packed).unwrap();
    let mut text = String::new();
    let mut frame = ruzstd::decoding::StreamingDecoder::new(&packed[..]).unwrap();
    frame.read_to_string(&mut text).unwrap();
    serde_json::from_str(&text.replace(":NaN", ":null")).unwrap()
}

/// Who said what, in the order of the log.
fn said(log: &MemoryLog) -> Vec<(Role, String)> {
    let messages = log.messages().into_iter().map(|it| {
        let text = it.tool_result.unwrap_or(it.content);
        (it.role, text.chars().take(40).collect())
    });
    messages.collect()
}

#[test]
fn an_agent_its_helper_and_its_scorer_are_conversations() {
    let log = MemoryLog::default();
    let whole = bytes("inspect/helpers.eval.bin");
    let report = import(&log, "a.eval", &whole);
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    assert_eq!(sizes(&report), [14, 4, 3, 3, 14, 5]);
    assert_eq!(tokens(&report), [672, 38, 30, 420, 7]);
    let talks = log.conversations();
    let titles: Vec<Option<&str>> = talks.iter().map(|it| it.title.as_deref()).collect();
    assert_eq!(
        titles,
        [
            Some("helpers: sample six-by-seven"),
            Some("helper"),
            Some("graded")
        ]
    );
    assert_eq!(talks[1].parent_id, Some(talks[0].id));
    assert_eq!(talks[1].parent_call_id.as_deref(), Some("call_3"));
    assert_eq!(
        talks[0].session_id.as_deref(),
        Some("cFGJ6GtqVxkzez3EhRAfwx")
    );
    assert_eq!(log.sums(talks[1].id), (40, 3, 3));
    assert_eq!(log.sums(talks[2].id), (60, 6, 2));
    let messages = log.messages();
    let look = messages
        .iter()
        .find(|it| it.content.starts_with("I look"))
        .unwrap();
    assert_eq!(look.reasoning.as_deref(), Some("Two files."));
    assert_eq!(look.model_used.as_deref(), Some("mockllm/model"));
    assert_eq!((look.tokens_in, look.tokens_out), (Some(180), Some(20)));
    let (req, done) = log.call("call_2").unwrap();
    assert_eq!(req.arguments_json.as_deref(), Some(r#"{"path":"missing"}"#));
    let done = done.unwrap();
    assert_eq!(done.status, ToolStatus::Failed);
    assert_eq!(done.error_msg.as_deref(), Some("no such file: missing"));
    let turns = log.turns();
    let score = turns.iter().find(|turn| turn.content.starts_with("Score"));
    let score = score.unwrap();
    assert_eq!(score.kind, TurnKind::SysInfo);
    assert_eq!(
        score.content,
        "Score graded: null\n\nAnswer: 42\n\nExplanation: GRADE: C"
    );
    let again = import(&log, "b.eval", &whole);
    assert_eq!(again.added, 0);
    assert_eq!(held(&again), held(&report));
}

#[test]
fn logs_of_early_versions_are_read_without_ids() {
    let log = MemoryLog::default();
    let report = import(&log, "a.eval", &bytes("inspect/epochs.eval.bin"));
    assert_eq!((broken(&report), counts(&report)), (vec![], vec![]));
    assert_eq!(sizes(&report), [16, 0, 0, 4, 16, 4]);
    let talks = log.conversations();
    let mut titles: Vec<&str> = talks.iter().filter_map(|it| it.title.as_deref()).collect();
    titles.sort_unstable();
    assert_eq!(
        titles,
        [
            "popularity: sample 1",
            "popularity: sample 1, epoch 2",
            "popularity: sample 2",
            "popularity: sample 2, epoch 2"
        ]
    );

    let log = MemoryLog::default();
    let report = import(&log, "a.eval", &bytes("inspect/graded.eval.bin"));
    assert_eq!(counts(&report), [("event.input", 1)]);
    assert_eq!(sizes(&report), [5, 0, 0, 1, 5, 2]);
    assert_eq!(tokens(&report), [287, 202, 0, 0, 0]);
    let kinds: Vec<TurnKind> = log.turns().iter().map(|turn| turn.kind).collect();
    let expected = [
        TurnKind::User,
        TurnKind::User,
        TurnKind::Assistant,
        TurnKind::SysInfo,
        TurnKind::SysInfo,
    ];
    assert_eq!(kinds, expected);

    let log = MemoryLog::default();
    let report = import(&log, "a.eval", &bytes("inspect/tools.eval.bin"));
    assert_eq!(counts(&report), [("event.sandbox", 5)]);
    assert_eq!(sizes(&report), [13, 5, 5, 1, 13, 6]);
    let (_, done) = log.call("hardcoded_0").unwrap();
    assert_eq!(done.unwrap().latency_ms, 93);
}

#[test]
fn a_log_that_is_written_meanwhile_comes_to_what_it_is_whole() {
    for name in ["helpers", "epochs"] {
        let whole = bytes(&format!("inspect/{name}.eval.bin"));
        let cuts: Vec<&[u8]> = (0..whole.len())
            .step_by(397)
            .map(|cut| &whole[..cut])
            .collect();
        versions_that_grow("a.eval", &cuts, &whole);
        for cut in [4, 100, whole.len() / 2, whole.len() - 30, whole.len() - 1] {
            let report = import(&MemoryLog::default(), "a.eval", &whole[..cut]);
            assert_eq!((report.unfinished, report.messages), (1, 0), "{cut}");
        }
    }
    // Without a header, the samples are final and the log is not.
    let sample = helpers().to_string();
    let mut entries = vec![
        ("_journal/start.json", HEADER),
        ("samples/six-by-seven_epoch_1.json", sample.as_str()),
    ];
    let log = MemoryLog::default();
    let report = import(&log, "a.eval", &archive(&entries));
    assert_eq!((report.unfinished, report.messages), (1, 14));
    entries.push(("header.json", HEADER));
    let report = import(&log, "a.eval", &archive(&entries));
    assert_eq!((report.unfinished, report.messages), (0, 14));
}

#[test]
fn a_copy_in_the_log_of_a_retry_adds_nothing() {
    let log = MemoryLog::default();
    let sample = helpers();
    import(&log, "a.eval", &log_of(&sample));
    let mut later: Value = serde_json::from_str(HEADER).unwrap();
    later["eval"]["run_id"] = json!("r2");
    let (later, sample) = (later.to_string(), sample.to_string());
    let retry = archive(&[("samples/x_epoch_1.json", &sample), ("header.json", &later)]);
    let report = import(&log, "b.eval", &retry);
    assert_eq!((report.added, report.messages), (0, 14));
}

#[test]
fn a_document_has_the_samples_of_an_archive() {
    let mut document: Value = serde_json::from_str(HEADER).unwrap();
    document["samples"] = json!([helpers()]);
    let document = document.to_string();
    let log = MemoryLog::default();
    let report = import(&log, "a.json", document.as_bytes());
    assert_eq!((broken(&report), report.messages), (vec![], 14));
    let from_archive = import(&log, "a.eval", &log_of(&helpers()));
    assert_eq!(from_archive.added, 0);
    let cut = import(&log, "a.json", &document.as_bytes()[..document.len() / 2]);
    assert_eq!((cut.unfinished, cut.messages), (1, 0));
}

/// A request, and what it says: its start, its answer, its usage, and an error.
fn request(second: u32, answer: &Value, usage: &Value, error: Option<&str>) -> Value {
    let choices = if answer.is_null() {
        json!([])
    } else {
        json!([{"message": answer}])
    };
    json!({
        "event": "model", "model": "openai/gpt-5", "input": [], "error": error,
        "timestamp": format!("2026-01-02T03:04:{second:02}.000000+00:00"),
        "output": {"model": "gpt-5", "choices": choices, "usage": usage},
    })
}

#[test]
fn a_response_is_counted_once_and_the_rest_of_a_sample_with_it() {
    let first = json!({"role": "assistant", "id": "m1", "content": "attachment://aa"});
    let second = json!({"role": "assistant", "id": "m2", "content": [
        {"type": "reasoning", "reasoning": "cipher", "redacted": true, "summary": "Hm."},
        {"type": "tool_use", "tool_type": "web_search", "id": "ws_1", "name": "web_search",
         "arguments": "sums", "result": "2"},
        {"type": "text", "text": "2"}, {"type": "image", "image": "data:"},
    ]});
    let mut cached = request(9, &second, &json!({"input_tokens": 9000}), None);
    cached["cache"] = json!("read");
    let sample = json!({
        "id": 7, "epoch": 3, "uuid": "u",
        "messages": [
            {"role": "user", "id": "m0", "content": "1 + 1?"}, first, second,
            {"role": "robot", "content": "?"},
        ],
        "events": [
            // The cache is within the input: an early version.
            request(6, &json!(null), &json!(null), Some("rate limit")),
            request(7, &first, &json!({"input_tokens": 100, "output_tokens": 5,
                "total_tokens": 105, "input_tokens_cache_read": 60}), None),
            // The reasoning is beside the output.
            request(8, &json!({"role": "assistant", "id": "m9", "content": "summary"}),
                &json!({"input_tokens": 10, "output_tokens": 5, "total_tokens": 22,
                "reasoning_tokens": 7}), None),
            cached,
            {"event": "logger", "timestamp": "2026-01-02T03:04:10+00:00"},
        ],
        "attachments": {"aa": "I add."},
        "model_usage": {
            "openai/gpt-5": {"input_tokens": 130, "output_tokens": 20, "total_tokens": 150},
            "other": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3, "total_cost": 0.5},
        },
        "error": {"message": "boom", "traceback": "", "traceback_ansi": ""},
        "limit": {"type": "token", "limit": 100.0},
        "score": {"value": {"a": 1.5}},
        "error_retries": [{"message": "once", "events": [{}]}],
    });
    let log = MemoryLog::default();
    let report = import(&log, "a.eval", &log_of(&sample));
    assert_eq!(broken(&report), []);
    assert_eq!(
        counts(&report),
        [
            ("assistant.image", 1),
            ("error_retries.events", 1),
            ("event.logger", 1),
            ("message.robot", 1),
        ]
    );
    assert_eq!(tokens(&report), [131, 22, 0, 60, 7]);
    let said = said(&log);
    let said: Vec<(Role, &str)> = said.iter().map(|(role, it)| (*role, it.as_str())).collect();
    assert_eq!(
        said,
        [
            (Role::User, "1 + 1?"),
            (Role::Assistant, "rate limit"),
            (Role::Assistant, "I add."),
            (Role::Assistant, "summary"),
            (Role::Assistant, "2"),
            (Role::Tool, "2"),
            (Role::System, "Error, the sample was tried again: once"),
            (Role::System, "Limit reached: token 100.0"),
            (Role::System, "Error: boom"),
            (Role::System, r#"Score score: {"a":1.5}"#),
            (Role::Assistant, ""),
            (Role::Assistant, ""),
        ]
    );
    let messages = log.messages();
    assert_eq!(messages[1].error.as_deref(), Some("rate limit"));
    assert_eq!(messages[4].reasoning.as_deref(), Some("Hm."));
    assert_eq!(messages[4].tokens_in, None);
    assert_eq!(messages[11].cost_usd, Some(0.5));
    assert_eq!(
        log.conversations()[0].title.as_deref(),
        Some("sums: sample 7, epoch 3")
    );
    let again = import(&log, "a.eval", &log_of(&sample));
    assert_eq!((again.added, held(&again)), (0, held(&report)));
}

#[test]
fn constants_in_place_of_numbers_are_null_and_texts_with_their_names_stay() {
    let sample = r#"{"id": "NaN \" Infinity", "epoch": 1, "started_at": "2024-01-02T03:04:05.5",
        "store": {"a": [NaN, -Infinity, Infinity]}, "messages": [{"role": "user",
        "content": "\\NaN\""}], "scores": {"Infinity": {"value": -Infinity}}}"#;
    let log = MemoryLog::default();
    let entries = [("samples/a.json", sample), ("header.json", HEADER)];
    let report = import(&log, "a.eval", &archive(&entries));
    assert_eq!(broken(&report), []);
    let expected = [
        (Role::User, r#"\NaN""#.to_owned()),
        (Role::System, "Score Infinity: null".to_owned()),
    ];
    assert_eq!(said(&log), expected);
    assert_eq!(log.messages()[0].timestamp.at(), 1_704_164_645_500);
}

#[test]
fn an_entry_that_is_too_large_or_damaged_is_a_reason() {
    let whole = log_of(&helpers());
    let directory = memchr::memmem::find(&whole, b"PK\x01\x02").unwrap();
    let with = |at: usize, bytes: &[u8]| {
        let mut other = whole.clone();
        other[directory + at..][..bytes.len()].copy_from_slice(bytes);
        import(&MemoryLog::default(), "a.eval", &other)
    };
    for (at, bytes, reason) in [
        (
            24,
            &0x7fff_ffff_u32.to_le_bytes()[..],
            "has 2147483647 bytes: the maximum is 536870912",
        ),
        (24, &9_u32.to_le_bytes()[..], "damaged"),
        (16, &9_u32.to_le_bytes()[..], "damaged"),
        (10, &93_u16.to_le_bytes()[..], "cannot decompress"),
        (10, &8_u16.to_le_bytes()[..], "damaged"),
        (10, &12_u16.to_le_bytes()[..], "is not known"),
    ] {
        let report = with(at, bytes);
        let broken = broken(&report);
        assert_eq!((broken.len(), report.messages), (1, 0), "{broken:?}");
        let start = "samples/1_epoch_1.json: ";
        assert!(broken[0].1.starts_with(start), "{broken:?}");
        assert!(broken[0].1.contains(reason), "{broken:?}");
    }
    let report = import(&MemoryLog::default(), "a.eval", &archive(&[("a", "")]));
    assert_eq!(broken(&report)[0].1, "no log of Inspect: it has no header");
}

#[test]
fn attachments_are_not_repeated_without_a_limit() {
    let part = json!({"type": "text", "text": "attachment://a"});
    let sample = json!({
        "id": 1, "epoch": 1, "attachments": {"a": "x".repeat(1 << 20)},
        "messages": [
            {"role": "user", "content": "Hi"},
            {"role": "user", "id": "m", "content": vec![part; 600]},
        ],
    });
    let report = import(&MemoryLog::default(), "a.eval", &log_of(&sample));
    assert!(broken(&report)[0].1.contains("attachments"), "{report:?}");
    assert_eq!(report.messages, 1);
}

#[test]
fn a_log_is_found_by_its_name_in_folders_and_by_what_it_says() {
    let agent = Format::Inspect.agent();
    assert!(agent.is_source(Path::new("logs/2026-01-02T03-04-05_sums.eval")));
    assert!(!agent.is_source(Path::new("logs/listing.json")));
    let log = MemoryLog::default();
    let report = import(&log, "log.bin", &bytes("inspect/helpers.eval.bin"));
    assert_eq!(report.messages, 14);
}

#[test]
fn values_of_other_types_are_reasons_and_no_panic() {
    let log = MemoryLog::default();
    let mut messages = 0;
    for sample in altered(&helpers()).iter().step_by(3) {
        messages += import(&log, "a.eval", &log_of(sample)).messages;
    }
    assert!(messages > 0);
}

proptest! {
    #[test]
    fn any_damage_is_reported_and_a_second_import_adds_nothing(
        sample in 0..4_usize,
        is_plain in any::<bool>(),
        harms in prop::collection::vec((any::<usize>(), any::<u8>(), 0..8_u8), 0..6),
    ) {
        let names = ["helpers", "tools", "epochs", "graded"];
        let mut bytes = if is_plain {
            log_of(&helpers())
        } else {
            bytes(&format!("inspect/{}.eval.bin", names[sample]))
        };
        for (place, byte, kind) in harms {
            let place = place % bytes.len().max(1);
            match kind {
                0 => bytes.truncate(place),
                // The directory is at the end.
                1..4 => {
                    let at = bytes.len().saturating_sub(1 + place % 600);
                    if let Some(old) = bytes.get_mut(at) {
                        *old = byte;
                    }
                }
                _ => if let Some(old) = bytes.get_mut(place) {
                    *old = byte;
                },
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.eval");
        fs::write(&path, &bytes).unwrap();
        let log = MemoryLog::default();
        let import = || {
            let mut importer = Importer::over(&log).format(Some(Format::Inspect));
            importer.path(&path).unwrap();
            importer.finish().unwrap()
        };
        let first = import();
        let second = import();
        prop_assert_eq!(second.added, 0);
        prop_assert_eq!(held(&second), held(&first));
    }
}
