//! Requests that no exporter would send.

use prost::Message as _;

use super::{Body, Encoding, Rng, Signal, Target, bodies, field, fixtures, request, spans};
use crate::otlp::proto::{AnyValue, ArrayValue, KeyValue, Span, Value};
use crate::otlp::request::ITEMS_MAX;

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue {
            value: Some(Value::String(value.to_owned())),
        }),
    }
}

/// A request to a model.
fn chat(nth: u8) -> Span {
    Span {
        trace_id: vec![nth; 16],
        span_id: vec![nth; 8],
        name: "chat".to_owned(),
        kind: 3,
        start_time_unix_nano: 1_760_000_000_000_000_000,
        end_time_unix_nano: 1_760_000_001_000_000_000,
        attributes: vec![
            text("gen_ai.operation.name", "chat"),
            text(
                "gen_ai.input.messages",
                r#"[{"role":"user","content":"hi"}]"#,
            ),
            text(
                "gen_ai.output.messages",
                r#"[{"role":"assistant","content":"ho"}]"#,
            ),
        ],
        ..Span::default()
    }
}

/// Asserts that one span is rejected for a reason, and the other one is there.
#[track_caller]
fn one_is_rejected(body: &Body, reason: &str) {
    let target = Target::new();
    let outcome = target.receive(body);
    assert_eq!((outcome.accepted, outcome.rejected), (1, 1), "{outcome:?}");
    assert!(outcome.reasons[0].contains(reason), "{outcome:?}");
    assert_eq!(target.log().messages().count(), 2);
}

/// A value in `depth` lists, in protobuf.
fn nested(depth: usize) -> Vec<u8> {
    let mut value = Vec::new();
    for _ in 0..depth {
        // The list of a value, and the value of a list.
        value = field(5, &field(1, &value));
    }
    value
}

#[test]
fn values_nested_too_deep_are_rejected() {
    let deep = |depth: usize| {
        let attribute = [field(1, b"deep"), field(2, &nested(depth))].concat();
        let span = [chat(1).encode_to_vec(), field(9, &attribute)].concat();
        let both = [field(2, &span), field(2, &chat(2).encode_to_vec())].concat();
        Body::traces(field(1, &field(2, &both)))
    };
    one_is_rejected(&deep(10_000), "nested deeper");
    let target = Target::of(&[deep(20)]);
    assert_eq!(target.log().messages().count(), 4);
    let open = r#"{"arrayValue":{"values":["#.repeat(10_000);
    let close = "]}}".repeat(10_000);
    let value = format!("{open}{{}}{close}");
    let json = format!(
        r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{{"traceId":"{:032x}","spanId":"{:016x}","attributes":[{{"key":"deep","value":{value}}}]}}]}}]}}]}}"#,
        1, 1
    );
    refused_or_rejected(&Body::json(Signal::Traces, &json));
    // In what is ignored, and in a text that is read as JSON.
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    let json = format!(r#"{{"resourceSpans":[],"unknown":{deep}}}"#);
    let _ = Target::new().try_receive(&Body::json(Signal::Traces, &json));
    let mut span = chat(1);
    span.attributes[2] = text("gen_ai.output.messages", &deep);
    assert_eq!(Target::new().accept(&spans(&[span])).accepted, 1);
}

#[track_caller]
fn refused_or_rejected(body: &Body) {
    if let Ok(outcome) = Target::new().try_receive(body) {
        assert!(outcome.rejected > 0 && outcome.accepted == 0, "{outcome:?}");
    }
}

#[test]
fn a_body_may_end_anywhere() {
    let target = Target::new();
    let body = spans(&[chat(1)]);
    for end in 1..body.bytes.len() {
        let cut = Body::traces(body.bytes[..end].to_vec());
        let refused = target.try_receive(&cut).unwrap_err();
        assert!(
            refused.starts_with("Malformed(\"not protobuf"),
            "{end}: {refused}"
        );
    }
    let json = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01010101010101010101010101010101","spanId":"0101010101010101","name":"é","attributes":[{"key":"a","value":{"intValue":"1"}}]}]}]}]}"#;
    for end in 0..json.len() {
        let cut = Body {
            bytes: json.as_bytes()[..end].to_vec(),
            ..Body::json(Signal::Traces, "")
        };
        target.try_receive(&cut).unwrap_err();
    }
    assert_eq!(target.last(), 0);
    target.accept(&Body::json(Signal::Traces, json));
}

#[test]
fn lengths_may_lie() {
    let target = Target::new();
    let body = spans(&[chat(1)]).bytes;
    for at in 0..body.len() {
        for length in [0, 1, 0x7f, 0x80, 0xff] {
            let mut lie = body.clone();
            lie[at] = length;
            // Neither a panic nor an error of the log.
            if let Err(refused) = target.try_receive(&Body::traces(lie)) {
                assert!(refused.starts_with("Malformed"), "{refused}");
            }
        }
    }
    // A length of 2^63 bytes, and one that does not fit in 64 bits.
    for length in [
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..],
        &[0xff; 10],
        &[0xff; 20],
    ] {
        let lie = [&[0x0a][..], length, b"x"].concat();
        target.try_receive(&Body::traces(lie)).unwrap_err();
    }
}

#[test]
fn an_empty_body_has_no_items() {
    for signal in [Signal::Traces, Signal::Logs, Signal::Metrics] {
        let empty = Body {
            signal,
            ..Body::traces(Vec::new())
        };
        let target = Target::new();
        assert_eq!(target.accept(&empty).accepted, 0);
        assert_eq!(target.accept(&Body::json(signal, "{}")).accepted, 0);
        for json in ["", "null", "[]", "1", "\"\""] {
            let _ = target.try_receive(&Body::json(signal, json));
        }
        assert_eq!(target.last(), 0);
    }
}

#[test]
fn a_span_that_is_too_large_is_rejected_alone() {
    let mut large = chat(1);
    large.attributes.push(text("large", &"x".repeat(10 << 20)));
    let both = [large, chat(2)];
    one_is_rejected(&spans(&both), "the maximum is 8388608");
    let json = serde_json::to_string(&both).unwrap();
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":{json}}}]}}]}}"#);
    one_is_rejected(&Body::json(Signal::Traces, &json), "the maximum is 8388608");
}

#[test]
fn a_list_that_is_too_long_is_rejected_alone() {
    let mut long = chat(1);
    let value = AnyValue {
        value: Some(Value::Array(ArrayValue {
            values: vec![AnyValue::default(); 10_001],
        })),
    };
    long.attributes.push(KeyValue {
        key: "long".to_owned(),
        value: Some(value),
    });
    let both = [long, chat(2)];
    one_is_rejected(&spans(&both), "more than 10000 elements");
    let json = serde_json::to_string(&both).unwrap();
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":{json}}}]}}]}}"#);
    one_is_rejected(
        &Body::json(Signal::Traces, &json),
        "more than 10000 elements",
    );
}

#[test]
fn texts_that_are_no_utf_8_are_rejected_alone() {
    for bad in [&b"\xff\xfe"[..], b"\xc3", b"\xed\xa0\x80"] {
        let value = field(2, &field(1, bad));
        for attribute in [
            [field(1, b"key"), value.clone()].concat(),
            [field(1, bad), value].concat(),
        ] {
            let span = [chat(1).encode_to_vec(), field(9, &attribute)].concat();
            let both = [field(2, &span), field(2, &chat(2).encode_to_vec())].concat();
            let body = Body::traces(field(1, &field(2, &both)));
            one_is_rejected(&body, "not protobuf");
        }
        let json = [
            br#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":""#,
            bad,
            br#""}]}]}]}"#,
        ];
        let body = Body {
            bytes: json.concat(),
            ..Body::json(Signal::Traces, "")
        };
        refused_or_rejected(&body);
    }
}

#[test]
fn too_many_items_are_refused() {
    let count = 2 * ITEMS_MAX;
    let target = Target::new();
    let body = request(&[], &[], &vec![Span::default(); count]);
    let refused = target.try_receive(&Body::traces(body)).unwrap_err();
    assert!(refused.contains("more than 100000 items"), "{refused}");
    // Also if each one has a scope, or a resource, of its own.
    let scopes: Vec<u8> = field(2, &field(2, &[])).repeat(count);
    target
        .try_receive(&Body::traces(field(1, &scopes)))
        .unwrap_err();
    let resources = field(1, &field(2, &field(2, &[]))).repeat(count);
    target.try_receive(&Body::traces(resources)).unwrap_err();
    let json = vec!["{}"; count].join(",");
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{json}]}}]}}]}}"#);
    target
        .try_receive(&Body::json(Signal::Traces, &json))
        .unwrap_err();
    assert_eq!(target.last(), 0);
}

#[test]
fn ids_have_their_length() {
    let reason = "its trace id must be 16 bytes and its span id 8 bytes, not all zero";
    for (trace, span) in [
        (vec![], vec![1; 8]),
        (vec![1; 15], vec![1; 8]),
        (vec![1; 17], vec![1; 8]),
        (vec![0; 16], vec![1; 8]),
        (vec![1; 16], vec![]),
        (vec![1; 16], vec![1; 7]),
        (vec![1; 16], vec![1; 9]),
        (vec![1; 16], vec![0; 8]),
    ] {
        let wrong = Span {
            trace_id: trace,
            span_id: span,
            ..chat(1)
        };
        one_is_rejected(&spans(&[wrong, chat(2)]), reason);
    }
    // A parent that cannot be is none.
    let orphan = Span {
        parent_span_id: vec![1; 3],
        ..chat(1)
    };
    let target = Target::of(&[spans(&[orphan])]);
    assert!(target.log().turns.iter().all(|turn| turn.kind != crate::record::TurnKind::Assistant || turn.parent_id.is_none()));
}

#[test]
fn times_may_be_anything() {
    let times = [0, 1, 1_760_000_000_000_000_000, i64::MAX as u64, u64::MAX];
    for (nth, start) in times.into_iter().enumerate() {
        for end in times {
            let mut span = chat(u8::try_from(nth + 1).unwrap());
            span.start_time_unix_nano = start;
            span.end_time_unix_nano = end;
            let target = Target::new();
            let outcome = target.receive(&spans(&[span, chat(9)]));
            assert_eq!(outcome.accepted + outcome.rejected, 2);
            assert!(outcome.accepted >= 1, "{outcome:?}");
            let log = target.log();
            assert_eq!(
                log.messages().count(),
                2 * outcome.accepted,
                "{start} {end}"
            );
            for message in log.messages() {
                assert!(message.latency_ms.is_none_or(|ms| ms >= 0), "{message:?}");
            }
        }
    }
}

#[test]
fn random_changes_of_real_bodies_do_no_harm() {
    let mut rng = Rng(0x0717);
    let target = Target::new();
    let (mut received, mut refused) = (0, 0);
    for name in fixtures() {
        let bodies = bodies(&name);
        for _ in 0..40 {
            let mut body = bodies[rng.below(bodies.len())].clone();
            for _ in 0..=rng.below(4) {
                let at = rng.below(body.bytes.len());
                body.bytes[at] ^= 1 << rng.below(8);
            }
            if rng.below(4) == 0 {
                body.bytes.truncate(rng.below(body.bytes.len()));
            }
            match target.try_receive(&body) {
                Ok(_) => received += 1,
                Err(reason) => {
                    assert!(reason.starts_with("Malformed"), "{name}: {reason}");
                    refused += 1;
                }
            }
        }
    }
    println!("{received} received, {refused} refused");
    assert!(received > 100 && refused > 100);
    // Bytes that are no request at all.
    for _ in 0..2_000 {
        let length = rng.below(200);
        let bytes: Vec<u8> = (0..length).map(|_| rng.next().to_le_bytes()[0]).collect();
        for encoding in [Encoding::Protobuf, Encoding::Json] {
            for signal in [Signal::Traces, Signal::Logs] {
                let body = Body {
                    signal,
                    encoding,
                    bytes: bytes.clone(),
                };
                let _ = target.try_receive(&body);
            }
        }
    }
    // The log is whole.
    target.accept(&spans(&[chat(1)]));
    assert!(target.log().messages().count() > 0);
}
