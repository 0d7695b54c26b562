//! What may not be in the log: secrets, and what was erased.

use serde_json::json;

use super::{Body, Signal, Target, bodies};
use crate::retention::{EraseOptions, Erasure};

/// Made up, in parts, so that no scanner takes this file for one that leaks.
fn secrets() -> [String; 2] {
    [
        ["AKIA", "Q3EGZ6ZH4WK2", "LM7P"].concat(),
        [
            "sk-ant-",
            "api03-",
            &"hT7xQ2mW9vKc4RbN8sLd".repeat(5)[..93],
            "AA",
        ]
        .concat(),
    ]
}

fn each_file(dir: &std::path::Path, sink: &mut dyn FnMut(&std::path::Path, &[u8])) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, sink);
        } else {
            sink(&path, &std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn secrets_reach_no_file() {
    let target = Target::new();
    let mut places = 0;
    for (nth, secret) in secrets().into_iter().enumerate() {
        let text = |what: &str| format!("{what} {secret} of place");
        let messages = |role: &str, text: String| {
            json!([{ "role": role, "parts": [{ "type": "text", "content": text }] }]).to_string()
        };
        let attribute =
            |key: &str, value: String| json!({ "key": key, "value": { "stringValue": value } });
        let ids = |span: u8| {
            json!({
                "traceId": format!("{:032x}", nth + 1),
                "spanId": format!("{span:016x}"),
                "startTimeUnixNano": "1760000000000000000",
                "endTimeUnixNano": "1760000001000000000",
            })
        };
        let mut chat = ids(1);
        chat["name"] = json!(text("chat"));
        chat["status"] = json!({ "code": 2, "message": text("status") });
        chat["attributes"] = json!([
            attribute("gen_ai.operation.name", "chat".to_owned()),
            attribute("gen_ai.request.model", "gpt-5".to_owned()),
            attribute("gen_ai.input.messages", messages("user", text("prompt"))),
            attribute("gen_ai.output.messages", messages("assistant", text("answer"))),
            attribute("my.attribute", text("attribute")),
            { "key": "my.list", "value": { "arrayValue": { "values": [{ "stringValue": text("list") }] } } },
        ]);
        chat["events"] = json!([{
            "name": "exception",
            "attributes": [attribute("exception.message", text("exception"))],
        }]);
        let mut tool = ids(2);
        tool["parentSpanId"] = json!("0000000000000001");
        tool["name"] = json!("execute_tool login");
        tool["attributes"] = json!([
            attribute("gen_ai.operation.name", "execute_tool".to_owned()),
            attribute("gen_ai.tool.name", "login".to_owned()),
            attribute("gen_ai.tool.call.id", "call_login_0123456789".to_owned()),
            attribute(
                "gen_ai.tool.call.arguments",
                json!({ "key": text("argument") }).to_string()
            ),
            attribute("gen_ai.tool.call.result", text("result")),
        ]);
        let resource = json!({ "attributes": [attribute("host.id", text("resource"))] });
        let traces = json!({ "resourceSpans": [{
            "resource": resource, "scopeSpans": [{ "spans": [chat, tool] }],
        }]});
        target.accept(&Body::json(Signal::Traces, &traces.to_string()));
        let record = json!({
            "timeUnixNano": "1760000000000000000",
            "body": { "stringValue": text("body") },
            "attributes": [attribute("log.attribute", text("log attribute"))],
        });
        let logs = json!({ "resourceLogs": [{ "scopeLogs": [{ "logRecords": [record] }] }] });
        target.accept(&Body::json(Signal::Logs, &logs.to_string()));
    }
    target.store.close().unwrap();
    each_file(target.dir.path(), &mut |path, bytes| {
        for secret in secrets() {
            let is_there = memchr::memmem::find(bytes, secret.as_bytes()).is_some();
            assert!(!is_there, "{} has {secret}", path.display());
        }
        places += memchr::memmem::find_iter(bytes, b"of place").count();
    });
    // The texts are there without them.
    assert!(places >= 2 * 10, "{places}");
}

#[test]
fn what_was_erased_does_not_come_back() {
    for name in ["genai-openai", "pydantic-ai", "claude-code"] {
        let bodies = bodies(name);
        let target = Target::of(&bodies);
        for talk in target.log().talks {
            let what = Erasure::Conversation(talk.conversation.id);
            target.store.erase(&what, EraseOptions::default()).unwrap();
        }
        assert!(target.log().talks.is_empty(), "{name}");
        let (last, turns) = (target.last(), target.log().turns.len());
        let mut rejected = 0;
        for body in bodies.iter().filter(|it| it.signal != Signal::Metrics) {
            let outcome = target.receive(body);
            rejected += outcome.rejected;
            if outcome.rejected > 0 {
                assert_eq!(outcome.reasons, ["its conversation was erased"], "{name}");
            }
        }
        assert!(rejected > 0, "{name}");
        let log = target.log();
        assert!(log.talks.is_empty() && log.calls.is_empty(), "{name}");
        assert_eq!((target.last(), log.turns.len()), (last, turns), "{name}");
    }
}
