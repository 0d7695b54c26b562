//! A check against the GenAI conventions, of which `tests/data/otlp/conventions.json` has what is
//! needed here.

use serde_json::Value as Json;

use super::{all_lines, data, fill, items, open, text};
use crate::otlp::proto::{AnyValue, KeyValue, Span, Value};
use crate::otlp::send::log::{MESSAGE, RECORD};

/// Attributes of the general conventions.
const GENERAL: [&str; 3] = ["error.type", "session.id", "user.id"];

struct Conventions(Json);

impl Conventions {
    fn read() -> Conventions {
        let text = std::fs::read(data("otlp/conventions.json")).unwrap();
        Conventions(serde_json::from_slice(&text).unwrap())
    }

    fn attributes(&self, attributes: &[KeyValue], is_span: bool) {
        for attribute in attributes {
            let key = &*attribute.key;
            let value = attribute.value.as_ref().unwrap().value.as_ref().unwrap();
            if key.starts_with("decklog.") || GENERAL.contains(&key) {
                continue;
            }
            let wanted = self.0["attributes"][key].as_str();
            let wanted = wanted.unwrap_or_else(|| panic!("{key} is not in the conventions"));
            let is_right = match value {
                Value::String(_) => wanted == "string" || wanted == "any" && is_span,
                Value::Int(_) => wanted == "int",
                Value::Double(_) => wanted == "double",
                Value::Array(_) => wanted == "any" || wanted == "string[]",
                _ => wanted == "any",
            };
            assert!(is_right, "{key} is {value:?}, not {wanted}");
            let members = self.0["members"][key].as_array();
            // Other providers are allowed.
            if let (Some(members), Value::String(text)) = (members, value)
                && text != "unknown"
            {
                assert!(members.iter().any(|it| it == text), "{key} {text}");
            }
            match key {
                "gen_ai.input.messages" => self.messages(&json(value), "input_required"),
                "gen_ai.output.messages" => self.messages(&json(value), "output_required"),
                "gen_ai.system_instructions" => self.parts(&json(value)),
                _ => {}
            }
        }
        let mut keys: Vec<&str> = attributes.iter().map(|it| &*it.key).collect();
        keys.sort_unstable();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
    }

    fn messages(&self, messages: &Json, required: &str) {
        let conventions = &self.0["messages"];
        for message in messages.as_array().unwrap() {
            for name in conventions[required].as_array().unwrap() {
                assert!(message.get(name.as_str().unwrap()).is_some(), "{message}");
            }
            let roles = conventions["roles"].as_array().unwrap();
            assert!(roles.contains(&message["role"]), "{message}");
            if let Some(reason) = message.get("finish_reason") {
                let reasons = conventions["finish_reasons"].as_array().unwrap();
                assert!(reasons.contains(reason), "{message}");
            }
            self.parts(&message["parts"]);
        }
    }

    fn parts(&self, parts: &Json) {
        for part in parts.as_array().unwrap() {
            let kind = part["type"].as_str().unwrap();
            let required = self.0["messages"]["parts"][kind].as_array();
            for name in required.unwrap_or_else(|| panic!("{part}")) {
                assert!(part.get(name.as_str().unwrap()).is_some(), "{part}");
            }
        }
    }

    fn span(&self, span: &Span) {
        assert_eq!((span.trace_id.len(), span.span_id.len()), (16, 8));
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        let operation = text(&span.attributes, "gen_ai.operation.name");
        let rules = &self.0["operations"][&operation];
        let kind = ["", "internal", "server", "client"][usize::try_from(span.kind).unwrap()];
        assert!(
            rules["kinds"]
                .as_array()
                .unwrap()
                .iter()
                .any(|it| it == kind)
        );
        for name in rules["required"].as_array().unwrap() {
            let name = name.as_str().unwrap();
            assert!(
                span.attributes.iter().any(|it| it.key == name),
                "{name}: {span:?}"
            );
        }
        let mut name = rules["name"].as_str().unwrap().to_owned();
        for attribute in &span.attributes {
            let place = format!("{{{}}}", attribute.key);
            name = name.replace(&place, &text(&span.attributes, &attribute.key));
        }
        // The model or agent is not always known.
        let name = name.split(" {").next().unwrap();
        assert_eq!(span.name, name);
        let has_type = span.attributes.iter().any(|it| it.key == "error.type");
        assert_eq!(
            span.status.as_ref().is_some_and(|it| it.code == 2),
            has_type
        );
        self.attributes(&span.attributes, true);
    }
}

/// A value as JSON: structured, or JSON as text.
fn json(value: &Value) -> Json {
    let of = |it: &AnyValue| it.value.as_ref().map_or(Json::Null, json);
    match value {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| text.clone().into()),
        Value::Bool(flag) => (*flag).into(),
        Value::Int(number) => (*number).into(),
        Value::Double(number) => (*number).into(),
        Value::Array(array) => array.values.iter().map(of).collect(),
        Value::KeyValues(object) => {
            let members = object.values.iter();
            let members =
                members.map(|it| (it.key.clone(), it.value.as_ref().map_or(Json::Null, of)));
            Json::Object(members.collect())
        }
        Value::Bytes(_) => panic!("bytes"),
    }
}

#[test]
fn spans_and_logs_follow_the_conventions() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, "log");
    fill(&store);
    let (spans, logs) = items(&all_lines(&store));
    let conventions = Conventions::read();
    assert!(spans.len() > 30, "{}", spans.len());
    for span in &spans {
        conventions.span(span);
    }
    let mut known = 0;
    for log in &logs {
        let is_known = conventions.0["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it == &*log.event_name);
        let is_own = log.event_name == RECORD || !log.event_name.starts_with("gen_ai.");
        assert!(is_known || is_own, "{}", log.event_name);
        known += usize::from(is_known);
        if log.event_name == MESSAGE {
            for name in ["gen_ai.operation.name", "gen_ai.provider.name"] {
                assert!(log.attributes.iter().any(|it| it.key == name));
            }
        }
        conventions.attributes(&log.attributes, false);
    }
    assert!(known > 0);
    println!(
        "{} spans, {} logs, of them {known} under names of the conventions",
        spans.len(),
        logs.len()
    );
}
