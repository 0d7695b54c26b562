//! A trace as a tree.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Body, Signal, Target};
use crate::tree::SessionItem;

pub(super) fn span(
    id: u8,
    parent: u8,
    name: &str,
    ms: [u64; 2],
    attributes: &[(&str, &str)],
) -> Value {
    let nanos = |ms: u64| (1_760_000_000_000 + ms) * 1_000_000;
    let attributes = attributes.iter();
    let attributes =
        attributes.map(|(key, value)| json!({ "key": key, "value": { "stringValue": value } }));
    json!({
        "traceId": format!("{:032x}", 7),
        "spanId": format!("{id:016x}"),
        "parentSpanId": if parent > 0 { format!("{parent:016x}") } else { String::new() },
        "name": name,
        "startTimeUnixNano": nanos(ms[0]).to_string(),
        "endTimeUnixNano": nanos(ms[1]).to_string(),
        "attributes": attributes.collect::<Value>(),
    })
}

/// A request with one span.
pub(super) fn request(span: &Value) -> Body {
    let body = json!({ "resourceSpans": [{ "scopeSpans": [{ "spans": [span] }] }] });
    Body::json(Signal::Traces, &body.to_string())
}

/// Each node in a line: the status and duration of a span or a call, otherwise the text.
fn drawn(target: &Target) -> String {
    let thread = uuid::Uuid::from_u128(7);
    let tree = target.store.session_tree(thread).unwrap().unwrap();
    let mut drawn = String::new();
    for node in tree.nodes {
        let text = match (node.item, node.name) {
            (SessionItem::Turn(_), Some(name)) => name,
            (SessionItem::Turn(turn), None) => format!("{}: {}", turn.kind, turn.content),
            (SessionItem::Call(call), _) => format!("call of {}", call.0.tool_name),
            (SessionItem::Conversation(it), _) => it.0.client.to_string(),
            (SessionItem::Message(message), _) => message.content,
        };
        let _ = write!(drawn, "{}{text}", "  ".repeat(node.depth));
        if let Some(status) = node.status {
            let _ = write!(drawn, ", {} {:?} ms", status.as_str(), node.duration_ms);
        }
        drawn.push('\n');
    }
    drawn
}

#[test]
fn spans_are_under_the_spans_above_them() {
    let text = |role: &str, text: &str| {
        json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
    };
    let (asked, answered) = (text("user", "Is it sunny?"), text("assistant", "Yes."));
    let mut spans = vec![
        span(5, 3, "POST", [21, 49], &[("http.request.method", "POST")]),
        span(
            3,
            2,
            "chat gpt-5",
            [20, 50],
            &[
                ("gen_ai.operation.name", "chat"),
                ("gen_ai.request.model", "gpt-5"),
                ("gen_ai.input.messages", &asked),
                ("gen_ai.output.messages", &answered),
            ],
        ),
        span(2, 1, "node", [10, 60], &[("error.type", "Timeout")]),
        span(1, 0, "graph", [0, 70], &[]),
        span(6, 1, "later", [65, 66], &[]),
    ];
    let wanted = "\
api
  graph, completed Some(70) ms
    node, failed Some(50) ms
      user: Is it sunny?
      assistant: Yes.
        POST, completed Some(28) ms
    later, completed Some(1) ms
";
    for _ in 0..2 {
        let target = Target::new();
        // The spans of a trace may come in several requests.
        for span in &spans {
            target.accept(&request(span));
        }
        assert_eq!(drawn(&target), wanted);
        spans.reverse();
    }
}

#[test]
fn a_span_that_failed_is_shown_as_failed() {
    let mut tool = span(
        2,
        1,
        "execute_tool search",
        [10, 20],
        &[
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "search"),
            ("error.type", "Timeout"),
        ],
    );
    let mut agent = span(1, 0, "run", [0, 30], &[]);
    for span in [&mut tool, &mut agent] {
        span["status"] = json!({ "code": 2 });
    }
    let target = Target::new();
    for span in [tool, agent] {
        target.accept(&request(&span));
    }
    let wanted = "\
run, failed Some(30) ms
  call of search, failed Some(10) ms
  execute_tool search, failed Some(10) ms
";
    assert_eq!(drawn(&target), wanted);
}
