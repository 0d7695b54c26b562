//! What decklog sends comes back through the receiver as it was.

use std::collections::BTreeMap;

use super::{Body, Request, Signal, Span, Target, bodies, fixtures};
use crate::otlp::mapping::{Field, meaning};
use crate::otlp::proto::{KeyValue, Value};
use crate::otlp::send::tests::{all_lines, fill, items, open, records};
use crate::record::Kind;
use crate::store::Store;

/// The lines that a log exports, as bodies.
fn sent(lines: &[String]) -> Vec<Body> {
    let body = |line: &String| {
        let signal = if line.starts_with("{\"resourceSpans\"") {
            Signal::Traces
        } else {
            Signal::Logs
        };
        Body::json(signal, line)
    };
    lines.iter().map(body).collect()
}

/// Checks that one log has the records of the other.
#[track_caller]
fn assert_equal(here: &Store, there: &Store, name: &str) {
    let (mut here, mut there) = (records(here), records(there));
    here.retain(|it| !there.remove(it));
    // The receiver describes what sent it in a turn.
    there.retain(|it| !it.contains(r#"{\"otel\":{\"resource\""#));
    assert!(
        here.is_empty() && there.is_empty(),
        "{name}: lost {here:#?}, changed {there:#?}"
    );
}

#[test]
fn a_log_comes_back_equal() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let lines = all_lines(&store);
    let bodies = sent(&lines);
    let target = Target::of(&bodies);
    assert_equal(&store, &target.store, "log");
    let (last, before) = (target.last(), records(&target.store));
    for body in &bodies {
        target.accept(body);
    }
    assert_eq!(records(&target.store), before);
    // A conversation that was changed goes through its changes once more. Nothing else is new.
    let more = target.store.last_lines(10).unwrap();
    let more = more.iter().filter(|it| it.seq > last);
    let more: Vec<_> = more.filter(|it| it.kind != Kind::Conversations).collect();
    assert!(more.is_empty(), "{more:#?}");
}

/// The spans of the bodies by their ids.
fn spans(bodies: &[Body]) -> BTreeMap<Vec<u8>, Span> {
    let mut found = BTreeMap::new();
    for body in bodies.iter().filter(|it| it.signal == Signal::Traces) {
        let request = Request::read(body.encoding, body.signal, &body.bytes).unwrap();
        for group in request.groups::<Span>() {
            let spans = group.unwrap().map(Result::unwrap);
            found.extend(spans.map(|span| (span.span_id.clone(), span)));
        }
    }
    found
}

/// The span of a call that an answer asked for has the id that follows from the call.
const TOOL: &str = "claude_code.tool";

#[test]
fn what_was_received_is_sent_on() {
    let (mut as_they_came, mut wrong) = (0, Vec::new());
    for name in fixtures() {
        let bodies = bodies(&name);
        let target = Target::of(&bodies);
        let lines = all_lines(&target.store);
        assert_equal(&target.store, &Target::of(&sent(&lines)).store, &name);
        let received = spans(&bodies);
        let sent: BTreeMap<_, _> = items(&lines)
            .0
            .into_iter()
            .map(|span| (span.span_id.clone(), span))
            .collect();
        for (id, span) in &sent {
            let parent = &span.parent_span_id;
            let above = received.get(parent).map(|it| &*it.name);
            if let Some(above) = above.filter(|it| *it != TOOL)
                && !sent.contains_key(parent)
            {
                wrong.push(format!("{name}: {} has lost {above}", span.name));
            }
            let Some(came) = received.get(id).filter(|it| it.name == span.name) else {
                continue;
            };
            if span.name.starts_with("chat ") {
                continue;
            }
            as_they_came += 1;
            let about = |span: &Span| {
                let code = span.status.as_ref().map_or(0, |it| it.code);
                let times = (span.start_time_unix_nano, span.end_time_unix_nano);
                let failed = code == 2;
                (
                    span.parent_span_id.clone(),
                    times,
                    span.kind,
                    failed,
                    span.links.len(),
                )
            };
            assert_eq!(about(span), about(came), "{name}: {}", span.name);
            // Some have other names now, and messages have the form of the conventions. The user is
            // that of the conversation.
            let is_known = |it: &&KeyValue| {
                let json = it.value.as_ref().and_then(|it| it.value.as_ref());
                let is_json =
                    matches!(json, Some(Value::String(text)) if text.starts_with(['[', '{']));
                let mut known = span.attributes.iter();
                let field = meaning(&it.key).map(|(field, _)| field);
                is_json
                    || matches!(field, Some(Field::User | Field::OutputText))
                    || it.key.starts_with("llm.input_messages.")
                    || known.any(|of| of.value == it.value)
            };
            let lost = came.attributes.iter().filter(|it| !is_known(it));
            wrong.extend(lost.map(|it| format!("{name}: {} has lost {}", span.name, it.key)));
        }
    }
    assert!(as_they_came > 50, "{as_they_came}");
    assert!(
        wrong.is_empty(),
        "{} lost:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
