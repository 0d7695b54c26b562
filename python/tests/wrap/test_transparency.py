"""Nothing but the log tells whether a client is wrapped."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fake import CHAT_EVENTS, TEXT_BLOCK, Reply, chat, message, message_events

import decklog

sdk = pytest.importorskip("openai")

ASKED = [{"role": "user", "content": "How long is main.rs?"}]
GIVEN: dict[str, Any] = {"model": "gpt-5", "messages": ASKED}


def ask(client: Any, **more: Any) -> Any:
    return client.chat.completions.create(**GIVEN, **more)


def test_the_client_is_the_same_object(client: Any, recorded: Any) -> None:
    openai = client("openai")
    of = type(openai)
    assert recorded.wrap(openai) is openai
    assert type(openai) is of


def test_copies_of_a_client_are_recorded(client: Any, server: Any, recorded: Any) -> None:
    server.script = [chat()]
    openai = recorded.wrap(client("openai"))
    assert openai.with_options(timeout=3).timeout == 3
    ask(openai.with_options(timeout=3))
    ask(openai.copy().with_options(max_retries=1))
    assert len(recorded.conversations()) == 2


def test_a_client_that_is_wrapped_again_is_recorded_once(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [chat()]
    ask(recorded.wrap(recorded.wrap(client("openai"))))
    assert len(recorded.messages()) == 2


def test_other_requests_are_not_recorded(client: Any, server: Any, recorded: Any) -> None:
    embedding = {"object": "embedding", "index": 0, "embedding": [0.5]}
    server.script = [
        Reply(
            {
                "object": "list",
                "data": [embedding],
                "model": "m",
                "usage": {"prompt_tokens": 1, "total_tokens": 1},
            }
        )
    ]
    found = recorded.wrap(client("openai")).embeddings.create(
        model="m", input="a", encoding_format="float"
    )
    assert found.data[0].embedding == [0.5]
    assert recorded.conversations() == []


def test_raw_responses_are_recorded(client: Any, server: Any, recorded: Any) -> None:
    server.script = [chat()]
    openai = recorded.wrap(client("openai"))
    raw = openai.chat.completions.with_raw_response.create(**GIVEN)
    assert raw.headers["x-request-id"] == "req_1"
    assert raw.parse().choices[0].message.content == "12 lines."
    with openai.chat.completions.with_streaming_response.create(**GIVEN) as response:
        assert response.parse().choices[0].message.content == "12 lines."
    with openai.chat.completions.with_streaming_response.create(**GIVEN) as response:
        assert b"12 lines." in response.read()
    assert [it.message_count for it in recorded.conversations()] == [2, 2, 2]


def test_raw_streams_are_recorded(client: Any, server: Any, recorded: Any) -> None:
    server.script = [Reply(events=CHAT_EVENTS)]
    openai = recorded.wrap(client("openai"))
    stream = openai.chat.completions.with_raw_response.create(**GIVEN, stream=True).parse()
    assert "".join(it.choices[0].delta.content or "" for it in stream if it.choices) == "12 lines."
    assert recorded.said()[-1] == ("assistant", "12 lines.")


def test_raw_responses_are_recorded_async(client: Any, server: Any, recorded: Any) -> None:
    server.script = [chat()]

    async def asked() -> None:
        async with recorded.wrap(client("openai", True)) as openai:
            raw = await openai.chat.completions.with_raw_response.create(**GIVEN)
            assert raw.parse().id == "chatcmpl-1"
            async with openai.chat.completions.with_streaming_response.create(**GIVEN) as response:
                assert (await response.parse()).id == "chatcmpl-1"

    asyncio.run(asked())
    assert [it.message_count for it in recorded.conversations()] == [2, 2]


def test_a_stream_is_not_read_before_it_is_asked_for(
    client: Any, server: Any, recorded: Any
) -> None:
    server.script = [Reply(events=CHAT_EVENTS[:2], waits=True)]
    stream = ask(recorded.wrap(client("openai")), stream=True)
    assert next(stream).choices[0].delta.content == ""
    assert next(stream).choices[0].delta.content == "12 "
    assert [it.role for it in recorded.messages()] == ["user"]
    with stream:
        pass
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", "cancelled")
    assert stream.response.is_closed


@pytest.mark.parametrize("vendor", ["openai", "anthropic"])
def test_a_stream_that_is_dropped_is_cancelled(
    client: Any, server: Any, recorded: Any, vendor: str
) -> None:
    events = CHAT_EVENTS[:2] if vendor == "openai" else message_events([TEXT_BLOCK])[:3]
    server.script = [Reply(events=events, waits=True)]
    closed = []
    for asking in (client(vendor), recorded.wrap(client(vendor))):
        if vendor == "openai":
            stream = ask(asking, stream=True)
        else:
            stream = asking.messages.create(model="m", max_tokens=9, messages=ASKED, stream=True)
        for _ in events:
            next(stream)
        response = stream.response
        del stream
        # Some versions leave it to the garbage collector, and some to the server.
        dropped = response.is_closed
        gc.collect()
        closed.append((dropped, response.is_closed))
    assert closed[0] == closed[1]
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", "cancelled")


@pytest.mark.skipif(not hasattr(sdk.resources.chat.Completions, "stream"), reason="no helpers")
def test_a_stream_helper_that_is_left_is_cancelled(client: Any, server: Any, recorded: Any) -> None:
    server.script = [Reply(events=CHAT_EVENTS[:2], waits=True)]
    with recorded.wrap(client("openai")).chat.completions.stream(**GIVEN) as stream:
        for event in stream:
            if event.type == "content.delta" and event.delta:
                break
        # It is recorded when it is closed, not when it is dropped.
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", "cancelled")


def test_a_connection_that_breaks_is_recorded_and_raised(
    same: Any, recorded: Any, is_async: bool
) -> None:
    raised = same(
        "openai",
        is_async,
        lambda it: ask(it, stream=True),
        Reply(events=CHAT_EVENTS[:2], is_cut=True),
    )
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 ", raised[0].__name__)


@pytest.mark.parametrize("streamed", [False, True])
def test_a_task_that_is_cancelled_is_recorded(
    client: Any, server: Any, recorded: Any, streamed: bool
) -> None:
    server.script = [Reply(events=CHAT_EVENTS[:2], waits=True)]

    async def asked() -> None:
        async with recorded.wrap(client("openai", True)) as openai:

            async def read() -> None:
                # Without `stream`, the client waits for the end of the body.
                result = await ask(openai, **({"stream": True} if streamed else {}))
                async for _ in result:
                    pass

            task = asyncio.create_task(read())
            await asyncio.sleep(0.3)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(asked())
    answer = recorded.messages()[-1]
    assert (answer.content, answer.error_type) == ("12 " if streamed else "", "cancelled")


def test_threads_share_a_client(client: Any, server: Any, recorded: Any) -> None:
    server.script = [chat()]
    openai = recorded.wrap(client("openai"))
    threads = [threading.Thread(target=lambda: [ask(openai) for _ in range(10)]) for _ in range(8)]
    for it in threads:
        it.start()
    for it in threads:
        it.join()
    assert [it.message_count for it in recorded.conversations()] == [2] * 80


def test_calls_leave_nothing_behind(
    client: Any, server: Any, recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from decklog._wrap import _places

    monkeypatch.setattr(_places, "REMEMBERED_MAX", 32)
    openai = recorded.wrap(client("openai"))

    def call(times: int) -> int:
        for nth in range(times):
            server.script = [Reply(events=CHAT_EVENTS)] if nth % 2 else [chat()]
            server.requests.clear()
            result = ask(openai, stream=bool(nth % 2))
            if nth % 2:
                list(result) if nth % 3 else result.close()
        recorded.flush()
        gc.collect()
        return len(gc.get_objects())

    before = call(100)
    after = call(1000)
    assert after - before < 100


def test_a_log_that_is_closed_is_not_the_callers_trouble(
    client: Any, server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = decklog.open(tmp_path / "log")
    capture, lost = log.capture(), []
    openai = decklog.wrap(client("openai"), capture=capture, on_error=lambda *it: lost.append(it))
    capture.close()
    server.script = [chat()]
    with caplog.at_level(logging.WARNING, "decklog"):
        assert ask(openai).choices[0].message.content == "12 lines."
        assert ask(openai).choices[0].message.content == "12 lines."
    assert isinstance(lost[0][0], decklog.ClosedError)
    assert len([it for it in caplog.records if it.name == "decklog"]) == 1


def test_a_log_that_cannot_be_written_is_not_the_callers_trouble(
    client: Any, server: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = decklog.open(tmp_path / "log", lock_timeout=0.1)
    lost: list[Any] = []
    openai = decklog.wrap(client("openai"), log=log, on_error=lambda *it: lost.append(it))
    (tmp_path / "log").rename(tmp_path / "away")
    server.script = [chat()]
    with caplog.at_level(logging.WARNING, "decklog"):
        assert ask(openai).choices[0].message.content == "12 lines."
        for _ in range(200):
            if len(lost) >= 5:
                break
            time.sleep(0.05)
    # The conversation, and two messages with their turns.
    assert [kind for _, kind, _ in lost] == [
        "conversations",
        *["conversation_turns", "messages"] * 2,
    ]
    assert len([it for it in caplog.records if it.name == "decklog"]) == 1


def test_a_log_that_is_read_only_is_refused(client: Any, tmp_path: Path) -> None:
    decklog.open(tmp_path / "log").close()
    openai = client("openai")
    with pytest.raises(decklog.ReadOnlyError):
        decklog.wrap(openai, log=decklog.open(tmp_path / "log", read_only=True))
    assert "request" not in vars(openai)


def test_an_error_of_on_error_is_not_the_callers_trouble(
    client: Any, server: Any, tmp_path: Path
) -> None:
    capture = decklog.open(tmp_path / "log").capture()

    def on_error(*_: object) -> None:
        raise RuntimeError

    openai = decklog.wrap(client("openai"), capture=capture, on_error=on_error)
    capture.close()
    server.script = [chat()]
    assert ask(openai).choices[0].message.content == "12 lines."


def test_odd_messages_are_the_servers_to_refuse(same: Any, recorded: Any) -> None:
    for messages in ([None], [{"role": 7, "content": {"a": 1}}], [{}], "text"):
        same(
            "openai",
            False,
            lambda it, m=messages: it.chat.completions.create(model="gpt-5", messages=m),
            chat(),
        )
    recorded.flush()


def test_a_client_of_another_kind_is_refused(tmp_path: Path) -> None:
    for other in (object(), sdk.OpenAI, None):
        with pytest.raises(TypeError, match="cannot be wrapped") as raised:
            decklog.wrap(other, path=tmp_path / "log")
        assert isinstance(raised.value, decklog.InvalidInputError)


def test_a_log_is_needed(
    client: Any, server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DECKLOG_STORE", raising=False)
    with pytest.raises(decklog.InvalidInputError, match="DECKLOG_STORE"):
        decklog.wrap(client("openai"))
    monkeypatch.setenv("DECKLOG_STORE", str(tmp_path / "log"))
    server.script = [chat()]
    openai = decklog.wrap(client("openai"))
    ask(openai)
    del openai
    gc.collect()
    with decklog.open(tmp_path / "log") as log:
        assert [it.message_count for it in log.conversations()] == [2]


def test_what_is_queued_is_written_at_exit(server: Any, tmp_path: Path) -> None:
    server.script = [chat()]
    program = f"""
import decklog, openai
client = decklog.wrap(openai.OpenAI(api_key="k", base_url={server.url + "/v1"!r}), path={str(tmp_path / "log")!r})
client.chat.completions.create(model="m", messages=[{{"role": "user", "content": "a"}}])
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with decklog.open(tmp_path / "log") as log:
        assert [it.message_count for it in log.conversations()] == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_that_was_forked_records(server: Any, tmp_path: Path) -> None:
    server.script = [chat()]
    program = f"""
import decklog, openai, os
client = decklog.wrap(openai.OpenAI(api_key="k", base_url={server.url + "/v1"!r}), path={str(tmp_path / "log")!r})
ask = lambda: client.chat.completions.create(model="m", messages=[{{"role": "user", "content": "a"}}])
ask()
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
ask()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    with decklog.open(tmp_path / "log") as log:
        assert [it.message_count for it in log.conversations()] == [2, 2, 2]


def test_importing_decklog_imports_no_sdk() -> None:
    program = "import decklog, sys; print([it for it in ('openai', 'anthropic', 'decklog._wrap') if it in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert found.stdout == "[]\n"


def test_both_vendors_share_a_log(client: Any, server: Any, recorded: Any) -> None:
    pytest.importorskip("anthropic")
    openai, anthropic = recorded.wrap(client("openai")), recorded.wrap(client("anthropic"))
    server.script = [chat()]
    ask(openai)
    server.script = [message([TEXT_BLOCK]), Reply(events=message_events([TEXT_BLOCK]))]
    anthropic.messages.create(model="claude-5", max_tokens=9, messages=ASKED)
    with anthropic.messages.stream(model="claude-5", max_tokens=9, messages=ASKED) as stream:
        assert "".join(stream.text_stream) == "12 lines."
    assert [it.message_count for it in recorded.conversations()] == [2, 2, 2]
