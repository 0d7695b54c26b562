"""Spans and log records that the SDK of OpenTelemetry exports become conversations and calls."""

from __future__ import annotations

import inspect
import json
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.common")

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SimpleSpanProcessor,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Status, StatusCode, Tracer

import decklog
from decklog.otel import LogRecordExporter, SpanExporter

PROCESSORS = [BatchSpanProcessor, SimpleSpanProcessor]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[decklog.Log]:
    with decklog.open(tmp_path / "log") as opened:
        yield opened


def provider_of(*processors: Any) -> TracerProvider:
    provider = TracerProvider(resource=Resource.create({"service.name": "weather-agent"}))
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


ASKED = {"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
CALL = {"role": "assistant", "parts": [ASKED], "finish_reason": "tool_call"}
ANSWERED = {"type": "tool_call_response", "id": "call_1", "response": "sunny"}
RESULT = {"role": "tool", "parts": [ANSWERED]}
QUESTION = text("user", "What is the weather in Paris?")
ANSWER = {**text("assistant", "It is sunny."), "finish_reason": "stop"}


def chat(
    tracer: Tracer, given: list[Any], answer: Any, tokens: tuple[int, int], **more: Any
) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-1",
        "gen_ai.conversation.id": "conversation-1",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "You are brief."}]),
        "gen_ai.input.messages": json.dumps(given),
    }
    with tracer.start_as_current_span("chat small-1", attributes=attributes) as span:
        span.set_attribute("gen_ai.response.model", "small-1-2026")
        span.set_attribute("gen_ai.usage.input_tokens", tokens[0])
        span.set_attribute("gen_ai.usage.output_tokens", tokens[1])
        span.set_attribute("gen_ai.output.messages", json.dumps([answer]))
        for name, value in more.items():
            span.set_attribute(name, value)


def run_agent(tracer: Tracer) -> None:
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "conversation-1"}
    with tracer.start_as_current_span("invoke_agent", attributes=agent):
        cached = {"gen_ai.usage.cache_read.input_tokens": 40}
        chat(tracer, [QUESTION], CALL, (120, 15), **cached)
        tool = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "get_weather",
            "gen_ai.tool.call.id": "call_1",
            "gen_ai.tool.call.arguments": '{"city": "Paris"}',
            "gen_ai.tool.call.result": "sunny",
        }
        with tracer.start_as_current_span("execute_tool get_weather", attributes=tool):
            pass
        chat(tracer, [QUESTION, CALL, RESULT], ANSWER, (160, 5))


@pytest.mark.parametrize("processor", PROCESSORS)
def test_spans_of_an_agent_are_a_conversation(log: decklog.Log, processor: Any) -> None:
    provider = provider_of(processor(SpanExporter(log)))
    run_agent(provider.get_tracer("weather"))
    assert provider.force_flush()
    provider.shutdown()
    [talk] = log.conversations()
    assert (talk.session_id, talk.agent) == ("conversation-1", "weather-agent")
    assert (talk.total_tokens_in, talk.total_tokens_out) == (280, 20)
    assert talk.models_used == ["small-1-2026"]
    messages = [*log.messages(conversation_id=talk.id)]
    assert [(it.role, it.content or it.tool_name or it.tool_result) for it in messages] == [
        ("system", "You are brief."),
        ("user", "What is the weather in Paris?"),
        ("assistant", "get_weather"),
        ("tool", "sunny"),
        ("assistant", "It is sunny."),
    ]
    assert messages[2].tokens_cache_read == 40
    [call] = log.tool_calls()
    assert (call.tool_name, call.call_id, call.status) == ("get_weather", "call_1", "completed")
    assert (call.arguments_json, call.outcome_json) == ({"city": "Paris"}, "sunny")
    assert call.parent_id in {it.id for it in log.turns(kind="assistant")}


def test_the_same_spans_twice_add_nothing(log: decklog.Log) -> None:
    memory = InMemorySpanExporter()
    run_agent(provider_of(SimpleSpanProcessor(memory)).get_tracer("weather"))
    spans = memory.get_finished_spans()
    exporter = SpanExporter(log)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    before = everything(log)
    assert exporter.export(spans) is SpanExportResult.SUCCESS
    assert exporter.export(spans[:2]) is SpanExportResult.SUCCESS
    assert SpanExporter(log).export(spans) is SpanExportResult.SUCCESS
    assert everything(log) == before


def everything(log: decklog.Log) -> list[Any]:
    return [*log.turns(), *log.conversations(), *log.messages(), *log.tool_calls()]


def test_an_error_of_a_span_is_that_of_the_answer(log: decklog.Log) -> None:
    provider = provider_of(SimpleSpanProcessor(SpanExporter(log)))
    tracer = provider.get_tracer("weather")
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "small-1"}
    with pytest.raises(TimeoutError):
        with tracer.start_as_current_span("chat small-1", attributes=attributes) as span:
            span.set_attribute("error.type", "TimeoutError")
            raise TimeoutError("too slow")
    with tracer.start_as_current_span("GET /") as span:
        span.set_status(Status(StatusCode.OK))
    provider.shutdown()
    [talk] = log.conversations()
    assert talk.status == "error"
    [answer] = log.messages(conversation_id=talk.id)
    assert answer.error_type == "TimeoutError" and "too slow" in str(answer.error)
    assert any('"GET /"' in it.content for it in log.turns(kind="sysinfo"))


def one_span() -> list[ReadableSpan]:
    memory = InMemorySpanExporter()
    tracer = provider_of(SimpleSpanProcessor(memory)).get_tracer("weather")
    chat(tracer, [QUESTION], ANSWER, (1, 2))
    return [*memory.get_finished_spans()]


def test_what_is_not_recorded_is_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "decklog.otel")
    log = decklog.open(tmp_path / "log")
    exporter = SpanExporter(log)
    assert exporter.export([]) is SpanExportResult.SUCCESS
    log.close()
    for _ in range(2):
        assert exporter.export(one_span()) is SpanExportResult.FAILURE
    assert caplog.messages == ["the log was closed: spans are lost"]
    caplog.clear()
    with decklog.open(tmp_path / "log", read_only=True) as log:
        assert SpanExporter(log).export(one_span()) is SpanExportResult.FAILURE
    assert len(caplog.messages) == 1 and "1 spans were not recorded" in caplog.messages[0]


def test_an_exporter_that_was_shut_down_exports_nothing(tmp_path: Path) -> None:
    exporter = SpanExporter(tmp_path / "log")
    assert exporter.export(one_span()) is SpanExportResult.SUCCESS
    assert exporter.force_flush()
    exporter.shutdown()
    exporter.shutdown()
    assert exporter.export(one_span()) is SpanExportResult.FAILURE
    with decklog.open(tmp_path / "log", read_only=True) as log:
        assert len([*log.conversations()]) == 1


def test_rejected_spans_are_counted_and_told_once(
    log: decklog.Log, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "decklog.otel")
    memory = InMemorySpanExporter()
    tracer = provider_of(SimpleSpanProcessor(memory)).get_tracer("weather")
    with tracer.start_as_current_span("large", attributes={"text": "x" * 9_000_000}):
        pass
    with tracer.start_as_current_span("small"):
        pass
    large, small = memory.get_finished_spans()
    exporter = SpanExporter(log)
    assert exporter.export([large, small]) is SpanExportResult.SUCCESS
    assert exporter.export([large]) is SpanExportResult.FAILURE
    assert exporter.rejected == 2
    [told] = caplog.messages
    assert told.startswith("1 of 2 spans were rejected, the first: ")
    assert any('"small"' in it.content for it in log.turns())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_that_was_forked_exports_too(tmp_path: Path) -> None:
    program = """
        import os, sys
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        import decklog
        from decklog.otel import SpanExporter
        log = decklog.open(sys.argv[1])
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(SpanExporter(log)))
        tracer = provider.get_tracer("t")
        with tracer.start_as_current_span("parent"):
            pass
        provider.force_flush()
        child = os.fork()
        if child == 0:
            with tracer.start_as_current_span("child"):
                pass
            provider.force_flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        contents = "".join(it.content for it in log.turns())
        names = [name for name in ("parent", "child") if f'"{name}"' in contents]
        print(status, names)
        """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(tmp_path / "log")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.strip() == "0 ['parent', 'child']", done.stderr


def test_log_records_are_recorded(log: decklog.Log) -> None:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import LoggerProvider

    if "event_name" not in inspect.signature(LogRecord).parameters:
        pytest.skip("this version of the SDK has no events")
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(LogRecordExporter(log)))
    emitter = provider.get_logger("weather")
    emitter.emit(
        LogRecord(
            timestamp=1_790_000_000_000_000_000,
            event_name="gen_ai.client.inference.operation.details",
            severity_number=SeverityNumber.INFO,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "small-1",
                "gen_ai.conversation.id": "conversation-1",
                "gen_ai.input.messages": json.dumps([QUESTION]),
                "gen_ai.output.messages": json.dumps([ANSWER]),
                "gen_ai.usage.output_tokens": 5,
            },
        )
    )
    emitter.emit(LogRecord(timestamp=1_790_000_000_000_000_000, body="the till failed"))
    assert provider.force_flush()
    provider.shutdown()
    [talk] = log.conversations()
    found = [(it.role, it.content) for it in log.messages(conversation_id=talk.id)]
    assert found == [
        ("user", "What is the weather in Paris?"),
        ("assistant", "It is sunny."),
    ]
    assert talk.total_tokens_out == 5
    assert any("the till failed" in it.content for it in log.turns(kind="sysinfo"))


def test_an_instrumentation_of_langchain_is_recorded(log: decklog.Log) -> None:
    instrumentor = pytest.importorskip("openinference.instrumentation.langchain")
    fakes = pytest.importorskip("langchain_core.language_models.fake_chat_models")
    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate

    provider = provider_of(BatchSpanProcessor(SpanExporter(log)))
    instrumented = instrumentor.LangChainInstrumentor()
    instrumented.instrument(tracer_provider=provider)
    try:
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        answer = AIMessage("12 lines.", usage_metadata=usage)
        model = fakes.GenericFakeChatModel(messages=iter([answer]))
        prompt = ChatPromptTemplate([("system", "You are brief."), ("user", "How long is {it}?")])
        (prompt | model).invoke({"it": "main.rs"})
    finally:
        instrumented.uninstrument()
    provider.shutdown()
    [talk] = log.conversations()
    assert [(it.role, it.content) for it in log.messages(conversation_id=talk.id)] == [
        ("system", "You are brief."),
        ("user", "How long is main.rs?"),
        ("assistant", "12 lines."),
    ]
    assert (talk.total_tokens_in, talk.total_tokens_out) == (7, 3)
