//! JSON as exporters write it, and as none should.

use serde_json::{Value as Json, json};

use super::{Body, Signal, Target};

fn traces(span: &Json) -> Body {
    let request = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    Body::json(Signal::Traces, &request.to_string())
}

/// A span with these members besides its ids.
fn span(more: &Json) -> Json {
    let mut span = json!({
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "something",
        "startTimeUnixNano": "1760000000000000000",
    });
    for (name, value) in more.as_object().unwrap() {
        span[name] = value.clone();
    }
    span
}

/// The content of the turn of a span with an attribute.
fn kept(value: &Json) -> Json {
    let span = span(&json!({ "attributes": [{ "key": "it", "value": value }] }));
    let target = Target::of(&[traces(&span)]);
    let turns = target.log().turns;
    let content: Json = serde_json::from_str(&turns[0].content).unwrap();
    content["otel"]["attributes"]["it"].clone()
}

#[track_caller]
fn rejected(body: &Body, reason: &str) {
    let target = Target::new();
    let outcome = target.receive(body);
    assert_eq!((outcome.accepted, outcome.rejected), (0, 1), "{outcome:?}");
    assert!(outcome.reasons[0].contains(reason), "{outcome:?}");
    assert_eq!(target.last(), 0);
}

#[test]
fn whole_numbers_are_texts_or_numbers() {
    for (value, wanted) in [
        (json!({ "intValue": "12" }), json!(12)),
        (json!({ "intValue": 12 }), json!(12)),
        (json!({ "intValue": 12.0 }), json!(12)),
        (json!({ "intValue": "1.2e1" }), json!(12)),
        (
            json!({ "intValue": "-9223372036854775808" }),
            json!(i64::MIN),
        ),
        (json!({ "intValue": i64::MAX }), json!(i64::MAX)),
        (json!({ "int_value": "12" }), json!(12)),
        (json!({ "doubleValue": 1 }), json!(1.0)),
        (json!({ "doubleValue": "1.5" }), json!(1.5)),
        (json!({ "doubleValue": "NaN" }), json!("NaN")),
        (json!({ "doubleValue": "-Infinity" }), json!("-Infinity")),
        (json!({ "boolValue": true }), json!(true)),
        (json!({ "bytesValue": "aGk=" }), json!("aGk=")),
        (json!({ "stringValue": null }), json!(null)),
        (json!({}), json!(null)),
        (json!({ "unknown": { "deep": [1] } }), json!(null)),
        (
            json!({ "kvlistValue": { "values": [{ "key": "a", "value": { "intValue": 1 } }] } }),
            json!({ "a": 1 }),
        ),
        (
            json!({ "arrayValue": { "values": [{ "intValue": "1" }, { "stringValue": "b" }] } }),
            json!([1, "b"]),
        ),
    ] {
        assert_eq!(kept(&value), wanted, "{value}");
    }
    for value in [
        json!({ "intValue": "9223372036854775808" }),
        json!({ "intValue": 1.5 }),
        json!({ "intValue": 1e300 }),
        json!({ "intValue": "twelve" }),
        json!({ "intValue": true }),
        json!({ "doubleValue": "x" }),
        json!({ "bytesValue": "!" }),
        json!({ "boolValue": "true" }),
        json!({ "stringValue": 1 }),
        json!("text"),
    ] {
        let span = span(&json!({ "attributes": [{ "key": "it", "value": value }] }));
        let outcome = Target::new().receive(&traces(&span));
        assert_eq!(outcome.rejected, 1, "{value}");
    }
}

#[test]
fn times_are_texts_or_numbers() {
    for time in [
        json!("1760000000000000000"),
        json!(1_760_000_000_000_000_000_u64),
        json!(1.76e18),
    ] {
        let target = Target::of(&[traces(&span(&json!({ "startTimeUnixNano": time })))]);
        let turn = &target.log().turns[0];
        assert_eq!(turn.created_at.at, 1_760_000_000_000);
    }
    for time in [
        json!(-1),
        json!("18446744073709551616"),
        json!(1.5),
        json!("now"),
    ] {
        let body = traces(&span(&json!({ "startTimeUnixNano": time })));
        assert_eq!(Target::new().receive(&body).rejected, 1, "{time}");
    }
    let last = traces(&span(&json!({ "startTimeUnixNano": u64::MAX.to_string() })));
    let outcome = Target::new().receive(&last);
    assert_eq!(outcome.accepted + outcome.rejected, 1);
}

#[test]
fn ids_are_hexadecimal_in_either_case() {
    let lower = Target::of(&[traces(&span(&json!({})))]);
    let upper = span(&json!({
        "traceId": "0AF7651916CD43DD8448EB211C80319C",
        "spanId": "B7AD6B7169203331",
    }));
    let upper = Target::of(&[traces(&upper)]);
    assert_eq!(lower.log().turns[0].id, upper.log().turns[0].id);
    // As base64, which the JSON of protobuf has for bytes.
    let base64 = span(&json!({ "traceId": "CvdlGRbNQ92ESOshHIAxnA==" }));
    rejected(&traces(&base64), "ids are hexadecimal digits");
    for id in [
        "",
        "0",
        "b7ad6b716920333",
        "b7ad6b71692033",
        "0000000000000000",
    ] {
        let body = traces(&span(&json!({ "spanId": id })));
        assert_eq!(Target::new().receive(&body).rejected, 1, "{id:?}");
    }
    let body = traces(&span(&json!({ "spanId": null })));
    rejected(&body, "its trace id must be 16 bytes");
}

#[test]
fn members_may_be_null_missing_or_unknown() {
    let nulls = span(&json!({
        "traceState": null, "parentSpanId": null, "name": null, "kind": null,
        "endTimeUnixNano": null, "attributes": null, "droppedAttributesCount": null,
        "events": null, "links": null, "status": null, "flags": null,
        "somethingNew": { "with": ["members"] },
    }));
    assert_eq!(Target::of(&[traces(&nulls)]).log().turns.len(), 1);
    for request in [
        json!({ "resourceSpans": null }),
        json!({ "resourceSpans": [] }),
        json!({ "resourceSpans": [{ "resource": null, "scopeSpans": null }] }),
        json!({ "resourceSpans": [{ "scopeSpans": [{ "scope": null, "spans": null }] }] }),
        json!({ "somethingNew": 1 }),
    ] {
        let body = Body::json(Signal::Traces, &request.to_string());
        assert_eq!(Target::new().accept(&body).accepted, 0, "{request}");
    }
    // The names of protobuf.
    let request = json!({ "resource_spans": [{ "scope_spans": [{ "spans": [{
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "span_id": "b7ad6b7169203331",
        "parent_span_id": "b7ad6b7169203332",
        "start_time_unix_nano": 1_760_000_000_000_000_000_u64,
    }] }] }] });
    let target = Target::of(&[Body::json(Signal::Traces, &request.to_string())]);
    let turn = &target.log().turns[0];
    assert!(turn.parent_id.is_some());
    assert_eq!(turn.created_at.at, 1_760_000_000_000);
}

#[test]
fn enums_are_numbers_or_names() {
    for (kind, wanted) in [
        (json!(3), "client"),
        (json!("SPAN_KIND_CLIENT"), "client"),
        (json!("CLIENT"), "client"),
        (json!("3"), "client"),
        (json!("SPAN_KIND_NEW"), "internal"),
        (json!(99), "internal"),
        (json!(-1), "internal"),
        (json!(u64::MAX), "internal"),
    ] {
        let target = Target::of(&[traces(&span(&json!({ "kind": kind })))]);
        let content: Json = serde_json::from_str(&target.log().turns[0].content).unwrap();
        assert_eq!(content["otel"]["kind"], wanted, "{kind}");
    }
    for code in [json!(2), json!("STATUS_CODE_ERROR"), json!("ERROR")] {
        let status = json!({ "code": code, "message": "it failed" });
        let target = Target::of(&[traces(&span(&json!({ "status": status })))]);
        assert!(
            target.log().turns[0].content.contains("it failed"),
            "{code}"
        );
    }
}
