"""Clients of OpenAI do the same when they are wrapped, and the log has what was said."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest
from fake import (
    CALL,
    CALL_ITEM,
    CHAT_CALL_EVENTS,
    CHAT_EVENTS,
    REASONING,
    Reply,
    chat,
    failed,
    response_body,
    response_events,
    text_item,
)

openai = pytest.importorskip("openai")

# Of older versions.
helpers = pytest.mark.skipif(
    not hasattr(openai.resources.chat.Completions, "parse"), reason="no helpers"
)
responses = pytest.mark.skipif(
    find_spec("openai.resources.responses") is None, reason="no Responses API"
)

ASKED = [
    {"role": "system", "content": "Be short."},
    {"role": "user", "content": "How long is main.rs?"},
]
TOKENS = {"tokens_in": 20, "tokens_out": 9, "tokens_cache_read": 12, "tokens_reasoning": 4}
SAID = [("system", "Be short."), ("user", "How long is main.rs?"), ("assistant", "12 lines.")]


def ask(**more: Any) -> Any:
    return lambda client: client.chat.completions.create(model="gpt-5", messages=ASKED, **more)


def tokens(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in TOKENS}


def test_a_completion_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    same("openai", is_async, ask(), chat())
    assert recorded.said() == SAID
    answer = recorded.messages()[-1]
    assert tokens(answer) == TOKENS
    assert answer.model_used == "gpt-5-2026"
    assert answer.latency_ms >= 0
    assert answer.inference_metadata["finish_reason"] == "stop"
    assert answer.inference_metadata["response_id"] == "chatcmpl-1"
    turns = list(recorded.log.turns())
    assert [(it.kind, it.content) for it in turns] == SAID
    assert [it.parent_id for it in turns] == [None, turns[0].id, turns[1].id]
    (conversation,) = recorded.conversations()
    assert (conversation.title, conversation.client) == ("How long is main.rs?", "api")
    assert {it.thread_id for it in turns} == {conversation.id}


def test_a_streamed_completion_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    options = {"include_usage": True}
    same("openai", is_async, ask(stream=True, stream_options=options), Reply(events=CHAT_EVENTS))
    assert recorded.said() == SAID
    assert tokens(recorded.messages()[-1]) == TOKENS
    assert recorded.messages()[-1].error is None


def test_usage_is_not_asked_for(same: Any, recorded: Any, server: Any) -> None:
    same("openai", False, ask(stream=True), Reply(events=[*CHAT_EVENTS[:4], "[DONE]"]))
    assert "stream_options" not in server.requests[0][1]
    assert recorded.messages()[-1].tokens_in is None


@helpers
def test_the_stream_helper_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    def streamed(client: Any) -> Any:
        return client.chat.completions.stream(model="gpt-5", messages=ASKED)

    same("openai", is_async, streamed, Reply(events=CHAT_EVENTS))
    assert recorded.said() == SAID
    assert recorded.messages()[-1].error is None


@helpers
def test_a_parsed_completion_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    from pydantic import BaseModel

    class Lines(BaseModel):
        lines: int

    def parsed(client: Any) -> Any:
        return client.chat.completions.parse(model="gpt-5", messages=ASKED, response_format=Lines)

    same("openai", is_async, parsed, chat('{"lines": 12}'))
    assert recorded.said()[-1] == ("assistant", '{"lines": 12}')


@helpers
def test_an_answer_that_was_cut_is_recorded_with_the_error_of_parse(
    same: Any, recorded: Any
) -> None:
    from pydantic import BaseModel

    class Lines(BaseModel):
        lines: int

    def parsed(client: Any) -> Any:
        return client.chat.completions.parse(model="gpt-5", messages=ASKED, response_format=Lines)

    reply = chat('{"lin')
    reply.body["choices"][0]["finish_reason"] = "length"
    same("openai", False, parsed, reply)
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type, answer.tokens_out) == (
        '{"lin',
        "LengthFinishReasonError",
        9,
    )


def test_several_choices_are_parts_of_one_answer(same: Any, recorded: Any) -> None:
    choices = [
        {"index": at, "message": {"role": "assistant", "content": it}, "finish_reason": "stop"}
        for at, it in enumerate(["12 lines.", "A dozen."])
    ]
    same("openai", False, ask(n=2), chat(choices=choices))
    first, second = recorded.messages()[-2:]
    assert (first.content, first.tokens_out, first.part_of) == ("12 lines.", 9, None)
    assert (second.content, second.tokens_out, second.part_of) == ("A dozen.", None, first.id)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_loop_with_a_tool_is_one_conversation(
    client: Any, server: Any, recorded: Any, streamed: bool
) -> None:
    called = Reply(events=CHAT_CALL_EVENTS) if streamed else chat(None, [CALL])
    server.script = [called, chat("12 lines.")]
    wrapped = recorded.wrap(client("openai"))
    history: list[Any] = list(ASKED)
    if streamed:
        for _ in wrapped.chat.completions.create(model="gpt-5", messages=history, stream=True):
            pass
        history.append({"role": "assistant", "tool_calls": [CALL]})
    else:
        # The object of the SDK itself is sent back.
        history.append(
            wrapped.chat.completions.create(model="gpt-5", messages=history).choices[0].message
        )
    assert recorded.calls() == [("call_1", "count_lines", {"path": "main.rs"}, "requested", None)]
    history.append({"role": "tool", "tool_call_id": "call_1", "content": '{"lines": 12}'})
    wrapped.chat.completions.create(model="gpt-5", messages=history)

    assert recorded.said() == [*SAID[:2], ("assistant", ""), ("tool", '{"lines": 12}'), SAID[2]]
    assert recorded.calls() == [
        ("call_1", "count_lines", {"path": "main.rs"}, "completed", {"lines": 12})
    ]
    call = next(recorded.log.tool_calls())
    asking = recorded.messages()[2]
    assert call.request_id == call.parent_id == asking.id
    assert (asking.tool_name, asking.tool_call_id) == ("count_lines", "call_1")
    assert call.vendor == "openai"


def test_calls_at_once_each_have_their_outcome(client: Any, server: Any, recorded: Any) -> None:
    custom = {"id": "call_2", "type": "custom", "custom": {"name": "run", "input": "not JSON"}}
    server.script = [chat("Looking.", [CALL, custom]), chat("12 lines.")]
    wrapped = recorded.wrap(client("openai"))
    history: list[Any] = list(ASKED)
    history.append(
        wrapped.chat.completions.create(model="gpt-5", messages=history).choices[0].message
    )
    for call_id in ("call_2", "call_1"):
        history.append({"role": "tool", "tool_call_id": call_id, "content": f"of {call_id}"})
    wrapped.chat.completions.create(model="gpt-5", messages=history)
    assert [role for role, _ in recorded.said()] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert sorted(recorded.calls()) == [
        ("call_1", "count_lines", {"path": "main.rs"}, "completed", "of call_1"),
        ("call_2", "run", "not JSON", "completed", "of call_2"),
    ]
    assert recorded.messages()[2].content == "Looking.\n\n[tool_use run call_2]"


def response(**more: Any) -> Any:
    given = {"model": "gpt-5", "instructions": "Be short.", "input": "How long is main.rs?", **more}
    return lambda client: client.responses.create(**given)


@responses
def test_a_response_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    same("openai", is_async, response(), Reply(response_body([REASONING, text_item("12 lines.")])))
    assert recorded.said() == SAID
    answer = recorded.messages()[-1]
    assert (answer.reasoning, tokens(answer)) == ("Count them.", TOKENS)


@responses
def test_a_streamed_response_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    reply = Reply(events=response_events([REASONING, text_item("12 |lines.")]))
    same("openai", is_async, response(stream=True), reply)
    assert recorded.said()[-1] == ("assistant", "12 |lines.")
    assert tokens(recorded.messages()[-1]) == TOKENS


@responses
def test_the_stream_helper_of_responses_is_recorded(
    same: Any, recorded: Any, is_async: bool
) -> None:
    def streamed(client: Any) -> Any:
        return client.responses.stream(model="gpt-5", input="How long is main.rs?")

    same("openai", is_async, streamed, Reply(events=response_events([text_item("12 |lines.")])))
    assert recorded.said()[-1] == ("assistant", "12 |lines.")


@responses
def test_a_parsed_response_is_recorded(same: Any, recorded: Any) -> None:
    from pydantic import BaseModel

    class Lines(BaseModel):
        lines: int

    def parsed(client: Any) -> Any:
        return client.responses.parse(
            model="gpt-5", input="How long is main.rs?", text_format=Lines
        )

    same("openai", False, parsed, Reply(response_body([text_item('{"lines": 12}')])))
    assert recorded.said()[-1] == ("assistant", '{"lines": 12}')


@responses
def test_a_response_that_was_cancelled_has_what_was_received(
    same: Any, recorded: Any, is_async: bool
) -> None:
    reply = Reply(events=response_events([text_item("12 |lines.")]), waits=True)
    reply.events = reply.events[:4]  # type: ignore[index]
    same("openai", is_async, response(stream=True), reply, stop_after=4)
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", "cancelled")
    assert answer.model_used == "gpt-5-2026"


@responses
@pytest.mark.parametrize("by_id", [False, True])
def test_responses_with_a_tool_are_one_conversation(
    client: Any, server: Any, recorded: Any, by_id: bool
) -> None:
    server.script = [
        Reply(response_body([REASONING, CALL_ITEM], id="resp_1")),
        Reply(response_body([text_item("12 lines.")], id="resp_2")),
    ]
    wrapped = recorded.wrap(client("openai"))
    first = response()(wrapped)
    result = {"type": "function_call_output", "call_id": "call_1", "output": "12"}
    if by_id:
        response(input=[result], previous_response_id=first.id)(wrapped)
    else:
        asked = {"role": "user", "content": "How long is main.rs?"}
        response(input=[asked, *first.output, result])(wrapped)
    assert recorded.said() == [*SAID[:2], ("assistant", ""), ("tool", "12"), SAID[2]]
    assert recorded.calls() == [("call_1", "count_lines", {"path": "main.rs"}, "completed", "12")]


@responses
def test_a_tool_of_the_vendor_is_a_completed_call(same: Any, recorded: Any) -> None:
    search = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }
    same("openai", False, response(), Reply(response_body([search, text_item("12 lines.")])))
    assert recorded.calls() == [
        ("ws_1", "web_search", {"type": "search", "query": "q"}, "completed", None)
    ]


@responses
def test_a_response_that_failed_is_an_error(same: Any, recorded: Any) -> None:
    body = response_body([], status="failed", error={"code": "server_error", "message": "No luck."})
    same("openai", False, response(), Reply(body))
    answer = recorded.messages()[-1]
    assert (answer.error_type, answer.error) == ("server_error", "No luck.")


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "BadRequestError"), (429, "RateLimitError"), (500, "InternalServerError")],
)
def test_an_error_is_recorded_and_raised(
    same: Any, recorded: Any, is_async: bool, status: int, kind: str
) -> None:
    raised = same("openai", is_async, ask(), failed(status))
    assert raised[0].__name__ == kind
    answer = recorded.messages()[-1]
    assert (answer.role, answer.error_type, answer.error) == ("assistant", kind, raised[1])
    assert str(status) in answer.error
    assert answer.inference_metadata["status_code"] == status
    assert recorded.conversations()[0].status == "error"
