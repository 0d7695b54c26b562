"""Which requests are one conversation, and what of them is new."""

from __future__ import annotations

from typing import Any

import pytest
from fake import CALL, chat, failed

sdk = pytest.importorskip("openai")


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}


def ask(client: Any, *messages: Any) -> Any:
    return client.chat.completions.create(model="gpt-5", messages=list(messages))


def test_a_history_is_recorded_once(client: Any, server: Any, recorded: Any) -> None:
    openai = recorded.wrap(client("openai"))
    history: list[Any] = []
    for nth in range(20):
        server.script = [chat(f"answer {nth}")]
        history.append(user(f"question {nth}"))
        ask(openai, *history)
        history.append(assistant(f"answer {nth}"))
    said = [
        it
        for nth in range(20)
        for it in (("user", f"question {nth}"), ("assistant", f"answer {nth}"))
    ]
    assert recorded.said() == said


def test_requests_that_share_no_answer_are_conversations_of_their_own(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [chat("4")]
    openai = recorded.wrap(client("openai"))
    system = {"role": "system", "content": "Be short."}
    for question in ("2 + 2?", "2 + 2?", "1 + 3?"):
        ask(openai, system, user(question))
    conversations = recorded.conversations()
    assert sorted(it.title for it in conversations) == ["1 + 3?", "2 + 2?", "2 + 2?"]
    assert [it.message_count for it in conversations] == [3, 3, 3]


def test_two_conversations_at_once_are_told_apart(client: Any, server: Any, recorded: Any) -> None:
    openai = recorded.wrap(client("openai"))
    histories: list[list[Any]] = [[user("a")], [user("b")]]
    for nth in range(3):
        for history in histories:
            server.script = [chat(f"{history[0]['content']} {nth}")]
            ask(openai, *history)
            history += [assistant(f"{history[0]['content']} {nth}"), user("more")]
    assert [it.message_count for it in recorded.conversations()] == [6, 6]


def test_an_answer_can_be_followed_in_two_ways(client: Any, server: Any, recorded: Any) -> None:
    openai = recorded.wrap(client("openai"))
    server.script = [chat("a")]
    ask(openai, user("1"))
    for way in ("2", "3"):
        server.script = [chat(f"a {way}")]
        ask(openai, user("1"), assistant("a"), user(way))
    recorded.flush()
    turns = list(recorded.log.turns())
    assert [it.content for it in turns] == ["1", "a", "2", "a 2", "3", "a 3"]
    assert turns[2].parent_id == turns[4].parent_id == turns[1].id


def test_a_request_that_is_tried_again_is_recorded_once(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [failed(500), chat("4")]
    openai = recorded.wrap(client("openai"))
    with pytest.raises(sdk.InternalServerError):
        ask(openai, user("2 + 2?"))
    ask(openai, user("2 + 2?"))
    assert recorded.said() == [("user", "2 + 2?"), ("assistant", ""), ("assistant", "4")]
    assert recorded.conversations()[0].status == "active"


def test_a_retry_of_the_sdk_is_one_answer(client: Any, server: Any, recorded: Any) -> None:
    server.script = [failed(500), chat("4")]
    ask(recorded.wrap(client("openai", max_retries=2)), user("2 + 2?"))
    assert len(server.requests) == 2
    assert recorded.said() == [("user", "2 + 2?"), ("assistant", "4")]


def test_a_system_message_that_changes_keeps_the_conversation(
    client: Any, server: Any, recorded: Any
) -> None:
    openai = recorded.wrap(client("openai"))
    server.script = [chat("a")]
    ask(openai, {"role": "system", "content": "It is Monday."}, user("1"))
    ask(
        openai,
        {"role": "system", "content": "It is Tuesday."},
        user("1"),
        assistant("a"),
        user("2"),
    )
    systems = [text for role, text in recorded.said() if role == "system"]
    assert systems == ["It is Monday.", "It is Tuesday."]


def test_a_history_from_before_is_recorded_with_its_calls(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [chat("12 lines.")]
    calls = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "12"}
    ask(recorded.wrap(client("openai")), user("How long?"), calls, result)
    assert [role for role, _ in recorded.said()] == ["user", "assistant", "tool", "assistant"]
    assert recorded.calls() == [("call_1", "count_lines", {"path": "main.rs"}, "completed", "12")]


def test_a_conversation_can_be_named(client: Any, server: Any, recorded: Any) -> None:
    server.script = [chat("a")]
    openai = recorded.wrap(client("openai"), conversation="ticket-7")
    ask(openai, user("1"))
    ask(openai, user("2"))
    (conversation,) = recorded.conversations()
    assert conversation.session_id == "ticket-7"
    recorded.flush()
    assert recorded.said() == [("user", "1"), ("assistant", "a"), ("user", "2"), ("assistant", "a")]
    turns = list(recorded.log.turns())
    assert [it.parent_id for it in turns[1:]] == [it.id for it in turns[:-1]]


def test_a_named_conversation_goes_on_in_another_process(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [chat(None, [CALL])]
    system = {"role": "system", "content": "Be short."}
    openai = recorded.wrap(client("openai"), conversation="ticket-7")
    ask(openai, system, user("How long?"))
    recorded.flush()

    # The client of a later process knows only the log.
    later = recorded.wrap(client("openai"), conversation="ticket-7")
    server.script = [chat("12 lines.")]
    calls = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    result = {"role": "tool", "tool_call_id": "call_1", "content": "12"}
    ask(later, system, user("How long?"), calls, result)
    roles = [role for role, _ in recorded.said()]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert recorded.calls()[0][3:] == ("completed", "12")


def test_a_history_whose_start_was_dropped_goes_on(client: Any, server: Any, recorded: Any) -> None:
    openai = recorded.wrap(client("openai"), conversation="ticket-7")
    server.script = [chat("a")]
    ask(openai, user("1"))
    server.script = [chat("b")]
    ask(openai, user("1"), assistant("a"), user("2"))
    ask(openai, user("2"), assistant("b"), user("3"))
    said = [text for _, text in recorded.said()]
    assert said == ["1", "a", "2", "b", "3", "b"]
