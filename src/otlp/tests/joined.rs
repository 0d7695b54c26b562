//! Several items may report one request to a model.

use serde_json::{Value, json};

use super::tree::{request, span};
use super::{Body, Signal, Target, Tokens};

const CHAT: (&str, &str) = ("gen_ai.operation.name", "chat");
const MODEL: (&str, &str) = ("gen_ai.request.model", "gpt-5");

fn with_usage(mut span: Value) -> Value {
    for (key, count) in [("input", 10), ("output", 2)] {
        let key = format!("gen_ai.usage.{key}_tokens");
        let attribute = json!({ "key": key, "value": { "intValue": count.to_string() } });
        span["attributes"].as_array_mut().unwrap().push(attribute);
    }
    span
}

fn failed(mut span: Value) -> Value {
    span["status"] = json!({ "code": 2, "message": "overloaded" });
    span
}

/// The tokens and the number of errors after these bodies, which are then sent again.
fn sums(bodies: &[Body]) -> (i64, i64, usize) {
    let target = Target::of(bodies);
    let last = target.last();
    for body in bodies {
        target.accept(body);
    }
    assert_eq!(target.last(), last, "a body that is sent again adds lines");
    let log = target.log();
    let tokens = Tokens::of(log.messages());
    let errors = log.messages().filter(|it| it.error.is_some()).count();
    (tokens.input, tokens.output, errors)
}

#[test]
fn a_request_without_content_that_two_spans_report_is_counted_once() {
    let sdk = span(2, 1, "POST", [10, 20], &[CHAT, MODEL]);
    let chat = span(1, 0, "chat gpt-5", [0, 30], &[CHAT, MODEL]);
    let spans = [&sdk, &chat].map(|it| request(&with_usage(it.clone())));
    assert_eq!(sums(&spans), (10, 2, 0));
    let spans = [sdk, chat].map(|it| request(&failed(it)));
    assert_eq!(sums(&spans), (0, 0, 1));
}

#[test]
fn an_embedding_within_a_request_is_another_request() {
    let embedding = [("gen_ai.operation.name", "embeddings"), MODEL];
    let mut embedding = span(2, 1, "embeddings", [10, 20], &embedding);
    let tokens = json!({ "key": "gen_ai.usage.input_tokens", "value": { "intValue": "5" } });
    embedding["attributes"].as_array_mut().unwrap().push(tokens);
    let chat = with_usage(span(1, 0, "chat gpt-5", [0, 30], &[CHAT, MODEL]));
    assert_eq!(sums(&[request(&embedding), request(&chat)]), (15, 2, 0));
}

#[test]
fn a_span_after_its_log_record_keeps_its_attributes() {
    let attributes = with_usage(span(
        1,
        9,
        "chat gpt-5",
        [0, 30],
        &[
            CHAT,
            MODEL,
            (
                "gen_ai.output.messages",
                r#"[{"role":"assistant","parts":[{"type":"text","content":"Yes."}]}]"#,
            ),
        ],
    ));
    let record = json!({
        "timeUnixNano": attributes["endTimeUnixNano"],
        "eventName": "gen_ai.client.inference.operation.details",
        "traceId": attributes["traceId"],
        "spanId": attributes["spanId"],
        "attributes": attributes["attributes"],
    });
    let record = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record] }] }] });
    let mut chat = attributes.clone();
    let mine = json!({ "key": "my.attribute", "value": { "stringValue": "kept" } });
    chat["attributes"].as_array_mut().unwrap().push(mine);
    let bodies = [
        Body::json(Signal::Logs, &record.to_string()),
        request(&chat),
    ];
    assert_eq!(sums(&bodies), (10, 2, 0));
    let lines = Target::of(&bodies).store.last_lines(50).unwrap();
    assert!(lines.iter().any(|line| line.text.contains("my.attribute")));
}
