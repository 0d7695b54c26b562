//! Sends spans and a log event of the GenAI conventions, by hand. usage: record-otlp [json|proto]
use opentelemetry::logs::{AnyValue, LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Array, Context, InstrumentationScope, Key, KeyValue, StringValue, Value};
use opentelemetry_otlp::{Compression, LogExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use opentelemetry_sdk::Resource;
use std::collections::HashMap;

const BASE: &str = "http://127.0.0.1:4318/v1";

fn chat(input: &str, output: &str, finish: &'static str, id: &'static str) -> Vec<KeyValue> {
    vec![
        KeyValue::new("gen_ai.operation.name", "chat"),
        KeyValue::new("gen_ai.provider.name", "openai"),
        KeyValue::new("gen_ai.request.model", "gpt-test"),
        KeyValue::new("gen_ai.request.temperature", 0.5),
        KeyValue::new("gen_ai.response.model", "gpt-test-2026-01-01"),
        KeyValue::new("gen_ai.response.id", id),
        KeyValue::new("gen_ai.response.finish_reasons", Value::Array(Array::String(vec![StringValue::from(finish)]))),
        KeyValue::new("gen_ai.conversation.id", "conversation-1"),
        KeyValue::new("gen_ai.usage.input_tokens", 120),
        KeyValue::new("gen_ai.usage.cache_read.input_tokens", 40),
        KeyValue::new("gen_ai.usage.cache_creation.input_tokens", 10),
        KeyValue::new("gen_ai.usage.output_tokens", 15),
        KeyValue::new("gen_ai.usage.reasoning.output_tokens", 5),
        KeyValue::new("gen_ai.system_instructions", r#"[{"type":"text","content":"You are a test."}]"#),
        KeyValue::new("gen_ai.input.messages", input.to_string()),
        KeyValue::new("gen_ai.output.messages", output.to_string()),
        KeyValue::new("server.address", "127.0.0.1"),
        KeyValue::new("server.port", 4100),
    ]
}

fn map(pairs: Vec<(&'static str, AnyValue)>) -> AnyValue {
    AnyValue::Map(Box::new(pairs.into_iter().map(|(k, v)| (Key::from(k), v)).collect::<HashMap<_, _>>()))
}

fn list(values: Vec<AnyValue>) -> AnyValue {
    AnyValue::ListAny(Box::new(values))
}

fn main() {
    let json = std::env::args().nth(1).as_deref() == Some("json");
    let protocol = if json { Protocol::HttpJson } else { Protocol::HttpBinary };
    let mut traces = SpanExporter::builder().with_http().with_protocol(protocol).with_endpoint(format!("{BASE}/traces"));
    let mut events = LogExporter::builder().with_http().with_protocol(protocol).with_endpoint(format!("{BASE}/logs"));
    if !json {
        traces = traces.with_compression(Compression::Gzip);
        events = events.with_compression(Compression::Gzip);
    }
    let resource = Resource::builder_empty().with_service_name("rust-test").build();
    let spans = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_batch_exporter(traces.build().unwrap())
        .build();
    let logs = SdkLoggerProvider::builder().with_resource(resource).with_batch_exporter(events.build().unwrap()).build();
    let tracer = spans.tracer_with_scope(InstrumentationScope::builder("by-hand").with_version("1.0.0").build());
    let logger = logs.logger("by-hand");

    let question = r#"{"role":"user","parts":[{"type":"text","content":"What is the weather?"}]}"#;
    let call = r#"{"role":"assistant","parts":[{"type":"tool_call","id":"call_1","name":"get_weather","arguments":{"city":"Paris"}}]"#;
    let result = r#"{"role":"tool","parts":[{"type":"tool_call_response","id":"call_1","response":{"weather":"sunny"}}]}"#;
    let answer = r#"{"role":"assistant","parts":[{"type":"text","content":"It is sunny in Paris."}],"finish_reason":"stop"}"#;

    let agent = tracer
        .span_builder("invoke_agent weather")
        .with_kind(SpanKind::Internal)
        .with_attributes([
            KeyValue::new("gen_ai.operation.name", "invoke_agent"),
            KeyValue::new("gen_ai.provider.name", "openai"),
            KeyValue::new("gen_ai.agent.name", "weather"),
            KeyValue::new("gen_ai.agent.id", "agent-1"),
            KeyValue::new("gen_ai.conversation.id", "conversation-1"),
            KeyValue::new("gen_ai.usage.input_tokens", 240),
            KeyValue::new("gen_ai.usage.output_tokens", 30),
        ])
        .start(&tracer);
    let context = Context::current_with_span(agent);
    let client = |name: &'static str, attributes: Vec<KeyValue>| {
        tracer.span_builder(name).with_kind(SpanKind::Client).with_attributes(attributes).start_with_context(&tracer, &context)
    };

    client("chat gpt-test", chat(&format!("[{question}]"), &format!(r#"[{call},"finish_reason":"tool_call"}}]"#), "tool_calls", "resp_1")).end();
    let mut tool = tracer
        .span_builder("execute_tool get_weather")
        .with_kind(SpanKind::Internal)
        .with_attributes([
            KeyValue::new("gen_ai.operation.name", "execute_tool"),
            KeyValue::new("gen_ai.tool.name", "get_weather"),
            KeyValue::new("gen_ai.tool.type", "function"),
            KeyValue::new("gen_ai.tool.description", "Get the weather of a city."),
            KeyValue::new("gen_ai.tool.call.id", "call_1"),
            KeyValue::new("gen_ai.tool.call.arguments", r#"{"city":"Paris"}"#),
            KeyValue::new("gen_ai.tool.call.result", r#"{"weather":"sunny"}"#),
        ])
        .start_with_context(&tracer, &context);
    tool.end();
    client("chat gpt-test", chat(&format!("[{question},{call}}},{result}]"), &format!("[{answer}]"), "stop", "resp_2")).end();
    let mut failed = client(
        "chat gpt-test",
        vec![
            KeyValue::new("gen_ai.operation.name", "chat"),
            KeyValue::new("gen_ai.provider.name", "openai"),
            KeyValue::new("gen_ai.request.model", "gpt-test"),
            KeyValue::new("gen_ai.conversation.id", "conversation-1"),
            KeyValue::new("error.type", "500"),
        ],
    );
    failed.set_status(Status::error("The model failed."));
    failed.end();

    // The same call as an event: its messages are structured.
    let guard = context.clone().attach();
    let text = |content: &'static str| map(vec![("type", "text".into()), ("content", content.into())]);
    let message = |role: &'static str, part: AnyValue| map(vec![("role", role.into()), ("parts", list(vec![part]))]);
    let mut event = logger.create_log_record();
    event.set_event_name("gen_ai.client.inference.operation.details");
    event.set_severity_number(Severity::Info);
    event.set_timestamp(std::time::SystemTime::now());
    event.add_attribute("gen_ai.operation.name", "chat");
    event.add_attribute("gen_ai.provider.name", "openai");
    event.add_attribute("gen_ai.request.model", "gpt-test");
    event.add_attribute("gen_ai.response.model", "gpt-test-2026-01-01");
    event.add_attribute("gen_ai.response.id", "resp_3");
    event.add_attribute("gen_ai.response.finish_reasons", list(vec!["stop".into()]));
    event.add_attribute("gen_ai.conversation.id", "conversation-1");
    event.add_attribute("gen_ai.usage.input_tokens", 120);
    event.add_attribute("gen_ai.usage.cache_read.input_tokens", 40);
    event.add_attribute("gen_ai.usage.output_tokens", 15);
    event.add_attribute("gen_ai.usage.reasoning.output_tokens", 5);
    event.add_attribute("gen_ai.system_instructions", list(vec![text("You are a test.")]));
    event.add_attribute("gen_ai.input.messages", list(vec![message("user", text("Say hello."))]));
    event.add_attribute("gen_ai.output.messages", list(vec![message("assistant", text("Hello from the model."))]));
    logger.emit(event);
    drop(guard);

    context.span().end();
    spans.shutdown().unwrap();
    logs.shutdown().unwrap();
}
