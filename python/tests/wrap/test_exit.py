"""The end of the program, and of a child that was forked, while a stream is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake import CHAT_EVENTS, Reply

import decklog

ASKED = [{"role": "user", "content": "hi"}]

SYNC = """
stream = client.chat.completions.create(model="gpt-5", messages=ASKED, stream=True)
chunks = iter(stream)
next(chunks), next(chunks)
"""
ASYNC = """
import asyncio

async def main():
    global stream
    stream = await client.chat.completions.create(model="gpt-5", messages=ASKED, stream=True)
    chunks = stream.__aiter__()
    await chunks.__anext__(), await chunks.__anext__()

loop = asyncio.new_event_loop()
loop.run_until_complete(main())
"""
CYCLE = SYNC + "cycle = [stream, chunks]; cycle.append(cycle); sys.kept = cycle\n"


@pytest.mark.parametrize(
    ("kind", "reading"),
    [("OpenAI", SYNC), ("OpenAI", CYCLE), ("AsyncOpenAI", ASYNC)],
    ids=["sync", "cycle", "async"],
)
def test_a_stream_that_is_alive_at_exit_keeps_its_answer(
    server: Any, tmp_path: Path, kind: str, reading: str
) -> None:
    pytest.importorskip("openai")
    server.script = [Reply(events=CHAT_EVENTS[:2], waits=True)]
    program = f"""
import sys, openai, decklog
ASKED = {ASKED!r}
client = openai.{kind}(api_key="k", base_url={server.url + "/v1"!r}, max_retries=0)
decklog.wrap(client, path={str(tmp_path / "log")!r})
{reading}
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stderr=subprocess.PIPE, text=True, timeout=60
    )
    assert "Error" not in done.stderr
    with decklog.open(tmp_path / "log") as log:
        said = [(it.role, it.content, it.error_type) for it in log.messages()]
    assert said == [("user", "hi", None), ("assistant", "12 ", "cancelled")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_stream_that_a_child_drops_is_not_recorded_by_it(
    client: Any, server: Any, tmp_path: Path
) -> None:
    server.script = [Reply(events=CHAT_EVENTS[:2], waits=True)]
    wrapped = decklog.wrap(client("openai"), path=tmp_path / "log")
    stream = wrapped.chat.completions.create(model="gpt-5", messages=ASKED, stream=True)
    chunks = iter(stream)
    next(chunks)
    child = os.fork()
    if child == 0:
        from decklog._handles import _drain

        _drain()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    next(chunks)
    stream.close()
    recorder = vars(wrapped)["_decklog_recorder"]
    recorder._capture.flush()
    with decklog.open(tmp_path / "log") as log:
        said = [(it.role, it.content) for it in log.messages()]
    assert said == [("user", "hi"), ("assistant", "12 ")]
