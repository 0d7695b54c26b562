"""Clients of Anthropic do the same when they are wrapped, and the log has what was said."""

from __future__ import annotations

from typing import Any

import pytest
from fake import CALL_BLOCK, TEXT_BLOCK, Reply, failed, message, message_events

pytest.importorskip("anthropic")

ASKED = [{"role": "user", "content": "How long is main.rs?"}]
GIVEN = {"model": "claude-5", "max_tokens": 100, "system": "Be short.", "messages": ASKED}
SAID = [("system", "Be short."), ("user", "How long is main.rs?"), ("assistant", "12 lines.")]
TOKENS = {
    "tokens_in": 20,
    "tokens_out": 9,
    "tokens_cache_read": 12,
    "tokens_cache_write": 3,
    "tokens_cache_write_1h": 2,
}
THINKING = {"type": "thinking", "thinking": "Count them.", "signature": "s"}


def ask(**more: Any) -> Any:
    return lambda client: client.messages.create(**{**GIVEN, **more})


def tokens(message: Any) -> dict[str, Any]:
    return {name: getattr(message, name) for name in TOKENS}


def test_a_message_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    same("anthropic", is_async, ask(), message([THINKING, TEXT_BLOCK]))
    assert recorded.said() == SAID
    answer = recorded.messages()[-1]
    assert tokens(answer) == TOKENS
    assert (answer.model_used, answer.reasoning) == ("claude-5-2026", "Count them.")
    assert answer.inference_metadata["finish_reason"] == "end_turn"


def test_a_streamed_message_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    same(
        "anthropic",
        is_async,
        ask(stream=True),
        Reply(events=message_events([THINKING, TEXT_BLOCK])),
    )
    assert recorded.said() == SAID
    answer = recorded.messages()[-1]
    assert tokens(answer) == TOKENS
    assert (answer.reasoning, answer.error) == ("Count them.", None)


def test_the_stream_helper_is_recorded(same: Any, recorded: Any, is_async: bool) -> None:
    def streamed(client: Any) -> Any:
        return client.messages.stream(**GIVEN)

    same("anthropic", is_async, streamed, Reply(events=message_events([TEXT_BLOCK])))
    assert recorded.said() == SAID
    assert recorded.messages()[-1].error is None


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("is_error", [False, True])
def test_a_loop_with_a_tool_is_one_conversation(
    client: Any, server: Any, recorded: Any, streamed: bool, is_error: bool
) -> None:
    called = [{"type": "text", "text": "I will look."}, CALL_BLOCK]
    reply = (
        Reply(events=message_events(called, "tool_use"))
        if streamed
        else message(called, "tool_use")
    )
    server.script = [reply, message([TEXT_BLOCK])]
    anthropic = recorded.wrap(client("anthropic"))
    if streamed:
        with anthropic.messages.stream(**GIVEN) as stream:
            answer = stream.get_final_message()
    else:
        answer = anthropic.messages.create(**GIVEN)
    assert recorded.calls() == [("toolu_1", "count_lines", {"path": "main.rs"}, "requested", None)]
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "12",
        "is_error": is_error,
    }
    history = [
        *ASKED,
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result]},
    ]
    anthropic.messages.create(**{**GIVEN, "messages": history})

    assert recorded.said() == [*SAID[:2], ("assistant", "I will look."), ("tool", "12"), SAID[2]]
    status = "failed" if is_error else "completed"
    assert recorded.calls() == [("toolu_1", "count_lines", {"path": "main.rs"}, status, "12")]
    call = next(recorded.log.tool_calls())
    assert (call.error_kind, call.error_msg) == (("tool_error", "12") if is_error else (None, None))
    assert call.request_id == call.parent_id == recorded.messages()[2].id
    assert recorded.messages()[3].error_type == ("tool_error" if is_error else None)
    turns = list(recorded.log.turns())
    assert [it.kind for it in turns] == ["system", "user", "assistant", "tool", "assistant"]
    assert turns[2].content == "I will look.\n\n[tool_use count_lines toolu_1]"
    assert [it.parent_id for it in turns[1:]] == [it.id for it in turns[:-1]]


def test_a_tool_of_the_vendor_is_a_completed_call(same: Any, recorded: Any) -> None:
    content = [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "q"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        TEXT_BLOCK,
    ]
    same("anthropic", False, ask(), message(content))
    assert recorded.calls() == [("srvtoolu_1", "web_search", {"query": "q"}, "completed", [])]


def test_images_are_named_and_not_stored(same: Any, recorded: Any) -> None:
    image = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
    }
    same(
        "anthropic",
        False,
        ask(messages=[{"role": "user", "content": [image]}]),
        message([TEXT_BLOCK]),
    )
    assert recorded.said()[1] == ("user", "[image]")


def test_a_stream_that_was_cancelled_has_what_was_received(
    same: Any, recorded: Any, is_async: bool
) -> None:
    events = message_events([TEXT_BLOCK])[:3]
    same("anthropic", is_async, ask(stream=True), Reply(events=events, waits=True), stop_after=3)
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", "cancelled")
    assert answer.model_used == "claude-5-2026"


def test_a_stream_that_is_left_after_its_last_event_is_complete(
    same: Any, recorded: Any, is_async: bool
) -> None:
    events = message_events([TEXT_BLOCK])
    same("anthropic", is_async, ask(stream=True), Reply(events=events), stop_after=len(events))
    assert recorded.messages()[-1].error is None


def test_an_error_within_a_stream_is_recorded_and_raised(
    same: Any, recorded: Any, is_async: bool
) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    events = [*message_events([TEXT_BLOCK])[:3], error]
    raised = same("anthropic", is_async, ask(stream=True), Reply(events=events))
    answer = recorded.messages()[-1]
    assert answer.content == "12 "
    assert (answer.error_type, answer.error) == (raised[0].__name__, raised[1])
    assert "Overloaded" in answer.error


@pytest.mark.parametrize("status", [400, 429, 500])
def test_an_error_is_recorded_and_raised(
    same: Any, recorded: Any, is_async: bool, status: int
) -> None:
    raised = same("anthropic", is_async, ask(), failed(status))
    answer = recorded.messages()[-1]
    assert (answer.error_type, answer.error) == (raised[0].__name__, raised[1])
    assert str(status) in answer.error


def test_a_beta_message_is_recorded(same: Any, recorded: Any) -> None:
    same(
        "anthropic",
        False,
        lambda client: client.beta.messages.create(**GIVEN),
        message([TEXT_BLOCK]),
    )
    assert recorded.said() == SAID
